//! A governor that was made worse on purpose looks worse in every table (docs/guides/own-governor.md), and the kernel's own C
//! gives what the policy of its version gives.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::processes::{running, script, wait};
use crate::common::{json, repository, skip};
use assert_cmd::Command;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use wakepath_conformance::{program::has_compiler, source};

/// A folder with what the page speaks of: the kernel's teo.c, and one that no longer sees that timers mislead it. None
/// where there is no compiler or no kernel source; the page's release comes with it.
fn folder(test: &str) -> Option<(TempDir, String)> {
    let source = has_compiler()
        .then(|| source::KernelSource::obtain_source("7.3", &source::source_cache_folder()).ok())
        .flatten();
    let Some(source) = source else {
        skip(test, "no gcc or no kernel source");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let governors = "drivers/cpuidle/governors";
    let teo = source.read_file(&format!("{governors}/teo.c")).unwrap();
    let rule = "if (2 * idx_intercept_sum > cpu_data->total - idx_hit_sum) {";
    assert_eq!(teo.matches(rule).count(), 1);
    let gov = source.read_file(&format!("{governors}/gov.h")).unwrap();
    let epyc = "crates/trace/tests/data/epyc7502-idle-wake-2500MHz.perf-script.txt";
    let job = fs::read_to_string(repository().join("docs/examples/nvme-pair.fio")).unwrap();
    let (study, worse) = (block("toml").concat(), teo.replace(rule, "if (0) {"));
    for (name, text) in [
        ("teo.c", &teo),
        ("mine.c", &worse),
        ("gov.h", &gov),
        ("job.fio", &job),
        ("own.toml", &study),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let epyc = repository().join(epyc).display().to_string();
    run(folder.path(), &["import", &epyc, "-o", "load.parquet"]).success();
    Some((folder, source.release))
}

fn run(folder: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wakepath"));
    command.args(arguments).current_dir(folder).assert()
}

/// The page's blocks of a language in section 2.
fn block(language: &str) -> Vec<String> {
    let page = fs::read_to_string(repository().join("docs/guides/own-governor.md")).unwrap();
    let section = page.split("\n## 2. ").nth(1).unwrap();
    let section = section.split("\n## 3. ").next().unwrap();
    let start = format!("```{language}\n");
    let blocks = section.split(&*start).skip(1);
    let text = |rest: &str| rest.split("```").next().unwrap_or_default().to_owned();
    blocks.map(text).collect()
}

/// The columns of the rows of a CSV table whose policy begins so.
fn rows<'a>(csv: &'a str, policy: &str) -> Vec<Vec<&'a str>> {
    let lines = csv.lines().skip(1).map(|line| line.split(',').collect());
    lines
        .filter(|row: &Vec<&str>| row.iter().any(|field| field.starts_with(policy)))
        .collect()
}

#[test]
fn the_page_shows_that_a_worse_governor_is_worse() {
    let Some((folder, _)) = folder("the_page_shows_that_a_worse_governor_is_worse") else {
        return;
    };
    let commands = block("sh").concat();
    assert_eq!(commands.lines().count(), 4);
    for command in commands.lines() {
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        let printed = run(folder.path(), &words).success();
        let printed = String::from_utf8_lossy(&printed.get_output().stdout).into_owned();
        // A study says where its tables are.
        let shows = command.contains("study run") || printed.contains("c:mine.c@");
        assert!(shows, "{command}: {printed}");
    }
    let of_sim = run(
        folder.path(),
        &[
            "sim",
            "job.fio",
            "--machine",
            "rk3399",
            "--policy",
            "c:teo.c",
            "--policy",
            "c:mine.c",
            "--format",
            "json",
        ],
    );
    let of_sim = json(&of_sim.success());
    let median = |index: usize, metric: &str| of_sim["results"][index][metric].as_f64().unwrap();
    assert!(
        median(1, "too_deep") > 2.0 * median(0, "too_deep"),
        "{of_sim}"
    );
    assert!(
        median(1, "mean_us") > 1.2 * median(0, "mean_us"),
        "{of_sim}"
    );
    let compared = run(
        folder.path(),
        &["compare", "own-results", "--format", "csv"],
    )
    .success();
    let compared = String::from_utf8_lossy(&compared.get_output().stdout).into_owned();
    let latency = rows(&compared, "c:mine.c@")
        .into_iter()
        .find(|row| row[0] == "mean_us");
    let verdict = latency.unwrap_or_else(|| panic!("{compared}")).join(",");
    assert!(verdict.contains("worse"), "{verdict}");

    // The results keep what was compiled, and run again from there.
    let results = folder.path().join("own-results");
    assert!(results.join("governors/mine.c").is_file());
    for file in ["teo.c", "mine.c", "gov.h"] {
        fs::remove_file(folder.path().join(file)).unwrap();
    }
    let again = ["study", "run", "own-results/study.toml", "-o", "again"];
    let refused = run(folder.path(), &again).failure();
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("--allow-programs runs it"), "{said}");
    let again = [&again[..], &["--allow-programs"]].concat();
    run(folder.path(), &again).success();
    let csv = |results: &str| {
        let printed = run(folder.path(), &["compare", results, "--format", "csv"]).success();
        String::from_utf8_lossy(&printed.get_output().stdout).into_owned()
    };
    assert_eq!(csv("own-results"), csv("again"));
    assert!(!rows(&csv("again"), "c:mine.c@").is_empty());
}

