//! What a machine draws at rest, with busy CPUs, and with all CPUs kept in one idle state.
//!
//! Power is read where the machine has counters or sensors. A virtual machine has none of its own, and gets no figures. The
//! power of a state is what the machine draws with only that state allowed, less what it draws with the deepest: a
//! difference, so that everything else drops out. What the hardware did with the request is not verified.

mod clocks;
mod meter;
mod source;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use serde::Serialize;
use wakepath_settings::Hold;
use wakepath_system::setting::find_setting;
use wakepath_system::{At, Root, SettingKey, StateInfo, System};

use self::clocks::MachineClocks;
use self::source::PowerReading;
use crate::drive::ApstSwitch;
use crate::shallow::reserve_for_repeated_changes;
use crate::summary::mean_with_reach;
use crate::test_file::{ALIGNMENT, AlignedBuffer};
use crate::wake::{choose_governor, state_key};
use crate::{Conditions, ExperimentControl, MeasureError, pin};

pub use self::meter::PowerMeter;
pub use self::source::{PowerSource, PowerSourceKind};

/// Time between two readings: counters of energy move about once in a millisecond, sensors once in a second.
const BETWEEN_READINGS: Duration = Duration::from_secs(1);
/// Readings of a step in which the machine comes to rest; they do not count.
const SETTLING: usize = 2;
/// Fewest readings of a step that count.
const FEWEST_READINGS: usize = 3;
/// Time of a step by default.
const STEP_TIME: Duration = Duration::from_secs(8);
/// Most clocks for spinning CPUs, and the number for short times: both ends.
const MOST_CLOCKS: usize = 5;
const FEWEST_CLOCKS: usize = 2;

/// What the machine does while its power is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "condition", content = "of")]
pub enum PowerCondition {
    /// Nothing, under the settings of now.
    Rest,
    /// So many CPUs spin.
    Busy(usize),
    /// All CPUs spin, held at a clock in kHz.
    BusyAt(u64),
    /// Nothing, with a drive kept awake by switching APST off; named by controller.
    DriveAwake(String),
    /// Nothing, with one idle state allowed on all CPUs.
    State(String),
}

/// Conditions to measure, and for how long.
#[derive(Clone, Debug)]
pub struct PowerPlan {
    cpus: Vec<usize>,
    /// States that all CPUs have, shallowest first; empty without root.
    states: Vec<StateInfo>,
    governor: Option<&'static str>,
    /// Clocks to hold; absent without root, and where CPUs differ.
    clocks: Option<MachineClocks>,
    /// Drives with APST in force.
    drives: Vec<ApstSwitch>,
    conditions: Vec<PowerCondition>,
    readings: usize,
    /// Time between two readings.
    between: Duration,
}

/// A mean power with its 95 % interval, in mW.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PowerEstimate {
    /// Mean power in mW.
    pub mw: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

/// Power of a source under a condition.
#[derive(Clone, Debug, Serialize)]
pub struct PowerFigure {
    /// Name of the source, which no other source has.
    pub source: String,
    /// Its place in [`PowerMeasurement::sources`].
    #[serde(skip)]
    pub source_index: usize,
    /// What the machine did while its power was read.
    #[serde(flatten)]
    pub condition: PowerCondition,
    /// Number of readings behind the mean.
    pub n: usize,
    /// Power that the source showed.
    pub power: PowerEstimate,
    /// Power beyond rest; absent for rest.
    pub above_rest: Option<PowerEstimate>,
    /// What each CPU drew more than with the deepest state allowed; absent for conditions other than states.
    pub each_cpu_above_deepest: Option<PowerEstimate>,
}

/// Result of an experiment on power.
#[derive(Clone, Debug, Serialize)]
pub struct PowerMeasurement {
    /// Day, kernel and other work of the experiment.
    pub conditions: Conditions,
    /// Sources of power; they overlap, and are never added.
    pub sources: Vec<PowerSource>,
    /// Power by condition and source.
    pub figures: Vec<PowerFigure>,
    /// Whether all steps of the experiment were done; a signal ends it early.
    pub complete: bool,
    /// Notes on the results for their reader: doubts, refusals, other work.
    pub notes: Vec<String>,
}

