//! `wakepath drive add` and `remove`: drives that the user keeps under names of their own.

use std::path::Path;

use anyhow::Context;
use wakepath_hardware::machine::{DriveModel, KeptDrives};

use crate::input;
use crate::messages::note;
use crate::output::Screen;

/// Limit for a dump's size in bytes; all bits of `nvme id-ctrl -H -v` spelled out are shorter.
pub(in crate::commands) const MAX_DUMP: u64 = 1 << 20;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath drive add id-ctrl.txt
  nvme id-ctrl /dev/nvme0 | wakepath drive add - --name work-laptop
  wakepath sim workloads/apst-7.fio --machine laptop --drive work-laptop")]
pub(super) struct AddArgs {
    /// What `nvme id-ctrl` or smartctl printed, or a drive or machine file (*.toml); - for standard input.
    file: String,
    /// Name of the drive for `--drive` [default: `my-` and the model's name].
    #[arg(long)]
    name: Option<String>,
    /// Replace the drive that is kept under this name.
    #[arg(long)]
    force: bool,
}

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  wakepath drive remove work-laptop")]
pub(super) struct RemoveArgs {
    /// The name that `drive list` prints.
    name: String,
}

pub(super) fn keep_drive_of_file(args: &AddArgs, out: &mut Screen) -> anyhow::Result<()> {
    let drive = read_drive_of_file(&args.file)?;
    if let Some(text) = &drive.note {
        note!("{text}");
    }
    let name = match &args.name {
        Some(name) => name.clone(),
        None => drive.suggest_name_to_keep(),
    };
    let path = open_kept_drives()?.keep(&name, &drive, args.force)?;
    out.write_folded(
        &format!(
            "{} is the drive '{name}' from now on: --drive {name}. Kept in {}",
            drive.name,
            path.display()
        ),
        2,
    )?;
    Ok(())
}

pub(super) fn remove_kept_drive(args: &RemoveArgs, out: &mut Screen) -> anyhow::Result<()> {
    let path = open_kept_drives()?.remove(&args.name)?;
    out.write_folded(&format!("removed {}", path.display()), 2)?;
    Ok(())
}

fn open_kept_drives() -> anyhow::Result<KeptDrives> {
    KeptDrives::in_user_folder()
        .context("there is no home folder to keep drives in; set HOME or XDG_DATA_HOME")
}

/// The drive that a file describes, whatever the form.
fn read_drive_of_file(path: &str) -> anyhow::Result<DriveModel> {
    if Path::new(path)
        .extension()
        .is_some_and(|ending| ending == "toml")
    {
        return Ok(DriveModel::load(path.as_ref())?);
    }
    let name = input::describe_file_or_stdin(path);
    let output = input::read_file_or_stdin(path, MAX_DUMP)?;
    Ok(DriveModel::from_tool_output(name, &output)?)
}
