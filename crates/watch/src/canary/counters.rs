//! Counters of a histogram's buckets, and the requests by hour that follow from them.
//!
//! A bucket's counter also counts the requests of all lower buckets. A sample that only some buckets have would move requests into
//! the next bucket, so a time counts for all buckets of a histogram or for none.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_units::printable::escape_for_one_line;

use super::series::{MachineSeries, UnixHour};

/// A gap between two samples of a counter is longer than the usual distance by more than this factor.
const GAP_FACTOR: i64 = 3;

/// Samples of a cumulative counter by time in ms since 1970; NaN for a sample without a value.
pub(crate) type CounterSamples = BTreeMap<i64, f64>;

/// A cumulative counter of a histogram: machine, remaining labels, upper bound in ns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CounterKey {
    pub(crate) machine: String,
    pub(crate) labels: String,
    pub(crate) high_ns: u64,
}

impl CounterKey {
    fn is_in_same_histogram(&self, other: &Self) -> bool {
        self.machine == other.machine && self.labels == other.labels
    }
}

/// What a counter counted in an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct HourlyIncrease {
    increase: f64,
    /// Number of steps between samples, or of rates, behind the increase.
    steps: u32,
}

impl HourlyIncrease {
    fn add_step(&mut self, increase: f64) {
        self.increase += increase;
        self.steps += 1;
    }
}

/// What a counter counted, by hour.
type HourlyIncreases = BTreeMap<UnixHour, HourlyIncrease>;

/// Faults of counters that are told to the user.
#[derive(Debug, Default)]
struct CounterFaults {
    resets: u64,
    /// Hours with times at which only some buckets of a machine's histogram have a sample.
    incomplete_hours: BTreeSet<(String, UnixHour)>,
}

/// Adds the requests behind the counters and rates of buckets to the machines. A counter's step over `change_s`, in seconds since 1970, is left
/// out. Returns notes on faults.
pub(crate) fn add_requests_by_counters(
    machines: &mut BTreeMap<String, MachineSeries>,
    counters: BTreeMap<CounterKey, CounterSamples>,
    rates: BTreeMap<CounterKey, CounterSamples>,
    change_s: Option<i64>,
) -> Vec<String> {
    let mut faults = CounterFaults::default();
    let whole_counters = take_out_incomplete_times(counters, &mut faults);
    let whole_rates = take_out_incomplete_times(rates, &mut faults);
    let mut increases: Vec<(&CounterKey, HourlyIncreases)> = whole_counters
        .iter()
        .map(|(key, samples)| (key, hourly_increases(samples, change_s, &mut faults.resets)))
        .collect();
    increases.extend(
        whole_rates
            .iter()
            .map(|(key, samples)| (key, hourly_sums(samples))),
    );
    add_bucket_differences(machines, increases, &mut faults);
    faults.describe()
}

impl CounterFaults {
    fn describe(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.resets > 0 {
            notes.push(format!(
                "{} times a counter began again, as after a reboot; counting goes on from there",
                self.resets
            ));
        }
        if let Some((first, hour)) = self.incomplete_hours.first() {
            let names: BTreeSet<&String> =
                self.incomplete_hours.iter().map(|(name, _)| name).collect();
            notes.push(format!(
                "left out: times in {} of {}, such as {} in the hour of {}, when only some buckets of a histogram have a sample",
                count_in_words(self.incomplete_hours.len(), "hour"),
                count_in_words(names.len(), "machine"),
                escape_for_one_line(first),
                hour.format_begin()
            ));
        }
        notes
    }
}

