//! The metric dictionary: what each number means, for every table, file and page.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::Mean;

/// The better direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Rates.
    Higher,
    /// Smaller values are better: times, power and energy.
    Lower,
    /// Neither direction is better: counts of events.
    Neither,
}

impl Better {
    /// Sign that turns a change into a gain: -1 where smaller values are better, otherwise 1.
    pub const fn gain_sign(self) -> f64 {
        match self {
            Self::Higher | Self::Neither => 1.0,
            Self::Lower => -1.0,
        }
    }

    /// The kind of mean that averages this metric over several runs.
    pub const fn mean_kind(self) -> Mean {
        match self {
            Self::Higher => Mean::Harmonic,
            Self::Lower | Self::Neither => Mean::Arithmetic,
        }
    }
}

/// A metric in the dictionary: a number that a run has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// Name in files.
    pub name: Cow<'static, str>,
    /// Title in tables.
    pub title: Cow<'static, str>,
    /// Explanation.
    pub meaning: Cow<'static, str>,
    /// Unit of the values; empty for plain counts.
    pub unit: Cow<'static, str>,
    /// The better direction.
    pub better: Better,
    /// The mean over several runs.
    pub mean: Mean,
    /// Whether the metric is compared when no other metrics are asked for.
    pub headline: bool,
}

/// Largest accepted value of a metric: calculations such as squares stay finite.
pub(crate) const LARGEST: f64 = 1e30;

/// Checks whether a metric can have this value: finite, possible, and not above the largest accepted.
///
/// # Errors
/// A sentence with the value.
pub(crate) fn check_metric_value(name: &str, value: f64) -> Result<(), String> {
    if value.abs() <= LARGEST && (value >= 0.0 || !is_known_rate_metric(name)) {
        return Ok(());
    }
    Err(format!("{name} is {value}, which is no result"))
}

fn is_known_rate_metric(name: &str) -> bool {
    Metric::find(name).is_some_and(|metric| metric.mean == Mean::Harmonic)
}

impl Metric {
    /// Finds a metric in the dictionary by name.
    pub fn find(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|m| m.name == name)
    }

    /// The title with the unit in brackets, for columns and axes.
    pub fn title_with_unit(&self) -> String {
        if self.unit.is_empty() {
            self.title.to_string()
        } else {
            format!("{}, {}", self.title, self.unit)
        }
    }
}

const fn define_metric_without_headline(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    better: Better,
    meaning: &'static str,
) -> Metric {
    Metric {
        name: Cow::Borrowed(name),
        title: Cow::Borrowed(title),
        meaning: Cow::Borrowed(meaning),
        unit: Cow::Borrowed(unit),
        better,
        mean: better.mean_kind(),
        headline: false,
    }
}

const fn mark_as_headline(mut metric: Metric) -> Metric {
    metric.headline = true;
    metric
}

/// Defines a metric for an amount or a time: smaller values are better.
const fn define_smaller_is_better(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    meaning: &'static str,
) -> Metric {
    define_metric_without_headline(name, title, unit, Better::Lower, meaning)
}

/// Defines a metric for a rate, work done per second: larger values are better.
const fn define_larger_is_better(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    meaning: &'static str,
) -> Metric {
    define_metric_without_headline(name, title, unit, Better::Higher, meaning)
}

/// Defines a metric for a count of events: neither direction is better.
const fn define_neutral_count(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    meaning: &'static str,
) -> Metric {
    define_metric_without_headline(name, title, unit, Better::Neither, meaning)
}

