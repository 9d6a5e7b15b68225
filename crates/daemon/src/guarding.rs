//! The daemon's guard: conditions on latency, and the measurement that they are judged by.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use wakepath_settings::daemon_config::{Config, ConfigError};
use wakepath_system::System;
use wakepath_watch::guard::{
    Guard, GuardCondition, GuardEvent, WHAT_IS_WATCHED, WindowReport, WindowVerdict,
};

use crate::latency_feed::{FeedSlice, LatencyFeed};
use crate::latency_parts::PartCounts;
use crate::log;
use crate::missing::MissingPolicies;

/// How often slices are taken.
const INTERVAL: Duration = Duration::from_secs(1);

/// The measurement of latency, with the guard that judges by it, if there are conditions.
pub(crate) struct Guarding {
    /// `None` once the measurement has failed.
    feed: Option<LatencyFeed>,
    guard: Option<Guard>,
    /// Why some conditions are not watched.
    unwatched: Vec<String>,
    /// Whether a watched condition compares with latency before the set.
    compares_with_before: bool,
    state: GuardState,
    next: Instant,
}

/// What measurement and guard know, for metrics.
#[derive(Clone, Debug, Default)]
pub struct GuardState {
    /// The last window of each condition, by its text.
    pub windows: BTreeMap<String, WindowReport>,
    /// Whether the set was taken back because a condition was broken; `None` without a guard.
    pub set_was_put_back: Option<bool>,
    /// Requests by part since the start; `None` unless asked for.
    pub parts: Option<PartCounts>,
    /// Events of the measurement that found no room.
    pub lost_events: u64,
}

/// Parses the conditions of a configuration. `origin`: the configuration's name in messages.
///
/// # Errors
/// A condition that the daemon cannot watch, with its line.
pub(crate) fn parse_guard_conditions(
    config: &Config,
    origin: &str,
) -> Result<Vec<GuardCondition>, ConfigError> {
    let parsed = config.guard.keep.iter().map(|written| {
        let refuse = |message: String| ConfigError::File {
            origin: origin.to_owned(),
            line: written.line,
            message,
        };
        let condition: GuardCondition = written
            .text
            .parse()
            .map_err(|error: wakepath_results::ConditionError| refuse(error.to_string()))?;
        if condition.is_relative() && config.guard.applied {
            return Err(refuse(format!(
                "{condition}: with `applied = true` the guarded set is in force before anything is measured; expected a limit in \
                 us, or `applied = false`"
            )));
        }
        Ok(condition)
    });
    parsed.collect()
}

/// Checks that a machine has the drives that a configuration's conditions name. `origin`: the configuration's name in messages.
/// A machine that shows no block device proves nothing.
///
/// # Errors
/// A condition that the daemon cannot watch, or that names another drive, with its line.
pub fn check_guard_drives(
    system: &System,
    config: &Config,
    origin: &str,
) -> Result<(), ConfigError> {
    let conditions = parse_guard_conditions(config, origin)?;
    let drives = system.root().list_names("sys/block");
    for (condition, written) in conditions.iter().zip(&config.guard.keep) {
        let Some(wanted) = condition.drive() else {
            continue;
        };
        if !drives.is_empty() && !drives.iter().any(|drive| drive == wanted) {
            return Err(ConfigError::File {
                origin: origin.to_owned(),
                line: written.line,
                message: no_such_drive(condition, &drives),
            });
        }
    }
    Ok(())
}

fn add_unwatched_conditions(unwatched: &[String], missing: &mut MissingPolicies) {
    for why in unwatched {
        missing.add_missing("guard", why.clone());
    }
}

/// Why a condition cannot be watched that names a drive of another machine.
fn no_such_drive(condition: &GuardCondition, drives: &[String]) -> String {
    format!(
        "{condition}: no such drive; expected one of {}",
        drives.join(", ")
    )
}

impl Guarding {
    /// Begins to measure if the configuration asks for it. What cannot be had is added to `missing`.
    pub(crate) fn start_if_asked(config: &Config, missing: &mut MissingPolicies) -> Option<Self> {
        let conditions = match parse_guard_conditions(config, "daemon.toml") {
            Ok(conditions) => conditions,
            Err(error) => {
                missing.add_missing("guard", error.to_string());
                Vec::new()
            }
        };
        if conditions.is_empty() && !config.metrics.latency {
            return None;
        }
        let feed = match LatencyFeed::start(config.metrics.latency) {
            Ok(feed) => feed,
            Err(error) => {
                let parts = [
                    ("guard", !conditions.is_empty()),
                    ("latency", config.metrics.latency),
                ];
                for (part, _) in parts.into_iter().filter(|(_, is_asked)| *is_asked) {
                    missing.add_missing(part, format!("{part}: {error}"));
                }
                return None;
            }
        };
        let (known, unknown): (Vec<GuardCondition>, Vec<GuardCondition>) =
            conditions.into_iter().partition(|condition| {
                let mut drives = feed.drives().iter();
                condition
                    .drive()
                    .is_none_or(|wanted| drives.any(|drive| drive == wanted))
            });
        let why_unwatched = unknown.iter().map(|condition| {
            let why = no_such_drive(condition, feed.drives());
            format!("guard: {why}")
        });
        let unwatched: Vec<String> = why_unwatched.collect();
        add_unwatched_conditions(&unwatched, missing);
        let compares_with_before = known.iter().any(GuardCondition::is_relative);
        let guard = (!known.is_empty()).then(|| {
            let texts: Vec<String> = known.iter().map(ToString::to_string).collect();
            log::log_info(&format!("guard of {}; {WHAT_IS_WATCHED}", texts.join(", ")));
            Guard::new(known)
        });
        Some(Self {
            state: GuardState {
                set_was_put_back: guard.as_ref().map(|_| false),
                ..GuardState::default()
            },
            feed: Some(feed),
            guard,
            unwatched,
            compares_with_before,
            next: Instant::now() + INTERVAL,
        })
    }

