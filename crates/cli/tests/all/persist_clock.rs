//! The trial of `apply --persist` beside steps of the clock, kills and reboots: no calendar time counts, and nothing stays of a trial
//! that was cut off.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::captured::{content, copy_of_laptop, different};
use crate::common::{skip, wakepath};

const SET: &str = "cpu-latency[limit=20us,cpus=all]";
const SETTINGS_FILE: &str = "etc/wakepath/settings.toml";
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
const UPTIME: &str = "proc/uptime";
/// Seconds that the clock is set forward or back by: more than a year.
const STEPS: [i64; 2] = [40_000_000, -40_000_000];

/// A library for `LD_PRELOAD` that sets the calendar clock off by the seconds in the file `$CLOCK_STEP`.
const STEPPED_CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long read_step(void) {
    long step = 0;
    const char *path = getenv("CLOCK_STEP");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (file) {
        if (fscanf(file, "%ld", &step) != 1) step = 0;
        fclose(file);
    }
    return step;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += read_step();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now) *now = precise.tv_sec;
    return precise.tv_sec;
}
"#;

/// A clock that programs see, and that steps.
struct SteppedClock {
    folder: tempfile::TempDir,
}

impl SteppedClock {
    /// Compiles the library; `None` where there is no compiler, or where it changes no clock.
    fn compile() -> Option<Self> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let clock = Self { folder };
        let source = clock.path("clock.c");
        fs::write(&source, STEPPED_CLOCK).unwrap();
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(clock.path("clock.so"))
            .arg(&source)
            .arg("-ldl")
            .status()
            .ok()?;
        if !compiled.success() {
            return None;
        }
        clock.step_by(STEPS[0]);
        let own = Command::new("date").arg("+%s").output().ok()?;
        let stepped = clock.command(Path::new("date")).arg("+%s").output().ok()?;
        let seconds = |text: &[u8]| String::from_utf8_lossy(text).trim().parse::<i64>().ok();
        let difference = seconds(&stepped.stdout)? - seconds(&own.stdout)?;
        clock.step_by(0);
        (difference >= STEPS[0]).then_some(clock)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn step_by(&self, seconds: i64) {
        fs::write(self.path("new"), seconds.to_string()).unwrap();
        fs::rename(self.path("new"), self.path("step")).unwrap();
    }

    /// A program that sees this clock.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", self.path("clock.so"))
            .env("CLOCK_STEP", self.path("step"));
        command
    }
}

/// A trial that runs; it is killed at the end of its test.
struct Trial {
    child: Child,
    begun: Instant,
}

impl Trial {
    /// Starts `apply --persist` and waits until its set is in force.
    fn start(mut command: Command, machine: &Path, time: &str) -> Self {
        let mut child = command
            .args(["apply", SET, "--persist", "--yes", "--for", time, "--root"])
            .arg(machine)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("on trial")));
        assert!(said.is_some(), "no trial began");
        // Whoever writes to a pipe that nobody reads is ended.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self {
            child,
            begun: Instant::now(),
        }
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end, and returns how long the trial took.
    fn wait_for_success(&mut self) -> Duration {
        while self.is_running() {
            assert!(self.begun.elapsed() < Duration::from_secs(60), "no end");
            sleep(Duration::from_millis(20));
        }
        assert!(self.child.wait().unwrap().success());
        self.begun.elapsed()
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wakepath_program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wakepath"))
}

