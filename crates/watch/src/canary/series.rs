//! Measurements hour by hour, and a machine's change against the time before.

use std::collections::BTreeMap;
use std::ops::Range;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::histogram::{BucketedQuantile, LatencyHistogram};
use super::metric::{CanaryMetric, MetricKind};

/// Seconds of an hour.
const HOUR_S: i64 = 3600;

/// Hours of a day.
const DAY_HOURS: i64 = 24;

/// Fewest requests on each side of the change for a machine's latency to count.
pub const FEWEST_REQUESTS: f64 = 1000.0;

/// Share of the requests that must lie in buckets with an upper end for a mean: the few others count with the bound.
const KNOWN_SHARE_OF_MEAN: f64 = 0.999;

/// An hour, counted since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixHour(pub i64);

impl UnixHour {
    /// The hour that has begun last at a time in seconds since 1970.
    pub const fn containing_second(seconds: i64) -> Self {
        Self(seconds.div_euclid(HOUR_S))
    }

    /// The hour that has begun last at a time in ms since 1970.
    pub(crate) const fn containing_ms(time_ms: i64) -> Self {
        Self::containing_second(time_ms.div_euclid(1000))
    }

    /// Begin of the hour as text, in UTC.
    pub(crate) fn format_begin(self) -> String {
        let time = OffsetDateTime::from_unix_timestamp(self.begin_s()).ok();
        let text = time.and_then(|time| time.format(&Rfc3339).ok());
        text.unwrap_or_else(|| format!("hour {} since 1970", self.0))
    }

    /// The first hour that begins at or after a time in seconds since 1970.
    pub const fn beginning_after_second(seconds: i64) -> Self {
        Self(seconds.div_euclid(HOUR_S) + (seconds.rem_euclid(HOUR_S) != 0) as i64)
    }

    /// Begin of the hour in seconds since 1970.
    pub const fn begin_s(self) -> i64 {
        self.0.saturating_mul(HOUR_S)
    }

    /// The hour so many hours later.
    #[must_use]
    pub const fn plus_hours(self, hours: i64) -> Self {
        Self(self.0.saturating_add(hours))
    }

    const fn hour_of_day(self) -> usize {
        self.0.rem_euclid(DAY_HOURS) as usize
    }
}

/// What a machine measured in an hour.
#[derive(Clone, Debug, PartialEq)]
pub enum HourlyValue {
    /// Requests by latency.
    Histogram(LatencyHistogram),
    /// Samples of a quantity.
    Samples {
        /// Sum of the samples.
        sum: f64,
        /// Number of samples.
        count: f64,
    },
}

/// What a machine measured, by hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineSeries {
    hours: BTreeMap<UnixHour, HourlyValue>,
}

/// A machine's change of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricChange {
    /// The metric before, in its unit, with each hour of the day weighted as after the change.
    pub before: f64,
    /// The metric after, in its unit.
    pub after: f64,
    /// Natural logarithm of after over before.
    pub log_ratio: f64,
    /// The least and the most that `log_ratio` may be, because buckets do not say where their requests lie.
    pub log_ratio_range: [f64; 2],
    /// Ends of the widest bucket with the metric, before or after, in its unit; `None` without buckets.
    pub bucket: Option<[f64; 2]>,
    /// Number of counted hours after the change.
    pub hours: usize,
}

/// Why a machine does not count in an analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncounted {
    /// Nothing was measured before the change.
    NothingBefore,
    /// Nothing was measured after the change.
    NothingAfter,
    /// No hour of the day was measured both before and after.
    OtherHours,
    /// Fewer requests than [`FEWEST_REQUESTS`] before or after.
    FewRequests,
    /// The metric is 0 or negative, so there is no ratio.
    NotPositive,
    /// The metric lies above the last bucket's bound, before or after, so that its value is not known.
    BeyondBuckets,
    /// Fewer than half of other machines' hours.
    Gaps,
}

