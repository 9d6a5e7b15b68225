//! `wakepath apst plan`.

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use wakepath_hardware::drive::quirks::{Certainty, QuirkKind, QuirkPlace, Quirks};
use wakepath_hardware::drive::{Drive, id_ctrl};
use wakepath_policies::apst::{
    ApstPlan, ApstQuirks, ApstRule, ApstSettings, MAX_TIMEOUT_MS, NoApstTable, plan_apst_table,
};

use super::entries::{DecodedApstEntry, decode_entries_of_first_states, table_as_512_hex_digits};
use crate::commands::drive;
use crate::input;
use crate::messages::note;
use crate::output::{self, Screen};
use crate::until;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath apst plan --drive 'Intel 760p 256GB'
  nvme id-ctrl -b /dev/nvme0 | wakepath apst plan --id-ctrl - --max-latency-us 25000
  wakepath apst plan --drive SDBPNPZ-256G-1006 --format bin > apst.bin
  nvme set-feature /dev/nvme0 -f 0x0c -v 1 -l 256 -d apst.bin")]
pub(super) struct ApstPlanArgs {
    #[command(flatten)]
    source: Source,
    /// Take the table of this firmware revision of a library drive.
    #[arg(long, value_name = "FW", conflicts_with = "id_ctrl")]
    firmware: Option<String>,
    /// How to choose the states: the kernel's rule, or the one it had before 5.14.
    #[arg(long, value_enum, default_value_t)]
    rule: Rule,
    /// Idle time before a primary state [default: 100]; 0 means the legacy rule.
    #[arg(long, value_name = "MS", value_parser = parse_timeout_fitting_24_bits)]
    primary_timeout_ms: Option<u64>,
    /// Idle time before a secondary state [default: 2000]; 0 means no such state.
    #[arg(long, value_name = "MS", value_parser = parse_timeout_fitting_24_bits)]
    secondary_timeout_ms: Option<u64>,
    /// Highest total latency of a primary state [default: 15000]; 0 means the legacy rule.
    #[arg(long, value_name = "US", value_parser = until::parse_whole_microseconds)]
    primary_tolerance_us: Option<u64>,
    /// Highest total latency of a secondary state [default: 100000].
    #[arg(long, value_name = "US", value_parser = until::parse_whole_microseconds)]
    secondary_tolerance_us: Option<u64>,
    /// Highest exit latency of any state [default: 100000]; 0 switches APST off.
    #[arg(long, value_name = "US", value_parser = until::parse_whole_microseconds)]
    max_latency_us: Option<u64>,
    /// Plan as for a drive with the no-deepest-state quirk.
    #[arg(long)]
    no_deepest: bool,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// A drive of the library, by its name or words of it that no other drive has; a drive that you keep; a drive file
    /// (*.toml); or a file as --id-ctrl has it.
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
    /// What `nvme id-ctrl` printed (binary with -b, JSON or text) or smartctl (-c or -a, text or JSON), whole or the lines
    /// of the power states; - for standard input.
    #[arg(long, value_name = "FILE")]
    id_ctrl: Option<String>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Rule {
    #[default]
    Current,
    Legacy,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The decision on every state, for people.
    #[default]
    Table,
    /// The same for programs, with the table itself.
    Json,
    /// The 256 bytes of the feature.
    Bin,
    /// These bytes as hexadecimal text, 16 to a line, which `xxd -r -p` reads back.
    Hex,
}

/// The kernel would accept longer times, and spoil the table's entry with them.
fn parse_timeout_fitting_24_bits(text: &str) -> anyhow::Result<u64> {
    let ms = until::parse_whole_milliseconds(text)?;
    anyhow::ensure!(
        ms <= MAX_TIMEOUT_MS,
        "an entry has 24 bits for it: at most {MAX_TIMEOUT_MS} ms"
    );
    Ok(ms)
}

pub(super) fn print_planned_apst_table(
    args: &ApstPlanArgs,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let (drive, mut notes) = load_drive_with_notes(args)?;
    let settings = args.settings_over_kernel_defaults();
    let planned = plan_apst_table(
        drive.npss,
        // A drive whose support for APST is unknown is planned for: unknown does not mean "no".
        drive.apsta.unwrap_or(true),
        &drive.states,
        &settings,
    );
    notes.extend(explain_quirk_changes(&drive, &settings));
    match args.format {
        Format::Table => print_drive_and_plan(out, &drive, &settings, planned)?,
        Format::Json => output::write_json(out, &ApstReport::new(&drive, &settings, planned))?,
        Format::Bin | Format::Hex => {
            let table = planned.with_context(|| drive.model.clone())?.table;
            if drive.apsta.is_none() {
                notes.push(format!("{}: {ASSUMED}", drive.model));
            }
            if args.format == Format::Bin {
                out.raw_bytes().extend(table.to_bytes());
            } else {
                out.write_lines_unfolded(&table.to_string());
            }
        }
    }
    for note in notes {
        note!("{note}");
    }
    Ok(())
}

const ASSUMED: &str = "APST support is not known, assumed";

impl ApstPlanArgs {
    fn settings_over_kernel_defaults(&self) -> ApstSettings {
        let kernel = ApstSettings::default();
        ApstSettings {
            rule: match self.rule {
                Rule::Current => ApstRule::Current,
                Rule::Legacy => ApstRule::Legacy,
            },
            primary_timeout_ms: self.primary_timeout_ms.unwrap_or(kernel.primary_timeout_ms),
            primary_tolerance_us: self
                .primary_tolerance_us
                .unwrap_or(kernel.primary_tolerance_us),
            secondary_timeout_ms: self
                .secondary_timeout_ms
                .unwrap_or(kernel.secondary_timeout_ms),
            secondary_tolerance_us: self
                .secondary_tolerance_us
                .unwrap_or(kernel.secondary_tolerance_us),
            max_latency_us: self.max_latency_us.unwrap_or(kernel.max_latency_us),
            enabled: true,
            quirks: ApstQuirks {
                no_deepest: self.no_deepest,
                no_apst: false,
            },
        }
    }
}

/// The drive that the arguments name, and notes about the choice.
fn load_drive_with_notes(args: &ApstPlanArgs) -> anyhow::Result<(Drive, Vec<String>)> {
    if let Some(path) = &args.source.id_ctrl {
        return read_dumped_drive_with_notes(path);
    }
    let name = args.source.drive.as_deref().unwrap_or_default();
    if let Some(model) = drive::find_drive_file_or_kept_drive(name)? {
        anyhow::ensure!(
            args.firmware.is_none(),
            "--firmware: {name} is one drive, with one table of power states"
        );
        let power = model.power.with_context(|| {
            format!("{name}: no power states are known of this drive; its file names them by `library` or `dump`")
        })?;
        return Ok((power.declared, model.note.into_iter().collect()));
    }
    if drive::is_existing_dump_file(name) {
        return read_dumped_drive_with_notes(name);
    }
    let model = drive::find_drive_by_full_or_short_name(name)?;
    let tables = match &args.firmware {
        Some(firmware) => model.tables_with_firmware(firmware)?,
        None => model.tables.iter().collect(),
    };
    let table = tables
        .first()
        .copied()
        .unwrap_or(model.most_frequent_table());
    let mut notes: Vec<String> = drive::note_if_name_was_partial(model, name)
        .into_iter()
        .collect();
    if tables.len() > 1 {
        let advice = if args.firmware.is_some() {
            "seen with this firmware"
        } else {
            "known; --firmware chooses"
        };
        notes.push(format!(
            "{}: {} power-state tables are {advice}; this is the one of firmware {}, seen on {} \
             of {} drives",
            model.name,
            tables.len(),
            table.firmwares.join(" and "),
            table.samples,
            table.samples_of_model
        ));
    }
    Ok((table.drive.clone(), notes))
}

/// Reads a drive from a tool's output, with notes on what is assumed about it.
fn read_dumped_drive_with_notes(path: &str) -> anyhow::Result<(Drive, Vec<String>)> {
    let (file, data) = (
        input::describe_file_or_stdin(path),
        input::read_file_or_stdin(path, drive::MAX_DUMP)?,
    );
    let found = id_ctrl::parse_drive_dump(file, &data)?;
    let assumed = found.describe_assumptions();
    let notes = assumed.map(|assumed| format!("{file}: {assumed}"));
    Ok((found.drive, notes.into_iter().collect()))
}

/// Sentences on what the kernel does differently for a drive with known faults.
fn explain_quirk_changes(drive: &Drive, settings: &ApstSettings) -> Vec<String> {
    let quirks = Quirks::builtin();
    let mut notes = Vec::new();
    for (quirk, certainty) in quirks.find_entries_for_drive(drive, &QuirkPlace::default()) {
        for kind in &quirk.kinds {
            let how = match kind {
                QuirkKind::NoDeepest if settings.quirks.no_deepest => continue,
                QuirkKind::NoDeepest => "plan with --no-deepest to see its table",
                QuirkKind::NoApst => {
                    "this plan is what it would program with nvme_core.force_apst=1"
                }
                QuirkKind::SimpleSuspend | QuirkKind::ForceNoSimpleSuspend => continue,
            };
            let likely = match certainty {
                Certainty::Certain => "has",
                Certainty::Likely => "likely has (its PCI id decides)",
            };
            notes.push(format!(
                "{}: Linux {} {likely} the quirk {} for it: {}; {how}",
                drive.model,
                quirks.kernel,
                kind.kernel_constant_name(),
                quirks.effect_and_override_of_kind(*kind).effect,
            ));
        }
    }
    notes
}

// ---- for people

fn print_drive_and_plan(
    out: &mut Screen,
    drive: &Drive,
    settings: &ApstSettings,
    planned: Result<ApstPlan, NoApstTable>,
) -> anyhow::Result<()> {
    match drive.firmware.replace('|', " or ").as_str() {
        "" => writeln!(out, "drive   {}", drive.model)?,
        firmware => writeln!(out, "drive   {}, firmware {firmware}", drive.model)?,
    }
    out.write_folded(&format!("source  {}", drive.source), 8)?;
    match planned {
        Ok(plan) => write_plan_per_state(out, drive, settings, &plan),
        Err(why) => Ok(writeln!(out, "APST    {why}")?),
    }
}

/// Writes the table that the kernel programs, with a row for each power state.
fn write_plan_per_state(
    out: &mut Screen,
    drive: &Drive,
    settings: &ApstSettings,
    plan: &ApstPlan,
) -> anyhow::Result<()> {
    let state = if plan.enabled { "enabled" } else { "disabled" };
    let assumed = match drive.apsta {
        Some(_) => String::new(),
        None => format!(" ({ASSUMED})"),
    };
    writeln!(out, "APST    {state}{assumed}")?;
    writeln!(out, "rule    {}", planning_rule_in_words(settings))?;
    writeln!(
        out,
        "budget  {} us of exit latency\n",
        settings.max_latency_us
    )?;
    let header = [
        "state",
        "power",
        "active",
        "idle",
        "entry us",
        "exit us",
        "when idle, go to",
        "as a target",
    ];
    let entries = decode_entries_of_first_states(&plan.table, plan.states.len());
    let states = plan.states.iter().zip(&entries).zip(&drive.states);
    let rows = states.map(|((choice, entry), descriptor)| {
        [
            format!("PS{}", choice.state),
            drive::format_watts_or_dash(descriptor.max_power),
            drive::format_watts_or_dash(descriptor.active_power),
            drive::format_watts_or_dash(descriptor.idle_power),
            descriptor.entry_latency_us.to_string(),
            descriptor.exit_latency_us.to_string(),
            entry.transition_in_words(),
            choice.explain(settings),
        ]
    });
    output::write_table(out, header, rows)
}

fn planning_rule_in_words(settings: &ApstSettings) -> String {
    match settings.rule_or_legacy_fallback() {
        ApstRule::Current => {
            let secondary = match settings.secondary_timeout_ms {
                0 => "no secondary".to_owned(),
                ms => format!(
                    "secondary after {ms} ms up to {} us",
                    settings.secondary_tolerance_us
                ),
            };
            format!(
                "current: primary after {} ms up to {} us, {secondary}",
                settings.primary_timeout_ms, settings.primary_tolerance_us
            )
        }
        ApstRule::Legacy if settings.rule == ApstRule::Legacy => {
            "legacy: every state after 50 times its total latency".to_owned()
        }
        ApstRule::Legacy => "legacy, because a primary parameter is 0: every state after 50 times \
                             its total latency"
            .to_owned(),
    }
}

// ---- for programs

#[derive(Serialize)]
struct ApstReport<'a> {
    drive: &'a Drive,
    /// Whether the drive's support for APST is not known, and taken for granted.
    apsta_assumed: bool,
    settings: &'a ApstSettings,
    rule: ApstRule,
    /// Why the kernel programs no table; the fields below are then null.
    no_table: Option<String>,
    apste: Option<bool>,
    entries: Option<Vec<DecodedApstEntry>>,
    states: Option<Vec<StateDecision>>,
    table_hex: Option<String>,
}

