//! The content of a page, ready to be drawn: no files, no statistics.
//!
//! Policies and workloads are indices in [`View::policies`] and [`View::workloads`]. Parts missing in the results are empty,
//! and the page says so.

use serde::Serialize;

/// A whole report.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Title of the study.
    pub title: String,
    /// Facts in a line below the title: origin of the numbers, machine, counts of workloads, policies and runs.
    pub facts: Vec<String>,
    /// Reasons to doubt the results, a sentence each.
    pub cautions: Vec<String>,
    /// Answers to the study's questions, the most important first.
    pub answers: Vec<PageAnswer>,
    /// Policies that were run, and subsets of their requests. Other parts name a policy by its index here.
    pub policies: Vec<PagePolicy>,
    /// Metrics, indexed by [`Self::rows`].
    pub metrics: Vec<PageMetric>,
    /// Figures of each policy: one row per workload, metric and policy.
    pub rows: Vec<PageRow>,
    /// Modelled power rests on assumed figures, and deserves few digits.
    pub assumes_power: bool,
    /// Figures that the descriptions of the simulated machines mark as assumed; 0 for measurements.
    pub assumed_figures: usize,
    /// What the first question asks about; pictures open with its metrics. `None` without questions.
    pub focus: Option<Focus>,
    /// Workloads with their distributions. Other parts name a workload by its index here.
    pub workloads: Vec<PageWorkload>,
    /// Workloads that differ only in the rate of their requests.
    pub load_series: Vec<LoadSeries>,
    /// Where the numbers come from: an entry per result directory.
    pub sources: Vec<PageSource>,
    /// Shell commands that make the results and the page again.
    pub commands: Vec<String>,
    /// Paths of the results, quoted for a shell.
    pub results: Vec<String>,
    /// A sentence about parts left out to keep the page small.
    pub left_out: Option<String>,
    /// Program and version that made the page.
    pub made_by: String,
}

impl View {
    /// Policies that are compared, with their indices.
    pub(crate) fn policies_without_subset_lines(
        &self,
    ) -> impl Iterator<Item = (usize, &PagePolicy)> {
        let policies = self.policies.iter().enumerate();
        policies.filter(|(_, policy)| !policy.is_subset)
    }

    /// The limits that the first question sets for a metric.
    pub(crate) fn first_question_limits_on_metric(
        &self,
        metric: usize,
    ) -> impl Iterator<Item = &Limit> {
        let limits = self.focus.iter().flat_map(|focus| &focus.limits);
        limits.filter(move |limit| limit.metric == metric)
    }

    /// Metrics in the order of interest: conditions of the first question, the metric that it asks for, then the rest.
    pub(crate) fn order_metrics_by_first_question(&self) -> Vec<usize> {
        let limits = self.focus.iter().flat_map(|focus| &focus.limits);
        let asked = self.focus.iter().map(|focus| focus.metric);
        let mut order: Vec<usize> = Vec::new();
        for metric in asked
            .chain(limits.map(|limit| limit.metric))
            .chain(0..self.metrics.len())
        {
            if metric < self.metrics.len() && !order.contains(&metric) {
                order.push(metric);
            }
        }
        order
    }

    /// Whether a metric is power or energy that a model derives from assumed figures.
    pub(crate) fn rests_on_assumed_power(&self, metric: &PageMetric) -> bool {
        self.assumes_power && ["mW", "W", "uJ", "mJ", "J"].contains(&metric.unit.as_str())
    }

    /// Each baseline with its settings, such as `unchanged (idle menu@6.12)`; empty without a baseline.
    pub(crate) fn baselines_in_words(&self) -> String {
        let baselines = self.policies.iter().filter(|policy| policy.baseline);
        let described: Vec<String> = baselines.map(PagePolicy::name_with_settings).collect();
        described.join("; ")
    }

    /// The baseline's name; a phrase if there are several baselines or none.
    pub(crate) fn baseline_name_or_phrase(&self) -> &str {
        let mut baselines = self.policies.iter().filter(|p| p.baseline);
        match (baselines.next(), baselines.next()) {
            (Some(only), None) => &only.name,
            (Some(_), Some(_)) => "the baseline of its machine",
            (None, _) => "the baseline",
        }
    }
}

