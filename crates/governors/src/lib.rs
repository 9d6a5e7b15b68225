//! Idle governors of one's own, as policies: `c:FILE`, C code of a kernel's governor, and `exec:FILE`, a program.
//!
//! Both run outside of this process, with little that they may do (`sandbox.rs`) and a time limit for each answer. C
//! code is compiled against stand-ins for the kernel's headers, those of the conformance check (`compile.rs`), linked
//! without a C library (`image.rs`), and asked in binary (`c.rs`). A program has a process for each CPU, reads a call log
//! line by line and answers each question with a line (`exec.rs`).

mod c;
mod compile;
mod exec;
mod group;
mod image;
mod process;
mod sandbox;
mod source;
mod text;

pub use process::{interrupt_governors, measure_exchange_time};

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use wakepath_policies::PolicySet;
use wakepath_policies::idle::program::{GovernorStarter, Program, ProgramForm};

use crate::sandbox::Need;

/// Digits of a governor file's hash that results show.
const DIGITS: usize = 8;
/// Folder in a result directory that keeps copies of a study's governor files.
const COPIES: &str = "governors";
/// The largest program.
const MAX_BYTES: u64 = 1 << 30;

/// Why a user's own governor cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error("`{program}`: {problem}")]
pub struct GovernorLoadError {
    program: String,
    problem: String,
}

/// Prepares the user's own governor in a policy set, if any: finds the file, and compiles C code.
/// The set's name then includes the file's hash. Relative paths begin at `base`. No foreign code
/// runs yet.
///
/// `allow_programs`: the user accepts programs that this kernel cannot confine.
///
/// # Errors
/// The file is missing, differs from its hash, does not compile, or cannot be confined by this kernel. The message
/// says what to do.
pub fn load_governor(
    set: PolicySet,
    base: &Path,
    allow_programs: bool,
) -> Result<PolicySet, GovernorLoadError> {
    let need = Need::from_allow_programs(allow_programs);
    set.map_own_governor(|program| {
        load_own_governor(program, base, need).map_err(|problem| GovernorLoadError {
            program: program.to_string(),
            problem,
        })
    })
}

fn load_own_governor(program: &Program, base: &Path, need: Need) -> Result<Program, String> {
    let (path, recorded_hash) = find_governor_file(program, base)?;
    let (hash, starter): (String, Arc<dyn GovernorStarter>) = match program.form() {
        ProgramForm::C => {
            let source = source::Source::read_with_includes(&path, program.path())?;
            let hash = hash_content(source.text.as_bytes());
            let copy = copy_name_in_results(program.path());
            (hash, Arc::new(c::CGovernor::new(source, copy, need)))
        }
        ProgramForm::Exec => {
            let content = read_executable(&path)?;
            let absolute = std::path::absolute(&path).map_err(|e| e.to_string())?;
            let hash = hash_content(&content);
            let record = exec::HashRecord {
                name: hash_record_name_in_results(program.path()),
                text: format!("{hash}  {}\n", absolute.display()),
            };
            (
                hash,
                Arc::new(exec::ExecGovernor::new(absolute, record, need)),
            )
        }
    };
    let expected = program.hash().or(recorded_hash.as_deref());
    check_hash(program, &path, &hash, expected)?;
    // Code that does not compile is an error before any run, whatever the tick rate.
    let warnings = starter.check_governor()?;
    Ok(program.with_starter(&hash[..DIGITS], starter, warnings.as_deref()))
}

/// Refuses a governor's file whose hash differs from the expected one, of which any number of
/// digits is given.
fn check_hash(
    program: &Program,
    path: &Path,
    hash: &str,
    expected: Option<&str>,
) -> Result<(), String> {
    let Some(expected) = expected else {
        return Ok(());
    };
    if hash.starts_with(expected) || expected.starts_with(&hash[..DIGITS]) {
        return Ok(());
    }
    let advice = match program.hash() {
        Some(given) => format!("Leave `@{given}` out to take it as it is"),
        None => format!(
            "{} has the one that ran",
            hash_record_name_in_results(program.path())
        ),
    };
    Err(format!(
        "the file {} is another one now: its hash begins with {}, not with {}. {advice}",
        path.display(),
        &hash[..DIGITS],
        &expected[..DIGITS.min(expected.len())]
    ))
}

fn copy_name_in_results(path: &str) -> String {
    format!("{COPIES}/{}", path.replace('/', "_"))
}

fn hash_record_name_in_results(path: &str) -> String {
    format!("{}.sha256", copy_name_in_results(path))
}

/// Finds a governor's file: the named one, or the copy that results keep beside a study. For a
/// program, results keep path and hash instead, and the hash is returned.
fn find_governor_file(program: &Program, base: &Path) -> Result<(PathBuf, Option<String>), String> {
    let path = Path::new(program.path());
    let named = base.join(path);
    let copy = base.join(copy_name_in_results(program.path()));
    // A file outside of the folder may have changed since: a copy goes before it.
    let is_below = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let is_present = is_below && (named.exists() || source::kernel_tree_of_path(&named).is_some());
    let record = base.join(hash_record_name_in_results(program.path()));
    match program.form() {
        ProgramForm::C if !is_present && copy.is_file() => Ok((copy, None)),
        ProgramForm::Exec if !is_present && record.is_file() => {
            let (recorded, hash) = read_hash_record(&record)?;
            Ok((recorded, Some(hash)))
        }
        _ => Ok((named, None)),
    }
}

/// Reads path and hash of a program as results recorded them.
fn read_hash_record(record: &Path) -> Result<(PathBuf, String), String> {
    let shown = record.display();
    let text = fs::read_to_string(record).map_err(|e| format!("{shown}: {e}"))?;
    let (hash, path) = text
        .trim_end_matches('\n')
        .split_once("  ")
        .filter(|(hash, _)| hash.len() >= DIGITS && hash.bytes().all(|b| b.is_ascii_hexdigit()))
        .ok_or_else(|| format!("{shown}: expected a hash, two spaces and a path"))?;
    Ok((PathBuf::from(path), hash.to_owned()))
}

/// Reads the file of a program, which must be executable.
fn read_executable(path: &Path) -> Result<Vec<u8>, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let shown = path.display();
    let metadata = fs::metadata(path).map_err(|e| match path.to_string_lossy().split_once(' ') {
        _ if e.kind() != io::ErrorKind::NotFound => format!("{shown}: {e}"),
        Some(_) => format!(
            "there is no file {shown}. `exec:` takes the path of a program and no arguments; write a script that begins \
             with #! and starts it with them, and make it executable"
        ),
        None => format!("there is no file {shown}; expected the path of a program"),
    })?;
    if !metadata.is_file() {
        return Err(format!("{shown} is no file; name the program itself"));
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(format!("{shown} is not executable: chmod +x {shown}"));
    }
    if metadata.len() > MAX_BYTES {
        return Err(format!("{shown} is larger than {MAX_BYTES} bytes"));
    }
    fs::read(path).map_err(|e| format!("{shown}: {e}"))
}

fn hash_content(content: &[u8]) -> String {
    format_hex(&Sha256::digest(content))
}

/// Writes bytes as lower-case hexadecimal digits.
pub fn format_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}
