//! Energy of the CPU package, which sleeps while every CPU is in its deepest state.
//!
//! The rules are the simulator's ([`PackageSleep`]), applied to the recorded idle times. In each window in which all CPUs
//! are idle (`windows.rs`), the package falls asleep after the last moment at which a CPU was in another state.

use std::collections::VecDeque;
use std::ops::Range;

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::PackageSleep;
use wakepath_units::{Kilohertz, Microwatts, Nanoseconds};

use crate::blocks::{TimeBlockCursor, TimeBlocks};
use crate::windows::{Window, Windows};

/// Power and sleep figures of a machine's CPU package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackageFigures {
    /// Power drawn always.
    pub idle: Microwatts,
    /// Additional power while the package is not asleep: by the package, and by the uncore at the
    /// lowest clock.
    pub awake: Microwatts,
    /// Rules by which the package falls asleep and wakes up.
    pub sleep: PackageSleep,
    /// Power of a CPU that waits for the package to wake up.
    pub waiting: Microwatts,
    /// Number of CPUs.
    pub cpus: usize,
}

impl PackageFigures {
    /// Reads the package's figures from a machine model; `None` without a package.
    pub fn from_machine(machine: &Machine) -> Option<Self> {
        let package = machine.package.as_ref()?;
        let uncores = machine.uncore.as_ref().map_or(0, |uncore| {
            uncore
                .cluster_power_at_clock(uncore.clock_within_limits(Kilohertz(0)))
                .0
                * machine.cluster.len() as u64
        });
        let waiting = machine.cluster.iter().filter_map(|c| {
            let states = machine.idle_states_on_cluster(c);
            Some(c.cpu_transition_power(states.last()?))
        });
        Some(Self {
            idle: package.constant_power(),
            awake: Microwatts(package.extra_power_while_up().0 + uncores),
            sleep: package.sleep_times(),
            waiting: waiting.max()?,
            cpus: machine.cpus(),
        })
    }

    /// Energy in fJ that the package saves in the windows of an idle span if all CPUs sleep as
    /// deeply as they can. `end`: wake-up of the CPU.
    pub(crate) fn possible_saving_in_windows(
        &self,
        windows: &Windows,
        span_windows: &Range<usize>,
        end: u64,
    ) -> i64 {
        let slept = self
            .awake
            .femtojoules_over(Nanoseconds(windows.possible_sleep_in(span_windows)));
        let last = span_windows
            .clone()
            .last()
            .and_then(|last| windows.window_at(last));
        let waits = last.filter(|last| last.end == end).map_or(0, |last| {
            self.time_waiting_for_package(last.start, last.end)
        });
        let waiting = self.waiting.femtojoules_over(Nanoseconds(waits));
        i64::try_from(slept as i128 - waiting as i128).unwrap_or(i64::MAX)
    }

    /// Time in ns for which a CPU that wakes up at `woken` waits for the package, if the last CPU
    /// fell asleep at `asleep`.
    fn time_waiting_for_package(&self, asleep: u64, woken: u64) -> u64 {
        self.sleep
            .time_when_up_again(Nanoseconds(asleep), Nanoseconds(woken))
            .0
            - woken
    }
}

/// Report on the package's sleep under a governor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PackageReport {
    /// Time that the package was asleep, in ns.
    pub asleep_ns: u64,
    /// Number of times that the package fell asleep.
    pub count: u64,
    /// Number of wake-ups that waited longer for the package than with the oracle.
    pub slower: u64,
    /// Total time by which wake-ups waited longer for the package than with the oracle, in ns.
    pub added_latency_ns: u64,
    /// Number of wake-ups that waited longer for the package and delayed an I/O completion.
    pub slower_io: u64,
    /// Total delay of I/O completions by waiting longer for the package, in ns.
    pub added_io_latency_ns: u64,
    /// Total wait of I/O completions for the package, in ns, whatever the oracle's.
    #[serde(skip)]
    pub io_exit_ns: u64,
    /// Package's energy beyond the oracle's, in J.
    pub wasted_j: f64,
    /// Package's energy from the first idle span to the end of the last, including CPUs that wait
    /// for the package, in J.
    pub energy_j: f64,
}

