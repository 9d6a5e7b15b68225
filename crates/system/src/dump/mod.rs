//! Dumps of `/sys/devices/system/cpu/cpu*/cpuidle`, as people attach to reports: idle-state counts between two dumps
//! (`drivers/cpuidle/sysfs.c`).

mod counters;
mod declared;
mod input;
mod text;

use std::fs;
use std::path::Path;

pub use counters::{Counted, Dump, DumpError, StateSum};
pub use declared::{GivenStates, GivenStatesError};
use text::Values;

impl Dump {
    /// Reads a dump; see [`Self::read_series`].
    ///
    /// # Errors
    /// As [`Self::read_series`], or there are two dumps.
    pub fn read_single(path: &Path) -> Result<Self, DumpError> {
        let mut dumps = Self::read_series(path)?;
        match (dumps.pop(), dumps.pop()) {
            (Some(dump), None) => Ok(dump),
            _ => Err(DumpError::content_error(
                path,
                "it has two dumps, one after the other; give it alone, or each in a file of its own"
                    .to_owned(),
            )),
        }
    }

    /// Reads a folder, a tar archive (also gzipped), or text: lines from `grep -r .`, paths above values as printed
    /// by `head -v` and `find` with `cat`, or `cpupower idle-info`. Text may be quoted, and may contain two dumps in
    /// order of time.
    ///
    /// # Errors
    /// The input is unreadable, has no idle-state counters, or has two values for a file without being two dumps.
    pub fn read_series(path: &Path) -> Result<Vec<Self>, DumpError> {
        let mut values = Values::default();
        if fs::metadata(path)
            .map_err(|e| DumpError::io_error(path, e))?
            .is_dir()
        {
            values.add_counters_in_folder(path)
        } else {
            values.add_counters_in_file(path)
        }
        .map_err(|e| DumpError::io_error(path, e))?;
        Self::build_dumps_with_counters(values, path)
    }

    /// As [`Self::read_series`], from memory; errors name `path`.
    ///
    /// # Errors
    /// As [`Self::read_series`].
    pub fn read_series_in_memory(bytes: &[u8], path: &Path) -> Result<Vec<Self>, DumpError> {
        let mut values = Values::default();
        values
            .add_possibly_compressed(bytes)
            .map_err(|e| DumpError::io_error(path, e))?;
        Self::build_dumps_with_counters(values, path)
    }

    /// Makes dumps of the values, without states that count nothing.
    ///
    /// # Errors
    /// A dump has no counters, or the values do not fit together.
    fn build_dumps_with_counters(values: Values, path: &Path) -> Result<Vec<Self>, DumpError> {
        let mut dumps = values
            .into_one_or_two_dumps()
            .map_err(|problem| DumpError::content_error(path, problem))?;
        for dump in &mut dumps {
            for states in dump.cpus.values_mut() {
                states.retain(|_, counters| counters.has_any_counter());
            }
            dump.cpus.retain(|_, states| !states.is_empty());
            if dump.cpus.is_empty() {
                return Err(DumpError::content_error(path, NO_COUNTERS.to_owned()));
            }
        }
        Ok(dumps)
    }
}

/// Message for an input without idle-state counters.
const NO_COUNTERS: &str = "no counters of idle states; expected /sys/devices/system/cpu/cpu*/cpuidle as a folder, a tar \
     archive or text (of `grep -r .`, `head -v`, or `find` with `cat`), or the output of `cpupower idle-info`";

#[cfg(test)]
mod tests;
