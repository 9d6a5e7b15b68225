//! What sleeping costs beyond exits: entries of states, and the sleep of packages, from the steps of an experiment.

use serde::Serialize;
use wakepath_units::Nanoseconds;

use super::at_rest::PackageWake;
use super::demotion::describe_demotion;
use super::entry::{EarlyWakes, EntryTime};
use super::plan::{WakeMoment, WakePlan, WakeSource, WakeStep};
use super::tally::{FEWEST_COUNTED, Tally};

/// What entering an idle state costs.
#[derive(Clone, Debug, Serialize)]
pub struct EntryCost {
    /// The CPU that was woken within the entry.
    pub cpu: usize,
    /// Name of the state.
    pub state: String,
    /// The cost; absent: `problem` says why.
    pub entry: Option<EntryTime>,
    /// Reason for a missing figure.
    pub problem: Option<String>,
}

/// The cost of each state's entry, where early wake-ups were tried.
pub(super) fn find_entry_costs(plan: &WakePlan, tallies: &[Tally]) -> Vec<EntryCost> {
    let steps = plan.steps.iter().zip(tallies);
    let early = steps.filter(|(step, _)| step.moment == WakeMoment::Entering);
    let costs = early.filter_map(|(step, tally)| {
        let group = plan.kinds.get(step.kind)?;
        let state = plan.state_of_step(step)?;
        let polling = group.states.iter().find(|state| state.polling);
        let tasks = settled_tally(plan, tallies, step, state.index, WakeSource::Task);
        let settled = tasks.and_then(Tally::latencies_after_short_pauses);
        let wakes = EarlyWakes {
            counted: tally.samples.clone(),
            too_short: tally.missed_after.clone(),
        };
        let awake = polling.and_then(|polling| {
            let awake = settled_tally(plan, tallies, step, polling.index, WakeSource::Task);
            awake.and_then(Tally::latencies_after_short_pauses)
        });
        let demoted = tasks.and_then(|tasks| describe_demotion(plan, state, tasks));
        let comparable = settled.filter(|latency| latency.n >= FEWEST_COUNTED);
        let found = match (demoted, comparable) {
            (Some(why), _) => Err(why),
            (None, Some(settled)) => wakes.estimate(&settled, awake.as_ref()),
            (None, None) => Err("too few settled wake-ups by a task to compare with".to_owned()),
        };
        Some(EntryCost {
            cpu: group.cpu,
            state: state.name.clone(),
            entry: found.as_ref().ok().copied(),
            problem: found.err(),
        })
    });
    costs.collect()
}

/// What the package's sleep costs, where wake-ups at rest were tried.
pub(super) fn find_package_wakes(plan: &WakePlan, tallies: &[Tally]) -> Vec<PackageWake> {
    let steps = plan.steps.iter().zip(tallies);
    let at_rest = steps.filter(|(step, _)| step.moment == WakeMoment::AtRest);
    let wakes = at_rest.filter_map(|(step, tally)| {
        let group = plan.kinds.get(step.kind)?;
        let state = plan.state_of_step(step)?;
        let shortest = plan.gaps(step)[0];
        let timers = settled_tally(plan, tallies, step, state.index, WakeSource::Timer);
        let busy = timers.and_then(|tally| tally.latencies_after(shortest));
        Some(PackageWake::new(
            (group.cpu, state.name.clone()),
            tally.latencies_after(Nanoseconds::ZERO),
            busy.as_ref(),
            &tally.reached,
            FEWEST_COUNTED,
        ))
    });
    wakes.collect()
}

/// Settled wake-ups of a step's CPU from a state by a source.
fn settled_tally<'a>(
    plan: &WakePlan,
    tallies: &'a [Tally],
    step: &WakeStep,
    state: usize,
    source: WakeSource,
) -> Option<&'a Tally> {
    let mut steps = plan.steps.iter().zip(tallies);
    let (_, tally) = steps.find(|(other, _)| {
        other.moment == WakeMoment::Settled
            && (other.kind, other.state, other.source) == (step.kind, Some(state), source)
    })?;
    Some(tally)
}
