//! What the other CPUs of a cluster or package did when a drive interrupted one of its CPUs.
//!
//! Recordings write an idle period when it ends. So a request waits until each other CPU has ended a period that began
//! later, or for half a second. Then a CPU sleeps if it is known to be in an idle period.

use std::collections::{HashMap, VecDeque};

use wakepath_trace::recording::OpenIdlePeriod;

use crate::activity::CpuActivity;
use crate::period::Period;
use crate::requests::{NeighbourState, RequestLog, TracedRequest};

/// Most CPUs in groups; a damaged description may name any number.
const MAX_MEMBERS: usize = 1 << 16;
/// Most requests of a group that wait for its CPUs: about a second of a fast drive.
const MAX_WAITING: usize = 1 << 16;

/// What CPUs are grouped by, and so where a request keeps the state of the other CPUs.
#[derive(Clone, Copy, Default)]
pub(crate) enum GroupKind {
    #[default]
    Cluster,
    Package,
}

impl GroupKind {
    fn state_in(self, request: &mut TracedRequest) -> &mut NeighbourState {
        match self {
            Self::Cluster => &mut request.cluster,
            Self::Package => &mut request.package,
        }
    }
}

/// CPUs of one machine by cluster, or by package.
#[derive(Default)]
pub(crate) struct CpuGroups {
    groups: Vec<CpuGroup>,
    members: HashMap<u32, Member>,
    kind: GroupKind,
    /// The open idle periods of all CPUs are noted.
    entries_are_known: bool,
}

/// The CPUs of a cluster or package.
#[derive(Default)]
struct CpuGroup {
    cpus: Vec<u32>,
    /// Requests in the order of `time`.
    waiting: VecDeque<WaitingRequest>,
    /// Number of requests that were in front of `waiting` before.
    gone: u64,
}

/// A CPU of a group.
#[derive(Default)]
struct Member {
    group: usize,
    /// The last idle period.
    last: Option<Period>,
    activity: CpuActivity,
    /// Number of requests of the group, counted from the start, for which this CPU's state is known.
    seen: u64,
}

/// A request for which the states of some CPUs are not known yet.
struct WaitingRequest {
    request: usize,
    /// The interrupted CPU.
    cpu: u32,
    /// Time of the interrupt.
    time: u64,
    /// CPUs whose state is not known.
    open: usize,
    /// The shallowest state so far.
    shallowest: NeighbourState,
}

impl CpuGroups {
    /// Groups of several CPUs each; a CPU belongs to the first group that names it.
    pub(crate) fn new(kind: GroupKind, groups: &[Vec<u32>]) -> Self {
        let mut all = Self {
            kind,
            ..Self::default()
        };
        for named in groups {
            let group = all.groups.len();
            let mut cpus = Vec::new();
            for cpu in named {
                if all.members.len() < MAX_MEMBERS && !all.members.contains_key(cpu) {
                    let member = Member {
                        group,
                        ..Member::default()
                    };
                    all.members.insert(*cpu, member);
                    cpus.push(*cpu);
                }
            }
            all.groups.push(CpuGroup {
                cpus,
                ..CpuGroup::default()
            });
        }
        all
    }

    /// Notes that a CPU had some event at `time`, which tells what the CPU did since `from`.
    pub(crate) fn note_event(&mut self, on: u32, from: u64, time: u64) {
        if let Some(member) = self.members.get_mut(&on) {
            member.activity.note_event(from, time);
        }
    }

    /// Notes which CPUs are in an idle period that has not ended; all others are in none.
    pub(crate) fn note_open_idle_periods(&mut self, open: &HashMap<u32, OpenIdlePeriod>) {
        self.entries_are_known = true;
        for (cpu, member) in &mut self.members {
            member.activity.set_open_period(open.get(cpu));
        }
    }

    /// Forgets what a CPU did: its events are missing, or it went on- or offline.
    pub(crate) fn forget_cpu(&mut self, cpu: u32, offline_since: Option<u64>) {
        if let Some(member) = self.members.get_mut(&cpu) {
            member.activity.restart(offline_since);
        }
    }

