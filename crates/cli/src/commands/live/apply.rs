//! `wakepath apply`: changes a real machine's settings so that they can be put back.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Place;
use wakepath_settings::{
    KernelWord, PersistentSettings, PowerSupply, Session, SettingsPlan, Targets, ToolForm,
    end_boot_trial, format_ansible_playbook, format_plan_for_tool, policy, reset::ResetEvent,
};
use wakepath_system::{System, journal};
use wakepath_watch::guard::GuardCondition;

use super::{HEADER, RootArgs, SettingRow, persist, policies_and_settings_for_help};
use crate::messages::{self, note, tell};
use crate::output::{self, Format, Screen};
use crate::policy_set::{self, PolicySetTextParser};
use crate::until::{self, EndSignals};
use crate::waiting;

const EXAMPLES: &str = "\
Examples:
  wakepath apply 'teo + cpu-latency[limit=20us,cpus=all]'
  wakepath apply 'idle-states[ceiling=C1E]' --cpus 0-3 --for 10m
  wakepath apply apst --drives nvme0 --dry-run
  wakepath apply 'teo + epp[value=power]' --persist
  wakepath apply apst --drives nvme0 --persist --on battery
  wakepath apply 'epp[value=power]' --keep 'p99_us <= +5%'
  wakepath apply --kernel-word amd_pstate=active --write-cmdline
  wakepath restore";

