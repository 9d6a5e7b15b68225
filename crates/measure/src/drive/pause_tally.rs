//! How often others used a drive in pauses, and what to tell the reader of a measurement.

use serde::Serialize;
use wakepath_units::Nanoseconds;

/// Pauses of one length, by whether others used the drive meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PauseTally {
    /// The pause.
    pub gap: Nanoseconds,
    /// Pauses without others' requests, the only ones whose reads count.
    pub undisturbed: u64,
    /// Pauses with others' requests.
    pub disturbed: u64,
    /// Others' requests in disturbed pauses.
    pub requests: u64,
    /// Others' reads among `requests`; the rest wrote, discarded or flushed, or was not finished.
    pub reads: u64,
}

impl PauseTally {
    /// Notes: how many pauses others disturbed, and the length from which on no pause was undisturbed; empty without disturbed pauses.
    pub(super) fn describe(all: &[Self]) -> Vec<String> {
        let disturbed = sum_over_lengths(all, |pauses| pauses.disturbed);
        if disturbed == 0 {
            return Vec::new();
        }
        let requests = sum_over_lengths(all, |pauses| pauses.requests);
        let reads = sum_over_lengths(all, |pauses| pauses.reads);
        let undisturbed = sum_over_lengths(all, |pauses| pauses.undisturbed);
        let total = disturbed.saturating_add(undisturbed);
        let mut notes = vec![format!(
            "others used the drive in {disturbed} of {total} pauses ({requests} requests, {reads} of them reads); the reads after \
             these do not count"
        )];
        let alone = all.iter().filter(|pauses| pauses.undisturbed > 0);
        let longest_alone = alone.map(|pauses| pauses.gap).max();
        let never_left_alone = all.iter().filter(|pauses| Some(pauses.gap) > longest_alone);
        notes.extend(never_left_alone.min_by_key(|pauses| pauses.gap).map(|pauses| {
            format!(
                "the drive is never left alone for {}: {} requests of others in {} pauses. A sleep that begins later is not \
                 seen; end what uses the drive and measure again",
                pauses.gap, pauses.requests, pauses.disturbed
            )
        }));
        notes
    }
}

fn sum_over_lengths(all: &[PauseTally], count: fn(&PauseTally) -> u64) -> u64 {
    all.iter().map(count).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter of the requests reads.
    const fn pauses(ms: u64, undisturbed: u64, disturbed: u64, requests: u64) -> PauseTally {
        PauseTally {
            gap: Nanoseconds::from_millis(ms),
            undisturbed,
            disturbed,
            requests,
            reads: requests / 4,
        }
    }

    #[test]
    fn a_drive_that_is_never_left_alone_is_named_with_the_pause_and_the_requests() {
        let none = [pauses(100, 8, 0, 0), pauses(300, 4, 0, 0)];
        assert!(PauseTally::describe(&none).is_empty());
        let some = [pauses(100, 8, 0, 0), pauses(300, 4, 2, 5)];
        assert_eq!(
            PauseTally::describe(&some),
            [
                "others used the drive in 2 of 14 pauses (5 requests, 1 of them reads); the reads after these do not count"
            ]
        );
        // By chance a pause of 100 ms is undisturbed, and none of 60 ms.
        let always = [
            pauses(1_000, 0, 4, 12),
            pauses(300, 0, 4, 8),
            pauses(100, 1, 7, 9),
            pauses(60, 0, 8, 9),
            pauses(30, 9, 1, 1),
        ];
        let notes = PauseTally::describe(&always);
        let [_, never] = &notes[..] else {
            panic!("{notes:?}")
        };
        assert!(
            never.starts_with(
                "the drive is never left alone for 300.0 ms: 8 requests of others in 4 pauses."
            ),
            "{never}"
        );
    }
}
