//! Latency leases in virtual machines with several idle states (docs/background/laboratory.md): by the kernel module `wakepath_psd`,
//! and by `wakepath daemon` (docs/guides/psd.md).

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use crate::common;
use crate::common::bursts::{Found, Lease, completions, given, judge};
use crate::common::recording::read;
use crate::common::repository;
use crate::common::rig::{Guest, Shared, guest};
use wakepath_conformance::leases::{leases_by_kernel_code, leases_by_rule};
use wakepath_policies::psd::{LeaseRule, PsdPolicy};
use wakepath_results::ResultReader;
use wakepath_trace::recording::{Event, EventKind, Metadata};
use wakepath_units::TickRate;

/// The exit code of rig/dkms.py when something that it needs is not there.
const UNAVAILABLE: i32 = 3;

/// What the module does unless told otherwise.
const DEFAULT: Lease = Lease {
    timeout_ms: 3,
    ceiling_us: 20,
    first: 1,
};
/// What it is told while it runs.
const CHANGED: Lease = Lease {
    timeout_ms: 40,
    ceiling_us: 5,
    first: 1,
};

/// As rig/guest/psd-daemon.sh configures it.
const DAEMON: Lease = Lease {
    timeout_ms: 60,
    ceiling_us: 20,
    first: 1,
};

impl Lease {
    /// By this rule.
    fn by(self, rule: LeaseRule) -> PsdPolicy {
        PsdPolicy {
            timeout_ms: self.timeout_ms,
            start_after: self.first as u32,
            rule,
            ..PsdPolicy::default()
        }
    }
}

/// Seconds with two digits behind the point, as in /proc/uptime, in ns.
fn uptime(seconds: &str) -> u64 {
    let centiseconds: u64 = seconds.replace('.', "").parse().unwrap();
    centiseconds * 10_000_000
}

/// A recording that has several phases.
struct Phases {
    metadata: Metadata,
    events: Vec<Event>,
    /// Their names and times, on the recording's clock.
    spans: BTreeMap<String, Range<u64>>,
}

impl Phases {
    fn new(guest: &Guest) -> Self {
        let (metadata, events) = read(&guest.path("psd.parquet"));
        assert_eq!(metadata.lost_events, 0);
        let text = guest.text("phases.txt");
        let marks: Vec<(&str, u64)> = text
            .lines()
            .map(|line| {
                let (name, seconds) = line.split_once(' ').unwrap();
                (name, uptime(seconds))
            })
            .collect();
        let spans = marks
            .windows(2)
            // The mark is exact to 10 ms, and a change takes until the end of the lease that holds.
            .map(|pair| (pair[0].0.to_owned(), pair[0].1 + 50_000_000..pair[1].1))
            .collect();
        Self {
            metadata,
            events,
            spans,
        }
    }

    fn judge(&self, phase: &str, lease: Lease) -> Found {
        let found = judge(&self.metadata, &self.events, &self.spans[phase], lease);
        println!("{phase}, {lease:?}: {found:?}");
        let entries = found.entries + found.early;
        assert!(
            entries >= 20 && found.ended >= 3,
            "{phase}: too few to say: {found:?}"
        );
        found
    }

    /// CPUs do as their governor pleases.
    fn check_without(&self, phase: &str, lease: Lease) {
        let found = self.judge(phase, lease);
        let (entries, too_deep) = found.with_early();
        // Five times what is allowed under a lease. How often a governor goes deep by itself depends on the host, too:
        // mostly 30 % and more, but 9 % was seen in a slow run.
        assert!(too_deep * 20 >= entries, "{phase}: {found:?}");
        assert_eq!(found.still_limited, 0, "{phase}: {found:?}");
    }

    fn completions(&self, phase: &str) -> u64 {
        let completed = |event: &&Event| {
            matches!(event.kind, EventKind::BlockComplete(_))
                && self.spans[phase].contains(&event.time.0)
        };
        self.events.iter().filter(completed).count() as u64
    }
}

