//! What a search may change: for each part of a policy set, the keys of its mechanisms with their ranges.
//!
//! A search makes its choices from this table. A new mechanism is searched once it has a row here.

use wakepath_hardware::Machine;
use wakepath_hardware::idle::IdleState;
use wakepath_hardware::machine::{Cluster, DriveModel};
use wakepath_units::Kilohertz;

use crate::mechanism::key::AnyKey;
use crate::mechanism::{Kind, Mechanism, Place, find_mechanism};

/// A part of policy sets that a search may change; a set has at most one policy of each part.
#[derive(Debug)]
pub struct SearchedPart {
    /// Name of the part, as users write it.
    pub name: &'static str,
    /// Whether a search changes the part unless the user names parts.
    pub is_default: bool,
    /// Mechanisms with the ranges of their keys.
    pub grids: &'static [KeyGrid],
}

/// A mechanism with ranges for some of its keys: every combination is a policy.
#[derive(Debug)]
pub struct KeyGrid {
    /// Name of the mechanism.
    pub mechanism: &'static str,
    /// Keys with their ranges; the values of the last key follow each other. Other keys are left out.
    pub keys: &'static [KeyRange],
}

/// The searched values of a key.
#[derive(Debug)]
pub struct KeyRange {
    /// Name of the key.
    pub key: &'static str,
    /// The searched values.
    pub values: SearchedValues,
    /// Whether the key is also left out, which comes first.
    pub may_be_left_out: bool,
}

/// Where the searched values of a key come from.
#[derive(Debug)]
pub enum SearchedValues {
    /// All words that the key accepts.
    Words,
    /// These values.
    Choices(&'static [&'static str]),
    /// Numbers from the first to the last, in equal steps on a log scale.
    LogScale {
        /// The first number.
        first: u64,
        /// The last number.
        last: u64,
        /// How many numbers there are, with both ends.
        count: u32,
        /// The unit to write behind each number.
        unit: &'static str,
    },
    /// The exit latency of each idle state but the deepest.
    ExitLatencies,
    /// The name of each idle state but the deepest.
    IdleStates,
    /// The first CPU of each kind, and the machine's last.
    SingleCpus,
    /// The exit latency of each power state of the drive without I/O, but the longest.
    DriveExitLatencies,
    /// Clocks of the frequency table.
    Clocks {
        /// Places in the sorted table, as shares of its length.
        shares: &'static [f64],
        /// Whether the clock without turbo is a value, too.
        has_base: bool,
    },
}

/// Longest searched timeout of a drive in ms.
pub const LONGEST_TIMEOUT_MS: u64 = 8000;

/// What hardware-managed frequency can be told (EPP).
const PREFERENCES: &[&str] = &[
    "performance",
    "balance_performance",
    "balance_power",
    "power",
];

/// The preferences beside `balance_performance`, which drivers have by themselves.
const OTHER_PREFERENCES: &[&str] = &["performance", "balance_power", "power"];

const fn searched_key(key: &'static str, values: SearchedValues) -> KeyRange {
    KeyRange {
        key,
        values,
        may_be_left_out: false,
    }
}

const fn log_scale(first: u64, last: u64, count: u32, unit: &'static str) -> SearchedValues {
    SearchedValues::LogScale {
        first,
        last,
        count,
        unit,
    }
}

const fn key_grid(mechanism: &'static str, keys: &'static [KeyRange]) -> KeyGrid {
    KeyGrid { mechanism, keys }
}

const fn searched_part(name: &'static str, grids: &'static [KeyGrid]) -> SearchedPart {
    SearchedPart {
        name,
        is_default: false,
        grids,
    }
}

const fn default_part(name: &'static str, grids: &'static [KeyGrid]) -> SearchedPart {
    SearchedPart {
        name,
        is_default: true,
        grids,
    }
}

use SearchedValues::{
    Choices, Clocks, DriveExitLatencies, ExitLatencies, IdleStates, SingleCpus, Words,
};

