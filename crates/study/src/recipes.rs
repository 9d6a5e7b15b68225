//! Recipes: built-in workloads that stand for programs which people run, each with what to look at and a study that has it.
//!
//! The workloads' files have the figures with their origins. Two tables say what programs really asked of a disk, and what the recipes ask
//! in a simulation: `docs/background/data`, of which `data/measured` is a link.

use crate::builtin;

/// CSV table of the calls to the disk that real programs made for an operation, as `scripts/recipes.py` counted them.
pub const COUNTED_CALLS: &str = include_str!("../data/measured/recipes.csv");

/// CSV table of the calls to the disk that the recipes make for a request, simulated on two CPUs and, if the program was counted, on a drive with
/// the counted times of a write and a flush. A test of the simulator holds it.
pub const SIMULATED_CALLS: &str = include_str!("../data/measured/recipes-simulated.csv");

/// A built-in workload that stands for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Name of the built-in workload, with its ending.
    pub file: &'static str,
    /// Title; it ends in "(assumed)" if no real program was set beside the recipe.
    pub title: &'static str,
    /// What one request or operation is.
    pub operation: &'static str,
    /// Name of a machine on which the recipe tells something.
    pub machine: &'static str,
    /// Name of the built-in study that runs the recipe.
    pub study: &'static str,
    /// Name of the recipe among that study's workloads.
    pub cell: &'static str,
    /// What a result tells, in a sentence or two.
    pub look: &'static str,
}

impl Recipe {
    /// The name without its ending.
    pub fn name(&self) -> &'static str {
        name_without_ending(self.file)
    }

    /// Whether no real program was set beside the recipe.
    pub fn is_assumed(&self) -> bool {
        self.title.ends_with("(assumed)")
    }
}