impl PowerPlan {
    /// Plans the experiment. `forced`: one idle state at a time, which needs root.
    ///
    /// # Errors
    /// The machine has neither counters of energy nor sensors of power.
    pub fn new(
        system: &System,
        forced: bool,
        time: Option<Duration>,
    ) -> Result<Self, MeasureError> {
        if PowerSource::find_all_with_drives(system.root()).is_empty() {
            return Err(MeasureError::Impossible(
                "this machine tells no power: no RAPL domain in /sys/class/powercap, no power sensor in /sys/class/hwmon, and no \
                 battery that discharges. RAPL needs root and the module intel_rapl_msr; a virtual machine has none of these, and its \
                 power stays unknown"
                    .to_owned(),
            ));
        }
        let cpus = system.cpus();
        let governor = if forced {
            choose_governor(system).ok()
        } else {
            None
        };
        let states = match governor {
            Some(_) => common_states(system, &cpus),
            None => Vec::new(),
        };
        let mut conditions = vec![PowerCondition::Rest, PowerCondition::Busy(1)];
        if cpus.len() > 1 {
            conditions.push(PowerCondition::Busy(cpus.len()));
        }
        let drives = if forced {
            find_drives_with_apst(system)
        } else {
            Vec::new()
        };
        let others = conditions.len() + drives.len() + states.len();
        let needed =
            BETWEEN_READINGS * ((SETTLING + FEWEST_READINGS) * (others + MOST_CLOCKS)) as u32;
        let most = if time.is_none_or(|time| time >= needed) {
            MOST_CLOCKS
        } else {
            FEWEST_CLOCKS
        };
        let clocks = forced.then(|| MachineClocks::find(system, most)).flatten();
        let held = clocks.iter().flat_map(|clocks| &clocks.khz);
        conditions.extend(held.map(|khz| PowerCondition::BusyAt(*khz)));
        let awake = drives.iter();
        conditions.extend(awake.map(|drive| PowerCondition::DriveAwake(drive.controller.clone())));
        let named = states.iter().rev().filter(|state| !state.polling);
        conditions.extend(named.map(|state| PowerCondition::State(state.name.clone())));
        let step = time.map_or(STEP_TIME, |time| time / conditions.len() as u32);
        let readings = (step.as_secs_f64() / BETWEEN_READINGS.as_secs_f64()) as usize;
        Ok(Self {
            cpus,
            states,
            governor: governor.flatten(),
            clocks,
            drives,
            conditions,
            readings: readings.saturating_sub(SETTLING).max(FEWEST_READINGS),
            between: BETWEEN_READINGS,
        })
    }

