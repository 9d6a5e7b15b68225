//! Real systems as their own kernels described them: idle states with the declared latencies, and
//! frequency settings. Recorded, not modelled: nothing here says what the hardware really takes.
//!
//! The data is in `data/recorded_systems`, read once on first use.

mod error;

use std::sync::OnceLock;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wakepath_units::{Kilohertz, Nanoseconds};

use crate::idle::{IdleState, IdleStates, is_polling_state_name};
use crate::processor::{self, Processor};

pub use error::RecordError;

const IDLE_STATES: &str = include_str!("../data/recorded_systems/idle_states.csv");
const FREQUENCY: &str = include_str!("../data/recorded_systems/frequency.csv");
const INTEL_IDLE: &str = include_str!("../data/recorded_systems/intel_idle.csv");

/// Names of the files with recorded data, for errors.
const IDLE_FILE: &str = "idle_states.csv";
const FREQUENCY_FILE: &str = "frequency.csv";

/// A real system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordedSystem {
    /// Short name of the system, given by the recorder.
    pub name: String,
    /// The processor's name, as the processor itself gives it.
    pub cpu_model: String,
    /// CPUID family and model, decimal: `6/85`.
    pub family_model: String,
    /// Release of the kernel that ran.
    pub kernel: String,
    /// Recorded idle states; `None` if they were not recorded.
    pub idle: Option<RecordedIdle>,
    /// Recorded frequency policies, without repetitions.
    pub frequency: Vec<RecordedPolicy>,
    /// Content of `intel_pstate/hwp_dynamic_boost`; `None` where the kernel does not offer it.
    pub hwp_dynamic_boost: Option<bool>,
    /// Content of `intel_pstate/status`: `active` or `passive`; `None` without that driver.
    pub intel_pstate_status: Option<String>,
    /// Further figures of the processors, where known.
    pub processor: Option<Processor>,
    /// Where the record is from.
    pub source: String,
}

/// What a [`RecordedSystem`] says about idle states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedIdle {
    /// cpuidle driver.
    pub driver: String,
    /// cpuidle governor.
    pub governor: String,
    /// Number of CPUs with recorded idle states: at most 66, even on bigger systems.
    pub recorded_cpus: usize,
    /// The idle states as declared. A state that is off by default is `disabled`.
    pub states: IdleStates,
}

/// A cpufreq policy of a [`RecordedSystem`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedPolicy {
    /// The policy's number: the number of its first CPU.
    pub policy: usize,
    /// cpufreq driver.
    pub driver: String,
    /// cpufreq governor.
    pub governor: String,
    /// Lowest frequency.
    pub min: Kilohertz,
    /// Highest frequency.
    pub max: Kilohertz,
    /// The guaranteed frequency, where reported.
    pub base: Option<Kilohertz>,
    /// Declared time for a frequency change; drivers without a value report 0.
    pub transition_latency: Nanoseconds,
    /// The frequencies to choose from, where the driver lists them.
    pub available: Vec<Kilohertz>,
    /// The energy-performance preference, if any.
    pub epp: Option<String>,
    /// The highest performance that ACPI declares (`acpi_cppc/highest_perf`), if any.
    pub highest_performance: Option<u32>,
}

/// Idle-state table from a kernel driver, for one processor family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DriverTable {
    /// The name that the driver has for the table.
    pub name: String,
    /// The idle states, with the polling state that the kernel puts before them. A state that the driver marks as not
    /// to be used is `disabled`.
    pub states: IdleStates,
    /// File and line.
    pub source: String,
}

/// The 46 recorded systems, by name.
#[expect(
    clippy::expect_used,
    reason = "the data is part of the build and tested"
)]
pub fn builtin_recorded_systems() -> &'static [RecordedSystem] {
    static SYSTEMS: OnceLock<Vec<RecordedSystem>> = OnceLock::new();
    SYSTEMS.get_or_init(|| {
        parse_systems(IDLE_STATES, FREQUENCY).expect("the recorded systems are well-formed")
    })
}

/// Finds a recorded system by name.
pub fn find_recorded_system(name: &str) -> Option<&'static RecordedSystem> {
    builtin_recorded_systems().iter().find(|s| s.name == name)
}

/// The 26 tables of the intel_idle driver in Linux 6.12, oldest processor first.
#[expect(
    clippy::expect_used,
    reason = "the data is part of the build and tested"
)]
pub fn builtin_intel_idle_tables() -> &'static [DriverTable] {
    static TABLES: OnceLock<Vec<DriverTable>> = OnceLock::new();
    TABLES.get_or_init(|| parse_driver_tables(INTEL_IDLE).expect("the tables are well-formed"))
}

