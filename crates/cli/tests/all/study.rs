//! `wakepath study` and `wakepath compare` as whole commands: simulated, measured, interrupted, compared.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common;
use crate::common::files::contents;
use crate::common::{fails_with, json, skip, wakepath};

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

fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
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
        let mut child = start(&arguments);
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
        let mut child = start(&run("--force"));
        std::thread::sleep(Duration::from_millis(ms));
        kills += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        // Whatever runs are there are those of the study that the document names.
        let there = contents(&killed);
        let document = String::from_utf8_lossy(&there["result.json"]).into_owned();
        let of = if document.contains("epyc-7502") {
            &wanted
        } else {
            &old
        };
        let runs = there
            .iter()
            .filter(|(name, _)| name.starts_with("runs") && !name.contains(".unfinished-"));
        for (name, content) in runs {
            assert!(of[name] == *content, "{name} after {ms} ms");
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
    assert_eq!(list.len(), 11);
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
        ("set = 'frequency[max=1GHz]'", "real machines only"),
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

/// Whether a program is missing; says so if it is.
fn is_missing(program: &str) -> bool {
    let missing = Command::new(program).arg("--version").output().is_err();
    if missing {
        skip("study", &format!("{program} is not installed"));
    }
    missing
}

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
            let of = &printed["jobs"][job];
            let value = |metric: &str| {
                let rows = compared["rows"].as_array().unwrap().iter();
                let mut rows =
                    rows.filter(|r| r["metric"] == metric && r["workload"] == of["jobname"]);
                rows.next().unwrap()["mean"].as_f64().unwrap()
            };
            let clat = &of[direction]["clat_ns"]["percentile"];
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
            let iops = of[direction]["iops"].as_f64().unwrap();
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
    let of = |policy: &'static str| rows.iter().filter(move |r| r["policy"] == policy);
    assert!(of("json").count() >= 10 && of("json").count() == of("terse").count());
    for (json, terse) in of("json").zip(of("terse")) {
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
fn results_of_other_tools_can_be_compared() {
    let temp = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = temp.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let hyperfine = |times: &str| {
        format!(
            "{{\"results\": [{{\"command\": \"make\", \"times\": {times}, \"exit_codes\": [0,0,0,0]}}]}}"
        )
    };
    let before = file("before.json", &hyperfine("[2.0, 2.02, 1.98, 2.01]"));
    let after = file("after.json", &hyperfine("[1.0, 1.02, 0.98, 1.01]"));
    let compared = json(&wakepath(&["compare", &before, &after, "--format", "json"]));
    let row = &compared["rows"][1];
    assert_eq!(
        (&row["workload"], &row["policy"]),
        (&"make".into(), &"after".into())
    );
    assert!(
        (row["gain"]["percent"].as_f64().unwrap() - 50.0).abs() < 1.0,
        "{row}"
    );
    let log = |rate: f64| {
        (1..=6).fold(String::new(), |text, second| {
            let rate = rate + f64::from(second % 3) / 10.0;
            format!("{text}   1   {second}000   {rate:.2} MB/sec  execute   {second} sec   latency 0.900 ms\n")
        })
    };
    file("vanilla/iter-0/tbench4/logs/tbench-1.log", &log(497.8));
    file("polling/iter-0/tbench4/logs/tbench-1.log", &log(543.1));
    let [vanilla, polling] =
        ["vanilla", "polling"].map(|n| temp.path().join(n).display().to_string());
    let compared = json(&wakepath(&[
        "compare", &vanilla, &polling, "--format", "json",
    ]));
    let row = &compared["rows"][1];
    assert_eq!(row["workload"], "tbench 1 client(s)");
    assert!(
        (row["gain"]["percent"].as_f64().unwrap() - 9.1).abs() < 0.1,
        "{row}"
    );
    assert!(
        compared["notes"][0]
            .as_str()
            .unwrap()
            .contains("not independent")
    );
    // Impossible files.
    let failed = file(
        "failed.json",
        &hyperfine("[1.0]").replace("[0,0,0,0]", "[1]"),
    );
    fails_with(
        wakepath(&["compare", &failed]),
        &["failed.json", "'make' failed with 1"],
    );
    let other = file("other.json", "{}");
    fails_with(
        wakepath(&["compare", &other]),
        &["other.json", "neither fio's JSON"],
    );
    file("others/iter-0/ebizzy/logs/ebizzy-1-1.log", "1 records/s\n");
    let others = temp.path().join("others").display().to_string();
    fails_with(
        wakepath(&["compare", &others]),
        &["MMTests logs of ebizzy, which are not read", "hackbench"],
    );
    // What is cut off is an error, what is whole is read.
    file("damaged/iter-0/tbench4/logs/tbench-1.log.xz", "");
    let damaged = temp.path().join("damaged").display().to_string();
    fails_with(wakepath(&["compare", &damaged]), &["tbench-1.log.xz"]);
    for program in ["xz", "gzip"] {
        let log = temp.path().join("vanilla/iter-0/tbench4/logs/tbench-1.log");
        let bare = fs::read(&log).unwrap();
        assert!(Command::new(program).arg(&log).status().unwrap().success());
        assert!(!log.exists());
        let packed = wakepath(&["compare", &vanilla, &polling, "--format", "json"]);
        assert_eq!(&json(&packed)["rows"][1], row, "{program}");
        fs::remove_dir_all(log.parent().unwrap()).unwrap();
        fs::create_dir(log.parent().unwrap()).unwrap();
        fs::write(&log, bare).unwrap();
    }
    let missing = temp.path().join("nothing").display().to_string();
    fails_with(
        wakepath(&["compare", &missing]),
        &["nothing: no such result"],
    );
}

/// A page of these results.
fn page_of(folder: &Path, results: &[&str]) -> String {
    let page = folder.join("page.html").display().to_string();
    let arguments = [&["report"], results, &["--force", "-o", &page]].concat();
    wakepath(&arguments).success();
    fs::read_to_string(page).unwrap()
}

#[test]
fn what_differs_besides_policies_is_said() {
    let temp = tempfile::tempdir().unwrap();
    let run = |name: &str, study: &str| {
        let study = written(temp.path(), study);
        let dir = temp.path().join(name).display().to_string();
        wakepath(&["study", "run", &study, "-o", &dir]).success();
        dir
    };
    let board = run("board", SHORT);
    let same = run("same", &SHORT.replace("name = 's'", "name = 't'"));
    let server = run("server", &SHORT.replace("rk3399'", "epyc-7502'"));
    let job = run(
        "job",
        &SHORT.replace(
            "seconds = 0.02",
            "seconds = 0.02\nfio_options = { bs = '64k' }",
        ),
    );
    let drive = run(
        "drive",
        &SHORT.replace("repeats", "drive = 'sn530'\nrepeats"),
    );
    let other = run(
        "other",
        &SHORT
            .replace("name = 'w'", "name = 'v'")
            .replace("rk3399'", "epyc-7502'"),
    );
    // A file of one's own with the name of a built-in machine.
    let text = fs::read_to_string(Path::new(&board).join("machine.toml")).unwrap();
    fs::write(
        temp.path().join("own.toml"),
        text.replacen("title = \"", "title = \"My ", 1),
    )
    .unwrap();
    let own = run("own", &SHORT.replace("'rk3399'", "'own.toml'"));
    let machines = "the machines differ (rk3399 in board, epyc-7502 in server): what differs need not be the policies' doing";
    let workloads = "workload `w` is one thing in board and another in job: what";
    let drives = "the drives differ (";
    let models = "machine `rk3399` is one thing in board and another in own: what";
    let all = [machines, workloads, drives, models];
    for (results, wanted) in [
        (vec![&board, &same], vec![]),
        (vec![&board, &other], vec![]),
        (vec![&board, &server], vec![machines]),
        (vec![&board, &job], vec![workloads]),
        (vec![&board, &drive], vec![drives]),
        (vec![&board, &own], vec![models]),
        (
            vec![&board, &server, &job],
            vec![
                "(rk3399 in board, job, epyc-7502 in server)",
                "one thing in board, server and another in job",
            ],
        ),
    ] {
        let results: Vec<&str> = results.into_iter().map(String::as_str).collect();
        let table = wakepath(&[&["compare"], &results[..]].concat()).success();
        let table = String::from_utf8(table.get_output().stdout.clone()).unwrap();
        let compared = json(&wakepath(
            &[&["compare", "--format", "json"], &results[..]].concat(),
        ));
        let notes = compared["notes"].as_array().unwrap();
        assert_eq!(notes.len(), wanted.len(), "{notes:?}");
        let page = page_of(temp.path(), &results).replace("&#x27;", "'");
        for part in &wanted {
            assert!(table.contains(part), "{part} is not in {table}");
            assert!(
                notes.iter().any(|n| n.as_str().unwrap().contains(part)),
                "{notes:?}"
            );
        }
        for part in all {
            assert_eq!(
                wanted.contains(&part),
                table.contains(part),
                "{part}: {table}"
            );
        }
        assert_eq!(
            page.matches("need not be the policies' doing").count(),
            wanted.len()
        );
    }
}

#[test]
fn results_of_other_tools_make_a_page_with_what_they_allow() {
    if is_missing("fio") || is_missing("hyperfine") || is_missing("dbench") {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let run = |command: &str| {
        let done = Command::new("sh")
            .args(["-ec", command])
            .current_dir(temp.path())
            .output();
        let done = done.unwrap();
        assert!(
            done.status.success(),
            "{command}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    let at = |name: &str| temp.path().join(name).display().to_string();
    let fio = "fio --name=reads --rw=randread --size=1m --bs=4k --runtime=100ms --time_based --filename=data";
    run(&format!("{fio} --output-format=json+ --output=before.json"));
    run(&format!("{fio} --output-format=json+ --output=after.json"));
    let page = page_of(temp.path(), &[&at("before.json"), &at("after.json")]);
    for wanted in [
        "id=\"w0-distribution\"",
        "id=\"w0-percentiles\"",
        "1 run(s): no interval",
        "fio-3",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    // What the files say of themselves is not said twice.
    assert!(!page.contains("before (before)"));
    // The same job in terse output: the same numbers, in whole us.
    run(&format!(
        "{fio} --output-format=json,terse --output=both.txt"
    ));
    run("grep '^3;' both.txt > terse.txt; sed '/^3;/d' both.txt > both.json");
    let both = json(&wakepath(&[
        "compare",
        &at("both.json"),
        &at("terse.txt"),
        "--metric",
        "all",
        "--format",
        "json",
    ]));
    let rows = both["rows"].as_array().unwrap();
    let value = |policy: &str, metric: &str| {
        let found = rows
            .iter()
            .find(|r| r["policy"] == policy && r["metric"] == metric);
        found.unwrap()["mean"].as_f64().unwrap()
    };
    for metric in [
        "iops",
        "bandwidth_mbs",
        "mean_us",
        "p50_us",
        "p99_us",
        "max_us",
    ] {
        let [json, terse] = ["both", "terse"].map(|policy| value(policy, metric));
        let tolerance = (json * 0.01).max(1.0);
        assert!(
            (json - terse).abs() <= tolerance,
            "{metric}: {json} {terse}"
        );
    }
    run("hyperfine --runs 5 --export-json commands.json 'sleep 0.01' 'sleep 0.2' >/dev/null 2>&1");
    let page = page_of(temp.path(), &[&at("commands.json")]);
    assert!(page.contains("sleep 0.2") && page.contains("worse by"));
    // dbench itself says what its last second came to.
    run(
        "mkdir -p logs/iter-0/dbench4/logs data.d && cp /usr/share/dbench/client.txt . && \
         dbench -t 5 -c client.txt -D data.d 1 > logs/iter-0/dbench4/logs/dbench-1.log 2>&1",
    );
    let text =
        fs::read_to_string(temp.path().join("logs/iter-0/dbench4/logs/dbench-1.log")).unwrap();
    let printed = text
        .lines()
        .rev()
        .find_map(|l| l.strip_prefix("Throughput "));
    let printed: f64 = printed.unwrap().split(' ').next().unwrap().parse().unwrap();
    let csv = wakepath(&["compare", &at("logs"), "--format", "csv"]).success();
    let csv = String::from_utf8(csv.get_output().stdout.clone()).unwrap();
    assert!(
        csv.contains("bandwidth_mbs,MB/s,dbench 1 client(s),logs"),
        "{csv}"
    );
    let page = page_of(temp.path(), &[&at("logs")]);
    assert!(page.contains("not independent runs") && page.contains("dbench 1 client(s)"));
    assert!(printed > 0.0);
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

/// The lines of the README's block of commands that holds this.
fn readme_commands(mark: &str) -> Vec<String> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let mut blocks = readme
        .split("```sh\n")
        .skip(1)
        .map(|b| b.split("```").next().unwrap());
    let block = blocks.find(|b| b.contains(mark)).unwrap();
    block.lines().map(str::to_owned).collect()
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
fn the_readme_alone_leads_to_a_report() {
    let _machine = common::lock_machine();
    let temp = tempfile::tempdir().unwrap();
    let commands = readme_commands("study new");
    assert!(
        commands.iter().any(|c| c.starts_with("wakepath study run")),
        "{commands:?}"
    );
    typed(temp.path(), &commands);
    let page = fs::read_to_string(temp.path().join("report.html")).unwrap();
    assert!(page.contains("What is gained in requests per second?"));
    assert!(page.contains("better than all idle states by"));
    // The same on this machine.
    let qos = "/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us";
    if fs::OpenOptions::new().write(true).open(qos).is_err() {
        skip(
            "the_readme_alone_leads_to_a_report",
            "no right to change settings",
        );
        return;
    }
    if is_missing("fio") {
        return;
    }
    let commands = readme_commands("--on live");
    typed(temp.path(), &commands);
    let page = fs::read_to_string(temp.path().join("measured.html")).unwrap();
    assert!(page.contains("What is gained in requests per second?") && page.contains("measured"));
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

#[test]
fn the_demo_has_one_table_and_the_sentence_of_its_report() {
    let temp = tempfile::tempdir().unwrap();
    let study = common::repository().join("docs/examples/one-job.toml");
    let dir = temp.path().join("results").display().to_string();
    let page = temp.path().join("page.html").display().to_string();
    wakepath(&["study", "run", study.to_str().unwrap(), "-o", &dir]).success();
    let brief = wakepath(&["compare", &dir, "--brief"]).success();
    let brief = String::from_utf8(brief.get_output().stdout.clone()).unwrap();
    let [heading, "", _, _, "", answer] = brief.lines().collect::<Vec<_>>()[..] else {
        panic!("{brief}")
    };
    assert!(heading.starts_with("p99 latency"), "{brief}");
    let question = "Which setting answers 99 % of the reads fastest? ";
    let sentence = answer.strip_prefix(question).unwrap();
    assert!(
        sentence.contains(": better than menu (default) by "),
        "{sentence}"
    );
    wakepath(&["report", &dir, "-o", &page]).success();
    assert!(fs::read_to_string(page).unwrap().contains(sentence));
    fails_with(
        wakepath(&["compare", &dir, "--brief", "--format", "csv"]),
        &["--brief", "table and markdown"],
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
