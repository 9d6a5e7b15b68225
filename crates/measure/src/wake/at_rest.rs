//! Wake-ups of a CPU while all others rest, so that the package may sleep, too.

use std::collections::BTreeMap;

use serde::Serialize;
use wakepath_record::ReachedTicks;

use crate::summary::{Estimate, LatencySummary};

/// A share of the time below this is not named.
const LEAST_SHARE: f64 = 0.005;

/// Share of an experiment's time that a core or package was in a state, by the hardware's own counters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReachedDepth {
    /// Whether the package was in the state, and not the core.
    pub package: bool,
    /// Number of the state: 6 is C6.
    pub depth: u32,
    /// Share of the time, 0 to 1.
    pub share: f64,
}

/// Ticks by core or package, and state.
#[derive(Clone, Debug, Default)]
pub(super) struct ReachedTally(BTreeMap<(bool, u32), [u64; 2]>);

/// What a timer's wake-up costs more where the whole package may sleep.
#[derive(Clone, Debug, Serialize)]
pub struct PackageWake {
    /// The CPU that slept and was woken by its timer.
    pub cpu: usize,
    /// Name of its idle state.
    pub state: String,
    /// Wake-ups while all other CPUs rested.
    pub at_rest: Option<LatencySummary>,
    /// What these take longer than wake-ups from the same state after equal pauses with another CPU busy.
    pub beyond: Option<Estimate>,
    /// Package states that were reached meanwhile, deepest first; absent: the machine shows none.
    pub reached: Option<Vec<ReachedDepth>>,
    /// Reason for a missing figure, or what the figure does not tell.
    pub problem: Option<String>,
}

impl ReachedTally {
    /// Adds what the hardware counted between two readings of the same counters.
    pub(super) fn add(&mut self, before: &[ReachedTicks], after: &[ReachedTicks]) {
        for then in before {
            // A counter may go away with its CPU.
            let Some(now) = after.iter().find(|now| now.is_same_counter(then)) else {
                continue;
            };
            let ticks = now.since(*then);
            let sum = self.0.entry((ticks.package, ticks.depth)).or_default();
            sum[0] = sum[0].saturating_add(ticks.ticks);
            sum[1] = sum[1].saturating_add(ticks.all_ticks);
        }
    }

    /// Shares of the core or of the package, deepest state first; `None` without such counters.
    pub(super) fn shares(&self, package: bool) -> Option<Vec<ReachedDepth>> {
        let counted = self
            .0
            .iter()
            .rev()
            .filter(|((is_package, _), [_, all])| *is_package == package && *all > 0);
        let shares: Vec<ReachedDepth> = counted
            .map(|((_, depth), [ticks, all])| ReachedDepth {
                package,
                depth: *depth,
                share: *ticks as f64 / *all as f64,
            })
            .collect();
        (!shares.is_empty()).then_some(shares)
    }
}

/// `C6 for 71 % of the time, C2 for 12 %`; `none` where no state was reached.
pub(super) fn describe_shares(shares: &[ReachedDepth]) -> String {
    let mut times = " of the time";
    let named: Vec<String> = shares
        .iter()
        .filter(|reached| reached.share >= LEAST_SHARE)
        .map(|reached| {
            let of_time = std::mem::take(&mut times);
            format!(
                "C{} for {:.0} %{of_time}",
                reached.depth,
                reached.share * 100.0
            )
        })
        .collect();
    if named.is_empty() {
        "none".to_owned()
    } else {
        named.join(", ")
    }
}

impl PackageWake {
    /// The cost beside what the machine shows. `busy`: wake-ups by a timer from the same state after equal pauses, while
    /// another CPU was busy.
    pub(super) fn new(
        (cpu, state): (usize, String),
        at_rest: Option<LatencySummary>,
        busy: Option<&LatencySummary>,
        reached: &ReachedTally,
        fewest: u64,
    ) -> Self {
        let reached = reached.shares(true);
        let [at_rest_counted, busy] =
            [at_rest.as_ref(), busy].map(|latency| latency.filter(|l| l.n >= fewest));
        let beyond = at_rest_counted
            .zip(busy)
            .map(|(at_rest, busy)| at_rest.median.minus(busy.median));
        let problem = if beyond.is_none() {
            Some("too few wake-ups count, at rest or with another CPU busy".to_owned())
        } else {
            match &reached {
                None => Some(
                    "this machine shows no package states (perf's cstate_pkg), so which one was reached is not known"
                        .to_owned(),
                ),
                Some(states) if states.iter().all(|state| state.share < LEAST_SHARE) => {
                    Some("the package reached no state of its own".to_owned())
                }
                Some(_) => None,
            }
        };
        Self {
            cpu,
            state,
            at_rest,
            beyond,
            reached,
            problem,
        }
    }

