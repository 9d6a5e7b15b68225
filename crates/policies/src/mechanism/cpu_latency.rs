//! `cpu-latency`: a latency request, which the kernel hands to the idle governor.

use wakepath_hardware::machine::MAX_LATENCY_REQUEST_US;
use wakepath_units::{Nanoseconds, cpus, quantity};

use super::idle_states::parse_state_name;
use super::key::{Fallback, Form, Key, KeyInfo, TimeUnit};
use super::{EVERYWHERE, Kind, Mechanism, Policy};
use crate::latency::{CpuLatency, LatencyLimit, LatencyScope, StateName};

static LIMIT: Key<Option<Nanoseconds>> = Key {
    info: KeyInfo {
        name: "limit",
        meaning: "the longest exit latency; none: no limit. With state: where there is no such state",
        unit: "",
        fallback: Fallback::Derived("that of state"),
        example: "20us",
    },
    words: &[("none", None)],
    form: Form::Time(TimeUnit::Micros, MAX_LATENCY_REQUEST_US, Some),
};
static STATE: Key<StateName> = Key {
    info: KeyInfo {
        name: "state",
        meaning: "the deepest state, whose exit latency is the limit",
        unit: "",
        fallback: Fallback::Derived("limit says it"),
        example: "C1E",
    },
    words: &[],
    form: Form::Text(
        "a state by name such as C1E, or by number such as 1",
        |text| {
            let index =
                quantity::parse_whole_number(text).and_then(|index| usize::try_from(index).ok());
            index
                .map(StateName::Index)
                .or_else(|| parse_state_name(text).map(StateName::Name))
        },
    ),
};
static CPUS: Key<LatencyScope> = Key {
    info: KeyInfo {
        name: "cpus",
        meaning: "the CPUs that it holds for, each by itself, without a process",
        unit: "",
        fallback: Fallback::Derived("the whole system, while a process holds it"),
        example: "0-3,8",
    },
    words: &[("all", LatencyScope::EachCpu)],
    form: Form::List("CPUs such as 0-3,8", |text| {
        let cpus = cpus::parse_cpu_list(text).filter(|cpus| !cpus.is_empty());
        cpus.map(LatencyScope::Cpus)
    }),
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "cpu-latency",
    kind: Kind::CpuLatency,
    versioned: false,
    summary: "no idle state with a longer exit latency: what governors are told, the states stay on",
    source: "cpuidle_governor_latency_req(), drivers/cpuidle/governor.c",
    on: EVERYWHERE,
    keys: &[&LIMIT, &STATE, &CPUS],
    overlaps: &[],
    build: |given| {
        let limit = match (given.given_value(&STATE)?, given.given_value(&LIMIT)?) {
            (None, Some(limit)) => limit.map_or(LatencyLimit::Lifted, LatencyLimit::Of),
            (Some(state), None) => LatencyLimit::State { state, or: None },
            (Some(state), Some(or @ Some(_))) => LatencyLimit::State { state, or },
            (Some(_), Some(None)) => {
                return Err(given.keys_error("limit=none lifts the request, and state sets one"));
            }
            (None, None) => {
                return Err(
                    given.keys_error("limit or state is missing, as in cpu-latency[limit=20us]")
                );
            }
        };
        Ok(Policy::CpuLatency(CpuLatency {
            limit,
            scope: given.given_value(&CPUS)?.unwrap_or(LatencyScope::System),
        }))
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::PolicySet;

    const STATES: [(&str, u64); 4] = [("POLL", 0), ("C1", 2), ("C1E", 10), ("C6", 133)];
    const WITHOUT_LATENCY: [(&str, u64); 2] = [("POLL", 0), ("HALT", 0)];

    fn limit_on(policy: &str, states: &[(&str, u64)]) -> Result<Option<u64>, String> {
        let set: PolicySet = format!("cpu-latency[{policy}]").parse().unwrap();
        let limit = &set.cpu_latency().unwrap().limit;
        let states = states.iter();
        limit
            .limit_for_states(states.map(|(name, us)| (*name, Nanoseconds::from_micros(*us))))
            .map(|limit| limit.map(Nanoseconds::as_micros))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_state_is_found_by_name_and_by_number() {
        assert_eq!(limit_on("state=c1e", &STATES), Ok(Some(10)));
        assert_eq!(limit_on("state=1", &STATES), Ok(Some(2)));
        assert_eq!(limit_on("state=POLL", &STATES), Ok(Some(0)));
        assert_eq!(limit_on("limit=none", &STATES), Ok(None));
        let missing = limit_on("state=C8", &STATES).unwrap_err();
        assert!(missing.contains("`C8`") && missing.contains("POLL, C1, C1E, C6"));
        assert!(limit_on("state=4", &STATES).unwrap_err().contains("`4`"));
    }

    /// `TuneD` writes this as `cstate.id_no_zero:1|3`.
    #[test]
    fn a_limit_stands_in_for_a_state_without_exit_latency() {
        for (states, us) in [
            (&STATES[..], 2),
            (&WITHOUT_LATENCY[..], 3),
            (&WITHOUT_LATENCY[..1], 3),
        ] {
            assert_eq!(limit_on("state=1,limit=3us", states), Ok(Some(us)));
        }
        assert_eq!(limit_on("state=1", &WITHOUT_LATENCY), Ok(Some(0)));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (text, says) in [
            ("cpu-latency", "limit or state is missing"),
            ("cpu-latency[cpus=all]", "limit or state is missing"),
            ("cpu-latency[state=1,limit=none]", "limit=none lifts"),
            ("cpu-latency[state=-1]", "a state by name"),
            ("cpu-latency[state=]", "a state by name"),
        ] {
            let error = text.parse::<PolicySet>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
