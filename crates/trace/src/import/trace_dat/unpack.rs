//! Decompression of the chunks in a `trace.dat`.

/// Largest size of a chunk after unpacking: trace-cmd packs about 10 pages at a time.
const LARGEST_CHUNK: u32 = 64 << 20;

/// Unpacks zstd data that must have `size` bytes.
pub(super) fn unpack_zstd(packed: &[u8], size: u32, what: &str) -> Result<Vec<u8>, String> {
    if size > LARGEST_CHUNK {
        return Err(format!("damaged: {what} would unpack to {size} bytes"));
    }
    let bytes = zstd::bulk::decompress(packed, size as usize)
        .map_err(|error| format!("damaged: {what} cannot be unpacked: {error}"))?;
    if bytes.len() == size as usize {
        Ok(bytes)
    } else {
        Err(format!(
            "damaged: {what} unpacks to {} bytes; expected {size}",
            bytes.len()
        ))
    }
}
