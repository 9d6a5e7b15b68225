//! Planned workloads: files, with the study's own options applied.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use toml::Spanned;
use wakepath_results::RunOrigin;
use wakepath_results::directory::WORKLOADS;
use wakepath_units::Nanoseconds;
use wakepath_units::pasted::decode_text_strictly;
use wakepath_workloads::fio::warm_up::insert_ramp_times;
use wakepath_workloads::{Workload, WorkloadWarning, fio, rtapp, server, tasks};

use super::block_trace::plan_block_trace;
use super::names::{path_in_folder, path_of_copy_in_results};
use super::reading::{Reading, plan_metric_reading};
use super::recording::PlannedRecording;
use super::requested_rates::requested_rates;
use super::seconds::seconds_to_nanoseconds;
use super::{duration, grid};
use crate::builtin;
use crate::file::{StudyError, StudyFile, StudyText, WorkloadEntry, unknown_name_message};

/// A workload that a study runs.
#[derive(Clone, Debug)]
pub struct PlannedWorkload {
    /// Name of the workload in the results.
    pub name: String,
    /// Kind and content.
    pub task: Task,
    /// Warnings about accepted lines that have another effect than a user may expect.
    pub warnings: Vec<WorkloadWarning>,
    /// Names of the machines to run on; empty: all.
    pub machines: Vec<String>,
    /// Names of the policies to run under; empty: all.
    pub policies: Vec<String>,
    /// Index of the workload's `[[workload]]` entry in the study file.
    pub(crate) entry: usize,
    /// Name and fio job of the entry, if the entry makes several workloads.
    pub(super) grid: Option<(String, String)>,
}

/// What a workload runs.
#[derive(Clone, Debug)]
pub enum Task {
    /// A fio job.
    Fio {
        /// Text of the fio job file, as run.
        text: String,
        /// The same, read.
        workload: Workload,
    },
    /// An rt-app file.
    RtApp {
        /// Text of the rt-app file, as run.
        text: String,
        /// The same, read.
        workload: Workload,
    },
    /// A block trace, or the block requests of a recording.
    BlockTrace {
        /// The file, by its whole path.
        path: PathBuf,
        /// The trace as a fio job.
        workload: Workload,
    },
    /// A request server.
    Server {
        /// Text of the server file, as run: recorded arrival times are in it.
        text: String,
        /// The same, read.
        workload: Workload,
    },
    /// Tasks of given steps.
    Tasks {
        /// Text of the file with tasks, as run.
        text: String,
        /// The same, read.
        workload: Workload,
    },
    /// A recording to be replayed.
    Recording(Box<PlannedRecording>),
    /// A command.
    Command {
        /// Command and arguments.
        words: Vec<String>,
        /// Metrics to read from the command's output.
        readings: Vec<Reading>,
    },
}

/// A study's changes to a fio job.
#[derive(Clone, Copy)]
struct JobOptions<'a> {
    given: &'a toml::Table,
    /// Warm-up that the study asks for; `None`: the default warm-up.
    warm_up: Option<Nanoseconds>,
}

/// Plans a study's workloads: one per entry, or per combination of option values.
pub(super) fn plan_workloads(
    file: &StudyFile,
    source: StudyText<'_>,
    folder: &Path,
    target: RunOrigin,
) -> Result<Vec<PlannedWorkload>, StudyError> {
    let mut all: Vec<PlannedWorkload> = Vec::new();
    for (number, entry) in file.workload.iter().enumerate() {
        let warm_up = entry
            .warm_up_s
            .as_ref()
            .or(file.warm_up_s.as_ref())
            .map(seconds_to_nanoseconds);
        for (name, options) in grid::name_and_options_of_each_combination(entry, source)? {
            let options = JobOptions {
                given: &options,
                warm_up,
            };
            let mut planned = PlannedWorkload::new(entry, &name, options, source, folder, target)?;
            planned.entry = number;
            if all.iter().any(|w| w.name == planned.name) {
                let message = format!("a second workload is called `{}`", planned.name);
                return Err(source.error_at_value(&entry.name, message));
            }
            all.push(planned);
        }
    }
    Ok(all)
}

