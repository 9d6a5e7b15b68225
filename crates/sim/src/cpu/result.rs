//! What a run says of CPUs and their idle states.

use std::ops::Range;

use serde::Serialize;
use wakepath_hardware::IdleStates;

use crate::cpu::totals::{CpuTotals, StateTotals};

/// Time in an idle state.
#[derive(Clone, Debug, Serialize)]
pub struct StateTime {
    /// The state's name.
    pub name: String,
    /// Seconds from entry to exit, exit latency included.
    pub seconds: f64,
    /// Times entered.
    pub entries: u64,
    /// Too short for it, by the true idle time.
    pub too_deep: u64,
    /// Long enough for a deeper state, by the true idle time.
    pub too_shallow: u64,
    /// The kernel's `above`.
    pub above: u64,
    /// The kernel's `below`.
    pub below: u64,
}

/// What one CPU did.
#[derive(Clone, Debug, Serialize)]
pub struct CpuTime {
    /// Number of the CPU.
    pub cpu: usize,
    /// Seconds spent with tasks and interrupts.
    pub busy_seconds: f64,
    /// Seconds powered: busy, waking up or polling. The rest it was asleep.
    pub powered_seconds: f64,
    /// Seconds asleep.
    pub asleep_seconds: f64,
    /// Decisions of the governor that stopped a running tick.
    pub tick_stops: u64,
    /// Idle periods that began without a tick: it was stopped then, or had been before (`idle_sleeps` of `/proc/timer_list`).
    pub tickless: u64,
    /// Ticks that came while it was idle.
    pub idle_ticks: u64,
    /// Idle periods that have begun: times that it will have woken up.
    pub wake_ups: u64,
    /// Decisions of the governor.
    pub selections: u64,
    /// Seconds in each idle state.
    pub idle_seconds: Vec<f64>,
    /// Requests for a deep state that the hardware demoted; the state's own figures count them.
    pub demotions: u64,
    /// Those of them that stayed long enough to go on to the state asked for.
    pub undemotions: u64,
}

/// The idle states of a cluster's CPUs.
#[derive(Clone, Debug)]
pub struct ClusterDetails {
    /// Time spent with tasks and interrupts, in ns.
    pub busy: u64,
    /// Its states, shallowest first.
    pub states: Vec<StateDetails>,
    /// Every state that was entered with every state that would have fitted.
    pub fits: Vec<FitDetails>,
    /// Time powered by frequency in kHz, in ns.
    pub powered: Vec<(u32, u64)>,
}

/// An idle state of a cluster's CPUs.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateDetails {
    /// Entry to exit, in ns, exit latency included.
    pub time: u64,
    /// Times entered.
    pub entries: u64,
    /// Stays that the kernel counts as too deep (`above` in sysfs).
    pub above: u64,
    /// Stays that the kernel counts as too shallow (`below` in sysfs).
    pub below: u64,
}

/// Finished idle periods in a state, of those for which a certain one would have fitted: the deepest enabled state whose
/// target residency is within the time from entry until the event that ended the idle period, which no governor can
/// know, else the shallowest enabled one.
#[derive(Clone, Copy, Debug)]
pub struct FitDetails {
    /// Index of the state that was entered.
    pub entered: usize,
    /// Index of the state that would have fitted.
    pub fitting: usize,
    /// How many.
    pub periods: u64,
    /// From entry until the event, in ns.
    pub idle: u64,
    /// From the event until the CPU was ready to work, in ns.
    pub wake: u64,
}

impl StateTime {
    /// The idle states over all CPUs.
    pub(crate) fn all(states: &IdleStates, cpus: &[CpuTotals]) -> Vec<Self> {
        let names = states.iter().map(|state| state.name.clone());
        let times = names.enumerate().map(|(state, name)| Self {
            name,
            seconds: sum(cpus, state, |totals| totals.time) as f64 / 1e9,
            entries: sum(cpus, state, |totals| totals.entries),
            too_deep: periods(cpus, state, 0..state),
            too_shallow: periods(cpus, state, state + 1..states.len()),
            above: sum(cpus, state, |totals| totals.above),
            below: sum(cpus, state, |totals| totals.below),
        });
        times.collect()
    }
}

/// What was counted of an idle state over all CPUs.
fn sum(cpus: &[CpuTotals], state: usize, count: fn(&StateTotals) -> u64) -> u64 {
    cpus.iter().map(|cpu| count(&cpu.states[state])).sum()
}

/// Idle periods of all CPUs in one state, for which one of these states would have fitted.
fn periods(cpus: &[CpuTotals], entered: usize, fitting: Range<usize>) -> u64 {
    let periods = cpus.iter().map(|cpu| cpu.periods(entered, fitting.clone()));
    periods.sum()
}

impl CpuTime {
    pub(crate) fn new(cpu: usize, totals: &CpuTotals) -> Self {
        let states = totals.states.iter();
        Self {
            cpu,
            busy_seconds: totals.busy as f64 / 1e9,
            powered_seconds: totals.powered.iter().sum::<u64>() as f64 / 1e9,
            asleep_seconds: states.clone().map(|s| s.asleep).sum::<u64>() as f64 / 1e9,
            tick_stops: totals.tick_stops,
            tickless: totals.tickless,
            idle_ticks: totals.idle_ticks,
            wake_ups: states.clone().map(|s| s.entries).sum(),
            selections: totals.selections,
            demotions: totals.demotions,
            undemotions: totals.undemotions,
            idle_seconds: states.map(|s| s.time as f64 / 1e9).collect(),
        }
    }
}

impl ClusterDetails {
    pub(crate) fn new(cpus: &[CpuTotals], states: usize, khz: &[u32]) -> Self {
        let mut of_states = vec![StateDetails::default(); states];
        let mut fits = vec![];
        for (state, sum) in of_states.iter_mut().enumerate() {
            for cpu in cpus {
                let totals = &cpu.states[state];
                sum.time += totals.time;
                sum.entries += totals.entries;
                sum.above += totals.above;
                sum.below += totals.below;
            }
        }
        for (entered, fitting) in (0..states).flat_map(|e| (0..states).map(move |f| (e, f))) {
            let mut sum = FitDetails {
                entered,
                fitting,
                periods: 0,
                idle: 0,
                wake: 0,
            };
            for cpu in cpus {
                let fit = &cpu.fits[entered * states + fitting];
                sum.periods += fit.periods;
                sum.idle += fit.idle;
                sum.wake += fit.wake;
            }
            if sum.periods > 0 {
                fits.push(sum);
            }
        }
        let at = |opp: usize| cpus.iter().filter_map(|c| c.powered.get(opp)).sum::<u64>();
        let powered = khz.iter().enumerate().map(|(opp, khz)| (*khz, at(opp)));
        Self {
            busy: cpus.iter().map(|c| c.busy).sum(),
            states: of_states,
            fits,
            powered: powered.filter(|(_, time)| *time > 0).collect(),
        }
    }
}