/// The subject of the first question.
#[derive(Clone, Debug, Default)]
pub struct Focus {
    /// Index of the metric that the question asks for.
    pub metric: usize,
    /// Conditions of the question.
    pub limits: Vec<Limit>,
    /// Index of the policy that the answer chooses, if it chooses one.
    pub winner: Option<usize>,
}

/// A condition of a question: a metric below or above a value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limit {
    /// Index of the metric in [`View::metrics`].
    pub metric: usize,
    /// The limit in the metric's unit on the page.
    pub value: f64,
    /// Whether allowed values are below the limit, else above it.
    pub is_upper: bool,
}

/// Workloads that differ only in the rate of their requests, for a curve over the load.
#[derive(Clone, Debug, Default)]
pub struct LoadSeries {
    /// What the workloads have in common: `reads`, `reads (board)`.
    pub name: String,
    /// Unit of the rates: `I/Os` or `bytes` per second.
    pub unit: String,
    /// Requested rate per second and workload index, by rising rate.
    pub points: Vec<(f64, usize)>,
}

/// Whether a finding is good or bad news for who asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Better than the baseline.
    Better,
    /// Worse than the baseline.
    Worse,
    /// No difference that matters.
    Same,
    /// Not known.
    #[default]
    Open,
}

impl Tone {
    /// The class for the style sheet: `better`, `worse`, `same` or `open`.
    pub(crate) fn css_class(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Open => "open",
        }
    }

    /// A sign before a sentence that shows good or bad news without colour.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Better => "▲",
            Self::Worse => "▼",
            Self::Same => "＝",
            Self::Open => "?",
        }
    }
}

/// The answer to a question.
#[derive(Clone, Debug, Default)]
pub struct PageAnswer {
    /// The question in words.
    pub question: String,
    /// The answer in a sentence.
    pub sentence: String,
    /// Further sentences below the answer.
    pub details: Vec<String>,
    /// The answer at a glance; `None` if no policy can be named.
    pub tile: Option<Tile>,
    /// Indices of the policies that the answer names, the most important first.
    pub policies: Vec<usize>,
    /// Whether the finding is good or bad news.
    pub tone: Tone,
}

/// An answer at a glance: the policy and a few figures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tile {
    /// The chosen policy, or a phrase such as `depends on the workload`.
    pub headline: String,
    /// The policy's settings, unless its name has them.
    pub settings: String,
    /// Figures, the most important first.
    pub entries: Vec<TileEntry>,
}

/// A figure of a tile.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TileEntry {
    /// What the value is: `p99 latency`.
    pub label: String,
    /// The value with its unit: `106 us`.
    pub value: String,
    /// What the value means: `limit 150 us, kept by 29 %`.
    pub note: String,
}

/// A policy set that was run.
#[derive(Clone, Debug, Default)]
pub struct PagePolicy {
    /// Name, distinct from the names of other policies on the page.
    pub name: String,
    /// Settings of the policy by name, such as `idle` and `menu@6.12`.
    pub settings: Vec<(String, String)>,
    /// Whether other policies are compared with this policy; each machine has a baseline.
    pub baseline: bool,
    /// Only a line in pictures: some requests of a policy, such as those that met an idle state.
    pub is_subset: bool,
    /// What a simulation of this policy assumes or leaves out, a sentence each.
    pub notes: Vec<String>,
}