    /// When [`Guarding::take_slices_if_due`] has to be called next; `None` after a failure.
    pub(crate) fn next_check_time(&self) -> Option<Instant> {
        self.feed.as_ref().map(|_| self.next)
    }

    /// Judges what was measured since the last call, and logs it. Returns whether the set has to be put back now.
    pub(crate) fn take_slices_if_due(&mut self) -> bool {
        if self.next > Instant::now() {
            return false;
        }
        self.next = Instant::now() + INTERVAL;
        while let Some(feed) = &self.feed {
            match feed.take_complete_slice() {
                Ok(Some(slice)) => self.judge_slice(slice),
                Ok(None) => break,
                Err(error) => {
                    log::log_error(&format!("latency is not measured any more: {error}"));
                    self.feed = None;
                    self.guard = None;
                }
            }
        }
        self.guard.as_ref().is_some_and(Guard::demands_put_back)
    }

    fn judge_slice(&mut self, slice: FeedSlice) {
        self.state.lost_events = slice.lost_events;
        self.state.parts = slice.parts;
        let Some(guard) = &mut self.guard else {
            return;
        };
        for event in guard.add_slice(&slice.latencies) {
            match event {
                GuardEvent::Window(report) => {
                    if let Some(note) = &report.unit_note {
                        log::log_warning(note);
                    }
                    let before = self.state.windows.get(&report.condition);
                    if report.verdict == WindowVerdict::Broken {
                        log::log_warning(&report.to_string());
                    } else if before.is_none_or(|before| before.verdict != report.verdict) {
                        log::log_info(&report.to_string());
                    }
                    let _ = self.state.windows.insert(report.condition.clone(), report);
                }
                GuardEvent::Before { .. } => log::log_info(&event.to_string()),
                other => log::log_warning(&other.to_string()),
            }
        }
    }

    /// The set was put back. Windows from now on tell whether that helped.
    pub(crate) fn note_set_was_put_back(&mut self) {
        self.state.set_was_put_back = Some(true);
        if let Some(guard) = &mut self.guard {
            guard.note_set_was_put_back();
        }
    }

    /// Whether latency without the set has to be measured first, because a limit is relative.
    pub(crate) fn waits_for_figures_before(&self) -> bool {
        (self.guard.as_ref()).is_some_and(Guard::waits_for_figures_before)
    }

    /// Whether figures are kept that cannot be measured in passing: those of latency before the set.
    pub(crate) const fn compares_with_before(&self) -> bool {
        self.compares_with_before
    }

    /// Goes on under the same configuration, when the set is in force after a moment or a measurement without it. Conditions that
    /// are not watched are added to `missing`. `None`: the measurement has failed.
    pub(crate) fn go_on_with_set_in_force(mut self, missing: &mut MissingPolicies) -> Option<Self> {
        self.feed.as_ref()?;
        if let Some(guard) = &mut self.guard {
            guard.note_set_was_applied_again();
        }
        add_unwatched_conditions(&self.unwatched, missing);
        Some(self)
    }

    /// Whether conditions are judged.
    pub(crate) const fn has_guard(&self) -> bool {
        self.guard.is_some()
    }

    /// What is known, for metrics.
    pub(crate) const fn state(&self) -> &GuardState {
        &self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_that_a_daemon_cannot_watch_are_refused_with_their_line() {
        for (condition, part) in [
            ("p99_us <= +5%", "before anything is measured"),
            ("mean_mw < 3", "not mean_mw"),
            ("p99us < 3", "did you mean `p99_us`"),
        ] {
            let text =
                format!("[guard]\nkeep = [\n'p99_us < 100',\n'{condition}']\napplied = true\n");
            let config = Config::parse("d.toml", &text).unwrap();
            let refused = parse_guard_conditions(&config, "d.toml").unwrap_err();
            let message = refused.to_string();
            assert!(message.starts_with("d.toml:4: "), "{message}");
            assert!(message.contains(part), "{message}");
        }
        // The daemon's own set can wait until latency without it is known.
        let config = Config::parse("d.toml", "[guard]\nkeep = ['p99_us <= +5%']\n").unwrap();
        assert_eq!(parse_guard_conditions(&config, "d.toml").unwrap().len(), 1);
    }

    #[test]
    fn a_drive_of_another_machine_is_named_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let system = System::new(wakepath_system::Root::at_directory(directory.path()));
        let text = "[guard]\nkeep = [\n'p99_us < 100',\n'p99_us(nope) < 5']\n";
        let config = Config::parse("d.toml", text).unwrap();
        // Nothing is known of this machine's drives.
        check_guard_drives(&system, &config, "d.toml").unwrap();
        for drive in ["nvme0n1", "sda"] {
            std::fs::create_dir_all(directory.path().join("sys/block").join(drive)).unwrap();
        }
        let refused = check_guard_drives(&system, &config, "d.toml").unwrap_err();
        assert_eq!(
            refused.to_string(),
            "d.toml:4: p99_us(nope) < 5: no such drive; expected one of nvme0n1, sda"
        );
        let mended = Config::parse("d.toml", &text.replace("nope", "sda")).unwrap();
        check_guard_drives(&system, &mended, "d.toml").unwrap();
    }
}
