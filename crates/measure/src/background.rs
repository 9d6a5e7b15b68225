//! What wakes the CPUs of a machine at rest: interrupts by cause, soft interrupts, and idle periods, for each CPU.
//!
//! Only counters of the kernel are read, before and after; nothing is changed, and no root is needed. The kernel counts
//! causes, and not the programs behind them: which program set a timer is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde::Serialize;
use wakepath_system::{Root, System};
use wakepath_units::printable;

use crate::conditions::{CpuTimes, StolenTime};
use crate::{Conditions, ExperimentControl, MeasureError};

/// How long the machine is watched between two looks for a signal.
const STEP: Duration = Duration::from_secs(1);

/// How long to watch a machine at rest.
#[derive(Clone, Copy, Debug)]
pub struct BackgroundPlan {
    steps: usize,
}

/// What the kernel counted: an interrupt, a soft interrupt, or periods in an idle state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    /// An interrupt, by `/proc/interrupts`.
    Interrupt,
    /// A soft interrupt, such as timers and RCU, by `/proc/softirqs`.
    SoftInterrupt,
    /// Periods in an idle state, by its `usage`; each ends with a wake-up.
    IdleState,
}

/// How often something happened on each CPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CauseRate {
    /// Kind of cause.
    pub kind: CauseKind,
    /// Name of the cause, as the kernel prints it.
    pub name: String,
    /// Times per second on all CPUs.
    pub per_second: f64,
    /// Times per second by CPU, in the order of [`BackgroundMeasurement::cpus`].
    pub by_cpu: Vec<f64>,
}

/// What a machine does at rest.
#[derive(Clone, Debug, Serialize)]
pub struct BackgroundMeasurement {
    /// Day, kernel and other work of the experiment.
    pub conditions: Conditions,
    /// How long the machine was watched, in seconds.
    pub seconds: f64,
    /// Numbers of the CPUs.
    pub cpus: Vec<usize>,
    /// Context switches per second, on all CPUs; absent: not known.
    pub context_switches: Option<f64>,
    /// Those of them that this program made by itself, which watches and shows its progress; absent: not known.
    pub own_switches: Option<f64>,
    /// Share of all CPUs' time that was busy, in per cent; absent: not known.
    pub busy_percent: Option<f64>,
    /// Causes, most frequent first within their kind.
    pub causes: Vec<CauseRate>,
    /// Notes on the results for their reader: doubts, refusals, other work.
    pub notes: Vec<String>,
}

impl BackgroundPlan {
    /// A plan to watch a machine at rest for a time, at least a second.
    pub fn new(time: Duration) -> Self {
        Self {
            steps: time.as_secs_f64().round().max(1.0) as usize,
        }
    }

    /// Number of steps.
    pub const fn steps(&self) -> usize {
        self.steps
    }

    /// Planned time of all steps of the experiment.
    pub fn duration(&self) -> Duration {
        STEP * self.steps as u32
    }

    /// What the experiment will do, a sentence each, for people to read before.
    pub fn describe(&self) -> Vec<String> {
        vec![
            "reads the kernel's counters of interrupts, soft interrupts and idle states before and after; changes nothing"
                .to_owned(),
            "leave the machine alone meanwhile: what it does then is in the figures".to_owned(),
        ]
    }
}

/// Watches a machine at rest: counters of interrupts and idle periods, before and after.
///
/// # Errors
/// The kernel tells no interrupts, or a signal came within the first second.
pub fn measure(
    system: &System,
    plan: &BackgroundPlan,
    control: ExperimentControl<'_>,
) -> Result<BackgroundMeasurement, MeasureError> {
    let mut conditions = Conditions::observe(system, control);
    let stolen = StolenTime::watch(system);
    let before = CounterSnapshot::take(system)?;
    let began = Instant::now();
    for _ in 0..plan.steps {
        control.sleep(STEP);
        if control.is_cancelled() {
            break;
        }
        control.finish_step();
    }
    if began.elapsed() < STEP {
        return Err(MeasureError::Cancelled);
    }
    let seconds = began.elapsed().as_secs_f64();
    let after = CounterSnapshot::take(system)?;
    let note = stolen.finish(system, &mut conditions);
    let mut result = after.rates_since(&before, seconds, conditions);
    result.notes.extend(note);
    Ok(result)
}

/// Counts by kind, name and CPU.
type Counts = BTreeMap<(CauseKind, String), BTreeMap<usize, u64>>;

/// Descriptions of inter-processor interrupts in `/proc/interrupts`, on x86 and arm64.
const IPI_DESCRIPTIONS: [&str; 2] = ["Rescheduling interrupts", "Function call interrupts"];

/// The kernel's counters at one moment.
struct CounterSnapshot {
    counts: Counts,
    context_switches: Option<u64>,
    own_switches: Option<u64>,
    times: Option<CpuTimes>,
}

