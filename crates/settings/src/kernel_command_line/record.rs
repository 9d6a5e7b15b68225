//! Writing a boot loader's file with the old one kept, and putting it back.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use wakepath_system::{Root, System, journal};

use super::boot_loader::BootLoader;
use super::file::read_boot_loader_file;
use super::plan::KernelWordsPlan;
use crate::SettingsError;
use crate::config_folder::open_folder_below_root;
use crate::store::{LockedJournalDirectory, remove_file_if_present_in, replace_file_durably_in};

/// Name of the record in the directory of the journal.
const RECORD: &str = "kernel-command-line.json";
/// What the name of the copy beside a file ends with.
const COPY_SUFFIX: &str = ".before-wakepath";

/// A boot loader's file as it was and as it was written.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct FileRecord {
    loader: BootLoader,
    file: String,
    words: Vec<String>,
    /// `None`: there was no file.
    before: Option<String>,
    after: String,
}

/// What became of a boot loader's file when everything was put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLineOutcome {
    /// No word was written.
    NothingWritten,
    /// The file is as it was.
    PutBack {
        /// The file.
        file: PathBuf,
        /// The command after which the next boot has the old command line; `None`: none is needed.
        command: Option<String>,
    },
    /// Somebody else has changed the file since, so it was left as it is.
    ChangedSince {
        /// The file.
        file: PathBuf,
        /// The words that were written into it.
        words: Vec<String>,
        /// The file as it was, which stays.
        copy: PathBuf,
    },
}

/// Writes a boot loader's file as planned. Its old content is kept beside it and in the directory of the journal, before anything
/// is written. Returns the path of the copy; `None` where there was no file.
///
/// # Errors
/// The boot loader's command does everything; another boot loader's file was written before; the file changed since it was
/// planned, or cannot be written.
pub fn write_kernel_words(
    system: &System,
    plan: &KernelWordsPlan,
) -> Result<Option<PathBuf>, SettingsError> {
    let fault = |message: String| boot_loader_error(&plan.file, message);
    if plan.loader == BootLoader::Grubby {
        return Err(fault(format!(
            "grubby changes the entries of all kernels by itself; run: {}",
            plan.commands.join("; ")
        )));
    }
    let is_link = plan
        .file
        .symlink_metadata()
        .is_ok_and(|about| about.is_symlink());
    if is_link {
        return Err(fault("is a link; edit what it leads to by hand".to_owned()));
    }
    let root = system.root();
    let store = LockedJournalDirectory::open_locked(root)?;
    let earlier = read_record(&store)?;
    let mut words: Vec<String> = plan.words.iter().map(ToString::to_string).collect();
    let before = match earlier {
        Some(earlier) if earlier.file != plan.relative => {
            return Err(fault(format!(
                "words were written to /{} before; `wakepath restore` ends that first",
                earlier.file
            )));
        }
        Some(earlier) if plan.before.as_deref() == Some(&earlier.after) => {
            words = earlier.words.into_iter().chain(words).collect();
            earlier.before
        }
        // What somebody else changed since then is kept, too.
        _ => plan.before.clone(),
    };
    let record = FileRecord {
        loader: plan.loader,
        file: plan.relative.to_owned(),
        words,
        before: before.clone(),
        after: plan.after.clone(),
    };
    let now = read_boot_loader_file(root, plan.relative).map_err(fault)?;
    if now != plan.before {
        return Err(fault(
            "has changed meanwhile; nothing was written".to_owned(),
        ));
    }
    let content = serde_json::to_vec_pretty(&record).unwrap_or_default();
    store.replace_file_atomically(RECORD, &content)?;
    let written = write_with_copy(root, plan.relative, before.as_deref(), &plan.after);
    let copy = written.map_err(|error| fault(format!("cannot be written: {error}")))?;
    let found = read_boot_loader_file(root, plan.relative).map_err(fault)?;
    if found.as_deref() != Some(&*plan.after) {
        return Err(fault("does not read back as it was written".to_owned()));
    }
    Ok(copy)
}

