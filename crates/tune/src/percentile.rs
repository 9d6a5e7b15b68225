//! Latency percentiles over all runs together.
//!
//! With few requests, a run's 99th percentile is nearly the maximum, and on average lies below the true percentile. Averaging
//! runs does not help. Short runs therefore pool all requests.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wakepath_compare::standard_errors_of_interval;
use wakepath_results::LatencyCount;

use crate::TuneError;
use crate::evaluator::{LoadRuns, Trial};
use crate::figures::{Question, mean};
use crate::judgement::LEVEL;

/// Number of resamples for the interval of a ratio.
const RESAMPLES: usize = 1000;

/// Fewest requests beyond a judged percentile.
const FEWEST_BEYOND: f64 = 10.0;

/// A percentile over several runs together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PooledPercentile {
    /// The percentile in us.
    pub(crate) value_us: f64,
    /// The confidence interval in us; `None`: too few requests for an upper end.
    pub(crate) interval_us: Option<[f64; 2]>,
}

/// Request share up to a latency percentile, such as 0.99 for `p99_us`; `None` for other metrics.
fn share_of_percentile(metric: &str) -> Option<f64> {
    match metric {
        "p50_us" => Some(0.5),
        "p90_us" => Some(0.9),
        "p99_us" => Some(0.99),
        "p999_us" => Some(0.999),
        _ => None,
    }
}

/// Request count for a percentile: 1,000 for the share 0.99.
fn fewest_requests_for_share(share: f64) -> u64 {
    (FEWEST_BEYOND / (1.0 - share)).round() as u64
}

/// Request count for a metric, if the metric is a latency percentile.
pub(crate) fn fewest_requests_for_metric(metric: &str) -> Option<u64> {
    share_of_percentile(metric).map(fewest_requests_for_share)
}

impl LoadRuns {
    /// A metric over all runs: the mean, or for percentiles with short runs the pooled percentile; `None` if a run lacks the
    /// metric.
    pub(crate) fn metric_over_all_runs(&self, metric: &str) -> Option<f64> {
        let values = self.metric_of_each_run(metric)?;
        let pooled = self.pooled_percentile_if_runs_are_short(metric, LEVEL);
        Some(pooled.map_or_else(|| mean(&values), |pooled| pooled.value_us))
    }

    /// Mean request count per run; `None` if latencies are not known.
    pub(crate) fn mean_requests_of_run(&self) -> Option<f64> {
        if self.latency.is_empty() || self.latency.len() != self.runs.len() {
            return None;
        }
        let counts = self.latency.iter().flatten().map(|bucket| bucket.count);
        let requests = counts.sum::<u64>();
        (requests > 0).then(|| requests as f64 / self.latency.len() as f64)
    }

    /// The pooled percentile, if the metric is a percentile and single runs have too few requests.
    pub(crate) fn pooled_percentile_if_runs_are_short(
        &self,
        metric: &str,
        level: f64,
    ) -> Option<PooledPercentile> {
        let share = share_of_percentile(metric)?;
        let of_run = self.mean_requests_of_run()?;
        if of_run >= fewest_requests_for_share(share) as f64 {
            return None;
        }
        pool_percentile(&self.latency, share, level)
    }

    /// The interval around a pooled percentile that is judged beside that of other runs in the same seeds: noise that both have in
    /// common cancels out. Seeds are drawn anew, each with its runs of both, and ratios of the percentiles are taken.
    ///
    /// `None`: not the same seeds, or no percentile.
    pub(crate) fn interval_by_pooled_ratios(
        &self,
        before: &Self,
        metric: &str,
        (level, seed): (f64, u64),
    ) -> Option<[f64; 2]> {
        let share = share_of_percentile(metric)?;
        let count = self.latency.len();
        if count < 2 || before.latency.len() != count {
            return None;
        }
        let before_us = Pool::new(&before.latency).latency_ns_at_share(share)? / 1e3;
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut ratios = Vec::with_capacity(RESAMPLES);
        for _ in 0..RESAMPLES {
            let drawn: Vec<usize> = (0..count).map(|_| random.random_range(0..count)).collect();
            let own = Pool::from_runs(&self.latency, &drawn).latency_ns_at_share(share)?;
            let other = Pool::from_runs(&before.latency, &drawn).latency_ns_at_share(share)?;
            if other <= 0.0 {
                return None;
            }
            ratios.push(own / other);
        }
        ratios.sort_by(f64::total_cmp);
        let outside = (1.0 - level) / 2.0 * RESAMPLES as f64;
        let low = (outside.floor() as usize).min(RESAMPLES - 1);
        let ends = [ratios[low], ratios[RESAMPLES - 1 - low]];
        Some(ends.map(|ratio| ratio * before_us))
    }
}

