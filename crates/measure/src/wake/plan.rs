//! Plan of an experiment on wake-ups: CPUs, states, duration.

use std::time::Duration;

use serde::Serialize;
use wakepath_system::setting::find_setting;
use wakepath_system::{At, SettingKey, StateInfo, System};
use wakepath_units::{Nanoseconds, cpus};

use crate::MeasureError;

/// What wakes a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WakeSource {
    /// A task on another CPU: a store where the state monitors memory, else an inter-processor interrupt.
    Task,
    /// A timer of the sleeping CPU. Hardware that wakes before the deadline makes this shorter.
    Timer,
    /// A read's completion by a drive.
    Drive,
}

impl WakeSource {
    /// `task`, `timer` or `drive`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Timer => "timer",
            Self::Drive => "drive",
        }
    }
}

/// A clock that the measured CPUs are held at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HeldClock {
    /// Lowest clock of the hardware.
    Lowest,
    /// Highest clock of the hardware.
    Highest,
}

/// Frequency limits of a measured CPU's policy, and the clock to hold.
#[derive(Clone, Debug)]
pub(crate) struct ClockLimits {
    /// Settings in the order of writing: the minimum never exceeds the maximum.
    pub(crate) keys: [SettingKey; 2],
    pub(crate) khz: u64,
}

/// CPUs with the same core type and idle states, represented by a measured CPU.
#[derive(Clone, Debug)]
pub struct CpuGroup {
    /// Measured CPU: the last, because system work prefers the first CPUs.
    pub cpu: usize,
    /// All CPUs alike.
    pub cpus: Vec<usize>,
    /// Idle states, shallowest first.
    pub states: Vec<StateInfo>,
}

/// When a CPU is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeMoment {
    /// Long after it fell asleep, while another CPU is busy.
    Settled,
    /// So soon that it may be on its way into the state.
    Entering,
    /// Long after it fell asleep, while all other CPUs rest.
    AtRest,
}

/// An idle state and a wake-up source to measure.
#[derive(Clone, Debug)]
pub(crate) struct WakeStep {
    /// Index into the plan's kinds.
    pub(crate) kind: usize,
    /// The only state allowed; `None`: as the governor picks.
    pub(crate) state: Option<usize>,
    pub(crate) source: WakeSource,
    pub(crate) moment: WakeMoment,
}

/// Rounds in which all steps are repeated, so that a drift meets all states alike.
pub(crate) const ROUNDS: usize = 10;
/// Time of a step in a round.
const STEP_TIME: Duration = Duration::from_millis(700);
/// Shortest time of a step in a round.
const SHORTEST_STEP: Duration = Duration::from_millis(10);
/// The shortest pause: entering a state takes time.
const SHORTEST_GAP: Nanoseconds = Nanoseconds::from_micros(30);
/// The shortest pause before a wake-up that may come within the entry.
const SHORTEST_EARLY_GAP: Nanoseconds = Nanoseconds::from_micros(1);
/// The longest such pause: at least, and at most.
const LONGEST_EARLY_GAP: [Nanoseconds; 2] =
    [Nanoseconds::from_micros(50), Nanoseconds::from_millis(2)];
/// The longest early pause over the declared exit latency, which has the entry in it.
const EARLY_GAP_PER_EXIT: u64 = 2;
/// Shortest and longest pause in which a package may sleep.
const GAPS_AT_REST: [Nanoseconds; 2] = [Nanoseconds::from_millis(1), Nanoseconds::from_millis(10)];

/// Steps of an experiment on wake-ups.
#[derive(Clone, Debug)]
pub struct WakePlan {
    pub(crate) kinds: Vec<CpuGroup>,
    pub(crate) steps: Vec<WakeStep>,
    pub(crate) step_time: Duration,
    /// Whether states are allowed one at a time; else the governor picks.
    pub(crate) forced: bool,
    /// Whether the driver gives states the hardware's names: `C6` of `acpi_idle` may be any.
    pub(crate) names_hardware_states: bool,
    /// Replacement for a governor without respect for disabled states.
    pub(crate) governor: Option<&'static str>,
    /// Clocks to hold, by kind.
    pub(crate) clocks: Vec<ClockLimits>,
    /// The same steps at other clocks, carried out afterwards.
    pub(crate) at_other_clocks: Vec<WakePlan>,
}

impl WakePlan {
    /// Longest pause before a wake-up, unless a target residency asks for more.
    pub const LONGEST_PAUSE: Nanoseconds = Nanoseconds::from_millis(10);

