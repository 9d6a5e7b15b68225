//! trace.dat with a valid start: the import gives a recording or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wakepath_fuzz::import;

fuzz_target!(|data: &[u8]| import(b"\x17\x08\x44tracing", data));
