//! Reads written traces again.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::io::{self, Write};

use proptest::prelude::*;
use prost::Message;
use wakepath_results::timeline::{Span, SpanValue, Timeline, Track, TrackKind};

use super::proto::{EventType, Trace, TracePacket};
use super::write_perfetto_trace;

/// What a reader makes of a trace: slices as (track, name, depth, start, end), values as (track, time, value).
#[derive(Debug, Default, PartialEq)]
struct Read {
    slices: Vec<(String, String, usize, u64, u64)>,
    values: Vec<(String, u64, f64)>,
}

/// Reads a trace as strictly as its format allows.
fn read(bytes: &[u8]) -> Read {
    let packets: Vec<TracePacket> = Trace::decode(bytes).unwrap().packet;
    assert_eq!(packets[0].sequence_flags, Some(1), "state cleared first");
    let mut tracks = BTreeMap::new();
    let mut names = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<(String, u64)>> = BTreeMap::new();
    let mut result = Read::default();
    let mut now = 0;
    for packet in packets {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1));
        for new in packet.interned_data.iter().flat_map(|d| &d.event_names) {
            let other = names.insert(new.iid.unwrap(), new.name.clone().unwrap());
            assert_eq!(other, None, "an interned number is used twice");
        }
        if let Some(track) = packet.track_descriptor {
            let parent = track.parent_uuid;
            assert!(parent.is_none_or(|p| tracks.contains_key(&p)));
            let name = track.name.or(track.process.and_then(|p| p.process_name));
            let other = tracks.insert(track.uuid.unwrap(), name.unwrap());
            assert_eq!(other, None, "a track is described twice");
        }
        let Some(event) = packet.track_event else {
            continue;
        };
        let time = packet.timestamp.unwrap();
        assert!(time >= now, "time goes back");
        now = time;
        let uuid = event.track_uuid.unwrap();
        let track = tracks[&uuid].clone();
        let stack = open.entry(uuid).or_default();
        match event.r#type() {
            EventType::SliceBegin => {
                stack.push((names[&event.name_iid.unwrap()].clone(), time));
            }
            EventType::SliceEnd => {
                let (name, start) = stack.pop().unwrap();
                result.slices.push((track, name, stack.len(), start, time));
            }
            EventType::Counter => {
                let value = event.double_counter_value.unwrap();
                result.values.push((track, time, value));
            }
            other => panic!("unexpected event {other:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "slices are left open");
    result.slices.sort();
    result
}

/// Some stays on tracks, each with parts in it, and values of a counter.
fn timelines() -> impl Strategy<Value = Timeline> {
    let stay = (
        0..4_usize,
        1..50_u64,
        prop::collection::vec(1..20_u64, 0..3),
        0..3_usize,
    );
    prop::collection::vec(stay, 0..40).prop_map(|stays| {
        let track = |name: &str, group, kind| Track {
            name: name.to_owned(),
            group,
            kind,
        };
        let mut timeline = Timeline {
            title: "a machine".to_owned(),
            tracks: vec![
                track("CPU 0", None, TrackKind::Slices),
                track("drive", None, TrackKind::Slices),
                track("slot", Some(1), TrackKind::Slices),
                track("clock", None, TrackKind::Frequency),
            ],
            names: ["a", "b", "c"].map(str::to_owned).to_vec(),
            spans: Vec::new(),
        };
        let mut now = [0_u64; 4];
        for (track, length, parts, name) in stays {
            let start_ns = now[track];
            let within: u64 = parts.iter().sum();
            let end_ns = start_ns + length + within;
            now[track] = end_ns;
            let what = match track {
                3 => SpanValue::Value(length as f64),
                _ => SpanValue::Name(name),
            };
            let span = |what, start_ns, end_ns| Span {
                track,
                what,
                start_ns,
                end_ns,
            };
            timeline.spans.push(span(what, start_ns, end_ns));
            let mut from = start_ns;
            for part in parts.iter().filter(|_| track != 3) {
                timeline
                    .spans
                    .push(span(SpanValue::Name((name + 1) % 3), from, from + part));
                from += part;
            }
        }
        timeline.spans.sort_by_key(|span| span.start_ns);
        timeline
    })
}

/// What a reader should make of a timeline.
fn expected(timeline: &Timeline) -> Read {
    let mut result = Read::default();
    let mut open: Vec<Vec<u64>> = vec![Vec::new(); timeline.tracks.len()];
    for span in &timeline.spans {
        let track = timeline.tracks[span.track].name.clone();
        let outer = &mut open[span.track];
        outer.retain(|end| *end > span.start_ns);
        match span.what {
            SpanValue::Value(value) => result.values.push((track, span.start_ns, value)),
            SpanValue::Name(_) => {
                let (start, end) = (span.start_ns, span.end_ns);
                let slice = (track, timeline.describe_span(span), outer.len(), start, end);
                result.slices.push(slice);
                outer.push(span.end_ns);
            }
        }
    }
    result.slices.sort();
    result
}

proptest! {
    #[test]
    fn a_trace_says_what_its_timeline_says(timeline in timelines()) {
        let bytes = write_perfetto_trace(Vec::new(), &timeline).unwrap();
        prop_assert_eq!(read(&bytes), expected(&timeline));
        prop_assert_eq!(write_perfetto_trace(Vec::new(), &timeline).unwrap(), bytes);
    }
}

/// Takes so many bytes and no more.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told() {
    let span = |at: u64| Span {
        track: 0,
        what: SpanValue::Name(0),
        start_ns: at,
        end_ns: at + 1,
    };
    let timeline = Timeline {
        tracks: vec![Track {
            name: "CPU 0".to_owned(),
            group: None,
            kind: TrackKind::Slices,
        }],
        names: vec!["a".to_owned()],
        spans: (0..1000).map(span).collect(),
        ..Timeline::default()
    };
    let error = write_perfetto_trace(Full(5000), &timeline).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
