//! A server, compiled into cycles and nanoseconds.

use wakepath_hardware::Machine;
use wakepath_workloads::server::{
    AppendLog, Arrivals, BackgroundWriter, CallDirection, CpuWork, JournaledSyncs, LogSync,
    RoundStart, RoundWrites, ServerFile, Spacing,
};

use crate::block::cost::BLOCK;
use crate::core::basics::{CpuId, Cycles, Direction};
use crate::core::random::Streams;
use crate::error::SimError;

/// Most work in cycles of one step of a request: some minutes.
const MOST_WORK: f64 = 1e12;

/// Longest time in ns after the last recorded arrival for which a run waits for replies.
const LONGEST_WAIT_FOR_REPLIES: u64 = 10_000_000_000;

/// A server's figures.
#[derive(Clone, Debug)]
pub(crate) struct ServerSetup {
    pub(super) name: String,
    pub(super) workers: u32,
    /// Time in ns from which on requests count.
    pub(super) warm_up: u64,
    /// Time in ns up to which requests arrive.
    pub(super) end: u64,
    /// Number of recorded arrivals, if all of them come: the run ends when each has its reply.
    pub(super) awaited_replies: Option<u64>,
    pub(super) arrivals: ArrivalSetup,
    /// CPUs that the network interrupts.
    pub(super) cpus: Vec<CpuId>,
    pub(super) work: WorkSetup,
    pub(super) reply: WorkSetup,
    pub(super) calls: Vec<CallSetup>,
    pub(super) log: Option<LogSetup>,
    pub(super) background: Vec<BackgroundSetup>,
}

/// When requests arrive, in ns.
#[derive(Clone, Debug)]
pub(super) enum ArrivalSetup {
    /// At a rate, with so many ns from one arrival to the next.
    Open { interval: f64, spacing: Spacing },
    /// At these times.
    Recorded(Vec<u64>),
    /// From so many clients, each of which asks again so long after its reply.
    Clients {
        clients: u32,
        think: f64,
        spacing: Spacing,
        /// Whether clients are workers that go on at once, without an interrupt.
        in_process: bool,
    },
}

/// Work of a step of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkSetup {
    /// Mean work in cycles.
    mean: f64,
    spacing: Spacing,
}

impl WorkSetup {
    fn new(work: &CpuWork, highest_khz: u32) -> Self {
        Self {
            mean: work.mean.cycles(highest_khz).min(MOST_WORK),
            spacing: work.spacing,
        }
    }

    /// Draws the work of one request in cycles; fixed work draws nothing.
    pub(super) fn draw_work(&self, random: &mut Streams) -> Cycles {
        let work = draw_around_mean(self.mean, self.spacing, random);
        work.min(MOST_WORK).round() as Cycles
    }
}

/// Cycles of so many us at the highest frequency.
fn cycles_of_time(us: f64, highest_khz: u32) -> Cycles {
    let cycles = us * f64::from(highest_khz) / 1e3;
    cycles.min(MOST_WORK).round() as Cycles
}

/// Draws an amount with a mean; a fixed amount, or none, draws nothing.
pub(super) fn draw_around_mean(mean: f64, spacing: Spacing, random: &mut Streams) -> f64 {
    match spacing {
        Spacing::Exponential if mean > 0.0 => mean * random.draw_server_ratio(),
        _ => mean,
    }
}

/// Disk calls of one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallSetup {
    pub(super) direction: Direction,
    pub(super) bytes: u64,
    /// Whether the page cache copies what was read.
    pub(super) copied: bool,
    pub(super) calls: u32,
    pub(super) together: bool,
    /// Share of the requests that make these calls, above 0 to 1.
    share: f64,
}

impl CallSetup {
    /// Draws whether a request makes these calls; if all do, nothing is drawn.
    pub(super) fn draw_is_made(&self, random: &mut Streams) -> bool {
        self.share >= 1.0 || random.draw_server_share() < self.share
    }
}

/// An append-only file.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogSetup {
    /// Bytes that each request appends.
    pub(super) bytes: u64,
    /// Time in ns between two syncs; `None`: each request waits for a sync.
    pub(super) interval: Option<u64>,
    /// Bytes of a block.
    pub(super) block: u64,
    /// Most bytes of a write.
    pub(super) largest_write: u64,
    /// CPU work before the writes of a sync.
    pub(super) work: Cycles,
    /// Whether requests that wait at the same time share a sync.
    pub(super) group_commit: bool,
    pub(super) journal: Option<JournalSetup>,
}

