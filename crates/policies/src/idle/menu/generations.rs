//! menu's rules by kernel: every generation, as differences from another.
//!
//! Sources: `drivers/cpuidle/governors/menu.c` of Linux 6.1.192, 6.12.117, 7.2.13 and 7.3.4, decisions of the releases
//! named under `compared`, and for the others the changes as they were posted and merged.

use super::super::generations::{Entry, generation_entry};

/// Rules in which generations of the menu governor differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// What limits the exit latency besides the latency request.
    pub(super) latency: Latency,
    /// When menu looks up the next timer.
    pub(super) lookup: Lookup,
    /// With the tick stopped, a next timer further away than this many ticks replaces a short
    /// prediction.
    pub(super) near_timer_ticks: u64,
    /// Recent idle intervals that menu leaves out as outliers.
    pub(super) outliers: Outliers,
    /// What scattered intervals say: intervals that still differ when no more may be left out.
    pub(super) scattered: Scattered,
    /// Whether intervals that are all zero count as a pattern, and not as a sign of an empty
    /// memory.
    pub(super) zeros_repeat: bool,
    /// Whether the last interval counts as unknown after a state that the driver refused.
    pub(super) refusal_forgets: bool,
    /// Whether a state with too long an exit latency ends the search before its target residency is
    /// checked.
    pub(super) latency_first: bool,
    /// When a sleeping state replaces a polling state although the prediction is too short.
    pub(super) beats_polling: BeatsPolling,
    /// Whether menu takes a driver's only state without further thought.
    pub(super) one_state_shortcut: bool,
}

/// What limits the exit latency in menu besides the latency request. With the tick stopped the
/// request alone counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Latency {
    /// The predicted idle time divided by 1 + 10 x the number of tasks in iowait limits the exit
    /// latency. Such decisions also use separate correction factors.
    PredictionPerWaiter,
    /// The prediction.
    Prediction,
    /// Nothing.
    Request,
}

/// When menu looks up the next timer, which costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// At every decision.
    Always,
    /// The timer is looked up only if recent intervals do not promise a wake-up within 15 us.
    UnlessSoon,
    /// The timer is looked up if recent intervals do not promise a wake-up within 15 us, and
    /// whenever the tick is stopped.
    UnlessSoonWithTick,
}

/// Treatment of outliers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outliers {
    /// The longest.
    Longest,
    /// The shortest or the longest interval is the outlier, whichever is farther from the mean.
    Farthest,
}

/// What menu concludes from scattered intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scattered {
    /// Nothing.
    Nothing,
    /// If four or more scattered intervals are left, the longest bounds the next idle time.
    Longest,
}

/// When a sleeping state replaces a polling one in menu although it is not expected to pay off. The
/// next timer must be far enough for it to pay off in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BeatsPolling {
    /// The sleeping state replaces the polling one if its exit latency is tolerated.
    Tolerated,
    /// The sleeping state replaces the polling one if it takes no longer to leave than the CPU is
    /// expected to be idle.
    Predicted,
    /// The sleeping state replaces the polling one if it takes no longer to leave than the CPU is
    /// expected to be idle, and pays off within 15 us.
    PredictedAndSoon,
}

const LINUX_6_1: Rules = Rules {
    latency: Latency::PredictionPerWaiter,
    lookup: Lookup::Always,
    near_timer_ticks: 0,
    outliers: Outliers::Longest,
    scattered: Scattered::Nothing,
    zeros_repeat: true,
    refusal_forgets: false,
    latency_first: false,
    beats_polling: BeatsPolling::Tolerated,
    one_state_shortcut: true,
};
const LINUX_6_1_141: Rules = Rules {
    scattered: Scattered::Longest,
    ..LINUX_6_1
};
const LINUX_6_1_157: Rules = Rules {
    refusal_forgets: true,
    ..LINUX_6_1_141
};
const LINUX_6_1_158: Rules = Rules {
    scattered: Scattered::Nothing,
    ..LINUX_6_1_157
};
const LINUX_6_12: Rules = Rules {
    lookup: Lookup::UnlessSoon,
    zeros_repeat: false,
    ..LINUX_6_1
};
const LINUX_6_12_31: Rules = Rules {
    scattered: Scattered::Longest,
    ..LINUX_6_12
};
const LINUX_6_12_43: Rules = Rules {
    refusal_forgets: true,
    ..LINUX_6_12_31
};
const LINUX_6_12_44: Rules = Rules {
    latency: Latency::Request,
    latency_first: true,
    ..LINUX_6_12_43
};
const LINUX_6_12_56: Rules = Rules {
    scattered: Scattered::Nothing,
    ..LINUX_6_12_44
};
const LINUX_6_12_58: Rules = Rules {
    beats_polling: BeatsPolling::Predicted,
    ..LINUX_6_12_56
};
const LINUX_6_12_64: Rules = Rules {
    beats_polling: BeatsPolling::PredictedAndSoon,
    ..LINUX_6_12_58
};
const LINUX_6_12_75: Rules = Rules {
    lookup: Lookup::UnlessSoonWithTick,
    ..LINUX_6_12_64
};
const LINUX_6_13: Rules = Rules {
    latency: Latency::Prediction,
    ..LINUX_6_12
};
const LINUX_6_15: Rules = Rules {
    outliers: Outliers::Farthest,
    scattered: Scattered::Longest,
    ..LINUX_6_13
};
const LINUX_6_17: Rules = Rules {
    latency: Latency::Request,
    refusal_forgets: true,
    latency_first: true,
    ..LINUX_6_15
};
const LINUX_6_17_6: Rules = Rules {
    scattered: Scattered::Nothing,
    ..LINUX_6_17
};
const LINUX_6_17_8: Rules = Rules {
    beats_polling: BeatsPolling::Predicted,
    ..LINUX_6_17_6
};
const LINUX_6_18_3: Rules = Rules {
    beats_polling: BeatsPolling::PredictedAndSoon,
    ..LINUX_6_17_8
};
const LINUX_6_18_14: Rules = Rules {
    lookup: Lookup::UnlessSoonWithTick,
    ..LINUX_6_18_3
};
const LINUX_7_0: Rules = Rules {
    one_state_shortcut: false,
    ..LINUX_6_18_14
};
const LINUX_7_1: Rules = Rules {
    near_timer_ticks: 2,
    ..LINUX_7_0
};

