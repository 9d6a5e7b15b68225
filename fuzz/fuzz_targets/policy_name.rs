//! Policy names: an accepted name prints as a name of the same policy, and prints the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_policies::spec::{PolicySet, PolicySpec};

fuzz_target!(|text: &str| {
    if let Ok(spec) = text.parse::<PolicySpec>() {
        let printed = spec.to_string();
        let back: PolicySpec = printed.parse().expect("own output");
        assert_eq!(back.to_string(), printed);
        assert_eq!(back.typed_policy(), spec.typed_policy());
    }
    if let Ok(set) = text.parse::<PolicySet>() {
        let back: PolicySet = set.to_string().parse().expect("own output");
        assert_eq!(back, set);
    }
});
