//! The space of policy sets: one dimension per mechanism, with the mechanism's choices.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_hardware::Machine;
use wakepath_hardware::machine::DriveModel;
use wakepath_policies::apst::in_force::apst_settings_under_set;
use wakepath_policies::apst::plan_apst_table;
use wakepath_policies::mechanism::{Kind, MECHANISMS, Place};
use wakepath_policies::profile::PROFILES;
use wakepath_policies::search_space::{
    SEARCHED_PARTS, SearchedHardware, SearchedPart, find_searched_part,
};
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_units::spelling::suggestion_with_known_names;

use crate::TuneError;
use crate::offered::{
    explain_policy_of_other_driver, kernel_offers_governor, list_offered_governors,
};

/// What a simulated machine does anyway.
const TURBO_ON: &str = "turbo[value=on]";

/// A mechanism with the policies to choose from, other than the one in force.
#[derive(Clone, Debug)]
pub struct Dimension {
    /// Name of the mechanism as `--over` takes it.
    pub name: &'static str,
    /// The policies to choose from; a set has at most one of them.
    pub choices: Vec<PolicySpec>,
}

/// A choice of a policy set: for each dimension a policy or no change; or a published profile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetChoice {
    /// One number per dimension: 0 is no change, 1 the first policy.
    pub choices: Vec<usize>,
    /// Index of a profile, which then is the whole set.
    pub profile: Option<usize>,
}

impl SetChoice {
    /// Number of dimensions that the choice changes.
    pub fn count_changed_dimensions(&self) -> usize {
        let changed = self.choices.iter().filter(|choice| **choice > 0).count();
        changed + usize::from(self.profile.is_some())
    }
}

/// The policy sets to choose from.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// One per mechanism.
    pub dimensions: Vec<Dimension>,
    /// Whole policy sets that other tools publish.
    pub profiles: Vec<PolicySet>,
    /// Mechanisms that were asked for and cannot be simulated here, with the reason.
    pub left_out: Vec<String>,
    /// Choices that a search tries before all others, such as fixes that somebody recommends.
    pub first: Vec<SetChoice>,
    /// Policies that were asked for and cannot be simulated, but acted on by a real machine.
    pub measured_only: Vec<PolicySpec>,
    /// Names of the mechanisms of `measured_only` that were asked for by name.
    pub measured_only_names: Vec<String>,
}

/// Name of the part whose choices are whole sets of other tools.
const PROFILES_PART: &str = "profiles";

/// Why a policy cannot be tried on recorded idle periods.
const NOT_ON_RECORDINGS: &str = "does not act on a recording, whose load is as it was";

/// Name of the part with the tables of drives.
const APST_PART: &str = "apst";

/// Names of the parts that recorded I/O of a drive answers to.
const DRIVE_PARTS: [&str; 2] = [APST_PART, "drive-latency"];

impl Space {
    /// Builds the sets over the named mechanisms on a machine. `resolve` returns the policies in force under a set, or
    /// why the machine refuses; two sets with equal policies in force are one choice.
    ///
    /// # Errors
    /// An unknown name; no choice is left.
    pub fn new(
        machine: &Machine,
        over: &[String],
        resolve: impl Fn(&PolicySet) -> Result<PolicySet, String>,
    ) -> Result<Self, TuneError> {
        let over = &join_policies_split_at_commas(over);
        let mut space = Self {
            left_out: find_names_that_cannot_be_searched(over, Place::Sim)?,
            ..Self::default()
        };
        let mut known = BTreeSet::new();
        let in_force = resolve(&PolicySet::default()).map_err(TuneError::InForce)?;
        known.insert(in_force.describe_decisions());
        // A driver in force that takes a preference is told one by `epp`; others come with each preference.
        let is_preference_taken =
            PolicySet::from_names(["epp[value=power]"]).is_ok_and(|set| resolve(&set).is_ok());
        let hardware = SearchedHardware::from_machine(machine);
        for name in list_part_names() {
            if let Some(part) = find_searched_part(name).filter(|part| !part.acts_at(Place::Sim)) {
                space.add_policies_only_measured(part, &hardware, over);
                continue;
            }
            let (mut texts, missing): (Vec<String>, Vec<String>) =
                named_policies_of_mechanism(&hardware, over, name)
                    .into_iter()
                    .partition(|text| kernel_offers_governor(machine, text));
            space.name_governors_that_kernel_lacks(machine, &missing, &resolve);
            texts.retain(|text| {
                let refusal = explain_policy_of_other_driver(machine, &in_force, text);
                let named = refusal.iter().filter(|_| !over.is_empty());
                (space.left_out).extend(named.map(|why| format!("{text}: {why}")));
                refusal.is_none()
            });
            texts.retain(|text| text != TURBO_ON);
            if name == "turbo" && over.iter().any(|wanted| wanted == TURBO_ON) {
                space.left_out.push(format!(
                    "{TURBO_ON}: a simulated machine has turbo unless a policy takes it"
                ));
            }
            if is_preference_taken {
                texts.retain(|text| !is_driver_with_preference(text));
            }
            if name == PROFILES_PART {
                space.add_profiles_with_new_policies(over, &resolve, &mut known);
            } else if !texts.is_empty() {
                let is_explicit = !over.is_empty();
                space.add_dimension_with_new_policies(
                    name,
                    texts,
                    is_explicit,
                    &|set| resolve(set).map(|resolved| resolved.describe_decisions()),
                    &mut known,
                );
            }
        }
        if space.measured_only.is_empty() {
            space.leave_out_what_is_only_measured()?;
        }
        Ok(space)
    }

