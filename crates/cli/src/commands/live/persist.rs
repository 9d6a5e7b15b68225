//! `wakepath apply --persist`: settings that come back at every boot.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use wakepath_settings::persistent::OFF_WORD;
use wakepath_settings::reset::ResetEvent;
use wakepath_settings::{
    BootOutcome, DriftedSetting, PersistentSettings, PowerSupply, ReapplyOutcome, Session,
    SettingsPlan, SupplyOutcome, SupplySwitch, add_old_values_of_replaced_set,
    apply_plan_and_record_supply, describe_plan_with_old_values_of_replaced_set, find_rival_tools,
    forget_boot_trial,
};
use wakepath_system::System;
use wakepath_watch::guard::GuardCondition;

use super::trial::{TrialEnd, TrialWatch};
use crate::messages::{note, tell};
use crate::output::Screen;
use crate::until::duration_in_words;
use crate::waiting;

/// How long settings are held before they are kept, unless the user says otherwise.
const TRIAL: Duration = Duration::from_secs(600);
/// Link by which systemd starts the service at boot.
const ENABLED_UNIT: &str = "etc/systemd/system/multi-user.target.wants/wakepath-settings.service";

/// How the user wants a set to be kept.
pub(super) struct PersistRequest<'a> {
    /// Only for this power supply.
    pub(super) on: Option<PowerSupply>,
    /// How long the set is held first.
    pub(super) hold: Option<Duration>,
    /// Ask nothing.
    pub(super) yes: bool,
    /// What block requests have to keep meanwhile.
    pub(super) keep: &'a [GuardCondition],
}

impl PersistRequest<'_> {
    /// How long the set is held before it is kept; `None`: not at all. A condition without a trial would be kept by nobody.
    fn time_of_trial(&self) -> Option<Duration> {
        let has_trial = !self.yes || !self.keep.is_empty();
        self.hold.or_else(|| has_trial.then_some(TRIAL))
    }
}

/// Tells what [`try_ask_apply_and_persist`] would do, and changes nothing. Returns the settings that the set on trial would write.
pub(super) fn describe_persist(
    system: &System,
    settings: &PersistentSettings,
    request: &PersistRequest<'_>,
) -> anyhow::Result<SettingsPlan> {
    let plan = plan_set_on_trial(system, settings, request.on)?;
    note_tools_that_overwrite(system, &plan);
    let path = PersistentSettings::file_path(system);
    let question = if request.yes { "" } else { " and a question" };
    let when = match request.time_of_trial() {
        Some(time) => format!(
            "after {} with the set{question}",
            duration_in_words(time.as_secs_f64())
        ),
        None => "at once".to_owned(),
    };
    note!("{} would be written {when}", path.display());
    let present = PowerSupply::read(system.root());
    let comes_into_force =
        request.time_of_trial().is_some() || request.on.is_none_or(|supply| supply == present);
    if !comes_into_force {
        return Ok(plan);
    }
    Ok(describe_plan_with_old_values_of_replaced_set(
        system, &plan,
    )?)
}

