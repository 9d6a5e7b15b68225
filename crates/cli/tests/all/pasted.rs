//! What people paste into mails and issues, given to the commands that read such things. The inputs in `data/pasted` are made
//! after public reports; names and counts are not those of the originals.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use serde_json::Value;

use crate::common::{fails_with, json, repository, wakepath};

fn pasted(name: &str) -> String {
    let path = repository().join("crates/cli/tests/data/pasted").join(name);
    path.to_str().unwrap().to_owned()
}

/// Transitions of a plan: from, to, after so many ms.
fn transitions(report: &Value) -> Vec<(u64, u64, u64)> {
    let entries = report["entries"].as_array().unwrap().iter();
    entries
        .filter_map(|e| {
            Some((
                e["state"].as_u64()?,
                e["target"].as_u64()?,
                e["timeout_ms"].as_u64()?,
            ))
        })
        .collect()
}

fn plan(file: &str) -> (Value, String) {
    let assert = wakepath(&[
        "apst",
        "plan",
        "--id-ctrl",
        &pasted(file),
        "--format",
        "json",
    ])
    .success();
    let notes = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    (json(&assert), notes)
}

#[test]
fn drives_of_every_tool_are_planned() {
    let (newer, notes) = plan("id-ctrl-2.x.json");
    assert_eq!(transitions(&newer), [(0, 1, 100)]);
    assert_eq!(notes, "");
    let states = &newer["drive"]["states"];
    assert_eq!(states[0]["max_power_uw"], 5_000_000);
    assert_eq!(states[0]["idle_power_uw"], 630_000);
    assert_eq!(states[0]["active_power_uw"], 5_000_000);
    assert_eq!(states[1]["max_power_uw"], 5_000);
    let shown = wakepath(&["drive", "show", &pasted("id-ctrl-2.x.json")]).success();
    let table = String::from_utf8(shown.get_output().stdout.clone()).unwrap();
    assert!(
        table.contains("power  active    idle") && table.contains("5.00 W  5.00 W  0.63 W"),
        "{table}"
    );

    let (text, _) = plan("smartctl.txt");
    assert_eq!(
        (transitions(&text), &text["apsta_assumed"]),
        (vec![(0, 1, 100)], &Value::Bool(true))
    );
    let (of_json, _) = plan("smartctl.json");
    assert_eq!(transitions(&of_json), [(0, 1, 2000)]);
    assert_eq!(of_json["states"][1]["total_latency_us"], 99_000);

    for (file, missing) in [
        ("power-states.txt", "the model's name"),
        ("elided.txt", "npss"),
    ] {
        let (lines, notes) = plan(file);
        assert_eq!(transitions(&lines), [(0, 1, 100)], "{file}");
        assert_eq!(lines["states"][2]["total_latency_us"], 490_000);
        assert!(
            notes.contains(missing) && notes.lines().count() == 1,
            "{notes}"
        );
    }
}

#[test]
fn an_apst_table_in_words_is_decoded() {
    let file = pasted("get-feature-H.txt");
    let report =
        json(&wakepath(&["apst", "decode", &file, "--npss", "4", "--format", "json"]).success());
    let expected = [(0, 3, 100), (1, 3, 100), (2, 3, 100), (3, 4, 1250)];
    assert_eq!(transitions(&report), expected);
    assert_eq!(
        (&report["apste"], &report["problems"]),
        (&Value::Bool(true), &serde_json::json!([]))
    );
}

