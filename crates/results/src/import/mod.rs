//! Results to compare and to report on: result directories, and other tools' files.
//!
//! Output of fio and hyperfine and logs of MMTests become results. A file or directory stands for a policy with its name,
//! unless the file compares several policies itself; each file in a directory is a run.

pub mod fio;
mod hyperfine;
pub mod mmtests;
mod read;
pub(crate) mod rt_app;
mod runs;
mod terse;

use std::fs;
use std::path::{Path, PathBuf};

use wakepath_units::pasted::decode_text_strictly;

use crate::directory::DOCUMENT;
use crate::{ResultReader, RunRecord};

pub use read::ResultImportError;
pub use runs::ImportedRuns;

pub(crate) use read::read_content;

use read::{read_bytes, read_inside, unreadable_file};
use runs::not_finite;

/// A result.
#[derive(Debug)]
pub struct Opened {
    /// Name beside other results.
    pub name: String,
    /// The results.
    pub results: ResultReader,
}

/// Opens all results to compare. A result has the name of its file or directory, or the whole path if names are equal.
///
/// # Errors
/// A path without results, an unreadable file, another schema version.
pub fn open_all(paths: &[PathBuf]) -> Result<Vec<Opened>, ResultImportError> {
    for (i, path) in paths.iter().enumerate() {
        let real = fs::canonicalize(path).ok();
        let mut earlier = paths[..i].iter().map(|path| fs::canonicalize(path).ok());
        if real.is_some() && earlier.any(|other| other == real) {
            return Err(ResultImportError::Content {
                path: path.clone(),
                message: "given twice; its runs would count as twice as many".to_owned(),
            });
        }
    }
    let names: Vec<String> = paths.iter().map(|p| name_of(p)).collect();
    let opened = paths.iter().zip(&names).map(|(path, name)| {
        let same = names.iter().filter(|n| *n == name).count() > 1;
        let name = if same {
            path.display().to_string()
        } else {
            name.clone()
        };
        let results = open_result(path, &name)?;
        Ok(Opened { name, results })
    });
    opened.collect()
}

/// Opens a result.
fn open_result(path: &Path, name: &str) -> Result<ResultReader, ResultImportError> {
    let imported = if !path.is_dir() {
        import_file(name, path)?
    } else if path.join(DOCUMENT).exists() {
        return Ok(ResultReader::open(path)?);
    } else {
        match mmtests::import_mmtests(name, path)? {
            Some(imported) => imported,
            None => json_files(name, path)?,
        }
    };
    let document = imported.make_document(name);
    Ok(ResultReader::of_runs(path, document, imported.runs))
}

/// The JSON files of a directory, a run in each.
fn json_files(name: &str, folder: &Path) -> Result<ImportedRuns, ResultImportError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable_file(folder))? {
        let path = entry.map_err(unreadable_file(folder))?.path();
        if path.extension().is_some_and(|e| e == "json") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        let message = format!(
            "neither a result directory ({DOCUMENT}), nor a directory of fio or hyperfine JSON files, nor an MMTests \
             log directory with logs of {}",
            mmtests::SUPPORTED
        );
        return Err(read_content(folder, message));
    }
    let mut all = ImportedRuns::default();
    for path in files {
        let text = read_inside(folder, &path)?;
        all.append(parse_bytes(name, &path, text)?);
    }
    Ok(all)
}

/// Reads a file from fio or hyperfine.
fn import_file(name: &str, path: &Path) -> Result<ImportedRuns, ResultImportError> {
    parse_bytes(name, path, read_bytes(path)?)
}

/// Parses a file's content.
fn parse_bytes(name: &str, path: &Path, bytes: Vec<u8>) -> Result<ImportedRuns, ResultImportError> {
    let text = decode_text_strictly(bytes).map_err(|_| {
        read_content(
            path,
            "is neither UTF-8 nor UTF-16 text; expected fio's or hyperfine's JSON",
        )
    })?;
    parse(name, &text).map_err(|e| read_content(path, e))
}

/// Parses the output of fio or hyperfine for policy `name`.
///
/// # Errors
/// Another format, or a failed benchmark.
pub fn parse(name: &str, text: &str) -> Result<ImportedRuns, String> {
    let imported = if let Some(outputs) = fio::Output::find_all(text) {
        fio::import(name, &outputs?)
    } else if terse::is_terse(text) {
        terse::import_terse(name, text)
    } else {
        hyperfine::import_hyperfine(name, text)
    }?;
    // Finite numbers can have an infinite sum.
    match imported.runs.iter().find_map(RunRecord::not_finite) {
        Some((metric, value)) => Err(not_finite(metric, value)),
        None => Ok(imported),
    }
}

fn name_of(path: &Path) -> String {
    let stem = if path.is_dir() {
        path.file_name()
    } else {
        path.file_stem()
    };
    stem.map_or_else(
        || path.display().to_string(),
        |s| s.to_string_lossy().into_owned(),
    )
}