#[test]
fn the_kernels_own_c_gives_what_the_policy_of_its_version_gives() {
    let test = "the_kernels_own_c_gives_what_the_policy_of_its_version_gives";
    let Some((folder, release)) = folder(test) else {
        return;
    };
    let policies = [
        format!("teo@{release}"),
        "c:teo.c".to_owned(),
        "c:mine.c".to_owned(),
    ];
    let tables = |command: &[&str]| {
        let sets = policies.iter().flat_map(|set| ["--policy", set]);
        let arguments: Vec<&str> = command.iter().copied().chain(sets).collect();
        let printed = run(folder.path(), &arguments).success();
        String::from_utf8_lossy(&printed.get_output().stdout).into_owned()
    };
    for command in [
        &[
            "sim",
            "job.fio",
            "--machine",
            "rk3399",
            "--runs",
            "2",
            "--format",
            "csv",
        ][..],
        &[
            "replay",
            "load.parquet",
            "--machine",
            "epyc-7502",
            "--format",
            "csv",
        ],
    ] {
        let csv = tables(command);
        let without_name = |policy: &str| {
            let mut of_policy = rows(&csv, policy);
            for row in &mut of_policy {
                row.retain(|field| !field.starts_with(policy));
            }
            of_policy
        };
        let ours = without_name("teo@");
        assert!(!ours.is_empty(), "{csv}");
        assert_eq!(without_name("c:teo.c@"), ours, "{csv}");
        assert_ne!(without_name("c:mine.c@"), ours, "{csv}");
        // The same bytes again.
        assert_eq!(tables(command), csv);
    }
}

#[test]
fn what_is_wrong_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("no.c", "#include <linux/cpuidle.h>\nint x = y;\n");
    write(
        "job.fio",
        "[a]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\ntime_based\nruntime=1\n",
    );
    let fails = |policy: &str, says: &[&str]| {
        let arguments = ["sim", "job.fio", "--machine", "rk3399", "--policy", policy];
        let failed = run(folder.path(), &arguments).failure();
        let said = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
        for part in says {
            assert!(said.contains(part), "{said}");
        }
    };
    if has_compiler() {
        fails(
            "c:no.c",
            &[
                "--policy: `c:no.c`: it does not compile:\n  | no.c:2:",
                "'y' undeclared",
            ],
        );
    }
    fails("c:none.c", &["none.c is not there"]);
    fails("exec:job.fio", &["is not executable: chmod +x"]);
    fails("c:", &["a file has to follow, as in c:teo.c"]);
    let file = script(folder.path(), "read tick; read state; exit 7");
    fails(
        &file,
        &[
            "the governor `exec:x@",
            "it ended (exit status: 7) instead of answering",
        ],
    );
    let apply = run(folder.path(), &["apply", "c:no.c", "--dry-run"]).failure();
    let said = String::from_utf8_lossy(&apply.get_output().stderr).into_owned();
    assert!(said.contains("a governor is part of its kernel"), "{said}");
}

const BUSY_JOB: &str = "[j]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\nthinkcycles=2000000\ntime_based\nruntime=200ms\n";