    /// Builds the sets to choose from on recorded idle periods, whose states `hardware` has. `resolve` returns the policies
    /// in force under a set, or why the recording cannot be replayed under it; two sets with equal policies in force are one
    /// choice.
    ///
    /// # Errors
    /// An unknown name; no choice is left.
    pub fn for_recorded_idle(
        hardware: &SearchedHardware,
        over: &[String],
        resolve: impl Fn(&PolicySet) -> Result<PolicySet, String>,
    ) -> Result<Self, TuneError> {
        let over = &join_policies_split_at_commas(over);
        let mut space = Self {
            left_out: find_names_that_cannot_be_searched(over, Place::Replay)?,
            ..Self::default()
        };
        let in_force = resolve(&PolicySet::default()).map_err(TuneError::Recording)?;
        let mut known = BTreeSet::from([in_force.describe_decisions()]);
        for name in list_part_names() {
            if !find_searched_part(name).is_some_and(|part| part.acts_at(Place::Replay)) {
                if over.iter().any(|wanted| wanted == name) {
                    space.left_out.push(explain_part_without_replay(name));
                }
                continue;
            }
            let mut refusals: BTreeMap<String, Vec<String>> = BTreeMap::new();
            let mut texts = named_policies_of_mechanism(hardware, over, name);
            texts.retain(|text| {
                let set = text.parse::<PolicySet>().map_err(|e| e.to_string());
                let refusal = set.and_then(|set| resolve(&set)).err();
                if let Some(why) = &refusal {
                    let refused = refusals.entry(why.clone()).or_default();
                    refused.push(text.clone());
                }
                refusal.is_none()
            });
            let refused = refusals.iter().map(|(why, names)| match &names[..] {
                [first, _, ..] => format!("{first} and {} more: {why}", names.len() - 1),
                _ => format!("{}: {why}", names.join(", ")),
            });
            space.left_out.extend(refused);
            if !texts.is_empty() {
                space.add_dimension_with_new_policies(
                    name,
                    texts,
                    true,
                    &|set| resolve(set).map(|resolved| resolved.describe_decisions()),
                    &mut known,
                );
            }
        }
        space.refuse_if_nothing_to_choose("the recording shows no other choice")?;
        Ok(space)
    }

    /// Names mechanisms that only a machine answers to as left out, and checks that a simulation has something to choose from.
    ///
    /// # Errors
    /// There is nothing but what is in force.
    pub fn leave_out_what_is_only_measured(&mut self) -> Result<(), TuneError> {
        let names = self.measured_only_names.drain(..);
        let reasons =
            names.map(|name| format!("{name}: cannot be simulated; `tune --on live` measures it"));
        self.left_out.extend(reasons);
        self.refuse_if_nothing_to_choose("what is in force is all that this machine has")
    }

    /// Keeps the policies of a part that no simulation answers to, for a measurement, and names the part.
    fn add_policies_only_measured(
        &mut self,
        part: &SearchedPart,
        hardware: &SearchedHardware,
        over: &[String],
    ) {
        let texts = named_policies_of_mechanism(hardware, over, part.name);
        let policies = texts
            .iter()
            .filter_map(|text| text.parse::<PolicySpec>().ok());
        self.measured_only.extend(policies);
        if over.iter().any(|wanted| wanted == part.name) {
            self.measured_only_names.push(part.name.to_owned());
        }
    }

