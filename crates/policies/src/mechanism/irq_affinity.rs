//! `irq-affinity`: which CPUs the interrupts of drives go to.

use wakepath_units::cpus;

use super::key::{Fallback, Form, Key, KeyInfo};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};

static CPUS: Key<Vec<usize>> = Key {
    info: KeyInfo {
        name: "cpus",
        meaning: "the CPUs that interrupts of drives may go to; the kernel chooses one of them",
        unit: "",
        fallback: Fallback::Required,
        example: "2-3",
    },
    words: &[],
    form: Form::List("CPUs such as 0-3,8", |text| {
        cpus::parse_cpu_list(text).filter(|cpus| !cpus.is_empty())
    }),
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "irq-affinity",
    kind: Kind::IrqAffinity,
    versioned: false,
    summary: "which CPUs drives interrupt, but for queues of NVMe and virtio: the kernel manages their interrupts and refuses to move them",
    source: "/proc/irq/*/smp_affinity_list, kernel/irq/proc.c and irq_can_set_affinity_usr() in kernel/irq/manage.c",
    on: SIM_AND_MACHINE,
    keys: &[&CPUS],
    overlaps: &[],
    build: |given| Ok(Policy::IrqAffinity(given.value_or_default(&CPUS)?)),
};
