//! Whether CPUs that complete block I/O slept as lightly as a lease wants them to, and no longer than that, by what was
//! recorded of them.

use std::collections::BTreeMap;
use std::ops::Range;

use wakepath_conformance::leases::leases_by_rule;
use wakepath_policies::psd::PsdPolicy;
use wakepath_trace::recording::{Event, EventKind, Metadata};
use wakepath_units::TickRate;

const MS: u64 = 1_000_000;
/// From when on in a burst a lease has to hold.
const GRACE: u64 = 10 * MS;

/// What a CPU that completes I/O may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    /// How long after the last completion it lasts; a longer gap separates bursts.
    pub(crate) timeout_ms: u32,
    /// The longest exit latency under it.
    pub(crate) ceiling_us: u32,
    /// With which completion of a burst it begins. Fewer are no burst.
    pub(crate) first: usize,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Idle entries under a lease, from 10 ms after its beginning on.
    pub(crate) entries: u64,
    /// Of them, those into states above the ceiling's exit latency.
    pub(crate) too_deep: u64,
    /// Idle entries under a lease before that.
    pub(crate) early: u64,
    /// Of them, too deep.
    pub(crate) early_too_deep: u64,
    /// Silences of several timeouts after a burst.
    pub(crate) silences: u64,
    /// Of them, those in which the CPU still had a latency limit after two timeouts.
    pub(crate) still_limited: u64,
    /// Silences at whose beginning the CPU was idle, between one timeout and two.
    pub(crate) ended: u64,
    /// Of them, those in which it was then in a state deeper than the ceiling's.
    pub(crate) deep_again: u64,
}

impl Found {
    /// Idle entries under a lease, and how many of them were too deep, from the first completion of a burst on.
    pub(crate) fn with_early(&self) -> (u64, u64) {
        (
            self.entries + self.early,
            self.too_deep + self.early_too_deep,
        )
    }
}

/// Leases that a rule gives for recorded completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// Leases that begin in the span.
    pub(crate) leases: u64,
    /// For how long CPUs have one, all together, in ns.
    pub(crate) held: u64,
}

/// The times of the completions that were recorded, by CPU, in ns.
pub(crate) fn completions(events: &[Event]) -> BTreeMap<u32, Vec<u64>> {
    let mut cpus: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for event in events {
        if matches!(event.kind, EventKind::BlockComplete(_)) {
            cpus.entry(event.cpu).or_default().push(event.time.0);
        }
    }
    cpus
}

/// What `policy` makes of the completions that were recorded, counted in `span`.
pub(crate) fn given(events: &[Event], span: &Range<u64>, policy: &PsdPolicy) -> Given {
    let mut given = Given::default();
    for ios in completions(events).values() {
        for lease in leases_by_rule(policy, TickRate::HZ_250, ios) {
            given.leases += u64::from(span.contains(&lease.start));
            let (from, to) = (lease.start.max(span.start), lease.end.min(span.end));
            given.held += to.saturating_sub(from);
        }
    }
    given
}

/// What a CPU did, by time.
#[derive(Clone, Copy, Debug)]
enum Step {
    Completion,
    Idle {
        until: u64,
        exit_us: u64,
        limit_us: Option<i64>,
    },
}

/// Holds what happened in `span`, on the recording's clock, against `lease`.
pub(crate) fn judge(
    metadata: &Metadata,
    events: &[Event],
    span: &Range<u64>,
    lease: Lease,
) -> Found {
    let mut cpus: BTreeMap<u32, Vec<(u64, Step)>> = BTreeMap::new();
    for event in events {
        let (time, step) = match event.kind {
            EventKind::BlockComplete(_) => (event.time.0, Step::Completion),
            EventKind::Idle(period) if period.duration.0 > 0 => {
                let group = metadata
                    .idle_states
                    .iter()
                    .find(|group| group.cpus.contains(&event.cpu))
                    .unwrap();
                let step = Step::Idle {
                    until: event.time.0,
                    exit_us: group.states[usize::from(period.state)].exit_latency.0 / 1000,
                    limit_us: period.inputs.latency_request.map(|ns| ns / 1000),
                };
                (event.time.0 - period.duration.0, step)
            }
            _ => continue,
        };
        if span.contains(&time) {
            cpus.entry(event.cpu).or_default().push((time, step));
        }
    }
    let mut found = Found::default();
    for steps in cpus.values_mut() {
        steps.sort_by_key(|(time, _)| *time);
        judge_cpu(steps, span.end, lease, &mut found);
    }
    found
}

fn judge_cpu(steps: &[(u64, Step)], end: u64, lease: Lease, found: &mut Found) {
    let timeout = u64::from(lease.timeout_ms) * MS;
    let mut completions: Vec<u64> = steps
        .iter()
        .filter(|(_, step)| matches!(step, Step::Completion))
        .map(|(time, _)| *time)
        .collect();
    // Whatever comes next is not known to be silence.
    completions.push(end);
    // Of the present burst: how many completions so far, and when the one came that the lease begins with.
    let (mut of_burst, mut begin) = (0, 0);
    for pair in completions.windows(2) {
        let (last, next) = (pair[0], pair[1]);
        let gap = next - last;
        of_burst += 1;
        if of_burst == lease.first {
            begin = last;
        }
        let leased = of_burst >= lease.first;
        if gap > timeout {
            of_burst = 0;
        }
        if !leased {
            continue;
        }
        let silence = gap > 4 * timeout;
        let (mut idle, mut deep_again, mut limited) = (false, false, false);
        for (entered, step) in steps {
            let Step::Idle {
                until,
                exit_us,
                limit_us,
            } = *step
            else {
                continue;
            };
            let too_deep = exit_us > u64::from(lease.ceiling_us);
            if (last..next.min(last + timeout)).contains(entered) {
                let late = *entered >= begin + GRACE;
                let (all, bad) = if late {
                    (&mut found.entries, &mut found.too_deep)
                } else {
                    (&mut found.early, &mut found.early_too_deep)
                };
                *all += 1;
                *bad += u64::from(too_deep);
            }
            if silence && *entered < last + 2 * timeout && until > last + timeout {
                idle = true;
                deep_again |= too_deep;
            }
            if silence && (last + 2 * timeout..next).contains(entered) {
                // "No limit" is a very long one.
                limited |= limit_us.is_some_and(|us| us < 1_000_000);
            }
        }
        found.silences += u64::from(silence);
        found.still_limited += u64::from(limited);
        found.ended += u64::from(idle);
        found.deep_again += u64::from(deep_again);
    }
}
