//! The drive: parallel units and a link behind a write buffer, in a power state that follows from the idle time.
//!
//! Nothing happens in a drive by an own event. When a request comes, or the run ends, the idle time before tells the
//! power state ([`path::IdlePath`]), and so how long the request waits, and power by time ([`ledger::Ledger`]).
//!
//! Power states and APST follow the NVMe specification, and the table is the kernel's or the user's
//! (`wakepath-policies`). Service times and figures are the machine's `[drive]`.
//!
//! - Setup: [`setup`] compiles a drive model and APST settings, [`stripes`] is RAID0, [`volume`] the drives together.
//! - State: this file, [`path`] and the write [`buffer`].
//! - Totals: [`ledger`], time and energy in each power state; [`result`], a run's figures.

mod buffer;
mod ledger;
mod path;
pub(crate) mod result;
mod setup;
mod stripes;
#[cfg(test)]
mod tests;
pub(crate) mod volume;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use self::buffer::Buffer;
pub(crate) use self::ledger::DriveTotals;
use self::ledger::{Ledger, Place};
pub(crate) use self::setup::DriveSetup;
use self::setup::PowerSetup;
pub(crate) use self::stripes::Piece;
use self::stripes::Stripes;
use crate::core::basics::Direction;

/// A request's demand on a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Demand {
    direction: Direction,
    /// Time in ns for a unit to be busy with the request.
    access: u64,
    /// Further time in ns for data beyond the first 4 KiB.
    transfer: u64,
    /// Link time in ns for that data, at most `transfer`.
    link: u64,
    /// Size in 4 KiB units, rounded up.
    blocks: u64,
    /// The unit to wait for, unless any will do.
    unit: Option<usize>,
}

#[cfg(test)]
impl Demand {
    /// A request of 4 KiB.
    fn small(direction: Direction, access: u64) -> Self {
        Self {
            direction,
            access,
            transfer: 0,
            link: 0,
            blocks: 1,
            unit: None,
        }
    }
}

/// A request's fate in a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Accepted {
    /// Wait for the drive to wake up, in ns.
    wake: u64,
    /// When the request will be finished.
    done: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Drive {
    /// When the unit that took the last request is free.
    last_unit: u64,
    /// When each of the others is free, the earliest first.
    units: BinaryHeap<Reverse<u64>>,
    /// When each unit is free, where reads wait for a certain one; else empty.
    addressed: Vec<u64>,
    /// When the link is free, by direction: PCIe sends and receives at the same time.
    link_free: [u64; 2],
    buffer: Option<Buffer>,
    /// Something has been written since the last flush began, and when the flush ends.
    unflushed: bool,
    flushed_at: u64,
    sleep: Option<Sleep>,
}

/// A drive's power state, for drives with power states.
#[derive(Clone, Debug)]
struct Sleep {
    setup: PowerSetup,
    /// When the drive is awake, if woken by a request, and from which power state.
    awake_at: u64,
    woken_from: usize,
    /// When the drive has nothing left to do: all requests served, the buffer empty.
    idle_from: u64,
    ledger: Ledger,
}

impl Drive {
    pub(crate) fn new(setup: &DriveSetup) -> Self {
        Self {
            last_unit: 0,
            units: (1..setup.units).map(|_| Reverse(0)).collect(),
            addressed: vec![0; if setup.by_address { setup.units } else { 0 }],
            link_free: [0; 2],
            buffer: setup.buffer.map(Buffer::new),
            unflushed: false,
            flushed_at: 0,
            sleep: setup.power.clone().map(|setup| Sleep {
                awake_at: 0,
                woken_from: 0,
                idle_from: 0,
                ledger: Ledger::new(setup.path.states()),
                setup,
            }),
        }
    }

    /// Takes a request: access by a unit, then the transfer over the link, in the order in which
    /// requests came. The unit is busy until the end.
    #[inline(always)]
    fn accept(&mut self, now: u64, demand: Demand) -> Accepted {
        let awake_at = self.sleep.as_mut().map_or(0, |s| s.wake(now));
        let addressed = self.addressed_unit(demand.unit);
        if let Some(unit) = addressed {
            self.last_unit = self.addressed[unit];
        } else if self.last_unit > now {
            // A unit that is free is as good as any other.
            self.take_earliest_unit();
        }
        let mut from = self.last_unit.max(now).max(awake_at);
        if let (Direction::Read, Some(buffer)) = (demand.direction, &mut self.buffer) {
            from += buffer.disturb(from, demand.blocks);
        }
        let mut done = from + demand.access;
        if demand.transfer > 0 {
            // The link is not needed before the last of the data come off the media.
            let from = done + demand.transfer - demand.link;
            let link_free = &mut self.link_free[demand.direction as usize];
            done = from.max(*link_free) + demand.link;
            *link_free = done;
        }
        if demand.direction == Direction::Write {
            self.unflushed = true;
            if let Some(buffer) = &mut self.buffer {
                done = buffer.accept(done, demand.blocks);
            }
        }
        self.last_unit = done;
        if let Some(unit) = addressed {
            self.addressed[unit] = done;
        }
        if let Some(sleep) = &mut self.sleep {
            let empty = self.buffer.as_ref().map_or(0, Buffer::empty_at);
            sleep.idle_from = sleep.idle_from.max(done).max(empty);
        }
        Accepted {
            wake: awake_at.saturating_sub(now),
            done,
        }
    }

