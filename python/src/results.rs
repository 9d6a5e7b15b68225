//! Results: read, compared, reported.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use wakepath_compare::results::{
    CompareOptions, Comparison, ComparisonFile, Objective, Points, ScopeList, Source,
    add_idle_rates, answer_all_questions, choose_policy, compare_results as compare_sources,
    find_pareto_front, say_per_machine,
};
use wakepath_compare::{Condition, Goal};
use wakepath_report::html::{from_results, render_html_report};
use wakepath_results::{Document, ResultReader, RunRecord, import};

use crate::errors;
use crate::table::Table;

/// Results from a directory, from another tool, or in memory.
#[pyclass(frozen, module = "wakepath._engine")]
pub(crate) struct Results {
    reader: Arc<ResultReader>,
    took: Duration,
}

impl Results {
    /// Results, and the time that the engine took.
    pub(crate) fn new(reader: ResultReader, took: Duration) -> Self {
        Self {
            reader: reader.into(),
            took,
        }
    }

    pub(crate) fn reader(&self) -> &ResultReader {
        &self.reader
    }
}

#[pymethods]
impl Results {
    /// Opens a result directory, or results of fio, hyperfine and MMTests.
    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Self> {
        let mut opened = import::open_results(&[path]).map_err(errors::python_error)?;
        Ok(Self::new(opened.remove(0).results, Duration::ZERO))
    }

    /// Results in memory, from the texts of [`Self::document`] and [`Self::runs`].
    #[staticmethod]
    fn in_memory(document: &str, runs: &str) -> PyResult<Self> {
        let document: Document = serde_json::from_str(document).map_err(errors::python_error)?;
        let runs: Vec<RunRecord> = serde_json::from_str(runs).map_err(errors::python_error)?;
        let name = document.study.name.clone();
        let reader = ResultReader::for_imported_runs(name, document, runs);
        Ok(Self::new(reader, Duration::ZERO))
    }

    /// All runs.
    fn runs(&self) -> PyResult<String> {
        let runs = self.reader.read_runs().map_err(errors::python_error)?;
        serde_json::to_string(&runs).map_err(errors::python_error)
    }

    /// Whether the results are in no directory.
    #[getter]
    fn is_in_memory(&self) -> bool {
        self.reader.is_in_memory()
    }

    /// Engine time for runs in memory, in seconds; the rest of a call's time is Python's.
    #[getter]
    fn seconds(&self) -> f64 {
        self.took.as_secs_f64()
    }

    /// The directory or file.
    #[getter]
    fn path(&self) -> PathBuf {
        self.reader.dir().to_owned()
    }

    /// `result.json`.
    fn document(&self) -> PyResult<String> {
        serde_json::to_string(self.reader.document()).map_err(errors::python_error)
    }

    fn table(&self, name: &str) -> PyResult<Table> {
        Table::new(&self.reader, name)
    }
}

/// Results to compare or to report on: a path, or results that are open.
#[derive(FromPyObject)]
pub(crate) enum ResultsArgument<'py> {
    Open(PyRef<'py, Results>),
    Path(PathBuf),
}

/// Opens results and gives them names.
fn open_results(arguments: Vec<ResultsArgument<'_>>) -> PyResult<Vec<(String, Arc<ResultReader>)>> {
    let paths: Vec<PathBuf> = arguments
        .iter()
        .filter_map(|argument| match argument {
            ResultsArgument::Path(path) => Some(path.clone()),
            ResultsArgument::Open(_) => None,
        })
        .collect();
    let mut imported = import::open_results(&paths)
        .map_err(errors::python_error)?
        .into_iter();
    let mut named = Vec::new();
    for argument in arguments {
        match argument {
            ResultsArgument::Open(results) => {
                let reader = Arc::clone(&results.reader);
                named.push((reader.document().study.name.clone(), reader));
            }
            ResultsArgument::Path(_) => {
                named.extend(imported.next().map(|o| (o.name, Arc::new(o.results))));
            }
        }
    }
    Ok(named)
}

/// Options for a comparison, named as on the command line.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct CompareArguments {
    baseline: Option<String>,
    metric: Vec<String>,
    machine: Vec<String>,
    workload: Vec<String>,
    minimise: Option<String>,
    maximise: Option<String>,
    keep: Vec<String>,
    pareto: Vec<String>,
    level: Option<f64>,
}

