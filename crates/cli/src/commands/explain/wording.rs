//! How answers call kinds of requests, and write their times.

use wakepath_explain::RequestKind;

/// Kinds with less than this share of the time of all requests are in the tables only.
const LEAST_SHARE: f64 = 0.02;

/// How many kinds have sentences; those with most time are first.
pub(super) fn count_kinds_to_say(kinds: &[RequestKind]) -> usize {
    let all: f64 = kinds.iter().map(RequestKind::total_latency_ns).sum();
    let said = kinds
        .iter()
        .take_while(|kind| kind.total_latency_ns() >= LEAST_SHARE * all);
    said.count()
}

/// What is left when the known exits are charged.
pub(super) fn rest_name(kind: &RequestKind, reference: u8) -> String {
    let unknown = kind.has_unknown_exits();
    let polls = kind.polling.contains(&reference);
    match (polls, kind.state_name(reference), unknown) {
        (true, _, false) => "drive".to_owned(),
        (true, _, true) => "drive and unknown exits".to_owned(),
        (false, name, false) => format!("drive and {name}"),
        (false, name, true) => format!("drive, {name} and unknown exits"),
    }
}

pub(super) const fn direction(kind: &RequestKind) -> &'static str {
    match (kind.write, kind.background) {
        (false, false) if kind.bytes == 0 => "flushes",
        (false, false) => "reads",
        (true, false) => "writes",
        (false, true) => "readahead",
        (true, true) => "write-back",
    }
}

/// Direction, device, size, and the submitter where kinds are told apart by submitter.
pub(super) fn kind_name(kind: &RequestKind) -> String {
    let submitter = kind.submitter.as_ref();
    format!(
        "{} of {}, {}{}",
        direction(kind),
        kind.device,
        size(kind.bytes),
        submitter.map_or_else(String::new, |name| format!(", by {name}"))
    )
}

/// The class of a size: from this one on, below twice that.
pub(super) fn size(bytes: u32) -> String {
    match bytes {
        0 => "no data".to_owned(),
        1..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

pub(super) fn us(ns: f64) -> String {
    format!("{:.1}", ns / 1000.0)
}
