//! Shared by every layer: typed units and [`quantity`], their parser; [`cpus`], lists of CPUs; [`kernel`] versions;
//! [`median()`]. [`spelling`] guesses the meaning of a misspelt name, [`pasted`] removes what mails put around a
//! text, and [`causes`] prints an error with its causes. [`printable`] shows text from strangers so that no terminal
//! obeys.
//!
//! Inside an algorithm a time is an integer number of nanoseconds. At a public boundary it has a
//! type, so that a caller cannot pass microseconds, a frequency or a capacity by mistake.

pub mod causes;
pub mod cpus;
pub mod kernel;
mod median;
pub mod pasted;
pub mod printable;
pub mod quantity;
pub mod spelling;

pub use kernel::{KernelVersion, KernelVersionError};
pub use median::median;

use std::fmt;

use serde::{Deserialize, Serialize};

/// A length of time, or a point on a monotonic clock, in nanoseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanoseconds(pub u64);

impl Nanoseconds {
    /// A time of zero.
    pub const ZERO: Self = Self(0);

    /// A time of `us` microseconds; saturates at the largest representable time.
    pub const fn from_micros(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// A time of `ms` milliseconds; saturates at the largest representable time.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// A time of `s` seconds; saturates at the largest representable time.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// Converts to the duration type of the standard library.
    pub const fn as_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }

    /// The time in whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// The time in seconds as a floating-point number, for reports only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns < 10_000 => write!(f, "{ns} ns"),
            ns if ns < 10_000_000 => write!(f, "{:.1} us", ns as f64 / 1e3),
            ns if ns < 10_000_000_000 => write!(f, "{:.1} ms", ns as f64 / 1e6),
            ns => write!(f, "{:.1} s", ns as f64 / 1e9),
        }
    }
}

/// Rate of the scheduler tick, `CONFIG_HZ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct TickRate(u32);

impl TickRate {
    /// Debian's default, 250 ticks a second.
    pub const HZ_250: Self = Self(250);
    /// 1000 ticks a second.
    pub const HZ_1000: Self = Self(1000);

    /// A tick rate in Hz. `None` outside 1 to 6250: above it a sixteenth of a tick would be shorter
    /// than the shortest polling limit, which the kernel refuses to build
    /// (`drivers/cpuidle/cpuidle.c`, `CPUIDLE_POLL_MIN`).
    pub const fn new(hz: u32) -> Option<Self> {
        if hz >= 1 && hz <= 6250 {
            Some(Self(hz))
        } else {
            None
        }
    }

    /// Ticks per second.
    pub const fn hz(self) -> u32 {
        self.0
    }

    /// The tick period: `TICK_NSEC`, one second divided by HZ and rounded to the nearest
    /// nanosecond.
    pub const fn period(self) -> Nanoseconds {
        Nanoseconds((1_000_000_000 + self.0 as u64 / 2) / self.0 as u64)
    }

    /// Converts milliseconds to ticks (jiffies), rounded up, as `msecs_to_jiffies()` does.
    pub const fn ticks_from_millis(self, ms: u64) -> u64 {
        ms.saturating_mul(self.0 as u64).div_ceil(1_000)
    }
}

impl Default for TickRate {
    fn default() -> Self {
        Self::HZ_250
    }
}

/// CPU frequency in kHz, the unit of cpufreq.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Kilohertz(pub u32);

impl fmt::Display for Kilohertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MHz", self.0 / 1_000)
    }
}

/// Electrical power in microwatts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Microwatts(pub u64);

impl Microwatts {
    /// Energy in femtojoules of this power over `time`: 1 uW for 1 ns is 1 fJ.
    pub const fn femtojoules_over(self, time: Nanoseconds) -> u128 {
        self.0 as u128 * time.0 as u128
    }
}

/// Computing capacity or utilisation on the scheduler's scale: the biggest CPU at its highest frequency has 1024
/// (`SCHED_CAPACITY_SCALE`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Capacity(pub u32);

impl Capacity {
    /// The full scale, 1024.
    pub const SCALE: Self = Self(1024);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_periods_are_the_kernels() {
        assert_eq!(TickRate::HZ_250.period(), Nanoseconds(4_000_000));
        assert_eq!(TickRate::HZ_1000.period(), Nanoseconds(1_000_000));
        assert_eq!(
            TickRate::new(300).map(TickRate::period),
            Some(Nanoseconds(3_333_333))
        );
        assert_eq!(TickRate::new(0), None);
        assert_eq!(TickRate::new(6251), None);
    }

    #[test]
    fn milliseconds_become_ticks_rounded_up() {
        assert_eq!(TickRate::HZ_250.ticks_from_millis(3), 1);
        assert_eq!(TickRate::HZ_250.ticks_from_millis(4), 1);
        assert_eq!(TickRate::HZ_250.ticks_from_millis(5), 2);
        assert_eq!(TickRate::HZ_1000.ticks_from_millis(3), 3);
        assert_eq!(TickRate::HZ_1000.ticks_from_millis(0), 0);
    }
}
