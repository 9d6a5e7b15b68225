//! Keys of a study file.

use serde::Deserialize;
use toml::Spanned;
use wakepath_results::Better;

use super::names::Names;
use super::policy::PolicyItem;
use super::published::{ExpectEntry, FittedEntry, PublishedEntry};
use super::recording::RecordingName;

/// A study as its file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyFile {
    /// Short name, for directories.
    pub name: Spanned<String>,
    /// What it is about; absent: its name.
    pub title: Option<String>,
    /// Where what is published was published.
    pub source: Option<String>,
    /// The machines that are simulated.
    pub machine: Option<Spanned<Names>>,
    /// Drives instead of the machines' own: each machine has each of them.
    pub drive: Option<Spanned<Names>>,
    /// The kernel whose policies bare names mean, and what no policy names, instead of the machines' own.
    pub kernel: Option<Spanned<String>>,
    /// Runs of each workload under each policy.
    #[serde(default = "ten")]
    pub repeats: Spanned<u32>,
    /// Seed of the first repeat, and of the order of measurements.
    #[serde(default = "one")]
    pub seed: u64,
    /// The policy that the others are compared with; absent: the first.
    pub baseline: Option<Spanned<String>>,
    /// Confidence level of intervals.
    #[serde(default = "level")]
    pub level: Spanned<f64>,
    /// Differences up to so many percent are of no interest.
    #[serde(default = "margin")]
    pub margin_percent: Spanned<f64>,
    /// Seconds to wait after every change of settings, before a measurement.
    #[serde(default = "settle")]
    pub settle_s: Spanned<f64>,
    /// Seconds at the start of time-based fio jobs that do not count; absent: by how long they run.
    pub warm_up_s: Option<Spanned<f64>>,
    /// What is run.
    #[serde(default)]
    pub workload: Vec<WorkloadEntry>,
    /// What is compared ([`named_sets`]).
    #[serde(default)]
    pub policy: Vec<Spanned<PolicyItem>>,
    /// Policy sets beside those.
    pub also: Option<Spanned<Vec<Spanned<String>>>>,
    /// What is asked.
    #[serde(default)]
    pub question: Vec<Spanned<QuestionEntry>>,
    /// What was published of it.
    #[serde(default)]
    pub published: Vec<PublishedEntry>,
    /// What is expected of the published values.
    #[serde(default)]
    pub expect: Vec<ExpectEntry>,
    /// Work of rt-app files that was chosen with published values in view.
    #[serde(default)]
    pub fitted: Vec<FittedEntry>,
}

/// `[[workload]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadEntry {
    /// Its name in the results.
    pub name: Spanned<String>,
    /// A fio job file: a path from the study file, or the name of a built-in workload.
    pub fio: Option<Spanned<String>>,
    /// The text of a fio job.
    pub fio_job: Option<Spanned<String>>,
    /// fio options that hold for every job of the file. Of a list of values each makes a workload.
    #[serde(default)]
    pub fio_options: toml::Table,
    /// An rt-app file.
    pub rt_app: Option<Spanned<String>>,
    /// The rt-app that the file was written for: `1.0` or `2025`.
    pub rt_app_version: Option<Spanned<String>>,
    /// How often to run the rt-app file side by side.
    pub copies: Option<Spanned<u32>>,
    /// Threads of the rt-app file's first task, instead of what it says.
    pub instances: Option<Spanned<u32>>,
    /// From when on operations of the rt-app file's threads, or requests of time-based fio jobs, are counted.
    pub warm_up_s: Option<Spanned<f64>>,
    /// A command and its arguments.
    pub command: Option<Spanned<Vec<String>>>,
    /// A recording of `wakepath record` or `wakepath import`.
    pub recording: Option<Spanned<RecordingName>>,
    /// The idle states of a recording's CPUs, instead of what it or the machine says.
    pub states: Option<Spanned<String>>,
    /// Ticks per second when a recording was made, instead of what it or the machine says.
    pub hz: Option<Spanned<u64>>,
    /// The governor that ran when a recording was made, instead of what it says.
    pub ran: Option<Spanned<String>>,
    /// Instead of what the file says: how long it runs.
    pub seconds: Option<Spanned<f64>>,
    /// How to read the command's result.
    #[serde(default)]
    pub metric: Vec<MetricEntry>,
    /// The machines on which it is simulated or replayed; absent: all.
    pub machines: Option<Spanned<Names>>,
    /// The policies under which it is run; absent: all.
    pub policies: Option<Spanned<Names>>,
}

/// `[[workload.metric]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricEntry {
    /// Its name in the results; one of the dictionary needs nothing more.
    pub name: Spanned<String>,
    /// A regular expression whose first group is the number, in the last line that it matches.
    pub pattern: Option<Spanned<String>>,
    /// A JSON pointer to the number, if the command prints JSON.
    pub json: Option<Spanned<String>>,
    /// Its title in tables.
    pub title: Option<String>,
    /// What it is.
    pub meaning: Option<String>,
    /// Its unit.
    pub unit: Option<String>,
    /// Which direction is better.
    pub better: Option<Better>,
}

/// `[[question]]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionEntry {
    /// In words; absent: said by what it asks for.
    pub ask: Option<String>,
    /// The metric that is compared.
    pub metric: Option<Spanned<String>>,
    /// Instead: the metric that the wanted policy has least of.
    pub minimise: Option<Spanned<String>>,
    /// Or most of.
    pub maximise: Option<Spanned<String>>,
    /// What the wanted policy keeps on every workload: `p99_us < 150`.
    #[serde(default)]
    pub keep: Vec<Spanned<String>>,
    /// Policies concerned; absent: all.
    #[serde(default)]
    pub policies: Vec<Spanned<String>>,
    /// Workloads concerned; absent: all.
    #[serde(default)]
    pub workloads: Vec<Spanned<String>>,
    /// Machines concerned; absent: all.
    #[serde(default)]
    pub machines: Vec<Spanned<String>>,
    /// The policy to compare with; absent: the study's.
    pub baseline: Option<Spanned<String>>,
}

fn ten() -> Spanned<u32> {
    Spanned::new(0..0, 10)
}

fn one() -> u64 {
    1
}

fn level() -> Spanned<f64> {
    Spanned::new(0..0, 0.95)
}

fn margin() -> Spanned<f64> {
    Spanned::new(0..0, 2.0)
}

fn settle() -> Spanned<f64> {
    Spanned::new(0..0, 5.0)
}

impl StudyFile {
    /// A study that has no file.
    pub(crate) fn on_the_spot(name: &str, seed: u64, repeats: u32) -> Self {
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
            level: level(),
            margin_percent: margin(),
            settle_s: settle(),
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
    /// A workload of which nothing but the name is said.
    pub(crate) fn named(name: Spanned<String>) -> Self {
        Self {
            name,
            fio: None,
            fio_job: None,
            fio_options: toml::Table::new(),
            rt_app: None,
            rt_app_version: None,
            copies: None,
            instances: None,
            warm_up_s: None,
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
