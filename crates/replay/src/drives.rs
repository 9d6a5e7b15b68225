//! Drives in a recording: the CPUs that completions come to, and the gaps without a request in
//! flight.

use std::collections::{BTreeMap, HashMap};

use hdrhistogram::Histogram;
use serde::Serialize;
use wakepath_policies::apst::gaps::Gaps;
use wakepath_trace::recording::Block;

/// Most requests in flight at a drive that are remembered; if there are more, completions were not
/// recorded.
const MAX_IN_FLIGHT: usize = 1 << 16;
/// Longest time in ns that a request can take: the kernel gives up slower ones
/// (`BLK_DEFAULT_SG_TIMEOUT` and the `io_timeout` of NVMe, 30 s), so their completions were not
/// recorded.
const LONGEST_REQUEST: u64 = 30_000_000_000;
/// Share of requests without a recorded completion from which a drive's idle times are uncertain.
const MANY_MISSED: f64 = 0.01;
/// Usual number of requests in flight at the end of a recording.
const MAX_AT_END: f64 = 64.0;
/// Sums of entry and exit latency in ms for which drive timeouts are suggested. The kernel's
/// default tolerances are 15 and 100 ms.
const TRANSITIONS_MS: [u64; 3] = [1, 15, 100];

/// Requests and idle gaps of a drive so far in the recording.
#[derive(Debug)]
pub struct DriveHistory {
    /// Requests in flight at the drive, by first sector.
    in_flight: HashMap<u64, RequestIssue>,
    /// Time of the last search for requests that cannot complete any more, in ns.
    searched_at: u64,
    /// Number of requests without a recorded completion.
    missed: u64,
    idle_since: Option<u64>,
    completions: u64,
    same_cpu: u64,
    gaps: Histogram<u64>,
    issued: u64,
}

/// When and on which CPU a request was issued.
#[derive(Clone, Copy, Debug)]
struct RequestIssue {
    time: u64,
    cpu: u32,
}

/// All drives of a recording, by device number.
#[derive(Debug, Default)]
pub struct Drives {
    drives: BTreeMap<u32, DriveHistory>,
}

/// Report on a drive: requests, idle gaps and suggested timeouts.
#[derive(Clone, Debug, Serialize)]
pub struct DriveReport {
    /// Kernel's name of the drive, or the device number.
    pub name: String,
    /// Requests issued.
    pub issued: u64,
    /// Number of requests with a recorded issue and completion.
    pub completions: u64,
    /// Number of requests without a recorded completion, including requests in flight at the end.
    pub missed: u64,
    /// Number of completions on the CPU that issued the request.
    pub same_cpu: u64,
    /// Gaps without a request in flight, by length.
    pub gaps: Vec<Gap>,
    /// Suggested timeouts of the drive's power states, which suit its idle gaps.
    pub timeouts: Vec<Timeout>,
}

/// Idle gaps of a drive with lengths in one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Shortest gap in the range, in us.
    pub from_us: u64,
    /// Upper limit of the gaps' length in us, not included.
    pub to_us: u64,
    /// Number of gaps.
    pub count: u64,
    /// Total length of the gaps in us.
    pub total_us: u64,
}

/// Suggested idle time before a drive enters a power state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timeout {
    /// Sum of the power state's entry and exit latency in ms.
    pub transition_ms: u64,
    /// Timeout in ms that suits the drive's idle gaps ([`Gaps::choose_best_timeout`]). `None`: the
    /// state never pays.
    pub timeout_ms: Option<f64>,
    /// Number of times that a request would have woken the drive.
    pub wake_ups: u64,
    /// Share of the drive's idle time that it would spend in the power state, 0 to 1.
    pub asleep: f64,
}

impl DriveReport {
    /// Whether too many completions are missing for reliable idle times of the drive.
    pub fn is_uncertain(&self) -> bool {
        self.missed as f64 > (self.issued as f64 * MANY_MISSED).max(MAX_AT_END)
    }
}

impl DriveHistory {
    fn new() -> Option<Self> {
        Some(Self {
            in_flight: HashMap::new(),
            searched_at: 0,
            missed: 0,
            idle_since: None,
            completions: 0,
            same_cpu: 0,
            // The histogram holds gaps from 1 us to 10 minutes, to 1 %.
            gaps: Histogram::new_with_bounds(1, 600_000_000, 2).ok()?,
            issued: 0,
        })
    }

