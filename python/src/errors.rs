//! Errors from the crates as Python exceptions.

use std::error;

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;
use wakepath_study::file::StudyError;
use wakepath_units::causes::with_causes;

use crate::words::in_python;

create_exception!(
    wakepath,
    Error,
    PyException,
    "What wakepath cannot do, and why: what the command line prints, with the arguments and functions of Python."
);

/// Any error from the crates.
pub(crate) fn python_error(error: impl error::Error) -> PyErr {
    value_error(&with_causes(&error))
}

/// An error in the command line's words.
pub(crate) fn value_error(text: &str) -> PyErr {
    Error::new_err(in_python(text))
}

/// An error of a study without a file: no line of a text that nobody wrote.
pub(crate) fn of_keys(failed: StudyError) -> PyErr {
    match failed {
        StudyError::File { message: text, .. } => value_error(&text),
        other => of_study(other),
    }
}

/// An error of a study; the one that was called off is Ctrl-C.
pub(crate) fn of_study(failed: StudyError) -> PyErr {
    match failed {
        StudyError::Interrupted => PyKeyboardInterrupt::new_err(()),
        other => python_error(other),
    }
}
