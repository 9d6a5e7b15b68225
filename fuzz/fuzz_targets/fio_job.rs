//! fio job files: whatever is accepted prints as a job file that says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_workloads::fio;

fuzz_target!(|text: &str| {
    match fio::parse(text, "fuzz.fio") {
        Ok(mut file) => {
            let printed = file.to_string();
            let mut back = fio::parse(&printed, "printed.fio").expect("own output");
            for job in file.jobs.iter_mut().chain(&mut back.jobs) {
                job.line = 0;
            }
            assert_eq!(file.jobs, back.jobs);
        }
        Err(error) => {
            for problem in &error.problems {
                assert!(!problem.to_string().contains('\n'));
                assert!(problem.line.is_none_or(|line| line <= text.lines().count()));
            }
        }
    }
});
