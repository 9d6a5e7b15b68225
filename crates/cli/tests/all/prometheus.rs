//! Metrics, board and alerts beside Debian's Prometheus.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::captured::copy_of_laptop;
use crate::common::leases::{burst, data};
use crate::common::skip;

const WAKEPATH: &str = env!("CARGO_BIN_EXE_wakepath");
/// How long queries may lack data: a window of the guard has ten busy seconds.
const LONGEST: Duration = Duration::from_secs(120);

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// Runs promtool; `None` where it is not installed.
fn promtool(arguments: &[&str], input: Stdio) -> Option<Output> {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(input).output().ok()
}

fn succeeds(output: &Output) {
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{texts:?}");
}

#[test]
fn alerts_fire_when_they_should() {
    let test = "alerts_fire_when_they_should";
    for (command, file) in [
        ("check", "wakepath.rules.yml"),
        ("test", "wakepath.rules.test.yml"),
    ] {
        let path = packaging().join("prometheus").join(file);
        let arguments = [command, "rules", path.to_str().unwrap()];
        match promtool(&arguments, Stdio::null()) {
            Some(output) => succeeds(&output),
            None => return skip(test, "promtool is not installed (package prometheus)"),
        }
    }
}

/// Every alert has a case of `promtool test rules` in which it fires, and one in which it does not.
#[test]
fn every_alert_is_tested_both_ways() {
    let folder = packaging().join("prometheus");
    let rules = fs::read_to_string(folder.join("wakepath.rules.yml")).unwrap();
    let tests = fs::read_to_string(folder.join("wakepath.rules.test.yml")).unwrap();
    let alerts: Vec<&str> = values_of_key(&rules, "- alert").collect();
    assert_eq!(alerts.len(), 8);
    for alert in alerts {
        assert!(tests.contains(&format!("alertname: {alert}}}")), "{alert}");
        let fires = format!("alertname: {alert}\n        exp_alerts:\n          - exp_labels");
        assert!(tests.contains(&fires), "{alert}");
    }
}

/// The values of lines `KEY: VALUE` in YAML.
fn values_of_key<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = text.lines().map(str::trim_start);
    lines.filter_map(move |line| line.strip_prefix(key)?.strip_prefix(": "))
}

/// Queries of the alerts without their limits: an alert that does not fire has no data.
fn alert_queries() -> Vec<String> {
    let rules = fs::read_to_string(packaging().join("prometheus/wakepath.rules.yml")).unwrap();
    let queries = values_of_key(&rules, "expr").map(|query| {
        let comparison = [" == ", " > "]
            .into_iter()
            .find_map(|sign| query.rfind(sign));
        query[..comparison.unwrap()].to_owned()
    });
    queries.collect()
}

/// Queries of the board, with Grafana's variables filled in.
fn board_queries() -> Vec<String> {
    let text = fs::read_to_string(packaging().join("grafana/wakepath.json")).unwrap();
    let board: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| {
        let query = target["expr"].as_str().unwrap();
        query
            .replace("$__rate_interval", "15s")
            .replace("$instance", ".*")
    });
    queries.collect()
}

/// Every metric of the daemon that board and alerts ask for is one that the daemon has.
#[test]
fn there_are_queries_for_what_the_daemon_shows() {
    let queries = [alert_queries(), board_queries()].concat();
    for name in [
        "wakepath_request_seconds_bucket",
        "wakepath_request_part_seconds_sum",
        "wakepath_leases",
        "wakepath_lease_seconds_total",
        "wakepath_idle_state_seconds_total",
        "wakepath_power_watts",
        "wakepath_failures_total",
        "wakepath_drifted_settings",
        "wakepath_guard_latency_seconds",
    ] {
        assert!(queries.iter().any(|query| query.contains(name)), "{name}");
    }
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Starts the daemon on a copy of the laptop, with everything that it can measure.
fn start_daemon(folder: &Path, machine: &Path, port: u16) -> Process {
    let config = folder.join("daemon.toml");
    let textfile = folder.join("wakepath.prom");
    let text = format!(
        "policy = ['psd[ceiling=20us]']\n[boost]\nmode = 'off'\n[guard]\nkeep = ['p99_us < 60000000']\n\
         [metrics]\nport = {port}\ntextfile = '{}'\nlatency = true\n",
        textfile.display()
    );
    fs::write(&config, text).unwrap();
    let log = fs::File::create(folder.join("daemon.log")).unwrap();
    let daemon = Command::new(WAKEPATH)
        .args(["daemon", "--root", machine.to_str().unwrap(), "--config"])
        .arg(&config)
        .stderr(log)
        .spawn();
    Process(daemon.unwrap())
}

/// Starts Prometheus, which scrapes the daemon each second.
fn start_prometheus(folder: &Path, scraped: u16, port: u16) -> Process {
    let config = folder.join("prometheus.yml");
    let text = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: wakepath\n  static_configs:\n  \
         - targets: ['127.0.0.1:{scraped}']\n"
    );
    fs::write(&config, text).unwrap();
    let log = fs::File::create(folder.join("prometheus.log")).unwrap();
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!(
            "--storage.tsdb.path={}",
            folder.join("tsdb").display()
        ))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stderr(log)
        .spawn();
    Process(prometheus.unwrap())
}

/// Whether a query has data now.
fn has_data(port: u16, query: &str) -> bool {
    let server = format!("http://127.0.0.1:{port}");
    let arguments = ["query", "instant", &server, query];
    let output = promtool(&arguments, Stdio::null()).unwrap();
    output.status.success() && !output.stdout.trim_ascii().is_empty()
}

#[test]
#[ignore = "nightly: Prometheus scrapes for a minute"]
fn every_query_of_board_and_alerts_has_data_under_load() {
    let test = "every_query_of_board_and_alerts_has_data_under_load";
    if promtool(&["--version"], Stdio::null()).is_none() {
        return skip(test, "promtool is not installed (package prometheus)");
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = folder.path();
    let machine = copy_of_laptop();
    let (scraped, port) = (free_port(), free_port());
    let mut daemon = start_daemon(folder, machine.path(), scraped);
    sleep(Duration::from_secs(3));
    let log = fs::read_to_string(folder.join("daemon.log")).unwrap();
    if daemon.0.try_wait().unwrap().is_some() || log.contains("off: ") {
        return skip(test, &log);
    }
    let prometheus = start_prometheus(folder, scraped, port);
    let data = data(folder);
    let over = AtomicBool::new(false);
    let mut without_data = [alert_queries(), board_queries()].concat();
    assert!(without_data.len() >= 20, "{without_data:?}");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                burst(&data);
                sleep(Duration::from_millis(50));
            }
        });
        let begun = Instant::now();
        while !without_data.is_empty() && begun.elapsed() < LONGEST {
            sleep(Duration::from_secs(2));
            without_data.retain(|query| !has_data(port, query));
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(without_data.is_empty(), "no data for {without_data:#?}");
    let page = fs::File::open(folder.join("wakepath.prom")).unwrap();
    succeeds(&promtool(&["check", "metrics"], page.into()).unwrap());
    drop(prometheus);
    drop(daemon);
}
