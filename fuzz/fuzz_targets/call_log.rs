//! Governor call logs: clocks never go back, and nothing follows an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_policies::input::CallReader;

fuzz_target!(|data: &[u8]| {
    let mut clock = 0;
    let mut reader = CallReader::new(data, "fuzz.csv");
    while let Some(call) = reader.next() {
        let Ok(call) = call else {
            assert!(reader.next().is_none());
            break;
        };
        assert!(call.query.clock >= clock);
        clock = call.query.clock;
    }
});
