//! Policy sets as arguments on the command line.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::Context;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use wakepath_governors as governors;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_policies::idle::program::{Program, ProgramForm};
use wakepath_policies::mechanism::{Kind, MECHANISMS, Mechanism, Place};
use wakepath_policies::profile::PROFILES;
use wakepath_policies::spec::SpecError;
use wakepath_sim::SimError;

use crate::messages::{note, warning};

/// Parser for an argument with a policy set's text. Shells complete the mechanisms that are possible at a place.
#[derive(Clone, Copy)]
pub(crate) struct PolicySetTextParser(pub(crate) Place);

/// Mechanisms that are possible at a place: a simulation, a replay or a machine.
pub(crate) fn mechanisms_possible_at(place: Place) -> impl Iterator<Item = &'static Mechanism> {
    // Leases on a machine need the daemon's process, so they are no setting.
    let leases = place == Place::Machine;
    MECHANISMS
        .iter()
        .copied()
        .filter(move |m| m.on.contains(&place) && !(leases && m.kind == Kind::Psd))
}

impl TypedValueParser for PolicySetTextParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(completions_for_policy_set(self.0)))
    }
}

/// Parser for an argument with a whole policy set, or with a daemon's configuration. Shells complete as for
/// [`PolicySetTextParser`].
#[derive(Clone, Copy)]
pub(crate) struct WholePolicySetParser(pub(crate) Place);

impl TypedValueParser for WholePolicySetParser {
    type Value = PolicySet;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<PolicySet, clap::Error> {
        parse_single_policy_set.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(completions_for_policy_set(self.0)))
    }
}

/// Parses a policy set. Commas between policies get their own error.
fn parse_single_policy_set(text: &str) -> Result<PolicySet, String> {
    let one = wakepath_settings::policy_set::parse_with_daemon_config_files(text);
    let mut parts = text.split(',').map(str::trim);
    if one.is_err()
        && text.contains(',')
        && parts.all(|part| part.parse::<PolicySet>().is_ok_and(|set| !set.is_empty()))
    {
        let each: Vec<String> = text
            .split(',')
            .map(|part| format!("--policy '{}'", part.trim()))
            .collect();
        return Err(format!(
            "each set has an option of its own: {}",
            each.join(" ")
        ));
    }
    one
}

fn completions_for_policy_set(place: Place) -> impl Iterator<Item = PossibleValue> {
    // A replay has idle periods only, where tools' profiles have no effect.
    let profiles = PROFILES.iter().filter(move |_| place != Place::Replay);
    mechanisms_possible_at(place)
        .map(|m| {
            // A mechanism with a file's name: the user goes on typing.
            let name =
                ProgramForm::by_policy_name(m.name).map_or(m.name, ProgramForm::policy_prefix);
            PossibleValue::new(name).help(m.summary)
        })
        .chain(profiles.map(|p| PossibleValue::new(p.text).help(p.summary)))
}

/// Notes which profile parts have no policy on a simulated machine, and what policies assume, each once.
pub(crate) fn note_each_policy_assumption_once<'a>(
    machine: &Machine,
    sets: impl IntoIterator<Item = &'a PolicySet>,
) -> Result<(), SimError> {
    let mut told = Vec::new();
    for set in sets {
        for note in wakepath_sim::notes_on_machine_and_policies(machine, set)? {
            if !told.contains(&note) {
                note!("{note}");
                told.push(note);
            }
        }
    }
    Ok(())
}

/// What the user says of governors of one's own.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct ProgramPermission {
    /// Run governors of one's own (c:, exec:) also where this kernel cannot confine them, and those that a study names.
    /// They then may do all that you may.
    #[arg(long = "allow-programs")]
    pub(crate) allowed: bool,
}

/// Prepares the custom governors in policy sets to run; relative paths count from the current folder.
///
/// # Errors
/// A file is missing, or cannot be run.
pub(crate) fn load_custom_governors(
    sets: &[PolicySet],
    programs: ProgramPermission,
) -> anyhow::Result<Vec<PolicySet>> {
    let loaded = sets
        .iter()
        .map(|set| governors::load_governor(set.clone(), Path::new("."), programs.allowed))
        .collect::<Result<Vec<_>, _>>()
        .context("--policy")?;
    hold_compiler_warnings(&loaded);
    Ok(loaded)
}

/// Prints the compiler's warnings about custom governors, once per governor.
pub(crate) fn hold_compiler_warnings<'a>(sets: impl IntoIterator<Item = &'a PolicySet>) {
    let mut told = Vec::new();
    for program in sets.into_iter().filter_map(PolicySet::own_governor) {
        if let Some(warnings) = program.warnings()
            && !told.contains(&program)
        {
            warning!("`{program}`: gcc warns:\n{warnings}");
            told.push(program);
        }
    }
}

/// Removes policy sets that are given twice, with a note.
pub(crate) fn remove_and_note_repeated_sets(sets: Vec<PolicySet>) -> Vec<PolicySet> {
    let mut once: Vec<PolicySet> = Vec::new();
    for set in sets {
        if once.contains(&set) {
            note!("--policy names {set} more than once; it runs once");
        } else {
            once.push(set);
        }
    }
    once
}

/// Prepares sets that are given beside a study: their custom governors get absolute paths, as paths in the study count
/// from its folder.
///
/// # Errors
/// A path is not UTF-8, or the current folder is unknown.
pub(crate) fn sets_with_governor_paths_for_study(
    study: &Path,
    sets: &[PolicySet],
) -> anyhow::Result<Vec<PolicySet>> {
    let folder = study.parent().unwrap_or(Path::new(""));
    if folder == Path::new("") || folder == Path::new(".") {
        return Ok(sets.to_vec());
    }
    sets.iter()
        .map(|set| {
            set.clone()
                .try_replace_own_governor(program_with_absolute_path)
        })
        .collect()
}

fn program_with_absolute_path(program: &Program) -> anyhow::Result<Program> {
    let path = std::path::absolute(program.path())?;
    let text = path
        .to_str()
        .context("the path of this folder is not UTF-8")?;
    Ok(program.with_path(text))
}

/// Joins all arguments into one policy set.
///
/// # Errors
/// An argument is no policy set, or two contradict each other.
pub(crate) fn parse_and_join_policy_sets(texts: &[String]) -> Result<PolicySet, SpecError> {
    let sets: Result<Vec<PolicySet>, SpecError> = texts.iter().map(|text| text.parse()).collect();
    PolicySet::join_sets(sets?)
}