/// Fresh runs needed by a decision, so each percentile in conditions and objective has enough requests; at least `fewest`.
/// `in_force` has whole runs.
///
/// # Errors
/// Even `most` runs have too few requests for a percentile.
pub(crate) fn find_repeats_for_percentiles(
    question: &Question<'_>,
    in_force: &Trial,
    (fewest, most): (u32, u32),
) -> Result<u32, TuneError> {
    let mut repeats = fewest;
    for (metric, load, runs) in question.metrics_with_runs(in_force) {
        let (Some(needed), Some(of_run)) = (
            fewest_requests_for_metric(metric),
            runs.mean_requests_of_run(),
        ) else {
            continue;
        };
        let wanted = (needed as f64 / of_run).ceil();
        if wanted > f64::from(most) {
            return Err(TuneError::FewRequests {
                metric: metric.to_owned(),
                load,
                of_run: of_run.round() as u64,
                runs: most,
                needed,
                times_as_long: (wanted / f64::from(most)).ceil() as u64,
            });
        }
        repeats = repeats.max(wanted as u32);
    }
    Ok(repeats)
}

/// Remarks about a percentile objective with short runs. Conditions pool all requests.
pub(crate) fn note_objective_of_short_runs(
    question: &Question<'_>,
    in_force: &Trial,
) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for (metric, load, runs) in question.objective_with_runs(in_force) {
        let (Some(needed), Some(of_run)) = (
            fewest_requests_for_metric(metric),
            runs.mean_requests_of_run(),
        ) else {
            continue;
        };
        if of_run < needed as f64 {
            notes.push(format!(
                "{metric} of {load}: a run has {of_run:.0} requests, and a percentile takes {needed}: the mean over runs is lower \
                 than the percentile of all; --seconds makes runs longer"
            ));
        }
    }
    notes
}

/// The pooled percentile. The interval follows Woodruff: an interval around the share, by the runs' spread or by chance alone,
/// whichever is wider, since requests within a run may be alike. `None` without requests.
fn pool_percentile(runs: &[Vec<LatencyCount>], share: f64, level: f64) -> Option<PooledPercentile> {
    let pooled = Pool::new(runs);
    let value_ns = pooled.latency_ns_at_share(share)?;
    let requests = pooled.requests as f64;
    let of_runs: Vec<(f64, f64)> = runs
        .iter()
        .map(|run| {
            let own = Pool::new(std::slice::from_ref(run));
            (own.requests_up_to(value_ns), own.requests as f64)
        })
        .collect();
    let below = of_runs.iter().map(|(below, _)| below).sum::<f64>() / requests;
    let squares = of_runs
        .iter()
        .map(|(up_to, all)| (up_to - below * all).powi(2));
    let count = runs.len() as f64;
    let error_of_runs = (squares.sum::<f64>() * count / (count - 1.0).max(1.0)).sqrt() / requests;
    let error_of_chance = (share * (1.0 - share) / requests).sqrt();
    let half = standard_errors_of_interval(Some(runs.len()), level)
        .zip(standard_errors_of_interval(None, level))
        .map(|(by_runs, by_chance)| (by_runs * error_of_runs).max(by_chance * error_of_chance));
    let interval_us = half.and_then(|half| {
        let highest = share + half;
        // Beyond the last request nothing is known.
        if highest > 1.0 - 1.0 / requests {
            return None;
        }
        let low = pooled.latency_ns_at_share((share - half).max(0.0))?;
        let high = pooled.latency_ns_at_share(highest)?;
        Some([low / 1e3, high / 1e3])
    });
    Some(PooledPercentile {
        value_us: value_ns / 1e3,
        interval_us,
    })
}

/// Pooled requests by latency.
struct Pool {
    /// Upper end in ns and request count by the range's lower end.
    ranges: BTreeMap<u64, (u64, u64)>,
    requests: u64,
}

impl Pool {
    fn new(runs: &[Vec<LatencyCount>]) -> Self {
        Self::from_counts(runs.iter().flatten())
    }

    /// Pools the runs with these indices, which may come several times.
    fn from_runs(runs: &[Vec<LatencyCount>], indices: &[usize]) -> Self {
        Self::from_counts(indices.iter().flat_map(|index| &runs[*index]))
    }