    /// Adds a request that interrupted `on` at `time`, in ns.
    pub(crate) fn add_request(
        &mut self,
        on: u32,
        request: usize,
        time: u64,
        requests: &mut RequestLog,
    ) {
        let Some(member) = self.members.get(&on) else {
            return;
        };
        let index = member.group;
        let Some(group) = self.groups.get_mut(index) else {
            return;
        };
        let Some(open) = group.cpus.len().checked_sub(1).filter(|open| *open > 0) else {
            return;
        };
        if let Some(request) = requests.get_mut(request) {
            *self.kind.state_in(request) = NeighbourState::Unknown;
        }
        // Requests complete nearly in the order of their interrupts.
        let latest = group.waiting.back().map_or(0, |latest| latest.time);
        group.waiting.push_back(WaitingRequest {
            request,
            cpu: on,
            time: time.max(latest),
            open,
            shallowest: NeighbourState::None,
        });
        if group.waiting.len() > MAX_WAITING {
            // CPUs may have entered states since the open idle periods were noted.
            self.settle_oldest_request(index, false, requests);
        }
    }

    /// A CPU has ended an idle period: its state at the interrupts until then is known.
    pub(crate) fn end_idle_period(&mut self, on: u32, period: Period, requests: &mut RequestLog) {
        let Some(member) = self.members.get_mut(&on) else {
            return;
        };
        let Some(group) = self.groups.get_mut(member.group) else {
            return;
        };
        let before = member.last.replace(period);
        member.seen = member.seen.max(group.gone);
        let first = usize::try_from(member.seen - group.gone).unwrap_or(usize::MAX);
        for waiting in group.waiting.iter_mut().skip(first) {
            if waiting.time > period.exit {
                break;
            }
            member.seen += 1;
            if waiting.cpu == on {
                continue;
            }
            let around = [Some(period), before].into_iter().flatten();
            let mut around = around.filter(|period| period.contains_time(waiting.time));
            waiting.note_state(match around.next() {
                Some(period) => NeighbourState::Idle(period.state),
                None if member.activity.is_known_at(waiting.time) => NeighbourState::Running,
                None => NeighbourState::Unknown,
            });
        }
        while group.waiting.front().is_some_and(|oldest| oldest.open == 0)
            && let Some(oldest) = group.waiting.pop_front()
        {
            group.gone += 1;
            oldest.write_state(self.kind, requests);
        }
    }

    /// Ends the wait of requests with interrupts up to `until_ns`.
    pub(crate) fn settle_requests_until(&mut self, until_ns: u64, requests: &mut RequestLog) {
        for group in 0..self.groups.len() {
            while self
                .groups
                .get(group)
                .and_then(|group| group.waiting.front())
                .is_some_and(|oldest| oldest.time <= until_ns)
            {
                self.settle_oldest_request(group, self.entries_are_known, requests);
            }
        }
    }

    /// Forgets the requests that wait: events are missing.
    pub(crate) fn forget_requests(&mut self) {
        for group in &mut self.groups {
            group.gone += group.waiting.len() as u64;
            group.waiting.clear();
        }
    }

    fn settle_oldest_request(
        &mut self,
        group: usize,
        entries_are_known: bool,
        requests: &mut RequestLog,
    ) {
        let Some(group) = self.groups.get_mut(group) else {
            return;
        };
        let Some(mut oldest) = group.waiting.pop_front() else {
            return;
        };
        let number = group.gone;
        group.gone += 1;
        let interrupted = oldest.cpu;
        for cpu in group.cpus.iter().filter(|cpu| **cpu != interrupted) {
            let Some(member) = self.members.get(cpu) else {
                continue;
            };
            if member.seen > number {
                continue;
            }
            let slept = member.last.filter(|last| last.contains_time(oldest.time));
            oldest.note_state(match slept {
                Some(period) => NeighbourState::Idle(period.state),
                None => member
                    .activity
                    .state_outside_ended_periods(oldest.time, entries_are_known),
            });
        }
        oldest.write_state(self.kind, requests);
    }
}

impl WaitingRequest {
    /// Notes the state of a further CPU: any that runs counts first, then any that is not known.
    fn note_state(&mut self, state: NeighbourState) {
        self.open = self.open.saturating_sub(1);
        self.shallowest = match (self.shallowest, state) {
            (NeighbourState::Running, _) | (_, NeighbourState::Running) => NeighbourState::Running,
            (NeighbourState::Unknown, _) | (_, NeighbourState::Unknown) => NeighbourState::Unknown,
            (known @ NeighbourState::Idle(_), next @ NeighbourState::Idle(_)) => known.min(next),
            (NeighbourState::None, only) | (only, NeighbourState::None) => only,
        };
    }

    /// Writes what was found into the request, if the request is still here.
    fn write_state(&self, kind: GroupKind, requests: &mut RequestLog) {
        if let Some(request) = requests.get_mut(self.request) {
            *kind.state_in(request) = self.shallowest;
        }
    }
}
