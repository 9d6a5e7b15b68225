//! What a thread of a server writes and flushes, in order: a sync of the log, or a round of a background writer.

use std::collections::VecDeque;

use crate::core::basics::{Cycles, Direction};
use crate::task::server::setup::{BackgroundSetup, LogSetup};

/// A step of a thread that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskStep {
    /// CPU work in cycles.
    Work(Cycles),
    /// Submit a read of so many bytes.
    Read(u64),
    /// Submit a write of so many bytes.
    Write(u64),
    /// Wait until all writes have ended.
    Wait,
    /// Flush the drives' caches after all writes have ended.
    Flush,
}

/// The steps ahead of a thread, and the step whose submission is in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct DiskSteps {
    ahead: VecDeque<DiskStep>,
    present: Option<DiskStep>,
}

impl DiskSteps {
    /// A sync of a log that grew from one length to the other since the last sync. `has_volatile_cache`: drives need flushes.
    pub(super) fn for_sync(
        log: &LogSetup,
        (synced, length): (u64, u64),
        has_volatile_cache: bool,
    ) -> Self {
        let mut steps = Self::default();
        steps
            .ahead
            .extend((log.work > 0).then_some(DiskStep::Work(log.work)));
        let begin = synced / log.block * log.block;
        let end_of_blocks = length.next_multiple_of(log.block);
        let Some(journal) = log.journal else {
            steps.add_writes(end_of_blocks - begin, log.largest_write);
            steps.add_flushes(1, has_volatile_cache);
            return steps;
        };
        // The file system fills up a block that it writes for the first time.
        let written = synced.next_multiple_of(journal.commit);
        let has_new_block = length > written;
        let filled = length.next_multiple_of(journal.commit);
        let end = if has_new_block {
            filled.max(end_of_blocks)
        } else {
            end_of_blocks
        };
        steps.add_writes(end - begin, log.largest_write);
        if has_new_block || !journal.only_new_blocks {
            steps.ahead.push_back(DiskStep::Wait);
            steps.add_writes(journal.metadata, journal.metadata);
            steps.ahead.push_back(DiskStep::Wait);
            steps.add_flushes(1, has_volatile_cache);
            steps.add_writes(journal.commit, journal.commit);
        }
        steps.add_flushes(1, has_volatile_cache);
        steps
    }

    /// A background writer's round: reads spread evenly, each before its write, and flushes at the end.
    pub(super) fn for_round(
        writer: &BackgroundSetup,
        reads: u64,
        writes: u64,
        has_volatile_cache: bool,
    ) -> Self {
        let mut steps = Self::default();
        let mut reads_so_far = 0;
        for write in 1..=writes {
            let reads_before_write = (reads * write).div_ceil(writes);
            for _ in reads_so_far..reads_before_write {
                steps.add_call_after_work(DiskStep::Read(writer.read_bytes), writer.work);
            }
            reads_so_far = reads_before_write;
            steps.add_call_after_work(DiskStep::Write(writer.bytes), writer.work);
        }
        for _ in reads_so_far..reads {
            steps.add_call_after_work(DiskStep::Read(writer.read_bytes), writer.work);
        }
        steps.add_flushes(writer.flushes, has_volatile_cache);
        steps
    }

    /// Adds a read or write, and the CPU work before it, if there is any.
    fn add_call_after_work(&mut self, call: DiskStep, work: Cycles) {
        self.ahead
            .extend((work > 0).then_some(DiskStep::Work(work)));
        self.ahead.push_back(call);
    }

    /// Adds a write, cut into pieces of at most `largest` bytes.
    fn add_writes(&mut self, bytes: u64, largest: u64) {
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(largest.max(1));
            self.ahead.push_back(DiskStep::Write(piece));
            left -= piece;
        }
    }

    fn add_flushes(&mut self, flushes: u32, has_volatile_cache: bool) {
        if has_volatile_cache {
            for _ in 0..flushes {
                self.ahead.extend([DiskStep::Flush, DiskStep::Wait]);
            }
        }
    }

    /// Removes and returns the next step for a thread with so many requests in flight: a wait, if the step needs one first; `None`:
    /// nothing is left, and nothing in flight.
    pub(super) fn take_next_step(
        &mut self,
        in_flight: u32,
        most_in_flight: u32,
    ) -> Option<DiskStep> {
        while in_flight == 0 && self.ahead.front() == Some(&DiskStep::Wait) {
            self.ahead.pop_front();
        }
        let waits_first = match self.ahead.front() {
            None | Some(DiskStep::Flush) => in_flight > 0,
            Some(DiskStep::Work(_) | DiskStep::Read(_) | DiskStep::Write(_)) => {
                in_flight >= most_in_flight
            }
            Some(DiskStep::Wait) => false,
        };
        let step = if waits_first {
            Some(DiskStep::Wait)
        } else {
            self.ahead.pop_front()
        };
        self.present = step;
        step
    }

    /// The step whose submission is in progress.
    pub(super) fn step_in_progress(&self) -> Option<DiskStep> {
        self.present
    }
}

/// Calls to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DiskTotals {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) flushes: u64,
}

