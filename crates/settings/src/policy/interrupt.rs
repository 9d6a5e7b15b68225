//! Which CPUs the interrupts of drives go to.

use std::collections::BTreeSet;

use wakepath_system::{At, DriveInterrupt, Root};
use wakepath_units::cpus::format_cpu_list;

use super::target::{SettingsBuilder, check_cpus_online};
use crate::SettingsError;

impl SettingsBuilder<'_> {
    /// Asks for the selected drives' interrupts to go to these CPUs. The kernel manages those of NVMe's and virtio's queues: they
    /// stay, and a note says so.
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
        let root = self.system.root();
        let shows_managed = shows_managed_interrupts(root, &selected);
        let (managed, others): (Vec<DriveInterrupt>, Vec<DriveInterrupt>) =
            selected.into_iter().partition(|interrupt| {
                is_managed_by_file_or_name(root, interrupt)
                    || (!shows_managed && is_managed_by_driver(root, interrupt))
            });
        let with_queues: BTreeSet<&str> = managed
            .iter()
            .filter_map(DriveInterrupt::nvme_controller)
            .collect();
        // A controller's first interrupt has I/O only where there is no other.
        let movable: Vec<DriveInterrupt> = others
            .into_iter()
            .filter(|interrupt| {
                let controller = interrupt.nvme_controller();
                controller.is_none_or(|name| !with_queues.contains(name))
            })
            .collect();
        let managed_stay = name_interrupts_that_stay(&managed);
        let may_be_none =
            self.targets.drives_may_come_later || !self.targets.excluded_drives.is_empty();
        if movable.is_empty() && !may_be_none {
            let why = managed_stay.unwrap_or_else(|| {
                "/proc/interrupts names no interrupt of a selected drive".to_owned()
            });
            return Err(self.policy_error(why));
        }
        if movable.is_empty() && self.targets.drives_may_come_later {
            self.note_that_drives_may_come();
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

/// A driver of disk controllers whose queues have interrupts that the kernel manages (`PCI_IRQ_AFFINITY`).
struct QueueDriver {
    /// Beginning of the interrupts' names.
    name_prefix: &'static str,
    /// Part of the names of queues' interrupts, behind the beginning.
    name_infix: &'static str,
    switch: Option<ManagementSwitch>,
}

/// A parameter of a module that says whether the kernel manages the interrupts.
struct ManagementSwitch {
    /// File below the root with the parameter's value.
    parameter: &'static str,
    /// Whether 0 switches the management off; else another value does.
    zero_disables: bool,
}

/// The parameter of `mpt3sas`, which drives SAS-2 controllers, too.
const MPT_SWITCH: Option<ManagementSwitch> = Some(ManagementSwitch {
    parameter: "sys/module/mpt3sas/parameters/smp_affinity_enable",
    zero_disables: true,
});

/// Drivers in `drivers/scsi`, Linux 6.12. Each names its queues' interrupts in `request_irq()`.
const QUEUE_DRIVERS: [QueueDriver; 5] = [
    QueueDriver {
        name_prefix: "hpsa",
        name_infix: "-msix",
        switch: None,
    },
    QueueDriver {
        name_prefix: "megasas",
        name_infix: "-msix",
        switch: Some(ManagementSwitch {
            parameter: "sys/module/megaraid_sas/parameters/smp_affinity_enable",
            zero_disables: true,
        }),
    },
    QueueDriver {
        name_prefix: "mpt2sas",
        name_infix: "-msix",
        switch: MPT_SWITCH,
    },
    QueueDriver {
        name_prefix: "mpt3sas",
        name_infix: "-msix",
        switch: MPT_SWITCH,
    },
    QueueDriver {
        name_prefix: "smartpqi",
        name_infix: "",
        switch: Some(ManagementSwitch {
            parameter: "sys/module/smartpqi/parameters/disable_managed_interrupts",
            zero_disables: false,
        }),
    },
];

/// Whether the kernel manages an interrupt, so that nobody else may move it. Linux 6.13 and newer write-protect its file
/// (`register_irq_proc()`, `kernel/irq/proc.c`). Older kernels refuse only the write itself, and the name has to tell: NVMe's
/// first queue has a vector apart (`nvme_setup_irqs()`, `drivers/nvme/host/pci.c`, Linux 6.12). A virtio disk's queue has a
/// name of its own only if its vector is managed (`vp_find_vqs_msix()`, `drivers/virtio/virtio_pci_common.c`).
fn is_managed_by_file_or_name(root: &Root, interrupt: &DriveInterrupt) -> bool {
    is_write_protected(root, interrupt)
        || interrupt.is_virtio_queue()
        || interrupt.nvme_queue().is_some_and(|queue| queue > 0)
}

fn is_write_protected(root: &Root, interrupt: &DriveInterrupt) -> bool {
    let file = format!("proc/irq/{}/smp_affinity_list", interrupt.number);
    root.type_and_permissions(&file)
        .is_some_and(|(_, permissions)| permissions & 0o200 == 0)
}

/// Whether the kernel write-protects the files of managed interrupts (6.13 and newer). Interrupts with writable files are then
/// movable.
fn shows_managed_interrupts(root: &Root, interrupts: &[DriveInterrupt]) -> bool {
    let mut all = interrupts.iter();
    all.any(|interrupt| is_write_protected(root, interrupt))
}

/// Whether an interrupt's driver asks the kernel to manage the interrupt. Vectors in front of a controller's queues are for many
/// requests at once, and not managed: the driver hints at their CPUs (`megasas_set_high_iops_queue_affinity_and_hint()`,
/// `_base_assign_reply_queues()`).
fn is_managed_by_driver(root: &Root, interrupt: &DriveInterrupt) -> bool {
    let mut drivers = QUEUE_DRIVERS.iter();
    let found = drivers.find(|driver| {
        let rest = interrupt.name.strip_prefix(driver.name_prefix);
        rest.is_some_and(|rest| rest.contains(driver.name_infix))
    });
    let Some(driver) = found else {
        return false;
    };
    let is_switched_off = driver.switch.as_ref().is_some_and(|switch| {
        let value = root.read_number_if_readable(switch.parameter);
        value.is_some_and(|value| (value == 0) == switch.zero_disables)
    });
    let hint = root.read_text_if_readable(&format!("proc/irq/{}/affinity_hint", interrupt.number));
    let has_hint = hint.is_some_and(|mask| mask.contains(|digit| !matches!(digit, '0' | ',')));
    !is_switched_off && !has_hint
}

/// A sentence on interrupts that the kernel manages; `None` without any.
fn name_interrupts_that_stay(managed: &[DriveInterrupt]) -> Option<String> {
    let (first, more) = managed.split_first()?;
    let all = match more.len() {
        0 => first.name.clone(),
        count => format!("{} and {count} more", first.name),
    };
    let is_nvme = managed.iter().all(|one| one.nvme_controller().is_some());
    let queues = if is_nvme {
        "NVMe queues"
    } else {
        "drives' queues"
    };
    Some(format!(
        "the kernel manages the interrupts of {queues} ({all}), and lets nobody move them; rq-affinity chooses which CPU \
         completes requests"
    ))
}
