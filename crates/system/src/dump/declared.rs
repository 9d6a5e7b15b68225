//! Idle states declared in a dump, for users without a machine file.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use wakepath_hardware::idle::is_polling_state_name;
use wakepath_hardware::{IdleState, IdleStates};
use wakepath_policies::input::{ReadError, read_states};
use wakepath_units::{Nanoseconds, pasted};

use super::counters::{Counters, Dump, DumpError};
use super::text::Values;

/// Limit on the size of a file with idle states in bytes, beyond any table or dump.
const LONGEST: u64 = 16 << 20;

/// Idle states that somebody gave as a file.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenStates {
    /// The given idle states, shallowest first.
    pub states: IdleStates,
    /// Notes about what was left out of the file or taken for granted.
    pub notes: Vec<String>,
}

/// Why a file gives no table of idle states.
#[derive(Debug, thiserror::Error)]
pub enum GivenStatesError {
    /// The file is a dump with a fault.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// The file is a state table with a fault.
    #[error(transparent)]
    Table(#[from] ReadError),
    /// The file is neither a dump nor a state table.
    #[error(
        "{0}; or give a dump of /sys/devices/system/cpu/cpu*/cpuidle as `wakepath counters` reads it"
    )]
    Neither(ReadError),
}

impl GivenStates {
    /// Reads a state table, or a dump in any form of [`Dump::read_series`], also a folder.
    ///
    /// # Errors
    /// It cannot be read, is neither, or the states are not in order.
    pub fn read_file_or_folder(path: &Path) -> Result<Self, GivenStatesError> {
        let name = path.display().to_string();
        if !path.is_dir() {
            let file = wakepath_files::open_regular_file(path)
                .map_err(|e| DumpError::io_error(path, e))?;
            return Self::read_input(file, &name);
        }
        let mut values = Values::default();
        values
            .add_counters_in_folder(path)
            .map_err(|e| DumpError::io_error(path, e))?;
        Ok(states_of_first_declaring_cpu(values, path)?)
    }

