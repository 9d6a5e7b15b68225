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

pub(crate) use read::content_error_at;

use read::{read_error_at, read_regular_file_in, read_tool_file};
use runs::non_finite_message;

/// A result.
#[derive(Debug)]
pub struct OpenedResult {
    /// Name that tells this result from others in a comparison.
    pub name: String,
    /// The results.
    pub results: ResultReader,
}

/// Opens all results to compare. A result has the name of its file or directory, or the whole path if names are equal.
///
/// # Errors
/// A path without results, an unreadable file, another schema version.
pub fn open_results(paths: &[PathBuf]) -> Result<Vec<OpenedResult>, ResultImportError> {
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
    let names: Vec<String> = paths.iter().map(|p| result_name_from_path(p)).collect();
    let opened = paths.iter().zip(&names).map(|(path, name)| {
        let same = names.iter().filter(|n| *n == name).count() > 1;
        let name = if same {
            path.display().to_string()
        } else {
            name.clone()
        };
        let results = open_or_import_result(path, &name)?;
        Ok(OpenedResult { name, results })
    });
    opened.collect()
}

/// Opens a result.
fn open_or_import_result(path: &Path, name: &str) -> Result<ResultReader, ResultImportError> {
    let imported = if !path.is_dir() {
        import_file(name, path)?
    } else if path.join(DOCUMENT).exists() {
        return Ok(ResultReader::open(path)?);
    } else {
        match mmtests::import_mmtests_if_logs_found(name, path)? {
            Some(imported) => imported,
            None => import_json_folder(name, path)?,
        }
    };
    let document = imported.make_document_named(name);
    Ok(ResultReader::for_imported_runs(
        path,
        document,
        imported.runs,
    ))
}

/// Imports the JSON files of a folder, each as a run.
fn import_json_folder(policy: &str, folder: &Path) -> Result<ImportedRuns, ResultImportError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(read_error_at(folder))? {
        let path = entry.map_err(read_error_at(folder))?.path();
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
        return Err(content_error_at(folder, message));
    }
    let mut all = ImportedRuns::default();
    for path in files {
        let text = read_regular_file_in(folder, &path)?;
        all.append_as_later_repeats(import_file_content(policy, &path, text)?);
    }
    Ok(all)
}

/// Imports a file that fio or hyperfine wrote.
fn import_file(policy: &str, path: &Path) -> Result<ImportedRuns, ResultImportError> {
    import_file_content(policy, path, read_tool_file(path)?)
}

/// Imports a file's content.
fn import_file_content(
    policy: &str,
    path: &Path,
    bytes: Vec<u8>,
) -> Result<ImportedRuns, ResultImportError> {
    let text = decode_text_strictly(bytes).map_err(|_| {
        content_error_at(
            path,
            "is neither UTF-8 nor UTF-16 text; expected fio's or hyperfine's JSON",
        )
    })?;
    parse_tool_output(policy, &text).map_err(|e| content_error_at(path, e))
}

/// Parses the output of fio or hyperfine; `policy` names the policy of the runs.
///
/// # Errors
/// The format is unknown, or the benchmark failed.
pub fn parse_tool_output(policy: &str, text: &str) -> Result<ImportedRuns, String> {
    let imported = if let Some(outputs) = fio::FioOutput::parse_all_documents(text) {
        fio::import_final_documents(policy, &outputs?)
    } else if terse::has_terse_job_line(text) {
        terse::import_terse_output(policy, text)
    } else {
        hyperfine::import_hyperfine(policy, text)
    }?;
    // A sum of finite numbers can be infinite.
    match imported
        .runs
        .iter()
        .find_map(RunRecord::first_non_finite_metric)
    {
        Some((metric, value)) => Err(non_finite_message(metric, value)),
        None => Ok(imported),
    }
}

fn result_name_from_path(path: &Path) -> String {
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
