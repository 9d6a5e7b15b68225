//! The Debian package: what is in it, that its removal puts settings back, and its service under a systemd that runs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::captured::{content, copy_of_laptop, different};
use crate::common::leases::{burst, data, limits};
use crate::common::{repository, skip};
use rustix::process::geteuid;
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(60);

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

fn dpkg_deb(option: &str, package: &Path) -> String {
    let output = Command::new("dpkg-deb").arg(option).arg(package).output();
    text(&output.unwrap())
}

fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// The package of this build, or why there is none.
pub(crate) fn package() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let made = Command::new(repository().join("scripts/package-debian.sh"))
            .args([Path::new(env!("CARGO_BIN_EXE_wakepath")), &folder])
            .output()
            .unwrap();
        if made.status.success() {
            let mut files = fs::read_dir(folder).unwrap();
            return Ok(files.next().unwrap().unwrap().path());
        }
        let said = text(&made);
        assert!(said.contains("no cargo-deb"), "{said}");
        Err(said.trim().to_owned())
    });
    made.clone()
}

#[test]
fn systemd_takes_every_unit() {
    let folder = folder();
    let mut units = Vec::new();
    for unit in fs::read_dir(repository().join("packaging/systemd")).unwrap() {
        let unit = unit.unwrap().path();
        let path = folder.path().join(unit.file_name().unwrap());
        fs::write(&path, runnable_unit(&fs::read_to_string(unit).unwrap())).unwrap();
        units.push(path);
    }
    assert!(units.len() >= 4, "{units:?}");
    let output = Command::new("systemd-analyze")
        .arg("verify")
        .args(&units)
        .output();
    let Ok(output) = output else {
        return skip(
            "systemd_takes_every_unit",
            "no systemd-analyze (Debian: systemd)",
        );
    };
    let said = text(&output);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// A unit with what `systemd-analyze` finds here: programs have to exist, and documentation to be installed.
fn runnable_unit(unit: &str) -> String {
    unit.replace("/usr/bin/wakepath", env!("CARGO_BIN_EXE_wakepath"))
        .replace("Documentation=", "#")
}

#[test]
#[ignore = "nightly: cargo-deb takes minutes to compile"]
fn the_package_installs_everything_and_its_removal_restores() {
    let test = "the_package_installs_everything_and_its_removal_restores";
    let package = match package() {
        Ok(package) => package,
        Err(reason) => return skip(test, &reason),
    };
    let folder = folder();
    let listed = dpkg_deb("--contents", &package);
    for file in [
        "./usr/bin/wakepath",
        "./etc/wakepath/daemon.toml",
        "./usr/lib/systemd/system/wakepath.service",
        "./usr/lib/systemd/system/wakepath-settings.service",
        "./usr/lib/systemd/system/wakepath-settings-kept.service",
        "./usr/lib/systemd/system/wakepath-settings-kept.timer",
        "./usr/lib/systemd/system/wakepath-settings-supply.service",
        "./usr/lib/systemd/system/wakepath-settings-reset@.service",
        "./usr/lib/systemd/system/wakepath-settings-resume.service",
        "./usr/lib/systemd/system/wakepath-settings-drift.service",
        "./usr/lib/systemd/system/wakepath-settings-drift.timer",
        "./usr/lib/udev/rules.d/60-wakepath-settings.rules",
        "./usr/share/wakepath/prometheus/wakepath.rules.yml",
        "./usr/share/wakepath/grafana/wakepath.json",
        "./usr/share/man/man1/wakepath.1.gz",
        "./usr/share/man/man1/wakepath-daemon.1.gz",
        "./usr/share/bash-completion/completions/wakepath",
        "./usr/share/zsh/vendor-completions/_wakepath",
        "./usr/share/fish/vendor_completions.d/wakepath.fish",
        "./usr/share/doc/wakepath/copyright",
    ] {
        assert!(
            listed.lines().any(|line| line.ends_with(file)),
            "{file} is not in\n{listed}"
        );
    }
    // Nothing runs with more rights than who calls it.
    assert!(
        listed.lines().all(|line| !line[..10].contains('s')),
        "{listed}"
    );
    let about = dpkg_deb("--info", &package);
    assert!(
        about.contains("Package: wakepath") && about.contains("libc6"),
        "{about}"
    );

    if !geteuid().is_root() {
        return skip(test, "dpkg installs only for root");
    }
    // Installed below a directory that is a machine, too.
    let machine = copy_of_laptop();
    let root = machine.path();
    let before = content(root);
    for directory in [
        "var/lib/dpkg/updates",
        "var/lib/dpkg/info",
        "var/lib/dpkg/triggers",
    ] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    fs::write(root.join("var/lib/dpkg/available"), "").unwrap();
    let dpkg = |arguments: &[&str]| {
        let output = Command::new("dpkg")
            .arg(format!("--root={}", root.display()))
            .args([
                "--force-depends",
                "--force-script-chrootless",
                "--force-not-root",
            ])
            .arg(format!("--log={}", folder.path().join("log").display()))
            .args(arguments)
            // The scripts must not stop a service of this machine.
            .env("SYSTEMD_OFFLINE", "1")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "dpkg {arguments:?}: {}",
            text(&output)
        );
    };
    dpkg(&["--install", package.to_str().unwrap()]);
    check_unit(test, root, folder.path());
    let applied = Command::new(root.join("usr/bin/wakepath"))
        .args(["apply", "teo", "cpu-latency[limit=20us,cpus=all]", "--root"])
        .arg(root)
        .output()
        .unwrap();
    assert!(applied.status.success(), "{}", text(&applied));
    let governor = root.join("sys/devices/system/cpu/cpuidle/current_governor");
    assert_eq!(fs::read_to_string(&governor).unwrap(), "teo\n");
    dpkg(&["--remove", "wakepath"]);
    assert_eq!(fs::read_to_string(&governor).unwrap(), "menu\n");
    let calibrated = root.join("var/lib/wakepath-machine");
    fs::create_dir_all(&calibrated).unwrap();
    fs::write(calibrated.join("machine.toml"), "").unwrap();
    dpkg(&["--purge", "wakepath"]);
    assert!(!root.join("var/lib/wakepath").exists() && !calibrated.exists());
    let left = different(&content(root), &before);
    assert!(left.is_empty(), "{left:?}");
}

