//! Live studies whose policies have leases: `wakepath daemon` runs while such a policy is in force, and no longer.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::captured::{content, copy_of_laptop, different};
use crate::common::leases::data;
use crate::common::skip;
use wakepath_results::{Mode, ResultReader, RunOrigin};
use wakepath_study::plan::Plan;
use wakepath_study::run::live::Live;
use wakepath_study::run::{self, RunControl};
use wakepath_system::{Root, System};

const WAKEPATH: &str = env!("CARGO_BIN_EXE_wakepath");
const LIMITS: &str = "sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us";
const GOVERNOR: &str = "sys/devices/system/cpu/cpuidle/current_governor";
const LONG: Duration = Duration::from_secs(30);

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// Two policies: leases with another governor, and nothing. The workload reads in bursts until some CPU has the limit of a
/// lease, and prints whether one had, and which governor there was.
fn study(machine: &Path, data: &Path) -> String {
    let (machine, data) = (machine.display(), data.display());
    format!(
        "name = 'leases'\nrepeats = 4\nsettle_s = 0\n\
         policy = [{{ name = 'none', set = '' }}, {{ name = 'leases', set = 'teo + psd[timeout=300ms,ceiling=21us]' }}]\n\
         [[workload]]\nname = 'bursts'\n\
         command = ['sh', '-c', '''\n\
         found=0; tries=0\n\
         while [ $found = 0 ] && [ $tries -lt 20 ]; do\n\
           dd if={data} of=/dev/null bs=4k count=400 iflag=direct status=none\n\
           ! grep -qx 21 {machine}/{LIMITS} || found=1\n\
           tries=$((tries + 1))\n\
         done\n\
         echo leases $found teo $(grep -c teo {machine}/{GOVERNOR})''']\n\
         [[workload.metric]]\nname = 'leases'\npattern = 'leases (\\d)'\nbetter = 'higher'\n\
         [[workload.metric]]\nname = 'teo'\npattern = 'teo (\\d)'\nbetter = 'higher'\n"
    )
}

/// The values of a metric in each run of a policy.
fn values(results: &ResultReader, policy: &str, metric: &str) -> Vec<f64> {
    let runs = results.read_runs().unwrap();
    let runs = runs.iter().filter(|run| run.key.policy == policy);
    let metrics = runs.flat_map(|run| &run.metrics);
    metrics
        .filter(|(name, _)| name == metric)
        .map(|(_, value)| *value)
        .collect()
}

#[test]
fn the_daemon_gives_leases_while_their_policy_is_in_force() {
    let test = "the_daemon_gives_leases_while_their_policy_is_in_force";
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let folder = folder();
    let text = study(machine.path(), &data(folder.path()));
    let plan = Plan::from_text(&text, "leases", Path::new("."), RunOrigin::Live).unwrap();
    let system = System::new(Root::at_directory(machine.path()));
    let backend = Live::on_system(&plan, system, WAKEPATH.into()).unwrap();
    let results = folder.path().join("results");
    let control = RunControl::without_reports_or_cancellation();
    match run::run_plan(&plan, &backend, None, &results, Mode::New, &control) {
        // Leases take eBPF programs, which not every machine lets tests load.
        Err(error)
            if error
                .to_string()
                .contains("daemon has ended: nothing to do") =>
        {
            return skip(test, &error.to_string());
        }
        done => done.unwrap(),
    }
    let results = ResultReader::open(&results).unwrap();
    for metric in ["leases", "teo"] {
        assert_eq!(values(&results, "none", metric), [0.0; 4], "{metric}");
        assert_eq!(values(&results, "leases", metric), [1.0; 4], "{metric}");
    }
    let left = different(&content(machine.path()), &before);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_daemon_puts_leases_back_when_the_study_is_killed() {
    let test = "the_daemon_puts_leases_back_when_the_study_is_killed";
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let folder = folder();
    let config = folder.path().join("daemon.toml");
    fs::write(
        &config,
        "policy = ['psd[ceiling=21us]']\n[boost]\nmode = 'off'\n",
    )
    .unwrap();
    let store = machine.path().join("var/lib/wakepath");
    fs::create_dir_all(&store).unwrap();
    fs::write(store.join("lock"), "").unwrap();
    let log = folder.path().join("log");
    let script = format!(
        "{WAKEPATH} daemon --root {root} --config {config} --lent-by $$ <{root}/var/lib/wakepath/lock 2>{log} &\n\
         wait $!; sleep 100",
        root = machine.path().display(),
        config = config.display(),
        log = log.display()
    );
    let mut lender = Command::new("sh")
        .args(["-c", &script])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let said = |part: &str| {
        let begin = Instant::now();
        while begin.elapsed() < LONG {
            let text = fs::read_to_string(&log).unwrap_or_default();
            if text.contains(part) || text.contains("nothing to do") {
                return text;
            }
            sleep(Duration::from_millis(20));
        }
        panic!("'{part}' was not said: {:?}", fs::read_to_string(&log));
    };
    let first = said("leases on");
    lender.kill().unwrap();
    lender.wait().unwrap();
    if first.contains("nothing to do") {
        return skip(test, first.trim());
    }
    said("I/O(s) watched");
    fs::remove_dir_all(machine.path().join("var")).unwrap();
    let left = different(&content(machine.path()), &before);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_lock_that_is_not_lent_is_refused() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    for (parent, reason) in [
        (
            std::process::id().to_string(),
            "standard input is not this lock",
        ),
        ("1".to_owned(), "process 1, which started this one, is gone"),
    ] {
        let output = Command::new(WAKEPATH)
            .args(["daemon", "--root", root, "--lent-by", &parent])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(reason),
            "{errors}"
        );
    }
}