/// All searched parts. Their order numbers the sets of a space, so that seeds keep their answers as long as it stays.
#[rustfmt::skip]
pub static SEARCHED_PARTS: &[SearchedPart] = &[
    default_part("idle", &[
        key_grid("menu", &[]),
        key_grid("teo", &[]),
        key_grid("ladder", &[]),
        key_grid("haltpoll", &[]),
    ]),
    searched_part("idle-states", &[key_grid("idle-states", &[searched_key("ceiling", IdleStates)])]),
    // Leases are the daemon's: no released kernel has those of the patch. They begin with the daemon's own I/O of a burst.
    default_part("psd", &[key_grid("psd", &[
        searched_key("timeout", log_scale(1, 10, 3, "ms")),
        KeyRange { may_be_left_out: true, ..searched_key("ceiling", ExitLatencies) },
        searched_key("rule", Choices(&["daemon"])),
    ])]),
    default_part("cpu-latency", &[key_grid("cpu-latency", &[searched_key("limit", ExitLatencies)])]),
    searched_part("poll", &[
        key_grid("poll", &[searched_key("rule", Choices(&["first"]))]),
        key_grid("poll", &[searched_key("request_us", log_scale(20, 100, 2, ""))]),
    ]),
    searched_part("c1-demotion", &[key_grid("c1-demotion", &[searched_key("value", Words)])]),
    default_part("frequency", &[
        key_grid("schedutil", &[]),
        key_grid("schedutil", &[searched_key("iowait_boost", Choices(&["off"]))]),
        key_grid("performance", &[]),
        key_grid("powersave", &[]),
        key_grid("ondemand", &[]),
        key_grid("intel_pstate", &[]),
        key_grid("intel_pstate-hwp", &[]),
        key_grid("amd-pstate", &[]),
        key_grid("amd-pstate", &[searched_key("governor", Choices(&["powersave"]))]),
        key_grid("intel_pstate-hwp", &[searched_key("epp", Choices(OTHER_PREFERENCES))]),
        key_grid("amd-pstate", &[
            searched_key("governor", Choices(&["powersave"])),
            searched_key("epp", Choices(OTHER_PREFERENCES)),
        ]),
    ]),
    default_part("frequency-limits", &[
        key_grid("frequency", &[searched_key("max", Clocks { shares: &[0.2, 0.4, 0.6, 0.8], has_base: true })]),
        key_grid("frequency", &[searched_key("min", Clocks { shares: &[0.4, 0.7], has_base: false })]),
    ]),
    default_part("epp", &[key_grid("epp", &[searched_key("value", Choices(PREFERENCES))])]),
    default_part("hwp-boost", &[key_grid("hwp-boost", &[searched_key("value", Words)])]),
    default_part("apst", &[
        key_grid("apst", &[]),
        key_grid("apst", &[searched_key("rule", Choices(&["legacy"]))]),
        key_grid("apst", &[searched_key("max_latency_us", Choices(&["0"]))]),
        key_grid("apst", &[
            searched_key("primary_timeout_ms", log_scale(10, 1000, 5, "")),
            searched_key("secondary_timeout_ms", log_scale(500, LONGEST_TIMEOUT_MS, 3, "")),
        ]),
    ]),
    searched_part("read-ahead", &[
        key_grid("read-ahead", &[searched_key("kb", Choices(&["0"]))]),
        key_grid("read-ahead", &[searched_key("kb", log_scale(32, 8192, 5, ""))]),
    ]),
    searched_part("io_uring", &[key_grid("io_uring", &[searched_key("iowait", Words)])]),
    searched_part("turbo", &[key_grid("turbo", &[searched_key("value", Words)])]),
    searched_part("irq-affinity", &[key_grid("irq-affinity", &[searched_key("cpus", SingleCpus)])]),
    searched_part("rq-affinity", &[key_grid("rq-affinity", &[searched_key("value", Choices(&["0", "1", "2"]))])]),
    searched_part("aspm", &[key_grid("aspm", &[searched_key("policy", Words)])]),
    searched_part("drive-latency", &[
        key_grid("drive-latency", &[searched_key("tolerance", Choices(&["0us", "any"]))]),
        key_grid("drive-latency", &[searched_key("tolerance", DriveExitLatencies)]),
    ]),
];