    /// Plans the experiment. `forced`: one state at a time, which needs root. `time`: how long all steps take together.
    ///
    /// # Errors
    /// The machine has no idle states, or a single CPU, or no governor that keeps off disabled states.
    pub fn new(
        system: &System,
        sources: &[WakeSource],
        forced: bool,
        time: Option<Duration>,
    ) -> Result<Self, MeasureError> {
        let mut kinds = group_cpus(system);
        if forced {
            kinds.retain(|kind| !kind.states.is_empty());
        }
        if kinds.is_empty() && forced {
            return Err(MeasureError::Impossible(
                "this machine has no idle states to measure: sys/devices/system/cpu/cpu*/cpuidle is empty, because no \
                 cpuidle driver runs"
                    .to_owned(),
            ));
        }
        if system.cpus().len() < 2 {
            return Err(MeasureError::Impossible(
                "measuring wake-ups takes two CPUs online, one that sleeps and one that wakes it"
                    .to_owned(),
            ));
        }
        let governor = if forced {
            choose_governor(system)?
        } else {
            None
        };
        let mut steps = Vec::new();
        for (index, kind) in kinds.iter().enumerate() {
            let states: Vec<Option<usize>> = if forced {
                kind.states.iter().map(|state| Some(state.index)).collect()
            } else {
                vec![None]
            };
            for state in states {
                steps.extend(sources.iter().map(|source| WakeStep {
                    kind: index,
                    state,
                    source: *source,
                    moment: WakeMoment::Settled,
                }));
            }
            if forced {
                steps.extend(steps_beside_settled(index, kind, sources));
            }
        }
        let step_time = time.map_or(STEP_TIME, |time| {
            (time / (steps.len().max(1) * ROUNDS) as u32).max(SHORTEST_STEP)
        });
        Ok(Self {
            kinds,
            steps,
            step_time,
            forced,
            names_hardware_states: has_driver_with_hardware_names(system),
            governor,
            clocks: Vec::new(),
            at_other_clocks: Vec::new(),
        })
    }

