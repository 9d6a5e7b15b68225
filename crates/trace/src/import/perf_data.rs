//! `perf.data`, read with the crate linux-perf-data. What tracepoints record is described in the
//! file as in a `trace.dat` of version 6.

use std::io::BufReader;

use linux_perf_data::linux_perf_event_reader::{
    EventRecord, PerfEventType, RawEventRecord, RecordType,
};
use linux_perf_data::{Endianness, Feature, PerfFile, PerfFileReader, PerfFileRecord};

use super::builder::Builder;
use super::formats::{Formats, number};
use super::problem::Problem;
use super::source::ReadAt;
use super::trace_dat;

/// Where the sections that the file's start names have their offset and size.
const HEADER: usize = 104;
const DATA_SECTION: usize = 40;
const EVENT_TYPES_SECTION: usize = 56;
const SECTIONS: [(usize, &str); 3] = [
    (24, "the events' attributes"),
    (DATA_SECTION, "the events"),
    (EVENT_TYPES_SECTION, "the event types"),
];
/// Where the size of an event's attributes stands, and the least that it can be: that of the first perf.
const ATTRIBUTE_SIZE: usize = 16;
const LEAST_ATTRIBUTE: u64 = 64;
/// Where the features stand that the file has: 256 bits.
const FEATURES: usize = 72;
/// A record whose size is followed by more data, of hardware tracers.
const AUXTRACE: u32 = 71;

pub(super) fn read(input: &dyn ReadAt, builder: &mut Builder<'_>) -> Result<(), Problem> {
    check(input)?;
    let damaged = |error: &dyn std::fmt::Display| format!("cut off or damaged perf.data: {error}");
    let stream = BufReader::with_capacity(1 << 18, input.stream());
    let PerfFileReader {
        mut perf_file,
        mut record_iter,
    } = PerfFileReader::parse_file(stream).map_err(|e| damaged(&e))?;
    let formats = describe(&perf_file, builder)?;
    while let Some(record) = record_iter
        .next_record(&mut perf_file)
        .map_err(|e| damaged(&e))?
    {
        if let PerfFileRecord::EventRecord { record, .. } = record {
            event(&record, &formats, builder)?;
        }
    }
    Ok(())
}

fn event(
    record: &RawEventRecord<'_>,
    formats: &Formats,
    builder: &mut Builder<'_>,
) -> Result<(), Problem> {
    // The library panics at some damaged records of other types.
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
            let raw = sample.raw.map(|raw| raw.as_slice().into_owned());
            let raw = raw.unwrap_or_default();
            let format = formats.id(&raw).and_then(|id| formats.get(id));
            let name = builder.name(format.map_or("other samples", |format| &format.name));
            let what = format.and_then(|format| formats.decode(format, &raw));
            builder.event(time, cpu, name, what)
        }
        EventRecord::Lost(lost) => {
            let common = record.common_data().ok();
            let cpu = common.as_ref().and_then(|c| c.cpu).unwrap_or(0);
            let time = common.and_then(|c| c.timestamp).unwrap_or(0);
            builder.lost(time, cpu, Some(lost.count))
        }
        _ => Ok(()),
    }
}

fn describe(file: &PerfFile, builder: &mut Builder<'_>) -> Result<Formats, Problem> {
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
                    docs/replay.md"
                .to_owned()
                .into(),
        );
    };
    let formats = trace_dat::formats(description)?;
    let metadata = builder.metadata();
    metadata.kernel = file.os_release().ok().flatten().map(ToOwned::to_owned);
    metadata.architecture = file.arch().ok().flatten().map(ToOwned::to_owned);
    metadata.clock = Some("perf".to_owned());
    if let Ok(Some(cpus)) = file.nr_cpus() {
        metadata.cpus = cpus.nr_cpus_online;
    }
    Ok(formats)
}