fn count_in_words(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

/// Takes times out of all buckets of a histogram at which a bucket lacks a sample between its first and its last one. Buckets may come and go
/// with another version of what exports them.
fn take_out_incomplete_times(
    counters: BTreeMap<CounterKey, CounterSamples>,
    faults: &mut CounterFaults,
) -> Vec<(CounterKey, CounterSamples)> {
    let mut whole: Vec<(CounterKey, CounterSamples)> = counters
        .into_iter()
        .filter(|(_, samples)| samples.values().any(|value| !value.is_nan()))
        .collect();
    for buckets in whole.chunk_by_mut(|(key, _), (next, _)| key.is_in_same_histogram(next)) {
        let incomplete = find_incomplete_times(buckets);
        for (key, samples) in buckets {
            for time_ms in &incomplete {
                if samples.remove(time_ms).is_some_and(|value| !value.is_nan()) {
                    let hour = UnixHour::containing_ms(*time_ms);
                    faults.incomplete_hours.insert((key.machine.clone(), hour));
                }
            }
        }
    }
    whole
}

/// Times in ms at which a bucket of a histogram lacks a sample.
fn find_incomplete_times(buckets: &[(CounterKey, CounterSamples)]) -> BTreeSet<i64> {
    let have_same_times = buckets
        .windows(2)
        .all(|pair| pair[0].1.keys().eq(pair[1].1.keys()));
    let mut times: BTreeSet<i64> = BTreeSet::new();
    for (_, samples) in buckets {
        let without_value = samples.iter().filter(|(_, value)| value.is_nan());
        times.extend(without_value.map(|(time_ms, _)| *time_ms));
    }
    if !have_same_times {
        let all: BTreeSet<i64> = buckets
            .iter()
            .flat_map(|(_, samples)| samples.keys().copied())
            .collect();
        let lacking = all.into_iter().filter(|time_ms| {
            let mut counters = buckets.iter();
            counters.any(|(_, samples)| lacks_sample_within_span(samples, *time_ms))
        });
        times.extend(lacking);
    }
    times
}

fn lacks_sample_within_span(samples: &CounterSamples, time_ms: i64) -> bool {
    !samples.contains_key(&time_ms)
        && samples.range(..time_ms).next_back().is_some()
        && samples.range(time_ms..).next().is_some()
}

/// Increases of a counter by hour. A step belongs to the hour of its middle. A counter that falls has begun again. Steps
/// over a gap, and the step over the change, are left out.
fn hourly_increases(
    samples: &CounterSamples,
    change_s: Option<i64>,
    resets: &mut u64,
) -> HourlyIncreases {
    let times: Vec<i64> = samples.keys().copied().collect();
    let mut steps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    steps.sort_unstable();
    let usual = steps.get(steps.len() / 2).copied().unwrap_or(0);
    let longest = usual.saturating_mul(GAP_FACTOR);
    let mut increases = HourlyIncreases::new();
    let later = samples.iter().skip(1);
    for ((from, earlier), (to, value)) in samples.iter().zip(later) {
        let is_over_change = change_s.is_some_and(|change| {
            let change_ms = change.saturating_mul(1000);
            *from < change_ms && change_ms < *to
        });
        if to - from > longest || is_over_change {
            continue;
        }
        let increase = if value < earlier {
            *resets += 1;
            *value
        } else {
            value - earlier
        };
        increases
            .entry(UnixHour::containing_ms(from + (to - from) / 2))
            .or_default()
            .add_step(increase);
    }
    increases
}

/// Sums of rates by hour.
fn hourly_sums(samples: &CounterSamples) -> HourlyIncreases {
    let mut sums = HourlyIncreases::new();
    for (time_ms, value) in samples {
        sums.entry(UnixHour::containing_ms(*time_ms))
            .or_default()
            .add_step(*value);
    }
    sums
}

/// Turns cumulative buckets into requests between bounds, and adds them to the machines. Counters that differ in other
/// labels than the bound, such as the device, are added up. An hour in which a bucket began or ended is left out.
fn add_bucket_differences(
    machines: &mut BTreeMap<String, MachineSeries>,
    increases: Vec<(&CounterKey, HourlyIncreases)>,
    faults: &mut CounterFaults,
) {
    let mut cumulative: BTreeMap<(&str, &str, UnixHour), BTreeMap<u64, HourlyIncrease>> =
        BTreeMap::new();
    for (key, hours) in increases {
        for (hour, increase) in hours {
            let place = (key.machine.as_str(), key.labels.as_str(), hour);
            let bucket = cumulative.entry(place).or_default().entry(key.high_ns);
            let total = bucket.or_default();
            total.increase += increase.increase;
            total.steps += increase.steps;
        }
    }
    for ((machine, _, hour), buckets) in cumulative {
        let mut steps = buckets.values().map(|bucket| bucket.steps);
        let first = steps.next();
        if steps.any(|other| Some(other) != first) {
            faults.incomplete_hours.insert((machine.to_owned(), hour));
            continue;
        }
        let series = machines.entry(machine.to_owned()).or_default();
        let (mut low_ns, mut below) = (0, 0.0);
        for (high_ns, bucket) in buckets {
            series.add_requests(hour, low_ns, high_ns, bucket.increase - below);
            (low_ns, below) = (high_ns, f64::max(bucket.increase, below));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::histogram::NO_UPPER_END_NS;
    use super::*;

    const fn hourly(increase: f64, steps: u32) -> HourlyIncrease {
        HourlyIncrease { increase, steps }
    }

    #[test]
    fn a_counter_that_begins_again_and_gaps_lose_no_requests_and_invent_none() {
        let minute = 60_000;
        let samples: CounterSamples = [
            (0, 100.0),
            (minute, 110.0),
            // A reboot.
            (2 * minute, 5.0),
            (3 * minute, 10.0),
            // A gap of two hours.
            (120 * minute, 5000.0),
            (121 * minute, 5001.0),
        ]
        .into();
        let mut resets = 0;
        let increases = hourly_increases(&samples, None, &mut resets);
        assert_eq!(resets, 1);
        let last = (UnixHour(2), hourly(1.0, 1));
        let expected = BTreeMap::from([(UnixHour(0), hourly(20.0, 3)), last]);
        assert_eq!(increases, expected);
        let over_change = hourly_increases(&samples, Some(30), &mut resets);
        let expected_with_change = BTreeMap::from([(UnixHour(0), hourly(10.0, 2)), last]);
        assert_eq!(over_change, expected_with_change);
    }

    fn three_buckets() -> [CounterKey; 3] {
        [1000, 2000, NO_UPPER_END_NS].map(|high_ns| CounterKey {
            machine: "a".to_owned(),
            labels: String::new(),
            high_ns,
        })
    }

    #[test]
    fn cumulative_buckets_become_requests_between_bounds() {
        let keys = three_buckets();
        let increases = keys
            .iter()
            .zip([10.0, 30.0, 31.0])
            .map(|(key, count)| (key, BTreeMap::from([(UnixHour(3), hourly(count, 1))])))
            .collect();
        let mut machines = BTreeMap::new();
        add_bucket_differences(&mut machines, increases, &mut CounterFaults::default());
        let mut expected = MachineSeries::default();
        expected.add_requests(UnixHour(3), 0, 1000, 10.0);
        expected.add_requests(UnixHour(3), 1000, 2000, 20.0);
        expected.add_requests(UnixHour(3), 2000, NO_UPPER_END_NS, 1.0);
        assert_eq!(machines["a"], expected);
    }

    /// Samples each half hour of a histogram of 10, 20 and 1 requests per half hour.
    fn half_hourly_counters() -> BTreeMap<CounterKey, CounterSamples> {
        let samples_growing_by = |count: f64| -> CounterSamples {
            (0..9)
                .map(|step| (step * 1_800_000, count * step as f64))
                .collect()
        };
        let counts = [10.0, 30.0, 31.0].map(samples_growing_by);
        three_buckets().into_iter().zip(counts).collect()
    }

    fn requests_and_notes(
        counters: BTreeMap<CounterKey, CounterSamples>,
    ) -> (MachineSeries, Vec<String>) {
        let mut machines = BTreeMap::new();
        let notes = add_requests_by_counters(&mut machines, counters, BTreeMap::new(), None);
        (machines.remove("a").unwrap(), notes)
    }

    #[test]
    fn a_time_without_a_sample_of_one_bucket_counts_for_none() {
        let second = &three_buckets()[1];
        let mut without_any = half_hourly_counters();
        for samples in without_any.values_mut() {
            samples.remove(&5_400_000);
        }
        let (expected, no_notes) = requests_and_notes(without_any);
        assert!(no_notes.is_empty(), "{no_notes:?}");
        let note = "left out: times in 1 hour of 1 machine, such as a in the hour of 1970-01-01T01:00:00Z, when only some buckets of a \
            histogram have a sample";
        for missing in [None, Some(f64::NAN)] {
            let mut counters = half_hourly_counters();
            let samples = counters.get_mut(second).unwrap();
            samples.remove(&5_400_000);
            samples.extend(missing.map(|value| (5_400_000, value)));
            let (requests, notes) = requests_and_notes(counters);
            assert_eq!(requests, expected);
            assert_eq!(notes, [note]);
        }
    }

    #[test]
    fn a_bucket_that_begins_later_leaves_its_first_hour_out() {
        let second = three_buckets()[1].clone();
        let mut counters = half_hourly_counters();
        let samples = counters.get_mut(&second).unwrap();
        samples.retain(|time_ms, _| *time_ms >= 5_400_000);
        let (requests, notes) = requests_and_notes(counters);
        let mut expected = MachineSeries::default();
        expected.add_requests(UnixHour(0), 0, 1000, 20.0);
        expected.add_requests(UnixHour(0), 1000, NO_UPPER_END_NS, 42.0);
        for hour in [UnixHour(2), UnixHour(3)] {
            expected.add_requests(hour, 0, 1000, 20.0);
            expected.add_requests(hour, 1000, 2000, 40.0);
            expected.add_requests(hour, 2000, NO_UPPER_END_NS, 2.0);
        }
        assert_eq!(requests, expected);
        assert_eq!(notes.len(), 1, "{notes:?}");
    }

    #[test]
    fn a_bucket_without_any_value_is_no_bucket() {
        let [_, second, _] = three_buckets();
        let mut counters = half_hourly_counters();
        for value in counters.get_mut(&second).unwrap().values_mut() {
            *value = f64::NAN;
        }
        let mut without = half_hourly_counters();
        without.remove(&second);
        assert_eq!(requests_and_notes(counters), requests_and_notes(without));
    }
}
