use proptest::prelude::*;

use wakepath_hardware::IdleStates;
use wakepath_hardware::idle::IdleState;
use wakepath_units::{Kilohertz, Nanoseconds};

use super::*;
use crate::apst::{ApstQuirks, ApstRule, ApstSettings};
use crate::freq::epp::Epp;
use crate::freq::limits::FrequencyLimits;
use crate::freq::{FreqPolicy, SchedutilSettings, iowait_boost};
use crate::idle::limit::StateLimit;
use crate::idle::{HaltpollParameters, IdlePolicy, KernelVersion};
use crate::latency::{CpuLatency, LatencyLimit, LatencyScope};
use crate::mechanism::{MECHANISMS, Mechanism, Policy, find_mechanism};
use crate::psd::{Ceiling, Grant, LeaseCeiling, LeaseRule, PsdPolicy, PsdSettings};

fn parse(text: &str) -> Result<PolicySpec, SpecError> {
    text.parse()
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn canonical_names_print_back_unchanged() {
    for name in [
        "menu@6.1",
        "menu@6.12",
        "teo@6.1",
        "ladder@6.12",
        "haltpoll@6.1[guest_halt_poll_shrink=0,guest_halt_poll_ns=100000]",
        "shallowest",
        "oracle[goal=latency]",
        "schedutil[iowait_boost=off]",
        "schedutil[rate_limit_us=500,iowait_boost_step=linear,iowait_boost_cap=512]",
        "intel_pstate-hwp[hwp_dynamic_boost=on,epp=balance_power]",
        "psd[timeout=3ms,ceiling=shallowest]",
        "psd[ceiling=state:1]",
        "psd[ceiling=20us,grant=both]",
        "psd[timeout=3ms,ceiling=C1E,start_after=2]",
        "psd[rule=daemon]",
        "cpu-latency[limit=20us,cpus=0-3,8]",
        "idle-states[disable=C3,C6,ceiling=C6]",
        "frequency[min=1.2GHz,max=2400MHz]",
        "epp[value=128]",
        "apst[rule=legacy]",
        "poll[request_us=20]",
    ] {
        assert_eq!(parse(name).unwrap().to_string(), name);
    }
}

#[test]
fn bare_names_mean_linux_6_12() {
    for name in ["menu", "teo", "ladder", "haltpoll"] {
        assert_eq!(parse(name).unwrap().to_string(), format!("{name}@6.12"));
    }
}

#[test]
fn defaults_are_those_of_the_types() {
    assert_eq!(
        parse("haltpoll").unwrap().as_idle_policy(),
        Ok(IdlePolicy::Haltpoll(
            KernelVersion::V6_12,
            HaltpollParameters::default()
        ))
    );
    assert_eq!(
        parse("schedutil").unwrap().as_frequency_policy(),
        Ok(FreqPolicy::Schedutil(SchedutilSettings::default()))
    );
    let psd = parse("psd").unwrap().as_psd_settings().unwrap();
    assert_eq!(
        psd.resolve_for_states(&states(&["POLL"])),
        Ok(PsdPolicy::default())
    );
    assert_eq!(
        parse("intel_pstate-hwp").unwrap().as_frequency_policy(),
        Ok(FreqPolicy::IntelPstateHwp {
            dynamic_boost: false,
            epp: 0x80
        })
    );
}

#[test]
fn settings_arrive() {
    assert_eq!(
        parse("psd[timeout=12ms,ceiling=20us,grant=both]")
            .unwrap()
            .as_psd_settings(),
        Ok(PsdSettings {
            timeout_ms: 12,
            ceiling: LeaseCeiling::Of(Ceiling::Latency(Nanoseconds(20_000))),
            grant: Grant::Both,
            start_after: 1,
            rule: LeaseRule::Patch,
        })
    );
    let apst = parse("apst[rule=legacy,max_latency_us=0,no_deepest=on]").unwrap();
    assert_eq!(
        apst.as_apst_settings(),
        Ok(ApstSettings {
            rule: ApstRule::Legacy,
            primary_timeout_ms: 100,
            secondary_timeout_ms: 2000,
            primary_tolerance_us: 15_000,
            secondary_tolerance_us: 100_000,
            max_latency_us: 0,
            enabled: true,
            quirks: ApstQuirks {
                no_deepest: true,
                no_apst: false
            },
        })
    );
    let schedutil = parse("schedutil[iowait_boost_step=linear,rate_limit_us=500]").unwrap();
    assert_eq!(
        schedutil.as_frequency_policy(),
        Ok(FreqPolicy::Schedutil(SchedutilSettings {
            boost: iowait_boost::Settings {
                step: iowait_boost::Step::Linear,
                ..iowait_boost::Settings::default()
            },
            rate_limit: Some(Nanoseconds(500_000)),
        }))
    );
}

#[test]
fn settings_of_real_machines_arrive() {
    let set = |text: &str| text.parse::<PolicySet>().unwrap();
    let latency = |limit: Option<u64>, scope| CpuLatency {
        limit: limit.map_or(LatencyLimit::Lifted, |us| {
            LatencyLimit::Of(Nanoseconds::from_micros(us))
        }),
        scope,
    };
    assert_eq!(
        set("cpu-latency[limit=20us]").cpu_latency(),
        Some(&latency(Some(20), LatencyScope::System))
    );
    assert_eq!(
        set("cpu-latency[limit=0.02ms, cpus=8,0-1]").cpu_latency(),
        Some(&latency(Some(20), LatencyScope::Cpus(vec![0, 1, 8])))
    );
    assert_eq!(
        set("cpu-latency[limit=none,cpus=all]").cpu_latency(),
        Some(&latency(None, LatencyScope::EachCpu))
    );
    let states = set("idle-states[ceiling=C1E,disable=C3,C6]");
    let states = states.idle_states().unwrap();
    assert_eq!(states.ceiling, Some(StateLimit::State("C1E".into())));
    assert_eq!(states.disable, ["C3", "C6"]);
    assert_eq!(
        set("frequency[max=2.4GHz]")
            .policies()
            .iter()
            .find_map(|one| match one.typed_policy() {
                Policy::FrequencyLimits(limits) => Some(*limits),
                _ => None,
            }),
        Some(FrequencyLimits {
            min: None,
            max: Some(Kilohertz(2_400_000))
        })
    );
    assert_eq!(
        set("epp[value=power]").epp().and_then(Epp::number),
        Some(255)
    );
    assert_eq!(set("hwp-boost[value=off]").hwp_boost(), Some(false));
    assert_eq!(set("io_uring[iowait=off]").io_uring_iowait(), Some(false));
    let tolerance = |text: &str| set(text).drive_latency().unwrap().to_string();
    assert_eq!(tolerance("drive-latency[tolerance=25ms]"), "25000");
    assert_eq!(tolerance("drive-latency[tolerance=any]"), "any");
}

fn states(names: &[&str]) -> IdleStates {
    let state = |(i, name): (usize, &&str)| IdleState {
        name: (*name).to_owned(),
        exit_latency: Nanoseconds(i as u64 * 1_000),
        target_residency: Nanoseconds(i as u64 * 2_000),
        polling: i == 0,
        disabled: false,
    };
    IdleStates::new(names.iter().enumerate().map(state).collect()).unwrap()
}

#[test]
fn a_ceiling_by_name_is_the_state_of_the_machine() {
    let skylake = states(&["POLL", "C1", "C1E", "C6"]);
    let on = |text: &str| {
        parse(text)
            .unwrap()
            .as_psd_settings()
            .unwrap()
            .resolve_for_states(&skylake)
    };
    let ceiling = |text: &str| on(text).map(|policy| policy.ceiling);
    assert_eq!(ceiling("psd[ceiling=C1E]"), Ok(Ceiling::State(2)));
    assert_eq!(ceiling("psd[ceiling=c1e]"), Ok(Ceiling::State(2)));
    assert_eq!(
        on("psd[ceiling=C1X]").unwrap_err().to_string(),
        "ceiling: no idle state is called `C1X` here; there are POLL, C1, C1E, C6"
    );
    for (text, rule, start_after) in [
        ("psd", LeaseRule::Patch, 1),
        ("psd[start_after=3]", LeaseRule::Patch, 3),
        ("psd[rule=module]", LeaseRule::Module, 1),
        ("psd[rule=daemon]", LeaseRule::Daemon, 2),
    ] {
        let policy = on(text).unwrap();
        assert_eq!(
            (policy.rule, policy.start_after),
            (rule, start_after),
            "{text}"
        );
    }
}

#[test]
fn errors_say_what_is_known() {
    assert!(error("menue").contains("did you mean `menu`?"));
    assert!(error("shedutil").contains("did you mean `schedutil`?"));
    assert!(error("nosuch").contains("`nosuch`. Known: menu"));
    assert!(error("file:daemon.toml").contains("wakepath daemon --config"));
    assert_eq!(
        error("menu@6.20"),
        "`menu@6.20`: the policies of this kernel are not known, only those of 6.1 to 7.3; nearest: 6.19, 7.0"
    );
    for version in ["6.3.0", "6.8", "6.10"] {
        let error = error(&format!("teo@{version}"));
        assert!(error.contains("nearest: 6.2, 6.11"), "{error}");
    }
    assert_eq!(
        error("oracle@6.1"),
        "`oracle@6.1`: `oracle` has no versions"
    );
    assert_eq!(
        error("psd[time=3ms]"),
        "`psd` has no setting `time`; did you mean `timeout`? known: timeout, ceiling, grant, \
         start_after, rule"
    );
    assert_eq!(
        error("menu[x=1]"),
        "`menu` has no setting `x`; it has no settings"
    );
    assert_eq!(
        error("schedutil[iowait_boost=maybe]"),
        "`schedutil[iowait_boost=maybe]`: expected on or off"
    );
    assert_eq!(
        error("schedutil[iowait_boost_cap=1025]"),
        "`schedutil[iowait_boost_cap=1025]`: expected a whole number from 0 to 1024"
    );
    assert_eq!(
        error("psd[grant=both,grant=issue]"),
        "`psd`: the setting `grant` is given twice"
    );
    assert_eq!(
        parse("schedutil")
            .unwrap()
            .as_idle_policy()
            .unwrap_err()
            .to_string(),
        "`schedutil` is not an idle policy but a frequency policy; known: menu, teo, ladder, \
         haltpoll, shallowest, deepest, oracle, c:FILE, exec:FILE"
    );
}

#[test]
fn malformed_names_are_refused() {
    for text in [
        "",
        "@6.1",
        "[x=1]",
        "menu@",
        "psd[",
        "psd]",
        "psd[]",
        "psd[timeout]",
        "psd[timeout=3]",
        "psd[timeout=3ms,]",
        "psd[timeout=3ms,4ms]",
        "psd[timeout=0.5ms]",
        "psd[start_after=0]",
        "psd[ceiling=20]",
        "psd[ceiling=20mss]",
        "idle-states",
        "idle-states[ceiling=20us",
        "idle-states[disable=]",
        "idle-states[disable=C6,,C7]",
        "cpu-latency",
        "cpu-latency[limit=20]",
        "cpu-latency[limit=0.5us]",
        "cpu-latency[limit=2147483647us]",
        "cpu-latency[limit=20us,cpus=]",
        "cpu-latency[limit=20us,cpus=3-1]",
        "frequency[]",
        "frequency",
        "frequency[min=3000MHz,max=1200MHz]",
        "frequency[min=1200]",
        "hwp-boost[value=yes]",
        "drive-latency[tolerance=-1us]",
        "epp[value=256]",
        "epp[value=1,value=2]",
        "psd[timeout=-3ms]",
        "psd[timeout=+3ms]",
        "psd[timeout=3ms]x",
        "psd[ceiling=state:10]",
        "psd[ceiling=state:]",
        "apst[primary_timeout_ms=18446744073709551616]",
        "schedutil[rate_limit_us=1e3]",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_set_prints_back_as_written() {
    for text in [
        "menu@6.12 + schedutil[iowait_boost=off] + cpu-latency[limit=20us] + \
         psd[timeout=3ms,ceiling=C1E,start_after=2]",
        "psd",
        "performance + teo@6.1",
        "unchanged",
    ] {
        let set: PolicySet = text.parse().unwrap();
        assert_eq!(set.to_string(), text);
        let json = serde_json::to_string(&set).unwrap();
        assert_eq!(json, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<PolicySet>(&json).unwrap(), set);
    }
    let empty: PolicySet = " ".parse().unwrap();
    assert!(empty.is_empty());
    assert_eq!(
        "menu@6.1+cpu-latency[limit=20us , cpus= 0-3]"
            .parse::<PolicySet>()
            .unwrap()
            .to_string(),
        "menu@6.1 + cpu-latency[limit=20us,cpus=0-3]"
    );
}

#[test]
fn a_set_has_one_policy_of_a_kind() {
    let error = |text: &str| text.parse::<PolicySet>().unwrap_err().to_string();
    assert_eq!(
        error("menu + psd + teo@6.1"),
        "`menu@6.12` and `teo@6.1` are both idle policies; a set has at most one"
    );
    assert_eq!(
        error("epp[value=power] + intel_pstate-hwp[epp=12]"),
        "`epp[value=power]` and `intel_pstate-hwp[epp=12]` both set `epp`; leave one of them out"
    );
    assert!(
        "epp[value=power] + intel_pstate-hwp"
            .parse::<PolicySet>()
            .is_ok()
    );
    for text in [
        "menu + ",
        "+ menu",
        "menu + + psd",
        "menu + psd[",
        "menu psd",
        "unchanged + menu",
    ] {
        assert!(text.parse::<PolicySet>().is_err(), "{text}");
    }
}

#[test]
fn sets_are_put_together() {
    let set = |text: &str| text.parse::<PolicySet>().unwrap();
    let teo = set("menu + psd")
        .with_policy(parse("teo").unwrap())
        .unwrap();
    assert_eq!(teo, set("teo + psd"));
    assert_eq!(
        teo.completed_from(&set("menu + schedutil")),
        set("teo + psd + schedutil")
    );
    assert_eq!(PolicySet::default().completed_from(&teo), teo);
    let hwp = "intel_pstate-hwp[epp=1,hwp_dynamic_boost=on]";
    assert_eq!(set(hwp).completed_from(&set("epp[value=2]")), set(hwp));
    assert_eq!(
        set("epp[value=2]").completed_from(&set(hwp)),
        set("epp[value=2] + intel_pstate-hwp[hwp_dynamic_boost=on]")
    );
    let hwp = parse("intel_pstate-hwp[epp=power]").unwrap();
    assert_eq!(
        hwp.with_key("hwp_dynamic_boost", "on").unwrap().to_string(),
        "intel_pstate-hwp[epp=power,hwp_dynamic_boost=on]"
    );
    assert_eq!(
        hwp.with_key("epp", "12").unwrap().as_frequency_policy(),
        Ok(FreqPolicy::IntelPstateHwp {
            dynamic_boost: false,
            epp: 12
        })
    );
    assert!(
        hwp.with_key("eep", "12")
            .unwrap_err()
            .to_string()
            .contains("did you mean `epp`")
    );
    assert!(hwp.with_key("epp", "x").is_err());
}

/// Any well-formed name of a mechanism's policy, with values of every form of key.
fn any_name() -> impl Strategy<Value = String> {
    let keys = prop::collection::vec((any::<prop::sample::Index>(), 0_u32..2000), 0..4);
    ((0..MECHANISMS.len()), any::<prop::sample::Index>(), keys)
        .prop_map(|(i, version, keys)| name_of(MECHANISMS[i], version, &keys))
        .prop_filter("keys may contradict each other", |name| parse(name).is_ok())
}

fn name_of(
    mechanism: &'static Mechanism,
    version: prop::sample::Index,
    choices: &[(prop::sample::Index, u32)],
) -> String {
    let mut text = mechanism.name.to_owned();
    if mechanism.versioned {
        let versions = ["6.1", "6.12", "6.12.48", "6.17.0", "7.3"];
        text = format!("{text}@{}", version.get(&versions));
    }
    let mut keys: Vec<(&str, String)> = mechanism
        .keys
        .iter()
        .map(|key| key.key_info())
        .filter(|key| key.fallback == crate::mechanism::key::Fallback::Required)
        .map(|key| (key.name, key.example.to_owned()))
        .collect();
    for (index, number) in choices {
        if mechanism.keys.is_empty() {
            break;
        }
        let key = index.get(mechanism.keys);
        let mut values: Vec<String> = key
            .accepted_words()
            .into_iter()
            .map(str::to_owned)
            .collect();
        values.push(key.key_info().example.to_owned());
        values.extend(
            [
                format!("{number}"),
                format!("{number}us"),
                format!("{number}ms"),
                format!("{number}MHz"),
                format!("0-{number}"),
            ]
            .into_iter()
            .filter(|value| key.accepts_value(value)),
        );
        let value = values.swap_remove(*number as usize % values.len());
        match keys
            .iter_mut()
            .find(|(name, _)| *name == key.key_info().name)
        {
            Some((_, old)) => *old = value,
            None => keys.push((key.key_info().name, value)),
        }
    }
    if keys.is_empty() {
        return text;
    }
    let keys: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
    format!("{text}[{}]", keys.join(","))
}

/// Any set; of two policies that contradict each other the first.
fn any_set() -> impl Strategy<Value = PolicySet> {
    prop::collection::vec(any_name(), 0..8).prop_map(|names| {
        names.iter().fold(PolicySet::default(), |set, name| {
            set.completed_from(&parse(name).unwrap().into())
        })
    })
}

proptest! {
    #[test]
    fn printing_is_the_inverse_of_parsing(name in any_name()) {
        let spec = parse(&name).unwrap();
        prop_assert_eq!(spec.to_string(), name);
        let again = parse(&spec.to_string()).unwrap();
        prop_assert_eq!(again.typed_policy(), spec.typed_policy());
        prop_assert_eq!(again, spec);
    }

    #[test]
    fn printing_a_set_is_the_inverse_of_parsing_it(set in any_set()) {
        let again: PolicySet = set.to_string().parse().unwrap();
        prop_assert_eq!(again, set);
    }

    #[test]
    fn every_other_name_and_key_is_an_error(name in "[a-z_-]{1,20}", policy in any_name()) {
        prop_assume!(find_mechanism(&name).is_none());
        prop_assert!(parse(&name).is_err());
        let policy = parse(&policy).unwrap();
        prop_assume!(policy.mechanism().find_key(&name).is_none());
        prop_assert!(policy.with_key(&name, "on").is_err());
        let text = format!("{}[{name}=on]", policy.mechanism().name);
        let is_unknown = matches!(parse(&text), Err(SpecError::UnknownKey { .. }));
        prop_assert!(is_unknown, "{}", text);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z@\\[\\],=0-9.é+ ]{0,30}") {
        let _ = parse(&text);
        let _ = text.parse::<PolicySet>();
    }
}

#[test]
fn a_kernel_gives_bare_names_its_version() {
    let kernel = "7.3".parse().unwrap();
    let on = |text: &str| {
        let set: PolicySet = text.parse().unwrap();
        set.with_kernel_for_bare_names(kernel).to_string()
    };
    assert_eq!(on("menu + psd"), "menu@7.3 + psd");
    assert_eq!(on("menu@6.12"), "menu@6.12");
    assert_eq!(
        on("haltpoll[guest_halt_poll_ns=0]"),
        "haltpoll@7.3[guest_halt_poll_ns=0]"
    );
    assert_eq!(on("oracle + schedutil"), "oracle + schedutil");
    let changed = parse("haltpoll")
        .unwrap()
        .with_key("guest_halt_poll_ns", "5")
        .unwrap();
    assert_eq!(
        changed.with_kernel_if_bare(kernel).to_string(),
        "haltpoll@7.3[guest_halt_poll_ns=5]"
    );
}
