//! State of a server: requests on their way, the queue, workers, and clients.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use wakepath_workloads::server::Spacing;

use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Cycles, Direction, RequestId, TaskId};
use crate::core::parts::Parts;
use crate::core::random::Streams;
use crate::task::group_commit::GroupCommit;
use crate::task::server::disk_steps::{DiskSteps, DiskTotals};
use crate::task::server::setup::{
    ArrivalSetup, BackgroundSetup, LogSetup, ServerSetup, draw_around_mean,
};

/// Most requests that wait for a worker: an endless queue of a server that cannot keep up has to end somewhere.
const MOST_WAITING: usize = 1 << 18;

/// Size of a block in bytes, and number of blocks among which calls are spread: 1 TiB.
const BLOCK: u64 = 4096;
const PLACES: u64 = 1 << 28;

/// Most writes of a background writer's round, and most reads; others are left for the next one.
const MOST_CALLS_OF_ROUND: f64 = 1e5;

/// State of a task that belongs to a server, beyond that of any task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerTask {
    pub(in crate::task) role: ServerRole,
    /// Whether the page cache copies what the present call reads.
    pub(in crate::task) copied: bool,
    /// Number of the next block of the append-only file.
    next_block: u64,
}

impl ServerTask {
    pub(super) fn new(role: ServerRole) -> Self {
        Self {
            role,
            copied: false,
            next_block: 0,
        }
    }

    /// Byte on the volume where the thread's next call of `bytes` begins: anywhere, or behind the last write of the log's thread.
    pub(in crate::task) fn offset_of_next_call(&mut self, bytes: u64, random: &mut Streams) -> u64 {
        match self.role {
            ServerRole::Worker(_) | ServerRole::Background(_) => {
                random.draw_block_number(PLACES) * BLOCK
            }
            ServerRole::Log => {
                let block = self.next_block;
                self.next_block = (block + bytes.div_ceil(BLOCK)) % PLACES;
                block * BLOCK
            }
        }
    }
}

/// What a task of a server does.
#[derive(Clone, Copy, Debug)]
pub(in crate::task) enum ServerRole {
    /// The worker with this number.
    Worker(usize),
    /// The thread that writes and syncs the append-only file.
    Log,
    /// The background writer with this number.
    Background(usize),
}

/// A worker that has a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunningWorker {
    pub(super) cpu: CpuId,
    pub(super) task: TaskId,
    /// Number among the workers.
    pub(super) number: usize,
}

/// A request to the server.
#[derive(Clone, Debug)]
pub(super) struct ServerRequest {
    /// The request's way so far, since its arrival.
    pub(super) way: Request,
    /// The client that waits for the reply.
    pub(super) client: u32,
    pub(super) work: Cycles,
    pub(super) reply: Cycles,
    /// By kind of disk call, whether the request makes these calls: bit 0 for the first kind.
    pub(super) kinds_of_calls: u32,
    /// The kind of disk calls in progress or next, and how many calls of it have been submitted.
    pub(super) kind: usize,
    pub(super) submitted: u32,
    /// Calls in flight, each with the request's parts when the call began.
    pub(super) in_flight: Vec<(RequestId, Parts)>,
    /// Whether the worker was woken for this request and has not run since.
    pub(super) wakes_worker: bool,
    /// Work in cycles of the present step.
    pub(super) step_work: Cycles,
    /// Whether the reply is the present step, or was.
    pub(super) replying: bool,
    /// How far the request's part of the log is on the way to the media.
    pub(super) commit: Commit,
}

/// How far a request's part of the log is on the way to the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    /// Nobody waits for the log.
    NotNeeded,
    /// Not appended yet.
    Ahead,
    /// Appended; the worker sleeps until another one has synced the log.
    Waiting,
    /// The worker syncs the log, or was woken to do so.
    Syncing,
    /// On the media.
    Durable,
}

/// A worker thread.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) task: TaskId,
    /// The request that the worker serves; `None`: the worker sleeps.
    pub(super) present: Option<Box<ServerRequest>>,
}

/// Counts of a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerTotals {
    /// Requests that arrived and count, and those among them for which there was no room.
    pub(super) arrived: u64,
    pub(super) refused: u64,
    /// Replies that count, up to the end of the time in which requests arrive.
    pub(super) replied_in_time: u64,
    /// Calls to the disk that count.
    pub(super) disk: DiskTotals,
    /// Most requests that waited for a worker at once, and those that wait at the end.
    pub(super) most_waiting: usize,
    pub(super) waiting: usize,
}

