//! The pieces of the kernel that are compared.

/// Kernel code that a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The menu governor.
    Menu,
    /// The timer-events-oriented governor.
    Teo,
    /// The ladder governor.
    Ladder,
    /// The haltpoll governor.
    Haltpoll,
    /// How long the haltpoll governor lets the polling state spin.
    HaltpollLimit,
    /// How long the polling state spins.
    PollLimit,
    /// schedutil's iowait boost.
    SchedutilBoost,
    /// The dynamic boost of intel_pstate with HWP.
    HwpBoost,
    /// The P-states and the iowait boost of intel_pstate without HWP.
    IntelPstate,
    /// The requests of amd-pstate.
    AmdPstate,
    /// The table of NVMe autonomous power state transitions.
    Apst,
}

impl Subject {
    /// All compared subjects.
    pub const ALL: [Self; 11] = [
        Self::Menu,
        Self::Teo,
        Self::Ladder,
        Self::Haltpoll,
        Self::HaltpollLimit,
        Self::PollLimit,
        Self::SchedutilBoost,
        Self::HwpBoost,
        Self::IntelPstate,
        Self::AmdPstate,
        Self::Apst,
    ];

    /// The four governors.
    pub const GOVERNORS: [Self; 4] = [Self::Menu, Self::Teo, Self::Ladder, Self::Haltpoll];

    /// Finds a governor by name.
    pub fn named(name: &str) -> Option<Self> {
        Self::GOVERNORS
            .into_iter()
            .find(|subject| subject.name() == name)
    }

    /// Its name in tables and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Menu => "menu",
            Self::Teo => "teo",
            Self::Ladder => "ladder",
            Self::Haltpoll => "haltpoll",
            Self::HaltpollLimit => "haltpoll limit",
            Self::PollLimit => "poll limit",
            Self::SchedutilBoost => "schedutil boost",
            Self::HwpBoost => "HWP boost",
            Self::IntelPstate => "intel_pstate",
            Self::AmdPstate => "amd-pstate",
            Self::Apst => "APST",
        }
    }

    /// Kernel file with the code.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Menu => "drivers/cpuidle/governors/menu.c",
            Self::Teo => "drivers/cpuidle/governors/teo.c",
            Self::Ladder => "drivers/cpuidle/governors/ladder.c",
            Self::Haltpoll | Self::HaltpollLimit => "drivers/cpuidle/governors/haltpoll.c",
            Self::PollLimit => "drivers/cpuidle/cpuidle.c",
            Self::SchedutilBoost => "kernel/sched/cpufreq_schedutil.c",
            Self::HwpBoost | Self::IntelPstate => "drivers/cpufreq/intel_pstate.c",
            Self::AmdPstate => "drivers/cpufreq/amd-pstate.c",
            Self::Apst => "drivers/nvme/host/core.c",
        }
    }

    /// Whether the tick plays a part in it.
    pub const fn has_tick(self) -> bool {
        !matches!(self, Self::Apst | Self::AmdPstate)
    }

    /// File of the program around the kernel's code, in a folder `c/`.
    pub(crate) const fn driver(self) -> &'static str {
        match self {
            Self::Menu | Self::Teo | Self::Ladder | Self::Haltpoll | Self::HaltpollLimit => {
                "governor_main.c"
            }
            Self::PollLimit => "poll_main.c",
            Self::SchedutilBoost => "sugov_main.c",
            Self::HwpBoost => "hwp_main.c",
            Self::IntelPstate => "pstate_main.c",
            Self::AmdPstate => "amd_pstate_main.c",
            Self::Apst => "apst_main.c",
        }
    }

    /// What the driver program is to answer, if it can answer several things.
    pub(crate) const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::HaltpollLimit => &["--poll-limits"],
            _ => &[],
        }
    }
}