/// All recipes: those that were set beside a real program first.
pub const RECIPES: &[Recipe] = &[
    Recipe {
        file: "postgres-commit.toml",
        title: "PostgreSQL commits",
        operation: "a transaction of pgbench's simple-update",
        machine: "skylake-2s-server",
        study: "recipes",
        cell: "PostgreSQL commits",
        look: "Commits per second and flushes a commit: with more clients, more of them share a flush. A wake-up from deep idle lies on the way of \
               each flush, so `psd` gains most with one client on a drive with power-loss protection.",
    },
    Recipe {
        file: "postgres-checkpoint.toml",
        title: "PostgreSQL commits beside checkpoints",
        operation: "a transaction of pgbench's simple-update, with its part of the checkpoint",
        machine: "skylake-2s-server",
        study: "recipes",
        cell: "PostgreSQL beside checkpoints",
        look: "The p99 of a commit: the checkpoint's writes come before it in the drive. The mean hardly tells.",
    },
    Recipe {
        file: "mariadb-commit.toml",
        title: "MariaDB commits",
        operation: "a transaction of sysbench that updates a row",
        machine: "skylake-2s-server",
        study: "recipes",
        cell: "MariaDB commits",
        look: "Writes and flushes a commit: the log is O_DIRECT in blocks of 512 bytes, and ext4's journal adds three calls whenever a new block \
               begins.",
    },
    Recipe {
        file: "sqlite-insert.toml",
        title: "SQLite inserts, in WAL mode",
        operation: "a transaction that inserts a row",
        machine: "skylake-2s-server",
        study: "recipes",
        cell: "SQLite inserts",
        look: "Transactions per second: one process waits for one flush, so the CPU's clock and its wake-up count in full.",
    },
    Recipe {
        file: "etcd-put.toml",
        title: "etcd puts",
        operation: "a put of `etcdctl check perf --load=s`",
        machine: "skylake-2s-server",
        study: "recipes",
        cell: "etcd puts",
        look: "The p99 of a put at a fixed rate. CPUs are idle for milliseconds between puts, and sleep as deeply as they may.",
    },
    Recipe {
        file: "rocksdb-fillsync.toml",
        title: "RocksDB synced puts",
        operation: "a put of db_bench's fillsync",
        machine: "skylake-2s-server",
        study: "recipes",
        cell: "RocksDB synced puts",
        look: "Writes and flushes a put: the log grows with each put, so ext4's journal doubles the flushes. Clients share them.",
    },
    Recipe {
        file: "rocksdb-compaction.toml",
        title: "RocksDB beside compaction",
        operation: "a get or a put of db_bench",
        machine: "skylake-2s-server",
        study: "recipes",
        cell: "RocksDB beside compaction",
        look: "The p99 of an operation: reads wait behind the writes of compaction, which make 7.5 bytes of each.",
    },
    Recipe {
        file: "nginx-static.toml",
        title: "nginx with files on the drive",
        operation: "a GET of wrk for 64 KiB, of which half are in memory",
        machine: "skylake-2s-server",
        study: "recipes",
        cell: "nginx with files on the drive",
        look: "Worker wait: a worker that reads from the drive serves nobody else meanwhile.",
    },
    Recipe {
        file: "redis-everysec.toml",
        title: "Redis with a file synced each second",
        operation: "a SET with `appendfsync everysec`",
        machine: "skylake-2s-server",
        study: "recipes",
        cell: "Redis synced each second",
        look: "Latency and worker wait of a single busy thread; the drive is used once a second and sleeps between.",
    },
    Recipe {
        file: "etcd-disk.fio",
        title: "etcd's check of a disk (assumed)",
        operation: "a write of 2,300 bytes with its fdatasync",
        machine: "laptop",
        study: "recipes",
        cell: "etcd's check of a disk",
        look: "The p99 of fdatasync, which etcd wants below 10 ms. The job is etcd's own; how the file system answers it is the model's.",
    },
    Recipe {
        file: "ceph-osd-assumed.toml",
        title: "Ceph OSD (assumed)",
        operation: "a write of 4 KiB to an object",
        machine: "skylake-2s-server",
        study: "recipes",
        cell: "Ceph OSD (assumed)",
        look: "Mean and p99 of a write: two calls one after the other, the data and the log that says where they are.",
    },
    Recipe {
        file: "build-assumed.toml",
        title: "Parallel build (assumed)",
        operation: "a source file compiled",
        machine: "skylake-2s-server",
        study: "recipes",
        cell: "Build (assumed)",
        look: "Files per second and energy a file: CPUs are the limit, and what saves I/O latency gains nothing here.",
    },
    Recipe {
        file: "office-day-assumed.json",
        title: "Light office day on a laptop (assumed)",
        operation: "a second of the day",
        machine: "laptop",
        study: "recipes",
        cell: "Office day (assumed)",
        look: "Mean power, and the drive's states: what a policy gains in latency here nobody notices, and what it costs empties the battery.",
    },
    Recipe {
        file: "dbench-assumed.toml",
        title: "dbench (assumed)",
        operation: "a commit of a file server's client",
        machine: "xeon-e3-1240v5",
        study: "hwp-boost",
        cell: "dbench4, 8 clients",
        look: "Commits per second with and without HWP boost: CPU work of a commit holds up all clients, and the clock is low while they wait.",
    },
    Recipe {
        file: "sqlite-assumed.toml",
        title: "SQLite inserts of a published benchmark (assumed)",
        operation: "a transaction that inserts a row",
        machine: "xeon-e3-1240v5",
        study: "hwp-boost",
        cell: "sqlite inserts",
        look: "Transactions per second with and without HWP boost. `sqlite-insert` is SQLite as it was counted.",
    },
    Recipe {
        file: "pgbench-assumed.toml",
        title: "pgbench, read and write (assumed)",
        operation: "a transaction of pgbench's default mix",
        machine: "xeon-e3-1240v5",
        study: "hwp-boost",
        cell: "pgbench read/write, 8 clients",
        look: "Transactions per second by clients: HWP boost gains more with more clients, although they share flushes.",
    },
    Recipe {
        file: "pgbench-read-assumed.json",
        title: "pgbench, read only (assumed)",
        operation: "a transaction",
        machine: "xeon-e3-1240v5",
        study: "hwp-boost",
        cell: "pgbench read-only, 1 client",
        look: "That nothing changes: no task waits for I/O, so HWP boost has nothing to do.",
    },
    Recipe {
        file: "tbench-assumed.json",
        title: "tbench (assumed)",
        operation: "three requests of a client over loopback",
        machine: "intel-tbench-80t",
        study: "polling-tbench",
        cell: "8 clients",
        look: "Operations per second by how long idle CPUs poll: the answer comes within some microseconds.",
    },
];

/// The recipe of a built-in workload by its name, with or without ending; `None` if the workload is no recipe.
pub fn find_recipe(name: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|recipe| is_named(recipe.file, name))
}

/// Whether a name, with or without ending, names a file.
fn is_named(file: &str, name: &str) -> bool {
    file == name || name_without_ending(file) == name
}

fn name_without_ending(file: &str) -> &str {
    file.rsplit_once('.').map_or(file, |(stem, _)| stem)
}

/// What a built-in workload stands for: the comment at the beginning of its file, without marks and line breaks. Empty without one.
pub fn description_of_workload(text: &str) -> String {
    if let Some(rest) = text.trim_start().strip_prefix("/*") {
        let comment = rest.split_once("*/").map_or(rest, |(comment, _)| comment);
        return join_words(comment);
    }
    let lines = text.lines().map_while(|line| line.strip_prefix('#'));
    join_words(&lines.collect::<Vec<_>>().join(" "))
}

/// A text with one space between words.
pub fn join_words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The name of a built-in workload that somebody means: with its ending, or without if that is enough. `None` if there is no such workload.
pub fn resolve_workload_name(name: &str) -> Option<&'static str> {
    let mut fitting = builtin::workload_names().filter(|known| is_named(known, name));
    let found = fitting.next();
    found.filter(|found| *found == name || fitting.next().is_none())
}
