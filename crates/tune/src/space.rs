//! The sets to choose from: one dimension per mechanism, each with what it may be.

use std::collections::BTreeSet;

use wakepath_hardware::Machine;
use wakepath_hardware::idle::IdleState;
use wakepath_policies::mechanism::{MECHANISMS, Place};
use wakepath_policies::profile::PROFILES;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_units::spelling::suggestion;

use crate::TuneError;

/// A mechanism, and what it may be beside what is in force.
#[derive(Clone, Debug)]
pub struct Dimension {
    /// Name as `--over` takes it.
    pub name: &'static str,
    /// Policies; a candidate has none of them, or one.
    pub choices: Vec<PolicySpec>,
}

/// A set: for each dimension a choice, or what is in force; or a profile of another tool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Candidate {
    /// One number per dimension: 0 is what is in force, 1 the first choice.
    pub choices: Vec<usize>,
    /// Index of a profile, which then is the whole set.
    pub profile: Option<usize>,
}

impl Candidate {
    /// How many dimensions differ from what is in force.
    pub fn changes(&self) -> usize {
        let changed = self.choices.iter().filter(|choice| **choice > 0).count();
        changed + usize::from(self.profile.is_some())
    }
}

/// The sets to choose from.
#[derive(Clone, Debug)]
pub struct Space {
    /// One per mechanism.
    pub dimensions: Vec<Dimension>,
    /// Whole sets that other tools publish.
    pub profiles: Vec<PolicySet>,
    /// What was asked for and cannot be simulated here, with the reason.
    pub left_out: Vec<String>,
}

/// Names that `--over` takes without being asked.
const DEFAULT: [&str; 8] = [
    "idle",
    "psd",
    "cpu-latency",
    "frequency",
    "epp",
    "hwp-boost",
    "apst",
    "profiles",
];

/// All names that `--over` takes.
const NAMES: [&str; 12] = [
    "idle",
    "idle-states",
    "psd",
    "cpu-latency",
    "poll",
    "c1-demotion",
    "frequency",
    "epp",
    "hwp-boost",
    "apst",
    "io_uring",
    "profiles",
];

/// Timeouts of leases.
const LEASES: [&str; 3] = ["1ms", "3ms", "10ms"];

impl Space {
    /// The sets over these mechanisms on a machine. `refuses` says why a set cannot be run, or what it comes to: sets that
    /// come to the same are one choice.
    ///
    /// # Errors
    /// A name that there is not; nothing is left to choose from.
    pub fn new(
        machine: &Machine,
        over: &[String],
        resolve: impl Fn(&PolicySet) -> Result<PolicySet, String>,
    ) -> Result<Self, TuneError> {
        check_names(over)?;
        let is_wanted = |name: &str| match over {
            [] => DEFAULT.contains(&name),
            named => named.iter().any(|n| n == name),
        };
        let mut space = Self {
            dimensions: Vec::new(),
            profiles: Vec::new(),
            left_out: Vec::new(),
        };
        let mut known = BTreeSet::new();
        let in_force = resolve(&PolicySet::default()).map_err(TuneError::InForce)?;
        known.insert(in_force.to_string());
        for name in NAMES.into_iter().filter(|name| is_wanted(name)) {
            if name == "profiles" {
                space.add_profiles(&resolve, &mut known);
            } else {
                let is_explicit = !over.is_empty();
                space.add_dimension(machine, name, is_explicit, &resolve, &mut known);
            }
        }
        if space.size() < 2 {
            return Err(TuneError::Space(format!(
                "nothing to choose from: {}",
                if space.left_out.is_empty() {
                    "what is in force is all that this machine has".to_owned()
                } else {
                    space.left_out.join("; ")
                }
            )));
        }
        Ok(space)
    }

    fn add_dimension(
        &mut self,
        machine: &Machine,
        name: &'static str,
        is_explicit: bool,
        resolve: &impl Fn(&PolicySet) -> Result<PolicySet, String>,
        known: &mut BTreeSet<String>,
    ) {
        let mut choices = Vec::new();
        let mut refusal = None;
        for text in texts(machine, name) {
            let Ok(policy) = text.parse::<PolicySpec>() else {
                continue;
            };
            let set = PolicySet::new([policy.clone()]);
            match set.map_err(|e| e.to_string()).and_then(|set| resolve(&set)) {
                Ok(resolved) if known.insert(resolved.to_string()) => choices.push(policy),
                Ok(_) => {}
                Err(why) => refusal = Some(format!("{policy}: {why}")),
            }
        }
        match refusal {
            Some(refusal) if choices.is_empty() && is_explicit => self.left_out.push(refusal),
            None if choices.is_empty() && is_explicit => self
                .left_out
                .push(format!("{name}: nothing but what is in force")),
            _ => {}
        }
        if !choices.is_empty() {
            self.dimensions.push(Dimension { name, choices });
        }
    }