#[test]
fn a_drive_of_a_dump_is_simulated_as_one_of_the_library() {
    let job = repository().join("workloads/apst-7.fio");
    let job = job.to_str().unwrap();
    let file = pasted("id-ctrl-H.txt");
    let sim = |drive: &str| {
        let arguments = [
            "sim",
            job,
            "--machine",
            "laptop",
            "--drive",
            drive,
            "--runs",
            "1",
            "--format",
            "json",
        ];
        wakepath(&arguments).success()
    };
    let run = &json(&sim(&file))["results"][0]["runs"][0];
    let slept = run["drive"]["states"].as_array().unwrap();
    let seconds = |ps: usize| slept[ps]["seconds"].as_f64().unwrap();
    // The job pauses for 150 ms: PS3 after 100 ms, and never PS4.
    assert!(seconds(3) > 0.0 && seconds(4).abs() < 1e-9, "{slept:?}");
    let shown = json(&wakepath(&["drive", "show", &file, "--format", "json"]).success());
    assert_eq!(shown["model"], "T-FORCE TM8FPL500G");
    let planned =
        json(&wakepath(&["apst", "plan", "--drive", &file, "--format", "json"]).success());
    assert_eq!(
        transitions(&planned),
        [(0, 3, 100), (1, 3, 100), (2, 3, 100), (3, 4, 2000)]
    );
    let unknown = sim(&pasted("power-states.txt"));
    let notes = String::from_utf8(unknown.get_output().stderr.clone()).unwrap();
    let about = notes
        .lines()
        .filter(|line| line.contains("power-states.txt"));
    assert_eq!(about.count(), 1, "{notes}");
    assert!(
        notes.contains("support of APST is not known, and is assumed"),
        "{notes}"
    );

    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(&file, folder.path().join("d.txt")).unwrap();
    let study = format!(
        "name = \"d\"\nmachine = \"laptop\"\ndrive = \"d.txt\"\npolicy = [\"apst\"]\nrepeats = 1\n[[workload]]\nname = \"w\"\nfio = '{job}'\n"
    );
    std::fs::write(folder.path().join("d.toml"), study).unwrap();
    let path = folder.path().join("d.toml");
    wakepath(&["study", "check", path.to_str().unwrap()]).success();
}

#[test]
fn a_name_that_only_occurs_in_another_is_refused() {
    for command in [
        ["drive", "show", "990 EVO"],
        ["apst", "plan", "--drive=990 EVO"],
    ] {
        fails_with(wakepath(&command), &["990 EVO Plus", "give a whole name"]);
    }
    let taken = wakepath(&["drive", "show", "SDBPNPZ-256G-1006"]).success();
    let note = String::from_utf8(taken.get_output().stderr.clone()).unwrap();
    assert!(
        note.contains("is taken to be WDC PC SN530 SDBPNPZ-256G-1006"),
        "{note}"
    );
    fails_with(
        wakepath(&["drive", "show", "no-such-file.txt"]),
        &["no-such-file.txt", "No such file"],
    );
}

#[test]
fn messages_name_the_forms_that_are_read() {
    let other = pasted("states.csv");
    let forms = ["nvme id-ctrl", "smartctl"];
    fails_with(wakepath(&["apst", "plan", "--id-ctrl", &other]), &forms);
    fails_with(wakepath(&["drive", "show", &other]), &forms);
    fails_with(
        wakepath(&["apst", "decode", &other]),
        &["nvme get-feature -f 0x0c"],
    );
    fails_with(
        wakepath(&["counters", &other]),
        &["grep -r", "cpupower idle-info", "head -v"],
    );
}

/// State, seconds, entries, above and below of each row of `wakepath counters`, and the notes.
fn counters(file: &str) -> (Vec<[String; 5]>, String) {
    let assert = wakepath(&["counters", &pasted(file), "--format", "csv"]).success();
    let printed = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        [1, 2, 4, 6, 8].map(|at| cells[at].to_owned())
    };
    let notes = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    (printed.lines().skip(1).map(row).collect(), notes)
}

#[test]
fn counters_are_read_in_the_forms_that_people_send() {
    let rows = |file| counters(file).0;
    assert_eq!(
        rows("counters-above-below.txt"),
        [
            ["state1", "-", "-", "38085", "246573"],
            ["state2", "-", "-", "7668", "7817"]
        ]
    );
    assert_eq!(
        rows("counters-cpupower.txt"),
        [
            ["snooze", "0.402", "6229", "-", "-"],
            ["CEDE", "36329.999", "191411", "-", "-"]
        ]
    );
    assert_eq!(
        rows("counters-find-cat.txt"),
        [["C1", "0.005", "100", "-", "-"]]
    );
    assert_eq!(
        rows("counters-grep-n.txt"),
        [["C3", "185600.277", "50200069", "24243157", "0"]]
    );
    let (quoted, notes) = counters("counters-quoted.txt");
    assert_eq!(
        quoted,
        [
            ["C1_ACPI", "63.401", "195432", "-", "-"],
            ["C2_ACPI", "144.894", "102740", "-", "-"]
        ]
    );
    assert!(
        notes.contains("state1/name is `C1_ACPI` and `C1` in lines 1 and 8"),
        "{notes}"
    );
    let (between, notes) = counters("counters-before-and-after.txt");
    assert_eq!(between[0], ["C1_ACPI", "30.000", "100000", "-", "-"]);
    assert!(notes.contains("two dumps"), "{notes}");
}

