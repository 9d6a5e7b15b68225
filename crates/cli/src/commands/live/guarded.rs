//! `wakepath apply --keep`: a set that is put back when latency breaks a condition.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use wakepath_daemon::latency_feed::{FeedSlice, LatencyFeed};
use wakepath_record::facts;
use wakepath_settings::{Hold, Session, SettingsPlan};
use wakepath_system::System;
use wakepath_watch::guard::{
    BREAKING_WINDOWS, Guard, GuardCondition, GuardEvent, WHAT_IS_WATCHED, WINDOW_REQUESTS,
    WINDOW_SLICES, WindowVerdict,
};

use crate::messages::{note, tell};
use crate::until::EndSignals;
use crate::waiting;

/// How often signals and new slices are looked at.
const STEP: Duration = Duration::from_millis(100);
/// How long latency is watched after a set was put back, at most.
const LONGEST_AFTER: Duration = Duration::from_secs(600);

/// A guard with the measurement that it judges by.
pub(super) struct GuardedSet {
    guard: Guard,
    /// Its conditions, as they were written.
    conditions: Vec<String>,
    feed: LatencyFeed,
    signals: EndSignals,
    /// The last verdict that was told, by condition.
    told: BTreeMap<String, WindowVerdict>,
    lost_events: u64,
}

/// Why waiting for a guard ended.
pub(super) enum WaitEnd {
    /// A signal came, by number.
    Signal(i32),
    /// The time was over.
    Time,
    /// What was waited for has come.
    Reached,
}

/// Checks that latency without a set can be measured, which relative limits compare with. `plan_set`: plans the set's settings.
///
/// # Errors
/// A limit is relative, and the set cannot be planned or changes nothing, as where it is in force already.
pub(super) fn check_relative_limits(
    conditions: &[GuardCondition],
    plan_set: impl FnOnce() -> anyhow::Result<SettingsPlan>,
) -> anyhow::Result<()> {
    let Some(condition) = conditions.iter().find(|condition| condition.is_relative()) else {
        return Ok(());
    };
    ensure!(
        plan_set()?.differing_changes().next().is_some(),
        "--keep '{condition}': the set changes nothing now, so there is no latency without the set to compare with; give a \
         limit in us, or run `wakepath restore --now` first"
    );
    Ok(())
}

/// Says what a guard would watch.
///
/// # Errors
/// A condition names a drive that this machine does not have, or has nothing to compare with.
pub(super) fn describe_guard(
    conditions: &[GuardCondition],
    plan: &SettingsPlan,
) -> anyhow::Result<()> {
    let drives = names_of_drives();
    check_drives(conditions, &drives)?;
    check_relative_limits(conditions, || Ok(plan.clone()))?;
    for condition in conditions {
        let watched = condition
            .drive()
            .map_or_else(|| drives.join(", "), str::to_owned);
        let before = if condition.is_relative() {
            format!(", against {BREAKING_WINDOWS} windows before the set is applied")
        } else {
            String::new()
        };
        note!(
            "would watch {condition} over the requests of {watched}{before}; {BREAKING_WINDOWS} broken windows in a row put the set \
             back, each of {WINDOW_SLICES} s with requests and {WINDOW_REQUESTS} requests or more"
        );
    }
    note!("{WHAT_IS_WATCHED}");
    Ok(())
}

/// Notes that a guard watches this machine if the settings are those of a captured one.
pub(super) fn note_if_other_machine(system: &System) {
    if !system.root().is_live() {
        note!(
            "the guard watches this machine, not that of `{}`",
            system.root().command_line_option().trim_start()
        );
    }
}

fn names_of_drives() -> Vec<String> {
    let metadata = facts::read_metadata(&System::live());
    metadata.devices.into_iter().map(|d| d.name).collect()
}

fn check_drives(conditions: &[GuardCondition], drives: &[String]) -> anyhow::Result<()> {
    for condition in conditions {
        if let Some(wanted) = condition.drive() {
            ensure!(
                drives.iter().any(|drive| drive == wanted),
                "--keep '{condition}': no drive is called {wanted}; expected one of {}",
                drives.join(", ")
            );
        }
    }
    Ok(())
}

impl GuardedSet {
    /// Begins to measure. Nothing is changed yet.
    ///
    /// # Errors
    /// This machine does not let its requests be followed, or a condition names a drive that it does not have.
    pub(super) fn start(conditions: Vec<GuardCondition>) -> anyhow::Result<Self> {
        check_drives(&conditions, &names_of_drives())?;
        // Signals are caught before the lock is taken, so that a signal never ends the process between a write and the
        // wait.
        let signals = EndSignals::new()?;
        let feed = LatencyFeed::start(false).context("--keep follows block requests")?;
        note!("{WHAT_IS_WATCHED}");
        Ok(Self {
            conditions: conditions.iter().map(ToString::to_string).collect(),
            guard: Guard::new(conditions),
            feed,
            signals,
            told: BTreeMap::new(),
            lost_events: 0,
        })
    }