/// The statistics of a CPU, by the names of their columns.
fn statistics(guest: &Guest, file: &str) -> Vec<BTreeMap<String, Option<u64>>> {
    let text = guest.text(file);
    let mut lines = text.lines().map(|line| line.split(' '));
    let names: Vec<&str> = lines.next().unwrap().collect();
    lines
        .map(|values| {
            names
                .iter()
                .zip(values)
                .map(|(name, value)| ((*name).to_owned(), value.parse().ok()))
                .collect()
        })
        .collect()
}

/// What the module counted agrees with what was recorded, and with itself.
fn check_statistics(guest: &Guest, phases: &Phases) {
    let cpus = statistics(guest, "default.txt");
    let sum = |column: &str| cpus.iter().map(|cpu| cpu[column].unwrap()).sum::<u64>();
    let (counted, recorded) = (sum("completions"), phases.completions("default"));
    println!("default: {cpus:?}; completions recorded: {recorded}");
    // Not quite at the same times: the recorded ones begin some 100 ms after the module was loaded.
    assert!(
        counted.abs_diff(recorded) * 4 <= recorded,
        "{counted} of {recorded}"
    );
    assert!(sum("leases") >= 3 && sum("leases") + sum("extensions") < counted);
    let span = &phases.spans["default"];
    for cpu in cpus {
        assert!(
            cpu["held_us"].unwrap() < (span.end - span.start) / 1000 + 1_000_000,
            "{cpu:?}"
        );
        assert!(cpu["arm_mean_ns"] <= cpu["arm_max_ns"], "{cpu:?}");
    }
    // A CPU that leaves and comes back keeps its counts.
    let completions = |file: &str| -> Vec<Option<u64>> {
        statistics(guest, file)
            .iter()
            .map(|cpu| cpu["completions"])
            .collect()
    };
    let (one, two) = (completions("one-cpu.txt"), completions("two-cpus.txt"));
    assert_eq!((one.len(), two.len()), (1, 2));
    assert!(two[1] >= completions("changed.txt")[1]);
    // With timeout_ms=0 nothing happens, and no limit stays.
    assert_eq!(guest.text("off-before.txt"), guest.text("off-after.txt"));
    assert!(
        statistics(guest, "off-after.txt")
            .iter()
            .all(|cpu| cpu["limit_us"].is_none())
    );
}

/// Leases that were counted are those of their rule for the recorded completions. Each CPU may have one more or less at either
/// edge of the time. A busy host holds timers up, so that a lease may last up to another timeout, and go on with the next burst.
fn check_rule(
    phases: &Phases,
    span: &Range<u64>,
    policy: PsdPolicy,
    leases: u64,
    held: Option<u64>,
) {
    const EDGES: u64 = 4;
    let late = PsdPolicy {
        timeout_ms: 2 * policy.timeout_ms,
        ..policy
    };
    // The code itself, on the same completions.
    for ios in completions(&phases.events).values() {
        let of_rule = leases_by_rule(&policy, TickRate::HZ_250, ios);
        assert_eq!(
            leases_by_kernel_code(&policy, ios).unwrap(),
            of_rule,
            "{policy:?}"
        );
    }
    let rule = given(&phases.events, span, &policy);
    let latest = given(&phases.events, span, &late);
    println!("{policy:?}: {leases} leases for {held:?} ns; its rule {rule:?}, late {latest:?}");
    assert!(latest.leases >= 3, "{latest:?}");
    assert!((latest.leases.saturating_sub(EDGES)..=rule.leases + EDGES).contains(&leases));
    if let Some(held) = held {
        // Setting a limit takes a while, too.
        assert!((rule.held * 9 / 10..=latest.held * 11 / 10).contains(&held));
    }
}