impl CounterSnapshot {
    fn take(system: &System) -> Result<Self, MeasureError> {
        let root = system.root();
        let mut counts = Counts::new();
        let interrupts = root
            .read_text_if_readable("proc/interrupts")
            .ok_or_else(|| {
                MeasureError::Impossible(
                    "/proc/interrupts cannot be read; mount /proc, or run outside of the container"
                        .to_owned(),
                )
            })?;
        add_counter_table(&mut counts, CauseKind::Interrupt, &interrupts);
        if let Some(text) = root.read_text_if_readable("proc/softirqs") {
            add_counter_table(&mut counts, CauseKind::SoftInterrupt, &text);
        }
        for cpu in system.cpus() {
            for count in system.read_idle_counts(cpu) {
                let name = printable::escape_for_one_line(&count.state.name).into_owned();
                let by_cpu = counts.entry((CauseKind::IdleState, name)).or_default();
                by_cpu.insert(cpu, count.usage);
            }
        }
        Ok(Self {
            counts,
            context_switches: read_context_switches(root),
            own_switches: read_own_switches(root),
            times: CpuTimes::read(root),
        })
    }

    fn rates_since(
        &self,
        before: &Self,
        seconds: f64,
        conditions: Conditions,
    ) -> BackgroundMeasurement {
        let cpus = cpus_in_both(self.counts.values(), before.counts.values());
        let mut causes: Vec<CauseRate> = Vec::new();
        for ((kind, name), now) in &self.counts {
            let then = before.counts.get(&(*kind, name.clone()));
            let by_cpu = cpus.iter().map(|cpu| {
                let count =
                    |by: Option<&BTreeMap<usize, u64>>| by.and_then(|by| by.get(cpu)).copied();
                // A cause that is new began at 0; one that was counted anew is left out.
                let past = count(then).unwrap_or(0);
                count(Some(now)).unwrap_or(0).saturating_sub(past) as f64 / seconds
            });
            let by_cpu: Vec<f64> = by_cpu.collect();
            let per_second: f64 = by_cpu.iter().sum();
            if per_second > 0.0 {
                causes.push(CauseRate {
                    kind: *kind,
                    name: name.clone(),
                    per_second,
                    by_cpu,
                });
            }
        }
        causes.sort_by(|a, b| {
            let rates = b.per_second.total_cmp(&a.per_second);
            a.kind.cmp(&b.kind).then(rates)
        });
        let switches = self.context_switches.zip(before.context_switches);
        let own_switches = self.own_switches.zip(before.own_switches);
        let [context_switches, own_switches_per_second] = [switches, own_switches]
            .map(|both| both.map(|(now, then)| now.saturating_sub(then) as f64 / seconds));
        let times = self.times.zip(before.times);
        BackgroundMeasurement {
            notes: conditions.note_on_load().into_iter().collect(),
            conditions,
            seconds,
            cpus,
            context_switches,
            own_switches: own_switches_per_second,
            busy_percent: times.and_then(|(now, then)| now.busy_percent_since(then)),
            causes,
        }
    }
}

/// CPUs counted before and after, in order. Counts of one that came or went meanwhile are of another time.
pub(crate) fn cpus_in_both<'a>(
    after: impl Iterator<Item = &'a BTreeMap<usize, u64>>,
    before: impl Iterator<Item = &'a BTreeMap<usize, u64>>,
) -> Vec<usize> {
    let past: BTreeSet<usize> = before.flat_map(|by| by.keys().copied()).collect();
    let now: BTreeSet<usize> = after.flat_map(|by| by.keys().copied()).collect();
    now.intersection(&past).copied().collect()
}

