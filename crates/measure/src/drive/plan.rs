//! Plan of an experiment on a drive: steps, duration, bytes written.

use std::time::Duration;

use serde::Serialize;
use wakepath_system::System;
use wakepath_units::Nanoseconds;

use super::apst::ApstSwitch;
use super::sleep::FEWEST_READS;
use crate::test_file::TestTarget;

/// Whether a request reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessDirection {
    /// Reads.
    Read,
    /// Writes of random data.
    Write,
}

impl AccessDirection {
    /// `read` or `write`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Addresses of successive requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AddressOrder {
    /// Uniform over the file.
    Random,
    /// One after the other.
    Sequential,
}

impl AddressOrder {
    /// `random` or `sequential`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sequential => "sequential",
        }
    }
}

/// Equal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LoadShape {
    /// Reads or writes.
    pub direction: AccessDirection,
    /// Order of addresses.
    pub order: AddressOrder,
    /// Request size in KiB.
    pub kib: u64,
    /// Requests in flight, each in a separate thread.
    pub depth: usize,
}

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DriveStep {
    /// Requests as fast as they are served.
    Load(LoadShape),
    /// A 4 KiB write, then a flush.
    Flush,
    /// 4 KiB writes that end on the media.
    ForcedWrite,
    /// 4 KiB reads, each after one of several short pauses.
    ShortPauses,
    /// 4 KiB random requests at depth 1, watched until their interrupt.
    Interrupts(AccessDirection),
    /// 4 KiB reads, each after a pause.
    Gap(Nanoseconds),
    /// A pause between two others, found out as the experiment goes.
    Refinement,
    /// The drive's APST is switched off until the end.
    SwitchApstOff,
    /// 4 KiB reads, each after a pause, with APST off.
    GapWithoutApst(Nanoseconds),
}

/// Steps that narrow a sleeping drive's entry time down.
pub(crate) const REFINEMENTS: usize = 5;
/// Pauses before a read in us, and how many seconds each is tried.
pub(super) const GAPS: [(u64, f64); 10] = [
    (100, 0.5),
    (300, 0.5),
    (1_000, 0.5),
    (3_000, 0.5),
    (10_000, 1.0),
    (30_000, 1.5),
    (100_000, 2.5),
    (300_000, 4.0),
    (1_000_000, 6.0),
    (3_000_000, 12.0),
];
/// First index into [`GAPS`] for pauses with APST off, beside the shortest pause: 10 ms.
const GAPS_WITHOUT_APST_FROM: usize = 4;
/// Seconds of reads after short pauses.
const SHORT_PAUSE_SECONDS: f64 = 3.5;
/// Seconds of watching interrupts in a direction.
const INTERRUPT_SECONDS: f64 = 1.0;
/// Seconds of a refinement.
const REFINEMENT_SECONDS: f64 = 1.2;
/// Longest pause of a refinement in seconds, between the last two of [`GAPS`], rounded up.
const LONGEST_REFINEMENT: u64 = 3;
/// Lower bound for a step's duration, relative to the default duration.
const SHORTEST: f64 = 0.02;

/// Random requests that are large and several at a time: KiB and depth.
const LARGE_AND_DEEP: [(u64, usize); 4] = [(16, 8), (64, 4), (64, 16), (256, 4)];

/// Steps of an experiment on a drive.
#[derive(Clone, Debug)]
pub struct DrivePlan {
    pub(crate) target: TestTarget,
    /// The switch for a drive with APST in force; absent: sleep is measured once, unchanged.
    pub(super) apst: Option<ApstSwitch>,
    pub(crate) steps: Vec<(DriveStep, Duration)>,
}

impl DrivePlan {
    /// Plans the experiment for a target. With `time`, steps are shortened or prolonged to take so
    /// long together, but for the fewest reads after long pauses.
    pub fn new(target: TestTarget, time: Option<Duration>) -> Self {
        Self::with_switch(target, time, None)
    }

    /// Plans as [`Self::new`] does. Where APST is in force on the drive behind the target, and may be changed, sleep is measured
    /// once unchanged and once with APST off.
    pub fn with_and_without_apst(
        system: &System,
        target: TestTarget,
        time: Option<Duration>,
    ) -> Self {
        let apst = ApstSwitch::find(system, &target);
        Self::with_switch(target, time, apst)
    }