impl LogSetup {
    fn new(log: &AppendLog, highest_khz: u32) -> Self {
        Self {
            bytes: log.bytes.value.round() as u64,
            interval: match log.sync {
                LogSync::Each => None,
                LogSync::Every(interval) => Some(interval.0),
            },
            block: log.block_bytes.value as u64,
            largest_write: log.largest_write_bytes.value as u64,
            work: cycles_of_time(log.work_us.value, highest_khz),
            group_commit: log.group_commit,
            journal: log.journal.as_ref().map(|journal| JournalSetup {
                only_new_blocks: journal.when == JournaledSyncs::NewBlock,
                metadata: journal.bytes.value as u64,
                commit: journal.commit_bytes.value as u64,
            }),
        }
    }
}

/// What the file system's journal writes in a sync.
#[derive(Clone, Copy, Debug)]
pub(super) struct JournalSetup {
    /// Whether only syncs that write a new block need the journal.
    pub(super) only_new_blocks: bool,
    /// Bytes before the commit block, and of the commit block, which is a block of the file system.
    pub(super) metadata: u64,
    pub(super) commit: u64,
}

/// A thread that writes in rounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackgroundSetup {
    pub(super) pause: RoundPause,
    pub(super) writes_per_round: f64,
    pub(super) writes_per_request: f64,
    /// Bytes of a write.
    pub(super) bytes: u64,
    /// Reads of a round, and bytes of each.
    pub(super) reads_per_round: f64,
    pub(super) read_bytes: u64,
    /// Most reads and writes in flight.
    pub(super) depth: u32,
    /// CPU work before each read or write.
    pub(super) work: Cycles,
    pub(super) flushes: u32,
}

/// The pause between two rounds of a background writer.
#[derive(Clone, Copy, Debug)]
pub(super) enum RoundPause {
    /// So many ns after the end of a round.
    Time(u64),
    /// So many replies after the last round was due; at least 1.
    Replies(u64),
}

impl RoundPause {
    /// A due round's share of the `new` replies since the last round; `None`: no round is due.
    pub(super) fn replies_of_due_round(self, new: u64) -> Option<u64> {
        match self {
            Self::Time(_) => (new > 0).then_some(new),
            Self::Replies(replies) => (new >= replies).then_some(replies),
        }
    }
}

impl BackgroundSetup {
    fn new(writer: &BackgroundWriter, highest_khz: u32) -> Self {
        let (writes_per_round, writes_per_request) = match &writer.writes {
            RoundWrites::PerRound(writes) => (writes.value, 0.0),
            RoundWrites::PerRequest(writes) => (0.0, writes.value),
        };
        let (reads_per_round, read_bytes) = match &writer.reads {
            Some(reads) => (reads.reads.value, reads.bytes.value as u64),
            None => (0.0, 0),
        };
        Self {
            pause: match &writer.rounds {
                RoundStart::AfterSeconds(seconds) => {
                    RoundPause::Time((seconds.value * 1e9).round() as u64)
                }
                RoundStart::AfterReplies(replies) => {
                    RoundPause::Replies((replies.value.round() as u64).max(1))
                }
            },
            writes_per_round,
            writes_per_request,
            bytes: writer.bytes.value as u64,
            reads_per_round,
            read_bytes,
            depth: writer.depth,
            work: cycles_of_time(writer.work_us.value, highest_khz),
            flushes: writer.flushes,
        }
    }

    /// Mean number of writes of a round after so many replies.
    pub(super) fn writes_after_replies(&self, replies: u64) -> f64 {
        self.writes_per_round + self.writes_per_request * replies as f64
    }
}

impl ServerSetup {
    /// Compiles a server for a machine whose highest frequency is `highest_khz`.
    ///
    /// # Errors
    /// The network is to interrupt a CPU that the machine does not have; the drive's rate or time of a flush is needed and not known.
    pub(crate) fn new(
        file: &ServerFile,
        machine: &Machine,
        highest_khz: u32,
    ) -> Result<Self, SimError> {
        check_machine_has_what_server_needs(file, machine).map_err(|what| SimError::Workload {
            job: file.name.clone(),
            what,
        })?;
        let calls = file.calls.iter().map(|call| CallSetup {
            direction: match call.direction {
                CallDirection::Read => Direction::Read,
                CallDirection::Write => Direction::Write,
            },
            bytes: call.bytes,
            copied: !call.direct,
            calls: call.calls,
            together: call.together,
            share: call.share.value,
        });
        let mut cpus = file.interrupt_cpus.clone();
        if cpus.is_empty() {
            cpus.extend(0..machine.cpus());
        }
        let end = file.warm_up.0.saturating_add(file.counted_time().0);
        let awaited_replies = match &file.arrivals {
            Arrivals::Recorded { times } => (times.last())
                .filter(|last| last.0 <= end)
                .map(|_| times.len() as u64),
            Arrivals::Open { .. } | Arrivals::Clients { .. } => None,
        };
        Ok(Self {
            name: file.name.clone(),
            workers: file.workers,
            warm_up: file.warm_up.0,
            end,
            awaited_replies,
            arrivals: ArrivalSetup::new(&file.arrivals),
            cpus,
            work: WorkSetup::new(&file.work, highest_khz),
            reply: WorkSetup::new(&file.reply, highest_khz),
            calls: calls.collect(),
            log: (file.log.as_ref()).map(|log| LogSetup::new(log, highest_khz)),
            background: (file.background.iter())
                .map(|writer| BackgroundSetup::new(writer, highest_khz))
                .collect(),
        })
    }