#[derive(Deserialize)]
struct IdleRow {
    system: String,
    cpu_model: String,
    family_model: String,
    kernel: String,
    driver: String,
    governor: String,
    cpus: String,
    state: usize,
    name: String,
    exit_latency_us: u64,
    target_residency_us: u64,
    default_status: String,
    src_repo: String,
    src_commit: String,
    src_path: String,
}

#[derive(Deserialize)]
struct FrequencyRow {
    system: String,
    cpu_model: String,
    family_model: String,
    kernel: String,
    policy: usize,
    driver: String,
    governor: String,
    min_khz: u32,
    max_khz: u32,
    base_khz: Option<u32>,
    transition_latency_ns: u64,
    available_khz: String,
    epp: String,
    cppc_highest: Option<u32>,
    hwp_dynamic_boost: Option<u8>,
    intel_pstate_status: String,
    src_repo: String,
    src_commit: String,
    src_path: String,
}

#[derive(Deserialize)]
struct TableRow {
    table: String,
    name: String,
    flags: String,
    exit_latency_us: u64,
    target_residency_us: u64,
    src_file: String,
    src_line: u64,
}

/// Reads recorded systems: a CSV with one row per idle state and one with a row per frequency
/// policy, as described in `data/README.md`. The idle states of a system follow each other.
///
/// # Errors
/// The first row that is malformed, out of order, or contradicts another row for the same system.
pub fn parse_systems(idle: &str, frequency: &str) -> Result<Vec<RecordedSystem>, RecordError> {
    let mut systems: Vec<RecordedSystem> = Vec::new();
    for (line, row) in parse_numbered_rows::<FrequencyRow>(FREQUENCY_FILE, frequency)? {
        add_policy(&mut systems, row).map_err(|what| record_error(FREQUENCY_FILE, line, what))?;
    }
    let idle_rows = parse_numbered_rows::<IdleRow>(IDLE_FILE, idle)?;
    for group in idle_rows.chunk_by(|a, b| a.1.system == b.1.system) {
        add_idle_states(&mut systems, group)?;
    }
    Ok(systems)
}

fn record_error(file: &'static str, line: u64, what: impl Into<String>) -> RecordError {
    RecordError {
        file,
        line,
        what: what.into(),
    }
}

/// Adds the frequency policy of a CSV row to its system, which is added with its first row.
fn add_policy(systems: &mut Vec<RecordedSystem>, row: FrequencyRow) -> Result<(), &'static str> {
    let available = row
        .available_khz
        .split_whitespace()
        .map(|khz| khz.parse().map(Kilohertz))
        .collect::<Result<_, _>>()
        .map_err(|_| "available_khz is a list of frequencies")?;
    if row.min_khz == 0 || row.min_khz > row.max_khz {
        return Err("min_khz is above 0 and at most max_khz");
    }
    let hwp_dynamic_boost = match row.hwp_dynamic_boost {
        None => None,
        Some(0) => Some(false),
        Some(1) => Some(true),
        Some(_) => return Err("hwp_dynamic_boost is 0, 1 or empty"),
    };
    let policy = RecordedPolicy {
        policy: row.policy,
        driver: row.driver,
        governor: row.governor,
        min: Kilohertz(row.min_khz),
        max: Kilohertz(row.max_khz),
        base: row.base_khz.map(Kilohertz),
        transition_latency: Nanoseconds(row.transition_latency_ns),
        available,
        epp: text_unless_empty(row.epp),
        highest_performance: row.cppc_highest,
    };
    let status = text_unless_empty(row.intel_pstate_status);
    match systems.iter_mut().find(|s| s.name == row.system) {
        Some(system) => {
            if system.hwp_dynamic_boost != hwp_dynamic_boost || system.intel_pstate_status != status
            {
                return Err("a system has one state of intel_pstate");
            }
            system.frequency.push(policy);
        }
        None => systems.push(RecordedSystem {
            processor: processor::find_processor_of_system(&row.system).cloned(),
            name: row.system,
            cpu_model: row.cpu_model,
            family_model: row.family_model,
            kernel: row.kernel,
            idle: None,
            frequency: vec![policy],
            hwp_dynamic_boost,
            intel_pstate_status: status,
            source: format!("{}@{} {}", row.src_repo, row.src_commit, row.src_path),
        }),
    }
    Ok(())
}