    fn from_counts<'a>(counts: impl Iterator<Item = &'a LatencyCount>) -> Self {
        let mut ranges: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for bucket in counts {
            let range = ranges.entry(bucket.low_ns).or_insert((bucket.high_ns, 0));
            range.0 = range.0.max(bucket.high_ns);
            range.1 += bucket.count;
        }
        Self {
            requests: ranges.values().map(|(_, count)| count).sum(),
            ranges,
        }
    }

    /// Latency in ns not exceeded by a share; requests lie evenly within a range.
    fn latency_ns_at_share(&self, share: f64) -> Option<f64> {
        let wanted = share * self.requests as f64;
        let mut below = 0.0;
        let mut last = None;
        for (low, (high, count)) in &self.ranges {
            let (low, high, count) = (*low as f64, *high as f64, *count as f64);
            if count > 0.0 && below + count >= wanted {
                return Some(low + (high - low) * ((wanted - below) / count).clamp(0.0, 1.0));
            }
            below += count;
            last = Some(high);
        }
        last
    }

    /// Request count up to a time in ns.
    fn requests_up_to(&self, time_ns: f64) -> f64 {
        let parts = self.ranges.iter().map(|(low, (high, count))| {
            let (low, high) = (*low as f64, *high as f64);
            let part = if high > low {
                ((time_ns - low) / (high - low)).clamp(0.0, 1.0)
            } else {
                f64::from(u8::from(time_ns >= low))
            };
            part * *count as f64
        });
        parts.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs with exponential latencies, mean 100 us, in 1 us ranges.
    fn exponential_runs(runs: usize, requests: usize, seed: u64) -> Vec<Vec<LatencyCount>> {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut run = || {
            let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
            for _ in 0..requests {
                let us = -100.0 * random.random::<f64>().max(1e-12).ln();
                *counts.entry(us as u64).or_default() += 1;
            }
            let buckets = counts.into_iter().map(|(us, count)| LatencyCount {
                low_ns: us * 1000,
                high_ns: us * 1000 + 1000,
                count,
            });
            buckets.collect()
        };
        (0..runs).map(|_| run()).collect()
    }

    /// 99th percentile for an exponential mean 100 us.
    const TRUE_P99_US: f64 = 460.517;

    #[test]
    fn a_pooled_percentile_is_unbiased_where_a_mean_of_percentiles_is_not() {
        let (mut pooled, mut averaged, mut covered) = (0.0, 0.0, 0);
        for seed in 0..200 {
            let runs = exponential_runs(20, 100, seed);
            let found = pool_percentile(&runs, 0.99, 0.95).unwrap();
            pooled += found.value_us / 200.0;
            let singles = runs
                .iter()
                .map(|run| pool_percentile(std::slice::from_ref(run), 0.99, 0.95));
            averaged += singles.flatten().map(|one| one.value_us).sum::<f64>() / 20.0 / 200.0;
            covered += usize::from(
                found
                    .interval_us
                    .is_none_or(|[low, high]| (low..=high).contains(&TRUE_P99_US)),
            );
        }
        assert!((pooled / TRUE_P99_US - 1.0).abs() < 0.02, "{pooled}");
        assert!(averaged < 0.97 * TRUE_P99_US, "{averaged}");
        assert!(covered >= 184, "{covered} of 200");
    }

    fn load_runs(latency: Vec<Vec<LatencyCount>>) -> LoadRuns {
        LoadRuns {
            runs: vec![Vec::new(); latency.len()],
            latency,
            ..LoadRuns::default()
        }
    }

    #[test]
    fn runs_beside_themselves_have_no_spread_and_beside_others_the_true_ratio() {
        let before = load_runs(exponential_runs(20, 100, 1));
        let value = Pool::new(&before.latency)
            .latency_ns_at_share(0.99)
            .unwrap()
            / 1e3;
        let itself = before.interval_by_pooled_ratios(&before, "p99_us", (0.95, 7));
        assert_eq!(itself, Some([value; 2]));
        let mut covered = 0;
        for seed in 0..100 {
            let before = load_runs(exponential_runs(20, 100, 2 * seed));
            let others = load_runs(exponential_runs(20, 100, 2 * seed + 1));
            let found = others.interval_by_pooled_ratios(&before, "p99_us", (0.95, seed));
            let [low, high] = found.unwrap();
            let base = Pool::new(&before.latency)
                .latency_ns_at_share(0.99)
                .unwrap()
                / 1e3;
            covered += usize::from((low / base..=high / base).contains(&1.0));
        }
        assert!(covered >= 90, "{covered} of 100");
        let fewer = load_runs(exponential_runs(19, 100, 3));
        assert_eq!(
            fewer.interval_by_pooled_ratios(&before, "p99_us", (0.95, 7)),
            None
        );
    }

    #[test]
    fn too_few_requests_have_no_upper_end() {
        let few = pool_percentile(&exponential_runs(5, 20, 1), 0.99, 0.95).unwrap();
        assert_eq!(few.interval_us, None);
        let many = pool_percentile(&exponential_runs(5, 2000, 1), 0.99, 0.95).unwrap();
        assert!(many.interval_us.is_some());
        assert_eq!(pool_percentile(&[], 0.99, 0.95), None);
    }

    #[test]
    fn percentiles_take_ten_requests_beyond() {
        let fewest = ["p50_us", "p99_us", "p999_us", "mean_us"].map(fewest_requests_for_metric);
        assert_eq!(fewest, [Some(20), Some(1000), Some(10_000), None]);
    }
}
