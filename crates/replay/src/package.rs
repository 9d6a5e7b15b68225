//! Energy of the package: it sleeps while every CPU is in the deepest state of its list.
//!
//! The same rules as the simulator's ([`PackageSleep`]), at the idle times of the recording. In each time in which all CPUs are
//! idle (`windows.rs`), the package falls asleep after the last moment at which a CPU was in another state.

use std::collections::VecDeque;
use std::ops::Range;

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::PackageSleep;
use wakepath_units::{Kilohertz, Microwatts, Nanoseconds};

use crate::blocks::{Blocks, Near};
use crate::windows::{Window, Windows};

/// A package, as a machine describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackageFigures {
    /// Drawn always.
    pub idle: Microwatts,
    /// Drawn besides while it is not asleep: by itself, and by the uncore at its lowest clock.
    pub awake: Microwatts,
    /// How it falls asleep and wakes up.
    pub sleep: PackageSleep,
    /// Drawn by a CPU that waits for it to wake up.
    pub waiting: Microwatts,
    /// How many CPUs it has.
    pub cpus: usize,
}

impl PackageFigures {
    /// That of a machine; `None` if its description has none.
    pub fn of_machine(machine: &Machine) -> Option<Self> {
        let package = machine.package.as_ref()?;
        let uncores = machine.uncore.as_ref().map_or(0, |uncore| {
            uncore.power(uncore.clock(Kilohertz(0))).0 * machine.cluster.len() as u64
        });
        let waiting = machine.cluster.iter();
        let waiting = waiting.filter_map(|c| {
            let states = machine.idle_states_of(c);
            Some(c.transition_power(states.last()?))
        });
        Some(Self {
            idle: package.idle_power(),
            awake: Microwatts(package.active_power().0 + uncores),
            sleep: package.sleep(),
            waiting: waiting.max()?,
            cpus: machine.cpus(),
        })
    }

    /// What it saves in these windows if this CPU and all others sleep as deeply as they can, in fJ. `end`: when the CPU
    /// wakes up.
    pub(crate) fn saving(&self, windows: &Windows, of_span: &Range<usize>, end: u64) -> i64 {
        let slept = self
            .awake
            .femtojoules_over(Nanoseconds(windows.sleep_in(of_span)));
        let last = of_span.clone().last().and_then(|last| windows.get(last));
        let waits = last
            .filter(|last| last.end == end)
            .map_or(0, |last| self.wait(last.start, last.end));
        let waiting = self.waiting.femtojoules_over(Nanoseconds(waits));
        i64::try_from(slept as i128 - waiting as i128).unwrap_or(i64::MAX)
    }

    /// How long a CPU that wakes up at `woken` waits if the last one fell asleep at `asleep`, in ns.
    fn wait(&self, asleep: u64, woken: u64) -> u64 {
        self.sleep.up_at(Nanoseconds(asleep), Nanoseconds(woken)).0 - woken
    }
}

/// The package under a governor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PackageReport {
    /// How long it slept, in ns.
    pub asleep_ns: u64,
    /// How often.
    pub count: u64,
    /// Wake-ups that waited longer for it than with the oracle.
    pub slower: u64,
    /// By how much, all together, in ns.
    pub added_latency_ns: u64,
    /// Those that an I/O completion waited for.
    pub slower_io: u64,
    /// By how much, in ns.
    pub added_io_latency_ns: u64,
    /// Energy beyond what it takes with the oracle, in J.
    pub wasted_j: f64,
    /// Its energy from the first idle span to the end of the last one, with that of CPUs that wait for it, in J.
    pub energy_j: f64,
}

/// What the CPUs did in a window under one governor.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    /// Until when some CPU was not in its deepest state, in ns.
    awake_until: u64,
    /// How long the package was up because a tick woke a CPU, in ns.
    interrupted: u64,
    /// By how much the number of CPUs that are awake at a window's end changes here. Most idle spans that keep the
    /// package awake do so in several windows. They are noted at the first and behind the last.
    change: i32,
}

/// Sums over windows, for one governor.
#[derive(Clone, Debug)]
struct Sums {
    /// How many CPUs are awake at the next window's end.
    awake: i32,
    /// By block of time: of the window's start, but for the sleep, which is where it is.
    blocks: Vec<BlockSums>,
}

/// Sums over the windows of some blocks.
#[derive(Clone, Copy, Debug, Default)]
struct BlockSums {
    asleep: u64,
    count: u64,
    waits: u64,
    slower: u64,
    added: u64,
    slower_io: u64,
    added_io: u64,
}

/// Who ended a window.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    by_cpu: bool,
    by_io: bool,
}