/// What the CPUs do in a window in which all are idle, under one governor.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    /// Last time at which some CPU was not in its deepest state, in ns.
    awake_until: u64,
    /// Time that the package was up because a tick woke a CPU, in ns.
    interrupted: u64,
    /// Change of the number of CPUs that are awake at a window's end. Most idle spans that keep the
    /// package awake do so in several windows, and count at the first and behind the last.
    change: i32,
}

/// Sums over windows of package sleep, for one governor.
#[derive(Clone, Debug)]
struct GovernorSums {
    /// Number of CPUs that are awake at the next window's end.
    awake: i32,
    /// Sums by the block in which a window starts; sleep counts in the block in which it is.
    blocks: Vec<TimeBlockSums>,
}

/// Sums over the windows of package sleep in some blocks of time.
#[derive(Clone, Copy, Debug, Default)]
struct TimeBlockSums {
    asleep: u64,
    count: u64,
    waits: u64,
    slower: u64,
    added: u64,
    slower_io: u64,
    added_io: u64,
    waits_io: u64,
}

/// What ended a window in which all CPUs were idle.
#[derive(Clone, Copy, Debug, Default)]
struct WindowEnd {
    by_cpu: bool,
    by_io: bool,
}

/// Package sleep under each governor: what the CPUs do in each window, until all CPUs have gone
/// through the window. Then the window is added up and dropped, so that memory does not grow with
/// the recording. The oracle comes first, then the recorded choices, then the governors.
#[derive(Debug)]
pub(crate) struct PackageTally {
    package: PackageFigures,
    pub(crate) windows: Windows,
    governors: usize,
    /// Index of the first window that is not added up yet.
    first: usize,
    /// What the CPUs do under each governor, for each window from [`PackageTally::first`] on.
    courses: VecDeque<Course>,
    ends: VecDeque<WindowEnd>,
    sums: Vec<GovernorSums>,
    blocks: TimeBlocks,
    /// Cursor of the block in which the last added-up window starts.
    block_cursor: TimeBlockCursor,
}

/// Index of the oracle among the governors of a [`PackageTally`].
pub(crate) const ORACLE: usize = 0;
/// Index of the recorded choices among the governors of a [`PackageTally`].
pub(crate) const RECORDED: usize = 1;
/// Index of the first replayed governor among the governors of a [`PackageTally`].
pub(crate) const FIRST: usize = 2;

/// Number of waiting windows from which a search for finished windows is worth the time.
const WORTH_SETTLING: usize = 1 << 14;

impl PackageTally {
    /// Empty sums of package sleep for the oracle, the recorded choices and a number of governors.
    pub(crate) fn new(
        package: PackageFigures,
        windows: Windows,
        governors: usize,
        blocks: TimeBlocks,
    ) -> Self {
        let nothing = GovernorSums {
            awake: 0,
            blocks: vec![TimeBlockSums::default(); blocks.block_count()],
        };
        Self {
            package,
            windows,
            governors: FIRST + governors,
            first: 0,
            courses: VecDeque::new(),
            ends: VecDeque::new(),
            sums: vec![nothing; FIRST + governors],
            blocks,
            block_cursor: TimeBlockCursor::default(),
        }
    }

    /// Energy in fJ that the package can save in an idle span; see
    /// [`PackageFigures::possible_saving_in_windows`].
    pub(crate) fn possible_saving_in_span(&self, span_windows: &Range<usize>, end: u64) -> i64 {
        self.package
            .possible_saving_in_windows(&self.windows, span_windows, end)
    }

    /// What the CPUs do under a governor in a window; `None` after the window was added up.
    fn course_in_window_or_new(&mut self, governor: usize, window: usize) -> Option<&mut Course> {
        let at = window.checked_sub(self.first)?;
        if self.ends.len() <= at {
            self.ends.resize(at + 1, WindowEnd::default());
            let courses = (at + 1) * self.governors;
            self.courses.resize(courses, Course::default());
        }
        self.courses.get_mut(at * self.governors + governor)
    }

    /// Adds a CPU's idle period under a governor, in the deepest state or another (`deepest`).
    /// `span_windows`: windows of the idle span; `after_deepest`: the CPU was in its deepest state
    /// before.
    #[inline(never)]
    pub(crate) fn add_period(
        &mut self,
        governor: usize,
        span_windows: &Range<usize>,
        time: Range<u64>,
        deepest: bool,
        after_deepest: bool,
    ) {
        if span_windows.is_empty() {
            return;
        }
        if !deepest {
            self.keep_package_awake(governor, span_windows, time);
        } else if after_deepest {
            self.interrupt_package_sleep(governor, span_windows, time.start);
        }
    }

