//! Results of other tools: fio's and hyperfine's output, and logs of MMTests, named by their first line. Accepted
//! results have finite numbers and can be compared.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_compare::results::{CompareOptions, Source, compare_results};
use wakepath_results::ResultReader;
use wakepath_results::import::mmtests::Benchmark;
use wakepath_results::import::parse_tool_output;

fuzz_target!(|text: &str| {
    if let Some((name, log)) = text.split_once('\n')
        && let Some((benchmark, _)) = Benchmark::with_workload_from_log_name("fuzz", name)
    {
        for sample in benchmark.parse_samples(log).unwrap_or_default() {
            assert!(sample.values.iter().all(|(_, value)| value.is_finite()));
        }
        return;
    }
    if let Ok(imported) = parse_tool_output("fuzz", text) {
        for run in &imported.runs {
            assert!(run.first_non_finite_metric().is_none());
            let mut buckets = run.latency.iter();
            assert!(buckets.all(|bucket| bucket.low_ns <= bucket.high_ns));
        }
        let document = imported.make_document_named("fuzz");
        let results = ResultReader::for_imported_runs("fuzz", document, imported.runs);
        let source = Source::read_result("fuzz", &results).expect("it is in memory");
        let options = CompareOptions {
            metrics: vec!["all".to_owned()],
            ..CompareOptions::default()
        };
        // Accepted results may only lack anything to compare.
        let _ = compare_results(&[source], &options);
    }
});
