//! Confidence intervals for percentiles and means, from latency counts.
//!
//! **Percentiles: order statistics.** Of n independent requests, the number that takes at most the true percentile `q` is
//! binomial with n and q. So the latencies of the two ranks between which 95 % of this binomial lie bound the percentile,
//! for any distribution (Conover, *Practical Nonparametric Statistics*, section 3.2). Of a range of
//! latencies the shorter end bounds from below, the longer end from above: the width of ranges makes an interval wider, never
//! narrower.
//!
//! **Requests are not independent.** A busy second has many slow ones. Counts therefore come in groups, in the order of time.
//! The share of requests above the percentile is compared between the groups: its variance over that of independent requests
//! is the design effect (Kish), and n divided by the design effect takes the place of n. A design effect below 1 is chance,
//! and counts as 1. The groups are few, so their variance is multiplied with the squared ratio of Student's to the normal
//! quantile. What changes more slowly than a window lasts is not seen: three windows in a row have to agree for that.
//!
//! **Means: group means.** The mean is a ratio of sums over groups; its variance is that of the groups' deviations, with
//! Student's quantile.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

use crate::LatencyCounts;

/// Probability for an interval wholly above the true figure, and for an interval wholly below: 2.5 % each.
const ONE_SIDE: f64 = 0.025;
/// The normal distribution's quantile for [`ONE_SIDE`].
const NORMAL_QUANTILE: f64 = 1.959_964;

/// A quantile of latencies: a share between 0 and 1, both excluded.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Quantile(f64);

impl Quantile {
    /// The 50th percentile.
    pub const MEDIAN: Self = Self(0.5);
    /// The 90th percentile.
    pub const P90: Self = Self(0.9);
    /// The 99th percentile.
    pub const P99: Self = Self(0.99);
    /// The 99.9th percentile.
    pub const P999: Self = Self(0.999);

    /// Share of requests up to this latency, between 0 and 1.
    pub const fn share(self) -> f64 {
        self.0
    }
}

/// A figure of latencies with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyInterval {
    /// Lower end in ns; 0 where the requests are too few for one.
    pub low_ns: f64,
    /// The figure in ns.
    pub estimate_ns: f64,
    /// Upper end in ns; infinite where the requests are too few for one.
    pub high_ns: f64,
    /// Number of counted requests.
    pub requests: u64,
}

/// The interval of a percentile over all requests in some groups, ordered by time. `None` without requests.
pub fn quantile_interval(groups: &[LatencyCounts], quantile: Quantile) -> Option<LatencyInterval> {
    let all = merge_groups(groups);
    let requests = all.requests();
    let share = quantile.share();
    let rank = (requests as f64 * share).ceil() as u64;
    let (_, estimate) = all.range_at_rank(rank.clamp(1, requests.max(1)))?;
    let effect = design_effect_above(groups, estimate);
    let effective = (requests as f64 / effect).max(1.0);
    let (below, above) = ranks_around_quantile(effective, share);
    let scale = requests as f64 / effective;
    let low_rank = (below * scale).floor() as u64;
    let high_rank = (above * scale).ceil() as u64;
    Some(LatencyInterval {
        low_ns: all
            .range_at_rank(low_rank)
            .map_or(0.0, |(low, _)| low as f64),
        estimate_ns: estimate as f64,
        high_ns: all
            .range_at_rank(high_rank)
            .map_or(f64::INFINITY, |(_, high)| high as f64),
        requests,
    })
}

/// The interval of the mean over all requests in some groups, ordered by time. `None` without requests.
pub fn mean_interval(groups: &[LatencyCounts]) -> Option<LatencyInterval> {
    let all = merge_groups(groups);
    let requests = all.requests();
    if requests == 0 {
        return None;
    }
    let mean = all.sum_ns() as f64 / requests as f64;
    let deviations = groups
        .iter()
        .map(|group| group.sum_ns() as f64 - mean * group.requests() as f64);
    let margin = ratio_standard_error(groups, deviations, requests)
        .map_or(f64::INFINITY, |(error, student)| student * error);
    Some(LatencyInterval {
        low_ns: (mean - margin).max(0.0),
        estimate_ns: mean,
        high_ns: mean + margin,
        requests,
    })
}

fn merge_groups(groups: &[LatencyCounts]) -> LatencyCounts {
    let mut all = LatencyCounts::new();
    for group in groups {
        all.add_counts(group);
    }
    all
}

/// Number of groups with requests.
fn groups_with_requests(groups: &[LatencyCounts]) -> usize {
    groups.iter().filter(|group| group.requests() > 0).count()
}

/// Standard error of a ratio over groups of unlike size, from each group's deviation, and Student's quantile for the number
/// of groups; `None` for fewer than two groups.
fn ratio_standard_error(
    groups: &[LatencyCounts],
    deviations: impl Iterator<Item = f64>,
    requests: u64,
) -> Option<(f64, f64)> {
    let count = groups_with_requests(groups);
    if count < 2 {
        return None;
    }
    let count = count as f64;
    let squares: f64 = deviations.map(|deviation| deviation * deviation).sum();
    let variance = squares * count / (count - 1.0) / (requests as f64).powi(2);
    let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
    Some((variance.sqrt(), student.inverse_cdf(1.0 - ONE_SIDE)))
}

/// How many times the share of requests above a latency varies more between groups than if requests were independent; at least
/// 1. A single group shows no variance, and counts as 1.
fn design_effect_above(groups: &[LatencyCounts], latency_ns: u64) -> f64 {
    let requests: u64 = groups.iter().map(LatencyCounts::requests).sum();
    let above: u64 = groups
        .iter()
        .map(|group| group.requests_above(latency_ns))
        .sum();
    let share = above as f64 / requests.max(1) as f64;
    let independent = share * (1.0 - share) / requests.max(1) as f64;
    let deviations = groups
        .iter()
        .map(|group| group.requests_above(latency_ns) as f64 - share * group.requests() as f64);
    match ratio_standard_error(groups, deviations, requests) {
        Some((error, student)) if independent > 0.0 => {
            let variance = (error * student / NORMAL_QUANTILE).powi(2);
            (variance / independent).max(1.0)
        }
        _ => 1.0,
    }
}

/// The ranks whose latencies bound a quantile of `requests` independent requests; 0 and above `requests`: unbounded.
fn ranks_around_quantile(requests: f64, share: f64) -> (f64, f64) {
    let whole = requests.floor() as u64;
    let Ok(binomial) = Binomial::new(share, whole) else {
        return (0.0, requests + 1.0);
    };
    // The lower rank: the most l for which fewer than l requests are at most the quantile with a probability of up to 2.5 %.
    let smallest = binomial.inverse_cdf(ONE_SIDE);
    let below = if binomial.cdf(smallest) <= ONE_SIDE {
        smallest + 1
    } else {
        smallest
    };
    let above = binomial.inverse_cdf(1.0 - ONE_SIDE) + 1;
    (below as f64, above as f64)
}