    /// Keeps the package awake under a governor for a time in which a CPU was not in its deepest
    /// state. `span_windows`: windows of the idle span.
    pub(crate) fn keep_package_awake(
        &mut self,
        governor: usize,
        span_windows: &Range<usize>,
        time: Range<u64>,
    ) {
        let end = time.end;
        let begun = self
            .windows
            .first_window_ending_after(time.start, span_windows);
        let from = begun.max(self.first);
        let to = self.windows.first_window_ending_after(end, span_windows);
        if from < to {
            if let Some(course) = self.course_in_window_or_new(governor, from) {
                course.change += 1;
            }
            if let Some(course) = self.course_in_window_or_new(governor, to) {
                course.change -= 1;
            }
        }
        if to < span_windows.end
            && self.windows.window_at(to).is_some_and(|w| w.start < end)
            && let Some(course) = self.course_in_window_or_new(governor, to)
        {
            course.awake_until = course.awake_until.max(end);
        }
    }

    /// Interrupts the package's sleep under a governor: a tick woke a CPU at `time`, and the CPU
    /// went back to its deepest state.
    fn interrupt_package_sleep(&mut self, governor: usize, span_windows: &Range<usize>, time: u64) {
        let up = self.package.sleep.exit.0 + self.package.sleep.hysteresis_and_entry_time().0;
        if up == 0 {
            return;
        }
        let index = self.windows.first_window_ending_after(time, span_windows);
        if index < span_windows.end
            && self
                .windows
                .window_at(index)
                .is_some_and(|w| w.start < time)
            && let Some(course) = self.course_in_window_or_new(governor, index)
        {
            course.interrupted += up;
        }
    }

    /// Notes that a CPU's idle span ended at `end` ns; `by_io`: because of an I/O completion.
    pub(crate) fn note_window_end_by_cpu(
        &mut self,
        span_windows: &Range<usize>,
        end: u64,
        by_io: bool,
    ) {
        let Some(last) = span_windows
            .clone()
            .last()
            .filter(|last| self.windows.window_at(*last).is_some_and(|w| w.end == end))
        else {
            return;
        };
        if self.course_in_window_or_new(ORACLE, last).is_some()
            && let Some(ended) = self.ends.get_mut(last - self.first)
        {
            ended.by_cpu = true;
            ended.by_io |= by_io;
        }
    }

    /// Whether so many windows wait that a search for finished ones is worth the time.
    pub(crate) fn has_many_windows_waiting(&self) -> bool {
        self.ends.len() >= WORTH_SETTLING
    }

    /// Adds up, and drops, the windows that end by `time` ns; all CPUs must have gone through them.
    pub(crate) fn add_up_and_drop_windows_until(&mut self, time: u64) {
        let all = 0..self.windows.len();
        let before = self.windows.first_window_ending_after(time, &all);
        while self.first < before {
            // A window without an entry is one in which every CPU slept deeply.
            let _ = self.course_in_window_or_new(ORACLE, self.first);
            let end = self.ends.pop_front().unwrap_or_default();
            let Some(window) = self.windows.window_at(self.first).copied() else {
                return;
            };
            let block = self.block_cursor.block_at(&self.blocks, window.start);
            let crosses =
                (window.end > self.block_cursor.end_of_block_found_last()).then_some(&self.blocks);
            let mut oracle_waits = 0;
            for (governor, sums) in self.sums.iter_mut().enumerate() {
                let course = self.courses.pop_front().unwrap_or_default();
                let waits = sums.add_window_and_get_wait(
                    &self.package,
                    window,
                    course,
                    end,
                    (block, crosses),
                );
                if governor == ORACLE {
                    oracle_waits = waits;
                }
                let added = waits.saturating_sub(oracle_waits);
                let Some(sums) = sums.blocks.get_mut(block) else {
                    continue;
                };
                sums.slower += u64::from(added > 0);
                sums.added += added;
                if end.by_io {
                    sums.waits_io += waits;
                    sums.slower_io += u64::from(added > 0);
                    sums.added_io += added;
                }
            }
            self.first += 1;
        }
    }

