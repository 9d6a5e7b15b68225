//! Requests by the network that tasks of given steps wait for. As for a server, each interrupts a CPU, which wakes a task.
//!
//! A request that follows a reply is for the task that replied. Others come at their own times, whether a task waits or not, and are for
//! a pool of tasks: the one that fell asleep last takes the request, and without one the request waits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::core::basics::CpuId;

/// Shortest time in ns between two requests of a series, so that time goes on.
const SHORTEST_INTERVAL: u64 = 1_000;

/// Most requests of a pool that wait for a task; others are refused.
const MOST_WAITING: usize = 1 << 18;

/// Who takes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Taker {
    /// The thread that replied before.
    Thread(usize),
    /// Any of the pool with this number.
    Pool(usize),
}

/// A request of a series.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeriesRequest {
    /// Time in ns since the request before.
    pub(super) interval: u64,
    /// The CPU to be interrupted.
    pub(super) cpu: CpuId,
    /// Number of the pool whose threads take the request.
    pub(super) pool: usize,
}

/// Requests that come at their own times, one after the other and from the first one again.
#[derive(Clone, Debug)]
struct Series {
    requests: Vec<SeriesRequest>,
    next: usize,
    /// Time in ns of the last request.
    last: u64,
}

/// Tasks that take each other's requests.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// Sleeping threads, the one that fell asleep last at the end.
    asleep: Vec<usize>,
    /// Number of requests that wait for a thread.
    waiting: usize,
}

/// A request on its way. Those that are due at the same time come in the order of these fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NetworkRequest {
    /// When the request arrives, in ns.
    at: u64,
    taker: Taker,
    /// The CPU to be interrupted.
    pub(super) cpu: CpuId,
    /// The request's series.
    series: Option<usize>,
}

/// Requests on their way.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    due: BinaryHeap<Reverse<NetworkRequest>>,
    /// By CPU, when those requests arrived whose interrupt has not been served, and who takes them.
    at_card: BTreeMap<CpuId, VecDeque<(u64, Taker)>>,
    series: Vec<Series>,
    pools: BTreeMap<usize, Pool>,
}

impl Arrivals {
    /// Adds a request for a thread.
    pub(super) fn add_for_thread(&mut self, at: u64, thread: usize, cpu: CpuId) {
        self.due.push(Reverse(NetworkRequest {
            at,
            taker: Taker::Thread(thread),
            cpu,
            series: None,
        }));
    }

    /// Adds a series of requests that begins at `start` ns.
    pub(super) fn add_series(&mut self, start: u64, requests: Vec<SeriesRequest>) {
        if !requests.is_empty() {
            self.series.push(Series {
                requests,
                next: 0,
                last: start,
            });
            self.add_next_of_series(self.series.len() - 1);
        }
    }

    fn add_next_of_series(&mut self, number: usize) {
        let Some(series) = self.series.get_mut(number) else {
            return;
        };
        let SeriesRequest {
            interval,
            cpu,
            pool,
        } = series.requests[series.next];
        series.next = (series.next + 1) % series.requests.len();
        series.last = series.last.saturating_add(interval.max(SHORTEST_INTERVAL));
        self.due.push(Reverse(NetworkRequest {
            at: series.last,
            taker: Taker::Pool(pool),
            cpu,
            series: Some(number),
        }));
    }

    /// Time in ns of the next arrival; `None` if none is known.
    pub(super) fn next_arrival(&self) -> Option<u64> {
        self.due.peek().map(|Reverse(request)| request.at)
    }

    /// Removes the first request that is due by `now`.
    pub(super) fn take_due(&mut self, now: u64) -> Option<NetworkRequest> {
        let Reverse(first) = *self.due.peek()?;
        (first.at <= now).then(|| self.due.pop())?;
        if let Some(series) = first.series {
            self.add_next_of_series(series);
        }
        Some(first)
    }

    /// Gives a request to the card. Returns whether the card raises an interrupt: none is on its way to the CPU yet.
    pub(super) fn give_to_card(&mut self, request: NetworkRequest) -> bool {
        let waiting = self.at_card.entry(request.cpu).or_default();
        waiting.push_back((request.at, request.taker));
        waiting.len() == 1
    }

    /// The first request at a CPU's interrupt.
    pub(super) fn first_at_card(&self, cpu: CpuId) -> Option<(u64, Taker)> {
        self.at_card.get(&cpu)?.front().copied()
    }

    pub(super) fn remove_first_at_card(&mut self, cpu: CpuId) {
        if let Some(waiting) = self.at_card.get_mut(&cpu) {
            waiting.pop_front();
        }
    }

    /// Removes and returns the thread that takes a request; `None`: the request waits.
    pub(super) fn take_thread_for(&mut self, taker: Taker) -> Option<usize> {
        let pool = match taker {
            Taker::Thread(thread) => return Some(thread),
            Taker::Pool(pool) => self.pools.entry(pool).or_default(),
        };
        let thread = pool.asleep.pop();
        if thread.is_none() && pool.waiting < MOST_WAITING {
            pool.waiting += 1;
        }
        thread
    }

    /// Takes a request of a pool for a thread, or lets the thread sleep. Returns whether there was one.
    pub(super) fn take_request_or_sleep(&mut self, pool: usize, thread: usize) -> bool {
        let tasks = self.pools.entry(pool).or_default();
        let has_request = tasks.waiting > 0;
        if has_request {
            tasks.waiting -= 1;
        } else {
            tasks.asleep.push(thread);
        }
        has_request
    }
}
