//! What the page shows, already put together: no files, no statistics, only what is to be drawn and said.
//!
//! Policies and workloads are referred to by their index in [`View::policies`] and [`View::workloads`]. A part that
//! the results do not have is empty; the page then says that it is missing.

/// A whole report.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// What the study is about.
    pub title: String,
    /// Facts in a line below the title: backend, machine, counts.
    pub facts: Vec<String>,
    /// What a reader should know before believing anything.
    pub cautions: Vec<String>,
    /// The answers, in the order of the questions.
    pub answers: Vec<PageAnswer>,
    /// What is compared.
    pub policies: Vec<PagePolicy>,
    /// The metrics of [`Self::rows`], by index.
    pub metrics: Vec<PageMetric>,
    /// One row per workload, metric and policy.
    pub rows: Vec<PageRow>,
    /// Modelled power rests on assumed figures, and deserves few digits.
    pub assumes_power: bool,
    /// Each workload.
    pub workloads: Vec<PageWorkload>,
    /// Where the numbers come from, one per result directory.
    pub sources: Vec<PageSource>,
    /// Commands that make these results again.
    pub commands: Vec<String>,
    /// The results as a command names them.
    pub results: Vec<String>,
    /// What is left out to keep the page small, and where it is.
    pub left_out: Option<String>,
    /// Version of wakepath that made the page.
    pub made_by: String,
}

impl View {
    /// What the policies are compared with, in words.
    pub(crate) fn baseline_name(&self) -> &str {
        let mut baselines = self.policies.iter().filter(|p| p.baseline);
        match (baselines.next(), baselines.next()) {
            (Some(only), None) => &only.name,
            (Some(_), Some(_)) => "the baseline of its machine",
            (None, _) => "the baseline",
        }
    }
}

/// Whether something is good news.
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
    /// Its name in style sheets.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Open => "open",
        }
    }

    /// A sign that says it without colour.
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
    /// What it is made of, a sentence each.
    pub details: Vec<String>,
    /// Indices of the policies that it names, the most important one first.
    pub policies: Vec<usize>,
    /// Whether it is good news.
    pub tone: Tone,
}

/// A policy.
#[derive(Clone, Debug, Default)]
pub struct PagePolicy {
    /// Its name.
    pub name: String,
    /// Its settings: name and value.
    pub settings: Vec<(String, String)>,
    /// Whether others are compared with it; of several machines each has one.
    pub baseline: bool,
}

/// A metric.
#[derive(Clone, Debug, Default)]
pub struct PageMetric {
    /// Its name in files.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its unit on the page; empty for counts.
    pub unit: String,
    /// What it is.
    pub meaning: String,
    /// Whether more of it is better, or less; `None`: neither.
    pub higher_is_better: Option<bool>,
}

/// A comparison with the baseline.
#[derive(Clone, Debug, Default)]
pub struct PageRow {
    /// Index of the workload.
    pub workload: usize,
    /// Index of the metric.
    pub metric: usize,
    /// Index of the policy.
    pub policy: usize,
    /// Mean over the runs, as the metric takes it.
    pub mean: f64,
    /// Digits of the mean after the point; `None`: four significant digits.
    pub decimals: Option<usize>,
    /// Standard deviation in percent of the mean; none of a single run.
    pub deviation_percent: Option<f64>,
    /// Number of runs.
    pub runs: usize,
    /// Gain over the baseline; none for the baseline itself, and where none can be given.
    pub gain: Option<PageGain>,
    /// The verdict in words; empty for the baseline.
    pub verdict: String,
    /// Whether it is good news.
    pub tone: Tone,
    /// What is odd about the runs.
    pub warnings: Vec<String>,
}

/// A gain over the baseline, plus being better.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageGain {
    /// In percent.
    pub percent: f64,
    /// Its interval, in percent; none of too few runs.
    pub interval: Option<[f64; 2]>,
    /// Effect size; none of too few runs.
    pub effect: Option<f64>,
    /// Whether chance is an unlikely explanation, all comparisons considered.
    pub significant: bool,
}

/// A workload's distributions.
#[derive(Clone, Debug, Default)]
pub struct PageWorkload {
    /// Its name.
    pub name: String,
    /// What it is: `fio`, and where it comes from.
    pub about: String,
    /// What its latency is of: `latency`, `wake-up latency`.
    pub latency_of: String,
    /// Cumulative latency distribution by policy.
    pub curves: Vec<Curve>,
    /// Percentiles by policy.
    pub percentiles: Vec<Percentiles>,
    /// Where a request's time goes.
    pub parts: Vec<PageParts>,
    /// Power and latency.
    pub tradeoff: Vec<Tradeoff>,
    /// Idle states by kind of CPU and policy.
    pub idle: Vec<PageIdle>,
    /// Frequencies by kind of CPU and policy.
    pub frequency: Vec<Frequency>,
    /// A few representative milliseconds.
    pub timelines: Vec<PageTimeline>,
}

