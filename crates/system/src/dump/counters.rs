//! Counters of idle states at a moment, and what was counted between two moments.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use wakepath_units::printable::escape_for_one_line;

use crate::counters::is_more_than_entries;

/// Tolerance for idle times longer than the time between two dumps: reading a dump takes its time, too.
const LONGER_THAN_SPAN: f64 = 1.05;

/// Why a dump of idle-state counters cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The file system's.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file or folder that could not be read.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A dump's file has unexpected content.
    #[error("{}: {problem}", path.display())]
    Content {
        /// Path of the file or folder with the content.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// Two dumps do not belong together.
    #[error("{0}")]
    Pair(String),
}

impl DumpError {
    pub(super) fn io_error(path: &Path, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn content_error(path: &Path, problem: String) -> Self {
        Self::Content {
            path: path.to_owned(),
            problem,
        }
    }
}

/// The counters of an idle state on a CPU, as read from a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) name: Option<String>,
    pub(super) usage: Option<u64>,
    pub(super) time_us: Option<u64>,
    pub(super) above: Option<u64>,
    pub(super) below: Option<u64>,
    pub(super) rejected: Option<u64>,
    pub(super) latency_us: Option<u64>,
    pub(super) residency_us: Option<u64>,
    pub(super) disable: Option<u64>,
}

/// A dump: the counters of idle states at a moment.
#[derive(Clone, Debug, Default)]
pub struct Dump {
    /// Counters by CPU and by index of the idle state.
    pub(super) cpus: BTreeMap<u32, BTreeMap<u32, Counters>>,
    /// How long the machine had been up, if `/proc/uptime` is in the dump.
    pub(super) uptime_s: Option<f64>,
    /// Notes about what was left out of the dump or taken for granted.
    pub(super) notes: Vec<String>,
}

/// What was counted between two dumps, or since boot.
#[derive(Clone, Debug, Serialize)]
pub struct Counted {
    /// Time between the dumps in seconds; `None` if not known.
    pub seconds: Option<f64>,
    /// Number of CPUs that were counted.
    pub cpus: usize,
    /// Counts summed over the CPUs, by idle state, shallowest first.
    pub states: Vec<StateSum>,
    /// Counts of each CPU.
    pub by_cpu: Vec<(u32, Vec<StateSum>)>,
    /// Notes about what was left out, with reasons.
    pub notes: Vec<String>,
}

/// What was counted for an idle state.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StateSum {
    /// The driver's name for the state.
    pub state: String,
    /// Time spent in the state in us; `None`: not in the dump, as with each counter.
    pub time_us: Option<u64>,
    /// Entries.
    pub usage: Option<u64>,
    /// Number of idle periods too short for the state. Old kernels do not count them.
    pub above: Option<u64>,
    /// Number of idle periods for which a deeper state would have been right.
    pub below: Option<u64>,
    /// Number of entries into the state that the CPU refused.
    pub rejected: Option<u64>,
}

impl Dump {
    /// Counts since boot.
    pub fn counts_since_boot(&self, seconds: Option<f64>) -> Counted {
        let by_cpu = self.cpus.iter().map(|(cpu, states)| {
            let sums = states
                .iter()
                .map(|(index, state)| state.increase_since(*index, &Counters::ZERO));
            (*cpu, sums.collect())
        });
        let counted = Counted::sum_over_cpus(by_cpu.collect());
        let mut notes = self.notes.clone();
        notes.push("one dump only: everything since the start of the machine".to_owned());
        counted.with_duration_and_notes(seconds.or(self.uptime_s), notes)
    }

    /// What was counted from an earlier dump to this one. `seconds`: the time between, if the dumps have none.
    ///
    /// # Errors
    /// No CPU is in both, all counters go back, or the machine had been up for less time at this one.
    pub fn counts_since(&self, before: &Self, seconds: Option<f64>) -> Result<Counted, DumpError> {
        let mut notes = [&before.notes[..], &self.notes[..]].concat();
        notes.dedup();
        add_note_if_any_places(
            &mut notes,
            "only in the second dump, and left out",
            &self.places_missing_in(before),
        );
        add_note_if_any_places(
            &mut notes,
            "only in the first dump, and left out",
            &before.places_missing_in(self),
        );
        let differences = Differences::compare_dumps(before, self);
        differences.check_any_cpu_countable()?;
        let uptimes = before.uptime_s.zip(self.uptime_s);
        if let Some((then, now)) = uptimes.filter(|(then, now)| now < then) {
            return Err(DumpError::Pair(format!(
                "the machine had been up for {then:.0} s at the first dump and for {now:.0} s at the second; {SAME_START}"
            )));
        }
        add_note_if_any_places(
            &mut notes,
            "other idle states, left out",
            &differences.other_states,
        );
        add_note_if_any_places(
            &mut notes,
            "counters that go back, left out",
            &differences.going_back,
        );
        let counted = Counted::sum_over_cpus(differences.counted);
        if counted.states.iter().all(StateSum::is_zero) {
            notes.push("nothing was counted between the dumps: are they the same?".to_owned());
        }
        let between = uptimes.map(|(then, now)| now - then).filter(|s| *s > 0.0);
        Ok(counted.with_duration_and_notes(seconds.or(between), notes))
    }

