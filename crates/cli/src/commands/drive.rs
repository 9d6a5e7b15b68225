//! `wakepath drive`: the NVMe drive library.

mod kept;
mod model;
mod states;

use std::path::Path;

use serde::Serialize;
use wakepath_hardware::drive::quirks::{Certainty, QuirkPlace, Quirks};
use wakepath_hardware::drive::{
    CatalogEntry, Drive, DriveLibrary, DriveSpeeds, DriveTable, PowerState, id_ctrl,
};
use wakepath_hardware::machine::{DriveModel, KeptDrives};
use wakepath_units::Microwatts;

use crate::input;
use crate::messages::{note, warning};
use crate::output::{self, Format, Screen};
use states::{latency_and_rank_cells, print_declared_states_and_contradictions};

pub(super) use kept::MAX_DUMP;
pub(super) use model::find_drive_file_or_kept_drive;
pub(super) use states::format_watts_or_dash;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// The drives of the library, after those that you keep.
    List(ListArgs),
    /// The power states of a drive.
    Show(ShowArgs),
    /// Keeps a drive under a name for `--drive`, from a file that describes the drive.
    Add(kept::AddArgs),
    /// Forgets a drive that `add` keeps.
    Remove(kept::RemoveArgs),
}

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  wakepath drive list SN530")]
struct ListArgs {
    /// Only drives with this in their name.
    filter: Option<String>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath drive show 'Intel 760p 256GB'
  wakepath drive show 'Samsung SSD 990 PRO 1TB' --format json
  wakepath drive show id-ctrl.txt")]
struct ShowArgs {
    /// The drive, by its name or words of it that no other drive has; or a file with what `nvme id-ctrl` or smartctl
    /// printed, a drive file (*.toml), or a drive that you keep.
    name: String,
    /// Only the tables of this firmware revision.
    #[arg(long, value_name = "FW")]
    firmware: Option<String>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run_drive_command(args: Args, out: &mut Screen) -> anyhow::Result<()> {
    match args.verb {
        Verb::List(args) => print_drives_matching_filter(&args, out),
        Verb::Show(args) => show_drive(&args, out),
        Verb::Add(args) => kept::keep_drive_of_file(&args, out),
        Verb::Remove(args) => kept::remove_kept_drive(&args, out),
    }
}

fn hex_id_or_empty(id: Option<u16>) -> String {
    id.map_or_else(String::new, |id| format!("{id:#06x}"))
}

fn yes_no_or_unknown(known: Option<bool>) -> &'static str {
    match known {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    }
}

// ---- list

#[derive(Serialize)]
struct ListedDrive {
    model: String,
    label: Option<String>,
    /// Whether the user keeps the drive under this name.
    kept: bool,
    vendor_id: Option<u16>,
    tables: usize,
    /// Index of the last power state; `None` if no power states are known.
    npss: Option<u8>,
    samples: u32,
    /// Number of speeds that are published for the model; the other speeds are its controller's, or medians of its class.
    published_speeds: usize,
    /// How many contradictions the model's usual table has.
    contradictions: Vec<String>,
}

impl ListedDrive {
    fn of_library(model: &CatalogEntry) -> Self {
        let usual = model.most_frequent_table();
        Self {
            model: model.name.clone(),
            label: model.label.clone(),
            kept: false,
            vendor_id: usual.drive.vendor_id,
            tables: model.tables.len(),
            npss: Some(usual.drive.npss),
            samples: usual.samples_of_model,
            published_speeds: DriveSpeeds::for_model(&model.name).count_published(),
            contradictions: usual.drive.find_power_contradictions(),
        }
    }

    fn of_user(name: &str, drive: &DriveModel) -> Self {
        let declared = drive.power.as_ref().map(|power| &power.declared);
        Self {
            model: name.to_owned(),
            label: Some(format!("kept: {}", drive.name)),
            kept: true,
            vendor_id: declared.and_then(|declared| declared.vendor_id),
            tables: usize::from(declared.is_some()),
            npss: declared.map(|declared| declared.npss),
            samples: 0,
            published_speeds: declared.map_or(0, |declared| {
                DriveSpeeds::for_model(&declared.model).count_published()
            }),
            contradictions: declared.map_or_else(Vec::new, Drive::find_power_contradictions),
        }
    }

