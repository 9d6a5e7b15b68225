//! `wakepath measure` as a whole command: plans, refusals, and that nothing is left behind.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use wakepath_hardware::Machine;
use wakepath_hardware::machine::Origin;
use wakepath_system::System;

use crate::common::captured::{content, copy_of_laptop, different};
use crate::common::rig::{Shared, guest};
use crate::common::{fails_with, json, lock_machine, skip, wakepath};

/// A folder on the drive of the repository.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn a_dry_run_says_what_would_be_written_and_does_nothing() {
    let folder = folder();
    let new = folder.path().join("new");
    let arguments = ["measure", "drive", "--write-to", new.to_str().unwrap()];
    let size = ["--size", "64m", "--dry-run", "--format", "json"];
    let plan = json(&wakepath(&[&arguments[..], &size].concat()).success());
    assert_eq!(plan["bytes_to_fill"], 64 << 20);
    assert!(plan["most_bytes_written"].as_u64().unwrap() >= 14 * (64 << 20));
    assert!(plan["seconds"].as_f64().unwrap() > 10.0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    let plan = wakepath(&["measure", "wake", "--root", root, "--dry-run"]).success();
    let text = String::from_utf8(plan.get_output().stdout.clone()).unwrap();
    assert!(text.contains("POLL, C1E, C6, C8, C10"), "{text}");
    assert!(different(&content(machine.path()), &before).is_empty());
    assert!(!machine.path().join("var/lib/wakepath").exists());
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("small"), "x").unwrap();
    let drive = |arguments: &[&str]| wakepath(&[&["measure", "drive"], arguments].concat());
    fails_with(drive(&["--file", &at("none")]), &["none", "No such file"]);
    fails_with(
        drive(&["--file", &at("small")]),
        &["small", "1 bytes", "16 MiB"],
    );
    fails_with(drive(&["--file", &at("")]), &["regular file"]);
    fails_with(drive(&["--file", "/dev/null"]), &["block device"]);
    fails_with(
        drive(&["--write-to", &at("small")]),
        &["small", "is there already"],
    );
    fails_with(drive(&["--write-to", &at("x/y")]), &["No such file"]);
    let huge = drive(&["--write-to", &at("huge"), "--size", "1048576t"]);
    fails_with(huge, &["are free", "--size"]);
    assert!(!Path::new(&at("huge")).exists());
    let taken = drive(&[
        "--write-to",
        &at("new"),
        "--size",
        "16m",
        "-o",
        &at("small"),
    ]);
    fails_with(taken, &["small", "--force replaces it"]);
    let lost = drive(&["--write-to", &at("new"), "--size", "16m", "-o", &at("x/y")]);
    fails_with(lost, &["there is no folder"]);
    for wrong in [
        &["--size", "12"][..],
        &["--time", "0"],
        &["--file", "a", "--write-to", "b"],
    ] {
        drive(&[&["--write-to", "new"], wrong].concat()).code(2);
    }
    drive(&[]).code(2);
    let wake = ["measure", "wake", "--dry-run", "--file", &at("none")];
    fails_with(wakepath(&wake), &["none", "No such file"]);

    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let captured = wakepath(&["measure", "wake", "--root", root]);
    fails_with(captured, &["captured machine", "--dry-run"]);
}