    /// CPUs and states that another dump lacks.
    fn places_missing_in(&self, other: &Self) -> Vec<String> {
        let mut missing = Vec::new();
        for (cpu, states) in &self.cpus {
            let Some(others) = other.cpus.get(cpu) else {
                missing.push(format!("cpu{cpu}"));
                continue;
            };
            let indices = states.keys().filter(|index| !others.contains_key(index));
            missing.extend(indices.map(|index| format!("cpu{cpu}/state{index}")));
        }
        missing
    }
}

/// Adds a note about places, if there are any.
fn add_note_if_any_places(notes: &mut Vec<String>, fact: &str, places: &[String]) {
    if !places.is_empty() {
        notes.push(format!("{fact}: {}", join_first_items(places)));
    }
}

/// The CPUs that two dumps have in common, and what speaks against counting some.
#[derive(Default)]
struct Differences {
    /// Counts between the two dumps, by CPU.
    counted: Vec<(u32, Vec<StateSum>)>,
    /// CPUs whose idle states have other names in the second dump, each with an example.
    other_states: Vec<String>,
    /// CPUs with a counter that is lower in the second dump, each with an example.
    going_back: Vec<String>,
}

impl Differences {
    fn compare_dumps(before: &Dump, after: &Dump) -> Self {
        let mut differences = Self::default();
        for (cpu, states) in &after.cpus {
            let Some(earlier) = before.cpus.get(cpu) else {
                continue;
            };
            if let Some(state) = describe_first_renamed_state(earlier, states) {
                differences.other_states.push(format!("cpu{cpu} ({state})"));
            } else if let Some(counter) = describe_first_decreased_counter(earlier, states) {
                differences.going_back.push(format!("cpu{cpu} ({counter})"));
            } else {
                let sums = states.iter().filter_map(|(index, state)| {
                    Some(state.increase_since(*index, earlier.get(index)?))
                });
                differences.counted.push((*cpu, sums.collect()));
            }
        }
        differences
    }

    /// Refuses two dumps between which no CPU can be counted.
    ///
    /// # Errors
    /// The reason.
    fn check_any_cpu_countable(&self) -> Result<(), DumpError> {
        if !self.counted.is_empty() {
            return Ok(());
        }
        Err(DumpError::Pair(if !self.going_back.is_empty() {
            format!(
                "the counters go back: {}; {SAME_START}",
                join_first_items(&self.going_back)
            )
        } else if !self.other_states.is_empty() {
            format!(
                "the idle states differ: {}; give two dumps of the same machine, driver and kernel",
                join_first_items(&self.other_states)
            )
        } else {
            "the two dumps have no CPU in common: they are of different machines".to_owned()
        }))
    }
}

impl Counters {
    /// Nothing counted.
    const ZERO: Self = Self {
        name: None,
        usage: Some(0),
        time_us: Some(0),
        above: Some(0),
        below: Some(0),
        rejected: Some(0),
        latency_us: None,
        residency_us: None,
        disable: None,
    };

    /// Whether the dump has any counter of this state.
    pub(super) fn has_any_counter(&self) -> bool {
        let counters = [
            self.usage,
            self.time_us,
            self.above,
            self.below,
            self.rejected,
        ];
        counters.iter().any(Option::is_some)
    }

    /// What was counted for a state since an earlier dump. A counter missing in either dump is unknown.
    fn increase_since(&self, state_index: u32, before: &Self) -> StateSum {
        StateSum {
            state: self
                .name
                .clone()
                .unwrap_or_else(|| format!("state{state_index}")),
            time_us: counter_increase(self.time_us, before.time_us),
            usage: counter_increase(self.usage, before.usage),
            above: counter_increase(self.above, before.above),
            below: counter_increase(self.below, before.below),
            rejected: counter_increase(self.rejected, before.rejected),
        }
    }
}

impl Counted {
    /// Sums the counts of all CPUs by state.
    fn sum_over_cpus(by_cpu: Vec<(u32, Vec<StateSum>)>) -> Self {
        let mut states: Vec<StateSum> = Vec::new();
        for sum in by_cpu.iter().flat_map(|(_, states)| states) {
            match states.iter_mut().find(|known| known.state == sum.state) {
                Some(known) => known.add_known_counts(sum),
                None => states.push(sum.clone()),
            }
        }
        Self {
            seconds: None,
            cpus: by_cpu.len(),
            states,
            by_cpu,
            notes: Vec::new(),
        }
    }
}

