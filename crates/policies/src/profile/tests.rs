use super::*;
use crate::mechanism::{Kind, Place};
use crate::spec::{PolicySet, PolicySpec};

fn set(text: &str) -> PolicySet {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn error(text: &str) -> String {
    text.parse::<PolicySet>().unwrap_err().to_string()
}

/// A machine with everything.
fn all(text: &str) -> String {
    set(text)
        .expand_profile(&PolicySet::default(), |_, _| true)
        .unwrap()
        .set
        .to_string()
}

#[test]
fn every_choice_of_every_profile_is_a_policy_that_a_machine_can_have() {
    for profile in PROFILES {
        let text = profile.to_string();
        assert_eq!(set(&text).to_string(), text);
        assert_eq!(set(&text).profile(), Some(profile));
        for (names, choices) in profile
            .policies
            .iter()
            .zip(profile.alternatives_per_setting())
        {
            assert_eq!(names.len(), choices.len(), "{text}: {names:?}");
            let kinds: Vec<Kind> = choices.iter().map(PolicySpec::kind).collect();
            assert!(kinds.iter().all(|kind| *kind == kinds[0]), "{text}");
            for policy in choices {
                assert!(policy.mechanism().on.contains(&Place::Machine), "{policy}");
            }
        }
    }
}

#[test]
fn a_profile_becomes_its_policies() {
    let not_amd = |policy: &PolicySpec, _: &PolicySet| policy.mechanism().name != "amd-pstate";
    let expanded = set("tuned[latency-performance]").expand_profile(&PolicySet::default(), not_amd);
    assert_eq!(
        expanded.unwrap().set.to_string(),
        "performance + cpu-latency[limit=3us,state=1]"
    );
    assert_eq!(
        all("tuned[balanced]"),
        "schedutil + epp[value=balance_performance]"
    );
    assert_eq!(
        all("power-profiles[power-saver] + teo@6.12"),
        "teo@6.12 + intel_pstate-hwp + epp[value=power]"
    );
    assert_eq!(all("menu@6.1 + psd"), "menu@6.1 + psd");
}

#[test]
fn what_a_set_says_itself_holds_before_its_profile() {
    assert_eq!(
        all("tuned[latency-performance] + cpu-latency[limit=50us]"),
        "cpu-latency[limit=50us] + amd-pstate@6.12[governor=performance]"
    );
    // The same setting as a key of another mechanism.
    assert_eq!(
        all("tuned[powersave] + intel_pstate-hwp[epp=128]"),
        "intel_pstate-hwp[epp=128]"
    );
}

#[test]
fn a_machine_gets_the_first_that_it_has_and_is_told_what_it_lacks() {
    let has = |policy: &PolicySpec, _: &PolicySet| policy.mechanism().name == "powersave";
    let expanded = set("tuned[powersave]")
        .expand_profile(&PolicySet::default(), has)
        .unwrap();
    assert_eq!(expanded.set.to_string(), "powersave");
    let [others, missing] = &expanded.notes[..] else {
        panic!("{:?}", expanded.notes);
    };
    assert!(others.contains("tuned[powersave]") && others.contains("boost=0"));
    assert!(
        missing.contains("epp[value=power] does not apply"),
        "{missing}"
    );
    // What was chosen before decides.
    let has = |policy: &PolicySpec, so_far: &PolicySet| {
        policy.kind() == Kind::Frequency || so_far.frequency().is_some()
    };
    let expanded = set("power-profiles[balanced]")
        .expand_profile(&PolicySet::default(), has)
        .unwrap();
    assert_eq!(expanded.set.policies().len(), 2);
}

/// What a profile does not set stays as the machine has it, and what it sets does not.
#[test]
fn a_machine_keeps_the_keys_that_a_profile_does_not_set() {
    let on = |profile: &str, own: &str| {
        let own = set(own);
        let mechanism = own
            .frequency()
            .map(|_| own.policy_of_kind(Kind::Frequency).unwrap().mechanism());
        let has = |policy: &PolicySpec, _: &PolicySet| {
            policy.kind() != Kind::Frequency || Some(policy.mechanism()) == mechanism
        };
        set(profile)
            .expand_profile(&own, has)
            .unwrap()
            .set
            .to_string()
    };
    let hwp = "menu + intel_pstate-hwp[hwp_dynamic_boost=on,epp=32]";
    for (profile, own, becomes) in [
        (
            "tuned[balanced]",
            hwp,
            "intel_pstate-hwp[hwp_dynamic_boost=on] + epp[value=balance_performance]",
        ),
        (
            "power-profiles[performance]",
            hwp,
            "intel_pstate-hwp[hwp_dynamic_boost=on] + epp[value=performance]",
        ),
        // What the set says itself is not touched.
        (
            "tuned[balanced] + hwp-boost[value=off]",
            hwp,
            "hwp-boost[value=off] + intel_pstate-hwp + epp[value=balance_performance]",
        ),
        (
            "tuned[balanced] + intel_pstate-hwp",
            hwp,
            "intel_pstate-hwp + epp[value=balance_performance]",
        ),
        (
            "tuned[powersave]",
            "amd-pstate@7.3[governor=performance,boost=off]",
            "amd-pstate@7.3[governor=powersave,boost=off] + epp[value=power]",
        ),
        // The governor performance has no preference of its own.
        (
            "tuned[latency-performance]",
            "amd-pstate[epp=power,boost=off]",
            "amd-pstate@6.12[governor=performance,boost=off] + cpu-latency[limit=3us,state=1]",
        ),
        (
            "tuned[balanced]",
            "schedutil[iowait_boost=off]",
            "schedutil[iowait_boost=off] + epp[value=balance_performance]",
        ),
    ] {
        assert_eq!(on(profile, own), becomes, "{profile} on {own}");
    }
}

#[test]
fn mistakes_name_the_nearest_profile() {
    for (text, says) in [
        (
            "tuned[latency-perfomance]",
            "did you mean `latency-performance`?",
        ),
        ("tuned[balnced]", "did you mean `balanced`?"),
        ("power-profiles[powersaver]", "did you mean `power-saver`?"),
        ("tuned", "written tuned[balanced]"),
        ("tuned[]", "written tuned[balanced]"),
        ("tuned@2.20[balanced]", "written tuned[balanced]"),
        ("tuned[zz]", "Known: balanced, balanced-battery, powersave"),
        ("tuend[balanced]", "did you mean `tuned`?"),
        ("tuned[balanced] + tuned[powersave]", "at most one profile"),
        ("tuned[balanced", "not closed"),
    ] {
        let error = error(text);
        assert!(error.contains(says), "{text}: {error}");
    }
    let one = "tuned[balanced]".parse::<PolicySpec>().unwrap_err();
    assert!(
        one.to_string().contains("stands for several policies"),
        "{one}"
    );
}

#[test]
fn a_profile_stays_with_its_set() {
    let menu = || "menu@6.1".parse::<PolicySpec>().unwrap();
    let base = set("tuned[balanced] + psd");
    assert_eq!(base.to_string(), "tuned[balanced] + psd");
    assert!(!set("tuned[balanced]").is_empty());
    assert_ne!(set("tuned[balanced]"), set("tuned[powersave]"));
    let with = base.with_policy(menu()).unwrap();
    assert_eq!(with.to_string(), "tuned[balanced] + psd + menu@6.1");
    assert_eq!(
        set("psd").completed_from(&base).to_string(),
        "tuned[balanced] + psd"
    );
    let joined = PolicySet::join_sets([set("menu@6.1"), base.clone()]).unwrap();
    assert_eq!(joined.to_string(), "tuned[balanced] + menu@6.1 + psd");
    assert!(PolicySet::join_sets([base.clone(), base]).is_err());
}
