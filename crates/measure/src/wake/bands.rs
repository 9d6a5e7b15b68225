//! Wake-ups by the length of the pause before: a host, a package or a cache that goes deeper in long pauses shows there.

use serde::Serialize;
use wakepath_units::Nanoseconds;

use crate::summary::LatencySummary;

/// Bands of pauses, of equal numbers of samples.
const BANDS: usize = 4;
/// Fewest samples in a band.
const FEWEST: usize = 10;
/// The last band is slower than the first by this factor and by so much, where a note tells so.
pub(super) const GROWS: f64 = 1.3;
pub(super) const LEAST_GROWTH_NS: f64 = 2_000.0;

/// A wake-up that counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct WakeSample {
    /// The pause before.
    pub(super) gap: Nanoseconds,
    /// From the cause to the woken thread.
    pub(super) latency_ns: u64,
}

/// Wake-ups after pauses of similar length.
#[derive(Clone, Debug, Serialize)]
pub struct GapBand {
    /// Shortest pause.
    pub shortest: Nanoseconds,
    /// Longest pause.
    pub longest: Nanoseconds,
    /// The wake-ups.
    pub latency: LatencySummary,
}

/// Wake-ups in bands of pauses, shortest first; empty with too few samples for two bands.
pub(super) fn split_by_gap(samples: &[WakeSample]) -> Vec<GapBand> {
    let mut sorted = samples.to_vec();
    sorted.sort_by_key(|sample| sample.gap);
    let bands = (sorted.len() / FEWEST).min(BANDS);
    if bands < 2 {
        return Vec::new();
    }
    let split = (0..bands).filter_map(|band| {
        let range = band * sorted.len() / bands..(band + 1) * sorted.len() / bands;
        let part = &sorted[range];
        let latencies: Vec<u64> = part.iter().map(|sample| sample.latency_ns).collect();
        Some(GapBand {
            shortest: part.first()?.gap,
            longest: part.last()?.gap,
            latency: LatencySummary::new(&latencies)?,
        })
    });
    split.collect()
}

/// A sentence about wake-ups that become clearly slower with the pause; `who` names state and cause.
pub(super) fn describe_growth(who: &str, bands: &[GapBand]) -> Option<String> {
    let (first, last) = (bands.first()?, bands.last()?);
    let [short, long] = [first, last].map(|band| band.latency.median);
    let grows = long.ns > (short.ns * GROWS).max(short.ns + LEAST_GROWTH_NS);
    (grows && long.low > short.high).then(|| {
        format!(
            "{who}: {:.1} us after pauses of up to {}, {:.1} us after pauses from {} on, so something sleeps deeper in long ones",
            short.ns / 1e3,
            first.longest,
            long.ns / 1e3,
            last.shortest
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(latency: impl Fn(u64) -> u64) -> Vec<WakeSample> {
        // Not in the order of pauses.
        let gaps = (0..80_u64).map(|i| 30_000 + (i * 37 % 80) * 100_000);
        gaps.map(|gap| WakeSample {
            gap: Nanoseconds(gap),
            latency_ns: latency(gap),
        })
        .collect()
    }

    #[test]
    fn bands_have_equal_numbers_of_samples_in_the_order_of_pauses() {
        let bands = split_by_gap(&samples(|gap| gap));
        assert_eq!(bands.len(), BANDS);
        assert!(bands.iter().all(|band| band.latency.n == 20));
        for pair in bands.windows(2) {
            assert!(pair[0].longest < pair[1].shortest);
            assert!(pair[0].latency.max < pair[1].latency.min);
        }
        assert!(split_by_gap(&samples(|gap| gap)[..19]).is_empty());
    }

    #[test]
    fn only_wake_ups_that_grow_with_the_pause_are_told() {
        let growing = split_by_gap(&samples(|gap| 5_000 + gap / 500));
        let constant = split_by_gap(&samples(|gap| 5_000 + gap % 7 * 10));
        let told = describe_growth("C1 woken by task", &growing).unwrap();
        assert!(told.starts_with("C1 woken by task: 6.9 us"), "{told}");
        assert_eq!(describe_growth("C1 woken by task", &constant), None);
    }
}
