//! `rq-affinity`: which CPU completes a disk's requests.

use super::key::{Fallback, Form, Key, KeyInfo};
use super::{Kind, Mechanism, Place, Policy};

static VALUE: Key<u64> = Key {
    info: KeyInfo {
        name: "value",
        meaning: "0: the interrupted CPU; 1: a CPU that shares a cache with the one that asked; 2: the CPU that asked",
        unit: "",
        fallback: Fallback::Required,
        example: "0",
    },
    words: &[],
    form: Form::UpTo(2, |value| value),
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "rq-affinity",
    kind: Kind::RqAffinity,
    versioned: false,
    summary: "which CPU completes requests, whichever CPU was interrupted",
    source: "queue/rq_affinity, block/blk-sysfs.c and blk_mq_complete_need_ipi() in block/blk-mq.c",
    on: &[Place::Machine],
    keys: &[&VALUE],
    overlaps: &[],
    build: |given| Ok(Policy::RqAffinity(given.value_or_default(&VALUE)?)),
};
