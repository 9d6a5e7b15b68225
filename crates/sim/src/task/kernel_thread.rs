//! Background work: timers and threads of the kernel.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{BackgroundTimer, Beside, Per, Runs};

use crate::core::basics::Cycles;

/// The first kernel whose awake CPUs take over timers of the timer wheel from CPUs that sleep (`kernel/time/timer_migration.c`).
const PULLS_TIMERS: (u16, u16, u16) = (6, 9, 0);

/// Whether awake CPUs take over timers of sleeping CPUs, from [`PULLS_TIMERS`] on. An unknown kernel is as Linux 6.12.
fn pulls_timers(machine: &Machine) -> bool {
    (machine.kernel).is_none_or(|kernel| kernel.release() >= PULLS_TIMERS)
}

/// The thread of RCU's grace periods as a source of background work: it sleeps for so many ticks before it scans
/// (`RCU_JIFFIES_TILL_FORCE_QS`).
fn grace_periods(machine: &Machine) -> Option<BackgroundSetup> {
    let hz = machine.hz.value;
    let ticks = 1 + u64::from(hz > 250.0) + u64::from(hz > 500.0);
    machine.rcu.as_ref().map(|rcu| BackgroundSetup {
        mean_interval: (ticks * machine.tick_rate().period().0) as f64,
        periodic: true,
        cycles: rcu.thread_kcycles.kilocycles(),
        callbacks: false,
        as_task: true,
        slack: 0,
        wheel: true,
        roams: true,
        pulled: pulls_timers(machine),
    })
}

/// Background work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackgroundSetup {
    pub(crate) mean_interval: f64,
    pub(crate) periodic: bool,
    pub(crate) cycles: Cycles,
    /// It leaves an RCU callback on its CPU.
    pub(super) callbacks: bool,
    pub(crate) as_task: bool,
    /// How much earlier its timer may expire, in ns.
    pub(crate) slack: u64,
    /// Its timer is one of the timer wheel.
    pub(crate) wheel: bool,
    /// There is one, which the scheduler places.
    pub(crate) roams: bool,
    /// Its timer may expire on another CPU than its own while that sleeps.
    pub(crate) pulled: bool,
}

/// Background work of a machine beside a workload of this kind, with the thread of grace periods as the last.
pub(crate) fn background(machine: &Machine, kind: Beside) -> Vec<BackgroundSetup> {
    let timer_slack = machine.scheduler.timer_slack_us.micros().0;
    machine
        .background
        .iter()
        .filter(|b| b.beside.is_none_or(|beside| beside == kind))
        .map(|b| BackgroundSetup {
            mean_interval: b.every_ms.value * 1e6,
            periodic: b.periodic,
            cycles: b.kcycles.kilocycles(),
            callbacks: b.callbacks,
            as_task: b.runs == Runs::Task,
            slack: match b.timer() {
                BackgroundTimer::Sleep => timer_slack,
                BackgroundTimer::Precise | BackgroundTimer::Wheel => 0,
            },
            wheel: b.timer() == BackgroundTimer::Wheel,
            roams: b.per == Per::Machine,
            pulled: b.per == Per::Machine
                && b.timer() == BackgroundTimer::Wheel
                && pulls_timers(machine),
        })
        .chain(grace_periods(machine))
        .collect()
}
