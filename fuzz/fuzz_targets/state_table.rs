//! State tables of a CPU.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_hardware::idle::MAX_STATES;

fuzz_target!(|data: &[u8]| {
    if let Ok(states) = wakepath_policies::input::read_states(data, "fuzz.csv") {
        assert!((1..=MAX_STATES).contains(&states.len()));
    }
});