    fn row_cells(&self) -> [String; 8] {
        [
            self.model.clone(),
            self.label.clone().unwrap_or_default(),
            hex_id_or_empty(self.vendor_id),
            self.npss.map_or_else(String::new, |npss| npss.to_string()),
            self.tables.to_string(),
            self.samples.to_string(),
            self.published_speeds.to_string(),
            self.contradictions.join("; "),
        ]
    }
}

/// The drives that the user keeps with a text in their name or title. A drive whose file is unusable is left out with a
/// warning.
fn list_kept_drives_with_text(filter: &str) -> anyhow::Result<Vec<ListedDrive>> {
    let Some(kept) = KeptDrives::in_user_folder() else {
        return Ok(Vec::new());
    };
    let wanted = filter.to_lowercase();
    let mut listed = Vec::new();
    for name in kept.list_names()? {
        match kept.find(&name) {
            Ok(Some(drive)) => {
                let titles = [name.as_str(), drive.name.as_str()];
                if titles
                    .iter()
                    .any(|title| title.to_lowercase().contains(&wanted))
                {
                    listed.push(ListedDrive::of_user(&name, &drive));
                }
            }
            Ok(None) => {}
            Err(error) => warning!("{error}; `wakepath drive remove {name}` forgets the drive"),
        }
    }
    Ok(listed)
}

fn print_drives_matching_filter(args: &ListArgs, out: &mut Screen) -> anyhow::Result<()> {
    let filter = args.filter.as_deref().unwrap_or_default();
    let library = DriveLibrary::builtin();
    let models = library.models_with_text_in_name_or_label(filter);
    let mut listed = list_kept_drives_with_text(filter)?;
    if models.is_empty() && listed.is_empty() {
        // The library's own lookup suggests near names.
        library.find_one_model(filter)?;
    }
    listed.extend(models.into_iter().map(ListedDrive::of_library));
    let rows = listed.iter().map(ListedDrive::row_cells);
    match args.format {
        Format::Json => output::write_json(out, &listed),
        Format::Csv => {
            let header = [
                "model",
                "label",
                "vendor_id",
                "npss",
                "tables",
                "samples",
                "published_speeds",
                "contradictions",
            ];
            output::write_csv(out, header, rows)
        }
        Format::Table => {
            let header = [
                "model",
                "sold as",
                "vendor",
                "last state",
                "tables",
                "drives seen",
                "speeds known of 7",
                "contradicts itself",
            ];
            output::write_table(out, header, rows)
        }
    }
}

// ---- show

/// Finds a drive in the library by name, or by a short name as `sim --drive` takes.
pub(super) fn find_drive_by_full_or_short_name(
    name: &str,
) -> anyhow::Result<&'static CatalogEntry> {
    let library_name = DriveModel::full_library_name_for_short_name(name).unwrap_or(name);
    match DriveLibrary::builtin().find_one_model(library_name) {
        Ok(found) => Ok(found),
        Err(error) => Err(match DriveModel::missing_file_error(name) {
            Some(missing) => missing.into(),
            None => error.into(),
        }),
    }
}

/// A note that tells which drive a partial name was taken for; `None` for a full name.
pub(super) fn note_if_name_was_partial(model: &CatalogEntry, name: &str) -> Option<String> {
    match DriveModel::full_library_name_for_short_name(name) {
        Some(_) => None,
        None => model.note_if_name_was_partial(name),
    }
}

/// Whether a drive's name is the path of a file with a tool's output.
pub(super) fn is_existing_dump_file(name: &str) -> bool {
    DriveModel::full_library_name_for_short_name(name).is_none() && Path::new(name).is_file()
}

fn show_drive(args: &ShowArgs, out: &mut Screen) -> anyhow::Result<()> {
    if let Some(drive) = find_drive_file_or_kept_drive(&args.name)? {
        anyhow::ensure!(
            args.firmware.is_none(),
            "--firmware: {} is one drive, with one table of power states",
            args.name
        );
        return model::print_drive_model(&drive, args.format, out);
    }
    let of_file;
    let model = if is_existing_dump_file(&args.name) {
        of_file = read_dump_as_catalog_entry(&args.name)?;
        &of_file
    } else {
        let model = find_drive_by_full_or_short_name(&args.name)?;
        if let Some(note) = note_if_name_was_partial(model, &args.name) {
            note!("{note}");
        }
        model
    };
    let tables: Vec<&DriveTable> = match &args.firmware {
        Some(firmware) => model.tables_with_firmware(firmware)?,
        None => model.tables.iter().collect(),
    };
    match args.format {
        Format::Json => output::write_json(out, &ShownDrive::new(model, &tables)),
        Format::Csv => print_states_as_csv(out, model, &tables),
        Format::Table => print_states_speeds_and_quirks(out, model, &tables),
    }
}

