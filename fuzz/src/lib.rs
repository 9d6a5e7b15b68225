//! Imports for several fuzz targets.

use std::path::Path;

use wakepath_trace::import::{ImportOptions, import_bytes};
use wakepath_trace::recording::{Metadata, Overwrite, Writer};

/// Imports `data` with its first bytes replaced by `start`, the mark of a kind of file.
pub fn import(start: &[u8], data: &[u8]) {
    let mut data = data.to_vec();
    if data.len() < start.len() {
        return;
    }
    data[..start.len()].copy_from_slice(start);
    let out = Path::new("/dev/null");
    if let Ok(mut writer) = Writer::create(out, Overwrite::Yes, Metadata::default()) {
        let _ = import_bytes(
            &data,
            Path::new("fuzz"),
            &mut writer,
            ImportOptions::default(),
        );
    }
}
