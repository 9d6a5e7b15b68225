//! The kernel version of a policy.

use super::SpecError;
use crate::idle::KernelVersion;
use crate::mechanism::Mechanism;

/// The newest kernel whose policies are known: what a bare name means.
pub(crate) const NEWEST: KernelVersion = KernelVersion::V6_12;

/// The kernels whose idle governors are known, oldest first.
pub(crate) const KERNELS: &[KernelVersion] = &[KernelVersion::V6_1, NEWEST];

/// The version that a mechanism is to have: the one that is given after the `@`, or the newest.
/// `None` for a mechanism without versions.
pub(super) fn choose(
    mechanism: &'static Mechanism,
    wanted: Option<&str>,
) -> Result<Option<KernelVersion>, SpecError> {
    let Some(wanted) = wanted else {
        return Ok(mechanism.versions.last().copied());
    };
    let known = || mechanism.versions.iter().copied();
    let found = known().find(|version| version.to_string() == wanted);
    found.map(Some).ok_or_else(|| SpecError::UnknownVersion {
        name: mechanism.name,
        version: wanted.to_owned(),
        known: if mechanism.versions.is_empty() {
            "it has no versions".to_owned()
        } else {
            let names: Vec<String> = known().map(|version| version.to_string()).collect();
            format!("known: {}", names.join(", "))
        },
    })
}