#[test]
fn a_calibration_says_before_what_it_will_do() {
    let folder = folder();
    let at = folder.path().to_str().unwrap();
    let arguments = ["calibrate", "--folder", at, "--size", "32m", "--dry-run"];
    let plan = json(&wakepath(&[&arguments[..], &["--format", "json"]].concat()).success());
    assert_eq!(plan["bytes_to_fill"], 64 << 20);
    let seconds = plan["seconds"].as_f64().unwrap();
    assert!((540.0..=660.0).contains(&seconds), "{seconds}");
    let rounds = [&arguments[..], &["--format", "json", "--rounds", "3"]].concat();
    let plan = json(&wakepath(&rounds).success());
    assert_eq!(plan["bytes_to_fill"], 4 * (32 << 20));
    assert!(
        plan["does"].to_string().contains("3 times in turn"),
        "{plan}"
    );
    let some = [&arguments[..], &["--format", "json", "--phases", "wake"]].concat();
    let plan = json(&wakepath(&some).success());
    let does = plan["does"].to_string();
    assert!(does.contains("no jobs to compare"), "{does}");
    assert!(
        !does.contains("soft interrupts") && !does.contains("system calls"),
        "{does}"
    );
    let wrong = [&arguments[..], &["--phases", "wake,sleep"]].concat();
    wakepath(&wrong).code(2);
    let own = folder.path().join("own.fio").display().to_string();
    let with_own = [&arguments[..], &["--job", &own]].concat();
    fails_with(wakepath(&with_own), &["own.fio", "No such file"]);
    fs::write(&own, "[j]\nrw=randread\n").unwrap();
    let plan = wakepath(&with_own).success();
    let text = String::from_utf8(plan.get_output().stdout.clone()).unwrap();
    assert!(
        text.contains("own.fio") && !text.contains("8 in flight"),
        "{text}"
    );
    let endless = [&arguments[..], &["--job", "/dev/zero"]].concat();
    fails_with(wakepath(&endless), &["/dev/zero", "reading the job"]);
    for (job, why) in [
        ("root:x:0:0\n", "has no job section"),
        ("[j]\nrw=randread\nioengine=nosuch\n", "nosuch"),
        ("[j]\nrw=randwrite\nfilename=/dev/nosuch\n", "/dev/nosuch"),
    ] {
        fs::write(&own, job).unwrap();
        fails_with(wakepath(&with_own), &["own.fio", why]);
    }
    let least = [&arguments[..], &["--budget", "1s"]].concat();
    let plan = wakepath(&least).success();
    let text = String::from_utf8(plan.get_output().stdout.clone()).unwrap();
    assert!(text.contains("longer than the budget of 1 s"), "{text}");
    fs::remove_file(&own).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let nowhere = folder.path().join("none").display().to_string();
    let refused = wakepath(&["calibrate", "--folder", &nowhere, "--dry-run"]);
    fails_with(refused, &["none", "No such file"]);
    let colon = folder.path().join("a:b").display().to_string();
    fs::create_dir(&colon).unwrap();
    let refused = wakepath(&["calibrate", "--folder", &colon, "--dry-run"]);
    fails_with(refused, &["a:b", "colons"]);
    let taken = folder.path().join("machine.toml").display().to_string();
    fs::write(&taken, "precious").unwrap();
    let refused = wakepath(&["calibrate", "--folder", at, "-o", &taken]);
    fails_with(refused, &["machine.toml", "--force replaces it"]);
    assert_eq!(fs::read_to_string(&taken).unwrap(), "precious");
}

/// A machine file with a prediction error, a job, and a study of both.
fn machine_with_prediction_error(folder: &Path) -> [String; 3] {
    let mut model = wakepath_hardware::Machine::find("rk3399").unwrap();
    model.prediction = Some(own_prediction_error());
    let text = model.to_toml().unwrap();
    let write = |name: &str, text: &str| {
        fs::write(folder.join(name), text).unwrap();
        folder.join(name).display().to_string()
    };
    [
        write("machine.toml", &text),
        write("job.fio", JOB),
        write("study.toml", &study_on("machine.toml")),
    ]
}

/// The error that [`OWN_PREDICTIONS`] tells.
pub(crate) fn own_prediction_error() -> wakepath_hardware::machine::PredictionError {
    wakepath_hardware::machine::PredictionError {
        jobs: 4,
        rounds: 1,
        mean_percent: 6.0,
        p99_percent: 15.0,
        iops_percent: 6.0,
        package_percent: None,
        date: "2026-11-27".to_owned(),
        kernel: "6.12.48".to_owned(),
        ranking: None,
        itself: None,
        uncalibrated: None,
    }
}

/// A job of random reads.
const JOB: &str = "[j]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\ntime_based\nruntime=100ms\n";

/// A study of `job.fio` on a machine.
fn study_on(machine: &str) -> String {
    format!(
        "name = 's'\nmachine = '{machine}'\nrepeats = 2\npolicy = ['menu']\n[[workload]]\nname = 'j'\nfio = 'job.fio'\n"
    )
}

pub(crate) const OWN_PREDICTIONS: &str = "predictions on this machine: mean within 6 %, p99 15 %, IOPS 6 % (4 jobs, 2026-11-27, Linux 6.12.48)";

/// What a command that succeeds prints, and its messages.
fn printed_and_told(arguments: &[&str]) -> [String; 2] {
    let assert = wakepath(arguments).success();
    let output = assert.get_output();
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8(bytes.clone()).unwrap())
}

