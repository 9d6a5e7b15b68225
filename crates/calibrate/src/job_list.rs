//! Jobs that no figure is fitted to.

/// Names and options of fio jobs.
pub(crate) const JOBS: [(&str, &str); 4] = [
    ("reads", "ioengine=psync"),
    (
        "reads with pauses of 200 us",
        "ioengine=psync\nthinktime=200",
    ),
    (
        "reads with pauses of 2 ms",
        "ioengine=psync\nthinktime=2000",
    ),
    ("reads, 8 in flight", "ioengine=libaio\niodepth=8"),
];