/// Holds the settings for a while, asks, applies them, and keeps them for every boot. `None`: the user did not keep
/// them.
pub(super) fn try_ask_apply_and_persist(
    system: &System,
    settings: &PersistentSettings,
    request: &PersistRequest<'_>,
) -> anyhow::Result<Option<SettingsPlan>> {
    let &PersistRequest { on, yes, keep, .. } = request;
    ensure!(
        yes || io::stdin().is_terminal(),
        "--persist asks whether the settings are to stay, and there is no terminal; --yes asks nothing"
    );
    #[cfg(target_os = "linux")]
    super::guarded::check_relative_limits(keep, || plan_set_on_trial(system, settings, on))?;
    // Signals are caught before the lock is taken, so that a signal never ends the process between a write and the
    // wait.
    let Some(mut watch) = TrialWatch::start(system, keep)? else {
        return Ok(None);
    };
    let mut session = Session::open_and_recover(system)?;
    super::restore::tell_settings_recovered_from_killed(session.restored_at_opening());
    let plan = plan_set_on_trial(system, settings, on)?;
    note_tools_that_overwrite(system, &plan);
    if let Some(time) = request.time_of_trial() {
        // A boot with the set has nothing of the one before.
        let plan = add_old_values_of_replaced_set(&session, &plan)?;
        let holding = session.apply_while_held(&plan)?;
        let end = watch.wait_and_ask(time, yes)?;
        #[cfg(target_os = "linux")]
        if let (TrialEnd::Broken, TrialWatch::Guard(guarded)) = (&end, watch) {
            tell!("nothing is kept");
            guarded.put_back_and_find_cause(holding, &plan)?;
            return Ok(None);
        }
        let Some((released, restored)) = holding.put_back_and_release()? else {
            return Ok(None);
        };
        super::restore::fail_if_any_setting_not_put_back(&restored)?;
        if let TrialEnd::Signal(signal) = end {
            waiting::cancel_and_tell_if_cancelled_before(signal);
        }
        if !matches!(end, TrialEnd::Keep) {
            tell!("put everything back; nothing is kept");
            // Without a person only a condition can be the reason.
            let is_by_condition = yes && matches!(end, TrialEnd::PutBack);
            ensure!(!is_by_condition, "no condition was seen to be kept");
            return Ok(None);
        }
        session = released;
    }
    // The power supply may have changed during the trial, and the trial has put everything back.
    let present = PowerSupply::read(system.root());
    let waits_for = on.filter(|supply| *supply != present);
    let applied = apply_plan_and_record_supply(
        &mut session,
        settings,
        present,
        &settings.plan_for_supply(system, present)?,
    )?;
    let option = system.root().command_line_option();
    let kept = settings
        .save_file(system)
        .and_then(|()| forget_boot_trial(system));
    kept.with_context(|| {
        format!("the settings are in force, and `wakepath restore{option}` puts them back")
    })?;
    let path = PersistentSettings::file_path(system);
    match waits_for {
        None => tell!(
            "applied, and again at every boot ({}); `wakepath restore{option}` puts it back and ends that",
            path.display()
        ),
        Some(supply) => tell!(
            "kept for {supply} ({}), and the machine is on {present} now; `wakepath restore{option}` ends that",
            path.display()
        ),
    }
    if !keep.is_empty() {
        note!(
            "the guard ends here; `[guard]` with `applied = true` in daemon.toml watches the set in every boot"
        );
    }
    if system.root().is_live() && !system.root().exists(ENABLED_UNIT) {
        note!(
            "the service that does so at boot is not enabled: \
             systemctl enable wakepath-settings.service"
        );
    }
    Ok(waits_for.is_none().then_some(applied))
}

/// Plans the set that the user named, which is on trial whatever the power supply.
fn plan_set_on_trial(
    system: &System,
    settings: &PersistentSettings,
    on: Option<PowerSupply>,
) -> anyhow::Result<SettingsPlan> {
    Ok(match on {
        Some(supply) => settings.plan_for_supply(system, supply)?,
        None => settings.plan_for_present_supply(system)?,
    })
}

/// Notes which other tools overwrite settings of a plan, before anything is written.
fn note_tools_that_overwrite(system: &System, plan: &SettingsPlan) {
    for rival in find_rival_tools(system, plan) {
        note!("{rival}");
    }
}

