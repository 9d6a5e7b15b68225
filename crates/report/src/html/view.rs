//! The content of a page, ready to be drawn: no files, no statistics.
//!
//! Policies and workloads are indices in [`View::policies`] and [`View::workloads`]. Parts missing in the results are empty,
//! and the page says so.

/// A whole report.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Title of the study.
    pub title: String,
    /// Facts in a line below the title: backend, machine, counts.
    pub facts: Vec<String>,
    /// Cautions before believing anything.
    pub cautions: Vec<String>,
    /// Answers by question.
    pub answers: Vec<PageAnswer>,
    /// Compared policies.
    pub policies: Vec<PagePolicy>,
    /// Metrics, indexed by [`Self::rows`].
    pub metrics: Vec<PageMetric>,
    /// One row per workload, metric and policy.
    pub rows: Vec<PageRow>,
    /// Modelled power rests on assumed figures, and deserves few digits.
    pub assumes_power: bool,
    /// Each workload.
    pub workloads: Vec<PageWorkload>,
    /// Origins, one per result directory.
    pub sources: Vec<PageSource>,
    /// Commands that make the results again.
    pub commands: Vec<String>,
    /// Result paths for commands.
    pub results: Vec<String>,
    /// A sentence about parts left out to keep the page small.
    pub left_out: Option<String>,
    /// Program and version.
    pub made_by: String,
}

impl View {
    /// Policies that are compared, with their indices.
    pub(crate) fn compared_policies(&self) -> impl Iterator<Item = (usize, &PagePolicy)> {
        let policies = self.policies.iter().enumerate();
        policies.filter(|(_, policy)| !policy.is_subset)
    }

    /// The baseline in words.
    pub(crate) fn baseline_name(&self) -> &str {
        let mut baselines = self.policies.iter().filter(|p| p.baseline);
        match (baselines.next(), baselines.next()) {
            (Some(only), None) => &only.name,
            (Some(_), Some(_)) => "the baseline of its machine",
            (None, _) => "the baseline",
        }
    }
}

/// Good news or bad.
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
    /// Class in style sheets.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::Open => "open",
        }
    }

    /// A sign that works without colour.
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
    /// Details, a sentence each.
    pub details: Vec<String>,
    /// Indices of the named policies, the most important first.
    pub policies: Vec<usize>,
    /// Good news or bad.
    pub tone: Tone,
}

/// A policy.
#[derive(Clone, Debug, Default)]
pub struct PagePolicy {
    /// Name.
    pub name: String,
    /// Settings: name and value.
    pub settings: Vec<(String, String)>,
    /// Whether other policies are compared with this policy; each machine has a baseline.
    pub baseline: bool,
    /// Only a line in pictures: some requests of a policy, such as those that met an idle state.
    pub is_subset: bool,
}

/// A metric.
#[derive(Clone, Debug, Default)]
pub struct PageMetric {
    /// Name in files.
    pub name: String,
    /// Title.
    pub title: String,
    /// Unit on the page; empty for counts.
    pub unit: String,
    /// Explanation.
    pub meaning: String,
    /// Whether more is better, or less; `None`: neither.
    pub higher_is_better: Option<bool>,
}

/// A comparison with the baseline.
#[derive(Clone, Debug, Default)]
pub struct PageRow {
    /// Workload index.
    pub workload: usize,
    /// Metric index.
    pub metric: usize,
    /// Policy index.
    pub policy: usize,
    /// Mean over the runs, by the metric's kind.
    pub mean: f64,
    /// Digits of the mean after the point; `None`: four significant digits.
    pub decimals: Option<usize>,
    /// Standard deviation in percent of the mean; none for a single run.
    pub deviation_percent: Option<f64>,
    /// Run count.
    pub runs: usize,
    /// Gain over the baseline; none for the baseline itself, and where none can be given.
    pub gain: Option<PageGain>,
    /// The verdict in words; empty for the baseline.
    pub verdict: String,
    /// Good news or bad.
    pub tone: Tone,
    /// Warnings about the runs.
    pub warnings: Vec<String>,
}

impl PageRow {
    /// The gain in percent, below all gains if there is none.
    pub(crate) fn gain_percent(&self) -> f64 {
        self.gain.map_or(f64::NEG_INFINITY, |gain| gain.percent)
    }
}

/// A gain over the baseline, plus being better.
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