    /// Reports the package's sleep under one governor in some blocks of time, after all windows
    /// were added up.
    pub(crate) fn report_package(&self, governor: usize, blocks: Range<usize>) -> PackageReport {
        let times = blocks
            .clone()
            .map(|block| self.blocks.times_of_block(block));
        let span = self.windows.idle_extent_within(times);
        let sums = self.sums[governor].sums_over_blocks(&blocks);
        let energy = self.package_femtojoules(&sums, span);
        let oracle = self.package_femtojoules(&self.sums[ORACLE].sums_over_blocks(&blocks), span);
        PackageReport {
            asleep_ns: sums.asleep,
            count: sums.count,
            slower: sums.slower,
            added_latency_ns: sums.added,
            slower_io: sums.slower_io,
            added_io_latency_ns: sums.added_io,
            io_exit_ns: sums.waits_io,
            wasted_j: (energy - oracle) as f64 / 1e15,
            energy_j: energy as f64 / 1e15,
        }
    }

    /// Energy of the package in fJ over `span` ns with these sums.
    fn package_femtojoules(&self, sums: &TimeBlockSums, span: u64) -> i128 {
        let package = &self.package;
        let awake = Nanoseconds(span.saturating_sub(sums.asleep));
        let energy = package.idle.femtojoules_over(Nanoseconds(span))
            + package.awake.femtojoules_over(awake)
            + package.waiting.femtojoules_over(Nanoseconds(sums.waits));
        energy as i128
    }

    /// Number of the package's CPUs without any idle period.
    pub(crate) fn count_cpus_without_idle_periods(&self) -> usize {
        let seen = self.windows.cpus.iter().flatten().count();
        self.package.cpus.saturating_sub(seen)
    }
}

impl GovernorSums {
    /// Adds up the sums over some blocks of time.
    fn sums_over_blocks(&self, blocks: &Range<usize>) -> TimeBlockSums {
        let mut all = TimeBlockSums::default();
        for sums in self.blocks.get(blocks.clone()).unwrap_or_default() {
            all.add_sums(sums);
        }
        all
    }

    /// Adds a window of package sleep, which begins in a block and may cross the block's end.
    /// Returns how long the CPU that ends the window waits, in ns.
    fn add_window_and_get_wait(
        &mut self,
        package: &PackageFigures,
        window: Window,
        course: Course,
        end: WindowEnd,
        (block, crosses): (usize, Option<&TimeBlocks>),
    ) -> u64 {
        self.awake += course.change;
        if self.awake > 0 {
            return 0;
        }
        let from = window.start.max(course.awake_until);
        let delay = package.sleep.hysteresis_and_entry_time().0;
        let whole = window.end.saturating_sub(from).saturating_sub(delay);
        let asleep = whole.saturating_sub(course.interrupted);
        let waits = if end.by_cpu {
            package.time_waiting_for_package(from, window.end)
        } else {
            0
        };
        if let Some(sums) = self.blocks.get_mut(block) {
            sums.count += u64::from(asleep > 0);
            sums.waits += waits;
            if crosses.is_none() {
                sums.asleep += asleep;
            }
        }
        if let Some(blocks) = crosses {
            self.divide_sleep_among_blocks(asleep, window.end, blocks, block);
        }
        waits
    }

    /// Divides `asleep` ns of package sleep up to `end` among blocks of time, from block `first`
    /// on.
    #[cold]
    fn divide_sleep_among_blocks(
        &mut self,
        asleep: u64,
        end: u64,
        blocks: &TimeBlocks,
        first: usize,
    ) {
        let mut left = asleep;
        for (block, sums) in self.blocks.iter_mut().enumerate().skip(first) {
            let behind = end.saturating_sub(blocks.times_of_block(block).end);
            // Sleep after the end of this block counts for later blocks.
            let here = left.saturating_sub(behind);
            sums.asleep += here;
            left -= here;
            if left == 0 {
                return;
            }
        }
    }
}

impl TimeBlockSums {
    fn add_sums(&mut self, other: &Self) {
        self.asleep += other.asleep;
        self.count += other.count;
        self.waits += other.waits;
        self.slower += other.slower;
        self.added += other.added;
        self.slower_io += other.slower_io;
        self.added_io += other.added_io;
        self.waits_io += other.waits_io;
    }
}
