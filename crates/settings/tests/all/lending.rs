//! Events of the machine while a daemon has the lock, on a captured machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use wakepath_settings::reset::ResetEvent;
use wakepath_settings::{
    Hold, LockOffer, ReapplyOutcome, Session, SettingsError, SettingsPlan,
    apply_persistent_settings_at_boot, reapply_after_event, switch_to_set_of_present_supply,
};
use wakepath_system::System;
use wakepath_system::journal::lock_holder_pid;

use crate::common::{assert_same, content, laptop, plan, read, write};

const GOVERNOR: &str = "sys/devices/system/cpu/cpuidle/current_governor";
const EPP: &str = "sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference";
const FILE: &str = "etc/wakepath/settings.toml";

/// A laptop after a boot with persistent settings, and its files before that.
fn booted() -> (
    tempfile::TempDir,
    System,
    std::collections::BTreeMap<String, Vec<u8>>,
) {
    let (directory, system) = laptop();
    let machine = directory.path();
    write(machine, "sys/class/power_supply/BAT0/type", "Battery\n");
    let text = "mains = 'epp[value=power]'\nbattery = 'epp[value=performance]'\n";
    write(machine, FILE, text);
    let before = content(machine);
    apply_persistent_settings_at_boot(&system).unwrap();
    (directory, system, before)
}

/// Has `ladder` in force, as a daemon has its settings.
fn hold_ladder(system: &System, session: Session) -> Hold {
    let wanted: SettingsPlan = plan(system, &["ladder"]);
    let hold = session.reserve_for_repeated_changes(&wanted).unwrap();
    hold.write_or_put_back(&wanted.changes[0].key, Some("ladder"))
        .unwrap();
    hold
}

/// Lends the lock once, as a daemon does, and has `ladder` in force before and after that.
fn lend_once(system: &System, offer: &LockOffer, hold: Hold) -> Hold {
    let mut fds = [PollFd::from_borrowed_fd(offer.descriptor(), PollFlags::IN)];
    poll(&mut fds, None).unwrap();
    let borrower = offer.accept_borrower().unwrap();
    let (session, _) = hold.put_back_and_release().unwrap().unwrap();
    let returned = session.lend_lock_to_borrower(&borrower, || true).unwrap();
    hold_ladder(system, returned.unwrap())
}

#[test]
fn events_borrow_the_lock_of_a_daemon_and_return_it() {
    let (directory, system, before) = booted();
    let machine = directory.path();
    let own = String::from_utf8_lossy(&before[EPP]).trim().to_owned();
    let offer = LockOffer::open(system.root()).unwrap();
    let hold = hold_ladder(&system, Session::open_and_recover(&system).unwrap());
    let hold = thread::scope(|scope| {
        let daemon = scope.spawn(|| {
            let hold = lend_once(&system, &offer, hold);
            lend_once(&system, &offer, hold)
        });
        // Sleep has reset the preference.
        write(machine, EPP, &own);
        let ReapplyOutcome::Looked(done) =
            reapply_after_event(&system, &ResetEvent::Resume).unwrap()
        else {
            panic!("the settings are in force");
        };
        assert_eq!(done.reset.len(), 1, "{done:?}");
        assert_eq!(read(machine, EPP), "power");
        write(machine, "sys/class/power_supply/AC/online", "0\n");
        switch_to_set_of_present_supply(&system).unwrap();
        assert_eq!(read(machine, EPP), "performance");
        daemon.join().unwrap()
    });
    assert_eq!(read(machine, GOVERNOR), "ladder");
    // Nothing is to be done, so that nobody borrows: there is nobody who would lend.
    for event in [
        ResetEvent::Interval,
        ResetEvent::Resume,
        ResetEvent::CpuOnline(0),
    ] {
        reapply_after_event(&system, &event).unwrap();
    }
    drop(hold);
    drop(offer);
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    wakepath_settings::remove_supply_record(&system).unwrap();
    write(machine, "sys/class/power_supply/AC/online", "1\n");
    for file in [GOVERNOR, EPP] {
        assert_eq!(content(machine)[file], before[file], "{file}");
    }
}

#[test]
fn a_daemon_that_is_to_stop_leaves_the_lock_to_the_borrower() {
    let (directory, system, _) = booted();
    let before = content(directory.path());
    let offer = LockOffer::open(system.root()).unwrap();
    let session = Session::open_and_recover(&system).unwrap();
    let (began, has_begun) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let socket = directory.path().join("var/lib/wakepath/daemon.socket");
            let borrower = UnixStream::connect(socket).unwrap();
            began.send(()).unwrap();
            thread::sleep(Duration::from_millis(1500));
            drop(borrower);
        });
        has_begun.recv().unwrap();
        let borrower = offer.accept_borrower().unwrap();
        let returned = session.lend_lock_to_borrower(&borrower, || false).unwrap();
        assert!(returned.is_none());
        // The file of the lock waits in the connection, and the lock with it.
        assert!(lock_holder_pid(system.root()).is_some());
    });
    drop(offer);
    assert!(
        !directory
            .path()
            .join("var/lib/wakepath/daemon.socket")
            .exists()
    );
    assert_same(directory.path(), &before);
}

#[test]
fn a_command_that_has_the_lock_lends_nothing() {
    let (directory, system, _) = booted();
    // The socket of a daemon that was killed.
    let socket = directory.path().join("var/lib/wakepath/daemon.socket");
    drop(UnixListener::bind(&socket).unwrap());
    let _session = Session::open_and_recover(&system).unwrap();
    write(directory.path(), EPP, "performance\n");
    // An interval does not wait.
    let outcome = reapply_after_event(&system, &ResetEvent::Interval).unwrap();
    assert!(
        matches!(&outcome, ReapplyOutcome::Looked(done) if done.drift.is_empty()),
        "{outcome:?}"
    );
    assert!(matches!(
        Session::open_and_recover(&system),
        Err(SettingsError::Locked { .. })
    ));
    // The next daemon takes the socket over.
    drop(LockOffer::open(system.root()).unwrap());
    assert!(!socket.exists());
}
