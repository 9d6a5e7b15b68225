//! The contents of a server file.

use serde::Serialize;
use wakepath_units::Nanoseconds;

use super::figure::ServerFigure;
use super::log::{AppendLog, BackgroundWriter, RoundStart};

/// Longest time for which a server is simulated, in seconds.
pub const MAX_SECONDS: f64 = 600.0;

/// Most arrival times in a recording.
pub const MAX_TIMES: usize = 1_000_000;

/// Most `[[request.disk]]` tables.
pub const MAX_CALL_KINDS: usize = 16;

/// A request server: who asks, what a request costs, and who works.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerFile {
    /// Name of the server in tables and messages.
    pub name: String,
    /// Worker threads, 1 to 1024. Each serves one request at a time; requests wait for a free worker in the order of arrival.
    pub workers: u32,
    /// How long requests arrive, without the warm-up: more than 0, at most [`MAX_SECONDS`].
    pub duration: Nanoseconds,
    /// Uncounted time before: requests that end earlier are left out of all figures.
    pub warm_up: Nanoseconds,
    /// Limit on the counted time, set by a caller. Never set by a file.
    pub at_most: Option<Nanoseconds>,
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// CPUs that the network interrupts, ascending; empty: all. Each request interrupts one of them.
    pub interrupt_cpus: Vec<usize>,
    /// CPU work of a request before its disk calls, at least a cycle.
    pub work: CpuWork,
    /// CPU work of a request after its disk calls.
    pub reply: CpuWork,
    /// Disk calls in order; at most [`MAX_CALL_KINDS`].
    pub calls: Vec<DiskCall>,
    /// A file to which each request appends.
    pub log: Option<AppendLog>,
    /// Threads that write beside the requests; at most [`MAX_BACKGROUND_WRITERS`](super::MAX_BACKGROUND_WRITERS).
    pub background: Vec<BackgroundWriter>,
}

/// Figures of a server are finite, so that equality is an equivalence.
impl Eq for ServerFile {}

/// When requests arrive.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// At a rate, whatever the server does.
    Open {
        /// Requests per second, 0.001 to 10 million.
        rate: ServerFigure,
        /// Whether the time between two arrivals is always the same, or exponential (a Poisson process).
        spacing: Spacing,
    },
    /// At recorded times.
    Recorded {
        /// Times since the first arrival, ascending, the first 0; at most [`MAX_TIMES`].
        times: Vec<Nanoseconds>,
    },
    /// From clients, each of which waits for its reply and thinks before it asks again.
    Clients {
        /// Number of clients, 1 to 100,000.
        clients: u32,
        /// Time between a reply and the same client's next request, in us, 0 to 1e9.
        think_us: ServerFigure,
        /// Whether that time is always the same, or exponential with this mean.
        spacing: Spacing,
        /// Whether clients are the server's own threads, as with SQLite: each worker is a client and goes on at once after its reply,
        /// without an interrupt. There are as many workers as clients then, and `think_us` is 0.
        in_process: bool,
    },
}

/// Distribution of a time or of an amount of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Always the mean.
    #[default]
    Fixed,
    /// Exponential with this mean.
    Exponential,
}

/// CPU work of one request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CpuWork {
    /// Mean work.
    pub mean: CpuAmount,
    /// Distribution of the work.
    pub spacing: Spacing,
}

/// An amount of CPU work.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuAmount {
    /// Thousands of cycles on the machine's biggest core.
    Kilocycles(ServerFigure),
    /// Time on the machine's biggest core.
    Time {
        /// Time in us.
        us: ServerFigure,
        /// Clock in MHz that the time was taken at; `None`: the machine's highest.
        at_mhz: Option<f64>,
    },
}

impl CpuAmount {
    /// The figure of the amount.
    pub const fn figure(&self) -> &ServerFigure {
        match self {
            Self::Kilocycles(figure) | Self::Time { us: figure, .. } => figure,
        }
    }

    /// The key that fits the amount's unit.
    const fn key(&self, time: &'static str, kilocycles: &'static str) -> &'static str {
        match self {
            Self::Kilocycles(_) => kilocycles,
            Self::Time { .. } => time,
        }
    }

    /// Cycles of the amount, on a machine whose highest frequency is `highest_khz`.
    pub fn cycles(&self, highest_khz: u32) -> f64 {
        match self {
            Self::Kilocycles(figure) => figure.value * 1e3,
            Self::Time { us, at_mhz } => us.value * at_mhz.unwrap_or(f64::from(highest_khz) / 1e3),
        }
    }
}