/// Adds a table of counts by CPU: a head of CPU numbers, then lines of a name, counts and perhaps a description.
fn add_counter_table(counts: &mut Counts, kind: CauseKind, text: &str) {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let cpus: Vec<usize> = head
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
        .collect();
    if cpus.is_empty() {
        return;
    }
    for line in lines {
        let Some((label, rest)) = line.split_once(':') else {
            continue;
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        let numbers: Vec<u64> = words.iter().map_while(|word| word.parse().ok()).collect();
        // Lines with a single count, such as ERR, are of no CPU.
        if numbers.len() < cpus.len() {
            continue;
        }
        let name = name_cause(label.trim(), &words[cpus.len()..]);
        let by_cpu = counts.entry((kind, name)).or_default();
        for (cpu, number) in cpus.iter().zip(&numbers) {
            let count = by_cpu.entry(*cpu).or_default();
            *count = count.saturating_add(*number);
        }
    }
}

/// Counts of numbered interrupts, which are of devices, by name and CPU.
pub(crate) fn parse_numbered_interrupts(text: &str) -> BTreeMap<String, BTreeMap<usize, u64>> {
    let mut all = text.lines();
    let head = all.next();
    let lines: Vec<&str> = head
        .into_iter()
        .chain(all.filter(|line| is_line_of_device(line)))
        .collect();
    let mut counts = Counts::new();
    add_counter_table(&mut counts, CauseKind::Interrupt, &lines.join("\n"));
    let named = counts.into_iter();
    named.map(|((_, name), by_cpu)| (name, by_cpu)).collect()
}

/// Counts the inter-processor interrupts (IPIs) that a CPU has taken by a text of `/proc/interrupts`: those that wake tasks
/// or carry calls. `None` where the kernel names none.
pub(crate) fn parse_ipi_count(text: &str, cpu: usize) -> Option<u64> {
    let mut counts = Counts::new();
    add_counter_table(&mut counts, CauseKind::Interrupt, text);
    let ipis = counts.iter().filter(|((_, name), _)| {
        IPI_DESCRIPTIONS
            .iter()
            .any(|description| name.ends_with(description))
    });
    let taken = ipis.filter_map(|(_, by_cpu)| by_cpu.get(&cpu).copied());
    taken.reduce(u64::saturating_add)
}

/// Whether a line of `/proc/interrupts` is of a device.
fn is_line_of_device(line: &str) -> bool {
    let label = line.split(':').next().unwrap_or_default().trim();
    !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit())
}

/// Names a cause: numbered interrupts by their device, behind controller and trigger; others by label and description.
fn name_cause(label: &str, description: &[&str]) -> String {
    let is_numbered = label.bytes().all(|b| b.is_ascii_digit());
    let words = match description {
        [_, _, device @ ..] if is_numbered && !device.is_empty() => device,
        all => all,
    };
    let name = if is_numbered {
        format!("{} (interrupt {label})", words.join(" "))
    } else {
        format!("{label} {}", words.join(" "))
    };
    printable::escape_for_one_line(name.trim()).into_owned()
}

fn read_context_switches(root: &Root) -> Option<u64> {
    let stat = root.read_text_if_readable("proc/stat")?;
    let mut lines = stat.lines();
    lines.find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok())
}

/// Switches to and from this program's threads: each that gives the CPU away was given it before. `None` where a captured
/// machine has no such program.
fn read_own_switches(root: &Root) -> Option<u64> {
    let mut sum = None;
    for thread in root.list_names("proc/self/task") {
        let path = format!("proc/self/task/{thread}/status");
        let status = root.read_text_if_readable(&path).unwrap_or_default();
        let counts = status.lines().filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            let is_count = key.ends_with("voluntary_ctxt_switches");
            value.trim().parse::<u64>().ok().filter(|_| is_count)
        });
        let given_away = counts.fold(0, u64::saturating_add);
        let both = given_away.saturating_mul(2);
        sum = Some(sum.unwrap_or(0_u64).saturating_add(both));
    }
    sum
}

impl BackgroundMeasurement {
    /// Tasks that woke up per second on all CPUs, but for this program's: each wake-up on an idle CPU makes two switches. `None`:
    /// not known.
    pub fn task_wake_ups_per_second(&self) -> Option<f64> {
        let others = self.context_switches? - self.own_switches.unwrap_or(0.0);
        Some((others / 2.0).max(0.0))
    }

    /// Interrupts of devices per second on all CPUs.
    pub fn device_interrupts_per_second(&self) -> f64 {
        let of_devices = self
            .causes
            .iter()
            .filter(|cause| cause.kind == CauseKind::Interrupt && is_name_of_device(&cause.name));
        of_devices.map(|cause| cause.per_second).sum()
    }
}

/// What names of numbered interrupts contain that belong to timers and counters: `timer` and `hpet` on x86, `arch_timer` and `arm-pmu`
/// on arm64, `riscv-timer`.
const OWN_INTERRUPTS: [&str; 3] = ["timer", "hpet", "arm-pmu"];