/// A latency distribution.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Index of the policy.
    pub policy: usize,
    /// Requests behind it.
    pub requests: u64,
    /// Latency in us with the share of requests, 0 to 1, that took at most this long; both rising.
    pub points: Vec<(f64, f64)>,
}

/// A value with what it varies between.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageSpread {
    /// Mean over the runs.
    pub mean: f64,
    /// Of the lowest run.
    pub low: f64,
    /// Of the highest run.
    pub high: f64,
}

/// Percentiles of a policy.
#[derive(Clone, Debug, Default)]
pub struct Percentiles {
    /// Index of the policy.
    pub policy: usize,
    /// `p99` and so on, with its latency in us.
    pub values: Vec<(String, PageSpread)>,
}

/// What latency is made of, of some of the requests under a policy.
#[derive(Clone, Debug, Default)]
pub struct PageParts {
    /// Index of the policy.
    pub policy: usize,
    /// Of which requests: `mean`, `p99`.
    pub at: String,
    /// Parts in the order of a request's way, in us.
    pub parts: Vec<(String, f64)>,
}

/// A policy's power and latency.
#[derive(Clone, Debug, Default)]
pub struct Tradeoff {
    /// Index of the policy.
    pub policy: usize,
    /// Index of the latency metric.
    pub latency_metric: usize,
    /// Index of the power metric.
    pub power_metric: usize,
    /// Latency.
    pub latency: PageSpread,
    /// Power.
    pub power: PageSpread,
    /// Whether no other policy has less of both on this workload.
    pub front: bool,
}

/// The CPUs of one kind under a policy.
#[derive(Clone, Debug, Default)]
pub struct PageIdle {
    /// The kind.
    pub cpu_kind: String,
    /// Index of the policy.
    pub policy: usize,
    /// Its states, busy first, then shallowest first.
    pub states: Vec<PageState>,
}

/// Time in an idle state. Figures per second are per second of the workload, all CPUs of the kind together.
#[derive(Clone, Debug, Default)]
pub struct PageState {
    /// Its name.
    pub name: String,
    /// Whether it is the time with something to do.
    pub busy: bool,
    /// Share of the CPUs' time, 0 to 1.
    pub share: f64,
    /// Entries per second.
    pub entries: f64,
    /// Stays per second that were too short for it.
    pub too_deep: f64,
    /// Stays per second that a deeper state would have fitted.
    pub too_shallow: f64,
    /// Time that too deep idle periods added to wake-ups, us per second; no number if not known.
    pub added_us: f64,
    /// Power that misfits cost, in mW; no number if not known.
    pub wasted_mw: f64,
}

/// The frequencies of the CPUs of one kind under a policy.
#[derive(Clone, Debug, Default)]
pub struct Frequency {
    /// The kind.
    pub cpu_kind: String,
    /// Index of the policy.
    pub policy: usize,
    /// Frequency in kHz and its share of the powered time, 0 to 1; rising.
    pub shares: Vec<(u64, f64)>,
}

/// A few milliseconds.
#[derive(Clone, Debug, Default)]
pub struct PageTimeline {
    /// Index of the policy.
    pub policy: usize,
    /// Around which request: `p50`, `p99`.
    pub at: String,
    /// Where things happen, top to bottom.
    pub tracks: Vec<String>,
    /// What happens.
    pub spans: Vec<PageSpan>,
}

/// Something that lasts.
#[derive(Clone, Debug, Default)]
pub struct PageSpan {
    /// Index of the track.
    pub track: usize,
    /// What it is.
    pub name: String,
    /// What it belongs to, if that is not the track; may be empty.
    pub owner: String,
    /// Its start in ns.
    pub start_ns: u64,
    /// Its length in ns.
    pub length_ns: u64,
}

/// Where numbers come from.
#[derive(Clone, Debug, Default)]
pub struct PageSource {
    /// The study and its backend.
    pub title: String,
    /// Facts: name and value.
    pub facts: Vec<(String, String)>,
    /// Files to read: name and text.
    pub files: Vec<(String, String)>,
}
