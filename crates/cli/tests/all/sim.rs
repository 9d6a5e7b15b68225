//! `wakepath sim` as a whole command.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use predicates::prelude::*;

use crate::common::{fails_with, json, wakepath};

const JOB: &str =
    "[j]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\nruntime=200ms\ntime_based\n";

/// Runs `sim` on a job file with this text.
fn sim(job: &str, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("job.fio");
    fs::write(&path, job).unwrap();
    let mut all = vec!["sim", path.to_str().unwrap()];
    all.extend(arguments);
    wakepath(&all)
}

#[test]
fn a_power_limit_that_held_clocks_down_is_told() {
    let busy = format!("{JOB}thinkcycles=3000000\n");
    let limited = |processes: u32| {
        let job = format!("{busy}numjobs={processes}\n");
        let policy = "menu + performance";
        let arguments = ["--machine", "mtl-m-2", "--policy", policy, "--runs", "1"];
        let done = sim(&job, &arguments).success();
        String::from_utf8_lossy(&done.get_output().stderr)
            .contains("a power limit of the processor held its clock down")
    };
    // 14 CPUs draw more than the 30 W of its PL2, one does not.
    assert!(limited(14) && !limited(1));
}

#[test]
fn a_command_line_is_simulated_as_its_job_file() {
    let arguments = ["--machine", "rk3399", "--runs", "1", "--format", "json"];
    let job = "[j]\nrw=randread\nbs=${BLOCK}\ndirect=1\nsize=$pagesize*64\n";
    let of_file = sim(job, &[&arguments[..], &["--set", "BLOCK=4k"]].concat()).success();
    let mut words = vec!["sim"];
    words.extend(arguments);
    words.extend([
        "--",
        "fio",
        "--direct=1",
        "--name=j",
        "--rw=randread",
        "--bs",
        "4k",
        "--size=256k",
    ]);
    let of_command = wakepath(&words).success();
    assert_eq!(
        json(&of_file)["results"][0]["runs"],
        json(&of_command)["results"][0]["runs"]
    );
    let wrong = [
        "sim",
        "--machine",
        "rk3399",
        "--",
        "fio",
        "--name=j",
        "--iodept=1",
    ];
    fails_with(wakepath(&wrong), &["fio command line:3", "iodepth"]);
}

