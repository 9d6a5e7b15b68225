//! The drive: parallel units that serve requests one after the other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

#[derive(Debug)]
pub(crate) struct Drive {
    /// When each unit is free, the earliest first.
    units: BinaryHeap<Reverse<u64>>,
}

impl Drive {
    pub(crate) fn new(units: usize) -> Self {
        Self {
            units: (0..units.max(1)).map(|_| Reverse(0)).collect(),
        }
    }

    /// Takes a request that needs `service` ns of a unit. Returns when it will be finished.
    pub(crate) fn accept(&mut self, now: u64, service: u64) -> u64 {
        let free = self.units.pop().map_or(0, |Reverse(at)| at);
        let done = free.max(now) + service;
        self.units.push(Reverse(done));
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_units_wait_for_the_first_free_one() {
        let mut drive = Drive::new(2);
        assert_eq!(drive.accept(0, 100), 100);
        assert_eq!(drive.accept(10, 50), 60);
        assert_eq!(drive.accept(10, 50), 110);
        assert_eq!(drive.accept(500, 5), 505);
    }
}
