//! Counters of idle states at a moment, and what was counted between two moments.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

/// Idle times may be longer than the time between two dumps by this much: reading a dump takes its time, too.
const LONGER_THAN_SPAN: f64 = 1.05;

/// Why a dump cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The file system's.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has unexpected content.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file or folder.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// Two dumps do not belong together.
    #[error("{0}")]
    Pair(String),
}

/// Counters of an idle state on a CPU.
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
    /// By CPU and index of the state.
    pub(super) cpus: BTreeMap<u32, BTreeMap<u32, Counters>>,
    /// How long the machine had been up, if `/proc/uptime` is in the dump.
    pub(super) uptime_s: Option<f64>,
    /// What was left out or taken for granted.
    pub(super) notes: Vec<String>,
}

/// Counts between two dumps, or since boot.
#[derive(Clone, Debug, Serialize)]
pub struct Counted {
    /// The span in seconds; `None`: it is not known.
    pub seconds: Option<f64>,
    /// How many CPUs were counted.
    pub cpus: usize,
    /// The sums over these CPUs by state, shallowest first.
    pub states: Vec<StateSum>,
    /// The same for each CPU.
    pub by_cpu: Vec<(u32, Vec<StateSum>)>,
    /// Notes about omissions, with reasons.
    pub notes: Vec<String>,
}

/// Counts for an idle state.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StateSum {
    /// The driver's name for the state.
    pub state: String,
    /// Time in it in us; `None`: not in the dump, as with each counter.
    pub time_us: Option<u64>,
    /// Entries.
    pub usage: Option<u64>,
    /// Idle periods too short for the state. Old kernels do not count them.
    pub above: Option<u64>,
    /// Stays for which a deeper state would have been right.
    pub below: Option<u64>,
    /// Entries refused by the CPU.
    pub rejected: Option<u64>,
}

impl Dump {
    /// Counts since boot.
    pub fn since_start(&self, seconds: Option<f64>) -> Counted {
        let counted = Counted::of(self.cpus.iter().map(|(cpu, states)| {
            let states = states.iter();
            let sums = states.map(|(index, state)| state.since(*index, &Counters::ZERO));
            (*cpu, sums.collect())
        }));
        let mut notes = self.notes.clone();
        notes.push("one dump only: everything since the start of the machine".to_owned());
        counted.over(seconds.or(self.uptime_s), notes)
    }