    /// Measures what relative conditions compare with. Returns whether the set may be applied; else a signal came.
    pub(super) fn measure_before(&mut self) -> anyhow::Result<bool> {
        if !self.guard.waits_for_figures_before() {
            return Ok(true);
        }
        tell!(
            "measuring before the set is applied: {BREAKING_WINDOWS} windows of {WINDOW_SLICES} s with requests, each with \
             {WINDOW_REQUESTS} requests or more; run your load"
        );
        match self.follow_until(None, |guard| !guard.waits_for_figures_before())? {
            WaitEnd::Signal(signal) => {
                waiting::cancel_and_tell_if_cancelled_before(signal);
                Ok(false)
            }
            WaitEnd::Time | WaitEnd::Reached => Ok(true),
        }
    }

    /// Applies a plan, and holds it while its conditions are kept, at most for `longest`.
    ///
    /// # Errors
    /// The plan cannot be applied or put back, the measurement ended, or a condition was broken; then everything is put back.
    pub(super) fn hold_while_kept(
        mut self,
        session: Session,
        plan: &SettingsPlan,
        longest: Option<Duration>,
        print_plan: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let hold = session.apply_while_held(plan)?;
        print_plan()?;
        let ended = self.watch_set_in_force(longest)?;
        if let WaitEnd::Reached = ended {
            return self.put_back_and_find_cause(hold, plan);
        }
        super::restore::put_back_and_tell(hold, plan)?;
        if let WaitEnd::Signal(signal) = ended {
            waiting::cancel_and_tell_if_cancelled_before(signal);
        }
        Ok(())
    }

    /// Watches a set that somebody else holds in force. [`WaitEnd::Reached`]: a condition is broken.
    ///
    /// # Errors
    /// The measurement ended.
    pub(super) fn watch_set_in_force(
        &mut self,
        longest: Option<Duration>,
    ) -> anyhow::Result<WaitEnd> {
        self.follow_until(longest, Guard::demands_put_back)
    }

    /// Names conditions that no window has judged yet, or that the last window broke; `None` without any.
    pub(super) fn describe_open_conditions(&self) -> Option<String> {
        let with_verdict = |wanted: Option<WindowVerdict>| -> Vec<&str> {
            let all = self.conditions.iter().map(String::as_str);
            all.filter(|condition| self.told.get(*condition).copied() == wanted)
                .collect()
        };
        let mut why = Vec::new();
        let unjudged = with_verdict(None);
        if !unjudged.is_empty() {
            why.push(format!(
                "too few requests came to judge {}: a window has {WINDOW_SLICES} s with requests and {WINDOW_REQUESTS} requests or more",
                unjudged.join(", ")
            ));
        }
        let broken = with_verdict(Some(WindowVerdict::Broken));
        if !broken.is_empty() {
            why.push(format!("the last window broke {}", broken.join(", ")));
        }
        (!why.is_empty()).then(|| why.join("; "))
    }

    /// Puts the set back, and watches whether latency is better without it.
    ///
    /// # Errors
    /// Always, unless a signal came: the condition was broken.
    pub(super) fn put_back_and_find_cause(
        mut self,
        hold: Hold,
        plan: &SettingsPlan,
    ) -> anyhow::Result<()> {
        super::restore::put_back_and_tell(hold, plan)?;
        self.guard.note_set_was_put_back();
        tell!("watching whether latency is better without the set; Ctrl-C ends that");
        match self.follow_until(Some(LONGEST_AFTER), Guard::has_ended)? {
            WaitEnd::Signal(signal) => {
                waiting::cancel_and_tell_if_cancelled_before(signal);
                Ok(())
            }
            WaitEnd::Time => bail!(
                "the set did not keep its condition and was put back; too few requests came since to say whether that helped"
            ),
            WaitEnd::Reached => bail!("the set did not keep its condition and was put back"),
        }
    }

    /// Gives slices to the guard and tells what it finds, until something is reached, a signal comes, or the time is over.
    fn follow_until(
        &mut self,
        longest: Option<Duration>,
        is_reached: impl Fn(&Guard) -> bool,
    ) -> anyhow::Result<WaitEnd> {
        let begun = Instant::now();
        loop {
            let left = longest.map(|time| time.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(WaitEnd::Time);
            }
            let step = left.map_or(STEP, |left| left.min(STEP));
            if let Some(signal) = self.signals.wait_for_signal_up_to(Some(step)) {
                return Ok(WaitEnd::Signal(signal));
            }
            while let Some(slice) = self.feed.take_complete_slice()? {
                self.judge_slice(&slice);
                if is_reached(&self.guard) {
                    return Ok(WaitEnd::Reached);
                }
            }
        }
    }

    fn judge_slice(&mut self, slice: &FeedSlice) {
        if slice.lost_events > 0 && self.lost_events == 0 {
            tell!(
                "events found no room in the buffers; requests in flight there are left out, slow ones among them"
            );
        }
        self.lost_events = slice.lost_events;
        for event in self.guard.add_slice(&slice.latencies) {
            match event {
                GuardEvent::Window(report) => {
                    if let Some(unit_note) = &report.unit_note {
                        tell!("note: {unit_note}");
                    }
                    let before = self.told.insert(report.condition.clone(), report.verdict);
                    if before != Some(report.verdict) || report.verdict == WindowVerdict::Broken {
                        tell!("{report}");
                    }
                }
                other => tell!("{other}"),
            }
        }
    }
}