impl DiskTotals {
    /// Adds a read or write of so many bytes.
    pub(super) fn add_call(&mut self, direction: Direction, bytes: u64) {
        let (calls, total) = match direction {
            Direction::Read => (&mut self.reads, &mut self.read_bytes),
            Direction::Write => (&mut self.writes, &mut self.written_bytes),
        };
        *calls += 1;
        *total += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::server::setup::{JournalSetup, RoundPause};

    const LOG: LogSetup = LogSetup {
        work: 0,
        group_commit: true,
        bytes: 100,
        interval: None,
        block: 512,
        largest_write: 1 << 20,
        journal: Some(JournalSetup {
            only_new_blocks: true,
            metadata: 12288,
            commit: 4096,
        }),
    };

    fn take_all_steps(mut steps: DiskSteps) -> Vec<DiskStep> {
        let (mut taken, mut in_flight) = (Vec::new(), 0);
        while let Some(step) = steps.take_next_step(in_flight, 32) {
            in_flight = match step {
                DiskStep::Read(_) | DiskStep::Write(_) => in_flight + 1,
                DiskStep::Work(_) => in_flight,
                DiskStep::Wait => 0,
                DiskStep::Flush => 1,
            };
            taken.push(step);
        }
        taken
    }

    #[test]
    fn a_sync_writes_whole_blocks_and_a_partly_full_one_again() {
        use DiskStep::{Flush, Wait, Write};
        let synced_and_length = |lengths| take_all_steps(DiskSteps::for_sync(&LOG, lengths, true));
        let new_block = [
            Write(4096),
            Wait,
            Write(12288),
            Wait,
            Flush,
            Wait,
            Write(4096),
            Wait,
            Flush,
            Wait,
        ];
        assert_eq!(synced_and_length((0, 100)), new_block);
        assert_eq!(synced_and_length((4096, 4196)), new_block);
        let rewritten = [Write(512), Wait, Flush, Wait];
        assert_eq!(synced_and_length((100, 200)), rewritten);
        assert_eq!(synced_and_length((500, 600))[0], Write(1024));
        // The end of one block of the file system, and the whole next one.
        assert_eq!(synced_and_length((4000, 4200))[0], Write(512 + 4096));
        let mebibyte = Write(1 << 20);
        let large = synced_and_length((0, 3 << 20));
        assert_eq!(large[..4], [mebibyte, mebibyte, mebibyte, Wait]);
        let without_cache = take_all_steps(DiskSteps::for_sync(&LOG, (100, 200), false));
        assert_eq!(without_cache, [Write(512), Wait]);
    }

    #[test]
    fn a_log_without_a_journal_writes_its_own_blocks() {
        let log = LogSetup {
            block: 8192,
            journal: None,
            ..LOG
        };
        let steps = take_all_steps(DiskSteps::for_sync(&log, (8100, 8200), true));
        let wanted = [
            DiskStep::Write(16384),
            DiskStep::Wait,
            DiskStep::Flush,
            DiskStep::Wait,
        ];
        assert_eq!(steps, wanted);
    }

    const MERGER: BackgroundSetup = BackgroundSetup {
        pause: RoundPause::Replies(1000),
        writes_per_round: 0.0,
        writes_per_request: 0.0,
        bytes: 512,
        reads_per_round: 0.0,
        read_bytes: 4096,
        depth: 1,
        work: 0,
        flushes: 1,
    };

    /// Reads (`r`) and writes (`w`) of a round, in order.
    fn calls_of_round(reads: u64, writes: u64) -> String {
        let steps = take_all_steps(DiskSteps::for_round(&MERGER, reads, writes, true));
        (steps.into_iter())
            .filter_map(|step| match step {
                DiskStep::Read(bytes) => (bytes == MERGER.read_bytes).then_some('r'),
                DiskStep::Write(bytes) => (bytes == MERGER.bytes).then_some('w'),
                DiskStep::Work(_) | DiskStep::Wait | DiskStep::Flush => None,
            })
            .collect()
    }

    #[test]
    fn a_merging_round_reads_before_each_write() {
        assert_eq!(calls_of_round(0, 2), "ww");
        assert_eq!(calls_of_round(1, 3), "rwww");
        assert_eq!(calls_of_round(4, 2), "rrwrrw");
        assert_eq!(calls_of_round(3, 2), "rrwrw");
        assert_eq!(calls_of_round(2, 0), "rr");
    }

    #[test]
    fn a_merging_round_works_before_each_call_and_flushes_at_its_end() {
        use DiskStep::{Flush, Read, Wait, Work, Write};
        let merger = BackgroundSetup {
            work: 700,
            ..MERGER
        };
        let steps = take_all_steps(DiskSteps::for_round(&merger, 1, 1, true));
        let wanted = [
            Work(700),
            Read(4096),
            Work(700),
            Write(512),
            Wait,
            Flush,
            Wait,
        ];
        assert_eq!(steps, wanted);
    }

    #[test]
    fn work_waits_for_the_call_before_it_if_one_may_be_in_flight() {
        let mut steps = DiskSteps::default();
        steps.add_call_after_work(DiskStep::Read(4096), 700);
        steps.add_call_after_work(DiskStep::Write(512), 700);
        assert_eq!(steps.take_next_step(0, 1), Some(DiskStep::Work(700)));
        assert_eq!(steps.take_next_step(0, 1), Some(DiskStep::Read(4096)));
        assert_eq!(steps.take_next_step(1, 1), Some(DiskStep::Wait));
        assert_eq!(steps.take_next_step(0, 1), Some(DiskStep::Work(700)));
    }

    #[test]
    fn no_more_requests_are_in_flight_than_allowed() {
        let mut steps = DiskSteps::default();
        steps.add_writes(40 << 20, 1 << 20);
        let taken = take_all_steps(steps);
        let waits: Vec<usize> = (taken.iter().enumerate())
            .filter_map(|(at, step)| (*step == DiskStep::Wait).then_some(at))
            .collect();
        assert_eq!(waits, [32, 41]);
    }
}
