//! teo's rules by kernel from 6.11 on: every generation, as differences from another. Linux 6.1's [`super::Teo61`]
//! works differently.
//!
//! Sources: `drivers/cpuidle/governors/teo.c` of Linux 6.12.117, 7.2.13 and 7.3.4, decisions of the releases named under
//! `compared`, and for the others the changes as they were posted and merged.

use super::super::generations::{Entry, Generation, generation_entry};

/// Rules in which generations of the teo governor differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// How teo detects a wake-up that only cut a long sleep short.
    pub(super) cut_short: CutShort,
    /// Which wake-ups teo counts as hits.
    pub(super) hit: Hit,
    /// Which wake-ups by the tick count as hits, whatever the timer.
    pub(super) tick_wakeups: TickWakeups,
    /// How teo reckons the number of all wake-ups.
    pub(super) total: Total,
    /// Whether a counter below 8, whose eighth is 0, decays to 0.
    pub(super) decays_to_zero: bool,
    /// Which wake-ups keep the tick on, and their required share.
    pub(super) keeps_tick: KeepsTick,
    /// When teo looks up the next timer.
    pub(super) lookup: Lookup,
    /// Which shallower state teo takes if most wake-ups come early.
    pub(super) search: Search,
    /// Whether, with the tick stopped, a near timer still rules out states that pay off within a
    /// tick.
    pub(super) near_timer_must_leave_a_tick: bool,
    /// Whether, with the tick stopped and the timer more than two ticks away, a state that pays off
    /// within a tick gives way to the deepest one that the timer leaves time for.
    pub(super) stopped_tick_deepens: bool,
    /// Whether teo takes a driver's only state without further thought and leaves the tick as is.
    pub(super) one_state_shortcut: bool,
}

/// How teo detects a wake-up that only cut a long sleep short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CutShort {
    /// A sleep was cut short if at least the time to the timer passed until teo was told. A polling
    /// limit, or a tick before a later timer, counts as such a time.
    Time,
    /// A sleep was cut short by a polling limit, or by a tick before a later timer.
    Cause,
    /// A sleep was cut short by a polling limit only.
    PollingLimit,
}

/// Which wake-ups teo counts as hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    /// A hit is a sleep that ended in the timer's bin. An extra bin behind the deepest state's
    /// collects sleeps of a tick or more, if the deepest state pays off within a tick.
    OneMoreBin,
    /// A hit is a sleep that ended in the timer's bin.
    SameBin,
    /// A hit is a sleep that ended in the timer's bin, less than half an exit latency before the
    /// timer.
    NearTimer,
}

/// Which wake-ups by the tick count as hits in teo, whatever the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TickWakeups {
    /// None.
    Unnoticed,
    /// Wake-ups by the tick count as hits of the deepest state, if they are more than two thirds of
    /// all wake-ups.
    IfMost,
    /// As [`Self::IfMost`]; otherwise wake-ups by the tick count in the timer's bin, if fewer than
    /// two thirds of all wake-ups were intercepts within a tick.
    IfMostOrUnexpected,
}

/// How teo reckons the number of all wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Total {
    /// The number of wake-ups is the sum over all counters.
    Sum,
    /// The number of wake-ups is a separate counter, which decays alike but with other rounding.
    Counter,
}

/// Which wake-ups keep the tick on in teo, and their required share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepsTick {
    /// The tick stays on if more than five eighths of all wake-ups are intercepts.
    Intercepts,
    /// The tick stays on if more than five eighths of all wake-ups are intercepts after a tick or
    /// later. The kernel's test was the wrong way round.
    LateIntercepts,
    /// The tick stays on if more than five eighths of all wake-ups are intercepts within a tick.
    EarlyIntercepts,
    /// The tick stays on if two thirds or more of all wake-ups are intercepts within a tick.
    TwoThirdsEarlyIntercepts,
}

/// When teo looks up the next timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// The timer is looked up unless state 0 was chosen, or a state that pays off within 15 us
    /// while state 0 polls.
    UnlessShallow,
    /// The timer is looked up unless state 0 or one that pays off within 15 us was chosen, and
    /// wake-ups within 15 us are half of all or the latency request is below 7.5 us.
    MostAreLong,
    /// The timer is looked up as by [`Self::MostAreLong`], and whenever the tick is stopped.
    MostAreLongOrTickStopped,
}