#[test]
fn one_result_per_policy_set_with_its_runs() {
    let assert = sim(
        JOB,
        &[
            "--machine",
            "rk3399",
            "--policy",
            "menu@6.1",
            "--policy",
            "schedutil[iowait_boost=off] + menu@6.1",
            "--policy",
            "teo",
            "--policy",
            "teo + idle-states[disable=cpu-sleep,cluster-sleep] + cpu-latency[limit=20us]",
            "--runs",
            "3",
            "--seed",
            "7",
            "--format",
            "json",
        ],
    )
    .success();
    let results = json(&assert)["results"].as_array().unwrap().clone();
    let names: Vec<&str> = results
        .iter()
        .map(|r| r["policy"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "menu@6.1 + schedutil",
            "menu@6.1 + schedutil[iowait_boost=off]",
            "teo@6.12 + schedutil",
            "teo@6.12 + schedutil + idle-states[disable=cpu-sleep,cluster-sleep] + \
             cpu-latency[limit=20us]",
        ]
    );
    for result in &results {
        let runs = result["runs"].as_array().unwrap();
        let seeds: Vec<u64> = runs.iter().map(|r| r["seed"].as_u64().unwrap()).collect();
        assert_eq!(seeds, [7, 8, 9]);
        let mut iops: Vec<f64> = runs.iter().map(|r| r["iops"].as_f64().unwrap()).collect();
        iops.sort_by(f64::total_cmp);
        assert!((result["iops"].as_f64().unwrap() - iops[1]).abs() < 1e-9);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed| {
        let assert = sim(
            JOB,
            &["--machine", "rk3399", "--seed", seed, "--format", "json"],
        )
        .success();
        assert.get_output().stdout.clone()
    };
    assert_eq!(run("1"), run("1"));
    assert_ne!(run("1"), run("2"));
}

#[test]
fn any_number_of_jobs_gives_the_same_bytes() {
    let run = |jobs| {
        let sets = ["--policy", "menu", "--policy", "teo"];
        let arguments = [&["--machine", "rk3399", "--runs", "4"], &sets[..]].concat();
        let assert = sim(
            JOB,
            &[&arguments[..], &["--format", "json", "--jobs", jobs]].concat(),
        );
        assert.success().get_output().stdout.clone()
    };
    let one = run("1");
    for jobs in ["2", "3", "16"] {
        assert!(one == run(jobs), "--jobs {jobs} prints something else");
    }
}

#[test]
fn csv_has_a_line_per_run() {
    let assert = sim(
        JOB,
        &["--machine", "rk3399", "--runs", "2", "--format", "csv"],
    )
    .success();
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(text.starts_with("policy,seed,iops,"));
    assert!(
        text.lines()
            .nth(1)
            .unwrap()
            .starts_with("menu@6.12 + schedutil,1,")
    );
}

#[test]
fn sync_calls_have_a_table_and_columns_of_their_own() {
    let table = write_and_print("fdatasync=1\n", "table");
    let mut lines = table.lines().skip_while(|line| {
        *line != "Calls of fsync and fdatasync: median commits per second and us of a call"
    });
    let heading: Vec<&str> = lines.nth(2).unwrap().split_whitespace().collect();
    assert_eq!(
        heading,
        ["policy", "commits/s", "mean", "us", "p99"],
        "{table}"
    );
    let shown = last_three_figures(lines.next().unwrap(), ' ');
    let csv = write_and_print("fdatasync=1\n", "csv");
    let mut rows = csv.lines();
    assert!(
        rows.next()
            .unwrap()
            .ends_with(",commits_per_s,sync_mean_us,sync_p99_us")
    );
    let runs: Vec<[f64; 3]> = rows.map(|row| last_three_figures(row, ',')).collect();
    for (place, figure) in shown.iter().enumerate() {
        let median = f64::midpoint(runs[0][place], runs[1][place]);
        assert!((figure / median - 1.0).abs() < 0.02, "{table}{csv}");
    }
    let [commits, mean, p99] = shown;
    // Each call is followed by a write, which is short.
    assert!(
        commits > 0.7e6 / mean && commits < 1e6 / mean && p99 >= mean,
        "{table}"
    );
    // Without such calls there is neither.
    assert!(!write_and_print("", "table").contains("fsync"));
    assert!(!write_and_print("", "csv").contains("sync"));
}

/// What `sim` prints of a job of buffered writes with these lines.
fn write_and_print(lines: &str, format: &str) -> String {
    let job = format!("[j]\nrw=write\nbs=4k\nsize=1m\n{lines}");
    let arguments = ["--machine", "laptop", "--runs", "2", "--format", format];
    let done = sim(&job, &arguments).success();
    String::from_utf8(done.get_output().stdout.clone()).unwrap()
}

/// The last three figures of a line.
fn last_three_figures(line: &str, between: char) -> [f64; 3] {
    let words = line.rsplit(between).filter(|word| !word.is_empty());
    let mut figures: Vec<f64> = words.take(3).map(|word| word.parse().unwrap()).collect();
    figures.reverse();
    figures.try_into().unwrap()
}

#[test]
fn a_ramp_that_a_limit_cuts_is_told() {
    let job = format!("{JOB}ramp_time=60\n");
    let machine = ["--machine", "rk3399", "--runs", "1"];
    let limited = [&machine[..], &["--seconds", "20ms"]].concat();
    let told = "job `j`: 0.2 s of its ramp_time of 60 s are simulated (--seconds)";
    sim(&job, &limited)
        .success()
        .stderr(predicate::str::contains(told));
}

#[test]
fn policies_that_can_mean_nothing_here_are_refused() {
    let machine = ["--machine", "rk3399"];
    fails_with(
        sim(JOB, &[&machine[..], &["--policy", "oracle"]].concat()),
        &["oracle", "cannot be known before", "wakepath replay"],
    );
    fails_with(
        sim(
            JOB,
            &[&machine[..], &["--policy", "poll[rule=first]"]].concat(),
        ),
        &["poll[rule=first]", "without a polling idle state"],
    );
    fails_with(
        sim(JOB, &["--machine", "/dev/zero"]),
        &["/dev/zero", "is a device"],
    );
}

#[test]
fn unknown_names_suggest_the_nearest() {
    let machine = ["--machine", "rk3399"];
    fails_with(
        sim(JOB, &["--machine", "rk3398"]),
        &["rk3398", "did you mean 'rk3399'"],
    );
    for (set, says) in [
        ("tea", "did you mean `teo`"),
        (
            "menu + schedutil[iowait_bost=on]",
            "did you mean `iowait_boost`",
        ),
        (
            "menu + teo",
            "`menu@6.12` and `teo@6.12` are both idle policies",
        ),
        ("menu + ", "a name is missing"),
        ("psd[timeout=3]", "expected whole milliseconds such as 5ms"),
    ] {
        sim(JOB, &[machine.as_slice(), &["--policy", set]].concat())
            .code(2)
            .stdout("")
            .stderr(predicate::str::contains(says));
    }
}

#[test]
fn the_daemons_configuration_is_a_policy() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("daemon.toml"), "policy = ['psd[ceiling=C1E]']\n").unwrap();
    let file = format!("file:{}", path("daemon.toml"));
    let set = format!("menu@6.12 + powersave + {file}");
    let arguments = ["--machine", "laptop", "--policy", &set, "--format", "json"];
    let result = &json(&sim(JOB, &arguments).success())["results"][0];
    let named = "menu@6.12 + powersave + psd[ceiling=C1E,rule=daemon]";
    assert_eq!(result["policy"], named);

    fs::write(path("job.fio"), JOB).unwrap();
    let study = format!(
        "name = 's'\nmachine = 'laptop'\nrepeats = 1\n[[policy]]\nset = '{file}'\n[[workload]]\nname = 'w'\nfio = 'job.fio'\n"
    );
    fs::write(path("study.toml"), study).unwrap();
    let checked = wakepath(&["study", "check", &path("study.toml")]).success();
    checked.stdout(predicate::str::contains("rule=daemon"));

    let none = format!("file:{}", path("none.toml"));
    let refused = sim(JOB, &["--machine", "laptop", "--policy", &none]).code(2);
    refused.stderr(predicate::str::contains("none.toml"));
}