    fn refuse_if_nothing_to_choose(&self, otherwise: &str) -> Result<(), TuneError> {
        if self.count_sets() >= 2 {
            return Ok(());
        }
        let reasons = if self.left_out.is_empty() {
            otherwise.to_owned()
        } else {
            self.left_out.join("; ")
        };
        Err(TuneError::Space(format!(
            "nothing to choose from: {reasons}"
        )))
    }

    /// Builds the APST tables to choose from for a drive under recorded I/O. Two sets with which the kernel would program the
    /// drive alike are one choice.
    ///
    /// # Errors
    /// A name that concerns no drive; the drive has no power states, or no other table.
    pub fn for_drive(drive: &DriveModel, over: &[String]) -> Result<Self, TuneError> {
        let over = &join_policies_split_at_commas(over);
        find_names_that_cannot_be_searched(over, Place::Sim)?;
        if let Some(other) = over.iter().find(|name| !concerns_drive(name)) {
            return Err(TuneError::Space(format!(
                "--over {other}: recorded I/O of a drive answers only to {}; leave it out, or give a fio job as the load",
                DRIVE_PARTS.join(" and ")
            )));
        }
        let mut space = Self::default();
        let kernels_own = describe_apst_table(drive, &PolicySet::default());
        let mut known = BTreeSet::from([kernels_own.map_err(TuneError::InForce)?]);
        let hardware = SearchedHardware::from_drive(drive);
        for part in DRIVE_PARTS {
            let texts = named_policies_of_mechanism(&hardware, over, part);
            if !texts.is_empty() {
                let describe = |set: &PolicySet| describe_apst_table(drive, set);
                space.add_dimension_with_new_policies(part, texts, true, &describe, &mut known);
            }
        }
        if space.dimensions.is_empty() {
            return Err(TuneError::Space(format!(
                "nothing to choose from: the kernel programs {} with one table, whatever the timeouts",
                drive.name
            )));
        }
        Ok(space)
    }

    /// Names missing governors, if the machine could run them under another kernel.
    fn name_governors_that_kernel_lacks(
        &mut self,
        machine: &Machine,
        missing: &[String],
        resolve: &impl Fn(&PolicySet) -> Result<PolicySet, String>,
    ) {
        let names: Vec<&str> = missing
            .iter()
            .map(String::as_str)
            .filter(|text| is_set_accepted(text, resolve))
            .collect();
        if let Some(offered) = names
            .first()
            .map(|text| list_offered_governors(machine, text))
        {
            self.left_out.push(format!(
                "{}: this kernel offers {} only",
                names.join(", "),
                offered.join(", ")
            ));
        }
    }