#[derive(Serialize)]
struct StateDecision {
    state: u8,
    non_operational: bool,
    exit_latency_us: u64,
    total_latency_us: u64,
    chosen: bool,
    timeout_ms: Option<u64>,
    explanation: String,
}

fn decisions_per_power_state(
    drive: &Drive,
    settings: &ApstSettings,
    plan: &ApstPlan,
) -> Vec<StateDecision> {
    plan.states
        .iter()
        .zip(&drive.states)
        .map(|(choice, descriptor)| StateDecision {
            state: choice.state,
            non_operational: descriptor.non_operational,
            exit_latency_us: choice.exit_latency_us,
            total_latency_us: choice.total_latency_us,
            chosen: choice.verdict.timeout_ms().is_some(),
            timeout_ms: choice.verdict.timeout_ms(),
            explanation: choice.explain(settings),
        })
        .collect()
}

impl<'a> ApstReport<'a> {
    fn new(
        drive: &'a Drive,
        settings: &'a ApstSettings,
        planned: Result<ApstPlan, NoApstTable>,
    ) -> Self {
        let (plan, no_table) = match planned {
            Ok(plan) => (Some(plan), None),
            Err(why) => (None, Some(why.to_string())),
        };
        Self {
            drive,
            apsta_assumed: drive.apsta.is_none(),
            settings,
            rule: settings.rule_or_legacy_fallback(),
            no_table,
            apste: plan.as_ref().map(|p| p.enabled),
            entries: plan
                .as_ref()
                .map(|p| decode_entries_of_first_states(&p.table, p.states.len())),
            states: plan
                .as_ref()
                .map(|plan| decisions_per_power_state(drive, settings, plan)),
            table_hex: plan.as_ref().map(|p| table_as_512_hex_digits(&p.table)),
        }
    }
}