/// systemd takes the unit as it is, and finds it well locked up: its rating goes from 0, locked up, to 10, and is shown here
/// times ten. It is 9.6 for a service of root's without any restrictions.
fn check_unit(test: &str, root: &Path, folder: &Path) {
    let installed = root.join("usr/lib/systemd/system/wakepath.service");
    let unit = fs::read_to_string(installed).unwrap();
    assert!(unit.contains("\nExecStart=/usr/bin/wakepath daemon\n"));
    let path = folder.join("wakepath.service");
    fs::write(&path, runnable_unit(&unit)).unwrap();
    for arguments in [
        &["verify"][..],
        &["security", "--offline=yes", "--threshold=30"],
    ] {
        let output = Command::new("systemd-analyze")
            .args(arguments)
            .arg(&path)
            .output();
        let Ok(output) = output else {
            return skip(test, "no systemd-analyze (Debian: systemd)");
        };
        let said = text(&output);
        assert!(output.status.success(), "{arguments:?}: {said}");
        assert!(arguments[0] != "verify" || said.is_empty(), "{said}");
    }
}

/// A systemd that knows nothing but the service, in namespaces of its own (rig/service.sh).
struct Systemd {
    /// `unshare`; when it ends, so does everything in there.
    outer: Child,
    #[expect(dead_code, reason = "kept for its drop")]
    folder: TempDir,
    log: PathBuf,
}

impl Systemd {
    /// `Err`: why there is none.
    fn start() -> Result<Self, String> {
        let folder = folder();
        let log = folder.path().with_extension("log");
        let outer = Command::new("unshare")
            .args("--mount --pid --net --uts --fork --kill-child".split(' '))
            .arg(repository().join("rig/service.sh"))
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut systemd = Self { outer, folder, log };
        let began = Instant::now();
        while !systemd.inside("systemctl is-system-running --quiet").0 {
            if systemd.outer.try_wait().unwrap().is_some() || began.elapsed() > LONG {
                let said = fs::read_to_string(&systemd.log).unwrap();
                return Err(format!("no systemd in a namespace: {said}"));
            }
            sleep(Duration::from_millis(50));
        }
        Ok(systemd)
    }