impl PlannedWorkload {
    /// A planned workload without an entry in a study file.
    pub(super) fn without_entry(name: &str, workload: Workload) -> Self {
        let warnings = workload.warnings();
        let task = match (&workload, workload.block_trace()) {
            (_, Some(trace)) => Task::BlockTrace {
                path: PathBuf::from(&trace.origin),
                workload,
            },
            (Workload::Fio(file), None) => Task::Fio {
                text: file.to_string(),
                workload,
            },
            (Workload::RtApp(file), None) => Task::RtApp {
                text: file.to_string(),
                workload,
            },
            (Workload::Server(file), None) => Task::Server {
                text: file.to_string(),
                workload,
            },
            (Workload::Tasks(file), None) => Task::Tasks {
                text: file.to_string(),
                workload,
            },
        };
        Self {
            warnings,
            ..Self::for_all_machines_and_policies(name, task)
        }
    }

    /// A planned workload that runs on all machines and under all policies.
    fn for_all_machines_and_policies(name: &str, task: Task) -> Self {
        Self {
            name: name.to_owned(),
            task,
            warnings: Vec::new(),
            machines: Vec::new(),
            policies: Vec::new(),
            entry: 0,
            grid: None,
        }
    }

    fn new(
        entry: &WorkloadEntry,
        name: &str,
        options: JobOptions<'_>,
        source: StudyText<'_>,
        folder: &Path,
        target: RunOrigin,
    ) -> Result<Self, StudyError> {
        let mut warnings = Vec::new();
        if target == RunOrigin::Replay && entry.recording.is_none() {
            let message = "only a recording can be replayed: recording = \"trace.parquet\"";
            return Err(source.error_at_value(&entry.name, message));
        }
        let mut grid = None;
        let task = if let Some(name) = &entry.recording {
            if target != RunOrigin::Replay {
                let message = "a recording is replayed: --on replay";
                return Err(source.error_at_value(name, message));
            }
            Task::Recording(Box::new(PlannedRecording::new(
                entry, name, source, folder,
            )?))
        } else if let Some(words) = &entry.command {
            if target == RunOrigin::Sim {
                let message = "a command cannot be simulated; use --on live, a fio job or an \
                     rt-app file";
                return Err(source.error_at_value(words, message));
            }
            let readings = entry.metric.iter().map(|m| plan_metric_reading(m, source));
            Task::Command {
                words: words.get_ref().clone(),
                readings: readings.collect::<Result<_, _>>()?,
            }
        } else if let Some(name) = &entry.rt_app {
            if target == RunOrigin::Live {
                let message = "rt-app files are simulated (--on sim); run rt-app itself as a \
                     `command`";
                return Err(source.error_at_value(name, message));
            }
            plan_rt_app(entry, name, source, folder)?
        } else if let Some(name) = &entry.trace {
            if target == RunOrigin::Live {
                let message = "a block trace is simulated (--on sim); `fio --read_iolog` replays fio's logs on a drive";
                return Err(source.error_at_value(name, message));
            }
            let (path, workload) = plan_block_trace(entry, name, source, folder)?;
            Task::BlockTrace { path, workload }
        } else if let Some(name) = &entry.server {
            if target == RunOrigin::Live {
                let message = "servers are simulated (--on sim); measure a real one as a `command`";
                return Err(source.error_at_value(name, message));
            }
            plan_server(entry, name, options.warm_up, source, folder)?
        } else if let Some(name) = &entry.tasks {
            if target == RunOrigin::Live {
                let message = "tasks of given steps are simulated (--on sim)";
                return Err(source.error_at_value(name, message));
            }
            plan_tasks(entry, name, source, folder)?
        } else {
            let (at, text, origin) = read_fio_text(entry, source, folder)?;
            if name != entry.name.get_ref() && entry.fio.is_some() {
                grid = Some((entry.name.get_ref().clone(), text.clone().into_owned()));
            }
            plan_fio(entry, at, &text, &origin, options, source, target)?
        };
        if let Task::Fio { workload, .. }
        | Task::RtApp { workload, .. }
        | Task::BlockTrace { workload, .. }
        | Task::Server { workload, .. }
        | Task::Tasks { workload, .. } = &task
        {
            // The warnings tell what the simulator does, not real fio.
            if target == RunOrigin::Sim {
                warnings = workload.warnings();
            }
        }
        Ok(Self {
            warnings,
            grid,
            ..Self::for_all_machines_and_policies(name, task)
        })
    }

