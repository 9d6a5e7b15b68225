//! Drives in a recording: the CPUs that completions come to, and the gaps without a request in
//! flight.

use std::collections::{BTreeMap, HashMap};

use hdrhistogram::Histogram;
use serde::Serialize;
use wakepath_policies::apst::gaps::{BusyPeriod, DriveIdleGaps};
use wakepath_trace::recording::Block;
use wakepath_units::Nanoseconds;

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
    /// Start of the busy period that has not ended, in ns, and its requests so far.
    busy_since: Option<(u64, u64)>,
    /// Busy periods that have ended, in order of time; `None` if nobody asked for them.
    busy: Option<Vec<BusyPeriod>>,
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
    keeps_busy_periods: bool,
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
    pub gaps: Vec<IdleGapRange>,
    /// Suggested timeouts of the drive's power states, which suit its idle gaps.
    pub timeouts: Vec<SuggestedTimeout>,
}

/// Idle gaps of a drive with lengths in one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IdleGapRange {
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
pub struct SuggestedTimeout {
    /// Sum of the power state's entry and exit latency in ms.
    pub transition_ms: u64,
    /// Timeout in ms that suits the drive's idle gaps ([`DriveIdleGaps::choose_best_timeout`]). `None`: the
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
    fn new(keeps_busy_periods: bool) -> Option<Self> {
        Some(Self {
            busy_since: None,
            busy: keeps_busy_periods.then(Vec::new),
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

    /// Ends the busy period, if there is one, and keeps it if somebody asked for busy periods.
    fn end_busy_period(&mut self, end: u64) {
        if let (Some((start, requests)), Some(busy)) = (self.busy_since.take(), &mut self.busy) {
            busy.push(BusyPeriod {
                start: Nanoseconds(start),
                end: Nanoseconds(end.max(start)),
                requests,
            });
        }
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
    /// Drives whose busy periods are kept, at 24 bytes each.
    pub(crate) fn with_busy_periods() -> Self {
        Self {
            keeps_busy_periods: true,
            ..Self::default()
        }
    }

    /// The report of each drive with its busy periods until `end`, the end of the recording in ns. Requests that are in
    /// flight then keep the drive busy until the end.
    pub(crate) fn into_reports_with_busy_periods(
        mut self,
        end: u64,
        name_of_device: impl Fn(u32) -> String,
    ) -> Vec<(DriveReport, Vec<BusyPeriod>)> {
        let reports = self.report_drives(name_of_device);
        for drive in self.drives.values_mut() {
            drive.end_busy_period(end);
        }
        let busy = self.drives.into_values();
        let busy = busy.map(|drive| drive.busy.unwrap_or_default());
        reports.into_iter().zip(busy).collect()
    }

    /// Whether the recording has no block request so far.
    pub fn has_no_requests(&self) -> bool {
        self.drives.is_empty()
    }

    fn drive_history_or_new(&mut self, device: u32) -> Option<&mut DriveHistory> {
        match self.drives.entry(device) {
            std::collections::btree_map::Entry::Occupied(entry) => Some(entry.into_mut()),
            std::collections::btree_map::Entry::Vacant(entry) => {
                Some(entry.insert(DriveHistory::new(self.keeps_busy_periods)?))
            }
        }
    }

    /// Notes that a CPU issued a block request.
    pub fn note_request_issue(&mut self, time: u64, cpu: u32, block: &Block) {
        let Some(drive) = self.drive_history_or_new(block.device) else {
            return;
        };
        drive.issued += 1;
        if let Some(since) = drive.idle_since.take() {
            drive
                .gaps
                .saturating_record(time.saturating_sub(since) / 1_000);
        }
        drive.drop_lost_requests(time);
        let (since, requests) = drive
            .busy_since
            .filter(|_| !drive.in_flight.is_empty())
            .unwrap_or((time, 0));
        drive.busy_since = Some((since, requests + 1));
        let issue = RequestIssue { time, cpu };
        if drive.in_flight.insert(block.sector, issue).is_some() {
            drive.missed += 1;
        }
    }

    /// Notes that a block request completed on a CPU.
    pub fn note_request_completion(&mut self, time: u64, cpu: u32, block: &Block) {
        let Some(drive) = self.drive_history_or_new(block.device) else {
            return;
        };
        if let Some(issue) = drive.in_flight.remove(&block.sector) {
            drive.completions += 1;
            drive.same_cpu += u64::from(issue.cpu == cpu);
            if drive.in_flight.is_empty() {
                drive.idle_since = Some(time);
                drive.end_busy_period(time);
            }
        }
    }

    /// Forgets all requests in flight, because events of the recording are missing.
    pub fn forget_requests_in_flight(&mut self) {
        for drive in self.drives.values_mut() {
            drive.in_flight.clear();
            drive.idle_since = None;
            drive.busy_since = None;
        }
    }

    /// Makes a report for each drive; `name_of_device` turns a device number into a name.
    pub fn report_drives(&self, name_of_device: impl Fn(u32) -> String) -> Vec<DriveReport> {
        let drives = self.drives.iter();
        let reports = drives.map(|(device, drive)| DriveReport {
            name: name_of_device(*device),
            issued: drive.issued,
            completions: drive.completions,
            missed: drive.missed + drive.in_flight.len() as u64,
            same_cpu: drive.same_cpu,
            gaps: gaps_by_decade_of_length(&drive.gaps),
            timeouts: TRANSITIONS_MS
                .iter()
                .map(|ms| suggest_timeout(&drive.gaps, *ms))
                .collect(),
        });
        reports.collect()
    }
}

/// Groups a drive's idle gaps by powers of ten of their length.
fn gaps_by_decade_of_length(histogram: &Histogram<u64>) -> Vec<IdleGapRange> {
    let mut gaps: Vec<IdleGapRange> = Vec::new();
    for value in histogram.iter_recorded() {
        let us = value.value_iterated_to();
        let from_us = if us == 0 { 0 } else { 10_u64.pow(us.ilog10()) };
        let (count, total_us) = (value.count_at_value(), us * value.count_at_value());
        match gaps.last_mut() {
            Some(gap) if gap.from_us == from_us => {
                gap.count += count;
                gap.total_us += total_us;
            }
            _ => gaps.push(IdleGapRange {
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
fn suggest_timeout(histogram: &Histogram<u64>, transition_ms: u64) -> SuggestedTimeout {
    let mut gaps = DriveIdleGaps::default();
    for value in histogram.iter_recorded() {
        gaps.add_gaps(value.value_iterated_to(), value.count_at_value());
    }
    let found = gaps.choose_best_timeout(transition_ms * 1_000);
    let total: u64 = gaps.total_us.iter().sum();
    SuggestedTimeout {
        transition_ms,
        timeout_ms: found.map(|found| found.timeout_us as f64 / 1e3),
        wake_ups: found.map_or(0, |found| found.wake_ups),
        asleep: found.map_or(0.0, |found| found.asleep_us as f64 / total.max(1) as f64),
    }
}
