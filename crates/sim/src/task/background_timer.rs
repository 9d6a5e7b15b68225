//! The timers of background work: what becomes of a machine's figures.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Background, BackgroundTimer as TimerKind, Instances};

/// The first kernel whose awake CPUs take over timers of the timer wheel from CPUs that sleep (`kernel/time/timer_migration.c`).
const TIMERS_MIGRATE: (u16, u16, u16) = (6, 9, 0);

/// Whether awake CPUs take over timers of sleeping CPUs, from [`TIMERS_MIGRATE`] on. An unknown kernel is as Linux 6.12.
fn timers_migrate(machine: &Machine) -> bool {
    (machine.kernel).is_none_or(|kernel| kernel.release() >= TIMERS_MIGRATE)
}

/// The timer of a source of background work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundTimer {
    /// In ns.
    pub(super) mean_interval: f64,
    pub(super) periodic: bool,
    /// Slack: how much earlier the timer may expire, in ns.
    pub(super) slack: u64,
    /// A timer of the timer wheel.
    pub(super) wheel: bool,
    /// One timer for the machine, whose task the scheduler places; otherwise one for each CPU.
    pub(super) roams: bool,
    /// Another CPU takes the timer over while its own CPU sleeps.
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
            migratory: roams && wheel && timers_migrate(machine),
        }
    }

    /// Timer of RCU's grace-period thread between two scans, in ticks (`RCU_JIFFIES_TILL_FORCE_QS`).
    pub(crate) fn rcu_scan(machine: &Machine) -> Self {
        let hz = machine.hz.value;
        let ticks = 1 + u64::from(hz > 250.0) + u64::from(hz > 500.0);
        Self {
            mean_interval: (ticks * machine.tick_rate().period().0) as f64,
            periodic: true,
            slack: 0,
            wheel: true,
            roams: true,
            migratory: timers_migrate(machine),
        }
    }
}
