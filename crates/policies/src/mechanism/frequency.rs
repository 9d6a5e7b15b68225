//! `frequency`: the range that the frequency policy may use.

use wakepath_units::Kilohertz;

use super::key::{Fallback, Form, Key, KeyInfo};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};
use crate::freq::limits::FrequencyLimits;

const fn frequency_key(
    name: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key<Kilohertz> {
    Key {
        info: KeyInfo {
            name,
            meaning,
            unit: "",
            fallback: Fallback::Derived("unchanged"),
            example,
        },
        words: &[],
        form: Form::Frequency(|khz| khz),
    }
}

static MIN: Key<Kilohertz> = frequency_key("min", "1200MHz", "the lowest frequency to use");
static MAX: Key<Kilohertz> = frequency_key("max", "2.4GHz", "the highest frequency to use");

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "frequency",
    kind: Kind::FrequencyLimits,
    versioned: false,
    summary: "the range of frequencies to use",
    source: "scaling_min_freq and scaling_max_freq, Documentation/admin-guide/pm/cpufreq.rst",
    on: SIM_AND_MACHINE,
    keys: &[&MIN, &MAX],
    overlaps: &[],
    build: |given| {
        let limits = FrequencyLimits {
            min: given.given_value(&MIN)?,
            max: given.given_value(&MAX)?,
        };
        match limits {
            FrequencyLimits {
                min: None,
                max: None,
            } => Err(given.keys_error("min or max is missing, as in frequency[max=2.4GHz]")),
            FrequencyLimits {
                min: Some(min),
                max: Some(max),
            } if min > max => Err(given.keys_error(format!("min ({min}) is above max ({max})"))),
            limits => Ok(Policy::FrequencyLimits(limits)),
        }
    },
};
