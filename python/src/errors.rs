//! Errors of the crates as Python exceptions, in the words of the command line.

use std::error;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;
use wakepath_study::file::StudyError;
use wakepath_units::causes::with_causes;

create_exception!(
    wakepath,
    Error,
    PyException,
    "What wakepath cannot do, and why: the words that the command line prints."
);

/// Any error of the crates.
pub(crate) fn error(error: impl error::Error) -> PyErr {
    Error::new_err(with_causes(&error))
}

/// An error of a study; the one that was called off is Ctrl-C.
pub(crate) fn of_study(failed: StudyError) -> PyErr {
    match failed {
        StudyError::Interrupted => PyKeyboardInterrupt::new_err(()),
        other => error(other),
    }
}
