//! Importing what others recorded: `trace.dat`, `perf.data`, and the text of `trace-cmd report`,
//! `perf script` and tracefs.
//!
//! Each format has a module that finds its events and their fields; `decode` knows the kernel's
//! events, and `builder` makes a recording of them.

mod builder;
mod decode;
mod formats;
mod perf_data;
mod problem;
mod source;
mod text;
mod tick;
mod timers;
mod trace_dat;
mod wheel;

pub use builder::{ImportOptions, Imported};
pub use problem::ImportError;
pub use source::ReadAt;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::recording::{Metadata, Reader, Writer};
use builder::Builder;
use problem::{Problem, check_cpu};

/// The kinds of files that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    TraceDat,
    PerfData,
    Recording,
    Text,
}

fn kind_of(start: &[u8]) -> FileKind {
    if start.starts_with(trace_dat::MAGIC) {
        FileKind::TraceDat
    } else if start.starts_with(b"PERFILE2") || start.starts_with(b"2ELIFREP") {
        FileKind::PerfData
    } else if start.starts_with(b"PAR1") {
        FileKind::Recording
    } else {
        FileKind::Text
    }
}

/// How programs that compress begin their files, and what unpacks them.
const COMPRESSED: [(&[u8], &str); 4] = [
    (&[0x1f, 0x8b], "gzip -d"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd -d"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz -d"),
    (b"BZh", "bzip2 -d"),
];

/// Reads the trace `path` and adds its events to `writer`. `progress` is told now and then how many
/// events there were so far.
///
/// # Errors
/// The trace cannot be read, is none of the known formats, is damaged, or has neither idle events nor block requests.
pub fn import_file(
    path: &Path,
    writer: &mut Writer,
    options: ImportOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Imported, ImportError> {
    let trace = |problem: String| Problem::Trace(problem).in_file(path);
    let mut file = wakepath_files::open(path).map_err(|error| trace(error.to_string()))?;
    let mut start = Vec::new();
    (&mut file)
        .take(8)
        .read_to_end(&mut start)
        .map_err(|error| trace(error.to_string()))?;
    if kind_of(&start) == FileKind::Recording {
        return copy(path, writer, options, progress);
    }
    import(&file, writer, options, progress).map_err(|problem| problem.in_file(path))
}

/// As [`import_file`], from memory; errors call it `path`.
pub fn import_bytes(
    bytes: &[u8],
    path: &Path,
    writer: &mut Writer,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    import(&bytes, writer, options, &mut |_| ()).map_err(|problem| problem.in_file(path))
}

fn import(
    input: &dyn ReadAt,
    writer: &mut Writer,
    options: ImportOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Imported, Problem> {
    let mut start = [0; 16];
    let read = input.read_up_to(0, &mut start)?;
    let packed = |(magic, _): &&(&[u8], &str)| start[..read].starts_with(magic);
    if let Some((_, unpack)) = COMPRESSED.iter().find(packed) {
        return Err(format!("it is compressed; unpack it first ({unpack})").into());
    }
    let mut builder = Builder::new(writer, options, progress);
    match kind_of(&start[..read]) {
        FileKind::TraceDat => trace_dat::read(input, &mut builder)?,
        FileKind::PerfData => perf_data::read(input, &mut builder)?,
        FileKind::Recording => {
            return Err("a recording can only be read as a file".to_owned().into());
        }
        FileKind::Text => text::read(input, &mut builder)?,
    }
    builder.finish()
}

/// A recording that its writer may not have finished becomes one that is whole.
fn copy(
    path: &Path,
    writer: &mut Writer,
    options: ImportOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Imported, ImportError> {
    let mut reader = Reader::open(path)?;
    options
        .check_machine(writer.metadata_mut(), reader.metadata())
        .map_err(|problem| Problem::Trace(problem).in_file(path))?;
    writer
        .metadata_mut()
        .append(Metadata::clone(reader.metadata()));
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut highest = 0;
    while let Some(batch) = reader.next_batch()? {
        batch.for_each(|event| {
            highest = highest.max(event.cpu);
            *counts.entry(event.kind.name()).or_default() += 1;
            writer.push(&event)
        })?;
        check_cpu(highest).map_err(|problem| problem.in_file(path))?;
        progress(writer.events());
    }
    Ok(Imported {
        source: "recording".to_owned(),
        counts: counts
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
    })
}