    /// Drops requests whose completion cannot come any more, and counts them as missed.
    fn drop_lost_requests(&mut self, now: u64) {
        let before = self.in_flight.len();
        if now.saturating_sub(self.searched_at) > LONGEST_REQUEST {
            self.searched_at = now;
            self.in_flight
                .retain(|_, issue| now.saturating_sub(issue.time) <= LONGEST_REQUEST);
        }
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            self.in_flight.clear();
        }
        self.missed += (before - self.in_flight.len()) as u64;
    }
}

impl Drives {
    /// Whether the recording has no block request so far.
    pub fn has_no_requests(&self) -> bool {
        self.drives.is_empty()
    }

    fn drive_history(&mut self, device: u32) -> Option<&mut DriveHistory> {
        match self.drives.entry(device) {
            std::collections::btree_map::Entry::Occupied(entry) => Some(entry.into_mut()),
            std::collections::btree_map::Entry::Vacant(entry) => {
                Some(entry.insert(DriveHistory::new()?))
            }
        }
    }

    /// Notes that a CPU issued a block request.
    pub fn note_issue(&mut self, time: u64, cpu: u32, block: &Block) {
        let Some(drive) = self.drive_history(block.device) else {
            return;
        };
        drive.issued += 1;
        if let Some(since) = drive.idle_since.take() {
            drive
                .gaps
                .saturating_record(time.saturating_sub(since) / 1_000);
        }
        drive.drop_lost_requests(time);
        let issue = RequestIssue { time, cpu };
        if drive.in_flight.insert(block.sector, issue).is_some() {
            drive.missed += 1;
        }
    }

    /// Notes that a block request completed on a CPU.
    pub fn note_completion(&mut self, time: u64, cpu: u32, block: &Block) {
        let Some(drive) = self.drive_history(block.device) else {
            return;
        };
        if let Some(issue) = drive.in_flight.remove(&block.sector) {
            drive.completions += 1;
            drive.same_cpu += u64::from(issue.cpu == cpu);
            if drive.in_flight.is_empty() {
                drive.idle_since = Some(time);
            }
        }
    }

    /// Forgets all requests in flight, because events of the recording are missing.
    pub fn forget_requests(&mut self) {
        for drive in self.drives.values_mut() {
            drive.in_flight.clear();
            drive.idle_since = None;
        }
    }

    /// Makes a report for each drive; `name` turns a device number into a name.
    pub fn report_drives(&self, name: impl Fn(u32) -> String) -> Vec<DriveReport> {
        let drives = self.drives.iter();
        let reports = drives.map(|(device, drive)| DriveReport {
            name: name(*device),
            issued: drive.issued,
            completions: drive.completions,
            missed: drive.missed + drive.in_flight.len() as u64,
            same_cpu: drive.same_cpu,
            gaps: gaps_by_length(&drive.gaps),
            timeouts: TRANSITIONS_MS
                .iter()
                .map(|ms| suggest_timeout(&drive.gaps, *ms))
                .collect(),
        });
        reports.collect()
    }
}

/// Groups a drive's idle gaps by powers of ten of their length.
fn gaps_by_length(histogram: &Histogram<u64>) -> Vec<Gap> {
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

/// Suggests the timeout that suits a drive's idle gaps, for a power state that takes
/// `transition_ms` to enter and leave.
fn suggest_timeout(histogram: &Histogram<u64>, transition_ms: u64) -> Timeout {
    let mut gaps = Gaps::default();
    for value in histogram.iter_recorded() {
        gaps.add_gaps(value.value_iterated_to(), value.count_at_value());
    }
    let found = gaps.choose_best_timeout(transition_ms * 1_000);
    let total: u64 = gaps.total_us.iter().sum();
    Timeout {
        transition_ms,
        timeout_ms: found.map(|found| found.timeout_us as f64 / 1e3),
        wake_ups: found.map_or(0, |found| found.wake_ups),
        asleep: found.map_or(0.0, |found| found.asleep_us as f64 / total.max(1) as f64),
    }
}