    /// Describes the workload for `result.json`.
    pub(super) fn describe(&self) -> wakepath_results::WorkloadInfo {
        let (kind, source) = match &self.task {
            Task::Fio { .. } => ("fio", self.copy_path()),
            Task::RtApp { .. } => ("rt-app", self.copy_path()),
            Task::BlockTrace { path, .. } => ("trace", Some(path.display().to_string())),
            Task::Server { .. } => ("server", self.copy_path()),
            Task::Tasks { .. } => ("tasks", self.copy_path()),
            Task::Recording(recording) => ("recording", Some(recording.path.display().to_string())),
            Task::Command { words, .. } => ("command", Some(words.join(" "))),
        };
        wakepath_results::WorkloadInfo {
            name: self.name.clone(),
            kind: kind.to_owned(),
            source: source.unwrap_or_default(),
            rates: self
                .simulated_workload()
                .map(requested_rates)
                .unwrap_or_default(),
            warm_up_s: self.uncounted_start().map(Nanoseconds::as_secs_f64),
            machines: self.machines.clone(),
            policies: self.policies.clone(),
            subset: None,
        }
    }

    /// Path of the block trace; `None` for other workloads.
    pub(super) fn trace_path(&self) -> Option<&Path> {
        match &self.task {
            Task::BlockTrace { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Path of the workload's copy in the result directory, if the workload has a file.
    pub fn copy_path(&self) -> Option<String> {
        match self.task {
            Task::Fio { .. } => Some(path_of_copy_in_results(WORKLOADS, &self.name, "fio")),
            Task::RtApp { .. } => Some(path_of_copy_in_results(WORKLOADS, &self.name, "json")),
            Task::Server { .. } | Task::Tasks { .. } => {
                Some(path_of_copy_in_results(WORKLOADS, &self.name, "toml"))
            }
            Task::BlockTrace { .. } | Task::Recording(_) | Task::Command { .. } => None,
        }
    }

    /// Path of the copy for the file that the study names; workloads from one entry share it.
    pub(super) fn copy_path_of_named_file(&self) -> Option<String> {
        match &self.grid {
            Some((name, _)) => Some(path_of_copy_in_results(WORKLOADS, name, "fio")),
            None => self.copy_path(),
        }
    }

    /// Copies for the result directory: each with its path and text.
    pub(super) fn list_texts_to_copy_into_results(&self) -> impl Iterator<Item = (String, &str)> {
        let text = match &self.task {
            Task::Fio { text, .. }
            | Task::RtApp { text, .. }
            | Task::Server { text, .. }
            | Task::Tasks { text, .. } => Some(text.as_str()),
            Task::BlockTrace { .. } | Task::Recording(_) | Task::Command { .. } => None,
        };
        let own = self.copy_path().zip(text);
        let of_grid = self.grid.as_ref();
        let of_grid = self
            .copy_path_of_named_file()
            .zip(of_grid.map(|(_, text)| text.as_str()));
        own.into_iter().chain(of_grid)
    }

    /// The fio job file, rt-app file, server or block trace to simulate; `None` for commands and recordings.
    pub fn simulated_workload(&self) -> Option<&Workload> {
        match &self.task {
            Task::Fio { workload, .. }
            | Task::RtApp { workload, .. }
            | Task::BlockTrace { workload, .. }
            | Task::Server { workload, .. }
            | Task::Tasks { workload, .. } => Some(workload),
            Task::Recording(_) | Task::Command { .. } => None,
        }
    }

    /// Time at a run's beginning that is not counted, if any.
    pub fn uncounted_start(&self) -> Option<Nanoseconds> {
        match self.simulated_workload()? {
            Workload::Fio(file) => file.earliest_counting_start_after_ramp(),
            Workload::RtApp(file) => Some(file.warm_up).filter(|time| time.0 > 0),
            Workload::Server(file) => Some(file.warm_up).filter(|time| time.0 > 0),
            Workload::Tasks(_) => None,
        }
    }

    /// Expected duration of a run: the longest job with its warm-up, or the file's duration. `None`: the workload ends by what it
    /// does.
    pub fn expected_duration(&self) -> Option<Nanoseconds> {
        duration::expected_duration(self.simulated_workload()?)
    }
}

/// Reads the text of a workload file beside the study, or else the built-in workload's; with its origin for messages.
fn read_workload_text(
    name: &Spanned<String>,
    source: StudyText<'_>,
    folder: &Path,
) -> Result<(Cow<'static, str>, String), StudyError> {
    let path = path_in_folder(folder, name.get_ref());
    let builtin = builtin::workload_text(name.get_ref());
    if path.is_file() || (path.exists() && builtin.is_none()) {
        let limits = [
            fio::MAX_FILE_BYTES,
            rtapp::MAX_FILE_BYTES,
            server::MAX_FILE_BYTES,
            tasks::MAX_FILE_BYTES,
        ];
        let limit = limits.into_iter().max().unwrap_or(0);
        let text = wakepath_files::read_file_up_to(&path, limit as u64)
            .and_then(|bytes| {
                decode_text_strictly(bytes)
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
            })
            .map_err(|source| StudyError::Read {
                path: path.clone(),
                source,
            })?;
        return Ok((text.into(), path.display().to_string()));
    }
    if let Some(text) = builtin {
        return Ok((text.into(), name.get_ref().clone()));
    }
    let known: Vec<&str> = builtin::workload_names().collect();
    let what = if folder.as_os_str().is_empty() {
        "file here or built-in workload".to_owned()
    } else {
        format!("file in {} or built-in workload", folder.display())
    };
    Err(source.error_at_value(name, unknown_name_message(&what, name.get_ref(), &known)))
}

/// An entry's fio job: its place in the study, its text, and its origin for messages.
fn read_fio_text<'a>(
    entry: &'a WorkloadEntry,
    source: StudyText<'_>,
    folder: &Path,
) -> Result<(&'a Spanned<String>, Cow<'a, str>, String), StudyError> {
    match (&entry.fio, &entry.fio_job) {
        (Some(name), _) => {
            let (text, origin) = read_workload_text(name, source, folder)?;
            Ok((name, text, origin))
        }
        (None, Some(text)) => {
            let Some(words) = words_of_fio_command(text.get_ref()) else {
                refuse_name_of_job_file(text, source)?;
                let origin = format!("fio_job of {}", entry.name.get_ref());
                return Ok((text, Cow::Borrowed(text.get_ref().as_str()), origin));
            };
            // Lines of the text are numbered as the words.
            let job_text = fio::job_file_text_of_command_line(&words)
                .map_err(|e| source.error_at_value(text, e.to_string()))?;
            Ok((text, job_text.into(), fio::COMMAND_LINE_ORIGIN.to_owned()))
        }
        (None, None) => Err(source.error_at_value(&entry.name, "no fio job")),
    }
}

/// A job's text has a section, so that a name of a file is not taken for one.
fn refuse_name_of_job_file(
    text: &Spanned<String>,
    source: StudyText<'_>,
) -> Result<(), StudyError> {
    let name = text.get_ref().trim();
    let is_job_file = Path::new(name).extension() == Some(OsStr::new("fio"));
    if !is_job_file || name.contains(['\n', '[']) {
        return Ok(());
    }
    let message = format!(
        "`fio_job` has the text of a job, or a command line of fio; the name of a file is for `fio = {name:?}`"
    );
    Err(source.error_at_value(text, message))
}

/// The words of a fio job that is given as a command line of fio; `None`: it is the text of a job file, or its quotes do not
/// match.
fn words_of_fio_command(text: &str) -> Option<Vec<String>> {
    shlex::split(text).filter(|words| fio::begins_as_command_line(words))
}

fn plan_fio(
    entry: &WorkloadEntry,
    at: &Spanned<String>,
    text: &str,
    origin: &str,
    job_options: JobOptions<'_>,
    source: StudyText<'_>,
    target: RunOrigin,
) -> Result<Task, StudyError> {
    let mut options = print_fio_options_of_study(entry, job_options, source)?;
    if let Some(seconds) = &entry.seconds {
        options.push((
            "runtime".to_owned(),
            format!("{}ms", (seconds.get_ref() * 1e3).round()),
        ));
        options.push(("time_based".to_owned(), "1".to_owned()));
    }
    let changed = override_options_in_all_jobs(text, &options);
    let named = format!("{origin} with the options of {}", entry.name.get_ref());
    let read = fio::parse(&changed, &named).map_err(|e| {
        // The line of a fault counts from the file as the user wrote it, so the file is parsed without the options.
        let own = fio::parse(text, origin).err();
        source.error_at_value(at, own.unwrap_or(e).to_string())
    })?;
    let with_warm_up = read
        .clone()
        .with_given_or_default_warm_up(job_options.warm_up);
    let warmed_up = insert_ramp_times(&changed, &with_warm_up, &read);
    let workload =
        fio::parse(&warmed_up, &named).map_err(|e| source.error_at_value(at, e.to_string()))?;
    // Real fio runs more than the simulator has models for.
    if target == RunOrigin::Sim {
        workload.refuse_unmodelled_options().map_err(|e| {
            let own = fio::parse(text, origin)
                .ok()
                .and_then(|file| file.refuse_unmodelled_options().err());
            source.error_at_value(at, own.unwrap_or(e).to_string())
        })?;
    }
    Ok(Task::Fio {
        text: warmed_up,
        workload: workload.into(),
    })
}

/// The study's fio options for an entry, as keys and values for a job file.
fn print_fio_options_of_study(
    entry: &WorkloadEntry,
    job_options: JobOptions<'_>,
    source: StudyText<'_>,
) -> Result<Vec<(String, String)>, StudyError> {
    let mut options: Vec<(String, String)> = Vec::new();
    for (key, value) in job_options.given {
        let Some(value) = grid::print_option_value(value) else {
            let message = format!(
                "fio_options: `{key}` is a text, a number, true or false, or a list of these"
            );
            return Err(source.error_at_value(&entry.name, message));
        };
        if value.contains(['\n', '\r']) || key.contains(['=', '[', '\n', ';', '#']) {
            let message = format!("fio_options: `{key}` cannot be a line of a job file");
            return Err(source.error_at_value(&entry.name, message));
        }
        options.push((key.clone(), value));
    }
    Ok(options)
}

/// Adds options to every job of a fio job file, in place of the jobs' own; the text is unchanged if it has them
/// already.
fn override_options_in_all_jobs(text: &str, options: &[(String, String)]) -> String {
    if options.is_empty() {
        return text.to_owned();
    }
    let mut changed = String::from("[global]\n");
    for (key, value) in options {
        let _ = writeln!(changed, "{key}={value}");
    }
    // The copy in the results begins with these lines, and must stay the same when the study is run from there.
    let rest = text.strip_prefix(&*changed).unwrap_or(text);
    for line in rest.lines() {
        if !options
            .iter()
            .any(|(name, _)| fio::line_sets_option_or_opposite(line, name))
        {
            let _ = writeln!(changed, "{line}");
        }
    }
    changed
}

fn plan_rt_app(
    entry: &WorkloadEntry,
    name: &Spanned<String>,
    source: StudyText<'_>,
    folder: &Path,
) -> Result<Task, StudyError> {
    let (text, origin) = read_workload_text(name, source, folder)?;
    let version = match &entry.rt_app_version {
        Some(version) => {
            let read = version.get_ref().parse::<rtapp::RtAppVersion>();
            Some(read.map_err(|e| source.error_at_value(version, e))?)
        }
        None => None,
    };
    let mut file = rtapp::parse_overriding_version(&text, &origin, version)
        .map_err(|e| source.error_at_value(name, e.to_string()))?;
    // The file is written as plain JSON, which rt-app accepts, too.
    let mut text = file.to_string();
    if let Some(seconds) = &entry.seconds {
        file.duration = Some(seconds_to_nanoseconds(seconds));
        file.at_most = file.duration;
        // An rt-app file has whole seconds, so the study keeps the fraction.
        if seconds.get_ref().fract() == 0.0 {
            text = file.to_string();
        }
    }
    if let Some(warm_up) = &entry.warm_up_s {
        let lasts = file
            .duration
            .filter(|lasts| seconds_to_nanoseconds(warm_up) >= *lasts);
        if let Some(lasts) = lasts {
            let message = format!(
                "there is nothing left to count: the workload lasts {} s",
                lasts.as_secs_f64()
            );
            return Err(source.error_at_value(warm_up, message));
        }
        file.warm_up = seconds_to_nanoseconds(warm_up);
    }
    if let (Some(instances), Some(task)) = (&entry.instances, file.tasks.first_mut()) {
        task.instances = *instances.get_ref();
        let threads = file.thread_count();
        if *instances.get_ref() == 0 || threads > u64::from(rtapp::MAX_THREADS) {
            let most = rtapp::MAX_THREADS;
            let message = format!("{threads} threads, and there may be 1 to {most}");
            return Err(source.error_at_value(instances, message));
        }
    }
    if let Some(copies) = &entry.copies {
        file = file.with_copies(*copies.get_ref()).map_err(|threads| {
            let most = rtapp::MAX_THREADS;
            source.error_at_value(
                copies,
                format!("{threads} threads, and there may be 1 to {most}"),
            )
        })?;
    }
    Ok(Task::RtApp {
        text,
        workload: file.into(),
    })
}

/// The duration that a study gives a workload, if any.
fn duration_up_to(
    entry: &WorkloadEntry,
    what_runs: &str,
    most_seconds: f64,
    source: StudyText<'_>,
) -> Result<Option<Nanoseconds>, StudyError> {
    let Some(seconds) = &entry.seconds else {
        return Ok(None);
    };
    if *seconds.get_ref() > most_seconds {
        let message = format!("{what_runs} for at most {most_seconds} s");
        return Err(source.error_at_value(seconds, message));
    }
    Ok(Some(seconds_to_nanoseconds(seconds)))
}

fn plan_server(
    entry: &WorkloadEntry,
    name: &Spanned<String>,
    warm_up: Option<Nanoseconds>,
    source: StudyText<'_>,
    folder: &Path,
) -> Result<Task, StudyError> {
    let (text, origin) = read_workload_text(name, source, folder)?;
    let path = path_in_folder(folder, name.get_ref());
    let mut file = server::parse(&text, &origin, path.parent())
        .map_err(|e| source.error_at_value(name, e.to_string()))?;
    if let Some(clients) = &entry.clients {
        let variables = [("clients".to_owned(), clients.get_ref().to_string())].into();
        file = file
            .with_variables(&variables, &origin)
            .map_err(|e| source.error_at_value(clients, e.to_string()))?;
    }
    let duration = duration_up_to(entry, "a server runs", server::MAX_SECONDS, source)?;
    file.duration = duration.unwrap_or(file.duration);
    file.warm_up = warm_up.unwrap_or(file.warm_up);
    Ok(Task::Server {
        text: file.to_string(),
        workload: file.into(),
    })
}

fn plan_tasks(
    entry: &WorkloadEntry,
    name: &Spanned<String>,
    source: StudyText<'_>,
    folder: &Path,
) -> Result<Task, StudyError> {
    let (text, origin) = read_workload_text(name, source, folder)?;
    let mut file =
        tasks::parse(&text, &origin).map_err(|e| source.error_at_value(name, e.to_string()))?;
    let duration = duration_up_to(entry, "tasks run", tasks::MAX_SECONDS, source)?;
    file.duration = duration.unwrap_or(file.duration);
    Ok(Task::Tasks {
        text: file.to_string(),
        workload: file.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_study_win_over_those_of_the_file() {
        let text = "[global]\nbs=4k\nruntime=30\n[a]\nbs=8k\n; runtime\nrw=randread\n";
        let options = [
            ("bs", "16k"),
            ("runtime", "500ms"),
            ("time_based", "1"),
            ("size", "1g"),
        ]
        .map(|(k, v)| (k.to_owned(), v.to_owned()));
        let file = fio::parse(&override_options_in_all_jobs(text, &options), "x").unwrap();
        assert_eq!(file.jobs[0].block_size.read, 16384);
        assert_eq!(file.jobs[0].runtime, Some(Nanoseconds::from_millis(500)));
        assert!(file.jobs[0].time_based && file.jobs.len() == 1);
        assert_eq!(override_options_in_all_jobs(text, &[]), text);
        let once = override_options_in_all_jobs(text, &options);
        assert_eq!(override_options_in_all_jobs(&once, &options), once);
    }

    #[test]
    fn options_of_the_study_win_by_whatever_name_the_file_has_them() {
        let ends = "[global]\nsize=1m\n[a]\n";
        for (line, key, value) in [
            ("timeout=30", "runtime", "500ms"),
            ("runtime=30", "timeout", "500ms"),
            ("blocksize=4k", "bs", "16k"),
            ("readwrite=randwrite", "rw", "randread"),
            ("buffered=1", "direct", "1"),
            ("direct=0", "buffered", "0"),
            ("rwmixwrite=90", "rwmixread", "70"),
            ("rwmixread=90", "rwmixwrite", "70"),
            ("wait_for_previous", "stonewall", "0"),
            ("\tstonewall # flag", "stonewall", "0"),
            ("size = 2m ; comment", "size", "8m"),
        ] {
            let options = [(key.to_owned(), value.to_owned())];
            let with = override_options_in_all_jobs(&format!("{ends}{line}\n"), &options);
            let alone = override_options_in_all_jobs(ends, &options);
            let [with, alone] = [with, alone].map(|text| fio::parse(&text, "x").unwrap());
            assert_eq!(with.to_string(), alone.to_string(), "{line}");
        }
        // Others stay.
        let text = "[a]\nrate=1m\nrandrepeat=0\nsize=1m\n";
        let options = [("rwmixread".to_owned(), "70".to_owned())];
        assert!(override_options_in_all_jobs(text, &options).ends_with(text));
    }

    fn plan_job(job: &str) -> Result<super::super::Plan, StudyError> {
        let study = format!(
            "name = 'x'\nmachine = 'rk3399'\n[[workload]]\nname = 'a'\nfio_job = \"{job}\"\n[[policy]]\nname = 'p'\n"
        );
        super::super::Plan::from_text(&study, "x", Path::new("."), RunOrigin::Sim)
    }

    #[test]
    fn a_study_sets_the_clients_of_a_server() {
        let plan = |workload: &str| {
            let study = format!(
                "name = 'x'\nmachine = 'rk3399'\n[[workload]]\nname = 'a'\n{workload}\n[[policy]]\nname = 'p'\n"
            );
            super::super::Plan::from_text(&study, "x", Path::new("."), RunOrigin::Sim)
        };
        let planned = plan("server = 'dbench-assumed.toml'\nclients = 7").unwrap();
        let Task::Server { text, .. } = &planned.workloads[0].task else {
            panic!("no server");
        };
        let file = server::parse(text, "x", None).unwrap();
        assert_eq!(file.workers, 7);
        for (workload, wanted) in [
            (
                "server = 'dbench-assumed.toml'\nclients = 0",
                "x:6: dbench-assumed.toml: clients=0 is set",
            ),
            (
                "server = 'etcd-put.toml'\nclients = 4",
                "x:6: etcd-put.toml: clients is set, and requests arrive",
            ),
            (
                "rt_app = 'idle.json'\nclients = 4",
                "x:6: `clients` is for servers; a fio job has numjobs",
            ),
        ] {
            let message = plan(workload).unwrap_err().to_string();
            assert!(message.starts_with(wanted), "{message}");
        }
    }

    #[test]
    fn a_job_may_be_a_command_line() {
        let planned = plan_job("fio --direct=1 --name='a b' --rw=randread --size=1m").unwrap();
        let Task::Fio { workload, .. } = &planned.workloads[0].task else {
            panic!("no fio job");
        };
        assert_eq!(workload.job_or_task_names(), ["a b"]);
        let message = plan_job("fio --name=a --siz=1m").unwrap_err().to_string();
        assert!(message.contains("did you mean `size`?"), "{message}");
        // What has no model has the number of the word on the command line, not of a line that nobody wrote.
        let message = plan_job("fio --name=a --size=1m --direct=1 --zonemode=zbd")
            .unwrap_err()
            .to_string();
        assert!(message.contains(": fio command line:5: "), "{message}");
    }

    /// Options without a model go to fio unchanged.
    #[test]
    fn a_measurement_hands_the_file_to_fio_unchanged() {
        let job = "[a]\nrw=randwrite\nioengine=io_uring\nhipri=1\nruntime=30sec\nsize=1.5g\n\
                   verify=crc32c\nzonemode=zbd\nnumjobs=$ncpus\n";
        let study = format!(
            "name = 'x'\nmachine = 'rk3399'\n[[workload]]\nname = 'a'\nfio_job = \"\"\"{job}\"\"\"\n[[policy]]\nname = 'p'\n"
        );
        let plan = |target| super::super::Plan::from_text(&study, "x", Path::new("."), target);
        let live = plan(RunOrigin::Live).unwrap();
        assert_eq!(
            live.workloads[0]
                .list_texts_to_copy_into_results()
                .next()
                .unwrap()
                .1,
            job
        );
        assert_eq!(live.workloads[0].warnings, []);
        let message = plan(RunOrigin::Sim).unwrap_err().to_string();
        for option in ["hipri", "runtime", "size", "zonemode", "numjobs"] {
            assert!(message.contains(option), "{option}: {message}");
        }
    }
}
