//! rt-app files: an accepted file prints as an equal file.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_workloads::rtapp;

fuzz_target!(|text: &str| {
    match rtapp::parse(text, "fuzz.json") {
        Ok(mut file) => {
            let printed = file.to_string();
            let mut back = rtapp::parse(&printed, "printed.json").expect("own output");
            for task in file.tasks.iter_mut().chain(&mut back.tasks) {
                task.line = 0;
            }
            assert_eq!(file.tasks, back.tasks);
            assert_eq!(file.duration, back.duration);
        }
        Err(error) => {
            let reasons = 1 + error.also.len();
            assert_eq!(error.to_string().lines().count(), reasons);
            assert!(
                error
                    .line
                    .is_none_or(|line| line <= text.lines().count().max(1))
            );
        }
    }
});