/// Puts a boot loader's file back as it was before the first word, if nobody else has changed it since.
///
/// # Errors
/// The record or the file cannot be read or written.
pub fn put_back_kernel_words(system: &System) -> Result<CommandLineOutcome, SettingsError> {
    let root = system.root();
    if !has_record(root) {
        return Ok(CommandLineOutcome::NothingWritten);
    }
    let store = LockedJournalDirectory::open_locked(root)?;
    let Some(record) = read_record(&store)? else {
        return Ok(CommandLineOutcome::NothingWritten);
    };
    let file = root.absolute_path(&record.file);
    let fault = |message: String| boot_loader_error(&file, message);
    let now = read_boot_loader_file(root, &record.file).map_err(fault)?;
    let is_as_before = now == record.before;
    if now.as_deref() != Some(&*record.after) && !is_as_before {
        store.remove_file_if_present(RECORD)?;
        return Ok(CommandLineOutcome::ChangedSince {
            copy: root.absolute_path(&format!("{}{COPY_SUFFIX}", record.file)),
            file,
            words: record.words,
        });
    }
    if !is_as_before {
        put_old_content_back(root, &record)
            .map_err(|error| fault(format!("cannot be put back: {error}")))?;
    }
    store.remove_file_if_present(RECORD)?;
    Ok(CommandLineOutcome::PutBack {
        command: record.loader.command_after_edit(),
        file,
    })
}

fn put_old_content_back(root: &Root, record: &FileRecord) -> io::Result<()> {
    let (folder, name) = split_folder_and_name(&record.file);
    let directory = open_existing_folder(root, folder)?;
    match &record.before {
        Some(before) => {
            let mode = mode_of_file(root, &record.file);
            replace_file_durably_in(&directory, name, before.as_bytes(), mode)?;
        }
        None => remove_file_if_present_in(&directory, name)?,
    }
    remove_file_if_present_in(&directory, &format!("{name}{COPY_SUFFIX}"))
}

/// Writes the copy of the old content, then the new content. Returns the path of the copy.
fn write_with_copy(
    root: &Root,
    relative: &str,
    before: Option<&str>,
    after: &str,
) -> io::Result<Option<PathBuf>> {
    let (folder, name) = split_folder_and_name(relative);
    let directory = open_folder_below_root(root, folder, true)?
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let mode = mode_of_file(root, relative);
    let copy_name = format!("{name}{COPY_SUFFIX}");
    if let Some(before) = before {
        replace_file_durably_in(&directory, &copy_name, before.as_bytes(), mode)?;
    }
    replace_file_durably_in(&directory, name, after.as_bytes(), mode)?;
    Ok(before.map(|_| root.absolute_path(&format!("{folder}/{copy_name}"))))
}

fn open_existing_folder(root: &Root, folder: &str) -> io::Result<rustix::fd::OwnedFd> {
    open_folder_below_root(root, folder, false)?
        .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

fn split_folder_and_name(relative: &str) -> (&str, &str) {
    relative.rsplit_once('/').unwrap_or(("", relative))
}

/// Permissions of a file, or those of a configuration file where there is none.
fn mode_of_file(root: &Root, relative: &str) -> Mode {
    let about = root
        .open_file(relative, OFlags::RDONLY)
        .and_then(|file| file.metadata());
    about.map_or(Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH, |about| {
        Mode::from_raw_mode(about.mode() & 0o755)
    })
}

fn has_record(root: &Root) -> bool {
    root.exists(&format!("{}/{RECORD}", journal::DIRECTORY))
}

fn read_record(store: &LockedJournalDirectory) -> Result<Option<FileRecord>, SettingsError> {
    let Some(content) = store.read_file(RECORD)? else {
        return Ok(None);
    };
    serde_json::from_slice(&content)
        .map(Some)
        .map_err(|error| SettingsError::Journal {
            path: store.file_path(RECORD),
            why: format!("{error}; the file as it was lies beside it, and ends with {COPY_SUFFIX}"),
        })
}

fn boot_loader_error(file: &Path, message: String) -> SettingsError {
    SettingsError::BootLoader {
        path: file.to_owned(),
        message,
    }
}