/// What the CPUs do in each window, until all of them have gone through it; then it is added up and forgotten, so that memory
/// does not grow with the recording. The oracle comes first, then what was recorded, then the governors.
#[derive(Debug)]
pub(crate) struct Tally {
    package: PackageFigures,
    pub(crate) windows: Windows,
    governors: usize,
    /// The window that comes next.
    first: usize,
    /// Of each window from there on, the governors' courses.
    courses: VecDeque<Course>,
    ends: VecDeque<End>,
    sums: Vec<Sums>,
    blocks: Blocks,
    /// The block of the last window that was settled.
    near: Near,
}

/// The oracle among the governors of a [`Tally`].
pub(crate) const ORACLE: usize = 0;
/// What was recorded.
pub(crate) const RECORDED: usize = 1;
/// The first of the others.
pub(crate) const FIRST: usize = 2;

/// When so many windows wait for a CPU, it is worth looking for the ones that all CPUs have gone through.
const WORTH_SETTLING: usize = 1 << 14;

impl Tally {
    /// For so many governors beside the oracle and the recorded one.
    pub(crate) fn new(
        package: PackageFigures,
        windows: Windows,
        governors: usize,
        blocks: Blocks,
    ) -> Self {
        let nothing = Sums {
            awake: 0,
            blocks: vec![BlockSums::default(); blocks.count()],
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
            near: Near::default(),
        }
    }

    /// What the package saves in an idle span that ends at `end`; see [`PackageFigures::saving`].
    pub(crate) fn saving(&self, of_span: &Range<usize>, end: u64) -> i64 {
        self.package.saving(&self.windows, of_span, end)
    }

    fn course(&mut self, governor: usize, window: usize) -> Option<&mut Course> {
        let at = window.checked_sub(self.first)?;
        if self.ends.len() <= at {
            self.ends.resize(at + 1, End::default());
            let courses = (at + 1) * self.governors;
            self.courses.resize(courses, Course::default());
        }
        self.courses.get_mut(at * self.governors + governor)
    }

    /// Under a governor, a CPU stayed in its deepest state (`deepest`) or in another one. `of_span`: the windows of its idle span;
    /// `after_deepest`: it was in its deepest state before.
    #[inline(never)]
    pub(crate) fn idle_period(
        &mut self,
        governor: usize,
        of_span: &Range<usize>,
        time: Range<u64>,
        deepest: bool,
        after_deepest: bool,
    ) {
        if of_span.is_empty() {
            return;
        }
        if !deepest {
            self.awake(governor, of_span, time.start, time.end);
        } else if after_deepest {
            self.interrupt(governor, of_span, time.start);
        }
    }

    /// Under a governor, a CPU was not in its deepest state from `start` to `end`. `of_span`: the windows of its idle span.
    pub(crate) fn awake(&mut self, governor: usize, of_span: &Range<usize>, start: u64, end: u64) {
        let from = self.windows.not_over_by(start, of_span).max(self.first);
        let to = self.windows.not_over_by(end, of_span);
        if from < to {
            if let Some(course) = self.course(governor, from) {
                course.change += 1;
            }
            if let Some(course) = self.course(governor, to) {
                course.change -= 1;
            }
        }
        let begun = |w: &Window| w.start < end;
        if to < of_span.end
            && self.windows.get(to).is_some_and(begun)
            && let Some(course) = self.course(governor, to)
        {
            course.awake_until = course.awake_until.max(end);
        }
    }

    /// Under a governor, a tick woke a CPU at `time`, and it went back to its deepest state.
    fn interrupt(&mut self, governor: usize, of_span: &Range<usize>, time: u64) {
        let up = self.package.sleep.exit.0 + self.package.sleep.delay().0;
        if up == 0 {
            return;
        }
        let index = self.windows.not_over_by(time, of_span);
        let inside = |w: &Window| w.start < time;
        if index < of_span.end
            && self.windows.get(index).is_some_and(inside)
            && let Some(course) = self.course(governor, index)
        {
            course.interrupted += up;
        }
    }

    /// A CPU's idle span is over at `end`; `by_io`: because of an I/O completion.
    pub(crate) fn end_of_span(&mut self, of_span: &Range<usize>, end: u64, by_io: bool) {
        let last = of_span.clone().last();
        let Some(last) = last.filter(|last| self.windows.get(*last).is_some_and(|w| w.end == end))
        else {
            return;
        };
        if self.course(ORACLE, last).is_some()
            && let Some(ended) = self.ends.get_mut(last - self.first)
        {
            ended.by_cpu = true;
            ended.by_io |= by_io;
        }
    }

    /// Whether enough windows wait for a CPU to look for those that all have gone through.
    pub(crate) fn is_worth_settling(&self) -> bool {
        self.ends.len() >= WORTH_SETTLING
    }

