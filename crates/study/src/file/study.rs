//! The keys that a study file may have.

use serde::Deserialize;
use toml::Spanned;
use wakepath_results::Better;

use super::names::Names;
use super::policy::PolicyItem;
use super::published::{ExpectEntry, FittedEntry, PublishedEntry};
use super::recording::RecordingName;

/// The content of a study file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyFile {
    /// Short name of the study, for directories.
    pub name: Spanned<String>,
    /// Title of the study; absent: the name.
    pub title: Option<String>,
    /// Publication that the published values are from.
    pub source: Option<String>,
    /// Machines to simulate.
    pub machine: Option<Spanned<Names>>,
    /// Drives in place of the machines' own: every machine is combined with every drive.
    pub drive: Option<Spanned<Names>>,
    /// Kernel for bare policy names and unnamed policies, in place of the machines' own.
    pub kernel: Option<Spanned<String>>,
    /// Number of runs for each workload under each policy.
    #[serde(default = "default_repeats")]
    pub repeats: Spanned<u32>,
    /// Seed for the first repeat; in a measurement, for the order of runs.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Name of the policy that the others are compared with; absent: the first.
    pub baseline: Option<Spanned<String>>,
    /// Intervals' confidence level.
    #[serde(default = "default_confidence_level")]
    pub level: Spanned<f64>,
    /// Margin: differences up to so many percent are of no interest.
    #[serde(default = "default_margin_percent")]
    pub margin_percent: Spanned<f64>,
    /// Seconds to wait after every change of settings, before a measurement.
    #[serde(default = "default_settle_seconds")]
    pub settle_s: Spanned<f64>,
    /// Seconds of time-based fio jobs that are not counted at first; absent: chosen by their length.
    pub warm_up_s: Option<Spanned<f64>>,
    /// Workloads.
    #[serde(default)]
    pub workload: Vec<WorkloadEntry>,
    /// Policies: sets, or items that stand for several.
    #[serde(default)]
    pub policy: Vec<Spanned<PolicyItem>>,
    /// Further policy sets.
    pub also: Option<Spanned<Vec<Spanned<String>>>>,
    /// Questions.
    #[serde(default)]
    pub question: Vec<Spanned<QuestionEntry>>,
    /// Published tables.
    #[serde(default)]
    pub published: Vec<PublishedEntry>,
    /// Expectations about the published tables.
    #[serde(default)]
    pub expect: Vec<ExpectEntry>,
    /// Work in rt-app files that was chosen with published values in view.
    #[serde(default)]
    pub fitted: Vec<FittedEntry>,
}

/// `[[workload]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadEntry {
    /// Name of the workload in the results.
    pub name: Spanned<String>,
    /// A fio job file: a path from the study file, or the name of a built-in workload.
    pub fio: Option<Spanned<String>>,
    /// Text of a fio job, as in a fio job file.
    pub fio_job: Option<Spanned<String>>,
    /// fio options for every job. Every value in a list makes a workload.
    #[serde(default)]
    pub fio_options: toml::Table,
    /// An rt-app file, relative to the study file.
    pub rt_app: Option<Spanned<String>>,
    /// A server file: a path from the study file, or the name of a built-in workload.
    pub server: Option<Spanned<String>>,
    /// Number of clients of the server, in place of the file's.
    pub clients: Option<Spanned<u32>>,
    /// A file with tasks of given steps: a path from the study file.
    pub tasks: Option<Spanned<String>>,
    /// The rt-app that the file was written for: `1.0` or `2025`.
    pub rt_app_version: Option<Spanned<String>>,
    /// How many copies of the rt-app file run side by side.
    pub copies: Option<Spanned<u32>>,
    /// Number of threads for the rt-app file's first task, in place of its own number.
    pub instances: Option<Spanned<u32>>,
    /// Time in seconds from which operations of rt-app threads, or requests of time-based fio jobs and servers, are counted.
    pub warm_up_s: Option<Spanned<f64>>,
    /// Block trace or recording whose block requests are simulated, relative to the study file.
    pub trace: Option<Spanned<String>>,
    /// Name of the trace's disk; absent: the disk with most requests, or all files.
    pub disk: Option<Spanned<String>>,
    /// Time in seconds from the first request of the trace to the first that is simulated.
    pub from_s: Option<Spanned<f64>>,
    /// Whether a request of the trace waits for all that had ended before it.
    pub dependent: Option<Spanned<bool>>,
    /// Command and arguments.
    pub command: Option<Spanned<Vec<String>>>,
    /// Recording made by `wakepath record` or `wakepath import`.
    pub recording: Option<Spanned<RecordingName>>,
    /// File with idle states for a recording's CPUs, in place of the recording's or the machine's.
    pub states: Option<Spanned<String>>,
    /// Ticks per second during a recording, in place of the recording's or the machine's.
    pub hz: Option<Spanned<u64>>,
    /// Name of the governor during a recording, in place of the recorded name.
    pub ran: Option<Spanned<String>>,
    /// Duration of the workload in seconds, in place of the file's.
    pub seconds: Option<Spanned<f64>>,
    /// How to read metrics from the command's output.
    #[serde(default)]
    pub metric: Vec<MetricEntry>,
    /// Names of the machines to simulate or replay on; absent: all.
    pub machines: Option<Spanned<Names>>,
    /// Names of the policies to run under; absent: all.
    pub policies: Option<Spanned<Names>>,
}

