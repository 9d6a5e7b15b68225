//! Parts of a study: machines, drives, policy sets.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use wakepath_hardware::drive::library::DriveLibrary;
use wakepath_hardware::machine::{self, DriveModel};
use wakepath_hardware::recorded;
use wakepath_policies::spec;

use crate::errors;

/// A name, or a file's path.
fn name_or_path(given: &Bound<'_, PyAny>, what: &str) -> PyResult<String> {
    if let Ok(name) = given.extract::<String>() {
        return Ok(name);
    }
    let Ok(path) = given.extract::<PathBuf>() else {
        let message = format!(
            "name: expected {what} or the path of a file, and there is {}",
            given.repr()?
        );
        return Err(PyTypeError::new_err(message));
    };
    let text = path.into_os_string().into_string();
    text.map_err(|path| errors::value_error(&format!("{}: the path is no text", path.display())))
}

/// A machine to simulate. Machines are equal if their files would be.
#[pyclass(frozen, eq, hash, module = "wakepath")]
pub(crate) struct Machine {
    given: String,
    /// From a text: the machine has no name for studies.
    own: bool,
    model: machine::Machine,
}

impl Machine {
    /// The whole description.
    fn content(&self) -> Option<String> {
        self.model.to_toml().ok()
    }
}

impl PartialEq for Machine {
    fn eq(&self, other: &Self) -> bool {
        self.content() == other.content()
    }
}

impl Hash for Machine {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.content().hash(state);
    }
}

#[pymethods]
impl Machine {
    #[new]
    fn new(name: &Bound<'_, PyAny>) -> PyResult<Self> {
        let name = name_or_path(name, "the name of a machine")?;
        Ok(Self {
            model: machine::Machine::find(&name).map_err(errors::python_error)?,
            given: name,
            own: false,
        })
    }

    #[staticmethod]
    fn from_toml(text: String) -> PyResult<Self> {
        Ok(Self {
            model: machine::Machine::parse(&text, "machine").map_err(errors::python_error)?,
            given: text,
            own: true,
        })
    }

    /// The built-in machines, then the recorded systems that can be simulated.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        let complete =
            |system: &&recorded::RecordedSystem| machine::Machine::from_recorded(system).is_ok();
        let recorded = recorded::builtin_recorded_systems().iter().filter(complete);
        machine::builtin_machine_names()
            .chain(recorded.map(|system| system.name.as_str()))
            .collect()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.model.name
    }

    #[getter]
    fn title(&self) -> &str {
        &self.model.title
    }

    #[getter]
    fn cpus(&self) -> usize {
        self.model.cpus()
    }

    #[getter]
    fn idle_states(&self) -> Vec<&str> {
        let states = self.model.idle_state.iter();
        states.map(|state| &*state.name).collect()
    }

    #[getter]
    fn drive(&self) -> Drive {
        Drive {
            given: self.model.drive.name.clone(),
            drive: self.model.drive.clone(),
        }
    }

    fn to_toml(&self) -> PyResult<String> {
        self.model.to_toml().map_err(errors::python_error)
    }

    /// The name for studies, if any.
    fn _named(&self) -> Option<&str> {
        (!self.own).then_some(&self.given)
    }

    fn __repr__(&self) -> String {
        format!(
            "<wakepath.Machine {}: {}>",
            self.model.name, self.model.title
        )
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<(Py<PyAny>, (String,))> {
        let kind = slf.get_type();
        let this = slf.get();
        let maker = if this.own {
            kind.getattr("from_toml")?
        } else {
            kind.into_any()
        };
        Ok((maker.unbind(), (this.given.clone(),)))
    }
}

/// A drive for machines. Drives are equal if all figures are.
#[pyclass(frozen, eq, hash, module = "wakepath")]
pub(crate) struct Drive {
    given: String,
    drive: DriveModel,
}

impl Drive {
    /// All figures.
    fn content(&self) -> Option<String> {
        serde_json::to_string(&self.drive).ok()
    }
}

impl PartialEq for Drive {
    fn eq(&self, other: &Self) -> bool {
        self.content() == other.content()
    }
}

impl Hash for Drive {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.content().hash(state);
    }
}

#[pymethods]
impl Drive {
    #[new]
    fn new(name: &Bound<'_, PyAny>) -> PyResult<Self> {
        let name = name_or_path(name, "a part of a drive's name")?;
        let drive = DriveModel::find(&name).map_err(errors::python_error)?;
        Ok(Self { given: name, drive })
    }

    /// All drives in the library.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        let drives = DriveLibrary::builtin().models_with_text("");
        drives.iter().map(|drive| &*drive.name).collect()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.drive.name
    }

    /// Size in bytes.
    #[getter]
    fn capacity(&self) -> u64 {
        self.drive.capacity_in_bytes()
    }

    /// Whether the drive has power states.
    #[getter]
    fn sleeps(&self) -> bool {
        self.drive.power.is_some()
    }

    /// All figures.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.drive).map_err(errors::python_error)?;
        py.import("json")?.call_method1("loads", (text,))
    }

    fn _named(&self) -> &str {
        &self.given
    }

    fn __repr__(&self) -> String {
        format!("<wakepath.Drive {}>", self.drive.name)
    }

    fn __getnewargs__(&self) -> (&str,) {
        (&self.given,)
    }
}

/// Policies in force together.
#[pyclass(frozen, eq, module = "wakepath")]
#[derive(PartialEq)]
pub(crate) struct PolicySet {
    set: spec::PolicySet,
}

#[pymethods]
impl PolicySet {
    #[new]
    #[pyo3(signature = (text=""))]
    fn new(text: &str) -> PyResult<Self> {
        let set = text.parse().map_err(errors::python_error)?;
        Ok(Self { set })
    }

    /// All policies by full name.
    #[getter]
    fn policies(&self) -> Vec<String> {
        let policies = self.set.policies().iter();
        policies.map(ToString::to_string).collect()
    }

    fn __str__(&self) -> String {
        self.set.to_string()
    }

    fn __repr__(&self) -> String {
        format!("PolicySet('{}')", self.set)
    }

    fn __len__(&self) -> usize {
        self.set.policies().len()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.set.to_string().hash(&mut hasher);
        hasher.finish()
    }

    /// Both together.
    fn __add__(&self, other: SetOrText<'_>) -> PyResult<Self> {
        Self::joined(&self.set, &other.set()?)
    }

    fn __radd__(&self, other: SetOrText<'_>) -> PyResult<Self> {
        Self::joined(&other.set()?, &self.set)
    }

    fn __getnewargs__(&self) -> (String,) {
        (self.set.text_as_written(),)
    }
}

impl PolicySet {
    fn joined(first: &spec::PolicySet, second: &spec::PolicySet) -> PyResult<Self> {
        let both = [first.clone(), second.clone()];
        let set = spec::PolicySet::join_sets(both).map_err(errors::python_error)?;
        Ok(Self { set })
    }
}

/// A value to join with a set. For other values Python says that they cannot be added.
#[derive(FromPyObject)]
enum SetOrText<'py> {
    Set(PyRef<'py, PolicySet>),
    Text(String),
}

impl SetOrText<'_> {
    fn set(&self) -> PyResult<spec::PolicySet> {
        match self {
            Self::Set(set) => Ok(set.set.clone()),
            Self::Text(text) => text.parse().map_err(errors::python_error),
        }
    }
}
