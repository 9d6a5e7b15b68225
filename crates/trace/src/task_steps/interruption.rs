//! What interrupts a CPU, and for how long at most before it wakes a task.

use crate::recording::Interrupt;

/// Longest time in ns from an interrupt to a wake-up that counts as the interrupt's on a busy CPU, at [`INTERRUPT_KHZ`] or more.
pub(super) const INTERRUPT_NS: u64 = 10_000;

/// Lowest clock at which interrupts take no longer.
const INTERRUPT_KHZ: u32 = 1_000_000;

/// What last interrupted a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interruption {
    Timer,
    Device,
    /// The end of a request's service on another CPU, or a call from there.
    Call,
}

impl Interruption {
    /// `None`: the interrupt wakes no task by itself.
    pub(super) fn from_interrupt(interrupt: Interrupt) -> Option<Self> {
        match interrupt {
            Interrupt::Device { .. } => Some(Self::Device),
            Interrupt::BlockSoftirq | Interrupt::CallFunction => Some(Self::Call),
            _ => None,
        }
    }
}

/// Longest time in ns from an interrupt to a wake-up of its own on a busy CPU, whose clock in kHz may be known.
pub(super) fn longest_interrupt(khz: Option<u32>) -> u64 {
    let clock = khz.map_or(INTERRUPT_KHZ, |khz| khz.clamp(1, INTERRUPT_KHZ));
    INTERRUPT_NS.saturating_mul(INTERRUPT_KHZ.into()) / u64::from(clock)
}
