//! Conditions during an experiment: day, kernel, other work.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::Serialize;
use time::OffsetDateTime;
use wakepath_hardware::machine::Measurement;
use wakepath_system::capture::runs_under_hypervisor;
use wakepath_system::{Root, System};

use crate::ExperimentControl;

/// How long other work is watched before an experiment.
const WATCH: Duration = Duration::from_millis(500);
/// Share of other work above which notes and figures tell of it, in per cent.
const MUCH_OTHER_WORK: f64 = 5.0;
/// Share of stolen time above which notes and figures tell of it, in per cent.
const MUCH_STOLEN: f64 = 1.0;

/// Day, kernel and other work of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    /// Day: YYYY-MM-DD, in UTC.
    pub date: String,
    /// Kernel release, as `uname -r` prints.
    pub kernel: String,
    /// Share of all CPUs' time that other work took just before, in per cent; absent: not known.
    pub busy_percent: Option<f64>,
    /// Share of all CPUs' time taken by the host of a virtual machine during the experiment, in per cent; absent: no virtual
    /// machine, or not known.
    pub stolen_percent: Option<f64>,
}

impl Conditions {
    /// A measurement of so many samples on this day with this kernel. `interval`: the ends of its 95 % interval in the figure's
    /// unit, where one is known. `what` names the statistic; other work and the host follow it where they took much.
    pub fn describe_measurement(
        &self,
        n: u64,
        interval: Option<[f64; 2]>,
        what: impl Into<String>,
    ) -> Measurement {
        let [low, high] = match interval {
            Some(ends) => ends.map(Some),
            None => [None, None],
        };
        Measurement {
            n,
            low,
            high,
            date: self.date.clone(),
            kernel: self.kernel.clone(),
            what: what.into() + &self.describe_disturbances(),
        }
    }

    /// Other work and time taken by the host where they are above the limits of the notes; empty on a quiet machine.
    fn describe_disturbances(&self) -> String {
        let mut text = String::new();
        if let Some(busy) = self.much_other_work() {
            let _ = write!(text, ", beside other work on the CPUs ({busy:.0} %)");
        }
        if let Some(stolen) = self.stolen_percent.filter(|share| *share > MUCH_STOLEN) {
            let _ = write!(
                text,
                ", while the host took {stolen:.1} % of the CPUs' time"
            );
        }
        text
    }

    /// The share of other work, if it is worth a note.
    fn much_other_work(&self) -> Option<f64> {
        self.busy_percent.filter(|busy| *busy > MUCH_OTHER_WORK)
    }

    /// The day, the kernel, and how busy the CPUs are: waits half a second for that.
    pub fn observe(system: &System, control: ExperimentControl<'_>) -> Self {
        let before = CpuTimes::read(system.root());
        control.sleep(WATCH);
        let after = CpuTimes::read(system.root());
        Self {
            date: today(),
            kernel: system.read_kernel_release().unwrap_or_default(),
            busy_percent: before.zip(after).and_then(|(b, a)| a.busy_percent_since(b)),
            stolen_percent: None,
        }
    }

    /// Conditions of what a recording has, under a kernel. Recordings have no day, so the day is today.
    pub fn of_recording(kernel: String) -> Self {
        Self {
            date: today(),
            kernel,
            busy_percent: None,
            stolen_percent: None,
        }
    }

    /// A note about other work above [`MUCH_OTHER_WORK`].
    pub(crate) fn note_on_load(&self) -> Option<String> {
        let busy = self.much_other_work()?;
        Some(format!(
            "the CPUs were {busy:.0} % busy with other work just before; that is in the figures. End it and measure again"
        ))
    }
}

/// Watches how long a host keeps a virtual machine's CPUs waiting during an experiment. Not every host tells.
#[derive(Debug)]
pub(crate) struct StolenTime(Option<CpuTimes>);

impl StolenTime {
    /// Begins to watch in a virtual machine, and does nothing on hardware.
    pub(crate) fn watch(system: &System) -> Self {
        let root = system.root();
        Self(
            runs_under_hypervisor(root)
                .then(|| CpuTimes::read(root))
                .flatten(),
        )
    }

