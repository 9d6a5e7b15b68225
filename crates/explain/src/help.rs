//! Changes that would help a kind, and by how much.

use std::collections::HashMap;

use serde::Serialize;
use wakepath_trace::recording::Metadata;

use crate::requests::{MetState, Notification, TaskWake, TracedRequest};
use crate::split::Split;

/// How long a lease of PSD lasts by default.
pub const LEASE_NS: u64 = 3_000_000;
/// The completion of a burst from which the daemon gives leases by default.
const FIRST_GRANTING_COMPLETION: u32 = 2;
/// Run queues below this share of the wait are not worth a sentence.
const LEAST_RUN_QUEUE: f64 = 0.1;
/// Shorter mean times in run queues may be the switch to the task alone, without other tasks. Assumed: a switch takes some us.
const SWITCH_NS: f64 = 10_000.0;
/// Gains below this share of the mean latency are not worth a sentence.
const LEAST_GAIN: f64 = 0.01;

/// A change to the machine that may shorten requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// CPUs stay out of states deeper than the reference: a latency request, or disabled states.
    ShallowStates,
    /// CPUs stay out of these states for 3 ms after a completion, from the second of a burst on: PSD, by the daemon.
    Leases,
    /// The interrupted CPU completes requests itself: `rq_affinity`, queues.
    CompleteWhereInterrupted,
    /// Tasks run on the CPUs that complete their requests: placement of tasks or interrupts.
    TasksWhereCompleted,
    /// CPUs run at their highest frequency.
    HighestFrequency,
    /// Fewer other tasks run on the CPUs of waiting tasks.
    FewerOtherTasks,
}

/// A remedy with the mean time saved per request, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Help {
    /// The change.
    pub remedy: Remedy,
    /// Time saved: lower end of the 95 % interval; 0 where only an upper limit is known.
    pub low_ns: f64,
    /// Time saved: upper end of the 95 % interval, or the upper limit.
    pub high_ns: f64,
}

/// Remedies for requests from one kind with mean latency `latency_ns`, in the order of [`Remedy`].
pub(crate) fn find_helpful_remedies(
    requests: &[&TracedRequest],
    split: &Split,
    latency_ns: f64,
    metadata: &Metadata,
) -> Vec<Help> {
    let count = requests.len().max(1) as f64;
    let slow: f64 = requests
        .iter()
        .map(|r| time_lost_below_highest_clock(r, metadata))
        .sum();
    let all = [
        (
            Remedy::ShallowStates,
            mean_exit_cost_saved(requests, requests, split),
        ),
        (
            Remedy::Leases,
            mean_exit_cost_saved(&find_requests_in_leases(requests), requests, split),
        ),
        (
            Remedy::CompleteWhereInterrupted,
            [0.0, mean_ns(requests, TracedRequest::remote_completion_ns)],
        ),
        (
            Remedy::TasksWhereCompleted,
            [0.0, mean_ns(requests, task_exit_if_completed_elsewhere)],
        ),
        (Remedy::HighestFrequency, [0.0, slow / count]),
        (
            Remedy::FewerOtherTasks,
            [0.0, mean_run_queue_of_busy_cpus(requests)],
        ),
    ];
    let helps = all.into_iter().map(|(remedy, [low_ns, high_ns])| Help {
        remedy,
        low_ns,
        high_ns,
    });
    helps
        .filter(|help| help.high_ns > 0.0 && help.high_ns >= LEAST_GAIN * latency_ns)
        .collect()
}

/// Mean exit cost that some requests would not pay, over all requests, as a 95 % interval in ns.
fn mean_exit_cost_saved(
    saved: &[&TracedRequest],
    requests: &[&TracedRequest],
    split: &Split,
) -> [f64; 2] {
    let count = requests.len().max(1) as f64;
    saved.iter().fold([0.0, 0.0], |sum, request| {
        let [low, high] = sure_cost_interval(split, request);
        [sum[0] + low / count, sum[1] + high / count]
    })
}

