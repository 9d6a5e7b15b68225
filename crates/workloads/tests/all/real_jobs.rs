//! Job files that people really use: how many of them can be simulated, and what keeps out the others.
//!
//! They are other people's files, and not part of the repository: the test reads them in `../shared/fio-jobs` beside it,
//! and is skipped where they are absent. `--nocapture` shows the figures.

use std::collections::BTreeMap;
use std::path::PathBuf;

use wakepath_workloads::fio;

/// Reasons that put a file out of scope: zoned drives, engines without a drive, a log that has to be there. A file that is mapped
/// (`ioengine=mmap`) is in scope.
const OUT_OF_SCOPE: [&str; 3] = ["zonemode", "ioengine", "read_iolog"];

/// At least so many percent of the files in scope have to be modelled. All 105 are.
const LEAST_PERCENT: usize = 99;

#[test]
fn real_jobs_are_modelled() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fio-jobs");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: real_jobs_are_modelled: no {}", folder.display());
        return;
    };
    let mut files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "fio"));
    files.sort();
    let (mut modelled, mut in_scope) = (0, 0);
    // What refuses files, and the files that only this refuses.
    let mut reasons: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for path in &files {
        // fio takes all of them, so that a measurement can run them.
        let file = fio::load(path).unwrap_or_else(|e| panic!("{e}"));
        for warning in &file.warnings {
            assert!(!warning.option.is_empty() && warning.line > 0, "{warning}");
        }
        let problems = file.unmodelled;
        for problem in &problems {
            assert!(
                problem.line.is_some() && !problem.message.contains('\n'),
                "{problem}"
            );
        }
        let mut of_file: Vec<String> = problems.iter().map(reason).collect();
        of_file.sort();
        of_file.dedup();
        modelled += usize::from(of_file.is_empty());
        let is_in_scope = |reason: &String| !OUT_OF_SCOPE.contains(&reason.as_str());
        in_scope += usize::from(of_file.iter().all(is_in_scope));
        let alone = usize::from(of_file.len() == 1);
        for reason in of_file {
            let (all, only) = reasons.entry(reason).or_default();
            *all += 1;
            *only += alone;
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, (all, _))| std::cmp::Reverse(*all));
    println!(
        "{modelled} of {} files are modelled, and {in_scope} are in scope",
        files.len()
    );
    for (reason, (all, alone)) in reasons {
        println!("{all:4} {alone:4} {reason}");
    }
    assert!(
        modelled * 100 >= in_scope * LEAST_PERCENT,
        "only {modelled} of {in_scope} files in scope are modelled"
    );
}

/// The option that a problem is about, or its words where it is about none.
fn reason(problem: &fio::FioProblem) -> String {
    let first = problem.message.split(':').next().unwrap_or_default();
    if problem.message.contains("`mmap`") {
        return "ioengine=mmap".to_owned();
    }
    if first.starts_with("job `") || first.starts_with("unknown") {
        let rest = problem.message.split(':').nth(1);
        return rest.unwrap_or(first).trim().to_owned();
    }
    first.to_owned()
}