    /// Whether each request waits until its part of the log is on the media.
    pub(super) fn requests_wait_for_log(&self) -> bool {
        self.log.is_some_and(|log| log.interval.is_none())
    }

    /// Whether clients are workers that go on at once after a reply.
    pub(super) fn has_clients_in_process(&self) -> bool {
        matches!(
            self.arrivals,
            ArrivalSetup::Clients {
                in_process: true,
                ..
            }
        )
    }

    /// Begin and end in ns of the time in which requests arrive and count.
    pub(crate) fn span_with_counted_requests(&self) -> (u64, u64) {
        (self.warm_up, self.end)
    }

    /// Time in ns when the warm-up ends; `None` without one.
    pub(crate) fn end_of_warm_up(&self) -> Option<u64> {
        (self.warm_up > 0).then_some(self.warm_up)
    }

    /// Latest time in ns when the run ends.
    pub(crate) fn latest_end_of_run(&self) -> u64 {
        let wait = self.awaited_replies.map_or(0, |_| LONGEST_WAIT_FOR_REPLIES);
        self.end.saturating_add(wait)
    }
}

/// Checks that the machine has the CPUs that a server names, and that the drive's figures are known.
fn check_machine_has_what_server_needs(file: &ServerFile, machine: &Machine) -> Result<(), String> {
    let (cpus, drive) = (machine.cpus(), &machine.drive);
    if let Some(cpu) = file.interrupt_cpus.iter().find(|cpu| **cpu >= cpus) {
        let last = cpus.saturating_sub(1);
        return Err(format!(
            "network interrupts at CPU {cpu}: the machine has CPUs 0 to {last}"
        ));
    }
    for (needed, key, rate) in [
        (
            makes_large_calls(file, CallDirection::Read) || reads_much_in_background(file),
            "read_mb_per_s",
            &drive.read_mb_per_s,
        ),
        (
            makes_large_calls(file, CallDirection::Write)
                || file.log.is_some()
                || !file.background.is_empty(),
            "write_mb_per_s",
            &drive.write_mb_per_s,
        ),
    ] {
        if needed && rate.value <= 0.0 {
            return Err(format!(
                "calls of more than 4096 bytes, a [log] or [[background]], on a drive whose rate is not known; give drive.{key} \
                 in the machine's file"
            ));
        }
    }
    let flushes = file.background.iter().any(|writer| writer.flushes > 0);
    if (file.log.is_some() || flushes) && !drive.flush_us.is_given() {
        let what = if file.log.is_some() {
            "a [log]"
        } else {
            "flushes of [[background]]"
        };
        return Err(format!(
            "{what} on a drive whose time of a flush is not known. Give drive.flush_us in the machine's file, 0 for a \
             drive without a volatile cache"
        ));
    }
    Ok(())
}

/// Whether a server makes calls of more than the 4 KiB for which a drive's service times hold.
fn makes_large_calls(file: &ServerFile, direction: CallDirection) -> bool {
    (file.calls.iter()).any(|call| call.direction == direction && call.bytes > BLOCK)
}

/// Whether a background writer reads more than 4 KiB at once: a drive's service times hold for 4 KiB.
fn reads_much_in_background(file: &ServerFile) -> bool {
    (file.background.iter())
        .filter_map(|writer| writer.reads.as_ref())
        .any(|reads| reads.bytes.value as u64 > BLOCK)
}

impl ArrivalSetup {
    fn new(arrivals: &Arrivals) -> Self {
        match arrivals {
            Arrivals::Open { rate, spacing } => Self::Open {
                interval: 1e9 / rate.value,
                spacing: *spacing,
            },
            Arrivals::Recorded { times } => {
                Self::Recorded(times.iter().map(|time| time.0).collect())
            }
            Arrivals::Clients {
                clients,
                think_us,
                spacing,
                in_process,
            } => Self::Clients {
                clients: *clients,
                think: think_us.value * 1e3,
                spacing: *spacing,
                in_process: *in_process,
            },
        }
    }
}
