//! Recordings: a damaged Parquet file is read up to the damage, or is an error.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use wakepath_trace::recording::{Reader, RecordingError};

fuzz_target!(|data: &[u8]| {
    let bytes = bytes::Bytes::copy_from_slice(data);
    if let Ok(mut reader) = Reader::new(bytes, None, Path::new("fuzz.parquet")) {
        let _ = reader.for_each_event(|_| Ok::<_, RecordingError>(()));
    }
});