    /// Runs a command in there: whether it succeeded, and what it said.
    fn inside(&self, command: &str) -> (bool, String) {
        let children = format!("/proc/{0}/task/{0}/children", self.outer.id());
        let first = fs::read_to_string(children).unwrap_or_default();
        let output = Command::new("nsenter")
            .args(["--mount", "--pid", "--net", "--uts", "--root", "--wd"])
            .args(["--target", first.trim(), "sh", "-c", command])
            .output()
            .unwrap();
        (output.status.success(), text(&output))
    }

    fn must(&self, command: &str) -> String {
        let (done, said) = self.inside(command);
        assert!(done, "{command}: {said}; {}", self.said());
        said
    }

    /// A property of the service.
    fn property(&self, name: &str) -> String {
        let said = self.must(&format!(
            "systemctl show wakepath --property {name} --value"
        ));
        said.trim().to_owned()
    }

    /// What the service has said so far.
    fn said(&self) -> String {
        self.inside("cat /run/wakepath.log").1
    }

    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < LONG, "{what}: not seen; {}", self.said());
            sleep(Duration::from_millis(20));
        }
    }

    /// How often the service was started once more.
    fn restarts(&self) -> u64 {
        self.property("NRestarts").parse().unwrap()
    }

    /// Ends the service's process by a signal, sooner or later, and waits until it runs again.
    fn restart_by(&self, signal: &str) {
        let so_far = self.restarts();
        self.must(&format!(
            "systemctl kill --signal {signal} --kill-who main wakepath"
        ));
        self.until("a restart", || {
            self.restarts() > so_far && self.property("ActiveState") == "active"
        });
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        let _ = self.outer.kill();
        let _ = self.outer.wait();
        let _ = fs::remove_file(&self.log);
    }
}

/// Reads from the disk until a CPU has a limit that it had not before.
fn until_leased(systemd: &Systemd, data: &Path, before: &BTreeMap<PathBuf, String>) {
    systemd.until("a lease", || {
        burst(data);
        limits(Path::new("/")) != *before
    });
}

/// A client for metrics.
const FETCH: &str = "curl --silent --show-error --fail --max-time 10";
/// Where the test's daemon shows metrics: as a page, on a socket, in a file.
const METRICS: [&str; 3] = [
    "http://127.0.0.1:9399/metrics",
    "/run/wakepath/metrics.sock",
    "/var/lib/prometheus/node-exporter/wakepath.prom",
];

/// The unit permits what guard, latency by part, and metrics by port, socket and file need.
fn check_guard_and_metrics(systemd: &Systemd, data: &Path) {
    let [page, socket, file] = METRICS;
    systemd.must(&format!("mkdir -p $(dirname {file})"));
    systemd.must(&format!(
        "printf '%s\\n' 'policy = [\"psd[timeout=900ms,ceiling=20us]\"]' '[guard]' 'keep = [\"p99_us < 60000000\"]' '[metrics]' \
         'port = 9399' 'socket = \"{socket}\"' 'textfile = \"{file}\"' 'latency = true' >/etc/wakepath/daemon.toml"
    ));
    // Restrictions of the unit must not decide whether root may measure here.
    let (is_possible, refusal) =
        systemd.inside("wakepath record --duration 1s --force -o /tmp/possible.parquet");
    systemd.must(">/run/wakepath.log");
    systemd.must("systemctl restart wakepath");
    let in_force = u8::from(is_possible);
    for policy in ["guard", "latency"] {
        let is_off = systemd.said().contains(&format!("off: {policy}: "));
        assert_ne!(is_off, is_possible, "{refusal}{}", systemd.said());
    }
    systemd.until("the file of metrics", || {
        systemd.inside(&format!("test -s {file}")).0
    });
    for fetch in [
        format!("{FETCH} {page}"),
        format!("{FETCH} --unix-socket {socket} http://localhost/metrics"),
        format!("cat {file}"),
    ] {
        let metrics = systemd.must(&fetch);
        for (policy, value) in [("psd", 1), ("guard", in_force), ("latency", in_force)] {
            let line = format!("\nwakepath_policy_in_force{{policy=\"{policy}\"}} {value}\n");
            assert!(metrics.contains(&line), "{fetch}: {metrics}");
        }
    }
    // Prometheus' own user reads the file; the socket is for root and its group.
    let modes = systemd.must(&format!("stat --format %a {file} {socket}"));
    assert_eq!(modes, "644\n660\n");
    if is_possible {
        let begins = [
            "wakepath_request_seconds_count{",
            "wakepath_guard_latency_seconds{",
        ];
        systemd.until("requests and a window of the guard", || {
            burst(data);
            let metrics = systemd.must(&format!("{FETCH} {page}"));
            begins.iter().all(|begin| {
                let mut lines = metrics.lines();
                lines.any(|line| line.starts_with(begin) && !line.ends_with(" 0"))
            })
        });
    }
    systemd.must("systemctl stop wakepath");
    systemd.must(&format!("test ! -e {file} && test ! -e {socket}"));
    // systemd counts starts and soon refuses more; an unloaded unit has no count.
    systemd.inside("systemctl reset-failed wakepath");
}

