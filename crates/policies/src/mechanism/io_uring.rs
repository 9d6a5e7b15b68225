//! `io_uring`: whether a task that waits with it counts as waiting for I/O.

use super::key::{Fallback, Form, Key, KeyInfo, SWITCH};
use super::{Kind, Mechanism, Place, Policy};

static IOWAIT: Key<bool> = Key {
    info: KeyInfo {
        name: "iowait",
        meaning: "whether it counts; off is what IORING_ENTER_NO_IOWAIT asks for",
        unit: "",
        fallback: Fallback::Required,
        example: "off",
    },
    words: SWITCH,
    form: Form::WordsOnly,
};

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
