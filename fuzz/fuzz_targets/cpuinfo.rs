//! `/proc/cpuinfo`: any processor has a name, and a machine with its figures.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_hardware::Machine;
use wakepath_hardware::identity::{ProcessorIdentity, SegmentHints};
use wakepath_hardware::nearest::choose_lender;

fuzz_target!(|text: &str| {
    let processor = ProcessorIdentity::from_cpuinfo(text);
    assert!(!processor.name.is_empty());
    let hints = SegmentHints {
        battery: text.len().is_multiple_of(2),
        ..SegmentHints::default()
    };
    let lender = choose_lender(&processor, &hints, None);
    assert!(Machine::find(lender.machine).is_ok());
});