/// What of a machine the ranges of keys follow from.
#[derive(Clone, Debug, Default)]
pub struct SearchedHardware {
    /// Idle states that serve as limits: all but the deepest for each kind of CPU, shallowest first, each latency once.
    limits: Vec<IdleState>,
    /// The frequency table of all CPUs, lowest first, each clock once.
    clocks: Vec<Kilohertz>,
    /// Clocks without turbo.
    base_clocks: Vec<Kilohertz>,
    /// The first CPU of each kind, and the last CPU.
    cpus: Vec<usize>,
    /// Exit latencies of the drive's power states without I/O, the shortest first, each once.
    drive_exit_latencies_us: Vec<u32>,
}

impl SearchedHardware {
    /// The ranges on a machine.
    pub fn from_machine(machine: &Machine) -> Self {
        let clusters = machine.cluster.iter();
        let states = clusters
            .clone()
            .filter_map(|cluster| machine.declared_idle_states_on_cluster(cluster).ok());
        let mut clocks: Vec<Kilohertz> = clusters.clone().flat_map(Cluster::frequencies).collect();
        clocks.sort_unstable();
        clocks.dedup();
        let base = clusters.map(|cluster| Kilohertz((cluster.base_mhz.value * 1e3) as u32));
        let mut cpus: Vec<usize> = Vec::new();
        let mut next = 0;
        for cluster in &machine.cluster {
            cpus.push(next);
            next += cluster.cpus;
        }
        cpus.push(next.saturating_sub(1));
        cpus.dedup();
        Self {
            cpus,
            drive_exit_latencies_us: list_exit_latencies_us(&machine.drive),
            base_clocks: base.filter(|base| base.0 > 0).collect(),
            clocks,
            ..Self::from_idle_states(states.map(|states| states.iter().cloned().collect()))
        }
    }

    /// The ranges where only the drive is known.
    pub fn from_drive(drive: &DriveModel) -> Self {
        Self {
            drive_exit_latencies_us: list_exit_latencies_us(drive),
            ..Self::default()
        }
    }

    /// The ranges where only idle states are known, those of each kind of CPU shallowest first.
    pub fn from_idle_states(kinds: impl IntoIterator<Item = Vec<IdleState>>) -> Self {
        let mut limits: Vec<IdleState> = Vec::new();
        for states in kinds {
            let count = states.len().saturating_sub(1);
            limits.extend(states.into_iter().take(count));
        }
        limits.sort_by_key(|state| state.exit_latency);
        limits.dedup_by_key(|state| exit_latency_us_rounded_up(state));
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The clocks at shares of the frequency table, sorted, each once.
    fn clocks_at_shares(&self, shares: &[f64], has_base: bool) -> Vec<Kilohertz> {
        let last = self.clocks.len().saturating_sub(1) as f64;
        let mut found: Vec<Kilohertz> = shares
            .iter()
            .filter_map(|share| self.clocks.get((last * share) as usize).copied())
            .chain(self.base_clocks.iter().copied().filter(|_| has_base))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Exit latencies of a drive's power states without I/O, the shortest first, each once; empty without power states.
fn list_exit_latencies_us(drive: &DriveModel) -> Vec<u32> {
    let power = drive.power.as_ref();
    let states = power.into_iter().flat_map(|power| &power.declared.states);
    let resting = states.filter(|state| state.non_operational);
    let mut latencies: Vec<u32> = resting.map(|state| state.exit_latency_us).collect();
    latencies.sort_unstable();
    latencies.dedup();
    latencies
}

/// Exit latency in whole microseconds, rounded up, so that the state itself is allowed.
fn exit_latency_us_rounded_up(state: &IdleState) -> u64 {
    state.exit_latency.0.div_ceil(1000)
}

/// A frequency in MHz, with as many decimals as it has.
fn format_megahertz(frequency: Kilohertz) -> String {
    format!("{}MHz", f64::from(frequency.0) / 1000.0)
}

/// Finds a part by its name.
pub fn find_searched_part(name: &str) -> Option<&'static SearchedPart> {
    SEARCHED_PARTS.iter().find(|part| part.name == name)
}

impl SearchedPart {
    /// The part that a decision belongs to; `None`: it is not searched.
    pub fn find_for_kind(kind: Kind) -> Option<&'static Self> {
        let has_kind = |part: &&Self| {
            let mut mechanisms = part.mechanisms();
            mechanisms.any(|mechanism| mechanism.kind == kind)
        };
        SEARCHED_PARTS.iter().find(has_kind)
    }

    /// The part's mechanisms.
    pub fn mechanisms(&self) -> impl Iterator<Item = &'static Mechanism> + use<> {
        let grids = self.grids.iter();
        grids.filter_map(|grid| find_mechanism(grid.mechanism))
    }

