//! trace-cmd's `trace.dat`, versions 6 and 7, in either byte order, also compressed with zstd.
//!
//! Source: the manual pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5), and for the ring buffer `events/header_page`
//! and `events/header_event` in tracefs.

mod cursor;
mod header;
mod pages;
mod unpack;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::builder::RecordingBuilder;
use super::formats::EventFormats;
use super::problem::ImportProblem;
use super::source::ReadAt;
use header::TraceDatHeader;
use pages::{CpuEvents, RingBufferItem};

/// Event formats in a perf.data, described as in version 6.
pub(super) fn read_formats_in_perf_data(description: &[u8]) -> Result<EventFormats, String> {
    header::read_formats_of_any_version(&description)
}

pub(super) fn read_trace_dat(
    input: &dyn ReadAt,
    builder: &mut RecordingBuilder<'_>,
) -> Result<(), ImportProblem> {
    let header = header::read_trace_dat_header(input)?;
    refuse_cycle_clock_and_note_source(&header, builder)?;
    let mut cpus = Vec::new();
    for data in &header.cpus {
        cpus.push(CpuEvents::new(input, &header, data)?);
    }
    // The CPU with the earliest next event comes first; among equals the lowest CPU.
    let mut next = BinaryHeap::new();
    for (i, cpu) in cpus.iter_mut().enumerate() {
        if let Some(item) = cpu.next_item()? {
            next.push(Reverse((item.time_in_ns(), i, item)));
        }
    }
    let mut names: Vec<Option<usize>> = vec![None; 1 << 16];
    while let Some(Reverse((time, i, item))) = next.pop() {
        // As long as this CPU is the earliest, the others need not be looked at.
        let until = next.peek().map(|Reverse((time, j, _))| (*time, *j));
        let mut current = Some((time, item));
        let cpu = &mut cpus[i];
        while let Some((time, item)) = current {
            if until.is_some_and(|until| (time, i) > until) {
                next.push(Reverse((time, i, item)));
                break;
            }
            match item {
                RingBufferItem::Lost { count, .. } => {
                    builder.note_lost_events(time, cpu.cpu, count)?;
                }
                RingBufferItem::Event { .. } => {
                    let record = cpu.bytes_of_item(&item);
                    count_and_add_record(&header, record, time, cpu.cpu, &mut names, builder)?;
                }
            }
            current = cpu.next_item()?.map(|item| (item.time_in_ns(), item));
        }
    }
    Ok(())
}

fn count_and_add_record(
    header: &TraceDatHeader,
    record: &[u8],
    time: u64,
    cpu: u32,
    counters_by_id: &mut [Option<usize>],
    builder: &mut RecordingBuilder<'_>,
) -> Result<(), ImportProblem> {
    let id = header.formats.read_event_id(record).unwrap_or(0);
    let format = header.formats.find_format(id);
    let slot = &mut counters_by_id[id as usize & 0xffff];
    let name = match slot {
        Some(name) => *name,
        None => *slot.insert(match format {
            Some(format) => builder.counter_index_or_new(&format.name),
            None => builder
                .counter_index_or_new(&format!("event {id}, which the file does not describe")),
        }),
    };
    let what = format.and_then(|format| {
        let what = header.formats.decode_record(format, record);
        if what.is_none() && format.is_used_by_recordings() {
            builder
                .metadata_mut()
                .add_or_count_warning("damaged-event", || {
                    format!(
                        "an event {} of CPU {cpu} at {time} ns lacks a field",
                        format.name
                    )
                });
        }
        what
    });
    builder.count_and_add_event(time, cpu, name, what)
}

fn refuse_cycle_clock_and_note_source(
    header: &TraceDatHeader,
    builder: &mut RecordingBuilder<'_>,
) -> Result<(), ImportProblem> {
    builder.source = format!(
        "trace.dat version {}{}{}",
        header.version,
        if header.formats.big_endian {
            ", big-endian"
        } else {
            ""
        },
        if header.compressed { ", zstd" } else { "" }
    );
    let clock = header.clock.clone();
    if let Some(clock) = &clock
        && header.tsc.is_none()
        && matches!(clock.as_str(), "counter" | "x86-tsc" | "ppc-tb" | "uptime")
    {
        return Err(format!(
            "its clock, {clock}, does not count nanoseconds; record with trace-cmd record -C mono"
        )
        .into());
    }
    let metadata = builder.metadata_mut();
    metadata.clock = clock;
    metadata.cpus = header.cpu_count;
    if let Some(uname) = &header.uname {
        // "Linux host 6.1.0-44-amd64 #1 SMP ... x86_64"
        let words: Vec<&str> = uname.split_whitespace().collect();
        metadata.kernel = words.get(2).map(|word| (*word).to_owned());
        metadata.architecture = words.last().map(|word| (*word).to_owned());
    }
    if header.overruns > 0 {
        metadata.lost_events = metadata.lost_events.saturating_add(header.overruns);
        metadata.add_or_count_warning("lost-events", || {
            format!(
                "trace-cmd lost {} events while recording, says its statistics; a bigger buffer \
                 (trace-cmd record -b) helps",
                header.overruns
            )
        });
    }
    if header.other_buffers > 0 {
        metadata.add_or_count_warning("other-buffers", || {
            format!(
                "events of {} further trace instances (trace-cmd record -B) are left out",
                header.other_buffers
            )
        });
    }
    Ok(())
}
