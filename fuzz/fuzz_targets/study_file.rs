//! Study files: an accepted study has runs, and a refusal is one line.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use wakepath_results::RunOrigin;
use wakepath_study::file::{StudyFile, StudyText};
use wakepath_study::plan::Plan;

fuzz_target!(|text: &str| {
    let source = StudyText {
        origin: "fuzz.toml",
        text: Some(text),
    };
    if let Err(error) = StudyFile::parse(source) {
        assert!(!error.to_string().is_empty());
    }
    // An empty folder: files named by a study are not found.
    for target in [RunOrigin::Sim, RunOrigin::Live] {
        if let Ok(plan) = Plan::from_text(text, "fuzz.toml", Path::new("/nonexistent"), target) {
            assert!(plan.run_count() > 0);
            assert!(plan.baseline < plan.policies.len());
        }
    }
});