/// What a comparison is asked, checked.
struct ComparisonRequest {
    arguments: CompareArguments,
    /// Metric to be as small or as large as possible.
    goal: Option<(String, Goal)>,
    keep: Vec<Condition>,
}

impl ComparisonRequest {
    fn parse(arguments: CompareArguments) -> PyResult<Self> {
        let goal = match (&arguments.minimise, &arguments.maximise) {
            (Some(metric), _) => Some((metric.clone(), Goal::Minimise)),
            (None, Some(metric)) => Some((metric.clone(), Goal::Maximise)),
            (None, None) => None,
        };
        let keep = arguments.keep.iter().map(|text| text.parse());
        Ok(Self {
            goal,
            keep: keep
                .collect::<Result<_, String>>()
                .map_err(|wrong| errors::value_error(&wrong))?,
            arguments,
        })
    }

    /// Metrics to compare: those of the goal if there is one.
    fn metrics(&self) -> Vec<String> {
        let mut metrics: Vec<String> = self.arguments.pareto.clone();
        metrics.extend(self.goal.iter().map(|(metric, _)| metric.clone()));
        metrics.extend(self.keep.iter().map(|condition| condition.metric.clone()));
        if metrics.is_empty() {
            metrics.clone_from(&self.arguments.metric);
        }
        metrics
    }

    fn options(&self) -> CompareOptions {
        CompareOptions {
            baseline: self.arguments.baseline.clone(),
            metrics: self.metrics(),
            machines: self.arguments.machine.clone(),
            workloads: self.arguments.workload.clone(),
            level: self.arguments.level,
        }
    }

    /// Whether nothing narrows the comparison, so that it answers the studies' questions.
    fn is_whole(&self) -> bool {
        let arguments = &self.arguments;
        arguments.metric.is_empty() && arguments.workload.is_empty() && arguments.machine.is_empty()
    }

    /// The answer as JSON: the best policies for a goal, a Pareto front, or the whole comparison.
    fn answer(&self, sources: &[Source], comparison: &Comparison) -> PyResult<String> {
        let text = if let Some((metric, goal)) = &self.goal {
            let choices = say_per_machine(comparison, |among| {
                let objective = Objective {
                    metric: metric.clone(),
                    goal: *goal,
                    keep: self.keep.clone(),
                    among,
                };
                choose_policy(comparison, &objective)
            });
            serde_json::to_string_pretty(&ScopeList::from(
                &choices.map_err(errors::python_error)?[..],
            ))
        } else if self.arguments.pareto.is_empty() {
            let answers = if self.is_whole() {
                answer_all_questions(sources, comparison)
            } else {
                Vec::new()
            };
            serde_json::to_string_pretty(&ComparisonFile {
                answers: &answers,
                comparison,
            })
        } else {
            let points = say_per_machine(comparison, |among| {
                Ok(Points {
                    metrics: self.arguments.pareto.clone(),
                    points: find_pareto_front(comparison, &self.arguments.pareto, &among)?,
                })
            });
            serde_json::to_string_pretty(&ScopeList::from(
                &points.map_err(errors::python_error)?[..],
            ))
        };
        text.map_err(errors::python_error)
    }
}

/// Compares results; returns the output of `wakepath compare --format json`.
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    results: Vec<ResultsArgument<'_>>,
    asked: CompareArguments,
) -> PyResult<String> {
    let request = ComparisonRequest::parse(asked)?;
    let opened = open_results(results)?;
    py.detach(|| {
        let read = opened
            .iter()
            .map(|(name, reader)| Source::read_result(name, reader));
        let mut sources: Vec<Source> = read
            .collect::<Result<_, _>>()
            .map_err(errors::python_error)?;
        let readers: Vec<&ResultReader> = opened.iter().map(|(_, reader)| &**reader).collect();
        add_idle_rates(&mut sources, &readers).map_err(errors::python_error)?;
        let comparison =
            compare_sources(&sources, &request.options()).map_err(errors::python_error)?;
        request.answer(&sources, &comparison)
    })
}

/// A report's page.
#[pyfunction]
pub(crate) fn report(
    py: Python<'_>,
    results: Vec<ResultsArgument<'_>>,
    baseline: Option<String>,
) -> PyResult<String> {
    let opened = open_results(results)?;
    py.detach(|| {
        let readers: Vec<ResultReader> = opened.iter().map(|(_, r)| (**r).clone()).collect();
        let view = from_results::build_view(&readers, baseline.as_deref())
            .map_err(errors::python_error)?;
        render_html_report(&view).map_err(errors::python_error)
    })
}