impl PagePolicy {
    /// Settings in a line: `freq schedutil, idle menu@6.12`.
    pub(crate) fn settings_in_words(&self) -> String {
        let settings = self.settings.iter();
        let words = settings.map(|(key, value)| match key.as_str() {
            "policy" => value.clone(),
            key => format!("{key} {value}"),
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Whether the policy's name has the values of all settings.
    pub(crate) fn name_contains_all_setting_values(&self) -> bool {
        let mut settings = self.settings.iter();
        settings.all(|(_, value)| self.name.contains(value))
    }

    /// The name, followed by the settings in parentheses unless the name has them.
    pub(crate) fn name_with_settings(&self) -> String {
        if self.name_contains_all_setting_values() {
            self.name.clone()
        } else {
            format!("{} ({})", self.name, self.settings_in_words())
        }
    }
}

/// A metric as the page shows it.
#[derive(Clone, Debug, Default)]
pub struct PageMetric {
    /// The metric's name in files, such as `p99_us`.
    pub name: String,
    /// The metric's title on the page, such as `p99 latency`.
    pub title: String,
    /// Unit on the page; empty for counts.
    pub unit: String,
    /// Factor from the metric's own unit to the unit on the page.
    pub factor: f64,
    /// A sentence that explains the metric.
    pub meaning: String,
    /// Whether more of the metric is better; `None` if neither more nor less is.
    pub higher_is_better: Option<bool>,
}

/// A policy's figure in a metric on a workload, compared with the baseline.
#[derive(Clone, Debug, Default)]
pub struct PageRow {
    /// Index of the workload in [`View::workloads`].
    pub workload: usize,
    /// Index of the metric in [`View::metrics`].
    pub metric: usize,
    /// Index of the policy in [`View::policies`].
    pub policy: usize,
    /// Mean of the metric over the runs, in the page's unit.
    pub mean: f64,
    /// Digits of the mean after the point; `None`: four significant digits.
    pub decimals: Option<usize>,
    /// Standard deviation in percent of the mean; none for a single run.
    pub deviation_percent: Option<f64>,
    /// Number of runs behind the mean.
    pub runs: usize,
    /// Gain over the baseline; none for the baseline itself, and where none can be given.
    pub gain: Option<PageGain>,
    /// The comparison's verdict in words; empty for the baseline.
    pub verdict: String,
    /// Whether the finding is good or bad news.
    pub tone: Tone,
    /// Reasons to distrust the runs, such as a drift.
    pub warnings: Vec<String>,
}

impl PageRow {
    /// The gain in percent for sorting; a row without a gain sorts below all others.
    pub(crate) fn gain_percent_or_lowest(&self) -> f64 {
        self.gain.map_or(f64::NEG_INFINITY, |gain| gain.percent)
    }
}

/// A gain over the baseline in percent; positive gains are better, whether the metric should rise or fall.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageGain {
    /// Gain in percent.
    pub percent: f64,
    /// Interval in percent; none for too few runs.
    pub interval: Option<[f64; 2]>,
    /// Effect size; none for too few runs.
    pub effect: Option<f64>,
    /// Whether chance is an unlikely explanation, all comparisons considered.
    pub significant: bool,
}

/// A workload with the data of its pictures.
#[derive(Clone, Debug, Default)]
pub struct PageWorkload {
    /// Name.
    pub name: String,
    /// Kind and file of the workload, such as `fio: read.fio`.
    pub about: String,
    /// What the latencies are: `latency` of requests, `wake-up latency` of threads.
    pub latency_of: String,
    /// Cumulative latency distribution by policy.
    pub curves: Vec<Curve>,
    /// Latency percentiles by policy.
    pub percentiles: Vec<Percentiles>,
    /// Parts that a request's latency is made of, by policy.
    pub parts: Vec<PageParts>,
    /// Power against latency, by policy and latency metric.
    pub tradeoff: Vec<Tradeoff>,
    /// Time in idle states by CPU kind and policy.
    pub idle: Vec<PageIdle>,
    /// Time at frequencies by CPU kind and policy.
    pub frequency: Vec<Frequency>,
    /// What happened around chosen requests, by policy and percentile.
    pub timelines: Vec<PageTimeline>,
}

/// The latency distribution under a policy.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Index of the policy in [`View::policies`].
    pub policy: usize,
    /// Number of requests, all runs together.
    pub requests: u64,
    /// Latency in us, and the share of requests, 0 to 1, up to this latency; both rising.
    pub points: Vec<(f64, f64)>,
}

/// The mean of a value over the runs, with the lowest and highest run.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageSpread {
    /// Mean over the runs.
    pub mean: f64,
    /// Lowest run.
    pub low: f64,
    /// Highest run.
    pub high: f64,
}

impl PageSpread {
    /// Mean, lowest run, highest run.
    pub(crate) fn mean_lowest_highest(self) -> [f64; 3] {
        [self.mean, self.low, self.high]
    }
}

