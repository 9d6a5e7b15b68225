//! `wakepath study` and `wakepath compare` as whole commands: simulated, measured, interrupted, compared.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common;
use crate::common::files::contents;
use crate::common::{fails_with, json, skip, start_silently, wakepath};

mod imported;
mod measured;
mod readme;

/// Two workloads, two policies, four repeats: 16 short runs.
const STUDY: &str = "name = 's'\nmachine = 'rk3399'\nrepeats = 4\n\
    [[workload]]\nname = 'reads'\nfio = 'iowait-rk3399.fio'\nseconds = 2\n\
    [[workload]]\nname = 'threads'\nrt_app = 'ping-pong.json'\n\
    [[policy]]\nname = 'menu'\nset = 'menu@6.12'\n\
    [[policy]]\nname = 'shallowest'\nset = 'shallowest'\n\
    [[question]]\nask = 'Which?'\nmetric = 'iops'\n";

/// One workload, two policies, eight repeats: 16 runs of no time.
const SHORT: &str = "name = 's'\nmachine = 'rk3399'\nrepeats = 8\n\
    [[workload]]\nname = 'w'\nfio = 'iowait-rk3399.fio'\nseconds = 0.02\n\
    [[policy]]\nname = 'menu'\nset = 'menu@6.12'\n\
    [[policy]]\nname = 'shallowest'\nset = 'shallowest'\n";

/// The results and their page say what of a profile is not simulated.
#[test]
fn results_say_what_of_a_profile_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let study = "name = 's'\nmachine = 'rk3399'\nrepeats = 1\n\
                 policy = ['', 'tuned[powersave]', 'tuned[powersave] + teo']\n\
                 [[workload]]\nname = 'w'\nfio = 'iowait-rk3399.fio'\nseconds = 0.02\n";
    let study = written(folder.path(), study);
    let dir = folder.path().join("r").display().to_string();
    wakepath(&["study", "run", &study, "-o", &dir])
        .success()
        .stderr(predicates::str::contains("boost=0"));
    let document = fs::read(folder.path().join("r/result.json")).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&document).unwrap();
    let notes = document["notes"].as_array().unwrap();
    let about = |text: &str| {
        let said = notes.iter().filter(|note| note.to_string().contains(text));
        said.count()
    };
    assert_eq!(
        (about("boost=0"), about("epp[value=power] does not apply")),
        (1, 1)
    );
    assert_eq!(document["policies"][1]["name"], "tuned[powersave]");
}

