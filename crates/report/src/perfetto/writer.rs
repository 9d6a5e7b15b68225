//! Tracks, slices and counters of a trace, packet by packet.

use std::collections::BTreeMap;
use std::io::{self, Write};

use prost::Message;

use super::proto::{
    ChildTracksOrdering, CounterDescriptor, EventName, EventType, INCREMENTAL_STATE_CLEARED,
    InternedData, NEEDS_INCREMENTAL_STATE, ProcessDescriptor, Trace, TracePacket, TrackDescriptor,
    TrackEvent,
};

/// The only sequence of packets in a timeline.
const SEQUENCE: u32 = 1;

/// A track of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Track(u64);

/// Writes a trace to `out`. The first error that `out` gives is kept, and nothing is written after
/// it; its own memory grows with tracks and names, not with time.
pub(super) struct TraceWriter<W> {
    out: W,
    failed: Option<io::Error>,
    /// Used again for every packet.
    buffer: Vec<u8>,
    tracks: u64,
    /// Numbers of the names already in the trace.
    names: BTreeMap<String, u64>,
    begun: bool,
}

impl<W: Write> TraceWriter<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            failed: None,
            buffer: Vec::new(),
            tracks: 0,
            names: BTreeMap::new(),
            begun: false,
        }
    }

    /// Flushes what is left. Returns the first error of the whole trace.
    pub(super) fn finish_trace(mut self) -> io::Result<W> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.out.flush()?;
        Ok(self.out)
    }

    /// Adds a process, under which tracks are shown in the order in which they are added.
    pub(super) fn add_process_track(&mut self, pid: i32, name: &str) -> Track {
        self.write_track_descriptor(TrackDescriptor {
            process: Some(ProcessDescriptor {
                pid: Some(pid),
                process_name: Some(name.to_owned()),
            }),
            ..TrackDescriptor::default()
        })
    }

    /// Adds a track of slices.
    pub(super) fn add_slice_track(&mut self, parent: Track, name: &str) -> Track {
        self.write_track_descriptor(TrackDescriptor {
            parent_uuid: Some(parent.0),
            name: Some(name.to_owned()),
            ..TrackDescriptor::default()
        })
    }

    /// Adds a track of a value that changes.
    pub(super) fn add_counter_track(&mut self, parent: Track, name: &str, unit: &str) -> Track {
        self.write_track_descriptor(TrackDescriptor {
            parent_uuid: Some(parent.0),
            name: Some(name.to_owned()),
            counter: Some(CounterDescriptor {
                unit_name: Some(unit.to_owned()),
            }),
            ..TrackDescriptor::default()
        })
    }

    fn write_track_descriptor(&mut self, mut descriptor: TrackDescriptor) -> Track {
        self.tracks += 1;
        let track = Track(self.tracks);
        descriptor.uuid = Some(track.0);
        descriptor.child_ordering = Some(ChildTracksOrdering::Explicit.into());
        descriptor.sibling_order_rank = Some(i32::try_from(self.tracks).unwrap_or(i32::MAX));
        self.write_packet(TracePacket {
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        });
        track
    }

    /// Begins a slice inside the one that is open on the track, if any.
    pub(super) fn begin_span(&mut self, now: u64, track: Track, name: &str) {
        let (iid, interned_data) = match self.names.get(name) {
            Some(iid) => (*iid, None),
            None => self.intern_name(name),
        };
        self.write_packet(TracePacket {
            timestamp: Some(now),
            track_event: Some(TrackEvent {
                r#type: Some(EventType::SliceBegin.into()),
                track_uuid: Some(track.0),
                name_iid: Some(iid),
                ..TrackEvent::default()
            }),
            interned_data,
            ..TracePacket::default()
        });
    }

    fn intern_name(&mut self, name: &str) -> (u64, Option<InternedData>) {
        let iid = self.names.len() as u64 + 1;
        self.names.insert(name.to_owned(), iid);
        let new = EventName {
            iid: Some(iid),
            name: Some(name.to_owned()),
        };
        let data = InternedData {
            event_names: vec![new],
        };
        (iid, Some(data))
    }

    /// Ends the innermost slice of the track.
    pub(super) fn end_span(&mut self, now: u64, track: Track) {
        self.write_event(now, track, EventType::SliceEnd, None);
    }

    /// Sets the value of a counter.
    pub(super) fn write_counter_value(&mut self, now: u64, track: Track, value: f64) {
        self.write_event(now, track, EventType::Counter, Some(value));
    }

    fn write_event(&mut self, now: u64, track: Track, kind: EventType, value: Option<f64>) {
        self.write_packet(TracePacket {
            timestamp: Some(now),
            track_event: Some(TrackEvent {
                r#type: Some(kind.into()),
                track_uuid: Some(track.0),
                double_counter_value: value,
                ..TrackEvent::default()
            }),
            ..TracePacket::default()
        });
    }

    fn write_packet(&mut self, mut packet: TracePacket) {
        if self.failed.is_some() {
            return;
        }
        packet.trusted_packet_sequence_id = Some(SEQUENCE);
        packet.sequence_flags = Some(if self.begun {
            NEEDS_INCREMENTAL_STATE
        } else {
            INCREMENTAL_STATE_CLEARED
        });
        self.begun = true;
        self.buffer.clear();
        let trace = Trace {
            packet: vec![packet],
        };
        let written = trace
            .encode(&mut self.buffer)
            .map_err(io::Error::other)
            .and_then(|()| self.out.write_all(&self.buffer));
        self.failed = written.err();
    }
}
