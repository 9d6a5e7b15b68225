//! A policy set: the policies that a user chose for a run or a machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{PolicySpec, SpecError};
use crate::apst::ApstSettings;
use crate::freq::FreqPolicy;
use crate::freq::epp::Epp;
use crate::freq::limits::FrequencyLimits;
use crate::idle::limit::IdleStatesLimit;
use crate::idle::program::{Program, ProgramForm};
use crate::idle::{IdlePolicy, KernelVersion};
use crate::kernel_config::KernelConfig;
use crate::latency::{CpuLatency, DriveLatency};
use crate::mechanism::amd_pstate::amd_epp_number;
use crate::mechanism::{Kind, Policy};
use crate::poll::PollPolicy;
use crate::profile::{Profile, find_profile_if_tool_named};
use crate::psd::PsdSettings;

/// Name of the empty policy set: everything stays as on the machine.
const UNCHANGED: &str = "unchanged";

/// Policies in force together, at most one per [`Kind`]: `menu@6.12 + psd[timeout=3ms]`. Other settings stay as on
/// the machine; the empty set, `unchanged`, changes nothing. A set can name a [`Profile`] by another tool; the
/// profile's policies depend on the machine and are not listed below.
///
/// ```
/// use wakepath_policies::spec::PolicySet;
///
/// let set: PolicySet = "teo + epp[value=power]".parse()?;
/// let all = set.with_policy("psd".parse()?)?.completed_from(&"menu + schedutil".parse()?);
/// assert_eq!(all.to_string(), "teo@6.12 + epp[value=power] + psd + schedutil");
/// assert_eq!(PolicySet::default().to_string(), "unchanged");
/// # Ok::<(), wakepath_policies::spec::SpecError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicySet {
    profile: Option<&'static Profile>,
    policies: Vec<PolicySpec>,
}

impl PolicySet {
    /// Makes a set from policies.
    ///
    /// # Errors
    ///
    /// Two policies make the same kind of decision, or change the same setting.
    pub fn new(policies: impl IntoIterator<Item = PolicySpec>) -> Result<Self, SpecError> {
        let mut set = Self::default();
        for policy in policies {
            set.add_policy(policy)?;
        }
        Ok(set)
    }