    /// Whether the part has a mechanism of this name.
    pub fn has_mechanism(&self, name: &str) -> bool {
        self.mechanisms().any(|mechanism| mechanism.name == name)
    }

    /// Whether any of the part's mechanisms acts at a place.
    pub fn acts_at(&self, place: Place) -> bool {
        self.mechanisms()
            .any(|mechanism| mechanism.on.contains(&place))
    }

    /// Texts of all policies of the part on a machine; the machine may refuse some.
    pub fn policy_texts(&self, hardware: &SearchedHardware) -> Vec<String> {
        let grids = self.grids.iter();
        grids.flat_map(|grid| grid.policy_texts(hardware)).collect()
    }
}

impl KeyGrid {
    /// Texts of all combinations.
    fn policy_texts(&self, hardware: &SearchedHardware) -> Vec<String> {
        let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
        for range in self.keys {
            let values = range.value_texts(self.mechanism, hardware);
            let given = values
                .into_iter()
                .map(|value| format!("{}={value}", range.key));
            let absent = range.may_be_left_out.then_some(None);
            let options: Vec<Option<String>> = absent.into_iter().chain(given.map(Some)).collect();
            combinations = combinations
                .into_iter()
                .flat_map(|keys| {
                    options.iter().map(move |option| {
                        let more = option.iter().cloned();
                        keys.iter().cloned().chain(more).collect()
                    })
                })
                .collect();
        }
        let texts = combinations.into_iter().map(|keys| {
            if keys.is_empty() {
                self.mechanism.to_owned()
            } else {
                format!("{}[{}]", self.mechanism, keys.join(","))
            }
        });
        texts.collect()
    }
}

impl KeyRange {
    fn value_texts(&self, mechanism: &str, hardware: &SearchedHardware) -> Vec<String> {
        let limits = hardware.limits.iter();
        match &self.values {
            Words => {
                let found = find_mechanism(mechanism).and_then(|found| found.find_key(self.key));
                let words = found.map(AnyKey::accepted_words).unwrap_or_default();
                words.into_iter().map(str::to_owned).collect()
            }
            Choices(choices) => choices.iter().map(|choice| (*choice).to_owned()).collect(),
            SearchedValues::LogScale {
                first,
                last,
                count,
                unit,
            } => log_steps(*first, *last, *count)
                .map(|number| format!("{number}{unit}"))
                .collect(),
            ExitLatencies => limits
                .map(|state| format!("{}us", exit_latency_us_rounded_up(state)))
                .collect(),
            DriveExitLatencies => {
                let latencies = hardware.drive_exit_latencies_us.split_last();
                let but_longest = latencies.map(|(_, others)| others).unwrap_or_default();
                but_longest.iter().map(|us| format!("{us}us")).collect()
            }
            SingleCpus => hardware.cpus.iter().map(usize::to_string).collect(),
            IdleStates => limits.map(|state| state.name.clone()).collect(),
            Clocks { shares, has_base } => {
                let clocks = hardware.clocks_at_shares(shares, *has_base);
                clocks.into_iter().map(format_megahertz).collect()
            }
        }
    }
}

