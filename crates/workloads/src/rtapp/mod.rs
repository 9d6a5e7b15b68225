//! Workloads of the scheduler: rt-app JSON files.
//!
//! [`parse`] reads the grammar of [rt-app](https://github.com/scheduler-tools/rt-app) with what its
//! front end `workgen` adds to JSON: comments, trailing and missing commas, missing values, and keys
//! that occur several times in an object. A key that rt-app does not know is ignored with a
//! [`RtAppWarning`], as rt-app does. What changes the timing and is not supported is an error.
//!
//! ```
//! let file = wakepath_workloads::rtapp::parse(
//!     r#"{ "tasks": { "a": { "loop": 10, "run": 100, "sleep": 900 /* us */ } } }"#,
//!     "a.json",
//! )?;
//! assert_eq!(file.tasks[0].phases[0].events.len(), 2);
//! # Ok::<(), wakepath_workloads::rtapp::RtAppError>(())
//! ```

use std::fmt;

use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use crate::file;

mod error;
mod events;
mod model;
mod place;
mod print;
mod sections;
mod version;
mod warnings;
mod workgen;

#[cfg(test)]
mod tests;

pub use error::{RtAppError, RtAppWarning};
pub use model::{
    Calibration, MAX_EVENTS, MAX_THREADS, Phase, RtAppEvent, RtAppFile, RtTask, Scheduling,
};
pub use version::RtAppVersion;

/// Longest rt-app file that is accepted, in bytes.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// Parses an rt-app file by the rules of the rt-app version that the file names, else of the present version. `origin`
/// is the file's name for messages.
///
/// # Errors
/// The first problem of the file with its line: no JSON, an event that is not supported, a value of the wrong type or
/// out of range, no task at all. Also more than [`MAX_FILE_BYTES`], [`MAX_THREADS`] or [`MAX_EVENTS`].
pub fn parse(text: &str, origin: &str) -> Result<RtAppFile, RtAppError> {
    parse_with_version(text, origin, None)
}

/// Parses an rt-app file by the rules of `version`, whichever the file names; `None`: by the file's.
///
/// # Errors
/// As [`parse`].
pub fn parse_with_version(
    text: &str,
    origin: &str,
    version: Option<RtAppVersion>,
) -> Result<RtAppFile, RtAppError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(RtAppError::for_file(
            origin,
            file::too_large_message(MAX_FILE_BYTES),
        ));
    }
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_missing_commas: true,
        allow_loose_object_property_names: false,
        allow_single_quoted_strings: true,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let json = workgen::complete_values(text);
    let ast =
        parse_to_ast(&json, &CollectOptions::default(), &options).map_err(|e| RtAppError {
            line: Some(place::Lines::new(&json).line_at_byte(e.range().start)),
            ..RtAppError::for_file(origin, format!("is no JSON: {}", e.kind()))
        })?;
    let Some(root) = ast.value else {
        return Err(RtAppError::for_file(origin, "is empty"));
    };
    sections::read_file(&root, &json, origin, version)
}

impl fmt::Display for RtAppFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print::write_file(self, f)
    }
}
