//! Metrics in Prometheus' text format.

use std::fmt::Write as _;
use std::time::Duration;

pub use crate::guarding::GuardState;
use crate::latency_parts::{PART_NAMES, PartCounts, RangeCounts};
pub use crate::machine_counters::MachineReading;
use crate::watch::Cost;

/// The daemon's counters and gauges at a moment.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Requested policies, `psd`, `boost`, `drives`, `guard` and `latency`, and whether each is in force as a whole.
    pub policies: Vec<(&'static str, bool)>,
    /// Number of watched I/Os, by CPU.
    pub ios: Vec<u64>,
    /// Number of CPUs with a lease now.
    pub leases: usize,
    /// Number of leases given since the start.
    pub leases_given: u64,
    /// Latency limits written.
    pub lease_writes: u64,
    /// Time under leases since the start, of all CPUs together.
    pub lease_time: Duration,
    /// Number of frequency policies whose minimum is raised now.
    pub boosted: usize,
    /// Minimum frequencies written.
    pub boost_writes: u64,
    /// Number of APST tables set again because something had changed them.
    pub tables_set_again: u64,
    /// Number of settings that could not be written.
    pub failures: u64,
    /// Number of settings that are left alone because somebody else has set them.
    pub foreign: u64,
    /// Number of events lost because the buffer was full.
    pub lost: u64,
    /// Timed runs of the eBPF programs, if any were timed.
    pub timed: Option<Cost>,
    /// Whether the kernel module gives the leases.
    pub kernel_module: bool,
    /// What guard and measurement of latency know; `None` without either.
    pub guard: Option<GuardState>,
}

impl Metrics {
    /// The metrics in Prometheus' text format, with counters of the machine.
    pub fn to_prometheus_text(&self, machine: &MachineReading) -> String {
        let mut page = MetricsPage::default();
        page.begin_metric("build_info", MetricKind::Gauge, "The version that runs.");
        page.add_labelled("version", env!("CARGO_PKG_VERSION"), 1);
        page.begin_metric(
            "policy_in_force",
            MetricKind::Gauge,
            "1 if all that the configuration asks of this policy is in force, 0 if it or a part of it is off.",
        );
        for (policy, in_force) in &self.policies {
            page.add_labelled("policy", policy, u64::from(*in_force));
        }
        page.begin_metric(
            "ios_total",
            MetricKind::Counter,
            "Block I/Os that were watched.",
        );
        for (cpu, count) in self.ios.iter().enumerate() {
            page.add_labelled("cpu", &cpu.to_string(), *count);
        }
        self.add_totals(&mut page);
        if let Some(cost) = self.timed {
            page.add_program_cost(cost);
        }
        page.add_machine(machine);
        if let Some(guard) = &self.guard {
            page.add_guard(guard);
            if let Some(parts) = &guard.parts {
                page.add_latency(parts, guard.lost_events);
            }
        }
        page.text
    }

    /// Adds the metrics of leases, boosts, APST tables and failures to a page.
    fn add_totals(&self, page: &mut MetricsPage) {
        page.add_gauge(
            "leases",
            "CPUs that have a latency lease now.",
            self.leases as u64,
        );
        page.add_counter("leases_total", "Leases given.", self.leases_given);
        page.add_counter(
            "lease_writes_total",
            "Latency limits written: two per lease.",
            self.lease_writes,
        );
        page.begin_metric(
            "lease_seconds_total",
            MetricKind::Counter,
            "Time under leases, of all CPUs together.",
        );
        page.add_sample("", &[], self.lease_time.as_secs_f64());
        page.add_gauge(
            "boosted_policies",
            "Frequency policies whose minimum is raised now.",
            self.boosted as u64,
        );
        page.add_counter(
            "boost_writes_total",
            "Minimum frequencies written.",
            self.boost_writes,
        );
        page.add_counter(
            "drive_tables_set_again_total",
            "APST tables set again because something had changed them.",
            self.tables_set_again,
        );
        page.add_counter(
            "failures_total",
            "Settings that were refused: they could not be written, or read back differently.",
            self.failures,
        );
        page.add_counter(
            "foreign_settings_total",
            "Settings that drifted: somebody else has set them, and the daemon leaves them alone.",
            self.foreign,
        );
        page.add_counter("lost_events_total", "Events that found no room.", self.lost);
        page.add_gauge(
            "kernel_module",
            "1 if the kernel module wakepath_psd gives the leases.",
            u64::from(self.kernel_module),
        );
    }

