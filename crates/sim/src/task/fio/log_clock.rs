//! When a process that replays a log of fio (`read_iolog`) begins its next request.
//!
//! As fio 3.33 (`iolog_delay()` and `read_iolog_get()` in `iolog.c`): a time of version 3 counts from when the last request was
//! issued, and is not made up for later; a wait of version 2 ends at a time after fio's start, which is before the run's.

use wakepath_workloads::block_trace::JobLogStart;
use wakepath_workloads::fio::JOBS_START_AFTER;

/// Longest time in ns for which fio sleeps at once until a request of version 3.
const LONGEST_SLEEP: u64 = 500_000_000;

/// When the next request is due, once that is settled.
#[derive(Clone, Copy, Debug)]
struct DueTime {
    /// Time in ns.
    at: u64,
    /// Time in ns when the process begins to sleep, and the whole delay in ns; `None`: no delay of version 3 is left.
    sleep: Option<(u64, u64)>,
}

/// The clock of a process that replays a log. All times are in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogClock {
    /// When the last request was issued, or the replay began.
    last_issue: u64,
    /// How much longer than a whole delay the process slept, which fio takes off the next delay.
    overslept: u64,
    /// Delays of requests that the drive does not get, since the last request.
    carried: u64,
    next: Option<DueTime>,
}

impl LogClock {
    /// The clock of a replay that begins at the time `started`.
    pub(super) fn new(started: u64) -> Self {
        Self {
            last_issue: started,
            overslept: 0,
            carried: 0,
            next: None,
        }
    }

    /// Adds the delay of a request that the drive does not get.
    pub(super) fn pass_over_request(&mut self, start: JobLogStart) {
        if let JobLogStart::AfterLastIssue(delay) = start {
            self.carried = self.carried.saturating_add(delay.0);
        }
    }

    /// When the next request is due, settled when the process is first free to issue the request.
    pub(super) fn due_time(&mut self, start: JobLogStart, now: u64) -> u64 {
        let next = self.next.unwrap_or_else(|| match start {
            JobLogStart::NotBefore(time) => DueTime {
                at: time.0.saturating_sub(JOBS_START_AFTER).max(now),
                sleep: None,
            },
            JobLogStart::AfterLastIssue(delay) => {
                let whole = delay.0.saturating_add(std::mem::take(&mut self.carried));
                self.end_of_delay(whole, now)
            }
        });
        self.next = Some(next);
        next.at
    }

    fn end_of_delay(&mut self, delay: u64, now: u64) -> DueTime {
        let at_once = DueTime {
            at: now,
            sleep: None,
        };
        if delay == 0 {
            return at_once;
        }
        let Some(rest) = delay.checked_sub(self.overslept) else {
            self.overslept = 0;
            return at_once;
        };
        match rest.checked_sub(now - self.last_issue) {
            None => at_once,
            Some(left) => DueTime {
                at: now.saturating_add(left),
                sleep: Some((now, delay)),
            },
        }
    }

    /// Until when the process sleeps at most before it looks at the clock again.
    pub(super) fn end_of_sleep(&self, now: u64, due: u64) -> u64 {
        let is_delay = self.next.is_some_and(|next| next.sleep.is_some());
        if is_delay {
            due.min(now.saturating_add(LONGEST_SLEEP))
        } else {
            due
        }
    }

    /// Notes that the next request is issued now.
    pub(super) fn note_issued_request(&mut self, now: u64) {
        if let Some(DueTime {
            sleep: Some((from, delay)),
            ..
        }) = self.next.take()
        {
            self.overslept = (now - from).saturating_sub(delay);
        }
        self.last_issue = now;
    }
}

#[cfg(test)]
mod tests {
    use wakepath_units::Nanoseconds;

    use super::*;

    fn after(delay: u64) -> JobLogStart {
        JobLogStart::AfterLastIssue(Nanoseconds(delay))
    }

    #[test]
    fn delays_count_from_the_last_issue_and_are_not_made_up_for() {
        let mut clock = LogClock::new(1000);
        assert_eq!(clock.due_time(after(0), 1000), 1000);
        clock.note_issued_request(1000);
        // The last request took 300.
        assert_eq!(clock.due_time(after(500), 1300), 1500);
        assert_eq!(clock.due_time(after(500), 1400), 1500);
        clock.note_issued_request(1510);
        // The last request took longer than the delay: the next one begins at once, and the one after counts from there.
        assert_eq!(clock.due_time(after(500), 2600), 2600);
        clock.note_issued_request(2600);
        assert_eq!(clock.due_time(after(500), 2700), 3100);
    }

    #[test]
    fn sleep_beyond_a_whole_delay_is_taken_off_the_next() {
        let mut clock = LogClock::new(0);
        assert_eq!(clock.due_time(after(100), 10), 100);
        // It slept from 10 to 140: 30 longer than the whole delay.
        clock.note_issued_request(140);
        assert_eq!(clock.due_time(after(100), 150), 210);
        clock.note_issued_request(400);
        // It slept for 250, so that 150 are left, which is more than the next delay.
        assert_eq!(clock.due_time(after(120), 400), 400);
        clock.note_issued_request(400);
        assert_eq!(clock.due_time(after(120), 410), 520);
    }

    #[test]
    fn waits_end_at_their_times_and_passed_over_delays_stay() {
        let mut clock = LogClock::new(0);
        let wait = JobLogStart::NotBefore(Nanoseconds(JOBS_START_AFTER + 700));
        assert_eq!(clock.due_time(wait, 20), 700);
        clock.note_issued_request(705);
        assert_eq!(clock.due_time(wait, 900), 900);
        clock.note_issued_request(900);
        clock.pass_over_request(after(50));
        assert_eq!(clock.due_time(after(30), 900), 980);
    }

    #[test]
    fn long_delays_are_slept_in_parts() {
        let mut clock = LogClock::new(0);
        let due = clock.due_time(after(1_200_000_000), 0);
        assert_eq!(clock.end_of_sleep(0, due), LONGEST_SLEEP);
        assert_eq!(clock.end_of_sleep(1_000_000_000, due), 1_200_000_000);
    }
}