    /// Takes a write that is done with the data on the media, `time` ns after the drive has the data.
    #[cold]
    fn write_through(&mut self, now: u64, demand: Demand, time: u64) -> Accepted {
        let unflushed = self.unflushed;
        let Accepted { wake, done } = self.accept(now, demand);
        self.unflushed = unflushed;
        let empty_at = self.buffer.as_ref().map_or(0, Buffer::empty_at);
        let done = done.max(empty_at) + time;
        if let Some(sleep) = &mut self.sleep {
            sleep.idle_from = sleep.idle_from.max(done);
        }
        Accepted { wake, done }
    }

    /// Takes a flush: done `time` ns after the drive is awake and the buffer empty, or with the last flush if nothing
    /// has been written since. Requests go on meanwhile.
    fn flush(&mut self, now: u64, time: u64) -> Accepted {
        let awake_at = self.sleep.as_mut().map_or(0, |s| s.wake(now));
        let mut done = now.max(awake_at);
        if self.unflushed {
            let empty_at = self.buffer.as_ref().map_or(0, Buffer::empty_at);
            done = done.max(empty_at) + time;
            (self.unflushed, self.flushed_at) = (false, done);
        }
        let done = done.max(self.flushed_at);
        if let Some(sleep) = &mut self.sleep {
            sleep.idle_from = sleep.idle_from.max(done);
        }
        Accepted {
            wake: awake_at.saturating_sub(now),
            done,
        }
    }

    /// A request's unit, on drives with addressed units: by address, or else the first free unit.
    #[inline]
    fn addressed_unit(&self, unit: Option<usize>) -> Option<usize> {
        if self.addressed.is_empty() {
            return None;
        }
        unit.or_else(|| (0..self.addressed.len()).min_by_key(|unit| self.addressed[*unit]))
    }

    /// The next request goes to the unit first free.
    fn take_earliest_unit(&mut self) {
        if let Some(mut other) = self.units.peek_mut()
            && other.0 < self.last_unit
        {
            std::mem::swap(&mut other.0, &mut self.last_unit);
        }
    }

    /// The power state at a time up to which all requests have come, and when the state changes next without a further
    /// request. `None` without power states.
    pub(crate) fn power_state(&self, now: u64) -> Option<(usize, Option<u64>)> {
        let sleep = self.sleep.as_ref()?;
        if now < sleep.awake_at && sleep.woken_from > 0 {
            return Some((sleep.woken_from, Some(sleep.awake_at)));
        }
        let gap = now.checked_sub(sleep.idle_from);
        let (state, next) = sleep.setup.path.reached(gap);
        Some((state, next.map(|gap| sleep.idle_from + gap)))
    }

    /// Closes the books at the end of the run. `None` for a drive without power states.
    pub(crate) fn finish(self, end: u64) -> Option<DriveTotals> {
        self.sleep.map(|mut sleep| {
            sleep.account(end);
            DriveTotals {
                at_rest: sleep.setup.path.at_rest(),
                ..sleep.ledger.into_totals()
            }
        })
    }
}

impl Sleep {
    /// A request comes now. Returns when the drive can serve.
    fn wake(&mut self, now: u64) -> u64 {
        if now <= self.idle_from {
            return self.awake_at;
        }
        self.account(now);
        let wake = self.setup.path.wake(now - self.idle_from);
        self.woken_from = wake.state;
        let operational = Place::State(0);
        let (entered, left) = (now + wake.entry_left, now + wake.entry_left + wake.exit);
        self.awake_at = left + wake.rest;
        let power = self.setup.idle;
        self.ledger
            .plan(entered, Place::Transition, wake.entry_power);
        self.ledger
            .plan(left, Place::Transition, self.setup.transition);
        self.ledger.plan(self.awake_at, operational, power);
        if wake.exit > 0 || wake.entry_left > 0 {
            self.ledger.wake_up(self.awake_at - now);
        }
        self.idle_from = self.awake_at;
        self.awake_at
    }

    /// Enters everything up to `until` into the books.
    fn account(&mut self, until: u64) {
        self.ledger.enter_planned(until);
        self.ledger
            .enter(until.min(self.idle_from), Place::Active, self.setup.active);
        let gap = self.ledger.upto().saturating_sub(self.idle_from);
        if until > self.idle_from {
            self.setup
                .path
                .walk(self.idle_from, gap, until, &mut self.ledger);
        }
    }
}
