//! Timelines: what happened in a run, as tracks of spans. `timeline.parquet` has a few milliseconds, a Perfetto trace
//! the whole run.

use std::collections::BTreeMap;

use crate::rows::TimelineRow;

/// A run's timeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Title.
    pub title: String,
    /// Tracks in the order in which they are displayed.
    pub tracks: Vec<Track>,
    /// Distinct names.
    pub names: Vec<String>,
    /// Spans by start. On a track, an outer span comes before inner spans that begin at the same time.
    pub spans: Vec<Span>,
}

/// A track: a CPU, a clock, a drive, or a request on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Name.
    pub name: String,
    /// The parent track.
    pub group: Option<usize>,
    /// What the track's spans mean.
    pub kind: TrackKind,
}

/// The meaning of a track's spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackKind {
    /// Spans are named activities, and may be nested.
    Slices,
    /// Spans are frequencies in MHz.
    Frequency,
    /// Spans are counts with this unit.
    Count(&'static str),
}

/// A span: a state or activity with start and end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Track index.
    pub track: usize,
    /// Name or value.
    pub what: SpanValue,
    /// Start of the span in ns since the run began.
    pub start_ns: u64,
    /// End of the span in ns since the run began.
    pub end_ns: u64,
}

/// A span's content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SpanValue {
    /// Name index.
    Name(usize),
    /// A value.
    Value(f64),
}

impl TrackKind {
    /// Unit for values.
    pub const fn unit(self) -> Option<&'static str> {
        match self {
            Self::Slices => None,
            Self::Frequency => Some("MHz"),
            Self::Count(unit) => Some(unit),
        }
    }
}

/// The timeline rows that share machine, workload, policy and request.
#[derive(Clone, Copy, Default)]
struct TimelinePart {
    /// Index of the parent track, if the timeline has several parts.
    track: Option<usize>,
    /// Time in ns at which the part's tracks begin.
    start_ns: u64,
}

impl Timeline {
    /// A span's content in words: its name, or its number with the track's unit.
    pub fn describe_span(&self, span: &Span) -> String {
        match span.what {
            SpanValue::Name(index) => self.names.get(index).cloned().unwrap_or_default(),
            SpanValue::Value(value) => {
                let kind = self.tracks.get(span.track).map(|track| track.kind);
                let unit = kind.and_then(TrackKind::unit).unwrap_or_default();
                format!("{value:.0} {unit}")
            }
        }
    }

    /// Makes a timeline from rows of `timeline.parquet`. With several machines, workloads, policies or requests, each has
    /// a parent track, and all begin at 0 for comparison.
    pub fn from_table_rows(title: &str, rows: &[TimelineRow]) -> Self {
        let mut timeline = Self {
            title: title.to_owned(),
            ..Self::default()
        };
        let parts = timeline.add_parent_tracks_if_several(rows);
        let mut tracks: BTreeMap<([&str; 4], &str), usize> = BTreeMap::new();
        let mut names: BTreeMap<&str, usize> = BTreeMap::new();
        for row in rows {
            let key = part_key_from_row(row);
            let part = parts.get(&key).copied().unwrap_or_default();
            let number = row.name.strip_suffix(" MHz");
            let mhz: Option<f64> = number.and_then(|number| number.parse().ok());
            let track = *tracks.entry((key, &row.track)).or_insert_with(|| {
                timeline.tracks.push(Track {
                    name: row.track.clone(),
                    group: part.track,
                    kind: mhz.map_or(TrackKind::Slices, |_| TrackKind::Frequency),
                });
                timeline.tracks.len() - 1
            });
            let what = match (timeline.tracks[track].kind, mhz) {
                (TrackKind::Frequency, Some(mhz)) => SpanValue::Value(mhz),
                (TrackKind::Frequency, None) => continue,
                _ => SpanValue::Name(*names.entry(&row.name).or_insert_with(|| {
                    timeline.names.push(row.name.clone());
                    timeline.names.len() - 1
                })),
            };
            timeline.spans.push(Span {
                track,
                what,
                start_ns: row.start_ns - part.start_ns,
                end_ns: row.end_ns.max(row.start_ns) - part.start_ns,
            });
        }
        timeline.spans.sort_by_key(|span| span.start_ns);
        timeline
    }

