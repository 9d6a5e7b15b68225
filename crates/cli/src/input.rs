//! Reading the files that a command names.

use std::fs::File;
use std::io::{self, Read};

use anyhow::Context;

/// Reads all of `path`; `-` is standard input. More than `limit` bytes are an error, so that a
/// wrong path such as a device cannot fill the memory.
pub(crate) fn read(path: &str, limit: u64) -> anyhow::Result<Vec<u8>> {
    let mut data = Vec::new();
    let source: Box<dyn Read> = if path == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).with_context(|| name(path).to_owned())?)
    };
    source
        .take(limit + 1)
        .read_to_end(&mut data)
        .with_context(|| name(path).to_owned())?;
    anyhow::ensure!(
        data.len() as u64 <= limit,
        "{}: more than {limit} bytes, which no such file has",
        name(path)
    );
    Ok(data)
}

/// The file's name in a message.
pub(crate) fn name(path: &str) -> &str {
    if path == "-" { "standard input" } else { path }
}
