//! Imports other tools' traces: `trace.dat`, `perf.data`, and the text from `trace-cmd report`, `perf script` and
//! tracefs.
//!
//! Each format has a module to find events and fields; `decode` knows the kernel's events, and `builder` makes a
//! recording.

mod builder;
mod decode;
mod formats;
mod options;
mod perf_data;
mod problem;
mod seen;
mod source;
mod text;
mod tick;
mod timers;
mod trace_dat;
mod wheel;

pub use options::{ImportOptions, Imported};
pub use problem::ImportError;
pub use source::ReadAt;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::file_kind::{FileKind, KIND_BYTES};
use crate::recording::{Metadata, Reader, Writer};
use builder::RecordingBuilder;
use problem::{ImportProblem, refuse_cpu_beyond_limit};

/// First bytes of compressed files, and the command to unpack them.
const COMPRESSED: [(&[u8], &str); 4] = [
    (&[0x1f, 0x8b], "gzip -d"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstd -d"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz -d"),
    (b"BZh", "bzip2 -d"),
];

/// Reads the trace `path` and adds the events to `writer`. `progress` is called now and then with the number of events
/// so far.
///
/// # Errors
/// The trace cannot be read, has an unknown format, is damaged, or has neither idle events nor block requests.
pub fn import_file(
    path: &Path,
    writer: &mut Writer,
    options: ImportOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Imported, ImportError> {
    let mut file = wakepath_files::open_regular_file(path)
        .map_err(|error| ImportProblem::from(error.to_string()).with_path(path))?;
    let mut start = Vec::new();
    (&mut file)
        .take(8)
        .read_to_end(&mut start)
        .map_err(|error| ImportProblem::from(error.to_string()).with_path(path))?;
    if FileKind::detect(&start) == FileKind::Recording {
        return append_recording(path, writer, options, progress);
    }
    import_foreign_trace(&file, writer, options, progress)
        .map_err(|problem| problem.with_path(path))
}

/// As [`import_file`], from memory; errors call it `path_for_errors`.
pub fn import_bytes(
    bytes: &[u8],
    path_for_errors: &Path,
    writer: &mut Writer,
    options: ImportOptions,
) -> Result<Imported, ImportError> {
    import_foreign_trace(&bytes, writer, options, &mut |_| ())
        .map_err(|problem| problem.with_path(path_for_errors))
}

fn import_foreign_trace(
    input: &dyn ReadAt,
    writer: &mut Writer,
    options: ImportOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Imported, ImportProblem> {
    let mut buffer = [0; KIND_BYTES];
    let read = input.read_until_full_or_end(0, &mut buffer)?;
    let start = &buffer[..read];
    let packed = COMPRESSED
        .iter()
        .find(|(magic, _)| start.starts_with(magic));
    if let Some((_, unpack)) = packed {
        return Err(format!("it is compressed; unpack it first ({unpack})").into());
    }
    let mut builder = RecordingBuilder::new(writer, options, progress);
    match FileKind::detect(start) {
        FileKind::TraceDat => trace_dat::read_trace_dat(input, &mut builder)?,
        FileKind::PerfData => perf_data::read_perf_data(input, &mut builder)?,
        FileKind::Recording => {
            return Err("a recording can only be read as a file".to_owned().into());
        }
        FileKind::Text => text::read_text_trace(input, &mut builder)?,
    }
    builder.finish_import()
}

/// Copies a recording, perhaps unfinished, into a finished recording.
fn append_recording(
    path: &Path,
    writer: &mut Writer,
    options: ImportOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Imported, ImportError> {
    let mut reader = Reader::open(path)?;
    options
        .refuse_or_warn_of_other_machine(writer.metadata_mut(), reader.metadata())
        .map_err(|problem| ImportProblem::Trace(problem).with_path(path))?;
    writer
        .metadata_mut()
        .append_part(Metadata::clone(reader.metadata()));
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut highest = 0;
    while let Some(batch) = reader.next_batch()? {
        batch.for_each_event(|event| {
            highest = highest.max(event.cpu);
            *counts.entry(event.kind.kind_name()).or_default() += 1;
            writer.add_event(&event)
        })?;
        refuse_cpu_beyond_limit(highest).map_err(|problem| problem.with_path(path))?;
        progress(writer.count_added_events());
    }
    Ok(Imported {
        source: "recording".to_owned(),
        counts: counts
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
    })
}