#[test]
fn a_bad_job_file_names_its_line() {
    let machine = ["--machine", "rk3399"];
    fails_with(sim(&JOB.replace("bs=4k", "bs=0"), &machine), &["job.fio:4"]);
    fails_with(
        sim(&JOB.replace("rw=", "rww="), &machine),
        &["job.fio:3", "rww"],
    );
    // Without a name there is no size, as that of a device or of a file is one.
    let endless = JOB
        .replace("runtime=200ms\ntime_based\n", "")
        .replace("filename=/dev/nvme0n1\n", "");
    fails_with(sim(&endless, &machine), &["job.fio", "never ends"]);
    fails_with(sim("", &machine), &["job.fio"]);
}

#[test]
fn a_run_that_goes_nowhere_says_so() {
    let machine = ["--machine", "rk3399", "--runs", "1"];
    let with = |lines: &str| JOB.replace("runtime=200ms\ntime_based\n", lines);
    // Over before the first request.
    fails_with(
        sim(&with("runtime=1us\ntime_based\n"), &machine),
        &["no request was finished", "too short"],
    );
    // A request every hundred days.
    fails_with(
        sim(&with("size=1m\nthinktime=100d\n"), &machine),
        &["given up", "no request", "think time"],
    );
    // Less than a block, and a place that the drive does not have.
    fails_with(
        sim(&with("size=100\n"), &machine),
        &["a size of less than a block; raise `size`, or lower `bs`"],
    );
    // What fio makes of the size is told before the error.
    let failed = sim(&with("size=4*1024\n"), &machine).failure().stdout("");
    let said = String::from_utf8(failed.get_output().stderr.clone()).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let [warning, error] = lines[..] else {
        panic!("a warning and an error: {said}");
    };
    assert!(warning.contains("`4*1024` is 4 bytes to fio"), "{said}");
    assert!(error.contains("a size of less than a block"), "{said}");
    let far = [&machine[..], &["--drive", "sn530"]].concat();
    fails_with(
        sim(&with("size=1m\noffset=1t\n"), &far),
        &["an offset beyond the end of the drive, which has 256060514304 bytes"],
    );
    // One is enough, though the job then thinks for longer than it runs.
    let pauses = with("runtime=1s\ntime_based\nthinktime=10s\n");
    sim(&pauses, &machine)
        .success()
        .stderr(predicates::str::contains(
            "pauses for as long as it runs: it has no warm-up",
        ));
    // Who asks for a warm-up of such a job is told that nothing is left.
    let asked = [&machine[..], &["--warm-up", "2s"]].concat();
    fails_with(
        sim(&pauses, &asked),
        &["no request was finished", "--warm-up 0"],
    );
}

