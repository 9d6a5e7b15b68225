//! Recordings from machines at work.

use std::path::PathBuf;

use pyo3::prelude::*;
use wakepath_trace::recording::Reader;

use crate::errors;

/// A recording's description. The events are in a Parquet file.
#[pyclass(frozen, module = "wakepath")]
pub(crate) struct Recording {
    path: PathBuf,
    events: u64,
    metadata: String,
}

#[pymethods]
impl Recording {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let reader = Reader::open(&path).map_err(errors::python_error)?;
        let metadata = serde_json::to_string(reader.metadata()).map_err(errors::python_error)?;
        Ok(Self {
            events: reader.event_count(),
            metadata,
            path,
        })
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    #[getter]
    fn events(&self) -> u64 {
        self.events
    }

    /// The whole description.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.import("json")?.call_method1("loads", (&self.metadata,))
    }

    fn __fspath__(&self) -> PyResult<&str> {
        let path = self.path.to_str();
        path.ok_or_else(|| errors::Error::new_err("the path is no text"))
    }

    fn __repr__(&self) -> String {
        format!(
            "<wakepath.Recording {}: {} events>",
            self.path.display(),
            self.events
        )
    }

    fn __getnewargs__(&self) -> (PathBuf,) {
        (self.path.clone(),)
    }
}
