//! `perf.data`, read with the crate linux-perf-data. Tracepoints are described as in a `trace.dat` with version 6.

use std::fmt::Display;
use std::io::BufReader;

use linux_perf_data::linux_perf_event_reader::{
    EventRecord, PerfEventType, RawEventRecord, RecordType,
};
use linux_perf_data::{Endianness, Feature, PerfFile, PerfFileReader, PerfFileRecord};

use super::builder::Builder;
use super::formats::{Formats, decode_unsigned};
use super::problem::Problem;
use super::source::ReadAt;
use super::trace_dat;

/// Positions in a perf.data's header at which the sections' offsets and sizes are.
const HEADER: usize = 104;
const DATA_SECTION: usize = 40;
const EVENT_TYPES_SECTION: usize = 56;
const SECTIONS: [(usize, &str); 3] = [
    (24, "the events' attributes"),
    (DATA_SECTION, "the events"),
    (EVENT_TYPES_SECTION, "the event types"),
];
/// Position in the header of the size of an event's attributes, and the smallest size, from the first perf.
const ATTRIBUTE_SIZE: usize = 16;
const LEAST_ATTRIBUTE: u64 = 64;
/// Where the list of the file's features is in the header: 256 bits.
const FEATURES: usize = 72;
/// Type of a record that additional data from hardware tracers follow.
const AUXTRACE: u32 = 71;

pub(super) fn read_perf_data(input: &dyn ReadAt, builder: &mut Builder<'_>) -> Result<(), Problem> {
    check_sections(input)?;
    let stream = BufReader::with_capacity(1 << 18, input.stream_from_start());
    let PerfFileReader {
        mut perf_file,
        mut record_iter,
    } = PerfFileReader::parse_file(stream).map_err(|e| explain_damage(&e))?;
    let formats = note_source_and_read_formats(&perf_file, builder)?;
    while let Some(record) = record_iter
        .next_record(&mut perf_file)
        .map_err(|e| explain_damage(&e))?
    {
        if let PerfFileRecord::EventRecord { record, .. } = record {
            add_sample_or_loss(&record, &formats, builder)?;
        }
    }
    Ok(())
}

fn explain_damage(error: &dyn Display) -> String {
    format!("cut off or damaged perf.data: {error}")
}

fn add_sample_or_loss(
    record: &RawEventRecord<'_>,
    formats: &Formats,
    builder: &mut Builder<'_>,
) -> Result<(), Problem> {
    // linux-perf-data panics at some damaged records of other types.
    if !matches!(record.record_type, RecordType::SAMPLE | RecordType::LOST) {
        return Ok(());
    }
    let parsed = record
        .parse()
        .map_err(|error| format!("damaged perf.data: a record cannot be read: {error}"))?;
    match parsed {
        EventRecord::Sample(sample) => {
            let (Some(time), Some(cpu)) = (sample.timestamp, sample.cpu) else {
                return Err(
                    "its events have no time or no CPU; record with perf record -a"
                        .to_owned()
                        .into(),
                );
            };
            let raw = match sample.raw {
                Some(raw) => raw.as_slice().into_owned(),
                None => Vec::new(),
            };
            let format = formats
                .read_event_id(&raw)
                .and_then(|id| formats.find_format(id));
            let name = builder.counter_index(format.map_or("other samples", |format| &format.name));
            let what = format.and_then(|format| formats.decode_record(format, &raw));
            builder.count_and_add_event(time, cpu, name, what)
        }
        EventRecord::Lost(lost) => {
            let common = record.common_data().ok();
            let cpu = common.as_ref().and_then(|c| c.cpu).unwrap_or(0);
            let time = common.and_then(|c| c.timestamp).unwrap_or(0);
            builder.note_lost_events(time, cpu, Some(lost.count))
        }
        _ => Ok(()),
    }
}