    fn add_profiles(
        &mut self,
        resolve: &impl Fn(&PolicySet) -> Result<PolicySet, String>,
        known: &mut BTreeSet<String>,
    ) {
        for profile in PROFILES {
            let Ok(set) = profile.text.parse::<PolicySet>() else {
                continue;
            };
            if resolve(&set).is_ok_and(|resolved| known.insert(resolved.to_string())) {
                self.profiles.push(set);
            }
        }
    }

    /// How many sets there are.
    pub fn size(&self) -> usize {
        let counts = self.dimensions.iter().map(|d| d.choices.len() + 1);
        let combined = counts.fold(1_usize, usize::saturating_mul);
        combined.saturating_add(self.profiles.len())
    }

    /// What is in force.
    pub fn in_force(&self) -> Candidate {
        Candidate {
            choices: vec![0; self.dimensions.len()],
            profile: None,
        }
    }

    /// The profiles, and every choice by itself.
    pub fn first_candidates(&self) -> Vec<Candidate> {
        let profiles = (0..self.profiles.len()).map(|profile| Candidate {
            profile: Some(profile),
            ..self.in_force()
        });
        profiles.chain(self.neighbours(&self.in_force())).collect()
    }

    /// Candidates that differ in one dimension. A profile has none.
    pub fn neighbours(&self, candidate: &Candidate) -> Vec<Candidate> {
        let mut found = Vec::new();
        if candidate.profile.is_some() {
            return found;
        }
        for (index, dimension) in self.dimensions.iter().enumerate() {
            for choice in 0..=dimension.choices.len() {
                if choice != candidate.choices[index] {
                    let mut neighbour = candidate.clone();
                    neighbour.choices[index] = choice;
                    found.push(neighbour);
                }
            }
        }
        found
    }

    /// The candidate with a number below [`Self::size`].
    pub fn candidate(&self, number: usize) -> Candidate {
        let mut candidate = self.in_force();
        if number < self.profiles.len() {
            candidate.profile = Some(number);
            return candidate;
        }
        let mut rest = number - self.profiles.len();
        for (choice, dimension) in candidate.choices.iter_mut().zip(&self.dimensions) {
            let count = dimension.choices.len() + 1;
            *choice = rest % count;
            rest /= count;
        }
        candidate
    }

    /// The policies of a candidate, without what it leaves as it is.
    ///
    /// # Errors
    /// Two policies contradict each other.
    pub fn set(&self, candidate: &Candidate) -> Result<PolicySet, String> {
        if let Some(profile) = candidate.profile {
            return Ok(self.profiles[profile].clone());
        }
        let parts = candidate.choices.iter().zip(&self.dimensions);
        let policies = parts.filter_map(|(choice, dimension)| {
            Some(dimension.choices[choice.checked_sub(1)?].clone())
        });
        PolicySet::new(policies).map_err(|e| e.to_string())
    }
}

fn check_names(over: &[String]) -> Result<(), TuneError> {
    for name in over {
        if NAMES.contains(&name.as_str()) {
            continue;
        }
        let mechanism = MECHANISMS.iter().find(|m| m.name == name);
        let problem = match mechanism {
            Some(m) if !m.on.contains(&Place::Sim) => {
                format!("--over {name}: cannot be simulated yet")
            }
            Some(m) => format!(
                "--over {name}: a policy of `{}`; name that, or another of {}",
                m.kind.name(),
                NAMES.join(", ")
            ),
            None => format!("--over {name}: no such part{}", suggestion(name, &NAMES)),
        };
        return Err(TuneError::Space(problem));
    }
    Ok(())
}

