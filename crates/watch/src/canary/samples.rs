//! Samples from all files, each once, and the hourly series made from samples.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use wakepath_units::printable::escape_for_one_line;

use super::CanaryError;
use super::counters::{CounterKey, CounterSamples, add_requests_by_counters};
use super::histogram::NO_UPPER_END_NS;
use super::metric::{CanaryMetric, MetricKind};
use super::series::{FleetSeries, MachineSeries, UnixHour};

/// Most machines in a fleet.
const MOST_MACHINES: usize = 20_000;

/// Longest accepted span from the first to the last hour: two years.
const LONGEST_HOURS: i64 = 2 * 366 * 24;

/// The unit of a histogram's bucket bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketUnit {
    /// Seconds, as Prometheus advises.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl BucketUnit {
    const fn nanoseconds(self) -> f64 {
        match self {
            Self::Seconds => 1e9,
            Self::Milliseconds => 1e6,
            Self::Microseconds => 1e3,
            Self::Nanoseconds => 1.0,
        }
    }

    /// A bound in ns; `None` for a bound that is negative or no number.
    pub(crate) fn bound_to_ns(self, bound: f64) -> Option<u64> {
        if bound == f64::INFINITY {
            return Some(NO_UPPER_END_NS);
        }
        (bound >= 0.0).then(|| (bound * self.nanoseconds()).round() as u64)
    }
}

/// A sample that a file names more than once counts once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SampleKey {
    pub(crate) machine: String,
    pub(crate) time_ms: i64,
    pub(crate) labels: String,
}

/// Samples of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct SampleStore {
    metric: CanaryMetric,
    machine_label: String,
    unit: BucketUnit,
    change_s: Option<i64>,
    counters: BTreeMap<CounterKey, CounterSamples>,
    rates: BTreeMap<CounterKey, CounterSamples>,
    gauges: BTreeMap<SampleKey, f64>,
    requests: BTreeMap<SampleKey, Vec<(u64, u64, f64)>>,
    repeated: u64,
    /// The first place with two values.
    contradiction: Option<String>,
    not_numbers: u64,
    /// Rows of a table without their count of requests.
    missing_requests: BTreeSet<SampleKey>,
    notes: Vec<String>,
}

