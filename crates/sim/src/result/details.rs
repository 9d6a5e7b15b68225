//! What a run leaves besides its figures, for files of results: distributions, and idle states by cluster.

use wakepath_hardware::Machine;

use crate::cpu::state::Cpu;
use crate::engine::Finished;
use crate::observe::attribution::LatencyBucket;

/// Distributions of a run.
#[derive(Clone, Debug, Default)]
pub struct Details {
    /// Requests by latency, shortest first. A bucket is at most 3 % wide.
    pub latency: Vec<LatencyBucket>,
    /// Each cluster of the machine.
    pub clusters: Vec<ClusterDetails>,
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

impl Details {
    pub(crate) fn new(machine: &Machine, finished: &Finished) -> Self {
        let mut first = 0;
        let clusters = machine.cluster.iter().map(|cluster| {
            let cpus = &finished.cpus[first..first + cluster.cpus];
            first += cluster.cpus;
            let khz: Vec<u32> = cluster.opps.iter().map(|o| o.khz).collect();
            ClusterDetails::new(cpus, machine.idle_state.len(), &khz)
        });
        Self {
            clusters: clusters.collect(),
            latency: finished.recorder.parts.buckets().collect(),
        }
    }
}

impl ClusterDetails {
    fn new(cpus: &[Cpu], states: usize, khz: &[u32]) -> Self {
        let mut of_states = vec![StateDetails::default(); states];
        let mut fits = vec![];
        for (state, sum) in of_states.iter_mut().enumerate() {
            for cpu in cpus {
                sum.time += cpu.stats[state].time;
                sum.entries += cpu.stats[state].entries;
                sum.above += cpu.stats[state].above;
                sum.below += cpu.stats[state].below;
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
