//! Loads that follow what is measured: the search for a depth, the detector of a steady state, the counter of a flow.
//!
//! As fio 3.33: `lat_target_check()` in `io_u.c`, `steadystate.c`, `flow.c`.

use std::collections::VecDeque;

use wakepath_units::Nanoseconds;

use super::targets::MILLION;
use super::{FioJob, LatencyTarget, SteadyFigure, SteadyState};

/// What a job's [`DepthSearch`] asks of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepthStep {
    /// Go on, with the depth of [`DepthSearch::depth`].
    GoOn,
    /// Go on with that depth when nothing is in flight.
    Drain,
    /// End: the depth is found, or not even one I/O at a time keeps to the target.
    End,
}

/// The search for the largest depth that keeps to a latency.
#[derive(Clone, Debug)]
pub struct DepthSearch {
    target: LatencyTarget,
    most: u32,
    depth: u32,
    low: u32,
    high: u32,
    /// Begin of the present window in ns, and I/Os ended in it: all, and those above the target.
    began: u64,
    ended: u64,
    failed: u64,
    stable: u32,
    is_last_run: bool,
    /// Whether a window kept to the target, and whether a judgement at depth 1 found that it did not.
    has_kept: bool,
    has_missed_alone: bool,
}

impl DepthSearch {
    /// The search of each process of a job; `None` if its depth is fixed.
    pub fn for_job(job: &FioJob) -> Option<Self> {
        let most = job.iodepth;
        (job.latency_target.target > Nanoseconds::ZERO).then_some(Self {
            target: job.latency_target,
            most,
            depth: 1,
            low: 1,
            high: most,
            began: 0,
            ended: 0,
            failed: 0,
            stable: 0,
            is_last_run: false,
            has_kept: false,
            has_missed_alone: false,
        })
    }

    /// The number of I/Os that may be in flight, at least 1, unless the engine has fewer.
    pub fn depth(&self) -> u32 {
        self.depth.max(1)
    }

    /// Whether not even a single I/O in flight kept to the target, so that the search has found no depth.
    pub fn misses_target(&self) -> bool {
        self.has_missed_alone && !self.has_kept
    }

    /// Begins the search at the time `now` in ns.
    pub fn begin(&mut self, now: u64) {
        self.began = now;
    }

    /// Counts an I/O that ended with this latency in ns at the time `now` in ns.
    pub fn note_latency(&mut self, latency: u64, now: u64) -> DepthStep {
        self.ended += 1;
        if latency <= self.target.target.0 {
            return DepthStep::GoOn;
        }
        if self.target.millionths_of_percent < 100 * MILLION {
            self.failed += 1;
            return DepthStep::GoOn;
        }
        if self.depth == 1 {
            self.has_missed_alone = true;
            return DepthStep::End;
        }
        self.lower(now)
    }

    /// Changes the depth if a window is over at the time `now` in ns.
    pub fn check_window(&mut self, now: u64) -> DepthStep {
        if now.saturating_sub(self.began) < self.target.window.0 || self.ended == 0 {
            return DepthStep::GoOn;
        }
        let kept = u128::from(self.ended - self.failed) * u128::from(100 * MILLION);
        if kept >= u128::from(self.target.millionths_of_percent) * u128::from(self.ended) {
            self.raise(now)
        } else if self.depth == 1 {
            self.has_missed_alone = true;
            // fio leaves the window open, and judges the next I/O with it.
            DepthStep::GoOn
        } else {
            self.lower(now)
        }
    }

    fn lower(&mut self, now: u64) -> DepthStep {
        self.high = self.depth;
        if self.depth == self.low {
            self.low -= 1;
        }
        self.depth = u32::midpoint(self.depth, self.low);
        self.stable = 0;
        self.begin_window(now);
        DepthStep::Drain
    }

    fn raise(&mut self, now: u64) -> DepthStep {
        self.has_kept = true;
        let before = self.depth;
        self.low = before;
        if before + 1 == self.high {
            self.stable += 1;
            if self.stable >= 3 {
                self.high += 1;
                self.stable = 0;
            }
        }
        self.depth = if self.high == self.most {
            before.saturating_mul(2)
        } else {
            u32::midpoint(before, self.high)
        };
        self.depth = self.depth.min(self.most);
        let found = !self.target.goes_on && self.depth == before;
        if found && self.is_last_run {
            return DepthStep::End;
        }
        self.is_last_run |= found;
        self.begin_window(now);
        if found {
            DepthStep::Drain
        } else {
            DepthStep::GoOn
        }
    }

    fn begin_window(&mut self, now: u64) {
        (self.began, self.ended, self.failed) = (now, 0, 0);
    }
}