    /// A plan that is over at once: for tests, whose figures nobody believes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn short(system: &System, forced: bool) -> Result<Self, MeasureError> {
        let plan = Self::new(system, forced, Some(Duration::ZERO))?;
        Ok(Self {
            between: Duration::from_millis(5),
            ..plan
        })
    }

    /// Number of steps.
    pub const fn steps(&self) -> usize {
        self.conditions.len()
    }

    /// Planned time of all steps of the experiment.
    pub fn duration(&self) -> Duration {
        self.between * ((self.readings + SETTLING) * self.steps()) as u32
    }

    /// What the experiment will do, a sentence each, for people to read before.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = vec![
            "reads the energy and power that the machine tells, at rest and while CPUs spin"
                .to_owned(),
        ];
        if self.states.is_empty() {
            lines.push(
                "changes nothing: one idle state at a time needs root, menu or teo, and the same states on all CPUs"
                    .to_owned(),
            );
        } else {
            let names: Vec<&str> = self
                .states
                .iter()
                .map(|state| state.name.as_str())
                .collect();
            lines.push(format!(
                "allows one idle state at a time on all CPUs, by the disable files of the others: {}",
                names.join(", ")
            ));
        }
        lines.extend(self.clocks.iter().map(|clocks| {
            let mhz: Vec<String> = clocks.khz.iter().map(|khz| (khz / 1000).to_string()).collect();
            format!(
                "holds all CPUs at one clock after the other while they spin, by both frequency limits: {} MHz",
                mhz.join(", ")
            )
        }));
        lines.extend(self.drives.iter().map(|drive| {
            format!(
                "switches APST of {} off for one reading, so that the drive stays awake, and reads a block from it",
                drive.controller
            )
        }));
        lines.extend(self.governor.map(|governor| {
            format!("runs the idle governor {governor} meanwhile: the present one does not keep off disabled states")
        }));
        lines
    }

    /// The switch for a controller's drive.
    fn drives_of<'a>(&'a self, controller: &'a str) -> impl Iterator<Item = &'a ApstSwitch> {
        let drives = self.drives.iter();
        drives.filter(move |drive| drive.controller == controller)
    }

    /// Settings to change, each with a possible value.
    fn settings(&self) -> Vec<(SettingKey, String)> {
        let governor = find_setting("idle-governor")
            .and_then(|setting| SettingKey::for_matching_scope(setting, At::System));
        let mut all: Vec<(SettingKey, String)> = governor
            .zip(self.governor.map(str::to_owned))
            .into_iter()
            .collect();
        all.extend(self.clocks.iter().flat_map(MachineClocks::settings));
        let drives = self.drives.iter();
        all.extend(drives.map(|drive| (drive.key.clone(), drive.off.clone())));
        for cpu in &self.cpus {
            let keys = self
                .states
                .iter()
                .filter_map(|state| state_key(*cpu, state.index));
            all.extend(keys.map(|key| (key, "1".to_owned())));
        }
        all
    }
}

/// Idle states of the first CPU, if all CPUs have the same.
fn common_states(system: &System, cpus: &[usize]) -> Vec<StateInfo> {
    let Some(first) = cpus.first() else {
        return Vec::new();
    };
    let states = system.read_idle_states(*first);
    let own = state_names(system, *first);
    if cpus.iter().all(|cpu| state_names(system, *cpu) == own) {
        states
    } else {
        Vec::new()
    }
}

fn state_names(system: &System, cpu: usize) -> Vec<String> {
    let states = system.read_idle_states(cpu).into_iter();
    states.map(|state| state.name).collect()
}

/// Carries the plan out. All settings are put back when it returns.
///
/// # Errors
/// Another wakepath changes settings, a setting cannot be changed, or a signal came before the first figure.
pub fn measure(
    system: &System,
    plan: &PowerPlan,
    control: ExperimentControl<'_>,
) -> Result<PowerMeasurement, MeasureError> {
    let values = plan.settings();
    let hold = if values.is_empty() {
        None
    } else {
        Some(reserve_for_repeated_changes(system, values)?)
    };
    let conditions = Conditions::observe(system, control);
    let mut result = PowerMeasurement {
        sources: PowerSource::find_all_with_drives(system.root()),
        figures: Vec::new(),
        complete: false,
        notes: conditions.note_on_load().into_iter().collect(),
        conditions,
    };
    let outcome = run_conditions(system, plan, hold.as_ref(), &mut result, control);
    let released = hold.map_or(Ok(None), Hold::put_back_and_release);
    match MeasureError::combine_with_release(outcome, released.map_err(MeasureError::from))? {
        Ok(Some((_, restored))) => {
            result.notes.extend(restored.notes);
            result.notes.extend(restored.away);
        }
        Ok(None) => {}
        Err(error) => result.notes.push(error.to_string()),
    }
    result.complete = !control.is_cancelled();
    if result.figures.is_empty() {
        return Err(MeasureError::Cancelled);
    }
    result.set_differences(plan);
    if !plan.states.is_empty() {
        result.notes.push(
            "states are requested, not verified: whether the hardware went so deep takes residency counters".to_owned(),
        );
    }
    Ok(result)
}

