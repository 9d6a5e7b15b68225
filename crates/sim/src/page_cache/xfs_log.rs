//! XFS's log: buffers with transactions, and who writes a buffer.
//!
//! As `fs/xfs/xfs_log.c` (Linux 6.12). The worker that pushes leaves a transaction in the buffer that is being filled. The first sync
//! with a transaction in this buffer writes the buffer, after a wait for the previous buffer: meanwhile more transactions come
//! (`xlog_force_lsn()`). The write flushes the drive before. Later syncs wait for the write, and then flush the drive by themselves: only
//! the writer is told of the first flush (`log_flushed` in `xfs_file_fsync()`).
//!
//! Left out are limits: eight buffers of 32 KiB, and four pushes at a time.

use std::collections::VecDeque;

/// Buffers of the log that hold transactions, oldest first.
#[derive(Debug, Default)]
pub(super) struct XfsLog {
    buffers: VecDeque<LogBuffer>,
    /// The last transaction that is in a buffer.
    recorded: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BufferState {
    /// More transactions may come.
    Filling,
    /// A sync writes the buffer; the number is the request's, once submitted.
    Writing(Option<u64>),
    Written,
}

/// A buffer of the log.
#[derive(Debug)]
struct LogBuffer {
    /// Page cache number that tasks wait for until the buffer's transactions are committed.
    number: u64,
    /// The last transaction in the buffer.
    last: u64,
    state: BufferState,
}

/// What a sync does next for its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForceStep {
    /// Wait until the transaction is in a buffer, for which the worker has to push.
    Push,
    /// Wait for the buffer before, with this number.
    AwaitPrevious(u64),
    /// Write the buffer with this number, which takes no more transactions.
    Write(u64),
    /// Wait for the buffer with this number, which another task writes.
    Await(u64),
    /// The transaction is committed.
    Done,
}

impl XfsLog {
    /// Adds a transaction to the buffer that is being filled. Returns whether a new buffer is begun, which has the number `fresh`.
    pub(super) fn record_transaction(&mut self, transaction: u64, fresh: u64) -> bool {
        self.recorded = transaction;
        if let Some(buffer) = self.buffers.back_mut()
            && buffer.state == BufferState::Filling
        {
            buffer.last = transaction;
            return false;
        }
        self.buffers.push_back(LogBuffer {
            number: fresh,
            last: transaction,
            state: BufferState::Filling,
        });
        true
    }

    /// Returns the next step of a sync that needs a transaction, and takes the buffer that the sync is to write; `has_waited`: the sync
    /// has waited for a previous buffer.
    pub(super) fn take_next_step_of_sync(
        &mut self,
        transaction: u64,
        has_waited: bool,
    ) -> ForceStep {
        if transaction > self.recorded {
            return ForceStep::Push;
        }
        let place = (self.buffers.iter()).position(|buffer| transaction <= buffer.last);
        let Some(place) = place else {
            return ForceStep::Done;
        };
        let older = place.checked_sub(1).and_then(|at| self.buffers.get(at));
        let unwritten_before = older
            .filter(|buffer| buffer.state != BufferState::Written)
            .map(|buffer| buffer.number);
        let Some(buffer) = self.buffers.get_mut(place) else {
            return ForceStep::Done;
        };
        match (buffer.state, unwritten_before) {
            (BufferState::Filling, Some(number)) if !has_waited => ForceStep::AwaitPrevious(number),
            (BufferState::Filling, _) => {
                buffer.state = BufferState::Writing(None);
                ForceStep::Write(buffer.number)
            }
            _ => ForceStep::Await(buffer.number),
        }
    }

    /// Notes the page cache number of a buffer's request.
    pub(super) fn set_request_of_buffer(&mut self, number: u64, request: u64) {
        let buffer = self.buffers.iter_mut().find(|one| one.number == number);
        if let Some(buffer) = buffer {
            buffer.state = BufferState::Writing(Some(request));
        }
    }

    /// Number of the buffer whose request has this page cache number, if any.
    pub(super) fn buffer_of_request(&self, request: u64) -> Option<u64> {
        let state = BufferState::Writing(Some(request));
        let buffer = self.buffers.iter().find(|buffer| buffer.state == state);
        buffer.map(|buffer| buffer.number)
    }

    /// Whether a buffer that is not written yet has this number.
    pub(super) fn has_buffer(&self, number: u64) -> bool {
        self.buffers.iter().any(|buffer| buffer.number == number)
    }

    /// Notes that a buffer is written. Returns the last transaction and the number of each buffer whose end this is, oldest first: a
    /// buffer that is written before an older one waits for the older one.
    pub(super) fn end_buffer(&mut self, number: u64) -> Vec<(u64, u64)> {
        let buffer = self.buffers.iter_mut().find(|one| one.number == number);
        if let Some(buffer) = buffer {
            buffer.state = BufferState::Written;
        }
        let is_pending = |buffer: &LogBuffer| buffer.state != BufferState::Written;
        let count = self.buffers.iter().position(is_pending);
        let ended = self.buffers.drain(..count.unwrap_or(self.buffers.len()));
        ended.map(|buffer| (buffer.last, buffer.number)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sync_writes_a_buffer_and_others_wait_for_its_end() {
        let mut log = XfsLog::default();
        assert_eq!(log.take_next_step_of_sync(1, false), ForceStep::Push);
        assert!(log.record_transaction(1, 10));
        assert!(!log.record_transaction(2, 11));
        assert_eq!(log.take_next_step_of_sync(1, false), ForceStep::Write(10));
        assert_eq!(log.take_next_step_of_sync(2, false), ForceStep::Await(10));
        log.set_request_of_buffer(10, 99);
        assert_eq!(log.buffer_of_request(99), Some(10));
        assert_eq!(log.end_buffer(10), [(2, 10)]);
        assert_eq!(log.take_next_step_of_sync(2, false), ForceStep::Done);
        assert_eq!(log.buffer_of_request(99), None);
    }

    #[test]
    fn a_sync_waits_once_for_the_buffer_before_so_that_more_transactions_come_into_its_own() {
        let mut log = XfsLog::default();
        log.record_transaction(1, 10);
        assert_eq!(log.take_next_step_of_sync(1, false), ForceStep::Write(10));
        log.record_transaction(2, 11);
        assert_eq!(
            log.take_next_step_of_sync(2, false),
            ForceStep::AwaitPrevious(10)
        );
        log.record_transaction(3, 12);
        assert!(log.has_buffer(11) && !log.has_buffer(12));
        assert_eq!(log.take_next_step_of_sync(2, true), ForceStep::Write(11));
        log.record_transaction(4, 13);
        assert_eq!(log.take_next_step_of_sync(3, false), ForceStep::Await(11));
        // The younger buffer is written first, and ends with the older one.
        assert_eq!(log.end_buffer(11), []);
        assert_eq!(log.take_next_step_of_sync(4, false), ForceStep::Write(13));
        assert_eq!(log.end_buffer(10), [(1, 10), (3, 11)]);
    }
}