/// A workload's distributions.
#[derive(Clone, Debug, Default)]
pub struct PageWorkload {
    /// Name.
    pub name: String,
    /// Kind and origin, such as `fio: read.fio`.
    pub about: String,
    /// The measured latency in words: `latency`, `wake-up latency`.
    pub latency_of: String,
    /// Cumulative latency distribution by policy.
    pub curves: Vec<Curve>,
    /// Percentiles by policy.
    pub percentiles: Vec<Percentiles>,
    /// Parts of a request's time.
    pub parts: Vec<PageParts>,
    /// Power and latency.
    pub tradeoff: Vec<Tradeoff>,
    /// Idle states by CPU kind and policy.
    pub idle: Vec<PageIdle>,
    /// Frequencies by CPU kind and policy.
    pub frequency: Vec<Frequency>,
    /// A few representative milliseconds.
    pub timelines: Vec<PageTimeline>,
}

/// A latency distribution.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Policy index.
    pub policy: usize,
    /// Request count.
    pub requests: u64,
    /// Latency in us, and the share of requests, 0 to 1, up to this latency; both rising.
    pub points: Vec<(f64, f64)>,
}

/// A value with its range.
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
    pub(crate) fn values(self) -> [f64; 3] {
        [self.mean, self.low, self.high]
    }
}

/// Percentiles under a policy.
#[derive(Clone, Debug, Default)]
pub struct Percentiles {
    /// Policy index.
    pub policy: usize,
    /// `p99` and so on, with the latency in us.
    pub values: Vec<(String, PageSpread)>,
}

/// The parts of some requests' latency under a policy.
#[derive(Clone, Debug, Default)]
pub struct PageParts {
    /// Policy index.
    pub policy: usize,
    /// The requests: `mean`, `p99`.
    pub at: String,
    /// Parts in the order of a request's way, in us.
    pub parts: Vec<(String, f64)>,
}

/// A policy's power and latency.
#[derive(Clone, Debug, Default)]
pub struct Tradeoff {
    /// Policy index.
    pub policy: usize,
    /// Latency metric index.
    pub latency_metric: usize,
    /// Power metric index.
    pub power_metric: usize,
    /// Latency.
    pub latency: PageSpread,
    /// Power.
    pub power: PageSpread,
    /// Whether no other policy has less power and less latency.
    pub front: bool,
}

/// CPUs of a kind under a policy.
#[derive(Clone, Debug, Default)]
pub struct PageIdle {
    /// The kind.
    pub cpu_kind: String,
    /// Policy index.
    pub policy: usize,
    /// States: busy, then from shallow to deep.
    pub states: Vec<PageState>,
}

/// Time in an idle state. Figures per second are per second of the workload, all CPUs of the kind together.
#[derive(Clone, Debug, Default)]
pub struct PageState {
    /// Name.
    pub name: String,
    /// Whether the CPUs had something to do.
    pub busy: bool,
    /// Share of CPU time, 0 to 1.
    pub share: f64,
    /// Entries per second.
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

/// Frequencies of a CPU kind under a policy.
#[derive(Clone, Debug, Default)]
pub struct Frequency {
    /// The kind.
    pub cpu_kind: String,
    /// Policy index.
    pub policy: usize,
    /// Frequency in kHz, rising, with the share of powered time, 0 to 1.
    pub shares: Vec<(u64, f64)>,
}

/// A few milliseconds.
#[derive(Clone, Debug, Default)]
pub struct PageTimeline {
    /// Policy index.
    pub policy: usize,
    /// The request in the middle: `p50`, `p99`.
    pub at: String,
    /// Tracks, top to bottom.
    pub tracks: Vec<String>,
    /// Spans on the tracks.
    pub spans: Vec<PageSpan>,
}

/// A state or activity with a length.
#[derive(Clone, Debug, Default)]
pub struct PageSpan {
    /// Track index.
    pub track: usize,
    /// Name.
    pub name: String,
    /// Owner, such as a request, if not the track; may be empty.
    pub owner: String,
    /// Start in ns.
    pub start_ns: u64,
    /// Length in ns.
    pub length_ns: u64,
}

/// The origin of numbers.
#[derive(Clone, Debug, Default)]
pub struct PageSource {
    /// The study and its backend.
    pub title: String,
    /// Facts: name and value.
    pub facts: Vec<(String, String)>,
    /// Files to read: name and text.
    pub files: Vec<(String, String)>,
}
