//! menu's rules by kernel: every generation, as differences from another.
//!
//! Sources: `drivers/cpuidle/governors/menu.c` of Linux 6.1.192, 6.12.117, 7.2.13 and 7.3.4, decisions of the releases
//! named under `compared`, and for the others the changes as they were posted and merged.

use super::super::generations::{Entry, entry};

/// Rules of menu that differ between generations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// What limits the exit latency besides the latency request.
    pub(super) latency: Latency,
    /// When the next timer is looked up.
    pub(super) lookup: Lookup,
    /// With the tick stopped, a next timer further away than this many ticks replaces a short prediction.
    pub(super) near_timer_ticks: u64,
    /// Treatment of outliers among recent intervals.
    pub(super) outliers: Outliers,
    /// What intervals say that are still not about as long when no more may be left out.
    pub(super) scattered: Scattered,
    /// Intervals that are all zero are a pattern as well, not a sign of an empty memory.
    pub(super) zeros_repeat: bool,
    /// After a state that the driver refused, the last interval is unknown.
    pub(super) refusal_forgets: bool,
    /// A state with too long an exit latency ends the search before its target residency is checked.
    pub(super) latency_first: bool,
    /// When a sleeping state replaces a polling state although the prediction is too short.
    pub(super) beats_polling: BeatsPolling,
    /// A single state needs no choice.
    pub(super) one_state_shortcut: bool,
}

/// What limits the exit latency besides the latency request. With the tick stopped it is the request alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Latency {
    /// The prediction divided by 1 + 10 x the number of tasks in iowait. Such decisions also use separate correction
    /// factors.
    PredictionPerWaiter,
    /// The prediction.
    Prediction,
    /// Nothing.
    Request,
}

/// When the next timer is looked up, which costs time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// At every decision.
    Always,
    /// Only if the recent intervals do not promise a wake-up within 15 us.
    UnlessSoon,
    /// As before, and whenever the tick is stopped.
    UnlessSoonWithTick,
}

/// Treatment of outliers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outliers {
    /// The longest.
    Longest,
    /// The shortest or the longest, whichever is farther from the mean.
    Farthest,
}

/// Meaning of scattered intervals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scattered {
    /// Nothing.
    Nothing,
    /// With four or more intervals left, the longest bounds the next.
    Longest,
}

/// When a state that sleeps replaces a polling one although it is not expected to pay off. The next timer must be far
/// enough for it to pay off in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BeatsPolling {
    /// If it may be left within the tolerated latency.
    Tolerated,
    /// If it takes no longer to leave than the CPU is expected to be idle.
    Predicted,
    /// As before, and only if it pays off within 15 us.
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

/// All generations, oldest series first. [`super::AnyMenu`] has a variant for each, in this order.
pub(super) const GENERATIONS: [Entry<Rules>; 21] = [
    entry(
        &[(6, 1, 0), (6, 2, 0)],
        LINUX_6_1,
        None,
        "I/O wait counts; the timer is always looked up",
    ),
    entry(
        &[(6, 1, 141)],
        LINUX_6_1_141,
        None,
        "scattered intervals predict the longest of them",
    ),
    entry(
        &[(6, 1, 157)],
        LINUX_6_1_157,
        None,
        "a refused state leaves an unknown interval",
    ),
    entry(
        &[(6, 1, 158)],
        LINUX_6_1_158,
        Some("6.1.192"),
        "scattered intervals predict nothing again",
    ),
    entry(
        &[(6, 6, 0), (6, 7, 0), (6, 12, 0)],
        LINUX_6_12,
        Some("6.12.8"),
        "no look at the timer if recent intervals promise a wake-up within 15 us",
    ),
    entry(
        &[(6, 6, 93), (6, 12, 31)],
        LINUX_6_12_31,
        Some("6.12.38"),
        "scattered intervals predict the longest of them",
    ),
    entry(
        &[(6, 12, 43)],
        LINUX_6_12_43,
        Some("6.12.43"),
        "a refused state leaves an unknown interval",
    ),
    entry(
        &[(6, 6, 103), (6, 12, 44)],
        LINUX_6_12_44,
        None,
        "I/O wait does not count; latency is checked before residency, and only the request limits it",
    ),
    entry(
        &[(6, 6, 115), (6, 12, 56)],
        LINUX_6_12_56,
        Some("6.12.57"),
        "scattered intervals predict nothing again",
    ),
    entry(
        &[(6, 6, 117), (6, 12, 58)],
        LINUX_6_12_58,
        None,
        "a state beats polling only if its exit latency is within the prediction",
    ),
    entry(
        &[(6, 6, 120), (6, 12, 64)],
        LINUX_6_12_64,
        Some("6.12.69"),
        "a state beats polling only if it pays off within 15 us",
    ),
    entry(
        &[(6, 6, 128), (6, 12, 75)],
        LINUX_6_12_75,
        Some("6.12.117"),
        "the timer is looked up whenever the tick is stopped",
    ),
    entry(
        &[(6, 13, 0)],
        LINUX_6_13,
        None,
        "as 6.12.0, but I/O wait does not count",
    ),
    entry(
        &[(6, 15, 0)],
        LINUX_6_15,
        None,
        "outliers at both ends are left out; scattered intervals predict the longest of them",
    ),
    entry(
        &[(6, 17, 0)],
        LINUX_6_17,
        None,
        "a refused state leaves an unknown interval; latency is checked before residency, and only the request limits it",
    ),
    entry(
        &[(6, 17, 6)],
        LINUX_6_17_6,
        None,
        "scattered intervals predict nothing again",
    ),
    entry(
        &[(6, 17, 8), (6, 18, 0)],
        LINUX_6_17_8,
        Some("6.17.8"),
        "a state beats polling only if its exit latency is within the prediction",
    ),
    entry(
        &[(6, 18, 3), (6, 19, 0)],
        LINUX_6_18_3,
        None,
        "a state beats polling only if it pays off within 15 us",
    ),
    entry(
        &[(6, 18, 14), (6, 19, 4)],
        LINUX_6_18_14,
        Some("6.18.15"),
        "the timer is looked up whenever the tick is stopped",
    ),
    entry(
        &[(7, 0, 0)],
        LINUX_7_0,
        None,
        "no shortcut of its own for one state",
    ),
    entry(
        &[(7, 1, 0)],
        LINUX_7_1,
        Some("7.1.13"),
        "with the tick stopped, a timer within two ticks does not overrule the prediction",
    ),
];