    fn with_switch(target: TestTarget, time: Option<Duration>, apst: Option<ApstSwitch>) -> Self {
        let mut steps = Vec::new();
        add_loads(&mut steps, AccessDirection::Read);
        if matches!(target, TestTarget::Write { .. }) {
            add_loads(&mut steps, AccessDirection::Write);
            steps.push((DriveStep::Flush, 2.0));
            steps.push((DriveStep::ForcedWrite, 2.0));
        }
        steps.push((DriveStep::ShortPauses, SHORT_PAUSE_SECONDS));
        let written = matches!(target, TestTarget::Write { .. });
        steps.push((
            DriveStep::Interrupts(AccessDirection::Read),
            INTERRUPT_SECONDS,
        ));
        steps.extend(written.then_some((
            DriveStep::Interrupts(AccessDirection::Write),
            INTERRUPT_SECONDS,
        )));
        steps.extend(
            GAPS.map(|(us, seconds)| (DriveStep::Gap(Nanoseconds::from_micros(us)), seconds)),
        );
        steps.extend([(DriveStep::Refinement, REFINEMENT_SECONDS); REFINEMENTS]);
        if apst.is_some() {
            add_gaps_without_apst(&mut steps);
        }
        let usual: f64 = steps.iter().map(|(_, seconds)| seconds).sum();
        let scale = time.map_or(1.0, |time| (time.as_secs_f64() / usual).max(SHORTEST));
        Self {
            target,
            apst,
            steps: steps
                .into_iter()
                .map(|(step, seconds)| {
                    (
                        step,
                        step.at_least(Duration::from_secs_f64(seconds * scale)),
                    )
                })
                .collect(),
        }
    }

    /// A plan that is over in a second or two: for tests, whose figures nobody believes.
    pub fn short(target: TestTarget) -> Self {
        Self::new(target, Some(Duration::ZERO)).without_long_pauses()
    }

    /// As [`Self::short`], with and without APST.
    pub fn short_with_and_without_apst(system: &System, target: TestTarget) -> Self {
        Self::with_and_without_apst(system, target, Some(Duration::ZERO)).without_long_pauses()
    }

    fn without_long_pauses(mut self) -> Self {
        const LONGEST: Nanoseconds = Nanoseconds::from_millis(30);
        self.steps.retain(|(step, _)| {
            !matches!(step, DriveStep::Gap(gap) | DriveStep::GapWithoutApst(gap) if *gap > LONGEST)
        });
        self
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Time of all steps, without the time to fill a new file.
    pub fn duration(&self) -> Duration {
        self.steps.iter().map(|(_, time)| *time).sum()
    }

    /// Bytes written to fill a new file.
    pub const fn fill_bytes(&self) -> u64 {
        self.target.fill_bytes()
    }

    /// Upper bound for bytes written after filling: each writing step covers the file at most once.
    pub fn most_bytes_written(&self) -> u64 {
        let writes = self.steps.iter().filter(|(step, _)| step.writes());
        self.fill_bytes().saturating_mul(writes.count() as u64)
    }

    /// Upper bound for the time of repeated pauses: for each length, the time of the fewest reads.
    fn most_repeats(&self) -> Duration {
        let longest_pauses = self.steps.iter().map(|(step, _)| match step {
            DriveStep::Gap(gap) | DriveStep::GapWithoutApst(gap) => gap.as_duration(),
            DriveStep::Refinement => Duration::from_secs(LONGEST_REFINEMENT),
            _ => Duration::ZERO,
        });
        longest_pauses.sum::<Duration>() * FEWEST_READS as u32
    }

    /// Describes the steps for people.
    pub fn describe(&self) -> Vec<String> {
        let path = self.target.path().display();
        let mut lines = match &self.target {
            TestTarget::Read(_) => vec![format!(
                "reads {path} past the page cache; nothing is written"
            )],
            TestTarget::Write { bytes, .. } => vec![
                format!(
                    "writes {} MiB of random data to the new file {path}, which is removed at the end",
                    bytes >> 20
                ),
                format!(
                    "then writes at most {} MiB more into that file, besides reads",
                    self.most_bytes_written() >> 20
                ),
            ],
        };
        lines.push(
            "holds /dev/cpu_dma_latency at 0 meanwhile, so that CPUs stay in their first idle state, and for pauses at the \
             exit latency of C1 or its like (needs root)"
                .to_owned(),
        );
        lines.push(
            "4 KiB random requests at depth 1 to 32, larger ones at depth 1 to 16, sequential ones"
                .to_owned(),
        );
        lines.push(
            "4 KiB random reads after pauses of 20 us to 10 ms in turn, to find out what rests while the CPUs do not".to_owned(),
        );
        lines.push(
            "4 KiB random requests through io_uring, while the thread spins and sees when it is interrupted"
                .to_owned(),
        );
        lines.push(
            "reads after pauses of 100 us to 3 s, to find out when the drive sleeps".to_owned(),
        );
        lines.push(format!(
            "where it sleeps, up to {REFINEMENTS} pauses more, of {FEWEST_READS} reads or more each: takes up to {} s \
             longer than announced, and no time where it does not sleep",
            LONGEST_REFINEMENT * (REFINEMENTS * FEWEST_READS) as u64
        ));
        lines.push(format!(
            "pauses in which others use the drive do not count and are repeated, which takes up to {} s longer",
            self.most_repeats().as_secs()
        ));
        lines.extend(self.apst.iter().map(|apst| {
            format!(
                "then switches APST of {} off, as `apply` does, and reads after pauses of 10 ms to 3 s again; it is put back at the \
                 end",
                apst.controller
            )
        }));
        lines
    }
}

impl DriveStep {
    /// The time of a step: long enough for the fewest reads after a pause.
    fn at_least(self, time: Duration) -> Duration {
        match self {
            Self::Gap(gap) | Self::GapWithoutApst(gap) => {
                time.max(gap.as_duration() * FEWEST_READS as u32)
            }
            _ => time,
        }
    }

