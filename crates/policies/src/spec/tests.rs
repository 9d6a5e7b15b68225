use proptest::prelude::*;

use super::registry::Default as KeyDefault;
use super::*;

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
        "apst[rule=legacy]",
        "poll[request_us=20]",
    ] {
        assert_eq!(parse(name).unwrap().to_string(), name);
    }
}

#[test]
fn bare_names_mean_the_newest_version() {
    for name in ["menu", "teo", "ladder", "haltpoll"] {
        assert_eq!(parse(name).unwrap().to_string(), format!("{name}@6.12"));
    }
}

#[test]
fn every_default_is_an_allowed_value() {
    for info in POLICIES {
        for key in info.keys {
            if let KeyDefault::Value(value) = key.default {
                assert!(key.values.allow(value), "{} {}", info.name, key.name);
            }
        }
    }
}

#[test]
fn every_policy_has_the_kind_that_the_registry_says() {
    for info in POLICIES {
        let spec = parse(info.name).unwrap();
        let kind = match spec.policy() {
            Policy::Idle(_) => Kind::Idle,
            Policy::Frequency(_) => Kind::Frequency,
            Policy::Psd(_) => Kind::Psd,
            Policy::Apst(_) => Kind::Apst,
            Policy::Poll(_) => Kind::Poll,
        };
        assert_eq!(kind, info.kind, "{}", info.name);
    }
}

#[test]
fn defaults_are_those_of_the_types() {
    assert_eq!(
        parse("haltpoll").unwrap().idle(),
        Ok(IdlePolicy::Haltpoll(
            KernelVersion::V6_12,
            HaltpollParameters::default()
        ))
    );
    assert_eq!(
        parse("schedutil").unwrap().frequency(),
        Ok(FreqPolicy::Schedutil(SchedutilSettings::default()))
    );
    assert_eq!(parse("psd").unwrap().psd(), Ok(PsdPolicy::default()));
    assert_eq!(
        parse("intel_pstate-hwp").unwrap().frequency(),
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
            .psd(),
        Ok(PsdPolicy {
            timeout_ms: 12,
            ceiling: Ceiling::Latency(Nanoseconds(20_000)),
            grant: Grant::Both,
        })
    );
    let apst = parse("apst[rule=legacy,max_latency_us=0,no_deepest=on]").unwrap();
    assert_eq!(
        apst.apst(),
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
        schedutil.frequency(),
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
fn errors_say_what_is_known() {
    assert!(error("menue").contains("did you mean `menu`?"));
    assert!(error("shedutil").contains("did you mean `schedutil`?"));
    assert_eq!(
        error("menu@6.6"),
        "`menu` has no version `6.6`; known: 6.1, 6.12"
    );
    assert_eq!(
        error("oracle@6.1"),
        "`oracle` has no version `6.1`; it has no versions"
    );
    assert_eq!(
        error("psd[time=3ms]"),
        "`psd` has no setting `time`; known: timeout, ceiling, grant"
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
        parse("schedutil").unwrap().idle().unwrap_err().to_string(),
        "`schedutil` is not an idle policy but a frequency policy; known: menu, teo, ladder, \
         haltpoll, shallowest, deepest, oracle"
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
fn lists_split_at_commas_outside_brackets() {
    assert_eq!(
        split_list("menu@6.1,schedutil[iowait_boost=off,rate_limit_us=500], teo"),
        Ok(vec![
            "menu@6.1",
            "schedutil[iowait_boost=off,rate_limit_us=500]",
            "teo"
        ])
    );
    for text in ["", "menu,", ",menu", "psd[a,b", "psd]a", "psd[[a]]"] {
        assert!(split_list(text).is_err(), "{text}");
    }
}

/// Any well-formed name of a policy in the registry.
fn any_name() -> impl Strategy<Value = String> {
    let settings = prop::collection::vec((any::<prop::sample::Index>(), 0_u32..2000), 0..4);
    (
        (0..POLICIES.len()).prop_map(|i| &POLICIES[i]),
        any::<prop::sample::Index>(),
        settings,
    )
        .prop_map(|(info, version, settings)| {
            let mut text = info.name.to_owned();
            if !info.versions.is_empty() {
                text = format!("{text}@{}", version.get(info.versions));
            }
            let mut parts: Vec<String> = Vec::new();
            for (index, number) in settings {
                if info.keys.is_empty() {
                    break;
                }
                let key = index.get(info.keys);
                if parts
                    .iter()
                    .any(|part| part.starts_with(&format!("{}=", key.name)))
                {
                    continue;
                }
                let value = match key.values {
                    Values::OneOf(words) => words[number as usize % words.len()].to_owned(),
                    Values::UpTo(max) => u64::from(number).min(max).to_string(),
                    Values::NamedUpTo(words, _) => {
                        words[number as usize % words.len()].0.to_owned()
                    }
                    Values::Milliseconds => format!("{number}ms"),
                    Values::Ceiling => format!("{number}us"),
                };
                parts.push(format!("{}={value}", key.name));
            }
            if !parts.is_empty() {
                text = format!("{text}[{}]", parts.join(","));
            }
            text
        })
}

proptest! {
    #[test]
    fn printing_is_the_inverse_of_parsing(name in any_name()) {
        let spec = parse(&name).unwrap();
        prop_assert_eq!(spec.to_string(), name);
        prop_assert_eq!(parse(&spec.to_string()).unwrap(), spec);
    }

    #[test]
    fn a_list_of_names_splits_into_these_names(names in prop::collection::vec(any_name(), 1..5)) {
        let joined = names.join(",");
        prop_assert_eq!(split_list(&joined).unwrap(), names);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "[a-z@\\[\\],=0-9.é]{0,30}") {
        let _ = parse(&text);
        let _ = parse_list(&text);
    }
}
