//! Studies: planned, checked, run here or in parts elsewhere.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use wakepath_policies::PolicySet;
use wakepath_results::{Mode, RunOrigin, Shard};
use wakepath_study::builtin;
use wakepath_study::plan;
use wakepath_study::run::{self, parts};

use crate::errors::{self, Error};
use crate::results::Results;
use crate::words::in_python;
use crate::work::run_interruptibly;

/// Names of built-in studies.
#[pyfunction]
pub(crate) fn builtin_studies() -> Vec<&'static str> {
    builtin::study_names().collect()
}

/// A study, with all named parts found.
#[pyclass(frozen, module = "wakepath._engine")]
pub(crate) struct Plan {
    plan: Arc<plan::Plan>,
}

fn parse_target(on: &str) -> PyResult<RunOrigin> {
    let known = [RunOrigin::Sim, RunOrigin::Replay, RunOrigin::Live];
    let found = known.into_iter().find(|origin| origin.name() == on);
    found.ok_or_else(|| {
        let names = known.map(|origin| format!("'{}'", origin.name()));
        PyValueError::new_err(format!("on is '{on}', and may be {}", names.join(" or ")))
    })
}

/// How to treat an existing directory.
fn parse_mode(name: &str) -> PyResult<Mode> {
    match name {
        "new" => Ok(Mode::New),
        "resume" => Ok(Mode::Resume),
        "replace" => Ok(Mode::Replace),
        other => Err(PyValueError::new_err(format!(
            "'{other}' is neither 'new', 'resume' nor 'replace'"
        ))),
    }
}

#[pymethods]
impl Plan {
    /// A study file, or a built-in study by its name.
    #[staticmethod]
    #[pyo3(signature = (path, on, more, *, allow_programs = false))]
    fn load(path: PathBuf, on: &str, more: Vec<String>, allow_programs: bool) -> PyResult<Self> {
        let sets: Vec<PolicySet> = more
            .iter()
            .map(|set| set.parse())
            .collect::<Result<_, _>>()
            .map_err(errors::python_error)?;
        let plan = plan::Plan::load_with_sets(&path, parse_target(on)?, &sets, allow_programs)
            .map_err(errors::of_study)?;
        Ok(Self { plan: plan.into() })
    }

    /// A study from its keys, as JSON; relative paths start at `folder`.
    #[staticmethod]
    #[pyo3(signature = (keys, folder, on, *, allow_programs = false))]
    fn of_keys(keys: &str, folder: PathBuf, on: &str, allow_programs: bool) -> PyResult<Self> {
        let keys: toml::Table = serde_json::from_str(keys).map_err(errors::python_error)?;
        let text = toml::to_string(&keys).map_err(errors::python_error)?;
        let plan =
            plan::Plan::from_user_text(&text, "study", &folder, parse_target(on)?, allow_programs);
        Ok(Self {
            plan: plan.map_err(errors::of_keys)?.into(),
        })
    }

    #[getter]
    fn name(&self) -> &str {
        self.plan.file.name.get_ref()
    }

    #[getter]
    fn text(&self) -> PyResult<String> {
        self.plan.study_text_with_sets().map_err(errors::of_study)
    }