    /// What is known of the package's states, or why there is no figure.
    pub fn describe_reached(&self) -> Option<String> {
        let reached = self.reached.as_deref();
        let shares =
            reached.map(|states| format!("package states reached: {}", describe_shares(states)));
        self.problem.clone().or(shares)
    }

    /// A sentence for people; `None` without a figure.
    pub(super) fn describe(&self) -> Option<String> {
        let beyond = self.beyond?;
        let what = self.describe_reached()?;
        Some(format!(
            "{} with all other CPUs at rest: a timer's wake-up takes {:+.1} us ({:+.1} to {:+.1}) against another CPU busy; {what}",
            self.state,
            beyond.ns / 1e3,
            beyond.low / 1e3,
            beyond.high / 1e3
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(package: bool, depth: u32, ticks: u64, all_ticks: u64) -> ReachedTicks {
        ReachedTicks {
            package,
            depth,
            cpu: 0,
            ticks,
            all_ticks,
        }
    }

    fn summary(latency: u64) -> LatencySummary {
        let samples: Vec<u64> = (0..30).map(|i| latency + i).collect();
        LatencySummary::new(&samples).unwrap()
    }

    fn tally(package_c6: u64) -> ReachedTally {
        let mut tally = ReachedTally::default();
        let before = [
            ticks(false, 6, 5, 100),
            ticks(true, 2, 7, 100),
            ticks(true, 6, 1, 100),
            ticks(true, 3, 0, 100),
        ];
        let after = [
            ticks(false, 6, 905, 1_100),
            ticks(true, 2, 127, 1_100),
            ticks(true, 6, 1 + package_c6, 1_100),
            ticks(true, 8, 9, 9),
        ];
        tally.add(&before, &after);
        tally
    }

    #[test]
    fn shares_are_those_between_two_readings() {
        let tally = tally(710);
        let package = tally.shares(true).unwrap();
        assert_eq!(
            describe_shares(&package),
            "C6 for 71 % of the time, C2 for 12 %"
        );
        assert_eq!(
            describe_shares(&tally.shares(false).unwrap()),
            "C6 for 90 % of the time"
        );
        assert_eq!(ReachedTally::default().shares(true), None);
    }

    /// A wake-up at rest beside one of 60 us with another CPU busy.
    fn wake_at_rest(tally: &ReachedTally, at_rest: Option<LatencySummary>) -> PackageWake {
        let busy = summary(60_000);
        PackageWake::new((1, "C6".to_owned()), at_rest, Some(&busy), tally, 20)
    }

    #[test]
    fn a_package_costs_what_wake_ups_take_longer_at_rest() {
        let slept = wake_at_rest(&tally(710), Some(summary(150_000)));
        assert!((slept.beyond.unwrap().ns - 90_000.0).abs() < 1.0 && slept.problem.is_none());
        let said = slept.describe().unwrap();
        assert!(
            said.contains("takes +90.0 us") && said.contains("C6 for 71 %"),
            "{said}"
        );

        let unshown = wake_at_rest(&ReachedTally::default(), Some(summary(150_000)));
        let said = unshown.describe().unwrap();
        assert!(said.contains("shows no package states"), "{said}");

        let mut shallow = ReachedTally::default();
        shallow.add(&[ticks(true, 6, 0, 0)], &[ticks(true, 6, 1, 1_000)]);
        let said = wake_at_rest(&shallow, Some(summary(60_000)))
            .describe()
            .unwrap();
        assert!(said.contains("reached no state of its own"), "{said}");

        let few = wake_at_rest(&tally(710), None);
        assert!(few.beyond.is_none() && few.describe().is_none());
        assert!(few.problem.unwrap().contains("too few"));
    }
}