fn mean_ns(requests: &[&TracedRequest], time: fn(&TracedRequest) -> u64) -> f64 {
    let sum: u128 = requests.iter().map(|r| u128::from(time(r))).sum();
    sum as f64 / requests.len().max(1) as f64
}

/// Mean time in run queues, over all requests, in ns; 0 where that is little of the waits.
fn mean_run_queue_of_busy_cpus(requests: &[&TracedRequest]) -> f64 {
    let run_queue = mean_ns(requests, |request| {
        let wake = request.wake.and_then(|wake| wake.run_queue);
        wake.unwrap_or(0)
    });
    let wait = mean_ns(requests, |request| request.task_wait_ns().unwrap_or(0));
    if run_queue >= SWITCH_NS && run_queue >= LEAST_RUN_QUEUE * wait {
        run_queue
    } else {
        0.0
    }
}

/// Exit cost of the state that a request met, above the reference's, with what the handler took longer after it, as an interval
/// in ns; 0 unless the exit's cost is surely positive. A request that met the state later than charged requests paid the exit at most.
fn sure_cost_interval(split: &Split, request: &TracedRequest) -> [f64; 2] {
    let MetState::State(met) = request.met else {
        return [0.0; 2];
    };
    let mut states = split.states.iter();
    let found = states.find(|state| state.state == met);
    let Some((exit, cost)) = found.and_then(|exit| Some((exit, exit.cost?))) else {
        return [0.0; 2];
    };
    let handler_ns = exit.handler_ns.map_or(0.0, |ns| ns.max(0.0));
    if cost.low_ns <= 0.0 {
        return [0.0; 2];
    }
    let [low, high] = [cost.low_ns, cost.high_ns].map(|end| end + handler_ns);
    let is_charged = exit.cost_for(request).is_some();
    [if is_charged { low } else { 0.0 }, high]
}

/// Requests issued while the interrupted CPU would have had the daemon's lease. Requests are in completion order.
fn find_requests_in_leases<'a>(requests: &[&'a TracedRequest]) -> Vec<&'a TracedRequest> {
    let mut bursts: HashMap<u32, Burst> = HashMap::new();
    let mut found = Vec::new();
    for request in requests {
        let burst = bursts.entry(request.cpu).or_default();
        let is_soon = request.cpu_gap.is_some_and(|gap| gap <= LEASE_NS);
        if is_soon && burst.completions >= FIRST_GRANTING_COMPLETION {
            found.push(*request);
        }
        burst.add_completion(request.completed);
    }
    found
}

/// A CPU's completions, none later than a lease's time after the one before.
#[derive(Default)]
struct Burst {
    completions: u32,
    last: u64,
}

impl Burst {
    fn add_completion(&mut self, time: u64) {
        if time.saturating_sub(self.last) > LEASE_NS {
            self.completions = 0;
        }
        self.completions = self.completions.saturating_add(1);
        self.last = time;
    }
}

/// The idle exit of the task's CPU, if another CPU completed the request.
fn task_exit_if_completed_elsewhere(request: &TracedRequest) -> u64 {
    find_wake_from_other_cpu(request).map_or(0, |wake| wake.exit)
}

/// The wake-up of a task by another CPU than its own.
pub(crate) fn find_wake_from_other_cpu(request: &TracedRequest) -> Option<TaskWake> {
    request
        .wake
        .filter(|wake| matches!(wake.notification, Notification::Ipi | Notification::Store))
}

/// Upper limit for the interrupted CPU's time lost below the highest frequency; 0 for an unknown frequency.
fn time_lost_below_highest_clock(request: &TracedRequest, metadata: &Metadata) -> f64 {
    let domains = metadata.frequency_domains.iter();
    let mut own = domains.filter(|domain| domain.cpus.contains(&request.cpu));
    let highest = own.next().and_then(|domain| domain.khz.iter().max());
    let Some(highest) = highest.filter(|khz| **khz > request.khz && request.khz > 0) else {
        return 0.0;
    };
    let hand_over = request.wake.map_or(0, |wake| wake.hand_over);
    let work = request.interrupt + hand_over;
    work as f64 * (1.0 - f64::from(request.khz) / f64::from(*highest))
}