/// State of a server.
#[derive(Debug, Default)]
pub(crate) struct ServerState {
    /// When each client asks next, in ns, with its number. Open arrivals have one client, who never waits.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// Number of arrivals so far.
    arrivals: u64,
    /// Requests whose interrupt has not been served, by CPU.
    pub(super) at_card: Vec<VecDeque<ServerRequest>>,
    /// Requests that wait for a worker.
    pub(super) queue: VecDeque<ServerRequest>,
    pub(super) workers: Vec<Worker>,
    /// Sleeping workers, the one that fell asleep last at the end.
    pub(super) asleep: Vec<usize>,
    pub(super) log: LogState,
    pub(super) background: Vec<BackgroundState>,
    /// Replies so far, also before the warm-up's end.
    pub(super) replies: u64,
    pub(super) totals: ServerTotals,
}

/// State of the append-only file.
#[derive(Clone, Debug, Default)]
pub(super) struct LogState {
    /// What has been appended and synced, and the workers that sync or wait.
    pub(super) commits: GroupCommit,
    /// What the present sync has to do yet.
    pub(super) steps: DiskSteps,
    /// When the present sync began, in ns; `None` between two.
    pub(super) began: Option<u64>,
    /// Parts of the syncing worker's request when the sync began.
    pub(super) parts_at_begin: Parts,
}

impl LogState {
    /// Begins a sync of all that was appended, or of the syncing worker's request alone.
    pub(super) fn begin_sync(&mut self, setup: &LogSetup, now: u64, has_volatile_cache: bool) {
        if setup.group_commit {
            self.commits.begin_sync();
        } else {
            self.commits.begin_sync_of_leader_alone();
        }
        let lengths = self.commits.range_of_sync();
        self.steps = DiskSteps::for_sync(setup, lengths, has_volatile_cache);
        self.began = Some(now);
    }
}

/// State of a background writer.
#[derive(Clone, Debug, Default)]
pub(super) struct BackgroundState {
    /// What the present round has to do yet.
    pub(super) steps: DiskSteps,
    /// Replies that belong to earlier rounds.
    replies_before: u64,
    /// Due writes and reads; a fraction waits for a later round.
    due_writes: f64,
    due_reads: f64,
    /// The thread while it sleeps until enough replies for a round.
    pub(super) sleeper: Option<TaskId>,
}

impl BackgroundState {
    /// Begins a round if one is due after so many replies of the server. Returns whether one is.
    pub(super) fn begin_due_round(
        &mut self,
        setup: &BackgroundSetup,
        replies: u64,
        has_volatile_cache: bool,
    ) -> bool {
        let new = replies - self.replies_before;
        let Some(replies_of_round) = setup.pause.replies_of_due_round(new) else {
            return false;
        };
        self.replies_before += replies_of_round;
        let added_writes = setup.writes_after_replies(replies_of_round);
        let writes = take_whole_calls(&mut self.due_writes, added_writes);
        let reads = take_whole_calls(&mut self.due_reads, setup.reads_per_round);
        self.steps = DiskSteps::for_round(setup, reads, writes, has_volatile_cache);
        true
    }

    /// Removes and returns the sleeping thread if a round is due after so many replies of the server.
    pub(super) fn take_sleeper_with_due_round(
        &mut self,
        setup: &BackgroundSetup,
        replies: u64,
    ) -> Option<TaskId> {
        let new = replies - self.replies_before;
        setup.pause.replies_of_due_round(new)?;
        self.sleeper.take()
    }
}

/// Adds calls to the due ones. Removes and returns whole calls for a round; a fraction is left.
fn take_whole_calls(due: &mut f64, added: f64) -> u64 {
    *due += added;
    let whole = due.floor().min(MOST_CALLS_OF_ROUND);
    *due -= whole;
    whole as u64
}

impl ServerState {
    /// A server that nobody has asked yet, on a machine with `cpus` CPUs.
    pub(super) fn new(setup: &ServerSetup, cpus: usize, random: &mut Streams) -> Self {
        let mut state = Self {
            at_card: vec![VecDeque::new(); cpus],
            background: vec![BackgroundState::default(); setup.background.len()],
            ..Self::default()
        };
        match &setup.arrivals {
            ArrivalSetup::Clients { clients, think, .. } => {
                // Clients do not begin all at once.
                for client in 0..*clients {
                    let first = random.draw_server_share() * think;
                    state.due.push(Reverse((first as u64, client)));
                }
            }
            ArrivalSetup::Open { .. } | ArrivalSetup::Recorded(_) => {
                state.schedule_next_open_arrival(setup, 0, random);
            }
        }
        state
    }