    /// Reads the same from `input`, called `name_in_errors` in errors.
    ///
    /// # Errors
    /// As [`Self::read_file_or_folder`].
    pub fn read_input(input: impl Read, name_in_errors: &str) -> Result<Self, GivenStatesError> {
        let path = Path::new(name_in_errors);
        let mut bytes = Vec::new();
        input
            .take(LONGEST)
            .read_to_end(&mut bytes)
            .map_err(|e| DumpError::io_error(path, e))?;
        let mut values = Values::default();
        let found = values.add_possibly_compressed(&bytes[..]);
        if !values.is_empty() {
            found.map_err(|e| DumpError::io_error(path, e))?;
            return Ok(states_of_first_declaring_cpu(values, path)?);
        }
        let text = pasted::without_hosts(pasted::decode_text(&bytes))
            .map_err(|several| DumpError::io_error(path, io::Error::other(several)))?;
        match read_states(text.as_bytes(), name_in_errors) {
            Ok(states) => Ok(Self {
                states,
                notes: Vec::new(),
            }),
            Err(error) if error.field.is_none() && error.line.is_none_or(|line| line <= 1) => {
                Err(GivenStatesError::Neither(error))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The idle states of the first CPU that declares any.
fn states_of_first_declaring_cpu(values: Values, path: &Path) -> Result<GivenStates, DumpError> {
    let mut dumps = values
        .into_one_or_two_dumps()
        .map_err(|problem| DumpError::content_error(path, problem))?;
    let Dump { cpus, notes, .. } = dumps.pop().unwrap_or_default();
    let Some((cpu, states)) = cpus.iter().find(|(_, states)| has_any_latency(states)) else {
        let missing = "no latencies of idle states; a dump for this has `latency` and `residency` of each state";
        return Err(DumpError::content_error(path, missing.to_owned()));
    };
    if let Some((index, _)) = states.iter().find(|(_, s)| s.latency_us.is_none()) {
        let problem =
            format!("cpu{cpu}/cpuidle/state{index} has no latency, and other states have one");
        return Err(DumpError::content_error(path, problem));
    }
    let (list, mut all_notes) = (to_declared_states(states), notes);
    let assumed: Vec<&str> = list
        .iter()
        .zip(states.values())
        .filter(|(_, counters)| counters.residency_us.is_none())
        .map(|(state, _)| state.name.as_str())
        .collect();
    if !assumed.is_empty() {
        all_notes.push(format!(
            "no residency of {}; twice the latency is assumed, as acpi_idle does",
            assumed.join(", ")
        ));
    }
    if states.len() < states.keys().max().map_or(0, |last| *last as usize + 1) {
        all_notes.push("the first of its states, or one between, is not in it".to_owned());
    }
    let others = cpus
        .values()
        .filter(|other| has_any_latency(other) && to_declared_states(other) != list)
        .count();
    if others > 0 {
        all_notes.push(format!(
            "the states are those of cpu{cpu}; {others} other CPUs have other ones"
        ));
    }
    Ok(GivenStates {
        states: IdleStates::new(list)
            .map_err(|error| DumpError::content_error(path, error.to_string()))?,
        notes: all_notes,
    })
}

fn has_any_latency(states: &BTreeMap<u32, Counters>) -> bool {
    states.values().any(|state| state.latency_us.is_some())
}

/// The idle states that a CPU declares, as governors see them.
fn to_declared_states(states: &BTreeMap<u32, Counters>) -> Vec<IdleState> {
    let declared = states.iter().map(|(index, counters)| {
        let known = counters.name.clone();
        let name = known.unwrap_or_else(|| format!("state{index}"));
        let latency_us = counters.latency_us.unwrap_or(0);
        // A missing target residency is filled in as on a live machine without such a file.
        let residency_us = counters
            .residency_us
            .unwrap_or(latency_us.saturating_mul(2));
        IdleState {
            exit_latency: Nanoseconds::from_micros(latency_us),
            target_residency: Nanoseconds::from_micros(residency_us),
            polling: is_polling_state_name(&name),
            disabled: counters.disable.is_some_and(|value| value != 0),
            name,
        }
    });
    declared.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<GivenStates, String> {
        GivenStates::read_input(text.as_bytes(), "given").map_err(|e| e.to_string())
    }

    const TABLE: &str = "POLL,0,0,1,0\nC1,2000,3000,0,0\nC6,133000,400000,0,1\n";

    #[test]
    fn a_dump_gives_the_states_of_a_table() {
        let expected = read(TABLE).unwrap();
        let mut grep = String::new();
        for (index, (name, latency, residency, disable)) in
            [("POLL", 0, 0, 0), ("C1", 2, 3, 0), ("C6", 133, 400, 1)]
                .into_iter()
                .enumerate()
        {
            let folder = format!("/sys/devices/system/cpu/cpu0/cpuidle/state{index}");
            let files = format!(
                "{folder}/name:{name}\n{folder}/latency:{latency}\n{folder}/residency:{residency}\n{folder}/disable:{disable}\n{folder}/usage:5\n"
            );
            grep.push_str(&files);
        }
        assert_eq!(read(&grep).unwrap(), expected);
        let wide: Vec<u8> = format!("\u{feff}{TABLE}")
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        assert_eq!(
            GivenStates::read_input(&wide[..], "given").unwrap(),
            expected
        );
        let cpupower = "CPUidle driver: intel_idle\nanalyzing CPU 0:\n\nAvailable idle states: POLL C1 C6\nPOLL:\n\
            Flags/Description: CPUIDLE CORE POLL IDLE\nLatency: 0\nResidency: 0\nUsage: 1\nC1:\nFlags/Description: MWAIT 0x00\n\
            Latency: 2\nResidency: 3\nC6 (DISABLED) :\nFlags/Description: MWAIT 0x20\nLatency: 133\nResidency: 400\n";
        assert_eq!(read(cpupower).unwrap(), expected);
        let old = read(&cpupower.replace("Residency: 400\n", "")).unwrap();
        assert_eq!(old.states[2].target_residency, Nanoseconds(266_000));
        assert!(
            old.notes[0].starts_with("no residency of C6;"),
            "{:?}",
            old.notes
        );
        let other = grep
            .replace("cpu0", "cpu1")
            .replace("latency:133", "latency:134");
        let kinds = read(&(grep + &other)).unwrap();
        assert!(kinds.notes[0].contains("1 other CPUs"), "{:?}", kinds.notes);
    }

    #[test]
    fn what_gives_no_states_is_named() {
        let counters = read("/sys/devices/system/cpu/cpu0/cpuidle/state0/usage:5\n").unwrap_err();
        assert!(counters.starts_with("given: no latencies"), "{counters}");
        let states =
            [("state0", 5), ("state1", 7)].map(|(state, us)| format!("{state}/usage:{us}\n"));
        let partly = format!("{}state0/latency:1\n", states.concat());
        let partly = read(&partly).unwrap_err();
        assert!(partly.contains("state1 has no latency"), "{partly}");
        let foreign = read("hello\n").unwrap_err();
        assert!(
            foreign.starts_with("given:1: expected 5 fields") && foreign.contains("cpuidle"),
            "{foreign}"
        );
        let damaged = read("C1,nan,1,0,0\n").unwrap_err();
        assert!(
            damaged.starts_with("given:1: exit_latency_ns: expected"),
            "{damaged}"
        );
    }
}