fn note_source_and_read_formats(
    file: &PerfFile,
    builder: &mut Builder<'_>,
) -> Result<Formats, Problem> {
    let big_endian = file.endian() == Endianness::BigEndian;
    builder.source = if big_endian {
        "perf.data, big-endian".to_owned()
    } else {
        "perf.data".to_owned()
    };
    let traced = file
        .event_attributes()
        .iter()
        .any(|attribute| matches!(attribute.attr.type_, PerfEventType::Tracepoint(_)));
    let description = file.feature_section_data(Feature::TRACING_DATA);
    let (true, Some(description)) = (traced, description) else {
        return Err(
            "it has no trace events; record with perf record -a -e power:cpu_idle ..., see \
                    docs/guides/replay.md"
                .to_owned()
                .into(),
        );
    };
    let formats = trace_dat::read_formats_in_perf_data(description)?;
    let metadata = builder.metadata_mut();
    metadata.kernel = file.os_release().ok().flatten().map(ToOwned::to_owned);
    metadata.architecture = file.arch().ok().flatten().map(ToOwned::to_owned);
    metadata.clock = Some("perf".to_owned());
    if let Ok(Some(cpus)) = file.nr_cpus() {
        metadata.cpus = cpus.nr_cpus_online;
    }
    Ok(formats)
}

/// Checks that every section lies within the file, because linux-perf-data trusts all sizes.
fn check_sections(input: &dyn ReadAt) -> Result<(), String> {
    let header = input.read_exactly(0, HEADER as u64, "the start of a perf.data")?;
    let big_endian = header.starts_with(b"2");
    let total = input.size_in_bytes().map_err(|error| error.to_string())?;
    let sections = SectionReader { total, big_endian };
    for (at, what) in SECTIONS {
        sections.read_section_bounds(&header[at..], what)?;
    }
    let (data, size) = sections.read_section_bounds(&header[DATA_SECTION..], "the events")?;
    if size == 0 {
        return Err(
            "it has no events; was perf record stopped with Ctrl-C or kill -INT, so that it could \
             write its end?"
                .to_owned(),
        );
    }
    let features = list_feature_numbers(&header[FEATURES..], big_endian);
    let table = input.read_exactly(
        data + size,
        features.len() as u64 * 16,
        "the list of features",
    )?;
    if !features.contains(&Feature::EVENT_DESC.0) {
        check_event_attributes(&header, sections, &features)?;
    }
    check_features(input, sections, &features, &table)?;
    check_records_are_gapless(input, data, data + size, big_endian)
}

/// Reads the place of a section in a file with `total` bytes.
#[derive(Clone, Copy)]
struct SectionReader {
    total: u64,
    big_endian: bool,
}

impl SectionReader {
    /// Offset and size of a section, which must lie within the file. `what`: the section's name, for errors.
    fn read_section_bounds(self, bytes: &[u8], what: &str) -> Result<(u64, u64), String> {
        let Self { total, big_endian } = self;
        let offset = bytes.get(..8).and_then(|b| decode_unsigned(b, big_endian));
        let size = bytes
            .get(8..16)
            .and_then(|b| decode_unsigned(b, big_endian));
        match (offset, size) {
            (Some(offset), Some(size))
                if offset.checked_add(size).is_some_and(|end| end <= total) =>
            {
                Ok((offset, size))
            }
            _ => Err(format!(
                "cut off or damaged: {what} reach beyond the end of the file, at byte {total}; was \
                 perf record stopped with Ctrl-C or kill -INT?"
            )),
        }
    }
}

/// Checks the events' attributes in a file without descriptions for events.
fn check_event_attributes(
    header: &[u8],
    sections: SectionReader,
    features: &[u32],
) -> Result<(), String> {
    let (_, event_types) =
        sections.read_section_bounds(&header[EVENT_TYPES_SECTION..], "the event types")?;
    if event_types > 0 || features.contains(&Feature::SIMPLEPERF_META_INFO.0) {
        return Err(
            "it is of simpleperf, or of a perf older than Linux 3.2; record with another perf"
                .to_owned(),
        );
    }
    let field = &header[ATTRIBUTE_SIZE..ATTRIBUTE_SIZE + 8];
    let size = decode_unsigned(field, sections.big_endian);
    if size.is_none_or(|size| size < LEAST_ATTRIBUTE) {
        return Err("damaged: its events' attributes are too short".to_owned());
    }
    Ok(())
}