/// Adds the idle states in the CSV rows of a system.
fn add_idle_states(
    systems: &mut [RecordedSystem],
    group: &[(u64, IdleRow)],
) -> Result<(), RecordError> {
    let [(line, first), ..] = group else {
        return Ok(());
    };
    let system = systems
        .iter_mut()
        .find(|s| s.name == first.system)
        .ok_or_else(|| record_error(IDLE_FILE, *line, "the system has no row in frequency.csv"))?;
    check_same_system(system, first).map_err(|what| record_error(IDLE_FILE, *line, what))?;
    let mut states = Vec::new();
    for (expected, (line, row)) in group.iter().enumerate() {
        let state = decode_idle_state(row, expected)
            .map_err(|what| record_error(IDLE_FILE, *line, what))?;
        states.push(state);
    }
    system.idle = Some(RecordedIdle {
        driver: first.driver.clone(),
        governor: first.governor.clone(),
        recorded_cpus: parse_cpu_count(&first.cpus).ok_or_else(|| {
            record_error(IDLE_FILE, *line, "cpus is a range and its size: 0-7(8)")
        })?,
        states: IdleStates::new(states)
            .map_err(|e| record_error(IDLE_FILE, *line, e.to_string()))?,
    });
    Ok(())
}

/// Checks that a system has no idle states yet, and that the first row is about the same system.
fn check_same_system(system: &RecordedSystem, first: &IdleRow) -> Result<(), &'static str> {
    if system.idle.is_some() {
        return Err("the rows of a system follow each other");
    }
    let source = format!("{}@{} {}", first.src_repo, first.src_commit, first.src_path);
    let known = [
        &system.cpu_model,
        &system.family_model,
        &system.kernel,
        &system.source,
    ];
    if known
        != [
            &first.cpu_model,
            &first.family_model,
            &first.kernel,
            &source,
        ]
    {
        return Err("frequency.csv describes the system differently");
    }
    Ok(())
}

fn decode_idle_state(row: &IdleRow, expected: usize) -> Result<IdleState, &'static str> {
    if row.state != expected {
        return Err("states are numbered from 0 on");
    }
    let disabled = match row.default_status.as_str() {
        "enabled" => false,
        "disabled" => true,
        _ => return Err("default_status is enabled or disabled"),
    };
    Ok(declared_idle_state(
        &row.name,
        row.exit_latency_us,
        row.target_residency_us,
        disabled,
    ))
}

/// Reads a driver's idle-state tables: one row per state, tables in sequence.
///
/// # Errors
/// The first row that is malformed, or that makes a table no driver can have.
pub fn parse_driver_tables(text: &str) -> Result<Vec<DriverTable>, RecordError> {
    const FILE: &str = "intel_idle.csv";
    parse_numbered_rows::<TableRow>(FILE, text)?
        .chunk_by(|a, b| a.1.table == b.1.table)
        .map(|group| {
            let (line, first) = &group[0];
            let states = std::iter::once(declared_idle_state("POLL", 0, 0, false))
                .chain(group.iter().map(|(_, row)| {
                    declared_idle_state(
                        &row.name,
                        row.exit_latency_us,
                        row.target_residency_us,
                        row.flags.contains("CPUIDLE_FLAG_UNUSABLE"),
                    )
                }))
                .collect();
            Ok(DriverTable {
                name: first.table.clone(),
                states: IdleStates::new(states).map_err(|e| RecordError {
                    file: FILE,
                    line: *line,
                    what: e.to_string(),
                })?,
                source: format!("{}:{}", first.src_file, first.src_line),
            })
        })
        .collect()
}

/// An idle state as the kernel declares it.
fn declared_idle_state(name: &str, exit_us: u64, residency_us: u64, disabled: bool) -> IdleState {
    IdleState {
        name: name.to_owned(),
        exit_latency: Nanoseconds::from_micros(exit_us),
        target_residency: Nanoseconds::from_micros(residency_us),
        polling: is_polling_state_name(name),
        disabled,
    }
}

/// The count `8` in `0-7(8)`.
fn parse_cpu_count(cpus: &str) -> Option<usize> {
    cpus.strip_suffix(')')?.split_once('(')?.1.parse().ok()
}

fn text_unless_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// Parses all rows of a CSV file with a header, each with its line number.
fn parse_numbered_rows<T: DeserializeOwned>(
    file: &'static str,
    text: &str,
) -> Result<Vec<(u64, T)>, RecordError> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|e| csv_error(file, &e))?.clone();
    let mut all = Vec::new();
    for read in reader.records() {
        let record = read.map_err(|e| csv_error(file, &e))?;
        let line = record.position().map_or(0, csv::Position::line);
        let row = record
            .deserialize(Some(&headers))
            .map_err(|e| csv_error(file, &e))?;
        all.push((line, row));
    }
    Ok(all)
}

