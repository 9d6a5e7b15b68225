//! Timers of background work, compiled from a machine's figures.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Background, BackgroundTimer as TimerKind, Instances};

/// The first kernel whose awake CPUs take over timers of the timer wheel from CPUs that sleep (`kernel/time/timer_migration.c`).
const TIMERS_MIGRATE: (u16, u16, u16) = (6, 9, 0);

/// Whether awake CPUs take over timers of sleeping CPUs, from [`TIMERS_MIGRATE`] on. An unknown kernel is as Linux 6.12.
fn kernel_migrates_timers(machine: &Machine) -> bool {
    (machine.kernel).is_none_or(|kernel| kernel.release() >= TIMERS_MIGRATE)
}

/// Timer figures of a source of background work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundTimer {
    /// Mean interval between two expiries, in ns.
    pub(super) mean_interval: f64,
    pub(super) periodic: bool,
    /// How much earlier than its latest time the timer may expire, in ns.
    pub(super) slack: u64,
    /// Whether the timer is on the timer wheel; otherwise it is a high-resolution timer.
    pub(super) wheel: bool,
    /// Whether the machine has one such timer, whose task the scheduler places; otherwise each CPU has one.
    pub(super) roams: bool,
    /// Whether another CPU takes the timer over while its own CPU sleeps.
    pub(super) migratory: bool,
}

impl BackgroundTimer {
    pub(crate) fn new(machine: &Machine, source: &Background) -> Self {
        let wheel = source.timer_in_use() == TimerKind::Wheel;
        let roams = source.instances == Instances::PerMachine;
        Self {
            mean_interval: source.every_ms.value * 1e6,
            periodic: source.periodic,
            slack: match source.timer_in_use() {
                TimerKind::Sleep => machine.scheduler.timer_slack_us.micros_to_time().0,
                TimerKind::Precise | TimerKind::Wheel => 0,
            },
            wheel,
            roams,
            migratory: roams && wheel && kernel_migrates_timers(machine),
        }
    }

    /// Timer of RCU's grace-period thread between two scans, in ticks (`RCU_JIFFIES_TILL_FORCE_QS`).
    pub(crate) fn for_rcu_scan(machine: &Machine) -> Self {
        let hz = machine.hz.value;
        let ticks = 1 + u64::from(hz > 250.0) + u64::from(hz > 500.0);
        Self {
            mean_interval: (ticks * machine.tick_rate().period().0) as f64,
            periodic: true,
            slack: 0,
            wheel: true,
            roams: true,
            migratory: kernel_migrates_timers(machine),
        }
    }
}