    #[getter]
    fn on(&self) -> &'static str {
        self.plan.target.name()
    }

    #[getter]
    fn repeats(&self) -> u32 {
        self.plan.repeats()
    }

    #[getter]
    fn workloads(&self) -> Vec<&str> {
        self.plan.workloads.iter().map(|w| &*w.name).collect()
    }

    #[getter]
    fn policies(&self) -> Vec<&str> {
        self.plan.policies.iter().map(|p| &*p.name).collect()
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        let of_jobs = self.plan.workloads.iter().flat_map(|workload| {
            let warnings = workload.warnings.iter();
            warnings.map(|warning| format!("{}: line {warning}", workload.name))
        });
        let notes = of_jobs.chain(self.plan.list_notes());
        notes.map(|note| in_python(&note)).collect()
    }

    /// Whether the study runs no code named only in its file, or the user allows such code.
    #[getter]
    fn may_run(&self) -> bool {
        self.plan.check_programs_allowed().is_ok()
    }

    fn __len__(&self) -> usize {
        self.plan.run_count()
    }

    /// Files to run the study elsewhere: `study.toml` and all named files.
    fn files(&self) -> PyResult<BTreeMap<String, Vec<u8>>> {
        let files = parts::list_study_files(&self.plan).map_err(errors::of_study)?;
        Ok(files.into_iter().collect())
    }

    /// Runs the study or a shard; returns the number of runs.
    #[pyo3(signature = (into, mode, *, shard, jobs, progress))]
    fn run(
        &self,
        py: Python<'_>,
        into: PathBuf,
        mode: &str,
        shard: Option<&str>,
        jobs: Option<NonZero<u16>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<usize> {
        let shard: Option<Shard> = shard
            .map(str::parse)
            .transpose()
            .map_err(errors::python_error)?;
        let mode = self::parse_mode(mode)?;
        let plan = &self.plan;
        if shard.is_some() && plan.target == RunOrigin::Live {
            return Err(Error::new_err(
                "shard is for simulations: a measurement takes its runs in an order of its own, on one machine",
            ));
        }
        run_interruptibly(py, jobs, progress, errors::of_study, |waiting| {
            let backend = run::make_backend(plan)?;
            run::run_plan(plan, &*backend, shard, &into, mode, waiting)
        })?;
        let has = |index: &usize| shard.is_none_or(|shard| shard.includes_run(*index));
        Ok((0..plan.run_count()).filter(has).count())
    }

    /// Runs the whole study and keeps the results in memory.
    #[pyo3(signature = (*, jobs, progress))]
    fn run_in_memory(
        &self,
        py: Python<'_>,
        jobs: Option<NonZero<u16>>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Results> {
        let plan = &self.plan;
        let (reader, took) = run_interruptibly(py, jobs, progress, errors::of_study, |waiting| {
            let started = Instant::now();
            let reader = parts::run_in_memory(plan, waiting)?;
            Ok((reader, started.elapsed()))
        })?;
        Ok(Results::new(reader, took))
    }

    /// Writes results from memory.
    fn write(&self, py: Python<'_>, results: &Results, into: PathBuf, mode: &str) -> PyResult<()> {
        let mode = self::parse_mode(mode)?;
        py.detach(|| parts::write_results_from_memory(&self.plan, results.reader(), &into, mode))
            .map_err(errors::of_study)
    }

    /// Begins a directory for other processes' runs.
    fn begin(&self, py: Python<'_>, into: PathBuf, mode: &str) -> PyResult<Parts> {
        let mode = self::parse_mode(mode)?;
        let begun = py.detach(|| parts::Parts::begin(&self.plan, &into, mode));
        Ok(Parts {
            plan: Arc::clone(&self.plan),
            parts: Mutex::new(Some(begun.map_err(errors::of_study)?)),
        })
    }

    /// Groups runs that are best made together.
    fn together(&self, runs: Vec<usize>) -> Vec<Vec<usize>> {
        parts::group_runs_by_recording(&self.plan, &runs)
    }

    /// Makes runs in another process's directory.
    fn make(&self, py: Python<'_>, runs: Vec<usize>, into: PathBuf) -> PyResult<()> {
        py.detach(|| parts::make_runs_in_part(&self.plan, &runs, &into))
            .map_err(errors::of_study)
    }
}

/// A directory for other processes' runs. While open, nobody else writes the document and tables.
#[pyclass(frozen, module = "wakepath._engine")]
pub(crate) struct Parts {
    plan: Arc<plan::Plan>,
    parts: Mutex<Option<parts::Parts>>,
}

#[pymethods]
impl Parts {
    /// The runs that were not there when it was begun: from the first of each range to before the second. Millions of
    /// numbers would be as many objects.
    #[getter]
    fn missing(&self) -> Vec<(usize, usize)> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = parts.as_ref().map_or(&[][..], parts::Parts::missing_runs);
        let ranges = missing.chunk_by(|one, next| one + 1 == *next);
        ranges
            .map(|range| (range[0], range[0] + range.len()))
            .collect()
    }

    /// Makes the tables and closes the directory.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        match parts.take() {
            Some(parts) => run_interruptibly(py, None, None, errors::of_study, |_| {
                parts.write_tables(&self.plan)
            }),
            None => Err(Error::new_err("these results are finished already")),
        }
    }

    /// Leaves the directory unfinished, for another process.
    fn close(&self) {
        self.parts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}
