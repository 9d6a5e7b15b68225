//! `wakepath daemon`: leases that follow this machine's I/O, and what is left when it ends, however it ends.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::captured::{content, copy_of_laptop, copy_of_server, different};
use crate::common::leases::{burst, data, limits};
use crate::common::{fails_with, fails_with_code, skip, wakepath};
use rustix::fs::inotify;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

const WAKEPATH: &str = env!("CARGO_BIN_EXE_wakepath");
/// The exit code after which systemd does not start the daemon again.
const NOT_AGAIN: i32 = 78;
const LONG: Duration = Duration::from_secs(20);

/// A daemon that runs, and what it says.
pub(crate) struct Daemon {
    child: Child,
    lines: mpsc::Receiver<String>,
    said: Vec<String>,
}

impl Daemon {
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(WAKEPATH);
        let command = command.arg("daemon").args(arguments);
        Self::start_command(command.envs(environment.iter().copied()))
    }

    fn start_command(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Self {
            child,
            lines,
            said: Vec::new(),
        }
    }

    /// Waits until it says something with this in it.
    pub(crate) fn until(&mut self, part: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(LONG);
            let line = line.unwrap_or_else(|_| panic!("'{part}' was not said: {:?}", self.said));
            self.said.push(line.clone());
            if line.contains(part) {
                return line;
            }
        }
    }

    /// The same, with bursts of I/O until then, beside which `meanwhile` is done.
    fn until_in_bursts(&mut self, data: &Path, part: &str, mut meanwhile: impl FnMut()) -> String {
        let mut found = None;
        during_bursts(data, || {
            meanwhile();
            while let Ok(line) = self.lines.try_recv() {
                self.said.push(line.clone());
                found = found.take().or_else(|| line.contains(part).then_some(line));
            }
            found.is_some()
        });
        found.unwrap_or_else(|| panic!("'{part}' was not said: {:?}", self.said))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Does something while all threads of the daemon are stopped.
    pub(crate) fn while_stopped<T>(&self, act: impl FnOnce() -> T) -> T {
        self.signal(Signal::STOP);
        waitpid(Some(Pid::from_child(&self.child)), WaitOptions::UNTRACED).unwrap();
        let result = act();
        self.signal(Signal::CONT);
        result
    }

    /// Ends it in order; what it said last.
    pub(crate) fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        let last = self.until("I/O(s) watched");
        assert!(self.child.wait().unwrap().success());
        last
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn config(folder: &Path, text: &str) -> String {
    let path = folder.join("daemon.toml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Whether something becomes true within a while of bursts.
fn during_bursts(data: &Path, mut is_so: impl FnMut() -> bool) -> bool {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                burst(data);
                // Leases end as well: in a burst without an end none would.
                sleep(Duration::from_millis(20));
            }
        });
        let begin = Instant::now();
        let found = loop {
            if is_so() {
                break true;
            }
            if begin.elapsed() > LONG {
                break false;
            }
            sleep(Duration::from_micros(200));
        };
        over.store(true, Ordering::Relaxed);
        found
    })
}

/// Whether some CPU gets this limit during bursts.
pub(crate) fn armed(root: &Path, data: &Path, limit: &str) -> bool {
    during_bursts(data, || limits(root).values().any(|value| value == limit))
}