/// All metrics that wakepath measures. A study may add metrics, described in `result.json`.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    mark_as_headline(define_larger_is_better("iops", "IOPS", "1/s", "finished requests per second")),
    define_larger_is_better("bandwidth_mbs", "bandwidth", "MB/s", "bytes read and written per second, in millions"),
    define_larger_is_better("read_mbs", "read bandwidth", "MB/s", "bytes read per second, in millions"),
    define_larger_is_better("write_mbs", "write bandwidth", "MB/s", "bytes written per second, in millions"),
    mark_as_headline(define_smaller_is_better("mean_us", "mean latency", "us",
        "mean time from the submission of a request to its completion, system calls included where the source has them")),
    define_smaller_is_better("read_mean_us", "mean read latency", "us", "the same, reads only"),
    define_smaller_is_better("write_mean_us", "mean write latency", "us", "the same, writes only"),
    define_smaller_is_better("p50_us", "median latency", "us", "half of the requests took at most this long"),
    define_smaller_is_better("p90_us", "p90 latency", "us", "90 % of the requests took at most this long"),
    mark_as_headline(define_smaller_is_better("p99_us", "p99 latency", "us", "99 % of the requests took at most this long")),
    define_smaller_is_better("p999_us", "p99.9 latency", "us", "99.9 % of the requests took at most this long"),
    define_smaller_is_better("max_us", "longest latency", "us", "the longest that a request took"),
    mark_as_headline(define_larger_is_better("commits_per_s", "commits", "1/s",
        "calls of fsync and fdatasync per second, as databases make them for each commit")),
    define_smaller_is_better("sync_mean_us", "mean sync latency", "us", "mean time that such a call took, with the write-back of dirty pages"),
    mark_as_headline(define_smaller_is_better("sync_p99_us", "p99 sync latency", "us", "99 % of such calls took at most this long")),
    define_metric_without_headline("rate_reached", "requested rate reached", "%", Better::Higher,
        "share of the rate that a fio job asks for (`rate`, `rate_iops`) while it ran, of several rates the least; of a server's arrivals the share with a reply"),
    define_smaller_is_better("cut_after_s", "cut after", "s",
        "jobs without an end of their own were simulated for this long, and had more to do"),
    mark_as_headline(define_larger_is_better("ops_per_s", "operations", "1/s",
        "loops per second of the threads of an rt-app file's first task")),
    mark_as_headline(define_smaller_is_better("wake_mean_us", "mean wake-up latency", "us",
        "mean time from the cause of a wake-up until the thread runs, first task of an rt-app file")),
    mark_as_headline(define_smaller_is_better("wake_p99_us", "p99 wake-up latency", "us",
        "99 % of these wake-ups took at most this long")),
    mark_as_headline(define_smaller_is_better("mean_mw", "power", "mW",
        "mean power of CPUs, clusters, package and modelled drives; of a recording that of idle CPUs and of the package")),
    define_smaller_is_better("per_io_uj", "energy per operation", "uJ",
        "energy of the machine over finished requests, or over operations of an rt-app file"),
    define_smaller_is_better("drive_mw", "drive power", "mW", "mean power of the drive, where it has power states"),
    define_smaller_is_better("drive_wake_ups_per_s", "drive wake-ups", "1/s",
        "requests per second that found the drive asleep or falling asleep"),
    define_smaller_is_better("drive_wake_mean_us", "mean drive wake-up", "us", "mean wait of such a request for the drive; no value without one"),
    define_smaller_is_better("drive_wake_p50_us", "median drive wake-up", "us", "half of such requests waited at most this long for the drive"),
    define_smaller_is_better("drive_wake_p99_us", "p99 drive wake-up", "us", "99 % of such requests waited at most this long for the drive"),
    define_smaller_is_better("drive_wake_max_us", "longest drive wake-up", "us", "the longest wait of such a request for the drive"),
    define_neutral_count("drive_asleep", "drive asleep", "%", "share of the time in power states that do no I/O"),
    define_smaller_is_better("cpus_mw", "CPU power", "mW", "mean power of the CPUs alone"),
    define_metric_without_headline("mean_mhz", "mean frequency", "MHz", Better::Higher,
        "mean frequency at which tasks ran, weighted by the time that they ran"),
    define_neutral_count("tickless_per_s", "tickless idle periods", "1/s",
        "idle periods per second that CPUs began with their tick stopped, all CPUs together"),
    define_neutral_count("ticks_per_s", "ticks on idle CPUs", "1/s", "ticks per second that interrupted or ended an idle period, all CPUs together"),
    define_neutral_count("wake_ups_per_s", "wake-ups", "1/s", "ends of idle periods per second, all CPUs together"),
    define_neutral_count("usage_per_s", "idle state usage", "1/s",
        "idle states entered per second, as sysfs counts them (`usage`), all states and CPUs together"),
    define_neutral_count("above_per_s", "above", "1/s",
        "stays in an idle state per second that the kernel counts as too deep (`above` in sysfs): shorter than the target residency, by its own measure"),
    define_neutral_count("below_per_s", "below", "1/s",
        "stays in an idle state per second that the kernel counts as too shallow (`below` in sysfs), by its own measure"),
    define_neutral_count("drift_percent", "drift", "%",
        "mean latency of the second half of the measured time against that of the first: far from 0, the run had not settled"),
    define_metric_without_headline("set_mhz", "frequency set", "MHz", Better::Higher,
        "mean frequency that clocks are set to, over all time, also while their CPUs sleep"),
    define_smaller_is_better("frequency_changes_per_s", "frequency changes", "1/s", "changes of frequency per second, all clocks together"),
    define_smaller_is_better("boosts", "boosts", "", "how often HWP dynamic boost raised the minimum of a CPU"),
    mark_as_headline(define_smaller_is_better("package_mw", "package power", "mW",
        "mean power of the processor packages over the run as RAPL counted it")),
    define_smaller_is_better("platform_mw", "platform power", "mW",
        "mean power of the whole platform over the run as RAPL counted it (`psys`), where the firmware measures it: packages and what is around them"),
    mark_as_headline(define_smaller_is_better("added_us_per_io", "added latency per I/O", "us",
        "what wake-ups for an I/O completion took longer than the oracle's, over all completions of a recording")),
    define_smaller_is_better("exit_us_per_io", "exit latency per I/O", "us",
        "exit latency of CPUs and package that wake-ups for an I/O completion took, over all completions of a recording, whatever the oracle's"),
    mark_as_headline(define_smaller_is_better("added_us_per_wake", "added latency per wake-up", "us",
        "what wake-ups took longer than the oracle's, over all wake-ups of a recording")),
    mark_as_headline(define_smaller_is_better("too_deep_per_s", "too deep", "1/s",
        "stays in an idle state per second that were left before its target residency, although a shallower state was there")),
    mark_as_headline(define_smaller_is_better("too_shallow_per_s", "too shallow", "1/s",
        "stays in an idle state per second that were long enough for a deeper one")),
    define_metric_without_headline("as_recorded", "decided as recorded", "%", Better::Higher,
        "idle periods in which the governor that ran, asked the same again, chooses what it chose"),
    define_metric_without_headline("leased", "idle periods under a lease", "%", Better::Lower,
        "idle periods that began while a power-sleep demotion prevention lease held"),
    mark_as_headline(define_smaller_is_better("wall_s", "wall time", "s", "time from the start of the command to its end")),
    define_smaller_is_better("user_s", "user time", "s", "CPU time in user space of the command and of the children that it waited for; of fio's jobs alone"),
    define_smaller_is_better("system_s", "system time", "s", "CPU time in the kernel of the same"),
    define_smaller_is_better("switches_per_s", "context switches", "1/s", "context switches of fio's jobs"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lead_to_their_metric() {
        for metric in METRICS {
            assert_eq!(Metric::find(&metric.name), Some(metric));
            assert!(!metric.meaning.is_empty() && !metric.title.is_empty());
        }
        assert_eq!(Metric::find("no such"), None);
    }

    #[test]
    fn rates_have_harmonic_means_and_times_arithmetic_ones() {
        for metric in METRICS {
            assert_eq!(metric.mean, metric.better.mean_kind(), "{}", metric.name);
        }
    }

    #[test]
    fn commits_are_compared_without_being_asked_for() {
        for name in ["commits_per_s", "sync_p99_us"] {
            assert!(Metric::find(name).unwrap().headline, "{name}");
        }
    }

    #[test]
    fn a_metric_survives_json() {
        for metric in METRICS {
            let text = serde_json::to_string(metric).unwrap();
            assert_eq!(serde_json::from_str::<Metric>(&text).unwrap(), *metric);
        }
    }
}