    /// A summary in one line, for people, of what the daemon did.
    pub(crate) fn to_summary_line(&self) -> String {
        let ios: u64 = self.ios.iter().sum();
        let mut text = format!(
            "{} lease(s) in {} write(s), {ios} I/O(s) watched",
            self.leases_given, self.lease_writes
        );
        if let Some(cost) = self.timed
            && let Some(each) = cost.programs.mean_ns_per_run()
        {
            let runs = cost.programs.runs;
            let _ = write!(
                text,
                "; {each:.0} ns of eBPF per I/O, over {runs} that were timed"
            );
            if let Some(nothing) = cost.nothing.mean_ns_per_run() {
                let _ = write!(text, " ({nothing:.0} ns for a program that does nothing)");
            }
        }
        text
    }
}

/// The kind of a metric in Prometheus' text format.
#[derive(Clone, Copy, Debug)]
enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// A page of metrics in Prometheus' text format, as it is built.
#[derive(Debug, Default)]
struct MetricsPage {
    text: String,
    /// Name of the metric that values are being added to.
    name: &'static str,
}

impl MetricsPage {
    /// Begins a metric with its lines of help and type.
    fn begin_metric(&mut self, name: &'static str, kind: MetricKind, help: &str) {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        self.name = name;
        let _ = writeln!(
            self.text,
            "# HELP wakepath_{name} {help}\n# TYPE wakepath_{name} {kind}"
        );
    }