    /// Adds a mechanism's policies that come to something new, as `describe` tells what a set comes to.
    fn add_dimension_with_new_policies(
        &mut self,
        name: &'static str,
        texts: Vec<String>,
        is_explicit: bool,
        describe: &impl Fn(&PolicySet) -> Result<String, String>,
        known_sets: &mut BTreeSet<String>,
    ) {
        let mut choices = Vec::new();
        let mut refusal = None;
        for text in texts {
            let Ok(policy) = text.parse::<PolicySpec>() else {
                continue;
            };
            let set = PolicySet::new([policy.clone()]);
            match set
                .map_err(|e| e.to_string())
                .and_then(|set| describe(&set))
            {
                Ok(described) => {
                    if known_sets.insert(described) {
                        choices.push(policy);
                    }
                }
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

    fn add_profiles_with_new_policies(
        &mut self,
        over: &[String],
        resolve: &impl Fn(&PolicySet) -> Result<PolicySet, String>,
        known_sets: &mut BTreeSet<String>,
    ) {
        let all_wanted = is_mechanism_named_or_default(over, PROFILES_PART);
        for profile in PROFILES {
            if !all_wanted && over.iter().all(|name| name != profile.text) {
                continue;
            }
            let Ok(set) = profile.text.parse::<PolicySet>() else {
                continue;
            };
            let reason = match resolve(&set) {
                Ok(resolved) if known_sets.insert(resolved.describe_decisions()) => {
                    self.profiles.push(set);
                    continue;
                }
                Ok(_) => "comes to what is in force, or to another profile".to_owned(),
                Err(why) => why,
            };
            if !all_wanted {
                self.left_out.push(format!("{profile}: {reason}"));
            }
        }
    }

    /// Number of policy sets to choose from.
    pub fn count_sets(&self) -> usize {
        let counts = self.dimensions.iter().map(|d| d.choices.len() + 1);
        let combined = counts.fold(1_usize, usize::saturating_mul);
        combined.saturating_add(self.profiles.len())
    }

    /// The choice that changes nothing of what is in force.
    pub fn unchanged_choice(&self) -> SetChoice {
        SetChoice {
            choices: vec![0; self.dimensions.len()],
            profile: None,
        }
    }

    /// Makes a search begin with those of the sets that the space has, in this order.
    pub fn try_sets_first(&mut self, sets: &[PolicySet]) {
        for set in sets {
            let choice = self.choice_for_policy_set(set);
            self.first
                .extend(choice.filter(|choice| *choice != self.unchanged_choice()));
        }
    }

    /// The choice that comes to a policy set; `None` where a policy of the set is no choice of the space.
    fn choice_for_policy_set(&self, set: &PolicySet) -> Option<SetChoice> {
        let mut found = self.unchanged_choice();
        for policy in set.policies() {
            let mut dimensions = self.dimensions.iter().enumerate();
            let (dimension, choice) = dimensions.find_map(|(index, dimension)| {
                let place = dimension.choices.iter().position(|one| one == policy)?;
                Some((index, place + 1))
            })?;
            found.choices[dimension] = choice;
        }
        Some(found)
    }

    /// The choices to try first, each once: no change, recommended sets, the profiles, every policy by itself.
    pub fn choices_to_begin_with(&self) -> Vec<SetChoice> {
        let unchanged = self.unchanged_choice();
        let profiles = (0..self.profiles.len()).map(|profile| SetChoice {
            profile: Some(profile),
            ..unchanged.clone()
        });
        let mut known = BTreeSet::new();
        let all = [unchanged.clone()]
            .into_iter()
            .chain(self.first.iter().cloned())
            .chain(profiles)
            .chain(self.neighbours_differing_in_one_dimension(&unchanged));
        all.filter(|choice| known.insert(choice.clone())).collect()
    }

    /// Choices that differ from a choice in one dimension. A profile has none.
    pub fn neighbours_differing_in_one_dimension(&self, candidate: &SetChoice) -> Vec<SetChoice> {
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

    /// The choice with a number below [`Self::count_sets`].
    pub fn choice_by_number(&self, number: usize) -> SetChoice {
        let mut candidate = self.unchanged_choice();
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

    /// The policies that a choice changes, as a policy set.
    ///
    /// # Errors
    /// Two policies contradict each other.
    pub fn policy_set_of_choice(&self, candidate: &SetChoice) -> Result<PolicySet, String> {
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

/// The table of a drive under a set, as text to compare.
fn describe_apst_table(drive: &DriveModel, set: &PolicySet) -> Result<String, String> {
    let power = drive.power.as_ref().ok_or_else(|| {
        format!(
            "drive '{}' has no power states; name a drive (--drive)",
            drive.name
        )
    })?;
    let declared = &power.declared;
    // As in the simulator, a drive whose support for APST is unknown counts as supporting it.
    let plan = plan_apst_table(
        declared.npss,
        declared.apsta.unwrap_or(true),
        &declared.states,
        &apst_settings_under_set(drive, set),
    )
    .map_err(|e| e.to_string())?;
    Ok(format!("{} {}", plan.enabled, plan.table))
}

fn is_part_name(name: &str) -> bool {
    name == PROFILES_PART || find_searched_part(name).is_some()
}

/// Whether a name of `--over` is that of a profile of another tool, such as `tuned[balanced]`.
fn is_profile_text(name: &str) -> bool {
    PROFILES.iter().any(|profile| profile.text == name)
}

/// Whether a mechanism is among the wanted ones, or among the defaults where none is given.
fn is_mechanism_named_or_default(over: &[String], name: &str) -> bool {
    if over.is_empty() {
        name == PROFILES_PART || find_searched_part(name).is_some_and(|part| part.is_default)
    } else {
        over.iter().any(|wanted| wanted == name)
    }
}

/// The names among `over` that no simulation answers to, each with the reason. Single policies are searched of idle and frequency
/// governors only.
///
/// # Errors
/// A name that is neither a mechanism nor a policy.
fn find_names_that_cannot_be_searched(
    over: &[String],
    place: Place,
) -> Result<Vec<String>, TuneError> {
    let mut left_out = Vec::new();
    for name in over.iter().filter(|name| !is_part_name(name)) {
        if is_profile_text(name) {
            if place == Place::Replay {
                left_out.push(format!("{name}: {NOT_ON_RECORDINGS}"));
            }
            continue;
        }
        let (mechanism, is_searched) = if name.contains('[') {
            let policy = (name.parse::<PolicySpec>())
                .map_err(|error| TuneError::Space(format!("--over {name}: {error}")))?;
            (policy.mechanism(), dimension_of_policy(&policy).is_some())
        } else {
            let Some(mechanism) = MECHANISMS.iter().find(|mechanism| mechanism.name == name) else {
                return Err(TuneError::Space(format!(
                    "--over {name}: no such part{}",
                    suggestion_with_known_names(name, &list_part_names())
                )));
            };
            let mut parts = SEARCHED_PARTS.iter();
            let is_searched = parts.any(|part| part.has_mechanism(name));
            (*mechanism, is_searched)
        };
        if !mechanism.on.contains(&place) {
            let why = match place {
                Place::Replay => NOT_ON_RECORDINGS,
                _ => "cannot be simulated",
            };
            left_out.push(format!("{name}: {why}"));
        } else if !is_searched {
            left_out.push(format!(
                "{name}: is not searched; choose from {}",
                list_part_names().join(", ")
            ));
        }
    }
    Ok(left_out)
}

/// Why a part is left out of a search over recorded idle periods.
fn explain_part_without_replay(name: &str) -> String {
    if name == APST_PART {
        return "apst: answers to a drive's I/O, in a search of its own (--drive NAME --over apst)"
            .to_owned();
    }
    format!("{name}: {NOT_ON_RECORDINGS}")
}

/// Names whose keys hold together: `apst[a=1`, `b=2]` is one name that was split at its comma.
fn join_policies_split_at_commas(over: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in over {
        match names.last_mut() {
            Some(open) if open.contains('[') && !open.contains(']') => {
                open.push(',');
                open.push_str(part);
            }
            _ => names.push(part.clone()),
        }
    }
    names
}

/// Whether a text names a frequency driver together with a preference.
fn is_driver_with_preference(text: &str) -> bool {
    text.parse::<PolicySpec>().is_ok_and(|policy| {
        policy.kind() == Kind::Frequency && policy.given_keys().any(|(key, _)| key == "epp")
    })
}

/// The name of the dimension to which a policy belongs; `None`: the policy is not searched.
fn dimension_of_policy(policy: &PolicySpec) -> Option<&'static str> {
    SearchedPart::find_for_kind(policy.kind()).map(|part| part.name)
}

fn is_policy_with_keys_in_dimension(text: &str, name: &str) -> bool {
    let policy = text.contains('[').then(|| text.parse::<PolicySpec>());
    matches!(policy, Some(Ok(policy)) if dimension_of_policy(&policy) == Some(name))
}

/// Policies of a mechanism that `over` names: all of them, single ones, and those that are given with keys.
fn named_policies_of_mechanism(
    hardware: &SearchedHardware,
    over: &[String],
    name: &str,
) -> Vec<String> {
    let part = find_searched_part(name);
    let policies = part.map_or_else(Vec::new, |part| part.policy_texts(hardware));
    let with_keys = over
        .iter()
        .filter(|text| is_policy_with_keys_in_dimension(text, name))
        .cloned();
    if is_mechanism_named_or_default(over, name) {
        return policies.into_iter().chain(with_keys).collect();
    }
    let all = policies.into_iter();
    all.filter(|text| is_named_as_single_policy(text, over))
        .chain(with_keys)
        .collect()
}

/// Whether `over` names a policy by its mechanism, such as `teo` among the idle governors.
fn is_named_as_single_policy(text: &str, over: &[String]) -> bool {
    text.parse::<PolicySpec>().is_ok_and(|policy| {
        let policy_name = policy.mechanism().name;
        !is_part_name(policy_name) && over.iter().any(|wanted| wanted == policy_name)
    })
}

/// Whether a name in `--over` is a drive's part, or a policy in such a part.
fn concerns_drive(name: &str) -> bool {
    let mut parts = DRIVE_PARTS.iter();
    parts.any(|part| name == *part || is_policy_with_keys_in_dimension(name, part))
}

/// Whether `resolve` accepts the set in a text.
fn is_set_accepted(text: &str, resolve: &impl Fn(&PolicySet) -> Result<PolicySet, String>) -> bool {
    let set = text.parse::<PolicySet>();
    set.is_ok_and(|set| resolve(&set).is_ok())
}

/// Names that `--over` takes.
fn list_part_names() -> Vec<&'static str> {
    let parts = SEARCHED_PARTS.iter().map(|part| part.name);
    parts.chain([PROFILES_PART]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest_workload;
    use wakepath_sim::{Model, policies_in_force};

    fn space(over: &[&str]) -> Result<Space, TuneError> {
        space_on("rk3399", over)
    }

    fn space_on(machine: &str, over: &[&str]) -> Result<Space, TuneError> {
        let machine = Machine::find(machine).unwrap();
        let over: Vec<String> = over.iter().map(|name| (*name).to_owned()).collect();
        let rest = rest_workload().unwrap();
        Space::new(&machine, &over, |set| {
            Model::new(&machine, &rest, set).map_err(|e| e.to_string())?;
            policies_in_force(&machine, set).map_err(|e| e.to_string())
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

    fn texts_of_dimension(space: &Space, name: &str) -> Vec<String> {
        let mut dimensions = space.dimensions.iter();
        let found = dimensions.find(|dimension| dimension.name == name);
        let choices = found.map(|dimension| &dimension.choices);
        choices
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect()
    }

    fn count_drivers_with_preference(texts: &[String]) -> usize {
        let texts = texts.iter();
        texts
            .filter(|text| text.starts_with("intel_pstate-hwp[epp="))
            .count()
    }

    fn space_with_drive(over: &[String]) -> Result<Space, TuneError> {
        let mut machine = Machine::find("laptop").unwrap();
        machine.drive = DriveModel::find("sn530").unwrap();
        Space::new(&machine, over, |set| {
            policies_in_force(&machine, set).map_err(|e| e.to_string())
        })
    }

    #[test]
    fn a_single_policy_may_have_keys() {
        let names = ["apst[max_latency_us=0]", "teo"];
        let over = names.map(str::to_owned);
        let space = space_with_drive(&over).unwrap();
        assert_eq!(
            texts_of_dimension(&space, "apst"),
            ["apst[max_latency_us=0]"]
        );
        assert_eq!(space.dimensions.len(), 2);
        let split = ["apst[primary_timeout_ms=7", "secondary_timeout_ms=70]"];
        let space = space_with_drive(&split.map(str::to_owned)).unwrap();
        assert_eq!(
            texts_of_dimension(&space, "apst"),
            ["apst[primary_timeout_ms=7,secondary_timeout_ms=70]"]
        );
        let wrong = ["apst[max_latency=0]".to_owned()];
        let refused = space_with_drive(&wrong).unwrap_err().to_string();
        assert!(refused.contains("max_latency_us"), "{refused}");
        let unsearched = ["kernel-config[hz=100]".to_owned()];
        let refused = space_with_drive(&unsearched).unwrap_err();
        assert!(refused.to_string().contains("is not searched"), "{refused}");
    }

    #[test]
    fn a_preference_comes_with_its_driver_where_the_driver_is_not_in_force() {
        let other = space_on("laptop", &["frequency", "epp"]).unwrap();
        let frequency = texts_of_dimension(&other, "frequency");
        // `balance_performance` is what the driver has by itself.
        assert_eq!(
            count_drivers_with_preference(&frequency),
            3,
            "{frequency:?}"
        );
        assert!(texts_of_dimension(&other, "epp").is_empty());
        let own = space_on("hybrid-i7-1260p", &["frequency", "epp"]).unwrap();
        let frequency = texts_of_dimension(&own, "frequency");
        assert_eq!(
            count_drivers_with_preference(&frequency),
            0,
            "{frequency:?}"
        );
        assert!(texts_of_dimension(&own, "epp").contains(&"epp[value=power]".to_owned()));
    }

    /// A capture writes every key of what runs, also those at their defaults.
    #[test]
    fn what_a_capture_says_is_in_force_is_no_choice() {
        let mut machine = Machine::find("hybrid-i7-1260p").unwrap();
        let runs = "menu + intel_pstate-hwp[hwp_dynamic_boost=off,epp=balance_performance]";
        machine.runs = Some(runs.to_owned());
        let over = ["frequency", "epp", "hwp-boost"].map(str::to_owned);
        let found = Space::new(&machine, &over, |set| {
            policies_in_force(&machine, set).map_err(|e| e.to_string())
        });
        let space = found.unwrap();
        let frequency = texts_of_dimension(&space, "frequency");
        assert!(
            !frequency
                .iter()
                .any(|text| text.starts_with("intel_pstate-hwp")),
            "{frequency:?}"
        );
        assert_eq!(
            texts_of_dimension(&space, "epp"),
            [
                "epp[value=performance]",
                "epp[value=balance_power]",
                "epp[value=power]"
            ]
        );
        assert_eq!(
            texts_of_dimension(&space, "hwp-boost"),
            ["hwp-boost[value=on]"]
        );
    }

    #[test]
    fn recommended_sets_come_before_profiles_and_single_changes() {
        let over = ["idle", "cpu-latency", "profiles"];
        let mut space = space_on("laptop", &over).unwrap();
        let limits = texts_of_dimension(&space, "cpu-latency");
        let both = format!("teo@6.12 + {}", limits[0]);
        // `epp` is no part of the space, and what is in force comes first anyway.
        let sets = ["teo", &both, "epp[value=power]", "unchanged"];
        space.try_sets_first(&sets.map(|set| set.parse().unwrap()));
        let all = space.choices_to_begin_with();
        let begin: Vec<String> = all[..3]
            .iter()
            .map(|choice| space.policy_set_of_choice(choice).unwrap().to_string())
            .collect();
        assert_eq!(begin, ["unchanged", "teo@6.12", &both]);
        let profiles = space.profiles.len();
        assert!(profiles > 0);
        let numbers = all[3..3 + profiles].iter().map(|choice| choice.profile);
        let expected: Vec<Option<usize>> = (0..profiles).map(Some).collect();
        assert_eq!(numbers.collect::<Vec<_>>(), expected);
        // Every policy by itself but `teo`, which was recommended.
        let single = &all[3 + profiles..];
        let policies = space.dimensions.iter().map(|d| d.choices.len());
        assert_eq!(single.len(), policies.sum::<usize>() - 1);
        for choice in single {
            assert_eq!(
                (choice.profile, choice.count_changed_dimensions()),
                (None, 1)
            );
        }
        let once: BTreeSet<&SetChoice> = all.iter().collect();
        assert_eq!(once.len(), all.len());
        assert_eq!(space.first.len(), 2);
        assert!(space_on("laptop", &over[..2]).unwrap().profiles.is_empty());
    }

    #[test]
    fn every_number_is_a_candidate_of_its_own() {
        let space = space(&["idle", "psd"]).unwrap();
        let all: BTreeSet<SetChoice> = (0..space.count_sets())
            .map(|n| space.choice_by_number(n))
            .collect();
        assert_eq!(all.len(), space.count_sets());
        assert!(all.contains(&space.unchanged_choice()));
    }

    #[test]
    fn what_only_a_machine_answers_to_is_left_out_of_simulations_alone() {
        let over = ["idle".to_owned(), "aspm".to_owned()];
        let mut space = space_with_drive(&over).unwrap();
        assert!(space.left_out.is_empty(), "{:?}", space.left_out);
        assert!(!space.measured_only.is_empty());
        space.leave_out_what_is_only_measured().unwrap();
        assert_eq!(
            space.left_out,
            ["aspm: cannot be simulated; `tune --on live` measures it"]
        );
    }

    #[test]
    fn governors_that_the_kernel_lacks_are_left_out_and_named() {
        let mut machine = Machine::find("laptop").unwrap();
        machine.idle_governors = vec!["menu".to_owned(), "teo".to_owned()];
        let resolve = |set: &PolicySet| Ok(set.completed_from(&"menu".parse().unwrap()));
        let over = ["idle".to_owned()];
        let space = Space::new(&machine, &over, resolve).unwrap();
        let choices = &space.dimensions[0].choices;
        assert_eq!(choices.len(), 1, "{choices:?}");
        assert_eq!(choices[0].mechanism().name, "teo");
        assert_eq!(
            space.left_out,
            ["ladder, haltpoll: this kernel offers menu, teo only"]
        );
    }

    #[test]
    fn what_takes_another_kernel_word_is_left_out_of_captured_machines_and_named() {
        let mut machine = Machine::find("hybrid-i7-1260p").unwrap();
        machine.frequency_governors = vec!["performance".to_owned(), "powersave".to_owned()];
        let over = ["frequency".to_owned()];
        for (runs, left_out, word) in [
            (
                "menu + intel_pstate-hwp",
                "intel_pstate",
                "intel_pstate=no_hwp",
            ),
            (
                "menu + intel_pstate",
                "intel_pstate-hwp",
                "intel_pstate=no_hwp",
            ),
            (
                "menu + intel_pstate-hwp",
                "powersave",
                "scales with the load",
            ),
        ] {
            machine.runs = Some(runs.to_owned());
            let found = Space::new(&machine, &over, |set| {
                policies_in_force(&machine, set).map_err(|error| error.to_string())
            });
            let space = found.unwrap();
            let offered = texts_of_dimension(&space, "frequency");
            assert!(!offered.contains(&left_out.to_owned()), "{offered:?}");
            let prefix = format!("{left_out}: ");
            let mut reasons = space.left_out.iter();
            assert!(
                reasons.any(|why| why.starts_with(&prefix) && why.contains(word)),
                "{:?}",
                space.left_out
            );
        }
    }

    #[test]
    fn neighbours_differ_in_one_dimension() {
        let space = space(&["idle", "psd"]).unwrap();
        for neighbour in space.neighbours_differing_in_one_dimension(&space.unchanged_choice()) {
            assert_eq!(neighbour.count_changed_dimensions(), 1);
        }
    }

    #[test]
    fn limits_on_frequency_lie_within_the_table() {
        let space = space(&["frequency-limits"]).unwrap();
        let names: Vec<String> = space.dimensions[0]
            .choices
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(names.len() >= 5, "{names:?}");
        assert!(
            names.contains(&"frequency[max=1200MHz]".to_owned()),
            "{names:?}"
        );
        assert!(
            names.iter().any(|name| name.starts_with("frequency[min=")),
            "{names:?}"
        );
    }

    #[test]
    fn tables_that_the_kernel_programs_alike_are_one_choice() {
        let drive = DriveModel::find("sn530").unwrap();
        let space = Space::for_drive(&drive, &[]).unwrap();
        let tables: BTreeSet<String> = (0..space.count_sets())
            .map(|number| {
                let choice = space.choice_by_number(number);
                describe_apst_table(&drive, &space.policy_set_of_choice(&choice).unwrap()).unwrap()
            })
            .collect();
        assert_eq!(tables.len(), space.count_sets());
        assert!(space.count_sets() > 5, "{}", space.count_sets());
    }

    #[test]
    fn a_drives_space_has_no_policies_of_cpus() {
        let drive = DriveModel::find("sn530").unwrap();
        let refused = Space::for_drive(&drive, &["idle".to_owned()]).unwrap_err();
        assert!(refused.to_string().contains("answers only to apst"));
        let mut without = drive;
        without.power = None;
        assert!(Space::for_drive(&without, &[]).is_err());
    }

    /// The kernel keeps a drive's tolerance over resets, which forget a table.
    #[test]
    fn tolerances_of_a_drive_are_searched_by_the_exit_latencies_of_its_states() {
        let own = ["drive-latency".to_owned()];
        let simulated = texts_of_dimension(&space_with_drive(&own).unwrap(), "drive-latency");
        let drive = DriveModel::find("sn530").unwrap();
        let recorded = Space::for_drive(&drive, &own).unwrap();
        let states = &drive.power.as_ref().unwrap().declared.states;
        let resting = states.iter().filter(|state| state.non_operational);
        let shortest = resting.map(|state| state.exit_latency_us).min().unwrap();
        let at_shortest = format!("drive-latency[tolerance={shortest}us]");
        assert!(simulated.contains(&at_shortest), "{simulated:?}");
        // The kernel's own table already has all states, so that no limit is no other choice.
        assert_eq!(
            texts_of_dimension(&recorded, "drive-latency"),
            ["drive-latency[tolerance=0us]".to_owned(), at_shortest]
        );
        assert!(texts_of_dimension(&recorded, "apst").is_empty());
        assert!(recorded.left_out.is_empty(), "{:?}", recorded.left_out);

        let given = ["drive-latency[tolerance=5ms]", "apst[rule=legacy]"].map(str::to_owned);
        let both = Space::for_drive(&drive, &given).unwrap();
        assert_eq!(both.dimensions.len(), 2);
    }

    #[test]
    fn a_profile_is_named_as_policy_list_prints_it() {
        let space = space(&["tuned[latency-performance]", "idle"]).unwrap();
        let names: Vec<String> = space.profiles.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["tuned[latency-performance]"]);
        let same = space_on("laptop", &["tuned[balanced]"]).unwrap_err();
        let reason = "tuned[balanced]: comes to what is in force";
        assert!(same.to_string().contains(reason), "{same}");
    }

    #[test]
    fn a_governor_that_no_machine_has_is_named_as_not_searched() {
        let refused = space(&["shallowest"]).unwrap_err().to_string();
        assert!(refused.contains("shallowest: is not searched"), "{refused}");
    }

    #[test]
    fn a_misspelt_part_is_told_the_right_one() {
        let refused = space(&["cpulatency"]).unwrap_err().to_string();
        assert!(refused.contains("cpu-latency"), "{refused}");
    }
}
