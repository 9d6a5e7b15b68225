//! hyperfine's JSON output.

use serde::Deserialize;

use super::runs::{ImportedRuns, new_imported_run};

/// Output of `hyperfine --export-json`.
#[derive(Deserialize)]
struct Export {
    results: Vec<Benchmark>,
}

/// A benchmarked command in hyperfine's output, with times in seconds.
#[derive(Deserialize)]
struct Benchmark {
    command: String,
    times: Vec<f64>,
    #[serde(default)]
    exit_codes: Vec<Option<i32>>,
}

/// The workload's name if a file compares several commands, which then stand for policies.
const WORKLOAD: &str = "hyperfine";

/// Several commands in a file are compared with each other; a single command is compared with other files' commands.
pub(super) fn import_hyperfine(
    policy_for_one_command: &str,
    text: &str,
) -> Result<ImportedRuns, String> {
    let export: Export = serde_json::from_str(text)
        .map_err(|e| format!("neither fio's JSON (no \"fio version\") nor hyperfine's: {e}"))?;
    if export.results.is_empty() {
        return Err("hyperfine's file has no results".to_owned());
    }
    let several = export.results.len() > 1;
    let mut runs = Vec::new();
    for benchmark in &export.results {
        if let Some(code) = benchmark.exit_codes.iter().find(|c| **c != Some(0)) {
            let code = code.map_or_else(|| "a signal".to_owned(), |c| c.to_string());
            return Err(format!("'{}' failed with {code}", benchmark.command));
        }
        let (workload, policy) = if several {
            (WORKLOAD.to_owned(), benchmark.command.clone())
        } else {
            (benchmark.command.clone(), policy_for_one_command.to_owned())
        };
        for (repeat, time) in benchmark.times.iter().enumerate() {
            if !time.is_finite() {
                return Err(format!("'{}': a time is {time}", benchmark.command));
            }
            let mut run = new_imported_run(&workload, &policy, repeat as u32);
            run.metrics = vec![("wall_s".to_owned(), *time)];
            runs.push(run);
        }
    }
    Ok(ImportedRuns::from_tool("hyperfine", "unknown", runs))
}
