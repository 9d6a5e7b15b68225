//! CPUs kept free by the kernel's command line.

use wakepath_hardware::machine::Isolation;
use wakepath_units::cpus;

use crate::topology::CPUS;
use crate::{Root, System};

/// Reads the CPUs that the kernel's command line keeps free, by place among online CPUs.
pub(super) fn read_cpu_isolation(system: &System) -> Isolation {
    let root = system.root();
    let online = system.cpus();
    let command_line = root
        .read_text_if_readable("proc/cmdline")
        .unwrap_or_default();
    let isolation = Isolation {
        isolcpus: read_cpu_list_as_online_places(root, "isolated", &online),
        nohz_full: read_cpu_list_as_online_places(root, "nohz_full", &online),
        managed_irq: command_line
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("isolcpus="))
            .any(|list| list.split(',').any(|flag| flag == "managed_irq")),
        ..Isolation::default()
    };
    // A cpuset can isolate all CPUs that are left.
    let left = (0..online.len()).any(|cpu| isolation.is_housekeeping(cpu));
    if left {
        isolation
    } else {
        Isolation::default()
    }
}

/// Reads a list of CPUs from a file of the kernel, and turns it into places among online CPUs.
fn read_cpu_list_as_online_places(root: &Root, file: &str, online: &[usize]) -> Vec<usize> {
    let text = root.read_text_if_readable(&format!("{CPUS}/{file}"));
    let list = text
        .as_deref()
        .and_then(cpus::parse_cpu_list)
        .unwrap_or_default();
    list.iter()
        .filter_map(|cpu| online.iter().position(|other| other == cpu))
        .collect()
}