fn csv_error(file: &'static str, e: &csv::Error) -> RecordError {
    RecordError {
        file,
        line: e.position().map_or(0, csv::Position::line),
        what: e.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_46_systems_and_the_idle_states_of_45() {
        assert_eq!(builtin_recorded_systems().len(), 46);
        let without: Vec<_> = builtin_recorded_systems()
            .iter()
            .filter(|s| s.idle.is_none())
            .collect();
        assert_eq!(without.len(), 1);
        assert_eq!(without[0].name, "cwf0");
        assert!(builtin_recorded_systems().is_sorted_by_key(|s| &s.name));
    }

    #[test]
    fn a_system_is_what_its_dump_says() {
        let rome = find_recorded_system("rome0").unwrap();
        assert_eq!(rome.frequency[0].driver, "acpi-cpufreq");
        assert_eq!(
            rome.frequency[0].available,
            [2_250_000, 2_000_000, 1_500_000].map(Kilohertz)
        );
        assert_eq!(
            (rome.hwp_dynamic_boost, &rome.frequency[0].epp),
            (None, &None)
        );
        let idle = rome.idle.as_ref().unwrap();
        assert_eq!(
            (idle.driver.as_str(), idle.governor.as_str()),
            ("acpi_idle", "menu")
        );
        let last = idle.states.last().unwrap();
        assert_eq!(
            (last.name.as_str(), last.exit_latency, last.target_residency),
            (
                "C2",
                Nanoseconds::from_micros(400),
                Nanoseconds::from_micros(800)
            )
        );
        let broadwell = find_recorded_system("bdw0").unwrap().idle.as_ref().unwrap();
        let off: Vec<_> = broadwell.states.iter().filter(|s| s.disabled).collect();
        assert_eq!(off.len(), 2);
    }

    #[test]
    fn hwp_boost_is_on_where_a_server_runs_active_with_hwp() {
        let boosts = builtin_recorded_systems()
            .iter()
            .filter_map(|s| s.hwp_dynamic_boost);
        let (on, off): (Vec<bool>, Vec<bool>) = boosts.partition(|boost| *boost);
        assert_eq!((on.len(), off.len()), (17, 11));
        for s in builtin_recorded_systems()
            .iter()
            .filter(|s| s.hwp_dynamic_boost.is_some())
        {
            assert_eq!(
                s.intel_pstate_status.as_deref(),
                Some("active"),
                "{}",
                s.name
            );
        }
    }

    #[test]
    fn every_idle_table_begins_with_polling_and_goes_from_shallow_to_deep() {
        let recorded = builtin_recorded_systems()
            .iter()
            .filter_map(|s| Some((&s.name, &s.idle.as_ref()?.states)));
        let tables = builtin_intel_idle_tables()
            .iter()
            .map(|t| (&t.name, &t.states));
        for (name, states) in recorded.chain(tables) {
            assert!(
                states[0].polling && states[1..].iter().all(|s| !s.polling),
                "{name}"
            );
            assert!(states.is_sorted_by_key(|s| s.target_residency), "{name}");
        }
    }

    #[test]
    fn intel_idle_has_26_tables_with_116_states() {
        assert_eq!(builtin_intel_idle_tables().len(), 26);
        let states: usize = builtin_intel_idle_tables()
            .iter()
            .map(|t| t.states.len() - 1)
            .sum();
        assert_eq!(states, 116);
        let alder_lake = builtin_intel_idle_tables()
            .iter()
            .find(|t| t.name == "adl_cstates")
            .unwrap();
        assert!(alder_lake.states[1].disabled && !alder_lake.states[2].disabled);
    }

    #[test]
    fn damaged_data_is_an_error_with_its_line() {
        for (from, to, says) in [
            (
                "C10,MWAIT 0x60,230",
                "C10,MWAIT 0x60,-1",
                "idle_states.csv:6:",
            ),
            (
                "C10,MWAIT 0x60,230,700,enabled",
                "C10,MWAIT 0x60,230,700,on",
                "default_status",
            ),
            (
                ",4,C10,MWAIT 0x60,230",
                ",5,C10,MWAIT 0x60,230",
                "numbered from 0",
            ),
            ("0-15(16)", "0-15", "cpus is a range"),
            ("adl0,12th", "adl9,12th", "no row in frequency.csv"),
            ("i7-1260P", "i7-1270P", "describes the system differently"),
        ] {
            assert!(IDLE_STATES.contains(from), "{from}");
            let message = parse_systems(&IDLE_STATES.replacen(from, to, 1), FREQUENCY)
                .unwrap_err()
                .to_string();
            assert!(
                message.starts_with("idle_states.csv:") && message.contains(says),
                "{message}"
            );
        }
        let damaged = FREQUENCY.replacen(",400000,4700000,", ",4700000,400000,", 1);
        let message = parse_systems(IDLE_STATES, &damaged)
            .unwrap_err()
            .to_string();
        assert!(message.starts_with("frequency.csv:2: min_khz"), "{message}");
    }
}