impl Uncounted {
    /// The reason in words.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::NothingBefore => "nothing measured before the change",
            Self::NothingAfter => "nothing measured after the change",
            Self::OtherHours => "measured at other hours of the day than before the change",
            Self::FewRequests => "fewer than 1000 requests before or after the change",
            Self::NotPositive => "the metric is 0, negative or no finite number",
            Self::BeyondBuckets => {
                "the metric lies above the bound of the last bucket, so that nothing is known of its change: ask for a lower \
                 percentile, or give the histogram more buckets"
            }
            Self::Gaps => "fewer than half of the hours that other machines have",
        }
    }
}

impl MachineSeries {
    /// Adds requests with a latency between two bounds in ns. Samples of the same hour that were added before stay
    /// alone: a source has either histograms or samples.
    pub fn add_requests(&mut self, hour: UnixHour, low_ns: u64, high_ns: u64, count: f64) {
        let value = self
            .hours
            .entry(hour)
            .or_insert_with(|| HourlyValue::Histogram(LatencyHistogram::default()));
        if let HourlyValue::Histogram(histogram) = value {
            histogram.add_requests(low_ns, high_ns, count);
        }
    }

    /// Adds a sample of a quantity.
    pub fn add_sample(&mut self, hour: UnixHour, sample: f64) {
        let value = self.hours.entry(hour).or_insert(HourlyValue::Samples {
            sum: 0.0,
            count: 0.0,
        });
        if let HourlyValue::Samples { sum, count } = value {
            *sum += sample;
            *count += 1.0;
        }
    }

    /// The first and the last hour with a value.
    pub fn first_and_last_hour(&self) -> Option<(UnixHour, UnixHour)> {
        let first = self.hours.first_key_value()?;
        let last = self.hours.last_key_value()?;
        Some((*first.0, *last.0))
    }

    /// The series before an hour.
    #[must_use]
    pub fn until_hour(&self, end: UnixHour) -> Self {
        let hours = self.hours.range(..end);
        Self {
            hours: hours.map(|(hour, value)| (*hour, value.clone())).collect(),
        }
    }

    /// The change of a metric between two ranges of hours. An hour of the day counts before the change as often as after,
    /// so that a day curve cancels even if hours are missing.
    ///
    /// # Errors
    /// Why the machine does not count.
    pub fn measure_change(
        &self,
        metric: &CanaryMetric,
        before: Range<UnixHour>,
        after: Range<UnixHour>,
    ) -> Result<MetricChange, Uncounted> {
        let counts_before = self.count_by_hour_of_day(before.clone());
        let counts_after = self.count_by_hour_of_day(after.clone());
        if counts_before.iter().all(|count| *count == 0) {
            return Err(Uncounted::NothingBefore);
        }
        if counts_after.iter().all(|count| *count == 0) {
            return Err(Uncounted::NothingAfter);
        }
        let common: [bool; DAY_HOURS as usize] =
            std::array::from_fn(|hour| counts_before[hour] > 0 && counts_after[hour] > 0);
        let weights_before = std::array::from_fn(|hour| {
            if common[hour] {
                f64::from(counts_after[hour]) / f64::from(counts_before[hour])
            } else {
                0.0
            }
        });
        let weights_after = common.map(|is_common| f64::from(u8::from(is_common)));
        let hours = common
            .iter()
            .zip(counts_after)
            .filter(|(is_common, _)| **is_common)
            .map(|(_, count)| count as usize)
            .sum();
        if hours == 0 {
            return Err(Uncounted::OtherHours);
        }
        let value_before = self.metric_of_weighted_hours(metric, before, &weights_before)?;
        let value_after = self.metric_of_weighted_hours(metric, after, &weights_after)?;
        let log_ratio = (value_after.likely / value_before.likely).ln();
        if !log_ratio.is_finite() {
            return Err(Uncounted::NotPositive);
        }
        let quantiles = [value_before.quantile, value_after.quantile];
        let buckets = quantiles.into_iter().flatten();
        Ok(MetricChange {
            before: value_before.likely,
            after: value_after.likely,
            log_ratio,
            log_ratio_range: match quantiles {
                [Some(before), Some(after)] => range_of_log_ratio(&before, &after),
                _ => [log_ratio; 2],
            },
            bucket: buckets
                .map(|quantile| quantile.bucket_ns.map(|ns| ns / 1e3))
                .max_by(|a, b| (a[1] / a[0]).total_cmp(&(b[1] / b[0]))),
            hours,
        })
    }

