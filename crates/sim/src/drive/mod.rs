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
//! - [`recorded`] puts a drive through recorded I/O, without an engine.
//! - Totals: [`ledger`], time and energy in each power state; [`result`], a run's figures.

mod buffer;
mod ledger;
mod path;
pub(crate) mod recorded;
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
    /// Time in ns that a parallel unit needs to access the request's data.
    access: u64,
    /// Further time in ns to transfer the data beyond the first 4 KiB.
    transfer: u64,
    /// Time in ns that the link is busy with the data beyond 4 KiB, at most `transfer`.
    link: u64,
    /// The request's size in units of 4 KiB, rounded up.
    blocks: u64,
    /// The parallel unit that the request has to wait for; `None` if any will do.
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

/// When a drive will serve an accepted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Accepted {
    /// How long the request waits for the drive to wake up, in ns.
    wake: u64,
    /// Time in ns when the drive will have finished the request.
    done: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Drive {
    /// Time in ns when the unit that took the last request is free.
    last_unit: u64,
    /// Times in ns when each of the other units is free, the earliest first.
    units: BinaryHeap<Reverse<u64>>,
    /// Times in ns when each unit is free, on drives where reads wait for the addressed unit; empty on others.
    addressed: Vec<u64>,
    /// Times in ns when the link is free, by direction: PCIe sends and receives at the same time.
    link_free: [u64; 2],
    buffer: Option<Buffer>,
    /// Whether something has been written since the last flush began, and when that flush ends.
    unflushed: bool,
    flushed_at: u64,
    sleep: Option<Sleep>,
}

/// State of a drive with power states: wake-up, idle time, and books.
#[derive(Clone, Debug)]
struct Sleep {
    setup: PowerSetup,
    /// Time in ns when the drive is awake after the last wake-up, and the power state that it left.
    awake_at: u64,
    woken_from: usize,
    /// Time in ns when the drive goes idle: all requests served, the buffer empty.
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
            sleep: setup.power.clone().map(Sleep::new),
        }
    }

    /// Accepts a request: access by a unit, then the transfer over the link, in the order in which
    /// requests came. The unit is busy until the end.
    #[inline(always)]
    fn accept_request(&mut self, now: u64, demand: Demand) -> Accepted {
        let awake_at = self.sleep.as_mut().map_or(0, |s| s.wake_for_request(now));
        let addressed = self.choose_addressed_unit(demand.unit);
        if let Some(unit) = addressed {
            self.last_unit = self.addressed[unit];
        } else if self.last_unit > now {
            // A free unit is as good as any other free unit.
            self.swap_in_earliest_free_unit();
        }
        let mut from = self.last_unit.max(now).max(awake_at);
        if let (Direction::Read, Some(buffer)) = (demand.direction, &mut self.buffer) {
            from += buffer.delay_read(from, demand.blocks);
        }
        let mut done = from + demand.access;
        if demand.transfer > 0 {
            // The link is needed only for the last of the data that come off the media.
            let from = done + demand.transfer - demand.link;
            let link_free = &mut self.link_free[demand.direction as usize];
            done = from.max(*link_free) + demand.link;
            *link_free = done;
        }
        if demand.direction == Direction::Write {
            self.unflushed = true;
            if let Some(buffer) = &mut self.buffer {
                done = buffer.accept_write(done, demand.blocks);
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

    /// Accepts a write that ends with its data on the media, `time` ns after the drive has the data and the buffer is empty.
    #[cold]
    fn accept_write_through(&mut self, now: u64, demand: Demand, time: u64) -> Accepted {
        let unflushed = self.unflushed;
        let Accepted { wake, done } = self.accept_request(now, demand);
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
    fn accept_flush(&mut self, now: u64, time: u64) -> Accepted {
        let awake_at = self.sleep.as_mut().map_or(0, |s| s.wake_for_request(now));
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
    fn choose_addressed_unit(&self, unit: Option<usize>) -> Option<usize> {
        if self.addressed.is_empty() {
            return None;
        }
        unit.or_else(|| (0..self.addressed.len()).min_by_key(|unit| self.addressed[*unit]))
    }

    /// Makes the unit that is free first the one that takes the next request.
    fn swap_in_earliest_free_unit(&mut self) {
        if let Some(mut other) = self.units.peek_mut()
            && other.0 < self.last_unit
        {
            std::mem::swap(&mut other.0, &mut self.last_unit);
        }
    }

    /// The power state at a time up to which all requests have come, and when the state changes next without a further
    /// request. `None` without power states.
    pub(crate) fn power_state_and_next_change(&self, now: u64) -> Option<(usize, Option<u64>)> {
        let sleep = self.sleep.as_ref().filter(|s| s.setup.is_known)?;
        if now < sleep.awake_at && sleep.woken_from > 0 {
            return Some((sleep.woken_from, Some(sleep.awake_at)));
        }
        let gap = now.checked_sub(sleep.idle_from);
        let (state, next) = sleep.setup.path.state_and_next_change_after(gap);
        Some((state, next.map(|gap| sleep.idle_from + gap)))
    }

    /// Completes the drive's books until `end`, the end of the run, and returns its totals. `None` for a drive without power states.
    pub(crate) fn into_totals_at(self, end: u64) -> Option<DriveTotals> {
        let known = self.sleep.filter(|sleep| sleep.setup.is_known);
        known.map(|mut sleep| sleep.totals_at(end))
    }
}

impl Sleep {
    fn new(setup: PowerSetup) -> Self {
        Self {
            awake_at: 0,
            woken_from: 0,
            idle_from: 0,
            ledger: Ledger::new(setup.path.state_count()),
            setup,
        }
    }

    /// Completes the drive's books until `end`, and returns its totals.
    fn totals_at(&mut self, end: u64) -> DriveTotals {
        self.account_until(end);
        DriveTotals {
            at_rest: self.setup.path.power_at_end(),
            ..self.ledger.totals_so_far().clone()
        }
    }

    /// Wakes the drive for a request that comes now. Returns the time when the drive can serve.
    fn wake_for_request(&mut self, now: u64) -> u64 {
        if now <= self.idle_from {
            return self.awake_at;
        }
        self.account_until(now);
        let wake = self.setup.path.wake_after(now - self.idle_from);
        self.woken_from = wake.state;
        let operational = Place::State(0);
        let (entered, left) = (now + wake.entry_left, now + wake.entry_left + wake.exit);
        self.awake_at = left + wake.rest;
        let power = self.setup.idle;
        self.ledger
            .plan_stretch(entered, Place::Transition, wake.entry_power);
        self.ledger
            .plan_stretch(left, Place::Transition, self.setup.transition);
        self.ledger.plan_stretch(self.awake_at, operational, power);
        if wake.exit > 0 || wake.entry_left > 0 {
            self.ledger.count_wake_up(self.awake_at - now);
        }
        self.idle_from = self.awake_at;
        self.awake_at
    }

    /// Enters the drive's active and idle time up to `until` into the books.
    fn account_until(&mut self, until: u64) {
        self.ledger.enter_planned(until);
        self.ledger
            .enter_stretch(until.min(self.idle_from), Place::Active, self.setup.active);
        let gap = self.ledger.entered_until().saturating_sub(self.idle_from);
        if until > self.idle_from {
            self.setup.path.enter_idle_time_into_ledger(
                self.idle_from,
                gap,
                until,
                &mut self.ledger,
            );
        }
    }
}