/// The library believes what the file says about its sizes. Every section must be within the file.
fn check(input: &dyn ReadAt) -> Result<(), String> {
    let header = input.bytes(0, HEADER as u64, "the start of a perf.data")?;
    let big_endian = header.starts_with(b"2");
    let total = input.size().map_err(|error| error.to_string())?;
    let section = |bytes: &[u8], what: &str| -> Result<(u64, u64), String> {
        let offset = bytes.get(..8).and_then(|b| number(b, big_endian));
        let size = bytes.get(8..16).and_then(|b| number(b, big_endian));
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
    };
    for (at, what) in SECTIONS {
        section(&header[at..], what)?;
    }
    let (data, size) = section(&header[DATA_SECTION..], "the events")?;
    if size == 0 {
        return Err(
            "it has no events; was perf record stopped with Ctrl-C or kill -INT, so that it could \
             write its end?"
                .to_owned(),
        );
    }
    let features = features_of(&header[FEATURES..], big_endian);
    let table = input.bytes(
        data + size,
        features.len() as u64 * 16,
        "the list of features",
    )?;
    let has = |feature: Feature| features.contains(&feature.0);
    let (_, event_types) = section(&header[EVENT_TYPES_SECTION..], "the event types")?;
    if !has(Feature::EVENT_DESC) {
        if event_types > 0 || has(Feature::SIMPLEPERF_META_INFO) {
            return Err(
                "it is of simpleperf, or of a perf older than Linux 3.2; record with another perf"
                    .to_owned(),
            );
        }
        let size = number(&header[ATTRIBUTE_SIZE..ATTRIBUTE_SIZE + 8], big_endian);
        if size.is_none_or(|size| size < LEAST_ATTRIBUTE) {
            return Err("damaged: its events' attributes are too short".to_owned());
        }
    }
    let mut of_features = 0_u64;
    for (feature, entry) in features.iter().zip(table.chunks_exact(16)) {
        let (offset, size) = section(entry, "its features")?;
        // Each is read into memory.
        of_features += size;
        if of_features > total {
            return Err("damaged: its features overlap".to_owned());
        }
        if *feature == Feature::EVENT_DESC.0 {
            let what = "the description of its events";
            check_descriptions(&input.bytes(offset, size, what)?, big_endian)
                .ok_or_else(|| format!("damaged: {what} says more than it holds"))?;
        }
    }
    check_records(input, data, data + size, big_endian)
}

/// The bits that are set in the list of features, which consists of words of 64 bits.
fn features_of(words: &[u8], big_endian: bool) -> Vec<u32> {
    let words = words
        .chunks_exact(8)
        .map(|word| number(word, big_endian).unwrap_or(0));
    let bits = words.enumerate().flat_map(|(i, word)| {
        let first = 64 * i as u32;
        (0..64)
            .filter(move |bit| word >> bit & 1 != 0)
            .map(move |bit| first + bit)
    });
    bits.collect()
}

/// Events, each with its attributes, a name and its numbers: `None` unless all of them are there.
fn check_descriptions(mut bytes: &[u8], big_endian: bool) -> Option<()> {
    let length = |bytes: &mut &[u8]| number(bytes.split_off(..4)?, big_endian);
    let skip =
        |bytes: &mut &[u8], size: u64| bytes.split_off(..usize::try_from(size).ok()?).map(drop);
    let events = length(&mut bytes)?;
    let attributes = length(&mut bytes)?;
    for _ in 0..events {
        skip(&mut bytes, attributes)?;
        let numbers = length(&mut bytes)?;
        let name = length(&mut bytes)?;
        skip(&mut bytes, name)?;
        skip(&mut bytes, numbers * 8)?;
    }
    Some(())
}

/// Records follow each other without a gap.
fn check_records(input: &dyn ReadAt, from: u64, to: u64, big_endian: bool) -> Result<(), String> {
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
            .and_then(|b| number(b, big_endian));
        let size = block
            .get(header + 6..header + 8)
            .and_then(|b| number(b, big_endian));
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
