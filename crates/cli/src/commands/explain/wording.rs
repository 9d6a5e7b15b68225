//! Words for kinds of requests and their times, as answers use them.

use wakepath_explain::RequestKind;

/// Kinds with a smaller share of all requests' time are in the tables only.
const LEAST_SHARE: f64 = 0.02;

/// Number of kinds that have sentences; kinds are sorted, those with most time first.
pub(super) fn count_kinds_with_sentences(kinds: &[RequestKind]) -> usize {
    let all: f64 = kinds.iter().map(RequestKind::total_latency_ns).sum();
    let said = kinds
        .iter()
        .take_while(|kind| kind.total_latency_ns() >= LEAST_SHARE * all);
    said.count()
}

/// Name for the time that is left after the known exits are charged.
pub(super) fn name_of_remaining_time(kind: &RequestKind, reference: u8) -> String {
    let unknown = kind.has_unknown_exits();
    let polls = kind.polling.contains(&reference);
    match (polls, kind.state_name(reference), unknown) {
        (true, _, false) => "drive".to_owned(),
        (true, _, true) => "drive and unknown exits".to_owned(),
        (false, name, false) => format!("drive and {name}"),
        (false, name, true) => format!("drive, {name} and unknown exits"),
    }
}

pub(super) const fn direction_in_words(kind: &RequestKind) -> &'static str {
    match (kind.write, kind.background) {
        (false, false) if kind.bytes == 0 => "flushes",
        (false, false) => "reads",
        (true, false) => "writes",
        (false, true) => "readahead",
        (true, true) => "write-back",
    }
}

/// A kind of requests in words: direction, device, size, and the submitter where kinds are told apart by submitter.
pub(super) fn name_of_kind(kind: &RequestKind) -> String {
    let submitter = kind.submitter.as_ref();
    format!(
        "{} of {}, {}{}",
        direction_in_words(kind),
        kind.device,
        size_in_words(kind.bytes),
        submitter.map_or_else(String::new, |name| format!(", by {name}"))
    )
}

/// A size class in words: sizes from `bytes` on, below twice `bytes`.
pub(super) fn size_in_words(bytes: u32) -> String {
    match bytes {
        0 => "no data".to_owned(),
        1..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

pub(super) fn format_us(ns: f64) -> String {
    format!("{:.1}", ns / 1000.0)
}