/// Numbers in equal steps on a log scale. Whole numbers stay; others are rounded to one digit.
fn log_steps(first: u64, last: u64, count: u32) -> impl Iterator<Item = u64> {
    let ratio = last as f64 / first as f64;
    (0..count).map(move |step| {
        let share = f64::from(step) / f64::from(count.saturating_sub(1).max(1));
        let exact = first as f64 * ratio.powf(share);
        let digit = 10_f64.powf(exact.log10().floor());
        let is_whole = (exact - exact.round()).abs() < 1e-6;
        let rounded = if is_whole {
            exact.round()
        } else {
            (exact / digit).round() * digit
        };
        rounded as u64
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::spec::PolicySpec;

    fn texts(part: &str, machine: &str) -> Vec<String> {
        let machine = Machine::find(machine).unwrap();
        let hardware = SearchedHardware::from_machine(&machine);
        find_searched_part(part).unwrap().policy_texts(&hardware)
    }

    #[test]
    fn every_searched_policy_can_be_read_and_decides_what_its_part_does() {
        let hardware = SearchedHardware::from_machine(&Machine::find("laptop").unwrap());
        for part in SEARCHED_PARTS {
            let texts = part.policy_texts(&hardware);
            assert!(!texts.is_empty(), "{}", part.name);
            let once: BTreeSet<&String> = texts.iter().collect();
            assert_eq!(once.len(), texts.len(), "{}: {texts:?}", part.name);
            for text in texts {
                let policy: PolicySpec = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
                let own = SearchedPart::find_for_kind(policy.kind()).unwrap();
                assert_eq!(own.name, part.name, "{text}");
            }
        }
    }

    #[test]
    fn every_mechanism_and_key_of_the_table_is_known() {
        for grid in SEARCHED_PARTS.iter().flat_map(|part| part.grids) {
            let mechanism = find_mechanism(grid.mechanism).unwrap();
            for range in grid.keys {
                assert!(mechanism.find_key(range.key).is_some(), "{}", range.key);
            }
        }
        assert_eq!(
            find_searched_part("c1-demotion").unwrap().grids[0].keys[0]
                .value_texts("c1-demotion", &SearchedHardware::default()),
            ["on", "off"]
        );
    }

    #[test]
    fn times_lie_on_a_log_scale_and_states_have_their_latencies() {
        let psd = texts("psd", "laptop");
        assert_eq!(psd[0], "psd[timeout=1ms,rule=daemon]");
        assert!(psd[1].starts_with("psd[timeout=1ms,ceiling="), "{psd:?}");
        let timeouts =
            ["1ms", "3ms", "10ms"].map(|time| format!("psd[timeout={time},rule=daemon]"));
        assert!(timeouts.iter().all(|text| psd.contains(text)), "{psd:?}");
        let numbers: Vec<u64> = log_steps(10, 1000, 5).collect();
        assert_eq!(numbers, [10, 30, 100, 300, 1000]);
        assert_eq!(
            log_steps(32, 8192, 5).collect::<Vec<_>>(),
            [32, 128, 512, 2048, 8192]
        );
        let machine = Machine::find("laptop").unwrap();
        let states = machine
            .declared_idle_states_on_cluster(&machine.cluster[0])
            .unwrap();
        let limits = texts("cpu-latency", "laptop");
        let second = exit_latency_us_rounded_up(&states[1]);
        assert!(limits.contains(&format!("cpu-latency[limit={second}us]")));
        let deepest = exit_latency_us_rounded_up(states.iter().last().unwrap());
        assert!(!limits.contains(&format!("cpu-latency[limit={deepest}us]")));
    }
}
