//! The haltpoll policy with the parameters that a machine has.

use wakepath_policies::PolicySpec;
use wakepath_policies::mechanism::key::Fallback;
use wakepath_policies::spec::SpecError;
use wakepath_units::KernelVersion;

use crate::setting::SettingInfo;

/// The haltpoll policy as a machine has it set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaltpollAsSet {
    /// The policy, with parameters that differ from the kernel's defaults.
    pub policy: PolicySpec,
    /// Whether all parameters of haltpoll could be read.
    pub complete: bool,
}

impl HaltpollAsSet {
    /// Makes the policy from a machine's settings. `read_setting` reads a setting such as `haltpoll-max`, as the machine
    /// writes it.
    ///
    /// # Errors
    /// None that occurs: the policy `haltpoll` exists, and gets only values that it allows.
    pub fn from_settings(
        kernel: KernelVersion,
        read_setting: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SpecError> {
        let mut complete = true;
        let mut policy = "haltpoll".parse::<PolicySpec>()?.in_kernel_version(kernel);
        for key in policy.mechanism().keys {
            let parameter = key.key_info();
            let found = SettingInfo::find_haltpoll_parameter(parameter.name)
                .and_then(|info| read_setting(info.name))
                .map(|text| match text.as_str() {
                    "Y" => "on".to_owned(),
                    "N" => "off".to_owned(),
                    _ => text,
                });
            let Some(text) = found.filter(|text| key.accepts_value(text)) else {
                complete = false;
                continue;
            };
            let is_default = matches!(parameter.fallback, Fallback::Value(value) if value == text);
            if !is_default {
                policy = policy.with_key(parameter.name, &text)?;
            }
        }
        Ok(Self { policy, complete })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: [(&str, &str); 5] = [
        ("haltpoll-max", "0"),
        ("haltpoll-shrink", "2"),
        ("haltpoll-grow", "2"),
        ("haltpoll-start", "50000"),
        ("haltpoll-may-shrink", "N"),
    ];

    /// haltpoll on a machine with the first `count` settings.
    fn with_settings(count: usize) -> HaltpollAsSet {
        HaltpollAsSet::from_settings(KernelVersion::V6_1, |name| {
            let mut settings = SETTINGS[..count].iter();
            let (_, value) = settings.find(|(setting, _)| *setting == name)?;
            Some((*value).to_owned())
        })
        .unwrap()
    }

    #[test]
    fn what_differs_from_the_defaults_is_said() {
        let all = with_settings(5);
        assert_eq!(
            all.policy.to_string(),
            "haltpoll@6.1[guest_halt_poll_ns=0,guest_halt_poll_allow_shrink=off]"
        );
        assert!(all.complete);
        assert_eq!(
            with_settings(1).policy.to_string(),
            "haltpoll@6.1[guest_halt_poll_ns=0]"
        );
        assert!(!with_settings(1).complete && !with_settings(0).complete);
        assert_eq!(with_settings(0).policy.to_string(), "haltpoll@6.1");
    }
}
