//! Policies and profiles for `wakepath policy list`.

use std::borrow::Cow;

use serde::Serialize;
use wakepath_policies::mechanism::{MECHANISMS, Mechanism, Place};
use wakepath_policies::profile::PROFILES;
use wakepath_units::KernelVersion;

use super::kernels::{self, GovernorGeneration};

/// A policy as `policy list` prints it.
#[derive(Serialize)]
pub(super) struct ListedPolicy {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) versions: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) generations: Vec<GovernorGeneration>,
    pub(super) summary: &'static str,
    pub(super) source: Cow<'static, str>,
    pub(super) on: Vec<&'static str>,
    pub(super) settings: Vec<ListedSetting>,
}

/// Other tools' profiles, listed as policies with the kind `set`.
pub(super) fn list_other_tools_profiles() -> impl Iterator<Item = ListedPolicy> {
    PROFILES.iter().map(|profile| ListedPolicy {
        name: profile.text,
        kind: "set",
        versions: Vec::new(),
        generations: Vec::new(),
        summary: profile.summary,
        source: format!("{}, {}", profile.tool.title, profile.source).into(),
        on: [Place::Sim, Place::Machine]
            .map(Place::command_name)
            .to_vec(),
        settings: Vec::new(),
    })
}

#[derive(Serialize)]
pub(super) struct ListedSetting {
    pub(super) key: &'static str,
    pub(super) default: &'static str,
    pub(super) unit: &'static str,
    pub(super) allowed: String,
    pub(super) meaning: &'static str,
}

pub(super) fn list_policies_and_profiles() -> Vec<ListedPolicy> {
    MECHANISMS
        .iter()
        .map(|mechanism| ListedPolicy {
            name: mechanism.name_with_placeholder(),
            kind: mechanism.kind.name_for_users(),
            versions: kernel_series_if_versioned(mechanism),
            generations: kernels::generations_if_menu_or_teo(mechanism.name),
            summary: mechanism.summary,
            source: mechanism.source.into(),
            on: mechanism
                .on
                .iter()
                .copied()
                .map(Place::command_name)
                .collect(),
            settings: mechanism
                .keys
                .iter()
                .map(|key| ListedSetting {
                    key: key.key_info().name,
                    default: key.key_info().fallback.text_or_required(),
                    unit: key.key_info().unit,
                    allowed: key.describe_accepted_values(),
                    meaning: key.key_info().meaning,
                })
                .collect(),
        })
        .chain(list_other_tools_profiles())
        .collect()
}

/// Kernel series that can be given as a mechanism's version.
pub(super) fn kernel_series_if_versioned(mechanism: &Mechanism) -> Vec<String> {
    let series = KernelVersion::all_series().filter(|_| mechanism.versioned);
    series.map(|version| version.to_string()).collect()
}