    /// Adds a parent track for each part (machine, workload, policy, request), if there are several. A single part
    /// keeps its own time.
    fn add_parent_tracks_if_several<'a>(
        &mut self,
        rows: &'a [TimelineRow],
    ) -> BTreeMap<[&'a str; 4], TimelinePart> {
        let mut parts: BTreeMap<[&str; 4], TimelinePart> = BTreeMap::new();
        for row in rows {
            let part = parts.entry(part_key_from_row(row)).or_insert(TimelinePart {
                track: None,
                start_ns: u64::MAX,
            });
            part.start_ns = row.start_ns.min(part.start_ns);
        }
        if parts.len() < 2 {
            return parts
                .into_keys()
                .map(|key| (key, TimelinePart::default()))
                .collect();
        }
        let same_machine = rows
            .windows(2)
            .all(|pair| pair[0].machine == pair[1].machine);
        let shown_from = usize::from(same_machine);
        for (key, part) in &mut parts {
            part.track = Some(self.tracks.len());
            self.tracks.push(Track {
                name: key[shown_from..].join(", "),
                group: None,
                kind: TrackKind::Slices,
            });
        }
        parts
    }

    /// Spans without overlaps, by track and time: an outer span is cut where its first inner span begins. Tracks of
    /// counts are left out.
    pub fn cut_spans_at_inner_starts(&self) -> Vec<Span> {
        let mut next_start = vec![u64::MAX; self.tracks.len()];
        let mut spans: Vec<Span> = Vec::with_capacity(self.spans.len());
        for span in self.spans.iter().rev() {
            let (Some(track), Some(next)) =
                (self.tracks.get(span.track), next_start.get_mut(span.track))
            else {
                continue;
            };
            let end_ns = span.end_ns.min(*next);
            *next = span.start_ns;
            if end_ns > span.start_ns && !matches!(track.kind, TrackKind::Count(_)) {
                spans.push(Span { end_ns, ..*span });
            }
        }
        spans.sort_by_key(|span| (span.track, span.start_ns));
        spans
    }
}

/// The part that a row belongs to: machine, workload, policy and request.
fn part_key_from_row(row: &TimelineRow) -> [&str; 4] {
    [&row.machine, &row.workload, &row.policy, &row.at]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(kind: TrackKind) -> Track {
        Track {
            name: "t".to_owned(),
            group: None,
            kind,
        }
    }

    fn span(track: usize, name: usize, start_ns: u64, end_ns: u64) -> Span {
        Span {
            track,
            what: SpanValue::Name(name),
            start_ns,
            end_ns,
        }
    }

    #[test]
    fn rows_are_a_timeline_again() {
        let row = |policy: &str, track: &str, name: &str, start_ns, end_ns| TimelineRow {
            machine: "m".to_owned(),
            workload: "w".to_owned(),
            policy: policy.to_owned(),
            at: "p99".to_owned(),
            track: track.to_owned(),
            name: name.to_owned(),
            start_ns,
            end_ns,
        };
        let one = [
            row("menu", "CPU 0", "C6", 100, 190),
            row("menu", "CPU 0", "idle exit", 190, 200),
            row("menu", "frequency of cluster big", "1800 MHz", 100, 200),
        ];
        let timeline = Timeline::from_table_rows("m", &one);
        let names: Vec<&str> = timeline.tracks.iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["CPU 0", "frequency of cluster big"]);
        assert_eq!(timeline.tracks[1].kind, TrackKind::Frequency);
        let spans = timeline.cut_spans_at_inner_starts();
        let says: Vec<String> = spans
            .iter()
            .map(|span| timeline.describe_span(span))
            .collect();
        assert_eq!(says, ["C6", "idle exit", "1800 MHz"]);
        assert_eq!(timeline.spans[0].start_ns, 100);
        // Two parts begin together, each under a parent track.
        let mut two = one.to_vec();
        two.push(row("teo", "CPU 0", "C1", 7_000, 7_500));
        let timeline = Timeline::from_table_rows("m", &two);
        let groups: Vec<_> = timeline
            .tracks
            .iter()
            .map(|t| (&*t.name, t.group))
            .collect();
        assert_eq!(
            groups,
            [
                ("w, menu, p99", None),
                ("w, teo, p99", None),
                ("CPU 0", Some(0)),
                ("frequency of cluster big", Some(0)),
                ("CPU 0", Some(1))
            ]
        );
        let starts = timeline.spans.iter().map(|s| s.start_ns);
        assert_eq!(starts.collect::<Vec<_>>(), [0, 0, 0, 90]);
        assert_eq!(Timeline::from_table_rows("m", &[]).tracks, []);
    }

    #[test]
    fn an_outer_span_lasts_until_the_first_in_it() {
        let timeline = Timeline {
            tracks: [
                TrackKind::Slices,
                TrackKind::Count("tasks"),
                TrackKind::Slices,
            ]
            .map(track)
            .to_vec(),
            // An idle period that ends with the way out, and a request with its parts.
            spans: vec![
                span(0, 0, 0, 100),
                span(2, 1, 10, 60),
                span(2, 2, 10, 40),
                span(1, 0, 20, 30),
                span(2, 3, 40, 60),
                span(0, 4, 90, 100),
                span(0, 5, 100, 100),
            ],
            ..Timeline::default()
        };
        assert_eq!(
            timeline.cut_spans_at_inner_starts(),
            [
                span(0, 0, 0, 90),
                span(0, 4, 90, 100),
                span(2, 2, 10, 40),
                span(2, 3, 40, 60)
            ]
        );
    }
}
