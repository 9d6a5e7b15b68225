//! `wakepath restore`: puts every setting back to its value before the first `apply`.

use anyhow::{bail, ensure};
use serde::Serialize;
use wakepath_settings::{
    Change, CommandLineOutcome, Hold, PersistentSettings, Restored, Session, SettingsError,
    SettingsPlan, forget_boot_trial, put_back_kernel_words, remove_supply_record,
};
use wakepath_system::setting::Access;
use wakepath_system::{System, journal};

use super::{RootArgs, shorten_setting_value};
use crate::messages::{note, tell};
use crate::output::{self, Format, Screen};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  wakepath restore")]
pub(crate) struct Args {
    /// Only what a process held that has died, such as the daemon; what `apply` set for good stays.
    #[arg(long)]
    held: bool,
    /// Put settings back now, and leave the file of `apply --persist` for the next boot.
    #[arg(long, conflicts_with = "held")]
    now: bool,
    #[command(flatten)]
    root: RootArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct RestoredSetting {
    setting: &'static str,
    #[serde(rename = "of")]
    place: String,
    found: String,
    restored: String,
}

const HEADER: [&str; 4] = ["setting", "of", "found", "restored"];

/// JSON output.
#[derive(Serialize)]
struct RestoreReport {
    restored: Vec<RestoredSetting>,
    unchanged: usize,
    /// Settings that are away for the moment, as on an offline CPU; they stay in the journal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    away: Vec<String>,
    notes: Vec<String>,
}

pub(crate) fn restore_settings_and_end_persistence(
    args: &Args,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let system = args.root.open_system()?;
    let outcome = put_back_all_or_held_settings(&system, args.held);
    // Persistence ends even if a setting could not be put back, so that it does not come again at the next boot.
    let persistence = if args.held || args.now {
        Ok(())
    } else {
        remove_persistent_file_and_trial(&system)
    };
    let restored = match (outcome, &persistence) {
        (Ok(restored), _) => restored,
        (Err(error), Ok(())) => return Err(error.into()),
        (Err(error), Err(kept)) => {
            bail!("{error}; and the settings of `apply --persist` are not ended: {kept}")
        }
    };
    if !args.held {
        remove_supply_record(&system)?;
    }
    if !args.held && !args.now {
        put_back_command_line_and_tell(&system)?;
    }
    for note in &restored.notes {
        note!("{note}");
    }
    let rows: Vec<RestoredSetting> = restored
        .written
        .iter()
        .map(restored_setting_from_change)
        .collect();
    print_restored_settings(args.format, restored.clone(), rows, out)?;
    if let Err(kept) = persistence {
        for away in &restored.away {
            note!("{away}");
        }
        bail!("the settings are as before, but those of `apply --persist` are not ended: {kept}");
    }
    fail_if_any_setting_not_put_back(&restored)
}

/// Puts settings back: all of them, or only settings `held` by a process that has died.
fn put_back_all_or_held_settings(system: &System, held: bool) -> Result<Restored, SettingsError> {
    // Without a journal there is nothing to put back, and no right to make a directory is needed.
    match journal::has_pending_restore(system.root()) {
        Some(false) => Ok(Restored::default()),
        // Without root the journal cannot be read, and this error says so.
        _ if held => Ok(Session::open_and_recover(system)?
            .restored_at_opening()
            .clone()),
        _ => Session::open_for_restore(system)?.restore_all(),
    }
}

/// Puts the boot loader's file back, if words were written, and names the command to run afterwards.
fn put_back_command_line_and_tell(system: &System) -> Result<(), SettingsError> {
    match put_back_kernel_words(system)? {
        CommandLineOutcome::NothingWritten => {}
        CommandLineOutcome::PutBack { file, command } => {
            let next = command.map_or_else(String::new, |command| format!("; now run: {command}"));
            tell!("{} is as it was{next}", file.display());
        }
        CommandLineOutcome::ChangedSince { file, words, copy } => note!(
            "{}: somebody else has changed it since, so it stays; take out {} by hand. As it was: {}",
            file.display(),
            words.join(" "),
            copy.display()
        ),
    }
    Ok(())
}

/// Removes the file of persistent settings, and the state of their trial.
fn remove_persistent_file_and_trial(system: &System) -> Result<(), SettingsError> {
    if PersistentSettings::remove_file(system)? {
        tell!("nothing is applied at boot any more");
    }
    forget_boot_trial(system)
}

/// Fails if a setting could not be put back because it is away, as on an offline CPU.
pub(super) fn fail_if_any_setting_not_put_back(restored: &Restored) -> anyhow::Result<()> {
    ensure!(restored.away.is_empty(), "{}", restored.away.join("; "));
    Ok(())
}

impl RestoredSetting {
    fn cells_with_shortened_values(&self) -> [String; 4] {
        [
            self.setting.to_owned(),
            self.place.clone(),
            shorten_setting_value(&self.found),
            shorten_setting_value(&self.restored),
        ]
    }
}

fn print_restored_settings(
    format: Format,
    restored: Restored,
    rows: Vec<RestoredSetting>,
    out: &mut Screen,
) -> anyhow::Result<()> {
    match format {
        Format::Json => output::write_json(
            out,
            &RestoreReport {
                restored: rows,
                unchanged: restored.unchanged,
                away: restored.away,
                notes: restored.notes,
            },
        ),
        Format::Csv => output::write_csv(
            out,
            HEADER,
            rows.iter()
                .map(RestoredSetting::cells_with_shortened_values),
        ),
        Format::Table if rows.is_empty() => {
            writeln!(out, "nothing to put back")?;
            Ok(())
        }
        Format::Table => output::write_table(
            out,
            HEADER,
            rows.iter()
                .map(RestoredSetting::cells_with_shortened_values),
        ),
    }
}

fn restored_setting_from_change(change: &wakepath_settings::Change) -> RestoredSetting {
    RestoredSetting {
        setting: change.key.setting.name,
        place: change.key.at.to_string(),
        found: change.old.clone(),
        restored: change.new.clone().unwrap_or_default(),
    }
}

/// Reports settings that were put back for a process that died.
pub(super) fn tell_settings_recovered_from_killed(recovered: &Restored) {
    if !recovered.written.is_empty() {
        tell!(
            "note: put {} setting(s) back that a process had changed which was killed",
            recovered.written.len()
        );
    }
    for note in recovered.notes.iter().chain(&recovered.away) {
        tell!("note: {note}");
    }
}

/// Puts held settings back, and says how many.
pub(super) fn put_back_and_tell(hold: Hold, plan: &SettingsPlan) -> anyhow::Result<()> {
    // A request that the kernel has dropped by itself is not put back.
    let requests = plan
        .changes
        .iter()
        .filter(|c| lasts_only_with_process(c))
        .count();
    let restored = hold
        .put_back_and_release()?
        .map(|(_, restored)| restored)
        .unwrap_or_default();
    let written = restored
        .written
        .iter()
        .filter(|c| !lasts_only_with_process(c))
        .count();
    let count = written + requests;
    tell!("put {count} setting(s) back");
    fail_if_any_setting_not_put_back(&restored)
}

/// Whether a change lasts only as long as the process that holds it.
fn lasts_only_with_process(change: &Change) -> bool {
    change.key.setting.mechanism == Access::Held
}