impl Counted {
    /// The same counts, with the time in seconds that they cover, and notes. Impossible counts become unknown.
    fn with_duration_and_notes(mut self, seconds: Option<f64>, mut notes: Vec<String>) -> Self {
        notes.extend(self.forget_impossible_counts());
        let times = self.states.iter().filter_map(|s| s.time_us);
        let idle_s: f64 = times.map(|us| us as f64 / 1e6).sum();
        let cpus = self.cpus;
        if let Some(seconds) = seconds.filter(|s| idle_s > s * cpus as f64 * LONGER_THAN_SPAN) {
            notes.push(format!(
                "{cpus} CPUs were idle for {idle_s:.1} s together, which does not fit into {seconds:.3} s. The time \
                 between the dumps is not right, nor are shares and rates"
            ));
        }
        Self {
            seconds,
            notes,
            ..self
        }
    }
}

impl Counted {
    /// Makes counts of too deep and too shallow entries unknown where they are more than the entries; returns a note for each
    /// state.
    fn forget_impossible_counts(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        for sum in &mut self.states {
            let each = self.by_cpu.iter_mut().flat_map(|(cpu, states)| {
                let same = states.iter_mut().filter(|state| state.state == sum.state);
                same.map(|state| (*cpu, state))
            });
            let mut noted = false;
            for (cpu, state) in each {
                let usage = state.usage;
                for (name, count, total) in [
                    ("above", &mut state.above, &mut sum.above),
                    ("below", &mut state.below, &mut sum.below),
                ] {
                    let Some((found, entries)) = count
                        .zip(usage)
                        .filter(|(found, entries)| is_more_than_entries(*found, *entries))
                    else {
                        continue;
                    };
                    (*count, *total) = (None, None);
                    if !noted {
                        notes.push(format!(
                            "{name} of {} on cpu{cpu} is {found}, of {entries} entries: no kernel counts so, and such counts are left \
                             out. Is the dump damaged?",
                            escape_for_one_line(&sum.state)
                        ));
                    }
                    noted = true;
                }
            }
        }
        notes
    }
}

impl StateSum {
    /// Whether no existing counter increased.
    fn is_zero(&self) -> bool {
        let counters = [
            self.usage,
            self.time_us,
            self.above,
            self.below,
            self.rejected,
        ];
        counters.iter().flatten().all(|count| *count == 0)
    }

    fn add_known_counts(&mut self, other: &Self) {
        self.time_us = sum_if_both_known(self.time_us, other.time_us);
        self.usage = sum_if_both_known(self.usage, other.usage);
        self.above = sum_if_both_known(self.above, other.above);
        self.below = sum_if_both_known(self.below, other.below);
        self.rejected = sum_if_both_known(self.rejected, other.rejected);
    }
}

/// Increase of a counter between two dumps; `None` if it is missing in either dump.
fn counter_increase(now: Option<u64>, then: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(then?))
}

fn sum_if_both_known(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    Some(a?.saturating_add(b?))
}

const SAME_START: &str = "give the earlier dump first, and two of the same start of the machine";

/// The first state whose name changed on a CPU.
fn describe_first_renamed_state(
    before: &BTreeMap<u32, Counters>,
    now: &BTreeMap<u32, Counters>,
) -> Option<String> {
    now.iter().find_map(|(index, state)| {
        let then = before.get(index)?.name.as_deref();
        let (is, was) = state.name.as_deref().zip(then)?;
        (is != was).then(|| format!("state{index} is {is} and was {was}"))
    })
}

/// The first counter that decreased on a CPU.
fn describe_first_decreased_counter(
    before: &BTreeMap<u32, Counters>,
    now: &BTreeMap<u32, Counters>,
) -> Option<String> {
    now.iter().find_map(|(index, state)| {
        let then = before.get(index)?;
        let unnamed = format!("state{index}");
        let name = state.name.as_deref().unwrap_or(&unnamed);
        [
            ("usage", then.usage, state.usage),
            ("time", then.time_us, state.time_us),
            ("above", then.above, state.above),
            ("below", then.below, state.below),
            ("rejected", then.rejected, state.rejected),
        ]
        .into_iter()
        .filter_map(|(what, then, now)| Some((what, then?, now?)))
        .find(|(_, then, now)| now < then)
        .map(|(what, then, now)| format!("{what} of {name} from {then} to {now}"))
    })
}

/// The first items of a list, for a message.
fn join_first_items(items: &[String]) -> String {
    const SHOWN: usize = 4;
    let shown = items
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    match items.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