#[derive(clap::Args)]
#[command(
    after_help = EXAMPLES,
    after_long_help = format!("{EXAMPLES}\n\n{}", policies_and_settings_for_help()),
    group(clap::ArgGroup::new("kept").args(["persist", "form"]))
)]
pub(crate) struct Args {
    /// Policies, such as 'menu + epp[value=power]'; several arguments make one set. `--help` lists them.
    #[arg(required_unless_present_any = ["kernel_word", "check", "at_boot", "boot_ended", "supply_changed", "after_event", "resets"], value_name = "SET", value_parser = PolicySetTextParser(Place::Machine), hide_possible_values = true)]
    policies: Vec<String>,
    /// Put everything back after this time, or at Ctrl-C: 30s, 10m, 2h.
    #[arg(long = "for", value_name = "TIME", value_parser = until::parse_duration_or_seconds)]
    hold: Option<Duration>,
    /// Hold the set while block requests keep this condition, such as 'p99_us < 150', 'p99_us(nvme0n1) < 150' or 'p99_us <= +5%' of
    /// what was measured before. A broken condition puts the set back. Give it again for each condition. With `--persist`: during
    /// the trial, and a broken condition keeps nothing.
    #[arg(long, value_name = "CONDITION", conflicts_with_all = ["check", "form"])]
    keep: Vec<GuardCondition>,
    /// Print what would be written, and write nothing. With `--persist` also the file.
    #[arg(long)]
    dry_run: bool,
    /// Apply the set at every boot, too (/etc/wakepath/settings.toml). The set is held for `--for` first, 10 minutes unless
    /// told otherwise; then a question asks whether it is to stay.
    #[arg(long, conflicts_with = "force")]
    persist: bool,
    /// With `--persist`: ask nothing, and hold the set first only for a given `--for`, or 10 minutes with `--keep`.
    #[arg(long, requires = "persist", conflicts_with = "form")]
    yes: bool,
    /// With `--persist`: only while the machine has this power supply, `mains` or `battery`. The set for the other stays. With
    /// `--as`: for this power supply only, in the forms of TLP and Ansible.
    #[arg(long, requires = "kept", value_name = "SUPPLY", value_parser = parse_power_supply)]
    on: Option<PowerSupply>,
    /// Print the set in the form of another tool, and write nothing. A note names what the form cannot hold.
    #[arg(long = "as", value_name = "TOOL", value_enum, conflicts_with_all = ["persist", "dry_run", "hold", "check"])]
    form: Option<FormName>,
    /// Check the file that `--persist` wrote, or FILE before it goes there, and change nothing.
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["policies", "persist", "dry_run", "hold", "cpus", "drives", "force"])]
    #[expect(
        clippy::option_option,
        reason = "the option, and its value, may be missing"
    )]
    check: Option<Option<PathBuf>>,
    /// Print what each setting survives, and what resets or changes it; change nothing.
    #[arg(long, conflicts_with_all = ["policies", "check", "persist", "dry_run", "hold", "cpus", "drives", "force"])]
    resets: bool,
    /// A word for the kernel command line: prints the boot loader's file to edit, and the command to run afterwards. Changes
    /// nothing. Give it again for each word.
    #[arg(long, value_name = "WORD", conflicts_with_all = ["policies", "check", "resets", "persist", "hold", "keep", "form", "cpus", "drives", "force"])]
    kernel_word: Vec<KernelWord>,
    /// With `--kernel-word`: write the boot loader's file. A copy of the old one is kept, and `wakepath restore` puts it back.
    #[arg(long, requires = "kernel_word", conflicts_with = "dry_run")]
    write_cmdline: bool,
    /// Apply the settings of `--persist`: the service wakepath-settings does so at boot.
    #[arg(long, hide = true, conflicts_with_all = ["policies", "check", "persist", "dry_run", "hold", "cpus", "drives", "force"])]
    at_boot: bool,
    /// The boot has lasted for ten minutes, or ends in an orderly way: its settings have passed their trial.
    #[arg(long, hide = true, conflicts_with_all = ["policies", "check", "at_boot", "persist", "dry_run", "hold", "cpus", "drives", "force"])]
    boot_ended: bool,
    /// The power supply may have changed: its settings of `--persist` are put in force, if they are not.
    #[arg(long, hide = true, conflicts_with_all = ["policies", "check", "at_boot", "boot_ended", "persist", "dry_run", "hold", "cpus", "drives", "force"])]
    supply_changed: bool,
    /// Something has happened that may have reset settings: `resume`, a CPU or a drive by name, or `interval`.
    #[arg(long, hide = true, value_name = "EVENT", conflicts_with_all = ["policies", "check", "at_boot", "boot_ended", "supply_changed", "persist", "dry_run", "hold", "cpus", "drives", "force"])]
    after_event: Option<ResetEvent>,
    /// Only these CPUs, such as 0-3,8.
    #[arg(long, value_name = "LIST", value_parser = parse_nonempty_cpu_list)]
    cpus: Option<CpuListArgument>,
    /// Only these drives, such as nvme0. With `--persist`, drives are named so or by model. The set is kept for their models, in
    /// tables `[[drive]]` of the file. All else in the file stays.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    drives: Option<Vec<String>>,
    /// Use power states that the kernel avoids on a drive because they are known to break it.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    root: RootArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Tools whose forms can be printed.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FormName {
    /// A profile of TuneD.
    Tuned,
    /// Rules of udev.
    Udev,
    /// Lines of tmpfiles.d.
    Tmpfiles,
    /// Options of TLP.
    Tlp,
    /// A playbook of Ansible, which writes the file of --persist.
    Ansible,
}

#[derive(Clone)]
struct CpuListArgument(Vec<usize>);

fn parse_nonempty_cpu_list(text: &str) -> Result<CpuListArgument, String> {
    wakepath_units::cpus::parse_cpu_list(text)
        .filter(|list| !list.is_empty())
        .map(CpuListArgument)
        .ok_or_else(|| "expected CPUs such as 0-3,8".to_owned())
}

fn parse_power_supply(text: &str) -> Result<PowerSupply, String> {
    PowerSupply::ALL
        .into_iter()
        .find(|supply| supply.to_string() == text)
        .ok_or_else(|| "expected mains or battery".to_owned())
}

/// JSON output.
#[derive(Serialize)]
struct ApplyReport {
    dry_run: bool,
    changes: Vec<SettingRow>,
    notes: Vec<String>,
}

fn plan_settings_for_set(
    system: &System,
    set: &PolicySet,
    targets: &Targets,
) -> anyhow::Result<SettingsPlan> {
    let wanted = policy::resolve_to_settings(system, set, targets)?;
    Ok(SettingsPlan::from_wanted(system, wanted)?)
}

