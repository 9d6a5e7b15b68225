//! Exits as an experiment found them, beside those that requests and timers tell.

use std::collections::BTreeMap;

use crate::estimate::{Disagreement, ExitEstimate};
use crate::lateness::TimerLateness;
use crate::report::{KindGroup, RequestKind};
use crate::requests::{MetState, TracedRequest};

/// Measured exits of CPUs that are of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CpuExits {
    /// The CPUs.
    pub cpus: Vec<u32>,
    /// Exits by index of the state, from the wake-up to the first instruction, with 95 % intervals.
    pub by_state: BTreeMap<u8, ExitEstimate>,
}

/// Sets measured exits and late timers beside what requests tell of each kind, and notes contradictions.
///
/// `exits`: for each kind of CPU. A measured exit from the reference state parts this exit from the drive.
pub fn compare_estimates(
    groups: &mut [KindGroup<'_>],
    exits: &[CpuExits],
    timers: &[TimerLateness],
) {
    for group in groups {
        let split = &group.kind.split;
        let states = split.states.iter().map(|exit| exit.state);
        let measured = states.chain(split.reference).filter_map(|state| {
            let exit = find_mean_exit_measured(&group.requests, state, exits)?;
            Some((state, exit))
        });
        group.kind.measured = measured.collect();
        part_reference_exit_from_drive(&mut group.kind);
        group.kind.disagreements = find_disagreements(&group.kind, timers);
    }
}

/// Mean of the exits measured on the interrupted CPUs, over the requests that met the state, or over all if none did. `None` if the
/// exit of a CPU is not measured.
fn find_mean_exit_measured(
    requests: &[&TracedRequest],
    state: u8,
    exits: &[CpuExits],
) -> Option<ExitEstimate> {
    let is_met = |request: &&TracedRequest| request.met == MetState::State(state);
    let counts_all = !requests.iter().any(is_met);
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for request in requests
        .iter()
        .filter(|request| counts_all || is_met(request))
    {
        *counts.entry(request.cpu).or_default() += 1;
    }
    let count: u64 = counts.values().sum();
    let mut by_kind: BTreeMap<usize, u64> = BTreeMap::new();
    for (cpu, requests) in counts {
        let kind = exits.iter().position(|kind| kind.cpus.contains(&cpu))?;
        *by_kind.entry(kind).or_default() += requests;
    }
    let mut means = [0.0; 3];
    for (kind, requests) in &by_kind {
        let exit = exits.get(*kind)?.by_state.get(&state)?;
        let share = *requests as f64 / count as f64;
        for (mean, figure) in means
            .iter_mut()
            .zip([exit.mean_ns, exit.low_ns, exit.high_ns])
        {
            *mean += share * figure;
        }
    }
    let [mean_ns, low_ns, high_ns] = means;
    (count > 0).then_some(ExitEstimate {
        mean_ns,
        low_ns,
        high_ns,
    })
}

fn part_reference_exit_from_drive(kind: &mut RequestKind) {
    let Some(share) = kind.share_with_reference_exit() else {
        return;
    };
    kind.reference_exit = kind.measured_reference_exit().map(|exit| ExitEstimate {
        mean_ns: exit.mean_ns * share,
        low_ns: exit.low_ns * share,
        high_ns: exit.high_ns * share,
    });
    if let (Some(rest), Some(exit)) = (kind.rest_ns, kind.reference_exit) {
        kind.rest_ns = Some(rest - exit.mean_ns);
    }
}

/// States whose estimates contradict each other.
///
/// Timers are a lower bound, so that they contradict the others only from above.
fn find_disagreements(kind: &RequestKind, timers: &[TimerLateness]) -> Vec<Disagreement> {
    let Some(reference) = kind.split.reference else {
        return Vec::new();
    };
    let states = kind.split.states.iter();
    let costs = states.map(|exit| (exit.state, exit.cost));
    let all = std::iter::once((reference, None)).chain(costs);
    let disagreements = all.map(|(state, requests)| Disagreement {
        state,
        requests,
        measured: kind.measured.get(&state).copied(),
        timers: timers.iter().find(|timers| timers.state == state).copied(),
    });
    disagreements
        .filter(|all| requests_contradict_measurement(kind, all) || timers_contradict(kind, all))
        .collect()
}

/// Whether requests and measurement differ in how much longer the exit is than the reference's.
fn requests_contradict_measurement(kind: &RequestKind, all: &Disagreement) -> bool {
    let zero = kind.spinning_or_measured_reference_exit();
    let (Some(requests), Some(measured), Some(zero)) = (all.requests, all.measured, zero) else {
        return false;
    };
    requests.high_ns < measured.low_ns - zero.high_ns
        || requests.low_ns > measured.high_ns - zero.low_ns
}

/// Whether timers that the state delayed were later than its exit takes by another estimate.
fn timers_contradict(kind: &RequestKind, all: &Disagreement) -> bool {
    let Some([least, _]) = all.timers.and_then(|timers| timers.interval_ns) else {
        return false;
    };
    let zero = kind.spinning_or_measured_reference_exit();
    // What is declared is an upper bound.
    let longest_zero = zero.map_or_else(
        || kind.reference_exit_us.map(|us| us as f64 * 1e3),
        |zero| Some(zero.high_ns),
    );
    let by_requests = all.requests.zip(longest_zero);
    by_requests.is_some_and(|(requests, zero)| least > requests.high_ns + zero)
        || all
            .measured
            .is_some_and(|measured| least > measured.high_ns)
}

impl RequestKind {
    /// The measured exit from the reference, if there is one.
    pub(crate) fn measured_reference_exit(&self) -> Option<ExitEstimate> {
        self.measured.get(&self.split.reference?).copied()
    }

    /// The reference's own exit where it is known: none where it spins, or as measured.
    fn spinning_or_measured_reference_exit(&self) -> Option<ExitEstimate> {
        let nothing = ExitEstimate {
            mean_ns: 0.0,
            low_ns: 0.0,
            high_ns: 0.0,
        };
        let spins = self.polling.contains(&self.split.reference?);
        if spins {
            Some(nothing)
        } else {
            self.measured_reference_exit()
        }
    }

    /// Share of requests whose remaining time has the reference's exit: requests that met the reference, were charged with a cost
    /// above the reference's, or have an estimate of a late exit.
    fn share_with_reference_exit(&self) -> Option<f64> {
        self.split.reference?;
        let without_state = self.awake + self.leaving + self.behind + self.unknown;
        let states = self.split.states.iter();
        let unknown: u64 = states.map(|exit| exit.met - exit.charged).sum();
        let unestimated = unknown.saturating_sub(self.estimated_late_exits());
        let with = self.requests.saturating_sub(without_state + unestimated);
        Some(self.share_of_requests(with))
    }
}
