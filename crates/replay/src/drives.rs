//! What a recording says about drives: where completions come to, and how long a drive has nothing to
//! do.

use std::collections::{BTreeMap, HashMap};

use hdrhistogram::Histogram;
use serde::Serialize;
use wakepath_policies::apst::gaps::Gaps;
use wakepath_trace::recording::Block;

/// Requests that wait for their completion; more are lost ones.
const MAX_IN_FLIGHT: usize = 1 << 16;
/// A request that takes longer is given up by the kernel (`BLK_DEFAULT_SG_TIMEOUT` and the `io_timeout` of NVMe, 30 s),
/// so its completion was not recorded. In ns.
const LONGEST_REQUEST: u64 = 30_000_000_000;
/// From this share of requests on without a recorded completion, a drive's idle times are not to be relied on.
const MANY_MISSED: f64 = 0.01;
/// So many requests in flight at the end of a recording are nothing unusual.
const MAX_AT_END: f64 = 64.0;
/// Entry and exit latency together for which timeouts are suggested, in ms: the tolerances of the
/// kernel's defaults are 15 and 100 ms.
const TRANSITIONS_MS: [u64; 3] = [1, 15, 100];

/// What is known of a drive.
#[derive(Debug)]
pub struct DriveHistory {
    /// By sector: when it was issued, and by which CPU.
    in_flight: HashMap<u64, (u64, u32)>,
    /// When requests without a completion were last looked for.
    looked: u64,
    /// How many there were.
    missed: u64,
    idle_since: Option<u64>,
    completions: u64,
    same_cpu: u64,
    gaps: Histogram<u64>,
    issued: u64,
}

/// All drives, by their number.
#[derive(Debug, Default)]
pub struct Drives {
    drives: BTreeMap<u32, DriveHistory>,
}

/// What came together of a drive.
#[derive(Clone, Debug, Serialize)]
pub struct DriveReport {
    /// The kernel's name, or its number.
    pub name: String,
    /// Requests issued.
    pub issued: u64,
    /// Requests whose issue and completion were both seen.
    pub completions: u64,
    /// Requests issued whose completion was not seen, those in flight at the end included.
    pub missed: u64,
    /// Those of the completions that came to the CPU that issued them.
    pub same_cpu: u64,
    /// Times without a request in flight, by length.
    pub gaps: Vec<Gap>,
    /// Timeouts that follow from them.
    pub timeouts: Vec<Timeout>,
}

/// Idle gaps of a range of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Not shorter than this, in us.
    pub from_us: u64,
    /// Shorter than this, in us.
    pub to_us: u64,
    /// How many.
    pub count: u64,
    /// Their time together, in us.
    pub total_us: u64,
}

/// An idle time after which to go to a power state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timeout {
    /// Entry and exit latency of the state together, in ms.
    pub transition_ms: u64,
    /// The timeout that suits the gaps, in ms ([`Gaps::timeout`]). `None`: the state never pays.
    pub timeout_ms: Option<f64>,
    /// How often the drive would have been woken up by a request.
    pub wake_ups: u64,
    /// The share of its idle time, 0 to 1, that it would have been in the state.
    pub asleep: f64,
}

impl DriveReport {
    /// So many completions are missing that the idle times are not to be relied on.
    pub fn is_uncertain(&self) -> bool {
        self.missed as f64 > (self.issued as f64 * MANY_MISSED).max(MAX_AT_END)
    }
}

impl DriveHistory {
    fn new() -> Option<Self> {
        Some(Self {
            in_flight: HashMap::new(),
            looked: 0,
            missed: 0,
            idle_since: None,
            completions: 0,
            same_cpu: 0,
            // From 1 us to 10 minutes, to 1 %.
            gaps: Histogram::new_with_bounds(1, 600_000_000, 2).ok()?,
            issued: 0,
        })
    }