#[test]
fn a_state_table_may_have_the_header_that_the_help_spells() {
    let states = pasted("states.csv");
    let arguments = ["policy", "poll-limit", "--hz", "250", "--states", &states];
    wakepath(&arguments).success();
}

/// Imports a trace of `data/pasted`; the path of the recording, and the warnings.
fn imported(folder: &std::path::Path, trace: &str) -> (String, String) {
    let out = folder.join("t.parquet").to_str().unwrap().to_owned();
    let assert = wakepath(&["import", &pasted(trace), "-o", &out, "--force"]).success();
    (
        out,
        String::from_utf8(assert.get_output().stderr.clone()).unwrap(),
    )
}

#[test]
fn trace_lines_that_a_mail_program_broke_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let (recording, warnings) = imported(folder.path(), "wrapped.trace.txt");
    assert!(warnings.contains("broken-lines (2x)"), "{warnings}");
    let states = pasted("states.csv").replace("states.csv", "three-states.csv");
    let report = json(
        &wakepath(&[
            "replay", &recording, "--states", &states, "--format", "json",
        ])
        .success(),
    );
    assert_eq!(
        (&report["periods"], &report["cpus"]),
        (&2.into(), &serde_json::json!([34]))
    );
    let recorded = &report["policies"][0]["states"][2];
    assert_eq!(
        (&recorded["count"], &recorded["time_ns"]),
        (&2.into(), &354_000.into())
    );
}

#[test]
fn a_trace_of_which_nothing_is_left_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.txt");
    std::fs::write(
        &trace,
        "<idle>-0 [000] 1.000000: cpu_idle: state=1 cpu_id=0\n",
    )
    .unwrap();
    let out = folder.path().join("t.parquet");
    let arguments = [
        "import",
        trace.to_str().unwrap(),
        "-o",
        out.to_str().unwrap(),
    ];
    fails_with(
        wakepath(&arguments),
        &["nothing was written", "no idle period"],
    );
    assert!(!out.exists());
}

#[test]
fn a_replay_covers_the_whole_recording() {
    let folder = tempfile::tempdir().unwrap();
    let (recording, _) = imported(folder.path(), "replay-span.trace.txt");
    let replay = [
        "replay",
        &recording,
        "--machine",
        "laptop",
        "--policy",
        "menu",
        "--format",
        "json",
    ];
    let report = json(&wakepath(&replay).success());
    assert_eq!(
        (&report["periods"], &report["duration_ns"]),
        (&2.into(), &20_000_000_000_u64.into())
    );
    let rows = report["intervals"]["rows"].as_array().unwrap();
    let shallow =
        |row: &&Value| row["metric"] == "too_shallow_per_s" && row["governor"] == "recorded";
    let rate = rows.iter().find(shallow).unwrap()["mean"].as_f64().unwrap();
    assert!((rate - 0.05).abs() < 1e-9, "{rate}");
    for row in rows.iter().filter(|row| row["governor"] != "recorded") {
        let verdict = row["verdict"].as_str().unwrap();
        assert!(verdict.starts_with("too few idle periods"), "{verdict}");
    }
    let shown = wakepath(&replay[..6]).success();
    let table = String::from_utf8_lossy(&shown.get_output().stdout).into_owned();
    let reasons = table.matches("too few idle periods").count();
    assert_eq!(reasons, 1, "one reason for all rows is said once: {table}");
    let kept = folder.path().join("kept");
    let text = [
        "replay",
        &recording,
        "--machine",
        "laptop",
        "--policy",
        "menu",
        "-o",
        kept.to_str().unwrap(),
    ];
    let printed = wakepath(&text).success();
    let printed = String::from_utf8(printed.get_output().stdout.clone()).unwrap();
    assert!(
        printed.starts_with("2 idle periods in 2 idle spans over 20.000 s"),
        "{printed}"
    );
    assert!(!printed.contains("no difference"), "{printed}");
}

#[test]
fn states_of_a_dump_do_where_a_table_does() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| -> String {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let table = write("states.csv", "snooze,0,0,1,0\nCEDE,12000,120000,0,0\n");
    let dump = pasted("counters-cpupower.txt");
    let limit = |states: &str| {
        let found = wakepath(&["policy", "poll-limit", "--states", states]).success();
        found.get_output().stdout.clone()
    };
    assert_eq!(limit(&dump), limit(&table));
    let foreign = write("foreign.txt", "no states here\n");
    fails_with(
        wakepath(&["policy", "poll-limit", "--states", &foreign]),
        &["or give a dump of /sys/devices/system/cpu/cpu*/cpuidle"],
    );
}

