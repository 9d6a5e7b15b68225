//! Study files: what is run under what, in one TOML file.
//!
//! This module reads and checks what the file itself says; [`crate::plan`] finds the machine, the workloads and the
//! policies that it names. `docs/studies.md` describes the format.

mod error;
mod names;
mod policy;
mod published;
mod recording;

use serde::Deserialize;
use toml::Spanned;
use wakepath_results::Better;

pub use error::StudyError;
pub(crate) use error::unknown;
pub use names::Names;
pub use policy::{NamedSet, PolicyEntry, PolicyItem, named_sets};
pub use published::{
    Across, Aggregate, ChangeWithin, CompareEntry, Decision, ExpectEntry, FittedAtMost,
    FittedEntry, LessThan, Printed, PublishedEntry, RowEntry, Selection, Show, Take,
};
pub use recording::RecordingName;

/// Largest study file.
pub const MAX_BYTES: u64 = 1 << 20;

/// Longest name.
const MAX_NAME_BYTES: usize = 100;

/// Most runs of each workload under each policy.
const MAX_REPEATS: u32 = 100_000;

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

/// The text of a study, for errors with lines.
#[derive(Clone, Copy, Debug)]
pub struct StudyText<'a> {
    /// Name of the file, or of the command that made the study.
    pub origin: &'a str,
    /// Text of the file; absent for a study made without a file, whose errors have no line.
    pub text: Option<&'a str>,
}

impl StudyText<'_> {
    /// An error about a value of the file.
    pub fn error<T>(&self, at: &Spanned<T>, message: impl Into<String>) -> StudyError {
        self.error_at(at.span().start, message)
    }

    /// The line of a value of the file, counted from 1.
    pub fn line<T>(&self, at: &Spanned<T>) -> usize {
        self.line_at(at.span().start)
    }

    /// An error about a policy: at its line, or by its name where the file does not have it.
    pub fn policy_error(
        &self,
        place: Option<&Spanned<()>>,
        name: &str,
        message: impl Into<String>,
    ) -> StudyError {
        match place {
            Some(at) => self.error(at, message),
            None => StudyError::Settings(format!("policy '{name}': {}", message.into())),
        }
    }

    fn line_at(&self, at: usize) -> usize {
        let text = self.text.unwrap_or_default();
        let before = text.get(..at).unwrap_or(text);
        before.matches('\n').count() + 1
    }

    fn error_at(&self, at: usize, message: impl Into<String>) -> StudyError {
        let (origin, message) = (self.origin.to_owned(), message.into());
        match self.text {
            Some(_) => StudyError::File {
                line: self.line_at(at),
                origin,
                message,
            },
            None => StudyError::Settings(format!("{origin}: {message}")),
        }
    }
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

    /// Reads a study file and checks what can be checked without anything else.
    ///
    /// # Errors
    /// No TOML, keys that no study has, values out of range, names that are used twice or lead nowhere.
    pub fn parse(source: StudyText<'_>) -> Result<Self, StudyError> {
        let text = source.text.unwrap_or_default();
        let study: Self = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            let message = wakepath_units::spelling::toml_error(e.message(), text, at);
            source.error_at(at, message)
        })?;
        study.check(source)?;
        Ok(study)
    }

    /// Checks what can be checked without anything else.
    ///
    /// # Errors
    /// As of [`StudyFile::parse`].
    pub(crate) fn check(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        check_name(source, &self.name)?;
        if self.name.get_ref().contains('/') {
            let message = "the name of a study has no `/`: it becomes that of a directory";
            return Err(source.error(&self.name, message));
        }
        let within = |value: &Spanned<f64>, what: &str, low: f64, high: f64| {
            let number = *value.get_ref();
            if (low..=high).contains(&number) {
                return Ok(());
            }
            let message = format!("`{what}` is {number}, and may be {low} to {high}");
            Err(source.error(value, message))
        };
        within(&self.level, "level", 0.5, 0.999)?;
        within(&self.margin_percent, "margin_percent", 0.0, 1000.0)?;
        within(&self.settle_s, "settle_s", 0.0, 3600.0)?;
        if let Some(warm_up) = &self.warm_up_s {
            within(warm_up, "warm_up_s", 0.0, 1e6)?;
        }
        if !(1..=MAX_REPEATS).contains(self.repeats.get_ref()) {
            let message = format!("`repeats` may be 1 to {MAX_REPEATS}");
            return Err(source.error(&self.repeats, message));
        }
        if self.workload.is_empty() {
            return Err(source.error(&self.name, "no [[workload]]: there is nothing to run"));
        }
        let mut names: Vec<&str> = Vec::new();
        for workload in &self.workload {
            let name = workload.name.get_ref();
            check_name(source, &workload.name)?;
            if names.contains(&name.as_str()) {
                let message = format!("a second workload is called `{name}`");
                return Err(source.error(&workload.name, message));
            }
            names.push(name);
            workload.check(source)?;
        }
        for item in &self.policy {
            if let PolicyItem::Table(PolicyEntry {
                name: Some(name), ..
            }) = item.get_ref()
            {
                check_name(source, name)?;
            }
        }
        published::check(self, source)
    }
}