/// Whether a name by [`name_cause`] is of a device's interrupt: it has a number, and is no timer or counter.
fn is_name_of_device(name: &str) -> bool {
    let number = name
        .rsplit_once(" (interrupt ")
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
        && !OWN_INTERRUPTS.iter().any(|own| name.contains(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "           CPU0       CPU3\n 24:          1          0  IO-APIC   5-edge      nvme0q1\n\
                          LOC:     100     200   Local timer interrupts\nERR:          0\n";
    const AFTER: &str = "           CPU0       CPU3\n 24:          1          20  IO-APIC   5-edge      nvme0q1\n\
                         LOC:     150     200   Local timer interrupts\nERR:          4\n";

    fn snapshot(text: &str) -> CounterSnapshot {
        let mut counts = Counts::new();
        add_counter_table(&mut counts, CauseKind::Interrupt, text);
        CounterSnapshot {
            counts,
            context_switches: None,
            own_switches: None,
            times: None,
        }
    }

    fn conditions() -> Conditions {
        Conditions {
            date: "2026-11-27".to_owned(),
            kernel: "6.12.48".to_owned(),
            busy_percent: None,
            stolen_percent: None,
        }
    }

    #[test]
    fn rates_are_by_cause_and_cpu() {
        let result = snapshot(AFTER).rates_since(&snapshot(BEFORE), 10.0, conditions());
        assert_eq!(result.cpus, [0, 3]);
        let found: Vec<(&str, &[f64])> = result
            .causes
            .iter()
            .map(|cause| (cause.name.as_str(), cause.by_cpu.as_slice()))
            .collect();
        assert_eq!(
            found,
            [
                ("LOC Local timer interrupts", &[5.0, 0.0][..]),
                ("nvme0q1 (interrupt 24)", &[0.0, 2.0][..]),
            ]
        );
    }

    #[test]
    fn wake_ups_of_tasks_are_those_of_others() {
        let folder = tempfile::tempdir().unwrap();
        for (thread, given_away) in [("10", [5, 1]), ("11", [2, 0])] {
            let task = folder.path().join("proc/self/task").join(thread);
            std::fs::create_dir_all(&task).unwrap();
            let [voluntary, not] = given_away;
            let status = format!(
                "Name:\tx\nvoluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{not}\n"
            );
            std::fs::write(task.join("status"), status).unwrap();
        }
        let root = Root::at_directory(folder.path());
        assert_eq!(read_own_switches(&root), Some(16));
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(read_own_switches(&Root::at_directory(empty.path())), None);

        let switched = |all: u64, own: u64| CounterSnapshot {
            context_switches: Some(all),
            own_switches: Some(own),
            ..snapshot(if all > 0 { AFTER } else { BEFORE })
        };
        let result = switched(1_000, 400).rates_since(&switched(0, 0), 10.0, conditions());
        assert_eq!(result.task_wake_ups_per_second(), Some(30.0));
        assert!((result.device_interrupts_per_second() - 2.0).abs() < 1e-9);
        let untold = snapshot(AFTER).rates_since(&snapshot(BEFORE), 10.0, conditions());
        assert_eq!(untold.task_wake_ups_per_second(), None);
    }

    #[test]
    fn timers_with_numbers_are_no_devices() {
        for (line, is_device) in [
            ("GICv3 27 Level arch_timer", false),
            ("IO-APIC 2-edge timer", false),
            ("GICv3 46 Level eth0", true),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            let name = name_cause("11", &words);
            assert_eq!(is_name_of_device(&name), is_device, "{name}");
        }
    }

    #[test]
    fn a_cpu_that_came_meanwhile_is_left_out() {
        let before = snapshot("CPU0\n 24: 1 IO-APIC 5-edge nvme0q1\n");
        let after = snapshot("CPU0 CPU3\n 24: 11 900 IO-APIC 5-edge nvme0q1\n");
        let result = after.rates_since(&before, 10.0, conditions());
        assert_eq!(result.cpus, [0]);
        assert_eq!(result.causes[0].by_cpu, [1.0]);
    }

    #[test]
    fn a_description_with_cpu_in_it_is_no_head() {
        let text = "CPU0\n 24: 1 IO-APIC 5-edge nvme0q1\nMCE: 3 CPU machine checks\n 25: 1 IO-APIC 6-edge eth0\n";
        let names: Vec<String> = parse_numbered_interrupts(text).into_keys().collect();
        assert_eq!(names, ["eth0 (interrupt 25)", "nvme0q1 (interrupt 24)"]);
    }

    #[test]
    fn interrupts_between_processors_are_counted_on_x86_and_arm64() {
        let x86 = "CPU0 CPU3\n 24: 9 9 IO-APIC 5-edge nvme0q1\nRES: 3 40 Rescheduling interrupts\nCAL: 1 2 Function call interrupts\n";
        assert_eq!(parse_ipi_count(x86, 3), Some(42));
        assert_eq!(parse_ipi_count(x86, 1), None);
        let arm64 = "CPU0\nIPI0: 7 Rescheduling interrupts\nIPI1: 5 Function call interrupts\nIPI2: 1 CPU stop interrupts\n";
        assert_eq!(parse_ipi_count(arm64, 0), Some(12));
        assert_eq!(parse_ipi_count(AFTER, 0), None);
    }

    #[test]
    fn tables_that_are_none_have_no_causes() {
        for text in ["", "CPU0\n", "CPU0 CPU1\n 1: 5\n", "no table\n: : :\n"] {
            assert!(snapshot(text).counts.is_empty(), "{text}");
        }
        let full = format!("CPU0\n 1: {0}\n 1: {0}\n", u64::MAX);
        assert_eq!(snapshot(&full).counts.len(), 1);
    }
}