/// The example's C, which takes the deepest state where its CPU was busy for more than this, of 1024.
fn deep_when_busy(above: u32) -> String {
    let example =
        fs::read_to_string(repository().join("crates/governors/examples/last-idle.c")).unwrap();
    let rule = "return max(chosen, 0);";
    assert!(example.contains(rule));
    let util = format!("sched_cpu_util(dev->cpu) > {above}");
    let busy = format!("return {util} ? drv->state_count - 1 : max(chosen, 0);");
    example.replace(rule, &busy).replace(
        "#include <linux/tick.h>",
        "#include <linux/sched.h>\n#include <linux/sched/topology.h>\n#include <linux/tick.h>",
    )
}

#[test]
fn c_code_sees_how_busy_its_cpu_was() {
    if !has_compiler() {
        skip("c_code_sees_how_busy_its_cpu_was", "no gcc");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    for above in [400, 1024] {
        write(&format!("above{above}.c"), &deep_when_busy(above));
    }
    write("busy.fio", BUSY_JOB);
    let idle = BUSY_JOB.replace("thinkcycles=2000000", "thinktime=3ms");
    write("idle.fio", &idle);
    let too_deep = |job: &str, above: u32| {
        let set = format!("c:above{above}.c + performance");
        let arguments = ["sim", job, "--machine", "rk3399", "--runs", "1"];
        let arguments = [&arguments[..], &["--format", "json", "--policy", &set]].concat();
        let printed = json(&run(folder.path(), &arguments).success());
        printed["results"][0]["too_deep"].as_f64().unwrap()
    };
    // The task computes for most of the time, so that its CPU is busy for more than 400 of 1024.
    let (at_400, never) = (too_deep("busy.fio", 400), too_deep("busy.fio", 1024));
    assert!(at_400 > 2.0 * never + 20.0, "{at_400} {never}");
    let idle = [400, 1024].map(|above| too_deep("idle.fio", above).to_bits());
    assert_eq!(idle[0], idle[1]);
}

/// Results keep the path and the hash of a program: another one is not taken for it.
#[test]
fn results_do_not_go_on_with_a_program_that_changed() {
    let folder = tempfile::tempdir().unwrap();
    let answers = "while read -r line; do case $line in select*) echo 0,0;; esac; done";
    let policy = script(folder.path(), answers);
    let study = format!(
        "name = \"own\"\nmachine = \"rk3399\"\nrepeats = 1\npolicy = [\"{policy}\"]\n\
         [[workload]]\nname = \"reads\"\nfio = \"job.fio\"\nseconds = 0.01\n"
    );
    fs::write(folder.path().join("own.toml"), study).unwrap();
    fs::write(folder.path().join("job.fio"), BUSY_JOB).unwrap();
    let study = |arguments: &[&str]| {
        run(
            folder.path(),
            &[&["study", "run", "--allow-programs"], arguments].concat(),
        )
    };
    study(&["own.toml", "-o", "res"]).success();
    let record = fs::read_to_string(folder.path().join("res/governors/x.sha256")).unwrap();
    let program = folder.path().join("x");
    assert!(
        record.ends_with(&format!("  {}\n", program.display())),
        "{record}"
    );
    // From the results alone, with the program where it was.
    study(&["res/study.toml", "-o", "again"]).success();
    study(&["own.toml", "-o", "res", "--resume"]).success();

    let changed = answers.replace("0,0", "1,1");
    script(folder.path(), &changed);
    let says = |done: assert_cmd::assert::Assert, part: &str| {
        let said = done.failure().get_output().stderr.clone();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains(part), "{said}");
    };
    says(
        study(&["own.toml", "-o", "res", "--resume"]),
        "the governor of your own in governors/x.sha256 differs",
    );
    says(
        study(&["res/study.toml", "-o", "third"]),
        "is another one now",
    );
    fs::remove_file(&program).unwrap();
    says(
        study(&["res/study.toml", "-o", "third"]),
        "there is no file",
    );
    fs::write(folder.path().join("res/governors/x.sha256"), "nonsense\n").unwrap();
    says(
        study(&["res/study.toml", "-o", "third"]),
        "expected a hash, two spaces and a path",
    );
}

fn nvme_pair() -> String {
    let job = repository().join("docs/examples/nvme-pair.fio");
    job.to_str().unwrap().to_owned()
}

/// The command that simulates a job once under a policy.
fn simulation<'a>(job: &'a str, policy: &'a str) -> [&'a str; 8] {
    [
        "sim",
        job,
        "--machine",
        "rk3399",
        "--runs",
        "1",
        "--policy",
        policy,
    ]
}