/// Puts a value into a file as sysfs takes it: at no moment is there none.
fn put(path: &Path, value: &str) {
    let length = fs::metadata(path).unwrap().len() as usize;
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    write!(file, "{value:\n<length$}").unwrap();
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn scrape(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn metric(text: &str, name: &str) -> f64 {
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name} ")));
    let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Whether this machine lets the daemon watch I/O; where it does not, the test is skipped and says why.
pub(crate) fn possible(test: &str) -> bool {
    let laptop = copy_of_laptop();
    let mut child = Command::new(WAKEPATH)
        .args(["daemon", "--root", laptop.path().to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut line).unwrap();
    let _ = child.kill();
    let _ = child.wait();
    let runs = line.contains("leases on");
    if !runs {
        skip(test, line.trim());
    }
    runs
}

#[test]
fn leases_follow_bursts_on_this_machine_with_two_writes_each() {
    let test = "leases_follow_bursts_on_this_machine_with_two_writes_each";
    let _machine = common::lock_machine();
    if !possible(test) {
        return;
    }
    let root = Path::new("/");
    let before = limits(root);
    if before.values().any(|limit| limit != "0") {
        return skip(test, "a CPU of this machine has a latency limit already");
    }
    let folder = folder();
    let data = data(folder.path());
    let port = free_port();
    let config = config(
        folder.path(),
        &format!(
            "policy = ['psd[ceiling=21us]']\n[boost]\nmode = 'off'\n[metrics]\nport = {port}\n"
        ),
    );
    // Every time somebody has written to a limit.
    let notes = inotify::init(inotify::CreateFlags::NONBLOCK).unwrap();
    for path in before.keys() {
        inotify::add_watch(&notes, path, inotify::WatchFlags::CLOSE_WRITE).unwrap();
    }
    let mut daemon = Daemon::start(&["--config", &config], &[]);
    daemon.until("leases on");
    assert!(armed(root, &data, "21"), "{:?}", limits(root));
    let status = wakepath(&["status", "--format", "json"]).success();
    let status = common::json(&status);
    assert!(
        status["cpus"]
            .as_array()
            .unwrap()
            .iter()
            .all(|cpu| cpu["lease"].is_boolean())
    );
    for _ in 0..5 {
        burst(&data);
        sleep(Duration::from_millis(50));
    }
    let text = scrape(port, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    let leases = metric(&text, "wakepath_leases_total");
    assert!(leases >= 5.0, "{text}");
    let cost = metric(&text, "wakepath_ebpf_timed_seconds_total") * 1e9
        / metric(&text, "wakepath_ebpf_timed_runs_total");
    println!("{cost:.0} ns of eBPF per I/O");
    assert!(cost > 0.0);
    assert!(scrape(port, "DELETE /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));

    let last = daemon.stop();
    assert_eq!(limits(root), before, "{last}");
    // "N lease(s) in M write(s), K I/O(s) watched"
    let numbers: Vec<u64> = last
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    let (leases, writes, ios) = (numbers[0], numbers[1], numbers[2]);
    // A few are left out that come in the middle of another's program.
    assert!(leases >= 5 && writes <= 2 * leases && ios >= 1900, "{last}");
    // Far from one write per I/O.
    assert!(writes * 4 < ios, "{last}");
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&notes, &mut buffer);
    let mut seen = 0;
    while reader.next().is_ok() {
        seen += 1;
    }
    // The restore at the end may take back the last lease of each CPU.
    let most = writes + before.len() as u64;
    assert!((1..=most).contains(&seen), "{seen} seen, {last}");
}

#[test]
fn what_a_killed_daemon_has_left_is_put_back() {
    let test = "what_a_killed_daemon_has_left_is_put_back";
    let _machine = common::lock_machine();
    if !possible(test) {
        return;
    }
    let root = Path::new("/");
    let before = limits(root);
    let folder = folder();
    let data = data(folder.path());
    // So long that a lease is in force when it is killed.
    let config = config(
        folder.path(),
        "policy = ['psd[ceiling=22us,timeout=10s]']\n[boost]\nmode = 'off'\n",
    );
    let mut daemon = Daemon::start(&["--config", &config], &[]);
    daemon.until("leases on");
    if !armed(root, &data, "22") {
        return skip(
            test,
            "the CPUs of this machine have stricter limits already",
        );
    }
    let other = wakepath(&["apply", "cpu-latency[limit=50us,cpus=all]"]);
    fails_with(other, &["another wakepath", &daemon.child.id().to_string()]);
    daemon.kill();
    assert!(limits(root).values().any(|limit| limit == "22"));
    wakepath(&["restore", "--held"]).success();
    assert_eq!(limits(root), before);

    // The next one puts back as well.
    let mut daemon = Daemon::start(&["--config", &config], &[]);
    daemon.until("leases on");
    assert!(armed(root, &data, "22"));
    daemon.kill();
    let mut daemon = Daemon::start(&["--config", &config], &[]);
    daemon.until("process had changed which was killed");
    daemon.until("leases on");
    daemon.stop();
    assert_eq!(limits(root), before);
}

#[test]
fn a_captured_machine_gets_leases_boost_and_tables() {
    let test = "a_captured_machine_gets_leases_boost_and_tables";
    if !possible(test) {
        return;
    }
    let machine = copy_of_laptop();
    // As on a server whose kernel has no I/O boost.
    let policy = |n: usize, file: &str| {
        machine
            .path()
            .join(format!("sys/devices/system/cpu/cpufreq/policy{n}/{file}"))
    };
    let before = content(machine.path());
    let folder = folder();
    let data = data(folder.path());
    let text = "policy = ['psd[timeout=30ms]']\n[boost]\nmode = 'on'\n[drives]\ncheck = '1s'\n\
                [[drive]]\nmodel = 'WDC*'\nac = 'apst'\nbattery = 'apst[rule=legacy]'\n";
    let config_path = config(folder.path(), text);
    let root = machine.path().to_str().unwrap();
    let mut daemon = Daemon::start(&["--root", root, "--config", &config_path], &[]);
    let said = daemon.until("leases on");
    assert!(
        said.contains("I/O boost") && said.contains("table of nvme0"),
        "{said}"
    );
    let table = machine.path().join("dev/nvme0.feature-0c");
    let on_mains = fs::read(&table).unwrap();
    assert!(on_mains[0] == 1 && on_mains[4..].iter().any(|b| *b != 0));
    // Just above C1E, which takes 2 us to leave there.
    assert!(
        armed(machine.path(), &data, "2"),
        "{:?}",
        limits(machine.path())
    );
    let raised = || {
        let number = |n, file| {
            fs::read_to_string(policy(n, file))
                .unwrap()
                .trim()
                .to_owned()
        };
        (0..2).any(|n| number(n, "scaling_min_freq") == number(n, "scaling_max_freq"))
    };
    assert!(during_bursts(&data, raised));
    // Somebody else sets the table; the drive does something; it is set again.
    let mut other = on_mains.clone();
    other[5] ^= 1;
    fs::write(&table, &other).unwrap();
    let stat = machine.path().join("sys/block/nvme0n1/stat");
    let counts = fs::read_to_string(&stat).unwrap();
    let first = counts.split_whitespace().next().unwrap();
    fs::write(&stat, counts.replacen(first, "999999", 1)).unwrap();
    let said = daemon.until("is set again");
    assert!(said.contains("nvme-cli"), "{said}");
    assert_eq!(fs::read(&table).unwrap(), on_mains);
    // The plug is pulled.
    let plug = machine.path().join("sys/class/power_supply/AC/online");
    let battery = machine.path().join("sys/class/power_supply/BAT0");
    fs::create_dir_all(&battery).unwrap();
    fs::write(battery.join("type"), "Battery\n").unwrap();
    fs::write(&plug, "0\n").unwrap();
    daemon.until("on battery");
    daemon.until("another APST table");
    assert_ne!(fs::read(&table).unwrap(), on_mains);

    // A mistake in the new configuration leaves the old one in force; then it is reloaded.
    config(folder.path(), "policy = ['psd[timout=3ms]']\n");
    daemon.signal(Signal::HUP);
    let said = daemon.until("not reloaded");
    assert!(said.contains("did you mean `timeout`"), "{said}");
    config(
        folder.path(),
        "policy = ['psd[ceiling=C6,timeout=10s]']\n[boost]\nmode = 'off'\n",
    );
    daemon.signal(Signal::HUP);
    let said = daemon.until("leases on");
    assert!(!said.contains("I/O boost"), "{said}");
    assert!(
        armed(machine.path(), &data, "170"),
        "{:?}",
        limits(machine.path())
    );
    daemon.stop();
    fs::remove_dir_all(&battery).unwrap();
    fs::write(&plug, &before["sys/class/power_supply/AC/online"]).unwrap();
    fs::write(&stat, &before["sys/block/nvme0n1/stat"]).unwrap();
    let left = different(&content(machine.path()), &before);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_somebody_else_sets_meanwhile_stays() {
    let test = "what_somebody_else_sets_meanwhile_stays";
    if !possible(test) {
        return;
    }
    let machine = copy_of_laptop();
    let folder = folder();
    let data = data(folder.path());
    let text = "policy = ['psd[ceiling=20us,timeout=5ms]']\n[boost]\nmode = 'off'\n";
    let config_path = config(folder.path(), text);
    let root = machine.path().to_str().unwrap();
    let arguments = ["--root", root, "--config", &config_path];
    for signal in [Signal::HUP, Signal::TERM] {
        // Between two bursts: nobody has looked at it since.
        let before = limits(machine.path());
        let mut daemon = Daemon::start(&arguments, &[]);
        daemon.until("leases on");
        assert!(armed(machine.path(), &data, "20"));
        let (path, old) = before.first_key_value().unwrap();
        // Where other processes leave this machine alone, after the lease.
        sleep(Duration::from_millis(100));
        let begin = Instant::now();
        // A lease of this very moment can write over it.
        while limits(machine.path())[path] != "7" {
            assert!(begin.elapsed() < LONG);
            put(path, "7");
            sleep(Duration::from_millis(20));
        }
        daemon.signal(signal);
        let said = daemon.until("so it stays");
        assert!(said.contains("cpu-latency:cpu0 is '7'"), "{said}");
        if signal == Signal::HUP {
            daemon.until("reloaded");
            daemon.stop();
        } else {
            daemon.until("I/O(s) watched");
        }
        let mut expected = before.clone();
        expected.insert(path.clone(), "7".to_owned());
        assert_eq!(limits(machine.path()), expected);
        put(path, old);
    }
    // Amid bursts: it is noticed at the next lease, or when one ends.
    let before = limits(machine.path());
    let mut daemon = Daemon::start(&arguments, &[]);
    daemon.until("leases on");
    let said = daemon.until_in_bursts(&data, "gets no more leases", || {
        for (path, limit) in limits(machine.path()) {
            if limit != "7" {
                put(&path, "7");
            }
        }
    });
    assert!(said.contains("is '7' instead of '"), "{said}");
    daemon.stop();
    let after = limits(machine.path());
    let stays = before
        .keys()
        .find(|path| said.contains(&format!(":{}", path.iter().nth_back(2).unwrap().display())));
    assert_eq!(after[stays.unwrap()], "7", "{said}");
}

#[test]
fn a_server_without_a_boost_of_the_kernels_gets_one() {
    let test = "a_server_without_a_boost_of_the_kernels_gets_one";
    if !possible(test) {
        return;
    }
    let machine = copy_of_server();
    let before = content(machine.path());
    let folder = folder();
    let data = data(folder.path());
    let root = machine.path().to_str().unwrap();
    let minimum = || {
        let policies = (0..4).map(|n| {
            let file = format!("sys/devices/system/cpu/cpufreq/policy{n}/scaling_min_freq");
            fs::read_to_string(machine.path().join(file)).unwrap()
        });
        policies.max().unwrap().trim().to_owned()
    };
    let config_path = config(folder.path(), "policy = []\n");
    let mut daemon = Daemon::start(&["--root", root, "--config", &config_path], &[]);
    daemon.until("I/O boost");
    assert!(
        during_bursts(&data, || minimum() == "4410811"),
        "{}",
        minimum()
    );
    burst(&data);
    let begin = Instant::now();
    while minimum() != "1210811" {
        assert!(begin.elapsed() < LONG);
        sleep(Duration::from_millis(5));
    }
    assert_eq!(
        limits(machine.path())
            .values()
            .filter(|limit| *limit != "0")
            .count(),
        0
    );
    daemon.stop();
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn a_cpu_that_comes_online_gets_leases() {
    let test = "a_cpu_that_comes_online_gets_leases";
    if !possible(test) {
        return;
    }
    let machine = copy_of_laptop();
    let folder = folder();
    let data = data(folder.path());
    let port = free_port();
    // So long that a lease is in force when the metrics are asked for.
    let text = format!(
        "policy = ['psd[ceiling=20us,timeout=10s]']\n[boost]\nmode = 'off'\n[metrics]\nport = {port}\n"
    );
    let config_path = config(folder.path(), &text);
    let root = machine.path().to_str().unwrap();
    let arguments = ["--root", root, "--config", &config_path];
    let leased = || {
        let limits = limits(machine.path()).into_values().enumerate();
        let leased = limits.filter(|(_, limit)| limit == "20");
        leased.map(|(cpu, _)| cpu).collect::<Vec<_>>()
    };
    let metrics = || {
        let text = scrape(port, "GET /metrics HTTP/1.1\r\n\r\n");
        metric(&text, "wakepath_leases")
    };
    // Which of the two does the I/O here.
    let mut daemon = Daemon::start(&arguments, &[]);
    daemon.until("leases on");
    assert!(during_bursts(&data, || !leased().is_empty()));
    let cpu = leased()[0];
    daemon.stop();

    let before = content(machine.path());
    let online = machine.path().join("sys/devices/system/cpu/online");
    let all = fs::read(&online).unwrap();
    fs::write(&online, format!("{}\n", 1 - cpu)).unwrap();
    let mut daemon = Daemon::start(&arguments, &[]);
    let said = daemon.until("leases on");
    assert!(said.contains("leases on 1 CPU(s), ceiling"), "{said}");
    fs::write(&online, &all).unwrap();
    let said = daemon.until_in_bursts(&data, "has come online", || {});
    assert!(said.contains(&format!("cpu{cpu} ")), "{said}");
    assert!(said.contains("leases on 2 CPU(s)"), "{said}");
    assert!(during_bursts(&data, || leased().contains(&cpu)));
    // What the metrics count is in force; a lease can come between the two.
    assert!(during_bursts(&data, || {
        let counted = metrics();
        counted > 0.0 && (counted - leased().len() as f64).abs() < 0.5
    }));
    daemon.stop();
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn a_policy_that_is_off_is_a_metric() {
    let machine = copy_of_laptop();
    let folder = folder();
    let port = free_port();
    let text = format!(
        "policy = ['psd[ceiling=C9]']\n[boost]\nmode = 'off'\n[metrics]\nport = {port}\n[[drive]]\nmodel = 'WDC*'\nac = 'apst'\n"
    );
    let config_path = config(folder.path(), &text);
    let root = machine.path().to_str().unwrap();
    let mut daemon = Daemon::start(&["--root", root, "--config", &config_path], &[]);
    daemon.until("off: psd: ");
    daemon.until("table of");
    let metrics = scrape(port, "GET /metrics HTTP/1.1\r\n\r\n");
    for (policy, value) in [("psd", 0), ("drives", 1)] {
        let line = format!("wakepath_policy_in_force{{policy=\"{policy}\"}} {value}\n");
        assert!(metrics.contains(&line), "{metrics}");
    }
    // What is not asked for is not off.
    assert!(!metrics.contains("policy=\"boost\""), "{metrics}");
    daemon.stop();
}

#[test]
fn a_minimum_that_somebody_else_sets_is_not_boosted() {
    let test = "a_minimum_that_somebody_else_sets_is_not_boosted";
    if !possible(test) {
        return;
    }
    let machine = copy_of_laptop();
    let folder = folder();
    let data = data(folder.path());
    let text = "policy = []\n[boost]\nmode = 'on'\n";
    let config_path = config(folder.path(), text);
    let root = machine.path().to_str().unwrap();
    let mut daemon = Daemon::start(&["--root", root, "--config", &config_path], &[]);
    daemon.until("I/O boost");
    let minima = [0, 1].map(|policy| {
        let file = format!("sys/devices/system/cpu/cpufreq/policy{policy}/scaling_min_freq");
        machine.path().join(file)
    });
    let value = |path: &Path| fs::read_to_string(path).unwrap().trim().to_owned();
    let said = daemon.until_in_bursts(&data, "boosted no more", || {
        for path in &minima {
            if value(path) != "900000" {
                put(path, "900000");
            }
        }
    });
    assert!(said.contains("is '900000' instead of '"), "{said}");
    burst(&data);
    let policy = usize::from(said.contains("policy1"));
    assert_eq!(value(&minima[policy]), "900000", "{said}");
    daemon.signal(Signal::TERM);
    daemon.until(&format!("frequency-min:policy{policy} is '900000'"));
    daemon.until("I/O(s) watched");
    assert_eq!(value(&minima[policy]), "900000");
}

#[test]
fn a_configuration_that_cannot_be_started_leaves_the_old_one_in_force() {
    let test = "a_configuration_that_cannot_be_started_leaves_the_old_one_in_force";
    if !possible(test) {
        return;
    }
    let machine = copy_of_laptop();
    let folder = folder();
    let data = data(folder.path());
    let good = format!(
        "policy = ['psd[ceiling=20us]']\n[boost]\nmode = 'off'\n[metrics]\nport = {}\n",
        free_port()
    );
    let config_path = config(folder.path(), &good);
    let root = machine.path().to_str().unwrap();
    let mut daemon = Daemon::start(&["--root", root, "--config", &config_path], &[]);
    daemon.until("leases on");
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    for (text, why) in [
        (
            "policy = ['psd[ceiling=C9]']\n[boost]\nmode = 'off'\n",
            "C9",
        ),
        // Half of it would be possible.
        ("policy = ['psd[ceiling=C9]']\n[boost]\nmode = 'on'\n", "C9"),
        ("policy = []\n[boost]\nmode = 'off'\n", "asks for nothing"),
        (
            &format!("[metrics]\nport = {port}\n"),
            &format!("port {port} of 127.0.0.1"),
        ),
    ] {
        config(folder.path(), text);
        // A port that is taken is no fault of the file.
        let check = ["daemon", "--check-config", "--config", &config_path];
        wakepath(&[&check[..], &["--root", root]].concat()).code(i32::from(why == "C9"));
        daemon.signal(Signal::HUP);
        let said = daemon.until("not reloaded");
        assert!(said.contains("the old configuration stays"), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(armed(machine.path(), &data, "20"), "{:?}", daemon.said);
    }
    config(folder.path(), &good.replace("20us", "30us"));
    daemon.signal(Signal::HUP);
    daemon.until("reloaded");
    assert!(armed(machine.path(), &data, "30"), "{:?}", daemon.said);
    daemon.stop();
}

#[test]
fn the_kernel_module_is_used_where_it_is_loaded() {
    let machine = copy_of_laptop();
    let parameters = machine.path().join("sys/module/wakepath_psd/parameters");
    fs::create_dir_all(&parameters).unwrap();
    fs::write(parameters.join("timeout_ms"), "0\n").unwrap();
    fs::write(parameters.join("ceiling_us"), "0\n").unwrap();
    let before = content(machine.path());
    let folder = folder();
    let config = config(
        folder.path(),
        "policy = ['psd[timeout=5ms]']\n[boost]\nmode = 'off'\n",
    );
    let root = machine.path().to_str().unwrap();
    let mut daemon = Daemon::start(&["--root", root, "--config", &config], &[]);
    daemon.until("kernel module");
    assert_eq!(
        fs::read_to_string(parameters.join("timeout_ms")).unwrap(),
        "5\n"
    );
    assert_eq!(
        fs::read_to_string(parameters.join("ceiling_us")).unwrap(),
        "2\n"
    );
    daemon.stop();
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn systemd_is_told() {
    let test = "systemd_is_told";
    if !possible(test) {
        return;
    }
    let machine = copy_of_laptop();
    let folder = folder();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let hear = || {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec())
            .unwrap()
            .trim_end()
            .to_owned()
    };
    let environment = [
        ("NOTIFY_SOCKET", path.to_str().unwrap()),
        ("WATCHDOG_USEC", "200000"),
        ("JOURNAL_STREAM", "8:1"),
    ];
    let root = machine.path().to_str().unwrap();
    let mut daemon = Daemon::start(&["--root", root], &environment);
    // To the journal each line begins with its level.
    assert!(daemon.until("leases on").starts_with("<6>"));
    assert!(hear().starts_with("READY=1\nSTATUS="));
    assert_eq!(hear(), "WATCHDOG=1");
    let first = Instant::now();
    assert_eq!(hear(), "WATCHDOG=1");
    assert!(first.elapsed() < Duration::from_millis(200));
    daemon.stop();
    while hear() != "STOPPING=1" {}
}

#[test]
fn what_is_missing_is_said() {
    let machine = copy_of_laptop();
    for cpu in 0..2 {
        let directory = machine
            .path()
            .join(format!("sys/devices/system/cpu/cpu{cpu}/cpuidle"));
        fs::remove_dir_all(directory).unwrap();
    }
    fs::remove_dir_all(machine.path().join("sys/devices/system/cpu/cpufreq")).unwrap();
    let root = machine.path().to_str().unwrap();
    let missing = wakepath(&["daemon", "--root", root]);
    fails_with_code(
        NOT_AGAIN,
        missing,
        &[
            "nothing to do",
            "psd: this machine shows no idle states",
            "boost: ",
            "cpufreq",
        ],
    );
    assert!(
        !machine
            .path()
            .join("var/lib/wakepath/journal.json")
            .exists()
    );

    let folder = folder();
    let check = |text: &str| {
        let path = config(folder.path(), text);
        wakepath(&["daemon", "--check-config", "--config", &path])
    };
    check("").success();
    check(&fs::read_to_string("../settings/data/daemon.toml").unwrap()).success();
    fails_with(
        check("policy = ['psd[celing=2us]']\n"),
        &["daemon.toml:1", "`celing`", "did you mean `ceiling`"],
    );
    fails_with(check("thermal = 0\n"), &["unknown key `thermal`"]);
    let wrong = config(folder.path(), "policy = ['psd[celing=2us]']\n");
    let run = wakepath(&["daemon", "--root", root, "--config", &wrong]);
    fails_with_code(NOT_AGAIN, run, &["daemon.toml:1", "`celing`"]);
    let unit = fs::read_to_string("../../packaging/systemd/wakepath.service").unwrap();
    assert!(unit.contains(&format!("\nRestartPreventExitStatus={NOT_AGAIN}\n")));
    let nowhere = wakepath(&["daemon", "--check-config", "--config", "/nonexistent.toml"]);
    fails_with(nowhere, &["/nonexistent.toml"]);
    let example = wakepath(&["daemon", "--print-config"]).success();
    assert!(String::from_utf8_lossy(&example.get_output().stdout).contains("policy = "));
}

/// Only drives are looked after, which needs no eBPF.
const DRIVES: &str = "policy = []\n[boost]\nmode = 'off'\n[drives]\ncheck = '1s'\n";

#[test]
fn a_drive_that_has_no_table_or_does_not_answer_keeps_nothing_from_the_rest() {
    let folder = folder();
    let profile = |model: &str| {
        let text = format!("{DRIVES}[[drive]]\nmodel = '{model}'\nac = 'apst'\n");
        config(folder.path(), &text)
    };
    let server = copy_of_server();
    let root = server.path().to_str().unwrap();
    let all = profile("*");
    let without = wakepath(&["daemon", "--root", root, "--config", &all]);
    fails_with_code(
        NOT_AGAIN,
        without,
        &["nothing to do: drive nvme0: ", "APST"],
    );

    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    // A controller that does not answer.
    let silent = machine.path().join("sys/class/nvme/nvme1");
    fs::create_dir(&silent).unwrap();
    fs::write(silent.join("model"), "Silent 1 TB\n").unwrap();
    let mut daemon = Daemon::start(&["--root", root, "--config", &all], &[]);
    let said = daemon.until("off: ");
    assert!(said.contains("drive nvme1: "), "{said}");
    daemon.until("table of nvme0");
    daemon.stop();
    // It is not even asked where no profile fits its model.
    let one = profile("WDC*");
    let mut daemon = Daemon::start(&["--root", root, "--config", &one], &[]);
    daemon.until("table of nvme0");
    assert_eq!(daemon.said.len(), 1, "{:?}", daemon.said);
    daemon.stop();
    fs::remove_dir_all(&silent).unwrap();
    // It answers, and refuses what it is told.
    let table = machine.path().join("dev/nvme0.feature-0c");
    let captured = fs::read(&table).unwrap();
    fs::write(&table, &captured[..10]).unwrap();
    let refusing = wakepath(&["daemon", "--root", root, "--config", &one]);
    // It may take it another time, so that systemd is to try again.
    fails_with_code(1, refusing, &["nothing to do: drive nvme0: ", "10 bytes"]);
    fs::write(&table, &captured).unwrap();
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn another_drive_of_the_same_name_is_left_alone() {
    let folder = folder();
    let text = format!("{DRIVES}[[drive]]\nmodel = 'WDC*'\nac = 'apst'\n");
    let config = config(folder.path(), &text);
    for at_once in [false, true] {
        let machine = copy_of_laptop();
        let root = machine.path().to_str().unwrap();
        let table = machine.path().join("dev/nvme0.feature-0c");
        let captured = fs::read(&table).unwrap();
        let mut daemon = Daemon::start(&["--root", root, "--config", &config], &[]);
        daemon.until("table of nvme0");
        let profiles = fs::read(&table).unwrap();
        // The other drive has a table of its own, which it may keep.
        let mut own = profiles.clone();
        own[5] ^= 1;
        assert!(own != captured && captured != profiles);
        fs::write(&table, &own).unwrap();
        let model = machine.path().join("sys/class/nvme/nvme0/model");
        fs::write(model, "Other 1 TB\n").unwrap();
        let stat = machine.path().join("sys/block/nvme0n1/stat");
        fs::write(stat, "999999 0 0 0 0 0 0 0 0 0 0\n").unwrap();
        if at_once {
            daemon.signal(Signal::TERM);
        }
        let said = daemon.until("another drive");
        assert!(said.contains("(Other 1 TB, after WDC"), "{said}");
        if at_once {
            daemon.until("I/O(s) watched");
        } else {
            sleep(Duration::from_millis(1500));
            // Whoever looks after it now may set the table that the profile had.
            fs::write(&table, &profiles).unwrap();
            own = profiles;
            daemon.stop();
        }
        assert!(fs::read(&table).unwrap() == own);
    }
}

#[test]
fn observed_timeouts_that_nobody_can_observe_are_said_to_be_off() {
    let test = "observed_timeouts_that_nobody_can_observe_are_said_to_be_off";
    if Command::new("setpriv").arg("--version").output().is_err() {
        return skip(test, "no setpriv (Debian: util-linux)");
    }
    let folder = folder();
    let text = format!("{DRIVES}[[drive]]\nmodel = 'WDC*'\nac = 'apst'\ntimeouts = 'observed'\n");
    let config = config(folder.path(), &text);
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    let mut daemon = Daemon::start(&["--root", root, "--config", &config], &[]);
    let said = daemon.until("off: ");
    assert!(
        said.contains("observed timeouts of nvme0: this machine shows no block"),
        "{said}"
    );
    daemon.stop();
    let number = machine.path().join("sys/block/nvme0n1/dev");
    fs::write(&number, "259:0\n").unwrap();
    let rights = ["--bounding-set", "-all", "--inh-caps", "-all", WAKEPATH];
    let rest = ["daemon", "--root", root, "--config", &config];
    let mut command = Command::new("setpriv");
    command.args(rights).args(rest);
    let mut daemon = Daemon::start_command(&mut command);
    let said = daemon.until("off: ");
    assert!(said.contains("observed timeouts, instead"), "{said}");
    daemon.until("table of nvme0");
    daemon.stop();
    fs::remove_file(number).unwrap();
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn links_and_open_directories_stop_the_daemon() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let directory = machine.path().join("var/lib/wakepath");
    fs::create_dir_all(directory.parent().unwrap()).unwrap();
    symlink(elsewhere.path(), &directory).unwrap();
    fails_with(wakepath(&["daemon", "--root", root]), &["is a link"]);
    fs::remove_file(&directory).unwrap();
    fs::create_dir(&directory).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    fails_with(wakepath(&["daemon", "--root", root]), &["others may write"]);
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
    for file in ["lock", "journal.json"] {
        let target = elsewhere.path().join(file);
        fs::write(&target, "precious").unwrap();
        symlink(&target, directory.join(file)).unwrap();
        wakepath(&["daemon", "--root", root]).code(1);
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        fs::remove_file(directory.join(file)).unwrap();
    }
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 2);
}

#[test]
fn a_ceiling_that_this_machine_has_not_is_found_when_the_file_is_checked() {
    let machine = common::captured::copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let config = machine.path().join("daemon.toml");
    let check = |ceiling: &str| {
        fs::write(&config, format!("policy = ['psd[ceiling={ceiling}]']\n")).unwrap();
        let path = config.to_str().unwrap();
        common::wakepath(&["daemon", "--check-config", "--config", path, "--root", root])
    };
    check("C1E").success();
    common::fails_with(check("C9"), &["no idle state 'C9'", "C1E ("]);
}