/// Checks that the features lie within the file, and the events' descriptions. `table`: place of each feature.
fn check_features(
    input: &dyn ReadAt,
    sections: SectionReader,
    features: &[u32],
    table: &[u8],
) -> Result<(), String> {
    let mut total_size = 0_u64;
    for (feature, entry) in features.iter().zip(table.chunks_exact(16)) {
        let (offset, size) = sections.read_section_bounds(entry, "its features")?;
        // linux-perf-data reads each feature into memory as a whole.
        total_size += size;
        if total_size > sections.total {
            return Err("damaged: its features overlap".to_owned());
        }
        if *feature == Feature::EVENT_DESC.0 {
            let what = "the description of its events";
            check_event_descriptions(
                &input.read_exactly(offset, size, what)?,
                sections.big_endian,
            )
            .ok_or_else(|| format!("damaged: {what} says more than it holds"))?;
        }
    }
    Ok(())
}

/// Numbers of the bits set in the list of features, a list of 64-bit words.
fn list_feature_numbers(words: &[u8], big_endian: bool) -> Vec<u32> {
    let words = words
        .chunks_exact(8)
        .map(|word| decode_unsigned(word, big_endian).unwrap_or(0));
    let bits = words.enumerate().flat_map(|(i, word)| {
        let first = 64 * i as u32;
        (0..64)
            .filter(move |bit| word >> bit & 1 != 0)
            .map(move |bit| first + bit)
    });
    bits.collect()
}

/// Checks the events' descriptions, each with attributes, a name and numbers; `None` if anything is missing.
fn check_event_descriptions(mut bytes: &[u8], big_endian: bool) -> Option<()> {
    let events = take_length(&mut bytes, big_endian)?;
    let attributes = take_length(&mut bytes, big_endian)?;
    for _ in 0..events {
        skip_bytes(&mut bytes, attributes)?;
        let numbers = take_length(&mut bytes, big_endian)?;
        let name = take_length(&mut bytes, big_endian)?;
        skip_bytes(&mut bytes, name)?;
        skip_bytes(&mut bytes, numbers * 8)?;
    }
    Some(())
}

/// Takes a 32-bit length from the front of the bytes.
fn take_length(bytes: &mut &[u8], big_endian: bool) -> Option<u64> {
    decode_unsigned(bytes.split_off(..4)?, big_endian)
}

/// Drops `size` bytes from the front.
fn skip_bytes(bytes: &mut &[u8], size: u64) -> Option<()> {
    bytes.split_off(..usize::try_from(size).ok()?).map(drop)
}

/// Checks that the records of a section follow each other without a gap.
fn check_records_are_gapless(
    input: &dyn ReadAt,
    from: u64,
    to: u64,
    big_endian: bool,
) -> Result<(), String> {
    let mut at = from;
    let mut block = vec![0; 1 << 18];
    let (mut start, mut length) = (0_u64, 0_u64);
    while at < to {
        if at < start || at + 8 > start + length {
            start = at;
            length = input.read_up_to(at, &mut block)? as u64;
        }
        let header = (at - start) as usize;
        let kind = block
            .get(header..header + 4)
            .and_then(|b| decode_unsigned(b, big_endian));
        let size = block
            .get(header + 6..header + 8)
            .and_then(|b| decode_unsigned(b, big_endian));
        match (kind, size) {
            (Some(kind), _) if kind == u64::from(AUXTRACE) => {
                return Err(
                    "it has data of a hardware tracer (such as intel_pt), which cannot be \
                            read; record trace events only"
                        .to_owned(),
                );
            }
            (Some(_), Some(size)) if size >= 8 && at + size <= to && length >= 8 => at += size,
            _ => return Err(format!("damaged: no record at byte {at}")),
        }
    }
    Ok(())
}