    /// Whether CPUs may sleep meanwhile: in pauses they need not poll, and a CPU that is watched does not idle.
    pub(super) const fn lets_cpus_sleep(self) -> bool {
        matches!(self, Self::Interrupts(_)) || !self.measures_awake_drive()
    }

    /// Whether the step is about a drive that is awake.
    pub(super) const fn measures_awake_drive(self) -> bool {
        !matches!(
            self,
            Self::Gap(_) | Self::Refinement | Self::SwitchApstOff | Self::GapWithoutApst(_)
        )
    }

    const fn writes(self) -> bool {
        match self {
            Self::Load(shape) => matches!(shape.direction, AccessDirection::Write),
            Self::Flush | Self::ForcedWrite => true,
            Self::Interrupts(direction) => matches!(direction, AccessDirection::Write),
            Self::ShortPauses
            | Self::Gap(_)
            | Self::Refinement
            | Self::SwitchApstOff
            | Self::GapWithoutApst(_) => false,
        }
    }
}

/// The switch, and pauses for the remaining sleep.
fn add_gaps_without_apst(steps: &mut Vec<(DriveStep, f64)>) {
    steps.push((DriveStep::SwitchApstOff, 0.0));
    let shortest = GAPS.iter().take(1);
    let sleeping = GAPS.iter().skip(GAPS_WITHOUT_APST_FROM);
    let again = shortest.chain(sleeping).map(|(us, seconds)| {
        let gap = Nanoseconds::from_micros(*us);
        (DriveStep::GapWithoutApst(gap), *seconds)
    });
    steps.extend(again);
}

fn add_loads(steps: &mut Vec<(DriveStep, f64)>, direction: AccessDirection) {
    use AddressOrder::{Random, Sequential};
    let mut loads = vec![(Random, 4, 1, 4.0)];
    loads.extend([2, 4, 8, 16, 32].map(|depth| (Random, 4, depth, 1.5)));
    loads.extend([16, 64, 256, 1024].map(|kib| (Random, kib, 1, 1.0)));
    loads.extend(LARGE_AND_DEEP.map(|(kib, depth)| (Random, kib, depth, 0.7)));
    loads.extend([1, 8].map(|depth| (Sequential, 128, depth, 1.0)));
    for (order, kib, depth, seconds) in loads {
        let shape = LoadShape {
            direction,
            order,
            kib,
            depth,
        };
        steps.push((DriveStep::Load(shape), seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_takes_the_time_that_it_is_given() {
        let read = TestTarget::Read("/dev/null".into());
        let plan = DrivePlan::new(read.clone(), Some(Duration::from_secs(100)));
        assert!((plan.duration().as_secs_f64() - 100.0).abs() < 0.01);
        assert_eq!(plan.most_bytes_written(), 0);
        let shortest = DrivePlan::new(read.clone(), Some(Duration::from_millis(1)));
        // Four reads after pauses of 3 s, 1 s and less.
        assert!(shortest.duration() > Duration::from_secs(17));
        let usual = DrivePlan::new(read, None);
        assert!(usual.duration() < Duration::from_secs(90));
    }

    #[test]
    fn large_requests_come_alone_and_several_at_a_time_within_the_budget() {
        let time = Duration::from_secs(60);
        let plan = DrivePlan::new(TestTarget::Read("/dev/null".into()), Some(time));
        for kib in [16, 64, 256] {
            let depths = plan.steps.iter().filter_map(|(step, _)| match step {
                DriveStep::Load(shape) if shape.kib == kib => Some(shape.depth),
                _ => None,
            });
            let depths: Vec<usize> = depths.collect();
            assert!(depths[0] == 1 && depths[1..].iter().all(|depth| *depth > 1));
            assert!(depths.len() > 1, "{kib} KiB: {depths:?}");
        }
        assert!((plan.duration().as_secs_f64() - 60.0).abs() < 0.01);
    }

    #[test]
    fn bytes_to_be_written_are_known_before() {
        let target = TestTarget::Write {
            path: "new".into(),
            bytes: 64 << 20,
        };
        let plan = DrivePlan::new(target, None);
        assert_eq!(plan.fill_bytes(), 64 << 20);
        // Sixteen loads, flushes, forced writes, and writes watched until their interrupt.
        assert_eq!(plan.most_bytes_written(), 19 * (64 << 20));
        let described = plan.describe().join(" ");
        assert!(described.contains("1216 MiB more"), "{described}");
        assert!(described.contains("up to 60 s longer"), "{described}");
        // Four pauses of each length: 4.4444 s together, and five of 3 s.
        assert!(
            described.contains("repeated, which takes up to 77 s longer"),
            "{described}"
        );
    }
}