impl SampleStore {
    /// A store without samples; arguments as for [`SeriesCollector::new`](super::SeriesCollector::new).
    pub(crate) fn new(
        metric: CanaryMetric,
        machine_label: &str,
        unit: BucketUnit,
        change_s: Option<i64>,
    ) -> Self {
        Self {
            metric,
            machine_label: machine_label.to_owned(),
            unit,
            change_s,
            counters: BTreeMap::new(),
            rates: BTreeMap::new(),
            gauges: BTreeMap::new(),
            requests: BTreeMap::new(),
            repeated: 0,
            contradiction: None,
            not_numbers: 0,
            missing_requests: BTreeSet::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) const fn metric(&self) -> &CanaryMetric {
        &self.metric
    }

    pub(crate) fn machine_label(&self) -> &str {
        &self.machine_label
    }

    pub(crate) const fn unit(&self) -> BucketUnit {
        self.unit
    }

    pub(crate) fn add_note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Adds a sample: from a growing counter, or from a rate.
    pub(crate) fn add_counter_sample(
        &mut self,
        key: &CounterKey,
        is_rate: bool,
        time_ms: i64,
        value: f64,
    ) {
        let has_value = value.is_finite() && value >= 0.0;
        self.not_numbers += u64::from(!has_value);
        let counters = if is_rate {
            &mut self.rates
        } else {
            &mut self.counters
        };
        let samples = match counters.get_mut(key) {
            Some(samples) => samples,
            None => counters.entry(key.clone()).or_default(),
        };
        if !has_value {
            samples.entry(time_ms).or_insert(f64::NAN);
            return;
        }
        let before = samples
            .insert(time_ms, value)
            .filter(|earlier| !earlier.is_nan());
        self.note_repetition(&key.machine, time_ms, before.as_ref(), &value);
    }

    /// Adds a sample of a quantity.
    pub(crate) fn add_gauge_sample(&mut self, key: SampleKey, value: f64) {
        if !value.is_finite() {
            self.not_numbers += 1;
            return;
        }
        let before = self.gauges.get(&key).copied();
        self.note_repetition(&key.machine, key.time_ms, before.as_ref(), &value);
        self.gauges.insert(key, value);
    }

    /// Adds requests by latency: each with lower bound, upper bound in ns and count.
    pub(crate) fn add_requests(&mut self, key: SampleKey, buckets: Vec<(u64, u64, f64)>) {
        let before = self.requests.get(&key).cloned();
        self.note_repetition(&key.machine, key.time_ms, before.as_ref(), &buckets);
        self.requests.insert(key, buckets);
    }

    /// Adds a sample without any value.
    pub(crate) const fn add_gap(&mut self) {
        self.not_numbers += 1;
    }

    /// Adds a bucket whose requests are not known. The machine's other buckets of this time are left out, too, since a histogram with
    /// only some of its buckets is another one.
    pub(crate) fn add_missing_requests(&mut self, key: SampleKey) {
        self.add_gap();
        self.missing_requests.insert(key);
    }

    /// Notes a value that follows another one of the same machine and time.
    fn note_repetition<T: PartialEq>(
        &mut self,
        machine: &str,
        time_ms: i64,
        before: Option<&T>,
        value: &T,
    ) {
        let Some(before) = before else {
            return;
        };
        self.repeated += 1;
        if before != value && self.contradiction.is_none() {
            let machine = escape_for_one_line(machine);
            let time = OffsetDateTime::from_unix_timestamp(time_ms.div_euclid(1000)).ok();
            let text = time.and_then(|time| time.format(&Rfc3339).ok());
            let when = text.unwrap_or_else(|| format!("{time_ms} ms"));
            self.contradiction = Some(format!(
                "{machine} has two different values at {when}, and nobody knows which is right: leave one file or line out"
            ));
        }
    }

    /// Puts the series of all machines together.
    ///
    /// # Errors
    /// Percentiles were asked for and no histogram was found; two values of one time; impossible times; too many machines.
    pub(crate) fn finish(self) -> Result<FleetSeries, CanaryError> {
        let mut machines: BTreeMap<String, MachineSeries> = BTreeMap::new();
        let has_requests =
            !(self.counters.is_empty() && self.rates.is_empty() && self.requests.is_empty());
        if let Some(contradiction) = self.contradiction {
            return Err(CanaryError::Machines(contradiction));
        }
        let mut notes = self.notes;
        match self.metric.kind() {
            MetricKind::Percentile(_) if !self.gauges.is_empty() => {
                return Err(CanaryError::Machines(refuse_percentile_series(
                    self.metric.name(),
                )));
            }
            MetricKind::Gauge if has_requests => {
                return Err(CanaryError::Machines(format!(
                    "{} does not follow from histograms of latency; judge p99_us or mean_us by them",
                    self.metric.name()
                )));
            }
            MetricKind::MeanLatency if has_requests && !self.gauges.is_empty() => {
                return Err(CanaryError::Machines(
                    "some files have histograms and some have means; give files of one kind"
                        .to_owned(),
                ));
            }
            MetricKind::MeanLatency if !self.gauges.is_empty() => notes.push(
                "mean_us comes from samples of a mean: an hour counts the same with few or many requests"
                    .to_owned(),
            ),
            _ => {}
        }
        for (key, value) in self.gauges {
            machines
                .entry(key.machine)
                .or_default()
                .add_sample(UnixHour::containing_ms(key.time_ms), value);
        }
        let incomplete: BTreeSet<(String, i64)> = self
            .missing_requests
            .into_iter()
            .filter(|key| !self.requests.contains_key(key))
            .map(|key| (key.machine, key.time_ms))
            .collect();
        let mut left_out = 0;
        for (key, buckets) in self.requests {
            let place = (key.machine, key.time_ms);
            if incomplete.contains(&place) {
                left_out += 1;
                continue;
            }
            let (machine, time_ms) = place;
            let series = machines.entry(machine).or_default();
            for (low_ns, high_ns, count) in buckets {
                series.add_requests(UnixHour::containing_ms(time_ms), low_ns, high_ns, count);
            }
        }
        if left_out > 0 {
            notes.push(format!(
                "{left_out} counts of requests were left out, because another bucket of their machine and time has none"
            ));
        }
        notes.extend(add_requests_by_counters(
            &mut machines,
            self.counters,
            self.rates,
            self.change_s,
        ));
        if self.repeated > 0 {
            notes.push(format!(
                "{} samples were given more than once; each counts once",
                self.repeated
            ));
        }
        if self.not_numbers > 0 {
            notes.push(format!(
                "{} samples are empty, no numbers, or negative counts, and were left out",
                self.not_numbers
            ));
        }
        machines.retain(|_, machine| machine.first_and_last_hour().is_some());
        let series = FleetSeries { machines, notes };
        check_size(&series)?;
        Ok(series)
    }
}

/// Refuses an impossible span, and too many machines.
fn check_size(series: &FleetSeries) -> Result<(), CanaryError> {
    if series.machines.len() > MOST_MACHINES {
        return Err(CanaryError::Machines(format!(
            "{} machines; at most {MOST_MACHINES} are judged at once",
            series.machines.len()
        )));
    }
    match series.first_and_last_hour() {
        None => Err(CanaryError::Machines(
            "no machine has any value; is the machine's label right (--label)?".to_owned(),
        )),
        Some((first, last)) if last.0 - first.0 > LONGEST_HOURS => {
            Err(CanaryError::Machines(format!(
                "the samples span {} hours, from {} to {}; are all times in seconds since 1970?",
                last.0 - first.0,
                first.format_begin(),
                last.format_begin()
            )))
        }
        Some(_) => Ok(()),
    }
}

/// Message against a series with percentiles.
pub(crate) fn refuse_percentile_series(metric: &str) -> String {
    format!(
        "{metric} cannot come from a series of percentiles: percentiles of different hours cannot be averaged. Give the \
         histogram instead: Prometheus' ..._bucket with its label le, fio's json+, or CSV with low_us, high_us and count"
    )
}

pub(crate) fn content_error(path: &Path, message: impl Into<String>) -> CanaryError {
    CanaryError::Content {
        path: path.to_owned(),
        message: message.into(),
    }
}

/// Parses a time: seconds since 1970, or RFC 3339 such as `2026-11-20T12:00:00Z`. Returns seconds since 1970.
///
/// # Errors
/// The text is no such time.
pub fn parse_time_to_seconds(text: &str) -> Result<i64, String> {
    parse_time_to_ms(text).map(|ms| ms.div_euclid(1000))
}

pub(crate) fn parse_time_to_ms(text: &str) -> Result<i64, String> {
    let trimmed = text.trim();
    if let Ok(seconds) = trimmed.parse::<f64>() {
        return seconds_to_ms(seconds)
            .ok_or_else(|| format!("`{trimmed}` is no time in seconds since 1970"));
    }
    let parsed = OffsetDateTime::parse(trimmed, &Rfc3339).map_err(|_| {
        format!(
            "`{trimmed}` is no time; give seconds since 1970, or a time with its zone such as 2026-11-20T12:00:00Z"
        )
    })?;
    Ok(parsed.unix_timestamp() * 1000)
}

/// Seconds since 1970 in ms; `None` for no number, and for years beyond 9999.
pub(crate) fn seconds_to_ms(seconds: f64) -> Option<i64> {
    const LATEST: f64 = 253_402_300_800.0;
    (seconds.abs() < LATEST).then(|| (seconds * 1e3).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_text_with_a_zone() {
        assert_eq!(parse_time_to_seconds("1700000000.5"), Ok(1_700_000_000));
        assert_eq!(
            parse_time_to_seconds("2023-11-14T22:13:20Z"),
            Ok(1_700_000_000)
        );
        assert_eq!(
            parse_time_to_seconds("2023-11-14T23:13:20+01:00"),
            Ok(1_700_000_000)
        );
        for text in ["", "yesterday", "2023-11-14", "NaN", "1e300"] {
            assert!(parse_time_to_seconds(text).is_err(), "{text}");
        }
    }
}