#[test]
fn impossible_lengths_are_errors() {
    let machine = ["--machine", "rk3399", "--runs", "1"];
    for (lines, parts) in [
        ("runtime=584y\ntime_based\n", ["job.fio:6", "584y"]),
        ("runtime=213504d\ntime_based\n", ["job.fio:6", "too large"]),
        (
            "runtime=18446744073709551615\ntime_based\n",
            ["job.fio:6", "too large"],
        ),
        ("runtime=-1\ntime_based\n", ["job.fio:6", "negative"]),
        ("size=1m\nthinktime=4000d\n", ["'j'", "thinktime"]),
        (
            "runtime=1\ntime_based\nthinktime=1\nthinktime_spin=3h\n",
            ["'j'", "thinktime_spin"],
        ),
        (
            "runtime=1\ntime_based\niodepth=0\n",
            ["job.fio:8", "iodepth"],
        ),
        (
            "runtime=1\ntime_based\nnumjobs=0\n",
            ["job.fio:8", "numjobs"],
        ),
    ] {
        let job = JOB.replace("runtime=200ms\ntime_based\n", lines);
        fails_with(sim(&job, &machine), &parts);
    }
}

/// Runs `sim` on RK3399 with one line of its file changed.
fn with_machine(change: (&str, &str), job: &str) -> assert_cmd::assert::Assert {
    let text = include_str!("../../../hardware/data/machines/rk3399.toml");
    assert!(text.contains(change.0), "rk3399.toml has no '{}'", change.0);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.toml");
    fs::write(&path, text.replacen(change.0, change.1, 1)).unwrap();
    sim(job, &["--machine", path.to_str().unwrap(), "--runs", "1"])
}

#[test]
fn impossible_machines_are_errors_and_strange_ones_are_not() {
    for (change, part) in [
        (
            (
                "value = 10, assumed = \"between",
                "value = -10, assumed = \"between",
            ),
            "power_mw",
        ),
        (
            ("value = 50, fitted", "value = nan, fitted"),
            "kcycles_per_io",
        ),
        (
            ("value = 50, fitted", "value = 1e12, fitted"),
            "kcycles_per_io",
        ),
        (
            ("value = 8, assumed", "value = 1e12, assumed"),
            "parallel_units",
        ),
        (("cpus = 4", "cpus = 0"), "cpus"),
        (("capacity = 381\n", ""), "capacity"),
        (("capacity = 381", "capacity = 0"), "capacity"),
        (("khz = 408000", "khz = 0"), "opps"),
        (("khz = 408000", "khz = 700000"), "opps"),
        (("cpu = 0", "cpu = 99"), "completion"),
        (("cluster = \"big\"", "cluster = \"bigger\""), "home"),
        (
            ("submission_share = 0.356", "submission_share = 0.956"),
            "shares",
        ),
        (
            ("target_residency_us = 2000", "target_residency_us = 100"),
            "residency",
        ),
        (("value = 250", "value = 0"), "hz"),
    ] {
        fails_with(with_machine(change, JOB), &["m.toml", part]);
    }
    // An exit latency above the target residency is legal, and so is work that takes no time.
    with_machine(
        ("target_residency_us = 900", "target_residency_us = 300"),
        JOB,
    )
    .success();
    with_machine(("value = 50, fitted", "value = 0, fitted"), JOB).success();
}

