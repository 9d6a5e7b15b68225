//! The kernel version of a policy.

use super::SpecError;
use crate::idle::KernelVersion;
use crate::mechanism::Mechanism;

/// What a bare name means. It stays 6.12, the kernel of Debian 13, so that what was run once by a bare name gives the
/// same again. `--kernel` sets another, and so does a machine that says which kernel it runs.
pub const BARE: KernelVersion = KernelVersion::V6_12;

/// The version that a mechanism is to have: the one that is given after the `@`, or that of a bare name.
/// `None` for a mechanism without versions.
pub(super) fn choose(
    mechanism: &'static Mechanism,
    wanted: Option<&str>,
) -> Result<Option<KernelVersion>, SpecError> {
    let Some(wanted) = wanted else {
        return Ok(mechanism.versioned.then_some(BARE));
    };
    let problem = if mechanism.versioned {
        match wanted.parse::<KernelVersion>() {
            Ok(version) => return Ok(Some(version)),
            Err(error) => error.problem().to_owned(),
        }
    } else {
        format!("`{}` has no versions", mechanism.name)
    };
    Err(SpecError::UnknownVersion {
        name: mechanism.name,
        version: wanted.to_owned(),
        problem,
    })
}