/// Policies of a dimension as text; those that a machine cannot have are refused later.
fn texts(machine: &Machine, name: &str) -> Vec<String> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    match name {
        "idle" => owned(&["menu", "teo", "ladder", "haltpoll"]),
        "frequency" => owned(&[
            "schedutil",
            "schedutil[iowait_boost=off]",
            "performance",
            "powersave",
            "ondemand",
            "intel_pstate",
            "intel_pstate-hwp",
            "amd-pstate",
            "amd-pstate[governor=powersave]",
        ]),
        "epp" => owned(&[
            "epp[value=performance]",
            "epp[value=balance_performance]",
            "epp[value=balance_power]",
            "epp[value=power]",
        ]),
        "hwp-boost" => owned(&["hwp-boost[value=on]", "hwp-boost[value=off]"]),
        "c1-demotion" => owned(&["c1-demotion[value=on]", "c1-demotion[value=off]"]),
        "io_uring" => owned(&["io_uring[iowait=on]", "io_uring[iowait=off]"]),
        "poll" => owned(&[
            "poll[rule=first]",
            "poll[request_us=20]",
            "poll[request_us=100]",
        ]),
        "idle-states" => shallower_states(machine)
            .iter()
            .map(|state| format!("idle-states[ceiling={}]", state.name))
            .collect(),
        "cpu-latency" => shallower_states(machine)
            .iter()
            .map(|state| format!("cpu-latency[limit={}us]", exit_latency_us(state)))
            .collect(),
        "psd" => leases(machine),
        "apst" => tables(),
        _ => Vec::new(),
    }
}

/// Leases of each length, under the shallowest state and under each state up to the last but one.
fn leases(machine: &Machine) -> Vec<String> {
    let mut texts = Vec::new();
    for timeout in LEASES {
        texts.push(format!("psd[timeout={timeout}]"));
        for state in shallower_states(machine) {
            let ceiling = exit_latency_us(&state);
            texts.push(format!("psd[timeout={timeout},ceiling={ceiling}us]"));
        }
    }
    texts
}

/// Tables of a drive: timeouts on a log scale, both rules, and none.
fn tables() -> Vec<String> {
    let mut texts = vec![
        "apst[rule=legacy]".to_owned(),
        "apst[max_latency_us=0]".to_owned(),
    ];
    for primary in [10, 30, 100, 300, 1000] {
        for secondary in [500, 2000, 8000] {
            texts.push(format!(
                "apst[primary_timeout_ms={primary},secondary_timeout_ms={secondary}]"
            ));
        }
    }
    texts
}

/// Idle states that a limit may end at: all but the deepest of each kind of CPU, shallowest first, each latency once.
fn shallower_states(machine: &Machine) -> Vec<IdleState> {
    let mut found: Vec<IdleState> = Vec::new();
    for cluster in &machine.cluster {
        let Ok(states) = machine.declared_idle_states_of(cluster) else {
            continue;
        };
        let count = states.len().saturating_sub(1);
        found.extend(states.iter().take(count).cloned());
    }
    found.sort_by_key(|state| state.exit_latency);
    found.dedup_by_key(|state| exit_latency_us(state));
    found
}

/// Whole microseconds, rounded up, so that the state itself is allowed.
fn exit_latency_us(state: &IdleState) -> u64 {
    state.exit_latency.0.div_ceil(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_sim::in_force;

    fn space(over: &[&str]) -> Result<Space, TuneError> {
        let machine = Machine::find("rk3399").unwrap();
        let over: Vec<String> = over.iter().map(|name| (*name).to_owned()).collect();
        Space::new(&machine, &over, |set| {
            in_force(&machine, set).map_err(|e| e.to_string())
        })
    }

    #[test]
    fn what_is_in_force_is_no_choice_beside_itself() {
        let space = space(&["idle"]).unwrap();
        let names: Vec<String> = space.dimensions[0]
            .choices
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(
            names.iter().any(|name| name.starts_with("teo")),
            "{names:?}"
        );
        assert!(
            !names.iter().any(|name| name.starts_with("menu")),
            "{names:?}"
        );
    }

    #[test]
    fn every_number_is_a_candidate_of_its_own() {
        let space = space(&["idle", "psd"]).unwrap();
        let all: BTreeSet<Candidate> = (0..space.size()).map(|n| space.candidate(n)).collect();
        assert_eq!(all.len(), space.size());
        assert!(all.contains(&space.in_force()));
    }

    #[test]
    fn neighbours_differ_in_one_dimension() {
        let space = space(&["idle", "psd"]).unwrap();
        for neighbour in space.neighbours(&space.in_force()) {
            assert_eq!(neighbour.changes(), 1);
        }
    }

    #[test]
    fn limits_on_frequency_are_named_as_not_simulated() {
        let refused = space(&["frequency-limits"]).unwrap_err().to_string();
        assert!(refused.contains("--over frequency-limits"), "{refused}");
    }

    #[test]
    fn a_misspelt_part_is_told_the_right_one() {
        let refused = space(&["cpulatency"]).unwrap_err().to_string();
        assert!(refused.contains("cpu-latency"), "{refused}");
    }
}