#[test]
fn a_machine_that_never_gets_to_the_job_is_given_up() {
    let assert = with_machine(
        (
            "tick_kcycles = { value = 3,",
            "tick_kcycles = { value = 100000,",
        ),
        JOB,
    );
    fails_with(assert, &["given up", "ticks"]);
}

#[test]
fn what_is_not_modelled_is_refused_by_name() {
    let machine = ["--machine", "rk3399"];
    fails_with(
        sim(
            &JOB.replace("runtime", "thinktime=4000d\nruntime"),
            &machine,
        ),
        &["'j'", "ten years"],
    );
    fails_with(
        sim(&JOB.replace("bs=4k", "bs=2g"), &machine),
        &["'j'", "1 GiB"],
    );
    let buffered = JOB.replace("direct=1", "direct=0");
    let trims = buffered.replace("rw=randread", "rw=trimwrite");
    fails_with(sim(&trims, &machine), &["j", "trims", "direct=1"]);
    let writes = buffered.replace("rw=randread", "rw=randwrite");
    let no_rate = ("\nwrite_mb_per_s", "\n#write_mb_per_s");
    fails_with(
        with_machine(no_rate, &writes),
        &["'j'", "buffered writes", "drive.write_mb_per_s"],
    );
    fails_with(
        sim(JOB, &["--machine", "rk3399", "--policy", "intel_pstate"]),
        &["intel_pstate", "'little'", "base_mhz"],
    );
}

#[test]
fn buffered_writes_say_what_became_of_them() {
    let job = "[j]\nfilename=/dev/nvme0n1\nrw=write\nbs=64k\nsize=64m\n";
    let print_job = |lines: &str| {
        let fixed = [
            "--machine",
            "xeon-e3-1240v5",
            "--runs",
            "1",
            "--format",
            "json",
        ];
        let assert = sim(&format!("{job}{lines}"), &fixed).success();
        let run = json(&assert)["results"][0]["runs"][0].clone();
        let said = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        (run, said)
    };
    let (memory, said) = print_job("");
    assert!(
        said.contains("of 67 MB dirtied, 0 MB were written back within")
            && said.contains("16 GiB of memory, which are assumed"),
        "{said}"
    );
    assert_eq!(memory["page_cache"]["left_bytes"], 64 << 20);
    let (drive, said) = print_job("end_fsync=1\n");
    assert!(
        said.contains("of 67 MB dirtied, 67 MB were written back"),
        "{said}"
    );
    assert_eq!(drive["page_cache"]["written_back_bytes"], 64 << 20);
    assert_eq!(
        (&memory["writes"], &drive["writes"]),
        (&1024.into(), &1024.into())
    );
    let iops = |run: &serde_json::Value| run["iops"].as_f64().unwrap();
    assert!(
        iops(&memory) > 1.5 * iops(&drive),
        "{} {}",
        iops(&memory),
        iops(&drive)
    );
    // A job that goes past the page cache says nothing of it.
    let (direct, said) = print_job("direct=1\n");
    assert!(
        said.is_empty() && direct.get("page_cache").is_none(),
        "{said}"
    );
    for (memory, part) in [
        ("0.00001", "memory_gib"),
        ("-1", "memory_gib"),
        ("nan", "memory_gib"),
        ("8", "source"),
    ] {
        let table = format!("[page_cache]\nmemory_gib = {memory}\n\n[drive]");
        fails_with(
            with_machine(("[drive]", &table), JOB),
            &["m.toml", "page_cache", part],
        );
    }
}