    /// Makes a set from names of policies and profiles.
    ///
    /// # Errors
    ///
    /// As [`PolicySet::join_sets`], or a name belongs to no policy and no profile.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, SpecError> {
        let parts = names
            .into_iter()
            .map(|name| match find_profile_if_tool_named(name) {
                Some(profile) => profile.map(Self::from),
                None => name.parse::<PolicySpec>().map(Self::from),
            });
        Self::join_sets(parts.collect::<Result<Vec<Self>, SpecError>>()?)
    }

    /// Joins the policies of several sets in one set.
    ///
    /// # Errors
    ///
    /// As [`PolicySet::new`], or two sets have a profile.
    pub fn join_sets(sets: impl IntoIterator<Item = Self>) -> Result<Self, SpecError> {
        let mut all = Self::default();
        for set in sets {
            if let (Some(first), Some(second)) = (all.profile, set.profile) {
                return Err(SpecError::Profile {
                    text: format!("{first} + {second}"),
                    problem: "a set has at most one profile".to_owned(),
                });
            }
            all.profile = all.profile.or(set.profile);
            for policy in set.policies {
                all.add_policy(policy)?;
            }
        }
        Ok(all)
    }

    fn add_policy(&mut self, policy: PolicySpec) -> Result<(), SpecError> {
        for other in &self.policies {
            if other.kind() == policy.kind() {
                return Err(SpecError::SameKind {
                    first: other.to_string(),
                    second: policy.to_string(),
                    kind: policy.kind().name_for_users(),
                });
            }
            if let Some(key) =
                overlapping_key(other, &policy).or_else(|| overlapping_key(&policy, other))
            {
                return Err(SpecError::SetTwice {
                    first: other.to_string(),
                    second: policy.to_string(),
                    key,
                });
            }
        }
        self.policies.push(policy);
        Ok(())
    }

    /// Policies of the set, in the order given.
    pub fn policies(&self) -> &[PolicySpec] {
        &self.policies
    }

    /// Another tool's profile that fills the set's gaps ([`PolicySet::expand_profile`]).
    pub fn profile(&self) -> Option<&'static Profile> {
        self.profile
    }

    /// A copy of the set without the profile.
    #[must_use]
    pub fn without_profile(&self) -> Self {
        Self {
            profile: None,
            policies: self.policies.clone(),
        }
    }

    /// Whether the set changes nothing: no policy and no profile.
    pub fn is_empty(&self) -> bool {
        self.profile.is_none() && self.policies.is_empty()
    }

    /// Whether the set decides what `policy` decides: by a policy of the same kind, or one that
    /// changes the same setting.
    pub fn decides_kind_or_setting_of(&self, policy: &PolicySpec) -> bool {
        self.policies
            .iter()
            .any(|own| own.kind() == policy.kind() || overlapping_key(own, policy).is_some())
    }

    /// Finds the set's policy of a kind; `None` if the set leaves that decision to the machine.
    pub fn policy_of_kind(&self, kind: Kind) -> Option<&PolicySpec> {
        self.policies.iter().find(|policy| policy.kind() == kind)
    }

    /// A copy of the set with a policy, which replaces the policy of equal kind.
    ///
    /// # Errors
    ///
    /// Another policy of the set changes the same setting.
    pub fn with_policy(&self, policy: PolicySpec) -> Result<Self, SpecError> {
        let mut policies = self.policies.clone();
        match policies.iter_mut().find(|p| p.kind() == policy.kind()) {
            Some(old) => *old = policy,
            None => policies.push(policy),
        }
        let profile = self.profile;
        Self::new(policies).map(|set| Self { profile, ..set })
    }

    /// A copy of the set completed from `other`: policies of other kinds, without keys for settings
    /// that this set changes.
    #[must_use]
    pub fn completed_from(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.profile = self.profile.or(other.profile);
        for policy in other
            .policies
            .iter()
            .filter(|policy| !self.decides_kind_or_setting_of(policy))
        {
            let left_out = self.keys_changed_by_other_mechanisms(policy);
            all.policies.push(policy.without_keys(&left_out));
        }
        all
    }

    /// Keys of a policy whose settings another mechanism in this set changes.
    pub(crate) fn keys_changed_by_other_mechanisms(
        &self,
        policy: &PolicySpec,
    ) -> Vec<&'static str> {
        let overlaps = policy.mechanism().overlaps.iter();
        let elsewhere = overlaps.filter(|(_, kind)| self.policy_of_kind(*kind).is_some());
        elsewhere.map(|(key, _)| *key).collect()
    }

    /// The set on a machine's kernel: each bare name gets the kernel's version.
    #[must_use]
    pub fn with_kernel_for_bare_names(mut self, kernel: KernelVersion) -> Self {
        for policy in &mut self.policies {
            *policy = policy.with_kernel_if_bare(kernel);
        }
        self
    }

    /// A copy that counts all versions as given, so that a machine with another kernel does not
    /// change them.
    #[must_use]
    pub fn with_fixed_versions(mut self) -> Self {
        for policy in &mut self.policies {
            *policy = policy.with_fixed_version();
        }
        self
    }

    /// Text of the set as the user wrote it: bare names stay without version.
    pub fn text_as_written(&self) -> String {
        let profile = self.profile.map(ToString::to_string);
        let policies = self.policies.iter().map(PolicySpec::text_as_written);
        let parts: Vec<String> = profile.into_iter().chain(policies).collect();
        if parts.is_empty() {
            UNCHANGED.to_owned()
        } else {
            parts.join(" + ")
        }
    }

    /// A copy whose own governor, if any, is replaced by what `make` returns.
    ///
    /// # Errors
    ///
    /// The error of `make`.
    pub fn try_replace_own_governor<E>(
        mut self,
        make: impl Fn(&Program) -> Result<Program, E>,
    ) -> Result<Self, E> {
        for policy in &mut self.policies {
            if let Some(program) = policy.own_governor() {
                let made = make(program)?;
                *policy = policy.with_own_governor(made);
            }
        }
        Ok(self)
    }

    /// The user's own governor, if the set has one.
    pub fn own_governor(&self) -> Option<&Program> {
        self.policies.iter().find_map(PolicySpec::own_governor)
    }

    /// A copy in the order of [`Kind`], so that sets of equal policies are equal.
    #[must_use]
    pub fn sorted_by_kind(mut self) -> Self {
        self.policies.sort_by_key(PolicySpec::kind);
        self
    }

    /// Text that is equal for sets that decide the same: keys at their defaults count as given, and a preference or boost of the
    /// hardware's belongs to the frequency policy that takes it.
    ///
    /// ```
    /// use wakepath_policies::spec::PolicySet;
    ///
    /// let short: PolicySet = "menu + intel_pstate-hwp + epp[value=power]".parse()?;
    /// let long: PolicySet = "menu + intel_pstate-hwp[epp=255,hwp_dynamic_boost=off]".parse()?;
    /// assert_eq!(short.describe_decisions(), long.describe_decisions());
    /// # Ok::<(), wakepath_policies::spec::SpecError>(())
    /// ```
    pub fn describe_decisions(&self) -> String {
        let (frequency, taken) = self.frequency_with_hints_that_it_takes();
        let all = self.clone().sorted_by_kind();
        let policies = all
            .policies
            .iter()
            .filter(|spec| !taken.contains(&spec.kind()));
        let texts = policies.map(|spec| {
            let (name, version) = (spec.mechanism().name, spec.version());
            match (spec.kind(), frequency) {
                (Kind::Frequency, Some(frequency)) => format!("{name} {version:?} {frequency:?}"),
                _ => format!("{name} {version:?} {:?}", spec.typed_policy()),
            }
        });
        let profile = self.profile.map(ToString::to_string);
        profile
            .into_iter()
            .chain(texts)
            .collect::<Vec<_>>()
            .join(" + ")
    }

    /// The frequency policy with the set's preference and boost where it takes them, and the kinds that it took.
    fn frequency_with_hints_that_it_takes(&self) -> (Option<FreqPolicy>, Vec<Kind>) {
        let mut taken = Vec::new();
        let mut frequency = self.frequency();
        match &mut frequency {
            Some(FreqPolicy::IntelPstateHwp { dynamic_boost, epp }) => {
                if let Some(number) = self.epp().and_then(Epp::number) {
                    *epp = number;
                    taken.push(Kind::Epp);
                }
                if let Some(on) = self.hwp_boost() {
                    *dynamic_boost = on;
                    taken.push(Kind::HwpBoost);
                }
            }
            Some(FreqPolicy::AmdPstate(settings)) if settings.takes_preference() => {
                if let Some(number) = self.epp().and_then(amd_epp_number) {
                    settings.epp = number;
                    taken.push(Kind::Epp);
                }
            }
            _ => {}
        }
        (frequency, taken)
    }

    /// The idle governor.
    pub fn idle(&self) -> Option<IdlePolicy> {
        self.find_policy(|policy| match policy {
            Policy::Idle(policy) => Some(policy.clone()),
            _ => None,
        })
    }

    /// Limit that the set puts on idle states; `None`: unchanged.
    pub fn idle_states(&self) -> Option<&IdleStatesLimit> {
        self.find_policy(|policy| match policy {
            Policy::IdleStates(limit) => Some(limit),
            _ => None,
        })
    }

    /// The latency request.
    pub fn cpu_latency(&self) -> Option<&CpuLatency> {
        self.find_policy(|policy| match policy {
            Policy::CpuLatency(latency) => Some(latency),
            _ => None,
        })
    }

    /// Settings of the polling limit in the set; `None`: unchanged.
    pub fn poll(&self) -> Option<PollPolicy> {
        self.find_policy(|policy| match policy {
            Policy::Poll(policy) => Some(*policy),
            _ => None,
        })
    }

    /// Settings of the leases after I/O in the set; `None`: no leases.
    pub fn psd(&self) -> Option<&PsdSettings> {
        self.find_policy(|policy| match policy {
            Policy::Psd(settings) => Some(settings),
            _ => None,
        })
    }

    /// The frequency policy.
    pub fn frequency(&self) -> Option<FreqPolicy> {
        self.find_policy(|policy| match policy {
            Policy::Frequency(policy) => Some(*policy),
            _ => None,
        })
    }

    /// Limits of the frequency by the set's `frequency[...]`; `None`: unchanged.
    pub fn frequency_limits(&self) -> Option<FrequencyLimits> {
        self.find_policy(|policy| match policy {
            Policy::FrequencyLimits(limits) => Some(*limits),
            _ => None,
        })
    }

    /// Energy-performance preference by the set's `epp[value=...]`; `None`: unchanged.
    pub fn epp(&self) -> Option<Epp> {
        self.find_policy(|policy| match policy {
            Policy::Epp(epp) => Some(*epp),
            _ => None,
        })
    }

    /// Whether the set's `hwp-boost[value=...]` switches HWP dynamic boost on; `None`: unchanged.
    pub fn hwp_boost(&self) -> Option<bool> {
        self.find_policy(|policy| match policy {
            Policy::HwpBoost(on) => Some(*on),
            _ => None,
        })
    }

    /// Whether the set's `c1-demotion[value=...]` lets the firmware demote deep idle states;
    /// `None`: unchanged.
    pub fn c1_demotion(&self) -> Option<bool> {
        self.find_policy(|policy| match policy {
            Policy::C1Demotion(on) => Some(*on),
            _ => None,
        })
    }

    /// Settings for a drive's autonomous sleep in the set; `None`: unchanged.
    pub fn apst(&self) -> Option<ApstSettings> {
        self.find_policy(|policy| match policy {
            Policy::Apst(settings) => Some(*settings),
            _ => None,
        })
    }

    /// Latency tolerance of drives in the set; `None`: unchanged.
    pub fn drive_latency(&self) -> Option<DriveLatency> {
        self.find_policy(|policy| match policy {
            Policy::DriveLatency(tolerance) => Some(*tolerance),
            _ => None,
        })
    }

    /// APST settings under the set: the kernel's where the set has none, and the limit of `drive-latency`.
    pub fn apst_settings_with_drive_latency(&self) -> ApstSettings {
        let mut settings = self.apst().unwrap_or_default();
        match self.drive_latency() {
            Some(DriveLatency::Limit(limit)) => settings.max_latency_us = limit.as_micros(),
            Some(DriveLatency::Any | DriveLatency::Auto) => settings.max_latency_us = u64::MAX,
            None => {}
        }
        settings
    }

    /// Window of sequential buffered readers in the set, in KiB; `None`: unchanged.
    pub fn read_ahead_kib(&self) -> Option<u64> {
        self.find_policy(|policy| match policy {
            Policy::ReadAhead(kib) => Some(*kib),
            _ => None,
        })
    }

    /// Whether clocks above the base clock may be used by the set's `turbo[value=...]`; `None`: unchanged.
    pub fn turbo(&self) -> Option<bool> {
        self.find_policy(|policy| match policy {
            Policy::Turbo(on) => Some(*on),
            _ => None,
        })
    }

    /// CPUs that interrupts of drives may go to by the set; `None`: unchanged.
    pub fn irq_affinity(&self) -> Option<&[usize]> {
        self.find_policy(|policy| match policy {
            Policy::IrqAffinity(cpus) => Some(&cpus[..]),
            _ => None,
        })
    }

    /// Whether, by the set, waiting with `io_uring` counts as waiting for I/O; `None`: unchanged.
    pub fn io_uring_iowait(&self) -> Option<bool> {
        self.find_policy(|policy| match policy {
            Policy::IoUring(counts) => Some(*counts),
            _ => None,
        })
    }

    /// Changes of the kernel's configuration in the set; `None`: unchanged.
    pub fn kernel_config(&self) -> Option<KernelConfig> {
        self.find_policy(|policy| match policy {
            Policy::KernelConfig(config) => Some(*config),
            _ => None,
        })
    }

    fn find_policy<'a, T>(&'a self, select: impl Fn(&'a Policy) -> Option<T>) -> Option<T> {
        self.policies
            .iter()
            .find_map(|policy| select(policy.typed_policy()))
    }
}