#[test]
fn a_trace_of_block_requests_alone_has_its_drives() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let requests = [(100_000, 1000), (300_000, 2000), (3_300_000, 3000)].map(|(us, sector)| {
        format!(
            " fio-100 [001] {0}.{1:06}000: block_rq_issue: 259,0 R 4096 () {sector} + 8 [fio]\n \
             <idle>-0 [001] {0}.{2:06}000: block_rq_complete: 259,0 R () {sector} + 8 [0]\n",
            us / 1_000_000,
            us % 1_000_000,
            us % 1_000_000 + 80
        )
    });
    std::fs::write(path("t.txt"), requests.concat()).unwrap();
    let imported = wakepath(&["import", &path("t.txt"), "-o", &path("t.parquet")]).success();
    let notes = String::from_utf8(imported.get_output().stderr.clone()).unwrap();
    assert!(
        notes.contains("no-idle") && !notes.contains("no-timers"),
        "{notes}"
    );
    let arguments = ["--format", "csv", "--table", "drives"];
    let replayed = wakepath(&[&["replay", &path("t.parquet")][..], &arguments].concat()).success();
    let drives = String::from_utf8(replayed.get_output().stdout.clone()).unwrap();
    assert!(
        drives.contains("259:0") && drives.lines().count() == 2,
        "{drives}"
    );
}

/// `text` as Windows' editors save it: UTF-8 and UTF-16 with their marks, UTF-16 without, and lines that end in CR LF.
fn as_windows_saves(text: &str) -> [Vec<u8>; 4] {
    let marked = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let wide =
        |bytes: fn(u16) -> [u8; 2]| -> Vec<u8> { marked.encode_utf16().flat_map(bytes).collect() };
    [
        wide(u16::to_le_bytes),
        wide(u16::to_be_bytes),
        wide(u16::to_le_bytes)[2..].to_vec(),
        marked.clone().into_bytes(),
    ]
}

#[test]
fn results_and_configurations_are_read_in_every_encoding() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let hyperfine = r#"{"results":[{"command":"true","times":[0.1,0.11,0.12,0.13]}]}"#;
    let (result, config) = (at("h.json"), at("daemon.toml"));
    for (result_bytes, config_bytes) in as_windows_saves(hyperfine)
        .iter()
        .zip(as_windows_saves("policy = ['psd']\n"))
    {
        std::fs::write(&result, result_bytes).unwrap();
        std::fs::write(&config, config_bytes).unwrap();
        wakepath(&["compare", &result]).success();
        wakepath(&["daemon", "--check-config", "--config", &config]).success();
    }
}

#[test]
fn files_that_users_write_are_read_in_every_encoding() {
    let folder = tempfile::tempdir().unwrap();
    let fio = "[r]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ntime_based\nruntime=1\n";
    let rt_app = r#"{"global":{"duration":1},"tasks":{"a":{"run":1000,"sleep":9000}}}"#;
    let study = "name = \"s\"\npolicy = [\"menu\", \"teo\"]\nmachine = \"rk3399\"\nrepeats = 1\n[[workload]]\nname = \"r\"\nfio = \"r.fio\"\n";
    let drive = "schema = 1\nname = \"mine\"\nlibrary = \"SDBPNPZ-256G-1006\"\nsource = \"mine\"\nread_service_us = 75\n";
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (r, a, s, d) = (at("r.fio"), at("a.json"), at("s.toml"), at("d.toml"));
    let run = |workload: &str| {
        let command = ["sim", workload, "--machine", "rk3399", "--seconds", "0.1"];
        let more = ["--warm-up", "0", "--runs", "1", "--drive", &d];
        let form = ["--format", "json"];
        json(&wakepath(&[&command[..], &more, &form].concat()).success())
    };
    let save = |files: [&[u8]; 4]| {
        for (path, bytes) in [&r, &a, &s, &d].into_iter().zip(files) {
            std::fs::write(path, bytes).unwrap();
        }
    };
    save([fio, rt_app, study, drive].map(str::as_bytes));
    let expected = [run(&r), run(&a)];
    let [fio, rt_app, study, drive] = [fio, rt_app, study, drive].map(as_windows_saves);
    for index in 0..4 {
        save([&fio[index], &rt_app[index], &study[index], &drive[index]]);
        assert_eq!([run(&r), run(&a)], expected);
        wakepath(&["study", "check", &s]).success();
    }
}