#[test]
fn idle_states_can_be_switched_off() {
    let machine = ["--machine", "rk3399", "--runs", "1", "--format", "json"];
    let off = |names: &'static str| {
        let mut all = machine.to_vec();
        all.extend(["--policy", names]);
        all
    };
    let states = &json(&sim(JOB, &off("idle-states[disable=cpu-sleep,cluster-sleep]")).success())["results"]
        [0]["runs"][0]["idle_states"];
    assert!(states[0]["entries"].as_u64() > Some(0));
    assert_eq!(
        (&states[1]["entries"], &states[2]["entries"]),
        (&0.into(), &0.into())
    );
    fails_with(
        sim(JOB, &off("idle-states[disable=C6]")),
        &["`C6`", "WFI, cpu-sleep"],
    );
}

#[test]
fn io_uring_can_wait_without_counting_as_iowait() {
    let iops = |arguments: &[&str]| {
        let job = format!("{JOB}ioengine=io_uring\n");
        let mut all = vec!["--machine", "rk3399", "--format", "json", "--policy"];
        all.extend(arguments);
        json(&sim(&job, &all).success())["results"][0]["iops"].clone()
    };
    let counts = iops(&["menu@6.1"]);
    assert_eq!(counts, iops(&["menu@6.1 + io_uring[iowait=on]"]));
    assert_ne!(counts, iops(&["menu@6.1 + io_uring[iowait=off]"]));
}