/// Ready when it says so, settings put back after a kill and after a hang, reloaded, and gone with its settings when the
/// package goes.
#[test]
#[ignore = "nightly: cargo-deb takes minutes to compile"]
fn the_service_runs_under_systemd() {
    let test = "the_service_runs_under_systemd";
    if !geteuid().is_root() {
        return skip(test, "namespaces need root");
    }
    let package = match package() {
        Ok(package) => package,
        Err(reason) => return skip(test, &reason),
    };
    let before = limits(Path::new("/"));
    if before.is_empty() {
        return skip(test, "this kernel has no latency limits of CPUs");
    }
    let systemd = match Systemd::start() {
        Ok(systemd) => systemd,
        Err(reason) => return skip(test, &reason),
    };
    // Not in that of systemd, which is in memory there.
    let on_disk = folder();
    let data = data(on_disk.path());

    systemd.must(&format!("dpkg --install {}", package.display()));
    // Not by itself: whoever installs it may want to look at its configuration first.
    assert_eq!(systemd.property("ActiveState"), "inactive");
    systemd.must("systemctl daemon-reload");
    check_guard_and_metrics(&systemd, &data);
    systemd
        .must("echo 'policy = [\"psd[timeout=900ms,ceiling=20us]\"]' >/etc/wakepath/daemon.toml");
    systemd.must("systemctl start wakepath");
    let status = systemd.property("StatusText");
    assert!(status.starts_with("leases on "), "{status}");

    // The second time it no longer answers the watchdog.
    for signal in ["KILL", "STOP"] {
        systemd.must(">/run/wakepath.log");
        // A lease may be over just then.
        systemd.until("what the unit's last command put back", || {
            until_leased(&systemd, &data, &before);
            systemd.restart_by(signal);
            systemd.said().contains("restored\n")
        });
        // Whatever else is read or written here gets leases from the next daemon, which end.
        systemd.until("the old limits", || limits(Path::new("/")) == before);
    }

    systemd.must("echo 'unknown = 1' >>/etc/wakepath/daemon.toml");
    systemd.must("systemctl reload wakepath");
    systemd.until("the configuration's error", || {
        systemd.said().contains("unknown")
    });
    assert_eq!(systemd.property("ActiveState"), "active");
    systemd
        .must("echo 'policy = [\"psd[timeout=800ms,ceiling=20us]\"]' >/etc/wakepath/daemon.toml");
    systemd.must("systemctl reload wakepath");
    systemd.until("the reload", || systemd.said().contains("reloaded"));

    // With a configuration that is wrong it ends, and is not started again.
    systemd.must("echo 'unknown = 1' >>/etc/wakepath/daemon.toml");
    systemd.must("systemctl stop wakepath");
    assert!(!systemd.inside("systemctl start wakepath").0);
    sleep(Duration::from_secs(1));
    assert_eq!(systemd.property("ActiveState"), "failed");
    assert_eq!(systemd.property("ExecMainStatus"), "78");
    systemd
        .must("echo 'policy = [\"psd[timeout=800ms,ceiling=20us]\"]' >/etc/wakepath/daemon.toml");
    systemd.must("systemctl start wakepath");

    until_leased(&systemd, &data, &before);
    systemd.must("dpkg --remove wakepath");
    assert_eq!(limits(Path::new("/")), before, "{}", systemd.said());
    assert_eq!(systemd.property("ActiveState"), "inactive");
}
