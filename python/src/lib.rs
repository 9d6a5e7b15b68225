//! `wakepath._engine`: what the Python package calls. The package `wakepath` beside it has the names, the help and the
//! types that people see.
//!
//! Nothing here knows more than the command line does: a study is planned, run, read, compared and reported by the same
//! crates. While they work, the interpreter's lock is released ([`work`]).

#![allow(
    clippy::needless_pass_by_value,
    reason = "what Python hands over is converted, and then owned"
)]

mod errors;
mod fleet;
mod machine;
mod recording;
mod results;
mod study;
mod table;
mod words;
mod work;

use pyo3::prelude::*;

/// The engine behind the package `wakepath`.
#[pymodule]
mod _engine {
    #[pymodule_export]
    use super::errors::Error;
    #[pymodule_export]
    use super::fleet::{
        Fleet, answer_fleet_part, fleet_files, fleet_part_files, is_fleet_answer,
        move_fleet_part_files,
    };
    #[pymodule_export]
    use super::machine::{Drive, Machine, PolicySet};
    #[pymodule_export]
    use super::recording::Recording;
    #[pymodule_export]
    use super::results::{Results, compare, report};
    #[pymodule_export]
    use super::study::{Parts, Plan, builtin_studies};
    #[pymodule_export]
    use super::table::{Table, TableParts};
    #[pymodule_export]
    use super::words::in_python;

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
