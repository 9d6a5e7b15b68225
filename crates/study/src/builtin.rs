//! Built-in studies and workloads: the files of `data/studies` and of the repository's `workloads` by name.

/// Name, text.
type Files = &'static [(&'static str, &'static str)];

macro_rules! files {
    ($folder:literal, $ending:literal: $($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!($folder, $name, $ending)))),+]
    };
}

const STUDIES: Files = files!["../data/studies/", ".toml":
    "idle-governor", "iowait-boost", "apst-rule", "deep-idle-cost",
    "polling-tbench", "iowait-rk3399", "rk3399-depth", "hwp-boost", "apst", "psd", "kernel-updates",
];

const WORKLOADS: Files = files!["../../../workloads/", "":
    "apst-1.fio", "apst-2.fio", "apst-3.fio", "apst-4.fio", "apst-5.fio", "apst-6.fio",
    "apst-7.fio", "async-random.fio", "async-sequential.fio", "browser-like.json", "build-like.json", "dbench-like.json",
    "desktop-at-rest.json",
    "fileio-like.fio", "hackbench-like.json", "idle.json", "iowait-rk3399.fio",
    "iowait-thinkcycles.fio", "netpipe-like.json", "pgbench-like-read.json", "pgbench-like-write.json", "ping-pong-20.json",
    "ping-pong-80.json", "ping-pong.json",
    "psd-mixed.fio", "psd-randread.fio", "rk3399-depth.fio", "schbench-like.json", "sqlite-like.json",
    "tbench-like.json", "tiobench-like.fio", "vdbench-like.fio", "web-like.json", "worker-pool.json", "x264-like.json",
];

/// What `study new` writes.
pub const EXAMPLE: &str = include_str!("../data/studies/example.toml");

fn find(files: Files, name: &str) -> Option<&'static str> {
    files
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// The built-in studies that have something published: `wakepath reproduce` sets it beside their results.
pub const EXPERIMENTS: &[&str] = &[
    "polling-tbench",
    "iowait-rk3399",
    "rk3399-depth",
    "hwp-boost",
    "apst",
    "psd",
    "kernel-updates",
];

/// The text of the built-in study of this name.
pub fn study(name: &str) -> Option<&'static str> {
    find(STUDIES, name)
}

/// The built-in studies.
pub fn study_names() -> impl Iterator<Item = &'static str> {
    STUDIES.iter().map(|(name, _)| *name)
}

/// The text of the built-in workload of this name.
pub(crate) fn workload(name: &str) -> Option<&'static str> {
    find(WORKLOADS, name)
}

/// The built-in workloads.
pub(crate) fn workload_names() -> impl Iterator<Item = &'static str> {
    WORKLOADS.iter().map(|(name, _)| *name)
}