#[test]
fn a_missing_or_broken_machine_file_is_named() {
    fails_with(sim(JOB, &["--machine", "no/such.toml"]), &["no/such.toml"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.toml");
    fs::write(&path, "schema = 1\nname = 3\n").unwrap();
    fails_with(
        sim(JOB, &["--machine", path.to_str().unwrap()]),
        &["m.toml:2"],
    );
    fs::write(&path, b"\xff\xfe").unwrap();
    fails_with(
        sim(JOB, &["--machine", path.to_str().unwrap()]),
        &["m.toml"],
    );
}

#[test]
fn a_wrong_call_is_a_usage_error() {
    wakepath(&["sim"]).code(2).stdout("");
    sim(JOB, &["--machine", "rk3399", "--runs", "0"])
        .code(2)
        .stdout("");
    sim(JOB, &["--machine", "rk3399", "--jobs", "0"])
        .code(2)
        .stdout("");
}

#[test]
fn a_machine_shows_where_its_figures_come_from() {
    wakepath(&["machine", "list"])
        .success()
        .stdout(predicate::str::contains("rk3399"));
    wakepath(&["machine", "show", "rk3399"]).success().stdout(
        predicate::str::is_match(r"drive.read_service_us +[0-9.]+ +fitted +iowait-rk3399").unwrap(),
    );
    fails_with(
        wakepath(&["machine", "show", "rk3999"]),
        &["did you mean 'rk3399'"],
    );
}

/// Frequency policies, with their settings.
const FREQUENCY_POLICIES: [&str; 10] = [
    "schedutil",
    "schedutil[iowait_boost=off]",
    "ondemand",
    "performance",
    "powersave",
    "intel_pstate",
    "intel_pstate[iowait_boost=off]",
    "intel_pstate-hwp",
    "intel_pstate-hwp[hwp_dynamic_boost=on]",
    "intel_pstate-hwp[epp=0,hwp_dynamic_boost=on]",
];

#[test]
fn every_frequency_policy_gives_a_result_or_one_error_on_every_machine() {
    let machines = [
        "rk3399",
        "apple-m1-pro",
        "xeon-e3-1240v5",
        "laptop",
        "rome0",
    ];
    for machine in machines {
        for policy in FREQUENCY_POLICIES {
            let job = "[j]\nrw=randread\ndirect=1\nruntime=5ms\ntime_based\n";
            let assert = sim(
                job,
                &[
                    "--machine",
                    machine,
                    "--policy",
                    policy,
                    "--runs",
                    "1",
                    "--warm-up",
                    "0",
                    // Beside a table a note says how few requests 5 ms have.
                    "--format",
                    "csv",
                ],
            );
            let output = assert.get_output();
            let name = policy.split('[').next().unwrap();
            if output.status.success() {
                let out = String::from_utf8(output.stdout.clone()).unwrap();
                assert!(out.contains(name), "{machine} {policy}: {out}");
                assert!(output.stderr.is_empty(), "{machine} {policy}");
            } else {
                // A machine without what Intel's driver needs: what is missing, and what to do.
                assert!(name.starts_with("intel_pstate"), "{machine} {policy}");
                fails_with(assert, &[name, "docs/reference/machines.md", "schedutil"]);
            }
        }
    }
    let wrong = "intel_pstate-hwp[dynamic_boost=on]";
    sim(JOB, &["--machine", "laptop", "--policy", wrong])
        .code(2)
        .stderr(predicate::str::contains("hwp_dynamic_boost"));
}

/// What `sim` says of a job of 50 ms with these lines, and its rows.
fn said_of(lines: &str, arguments: &[&str]) -> (String, usize) {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.fio");
    let text = format!(
        "[r]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\n{lines}\nruntime=50ms\ntime_based\n"
    );
    std::fs::write(&job, text).unwrap();
    let fixed = [
        "sim",
        job.to_str().unwrap(),
        "--machine",
        "xeon-e3-1240v5",
        "--runs",
        "1",
        "--format",
        "csv",
    ];
    let assert = wakepath(&[&fixed, arguments].concat()).success();
    let output = assert.get_output();
    let rows = String::from_utf8_lossy(&output.stdout).lines().count() - 1;
    (String::from_utf8(output.stderr.clone()).unwrap(), rows)
}

#[test]
fn a_rate_that_is_not_reached_is_a_warning() {
    let says = |lines: &str| said_of(lines, &[]).0;
    let said = says("rate_iops=200000");
    let wanted = "job `r` does not reach the 200000 I/Os per second that it asks for: ";
    assert!(said.contains(wanted), "{said}");
    let late = says("rate_iops=200000\nstartdelay=1s");
    assert!(late.contains(wanted), "{late}");
    let mixed = says("rw=randrw\nrate_iops=100,200000");
    assert!(
        mixed.contains("200000 writes per second in job `r`"),
        "{mixed}"
    );
    for fine in [
        "rate_iops=200",
        "rate_iops=200\nstartdelay=1s",
        "rw=randrw\nrate_iops=100",
        "",
    ] {
        assert_eq!(says(fine), "", "{fine}");
    }
}

#[test]
fn a_policy_that_is_named_twice_runs_once() {
    let (said, rows) = said_of(
        "",
        &[
            "--policy",
            "menu",
            "--policy",
            "teo",
            "--policy",
            "schedutil + menu@6.12",
        ],
    );
    assert!(
        said.ends_with("menu@6.12 + schedutil more than once; it runs once\n"),
        "{said}"
    );
    assert_eq!(rows, 2);
}

#[test]
fn a_block_of_less_than_a_sector_is_a_warning() {
    let said = said_of("bs=1", &[]).0;
    assert!(
        said.contains(":6: `bs` is 1 byte(s)") && said.contains("`1k`"),
        "{said}"
    );
    assert_eq!(said_of("bs=512", &[]).0, "");
}

#[test]
fn seconds_bound_a_job_that_has_no_end() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("job.fio");
    let text = "[r]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\nsize=1t\nrate_iops=10\n";
    std::fs::write(&job, text).unwrap();
    let run = |more: &[&str]| {
        let fixed = [
            "sim",
            job.to_str().unwrap(),
            "--machine",
            "rk3399",
            "--runs",
            "1",
            "--format",
            "json",
        ];
        let assert = wakepath(&[&fixed, more].concat()).success();
        let seconds = json(&assert)["results"][0]["runs"][0]["seconds"]
            .as_f64()
            .unwrap();
        let said = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        (seconds.round() as u64, said)
    };
    let (seconds, said) = run(&[]);
    assert!(
        seconds == 60 && said.contains("than the 60 s"),
        "{seconds}: {said}"
    );
    let (seconds, said) = run(&["--seconds", "2"]);
    assert!(
        seconds == 2 && said.contains("job `r` has more to do than the 2 s"),
        "{seconds}: {said}"
    );
    for wrong in ["0", "-1", "1e12", "nan", "2 s", ""] {
        let arguments = [
            "sim",
            job.to_str().unwrap(),
            "--machine",
            "rk3399",
            &format!("--seconds={wrong}"),
        ];
        let assert = wakepath(&arguments).code(2);
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(
            said.contains("a plain number counts seconds"),
            "{wrong}: {said}"
        );
    }
}

#[test]
fn jobs_that_have_more_to_do_are_one_note() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("two.fio");
    let text = "[global]\nfilename=/dev/nvme0n1\ndirect=1\nrw=randread\n[a]\n[b]\n";
    std::fs::write(&job, text).unwrap();
    let job = job.to_str().unwrap();
    let short = ["--runs", "1", "--seconds", "20ms", "--warm-up", "0"];
    let sim = ["sim", job, "--machine", "rk3399"];
    let assert = wakepath(&[&sim[..], &short].concat()).success();
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("jobs `a`, `b` have more to do"), "{said}");
}