fn run_conditions(
    system: &System,
    plan: &PowerPlan,
    hold: Option<&Hold>,
    result: &mut PowerMeasurement,
    control: ExperimentControl<'_>,
) -> Result<(), MeasureError> {
    let governor = find_setting("idle-governor")
        .and_then(|setting| SettingKey::for_matching_scope(setting, At::System));
    for condition in &plan.conditions {
        if control.is_cancelled() {
            break;
        }
        if let (PowerCondition::State(name), Some(hold)) = (condition, hold) {
            if let Some((key, value)) = governor.as_ref().zip(plan.governor) {
                hold.write_or_put_back(key, Some(value))?;
            }
            allow_only_state_of(plan, hold, name)?;
        }
        let prepared = hold.map_or(Ok(()), |hold| begin(system, plan, hold, condition));
        if let Err(why) = prepared {
            result
                .notes
                .push(format!("{}: not measured: {why}", condition.describe()));
            hold.map_or(Ok(()), |hold| end(plan, hold, condition))?;
            control.finish_step();
            continue;
        }
        let busy: &[usize] = match condition {
            PowerCondition::Busy(number) => &plan.cpus[..(*number).min(plan.cpus.len())],
            PowerCondition::BusyAt(_) => &plan.cpus,
            _ => &[],
        };
        let samples = with_busy_cpus(busy, || read_power(system, plan, &result.sources, control));
        for (source_index, (source, milliwatts)) in result.sources.iter().zip(samples).enumerate() {
            // A signal left too few for an interval.
            if milliwatts.len() < FEWEST_READINGS {
                continue;
            }
            if let Some(power) = PowerEstimate::of_readings(&milliwatts) {
                result.figures.push(PowerFigure {
                    source: source.name.clone(),
                    source_index,
                    condition: condition.clone(),
                    n: milliwatts.len(),
                    power,
                    above_rest: None,
                    each_cpu_above_deepest: None,
                });
            }
        }
        hold.map_or(Ok(()), |hold| end(plan, hold, condition))?;
        control.finish_step();
    }
    Ok(())
}

/// Sets the clock, or wakes the drive, for a condition.
fn begin(
    system: &System,
    plan: &PowerPlan,
    hold: &Hold,
    condition: &PowerCondition,
) -> Result<(), MeasureError> {
    match condition {
        PowerCondition::BusyAt(khz) => {
            let mut clocks = plan.clocks.iter();
            clocks.try_for_each(|clocks| clocks.hold_at(hold, *khz))
        }
        PowerCondition::DriveAwake(controller) => {
            for drive in plan.drives_of(controller) {
                hold.write_or_put_back(&drive.key, Some(&drive.off))?;
            }
            wake_drive(system, controller)
        }
        _ => Ok(()),
    }
}

