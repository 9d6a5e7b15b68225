//! Identify Controller dumps and smartctl's, in every form: an accepted dump gets an APST table.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_hardware::drive::id_ctrl;
use wakepath_policies::apst::{ApstSettings, plan_apst_table};

fuzz_target!(|data: &[u8]| {
    if let Ok(found) = id_ctrl::parse_dump("fuzz", data) {
        let drive = found.drive;
        assert!((1..=32).contains(&drive.states.len()));
        let _ = plan_apst_table(drive.npss, true, &drive.states, &ApstSettings::default());
    }
});
