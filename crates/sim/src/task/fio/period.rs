//! A job's rate in one direction, without rounding.

use wakepath_workloads::fio::Rate;

/// A rate as a share: `requests` of them, or so many bytes where block sizes vary, take `ns`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    ns: u128,
    requests: u128,
}

impl Period {
    /// The period that a rate in one direction means, with the smallest block `block`; block sizes `vary` or not.
    pub(super) fn new(rate: Option<Rate>, block: u64, vary: bool) -> Self {
        match rate {
            Some(Rate::Bytes(bytes)) => Self {
                ns: u128::from(if vary { 1 } else { block }) * 1_000_000_000,
                requests: u128::from(bytes),
            },
            Some(Rate::Ios(ios)) => Self {
                ns: 1_000_000_000,
                requests: u128::from(ios) * u128::from(if vary { block } else { 1 }),
            },
            // Without a rate, a direction has no limit.
            None => Self { ns: 0, requests: 1 },
        }
    }

    /// Whether there is a limit at all.
    pub(super) fn has_limit(self) -> bool {
        self.ns > 0
    }

    /// The mean distance between I/Os with this many units in us, as whole numbers as in fio (`usec_for_io()`).
    pub(crate) fn mean_distance_in_us(self, units: u64) -> u64 {
        let per_second = self.requests * 1_000_000_000 / (self.ns * u128::from(units)).max(1);
        match per_second {
            _ if self.ns == 0 => 0,
            // For rates below one a second, fio 3.33 divides by zero.
            0 => (self.ns * u128::from(units) / self.requests / 1000) as u64,
            rate => (1_000_000 / rate) as u64,
        }
    }

    /// Earliest begin of the request with this number, in ns from the process's start.
    pub(crate) fn earliest_start_of_request(self, request: u64) -> u64 {
        (u128::from(request) * self.ns / self.requests) as u64
    }

    /// How many requests, or bytes where block sizes vary, the rate asks for in so many ns; 0 without a limit.
    pub(crate) fn amount_asked_in(self, ns: u64) -> f64 {
        if self.ns == 0 {
            return 0.0;
        }
        self.requests as f64 / self.ns as f64 * ns as f64
    }
}
