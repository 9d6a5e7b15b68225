//! How many write-back requests the kernel lets a drive have at once.
//!
//! As `block/blk-wbt.c` and `block/blk-rq-qos.c` (Linux 6.12), which judge windows of 100 ms. The depth begins at 16. It doubles
//! after a window in which the drive has only written, or in which reads were fast. It halves after a window with slow reads, and
//! goes back to 16 step by step in windows without requests. Ends of windows are judged at the next request, without a timer.

use crate::core::basics::Direction;

/// The depth at first (`RWB_DEF_DEPTH`), and the tags of an NVMe queue, of which write-back gets three quarters at most.
const FIRST_DEPTH: usize = 16;
const TAGS: usize = 1023;

/// Length of a window in ns (`RWB_WINDOW_NSEC`).
const WINDOW: u64 = 100_000_000;
/// Time in ns after a writer's pause in which write-back gets the whole depth (`wb_recent_wait()`).
const RECENT: u64 = 1_000_000_000;

/// Latency in ns that the fastest read of a window may have on drives that do not rotate (`wbt_default_latency_nsec()`).
const MOST_READ_LATENCY: u64 = 2_000_000;
/// Writes beside a read that make a window tell anything (`RWB_MIN_WRITE_SAMPLES`).
const LEAST_WRITES: u64 = 3;
/// Windows in turn that tell nothing before the depth goes back a step (`RWB_UNKNOWN_BUMP`).
const UNKNOWN_WINDOWS: u32 = 5;

/// Who writes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    /// A sync, whose task waits.
    Sync,
    /// The flusher thread.
    Background,
}

/// Requests that a window has seen.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Time in ns when the window ends.
    end: u64,
    writes: u64,
    /// Latency in ns of the fastest read.
    fastest_read: Option<u64>,
}

/// The limit for write-back requests in flight.
#[derive(Debug)]
pub(super) struct Throttle {
    /// How often the depth was halved; negative: doubled.
    step: i32,
    depth: usize,
    /// Whether the depth has reached the most that the tags allow.
    is_at_most: bool,
    unknown_windows: u32,
    window: Option<Window>,
    /// Time in ns when a writer was last held back because too many pages were dirty.
    last_pause: Option<u64>,
}

impl Throttle {
    pub(super) fn new() -> Self {
        Self {
            step: 0,
            depth: FIRST_DEPTH,
            is_at_most: false,
            unknown_windows: 0,
            window: None,
            last_pause: None,
        }
    }

    /// Whether a request may join `in_flight` others at the time `now`.
    pub(super) fn admits_request(&mut self, now: u64, in_flight: usize, writes: Writes) -> bool {
        self.judge_ended_windows(now, in_flight);
        if self.window.is_none() {
            self.begin_window_at(now);
        }
        in_flight < self.limit(now, writes)
    }

    /// Whether tasks that wait are woken at the end of a request, which leaves `in_flight` others. A drive with a volatile cache
    /// first writes all that it has.
    pub(super) fn wakes_tasks(&mut self, now: u64, in_flight: usize, has_cache: bool) -> bool {
        self.judge_ended_windows(now, in_flight + 1);
        if in_flight == 0 {
            return true;
        }
        let limit = if has_cache && !self.had_pause_before(now) {
            0
        } else {
            self.normal_limit()
        };
        in_flight < limit && limit - in_flight >= self.background_limit() / 2
    }

    /// How many write-back requests may be in flight.
    pub(super) fn limit(&self, now: u64, writes: Writes) -> usize {
        if writes == Writes::Sync || self.had_pause_before(now) {
            self.depth
        } else {
            self.background_limit()
        }
    }

    /// Counts a request that the drive gets at the time `now`, and whose latency will be this in ns.
    pub(super) fn count_request(&mut self, now: u64, direction: Direction, latency: u64) {
        let window = self.window.as_mut().filter(|window| now < window.end);
        match (window, direction) {
            (None, _) => {}
            (Some(window), Direction::Write) => window.writes += 1,
            (Some(window), Direction::Read) => {
                let fastest = (window.fastest_read).map_or(latency, |read| read.min(latency));
                window.fastest_read = Some(fastest);
            }
        }
    }

    /// Notes that a writer is held back because too many pages are dirty.
    pub(super) fn note_pause(&mut self, now: u64) {
        self.last_pause = Some(now);
    }

    fn normal_limit(&self) -> usize {
        if self.depth > 2 {
            self.depth.div_ceil(2)
        } else {
            self.depth
        }
    }

    fn background_limit(&self) -> usize {
        if self.depth > 2 {
            self.depth.div_ceil(4)
        } else {
            1
        }
    }

    fn had_pause_before(&self, now: u64) -> bool {
        self.last_pause.is_some_and(|at| now < at + RECENT)
    }

    fn begin_window_at(&mut self, now: u64) {
        let length = match u64::try_from(self.step + 1) {
            // Windows of a small depth are shorter, by the root of the step.
            Ok(next @ 2..) => (WINDOW << 4) / (next << 8).isqrt(),
            _ => WINDOW,
        };
        self.window = Some(Window {
            end: now + length,
            writes: 0,
            fastest_read: None,
        });
    }