/// Judges second by second whether a job is steady.
#[derive(Clone, Debug)]
pub struct SteadyStateDetector {
    rule: SteadyState,
    /// Figures of the last seconds, the oldest first.
    seconds: VecDeque<u64>,
    /// Begin and end of the present second in ns; I/Os and bytes ended in it.
    second_begins: u64,
    second_ends: u64,
    counted_from: u64,
    ios: u64,
    bytes: u64,
}

/// One second in ns.
const SECOND: u64 = 1_000_000_000;

/// Time in ns from fio's start to its first jobs: it sleeps while their processes start (`run_threads()` in `backend.c`).
pub const JOBS_START_AFTER: u64 = 100_000_000;

impl SteadyStateDetector {
    /// The detector of a job that begins at the time `now` in ns; `None` if the job does not ask for a steady state.
    pub fn for_job(job: &FioJob) -> Option<Self> {
        let rule = job.steady_state;
        (rule.seconds > 0).then(|| Self {
            rule,
            seconds: VecDeque::new(),
            second_begins: 0,
            second_ends: SECOND,
            counted_from: 0,
            ios: 0,
            bytes: 0,
        })
    }

    /// Begins at the time `now` in ns.
    pub fn begin(&mut self, now: u64) {
        self.second_begins = now;
        // fio looks once a second from its own start on.
        self.second_ends = now + SECOND - JOBS_START_AFTER;
        // fio judges from one second after the ramp on.
        let ramp = self.rule.ramp.0;
        self.counted_from = now + if ramp > 0 { ramp + SECOND } else { 0 };
    }

    /// Counts an I/O of so many bytes that ended at the time `now` in ns. Returns whether the job was steady before.
    pub fn note_end(&mut self, bytes: u64, now: u64) -> bool {
        while now >= self.second_ends {
            let judged = self.second_ends >= self.counted_from;
            if judged && self.add_second() {
                return true;
            }
            (self.ios, self.bytes) = (0, 0);
            self.second_begins = self.second_ends;
            self.second_ends += SECOND;
        }
        self.ios += 1;
        self.bytes += bytes;
        false
    }

    fn add_second(&mut self) -> bool {
        use SteadyFigure::{Bw, BwSlope, Iops, IopsSlope};
        let counted = match self.rule.figure {
            Iops | IopsSlope => self.ios,
            Bw | BwSlope => self.bytes,
        };
        // The first look comes early.
        self.seconds
            .push_back(per_second(counted, self.second_ends - self.second_begins));
        let wanted = self.rule.seconds as usize;
        if self.seconds.len() > wanted {
            self.seconds.pop_front();
        }
        if self.seconds.len() < wanted {
            return false;
        }
        let mean = self.seconds.iter().sum::<u64>() as f64 / wanted as f64;
        let off = match self.rule.figure {
            Iops | Bw => largest_deviation(&self.seconds, mean),
            IopsSlope | BwSlope => slope(&self.seconds, mean).abs(),
        };
        let share = if self.rule.in_percent {
            100.0 * off / mean
        } else {
            off
        };
        share < self.rule.limit_millionths as f64 / MILLION as f64
    }
}

/// What a count in so many ns is in a second.
fn per_second(count: u64, time: u64) -> u64 {
    // A drive has far fewer bytes a second than a `u64` counts.
    (u128::from(count) * u128::from(SECOND) / u128::from(time)) as u64
}

fn largest_deviation(seconds: &VecDeque<u64>, mean: f64) -> f64 {
    let deviations = seconds.iter().map(|value| (*value as f64 - mean).abs());
    deviations.fold(0.0, f64::max)
}

/// Slope of the least-squares line through one value a second.
fn slope(seconds: &VecDeque<u64>, mean: f64) -> f64 {
    let middle = (seconds.len() as f64 - 1.0) / 2.0;
    let (mut products, mut squares) = (0.0, 0.0);
    for (second, value) in seconds.iter().enumerate() {
        let from_middle = second as f64 - middle;
        products += from_middle * (*value as f64 - mean);
        squares += from_middle * from_middle;
    }
    products / squares
}

/// I/Os of all processes in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCounter {
    /// All I/Os begun by processes that have not ended, and one.
    ios: u64,
    weight: u64,
}

impl Default for FlowCounter {
    fn default() -> Self {
        Self { ios: 1, weight: 0 }
    }
}

impl FlowCounter {
    /// Adds the weight of a process.
    pub fn add_process(&mut self, weight: u32) {
        self.weight += u64::from(weight);
    }

    /// Counts an I/O of a process that has begun `own` and has this weight, unless the process is ahead of the others.
    /// Returns whether it was counted.
    pub fn count_io_unless_ahead(&mut self, own: u64, weight: u32) -> bool {
        let ahead =
            u128::from(own) * u128::from(self.weight) > u128::from(weight) * u128::from(self.ios);
        if !ahead {
            self.ios += 1;
        }
        !ahead
    }

