//! Plans words for the kernel command line: the boot loader's file as it is and as it would be.

use std::path::{Path, PathBuf};

use wakepath_system::{Root, System};

use super::boot_loader::BootLoader;
use super::edit;
use super::file::read_boot_loader_file;
use super::word::{KernelWord, join_words};
use crate::SettingsError;

/// What would be written for words on the kernel command line.
#[derive(Clone, Debug)]
pub struct KernelWordsPlan {
    /// The boot loader of the machine.
    pub loader: BootLoader,
    /// The words.
    pub words: Vec<KernelWord>,
    /// Path of the boot loader's file, for messages.
    pub file: PathBuf,
    /// Lines as they are and as they would be; no old line where the line would be new. Empty where the words are there
    /// already, and for a boot loader whose command does everything.
    pub changes: Vec<(Option<String>, String)>,
    /// Words that stay though they have the key of a new word and another value: nothing is known of how the two go together.
    pub kept_beside: Vec<String>,
    /// Commands to run afterwards, as root.
    pub commands: Vec<String>,
    /// The file below the root.
    pub(crate) relative: &'static str,
    pub(crate) before: Option<String>,
    pub(crate) after: String,
}

impl KernelWordsPlan {
    /// Finds the machine's boot loader, and what its file would be with the words. Changes nothing.
    ///
    /// # Errors
    /// No known boot loader; its file cannot be read or has a form that is not understood.
    pub fn new(system: &System, words: &[KernelWord]) -> Result<Self, SettingsError> {
        let root = system.root();
        let loader = BootLoader::find(root).ok_or_else(|| SettingsError::BootLoader {
            path: root.absolute_path(""),
            message: format!(
                "no boot loader is known here: GRUB, systemd-boot and extlinux were looked for. Put {} on the kernel command \
                 line by hand",
                join_words(words)
            ),
        })?;
        let relative = loader.file_below_root();
        let file = root.absolute_path(relative);
        let commands = loader.commands(words);
        let fault = |message: String| SettingsError::BootLoader {
            path: file.clone(),
            message: format!("{message}. Put {} there by hand", join_words(words)),
        };
        let before = read_boot_loader_file(root, relative).map_err(fault)?;
        let edited = match loader {
            BootLoader::Grubby => None,
            BootLoader::GrubMkconfig => {
                refuse_drop_ins_with_own_line(root).map_err(fault)?;
                let text = before.clone().unwrap_or_default();
                Some(edit::add_to_assignment(&text, edit::GRUB_VARIABLE, words).map_err(fault)?)
            }
            BootLoader::UBootMenu => {
                let text = before.clone().unwrap_or_default();
                if !edit::has_assignment(&text, edit::U_BOOT_VARIABLE) {
                    return Err(fault(format!(
                        "{} is not set, and its default depends on the release",
                        edit::U_BOOT_VARIABLE
                    )));
                }
                Some(edit::add_to_assignment(&text, edit::U_BOOT_VARIABLE, words).map_err(fault)?)
            }
            BootLoader::Extlinux => {
                let text = before.clone().unwrap_or_default();
                Some(edit::add_to_append_lines(&text, words).map_err(fault)?)
            }
            BootLoader::SystemdBoot => {
                let running = root.read_text_if_readable("proc/cmdline");
                let edited = edit::add_to_whole_file(before.as_deref(), running.as_deref(), words);
                Some(edited.map_err(fault)?)
            }
        };
        let (after, changes) = edited.unwrap_or_else(|| {
            let unchanged = before.clone().unwrap_or_default();
            (unchanged, Vec::new())
        });
        Ok(Self {
            loader,
            words: words.to_vec(),
            file,
            kept_beside: edit::find_words_kept_beside(&changes, words),
            changes,
            commands,
            relative,
            before,
            after,
        })
    }

    /// Whether the boot loader's file has all words already.
    pub fn has_all_words_already(&self) -> bool {
        self.loader != BootLoader::Grubby && self.changes.is_empty()
    }
}

/// Refuses a GRUB whose drop-in files set the command line, too: they come after the main file, and win.
fn refuse_drop_ins_with_own_line(root: &Root) -> Result<(), String> {
    const FOLDER: &str = "etc/default/grub.d";
    for name in root.list_names(FOLDER) {
        if Path::new(&name)
            .extension()
            .is_none_or(|ending| ending != "cfg")
        {
            continue;
        }
        let text = read_boot_loader_file(root, &format!("{FOLDER}/{name}"))?;
        if text.is_some_and(|text| edit::has_assignment(&text, edit::GRUB_VARIABLE)) {
            return Err(format!(
                "/{FOLDER}/{name} sets {}, too, and comes later",
                edit::GRUB_VARIABLE
            ));
        }
    }
    Ok(())
}
