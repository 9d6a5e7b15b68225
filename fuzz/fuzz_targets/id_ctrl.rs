//! Identify Controller dumps, binary, JSON and text: whatever is accepted can be planned for.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_hardware::drive::id_ctrl;
use wakepath_policies::apst::{ApstSettings, plan};

fuzz_target!(|data: &[u8]| {
    if let Ok(drive) = id_ctrl::parse("fuzz", data) {
        assert!((1..=32).contains(&drive.states.len()));
        let _ = plan(drive.npss, true, &drive.states, &ApstSettings::default());
    }
});
