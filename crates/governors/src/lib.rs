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

pub use process::{call_off, time_exchange};

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use wakepath_policies::PolicySet;
use wakepath_policies::idle::program::{Program, ProgramForm, Start};

use crate::sandbox::Need;

/// Digits of a hash shown in results.
const DIGITS: usize = 8;
/// Folder in a result directory with copies of a study's governor files.
const COPIES: &str = "governors";
/// The largest program.
const MAX_BYTES: u64 = 1 << 30;

/// Why a governor of one's own cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("`{program}`: {problem}")]
pub struct GovernorLoadError {
    program: String,
    problem: String,
}

/// Prepares a policy set's own governor to run, if any: finds the file, and compiles C code. The set's name then
/// includes the file's hash. Relative paths begin at `base`. No foreign code runs yet.
///
/// `allow_programs`: the user accepts programs that this kernel cannot confine.
///
/// # Errors
/// The file is missing, differs from its hash, does not compile, or cannot be confined by this kernel. The message
/// says what to do.
pub fn load(
    set: PolicySet,
    base: &Path,
    allow_programs: bool,
) -> Result<PolicySet, GovernorLoadError> {
    let need = Need::unless(allow_programs);
    set.map_program(|program| {
        let error = |problem| GovernorLoadError {
            program: program.to_string(),
            problem,
        };
        let (found, kept) = find(program, base).map_err(error)?;
        let (hash, start): (String, Arc<dyn Start>) = match program.form() {
            ProgramForm::C => {
                let source = source::Source::read(&found, program.path()).map_err(error)?;
                (
                    hash_of(source.text.as_bytes()),
                    Arc::new(c::Governor::new(source, copy_name(program.path()), need)),
                )
            }
            ProgramForm::Exec => {
                let content = executable(&found).map_err(error)?;
                let whole = std::path::absolute(&found).map_err(|e| error(e.to_string()))?;
                let hash = hash_of(&content);
                let record = exec::Record {
                    name: record_name(program.path()),
                    text: format!("{hash}  {}\n", whole.display()),
                };
                (hash, Arc::new(exec::Governor::new(whole, record, need)))
            }
        };
        if let Some(wanted) = program.hash().or(kept.as_deref())
            && !hash.starts_with(wanted)
            && !wanted.starts_with(&hash[..DIGITS])
        {
            let how = match program.hash() {
                Some(wanted) => format!("Leave `@{wanted}` out to take it as it is"),
                None => format!("{} has the one that ran", record_name(program.path())),
            };
            return Err(error(format!(
                "the file {} is another one now: its hash begins with {}, not with {}. {how}",
                found.display(),
                &hash[..DIGITS],
                &wanted[..DIGITS.min(wanted.len())]
            )));
        }
        // What does not compile is an error before anything runs, whatever the tick rate.
        let warnings = start.check().map_err(error)?;
        Ok(program.loaded(&hash[..DIGITS], start, warnings.as_deref()))
    })
}

fn copy_name(path: &str) -> String {
    format!("{COPIES}/{}", path.replace('/', "_"))
}

fn record_name(path: &str) -> String {
    format!("{}.sha256", copy_name(path))
}

/// The named file, or the copy that results keep beside a study. For a program, results keep path and hash instead,
/// and the hash is returned.
fn find(program: &Program, base: &Path) -> Result<(PathBuf, Option<String>), String> {
    let path = Path::new(program.path());
    let named = base.join(path);
    let copy = base.join(copy_name(program.path()));
    // Only paths into the folder itself mean a stored copy.
    let inside = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    let is_there = inside && (named.exists() || source::tree_of(&named).is_some());
    let record = base.join(record_name(program.path()));
    match program.form() {
        ProgramForm::C if !is_there && copy.is_file() => Ok((copy, None)),
        ProgramForm::Exec if !is_there && record.is_file() => {
            let shown = record.display();
            let text = fs::read_to_string(&record).map_err(|e| format!("{shown}: {e}"))?;
            let (hash, path) = text
                .trim_end_matches('\n')
                .split_once("  ")
                .filter(|(hash, _)| {
                    hash.len() >= DIGITS && hash.bytes().all(|b| b.is_ascii_hexdigit())
                })
                .ok_or_else(|| format!("{shown}: expected a hash, two spaces and a path"))?;
            Ok((PathBuf::from(path), Some(hash.to_owned())))
        }
        _ => Ok((named, None)),
    }
}

fn executable(path: &Path) -> Result<Vec<u8>, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let shown = path.display();
    let about = fs::metadata(path).map_err(|e| match path.to_string_lossy().split_once(' ') {
        _ if e.kind() != io::ErrorKind::NotFound => format!("{shown}: {e}"),
        Some(_) => format!(
            "there is no file {shown}. `exec:` takes the path of a program and no arguments; write a script that begins \
             with #! and starts it with them, and make it executable"
        ),
        None => format!("there is no file {shown}; expected the path of a program"),
    })?;
    if !about.is_file() {
        return Err(format!("{shown} is no file; name the program itself"));
    }
    if about.permissions().mode() & 0o111 == 0 {
        return Err(format!("{shown} is not executable: chmod +x {shown}"));
    }
    if about.len() > MAX_BYTES {
        return Err(format!("{shown} is larger than {MAX_BYTES} bytes"));
    }
    fs::read(path).map_err(|e| format!("{shown}: {e}"))
}

fn hash_of(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}
