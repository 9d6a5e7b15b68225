//! Planning a recording as a workload for a replay.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use toml::Spanned;
use wakepath_hardware::IdleStates;
use wakepath_policies::spec::{PolicySpec, SpecError};
use wakepath_system::dump::GivenStates;
use wakepath_trace::recording::{Metadata, Reader};
use wakepath_units::TickRate;
use wakepath_units::causes::with_causes;

use super::names::path_in_folder;
use crate::file::{RecordingName, StudyError, StudyText, WorkloadEntry};

/// Number of bytes read at a time for hashing.
const READ_BYTES: usize = 1 << 20;

/// A recording as a workload, with corrections to its metadata. Results name the recording by its whole path, without a
/// copy.
#[derive(Clone, Debug)]
pub struct PlannedRecording {
    /// The file.
    pub path: PathBuf,
    /// SHA-256 that the recording must have; `None`: any content.
    pub sha256: Option<String>,
    /// Metadata about the recording and the recorded machine.
    pub metadata: Metadata,
    /// Number of events.
    pub events: u64,
    /// Idle states for all CPUs in place of the recorded states, and the file that has them.
    pub states: Option<(PathBuf, IdleStates)>,
    /// The tick rate.
    pub tick: Option<TickRate>,
    /// Name of the governor that ran during the recording.
    pub ran: Option<PolicySpec>,
}

/// A file's whole path without links; `name` counts from the study's folder.
fn resolve_path_without_links(folder: &Path, name: &str) -> Result<PathBuf, StudyError> {
    let path = path_in_folder(folder, name);
    fs::canonicalize(&path).map_err(convert_read_error_of(&path))
}

impl PlannedRecording {
    pub(super) fn new(
        entry: &WorkloadEntry,
        name: &Spanned<RecordingName>,
        source: StudyText<'_>,
        folder: &Path,
    ) -> Result<Self, StudyError> {
        let states = match &entry.states {
            Some(name) => {
                let path = resolve_path_without_links(folder, name.get_ref())?;
                let given = GivenStates::read_file_or_folder(&path)
                    .map_err(|e| source.error_at_value(name, e.to_string()))?;
                Some((path, given.states))
            }
            None => None,
        };
        let tick = match &entry.hz {
            Some(hz) => {
                let rate = u32::try_from(*hz.get_ref()).ok().and_then(TickRate::new);
                let message = format!("{} ticks per second; expected 1 to 6250", hz.get_ref());
                Some(rate.ok_or_else(|| source.error_at_value(hz, message))?)
            }
            None => None,
        };
        let ran = match &entry.ran {
            Some(name) => {
                let spec: PolicySpec = (name.get_ref().parse())
                    .map_err(|e: SpecError| source.error_at_value(name, e.to_string()))?;
                spec.as_idle_policy()
                    .map_err(|e| source.error_at_value(name, e.to_string()))?;
                Some(spec)
            }
            None => None,
        };
        let RecordingName { path: file, sha256 } = name.get_ref();
        if let Some(sha256) = sha256.as_ref().filter(|sha256| !is_sha256(sha256)) {
            let message = format!("`{sha256}` is no SHA-256: 64 digits from 0 to 9 and a to f");
            return Err(source.error_at_value(name, message));
        }
        let path = resolve_path_without_links(folder, file)?;
        let reader = Reader::open(&path).map_err(|e| StudyError::Settings(with_causes(&e)))?;
        Ok(Self {
            sha256: sha256.clone(),
            metadata: reader.metadata().clone(),
            events: reader.event_count(),
            path,
            states,
            tick,
            ran,
        })
    }

    /// Files that results name by path: the recording, and the file with idle states.
    pub(crate) fn recording_and_states_paths(&self) -> impl Iterator<Item = &Path> {
        let states = self.states.as_ref().map(|(path, _)| path.as_path());
        std::iter::once(self.path.as_path()).chain(states)
    }

    /// Checks that the recording has the SHA-256 that the study demands.
    ///
    /// # Errors
    /// The content differs, or cannot be read.
    pub(crate) fn check_sha256_if_demanded(&self) -> Result<(), StudyError> {
        let Some(wanted) = &self.sha256 else {
            return Ok(());
        };
        let found = hash_file(&self.path)?;
        if found == *wanted {
            return Ok(());
        }
        Err(self.error_about_file(&format!(
            "another content than the study wants: its SHA-256 is {found}, and `sha256` says {wanted}; put that content \
             back, or take `sha256` out of the study"
        )))
    }

    /// An error that names the recording's file.
    pub(crate) fn error_about_file(&self, message: &str) -> StudyError {
        StudyError::Settings(format!("{}: {message}", self.path.display()))
    }
}

/// The SHA-256 of a file in hexadecimal digits.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn hash_file(path: &Path) -> Result<String, StudyError> {
    let mut file = wakepath_files::open_regular_file(path).map_err(convert_read_error_of(path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file
            .read(&mut buffer)
            .map_err(convert_read_error_of(path))?
        {
            0 => break,
            count => hash.update(&buffer[..count]),
        }
    }
    Ok(wakepath_governors::format_hex(&hash.finalize()))
}

fn convert_read_error_of(path: &Path) -> impl FnOnce(std::io::Error) -> StudyError {
    move |source| StudyError::Read {
        path: path.to_owned(),
        source,
    }
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
