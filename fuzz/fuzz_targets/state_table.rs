//! Idle states as a table or a dump.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_hardware::idle::MAX_STATES;
use wakepath_system::dump::GivenStates;

fuzz_target!(|data: &[u8]| {
    if let Ok(given) = GivenStates::read_input(data, "fuzz.csv") {
        assert!((1..=MAX_STATES).contains(&given.states.len()));
    }
});