/// Generations of menu with their rules, oldest series first. [`super::AnyMenu`] has a variant for
/// each, in this order.
pub(super) const GENERATIONS: [Entry<Rules>; 21] = [
    generation_entry(
        &[(6, 1, 0), (6, 2, 0)],
        LINUX_6_1,
        None,
        "I/O wait counts; the timer is always looked up",
    ),
    generation_entry(
        &[(6, 1, 141)],
        LINUX_6_1_141,
        None,
        "scattered intervals predict the longest of them",
    ),
    generation_entry(
        &[(6, 1, 157)],
        LINUX_6_1_157,
        None,
        "a refused state leaves an unknown interval",
    ),
    generation_entry(
        &[(6, 1, 158)],
        LINUX_6_1_158,
        Some("6.1.192"),
        "scattered intervals predict nothing again",
    ),
    generation_entry(
        &[(6, 6, 0), (6, 7, 0), (6, 12, 0)],
        LINUX_6_12,
        Some("6.12.8"),
        "no look at the timer if recent intervals promise a wake-up within 15 us",
    ),
    generation_entry(
        &[(6, 6, 93), (6, 12, 31)],
        LINUX_6_12_31,
        Some("6.12.38"),
        "scattered intervals predict the longest of them",
    ),
    generation_entry(
        &[(6, 12, 43)],
        LINUX_6_12_43,
        Some("6.12.43"),
        "a refused state leaves an unknown interval",
    ),
    generation_entry(
        &[(6, 6, 103), (6, 12, 44)],
        LINUX_6_12_44,
        None,
        "I/O wait does not count; latency is checked before residency, and only the request limits it",
    ),
    generation_entry(
        &[(6, 6, 115), (6, 12, 56)],
        LINUX_6_12_56,
        Some("6.12.57"),
        "scattered intervals predict nothing again",
    ),
    generation_entry(
        &[(6, 6, 117), (6, 12, 58)],
        LINUX_6_12_58,
        None,
        "a state beats polling only if its exit latency is within the prediction",
    ),
    generation_entry(
        &[(6, 6, 120), (6, 12, 64)],
        LINUX_6_12_64,
        Some("6.12.69"),
        "a state beats polling only if it pays off within 15 us",
    ),
    generation_entry(
        &[(6, 6, 128), (6, 12, 75)],
        LINUX_6_12_75,
        Some("6.12.117"),
        "the timer is looked up whenever the tick is stopped",
    ),
    generation_entry(
        &[(6, 13, 0)],
        LINUX_6_13,
        None,
        "as 6.12.0, but I/O wait does not count",
    ),
    generation_entry(
        &[(6, 15, 0)],
        LINUX_6_15,
        None,
        "outliers at both ends are left out; scattered intervals predict the longest of them",
    ),
    generation_entry(
        &[(6, 17, 0)],
        LINUX_6_17,
        None,
        "a refused state leaves an unknown interval; latency is checked before residency, and only the request limits it",
    ),
    generation_entry(
        &[(6, 17, 6)],
        LINUX_6_17_6,
        None,
        "scattered intervals predict nothing again",
    ),
    generation_entry(
        &[(6, 17, 8), (6, 18, 0)],
        LINUX_6_17_8,
        Some("6.17.8"),
        "a state beats polling only if its exit latency is within the prediction",
    ),
    generation_entry(
        &[(6, 18, 3), (6, 19, 0)],
        LINUX_6_18_3,
        None,
        "a state beats polling only if it pays off within 15 us",
    ),
    generation_entry(
        &[(6, 18, 14), (6, 19, 4)],
        LINUX_6_18_14,
        Some("6.18.15"),
        "the timer is looked up whenever the tick is stopped",
    ),
    generation_entry(
        &[(7, 0, 0)],
        LINUX_7_0,
        None,
        "no shortcut of its own for one state",
    ),
    generation_entry(
        &[(7, 1, 0)],
        LINUX_7_1,
        Some("7.1.13"),
        "with the tick stopped, a timer within two ticks does not overrule the prediction",
    ),
];