pub(crate) fn plan_apply_or_persist_policy_set(
    args: &Args,
    out: &mut Screen,
) -> anyhow::Result<()> {
    if args.resets {
        return super::survival::print_what_resets_settings(args.format, out);
    }
    let system = args.root.open_system()?;
    if !args.kernel_word.is_empty() {
        let words = &args.kernel_word;
        return super::kernel_words::print_or_write_kernel_words(
            &system,
            words,
            args.write_cmdline,
            args.format,
            out,
        );
    }
    if let Some(candidate) = &args.check {
        return persist::check_and_print_persistent_settings(&system, candidate.as_deref(), out);
    }
    if args.at_boot {
        return persist::apply_at_boot(&system);
    }
    if args.boot_ended {
        return Ok(end_boot_trial(&system)?);
    }
    if args.supply_changed {
        return persist::apply_set_for_present_supply(&system);
    }
    if let Some(event) = &args.after_event {
        return persist::reapply_after_event(&system, event);
    }
    let targets = Targets {
        cpus: args.cpus.as_ref().map(|c| c.0.clone()),
        drives: args.drives.clone(),
        force: args.force,
        ..Targets::default()
    };
    let set = policy_set::parse_and_join_policy_sets(&args.policies)?;
    anyhow::ensure!(
        !set.is_empty(),
        "{set} changes nothing; name a policy, such as menu"
    );
    if let Some(form) = args.form {
        return print_as_other_tools_config(&system, form, args.on, set, targets, out);
    }
    if args.dry_run && !args.persist {
        let plan = plan_settings_for_set(&system, &set, &targets)?;
        let is_held = args.hold.is_some() || !args.keep.is_empty();
        if let (false, Err(refused)) = (is_held, plan.check_outlives_process()) {
            note!("without --dry-run this is refused: {refused}");
        }
        describe_guard(&args.keep, &plan)?;
        return print_planned_changes(args, &plan, out);
    }
    if args.persist {
        let (settings, notes) = match &targets.drives {
            None => PersistentSettings::load_and_put_set(&system, args.on, set, targets.cpus)?,
            Some(drives) => {
                anyhow::ensure!(
                    targets.cpus.is_none(),
                    "--drives with --persist keeps policies of drives, which no CPU has; leave --cpus out"
                );
                PersistentSettings::load_and_put_drive_set(&system, drives, args.on, &set)?
            }
        };
        for note in &notes {
            note!("{note}");
        }
        let request = persist::PersistRequest {
            on: args.on,
            hold: args.hold,
            yes: args.yes,
            keep: &args.keep,
        };
        if args.dry_run {
            let plan = persist::describe_persist(&system, &settings, &request)?;
            describe_guard(&args.keep, &plan)?;
            print_planned_changes(args, &plan, out)?;
            if args.format == Format::Table {
                writeln!(out)?;
                for line in settings.text_to_save(&system).lines() {
                    writeln!(out, "{line}")?;
                }
            }
            return Ok(());
        }
        let plan = persist::try_ask_apply_and_persist(&system, &settings, &request)?;
        return plan.map_or(Ok(()), |plan| print_planned_changes(args, &plan, out));
    }
    if !args.keep.is_empty() {
        return hold_while_conditions_are_kept(args, &system, &set, &targets, out);
    }
    // Signals are caught before the lock is taken, so that a signal never ends the process between a write and the
    // wait.
    let signals = args.hold.map(|_| EndSignals::new()).transpose()?;
    let mut session = Session::open_and_recover(&system)?;
    super::restore::tell_settings_recovered_from_killed(session.restored_at_opening());
    let plan = plan_settings_for_set(&system, &set, &targets)?;
    let Some(signals) = signals else {
        session.apply_plan(&plan)?;
        print_planned_changes(args, &plan, out)?;
        if journal::has_pending_restore(system.root()) == Some(true) {
            tell!(
                "`wakepath restore{}` puts it back",
                args.root.root_option_or_empty()
            );
        }
        return Ok(());
    };
    let hold = session.apply_while_held(&plan)?;
    print_planned_changes(args, &plan, out)?;
    // Messages are printed before the wait, which ends with putting settings back.
    messages::print_held_messages();
    out.print()?;
    let signal = signals.wait_for_signal_up_to(args.hold);
    super::restore::put_back_and_tell(hold, &plan)?;
    if let Some(signal) = signal {
        waiting::cancel_and_tell_if_cancelled_before(signal);
    }
    Ok(())
}

