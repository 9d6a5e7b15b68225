//! Mean latency through a run, which shows whether the run had settled.

use serde::Serialize;

use crate::core::basics::NEVER;

/// Number of batches of equal time that a run is divided into, half of them in each half.
const BATCHES: usize = 16;

/// Quantile of Student's distribution with `BATCHES - 2` degrees of freedom, at 99 %.
const QUANTILE: f64 = 2.977;

/// How mean latency changed within a run: second half against first, in percent of the first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Drift {
    /// Change of the mean latency from the first half to the second, in percent.
    pub percent: f64,
    /// Half the width of the change's 99 % confidence interval, from the spread between neighbouring sixteenths of the run.
    pub interval_percent: f64,
}

impl Drift {
    /// Whether the drift is more than chance, and more than 2 percent.
    pub fn is_significant(&self) -> bool {
        self.percent.abs() > self.interval_percent.max(2.0)
    }
}

/// Requests and the sum of their latencies, by time.
#[derive(Debug)]
pub(crate) struct Batches {
    length: u64,
    /// Time in ns when the present batch ends; never without batches.
    ends: u64,
    sums: Vec<(u64, u128)>,
}

impl Default for Batches {
    fn default() -> Self {
        Self {
            length: 0,
            ends: NEVER,
            sums: Vec::new(),
        }
    }
}

impl Batches {
    /// Divides the time between `begin` and `end`, in ns, into equal batches.
    pub(crate) fn between(begin: u64, end: u64) -> Self {
        let length = end.saturating_sub(begin) / BATCHES as u64;
        if length == 0 {
            return Self::default();
        }
        Self {
            length,
            ends: begin.saturating_add(length),
            sums: vec![(0, 0)],
        }
    }

    /// Adds a request that ended at `now`, with its latency in ns, to the present batch.
    #[inline(always)]
    pub(crate) fn add_request(&mut self, now: u64, latency: u64) {
        if now >= self.ends {
            self.begin_batch_at(now);
        }
        if let Some((requests, sum)) = self.sums.last_mut() {
            *requests += 1;
            *sum += u128::from(latency);
        }
    }

    #[cold]
    fn begin_batch_at(&mut self, now: u64) {
        while now >= self.ends && self.sums.len() < BATCHES {
            self.sums.push((0, 0));
            self.ends = self.ends.saturating_add(self.length);
        }
        if self.sums.len() == BATCHES {
            self.ends = NEVER;
        }
    }

    /// Change of mean latency from the run's first half to its second; `None` if a batch has no request.
    pub(crate) fn latency_drift(&self) -> Option<Drift> {
        let means = self
            .sums
            .iter()
            .map(|(requests, sum)| (*requests > 0).then(|| *sum as f64 / *requests as f64));
        let means: Vec<f64> = means.collect::<Option<_>>()?;
        let (first, second) = means.split_at_checked(BATCHES / 2)?;
        if second.len() != first.len() {
            return None;
        }
        let each = first.len() as f64;
        let [before, after] = [first, second].map(|half| half.iter().sum::<f64>() / each);
        // The spread from one batch to the next: a trend, which is the question, does not widen this spread.
        let steps = means.windows(2).map(|pair| (pair[1] - pair[0]).powi(2));
        let of_a_batch = steps.sum::<f64>() / (2.0 * (means.len() - 1) as f64);
        let variance = 2.0 * of_a_batch / each;
        (before > 0.0).then(|| Drift {
            percent: 100.0 * (after - before) / before,
            interval_percent: 100.0 * QUANTILE * variance.sqrt() / before,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drift(latency: impl Fn(u64) -> u64) -> Option<Drift> {
        let mut batches = Batches::between(1_000, 161_000);
        for now in (1_000..161_000).step_by(100) {
            batches.add_request(now, latency(now));
        }
        batches.latency_drift()
    }

    #[test]
    fn the_second_half_is_set_against_the_first() {
        let noise = |now: u64| (now / 100 * 7919) % 100;
        let steady = drift(|now| 1_000 + noise(now)).unwrap();
        assert!(
            steady.percent.abs() <= steady.interval_percent,
            "{steady:?}"
        );
        let settles = drift(|now| 1_000 + noise(now) + 161_000 / now.isqrt()).unwrap();
        assert!(settles.percent < -settles.interval_percent, "{settles:?}");
    }

    #[test]
    fn nothing_is_said_of_too_few_requests_or_no_time() {
        assert_eq!(Batches::default().latency_drift(), None);
        let mut few = Batches::between(0, 160);
        few.add_request(3, 1);
        few.add_request(159, 1);
        assert_eq!(few.latency_drift(), None);
        assert_eq!(Batches::between(5, 10).latency_drift(), None);
    }
}
