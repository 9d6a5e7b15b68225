//! CPUs kept free by the kernel's command line.

use wakepath_hardware::machine::Isolation;
use wakepath_units::cpus;

use crate::System;
use crate::topology::CPUS;

/// What the kernel's command line keeps free, by place among the CPUs that are online.
pub(super) fn isolation(system: &System) -> Isolation {
    let root = system.root();
    let online = system.cpus();
    let listed = |file: &str| -> Vec<usize> {
        let text = root.optional(&format!("{CPUS}/{file}"));
        let list = text.as_deref().and_then(cpus::parse).unwrap_or_default();
        let place = |cpu: &usize| online.iter().position(|of| of == cpu);
        list.iter().filter_map(place).collect()
    };
    let words = root.optional("proc/cmdline").unwrap_or_default();
    let words = words.split_whitespace();
    let isolation = Isolation {
        isolcpus: listed("isolated"),
        nohz_full: listed("nohz_full"),
        managed_irq: words
            .filter_map(|word| word.strip_prefix("isolcpus="))
            .any(|list| list.split(',').any(|flag| flag == "managed_irq")),
        ..Isolation::default()
    };
    // A cpuset can isolate all that are left.
    let left = (0..online.len()).any(|cpu| isolation.is_housekeeping(cpu));
    if left {
        isolation
    } else {
        Isolation::default()
    }
}