    fn count_by_hour_of_day(&self, range: Range<UnixHour>) -> [u32; DAY_HOURS as usize] {
        let mut counts = [0; DAY_HOURS as usize];
        for (hour, _) in self.hours.range(range) {
            counts[hour.hour_of_day()] += 1;
        }
        counts
    }

    /// A metric over a range, with a weight for each hour of the day.
    fn metric_of_weighted_hours(
        &self,
        metric: &CanaryMetric,
        range: Range<UnixHour>,
        weights: &[f64; DAY_HOURS as usize],
    ) -> Result<MeasuredValue, Uncounted> {
        let mut requests = LatencyHistogram::default();
        let (mut sum, mut weight_sum) = (0.0, 0.0);
        for (hour, value) in self.hours.range(range) {
            let weight = weights[hour.hour_of_day()];
            match value {
                HourlyValue::Histogram(histogram) => requests.add_weighted(histogram, weight),
                HourlyValue::Samples {
                    sum: samples,
                    count,
                } if *count > 0.0 => {
                    sum += weight * samples / count;
                    weight_sum += weight;
                }
                HourlyValue::Samples { .. } => {}
            }
        }
        let (value, quantile) = if weight_sum > 0.0 {
            (Some(sum / weight_sum), None)
        } else if requests.total() < FEWEST_REQUESTS {
            return Err(Uncounted::FewRequests);
        } else {
            let known_share = match metric.kind() {
                MetricKind::Percentile(share) => share,
                MetricKind::MeanLatency | MetricKind::Gauge => KNOWN_SHARE_OF_MEAN,
            };
            if requests.reaches_unbounded_bucket(known_share) {
                return Err(Uncounted::BeyondBuckets);
            }
            let quantile = match metric.kind() {
                MetricKind::Percentile(share) => requests.find_quantile(share),
                MetricKind::MeanLatency | MetricKind::Gauge => None,
            };
            let evenly_spread = quantile.map(|found| found.evenly_spread_ns());
            let ns = evenly_spread.or_else(|| requests.mean_ns());
            (ns.map(|ns| ns / 1e3), quantile)
        };
        let likely = value
            .filter(|value| *value > 0.0)
            .ok_or(Uncounted::NotPositive)?;
        Ok(MeasuredValue { likely, quantile })
    }
}

/// A metric over some hours.
struct MeasuredValue {
    likely: f64,
    /// Where the metric lies in a histogram; `None` where samples say the value, and for means.
    quantile: Option<BucketedQuantile>,
}

/// The least and the most that the logarithm of a quantile after over before may be. In a falling tail both sides have the same
/// shape, whichever that is. Elsewhere either side may lie anywhere in its bucket.
fn range_of_log_ratio(before: &BucketedQuantile, after: &BucketedQuantile) -> [f64; 2] {
    let pairs = after.by_shape_ns.into_iter().zip(before.by_shape_ns);
    let mut range = [f64::INFINITY, f64::NEG_INFINITY];
    for ratio in pairs.map(|(after_ns, before_ns)| (after_ns / before_ns).ln()) {
        range = [range[0].min(ratio), range[1].max(ratio)];
    }
    let is_settled =
        |quantile: &BucketedQuantile| quantile.is_in_falling_tail || quantile.is_in_narrow_bucket();
    if is_settled(before) && is_settled(after) {
        return range;
    }
    let [least, most] = [
        after.bucket_ns[0] / before.bucket_ns[1],
        after.bucket_ns[1] / before.bucket_ns[0],
    ];
    [range[0].min(least.ln()), range[1].max(most.ln())]
}

/// What all machines measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetSeries {
    /// Series by name of the machine.
    pub machines: BTreeMap<String, MachineSeries>,
    /// What a reader should know about the input.
    pub notes: Vec<String>,
}

impl FleetSeries {
    /// The first and the last hour that any machine has.
    pub fn first_and_last_hour(&self) -> Option<(UnixHour, UnixHour)> {
        self.machines
            .values()
            .filter_map(MachineSeries::first_and_last_hour)
            .reduce(|span, other| (span.0.min(other.0), span.1.max(other.1)))
    }

