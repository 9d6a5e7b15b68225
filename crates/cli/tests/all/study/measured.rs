//! Studies that fio and other programs measure on this machine.

use super::*;

#[test]
fn percentiles_of_fio_are_those_that_it_prints() {
    if is_missing("fio") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let job = "[global]\nfilename=data\nsize=4m\nbs=4k\nruntime=300ms\ntime_based\nnumjobs=2\n\
               group_reporting\n[a]\nrw=randread\n[b]\nstonewall\nrw=randwrite\n";
    fs::write(temp.path().join("job.fio"), job).unwrap();
    for format in ["json", "json+"] {
        let output = Command::new("fio")
            .args([
                &format!("--output-format={format}"),
                "--output=out.json",
                "job.fio",
            ])
            .current_dir(temp.path())
            .status()
            .unwrap();
        assert!(output.success());
        let path = temp.path().join("out.json").display().to_string();
        let compared = json(&wakepath(&[
            "compare", &path, "--metric", "all", "--format", "json",
        ]));
        // What fio says in the same file.
        let text = fs::read_to_string(&path).unwrap();
        let start = text.find('{').unwrap();
        let printed: serde_json::Value = serde_json::from_str(&text[start..]).unwrap();
        for (job, direction) in [(0, "read"), (1, "write")] {
            let printed_job = &printed["jobs"][job];
            let value = |metric: &str| {
                let rows = compared["rows"].as_array().unwrap().iter();
                let mut rows = rows
                    .filter(|r| r["metric"] == metric && r["workload"] == printed_job["jobname"]);
                rows.next().unwrap()["mean"].as_f64().unwrap()
            };
            let clat = &printed_job[direction]["clat_ns"]["percentile"];
            for (metric, key) in [
                ("p50_us", "50.000000"),
                ("p99_us", "99.000000"),
                ("p999_us", "99.900000"),
            ] {
                let fio = clat[key].as_f64().unwrap() / 1e3;
                assert!(
                    (value(metric) - fio).abs() < 1e-9,
                    "{metric}: {} {fio}",
                    value(metric)
                );
            }
            let iops = printed_job[direction]["iops"].as_f64().unwrap();
            assert!(
                (value("iops") / iops - 1.0).abs() < 0.01,
                "{} {iops}",
                value("iops")
            );
        }
    }
}

#[test]
fn what_fio_appends_to_a_file_are_runs() {
    if is_missing("fio") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let fio = "fio --name=a --rw=randread --size=1m --bs=4k --time_based --filename=data --output-format=json";
    let script = format!(
        "for i in 1 2 3; do {fio} --runtime=100ms >> runs.json; done; \
         {fio} --runtime=1500ms --status-interval=1 > reports.json"
    );
    let mut shell = Command::new("sh");
    let done = shell
        .args(["-ec", &script])
        .current_dir(temp.path())
        .status();
    assert!(done.unwrap().success());
    for (file, runs, noted) in [("runs.json", 3, false), ("reports.json", 1, true)] {
        let path = temp.path().join(file).display().to_string();
        let compared = json(&wakepath(&["compare", &path, "--format", "json"]));
        assert_eq!(compared["rows"][0]["runs"], runs, "{compared}");
        let notes = compared["notes"].to_string();
        assert_eq!(notes.contains("--status-interval"), noted, "{notes}");
    }
}

#[test]
fn jobs_of_fio_that_run_at_once_count_together_in_terse_output_as_in_json() {
    if is_missing("fio") {
        return;
    }
    // On a disk: what it did tells invocations apart.
    let temp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let job = "[global]\nfilename=data\nsize=4m\nbs=4k\ndirect=1\nruntime=300ms\ntime_based\nnumjobs=4\n\
               [a]\nrw=randread\n[b]\nstonewall\nrw=randrw\n";
    fs::write(temp.path().join("job.fio"), job).unwrap();
    let mut terse = String::new();
    for index in 0..3 {
        let output = Command::new("fio")
            .args(["--output-format=json,terse", "job.fio"])
            .current_dir(temp.path())
            .output()
            .unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = |of_terse: bool| {
            let lines = text.split_inclusive('\n');
            lines
                .filter(|l| l.starts_with("3;") == of_terse)
                .collect::<String>()
        };
        assert_eq!(lines(true).lines().count(), 8, "{text}");
        terse += &lines(true);
        fs::create_dir_all(temp.path().join("json")).unwrap();
        let path = temp.path().join(format!("json/{index}.json"));
        fs::write(path, lines(false)).unwrap();
    }
    let path = temp.path().join("terse.txt");
    fs::write(&path, terse).unwrap();
    let [path, json_files] = [path, temp.path().join("json")].map(|p| p.display().to_string());
    let compared = json(&wakepath(&[
        "compare",
        &json_files,
        &path,
        "--metric",
        "all",
        "--format",
        "json",
    ]));
    let rows = compared["rows"].as_array().unwrap();
    let rows_of_policy = |policy: &'static str| rows.iter().filter(move |r| r["policy"] == policy);
    assert!(
        rows_of_policy("json").count() >= 10
            && rows_of_policy("json").count() == rows_of_policy("terse").count()
    );
    for (json, terse) in rows_of_policy("json").zip(rows_of_policy("terse")) {
        for key in ["metric", "workload", "runs"] {
            assert_eq!(json[key], terse[key]);
        }
        assert_eq!(json["runs"], 3);
        let [one, other] = [json, terse].map(|row| row["mean"].as_f64().unwrap());
        // Terse output has whole us, and whole requests per second of each job.
        assert!(
            (one - other).abs() <= (one * 0.01).max(1.0),
            "{json} {terse}"
        );
    }
}