    /// Adds a value to the metric begun last. `suffix`: what follows the metric's name, for histograms.
    fn add_sample(&mut self, suffix: &str, labels: &[(&str, &str)], value: f64) {
        let name = self.name;
        let _ = write!(self.text, "wakepath_{name}{suffix}");
        for (index, (label, label_value)) in labels.iter().enumerate() {
            let begin = if index == 0 { '{' } else { ',' };
            let _ = write!(
                self.text,
                "{begin}{label}=\"{}\"",
                escape_label_value(label_value)
            );
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {}", format_value(value));
    }

    /// Adds a histogram to the metric begun last.
    fn add_histogram(&mut self, labels: &[(&str, &str)], counts: &RangeCounts) {
        let mut total = 0;
        for (end, count) in counts.cumulative_by_seconds() {
            let end = format_value(end);
            let with_end = [labels, &[("le", &end)]].concat();
            self.add_sample("_bucket", &with_end, count as f64);
            total = count;
        }
        self.add_sample("_sum", labels, counts.sum_seconds());
        self.add_sample("_count", labels, total as f64);
    }

    /// Adds the counters and sensors of the machine. What it does not have is left out.
    fn add_machine(&mut self, machine: &MachineReading) {
        if !machine.idle_seconds.is_empty() {
            self.begin_metric(
                "idle_state_seconds_total",
                MetricKind::Counter,
                "Time in an idle state since boot as the kernel counts it, of all CPUs together.",
            );
            for (state, seconds) in &machine.idle_seconds {
                self.add_sample("", &[("state", state)], *seconds);
            }
        }
        if !machine.power_watts.is_empty() {
            self.begin_metric(
                "power_watts",
                MetricKind::Gauge,
                "Mean power since the reading before; sources overlap, and are never to be added.",
            );
            for (source, kind, watts) in &machine.power_watts {
                self.add_sample("", &[("source", source), ("kind", kind)], *watts);
            }
        }
        if let Some(applied) = machine.applied {
            self.add_gauge(
                "applied_settings",
                "Settings that wakepath apply has set for good.",
                applied.applied,
            );
            self.add_gauge(
                "drifted_settings",
                "Those of the applied settings that have another value now.",
                applied.drifted,
            );
        }
    }

    /// Adds the conditions of a guard, each with its last window.
    fn add_guard(&mut self, guard: &GuardState) {
        if let Some(put_back) = guard.set_was_put_back {
            self.add_gauge(
                "guard_set_put_back",
                "1 if the guard has taken the set back because a condition was broken.",
                u64::from(put_back),
            );
        }
        if guard.windows.is_empty() {
            return;
        }
        self.begin_metric(
            "guard_latency_seconds",
            MetricKind::Gauge,
            "Figure of a condition in its last window, with both ends of its 95 % interval.",
        );
        for (condition, window) in &guard.windows {
            for (bound, ns) in [
                ("low", window.interval.low_ns),
                ("estimate", window.interval.estimate_ns),
                ("high", window.interval.high_ns),
            ] {
                self.add_sample("", &[("condition", condition), ("bound", bound)], ns / 1e9);
            }
        }
        self.begin_metric(
            "guard_limit_seconds",
            MetricKind::Gauge,
            "Limit of a condition.",
        );
        for (condition, window) in &guard.windows {
            self.add_sample("", &[("condition", condition)], window.limit_ns / 1e9);
        }
        self.begin_metric(
            "guard_broken_windows",
            MetricKind::Gauge,
            "Windows in a row that have broken a condition; three take the set back.",
        );
        for (condition, window) in &guard.windows {
            let broken = f64::from(window.broken_in_a_row);
            self.add_sample("", &[("condition", condition)], broken);
        }
    }

    /// Adds the latency of block requests, as a whole and by part.
    fn add_latency(&mut self, counts: &PartCounts, lost_events: u64) {
        self.begin_metric(
            "request_seconds",
            MetricKind::Histogram,
            "Time of block requests from bio until the waiting task ran, as far as known; without background requests.",
        );
        for ((drive, write), requests) in &counts.requests {
            let labels = [("drive", drive.as_str()), ("operation", operation(*write))];
            self.add_histogram(&labels, &requests.whole);
        }
        self.begin_metric(
            "request_part_seconds",
            MetricKind::Histogram,
            "Parts of this time; idle exits are estimated from requests that are alike but for the idle state.",
        );
        for ((drive, write), requests) in &counts.requests {
            for (part, counts) in PART_NAMES.iter().zip(&requests.parts) {
                let labels = [
                    ("drive", drive.as_str()),
                    ("operation", operation(*write)),
                    ("part", part),
                ];
                self.add_histogram(&labels, counts);
            }
        }
        self.add_counter(
            "latency_lost_events_total",
            "Events of the measurement that found no room; requests in flight there are not counted.",
            lost_events,
        );
    }

    /// Adds a value with a label to the metric begun last.
    fn add_labelled(&mut self, label: &str, label_value: &str, value: u64) {
        let name = self.name;
        let _ = writeln!(
            self.text,
            "wakepath_{name}{{{label}=\"{label_value}\"}} {value}"
        );
    }

    /// Adds a metric with a single value.
    fn add_unlabelled(&mut self, name: &'static str, kind: MetricKind, help: &str, value: u64) {
        self.begin_metric(name, kind, help);
        let _ = writeln!(self.text, "wakepath_{name} {value}");
    }

    fn add_counter(&mut self, name: &'static str, help: &str, value: u64) {
        self.add_unlabelled(name, MetricKind::Counter, help, value);
    }

    fn add_gauge(&mut self, name: &'static str, help: &str, value: u64) {
        self.add_unlabelled(name, MetricKind::Gauge, help, value);
    }

    /// Adds the cost of the eBPF programs, and of measuring the cost.
    fn add_program_cost(&mut self, cost: Cost) {
        self.add_counter(
            "ebpf_timed_runs_total",
            "Runs of eBPF programs that were timed.",
            cost.programs.runs,
        );
        self.begin_metric(
            "ebpf_timed_seconds_total",
            MetricKind::Counter,
            "Time in these runs; divided by their number, what watching costs per I/O.",
        );
        self.add_sample("", &[], cost.programs.run_time.as_secs_f64());
        self.add_counter(
            "ebpf_empty_runs_total",
            "Runs of a program that does nothing, timed beside them.",
            cost.nothing.runs,
        );
        self.begin_metric(
            "ebpf_empty_seconds_total",
            MetricKind::Counter,
            "Time in these runs; divided by their number, what of it is the timing itself.",
        );
        self.add_sample("", &[], cost.nothing.run_time.as_secs_f64());
    }
}

const fn operation(write: bool) -> &'static str {
    if write { "write" } else { "read" }
}

