//! What a study names: machines, drives, policy sets.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use pyo3::prelude::*;
use wakepath_hardware::machine::{self, DriveModel};
use wakepath_policies::spec;

use crate::errors;

/// A machine that can be simulated.
#[pyclass(frozen, module = "wakepath")]
pub(crate) struct Machine {
    given: String,
    /// From a text of its own: no name leads to it.
    own: bool,
    model: machine::Machine,
}

#[pymethods]
impl Machine {
    #[new]
    fn new(name: String) -> PyResult<Self> {
        Ok(Self {
            model: machine::Machine::find(&name).map_err(errors::error)?,
            given: name,
            own: false,
        })
    }

    #[staticmethod]
    fn from_toml(text: String) -> PyResult<Self> {
        Ok(Self {
            model: machine::Machine::parse(&text, "machine").map_err(errors::error)?,
            given: text,
            own: true,
        })
    }

    /// The built-in machines.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        machine::builtin_names().collect()
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
        self.model.to_toml().map_err(errors::error)
    }

    /// The name by which a study finds it, if it has one.
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

/// A drive that a machine can have.
#[pyclass(frozen, module = "wakepath")]
pub(crate) struct Drive {
    given: String,
    drive: DriveModel,
}

#[pymethods]
impl Drive {
    #[new]
    fn new(name: String) -> PyResult<Self> {
        let drive = DriveModel::find(&name).map_err(errors::error)?;
        Ok(Self { given: name, drive })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.drive.name
    }

    /// Its size in bytes.
    #[getter]
    fn capacity(&self) -> u64 {
        self.drive.capacity()
    }

    /// Whether it has power states.
    #[getter]
    fn sleeps(&self) -> bool {
        self.drive.power.is_some()
    }

    /// All figures.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.drive).map_err(errors::error)?;
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

/// Policies that hold together.
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
        let set = text.parse().map_err(errors::error)?;
        Ok(Self { set })
    }

    /// Its policies, each by its full name.
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
        (self.set.to_string(),)
    }
}

impl PolicySet {
    fn joined(first: &spec::PolicySet, second: &spec::PolicySet) -> PyResult<Self> {
        let both = [first.clone(), second.clone()];
        let set = spec::PolicySet::join(both).map_err(errors::error)?;
        Ok(Self { set })
    }
}

/// What a set is joined with. Anything else has Python say that it cannot be added.
#[derive(FromPyObject)]
enum SetOrText<'py> {
    Set(PyRef<'py, PolicySet>),
    Text(String),
}

impl SetOrText<'_> {
    fn set(&self) -> PyResult<spec::PolicySet> {
        match self {
            Self::Set(set) => Ok(set.set.clone()),
            Self::Text(text) => text.parse().map_err(errors::error),
        }
    }
}
