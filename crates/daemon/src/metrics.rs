//! Metrics in Prometheus' text format.

use std::fmt::Write as _;

use wakepath_ebpf::Overhead;

use crate::watch::Cost;

/// The daemon's counters and gauges at a moment.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Requested policies, `psd`, `boost` and `drives`, and whether each is in force as a whole.
    pub policies: Vec<(&'static str, bool)>,
    /// Number of watched I/Os, by CPU.
    pub ios: Vec<u64>,
    /// Number of CPUs with a lease now.
    pub leases: usize,
    /// Number of leases given since the start.
    pub leases_given: u64,
    /// Latency limits written.
    pub lease_writes: u64,
    /// Number of frequency policies whose minimum is raised now.
    pub boosted: usize,
    /// Minimum frequencies written.
    pub boost_writes: u64,
    /// Number of APST tables set again because something had changed them.
    pub tables_set_again: u64,
    /// Number of settings that could not be written.
    pub failures: u64,
    /// Number of events lost because the buffer was full.
    pub lost: u64,
    /// Timed runs of the eBPF programs, if any were timed.
    pub timed: Option<Cost>,
    /// Whether the kernel module gives the leases.
    pub kernel_module: bool,
}

impl Metrics {
    /// The metrics in Prometheus' text format.
    pub fn to_prometheus_text(&self) -> String {
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
            "Settings that could not be written.",
            self.failures,
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
        };
        self.name = name;
        let _ = writeln!(
            self.text,
            "# HELP wakepath_{name} {help}\n# TYPE wakepath_{name} {kind}"
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
        self.add_counter(
            "ebpf_timed_nanoseconds_total",
            "Time in these runs; divided by their number, what watching costs per I/O.",
            run_time_ns(cost.programs),
        );
        self.add_counter(
            "ebpf_empty_runs_total",
            "Runs of a program that does nothing, timed beside them.",
            cost.nothing.runs,
        );
        self.add_counter(
            "ebpf_empty_nanoseconds_total",
            "Time in these runs; divided by their number, what of it is the timing itself.",
            run_time_ns(cost.nothing),
        );
    }
}

fn run_time_ns(overhead: Overhead) -> u64 {
    u64::try_from(overhead.run_time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
        let text = metrics.to_prometheus_text();
        for line in text.lines() {
            let known = line.starts_with("# HELP wakepath_")
                || line.starts_with("# TYPE wakepath_")
                || (line.starts_with("wakepath_")
                    && line.rsplit(' ').next().unwrap().parse::<u64>().is_ok());
            assert!(known, "{line}");
        }
        assert!(text.contains("wakepath_policy_in_force{policy=\"psd\"} 0\n"));
        assert!(text.contains("wakepath_policy_in_force{policy=\"boost\"} 1\n"));
        assert!(text.contains("wakepath_ios_total{cpu=\"1\"} 4\n"));
        assert!(text.contains("wakepath_ebpf_timed_nanoseconds_total 500\n"));
    }
}