    /// Time in ns of the next arrival; `None` if none is known.
    pub(super) fn next_arrival(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((time, _))| *time)
    }

    /// Removes the first arrival that is due by `now`. Returns its client.
    pub(super) fn take_due_client(
        &mut self,
        setup: &ServerSetup,
        now: u64,
        random: &mut Streams,
    ) -> Option<u32> {
        let Reverse((time, client)) = *self.due.peek()?;
        if time > now {
            return None;
        }
        self.due.pop();
        self.arrivals += 1;
        self.schedule_next_open_arrival(setup, time, random);
        Some(client)
    }

    /// Adds the arrival after the one at `time` ns, if arrivals do not wait for replies.
    fn schedule_next_open_arrival(&mut self, setup: &ServerSetup, time: u64, random: &mut Streams) {
        let next = match &setup.arrivals {
            ArrivalSetup::Open { interval, spacing } => match spacing {
                // Counted from the start, so that no rounding adds up.
                Spacing::Fixed => Some((interval * (self.arrivals + 1) as f64).round() as u64),
                Spacing::Exponential => {
                    let gap = (interval * random.draw_server_ratio()).round();
                    Some(time.saturating_add((gap as u64).max(1)))
                }
            },
            ArrivalSetup::Recorded(times) => times.get(self.arrivals as usize).copied(),
            ArrivalSetup::Clients { .. } => None,
        };
        self.due.extend(next.map(|at| Reverse((at, 0))));
    }

    /// Draws the next request of a client that is a worker itself, on the CPU where it runs. `None`: other clients ask by the network.
    pub(super) fn draw_next_request_in_process(
        &mut self,
        setup: &ServerSetup,
        client: u32,
        (cpu, now): (CpuId, u64),
        random: &mut Streams,
    ) -> Option<ServerRequest> {
        if !setup.has_clients_in_process() {
            return None;
        }
        self.arrivals += 1;
        self.totals.arrived += u64::from(now >= setup.warm_up);
        Some(ServerRequest::draw(setup, client, (cpu, now), random))
    }

    /// Lets a client think after its reply at `now`. Returns whether there is anything new to wait for.
    pub(super) fn let_client_think(
        &mut self,
        setup: &ServerSetup,
        client: u32,
        now: u64,
        random: &mut Streams,
    ) -> bool {
        let ArrivalSetup::Clients {
            think,
            spacing,
            in_process: false,
            ..
        } = setup.arrivals
        else {
            return false;
        };
        let pause = draw_around_mean(think, spacing, random).round() as u64;
        let at = now.saturating_add(pause);
        self.due.push(Reverse((at, client)));
        true
    }

    /// The CPU that the request of a client interrupts: always the same for one client, any for open arrivals.
    pub(super) fn choose_interrupted_cpu(
        setup: &ServerSetup,
        client: u32,
        random: &mut Streams,
    ) -> CpuId {
        let index = match setup.arrivals {
            ArrivalSetup::Clients { .. } => client as usize % setup.cpus.len(),
            _ if setup.cpus.len() == 1 => 0,
            _ => random.draw_server_choice(setup.cpus.len()),
        };
        setup.cpus[index]
    }

    /// Adds a request that no worker takes now. If there is no room, the request is refused.
    pub(super) fn add_waiting_or_refuse(&mut self, request: ServerRequest, counts: bool) {
        if self.queue.len() >= MOST_WAITING {
            self.totals.refused += u64::from(counts);
            return;
        }
        self.queue.push_back(request);
        self.totals.most_waiting = self.totals.most_waiting.max(self.queue.len());
    }

    /// What a thread has to write and flush yet; of a worker, and of the log's thread, the present sync.
    pub(super) fn disk_steps_of_role(&mut self, role: ServerRole) -> &mut DiskSteps {
        match role {
            ServerRole::Worker(_) | ServerRole::Log => &mut self.log.steps,
            ServerRole::Background(writer) => &mut self.background[writer].steps,
        }
    }

    /// Totals at the end of the run.
    pub(in crate::task) fn totals_at_end(&self) -> ServerTotals {
        ServerTotals {
            waiting: self.queue.len(),
            ..self.totals
        }
    }
}

impl ServerRequest {
    /// A request that arrives at `now` and interrupts `cpu`, with all that is random about it.
    pub(super) fn draw(
        setup: &ServerSetup,
        client: u32,
        (cpu, now): (CpuId, u64),
        random: &mut Streams,
    ) -> Self {
        let kind = RequestKind::Plain;
        let work = setup.work.draw_work(random).max(1);
        let reply = setup.reply.draw_work(random);
        let mut kinds_of_calls = 0;
        for (index, call) in setup.calls.iter().enumerate() {
            kinds_of_calls |= u32::from(call.draw_is_made(random)) << index;
        }
        Self {
            way: Request::new_with_submission_begun((cpu, 0), Direction::Read, kind, 0, now),
            client,
            work,
            reply,
            kinds_of_calls,
            kind: 0,
            submitted: 0,
            in_flight: Vec::new(),
            wakes_worker: false,
            step_work: 0,
            replying: false,
            commit: if setup.requests_wait_for_log() {
                Commit::Ahead
            } else {
                Commit::NotNeeded
            },
        }
    }

    /// Goes on to the next kind of disk calls that the request makes, from the present kind on. `None`: there is none left.
    pub(super) fn next_kind_of_calls(&mut self, kinds: usize) -> Option<usize> {
        while self.kind < kinds {
            if self.kinds_of_calls >> self.kind & 1 == 1 {
                return Some(self.kind);
            }
            self.kind += 1;
        }
        None
    }
}