/// Direction of a disk call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallDirection {
    /// From the disk.
    Read,
    /// To the disk.
    Write,
}

/// Calls to the disk that a request makes, and for which its worker waits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskCall {
    /// Direction.
    pub direction: CallDirection,
    /// Bytes of each call: 512 to 64 MiB, a multiple of 512.
    pub bytes: u64,
    /// Whether the call passes the page cache by. Without, each page of a read is copied; a write has to be direct.
    pub direct: bool,
    /// Number of calls, 1 to 256.
    pub calls: u32,
    /// Whether all calls are submitted before the worker waits; otherwise each waits for the one before.
    pub together: bool,
    /// Share of the requests that make these calls, above 0 to 1. Others find their data in memory.
    pub share: ServerFigure,
}

impl ServerFile {
    /// Figures that were assumed: key and reason, in the file's order.
    pub fn assumed_figures(&self) -> Vec<(&'static str, &str)> {
        (self.figures().into_iter())
            .filter_map(|(key, figure)| Some((key, figure.assumed_because()?)))
            .collect()
    }

    /// All figures that have an origin: key and figure, in the file's order. A key comes once for each of several tables.
    pub fn figures(&self) -> Vec<(&'static str, &ServerFigure)> {
        let arrivals = match &self.arrivals {
            Arrivals::Open { rate, .. } => Some(("arrivals.rate", rate)),
            Arrivals::Clients { think_us, .. } => Some(("arrivals.think_us", think_us)),
            Arrivals::Recorded { .. } => None,
        };
        let request = [
            (
                self.work
                    .mean
                    .key("request.work_us", "request.work_kcycles"),
                self.work.mean.figure(),
            ),
            (
                self.reply
                    .mean
                    .key("request.reply_us", "request.reply_kcycles"),
                self.reply.mean.figure(),
            ),
        ];
        let calls = self
            .calls
            .iter()
            .map(|call| ("request.disk.share", &call.share));
        let log = (self.log.iter()).flat_map(|log| {
            let journal = log.journal.iter().flat_map(|journal| {
                [
                    ("log.journal.bytes", &journal.bytes),
                    ("log.journal.commit_bytes", &journal.commit_bytes),
                ]
            });
            let file = [
                ("log.bytes", &log.bytes),
                ("log.block_bytes", &log.block_bytes),
                ("log.largest_write_bytes", &log.largest_write_bytes),
                ("log.work_us", &log.work_us),
            ];
            file.into_iter().chain(journal)
        });
        let background = self.background.iter().flat_map(|writer| {
            let rounds = match &writer.rounds {
                RoundStart::AfterSeconds(figure) => ("background.every_s", figure),
                RoundStart::AfterReplies(figure) => ("background.every_requests", figure),
            };
            let reads = writer.reads.iter().flat_map(|reads| {
                [
                    ("background.reads", &reads.reads),
                    ("background.read_bytes", &reads.bytes),
                ]
            });
            let writes = [
                rounds,
                ("background.writes", writer.writes.key_and_figure().1),
                ("background.bytes", &writer.bytes),
            ];
            let work = [("background.work_us", &writer.work_us)];
            writes.into_iter().chain(reads).chain(work)
        });
        (arrivals.into_iter().chain(request).chain(calls))
            .chain(log)
            .chain(background)
            .collect()
    }

    /// Whether the server's clients are its own threads.
    pub const fn has_clients_in_process(&self) -> bool {
        matches!(
            self.arrivals,
            Arrivals::Clients {
                in_process: true,
                ..
            }
        )
    }

    /// Requests per second that arrive whatever the server does; `None` with clients, who wait.
    pub fn open_rate(&self) -> Option<f64> {
        match &self.arrivals {
            Arrivals::Open { rate, .. } => Some(rate.value),
            Arrivals::Recorded { times } => {
                let last = times.last()?.as_secs_f64();
                Some(times.len() as f64 / last)
            }
            Arrivals::Clients { .. } => None,
        }
    }

    /// Time for which requests are counted: the duration, or less if a caller says so.
    pub fn counted_time(&self) -> Nanoseconds {
        self.at_most
            .map_or(self.duration, |most| most.min(self.duration))
    }
}