/// `[[workload.metric]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricEntry {
    /// Name of the metric in the results; a metric in the dictionary needs nothing more.
    pub name: Spanned<String>,
    /// Regular expression for a line of the output. In the last line that matches, the first group is the number.
    pub pattern: Option<Spanned<String>>,
    /// JSON pointer to the number, if the command prints JSON.
    pub json: Option<Spanned<String>>,
    /// Title in tables.
    pub title: Option<String>,
    /// Meaning.
    pub meaning: Option<String>,
    /// Unit.
    pub unit: Option<String>,
    /// Better direction.
    pub better: Option<Better>,
}

/// `[[question]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionEntry {
    /// The question in words; absent: made from its keys.
    pub ask: Option<String>,
    /// Metric to compare.
    pub metric: Option<Spanned<String>>,
    /// Name of the metric to minimise, in place of a comparison.
    pub minimise: Option<Spanned<String>>,
    /// Metric to maximise.
    pub maximise: Option<Spanned<String>>,
    /// Conditions that the policy has to meet on every workload: `p99_us < 150`.
    #[serde(default)]
    pub keep: Vec<Spanned<String>>,
    /// Names of the policies that the question is about; absent: all.
    #[serde(default)]
    pub policies: Vec<Spanned<String>>,
    /// Names of the workloads that the question is about; absent: all.
    #[serde(default)]
    pub workloads: Vec<Spanned<String>>,
    /// Names of the machines that the question is about; absent: all.
    #[serde(default)]
    pub machines: Vec<Spanned<String>>,
    /// Name of the policy to compare with; absent: the study's baseline.
    pub baseline: Option<Spanned<String>>,
}

fn default_repeats() -> Spanned<u32> {
    Spanned::new(0..0, 10)
}

fn default_seed() -> u64 {
    1
}

fn default_confidence_level() -> Spanned<f64> {
    Spanned::new(0..0, 0.95)
}

fn default_margin_percent() -> Spanned<f64> {
    Spanned::new(0..0, 2.0)
}

fn default_settle_seconds() -> Spanned<f64> {
    Spanned::new(0..0, 5.0)
}

impl StudyFile {
    /// A study with name, seed and repeats only, for callers without a study file.
    pub(crate) fn without_file(name: &str, seed: u64, repeats: u32) -> Self {
        Self {
            name: Spanned::new(0..0, name.to_owned()),
            title: None,
            source: None,
            machine: None,
            drive: None,
            kernel: None,
            repeats: Spanned::new(0..0, repeats),
            seed,
            baseline: None,
            level: default_confidence_level(),
            margin_percent: default_margin_percent(),
            settle_s: default_settle_seconds(),
            warm_up_s: None,
            workload: Vec::new(),
            policy: Vec::new(),
            also: None,
            question: Vec::new(),
            published: Vec::new(),
            expect: Vec::new(),
            fitted: Vec::new(),
        }
    }
}

impl WorkloadEntry {
    /// A workload entry with a name and no other key.
    pub(crate) fn with_name_only(name: Spanned<String>) -> Self {
        Self {
            name,
            fio: None,
            fio_job: None,
            fio_options: toml::Table::new(),
            rt_app: None,
            server: None,
            tasks: None,
            rt_app_version: None,
            copies: None,
            clients: None,
            instances: None,
            warm_up_s: None,
            trace: None,
            disk: None,
            from_s: None,
            dependent: None,
            command: None,
            recording: None,
            states: None,
            hz: None,
            ran: None,
            seconds: None,
            metric: Vec::new(),
            machines: None,
            policies: None,
        }
    }
}