#[test]
fn a_study_is_measured_with_fio_and_commands_and_goes_on_after_a_kill() {
    let _machine = common::lock_machine();
    if is_missing("fio") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let study = "name = 'm'\nrepeats = 4\nsettle_s = 0\n\
        [[workload]]\nname = 'reads'\nseconds = 0.1\n\
        fio_job = '''\n[reads]\nfilename=data\nsize=1m\nrw=randread\nbs=4k\nioengine=psync\n'''\n\
        [[workload]]\nname = 'words'\ncommand = ['sh', '-c', 'echo rate: 12.5 per s']\n\
        [[workload.metric]]\nname = 'rate'\npattern = 'rate: ([0-9.]+)'\nbetter = 'higher'\nunit = '1/s'\n\
        [[workload]]\nname = 'json'\ncommand = ['sh', '-c', 'echo {\\\"a\\\": [{\\\"t\\\": 3}]}']\n\
        [[workload.metric]]\nname = 'time'\njson = '/a/0/t'\nbetter = 'lower'\nunit = 's'\n\
        [[policy]]\nname = 'as it is'\n[[policy]]\nname = 'the same'\n";
    let study = written(temp.path(), study);
    let run = |resume: &str| {
        let mut command = assert_cmd::Command::cargo_bin("wakepath").unwrap();
        command
            .args([
                "study", "run", &study, "--on", "live", "-o", "results", resume,
            ])
            .current_dir(temp.path());
        command
    };
    let mut killed = run("--resume");
    killed.timeout(Duration::from_millis(700));
    killed.assert().interrupted();
    run("--resume").assert().success();
    let dir = temp.path().join("results");
    let document: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(dir.join("result.json")).unwrap()).unwrap();
    assert_eq!(
        (&document["backend"], &document["complete"]),
        (&"live".into(), &true.into())
    );
    assert!(
        document["tools"]["fio"]
            .as_str()
            .unwrap()
            .starts_with("fio-")
    );
    let compared = json(&wakepath(&[
        "compare",
        dir.to_str().unwrap(),
        "--format",
        "json",
    ]));
    let rows = compared["rows"].as_array().unwrap();
    let mean = |metric: &str| {
        let row = rows.iter().find(|r| r["metric"] == metric).unwrap();
        assert_eq!(row["runs"], 4, "{row}");
        row["mean"].as_f64().unwrap()
    };
    assert!((mean("rate") - 12.5).abs() < 1e-9 && (mean("time") - 3.0).abs() < 1e-9);
    assert!(mean("iops") > 0.0 && mean("wall_s") > 0.0 && mean("p99_us") > 0.0);
    // The order is recorded, and no two runs have the same place in it.
    let mut orders = Vec::new();
    for entry in fs::read_dir(dir.join("runs")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let run: serde_json::Value = serde_json::from_str(&text).unwrap();
        orders.push(run["order"].as_u64().unwrap());
    }
    orders.sort_unstable();
    assert_eq!(orders, (0..24).collect::<Vec<_>>());
}

