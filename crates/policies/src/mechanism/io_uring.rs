//! `io_uring`: whether a task that waits with it counts as waiting for I/O.

use super::key::{Key, required_switch_key};
use super::{Kind, Mechanism, Place, Policy};

static IOWAIT: Key<bool> = required_switch_key(
    "iowait",
    "off",
    "whether it counts; off is what IORING_ENTER_NO_IOWAIT asks for",
);

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "io_uring",
    kind: Kind::IoUring,
    versioned: false,
    summary: "whether waiting with io_uring counts as waiting for I/O",
    source: "IORING_ENTER_NO_IOWAIT, io_uring/io_uring.c, Linux 6.15",
    on: &[Place::Sim],
    keys: &[&IOWAIT],
    overlaps: &[],
    build: |given| Ok(Policy::IoUring(given.value_or_default(&IOWAIT)?)),
};
