//! Policy sets as arguments.

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

/// Parser for a set's text. Shells complete mechanisms for a place.
#[derive(Clone, Copy)]
pub(crate) struct SetText(pub(crate) Place);

/// Mechanisms possible at a place.
pub(crate) fn mechanisms(place: Place) -> impl Iterator<Item = &'static Mechanism> {
    // Leases on a machine need a process that runs: the daemon.
    let leases = place == Place::Machine;
    MECHANISMS
        .iter()
        .copied()
        .filter(move |m| m.on.contains(&place) && !(leases && m.kind == Kind::Psd))
}

impl TypedValueParser for SetText {
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
        Some(Box::new(complete_set(self.0)))
    }
}

/// Parser for arguments with a set each, possibly including a daemon's configuration. Shells complete as for [`SetText`].
#[derive(Clone, Copy)]
pub(crate) struct WholeSet(pub(crate) Place);

impl TypedValueParser for WholeSet {
    type Value = PolicySet;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<PolicySet, clap::Error> {
        parse_set.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(complete_set(self.0)))
    }
}

/// Parses a set. Commas between sets get their own error.
fn parse_set(text: &str) -> Result<PolicySet, String> {
    let one = wakepath_settings::policy_set::parse_with_config_files(text);
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

fn complete_set(place: Place) -> impl Iterator<Item = PossibleValue> {
    // Replays have idle periods only, where profiles have no effect.
    let profiles = PROFILES.iter().filter(move |_| place != Place::Replay);
    mechanisms(place)
        .map(|m| {
            // A file name follows.
            let name = ProgramForm::named(m.name).map_or(m.name, ProgramForm::prefix);
            PossibleValue::new(name).help(m.summary)
        })
        .chain(profiles.map(|p| PossibleValue::new(p.text).help(p.summary)))
}

/// Notes profile parts without policies on a simulated machine, and assumptions in policies, each once.
pub(crate) fn tell_notes<'a>(
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
pub(crate) struct Programs {
    /// Run governors of one's own (c:, exec:) also where this kernel cannot confine them, and those that a study names.
    /// They then may do all that you may.
    #[arg(long = "allow-programs")]
    pub(crate) allowed: bool,
}

/// Sets with custom governors ready to run; relative paths begin here.
///
/// # Errors
/// A file is missing, or cannot be run.
pub(crate) fn load(sets: &[PolicySet], programs: Programs) -> anyhow::Result<Vec<PolicySet>> {
    let loaded = sets
        .iter()
        .map(|set| governors::load_governor(set.clone(), Path::new("."), programs.allowed))
        .collect::<Result<Vec<_>, _>>()
        .context("--policy")?;
    tell_warnings(&loaded);
    Ok(loaded)
}

/// Shows compiler warnings to governors' authors, once per governor.
pub(crate) fn tell_warnings<'a>(sets: impl IntoIterator<Item = &'a PolicySet>) {
    let mut told = Vec::new();
    for program in sets.into_iter().filter_map(PolicySet::program) {
        if let Some(warnings) = program.warnings()
            && !told.contains(&program)
        {
            warning!("`{program}`: gcc warns:\n{warnings}");
            told.push(program);
        }
    }
}

/// Removes repeated sets, with a note.
pub(crate) fn each_once(sets: Vec<PolicySet>) -> Vec<PolicySet> {
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

/// Sets to add to a study: its own paths count from its folder, arguments' paths from here.
///
/// # Errors
/// A path is not UTF-8, or the current folder is unknown.
pub(crate) fn sets_beside_study(
    study: &Path,
    sets: &[PolicySet],
) -> anyhow::Result<Vec<PolicySet>> {
    let folder = study.parent().unwrap_or(Path::new(""));
    if folder == Path::new("") || folder == Path::new(".") {
        return Ok(sets.to_vec());
    }
    sets.iter()
        .map(|set| set.clone().map_program(with_absolute_path))
        .collect()
}

fn with_absolute_path(program: &Program) -> anyhow::Result<Program> {
    let path = std::path::absolute(program.path())?;
    let text = path
        .to_str()
        .context("the path of this folder is not UTF-8")?;
    Ok(program.at(text))
}

/// Joins all arguments into one set.
///
/// # Errors
/// An argument is no policy set, or two contradict each other.
pub(crate) fn join(texts: &[String]) -> Result<PolicySet, SpecError> {
    let sets: Result<Vec<PolicySet>, SpecError> = texts.iter().map(|text| text.parse()).collect();
    PolicySet::join(sets?)
}