/// Reads a drive from a tool's output, as an entry like the library's.
fn read_dump_as_catalog_entry(path: &str) -> anyhow::Result<CatalogEntry> {
    let found = id_ctrl::parse_drive_dump(path, &input::read_file_or_stdin(path, MAX_DUMP)?)?;
    if let Some(assumed) = found.describe_assumptions() {
        note!("{path}: {assumed}");
    }
    Ok(CatalogEntry {
        name: found.drive.model.clone(),
        label: None,
        tables: vec![DriveTable {
            firmwares: vec![found.drive.firmware.clone()],
            drive: found.drive,
            samples: 0,
            samples_of_model: 0,
            nvme_version: None,
            warning_temperatures_c: Vec::new(),
            critical_temperatures_c: Vec::new(),
            apsta_source: None,
        }],
    })
}

fn microwatts_or_empty(power: Option<Microwatts>) -> String {
    power.map_or_else(String::new, |power| power.0.to_string())
}

#[derive(Serialize)]
struct ShownDrive<'a> {
    model: &'a str,
    label: Option<&'a str>,
    tables: Vec<ShownTable<'a>>,
    speeds: DriveSpeeds,
    quirks: Vec<ShownQuirk<'a>>,
}

#[derive(Serialize)]
struct ShownTable<'a> {
    firmwares: &'a [String],
    samples: u32,
    samples_of_model: u32,
    vendor_id: Option<u16>,
    subsystem_vendor_id: Option<u16>,
    nvme_version: Option<&'a str>,
    warning_temperatures_c: &'a [u16],
    critical_temperatures_c: &'a [u16],
    apsta: Option<bool>,
    apsta_source: Option<&'a str>,
    npss: u8,
    states: &'a [PowerState],
    contradictions: Vec<String>,
    source: &'a str,
}

#[derive(Serialize)]
struct ShownQuirk<'a> {
    name: &'static str,
    certain: bool,
    effect: &'a str,
    why: &'a str,
    lifted_by: &'a str,
    kernel: &'a str,
    file: &'a str,
}

impl<'a> ShownDrive<'a> {
    fn new(model: &'a CatalogEntry, tables: &[&'a DriveTable]) -> Self {
        Self {
            model: &model.name,
            label: model.label.as_deref(),
            tables: tables.iter().map(|t| ShownTable::new(t)).collect(),
            speeds: DriveSpeeds::for_model(&model.name),
            quirks: quirks_for_first_table(tables),
        }
    }
}

impl<'a> ShownTable<'a> {
    fn new(table: &'a DriveTable) -> Self {
        let drive = &table.drive;
        Self {
            firmwares: &table.firmwares,
            samples: table.samples,
            samples_of_model: table.samples_of_model,
            vendor_id: drive.vendor_id,
            subsystem_vendor_id: drive.subsystem_vendor_id,
            nvme_version: table.nvme_version.as_deref(),
            warning_temperatures_c: &table.warning_temperatures_c,
            critical_temperatures_c: &table.critical_temperatures_c,
            apsta: drive.apsta,
            apsta_source: table.apsta_source.as_deref(),
            npss: drive.npss,
            states: &drive.states,
            contradictions: drive.find_power_contradictions(),
            source: &drive.source,
        }
    }
}

/// The quirks that the kernel has for the first table's drive.
fn quirks_for_first_table(tables: &[&DriveTable]) -> Vec<ShownQuirk<'static>> {
    let list = Quirks::builtin();
    let Some(table) = tables.first() else {
        return Vec::new();
    };
    list.find_entries_for_drive(&table.drive, &QuirkPlace::default())
        .into_iter()
        .flat_map(|(quirk, certainty)| {
            quirk.kinds.iter().map(move |kind| ShownQuirk {
                name: kind.kernel_constant_name(),
                certain: certainty == Certainty::Certain,
                effect: &list.effect_and_override_of_kind(*kind).effect,
                why: &quirk.why,
                lifted_by: &list.effect_and_override_of_kind(*kind).lifted_by,
                kernel: &list.kernel,
                file: &quirk.file,
            })
        })
        .collect()
}