    /// The last hour that most of the named machines have reached; `None` if they have no values. A single clock that is
    /// ahead does not move it, nor does a minority that went silent.
    pub fn last_hour_of_most<'a>(
        &self,
        names: impl Iterator<Item = &'a String>,
    ) -> Option<UnixHour> {
        let mut ends: Vec<UnixHour> = names
            .filter_map(|name| self.machines.get(name)?.first_and_last_hour())
            .map(|(_, last)| last)
            .collect();
        ends.sort_unstable();
        ends.get(ends.len().checked_sub(1)? / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canary::NO_UPPER_END_NS;

    fn power() -> CanaryMetric {
        CanaryMetric::from_name("mean_mw", None).unwrap()
    }

    /// Power of a machine with a strong day curve, which the change multiplies by `factor` from the second day on.
    fn two_days(factor: f64, missing: Range<i64>) -> MachineSeries {
        let mut series = MachineSeries::default();
        for hour in (0..48).filter(|hour| !missing.contains(hour)) {
            let day_curve = 100.0 + 10.0 * (hour % 24) as f64;
            let power = if hour < 24 {
                day_curve
            } else {
                day_curve * factor
            };
            series.add_sample(UnixHour(hour), power);
        }
        series
    }

    #[test]
    fn gaps_do_not_turn_a_day_curve_into_a_change() {
        for missing in [0..0, 24..36, 6..12, 30..47] {
            let change = two_days(1.1, missing.clone())
                .measure_change(
                    &power(),
                    UnixHour(0)..UnixHour(24),
                    UnixHour(24)..UnixHour(48),
                )
                .unwrap();
            let error = change.log_ratio - 1.1_f64.ln();
            assert!(error.abs() < 1e-9, "{missing:?}: {change:?}");
        }
    }

    #[test]
    fn reasons_for_leaving_a_machine_out() {
        let (before, after) = (UnixHour(0)..UnixHour(24), UnixHour(24)..UnixHour(48));
        for (series, reason) in [
            (two_days(1.0, 0..24), Uncounted::NothingBefore),
            (two_days(1.0, 24..48), Uncounted::NothingAfter),
            (two_days(1.0, 12..36), Uncounted::OtherHours),
        ] {
            let change = series.measure_change(&power(), before.clone(), after.clone());
            assert_eq!(change, Err(reason));
        }
        let mut few = MachineSeries::default();
        few.add_requests(UnixHour(1), 0, 1000, 999.0);
        few.add_requests(UnixHour(25), 0, 1000, 5000.0);
        let latency = CanaryMetric::from_name("p99_us", None).unwrap();
        assert_eq!(
            few.measure_change(&latency, before.clone(), after.clone()),
            Err(Uncounted::FewRequests)
        );
        let mut zero = two_days(1.0, 0..0);
        zero.hours.retain(|hour, _| *hour < UnixHour(24));
        zero.add_sample(UnixHour(25), 0.0);
        assert_eq!(
            zero.measure_change(&power(), before, after),
            Err(Uncounted::NotPositive)
        );
    }

    #[test]
    fn a_percentile_beyond_the_last_bound_is_not_known() {
        let mut series = MachineSeries::default();
        for hour in [1, 25] {
            series.add_requests(UnixHour(hour), 0, 1_000, 98_000.0);
            series.add_requests(UnixHour(hour), 1_000, NO_UPPER_END_NS, 2_000.0);
        }
        for (name, expected) in [
            ("p99_us", Err(Uncounted::BeyondBuckets)),
            ("mean_us", Err(Uncounted::BeyondBuckets)),
            ("p95_us", Ok(())),
        ] {
            let metric = CanaryMetric::from_name(name, None).unwrap();
            let (before, after) = (UnixHour(0)..UnixHour(24), UnixHour(24)..UnixHour(48));
            let change = series.measure_change(&metric, before, after);
            assert_eq!(change.map(|_| ()), expected, "{name}");
        }
    }

    #[test]
    fn an_hour_begins_at_its_full_hour() {
        assert_eq!(UnixHour::containing_second(-1), UnixHour(-1));
        assert_eq!(UnixHour::containing_second(3599), UnixHour(0));
        assert_eq!(UnixHour::beginning_after_second(3600), UnixHour(1));
        assert_eq!(UnixHour::beginning_after_second(3601), UnixHour(2));
    }
}
