//! Files with tasks: an accepted file prints as an equal file, and a refusal is one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_workloads::tasks;

fuzz_target!(|text: &str| {
    match tasks::parse(text, "fuzz.toml") {
        Ok(file) => {
            let back = tasks::parse(&file.to_string(), "printed.toml").expect("own output");
            assert_eq!(file, back);
        }
        Err(error) => {
            assert_eq!(error.to_string().lines().count(), 1);
            assert!(
                error
                    .line
                    .is_none_or(|line| line <= text.lines().count().max(1) + 1)
            );
        }
    }
});
