//! What a server writes beside its requests' own disk calls: the log that requests append to, and writers in the background.

use serde::Serialize;
use wakepath_units::Nanoseconds;

use super::figure::ServerFigure;

/// Most `[[background]]` tables.
pub const MAX_BACKGROUND_WRITERS: usize = 8;

/// Highest and default limit for a background writer's reads and writes in flight.
pub const MAX_BACKGROUND_DEPTH: u32 = 32;

/// A file to which each request appends, synced with one flush for all that was appended since the last sync.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AppendLog {
    /// Bytes that each request appends, 1 to 1 MiB.
    pub bytes: ServerFigure,
    /// When the file is synced.
    pub sync: LogSync,
    /// Bytes of a block, 512 to 1 MiB. A sync writes whole blocks, and writes a block again that was partly full before.
    pub block_bytes: ServerFigure,
    /// Most bytes of a write: 4096 to 64 MiB. The block layer cuts what is longer.
    pub largest_write_bytes: ServerFigure,
    /// CPU work in us of whoever syncs, before the writes of each sync, 0 to 10 million, on the machine's biggest core at its highest
    /// frequency.
    pub work_us: ServerFigure,
    /// Whether requests that wait at the same time share a sync. Without, each has a sync of its own, one after the other. Always true
    /// for a log that a thread syncs.
    pub group_commit: bool,
    /// What the file system's journal writes in a sync; `None`: nothing.
    pub journal: Option<LogJournal>,
}

/// When a server's log is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogSync {
    /// Each request waits before its reply until its bytes are on the media. The first one to wait syncs the log; others that come
    /// meanwhile share the next sync (group commit).
    Each,
    /// A thread syncs the log so long after its last sync; no request waits. 10 ms to 600 s.
    Every(Nanoseconds),
}

/// Writes of the file system's journal that belong to a sync: a flush comes before the commit block and another one after it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogJournal {
    /// Which syncs need the journal.
    pub when: JournaledSyncs,
    /// Bytes of descriptors and changed metadata, written at once: 512 to 1 MiB.
    pub bytes: ServerFigure,
    /// Bytes of the commit block, written last, and of each block of the file system: 512 to 1 MiB.
    pub commit_bytes: ServerFigure,
}

/// Syncs of a log that need the file system's journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JournaledSyncs {
    /// Every sync: the file grows with each append.
    #[default]
    Each,
    /// Syncs that write a block of the file system for the first time: the file was allocated and never written.
    NewBlock,
}

/// A thread that writes in rounds, beside the requests: a checkpointer, a store's commits in batches, a compaction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BackgroundWriter {
    /// When a round begins.
    pub rounds: RoundStart,
    /// Number of writes.
    pub writes: RoundWrites,
    /// Bytes of each write: 512 to 64 MiB, a multiple of 512.
    pub bytes: ServerFigure,
    /// Reads of each round, spread evenly among its writes; `None`: none.
    pub reads: Option<RoundReads>,
    /// Most reads and writes in flight, 1 to [`MAX_BACKGROUND_DEPTH`].
    pub depth: u32,
    /// CPU work in us before each read or write, 0 to 10 million, on the machine's biggest core at its highest frequency.
    pub work_us: ServerFigure,
    /// Flushes that end a round, 0 to 16.
    pub flushes: u32,
}

/// When a background writer begins a round.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundStart {
    /// So many seconds after the end of the last round, 0.001 to 600. A round without a new reply since the last one is left out.
    AfterSeconds(ServerFigure),
    /// After each so many replies, 1 to 1e9, rounded. A late round begins right after the last.
    AfterReplies(ServerFigure),
}

impl RoundStart {
    /// The key in a file, and the figure.
    pub(super) const fn key_and_figure(&self) -> (&'static str, &ServerFigure) {
        match self {
            Self::AfterSeconds(figure) => ("every_s", figure),
            Self::AfterReplies(figure) => ("every_requests", figure),
        }
    }
}

/// Reads of a background writer's round: what a compaction merges.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoundReads {
    /// Reads in each round, 0 to 10,000. A fraction is kept for the next round.
    pub reads: ServerFigure,
    /// Bytes of each read: 512 to 64 MiB, a multiple of 512.
    pub bytes: ServerFigure,
}

/// How many writes a background writer makes. A fraction is kept for the next round.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoundWrites {
    /// So many in each round, 0 to 10,000.
    PerRound(ServerFigure),
    /// So many for each reply since the last round, 0 to 100.
    PerRequest(ServerFigure),
}

impl RoundWrites {
    /// The key in a file, and the figure.
    pub(super) const fn key_and_figure(&self) -> (&'static str, &ServerFigure) {
        match self {
            Self::PerRound(figure) => ("writes", figure),
            Self::PerRequest(figure) => ("writes_per_request", figure),
        }
    }
}