    /// Puts the share since the begin into the conditions. Returns a note above [`MUCH_STOLEN`].
    pub(crate) fn finish(self, system: &System, conditions: &mut Conditions) -> Option<String> {
        let before = self.0?;
        let stolen = CpuTimes::read(system.root())?.stolen_percent_since(before)?;
        conditions.stolen_percent = Some(stolen);
        (stolen > MUCH_STOLEN).then(|| {
            format!(
                "the host took {stolen:.1} % of the CPUs' time meanwhile (stolen time); waits for the host are in the figures"
            )
        })
    }
}

/// Time in ticks since boot for which a virtual machine's CPU had work, and the host ran something else; `None` if the kernel
/// does not tell.
pub(crate) fn read_stolen_ticks(root: &Root, cpu: usize) -> Option<u64> {
    let stat = root.read_text_if_readable("proc/stat")?;
    let name = format!("cpu{cpu}");
    let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
    let (_, ticks) = lines.find(|(first, _)| *first == name)?;
    CpuTimes::parse_ticks(ticks).map(|times| times.stolen)
}

/// The day by the system's clock in UTC; the first day of 1970 if the clock is before that.
fn today() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let moment = OffsetDateTime::from_unix_timestamp(since.as_secs() as i64);
    moment
        .unwrap_or(OffsetDateTime::UNIX_EPOCH)
        .date()
        .to_string()
}

/// Times of all CPUs since boot, in ticks (`/proc/stat`, proc(5)).
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuTimes {
    total: u64,
    idle: u64,
    /// Taken by a virtual machine's host.
    stolen: u64,
}

impl CpuTimes {
    /// Of all CPUs.
    pub(crate) fn read(root: &Root) -> Option<Self> {
        let stat = root.read_text_if_readable("proc/stat")?;
        Self::parse_ticks(stat.lines().next()?.strip_prefix("cpu ")?)
    }

    /// Of the CPUs that this program may use, which leaves isolated CPUs out.
    pub(crate) fn read_usable_cpus(root: &Root) -> Option<Self> {
        let usable = sched_getaffinity(None).ok()?;
        let stat = root.read_text_if_readable("proc/stat")?;
        let mut sum = Self {
            total: 0,
            idle: 0,
            stolen: 0,
        };
        for line in stat.lines() {
            let Some((cpu, ticks)) = line
                .strip_prefix("cpu")
                .and_then(|rest| rest.split_once(' '))
            else {
                continue;
            };
            let is_usable = cpu
                .parse()
                .is_ok_and(|cpu| cpu < CpuSet::MAX_CPU && usable.is_set(cpu));
            if let Some(times) = Self::parse_ticks(ticks).filter(|_| is_usable) {
                sum.total = sum.total.saturating_add(times.total);
                sum.idle = sum.idle.saturating_add(times.idle);
                sum.stolen = sum.stolen.saturating_add(times.stolen);
            }
        }
        Some(sum)
    }

    /// The ticks of a line, without its name.
    fn parse_ticks(line: &str) -> Option<Self> {
        let parsed: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
        let ticks = parsed.ok()?;
        // Guests' time, the last two, is in user time already.
        let total = ticks
            .iter()
            .take(8)
            .fold(0, |sum: u64, t| sum.saturating_add(*t));
        let idle = ticks.get(3)?.saturating_add(*ticks.get(4)?);
        Some(Self {
            total,
            idle,
            // Absent before Linux 2.6.11.
            stolen: ticks.get(7).copied().unwrap_or(0),
        })
    }

    /// The host's share, in per cent.
    fn stolen_percent_since(self, before: Self) -> Option<f64> {
        let total = self.total.checked_sub(before.total).filter(|t| *t > 0)?;
        let stolen = self.stolen.saturating_sub(before.stolen).min(total);
        Some(stolen as f64 * 100.0 / total as f64)
    }

