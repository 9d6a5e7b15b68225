//! A run's figures about CPUs and idle states.

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
    /// How often the idle state was entered.
    pub entries: u64,
    /// Idle periods too short for the state, by the true idle time.
    pub too_deep: u64,
    /// Idle periods long enough for a deeper state, by the true idle time.
    pub too_shallow: u64,
    /// Idle periods that the kernel's `above` counter in sysfs counts as too deep.
    pub above: u64,
    /// Idle periods that the kernel's `below` counter in sysfs counts as too shallow.
    pub below: u64,
}

/// One CPU's figures.
#[derive(Clone, Debug, Serialize)]
pub struct CpuTime {
    /// CPU number.
    pub cpu: usize,
    /// Seconds spent with tasks and interrupts.
    pub busy_seconds: f64,
    /// Seconds powered: busy, waking up or polling; asleep otherwise.
    pub powered_seconds: f64,
    /// Seconds asleep.
    pub asleep_seconds: f64,
    /// Governor decisions to stop a running tick.
    pub tick_stops: u64,
    /// Idle periods without a tick from the beginning: stopped then, or before (`idle_sleeps` in `/proc/timer_list`).
    pub tickless: u64,
    /// Ticks that came while the CPU was idle.
    pub idle_ticks: u64,
    /// Idle periods begun, and so wake-ups.
    pub wake_ups: u64,
    /// Governor decisions.
    pub selections: u64,
    /// Seconds in each idle state.
    pub idle_seconds: Vec<f64>,
    /// Requests for a deep state, demoted by the hardware; the state's own figures count them.
    pub demotions: u64,
    /// Demoted requests long enough to go on to the state asked for.
    pub undemotions: u64,
}

/// A cluster's idle states.
#[derive(Clone, Debug)]
pub struct ClusterDetails {
    /// Time spent with tasks and interrupts, in ns.
    pub busy: u64,
    /// The cluster's idle states, shallowest first.
    pub states: Vec<StateDetails>,
    /// Idle periods by entered state and by the state that would have fitted.
    pub fits: Vec<FitDetails>,
    /// Time powered by frequency in kHz, in ns.
    pub powered: Vec<(u32, u64)>,
}

/// A cluster's idle state.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateDetails {
    /// Time in the state from entry to exit, in ns, exit latency included.
    pub time: u64,
    /// How often the idle state was entered.
    pub entries: u64,
    /// Stays counted as too deep by the kernel (`above` in sysfs).
    pub above: u64,
    /// Stays counted as too shallow by the kernel (`below` in sysfs).
    pub below: u64,
}

/// Finished idle periods in a state, with the same fitting state: the deepest enabled state with a target residency
/// within the time from entry until the ending event, unknown to any governor, else the shallowest enabled one.
#[derive(Clone, Copy, Debug)]
pub struct FitDetails {
    /// Index of the entered state.
    pub entered: usize,
    /// Index of the fitting state.
    pub fitting: usize,
    /// Number of such idle periods.
    pub periods: u64,
    /// Summed time from entry until the ending event, in ns.
    pub idle: u64,
    /// Summed time from the ending event until the CPU was ready to work, in ns.
    pub wake: u64,
}

impl StateTime {
    /// Figures of each idle state, summed over all CPUs.
    pub(crate) fn for_all_states(states: &IdleStates, cpus: &[CpuTotals]) -> Vec<Self> {
        let names = states.iter().map(|state| state.name.clone());
        let times = names.enumerate().map(|(state, name)| Self {
            name,
            seconds: sum_over_cpus(cpus, state, |totals| totals.time) as f64 / 1e9,
            entries: sum_over_cpus(cpus, state, |totals| totals.entries),
            too_deep: count_idle_periods(cpus, state, 0..state),
            too_shallow: count_idle_periods(cpus, state, state + 1..states.len()),
            above: sum_over_cpus(cpus, state, |totals| totals.above),
            below: sum_over_cpus(cpus, state, |totals| totals.below),
        });
        times.collect()
    }
}

/// Sum of a counter of one idle state over all CPUs.
fn sum_over_cpus(cpus: &[CpuTotals], state: usize, count: fn(&StateTotals) -> u64) -> u64 {
    cpus.iter().map(|cpu| count(&cpu.states[state])).sum()
}

/// Number of idle periods on all CPUs in the state `entered` that would have fitted one of `fitting`.
fn count_idle_periods(cpus: &[CpuTotals], entered: usize, fitting: Range<usize>) -> u64 {
    let periods = cpus
        .iter()
        .map(|cpu| cpu.count_idle_periods(entered, fitting.clone()));
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
        let powered = khz.iter().enumerate().map(|(opp, khz)| {
            let times = cpus.iter().filter_map(|cpu| cpu.powered.get(opp));
            (*khz, times.sum::<u64>())
        });
        Self {
            busy: cpus.iter().map(|c| c.busy).sum(),
            states: of_states,
            fits,
            powered: powered.filter(|(_, time)| *time > 0).collect(),
        }
    }
}