/// Key of `one` that changes the same setting as the mechanism of `other`; `None` without an
/// overlap.
fn overlapping_key(one: &PolicySpec, other: &PolicySpec) -> Option<&'static str> {
    let overlaps = one.mechanism().overlaps.iter();
    let mut same = overlaps.filter(|(_, kind)| *kind == other.kind());
    let (key, _) = same.find(|(key, _)| one.given_keys().any(|(given, _)| given == *key))?;
    Some(key)
}

impl From<PolicySpec> for PolicySet {
    fn from(policy: PolicySpec) -> Self {
        Self {
            profile: None,
            policies: vec![policy],
        }
    }
}

impl From<&'static Profile> for PolicySet {
    fn from(profile: &'static Profile) -> Self {
        Self {
            profile: Some(profile),
            policies: Vec::new(),
        }
    }
}

impl fmt::Display for PolicySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str(UNCHANGED);
        }
        let mut separator = "";
        if let Some(profile) = self.profile {
            write!(f, "{profile}")?;
            separator = " + ";
        }
        for policy in &self.policies {
            write!(f, "{separator}{policy}")?;
            separator = " + ";
        }
        Ok(())
    }
}

impl FromStr for PolicySet {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if matches!(text.trim(), "" | UNCHANGED) {
            return Ok(Self::default());
        }
        Self::from_names(split_outside_brackets(text, '+')?)
    }
}