/// A value as Prometheus reads it.
fn format_value(value: f64) -> String {
    if value == f64::INFINITY {
        "+Inf".to_owned()
    } else {
        value.to_string()
    }
}

/// A label's value with everything escaped that would end it.
fn escape_label_value(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use wakepath_ebpf::Overhead;

    use super::*;
    use crate::latency_parts::RequestCounts;

    #[test]
    fn metrics_are_in_the_text_format() {
        let metrics = Metrics {
            policies: vec![("psd", false), ("boost", true)],
            ios: vec![3, 4],
            leases_given: 2,
            timed: Some(Cost {
                programs: Overhead {
                    runs: 10,
                    run_time: Duration::from_nanos(500),
                    missed_runs: 0,
                },
                nothing: Overhead::default(),
            }),
            ..Metrics::default()
        };
        let text = metrics.to_prometheus_text(&MachineReading::default());
        for line in text.lines() {
            let known = line.starts_with("# HELP wakepath_")
                || line.starts_with("# TYPE wakepath_")
                || (line.starts_with("wakepath_")
                    && line.rsplit(' ').next().unwrap().parse::<f64>().is_ok());
            assert!(known, "{line}");
        }
        assert!(text.contains("wakepath_policy_in_force{policy=\"psd\"} 0\n"));
        assert!(text.contains("wakepath_policy_in_force{policy=\"boost\"} 1\n"));
        assert!(text.contains("wakepath_ios_total{cpu=\"1\"} 4\n"));
        assert!(text.contains("wakepath_ebpf_timed_seconds_total 0.0000005\n"));
    }

    #[test]
    fn what_the_machine_lacks_is_left_out_and_names_are_escaped() {
        let metrics = Metrics::default();
        let text = metrics.to_prometheus_text(&MachineReading::default());
        for absent in [
            "idle_state",
            "power_watts",
            "applied_settings",
            "guard",
            "request_",
        ] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
        let machine = MachineReading {
            idle_seconds: [("C1\"\n\\".to_owned(), 1.5)].into(),
            ..MachineReading::default()
        };
        let text = metrics.to_prometheus_text(&machine);
        let line = "wakepath_idle_state_seconds_total{state=\"C1\\\"\\n\\\\\"} 1.5\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn histograms_end_with_all_requests() {
        let mut parts = PartCounts::default();
        parts
            .requests
            .insert(("vda".to_owned(), true), RequestCounts::default());
        let metrics = Metrics {
            guard: Some(GuardState {
                parts: Some(parts),
                ..GuardState::default()
            }),
            ..Metrics::default()
        };
        let text = metrics.to_prometheus_text(&MachineReading::default());
        for line in [
            "# TYPE wakepath_request_seconds histogram\n",
            "wakepath_request_seconds_bucket{drive=\"vda\",operation=\"write\",le=\"0.000001\"} 0\n",
            "wakepath_request_seconds_bucket{drive=\"vda\",operation=\"write\",le=\"+Inf\"} 0\n",
            "wakepath_request_part_seconds_sum{drive=\"vda\",operation=\"write\",part=\"idle_exit\"} 0\n",
            "wakepath_request_part_seconds_count{drive=\"vda\",operation=\"write\",part=\"waiting\"} 0\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
