//! Commands on a real machine, or on a captured one (`--root`).

mod activity;
pub(super) mod apply;
pub(super) mod capture;
#[cfg(target_os = "linux")]
pub(super) mod daemon;
pub(super) mod doctor;
#[cfg(target_os = "linux")]
mod guarded;
mod kernel_words;
mod persist;
pub(super) mod restore;
pub(super) mod status;
mod survival;
mod trial;
mod view;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use wakepath_policies::mechanism::Place;
use wakepath_settings::Change;
use wakepath_system::{Root, System, setting};

use crate::policy_set::mechanisms_possible_at;

/// Which machine.
#[derive(clap::Args)]
pub(crate) struct RootArgs {
    /// A captured machine instead of this one: a directory that `wakepath machine capture` wrote.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

impl RootArgs {
    /// The machine to work on; a directory that holds none is an error, and not a machine without anything.
    pub(crate) fn open_system(&self) -> anyhow::Result<System> {
        let Some(directory) = &self.root else {
            return Ok(System::live());
        };
        let root = Root::at_directory(directory);
        anyhow::ensure!(
            root.exists("sys") || root.exists("proc"),
            "{}: no captured machine: neither sys nor proc in it",
            directory.display()
        );
        Ok(System::new(root))
    }

    /// Directory of the captured machine; `None` for this machine.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// The option ` --root DIR` for a command that the user may type; empty without a captured machine.
    pub(crate) fn root_option_or_empty(&self) -> String {
        self.root.as_ref().map_or_else(String::new, |directory| {
            Root::at_directory(directory).command_line_option()
        })
    }
}

/// A change of a setting, for people and programs.
#[derive(Serialize)]
struct SettingRow {
    setting: &'static str,
    #[serde(rename = "of")]
    place: String,
    old: String,
    /// Value before the change. `None`: the setting is only kept for the restore, because the kernel may change it
    /// along with another.
    new: Option<String>,
    unit: &'static str,
    path: String,
    meaning: &'static str,
    changes: bool,
}

const HEADER: [&str; 6] = ["setting", "of", "old", "new", "unit", "path"];

impl SettingRow {
    fn new(system: &System, change: &Change) -> Self {
        let key = &change.key;
        Self {
            setting: key.setting.name,
            place: key.at.to_string(),
            old: change.old.clone(),
            new: change.new.clone(),
            unit: key.setting.unit,
            path: system
                .root()
                .absolute_path(&key.relative_path())
                .display()
                .to_string(),
            meaning: key.setting.meaning,
            changes: change.differs(),
        }
    }

    fn cells_with_shortened_values(&self) -> [String; 6] {
        [
            self.setting.to_owned(),
            self.place.clone(),
            shorten_setting_value(&self.old),
            match &self.new {
                Some(new) if self.changes => shorten_setting_value(new),
                Some(_) => "as it is".to_owned(),
                None => "may change along".to_owned(),
            },
            self.unit.to_owned(),
            self.path.clone(),
        ]
    }
}

/// A value shortened for people: an APST table has 512 digits, and its first entries matter.
fn shorten_setting_value(value: &str) -> String {
    const MOST: usize = 40;
    if value.chars().count() <= MOST {
        return value.to_owned();
    }
    let Some(feature) = wakepath_system::nvme::ApstFeature::parse(value) else {
        let head: String = value.chars().take(MOST).collect();
        return format!("{head}...");
    };
    let entries: Vec<String> = feature
        .table
        .entries()
        .filter(|e| e.timeout_ms > 0)
        .map(|e| format!("PS{}->{} {} ms", e.state, e.target, e.timeout_ms))
        .collect();
    let state = if feature.enabled { "on" } else { "off" };
    if entries.is_empty() {
        format!("{state}, empty")
    } else {
        format!("{state}: {}", entries.join(", "))
    }
}

/// The policies that `apply` knows, for its `--help`.
fn policies_and_settings_for_help() -> String {
    let mut text = String::from("Policies, a set of which is written A + B:\n");
    for mechanism in mechanisms_possible_at(Place::Machine) {
        let _ = writeln!(
            text,
            "  {}\n      {}",
            mechanism.example_policy(),
            mechanism.summary
        );
    }
    text.push_str("`wakepath policy list` has the keys of each.\n\nSettings that they change:\n");
    for info in setting::SETTINGS {
        let _ = writeln!(text, "  {:<20} {}", info.name, info.meaning);
    }
    text
}
