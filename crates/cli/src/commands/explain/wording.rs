//! Words for kinds of requests and their times, as answers use them.

use wakepath_explain::RequestKind;
use wakepath_units::printable::escape_for_one_line;

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
pub(super) fn name_of_remaining_time(kind: &RequestKind) -> String {
    let Some(reference) = kind.split.reference else {
        // A CPU that runs or spins has no exit.
        let name = match kind.rest_ns {
            Some(_) => "drive",
            None => "drive and idle exits",
        };
        return name.to_owned();
    };
    let unknown = kind.has_unknown_exits();
    let has_no_exit = kind.polling.contains(&reference) || kind.measured.contains_key(&reference);
    match (has_no_exit, kind.state_name(reference), unknown) {
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
    let name = format!(
        "{} of {}, {}{}",
        direction_in_words(kind),
        kind.device,
        size_in_words(kind.bytes),
        submitter.map_or_else(String::new, |name| format!(", by {name}"))
    );
    // Devices and submitters are strangers' text, which also goes into results and pages.
    escape_for_one_line(&name).into_owned()
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

/// A count with its noun, which takes an s in the plural.
pub(super) fn count_in_words(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// An interval in us, as it follows its mean: ` [1.0, 2.0]`.
pub(super) fn interval_in_words(ends_ns: [f64; 2]) -> String {
    let [low, high] = ends_ns.map(format_us);
    format!(" [{low}, {high}]")
}

/// What the interrupts of the slowest requests found, most of them first: `C6 in 9 of 10, C1E in 1 of 10`.
pub(super) fn slowest_requests_in_words(kind: &RequestKind) -> String {
    let slowest = &kind.slowest;
    let met = slowest.met.iter();
    let states = met.map(|(state, count)| (kind.state_name(*state), *count));
    let others = [
        ("a CPU awake", slowest.awake),
        ("a CPU already leaving a state", slowest.leaving),
        ("another request first", slowest.behind),
        ("not known", slowest.unknown),
    ];
    let named = others.map(|(name, count)| (name.to_owned(), count));
    let mut all: Vec<(String, u64)> = states.chain(named).collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let terms = all.iter().filter_map(|(name, count)| {
        Some(format!(
            "{name} {}",
            share_in_words(*count, slowest.requests)?
        ))
    });
    terms.collect::<Vec<_>>().join(", ")
}

/// A share in tenths, or as it is of fewer than ten; `None` below half a tenth.
fn share_in_words(count: u64, whole: u64) -> Option<String> {
    if count == whole {
        return (whole > 0).then(|| "in all".to_owned());
    }
    if whole < 10 {
        return (count > 0).then(|| format!("in {count} of {whole}"));
    }
    match (10 * count + whole / 2) / whole {
        0 => None,
        10 => Some("in nearly all".to_owned()),
        tenths => Some(format!("in {tenths} of 10")),
    }
}

pub(super) fn format_us(ns: f64) -> String {
    format!("{:.1}", ns / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_tenths_that_promise_nothing() {
        for (count, whole, words) in [
            (0, 0, None),
            (4, 4, Some("in all")),
            (3, 4, Some("in 3 of 4")),
            (0, 4, None),
            (90, 100, Some("in 9 of 10")),
            (96, 100, Some("in nearly all")),
            (100, 100, Some("in all")),
            (4, 100, None),
            (5, 100, Some("in 1 of 10")),
        ] {
            assert_eq!(
                share_in_words(count, whole).as_deref(),
                words,
                "{count} of {whole}"
            );
        }
    }
}