    /// Requests whose completion cannot come any more do not keep the drive busy.
    fn give_up(&mut self, now: u64) {
        let before = self.in_flight.len();
        if now.saturating_sub(self.looked) > LONGEST_REQUEST {
            self.looked = now;
            self.in_flight
                .retain(|_, (issued, _)| now.saturating_sub(*issued) <= LONGEST_REQUEST);
        }
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            self.in_flight.clear();
        }
        self.missed += (before - self.in_flight.len()) as u64;
    }
}

impl Drives {
    /// Whether no request was seen.
    pub fn is_empty(&self) -> bool {
        self.drives.is_empty()
    }

    fn drive(&mut self, device: u32) -> Option<&mut DriveHistory> {
        match self.drives.entry(device) {
            std::collections::btree_map::Entry::Occupied(entry) => Some(entry.into_mut()),
            std::collections::btree_map::Entry::Vacant(entry) => {
                Some(entry.insert(DriveHistory::new()?))
            }
        }
    }

    /// A request is issued.
    pub fn issue(&mut self, time: u64, cpu: u32, block: &Block) {
        let Some(drive) = self.drive(block.device) else {
            return;
        };
        drive.issued += 1;
        if let Some(since) = drive.idle_since.take() {
            drive
                .gaps
                .saturating_record(time.saturating_sub(since) / 1_000);
        }
        drive.give_up(time);
        if drive.in_flight.insert(block.sector, (time, cpu)).is_some() {
            drive.missed += 1;
        }
    }

    /// A request completes.
    pub fn complete(&mut self, time: u64, cpu: u32, block: &Block) {
        let Some(drive) = self.drive(block.device) else {
            return;
        };
        if let Some((_, issuer)) = drive.in_flight.remove(&block.sector) {
            drive.completions += 1;
            drive.same_cpu += u64::from(issuer == cpu);
            if drive.in_flight.is_empty() {
                drive.idle_since = Some(time);
            }
        }
    }

    /// Events are missing: nothing is known of what is in flight.
    pub fn lost(&mut self) {
        for drive in self.drives.values_mut() {
            drive.in_flight.clear();
            drive.idle_since = None;
        }
    }

    /// What came together; `name` gives the names.
    pub fn report(&self, name: impl Fn(u32) -> String) -> Vec<DriveReport> {
        let of = |(device, drive): (&u32, &DriveHistory)| DriveReport {
            name: name(*device),
            issued: drive.issued,
            completions: drive.completions,
            missed: drive.missed + drive.in_flight.len() as u64,
            same_cpu: drive.same_cpu,
            gaps: gaps(&drive.gaps),
            timeouts: TRANSITIONS_MS
                .iter()
                .map(|ms| timeout(&drive.gaps, *ms))
                .collect(),
        };
        self.drives.iter().map(of).collect()
    }
}

/// By powers of ten.
fn gaps(histogram: &Histogram<u64>) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = Vec::new();
    for value in histogram.iter_recorded() {
        let us = value.value_iterated_to();
        let from_us = if us == 0 { 0 } else { 10_u64.pow(us.ilog10()) };
        let (count, total_us) = (value.count_at_value(), us * value.count_at_value());
        match gaps.last_mut() {
            Some(gap) if gap.from_us == from_us => {
                gap.count += count;
                gap.total_us += total_us;
            }
            _ => gaps.push(Gap {
                from_us,
                to_us: from_us.max(1) * if from_us == 0 { 1 } else { 10 },
                count,
                total_us,
            }),
        }
    }
    gaps
}

fn timeout(histogram: &Histogram<u64>, transition_ms: u64) -> Timeout {
    let mut gaps = Gaps::default();
    for value in histogram.iter_recorded() {
        gaps.add(value.value_iterated_to(), value.count_at_value());
    }
    let found = gaps.timeout(transition_ms * 1_000);
    let total: u64 = gaps.total_us.iter().sum();
    Timeout {
        transition_ms,
        timeout_ms: found.map(|found| found.timeout_us as f64 / 1e3),
        wake_ups: found.map_or(0, |found| found.wake_ups),
        asleep: found.map_or(0.0, |found| found.asleep_us as f64 / total.max(1) as f64),
    }
}