    /// All CPUs have gone through the windows that end by `time`.
    pub(crate) fn settle(&mut self, time: u64) {
        let all = 0..self.windows.len();
        let before = self.windows.not_over_by(time, &all);
        while self.first < before {
            // Windows that nobody has touched yet: everybody slept deeply.
            let _ = self.course(ORACLE, self.first);
            let end = self.ends.pop_front().unwrap_or_default();
            let Some(window) = self.windows.get(self.first).copied() else {
                return;
            };
            let block = self.near.block(&self.blocks, window.start);
            let crosses = (window.end > self.near.end()).then_some(&self.blocks);
            let mut of_oracle = 0;
            for (governor, sums) in self.sums.iter_mut().enumerate() {
                let course = self.courses.pop_front().unwrap_or_default();
                let waits = sums.add(&self.package, window, course, end, (block, crosses));
                if governor == ORACLE {
                    of_oracle = waits;
                }
                let added = waits.saturating_sub(of_oracle);
                let Some(sums) = sums.blocks.get_mut(block) else {
                    continue;
                };
                sums.slower += u64::from(added > 0);
                sums.added += added;
                if end.by_io {
                    sums.slower_io += u64::from(added > 0);
                    sums.added_io += added;
                }
            }
            self.first += 1;
        }
    }

    /// The package under one governor in some blocks. All windows are settled.
    pub(crate) fn report(&self, governor: usize, blocks: Range<usize>) -> PackageReport {
        let joules = |femtojoules: i128| femtojoules as f64 / 1e15;
        let span = self
            .windows
            .span_in(blocks.clone().map(|block| self.blocks.range(block)));
        let of_blocks = |governor: usize| {
            let mut all = BlockSums::default();
            let of_governor = &self.sums[governor].blocks;
            for sums in of_governor.get(blocks.clone()).unwrap_or_default() {
                all.add(sums);
            }
            all
        };
        let energy = |sums: &BlockSums| {
            let awake = Nanoseconds(span.saturating_sub(sums.asleep));
            let energy = self.package.idle.femtojoules_over(Nanoseconds(span))
                + self.package.awake.femtojoules_over(awake)
                + self
                    .package
                    .waiting
                    .femtojoules_over(Nanoseconds(sums.waits));
            energy as i128
        };
        let sums = of_blocks(governor);
        PackageReport {
            asleep_ns: sums.asleep,
            count: sums.count,
            slower: sums.slower,
            added_latency_ns: sums.added,
            slower_io: sums.slower_io,
            added_io_latency_ns: sums.added_io,
            wasted_j: joules(energy(&sums) - energy(&of_blocks(ORACLE))),
            energy_j: joules(energy(&sums)),
        }
    }

    /// CPUs of the package that are never idle.
    pub(crate) fn silent_cpus(&self) -> usize {
        let seen = self.windows.cpus.iter().flatten().count();
        self.package.cpus.saturating_sub(seen)
    }
}

impl Sums {
    /// Adds a window, which begins in a block, and may cross its end; returns how long the CPU waits that ends it, in ns.
    fn add(
        &mut self,
        package: &PackageFigures,
        window: Window,
        course: Course,
        end: End,
        (block, crosses): (usize, Option<&Blocks>),
    ) -> u64 {
        self.awake += course.change;
        if self.awake > 0 {
            return 0;
        }
        let from = window.start.max(course.awake_until);
        let delay = package.sleep.delay().0;
        let whole = window.end.saturating_sub(from).saturating_sub(delay);
        let asleep = whole.saturating_sub(course.interrupted);
        let waits = if end.by_cpu {
            package.wait(from, window.end)
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
            self.sleeps(asleep, window.end, blocks, block);
        }
        waits
    }

    /// The package sleeps for so long up to `end`, in several blocks from the first one on.
    #[cold]
    fn sleeps(&mut self, asleep: u64, end: u64, blocks: &Blocks, first: usize) {
        let mut left = asleep;
        for (block, sums) in self.blocks.iter_mut().enumerate().skip(first) {
            let behind = end.saturating_sub(blocks.range(block).end);
            // What lies behind this block is slept there.
            let here = left.saturating_sub(behind);
            sums.asleep += here;
            left -= here;
            if left == 0 {
                return;
            }
        }
    }
}

impl BlockSums {
    fn add(&mut self, other: &Self) {
        self.asleep += other.asleep;
        self.count += other.count;
        self.waits += other.waits;
        self.slower += other.slower;
        self.added += other.added;
        self.slower_io += other.slower_io;
        self.added_io += other.added_io;
    }
}