/// It took ten seconds for each of the six CPUs.
#[test]
fn a_silent_program_is_waited_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let policy = script(folder.path(), "exec sleep 100");
    let begun = Instant::now();
    let failed = run(folder.path(), &simulation(&nvme_pair(), &policy)).failure();
    let said = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(
        said.contains("no answer to question 1 within 10 s"),
        "{said}"
    );
    assert!(begun.elapsed() < Duration::from_secs(25), "{said}");
}

/// A call log says how busy the CPU was: it is, between its idle periods.
#[test]
fn a_program_is_told_how_busy_its_cpu_was() {
    let folder = tempfile::tempdir().unwrap();
    let policy = script(
        folder.path(),
        "busy=0\nwhile IFS=, read -r kind value rest; do case $kind in\n\
         utilisation) busy=$((value > 500));;\nselect) echo \"$busy,0\";;\nesac; done",
    );
    // Idle for 1 ms, busy for 200 ms, idle for 100 ms, busy for 1 ms.
    let log = "9000000,4000000,0,2147483647000,0,100000000,101000000,1000000,0,0\n\
               9000000,4000000,0,2147483647000,0,301000000,401000000,100000000,0,0\n\
               9000000,4000000,0,2147483647000,0,402000000,403000000,1000000,0,0\n";
    fs::write(folder.path().join("calls.csv"), log).unwrap();
    let states = repository().join("docs/examples/skylake.csv");
    let states = states.to_str().unwrap();
    let answers = run(
        folder.path(),
        &[
            "policy",
            "idle",
            "--governor",
            &policy,
            "--states",
            states,
            "calls.csv",
        ],
    )
    .success();
    let answers = String::from_utf8_lossy(&answers.get_output().stdout).into_owned();
    assert_eq!(answers, "0,0\n1,0\n0,0\n");
}

/// Ctrl-C ends a run whose governor does not answer, and the governor with it.
#[test]
fn an_interrupt_ends_a_run_whose_governor_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let mark = format!("{}.25", 800_000 + std::process::id());
    let policy = script(
        folder.path(),
        &format!("setsid sleep {mark} & exec sleep {mark}"),
    );
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .args(simulation(&nvme_pair(), &policy))
        .current_dir(folder.path())
        .stderr(fs::File::create(folder.path().join("said")).unwrap())
        .spawn()
        .unwrap();
    wait(&mut || running(&mark) >= 2);
    let told = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    wait(&mut || child.try_wait().unwrap().is_some());
    assert!(
        told.elapsed() < Duration::from_secs(5),
        "{:?}",
        told.elapsed()
    );
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let said = fs::read_to_string(folder.path().join("said")).unwrap();
    for part in [
        "interrupted; 0 of 1",
        "`exec:x@",
        "interrupted while it had not answered question 1 for",
    ] {
        assert!(said.contains(part), "{said}");
    }
    wait(&mut || running(&mark) == 0);
}

/// Also what has left its group and its session.
#[test]
fn nothing_outlives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mark = format!("{}.75", 900_000 + std::process::id());
    let away = format!("setsid sh -c 'sleep {mark}' & setsid sleep {mark} & sleep {mark}");
    let policy = script(folder.path(), &away);
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .args(simulation(&nvme_pair(), &policy))
        .current_dir(folder.path())
        .spawn()
        .unwrap();
    wait(&mut || running(&mark) >= 3);
    child.kill().unwrap();
    child.wait().unwrap();
    wait(&mut || running(&mark) == 0);
}

/// A study with these policies, beside its job.
fn study_with(folder: &Path, policies: &str) {
    let study = format!(
        "name = \"own\"\nmachine = \"rk3399\"\nrepeats = 2\npolicy = [{policies}]\n\
         [[workload]]\nname = \"reads\"\nfio = \"job.fio\"\nseconds = 0.01\n"
    );
    fs::write(folder.join("own.toml"), study).unwrap();
    fs::write(folder.join("job.fio"), BUSY_JOB).unwrap();
}

