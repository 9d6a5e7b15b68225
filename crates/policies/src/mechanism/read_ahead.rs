//! `read-ahead`: how far the kernel reads ahead of sequential readers.

use super::key::{Fallback, Form, Key, KeyInfo};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};

/// Largest window, as of a machine's drive: 1 GB.
const MOST_KIB: u64 = 1 << 20;

static KIB: Key<u64> = Key {
    info: KeyInfo {
        name: "kb",
        meaning: "the window in KiB; 0: no read-ahead",
        unit: "",
        fallback: Fallback::Required,
        example: "512",
    },
    words: &[],
    form: Form::UpTo(MOST_KIB, |kib| kib),
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "read-ahead",
    kind: Kind::ReadAhead,
    versioned: false,
    summary: "how far the kernel reads ahead of sequential buffered readers",
    source: "queue/read_ahead_kb, block/blk-sysfs.c; mm/readahead.c",
    on: SIM_AND_MACHINE,
    keys: &[&KIB],
    overlaps: &[],
    build: |given| Ok(Policy::ReadAhead(given.value_or_default(&KIB)?)),
};