fn print_states_as_csv(
    out: &mut Screen,
    model: &CatalogEntry,
    tables: &[&DriveTable],
) -> anyhow::Result<()> {
    let header = [
        "model",
        "firmware",
        "samples",
        "state",
        "non_operational",
        "max_power_uw",
        "entry_latency_us",
        "exit_latency_us",
        "read_throughput_rank",
        "read_latency_rank",
        "write_throughput_rank",
        "write_latency_rank",
        "idle_power_uw",
        "active_power_uw",
    ];
    let rows = tables.iter().flat_map(|table| {
        table.drive.states.iter().enumerate().map(move |(i, s)| {
            let mut row = vec![
                model.name.clone(),
                table.drive.firmware.clone(),
                table.samples.to_string(),
                i.to_string(),
                u8::from(s.non_operational).to_string(),
                microwatts_or_empty(s.max_power),
            ];
            row.extend(latency_and_rank_cells(s));
            row.extend([s.idle_power, s.active_power].map(microwatts_or_empty));
            row
        })
    });
    output::write_csv(out, header, rows)
}

fn print_states_speeds_and_quirks(
    out: &mut Screen,
    model: &CatalogEntry,
    tables: &[&DriveTable],
) -> anyhow::Result<()> {
    write!(out, "{}", model.name)?;
    match &model.label {
        Some(label) => writeln!(out, " ({label})")?,
        None => writeln!(out)?,
    }
    for table in tables {
        writeln!(out)?;
        print_states_and_contradictions(out, table)?;
    }
    writeln!(out)?;
    print_speeds_with_origin(out, &DriveSpeeds::for_model(&model.name))?;
    for quirk in quirks_for_first_table(tables) {
        let has = if quirk.certain {
            "has"
        } else {
            "likely has (its PCI id decides)"
        };
        writeln!(out)?;
        let fact = format!(
            "Linux {} {has} the quirk {} for this drive: {}.",
            quirk.kernel, quirk.name, quirk.effect
        );
        out.write_folded(&fact, 2)?;
        out.write_folded(&format!("  why: {}", quirk.why), 4)?;
        out.write_folded(&format!("  lifted by: {}", quirk.lifted_by), 4)?;
    }
    Ok(())
}

fn print_speeds_with_origin(out: &mut Screen, speeds: &DriveSpeeds) -> anyhow::Result<()> {
    let figures = speeds.named_figures_with_units();
    let published = speeds.count_published();
    let known = figures.len();
    writeln!(
        out,
        "{published} of {known} speeds are published for this model; the others are assumed"
    )?;
    let tails = speeds.named_tails_in_us();
    let known_tails = tails.iter().filter(|(_, figure)| figure.is_given());
    let tail_rows = known_tails.map(|(what, figure)| (*what, "us", *figure));
    let rows = figures
        .into_iter()
        .chain(tail_rows)
        .map(|(what, unit, figure)| {
            [
                what.to_owned(),
                figure.value.to_string(),
                unit.to_owned(),
                figure.origin.describe_origin(""),
            ]
        });
    output::write_table(out, ["speed", "value", "unit", "from"], rows)?;
    if tails.iter().all(|(_, figure)| !figure.is_given()) {
        let fact = "The slowest 0.1 % of its requests are not known: nobody published them. `wakepath measure drive` \
                    measures them.";
        out.write_folded(fact, 0)?;
    }
    Ok(())
}

fn print_states_and_contradictions(out: &mut Screen, table: &DriveTable) -> anyhow::Result<()> {
    let drive = &table.drive;
    let firmwares = table.firmwares.join(", ");
    // A dump describes a single drive, so no count is shown.
    match table.samples_of_model {
        0 => writeln!(out, "firmware  {firmwares}")?,
        all => writeln!(
            out,
            "firmware  {firmwares} ({} of {all} drives seen)",
            table.samples
        )?,
    }
    writeln!(out, "vendor    {}", hex_id_or_empty(drive.vendor_id))?;
    let evidence = table
        .apsta_source
        .as_ref()
        .map_or_else(String::new, |source| format!(" ({source})"));
    writeln!(
        out,
        "APST      {}{evidence}",
        yes_no_or_unknown(drive.apsta)
    )?;
    out.write_folded(&format!("source    {}", drive.source), 10)?;
    writeln!(out)?;
    print_declared_states_and_contradictions(out, drive)
}