impl Serialize for PolicySet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PolicySet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Whether a character belongs to the path of an own governor that begins at `start`. After a path,
/// the joining `+` needs spaces on both sides.
fn is_in_governor_path(text: &str, start: usize, position: usize) -> bool {
    let spaced = text[..position].ends_with(' ') && text[position + 1..].starts_with(' ');
    text.as_bytes()[position] == b'+'
        && !spaced
        && ProgramForm::split_off_form(text[start..].trim_start()).is_some()
}

/// Splits the text of a policy set at a separator, but not within brackets.
fn split_outside_brackets(text: &str, separator: char) -> Result<Vec<&str>, SpecError> {
    let mut names = Vec::new();
    let mut start = 0;
    let mut inside = false;
    for (at, c) in text.char_indices() {
        match c {
            '[' if inside => return Err(SpecError::syntax_error(text, "brackets do not nest")),
            '[' => inside = true,
            ']' if !inside => {
                return Err(SpecError::syntax_error(
                    text,
                    "there is a `]` without a `[`",
                ));
            }
            ']' => inside = false,
            c if c == separator && !inside && !is_in_governor_path(text, start, at) => {
                names.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(SpecError::syntax_error(text, "the `[` is not closed"));
    }
    names.push(text[start..].trim());
    if names.iter().any(|name| name.is_empty()) {
        return Err(SpecError::syntax_error(text, "a name is missing"));
    }
    Ok(names)
}