    /// Plans the experiment with the governor's clock, and again at the lowest and at the highest clock, where both can be
    /// held and differ. `time`: for all together.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_both_clocks_beside(
        system: &System,
        sources: &[WakeSource],
        forced: bool,
        time: Duration,
    ) -> Result<Self, MeasureError> {
        let third = Self::new(system, sources, forced, Some(time / 3))?;
        let lowest = third.clone().and_at(system, HeldClock::Lowest);
        match lowest.and_then(|plan| plan.and_at(system, HeldClock::Highest)) {
            Ok(all) if all.has_two_clocks() => Ok(all),
            Ok(_) | Err(_) => Self::new(system, sources, forced, Some(time)),
        }
    }

    /// Adds the same steps at another clock, carried out afterwards.
    ///
    /// # Errors
    /// As [`Self::with_clock`].
    pub fn and_at(mut self, system: &System, clock: HeldClock) -> Result<Self, MeasureError> {
        let own_steps = Self {
            clocks: Vec::new(),
            at_other_clocks: Vec::new(),
            ..self.clone()
        };
        let again = own_steps.with_clock(system, clock)?;
        self.at_other_clocks.push(again);
        Ok(self)
    }

    /// Whether a CPU is held at two different clocks.
    fn has_two_clocks(&self) -> bool {
        let mut clocks = self.all_clocks().map(|limits| limits.khz);
        let first = clocks.next();
        clocks.any(|khz| Some(khz) != first)
    }

    fn all_clocks(&self) -> impl Iterator<Item = &ClockLimits> {
        let others = self.at_other_clocks.iter().flat_map(|plan| &plan.clocks);
        self.clocks.iter().chain(others)
    }

    /// Holds the measured CPUs at a clock, which needs root.
    ///
    /// # Errors
    /// States cannot be forced either, or a measured CPU has no frequency policy.
    pub fn with_clock(mut self, system: &System, clock: HeldClock) -> Result<Self, MeasureError> {
        if !self.forced {
            let why = "holding a clock needs root".to_owned();
            return Err(MeasureError::Impossible(why));
        }
        for kind in &self.kinds {
            let limits = find_limits(system, kind.cpu, clock).ok_or_else(|| {
                MeasureError::Impossible(format!(
                    "CPU {} has no frequency policy with cpuinfo_min_freq and cpuinfo_max_freq; expected a cpufreq driver",
                    kind.cpu
                ))
            })?;
            self.clocks.push(limits);
        }
        Ok(self)
    }

    /// Number of steps, over all rounds.
    pub fn steps(&self) -> usize {
        let others: usize = self.at_other_clocks.iter().map(Self::steps).sum();
        self.steps.len() * ROUNDS + others
    }

    /// Planned time of all steps of the experiment.
    pub fn duration(&self) -> Duration {
        let others: Duration = self.at_other_clocks.iter().map(Self::duration).sum();
        self.step_time * (self.steps.len() * ROUNDS) as u32 + others
    }

    /// What the experiment will do, a sentence each, for people to read before.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for kind in &self.kinds {
            let states: Vec<&str> = kind
                .states
                .iter()
                .map(|state| state.name.as_str())
                .collect();
            let alike = match kind.cpus.len() {
                1 => String::new(),
                n => format!(", which stands for {n} CPUs alike"),
            };
            lines.push(format!(
                "wakes CPU {}{alike} from: {}",
                kind.cpu,
                states.join(", ")
            ));
        }
        if self.forced {
            lines.push(
                "allows one idle state at a time on that CPU, by the disable files of the others"
                    .to_owned(),
            );
            lines.push(
                "wakes it again right after it fell asleep, for the cost of the entry; and by its timer while all CPUs rest, for the package"
                    .to_owned(),
            );
        } else {
            lines.push(
                "changes nothing: the governor picks the states, so there is one coarse figure for each CPU (one state at a time needs root)"
                    .to_owned(),
            );
        }
        lines.extend(self.governor.map(|governor| {
            format!("runs the idle governor {governor} meanwhile: the present one does not keep off disabled states")
        }));
        lines.extend(
            self.clocks
                .iter()
                .map(|limits| format!("holds {} at {} MHz", limits.keys[0].at, limits.khz / 1000)),
        );
        lines.push("keeps the waking CPU busy otherwise".to_owned());
        let others = self.at_other_clocks.iter().flat_map(|plan| &plan.clocks);
        lines.extend(others.map(|limits| {
            let mhz = limits.khz / 1000;
            format!(
                "then does the same with {} held at {mhz} MHz",
                limits.keys[0].at
            )
        }));
        lines
    }

    /// A note on kinds of CPUs, whose exits go into tables of their own; `None` for a single kind.
    pub(super) fn note_on_several_kinds(&self) -> Option<String> {
        let mut measured: Vec<u32> = self.kinds.iter().map(|kind| kind.cpu as u32).collect();
        measured.sort_unstable();
        (measured.len() > 1).then(|| {
            format!(
                "kinds of CPUs differ, and CPUs {} stand for theirs: exits and entries go into [[cluster.idle_state]] of each kind",
                cpus::format_cpu_list(&measured)
            )
        })
    }

    /// Settings to change, each with a possible value.
    pub(crate) fn settings(&self) -> Vec<(SettingKey, String)> {
        let mut all = Vec::new();
        if !self.forced {
            return all;
        }
        let governor = find_setting("idle-governor")
            .and_then(|setting| SettingKey::for_matching_scope(setting, At::System));
        all.extend(governor.zip(self.governor.map(str::to_owned)));
        for limits in &self.clocks {
            let khz = limits.khz.to_string();
            all.extend(limits.keys.iter().map(|key| (key.clone(), khz.clone())));
        }
        for kind in &self.kinds {
            let keys = kind.states.iter();
            all.extend(keys.filter_map(|s| Some((state_key(kind.cpu, s.index)?, "1".to_owned()))));
        }
        all
    }

    /// The only state that a step allows; `None` where the governor picks.
    pub(super) fn state_of_step(&self, step: &WakeStep) -> Option<&StateInfo> {
        let mut states = self.kinds[step.kind].states.iter();
        states.find(|state| Some(state.index) == step.state)
    }

    /// Shortest and longest pause before a wake-up from a state.
    pub(crate) fn gaps(&self, step: &WakeStep) -> [Nanoseconds; 2] {
        let state = self.state_of_step(step);
        let residency = state.map_or(0, |state| state.residency_us);
        let settled = Nanoseconds::from_micros(residency.saturating_mul(2));
        match step.moment {
            WakeMoment::Settled => {
                let shortest = settled.max(SHORTEST_GAP);
                [shortest, Self::LONGEST_PAUSE.max(twice(shortest))]
            }
            WakeMoment::Entering => {
                let exit = state.map_or(0, |state| state.latency_us);
                let longest = Nanoseconds::from_micros(exit.saturating_mul(EARLY_GAP_PER_EXIT));
                let [least, most] = LONGEST_EARLY_GAP;
                [SHORTEST_EARLY_GAP, longest.clamp(least, most)]
            }
            WakeMoment::AtRest => {
                let shortest = settled.max(GAPS_AT_REST[0]);
                [shortest, GAPS_AT_REST[1].max(twice(shortest))]
            }
        }
    }
}