#[test]
fn a_study_of_somebody_else_runs_nothing_unless_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let policy = script(folder.path(), "exit 3");
    let endless = "#include <linux/cpuidle.h>\nstatic int init_it(void)\n{\n\tfor (;;)\n\t\tbarrier();\n}\npostcore_initcall(init_it);\n";
    fs::write(folder.path().join("endless.c"), endless).unwrap();
    let c = if has_compiler() {
        ", \"c:endless.c\""
    } else {
        ""
    };
    study_with(folder.path(), &format!("\"menu\", \"{policy}\"{c}"));
    let study = |arguments: &[&str]| {
        let done = run(folder.path(), &[&["study"], arguments].concat());
        let said = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        (done.get_output().status.success(), said)
    };
    let begun = Instant::now();
    assert!(study(&["check", "own.toml"]).0);
    assert!(begun.elapsed() < Duration::from_secs(20));
    let (ran, said) = study(&["run", "own.toml"]);
    assert!(
        !ran && said.contains("this study runs code that its file names: exec:x@"),
        "{said}"
    );
    assert!(!folder.path().join("own-sim").exists());
    let (ran, said) = study(&["run", "own.toml", "--allow-programs"]);
    assert!(!ran && said.contains("it ended (exit status: 3)"), "{said}");
    // What is typed is the user's own.
    study_with(folder.path(), "\"menu\"");
    let (ran, said) = study(&["run", "own.toml", "-o", "typed", "--policy", &policy]);
    assert!(!ran && said.contains("it ended (exit status: 3)"), "{said}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    if !has_compiler() {
        skip("the_number_of_threads_changes_nothing", "no gcc");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("job.fio"), BUSY_JOB).unwrap();
    let example = repository().join("crates/governors/examples/last-idle.c");
    let policy = format!("c:{}", example.display());
    let printed = ["1", "2", "5"].map(|jobs| {
        let arguments = [
            "sim",
            "job.fio",
            "--machine",
            "xeon-6741p",
            "--seconds",
            "0.02",
            "--runs",
            "9",
        ];
        let rest = ["--jobs", jobs, "--format", "json", "--policy", &policy];
        let done = run(folder.path(), &[&arguments[..], &rest].concat()).success();
        done.get_output().stdout.clone()
    });
    assert!(printed[0] == printed[1] && printed[1] == printed[2]);
}

#[test]
fn a_machine_with_many_cpus_needs_no_raised_limit() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("job.fio"), BUSY_JOB).unwrap();
    let answers = "while read -r line; do case $line in select*) echo 0,0;; esac; done";
    let policy = script(folder.path(), answers);
    let limited = |limit: &str| {
        let program = env!("CARGO_BIN_EXE_wakepath");
        let command = format!(
            "ulimit {limit} 64 && {program} sim job.fio --machine xeon-6741p --seconds 0.01 --runs 1 --policy {policy}"
        );
        let mut shell = std::process::Command::new("sh");
        let done = shell
            .args(["-c", &command])
            .current_dir(folder.path())
            .output()
            .unwrap();
        (
            done.status.success(),
            String::from_utf8_lossy(&done.stderr).into_owned(),
        )
    };
    let (ran, said) = limited("-Sn");
    assert!(ran, "{said}");
    let (ran, said) = limited("-n");
    assert!(
        !ran && said.contains("too many open files") && said.contains("--jobs 1"),
        "{said}"
    );
}

#[test]
fn a_governor_of_ones_own_stands_beside_those_of_several_kernels() {
    if !has_compiler() {
        skip(
            "a_governor_of_ones_own_stands_beside_those_of_several_kernels",
            "no gcc",
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace =
        repository().join("crates/trace/tests/data/epyc7502-idle-wake-2500MHz.perf-script.txt");
    run(
        folder.path(),
        &["import", trace.to_str().unwrap(), "-o", "load.parquet"],
    )
    .success();
    let example = repository().join("crates/governors/examples/last-idle.c");
    let policy = format!("c:{}", example.display());
    let replay = |sets: &[&str]| {
        let arguments = [
            "replay",
            "load.parquet",
            "--machine",
            "epyc-7502",
            "--format",
            "csv",
        ];
        let kernels = ["--kernel", "6.1,6.12"];
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--policy", set]).collect();
        run(folder.path(), &[&arguments[..], &kernels, &sets].concat())
    };
    let done = replay(&["menu", &policy]).success();
    let csv = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
    let names: std::collections::BTreeSet<&str> = csv
        .lines()
        .flat_map(|line| line.split(','))
        .filter(|field| field.starts_with("menu@") || field.starts_with("c:"))
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let refused = replay(&[&policy]).failure();
    let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
    assert!(said.contains("there is none of a kernel"), "{said}");
}