/// Holds a set while a guard watches its conditions (`--keep`).
#[cfg(target_os = "linux")]
fn hold_while_conditions_are_kept(
    args: &Args,
    system: &System,
    set: &PolicySet,
    targets: &Targets,
    out: &mut Screen,
) -> anyhow::Result<()> {
    super::guarded::note_if_other_machine(system);
    super::guarded::check_relative_limits(&args.keep, || {
        plan_settings_for_set(system, set, targets)
    })?;
    let mut guarded = super::guarded::GuardedSet::start(args.keep.clone())?;
    if !guarded.measure_before()? {
        return Ok(());
    }
    let session = Session::open_and_recover(system)?;
    super::restore::tell_settings_recovered_from_killed(session.restored_at_opening());
    let plan = plan_settings_for_set(system, set, targets)?;
    guarded.hold_while_kept(session, &plan, args.hold, || {
        print_planned_changes(args, &plan, out)?;
        // Messages are printed before the wait, which ends with putting settings back.
        messages::print_held_messages();
        tell!("in force and watched; Ctrl-C puts everything back");
        Ok(out.print()?)
    })
}

#[cfg(target_os = "linux")]
fn describe_guard(conditions: &[GuardCondition], plan: &SettingsPlan) -> anyhow::Result<()> {
    if conditions.is_empty() {
        return Ok(());
    }
    super::guarded::describe_guard(conditions, plan)
}

#[cfg(not(target_os = "linux"))]
fn hold_while_conditions_are_kept(
    _: &Args,
    _: &System,
    _: &PolicySet,
    _: &Targets,
    _: &mut Screen,
) -> anyhow::Result<()> {
    super::trial::refuse_guard_without_linux()
}

#[cfg(not(target_os = "linux"))]
fn describe_guard(_: &[GuardCondition], _: &SettingsPlan) -> anyhow::Result<()> {
    Ok(())
}

/// Prints a policy set as another tool's configuration.
fn print_as_other_tools_config(
    system: &System,
    name: FormName,
    supply: Option<PowerSupply>,
    set: PolicySet,
    targets: Targets,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let tool = match name {
        FormName::Tuned => ToolForm::Tuned,
        FormName::Udev => ToolForm::Udev,
        FormName::Tmpfiles => ToolForm::Tmpfiles,
        FormName::Tlp => ToolForm::Tlp,
        FormName::Ansible => {
            anyhow::ensure!(
                targets.drives.is_none() && !targets.force,
                "--as ansible writes the file of --persist, which has neither --drives nor --force; leave them out"
            );
            let settings = PersistentSettings::for_this_machine(system, supply, set, targets.cpus);
            return print_text_line_by_line(&format_ansible_playbook(system, &settings)?, out);
        }
    };
    let plan = plan_settings_for_set(system, &set, &targets)?;
    let form = format_plan_for_tool(system, tool, &plan, supply)?;
    for note in &plan.notes {
        note!("{note}");
    }
    for left in &form.left_out {
        note!("left out: {left}");
    }
    print_text_line_by_line(&form.text, out)
}

fn print_text_line_by_line(text: &str, out: &mut Screen) -> anyhow::Result<()> {
    for line in text.lines() {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn print_planned_changes(args: &Args, plan: &SettingsPlan, out: &mut Screen) -> anyhow::Result<()> {
    let system = args.root.open_system()?;
    for note in &plan.notes {
        note!("{note}");
    }
    let rows: Vec<SettingRow> = plan
        .changes
        .iter()
        .map(|change| SettingRow::new(&system, change))
        .collect();
    match args.format {
        Format::Json => output::write_json(
            out,
            &ApplyReport {
                dry_run: args.dry_run,
                changes: rows,
                notes: plan.notes.clone(),
            },
        ),
        Format::Csv => output::write_csv(
            out,
            HEADER,
            rows.iter().map(SettingRow::cells_with_shortened_values),
        ),
        Format::Table => output::write_table(
            out,
            HEADER,
            rows.iter().map(SettingRow::cells_with_shortened_values),
        ),
    }
}