/// Between two readings of its counts the module gave the leases of its rule.
fn check_rule_of_module(guest: &Guest, phases: &Phases) {
    let times = guest.text("counted.txt");
    let times: Vec<u64> = times.lines().map(uptime).collect();
    let [from, to] = times[..] else {
        panic!("{times:?}");
    };
    let sum = |file: &str, column: &str| -> u64 {
        let cpus = statistics(guest, file);
        cpus.iter().map(|cpu| cpu[column].unwrap()).sum()
    };
    let counted = |column: &str| sum("changed.txt", column) - sum("counted-from.txt", column);
    let (leases, held) = (counted("leases"), counted("held_us") * 1000);
    let policy = CHANGED.by(LeaseRule::Module);
    check_rule(phases, &(from..to), policy, leases, Some(held));
}

fn check_module(test: &str, kernel: &str) {
    let shared = Shared::new();
    let mut arguments = vec!["x86", "--kernel", kernel, "--module", "module"];
    arguments.extend(["--program", env!("CARGO_BIN_EXE_wakepath")]);
    arguments.extend(["rig/guest/psd.sh", "rig/guest/psd-module.sh"]);
    let Some(guest) = guest(test, &shared, &format!("psd-module-{kernel}"), &arguments) else {
        return;
    };
    let phases = Phases::new(guest);
    phases.check_without("without", DEFAULT);
    phases.check_without("without", CHANGED);
    // By the longer of the leases that were in force before.
    phases.check_without("off", CHANGED);

    assert_eq!(guest.text("defaults.txt"), "3\n20\n");
    for (phase, lease) in [("default", DEFAULT), ("changed", CHANGED)] {
        let found = phases.judge(phase, lease);
        assert!(found.too_deep * 100 <= found.entries, "{phase}: {found:?}");
        // The first idle period of a burst is under its limit already, unless two CPUs begin one at the same moment.
        assert!(
            found.early_too_deep * 10 <= found.early,
            "{phase}: {found:?}"
        );
    }
    // A busy host holds a guest up for milliseconds, so that only the longer timeout can be held against it.
    let found = phases.judge(
        "changed",
        Lease {
            ceiling_us: 20,
            ..CHANGED
        },
    );
    assert!(found.deep_again * 2 >= found.ended, "{found:?}");
    assert!(found.still_limited * 5 <= found.silences, "{found:?}");

    check_statistics(guest, &phases);
    check_rule_of_module(guest, &phases);
    let kernel_log = guest.text("dmesg.txt");
    for word in ["WARNING:", "BUG:", "Call Trace:"] {
        assert_eq!(kernel_log.lines().find(|line| line.contains(word)), None);
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.1"]
fn the_module_keeps_its_leases_on_linux_6_1() {
    check_module("the_module_keeps_its_leases_on_linux_6_1", "6.1");
}

#[test]
fn the_module_keeps_its_leases_on_linux_6_12() {
    check_module("the_module_keeps_its_leases_on_linux_6_12", "6.12");
}

#[test]
#[ignore = "nightly: a guest of Linux 7.3"]
fn the_module_keeps_its_leases_on_linux_7_3() {
    check_module("the_module_keeps_its_leases_on_linux_7_3", "7.3");
}

/// What docs/guides/psd.md says of DKMS, done by Debian's own dkms.
#[test]
#[ignore = "nightly: it fetches dkms and builds the module once more"]
fn dkms_installs_the_module() {
    let root = repository();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dkms");
    let run = Command::new("python3")
        .current_dir(&root)
        .args(["rig/dkms.py", "--kernel", "6.12", "--out"])
        .arg(&out)
        .output();
    let run = match run {
        Ok(run) if run.status.code() == Some(UNAVAILABLE) => {
            Err(String::from_utf8_lossy(&run.stderr).into_owned())
        }
        Ok(run) => Ok(run),
        Err(error) => Err(format!("python3: {error}")),
    };
    let run = match run {
        Ok(run) => run,
        Err(reason) => return common::skip("dkms_installs_the_module", reason.trim()),
    };
    assert!(run.status.success(), "{run:?}");
    let module = fs::read(String::from_utf8(run.stdout).unwrap().trim()).unwrap();
    let version = concat!("version=", env!("CARGO_PKG_VERSION"), "\0");
    assert!(
        module
            .windows(version.len())
            .any(|part| part == version.as_bytes())
    );
}

/// The version stands in several places.
#[test]
fn the_module_has_the_version_of_wakepath() {
    let root = repository();
    let version = env!("CARGO_PKG_VERSION");
    for (file, text) in [
        (
            "module/wakepath_psd.c",
            format!("MODULE_VERSION(\"{version}\");"),
        ),
        ("module/dkms.conf", format!("PACKAGE_VERSION=\"{version}\"")),
        (
            "docs/guides/psd.md",
            format!("/usr/src/wakepath-psd-{version}\n"),
        ),
    ] {
        assert!(
            fs::read_to_string(root.join(file)).unwrap().contains(&text),
            "{file} lacks {text}"
        );
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.1"]
fn the_daemon_keeps_its_leases_on_linux_6_1() {
    check_daemon("the_daemon_keeps_its_leases_on_linux_6_1", "6.1");
}

#[test]
#[ignore = "nightly: a guest of Linux 7.3"]
fn the_daemon_keeps_its_leases_on_linux_7_3() {
    check_daemon("the_daemon_keeps_its_leases_on_linux_7_3", "7.3");
}

/// From 10 ms after the first completion of a burst on: user space has to hear of it, and to write.
fn check_daemon(test: &str, kernel: &str) {
    let shared = Shared::new();
    let mut arguments = vec!["x86", "--kernel", kernel];
    arguments.extend(["--program", env!("CARGO_BIN_EXE_wakepath")]);
    arguments.extend([
        "rig/guest/daemon.sh",
        "rig/guest/psd.sh",
        "rig/guest/psd-daemon.sh",
        "rig/guest/psd-study.sh",
    ]);
    let Some(guest) = guest(test, &shared, &format!("psd-daemon-{kernel}"), &arguments) else {
        return;
    };
    println!("{}", guest.text("daemon.txt"));
    let phases = Phases::new(guest);
    phases.check_without("without", DAEMON);
    phases.check_without("after", DAEMON);
    let found = phases.judge("daemon", DAEMON);
    assert!(found.entries >= 50, "too few to say: {found:?}");
    assert!(found.too_deep * 100 <= found.entries, "{found:?}");
    // A burst ends up to one timeout and a half after its last I/O, and a busy host holds guests up for tens of milliseconds.
    assert!(found.deep_again * 2 >= found.ended, "{found:?}");
    assert!(found.still_limited * 5 <= found.silences, "{found:?}");
    // What the program in the kernel told, and user space made of it, are the leases of the rule.
    let told = guest.text("daemon.txt");
    let leases = told.split(" lease(s) in ").next().unwrap();
    let leases: u64 = leases.rsplit(' ').next().unwrap().parse().unwrap();
    let span = phases.spans["daemon"].start - 150_000_000..phases.spans["daemon"].end;
    check_rule(&phases, &span, DAEMON.by(LeaseRule::Daemon), leases, None);
    let limits = guest.text("limits-before.txt");
    assert_eq!(limits, guest.text("limits-after.txt"));
    check_study(guest);
}

/// A study has the daemon run beside settings of its own while a policy asks for leases, and no longer.
fn check_study(guest: &Guest) {
    println!("{}", guest.text("study.txt"));
    let results = ResultReader::open(guest.path("study")).unwrap();
    for run in results.read_runs().unwrap() {
        let expected = if run.key.policy == "leases" { 1.0 } else { 0.0 };
        for metric in ["leases", "deep"] {
            let found = run.metrics.iter().find(|(name, _)| name == metric);
            let key = &run.key;
            assert_eq!(
                found.map(|(_, value)| *value),
                Some(expected),
                "{key:?}: {metric}"
            );
        }
    }
    let limits = guest.text("limits-before.txt");
    assert_eq!(limits, guest.text("limits-after-study.txt"));
    let deep = guest.text("deep-after-study.txt");
    assert!(deep.lines().all(|disabled| disabled == "0"), "{deep}");
}
