//! What happened in a run, moment by moment: tracks of spans. `timeline.parquet` has stretches of it, a Perfetto trace
//! all of it.

/// The timeline of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Of what.
    pub title: String,
    /// In the order in which they are shown.
    pub tracks: Vec<Track>,
    /// Names of what happens, each once.
    pub names: Vec<String>,
    /// In the order in which they begin. Of spans of a track that begin together, an outer one comes first.
    pub spans: Vec<Span>,
}

/// A CPU, a clock, a drive, a request on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Its name.
    pub name: String,
    /// The track under which it is shown.
    pub group: Option<usize>,
    /// What its spans say.
    pub kind: TrackKind,
}

/// What the spans of a track say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrackKind {
    /// What happens, by name. Spans may lie within others.
    Slices,
    /// A frequency in MHz.
    Frequency,
    /// How many there are of this.
    Count(&'static str),
}

/// Something that lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Index of its track.
    pub track: usize,
    /// What happens.
    pub what: What,
    /// Its start in ns since the start of the run.
    pub start_ns: u64,
    /// Its end in ns since the start of the run.
    pub end_ns: u64,
}

/// What a span says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// Index of a name.
    Name(usize),
    /// A value.
    Value(f64),
}

impl TrackKind {
    /// The unit of its values.
    pub const fn unit(self) -> Option<&'static str> {
        match self {
            Self::Slices => None,
            Self::Frequency => Some("MHz"),
            Self::Count(unit) => Some(unit),
        }
    }
}

impl Timeline {
    /// What a span says, in words.
    pub fn says(&self, span: &Span) -> String {
        match span.what {
            What::Name(index) => self.names.get(index).cloned().unwrap_or_default(),
            What::Value(value) => {
                let kind = self.tracks.get(span.track).map(|track| track.kind);
                let unit = kind.and_then(TrackKind::unit).unwrap_or_default();
                format!("{value:.0} {unit}")
            }
        }
    }

    /// The spans without overlaps, by track and time: an outer span lasts until the first one in it begins. What is
    /// counted is left out.
    pub fn flat(&self) -> Vec<Span> {
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
            what: What::Name(name),
            start_ns,
            end_ns,
        }
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
            // A stay that ends with the way out, and a request with its parts.
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
            timeline.flat(),
            [
                span(0, 0, 0, 90),
                span(0, 4, 90, 100),
                span(2, 2, 10, 40),
                span(2, 3, 40, 60)
            ]
        );
    }
}
