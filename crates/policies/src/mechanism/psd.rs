//! `psd`: leases after I/O.

use wakepath_hardware::idle::MAX_STATES;
use wakepath_units::{Nanoseconds, quantity};

use super::idle_states::{parse_state_name, parse_whole_microseconds};
use super::key::{Fallback, Form, Key, KeyInfo, TimeUnit, choice_key};
use super::{EVERYWHERE, Kind, Mechanism, Policy};
use crate::psd::{Ceiling, Grant, LeaseCeiling, LeaseRule, PsdSettings};

static TIMEOUT: Key<Nanoseconds> = Key {
    info: KeyInfo {
        name: "timeout",
        meaning: "how long a lease lasts; 0ms: off",
        unit: "",
        fallback: Fallback::Value("3ms"),
        example: "5ms",
    },
    words: &[],
    form: Form::Time(TimeUnit::Millis, u32::MAX as u64, |time| time),
};
static CEILING: Key<LeaseCeiling> = Key {
    info: KeyInfo {
        name: "ceiling",
        meaning: "how deeply a CPU with a lease may sleep; auto: in C1 and C1E",
        unit: "",
        fallback: Fallback::Derived("shallowest; 20us under rule=module, auto under rule=daemon"),
        example: "20us",
    },
    words: &[
        ("shallowest", LeaseCeiling::Of(Ceiling::Shallowest)),
        ("auto", LeaseCeiling::Auto),
    ],
    form: Form::Text(
        "a latency such as 20us, a state by name such as C1E, or by index such as state:1",
        parse_lease_ceiling,
    ),
};
static GRANT: Key<Grant> = choice_key(
    "grant",
    &[
        ("completion", Grant::Completion),
        ("issue", Grant::Issue),
        ("both", Grant::Both),
    ],
    "completion",
    "issue",
    "what gives a CPU a lease",
);
static START_AFTER: Key<u32> = Key {
    info: KeyInfo {
        name: "start_after",
        meaning: "the I/O of a burst that gives the first lease, 1 to 1000",
        unit: "",
        fallback: Fallback::Derived("1; 2 under rule=daemon"),
        example: "3",
    },
    words: &[],
    form: Form::Text("a whole number from 1 to 1000", |text| {
        let count = quantity::parse_whole_number(text).filter(|n| (1..=1000).contains(n))?;
        u32::try_from(count).ok()
    }),
};
static RULE: Key<LeaseRule> = choice_key(
    "rule",
    &[
        ("patch", LeaseRule::Patch),
        ("module", LeaseRule::Module),
        ("daemon", LeaseRule::Daemon),
    ],
    "patch",
    "daemon",
    "whose leases: those of the kernel patch, of wakepath's module, or of its daemon",
);

fn parse_lease_ceiling(text: &str) -> Option<LeaseCeiling> {
    if let Some(index) = text.strip_prefix("state:") {
        let index = usize::try_from(quantity::parse_whole_number(index)?).ok()?;
        return (index < MAX_STATES).then_some(LeaseCeiling::Of(Ceiling::State(index)));
    }
    let by_latency =
        parse_whole_microseconds(text).map(|limit| LeaseCeiling::Of(Ceiling::Latency(limit)));
    by_latency.or_else(|| parse_state_name(text).map(LeaseCeiling::Named))
}

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "psd",
    kind: Kind::Psd,
    versioned: false,
    summary: "no deep sleep for a while after an I/O completion",
    source: "a proposed kernel patch, in no released kernel; wakepath's module and daemon",
    on: EVERYWHERE,
    keys: &[&TIMEOUT, &CEILING, &GRANT, &START_AFTER, &RULE],
    overlaps: &[],
    build: |given| {
        let rule = given.value_or_default(&RULE)?;
        Ok(Policy::Psd(PsdSettings {
            timeout_ms: (given.value_or_default(&TIMEOUT)?.0 / 1_000_000) as u32,
            ceiling: given
                .given_value(&CEILING)?
                .unwrap_or_else(|| rule.default_ceiling()),
            grant: given.value_or_default(&GRANT)?,
            start_after: given
                .given_value(&START_AFTER)?
                .unwrap_or_else(|| rule.default_start_after()),
            rule,
        }))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::PolicySpec;

    #[test]
    fn what_is_not_given_is_what_the_rule_has() {
        for (name, rule) in [
            ("psd", LeaseRule::Patch),
            ("psd[rule=module]", LeaseRule::Module),
            ("psd[rule=daemon]", LeaseRule::Daemon),
        ] {
            let spec: PolicySpec = name.parse().unwrap();
            assert_eq!(
                spec.as_psd_settings(),
                Ok(rule.default_settings()),
                "{name}"
            );
        }
    }
}
