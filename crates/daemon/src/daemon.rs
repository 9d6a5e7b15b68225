//! The daemon from start to end, with reloads.

use std::path::{Path, PathBuf};

use sd_notify::NotifyState;
use wakepath_settings::daemon_config::{self, Config, ConfigError};
use wakepath_settings::{LockBorrower, LockOffer, Session, SettingsError, watch_applied_settings};
use wakepath_system::System;
use wakepath_units::causes::in_one_line;

use crate::error::DaemonError;
use crate::guarding::parse_guard_conditions;
use crate::log;
use crate::running::{Daemon, notify_systemd};
use crate::signals::{Interruption, LockLender, Signals};

/// Runs the daemon until SIGTERM or SIGINT, or until a lender ends, and puts everything back.
///
/// # Errors
/// Nothing can be done, or what was changed cannot be put back.
pub fn run_until_stopped(
    system: &System,
    path: Option<&Path>,
    lender: Option<&LockLender>,
) -> Result<(), DaemonError> {
    // Signals are caught before the first change: none may end the process in the middle of a change.
    let signals = Signals::catch_signals(lender)?;
    let mut config = load_config_or_default(path)?;
    let session = open_own_or_lent_session(system, lender)?;
    log_recovered_settings(&session);
    let mut daemon = Daemon::start_parts(system, session, &config, None, None)?;
    let offer = open_lock_offer_unless_lent(system, lender);
    if lender.is_none() {
        log_foreign_writes(system.clone());
    }
    notify_systemd(&[
        NotifyState::Ready,
        NotifyState::Status(&daemon.status_line()),
    ]);
    loop {
        match daemon.serve_until_interrupted(&signals, offer.as_ref())? {
            Interruption::Stop => break,
            Interruption::Reload => {}
            Interruption::LockWanted => {
                let Some(offer) = &offer else { continue };
                let Some(borrower) = offer.accept_borrower() else {
                    continue;
                };
                let lend = |session| lend_lock_to_all(session, borrower, offer, &signals);
                let Some(again) = daemon.lend_lock_and_start_again(&config, lend)? else {
                    return Ok(());
                };
                daemon = again;
                continue;
            }
            Interruption::MeasuredBefore => {
                let Some(in_force) = daemon.put_set_in_force(&config)? else {
                    return Ok(());
                };
                daemon = in_force;
                notify_systemd(&[NotifyState::Status(&daemon.status_line())]);
                continue;
            }
            Interruption::ConditionBroken => {
                let Some(watching) = daemon.put_back_set_and_keep_watching(&config)? else {
                    return Ok(());
                };
                daemon = watching;
                notify_systemd(&[NotifyState::Status(&daemon.status_line())]);
                continue;
            }
        }
        notify_systemd(&[NotifyState::Status("Reloading")]);
        // The new configuration is checked before anything stops: leases go on if it is refused.
        let accepted = load_config_or_default(path)
            .map_err(DaemonError::from)
            .and_then(|new| {
                daemon.check_new_config_can_take_over(&new)?;
                Ok(new)
            });
        let refusal = match accepted {
            Ok(new) => {
                let Some(reloaded) =
                    restart_with_new_config(daemon, system, lender, &config, &new)?
                else {
                    return Ok(());
                };
                daemon = reloaded.daemon;
                if reloaded.refusal.is_none() {
                    config = new;
                }
                reloaded.refusal
            }
            Err(error) => Some(error),
        };
        match refusal {
            None => log::log_info("reloaded"),
            Some(error) => log::log_error(&format!(
                "not reloaded, the old configuration stays: {}",
                in_one_line(&error)
            )),
        }
        notify_systemd(&[NotifyState::Status(&daemon.status_line())]);
    }
    notify_systemd(&[NotifyState::Stopping]);
    daemon.stop_and_put_back()?;
    Ok(())
}

/// Logs who else writes to settings that were applied, in a thread that ends with the process.
fn log_foreign_writes(system: System) {
    std::thread::spawn(move || {
        let ended = watch_applied_settings(&system, |write| {
            log::log_info(&format!(
                "{} has written {}, which is '{}' now",
                write.describe_process(),
                write.key,
                write.value
            ));
        });
        if let Err(error) = ended {
            log::log_info(&format!(
                "`wakepath status` cannot name who writes settings: {error}"
            ));
        }
    });
}