#[test]
fn a_simulation_says_how_far_predictions_were_off() {
    let folder = folder();
    let [machine, job, _] = machine_with_prediction_error(folder.path());
    let run = |more: &[&str]| {
        let arguments = ["sim", &job, "--machine", &machine, "--format", "json"];
        let [printed, told] = printed_and_told(&[&arguments[..], more].concat());
        let file: serde_json::Value = serde_json::from_str(&printed).unwrap();
        (file["machine"].clone(), told)
    };
    let (shown, told) = run(&[]);
    assert!(told.contains(OWN_PREDICTIONS), "{told}");
    assert_eq!(shown["name"], "rk3399");
    assert_eq!(shown["prediction"]["p99_percent"], 15.0);
    // Nobody compared predictions with another drive.
    let (shown, told) = run(&["--drive", "sn530"]);
    assert!(!told.contains("predictions on this machine"), "{told}");
    assert!(shown["prediction"].is_null(), "{shown}");

    let tune = [
        "tune",
        &job,
        "--machine",
        &machine,
        "--over",
        "idle",
        "--seconds",
        "20ms",
        "--budget",
        "400000",
        "--no-sensitivity",
        "--minimise",
        "p99_us",
    ];
    let [_, told] = printed_and_told(&tune);
    assert_eq!(told.matches(OWN_PREDICTIONS).count(), 1, "{told}");
    let [shown, _] = printed_and_told(&["machine", "show", &machine]);
    let unfolded = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unfolded.contains(OWN_PREDICTIONS), "{shown}");
}

#[test]
fn a_study_and_its_results_say_how_far_predictions_were_off() {
    let folder = folder();
    let [_, _, study] = machine_with_prediction_error(folder.path());
    let [results, page] = ["results", "page.html"].map(|name| folder.path().join(name));
    let [results, page] = [&results, &page].map(|path| path.to_str().unwrap());
    let [_, told] = printed_and_told(&["study", "run", &study, "-o", results]);
    assert_eq!(told.matches(OWN_PREDICTIONS).count(), 1, "{told}");
    let [compared, _] = printed_and_told(&["compare", results]);
    let unfolded = compared.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unfolded.contains(OWN_PREDICTIONS), "{compared}");
    wakepath(&["report", results, "-o", page]).success();
    assert!(fs::read_to_string(page).unwrap().contains(OWN_PREDICTIONS));

    let other_drive = format!("drive = \"sn530\"\n{}", study_on("machine.toml"));
    fs::write(&study, other_drive).unwrap();
    let [_, told] = printed_and_told(&["study", "run", &study, "-o", results, "--force"]);
    assert!(!told.contains("predictions on this machine"), "{told}");
    let [compared, _] = printed_and_told(&["compare", results]);
    assert!(
        !compared.contains("predictions on this machine"),
        "{compared}"
    );
}

/// A machine file with a measured figure from another kernel, and a job.
pub(crate) fn calibrated_machine(folder: &Path) -> [String; 2] {
    use wakepath_hardware::machine::{CalibratedOn, Figure, Measurement};
    let mut model = wakepath_hardware::Machine::find("rk3399").unwrap();
    let measurement = Measurement {
        n: 9,
        low: Some(80.0),
        high: Some(80.0),
        date: "2026-11-27".to_owned(),
        kernel: "1.2.3".to_owned(),
        what: "mean".to_owned(),
    };
    model.drive.read_service_us = Figure::measured_here(80.0, measurement);
    model.calibrated_on = Some(CalibratedOn {
        date: "2026-11-27".to_owned(),
        kernel: "1.2.3".to_owned(),
        cpus: System::live().cpus().len(),
        processor: None,
        microcode: None,
        firmware: None,
        disk: None,
        drive: None,
    });
    let machine = folder.join("machine.toml").display().to_string();
    fs::write(&machine, model.to_toml().unwrap()).unwrap();
    let job = folder.join("job.fio").display().to_string();
    fs::write(&job, "[j]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\n").unwrap();
    [machine, job]
}

/// Output and messages of a command on a machine with this calibration.
pub(crate) fn run_calibrated(calibration: &str, arguments: &[&str]) -> [String; 2] {
    let output = Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .args(arguments)
        .env("COLUMNS", "1000")
        .env("WAKEPATH_HERE", calibration)
        .output()
        .unwrap();
    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap())
}