/// Puts the settings by [`begin`] back; idle states stay for the next condition.
fn end(plan: &PowerPlan, hold: &Hold, condition: &PowerCondition) -> Result<(), MeasureError> {
    match condition {
        PowerCondition::BusyAt(_) => {
            let mut clocks = plan.clocks.iter();
            clocks.try_for_each(|clocks| clocks.put_back(hold))
        }
        PowerCondition::DriveAwake(controller) => {
            for drive in plan.drives_of(controller) {
                hold.write_or_put_back(&drive.key, None)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Reads a block past the page cache: with APST off, a drive stays awake after a request, and asleep until then.
fn wake_drive(system: &System, controller: &str) -> Result<(), MeasureError> {
    let root = system.root();
    let disks = root.list_names("sys/block").into_iter();
    let mut own =
        disks.filter(|disk| system.controller_of_namespace(disk).as_deref() == Some(controller));
    let disk = own.next().ok_or_else(|| {
        MeasureError::Impossible(format!("{controller} has no disk to read from"))
    })?;
    let path = format!("dev/{disk}");
    let mut buffer = AlignedBuffer::new(ALIGNMENT);
    let read = root
        .open_file(&path, OFlags::RDONLY | OFlags::DIRECT)
        .and_then(|file| Ok(rustix::io::pread(&file, buffer.bytes_mut(), 0)?));
    read.map(|_| ()).map_err(|source| MeasureError::Io {
        path: root.absolute_path(&path),
        action: "reading a block to wake the drive",
        source,
    })
}

/// NVMe drives with APST in force.
fn find_drives_with_apst(system: &System) -> Vec<ApstSwitch> {
    let controllers = system.nvme_controller_names().into_iter();
    controllers
        .filter_map(|controller| ApstSwitch::find_of_controller(system, controller))
        .collect()
}

/// Switches a state on, then the others off, on all CPUs.
fn allow_only_state_of(plan: &PowerPlan, hold: &Hold, name: &str) -> Result<(), MeasureError> {
    for value in ["0", "1"] {
        let meant = plan
            .states
            .iter()
            .filter(|state| (state.name == name) == (value == "0"));
        // First on, then off: a CPU is never without a state.
        for state in meant {
            for key in plan
                .cpus
                .iter()
                .filter_map(|cpu| state_key(*cpu, state.index))
            {
                hold.write_or_put_back(&key, Some(value))?;
            }
        }
    }
    Ok(())
}

/// Runs a measurement while some CPUs spin.
fn with_busy_cpus<T>(cpus: &[usize], measurement: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for cpu in cpus {
            let is_over = &is_over;
            scope.spawn(move || {
                // Unpinned threads spread over the CPUs, too.
                let _ = pin::pin_to(*cpu);
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = measurement();
        is_over.store(true, Ordering::Relaxed);
        result
    })
}

/// Power of each source in mW between readings, without those of the settling.
fn read_power(
    system: &System,
    plan: &PowerPlan,
    sources: &[PowerSource],
    control: ExperimentControl<'_>,
) -> Vec<Vec<f64>> {
    let root = system.root();
    let mut samples = vec![Vec::new(); sources.len()];
    let mut at = Instant::now();
    let mut before = read_all(root, sources);
    for reading in 0..plan.readings + SETTLING {
        control.sleep(plan.between);
        if control.is_cancelled() {
            break;
        }
        let after = read_all(root, sources);
        let seconds = at.elapsed().as_secs_f64();
        at = Instant::now();
        for (index, source) in sources.iter().enumerate() {
            let both = before[index].zip(after[index]);
            let power = both.and_then(|(then, now)| source.milliwatts(then, now, seconds));
            samples[index].extend(power.filter(|_| reading >= SETTLING));
        }
        before = after;
    }
    samples
}

fn read_all(root: &Root, sources: &[PowerSource]) -> Vec<Option<PowerReading>> {
    sources.iter().map(|source| source.read(root)).collect()
}

impl PowerEstimate {
    /// Mean of readings in mW; `None` without any.
    fn of_readings(milliwatts: &[f64]) -> Option<Self> {
        let (mw, reach) = mean_with_reach(milliwatts)?;
        Some(Self {
            mw,
            low: (mw - reach).max(0.0),
            high: mw + reach,
        })
    }

    /// The difference to another, independent estimate, for each of so many parts.
    fn minus_for_each(self, other: Self, parts: usize) -> Self {
        let parts = parts.max(1) as f64;
        let mw = (self.mw - other.mw) / parts;
        let below = (self.mw - self.low).hypot(other.high - other.mw) / parts;
        let above = (self.high - self.mw).hypot(other.mw - other.low) / parts;
        Self {
            mw,
            low: mw - below,
            high: mw + above,
        }
    }
}

impl PowerCondition {
    /// The condition in words.
    pub fn describe(&self) -> String {
        match self {
            Self::Rest => "at rest, as it is".to_owned(),
            Self::Busy(1) => "1 CPU busy".to_owned(),
            Self::Busy(number) => format!("{number} CPUs busy"),
            Self::BusyAt(khz) => format!("all CPUs busy at {} MHz", khz / 1000),
            Self::DriveAwake(controller) => format!("at rest, {controller} kept awake"),
            Self::State(name) => format!("at rest, only {name} allowed"),
        }
    }
}

impl PowerMeasurement {
    /// Sets differences to rest, and each CPU's power in a state beyond the deepest.
    fn set_differences(&mut self, plan: &PowerPlan) {
        let at_rest = self.powers_under(&PowerCondition::Rest);
        for figure in &mut self.figures {
            let reference = at_rest.get(&figure.source_index);
            figure.above_rest = reference
                .filter(|_| figure.condition != PowerCondition::Rest)
                .map(|rest| figure.power.minus_for_each(*rest, 1));
        }
        let Some(deepest) = plan.states.last() else {
            return;
        };
        let deepest = PowerCondition::State(deepest.name.clone());
        let references = self.powers_under(&deepest);
        for figure in &mut self.figures {
            let is_state = matches!(figure.condition, PowerCondition::State(_));
            let reference = references.get(&figure.source_index);
            figure.each_cpu_above_deepest = reference
                .filter(|_| is_state)
                .map(|power| figure.power.minus_for_each(*power, plan.cpus.len()));
        }
    }

    /// Power under a condition by source.
    fn powers_under(&self, condition: &PowerCondition) -> BTreeMap<usize, PowerEstimate> {
        let figures = self.figures.iter();
        figures
            .filter(|figure| figure.condition == *condition)
            .map(|figure| (figure.source_index, figure.power))
            .collect()
    }
}

/// Power of one or more sources that do not overlap, under a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct CombinedPower {
    /// Names of the sources.
    pub sources: Vec<String>,
    /// Fewest readings of a source.
    pub n: usize,
    /// Sum of the sources.
    pub power: PowerEstimate,
}

impl PowerMeasurement {
    /// What all processor packages draw by RAPL. `None`: one of them was not read under this condition, or none tells.
    pub fn package_power(&self, condition: &PowerCondition) -> Option<CombinedPower> {
        let sources = self.sources.iter().enumerate();
        let packages = sources.filter(|(_, source)| source.is_package());
        let figures: Option<Vec<&PowerFigure>> = packages
            .map(|(index, _)| self.find_figure(index, condition))
            .collect();
        CombinedPower::add_up(&figures?)
    }

    /// What the whole machine draws, by the first source that tells. `None`: no source does.
    pub fn machine_power(&self, condition: &PowerCondition) -> Option<CombinedPower> {
        let sources = self.sources.iter().enumerate();
        let found = sources
            .filter(|(_, source)| PowerSource::is_whole_machine(source))
            .find_map(|(index, _)| self.find_figure(index, condition))?;
        CombinedPower::add_up(&[found])
    }

    fn find_figure(&self, source_index: usize, condition: &PowerCondition) -> Option<&PowerFigure> {
        let mut figures = self.figures.iter();
        figures.find(|figure| figure.source_index == source_index && figure.condition == *condition)
    }
}

impl CombinedPower {
    /// The sum of independent figures; `None` without any.
    fn add_up(figures: &[&PowerFigure]) -> Option<Self> {
        let n = figures.iter().map(|figure| figure.n).min()?;
        let mw: f64 = figures.iter().map(|figure| figure.power.mw).sum();
        let powers = figures.iter().map(|figure| figure.power);
        let [below, above] = powers.fold([0.0, 0.0], |[below, above]: [f64; 2], power| {
            [
                below.hypot(power.mw - power.low),
                above.hypot(power.high - power.mw),
            ]
        });
        Some(Self {
            sources: figures.iter().map(|figure| figure.source.clone()).collect(),
            n,
            power: PowerEstimate {
                mw,
                low: mw - below,
                high: mw + above,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(source_index: usize, state: &str, mw: f64) -> PowerFigure {
        PowerFigure {
            // Two chips of one kind.
            source: "ina226 power1_input".to_owned(),
            source_index,
            condition: PowerCondition::State(state.to_owned()),
            n: 3,
            power: PowerEstimate {
                mw,
                low: mw,
                high: mw,
            },
            above_rest: None,
            each_cpu_above_deepest: None,
        }
    }

    #[test]
    fn each_source_is_compared_with_itself() {
        let state = |name: &str, index: usize| StateInfo {
            name: name.to_owned(),
            index,
            latency_us: 1,
            residency_us: 1,
            residency_assumed: false,
            polling: false,
            off_by_default: false,
            disabled: false,
        };
        let plan = PowerPlan {
            cpus: vec![0, 1],
            states: vec![state("C1", 0), state("C6", 1)],
            governor: None,
            clocks: None,
            drives: Vec::new(),
            conditions: Vec::new(),
            readings: FEWEST_READINGS,
            between: BETWEEN_READINGS,
        };
        let mut result = PowerMeasurement {
            conditions: Conditions {
                date: "2026-11-27".to_owned(),
                kernel: "6.12.48".to_owned(),
                busy_percent: None,
                stolen_percent: None,
            },
            sources: Vec::new(),
            figures: vec![
                figure(0, "C6", 1000.0),
                figure(1, "C6", 5000.0),
                figure(0, "C1", 3000.0),
                figure(1, "C1", 9000.0),
            ],
            complete: true,
            notes: Vec::new(),
        };
        result.set_differences(&plan);
        let above = result
            .figures
            .iter()
            .map(|figure| figure.each_cpu_above_deepest.unwrap().mw);
        assert_eq!(above.collect::<Vec<_>>(), [0.0, 0.0, 1000.0, 2000.0]);
        let without_rest = result.figures.iter().all(|f| f.above_rest.is_none());
        assert!(without_rest);

        let with_condition = |condition, mw| PowerFigure {
            condition,
            ..figure(0, "C1", mw)
        };
        result.figures = vec![
            with_condition(PowerCondition::Rest, 1200.0),
            with_condition(PowerCondition::BusyAt(800_000), 4200.0),
            with_condition(PowerCondition::DriveAwake("nvme0".to_owned()), 1500.0),
        ];
        result.set_differences(&plan);
        let above = result.figures.iter().map(|f| f.above_rest.map(|p| p.mw));
        assert_eq!(above.collect::<Vec<_>>(), [None, Some(3000.0), Some(300.0)]);
    }

    fn figure_at_rest(source_index: usize, mw: f64, reach: f64) -> PowerFigure {
        PowerFigure {
            source: format!("source {source_index}"),
            source_index,
            condition: PowerCondition::Rest,
            n: 5 + source_index,
            power: PowerEstimate {
                mw,
                low: mw - reach,
                high: mw + reach,
            },
            above_rest: None,
            each_cpu_above_deepest: None,
        }
    }

    #[test]
    fn packages_add_up_and_parts_of_them_do_not() {
        let names = ["package-0", "core (intel-rapl:0:0)", "package-1", "psys"];
        let mut measured = PowerMeasurement {
            conditions: Conditions::of_recording("6.12.48".to_owned()),
            sources: names
                .map(|name| PowerSource::energy_counter(name, "none", 0))
                .to_vec(),
            figures: vec![
                figure_at_rest(0, 1_000.0, 30.0),
                figure_at_rest(1, 400.0, 10.0),
                figure_at_rest(2, 2_000.0, 40.0),
                figure_at_rest(3, 9_000.0, 1.0),
            ],
            complete: true,
            notes: Vec::new(),
        };
        let sum = measured.package_power(&PowerCondition::Rest).unwrap();
        assert_eq!(sum.sources, ["source 0", "source 2"]);
        assert_eq!(sum.n, 5);
        assert!((sum.power.mw - 3_000.0).abs() < 1e-9 && (sum.power.low - 2_950.0).abs() < 1e-9);
        let whole = measured.machine_power(&PowerCondition::Rest).unwrap();
        assert!((whole.power.mw - 9_000.0).abs() < 1e-9);
        assert_eq!(measured.package_power(&PowerCondition::Busy(1)), None);
        // Half of a machine is no sum.
        measured.figures.remove(2);
        assert_eq!(measured.package_power(&PowerCondition::Rest), None);
    }
}
