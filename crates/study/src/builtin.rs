//! Built-in studies and workloads by name, from `data/studies`, and from `data/workloads`, a link to the repository's folder.

/// Name, text.
type Files = &'static [(&'static str, &'static str)];

macro_rules! files {
    ($folder:literal, $ending:literal: $($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!($folder, $name, $ending)))),+]
    };
}

const STUDIES: Files = files!["../data/studies/", ".toml":
    "idle-governor", "iowait-boost", "apst-rule", "deep-idle-cost", "recipes",
    "polling-tbench", "iowait-rk3399", "rk3399-depth", "hwp-boost", "apst", "psd", "kernel-updates",
];

const WORKLOADS: Files = files!["../data/workloads/", "":
    "apst-1.fio", "apst-2.fio", "apst-3.fio", "apst-4.fio", "apst-5.fio", "apst-6.fio",
    "apst-7.fio", "async-random.fio", "async-sequential.fio", "browser-like.json", "build-assumed.toml", "build-like.json",
    "ceph-osd-assumed.toml", "database-log-assumed.json", "dbench-assumed.toml",
    "desktop-at-rest.json", "etcd-disk.fio", "etcd-put.toml",
    "file-server-assumed.json", "fileio-like.fio", "hackbench-like.json", "idle.json", "iowait-rk3399.fio",
    "iowait-thinkcycles.fio", "mariadb-commit.toml", "netpipe-like.json", "nginx-static.toml",
    "office-day-assumed.json", "pgbench-assumed.toml", "pgbench-read-assumed.json", "ping-pong-20.json",
    "ping-pong-80.json", "ping-pong.json", "postgres-checkpoint.toml", "postgres-commit.toml",
    "psd-mixed.fio", "psd-randread.fio", "redis-everysec.toml", "redis-server.toml", "rk3399-depth.fio", "rocksdb-compaction.toml", "rocksdb-fillsync.toml", "schbench-like.json",
    "sqlite-assumed.toml", "sqlite-insert.toml",
    "tbench-assumed.json", "tiobench-like.fio", "vdbench-like.fio", "web-like.json", "web-server.toml", "worker-pool.json", "x264-like.json",
];

/// Text of the commented example that `study new` writes.
pub const EXAMPLE: &str = include_str!("../data/studies/example.toml");

fn text_of_builtin_file(files: Files, name: &str) -> Option<&'static str> {
    files
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// Built-in studies with published values, for `wakepath reproduce`.
pub const EXPERIMENTS: &[&str] = &[
    "polling-tbench",
    "iowait-rk3399",
    "rk3399-depth",
    "hwp-boost",
    "apst",
    "psd",
    "kernel-updates",
];

/// Text of the built-in study with a name; `None` if there is no such study.
pub fn study_text(name: &str) -> Option<&'static str> {
    text_of_builtin_file(STUDIES, name)
}

/// Names of the built-in studies, also those with published values.
pub fn study_names() -> impl Iterator<Item = &'static str> {
    STUDIES.iter().map(|(name, _)| *name)
}

/// Text of the built-in workload with a name; `None` if there is no such workload.
pub fn workload_text(name: &str) -> Option<&'static str> {
    text_of_builtin_file(WORKLOADS, name)
}

/// Names of the built-in workloads.
pub fn workload_names() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().map(|(name, _)| *name)
}