/// Checks the file of persistent settings, and prints what it would change.
pub(super) fn check_and_print_persistent_settings(
    system: &System,
    candidate: Option<&Path>,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let path = candidate.map_or_else(|| PersistentSettings::file_path(system), Path::to_path_buf);
    let loaded = match candidate {
        Some(file) => Some(PersistentSettings::load_candidate(file)?),
        None => PersistentSettings::load(system)?,
    };
    let Some(settings) = loaded else {
        writeln!(
            out,
            "{}: not there; nothing is applied at boot",
            path.display()
        )?;
        return Ok(());
    };
    let plan = settings.plan_for_present_supply(system)?;
    for note in &plan.notes {
        note!("{note}");
    }
    note_tools_that_overwrite(system, &plan);
    writeln!(
        out,
        "{}: fine; {} setting(s) by {}",
        path.display(),
        plan.changes.len(),
        settings.format_sets_without_versions()
    )?;
    Ok(())
}

/// Applies the persistent settings at boot. Prints one line about the outcome.
pub(super) fn apply_at_boot(system: &System) -> anyhow::Result<()> {
    match wakepath_settings::apply_persistent_settings_at_boot(system)? {
        BootOutcome::NoFile => tell!("no persistent settings"),
        BootOutcome::SwitchedOff => {
            tell!("persistent settings are left out: {OFF_WORD} is on the kernel's command line");
        }
        BootOutcome::LeftOut(set) => bail!(
            "{set} is left out: the last boot with it ended uncleanly within ten minutes. \
             `wakepath apply --persist{}` makes settings persistent anew",
            system.root().command_line_option()
        ),
        BootOutcome::Applied(plan) => {
            for note in &plan.notes {
                note!("{note}");
            }
            tell!("applied {} persistent setting(s)", plan.changes.len());
        }
    }
    Ok(())
}

/// Applies the persistent set for the present power supply. Prints one line about the outcome, and one for each setting
/// that stays.
pub(super) fn apply_set_for_present_supply(system: &System) -> anyhow::Result<()> {
    match wakepath_settings::switch_to_set_of_present_supply(system)? {
        SupplyOutcome::NoFile => tell!("no persistent settings"),
        SupplyOutcome::SwitchedOff => {
            tell!("persistent settings are left out: {OFF_WORD} is on the kernel's command line");
        }
        SupplyOutcome::NotInForce => {
            tell!(
                "no persistent settings are in force, so none are changed; the next boot applies them"
            );
        }
        SupplyOutcome::Unchanged(supply) => tell!("on {supply} as before; nothing to change"),
        SupplyOutcome::Switched(switched) => tell_switched_set(&switched),
    }
    Ok(())
}

fn tell_switched_set(switched: &SupplySwitch) {
    for note in &switched.plan.notes {
        note!("{note}");
    }
    for drifted in &switched.drift {
        note!("{}, so it stays", describe_drift(drifted));
    }
    tell!(
        "on {}: wrote {} persistent setting(s)",
        switched.supply,
        switched.plan.differing_changes().count()
    );
}

/// Writes settings again that an event has reset. Prints a line only if something was reset or somebody else has changed
/// a setting: intervals would fill the journal.
pub(super) fn reapply_after_event(system: &System, event: &ResetEvent) -> anyhow::Result<()> {
    let ReapplyOutcome::Looked(done) = wakepath_settings::reapply_after_event(system, event)?
    else {
        return Ok(());
    };
    for note in &done.notes {
        note!("{note}");
    }
    if let Some(switched) = &done.switched {
        tell_switched_set(switched);
    }
    for drifted in &done.drift {
        note!("{}, so it stays", describe_drift(drifted));
    }
    for drifted in &done.enforced {
        note!("{}; written again, by `enforce`", describe_drift(drifted));
    }
    if !done.reset.is_empty() {
        let names: Vec<String> = done.reset.iter().map(ToString::to_string).collect();
        tell!("wrote again what was reset: {}", names.join(", "));
    }
    Ok(())
}

fn describe_drift(drifted: &DriftedSetting) -> String {
    let DriftedSetting {
        key,
        expected,
        found,
        by_later_apply,
    } = drifted;
    let writer = if *by_later_apply {
        "`wakepath apply`"
    } else {
        "somebody else"
    };
    format!("{key} is '{found}', not '{expected}': {writer} has set it")
}