/// Latency percentiles under a policy.
#[derive(Clone, Debug, Default)]
pub struct Percentiles {
    /// Index of the policy in [`View::policies`].
    pub policy: usize,
    /// `p99` and so on, with the latency in us.
    pub values: Vec<(String, PageSpread)>,
}

/// What the latency of some requests is made of under a policy.
#[derive(Clone, Debug, Default)]
pub struct PageParts {
    /// Index of the policy in [`View::policies`].
    pub policy: usize,
    /// Which requests: `mean` for all, `p99` for those about the 99th percentile.
    pub at: String,
    /// Parts of the latency by name, in us, in the order of a request's way.
    pub parts: Vec<(String, f64)>,
}

/// A policy as a point of power against latency.
#[derive(Clone, Debug, Default)]
pub struct Tradeoff {
    /// Index of the policy in [`View::policies`].
    pub policy: usize,
    /// Index of the latency metric in [`View::metrics`].
    pub latency_metric: usize,
    /// Index of the power metric in [`View::metrics`].
    pub power_metric: usize,
    /// Latency.
    pub latency: PageSpread,
    /// Power.
    pub power: PageSpread,
    /// Whether no other policy has less power and less latency.
    pub front: bool,
}

/// Idle states of the CPUs of a kind under a policy.
#[derive(Clone, Debug, Default)]
pub struct PageIdle {
    /// The kind of CPUs (cluster), such as `little`.
    pub cpu_kind: String,
    /// Index of the policy in [`View::policies`].
    pub policy: usize,
    /// Busy time first, then idle states from shallow to deep.
    pub states: Vec<PageState>,
}

/// Time in an idle state. Figures per second are per second of the workload, all CPUs of the kind together.
#[derive(Clone, Debug, Default)]
pub struct PageState {
    /// Name.
    pub name: String,
    /// Whether this is busy time in place of an idle state.
    pub busy: bool,
    /// Share of the kind's CPU time in this state, 0 to 1.
    pub share: f64,
    /// How often the CPUs entered the state, per second.
    pub entries: f64,
    /// Idle periods per second too short for the state.
    pub too_deep: f64,
    /// Idle periods per second that a deeper state would have fitted.
    pub too_shallow: f64,
    /// Time that too deep idle periods added to wake-ups, us per second; no number if not known.
    pub added_us: f64,
    /// Power that misfits cost, in mW; no number if not known.
    pub wasted_mw: f64,
}

/// Frequencies at which the CPUs of a kind were powered under a policy.
#[derive(Clone, Debug, Default)]
pub struct Frequency {
    /// The kind of CPUs (cluster), such as `little`.
    pub cpu_kind: String,
    /// Index of the policy in [`View::policies`].
    pub policy: usize,
    /// Frequency in kHz, rising, with the share of powered time, 0 to 1.
    pub shares: Vec<(u64, f64)>,
}

/// The milliseconds around a chosen request under a policy.
#[derive(Clone, Debug, Default)]
pub struct PageTimeline {
    /// Index of the policy in [`View::policies`].
    pub policy: usize,
    /// Which request is in the middle: `p50` or `p99` of the latency.
    pub at: String,
    /// Names of the rows, such as CPUs, clocks and drive, top to bottom.
    pub tracks: Vec<String>,
    /// States and activities on the rows.
    pub spans: Vec<PageSpan>,
}

/// A state or activity on a row of a timeline.
#[derive(Clone, Debug, Default)]
pub struct PageSpan {
    /// Index of the row in [`PageTimeline::tracks`].
    pub track: usize,
    /// Name.
    pub name: String,
    /// The request that the span belongs to; empty if the span belongs to its row.
    pub owner: String,
    /// Start of the span in ns of the run.
    pub start_ns: u64,
    /// Length of the span in ns.
    pub length_ns: u64,
}

/// Where the numbers of a result directory come from.
#[derive(Clone, Debug, Default)]
pub struct PageSource {
    /// Title of the study, with the name of the result if there are several.
    pub title: String,
    /// Facts about study, machine and statistics: name and value.
    pub facts: Vec<(String, String)>,
    /// Copies of study, workload and machine files: name and text.
    pub files: Vec<(String, String)>,
}
