//! The parameters of haltpoll that a machine has, as a policy name writes them.

use wakepath_policies::mechanism::{self, key::Fallback};

use crate::setting::SettingInfo;

/// What a policy name says of haltpoll's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaltpollAsSet {
    /// `[guest_halt_poll_ns=0]`: those that are not the kernel's defaults. Empty: all are.
    pub settings: String,
    /// All parameters are known.
    pub complete: bool,
}

impl HaltpollAsSet {
    /// From the values of the settings `haltpoll-max` and so on, as the machine writes them.
    pub fn of(value: impl Fn(&str) -> Option<String>) -> Self {
        let mut complete = true;
        let mut given = Vec::new();
        let keys = mechanism::find("haltpoll").map_or(&[][..], |haltpoll| haltpoll.keys);
        for key in keys {
            let parameter = key.info();
            let found = SettingInfo::of_haltpoll(parameter.name)
                .and_then(|info| value(info.name))
                .map(|text| match text.as_str() {
                    "Y" => "on".to_owned(),
                    "N" => "off".to_owned(),
                    _ => text,
                });
            match found.filter(|text| key.allows(text)) {
                None => complete = false,
                Some(text) if matches!(parameter.fallback, Fallback::Value(value) if value == text) =>
                    {}
                Some(text) => given.push(format!("{}={text}", parameter.name)),
            }
        }
        let settings = if given.is_empty() {
            String::new()
        } else {
            format!("[{}]", given.join(","))
        };
        Self { settings, complete }
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
            HaltpollAsSet::of(|name| {
                let found = machine[..count].iter().find(|(of, _)| *of == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let all = of(5);
        assert_eq!(
            all.settings,
            "[guest_halt_poll_ns=0,guest_halt_poll_allow_shrink=off]"
        );
        assert!(all.complete);
        assert_eq!(of(1).settings, "[guest_halt_poll_ns=0]");
        assert!(!of(1).complete && !of(0).complete);
        assert_eq!(of(0).settings, "");
    }
}
