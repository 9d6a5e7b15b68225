//! Rings from which a kernel thread takes the submissions of a process (`sqthread_poll`).

use std::collections::VecDeque;

use crate::core::basics::{Cycles, RequestId, TaskId};

/// A request that waits in a ring for the kernel thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct RingEntry {
    pub(super) request: RequestId,
    pub(super) bytes: u64,
    /// Byte on the volume where the request begins; 0 with a single drive, since places tell only drives apart.
    pub(super) offset: u64,
}

/// A kernel thread that submits the requests of a process.
#[derive(Debug)]
pub(crate) struct Submitter {
    /// Task of the kernel thread.
    pub(super) thread: TaskId,
    /// Task of the process.
    pub(super) owner: TaskId,
    pub(super) ring: VecDeque<RingEntry>,
    /// The entry being submitted.
    pub(super) present: Option<RingEntry>,
    /// Time in ns of the last submission.
    pub(super) last: u64,
    /// Whether the thread sleeps, and has to be woken by a system call.
    pub(super) asleep: bool,
    /// Whether the process has ended.
    pub(super) ended: bool,
    pub(super) looks: CompletionLooks,
}

/// Stage of a round of the thread's loop. A round looks for completions, then submits the entries that the ring had at the round's begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RoundStage {
    #[default]
    Begins,
    /// The thread looks for the request at this place in the list.
    Looks(usize),
    Submits,
}

/// Next action of a thread in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundAction {
    /// Pause after a look without a completion, or at the end of a round.
    Pause,
    /// Submit the next entry of the ring.
    Submit,
    /// Hand completions to the process.
    Reap,
}

/// A thread's looks for completions of polled requests, for machines on which a look takes time.
///
/// `io_do_iopoll()` (Linux 6.12) looks once per round for each request in flight, in the order of submission. A look finds all
/// completions of the drive. The looks of a round end with a look that finds the completion of its own request. This request and its
/// successors then complete, up to the first request without a found completion.
#[derive(Debug, Default)]
pub(super) struct CompletionLooks {
    pub(super) stage: RoundStage,
    /// Requests in flight in the order of submission, each with whether a look has found the request's completion.
    pub(super) listed: VecDeque<(RequestId, bool)>,
    /// Requests that the drive has completed, before a look finds the completions.
    pub(super) completed: Vec<RequestId>,
    /// Ring entries that the present round has yet to submit.
    entries: usize,
    /// Requests completed by the last look.
    pub(super) reaped: Vec<RequestId>,
}

impl CompletionLooks {
    /// Whether no request is in flight.
    pub(super) fn are_over(&self) -> bool {
        self.listed.is_empty()
    }

    /// Continues a round to the thread's next action, with this number of entries in the ring.
    pub(super) fn continue_round(&mut self, entries: usize) -> RoundAction {
        loop {
            match self.stage {
                RoundStage::Begins => {
                    self.entries = entries;
                    self.stage = RoundStage::Looks(0);
                }
                RoundStage::Looks(place) => match self.listed.get(place) {
                    None => self.stage = RoundStage::Submits,
                    Some((_, true)) => {
                        self.reap_from(place);
                        self.stage = RoundStage::Submits;
                        return RoundAction::Reap;
                    }
                    Some(_) if self.completed.is_empty() => {
                        self.stage = RoundStage::Looks(place + 1);
                        return RoundAction::Pause;
                    }
                    Some(_) => {
                        self.note_found_completions();
                        if !self.listed[place].1 {
                            self.stage = RoundStage::Looks(place + 1);
                        }
                    }
                },
                RoundStage::Submits if self.entries > 0 => {
                    self.entries -= 1;
                    return RoundAction::Submit;
                }
                RoundStage::Submits => {
                    self.stage = RoundStage::Begins;
                    return RoundAction::Pause;
                }
            }
        }
    }

    fn note_found_completions(&mut self) {
        for (request, is_found) in &mut self.listed {
            *is_found |= self.completed.contains(request);
        }
        self.completed.clear();
    }

    /// Completes the requests from a place in the list on, up to the first without a completion.
    fn reap_from(&mut self, place: usize) {
        while let Some((_, true)) = self.listed.get(place)
            && let Some((request, _)) = self.listed.remove(place)
        {
            self.reaped.push(request);
        }
    }
}

impl Submitter {
    /// Work in cycles of the process to wake the thread by a `system_call`; 0 if the thread spins.
    pub(super) fn wake_up_work(&self, system_call: Cycles) -> Cycles {
        if self.asleep { system_call } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks_at_requests(listed: usize) -> CompletionLooks {
        CompletionLooks {
            listed: (0..listed)
                .map(|request| (request as RequestId, false))
                .collect(),
            ..CompletionLooks::default()
        }
    }

    #[test]
    fn a_round_looks_once_for_each_request_and_then_submits_what_was_there() {
        let mut looks = looks_at_requests(3);
        for _ in 0..3 {
            assert_eq!(looks.continue_round(2), RoundAction::Pause);
        }
        // Entries that arrive during a round wait for the next round.
        for _ in 0..2 {
            assert_eq!(looks.continue_round(9), RoundAction::Submit);
        }
        assert_eq!(looks.continue_round(9), RoundAction::Pause);
        assert_eq!(looks.stage, RoundStage::Begins);
    }

    #[test]
    fn a_completion_found_behind_its_request_waits_for_the_next_round() {
        let mut looks = looks_at_requests(3);
        assert_eq!(looks.continue_round(0), RoundAction::Pause);
        looks.completed.extend([0, 1]);
        assert_eq!(looks.continue_round(0), RoundAction::Reap);
        assert_eq!(looks.reaped, [1]);
        looks.reaped.clear();
        assert_eq!(looks.continue_round(0), RoundAction::Pause);
        assert_eq!(looks.continue_round(0), RoundAction::Reap);
        assert_eq!(looks.reaped, [0]);
        assert_eq!(looks.listed, [(2, false)]);
    }
}
