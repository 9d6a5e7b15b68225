//! The pieces of kernel code that policies are compared with.

/// A piece of kernel code that a policy is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The menu governor.
    Menu,
    /// Idle governor teo, the timer-events-oriented one.
    Teo,
    /// The ladder governor.
    Ladder,
    /// The haltpoll governor.
    Haltpoll,
    /// Time for which the haltpoll governor lets the polling state spin.
    HaltpollLimit,
    /// Time for which the polling state spins by the kernel's rule.
    PollLimit,
    /// schedutil's iowait boost.
    SchedutilBoost,
    /// HWP dynamic boost of intel_pstate.
    HwpBoost,
    /// P-states and iowait boost of intel_pstate without HWP.
    IntelPstate,
    /// CPPC requests of amd-pstate.
    AmdPstate,
    /// APST table that the kernel programs into an NVMe drive.
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

    /// Finds a governor by its name; `None` for other subjects.
    pub fn governor_by_name(name: &str) -> Option<Self> {
        Self::GOVERNORS
            .into_iter()
            .find(|subject| subject.name() == name)
    }

    /// Name of the subject in tables and messages.
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

    /// Path of the kernel file that has the subject's code.
    pub const fn kernel_file(self) -> &'static str {
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

    /// Whether the subject's answers depend on the tick rate.
    pub const fn depends_on_tick(self) -> bool {
        !matches!(self, Self::Apst | Self::AmdPstate)
    }

    /// File name of the C program around the subject's code, in a folder `c/`.
    pub(crate) const fn driver_file(self) -> &'static str {
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

    /// Arguments that tell the C program what to answer, if it can answer several things.
    pub(crate) const fn driver_arguments(self) -> &'static [&'static str] {
        match self {
            Self::HaltpollLimit => &["--poll-limits"],
            _ => &[],
        }
    }
}
