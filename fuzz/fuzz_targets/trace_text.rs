//! Text of trace tools: the import gives a recording or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::import;

fuzz_target!(|data: &[u8]| import(b"", data));
