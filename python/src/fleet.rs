//! Fleets: surveyed here; the searches and replays as parts for any process; the report of all answers.

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use rayon::ThreadPoolBuilder;
use wakepath_fleet::{
    FleetError, FleetLoad, FleetPart, FleetParts, FleetSearch, LIST, LabelPattern, NamePattern,
    PAGE, PartAnswer, SurveyOptions, SurveyRequest, survey_fleet,
};
use wakepath_units::Nanoseconds;

use crate::errors;
use crate::words::in_python;
use crate::work::run_interruptibly;

/// An error of a fleet; a survey that was called off is Ctrl-C.
fn fleet_error(failed: FleetError) -> PyErr {
    match failed {
        FleetError::Interrupted => PyKeyboardInterrupt::new_err(()),
        other => errors::python_error(other),
    }
}

/// Options of a fleet, named as on the command line.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct FleetArguments {
    folder: PathBuf,
    /// The folder that the user named, if `folder` is a copy.
    shown: Option<String>,
    label: Vec<String>,
    only: Vec<String>,
    load: Vec<String>,
    minimise: String,
    keep: Vec<String>,
    over: Vec<String>,
    budget: u64,
    seed: u64,
    /// Longest simulated time in ns.
    at_most_ns: Option<u64>,
    fewest: usize,
    examine: usize,
}

impl FleetArguments {
    /// What classes are searched for; `None` without loads.
    fn make_search(&self) -> PyResult<Option<FleetSearch>> {
        if self.load.is_empty() {
            return Ok(None);
        }
        Ok(Some(FleetSearch {
            at_most: self.at_most_ns.map(Nanoseconds),
            minimise: self.minimise.clone(),
            conditions: self.keep.clone(),
            over: self.over.clone(),
            budget: self.budget,
            seed: self.seed,
            loads: FleetLoad::parse_all(&self.load).map_err(fleet_error)?,
        }))
    }
}

/// Parses the patterns of an argument; an error names the argument.
fn parse_patterns<T: std::str::FromStr<Err = String>>(
    argument: &str,
    texts: &[String],
) -> PyResult<Vec<T>> {
    let parsed = texts.iter().map(|text| {
        text.parse::<T>()
            .map_err(|why| errors::value_error(&format!("{argument}: '{text}': {why}")))
    });
    parsed.collect()
}

/// A surveyed fleet, divided into parts.
#[pyclass(frozen, module = "wakepath._engine")]
pub(crate) struct Fleet {
    folder: PathBuf,
    /// The command that makes the same files.
    command: String,
    /// The folder that the user named, if `folder` is a copy.
    shown: Option<String>,
    parts: FleetParts,
    /// Lines of loads with another effect than a user may expect.
    notes: Vec<String>,
}

#[pymethods]
impl Fleet {
    /// Surveys a fleet, and divides what is left. Loads and conditions are checked first.
    #[staticmethod]
    fn survey(py: Python<'_>, asked: FleetArguments) -> PyResult<Self> {
        let labels: Vec<LabelPattern> = parse_patterns("label", &asked.label)?;
        let only: Vec<NamePattern> = parse_patterns("only", &asked.only)?;
        let search = asked.make_search()?;
        let options = SurveyOptions {
            labels: labels.iter().map(ToString::to_string).collect(),
            only: only.iter().map(ToString::to_string).collect(),
            fewest: asked.fewest,
            examined: asked.examine,
        };
        let mut notes = Vec::new();
        if let Some(search) = &search {
            search.make_request().map_err(fleet_error)?;
            for load in &search.loads {
                let workload = load.read_workload().map_err(fleet_error)?;
                let file = load.path.display();
                let lines = workload.warnings().into_iter();
                notes.extend(lines.map(|warning| format!("{file}:{warning}")));
            }
        }
        let survey = run_interruptibly(py, None, None, fleet_error, |control| {
            survey_fleet(&SurveyRequest {
                folder: &asked.folder,
                labels_for: &|name| LabelPattern::labels_for(&labels, name),
                includes: &|name| only.is_empty() || only.iter().any(|only| only.matches(name)),
                examined_per_class: asked.examine,
                cancelled: control.cancelled,
                report_read: &|_| {},
            })
        })?;
        Ok(Self {
            command: options.to_command(&asked.folder, search.as_ref()),
            parts: py.detach(|| FleetParts::divide(survey, search.as_ref(), asked.fewest)),
            folder: asked.folder,
            shown: asked.shown,
            notes,
        })
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.iter().map(|note| in_python(note)).collect()
    }