#[test]
fn a_simulation_without_a_machine_takes_the_calibrated_one_and_says_so() {
    let folder = folder();
    let [machine, job] = calibrated_machine(folder.path());
    let arguments = ["sim", &job, "--seconds", "0.1"];
    let [shown, told] = run_calibrated(&machine, &arguments);
    let first = shown.lines().next().unwrap();
    assert!(
        first.starts_with("machine: here, ") && first.contains(&machine),
        "{first}"
    );
    assert!(told.contains("stale figures (kernel 1.2.3, now "), "{told}");
    assert!(told.contains("drive.read_service_us"), "{told}");
    // By its path the file may be another machine's.
    let by_path = [&arguments[..], &["--machine", &machine]].concat();
    let [shown, told] = run_calibrated("", &by_path);
    assert!(
        !shown.contains("machine: here") && !told.contains("stale"),
        "{shown}{told}"
    );
    let [shown, told] = run_calibrated("", &arguments);
    assert!(
        shown.is_empty() && told.contains("is not calibrated"),
        "{told}"
    );
}

#[test]
fn a_study_on_the_calibrated_machine_warns_of_stale_figures() {
    let folder = folder();
    let [machine, _] = calibrated_machine(folder.path());
    let study = folder.path().join("study.toml").display().to_string();
    let results = folder.path().join("results").display().to_string();
    let run = |name: &str| {
        fs::write(folder.path().join("job.fio"), JOB).unwrap();
        fs::write(&study, study_on(name)).unwrap();
        let run = ["study", "run", &study, "-o", &results, "--force"];
        let [printed, told] = run_calibrated(&machine, &run);
        assert!(
            printed.contains("next: wakepath compare"),
            "{printed}{told}"
        );
        told
    };
    let told = run("here");
    assert!(told.contains("stale figures (kernel 1.2.3, now "), "{told}");
    assert!(told.contains("drive.read_service_us"), "{told}");
    // By its path the file may be another machine's.
    let told = run("machine.toml");
    assert!(!told.contains("stale"), "{told}");
}

#[test]
fn stale_figures_are_marked_where_a_machine_is_shown() {
    let folder = folder();
    let [machine, _] = calibrated_machine(folder.path());
    let [shown, _] = run_calibrated(&machine, &["machine", "show", "here"]);
    let line = shown
        .lines()
        .find(|line| line.contains("drive.read_service_us"));
    assert!(
        line.unwrap().contains("stale (kernel 1.2.3, now "),
        "{line:?}"
    );
    // What is declared does not age.
    let declared = shown.lines().find(|line| line.contains("exit_latency_us"));
    assert!(!declared.unwrap().contains("stale"), "{declared:?}");
}