#[test]
fn a_kernel_gives_bare_names_its_version() {
    let csv = ["--machine", "rk3399", "--runs", "1", "--format", "csv"];
    for (arguments, set) in [
        (&["--kernel", "7.3"][..], "menu@7.3 + schedutil,"),
        (
            &["--kernel", "6.12.48", "--policy", "teo"],
            "teo@6.12.48 + schedutil,",
        ),
        (
            &["--kernel", "7.3", "--policy", "menu@6.1"],
            "menu@6.1 + schedutil,",
        ),
        (&["--kernel", "6.8"], "menu@6.8 + schedutil,"),
        // teo of 6.8 is not known; the next that is known stands in for it, by its own name.
        (
            &["--kernel", "6.8", "--policy", "teo"],
            "teo@6.11.0 + schedutil,",
        ),
    ] {
        let assert = sim(JOB, &[&csv, arguments].concat()).success();
        let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
        let row = text.lines().nth(1).unwrap();
        assert!(row.starts_with(set), "{row}");
    }
    let refused = sim(JOB, &[&csv[..], &["--kernel", "6.0"]].concat()).code(2);
    let errors = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(
        errors.contains("only those of 6.1 to 7.3; nearest: 6.1"),
        "{errors}"
    );

    let machine = |kernel: &str| {
        with_machine(
            ("kernel = \"6.12\"", &format!("kernel = \"{kernel}\"")),
            JOB,
        )
    };
    let assert = machine("6.12.48").success();
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(text.contains("menu@6.12.48"), "{text}");
    fails_with(machine("6.20"), &["nearest: 6.19, 7.0"]);
}

#[test]
fn each_job_of_a_file_has_rows_of_its_own() {
    let job = "[global]\nfilename=/dev/nvme0n1\ndirect=1\nruntime=100ms\ntime_based\n[oltp]\nrw=randread\nbs=4k\n\
               rate_iops=500\n[backup]\nioengine=libaio\niodepth=4\nrw=read\nbs=1m\n";
    let machine = ["--machine", "laptop", "--runs", "2"];
    let printed = |more: &[&str]| {
        let done = sim(job, &[&machine[..], more].concat()).success();
        let text = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
        (
            text,
            String::from_utf8_lossy(&done.get_output().stderr).into_owned(),
        )
    };
    let (table, told) = printed(&[]);
    let by_itself = table.split("Each job by itself: medians").nth(1).unwrap();
    assert!(
        by_itself.contains(" oltp ") && by_itself.contains(" backup "),
        "{table}"
    );
    assert!(told.contains("a 99th percentile takes 1000"), "{told}");
    let (csv, _) = printed(&["--format", "csv"]);
    let mut lines = csv.lines();
    assert!(lines.next().unwrap().ends_with(",job"), "{csv}");
    let jobs: Vec<&str> = lines.map(|line| line.rsplit(',').next().unwrap()).collect();
    assert_eq!(
        jobs,
        ["(all)", "oltp", "backup", "(all)", "oltp", "backup"],
        "{csv}"
    );
    let found = json(&sim(job, &[&machine[..], &["--format", "json"]].concat()).success());
    let own = &found["results"][0]["runs"][0]["jobs"];
    let mean = |index: usize| own[index]["latency_us"]["mean"].as_f64().unwrap();
    assert!(2.0 * mean(0) < mean(1), "{own}");
}
