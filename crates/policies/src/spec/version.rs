//! Kernel version of a policy.

use super::SpecError;
use crate::idle::KernelVersion;
use crate::mechanism::Mechanism;

/// Kernel version meant by a bare name. Fixed to 6.12, the kernel in Debian 13, so that old commands repeat their
/// results. `--kernel`, or a machine with a known kernel, overrides.
pub const BARE: KernelVersion = KernelVersion::V6_12;

/// The version for a mechanism: given after the `@`, or else the bare name's. `None` for a mechanism without
/// versions.
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
