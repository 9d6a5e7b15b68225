//! Block traces of every format: what is accepted has the requests that its totals count, in the order of time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_units::Nanoseconds;
use wakepath_workloads::block_trace::{BlockTrace, BlockTraceOptions, TraceIo};

fuzz_target!(|data: &[u8]| {
    for is_dependent in [false, true] {
        let options = BlockTraceOptions {
            disk: None,
            from: Nanoseconds::ZERO,
            is_dependent,
        };
        match BlockTrace::from_text(data, "fuzz", &options) {
            Ok(trace) => {
                let (mut requests, mut last) = (0, Nanoseconds::ZERO);
                for request in trace.requests().expect("in memory") {
                    let request = request.expect("checked before");
                    assert!(request.begin >= last);
                    assert!(request.end.is_none_or(|end| end >= request.begin));
                    assert!(request.bytes > 0 || request.io == TraceIo::Flush);
                    last = request.begin;
                    requests += 1;
                }
                assert_eq!(requests, trace.totals.requests());
                assert_eq!(last, trace.duration());
            }
            Err(error) => {
                assert!(!error.to_string().contains('\n'));
                let lines = data.split(|byte| *byte == b'\n').count() as u64;
                assert!(error.line.is_none_or(|line| line <= lines));
            }
        }
    }
});
