use std::collections::BTreeSet;
use std::path::Path;

use super::key::Fallback;
use super::*;
use crate::spec::PolicySpec;

fn parse(text: &str) -> PolicySpec {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn every_file_is_a_mechanism_of_the_list() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mechanism");
    let files: BTreeSet<String> = std::fs::read_dir(directory)
        .unwrap()
        .filter_map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()?
                .to_str()
                .map(str::to_owned)
        })
        .filter(|name| !["mod", "declaration", "key", "policy", "tests"].contains(&name.as_str()))
        .collect();
    let listed: BTreeSet<String> = MECHANISMS
        .iter()
        .map(|mechanism| mechanism.name.replace('-', "_"))
        .collect();
    assert_eq!(files, listed);
    assert_eq!(MECHANISMS.len(), listed.len(), "a name is listed twice");
}

#[test]
fn every_mechanism_becomes_a_policy_of_its_kind() {
    for mechanism in MECHANISMS {
        let policy = parse(&mechanism.example_policy());
        assert_eq!(policy.kind(), mechanism.kind, "{}", mechanism.name);
        assert!(!mechanism.on.is_empty(), "{}", mechanism.name);
        assert!(!mechanism.source.is_empty() && !mechanism.summary.is_empty());
    }
}

#[test]
fn every_default_and_every_example_is_an_allowed_value() {
    for mechanism in MECHANISMS {
        for key in mechanism.keys {
            let info = key.key_info();
            if let Fallback::Value(value) = info.fallback {
                assert!(key.accepts_value(value), "{} {}", mechanism.name, info.name);
                assert_ne!(value, info.example, "{} {}", mechanism.name, info.name);
            }
            assert!(
                key.accepts_value(info.example),
                "{} {}",
                mechanism.name,
                info.name
            );
            assert!(
                key.accepted_words()
                    .iter()
                    .all(|word| key.accepts_value(word))
            );
        }
    }
}

/// A key that nothing reads would be accepted and ignored.
#[test]
fn every_value_of_every_key_changes_the_policy() {
    for mechanism in MECHANISMS {
        let required = mechanism.keys.iter().map(|key| key.key_info());
        let required: Vec<_> = required
            .filter(|key| key.fallback == Fallback::Required)
            .collect();
        for key in mechanism.keys {
            let info = key.key_info();
            let with = |value: &str| {
                let others = required.iter().filter(|other| other.name != info.name);
                let mut text: Vec<String> = others
                    .map(|other| format!("{}={}", other.name, other.example))
                    .collect();
                text.push(format!("{}={value}", info.name));
                let named = |keys: &[String]| format!("{}[{}]", mechanism.name, keys.join(","));
                let alone = named(&text).parse::<PolicySpec>().ok();
                // A key that goes with another only.
                let first = mechanism.keys[0].key_info();
                text.push(format!("{}={}", first.name, first.example));
                let policy = alone.unwrap_or_else(|| parse(&named(&text)));
                policy.typed_policy().clone()
            };
            let mut values = key.accepted_words();
            if !values.contains(&info.example) {
                values.push(info.example);
            }
            let policies: Vec<Policy> = values.iter().map(|value| with(value)).collect();
            for (i, policy) in policies.iter().enumerate() {
                assert!(
                    !policies[..i].contains(policy),
                    "{}: {}={} is the same as another value",
                    mechanism.name,
                    info.name,
                    values[i]
                );
            }
            if let Fallback::Value(default) = info.fallback {
                assert_ne!(with(default), with(info.example), "{}", info.name);
            }
        }
    }
}

#[test]
fn overlaps_name_keys_that_there_are() {
    for mechanism in MECHANISMS {
        for (key, kind) in mechanism.overlaps {
            assert!(mechanism.find_key(key).is_some(), "{key}");
            assert!(MECHANISMS.iter().any(|other| other.kind == *kind));
        }
    }
}