fn written(folder: &Path, text: &str) -> String {
    let path = folder.join("study.toml");
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Whether a program is missing; says so if it is.
fn is_missing(program: &str) -> bool {
    let missing = Command::new(program).arg("--version").output().is_err();
    if missing {
        skip("study", &format!("{program} is not installed"));
    }
    missing
}

/// Types these commands, and nothing else, into a shell in this folder.
fn typed(folder: &Path, commands: &[String]) {
    let programs = Path::new(env!("CARGO_BIN_EXE_wakepath")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    for command in commands {
        // Only one process of the machine may change settings at a time.
        for attempt in 0.. {
            let done = Command::new("sh")
                .args(["-c", command])
                .env("PATH", &path)
                .current_dir(folder)
                .output()
                .unwrap();
            let messages = String::from_utf8_lossy(&done.stderr);
            if messages.contains("another wakepath is changing settings") && attempt < 60 {
                std::thread::sleep(Duration::from_secs(1));
                continue;
            }
            assert!(done.status.success(), "{command}: {messages}");
            break;
        }
    }
}

#[test]
fn the_same_bytes_whatever_the_jobs_and_however_often_it_was_killed() {
    let temp = tempfile::tempdir().unwrap();
    let study = written(temp.path(), STUDY);
    let [one, two, killed] = ["one", "two", "killed"].map(|n| temp.path().join(n));
    for (dir, jobs) in [(&one, "1"), (&two, "2")] {
        wakepath(&[
            "study",
            "run",
            &study,
            "--jobs",
            jobs,
            "-o",
            dir.to_str().unwrap(),
        ])
        .success();
    }
    let wanted = contents(&one);
    assert_eq!(wanted.keys().filter(|p| p.starts_with("runs")).count(), 16);
    assert!(wanted == contents(&two), "one and two jobs differ");
    // SIGKILL after ever longer times: while it begins, while runs are written, while tables are.
    let arguments = [
        "study",
        "run",
        &study,
        "--resume",
        "-o",
        killed.to_str().unwrap(),
    ];
    let mut kills = 0;
    for ms in [1, 5, 20, 40, 60, 80, 120, 160, 250] {
        let mut child = start_silently(&arguments);
        std::thread::sleep(Duration::from_millis(ms));
        kills += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(kills > 0);
    wakepath(&arguments).success();
    assert!(wanted == contents(&killed), "a killed study differs");
}

/// Copies a directory with all that is in it.
fn copy(from: &Path, to: &Path) {
    for (name, content) in contents(from) {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

#[test]
fn a_replacement_that_was_killed_never_takes_the_old_runs_for_its_own() {
    let temp = tempfile::tempdir().unwrap();
    let [old, new] = ["old", "new"].map(|n| temp.path().join(n));
    let [before, after] = ["rk3399", "epyc-7502"].map(|machine| {
        let file = temp.path().join(format!("{machine}.toml"));
        fs::write(&file, SHORT.replace("rk3399'", &format!("{machine}'"))).unwrap();
        file.display().to_string()
    });
    for (study, dir) in [(&before, &old), (&after, &new)] {
        wakepath(&["study", "run", study, "-o", dir.to_str().unwrap()]).success();
    }
    let (old, wanted) = (contents(&old), contents(&new));
    let killed = temp.path().join("killed");
    copy(&temp.path().join("old"), &killed);
    let at = killed.to_str().unwrap();
    let run = |how: &'static str| ["study", "run", &after, how, "-o", at];
    let mut kills = 0;
    for ms in (0..40).chain([50, 60, 80, 120, 200]) {
        let mut child = start_silently(&run("--force"));
        std::thread::sleep(Duration::from_millis(ms));
        kills += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        // Whatever runs are there are those of the study that the document names.
        let there = contents(&killed);
        let document = String::from_utf8_lossy(&there["result.json"]).into_owned();
        let expected = if document.contains("epyc-7502") {
            &wanted
        } else {
            &old
        };
        let runs = there
            .iter()
            .filter(|(name, _)| name.starts_with("runs") && !name.contains(".unfinished-"));
        for (name, content) in runs {
            assert!(expected[name] == *content, "{name} after {ms} ms");
        }
        if ms % 8 == 0 {
            // The other study is refused as long as it is not its directory.
            let resumed = wakepath(&run("--resume")).get_output().clone();
            if resumed.status.success() {
                assert!(contents(&killed) == wanted, "resumed after {ms} ms");
            } else {
                let message = String::from_utf8_lossy(&resumed.stderr).into_owned();
                assert!(message.contains("another study"), "{message}");
            }
            fs::remove_dir_all(&killed).unwrap();
            copy(&temp.path().join("old"), &killed);
        }
    }
    assert!(kills > 0);
    wakepath(&run("--force")).success();
    assert!(contents(&killed) == wanted, "a killed replacement differs");
    // Runs without the document that says what they are of.
    let mix = temp.path().join("mix");
    copy(&temp.path().join("old"), &mix);
    for name in old.keys().filter(|name| !name.contains('/')) {
        if name == "result.json" || name.ends_with(".parquet") {
            fs::remove_file(mix.join(name)).unwrap();
        }
    }
    let left = contents(&mix);
    for how in ["--jobs=1", "--resume", "--force"] {
        let mixed = wakepath(&["study", "run", &after, how, "-o", mix.to_str().unwrap()]);
        fails_with(mixed, &["mix", "name another directory"]);
        // Not even the study that they are of: nobody can tell.
        let same = wakepath(&["study", "run", &before, how, "-o", mix.to_str().unwrap()]);
        fails_with(same, &["runs/000000.json", "no result.json"]);
        assert!(contents(&mix) == left);
    }
}

/// The commands of a page that make it again.
fn commands_of(page: &str) -> Vec<String> {
    let part = page.split("id=\"reproduce\"").nth(1).unwrap();
    let commands = part.split("<pre tabindex=\"0\">").nth(1).unwrap();
    let mut plain = commands.split("</pre>").next().unwrap().to_owned();
    for (from, to) in [
        ("&#x27;", "'"),
        ("&#39;", "'"),
        ("&#x2f;", "/"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ] {
        plain = plain.replace(from, to);
    }
    plain.lines().map(str::to_owned).collect()
}

#[test]
fn the_commands_of_a_page_make_the_same_results_again() {
    let temp = tempfile::tempdir().unwrap();
    let own = temp.path().join("own files");
    fs::create_dir(&own).unwrap();
    // Files of one's own, some called as built-in ones.
    let copy = |from: &str, to: &str, change: [&str; 2]| {
        let text = fs::read_to_string(common::repository().join(from)).unwrap();
        let changed = text.replace(change[0], change[1]);
        assert_ne!(text, changed);
        fs::write(own.join(to), changed).unwrap();
    };
    for (from, to, change) in [
        (
            "workloads/iowait-rk3399.fio",
            "iowait-rk3399.fio",
            ["bs=4k", "bs=64k"],
        ),
        (
            "workloads/ping-pong.json",
            "mine.json",
            ["\"run\": 2", "\"run\": 3"],
        ),
        (
            "crates/hardware/data/machines/laptop.toml",
            "board.toml",
            ["title = \"", "title = \"My "],
        ),
        (
            "crates/hardware/data/drive_models/pm991.toml",
            "drive.toml",
            ["\nname = \"", "\nname = \"my "],
        ),
    ] {
        copy(from, to, change);
    }
    let study = "# Mine.\nname = 's'\nmachine = 'board.toml' # the board\ndrive = 'drive.toml'\nrepeats = 2\n\
        [[workload]]\nname = '''it's \"mine\"'''\nfio = 'iowait-rk3399.fio'\nseconds = 0.1\n\
        fio_options = { numjobs = 2 }\n\
        [[workload]]\nname = 'threads'\nrt_app = 'mine.json'\nseconds = 1\ncopies = 2\n\
        [[workload]]\nname = 'inline'\nfio_job = '''\n[a]\nrw=randwrite\ndirect=1\nruntime=100ms\ntime_based\n'''\n\
        fio_options = { bs = '8k' }\n\
        [[policy]]\nname = 'menu'\nset = 'menu'\n[[policy]]\nname = 'teo'\nset = 'teo'\n";
    let study = written(&own, study);
    let dir = "the 'first' results";
    let run = |arguments: &[&str]| {
        let done = Command::new(env!("CARGO_BIN_EXE_wakepath"))
            .args(arguments)
            .current_dir(temp.path())
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    run(&["study", "run", &study, "-o", dir]);
    run(&["study", "run", &study, "-o", dir, "--resume"]);
    run(&["report", dir]);
    // The directory is all that there is.
    fs::remove_dir_all(&own).unwrap();
    let page = fs::read_to_string(temp.path().join("report.html")).unwrap();
    typed(temp.path(), &commands_of(&page));
    let first = contents(&temp.path().join(dir));
    let again = contents(&temp.path().join("again"));
    assert!(first.keys().eq(again.keys()), "{:?}", again.keys());
    for (name, content) in &first {
        assert!(again[name] == *content, "{name} differs");
    }
    assert!(temp.path().join("again.html").exists());
    // Two results on one page.
    run(&["report", dir, "again", "-o", "both.html"]);
    let page = fs::read_to_string(temp.path().join("both.html")).unwrap();
    fs::remove_file(temp.path().join("again.html")).unwrap();
    typed(temp.path(), &commands_of(&page));
    for made in ["again-1", "again-2"] {
        assert!(contents(&temp.path().join(made)) == first, "{made} differs");
    }
}

#[test]
fn a_comparison_says_what_is_better_and_by_how_much() {
    let temp = tempfile::tempdir().unwrap();
    let study = written(temp.path(), STUDY);
    let dir = temp.path().join("results").display().to_string();
    wakepath(&["study", "run", &study, "-o", &dir]).success();
    let compared = json(&wakepath(&["compare", &dir, "--format", "json"]));
    assert_eq!(compared["baseline"], "menu");
    let rows = compared["rows"].as_array().unwrap();
    let iops = rows
        .iter()
        .find(|r| r["metric"] == "iops" && r["policy"] == "shallowest")
        .unwrap();
    assert_eq!(iops["design"], "paired");
    assert_eq!(iops["significant"], true);
    assert!(iops["gain"]["percent"].as_f64().unwrap() > 20.0, "{iops}");
    assert!(iops["sentence"].as_str().unwrap().starts_with("better by "));
    // Energy is the other side.
    let power = rows
        .iter()
        .find(|r| r["metric"] == "mean_mw" && r["policy"] == "shallowest")
        .unwrap();
    assert!(power["gain"]["percent"].as_f64().unwrap() < 0.0, "{power}");
    let turned = [
        "compare",
        &dir,
        "--baseline",
        "shallowest",
        "--metric",
        "iops",
        "--format",
        "csv",
    ];
    let csv = wakepath(&turned).success();
    let csv = String::from_utf8(csv.get_output().stdout.clone()).unwrap();
    assert_eq!(csv.lines().count(), 3);
    assert!(csv.contains("worse by "), "{csv}");
    // A metric that is named twice is one comparison.
    let shown = |metrics: &str| {
        let table = wakepath(&["compare", &dir, "--metric", metrics]).success();
        String::from_utf8(table.get_output().stdout.clone()).unwrap()
    };
    assert_eq!(shown("iops,mean_mw,iops"), shown("iops,mean_mw"));
    let page = wakepath(&["compare", &dir, "--format", "markdown"]).success();
    let page = String::from_utf8(page.get_output().stdout.clone()).unwrap();
    assert!(
        page.contains("| workload | menu | shallowest |") && page.contains("\\*"),
        "{page}"
    );
    for (option, name, parts) in [
        (
            "--baseline",
            "mneu",
            ["no policy is called `mneu`", "menu, shallowest"],
        ),
        ("--metric", "ipos", ["no metric is called `ipos`", "iops"]),
    ] {
        fails_with(wakepath(&["compare", &dir, option, name]), &parts);
    }
    // The same study twice: policies by their result's name, and not in pairs.
    let again = temp.path().join("again").display().to_string();
    wakepath(&["study", "run", &study, "-o", &again]).success();
    let both = json(&wakepath(&[
        "compare", &dir, &again, "--metric", "iops", "--format", "json",
    ]));
    assert_eq!(both["policies"].as_array().unwrap().len(), 4);
    let same = both["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["policy"] == "again: menu")
        .unwrap();
    assert_eq!(same["design"], "unpaired");
    assert_eq!(same["gain"]["percent"], 0.0);
    assert!(!same["sentence"].as_str().unwrap().contains("better"));
}

#[test]
fn the_page_says_what_the_comparison_says() {
    let temp = tempfile::tempdir().unwrap();
    let study = written(temp.path(), STUDY);
    let dir = temp.path().join("results").display().to_string();
    let page = temp.path().join("page.html").display().to_string();
    wakepath(&["study", "run", &study, "-o", &dir]).success();
    let compared = json(&wakepath(&["compare", &dir, "--format", "json"]));
    wakepath(&["report", &dir, "-o", &page]).success();
    let page = fs::read_to_string(&page).unwrap();
    let rows = compared["rows"].as_array().unwrap().iter();
    let rows: Vec<_> = rows.filter(|r| r["policy"] == "shallowest").collect();
    assert!(rows.iter().any(|r| r["significant"] == true));
    for row in rows {
        let sentence = row["sentence"].as_str().unwrap();
        assert!(!sentence.is_empty(), "{row}");
        assert!(page.contains(sentence), "{sentence} is not on the page");
    }
}

/// An error may come from a line that fio reads unlike what it looks like: of the same workload, and not of another one.
#[test]
fn what_fio_makes_of_a_line_is_told_before_an_error_of_its_workload() {
    let folder = tempfile::tempdir().unwrap();
    let job = |size: &str| format!("'''[a]\ndirect=1\nprio=3\n{size}\n'''");
    let study = |first: &str, second: &str| {
        let (first, second) = (job(first), job(second));
        written(
            folder.path(),
            &format!(
                "name = 's'\nmachine = 'laptop'\npolicy = ['menu']\n[[workload]]\nname = 'one'\nfio_job = {first}\n\
                 [[workload]]\nname = 'two'\nfio_job = {second}\n"
            ),
        )
    };
    for (first, wanted) in [
        (
            "size=4*1000",
            "one: line 4: `size` `4*1000` is 4 bytes to fio",
        ),
        ("size=100", ""),
    ] {
        let file = study(first, "size=512*1024");
        let failed = wakepath(&["study", "check", &file]).failure();
        let said = String::from_utf8(failed.get_output().stderr.clone()).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        let (error, remarks) = lines.split_last().unwrap();
        let wanted_error = "one under menu: job 'a': the simulator does not model a size of less";
        assert!(error.contains(wanted_error), "{said}");
        assert_eq!(remarks.len(), usize::from(!wanted.is_empty()), "{said}");
        assert!(remarks.concat().contains(wanted), "{said}");
    }
}

#[test]
fn the_name_of_a_job_file_is_told_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(
        folder.path(),
        "name = 's'\nmachine = 'laptop'\npolicy = ['menu']\n[[workload]]\nname = 'one'\nfio_job = 'a.fio'\n",
    );
    fails_with(
        wakepath(&["study", "check", &file]),
        &[
            "study.toml:6: `fio_job` has the text of a job, or a command line of fio; the name of a file is for `fio = \"a.fio\"`",
        ],
    );
}

#[test]
fn an_example_is_written_checked_and_never_overwritten() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("new.toml").display().to_string();
    wakepath(&["study", "new", &file]).success();
    fails_with(wakepath(&["study", "new", &file]), &["exists", "--force"]);
    wakepath(&["study", "new", "--from", "iowait-boost", "--force", &file]).success();
    let checked = json(&wakepath(&["study", "check", &file, "--format", "json"]));
    assert_eq!(checked["runs"], 80);
    assert!(checked["seconds"].as_f64().unwrap() > 0.0);
    wakepath(&["study", "new", "--force", &file]).success();
    for on in ["sim", "live"] {
        if on == "live" && is_missing("fio") {
            continue;
        }
        let checked = json(&wakepath(&[
            "study", "check", &file, "--on", on, "--format", "json",
        ]));
        assert_eq!(checked["runs"], 10);
    }
}

#[test]
fn every_built_in_study_can_be_simulated() {
    let list = json(&wakepath(&["study", "list", "--format", "json"]));
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 12);
    for study in list {
        let name = study["name"].as_str().unwrap();
        wakepath(&["study", "check", name]).success();
    }
}

#[test]
fn a_directory_does_not_hide_what_is_built_in() {
    let temp = tempfile::tempdir().unwrap();
    for name in ["iowait-boost", "iowait-rk3399.fio", "rk3399", "empty"] {
        fs::create_dir(temp.path().join(name)).unwrap();
    }
    written(temp.path(), STUDY);
    let check = |study: &str| {
        let mut command = assert_cmd::Command::cargo_bin("wakepath").unwrap();
        command
            .args(["study", "check", study, "--format", "json"])
            .current_dir(temp.path());
        command.assert()
    };
    assert_eq!(json(&check("iowait-boost").success())["runs"], 80);
    // Its workload and its machine.
    assert_eq!(json(&check("study.toml").success())["runs"], 16);
    fails_with(check("empty"), &["empty", "directory"]);
}

#[test]
fn what_is_wrong_with_a_study_is_one_line_with_its_place() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("results").display().to_string();
    let fails = |from: &str, to: &str, parts: &[&str]| {
        let study = written(temp.path(), &STUDY.replacen(from, to, 1));
        fails_with(wakepath(&["study", "run", &study, "-o", &dir]), parts);
        assert!(!Path::new(&dir).exists());
    };
    fails(
        "repeats",
        "repeat",
        &["study.toml:3: unknown key `repeat`", "`repeats`"],
    );
    fails(
        "'rk3399'",
        "'rk3388'",
        &["study.toml:2", "did you mean 'rk3399'"],
    );
    fails(
        "menu@6.12",
        "mneu",
        &["study.toml:13", "did you mean `menu`"],
    );
    fails(
        "menu@6.12",
        "menu + teo",
        &["study.toml:13", "are both idle policies"],
    );
    fails(
        "iowait-rk3399.fio",
        "part-b.fio",
        &["study.toml:6", "iowait-rk3399.fio"],
    );
    fails(
        "metric = 'iops'",
        "metric = 'iosp'",
        &["no metric is called `iosp`"],
    );
    fails(
        "name = 'shallowest'",
        "name = 'menu'",
        &["a second policy is called `menu`"],
    );
    fails(
        "fio = 'iowait-rk3399.fio'\nseconds = 2",
        "command = ['true']",
        &["cannot be simulated", "--on live"],
    );
    fails(
        "set = 'shallowest'",
        "set = 'idle-states[disable=C6]'",
        &["C6", "cpu-sleep"],
    );
    fails(
        "set = 'shallowest'",
        "settings = { epp = 'power' }",
        &["--on live"],
    );
    // What only the simulation finds out.
    let study = written(
        temp.path(),
        &STUDY.replace("set = 'shallowest'", "set = 'intel_pstate'"),
    );
    let refused = wakepath(&["study", "check", &study]);
    fails_with(refused, &["reads under shallowest", "intel_pstate needs"]);
    // Before anything runs, though the other policy's turn comes first.
    for (policy, part) in [
        ("set = 'oracle'", "cannot be known before"),
        ("set = 'apst'", "no power states"),
        ("set = 'intel_pstate'", "intel_pstate needs"),
        ("set = 'wakeup-latency[limit=20us]'", "real machines only"),
    ] {
        let study = written(temp.path(), &STUDY.replace("set = 'shallowest'", policy));
        for words in [
            &["study", "run", &study, "-o", &dir][..],
            &["study", "check", &study],
        ] {
            fails_with(wakepath(words), &["reads under shallowest", part]);
        }
        assert!(!Path::new(&dir).exists());
    }
}

#[test]
fn a_latency_request_leaves_the_shallowest_state() {
    let temp = tempfile::tempdir().unwrap();
    let limited = STUDY.replace("set = 'shallowest'", "set = 'cpu-latency[limit=0us]'");
    let study = written(temp.path(), &limited.replace("repeats = 4", "repeats = 1"));
    wakepath(&["study", "check", &study]).success();
    // No state would be left where even the shallowest one takes a microsecond to leave.
    let off = limited.replace(
        "cpu-latency[limit=0us]",
        "cpu-latency[limit=0us] + idle-states[disable=WFI]",
    );
    fs::write(&study, off).unwrap();
    wakepath(&["study", "check", &study]).success();
}

#[test]
fn a_latency_request_that_the_kernel_does_not_take_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    for cpus in ["", ",cpus=all"] {
        let set = |us: u64| format!("set = 'cpu-latency[limit={us}us{cpus}]'");
        let setting = |us: u64| STUDY.replace("set = 'shallowest'", &set(us));
        let study = written(temp.path(), &setting(2_147_483_647));
        let refused = wakepath(&["study", "check", &study]);
        fails_with(refused, &["study.toml:", "from 0us to 2147483646us"]);
        let study = written(temp.path(), &setting(20));
        wakepath(&["study", "check", &study]).success();
    }
}

#[test]
fn sets_of_the_command_line_stand_beside_those_of_the_study() {
    let temp = tempfile::tempdir().unwrap();
    let study = written(temp.path(), &SHORT.replace("repeats = 8", "repeats = 1"));
    let [first, again] = ["first", "again"].map(|n| temp.path().join(n));
    let run = |study: &str, dir: &Path, more: &[&str]| {
        let dir = dir.to_str().unwrap();
        wakepath(&[&["study", "run", study, "-o", dir], more].concat()).success();
    };
    run(&study, &first, &["--policy", "teo + psd", "--policy", ""]);
    let document: serde_json::Value =
        serde_json::from_slice(&fs::read(first.join("result.json")).unwrap()).unwrap();
    let names: Vec<&str> = document["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|policy| policy["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["menu", "shallowest", "teo + psd", "unchanged"]);
    // What is kept makes the same results again.
    run(first.join("study.toml").to_str().unwrap(), &again, &[]);
    assert_eq!(contents(&first), contents(&again));
    // Lines of errors are those of the file.
    let wrong = written(temp.path(), &SHORT.replace("menu@6.12", "mneu"));
    let line = |more: &[&str]| {
        let assert = wakepath(&[&["study", "check", &wrong], more].concat()).code(1);
        String::from_utf8(assert.get_output().stderr.clone()).unwrap()
    };
    assert_eq!(line(&[]), line(&["--policy", "teo"]));
    wakepath(&["study", "check", &study, "--policy", "tea"]).code(2);
}

/// A grid is every combination, and a set is its own name.
#[test]
fn policies_may_be_a_grid() {
    let temp = tempfile::tempdir().unwrap();
    let (head, _) = SHORT.split_once("[[policy]]").unwrap();
    let grid = "policy = [['menu', 'teo'], ['', 'psd']]\nbaseline = 'teo'\n";
    let study = written(temp.path(), &format!("{grid}{head}"));
    let checked = json(&wakepath(&["study", "check", &study, "--format", "json"]).success());
    let policies = checked["policies"].as_array().unwrap();
    let names: Vec<&str> = policies
        .iter()
        .map(|p| p["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["menu", "menu + psd", "teo", "teo + psd"]);
    assert_eq!(policies[3]["settings"]["policy"], "teo@6.12 + psd");
    assert_eq!(checked["baseline"], "teo");
}

#[test]
fn results_are_kept_unless_they_are_to_be_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let study = written(temp.path(), STUDY);
    let dir = temp.path().join("results").display().to_string();
    wakepath(&["study", "run", &study, "-o", &dir]).success();
    fails_with(
        wakepath(&["study", "run", &study, "-o", &dir]),
        &["--resume", "--force"],
    );
    let other = written(temp.path(), &STUDY.replace("repeats = 4", "repeats = 1"));
    fails_with(
        wakepath(&["study", "run", &other, "-o", &dir, "--resume"]),
        &["4 repeats", "wants 1", "takes none away"],
    );
    wakepath(&["study", "run", &other, "-o", &dir, "--force"]).success();
    let single = wakepath(&["compare", &dir]).success();
    let single = String::from_utf8(single.get_output().stdout.clone()).unwrap();
    assert!(
        single.contains("1 run(s): no interval can be given"),
        "{single}"
    );
    let document = Path::new(&dir).join("result.json");
    let text = fs::read_to_string(&document).unwrap();
    fs::write(
        &document,
        text.replacen("\"version\": 2", "\"version\": 9", 1),
    )
    .unwrap();
    fails_with(
        wakepath(&["compare", &dir]),
        &["schema version 9", "reads version 2"],
    );
    fails_with(
        wakepath(&["compare", temp.path().to_str().unwrap()]),
        &["neither a result directory"],
    );
}

#[test]
fn more_repeats_are_added_to_results_as_if_they_had_been_there_at_once() {
    let temp = tempfile::tempdir().unwrap();
    let [grown, at_once] = ["grown", "at-once"].map(|n| temp.path().join(n).display().to_string());
    let study = written(temp.path(), &SHORT.replace("repeats = 8", "repeats = 4"));
    wakepath(&["study", "run", &study, "-o", &grown]).success();
    let first = contents(Path::new(&grown));
    let study = written(temp.path(), SHORT);
    wakepath(&["study", "run", &study, "-o", &grown, "--resume"]).success();
    wakepath(&["study", "run", &study, "-o", &at_once]).success();
    let [grown_files, at_once] = [&grown, &at_once].map(|dir| contents(Path::new(dir)));
    assert!(grown_files == at_once, "{:?}", grown_files.keys());
    // The runs that were there have not been made again under other names.
    let run = "runs/000003.json";
    assert_eq!(first[run], grown_files[run]);
    // Anything else is still another study.
    let study = written(
        temp.path(),
        &SHORT.replace("repeats = 8", "repeats = 9\nseed = 2"),
    );
    fails_with(
        wakepath(&["study", "run", &study, "-o", &grown, "--resume"]),
        &["another study", "study.toml"],
    );
}

#[test]
fn a_page_is_not_written_to_standard_output() {
    let temp = tempfile::tempdir().unwrap();
    let study = written(temp.path(), SHORT);
    let dir = temp.path().join("results").display().to_string();
    wakepath(&["study", "run", &study, "-o", &dir]).success();
    let report = |page: &str| {
        let mut command = assert_cmd::Command::cargo_bin("wakepath").unwrap();
        command
            .args(["report", &dir, "-o", page])
            .current_dir(temp.path());
        command.assert()
    };
    fails_with(report("-"), &["--output -", "name a file", "./-"]);
    assert!(!temp.path().join("-").exists());
    report("./-").success();
    assert!(temp.path().join("-").exists());
}

#[test]
fn results_in_different_units_are_not_compared() {
    let temp = tempfile::tempdir().unwrap();
    let study = written(temp.path(), &STUDY.replace("repeats = 4", "repeats = 1"));
    let [before, after] = ["before", "after"].map(|n| temp.path().join(n).display().to_string());
    for dir in [&before, &after] {
        wakepath(&["study", "run", &study, "-o", dir]).success();
    }
    let document = Path::new(&after).join("result.json");
    let mut changed: serde_json::Value =
        serde_json::from_slice(&fs::read(&document).unwrap()).unwrap();
    let metrics = changed["metrics"].as_array_mut().unwrap();
    let latency = metrics.iter_mut().find(|m| m["name"] == "mean_us").unwrap();
    latency["unit"] = "ms".into();
    fs::write(&document, changed.to_string()).unwrap();
    fails_with(
        wakepath(&["compare", &before, &after]),
        &[
            "`mean_us` is in us in before",
            "in ms in after",
            "cannot be compared",
        ],
    );
    let page = temp.path().join("page.html").display().to_string();
    fails_with(
        wakepath(&["report", &before, &after, "-o", &page]),
        &["different units"],
    );
    assert!(!Path::new(&page).exists());
    // A result given twice would be as sure as twice as many runs.
    let same = format!("{after}/../before");
    fails_with(
        wakepath(&["compare", &before, &same]),
        &["before", "given twice"],
    );
}

#[test]
fn drawings_are_for_terminals_only() {
    let temp = tempfile::tempdir().unwrap();
    let study = written(temp.path(), STUDY);
    let dir = temp.path().join("results").display().to_string();
    wakepath(&["study", "run", &study, "-o", &dir]).success();
    let piped = wakepath(&["compare", &dir]).success();
    let piped = String::from_utf8(piped.get_output().stdout.clone()).unwrap();
    assert!(!piped.contains('█') && !piped.contains('\u{1b}'), "{piped}");
    // script runs a command on a terminal of its own.
    if is_missing("script") {
        return;
    }
    let shown = |columns: u32, variables: &[(&str, &str)]| {
        let program = env!("CARGO_BIN_EXE_wakepath");
        let command =
            format!("stty rows 40 cols {columns}; {program} compare {dir} --metric iops,mean_mw");
        let output = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env_remove("NO_COLOR")
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let wide = shown(120, &[]);
    assert!(wide.contains("reads: mean, and the runs from "), "{wide}");
    // More requests per second are better, more power is worse.
    assert!(
        wide.contains("\u{1b}[32m█") && wide.contains("\u{1b}[31m█"),
        "{wide}"
    );
    let plain = shown(120, &[("NO_COLOR", "1")]);
    assert!(plain.contains('█') && !plain.contains('\u{1b}'), "{plain}");
    let letters = shown(120, &[("LC_ALL", "C"), ("NO_COLOR", "1")]);
    assert!(
        letters.contains(" ####") && !letters.contains('█'),
        "{letters}"
    );
    let narrow = shown(50, &[("NO_COLOR", "1")]);
    assert!(
        narrow.contains("reads: mean\r\n") && narrow.contains('█'),
        "{narrow}"
    );
    let none = shown(30, &[]);
    assert!(!none.contains('█') && !none.contains('\u{1b}'), "{none}");
    assert!(!shown(120, &[("TERM", "dumb")]).contains('█'));
}

#[test]
fn a_job_without_an_end_takes_that_of_the_study() {
    let temp = tempfile::tempdir().unwrap();
    let text = "name = 'm'\nmachine = 'rk3399'\n[[policy]]\nname = 'p'\n[[workload]]\nname = 'w'\nseconds = 1\n\
                fio_job = \"\"\"[j]\nrw=randread\nfilename=/dev/nvme0n1\ndirect=1\"\"\"\n";
    wakepath(&["study", "check", &written(temp.path(), text)]).success();
    // What is wrong in the job itself has its line there.
    let wrong = text.replace("rw=randread", "rw=sideways");
    fails_with(
        wakepath(&["study", "check", &written(temp.path(), &wrong)]),
        &["fio_job of w:2"],
    );
}

#[test]
fn force_replaces_no_results_of_others() {
    let temp = tempfile::tempdir().unwrap();
    let theirs = temp.path().join("theirs");
    fs::create_dir_all(theirs.join("runs")).unwrap();
    fs::write(theirs.join("result.json"), "{\"score\": 7}").unwrap();
    fs::write(theirs.join("runs/1.json"), "{}").unwrap();
    let at = theirs.display().to_string();
    fails_with(
        wakepath(&["study", "run", "apst-rule", "-o", &at, "--force"]),
        &["result.json"],
    );
    assert!(theirs.join("runs/1.json").exists());
}

/// A fast job and an endless one, neither of which gets what it asks for, under policies that are the same.
const TOO_MUCH: &str = "name = 's'\nmachine = 'rk3399'\nrepeats = 4\n\
    [[workload]]\nname = '100 k/s'\n\
    fio_job = \"[r]\\nfilename=/dev/nvme0n1\\ndirect=1\\nrw=randread\\nrate_iops=100000\\nruntime=20ms\\ntime_based\"\n\
    [[workload]]\nname = 'endless'\n\
    fio_job = \"[e]\\nfilename=/dev/nvme0n1\\ndirect=1\\nrw=randread\\nsize=1t\\nrate_iops=1\"\n\
    [[policy]]\nname = 'menu'\nset = 'menu@6.12'\n\
    [[policy]]\nname = 'also menu'\nset = 'menu'\n";

#[test]
fn what_a_study_asked_for_and_did_not_get_is_told_everywhere() {
    let temp = tempfile::tempdir().unwrap();
    let study = written(temp.path(), TOO_MUCH);
    let dir = temp.path().join("results").display().to_string();
    let page = temp.path().join("page.html");
    let slow = "workload `100 k/s` does not reach the 100000 I/Os per second that it asks for: ";
    let cut = "workload `endless` was cut after 60 s with more to do";
    let told = |assert: assert_cmd::assert::Assert| {
        let output = assert.success().get_output().clone();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let run = told(wakepath(&["study", "run", &study, "-o", &dir]));
    let compared = told(wakepath(&["compare", &dir, "--metric", "iops"]));
    for said in [&run, &compared] {
        assert!(said.contains(slow), "{said}");
        assert!(said.contains(cut), "{said}");
    }
    assert!(
        run.contains("policies `menu` and `also menu` have the same settings"),
        "{run}"
    );
    told(wakepath(&["report", &dir, "-o", page.to_str().unwrap()]));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("100000 I&#x2f;Os per second that it asks for"));
    assert!(page.contains("was cut after 60 s"));
    // The results have what was asked for, and a directory makes them again whatever its workloads are called.
    let document = json(
        &wakepath(&[
            "study",
            "check",
            &format!("{dir}/study.toml"),
            "--format",
            "json",
        ])
        .success(),
    );
    assert_eq!(document["workloads"][0]["name"], "100 k/s");
    let document: serde_json::Value =
        serde_json::from_slice(&fs::read(Path::new(&dir).join("result.json")).unwrap()).unwrap();
    assert_eq!(
        document["workloads"][0]["rates"][0]["per_second"],
        100_000.0
    );
}

/// What a bare name means depends on the machine: results say what ran.
#[test]
fn a_bare_policy_is_labelled_as_the_version_that_ran_and_a_warm_up_is_left_out() {
    let temp = tempfile::tempdir().unwrap();
    let text = |machines: &str| {
        format!(
            "name = 's'\nmachine = {machines}\nrepeats = 1\npolicy = ['teo', 'teo@6.12', 'teo@6.18.8']\n\
             [[workload]]\nname = 'w'\nfio = 'iowait-rk3399.fio'\nseconds = 0.02\n\
             [[workload]]\nname = 'cold'\nfio = 'iowait-rk3399.fio'\nseconds = 0.02\nwarm_up_s = 0\n"
        )
    };
    let labels = |study: &str| {
        let checked = json(&wakepath(&["study", "check", study, "--format", "json"]).success());
        let policies = checked["policies"].as_array().unwrap().clone();
        let label =
            |policy: &serde_json::Value| policy["settings"]["policy"].as_str().unwrap().to_owned();
        policies.iter().map(label).collect::<Vec<_>>()
    };
    let both = written(temp.path(), &text("['spr1', 'rk3399']"));
    assert_eq!(labels(&both), ["teo", "teo@6.12", "teo@6.18.8"]);
    let study = written(temp.path(), &text("'spr1'"));
    assert_eq!(labels(&study), ["teo@6.18.8", "teo@6.12", "teo@6.18.8"]);
    let dir = temp.path().join("results");
    let run = wakepath(&["study", "run", &study, "-o", dir.to_str().unwrap()]).success();
    let said = String::from_utf8(run.get_output().stderr.clone()).unwrap();
    assert!(
        said.contains("`teo` and `teo@6.18.8` have the same settings"),
        "{said}"
    );
    assert!(!said.contains("`teo` and `teo@6.12` have"), "{said}");
    let result = fs::read_to_string(dir.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["workloads"][0]["warm_up_s"], 0.2);
    assert!(result["workloads"][1]["warm_up_s"].is_null());
    assert_eq!(result["machines"][0]["power_scope"], "package");
}