/// Writes a file below a machine.
fn put(machine: &Path, file: &str, text: &str) {
    let path = machine.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_step_of_the_clock_neither_ends_nor_confirms_nor_stretches_a_trial() {
    const TRIAL: Duration = Duration::from_secs(3);
    let Some(clock) = SteppedClock::compile() else {
        return skip(
            "a_step_of_the_clock_neither_ends_nor_confirms_nor_stretches_a_trial",
            "no C compiler, or no program takes another clock here",
        );
    };
    for step in STEPS {
        let machine = copy_of_laptop();
        let before = content(machine.path());
        clock.step_by(0);
        let program = clock.command(Path::new(env!("CARGO_BIN_EXE_wakepath")));
        let mut trial = Trial::start(program, machine.path(), "3s");
        clock.step_by(step);
        sleep(TRIAL / 3);
        assert!(trial.is_running(), "a step of {step} s has ended the trial");
        assert!(!different(&content(machine.path()), &before).is_empty());
        assert!(!machine.path().join(SETTINGS_FILE).exists());
        let took = trial.wait_for_success();
        // The trial begins a moment before its line is read.
        assert!(took > TRIAL * 5 / 6, "{step} s: {took:?}");
        assert!(machine.path().join(SETTINGS_FILE).exists());
    }
}

#[test]
fn a_trial_that_is_killed_leaves_its_old_values_to_restore_and_no_file() {
    let machine = copy_of_laptop();
    put(machine.path(), BOOT_ID, "first\n");
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    for next in [
        &["restore", "--root", root][..],
        &["restore", "--held", "--root", root],
        &["apply", SET, "--for", "1ms", "--root", root],
    ] {
        let mut trial = Trial::start(wakepath_program(), machine.path(), "10m");
        // `Child::kill` sends SIGKILL.
        trial.child.kill().unwrap();
        trial.child.wait().unwrap();
        let changed = different(&content(machine.path()), &before);
        assert!(!changed.is_empty(), "{next:?}: nothing was in force");
        assert!(!machine.path().join(SETTINGS_FILE).exists());
        wakepath(next).success();
        let left = different(&content(machine.path()), &before);
        assert!(left.is_empty(), "{next:?}: {left:?}");
    }
}

#[test]
fn a_trial_that_a_power_cut_ends_is_not_continued_by_the_next_boot() {
    let machine = copy_of_laptop();
    put(machine.path(), BOOT_ID, "first\n");
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    let mut trial = Trial::start(wakepath_program(), machine.path(), "10m");
    trial.child.kill().unwrap();
    trial.child.wait().unwrap();
    // The next boot has the kernel's own values, but for one that somebody has set since.
    for (path, bytes) in &before {
        fs::write(machine.path().join(path), bytes).unwrap();
    }
    let limit = "sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us";
    put(machine.path(), BOOT_ID, "second\n");
    put(machine.path(), limit, "77\n");
    let of_second_boot = content(machine.path());
    for next in [
        &["apply", "--at-boot", "--root", root][..],
        &["restore", "--root", root],
    ] {
        wakepath(next).success();
        let left = different(&content(machine.path()), &of_second_boot);
        assert!(left.is_empty(), "{next:?}: {left:?}");
    }
}

/// The trial of a boot counts by boot id and time since boot.
#[test]
fn a_boot_at_another_calendar_time_is_judged_alike() {
    let Some(clock) = SteppedClock::compile() else {
        return skip(
            "a_boot_at_another_calendar_time_is_judged_alike",
            "no C compiler, or no program takes another clock here",
        );
    };
    let run = |machine: &Path, step: i64, option: &str| {
        clock.step_by(step);
        let mut program = clock.command(Path::new(env!("CARGO_BIN_EXE_wakepath")));
        let program = program.args(["apply", option, "--root"]).arg(machine);
        program.output().unwrap()
    };
    for step in STEPS {
        let machine = copy_of_laptop();
        let root = machine.path();
        put(root, SETTINGS_FILE, &format!("policy = '{SET}'\n"));
        put(root, BOOT_ID, "first\n");
        put(root, UPTIME, "12.00 9.00\n");
        assert!(run(root, 0, "--at-boot").status.success());
        // The clock is set while the boot is on trial: the same boot may apply its set again.
        assert!(run(root, step, "--at-boot").status.success());
        // An unclean end within ten minutes, whatever the calendar says.
        put(root, BOOT_ID, "second\n");
        let second = run(root, step, "--at-boot");
        let said = String::from_utf8_lossy(&second.stderr).into_owned();
        assert!(
            !second.status.success() && said.contains("is left out"),
            "{said}"
        );
        // A set that is kept anew passes its trial after ten minutes of the boot, at any calendar time.
        let path = root.to_str().unwrap();
        wakepath(&["apply", SET, "--persist", "--yes", "--root", path]).success();
        put(root, BOOT_ID, "third\n");
        assert!(run(root, 0, "--at-boot").status.success());
        put(root, UPTIME, "601.00 9.00\n");
        assert!(run(root, step, "--boot-ended").status.success());
        put(root, BOOT_ID, "fourth\n");
        put(root, UPTIME, "12.00 9.00\n");
        assert!(run(root, -step, "--at-boot").status.success());
    }
}
