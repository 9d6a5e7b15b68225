//! Event lists of schedutil, HWP dynamic boost and PSD.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_policies::input::events::{read_hwp_updates, read_lease_events, read_util_updates};

fuzz_target!(|data: &[u8]| {
    let _ = read_util_updates(data, "fuzz.csv");
    let hwp = read_hwp_updates(data, "fuzz.csv");
    let leases = read_lease_events(data, "fuzz.csv");
    // Two flags with another meaning but the same form.
    assert_eq!(hwp.map(|e| e.len()).ok(), leases.map(|e| e.len()).ok());
});