/// Offers the lock to events of the machine, unless it is lent itself: a live study measures without events.
fn open_lock_offer_unless_lent(system: &System, lender: Option<&LockLender>) -> Option<LockOffer> {
    if lender.is_some() {
        return None;
    }
    match LockOffer::open(system.root()) {
        Ok(offer) => Some(offer),
        Err(error) => {
            log::log_warning(&format!(
                "`wakepath apply --persist` writes nothing again while this daemon runs: {}",
                in_one_line(&error)
            ));
            None
        }
    }
}

/// Lends the lock to one event after the other, as many come at once when CPUs are switched on, and waits for its return.
/// `None`: the daemon is to stop.
fn lend_lock_to_all(
    session: Session,
    first: LockBorrower,
    offer: &LockOffer,
    signals: &Signals,
) -> Result<Option<Session>, SettingsError> {
    log::log_info("everything is put back for a moment: an event writes persistent settings");
    let mut present = session;
    let mut next = Some(first);
    while let Some(borrower) = next {
        let keeps_waiting = || {
            notify_systemd(&[NotifyState::Watchdog]);
            !signals.is_stop_demanded()
        };
        match present.lend_lock_to_borrower(&borrower, keeps_waiting)? {
            Some(returned) => present = returned,
            None => return Ok(None),
        }
        next = offer.accept_borrower();
    }
    Ok(Some(present))
}

/// Logs settings that were put back because their process was killed.
fn log_recovered_settings(session: &Session) {
    let recovered = session.restored_at_opening();
    if !recovered.written.is_empty() {
        log::log_warning(&format!(
            "put {} setting(s) back that a process had changed which was killed",
            recovered.written.len()
        ));
    }
    for note in &recovered.notes {
        log::log_info(note);
    }
    for away in &recovered.away {
        log::log_warning(away);
    }
}

/// What a reload has led to: a daemon, and the configuration in force.
struct Reloaded {
    daemon: Daemon,
    /// Why the old configuration stays in force, if it does.
    refusal: Option<DaemonError>,
}

/// Stops a daemon and starts another with the new configuration; after a failure, with the old configuration. `None`: the
/// process is ending, and the settings are put back.
fn restart_with_new_config(
    daemon: Daemon,
    system: &System,
    lender: Option<&LockLender>,
    old: &Config,
    new: &Config,
) -> Result<Option<Reloaded>, DaemonError> {
    let missing = daemon.missing_policies().clone();
    let Some(session) = daemon.stop_and_put_back()? else {
        return Ok(None);
    };
    Ok(Some(
        match Daemon::start_parts(system, session, new, Some(&missing), None) {
            Ok(daemon) => Reloaded {
                daemon,
                refusal: None,
            },
            Err(error) => Reloaded {
                daemon: Daemon::start_parts(
                    system,
                    open_own_or_lent_session(system, lender)?,
                    old,
                    None,
                    None,
                )?,
                refusal: Some(error),
            },
        },
    ))
}

/// Opens the right to change settings: of this process, or lent by the parent.
fn open_own_or_lent_session(
    system: &System,
    lender: Option<&LockLender>,
) -> Result<Session, DaemonError> {
    Ok(match lender {
        None => Session::open_and_recover(system)?,
        Some(lender) => Session::open_with_lent_lock(system, lender.clone_lock_descriptor()?)?,
    })
}

/// Loads the configuration: without a path the one in /etc, or the defaults if there is none.
///
/// # Errors
/// It cannot be read, or something in it is wrong.
pub fn load_config_or_default(path: Option<&Path>) -> Result<Config, ConfigError> {
    let usual = PathBuf::from(daemon_config::PATH);
    let read = match path {
        Some(path) => path,
        None if usual.exists() => &usual,
        None => return Ok(Config::default()),
    };
    let config = Config::read_file(read)?;
    parse_guard_conditions(&config, &read.display().to_string())?;
    Ok(config)
}
