//! What a verifying job reads back of its own writes, when, and in which order.
//!
//! As fio 3.33: `log_io_piece()` in `iolog.c`, `get_next_verify()` in `verify.c`, `check_get_verify()` in `io_u.c`,
//! `do_io()` and `keep_running()` in `backend.c`.

use std::collections::{BTreeMap, VecDeque};

use super::{FioJob, NextIo};

impl FioJob {
    /// Threads of each process that check what was read, beside the process; 0: there is nothing to check, or the process
    /// does it.
    pub fn checking_threads(&self) -> u32 {
        let checks_reads = self.rw.reads() && !self.rw.writes() && self.verify.checksum.is_some();
        if checks_reads || self.reads_back() {
            self.verify.threads
        } else {
            0
        }
    }

    /// Whether the job reads back what it wrote, if its time lasts.
    ///
    /// A time-based job starts its file over without an end of the pass, so fio never verifies it. A pass ends where
    /// an engine queues its I/Os, since fio counts the bytes of queued I/Os only.
    pub fn reads_back(&self) -> bool {
        let verifies = self.verify.checksum.is_some() && self.verify.read_back;
        let writes_only_data = self.rw.writes() && !self.rw.trims();
        let has_backlog = self.verify.backlog > 0 && !self.verify.experimental;
        let pass_ends =
            !self.is_time_based() || !self.ioengine.is_synchronous() && !self.submits_by_threads;
        verifies && writes_only_data && (has_backlog || pass_ends)
    }

    /// Bytes issued after which fio ends a pass of a verifying job, those read back among the writes included. `None`: a
    /// pass ends with the file, or at the limits of the job.
    pub(super) fn bytes_of_verified_pass(&self, size: u64, io_size: Option<u64>) -> Option<u64> {
        if self.ioengine.is_synchronous() || self.submits_by_threads {
            return None;
        }
        let covered = if self.rw.is_random() && !self.has_random_map() {
            size.max(io_size.unwrap_or(0))
        } else {
            size
        };
        let read_back = if self.verify.backlog > 0 { size } else { 0 };
        Some(covered.saturating_add(read_back))
    }
}

/// A write that has not been read back.
#[derive(Clone, Copy, Debug)]
struct Write {
    io: NextIo,
    /// Number among the writes of the process.
    number: u64,
}

/// Writes of a process that have not been read back, in the order in which fio reads them.
#[derive(Clone, Debug)]
enum WriteHistory {
    /// Writes with a random map, or to be generated again: in the order of their submission.
    InOrder(VecDeque<Write>),
    /// Other writes: by offset. A later write replaces those that it overlaps.
    ByOffset(BTreeMap<u64, Write>),
}

impl WriteHistory {
    fn len(&self) -> u64 {
        match self {
            Self::InOrder(writes) => writes.len() as u64,
            Self::ByOffset(writes) => writes.len() as u64,
        }
    }

    fn add(&mut self, write: Write) {
        match self {
            Self::InOrder(writes) => writes.push_back(write),
            Self::ByOffset(writes) => {
                let NextIo { offset, bytes } = write.io;
                let end = offset.saturating_add(bytes);
                while let Some((at, last)) = writes.range(..end).next_back()
                    && at.saturating_add(last.io.bytes) > offset
                {
                    let at = *at;
                    writes.remove(&at);
                }
                writes.insert(offset, write);
            }
        }
    }

    fn first(&self) -> Option<Write> {
        match self {
            Self::InOrder(writes) => writes.front().copied(),
            Self::ByOffset(writes) => writes.first_key_value().map(|(_, write)| *write),
        }
    }

    fn remove_first(&mut self) {
        match self {
            Self::InOrder(writes) => drop(writes.pop_front()),
            Self::ByOffset(writes) => drop(writes.pop_first()),
        }
    }
}

/// After how many writes a process reads back, and how many (fio's `verify_backlog` and `verify_backlog_batch`).
#[derive(Clone, Copy, Debug)]
struct Backlog {
    writes: u64,
    reads: u64,
}

/// The part of a process that reads back what the process wrote.
#[derive(Clone, Debug)]
pub struct ReadBack {
    history: WriteHistory,
    backlog: Option<Backlog>,
    /// Reads left of the present batch of the backlog.
    batch_left: u64,
    /// Tokens and numbers of the writes in flight.
    in_flight: Vec<(usize, u64)>,
    written: u64,
    last_ended_is_read: bool,
    second_pass: bool,
}

impl ReadBack {
    /// The part of each process of a job; `None` if the job never reads back.
    pub fn for_job(job: &FioJob) -> Option<Self> {
        if !job.reads_back() {
            return None;
        }
        let verify = &job.verify;
        let backlog = (verify.backlog > 0 && !verify.experimental).then(|| Backlog {
            writes: verify.backlog,
            reads: match verify.backlog_batch {
                0 => verify.backlog,
                batch => u64::from(batch),
            },
        });
        Some(Self {
            history: if job.has_random_map() || verify.experimental {
                WriteHistory::InOrder(VecDeque::new())
            } else {
                WriteHistory::ByOffset(BTreeMap::new())
            },
            backlog,
            batch_left: 0,
            in_flight: Vec::new(),
            written: 0,
            last_ended_is_read: true,
            second_pass: false,
        })
    }

    /// Adds a submitted write. The `token` names it until its end; it differs from those of other writes in flight.
    pub fn add_write(&mut self, token: usize, io: NextIo) {
        let number = self.written;
        self.written += 1;
        self.in_flight.push((token, number));
        self.history.add(Write { io, number });
    }

    /// Notes the end of an I/O of the process: of the write with this token, or of a read.
    pub fn note_end(&mut self, token: usize, is_read: bool) {
        self.last_ended_is_read = is_read;
        if !is_read {
            self.in_flight.retain(|(other, _)| *other != token);
        }
    }

    /// Takes the read that comes before the next I/O of the job's own. `None`: none is due, or its write is in flight.
    pub fn take_due_read(&mut self) -> Option<NextIo> {
        if !self.second_pass {
            let backlog = self.backlog?;
            if self.history.len() == 0 {
                return None;
            }
            if self.batch_left == 0 {
                let due = self.history.len().is_multiple_of(backlog.writes);
                if !due || self.last_ended_is_read {
                    return None;
                }
                self.batch_left = backlog.reads;
            }
        }
        let first = self.history.first()?;
        if self
            .in_flight
            .iter()
            .any(|(_, number)| *number == first.number)
        {
            return None;
        }
        self.history.remove_first();
        if !self.second_pass {
            self.batch_left -= 1;
        }
        Some(first.io)
    }

    /// Whether nothing is left to be read back.
    pub fn is_done(&self) -> bool {
        self.history.len() == 0
    }

    /// Whether the process reads back all that is left, and does nothing else.
    pub fn is_in_second_pass(&self) -> bool {
        self.second_pass
    }

    /// Begins to read back all that is left, when the process has nothing in flight.
    pub fn begin_second_pass(&mut self) {
        self.second_pass = true;
    }

    /// Ends the second pass: the job goes through its file once more.
    pub fn end_second_pass(&mut self) {
        self.second_pass = false;
    }
}
