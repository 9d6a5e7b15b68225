//! haltpoll with the parameters that a machine has.

use wakepath_policies::PolicySpec;
use wakepath_policies::mechanism::key::Fallback;
use wakepath_policies::spec::SpecError;
use wakepath_units::KernelVersion;

use crate::setting::SettingInfo;

/// haltpoll as configured on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaltpollAsSet {
    /// The policy, with parameters that differ from the kernel's defaults.
    pub policy: PolicySpec,
    /// All parameters are known.
    pub complete: bool,
}

impl HaltpollAsSet {
    /// From the values of the settings `haltpoll-max` and so on, as the machine writes them.
    ///
    /// # Errors
    /// None that occurs: there is a policy `haltpoll`, and it is given only values that it may have.
    pub fn of(
        kernel: KernelVersion,
        value: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, SpecError> {
        let mut complete = true;
        let mut policy = "haltpoll".parse::<PolicySpec>()?.of_kernel(kernel);
        for key in policy.mechanism().keys {
            let parameter = key.info();
            let found = SettingInfo::of_haltpoll(parameter.name)
                .and_then(|info| value(info.name))
                .map(|text| match text.as_str() {
                    "Y" => "on".to_owned(),
                    "N" => "off".to_owned(),
                    _ => text,
                });
            let Some(text) = found.filter(|text| key.allows(text)) else {
                complete = false;
                continue;
            };
            let default = matches!(parameter.fallback, Fallback::Value(value) if value == text);
            if !default {
                policy = policy.with(parameter.name, &text)?;
            }
        }
        Ok(Self { policy, complete })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_the_defaults_is_said() {
        let machine = [
            ("haltpoll-max", "0"),
            ("haltpoll-shrink", "2"),
            ("haltpoll-grow", "2"),
            ("haltpoll-start", "50000"),
            ("haltpoll-may-shrink", "N"),
        ];
        let of = |count: usize| {
            let value = |name: &str| {
                let found = machine[..count].iter().find(|(of, _)| *of == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            HaltpollAsSet::of(KernelVersion::V6_1, value).unwrap()
        };
        let all = of(5);
        assert_eq!(
            all.policy.to_string(),
            "haltpoll@6.1[guest_halt_poll_ns=0,guest_halt_poll_allow_shrink=off]"
        );
        assert!(all.complete);
        assert_eq!(
            of(1).policy.to_string(),
            "haltpoll@6.1[guest_halt_poll_ns=0]"
        );
        assert!(!of(1).complete && !of(0).complete);
        assert_eq!(of(0).policy.to_string(), "haltpoll@6.1");
    }
}
