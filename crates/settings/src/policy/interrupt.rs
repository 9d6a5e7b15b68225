//! Which CPUs the interrupts of drives go to.

use std::collections::BTreeSet;

use wakepath_system::{At, DriveInterrupt};
use wakepath_units::cpus::format_cpu_list;

use super::target::{SettingsBuilder, check_cpus_online};
use crate::SettingsError;

impl SettingsBuilder<'_> {
    /// Asks for the selected drives' interrupts to go to these CPUs. The kernel manages those of NVMe queues: they stay, and a
    /// note says so.
    pub(super) fn add_wanted_interrupt_affinity(
        &mut self,
        cpus: &[usize],
    ) -> Result<(), SettingsError> {
        check_cpus_online(self.system, cpus).map_err(|why| self.policy_error(why))?;
        let all = self.system.read_drive_interrupts();
        let selected: Vec<DriveInterrupt> = all
            .into_iter()
            .filter(|interrupt| self.is_drive_of_interrupt_selected(interrupt))
            .collect();
        let with_queues: BTreeSet<String> = selected
            .iter()
            .filter(|interrupt| is_managed(interrupt))
            .filter_map(|interrupt| interrupt.nvme_controller().map(str::to_owned))
            .collect();
        // A controller's first interrupt has I/O only where there is no other.
        let with_io = selected.into_iter().filter(|interrupt| {
            let controller = interrupt.nvme_controller();
            is_managed(interrupt) || controller.is_none_or(|name| !with_queues.contains(name))
        });
        let (managed, movable): (Vec<DriveInterrupt>, Vec<DriveInterrupt>) =
            with_io.partition(is_managed);
        let names: Vec<&str> = managed
            .iter()
            .map(|managed| managed.name.as_str())
            .collect();
        let managed_stay = name_interrupts_that_stay(&names);
        if movable.is_empty() {
            let why = managed_stay.unwrap_or_else(|| {
                "/proc/interrupts names no interrupt of a selected drive".to_owned()
            });
            return Err(self.policy_error(why));
        }
        if let Some(stay) = managed_stay {
            self.add_note_once(format!("{}: {stay}", self.spec));
        }
        let listed: Vec<u32> = cpus.iter().map(|cpu| *cpu as u32).collect();
        let value = format_cpu_list(&listed);
        for interrupt in movable {
            self.add_wanted_value(
                "irq-affinity",
                At::Interrupt(interrupt.number),
                value.clone(),
            );
        }
        Ok(())
    }

    fn is_drive_of_interrupt_selected(&self, interrupt: &DriveInterrupt) -> bool {
        match interrupt.nvme_controller() {
            Some(controller) => self.is_drive_selected(&controller.to_owned()),
            None => self.targets.drives.is_none(),
        }
    }
}

/// Whether the kernel manages an interrupt: those of NVMe queues but the first, for which `nvme_setup_irqs()` sets a vector apart
/// (`drivers/nvme/host/pci.c`, Linux 6.12).
fn is_managed(interrupt: &DriveInterrupt) -> bool {
    interrupt.nvme_queue().is_some_and(|queue| queue > 0)
}

/// A sentence on interrupts that the kernel manages; `None` without any.
fn name_interrupts_that_stay(names: &[&str]) -> Option<String> {
    let first = names.first()?;
    let all = match names {
        [only] => (*only).to_owned(),
        more => format!("{first} and {} more", more.len() - 1),
    };
    Some(format!(
        "the kernel manages the interrupts of NVMe queues ({all}), and lets nobody move them; rq-affinity chooses which CPU \
         completes requests"
    ))
}