    pub(crate) fn busy_percent_since(self, before: Self) -> Option<f64> {
        let total = self.total.checked_sub(before.total).filter(|t| *t > 0)?;
        let idle = self.idle.saturating_sub(before.idle).min(total);
        Some((total - idle) as f64 * 100.0 / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stolen share and note, for a machine whose host takes so many of 100 ticks.
    fn watch_stolen(machine: &System, stolen: u64) -> (Option<f64>, Option<String>) {
        let stat = machine.root().absolute_path("proc/stat");
        let mut conditions = Conditions::of_recording("6.12.48".to_owned());
        std::fs::write(&stat, "cpu  100 0 0 800 0 0 0 50 0 0\n").unwrap();
        let begin = StolenTime::watch(machine);
        let (user, all_stolen) = (200 - stolen, 50 + stolen);
        let later =
            format!("cpu  {user} 0 0 800 0 0 0 {all_stolen} 0 0\ncpu1 1 0 0 1 0 0 0 7 0 0\n");
        std::fs::write(&stat, &later).unwrap();
        let note = begin.finish(machine, &mut conditions);
        (conditions.stolen_percent, note)
    }

    #[test]
    fn time_that_the_host_takes_is_noted_in_a_guest_alone() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().join("proc");
        std::fs::create_dir(&proc).unwrap();
        let machine = System::new(Root::at_directory(folder.path()));
        assert_eq!(watch_stolen(&machine, 30), (None, None));
        std::fs::write(proc.join("cpuinfo"), "flags\t\t: fpu hypervisor\n").unwrap();
        assert_eq!(watch_stolen(&machine, 1), (Some(1.0), None));
        let (share, note) = watch_stolen(&machine, 30);
        assert_eq!(share, Some(30.0));
        assert!(note.unwrap().contains("30.0 %"));
        assert_eq!(read_stolen_ticks(machine.root(), 1), Some(7));
        assert_eq!(read_stolen_ticks(machine.root(), 0), None);
    }

    #[test]
    fn figures_tell_of_what_the_notes_tell() {
        let mut conditions = Conditions::of_recording("6.12.48".to_owned());
        for (busy, stolen, what) in [
            (None, None, "median"),
            (Some(MUCH_OTHER_WORK), Some(MUCH_STOLEN), "median"),
            (
                Some(12.3),
                Some(0.4),
                "median, beside other work on the CPUs (12 %)",
            ),
            (
                Some(0.4),
                Some(3.1),
                "median, while the host took 3.1 % of the CPUs' time",
            ),
            (
                Some(50.0),
                Some(30.0),
                "median, beside other work on the CPUs (50 %), while the host took 30.0 % of the CPUs' time",
            ),
        ] {
            conditions.busy_percent = busy;
            conditions.stolen_percent = stolen;
            let measurement = conditions.describe_measurement(7, None, "median");
            assert_eq!(measurement.what, what);
            let has_note = busy.is_some_and(|share| share > MUCH_OTHER_WORK);
            assert_eq!(conditions.note_on_load().is_some(), has_note);
        }
    }

    #[test]
    fn work_is_what_was_not_idle() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("proc")).unwrap();
        let read = |line: &str| {
            std::fs::write(directory.path().join("proc/stat"), line).unwrap();
            CpuTimes::read(&Root::at_directory(directory.path()))
        };
        let before = read("cpu  100 0 50 800 50 0 0 0 30 0\n").unwrap();
        let after = read("cpu  130 0 70 840 60 0 0 0 40 0\n").unwrap();
        assert_eq!(after.busy_percent_since(before), Some(50.0));
        assert_eq!(before.busy_percent_since(before), None);
        for bad in ["", "cpu", "cpu  1 2 x 4 5", "cpu  1 2 3", "intr 1 2 3 4 5"] {
            assert!(read(bad).is_none(), "{bad}");
        }
        let usable = sched_getaffinity(None).unwrap();
        let own = (0..CpuSet::MAX_CPU)
            .find(|cpu| usable.is_set(*cpu))
            .unwrap();
        let read_usable = |busy: u64| {
            let lines =
                format!("cpu  9 9 9 9 9\ncpu{own} {busy} 0 0 100 0\ncpu99999 7 7 7 7 7\nintr 1\n");
            std::fs::write(directory.path().join("proc/stat"), lines).unwrap();
            CpuTimes::read_usable_cpus(&Root::at_directory(directory.path())).unwrap()
        };
        let (before, after) = (read_usable(50), read_usable(150));
        assert_eq!(after.busy_percent_since(before), Some(100.0));
        let huge = format!("cpu  {0} {0} {0} {0} {0}", u64::MAX);
        assert!(read(&huge).is_some());
    }
}