/// Which shallower state teo takes when most wake-ups are early: the deepest state that would have
/// suited more than half of the early wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// That state is taken if it is enabled and, with the tick stopped, pays off after a tick or
    /// more; otherwise the shallowest such state between it and the candidate.
    FirstSuitable,
    /// Only enabled states count; with the tick stopped, none shallower than the first state that
    /// pays off after a tick or more.
    DownToTick,
    /// As [`Self::DownToTick`], and no deeper than the bin with most intercepts.
    DownToTickFromMost,
    /// Only enabled states count, none deeper than the bin with most intercepts.
    FromMost,
}

const LINUX_6_12: Rules = Rules {
    cut_short: CutShort::Time,
    hit: Hit::OneMoreBin,
    tick_wakeups: TickWakeups::Unnoticed,
    total: Total::Sum,
    decays_to_zero: false,
    keeps_tick: KeepsTick::Intercepts,
    lookup: Lookup::UnlessShallow,
    search: Search::FirstSuitable,
    near_timer_must_leave_a_tick: true,
    stopped_tick_deepens: false,
    one_state_shortcut: true,
};
const LINUX_6_12_64: Rules = Rules {
    near_timer_must_leave_a_tick: false,
    ..LINUX_6_12
};
const LINUX_6_14: Rules = Rules {
    cut_short: CutShort::Cause,
    hit: Hit::SameBin,
    total: Total::Counter,
    keeps_tick: KeepsTick::LateIntercepts,
    lookup: Lookup::MostAreLong,
    ..LINUX_6_12
};
const LINUX_6_18_3: Rules = Rules {
    near_timer_must_leave_a_tick: false,
    ..LINUX_6_14
};
const LINUX_6_19: Rules = Rules {
    cut_short: CutShort::PollingLimit,
    tick_wakeups: TickWakeups::IfMost,
    total: Total::Sum,
    decays_to_zero: true,
    keeps_tick: KeepsTick::EarlyIntercepts,
    search: Search::DownToTick,
    ..LINUX_6_18_3
};
const LINUX_7_0: Rules = Rules {
    hit: Hit::NearTimer,
    tick_wakeups: TickWakeups::IfMostOrUnexpected,
    keeps_tick: KeepsTick::TwoThirdsEarlyIntercepts,
    search: Search::DownToTickFromMost,
    one_state_shortcut: false,
    ..LINUX_6_19
};
const LINUX_7_1: Rules = Rules {
    lookup: Lookup::MostAreLongOrTickStopped,
    search: Search::FromMost,
    stopped_tick_deepens: true,
    ..LINUX_7_0
};

/// The generation of teo in Linux 6.1, [`super::Teo61`].
pub(super) const LINUX_6_1: Generation = Generation {
    since: &[(6, 1, 0)],
    compared: Some("6.1.192"),
    change: "the last nine wake-ups count one by one",
};

/// Generations of teo from Linux 6.11 on with their rules, oldest series first. [`super::AnyTeo`]
/// has a variant for each, in this order.
pub(super) const GENERATIONS: [Entry<Rules>; 8] = [
    generation_entry(
        &[(6, 11, 0)],
        LINUX_6_12,
        Some("6.12.8"),
        "no list of recent intercepts; a bin for sleeps of a tick or more",
    ),
    generation_entry(
        &[(6, 12, 64)],
        LINUX_6_12_64,
        Some("6.12.117"),
        "with the tick stopped, a near timer may lead to a state that pays off within a tick",
    ),
    generation_entry(&[(6, 13, 0)], LINUX_6_12, None, "as 6.11"),
    generation_entry(
        &[(6, 14, 0)],
        LINUX_6_14,
        Some("6.17.8"),
        "wake-ups within 15 us are counted, and decide with the latency request whether the timer is looked up",
    ),
    generation_entry(
        &[(6, 18, 3)],
        LINUX_6_18_3,
        Some("6.18.15"),
        "with the tick stopped, a near timer may lead to a state that pays off within a tick",
    ),
    generation_entry(
        &[(6, 19, 0)],
        LINUX_6_19,
        Some("6.19.11"),
        "wake-ups by the tick are counted; intercepts within a tick keep the tick, not later ones. Counters decay to 0. \
         Another search for a shallower state",
    ),
    generation_entry(
        &[(7, 0, 0)],
        LINUX_7_0,
        None,
        "a hit must come close to the timer; the bin with most intercepts bounds the search for a shallower state",
    ),
    generation_entry(
        &[(7, 1, 0)],
        LINUX_7_1,
        Some("7.1.13"),
        "with the tick stopped, the timer is always looked up and, if far, leads to a deep state",
    ),
];