const fn twice(gap: Nanoseconds) -> Nanoseconds {
    Nanoseconds(gap.0.saturating_mul(2))
}

/// Whether the idle driver is the one that names states as the hardware does.
fn has_driver_with_hardware_names(system: &System) -> bool {
    const DRIVER: &str = "sys/devices/system/cpu/cpuidle/current_driver";
    system.root().read_text_if_readable(DRIVER).as_deref() == Some("intel_idle")
}

/// Steps for what sleeping states cost beyond their exit: each one's entry, and the package's sleep below the deepest.
fn steps_beside_settled(kind: usize, group: &CpuGroup, sources: &[WakeSource]) -> Vec<WakeStep> {
    let mut sleeping = group.states.iter().filter(|state| !state.polling);
    let mut steps = Vec::new();
    if sources.contains(&WakeSource::Task) {
        steps.extend(sleeping.clone().map(|state| WakeStep {
            kind,
            state: Some(state.index),
            source: WakeSource::Task,
            moment: WakeMoment::Entering,
        }));
    }
    if sources.contains(&WakeSource::Timer) {
        steps.extend(sleeping.next_back().map(|deepest| WakeStep {
            kind,
            state: Some(deepest.index),
            source: WakeSource::Timer,
            moment: WakeMoment::AtRest,
        }));
    }
    steps
}

/// The `disable` file of a CPU's state.
pub(crate) fn state_key(cpu: usize, state: usize) -> Option<SettingKey> {
    SettingKey::for_matching_scope(
        find_setting("idle-state-off")?,
        At::IdleState { cpu, state },
    )
}

/// Frequency limits of a CPU's policy; `None` without a policy.
pub(crate) fn find_limits(system: &System, cpu: usize, clock: HeldClock) -> Option<ClockLimits> {
    let policies = system.active_cpufreq_policies();
    let mut owners = policies.into_iter();
    let policy =
        owners.find(|policy| system.online_cpus_of_cpufreq_policy(*policy).contains(&cpu))?;
    let (file, names) = match clock {
        HeldClock::Lowest => ("cpuinfo_min_freq", ["frequency-min", "frequency-max"]),
        HeldClock::Highest => ("cpuinfo_max_freq", ["frequency-max", "frequency-min"]),
    };
    let [first, second] = names
        .map(|name| SettingKey::for_matching_scope(find_setting(name)?, At::CpufreqPolicy(policy)));
    let khz = system
        .root()
        .read_number_if_readable(&first.as_ref()?.sibling_file_path(file))?;
    Some(ClockLimits {
        keys: [first?, second?],
        khz,
    })
}

/// Groups online CPUs by core type and idle states: performance and efficiency cores may declare the same states, and take
/// different times to leave them.
fn group_cpus(system: &System) -> Vec<CpuGroup> {
    let mut kinds: Vec<CpuGroup> = Vec::new();
    for cpus in system.cpus_by_core_type() {
        let first_of_type = kinds.len();
        for cpu in cpus {
            let states = system.read_idle_states(cpu);
            let known = kinds[first_of_type..]
                .iter_mut()
                .find(|kind| have_same_states(&kind.states, &states));
            match known {
                Some(kind) => {
                    kind.cpus.push(cpu);
                    kind.cpu = cpu;
                    kind.states = states;
                }
                None => kinds.push(CpuGroup {
                    cpu,
                    cpus: vec![cpu],
                    states,
                }),
            }
        }
    }
    kinds
}

fn have_same_states(one: &[StateInfo], other: &[StateInfo]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(a, b)| {
            (&a.name, a.latency_us, a.residency_us) == (&b.name, b.latency_us, b.residency_us)
        })
}

/// A governor to run meanwhile: `menu` and `teo` keep off disabled states, `ladder` and `haltpoll` do not
/// (`drivers/cpuidle/governors`, Linux 6.12). `None`: the present one will do.
pub(crate) fn choose_governor(system: &System) -> Result<Option<&'static str>, MeasureError> {
    const OBEDIENT: [&str; 2] = ["menu", "teo"];
    let present = system.read_idle_governor().unwrap_or_default();
    if OBEDIENT.contains(&present.as_str()) {
        return Ok(None);
    }
    let listed = system
        .root()
        .read_text_if_readable("sys/devices/system/cpu/cpuidle/available_governors")
        .unwrap_or_default();
    let known: Vec<&str> = listed.split_whitespace().collect();
    let chosen = OBEDIENT.iter().find(|name| known.contains(name));
    chosen.copied().map(Some).ok_or_else(|| {
        MeasureError::Impossible(format!(
            "the idle governor '{present}' does not keep off disabled states, and this kernel has neither menu nor teo"
        ))
    })
}
