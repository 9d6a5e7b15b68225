//! Dumps of the counters of idle states, as archives and in every form of text: an accepted dump can be counted.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use wakepath_system::dump::Dump;

fuzz_target!(|data: &[u8]| {
    let Ok(dumps) = Dump::read_series_in_memory(data, Path::new("fuzz")) else {
        return;
    };
    assert!((1..=2).contains(&dumps.len()));
    for dump in &dumps {
        assert!(!dump.counts_since_boot(None).states.is_empty());
    }
    if let [before, after] = &dumps[..] {
        let _ = after.counts_since(before, Some(1.0));
    }
});