#[test]
fn a_workload_that_fails_or_prints_nothing_ends_a_measurement_and_loses_nothing() {
    let _machine = common::lock_machine();
    let temp = tempfile::tempdir().unwrap();
    let base = "name = 'm'\nrepeats = 1\nsettle_s = 0\n[[policy]]\nname = 'p'\n\
        [[workload]]\nname = 'good'\ncommand = ['true']\n[[workload]]\nname = 'bad'\n";
    let metric = "[[workload.metric]]\nname = 'wall_s'\npattern = '([0-9na]+)'\n";
    for (index, (bad, parts)) in [
        (
            format!("command = ['sh', '-c', 'echo oh no >&2; exit 3']\n{metric}"),
            ["bad under p", "exit status: 3: oh no"],
        ),
        (
            format!("command = ['true']\n{metric}"),
            ["bad under p", "printed nothing"],
        ),
        (
            format!("command = ['echo', 'x']\n{metric}"),
            ["bad under p", "no line of the output matches"],
        ),
        (
            format!("command = ['echo', 'nan']\n{metric}"),
            ["bad under p", "wall_s is NaN"],
        ),
        (
            "command = ['no-such-program']\n".to_owned(),
            ["bad under p", "no-such-program: No such file"],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let study = written(temp.path(), &format!("{base}{bad}"));
        let dir = temp.path().join(index.to_string());
        let at = dir.display().to_string();
        fails_with(
            wakepath(&["study", "run", &study, "--on", "live", "-o", &at]),
            &parts,
        );
        let document = fs::read_to_string(dir.join("result.json")).unwrap();
        assert!(document.contains("\"complete\": false"));
    }
    // Without fio on the path it says how to get it.
    let text =
        "name = 'm'\n[[policy]]\nname = 'p'\n[[workload]]\nname = 'w'\nfio = 'iowait-rk3399.fio'\n";
    let study = written(temp.path(), text);
    let refused = assert_cmd::Command::cargo_bin("wakepath")
        .unwrap()
        .args(["study", "run", &study, "--on", "live", "-o", "nothing"])
        .env("PATH", temp.path())
        .current_dir(temp.path())
        .assert();
    fails_with(refused, &["fio is not installed", "apt install fio"]);
    assert!(!temp.path().join("nothing").exists());
    // A policy that this machine cannot have.
    let text = text
        .replace("name = 'p'", "name = 'p'\nset = 'idle-states[disable=C99]'")
        .replace("fio = 'iowait-rk3399.fio'", "command = ['true']");
    let at = temp.path().join("none").display().to_string();
    for (policy, part) in [
        ("set = 'idle-states[disable=C99]'", "C99"),
        ("set = 'psd[rule=module]'", "leave `rule` out"),
        ("set = 'poll'", "idle-states[ceiling=...]"),
        ("set = 'oracle'", "only in the simulator"),
        ("set = 'io_uring[iowait=off]'", "only in the simulator"),
        ("settings = { eep = 'power' }", "no setting is called `eep`"),
    ] {
        let study = written(
            temp.path(),
            &text.replace("set = 'idle-states[disable=C99]'", policy),
        );
        for words in [
            &["study", "run", &study, "--on", "live", "-o", &at][..],
            &["study", "check", &study, "--on", "live"],
        ] {
            fails_with(wakepath(words), &["policy 'p'", part]);
        }
        assert!(!Path::new(&at).exists());
    }
}

#[test]
fn a_fio_job_that_would_write_to_a_device_is_refused_before_anything_runs() {
    if is_missing("fio") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", temp.path().join("link")).unwrap();
    // Nothing could be written to this device either way.
    for place in [
        "[a]\nfilename=/dev/full",
        "[/dev/full]",
        "[a]\nfilename=x.tmp:/dev/full",
        "[a]\ndirectory=/dev\nfilename=full",
        "[a]\nfilename=//dev/full",
        "[a]\nfilename=link",
        "[global]\nfilename=/dev/full\n[a]\nfilename=x.tmp",
        "[a]\nfilename_format=/dev/full",
    ] {
        let text = format!(
            "name = 'm'\nrepeats = 1\nsettle_s = 0\n[[policy]]\nname = 'p'\n\
             [[workload]]\nname = 'good'\ncommand = ['touch', 'ran']\n\
             [[workload]]\nname = 'w'\nfio_job = \"\"\"\n{place}\nrw=randwrite\nsize=4k\n\"\"\"\n"
        );
        let study = written(temp.path(), &text);
        for verb in ["run", "check"] {
            let mut command = assert_cmd::Command::cargo_bin("wakepath").unwrap();
            command
                .args(["study", verb, &study, "--on", "live"])
                .current_dir(temp.path());
            // Warnings about the job stand before it.
            let refused = command.assert().code(1).stdout("");
            let message = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
            let message = message.lines().last().unwrap();
            for part in ["w: job ", "a character device", "fio_options"] {
                assert!(message.contains(part), "{verb} {place}: {message}");
            }
        }
        for left in ["ran", "m-live", "x.tmp"] {
            assert!(!temp.path().join(left).exists(), "{place}: {left}");
        }
    }
}

/// Runs a study that changes settings. Only one process of the machine may do that at a time, so it waits its turn;
/// in the middle it may get a signal. Exit code and messages.
fn with_settings(study: &str, dir: &str, signal: Option<&str>) -> (Option<i32>, String) {
    let mut tries = 0;
    loop {
        tries += 1;
        // Who started the tests may have had them ignore a closed terminal.
        let child = Command::new("env")
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_wakepath")])
            .args(["study", "run", study, "--on", "live", "--resume", "-o", dir])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if let Some(signal) = signal {
            std::thread::sleep(Duration::from_millis(700));
            let pid = child.id().to_string();
            Command::new("kill").args([signal, &pid]).status().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let messages = String::from_utf8(output.stderr).unwrap();
        if tries == 60 || !messages.contains("another wakepath is changing settings") {
            return (output.status.code(), messages);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn settings_of_a_measured_policy_are_applied_and_put_back() {
    let _machine = common::lock_machine();
    let qos = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us";
    if fs::OpenOptions::new().write(true).open(qos).is_err() {
        return common::skip(
            "settings_of_a_measured_policy_are_applied_and_put_back",
            "no right to set the latency limit of CPUs",
        );
    }
    let temp = tempfile::tempdir().unwrap();
    let study = |words: &str| {
        written(
            temp.path(),
            &format!(
                "name = 'm'\nrepeats = 1\nsettle_s = 0\n[[policy]]\nname = 'limit'\n\
                 set = 'cpu-latency[limit=77us,cpus=all]'\n[[policy]]\nname = 'none'\n[[workload]]\nname = 'w'\n\
                 command = {words}\n[[workload.metric]]\nname = 'limit'\npattern = '([0-9]+)'\n\
                 better = 'lower'\nunit = 'us'\n"
            ),
        )
    };
    let [done, failed, stopped] =
        ["done", "failed", "stopped"].map(|n| temp.path().join(n).display().to_string());
    let limit = || fs::read_to_string(qos).unwrap().trim().to_owned();
    let (code, messages) = with_settings(&study(&format!("['cat', '{qos}']")), &done, None);
    assert_eq!(code, Some(0), "{messages}");
    let compared = json(&wakepath(&[
        "compare", &done, "--metric", "limit", "--format", "json",
    ]));
    let mean = |policy: &str| {
        let rows = compared["rows"].as_array().unwrap();
        let row = rows.iter().find(|r| r["policy"] == policy).unwrap();
        row["mean"].as_f64().unwrap()
    };
    assert!((mean("limit") - 77.0).abs() < 1e-9 && (mean("none") - 77.0).abs() > 1e-9);
    // After an error, too, and after Ctrl-C, SIGTERM and a closed terminal; the workload ends with it.
    let (code, messages) = with_settings(&study("['false']"), &failed, None);
    assert_eq!(code, Some(1));
    assert!(messages.contains("false failed"), "{messages}");
    assert_ne!(limit(), "77");
    for (signal, number, seconds) in [("-INT", 2, "61"), ("-TERM", 15, "62"), ("-HUP", 1, "63")] {
        let study = study(&format!("['sleep', '{seconds}.25']"));
        let (code, messages) = with_settings(&study, &stopped, Some(signal));
        assert_eq!(code, Some(128 + number), "{messages}");
        assert_ne!(limit(), "77");
        let pattern = format!("sleep {seconds}[.]25");
        let running = Command::new("pgrep").args(["-f", &pattern]).status();
        assert!(!running.unwrap().success(), "{signal}");
        fs::remove_dir_all(&stopped).ok();
    }
}

#[test]
fn a_full_disk_loses_nothing_that_was_measured() {
    let temp = tempfile::tempdir().unwrap();
    let study = written(temp.path(), STUDY);
    let [room, kept, whole] = ["room", "kept", "whole"].map(|n| temp.path().join(n));
    fs::create_dir(&room).unwrap();
    let program = env!("CARGO_BIN_EXE_wakepath");
    let (at, to) = (room.display(), kept.display());
    // A file system of its own, which only this process sees, with room for a part of the runs.
    let script = format!(
        "mount -t tmpfs -o size=64k none {at} && \
         {{ {program} study run {study} -o {at}/r; echo \"code $?\"; cp -r {at}/r {to}; }}"
    );
    let done = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .output();
    let done = match done {
        Ok(done) if done.status.success() => done,
        _ => {
            skip(
                "a_full_disk_loses_nothing_that_was_measured",
                "no right to mount a file system",
            );
            return;
        }
    };
    let messages = String::from_utf8_lossy(&done.stderr);
    assert!(
        String::from_utf8_lossy(&done.stdout).contains("code 1"),
        "{messages}"
    );
    assert!(messages.contains("No space left on device"), "{messages}");
    let runs = fs::read_dir(kept.join("runs")).unwrap().count();
    assert!(runs < 16, "{runs}");
    let [kept, whole] = [&kept, &whole].map(|p| p.display().to_string());
    wakepath(&["study", "run", &study, "-o", &kept, "--resume"]).success();
    wakepath(&["study", "run", &study, "-o", &whole]).success();
    assert!(contents(Path::new(&kept)) == contents(Path::new(&whole)));
}
