//! A run's timeline as a trace for [Perfetto](https://ui.perfetto.dev).
//!
//! What the tracks mean is in `docs/guides/timelines.md`.

mod proto;
#[cfg(test)]
mod tests;
mod writer;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};

use wakepath_results::timeline::{SpanValue, Timeline};

use self::writer::TraceWriter;

/// Writes a timeline.
///
/// # Errors
/// The first error of `out`.
pub fn write_perfetto_trace<W: Write>(out: W, timeline: &Timeline) -> io::Result<W> {
    let mut trace = TraceWriter::new(out);
    let process = trace.add_process_track(1, &timeline.title);
    let mut tracks = Vec::with_capacity(timeline.tracks.len());
    for track in &timeline.tracks {
        let parent = track.group.and_then(|group| tracks.get(group));
        let parent = parent.copied().unwrap_or(process);
        tracks.push(match track.kind.unit() {
            None => trace.add_slice_track(parent, &track.name),
            Some(unit) => trace.add_counter_track(parent, &track.name, unit),
        });
    }
    // Slices that have begun, by their end; of those that end together, the one that began last ends first.
    let mut open = Open::new();
    for (index, span) in timeline.spans.iter().enumerate() {
        let Some(track) = tracks.get(span.track).copied() else {
            continue;
        };
        end_spans_before(&mut trace, &mut open, span.start_ns, &tracks, timeline);
        match span.what {
            SpanValue::Value(value) => trace.write_counter_value(span.start_ns, track, value),
            SpanValue::Name(name) => {
                let name = timeline.names.get(name).map_or("", String::as_str);
                trace.begin_span(span.start_ns, track, name);
                open.push(Reverse((span.end_ns, Reverse(index))));
            }
        }
    }
    end_spans_before(&mut trace, &mut open, u64::MAX, &tracks, timeline);
    trace.finish_trace()
}

type Open = BinaryHeap<Reverse<(u64, Reverse<usize>)>>;

/// Ends what ends up to a time.
fn end_spans_before<W: Write>(
    trace: &mut TraceWriter<W>,
    open: &mut Open,
    time: u64,
    tracks: &[writer::Track],
    timeline: &Timeline,
) {
    while let Some(Reverse((end, Reverse(index)))) = open.peek().copied()
        && end <= time
    {
        open.pop();
        let track = timeline
            .spans
            .get(index)
            .and_then(|span| tracks.get(span.track));
        if let Some(track) = track {
            trace.end_span(end, *track);
        }
    }
}