/// Names are parts of tables and messages.
pub(crate) fn check_name(source: StudyText<'_>, name: &Spanned<String>) -> Result<(), StudyError> {
    let text = name.get_ref();
    if text.trim().is_empty() || text.len() > MAX_NAME_BYTES || text.contains(char::is_control) {
        let message = format!("a name has 1 to {MAX_NAME_BYTES} bytes, and no line breaks");
        return Err(source.error(name, message));
    }
    Ok(())
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

    fn check(&self, source: StudyText<'_>) -> Result<(), StudyError> {
        let name = self.name.get_ref();
        let error = |message: String| Err(source.error(&self.name, message));
        let ways = [
            self.fio.is_some(),
            self.fio_job.is_some(),
            self.rt_app.is_some(),
            self.command.is_some(),
            self.recording.is_some(),
        ];
        if ways.iter().filter(|w| **w).count() != 1 {
            return error(format!(
                "workload `{name}` needs one of `fio`, `fio_job`, `rt_app`, `command` and `recording`"
            ));
        }
        let of_fio = self.fio.is_some() || self.fio_job.is_some();
        if !self.fio_options.is_empty() && !of_fio {
            return error(format!("workload `{name}`: `fio_options` are for fio jobs"));
        }
        for (what, number) in [("copies", &self.copies), ("instances", &self.instances)] {
            if let Some(number) = number.as_ref().filter(|_| self.rt_app.is_none()) {
                let message = format!("`{what}` are for rt-app files; a fio job has numjobs");
                return Err(source.error(number, message));
            }
        }
        if let (Some(version), None) = (&self.rt_app_version, &self.rt_app) {
            return Err(source.error(version, "`rt_app_version` is for rt-app files"));
        }
        if let Some(warm_up) = &self.warm_up_s {
            if self.rt_app.is_none() && !of_fio {
                let message = "`warm_up_s` is for fio jobs and rt-app files";
                return Err(source.error(warm_up, message));
            }
            if !(0.0..=1e6).contains(warm_up.get_ref()) {
                return Err(source.error(warm_up, "`warm_up_s` may be 0 to 1000000"));
            }
        }
        if self.recording.is_none() {
            let of_recordings = [
                self.states.as_ref().map(Spanned::span),
                self.hz.as_ref().map(Spanned::span),
                self.ran.as_ref().map(Spanned::span),
            ];
            if let Some(at) = of_recordings.into_iter().flatten().next() {
                let message = "`states`, `hz` and `ran` are for recordings";
                return Err(source.error(&Spanned::new(at, ()), message));
            }
        }
        match (&self.command, self.metric.first()) {
            (None, Some(metric)) => {
                let message = "only a command's output is searched for metrics; fio's are known";
                return Err(source.error(&metric.name, message));
            }
            (Some(command), _) if command.get_ref().is_empty() => {
                return Err(source.error(command, "the command has no words"));
            }
            _ => {}
        }
        if let Some(seconds) = &self.seconds {
            let number = *seconds.get_ref();
            if self.command.is_some() {
                return Err(source.error(seconds, "a command ends when it ends"));
            }
            if self.recording.is_some() {
                return Err(source.error(seconds, "a recording is replayed to its end"));
            }
            if !(1e-3..=1e7).contains(&number) {
                return Err(source.error(seconds, "`seconds` may be 0.001 to 10000000"));
            }
        }
        for metric in &self.metric {
            check_name(source, &metric.name)?;
            if metric.pattern.is_some() == metric.json.is_some() {
                let message = format!(
                    "metric `{}` needs either a `pattern` or a `json` pointer",
                    metric.name.get_ref()
                );
                return Err(source.error(&metric.name, message));
            }
        }
        Ok(())
    }
}