    /// Judges all windows that have ended, each by its own requests. `in_flight`: write-back requests since then.
    fn judge_ended_windows(&mut self, now: u64, in_flight: usize) {
        while let Some(window) = self.window.filter(|window| window.end <= now) {
            self.judge_window(window, in_flight);
            self.window = None;
            if self.step != 0 || in_flight > 0 {
                self.begin_window_at(window.end);
            }
        }
    }

    fn judge_window(&mut self, window: Window, in_flight: usize) {
        match window.fastest_read {
            Some(latency) if window.writes >= LEAST_WRITES => {
                if latency > MOST_READ_LATENCY {
                    self.reduce_depth(true);
                } else {
                    self.raise_depth();
                }
            }
            _ if window.writes > 0 || in_flight > 0 || self.had_pause_before(window.end) => {
                self.raise_depth();
            }
            _ => {
                self.unknown_windows += 1;
                if self.unknown_windows >= UNKNOWN_WINDOWS {
                    match self.step {
                        1.. => self.raise_depth(),
                        0 => {}
                        _ => self.reduce_depth(false),
                    }
                }
            }
        }
    }

    fn raise_depth(&mut self) {
        if !self.is_at_most {
            self.step -= 1;
            self.set_depth_of_step();
        }
    }

    /// Halves the depth. `at_once`: a depth above the first one goes back to that.
    fn reduce_depth(&mut self, at_once: bool) {
        if self.depth == 1 {
            return;
        }
        self.step = if self.step < 0 && at_once {
            0
        } else {
            self.step + 1
        };
        self.set_depth_of_step();
    }

    fn set_depth_of_step(&mut self) {
        self.unknown_windows = 0;
        let above_one = FIRST_DEPTH - 1;
        let steps = self.step.unsigned_abs().min(31);
        let depth = if self.step > 0 {
            1 + (above_one >> steps)
        } else {
            1 + (above_one << steps)
        };
        let most = TAGS * 3 / 4;
        self.is_at_most = depth > most;
        self.depth = depth.min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Limits for a sync at the begin of each window of 100 ms, if each window has these requests.
    fn limits_over_windows(windows: u64, requests: &[(Direction, u64)]) -> Vec<usize> {
        let mut throttle = Throttle::new();
        let mut limits = Vec::new();
        for window in 0..windows {
            let begin = window * WINDOW;
            throttle.admits_request(begin, 0, Writes::Sync);
            limits.push(throttle.limit(begin, Writes::Sync));
            for (direction, latency) in requests {
                throttle.count_request(begin + MS, *direction, *latency);
            }
        }
        limits
    }

    #[test]
    fn the_depth_doubles_in_windows_of_writes_up_to_three_quarters_of_the_tags() {
        let limits = limits_over_windows(9, &[(Direction::Write, MS)]);
        assert_eq!(limits, [16, 31, 61, 121, 241, 481, 767, 767, 767]);
    }

    #[test]
    fn fast_reads_beside_writes_let_the_depth_grow_and_slow_ones_halve_it() {
        let writes = [(Direction::Write, MS); 3];
        let beside_read = |latency| [&writes[..], &[(Direction::Read, latency)]].concat();
        assert_eq!(limits_over_windows(3, &beside_read(MS)), [16, 31, 61]);
        assert_eq!(limits_over_windows(2, &beside_read(3 * MS)), [16, 8]);
    }

    #[test]
    fn a_depth_goes_back_to_the_first_one_without_requests() {
        let mut throttle = Throttle::new();
        for window in 0..3 {
            throttle.admits_request(window * WINDOW, 0, Writes::Sync);
            throttle.count_request(window * WINDOW + MS, Direction::Write, MS);
        }
        throttle.admits_request(3 * WINDOW, 0, Writes::Sync);
        assert_eq!(throttle.depth, 121);
        throttle.admits_request(8 * WINDOW, 0, Writes::Sync);
        assert_eq!(throttle.depth, 61);
        throttle.admits_request(100 * WINDOW, 0, Writes::Sync);
        assert_eq!((throttle.depth, throttle.step), (16, 0));
    }

    #[test]
    fn the_flusher_gets_a_quarter_unless_writers_were_held_back() {
        let mut throttle = Throttle::new();
        assert!(throttle.admits_request(0, 3, Writes::Background));
        assert!(!throttle.admits_request(0, 4, Writes::Background));
        assert!(throttle.admits_request(0, 15, Writes::Sync));
        assert!(!throttle.admits_request(0, 16, Writes::Sync));
        throttle.note_pause(MS);
        assert!(throttle.admits_request(2 * MS, 15, Writes::Background));
        // The depth has grown to 767 meanwhile.
        assert!(throttle.admits_request(MS + RECENT, 191, Writes::Background));
        assert!(!throttle.admits_request(MS + RECENT, 192, Writes::Background));
    }

    #[test]
    fn tasks_wait_until_a_drive_with_a_volatile_cache_has_written_all() {
        let mut throttle = Throttle::new();
        assert!(!throttle.wakes_tasks(0, 1, true));
        assert!(throttle.wakes_tasks(0, 0, true));
        // Without a cache they go on below half of the depth, by half of the flusher's share.
        assert!(!throttle.wakes_tasks(0, 7, false));
        assert!(throttle.wakes_tasks(0, 6, false));
        throttle.note_pause(0);
        assert!(throttle.wakes_tasks(0, 6, true));
    }
}
