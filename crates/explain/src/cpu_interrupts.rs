//! Interrupts that CPUs raise themselves, or each other. On x86 these have vectors of their own. On arm64 and RISC-V Linux traces
//! them as it does handlers of devices, and only the handlers' names tell which is which.

use std::collections::BTreeMap;

use wakepath_trace::recording::Interrupt;

/// Name of the handlers of IPIs (`arch/arm64/kernel/smp.c`, `arch/riscv/kernel/smp.c` of Linux 6.12).
const IPI: &str = "IPI";
/// Names of handlers of the CPUs' own timers and counters.
const OWN_TIMERS_AND_COUNTERS: [&str; 5] = [
    "arch_timer",
    "riscv-timer",
    "arm-pmu",
    "kvm guest vtimer",
    "kvm guest ptimer",
];

/// The interrupts of a machine that belong to its CPUs, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuInterrupts {
    kinds: BTreeMap<u32, CpuInterruptKind>,
}

/// What an interrupt of a CPU is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CpuInterruptKind {
    /// An IPI that makes a CPU call a function, and so may complete requests.
    CallFunction,
    /// Any other: none completes requests.
    Other,
}

impl CpuInterrupts {
    /// Finds the CPUs' own interrupts among all by the names of their handlers. Of IPIs, whose numbers follow each other, the
    /// first asks to reschedule and the second to call a function.
    pub(crate) fn from_names(names: &BTreeMap<u32, String>) -> Self {
        let first = names.iter().find(|(_, name)| *name == IPI);
        let call = first.and_then(|(irq, _)| irq.checked_add(1));
        let kinds = names.iter().filter_map(|(irq, name)| {
            let kind = match name.as_str() {
                IPI if Some(*irq) == call => CpuInterruptKind::CallFunction,
                IPI => CpuInterruptKind::Other,
                other if OWN_TIMERS_AND_COUNTERS.contains(&other) => CpuInterruptKind::Other,
                _ => return None,
            };
            Some((*irq, kind))
        });
        Self {
            kinds: kinds.collect(),
        }
    }

    /// The interrupt as x86 shows it; `None`: no device and no other CPU's work, so that it only may have woken the CPU.
    pub(crate) fn tell_from_devices(&self, interrupt: Interrupt) -> Option<Interrupt> {
        let Interrupt::Device { irq } = interrupt else {
            return Some(interrupt);
        };
        match self.kinds.get(&irq) {
            None => Some(interrupt),
            Some(CpuInterruptKind::CallFunction) => Some(Interrupt::CallFunction),
            Some(CpuInterruptKind::Other) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_and_ipis_of_arm64_are_no_devices() {
        let names = [
            (1, "IPI"),
            (2, "IPI"),
            (6, "IPI"),
            (11, "arch_timer"),
            (28, "nvme0q1"),
        ];
        let names = names.map(|(irq, name)| (irq, name.to_owned()));
        let known = CpuInterrupts::from_names(&BTreeMap::from(names));
        let device = |irq| Interrupt::Device { irq };
        for (irq, told) in [
            (1, None),
            (2, Some(Interrupt::CallFunction)),
            (6, None),
            (11, None),
            (28, Some(device(28))),
            (29, Some(device(29))),
        ] {
            assert_eq!(known.tell_from_devices(device(irq)), told, "{irq}");
        }
    }
}