    /// Counts from an earlier dump to this one. `seconds`: the time between, if the dumps have none.
    ///
    /// # Errors
    /// No CPU is in both, all counters go back, or the machine had been up for less time at this one.
    pub fn since(&self, before: &Self, seconds: Option<f64>) -> Result<Counted, DumpError> {
        let mut notes = [&before.notes[..], &self.notes[..]].concat();
        notes.dedup();
        let only = |of: &Self, other: &Self| -> Vec<String> {
            let mut found = Vec::new();
            for (cpu, states) in &of.cpus {
                match other.cpus.get(cpu) {
                    None => found.push(format!("cpu{cpu}")),
                    Some(others) => {
                        let missing = states.keys().filter(|state| !others.contains_key(state));
                        found.extend(missing.map(|state| format!("cpu{cpu}/state{state}")));
                    }
                }
            }
            found
        };
        for (places, which) in [
            (only(self, before), "second"),
            (only(before, self), "first"),
        ] {
            if !places.is_empty() {
                notes.push(format!(
                    "only in the {which} dump, and left out: {}",
                    listed(&places)
                ));
            }
        }
        let (mut counted, mut back, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (cpu, states) in &self.cpus {
            let Some(earlier) = before.cpus.get(cpu) else {
                continue;
            };
            if let Some(what) = other_state(earlier, states) {
                others.push(format!("cpu{cpu} ({what})"));
                continue;
            }
            if let Some(what) = goes_back(earlier, states) {
                back.push(format!("cpu{cpu} ({what})"));
                continue;
            }
            let sums = states
                .iter()
                .filter_map(|(index, state)| Some(state.since(*index, earlier.get(index)?)));
            counted.push((*cpu, sums.collect()));
        }
        if counted.is_empty() {
            return Err(DumpError::Pair(if !back.is_empty() {
                format!("the counters go back: {}; {SAME_START}", listed(&back))
            } else if !others.is_empty() {
                let others = listed(&others);
                format!(
                    "the idle states differ: {others}; give two dumps of the same machine, driver and kernel"
                )
            } else {
                "the two dumps have no CPU in common: they are of different machines".to_owned()
            }));
        }
        let uptimes = before.uptime_s.zip(self.uptime_s);
        if let Some((then, now)) = uptimes.filter(|(then, now)| now < then) {
            return Err(DumpError::Pair(format!(
                "the machine had been up for {then:.0} s at the first dump and for {now:.0} s at the second; {SAME_START}"
            )));
        }
        for (left_out, why) in [
            (&others, "other idle states"),
            (&back, "counters that go back"),
        ] {
            if !left_out.is_empty() {
                notes.push(format!("{why}, left out: {}", listed(left_out)));
            }
        }
        let counted = Counted::of(counted.into_iter());
        if counted.states.iter().all(StateSum::is_zero) {
            notes.push("nothing was counted between the dumps: are they the same?".to_owned());
        }
        let between = uptimes.map(|(then, now)| now - then).filter(|s| *s > 0.0);
        Ok(counted.over(seconds.or(between), notes))
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

    /// Whether any counter exists.
    pub(super) fn counts_something(&self) -> bool {
        let counters = [
            self.usage,
            self.time_us,
            self.above,
            self.below,
            self.rejected,
        ];
        counters.iter().any(Option::is_some)
    }

    /// Counts since an earlier dump. A counter missing in either dump is unknown.
    fn since(&self, index: u32, before: &Self) -> StateSum {
        let count = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        StateSum {
            state: self.name.clone().unwrap_or_else(|| format!("state{index}")),
            time_us: count(self.time_us, before.time_us),
            usage: count(self.usage, before.usage),
            above: count(self.above, before.above),
            below: count(self.below, before.below),
            rejected: count(self.rejected, before.rejected),
        }
    }
}

impl Counted {
    fn of(cpus: impl Iterator<Item = (u32, Vec<StateSum>)>) -> Self {
        let by_cpu: Vec<(u32, Vec<StateSum>)> = cpus.collect();
        let mut states: Vec<StateSum> = Vec::new();
        for sum in by_cpu.iter().flat_map(|(_, states)| states) {
            match states.iter_mut().find(|known| known.state == sum.state) {
                Some(known) => known.add(sum),
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
    /// The same over a time in seconds.
    fn over(self, seconds: Option<f64>, mut notes: Vec<String>) -> Self {
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

    fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
        self.time_us = sum(self.time_us, other.time_us);
        self.usage = sum(self.usage, other.usage);
        self.above = sum(self.above, other.above);
        self.below = sum(self.below, other.below);
        self.rejected = sum(self.rejected, other.rejected);
    }
}

const SAME_START: &str = "give the earlier dump first, and two of the same start of the machine";

/// The first state whose name changed on a CPU.
fn other_state(before: &BTreeMap<u32, Counters>, now: &BTreeMap<u32, Counters>) -> Option<String> {
    now.iter().find_map(|(index, state)| {
        let then = before.get(index)?.name.as_deref();
        let (is, was) = state.name.as_deref().zip(then)?;
        (is != was).then(|| format!("state{index} is {is} and was {was}"))
    })
}

/// The first counter that decreased on a CPU.
fn goes_back(before: &BTreeMap<u32, Counters>, now: &BTreeMap<u32, Counters>) -> Option<String> {
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

/// The first items of a list.
fn listed(items: &[String]) -> String {
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