    /// The parts as texts.
    fn parts(&self) -> PyResult<Vec<String>> {
        let parts = self.parts.parts().iter();
        let texts: Result<Vec<String>, FleetError> = parts.map(FleetPart::to_text).collect();
        texts.map_err(fleet_error)
    }

    /// The report of all answers, in the order of the parts: the output of `wakepath fleet --format json`, then the files
    /// of `wakepath fleet -o` by name.
    fn report(&self, answers: Vec<String>) -> PyResult<(String, Vec<(String, String)>)> {
        let parsed: Result<Vec<PartAnswer>, FleetError> =
            answers.iter().map(|text| PartAnswer::parse(text)).collect();
        let mut report = self
            .parts
            .make_report(parsed.map_err(fleet_error)?)
            .map_err(fleet_error)?;
        let (folder, command) = match &self.shown {
            None => (self.folder.clone(), self.command.clone()),
            Some(shown) => {
                report.show_folder_as(&self.folder.display().to_string(), shown);
                (PathBuf::from(shown), format!("wakepath.fleet({shown:?})"))
            }
        };
        let files = report
            .compose_files(&folder, &command)
            .map_err(fleet_error)?;
        let json = serde_json::to_string(&report).map_err(errors::python_error)?;
        let named = files.into_iter().map(|file| (file.name, file.content));
        Ok((json, named.collect()))
    }
}

/// Names of the files that a finished survey has: the page and the list of machines.
#[pyfunction]
pub(crate) fn fleet_files() -> [&'static str; 2] {
    [PAGE, LIST]
}

/// Files that a part reads.
#[pyfunction]
pub(crate) fn fleet_part_files(part: &str) -> PyResult<Vec<String>> {
    let parsed = FleetPart::parse(part).map_err(fleet_error)?;
    let files = parsed
        .files()
        .map(|file| file.to_string_lossy().into_owned());
    Ok(files.collect())
}

/// Text of a part that reads files below the folder `new` that lay below `old`.
#[pyfunction]
pub(crate) fn move_fleet_part_files(part: &str, old: PathBuf, new: PathBuf) -> PyResult<String> {
    let mut parsed = FleetPart::parse(part).map_err(fleet_error)?;
    parsed.move_files(&old, &new);
    parsed.to_text().map_err(fleet_error)
}

/// Whether a text is the answer to a part.
#[pyfunction]
pub(crate) fn is_fleet_answer(text: &str) -> bool {
    PartAnswer::parse(text).is_ok()
}

/// Answers a part: on all cores and ended by Ctrl-C, or on so many threads, as a worker does.
#[pyfunction]
#[pyo3(signature = (part, *, threads))]
pub(crate) fn answer_fleet_part(
    py: Python<'_>,
    part: &str,
    threads: Option<NonZero<usize>>,
) -> PyResult<String> {
    let parsed = FleetPart::parse(part).map_err(fleet_error)?;
    let answer = match threads {
        None => run_interruptibly(py, None, None, fleet_error, |control| {
            parsed.answer(control.cancelled)
        })?,
        Some(threads) => {
            let cores = available_parallelism().unwrap_or(NonZero::<usize>::MIN);
            // A pool of its own: a fork has no threads of its parent's pool.
            let own = ThreadPoolBuilder::new().num_threads(threads.min(cores).get());
            let pool = own.build().map_err(errors::python_error)?;
            py.detach(|| pool.install(|| parsed.answer(&AtomicBool::new(false))))
                .map_err(fleet_error)?
        }
    };
    answer.to_text().map_err(fleet_error)
}
