//! The trial of `apply --persist`: a set is held for a while, watched by a guard if there are conditions, before it is kept.

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use wakepath_system::System;
use wakepath_watch::guard::GuardCondition;

use crate::messages::{self, tell};
use crate::until::EndSignals;

#[cfg(target_os = "linux")]
use super::guarded::{GuardedSet, WaitEnd};

/// Interval at which signals are looked at while a person thinks.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(100);

/// What ends a trial early.
pub(super) enum TrialWatch {
    /// Signals alone.
    Signals(EndSignals),
    /// Signals, and a guard with the conditions of `--keep`.
    #[cfg(target_os = "linux")]
    Guard(Box<GuardedSet>),
}

/// How a trial of settings ended.
pub(super) enum TrialEnd {
    /// The settings are to stay.
    Keep,
    /// The user does not want the settings, or cannot answer.
    PutBack,
    /// A condition is broken.
    Broken,
    /// A signal came, by number.
    Signal(i32),
}

/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub(super) fn refuse_guard_without_linux<T>() -> anyhow::Result<T> {
    anyhow::bail!("--keep follows block requests, which only Linux shows")
}

impl TrialWatch {
    /// Begins to catch signals and, with conditions, to measure. Relative conditions are measured to their end; nothing is changed
    /// meanwhile. `None`: a signal came first.
    ///
    /// # Errors
    /// Conditions that nobody can watch here.
    pub(super) fn start(
        system: &System,
        conditions: &[GuardCondition],
    ) -> anyhow::Result<Option<Self>> {
        if conditions.is_empty() {
            return Ok(Some(Self::Signals(EndSignals::new()?)));
        }
        Self::start_guard(system, conditions)
    }

    #[cfg(target_os = "linux")]
    fn start_guard(system: &System, conditions: &[GuardCondition]) -> anyhow::Result<Option<Self>> {
        super::guarded::note_if_other_machine(system);
        let mut guarded = GuardedSet::start(conditions.to_vec())?;
        let may_be_applied = guarded.measure_before()?;
        Ok(may_be_applied.then(|| Self::Guard(Box::new(guarded))))
    }

    #[cfg(not(target_os = "linux"))]
    fn start_guard(_: &System, _: &[GuardCondition]) -> anyhow::Result<Option<Self>> {
        refuse_guard_without_linux()
    }

    /// Waits for so long. `None`: nothing ended the trial early.
    fn wait_for_early_end(&mut self, time: Duration) -> anyhow::Result<Option<TrialEnd>> {
        Ok(match self {
            Self::Signals(signals) => signals
                .wait_for_signal_up_to(Some(time))
                .map(TrialEnd::Signal),
            #[cfg(target_os = "linux")]
            Self::Guard(guarded) => match guarded.watch_set_in_force(Some(time))? {
                WaitEnd::Signal(signal) => Some(TrialEnd::Signal(signal)),
                WaitEnd::Reached => Some(TrialEnd::Broken),
                WaitEnd::Time => None,
            },
        })
    }

    /// Why the conditions cannot be called kept so far; `None` if they can, or if there are none.
    fn describe_open_conditions(&self) -> Option<String> {
        match self {
            Self::Signals(_) => None,
            #[cfg(target_os = "linux")]
            Self::Guard(guarded) => guarded.describe_open_conditions(),
        }
    }

    /// Waits until the trial of settings in force is over, and then asks whether the settings are to stay. With `asks_nothing` they stay
    /// without a question, if all conditions were judged and kept.
    ///
    /// # Errors
    /// The measurement ended, or the answer cannot be read.
    pub(super) fn wait_and_ask(
        &mut self,
        time: Duration,
        asks_nothing: bool,
    ) -> anyhow::Result<TrialEnd> {
        tell!("in force for {time:?} on trial; Ctrl-C puts everything back");
        messages::print_held_messages();
        if let Some(end) = self.wait_for_early_end(time)? {
            return Ok(end);
        }
        let open = self.describe_open_conditions();
        if let Some(why) = &open {
            tell!("{why}");
        }
        match (asks_nothing, open) {
            (false, _) => self.ask_to_keep_settings(),
            (true, None) => Ok(TrialEnd::Keep),
            (true, Some(_)) => Ok(TrialEnd::PutBack),
        }
    }

    /// Asks whether the settings are to stay, and waits for an answer, a signal or a broken condition.
    fn ask_to_keep_settings(&mut self) -> anyhow::Result<TrialEnd> {
        tell!("Keep these settings, at every boot, too? [y/N]");
        messages::print_held_messages();
        let (send, answer) = mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = io::stdin().read_line(&mut line);
            // The receiver is gone if a signal came first.
            let _ = send.send(read.map(|_| line));
        });
        loop {
            match answer.try_recv() {
                Ok(line) => {
                    return Ok(if is_yes(&line?) {
                        TrialEnd::Keep
                    } else {
                        TrialEnd::PutBack
                    });
                }
                Err(mpsc::TryRecvError::Disconnected) => return Ok(TrialEnd::PutBack),
                Err(mpsc::TryRecvError::Empty) => {}
            }
            if let Some(end) = self.wait_for_early_end(SIGNAL_INTERVAL)? {
                return Ok(end);
            }
        }
    }
}

/// Whether an answer to a question is yes, in capitals or not.
fn is_yes(answer: &str) -> bool {
    ["y", "yes"]
        .iter()
        .any(|yes| answer.trim().eq_ignore_ascii_case(yes))
}