    /// Takes out a process that has ended, with the I/Os that it had begun.
    pub fn remove_process(&mut self, own: u64, weight: u32) {
        self.ios -= own;
        self.weight -= u64::from(weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(most: u32, target: LatencyTarget) -> DepthSearch {
        let job = FioJob {
            iodepth: most,
            ioengine: super::super::IoEngine::Libaio,
            direct: true,
            latency_target: target,
            ..FioJob::default()
        };
        DepthSearch::for_job(&job).unwrap()
    }

    /// Searches on a drive that takes 10 us for each I/O in flight. Returns the depths tried.
    fn depths_tried(most: u32, target_us: u64, share: u64) -> Vec<u32> {
        let mut search = search(
            most,
            LatencyTarget {
                target: Nanoseconds::from_micros(target_us),
                window: Nanoseconds::from_millis(1),
                millionths_of_percent: share,
                goes_on: false,
            },
        );
        let (mut now, mut tried) = (0, vec![1]);
        loop {
            now += 10_000;
            let latency = u64::from(search.depth()) * 10_000;
            let mut step = search.note_latency(latency, now);
            if step == DepthStep::GoOn {
                step = search.check_window(now);
            }
            if tried.last() != Some(&search.depth()) {
                tried.push(search.depth());
            }
            if step == DepthStep::End || tried.len() > 30 {
                return tried;
            }
        }
    }

    /// As `Ramped up` and `Ramped down` in the log of fio 3.33 (`--debug=rate`): it doubles until it fails, then halves the step.
    #[test]
    fn a_search_ends_at_the_largest_depth_within_the_target() {
        for share in [100 * MILLION, 99 * MILLION] {
            assert_eq!(
                depths_tried(128, 205, share),
                [1, 2, 4, 8, 16, 32, 24, 20, 22, 21, 20]
            );
            assert_eq!(depths_tried(16, 1000, share), [1, 2, 4, 8, 16]);
        }
        // Not even one I/O keeps to the target.
        assert_eq!(depths_tried(16, 5, 100 * MILLION), [1]);
    }

    fn ends_after(rule: SteadyState, ios_per_second: impl Fn(u64) -> u64) -> Option<u64> {
        let job = FioJob {
            steady_state: rule,
            ..FioJob::default()
        };
        let mut detector = SteadyStateDetector::for_job(&job).unwrap();
        detector.begin(0);
        for second in 0..100 {
            let ios = ios_per_second(second);
            for io in 0..ios {
                if detector.note_end(4096, second * SECOND + io * SECOND / ios) {
                    return Some(second);
                }
            }
        }
        None
    }

    #[test]
    fn a_job_is_steady_when_its_last_seconds_are() {
        let rule = SteadyState {
            figure: SteadyFigure::Iops,
            limit_millionths: 10 * MILLION,
            seconds: 5,
            ..SteadyState::default()
        };
        let settling = |second: u64| 1000 + 1000 / (second + 1);
        // The 5 seconds from 2.9 s on: 1258 to 1127, 6.6 % from their mean.
        assert_eq!(ends_after(rule, settling), Some(7));
        let ramp = Nanoseconds::from_secs(20);
        assert_eq!(ends_after(SteadyState { ramp, ..rule }, settling), Some(25));
        for figure in [SteadyFigure::Bw, SteadyFigure::BwSlope] {
            let tight = SteadyState {
                figure,
                limit_millionths: 1,
                ..rule
            };
            assert_eq!(ends_after(tight, |_| 1000), Some(4), "{figure:?}");
            assert_eq!(
                ends_after(tight, |second| 1000 + second),
                None,
                "{figure:?}"
            );
        }
        // 10 I/Os per second more each second, to a limit above and below.
        let slope = |limit: u64| SteadyState {
            figure: SteadyFigure::IopsSlope,
            limit_millionths: limit * MILLION,
            in_percent: false,
            ..rule
        };
        assert_eq!(ends_after(slope(11), |second| 1000 + 10 * second), Some(4));
        assert_eq!(ends_after(slope(9), |second| 1000 + 10 * second), None);
    }

    #[test]
    fn a_flow_keeps_the_ratio_of_its_weights() {
        let (weights, mut own) = ([1, 8], [0, 0]);
        let mut flow = FlowCounter::default();
        for weight in weights {
            flow.add_process(weight);
        }
        for _ in 0..900 {
            for process in 0..2 {
                if flow.count_io_unless_ahead(own[process], weights[process]) {
                    own[process] += 1;
                }
            }
        }
        assert!(own[1] > 800 && own[1].abs_diff(8 * own[0]) <= 8, "{own:?}");
        flow.remove_process(own[1], 8);
        // Alone, a process is never ahead.
        for _ in 0..100 {
            assert!(flow.count_io_unless_ahead(own[0], 1));
            own[0] += 1;
        }
    }
}