#[test]
fn background_is_counted_by_cause() {
    let result =
        json(&wakepath(&["measure", "background", "--time", "1s", "--format", "json"]).success());
    let causes = result["causes"].as_array().unwrap();
    assert!(!causes.is_empty());
    let cpus = result["cpus"].as_array().unwrap().len();
    for cause in causes {
        assert_eq!(cause["by_cpu"].as_array().unwrap().len(), cpus, "{cause}");
        assert!(cause["per_second"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn the_path_of_reads_is_measured_and_nothing_is_written() {
    let folder = folder();
    let file = folder.path().join("data");
    let bytes: Vec<u8> = (0..16_u32 << 20)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    fs::write(&file, &bytes).unwrap();
    fs::File::open(&file).unwrap().sync_all().unwrap();
    let _machine = lock_machine();
    let at = file.to_str().unwrap();
    let arguments = [
        "measure", "path", "--file", at, "--time", "2s", "--format", "json",
    ];
    let result = json(&wakepath(&arguments).success());
    let loads = result["loads"].as_array().unwrap();
    let depths: Vec<u64> = loads
        .iter()
        .map(|load| load["depth"].as_u64().unwrap())
        .collect();
    assert_eq!(depths, [1, 2, 4, 8]);
    for load in loads {
        let mean = load["latency"]["mean"]["ns"].as_f64().unwrap();
        assert!(
            load["task_ns"]
                .as_f64()
                .is_none_or(|task| task > 0.0 && task < mean),
            "{load}"
        );
    }
    assert!(
        result["context_switch"]["ns"].as_f64().unwrap()
            > result["system_call"]["ns"].as_f64().unwrap()
    );
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(result["ipi"]["ns"].as_f64().unwrap() > 50.0, "{result}");
    }
    assert!(fs::read(&file).unwrap() == bytes);
    check_parts_by_engine(&result);
}

/// Checks the parts of reads that each engine made, where the kernel lets programs follow them.
fn check_parts_by_engine(result: &serde_json::Value) {
    let Some(found) = result["engine_parts"].as_array() else {
        return skip("parts by engine", &result["notes"].to_string());
    };
    let number = |parts: &serde_json::Value, name: &str| parts[name].as_f64().unwrap();
    for parts in found {
        assert!(number(parts, "drive_ns") > 0.0, "{parts}");
        assert!(number(parts, "woke") <= number(parts, "reads"), "{parts}");
    }
    // A thread with one read in flight sleeps until it completes.
    let alone = found.iter().find(|parts| parts["engine"] == "psync");
    let alone = alone.unwrap();
    assert!(
        number(alone, "woke") * 2.0 > number(alone, "reads"),
        "{alone}"
    );
    assert!(number(alone, "resume_ns") > 0.0, "{alone}");
    let deep = (found.iter()).filter(|parts| parts["depth"] == 8);
    assert!(deep.count() >= 1, "{result}");
}

#[test]
fn power_is_not_invented() {
    let machine = copy_of_laptop();
    for place in [
        "sys/class/powercap",
        "sys/class/hwmon",
        "sys/class/power_supply",
    ] {
        let _ = fs::remove_dir_all(machine.path().join(place));
    }
    let root = machine.path().to_str().unwrap();
    let refused = wakepath(&["measure", "power", "--root", root, "--dry-run"]);
    fails_with(refused, &["tells no power", "RAPL"]);
}

/// Whether this machine has no idle states to switch off, as a virtual machine of some hosts. A guest of `make nightly` has some,
/// where a measurement is killed, too.
pub(crate) fn has_no_idle_states(test: &str) -> bool {
    let system = System::live();
    let found = (system.cpus().iter()).any(|cpu| !system.read_idle_states(*cpu).is_empty());
    if !found {
        println!("{test}: no idle states here");
    }
    !found
}

/// Values that a measurement of wake-ups changes.
pub(crate) fn settings() -> Vec<Option<String>> {
    let system = System::live();
    let root = system.root();
    let cpus = "sys/devices/system/cpu";
    let mut all = vec![root.read_text_if_readable(&format!("{cpus}/cpuidle/current_governor"))];
    for cpu in system.cpus() {
        for state in system.read_idle_states(cpu) {
            let path = format!("{cpus}/cpu{cpu}/cpuidle/state{}/disable", state.index);
            all.push(root.read_text_if_readable(&path));
        }
    }
    all
}

/// Limits of latency and clock that a calibration holds for its jobs and drives.
pub(crate) fn limits() -> Vec<Option<Vec<u8>>> {
    let mut all = vec![read_latency_limit()];
    for cpu in System::live().cpus() {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
        for file in [
            "power/pm_qos_resume_latency_us",
            "cpufreq/scaling_governor",
            "cpufreq/scaling_min_freq",
            "cpufreq/scaling_max_freq",
        ] {
            all.push(fs::read(format!("{folder}/{file}")).ok());
        }
    }
    all
}

/// The latency limit of all CPUs, of which a reader gets four bytes and no end.
fn read_latency_limit() -> Option<Vec<u8>> {
    let mut limit = [0; 4];
    let mut file = fs::File::open("/dev/cpu_dma_latency").ok()?;
    file.read_exact(&mut limit).ok()?;
    Some(limit.to_vec())
}

/// The usual jobs of a calibration.
const JOBS: usize = 4;
/// Each job runs as the machine is, and with CPUs that do not sleep.
const SETS: usize = 2;

#[test]
fn a_short_calibration_has_figures_and_an_error_and_puts_the_machine_back() {
    let test = "a_short_calibration_has_figures_and_an_error_and_puts_the_machine_back";
    if !rustix::process::geteuid().is_root() {
        return skip(test, "needs root to change settings");
    }
    if Command::new("fio").arg("--version").output().is_err() {
        return skip(test, "fio is not installed");
    }
    let _machine = lock_machine();
    let folder = folder();
    let at = folder.path().to_str().unwrap();
    let file = folder.path().join("machine.toml");
    let before = (settings(), limits());
    let arguments = [
        "calibrate",
        "--folder",
        at,
        "--size",
        "16m",
        "--budget",
        "1s",
        "--phases",
        "wake,jobs",
        "-o",
        file.to_str().unwrap(),
        "--format",
        "json",
    ];
    let assert = wakepath(&arguments).success();
    let notes = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    let calibration = json(&assert);
    assert_eq!((settings(), limits()), before);
    let left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");

    let machine = Machine::load(&file).unwrap();
    for figure in [
        &machine.drive.read_service_us,
        &machine.drive.write_service_us,
    ] {
        // Fitted where a virtual machine's host serves the queue.
        let is_found = matches!(figure.origin, Origin::Measured(_) | Origin::Fitted(_));
        assert!(is_found && figure.value > 0.0, "{figure:?}\n{notes}");
    }
    let jobs = calibration["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), JOBS * SETS, "{notes}");
    for job in jobs {
        let round = &job["rounds"][0];
        assert_eq!(round["live"].as_array().unwrap().len(), 2, "{job}");
        for mean in [
            &round["live"][0]["mean_us"],
            &round["simulated"]["mean_us"],
            &round["uncalibrated"]["mean_us"],
        ] {
            assert!(mean.as_f64().unwrap() > 0.0, "{job}");
        }
    }
    // Tests beside this one may keep the CPUs busy. Then the file keeps no error, and the reason is told.
    match (calibration["flaw"].as_str(), &machine.prediction) {
        (None, Some(error)) => {
            // The error is that of the machine as it is.
            assert_eq!(error.jobs, JOBS, "{error:?}");
            assert!(error.mean_percent.is_finite() && error.itself.is_some());
        }
        (Some(flaw), None) => assert!(
            flaw.contains("busy with other work") && notes.contains(flaw),
            "{flaw}\n{notes}"
        ),
        other => unreachable!("{other:?}\n{notes}"),
    }
}

/// Starts a measurement of wake-ups and waits until it has changed a setting; `None` if this machine allows none.
fn start_wake(before: &[Option<String>]) -> Option<Child> {
    let child = Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .args(["measure", "wake", "--time", "1m"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        if settings() != before {
            return Some(child);
        }
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn a_killed_or_interrupted_measurement_is_put_back() {
    let _machine = lock_machine();
    let before = settings();
    let test = "a_killed_or_interrupted_measurement_is_put_back";
    if has_no_idle_states(test) {
        return;
    }
    let Some(mut killed) = start_wake(&before) else {
        return skip(test, "idle states cannot be switched off here");
    };
    // A second one is refused while the first runs.
    let second = wakepath(&["measure", "wake", "--time", "1s"]).code(1);
    let message = String::from_utf8(second.get_output().stderr.clone()).unwrap();
    assert!(message.contains("another wakepath"), "{message}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    wakepath(&["restore"]).success();
    assert_eq!(settings(), before);

    let mut interrupted = start_wake(&before).unwrap();
    let pid = rustix::process::Pid::from_child(&interrupted);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(interrupted.wait().unwrap().code(), Some(130));
    assert_eq!(settings(), before);
}

static GUEST: Shared = Shared::new();

#[test]
#[ignore = "nightly: a guest of Linux 6.12"]
fn all_states_of_a_guest_engage_and_its_drive_is_measured() {
    let program = env!("CARGO_BIN_EXE_wakepath");
    let arguments = [
        "x86",
        "--kernel",
        "6.12",
        "--program",
        program,
        "rig/guest/measure.sh",
    ];
    let test = "all_states_of_a_guest_engage_and_its_drive_is_measured";
    let Some(guest) = guest(test, &GUEST, "measure", &arguments) else {
        return;
    };
    assert_eq!(guest.text("before.txt"), guest.text("after.txt"));
    assert_ne!(guest.text("before.txt"), guest.text("killed.txt"));
    assert_eq!(guest.text("before.txt"), guest.text("restored.txt"));
    let wakes = guest.json("wake.json")["wakes"].clone();
    let tasks = wakes.as_array().unwrap().iter();
    let tasks: Vec<_> = tasks.filter(|wake| wake["source"] == "task").collect();
    assert_eq!(tasks.len(), 5, "{wakes}");
    for wake in &tasks {
        assert!(wake["latency"]["n"].as_u64().unwrap() >= 20, "{wake}");
    }
    // C6 and C8, whose driver spins for 133 and 300 us of an idle machine. An emulated CPU has no exact time.
    for wake in &tasks[3..] {
        assert!(wake["exit"]["low"].as_f64().unwrap() > 0.0, "{wake}");
    }
    let zeros = guest.text("zeros.txt");
    assert!(zeros.contains("blocks are zeros"), "{zeros}");
    let drive = guest.json("drive.json");
    assert_eq!(drive["device"]["disk"], "nvme0n1");
    assert!(drive["service"].as_array().unwrap().len() >= 10, "{drive}");
}
