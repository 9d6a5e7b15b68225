//! Governors of one's own: they decide as they should, and what is wrong with one is one clear error.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::compiler::has_gcc;
use crate::processes::{running, script, wait};
use wakepath_governors::load_governor;
use wakepath_hardware::{IdleState, IdleStates};
use wakepath_policies::idle::{Governor, IdleDecision, IdleGovernor, IdleOutcome, IdleQuery};
use wakepath_units::{Nanoseconds, TickRate};

fn states() -> IdleStates {
    let table = [(0, 0), (2, 2), (10, 20), (133, 600), (300, 2_000)];
    let state = |(index, (exit, residency)): (usize, (u64, u64))| IdleState {
        name: format!("C{index}"),
        exit_latency: Nanoseconds(exit * 1000),
        target_residency: Nanoseconds(residency * 1000),
        polling: index == 0,
        disabled: false,
    };
    IdleStates::new(table.into_iter().enumerate().map(state).collect()).unwrap()
}

/// The governor of a policy.
fn governor(policy: &str, base: &Path) -> Result<Governor, String> {
    let set = load_governor(policy.parse().unwrap(), base, false).map_err(|e| e.to_string())?;
    Ok(Governor::new(
        &set.idle().unwrap(),
        &states(),
        TickRate::HZ_250,
    ))
}

/// What it decides over a load of its own, and why it stopped, if it did.
fn decisions(mut governor: Governor, count: u64) -> (Vec<IdleDecision>, Option<String>) {
    let mut random = 1_u64;
    let mut next = |most: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % most
    };
    let mut clock = 0;
    let mut all = Vec::new();
    for call in 0..count {
        let timer = next(8_000_000) as i64 - 1000;
        let query = IdleQuery {
            sleep_length: timer,
            delta_tick: timer.min(next(4_000_000) as i64),
            tick_stopped: next(3) == 0,
            latency_request: if next(5) == 0 {
                50_000
            } else {
                2_147_483_647_000
            },
            nr_iowait: next(2) as u32,
            clock,
            ..IdleQuery::default()
        };
        if call == count / 2 {
            governor.set_state_disabled(3, true);
        }
        let decision = governor.select(&query);
        // Short idle periods and long ones.
        let most = [2_000, 30_000, 800_000, 6_000_000][next(4) as usize];
        let length = next(most);
        clock += length;
        let outcome = IdleOutcome {
            clock,
            residency: if next(20) == 0 { 0 } else { length + 1 },
            got_tick: next(4) == 0,
            poll_limit_hit: false,
        };
        governor.reflect(decision.state, &outcome);
        all.push(decision);
    }
    let failure = governor.failure_reason().map(str::to_owned);
    (all, failure)
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// What cargo built of examples/last-idle.rs for these tests.
fn built_example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().join("examples/last-idle")
}

#[test]
fn c_code_and_a_program_of_one_rule_decide_alike() {
    if !has_gcc() {
        return;
    }
    let c = governor("c:last-idle.c", &examples()).unwrap();
    let program = format!("exec:{}", built_example().display());
    let program = governor(&program, Path::new("/")).unwrap();
    let (of_c, failure) = decisions(c, 3000);
    assert_eq!(failure, None);
    let (of_program, failure) = decisions(program, 3000);
    assert_eq!(failure, None);
    assert_eq!(of_c, of_program);
    for state in 0..5 {
        let of_state = of_c.iter().filter(|d| d.state == state).count();
        assert!(of_state > 50, "{of_state} of state {state}");
    }
    let later = of_c[1500..].iter().filter(|d| d.state == 3).count();
    assert_eq!(later, 0, "a state that was switched off");
    // The same again.
    let again = governor("c:last-idle.c", &examples()).unwrap();
    assert_eq!(decisions(again, 3000).0, of_c);
}

#[test]
fn a_governor_need_not_reflect_but_select() {
    if !has_gcc() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let registers = |members: &str| {
        let text = format!(
            "#include <linux/cpuidle.h>\n#include <linux/module.h>\n\
             static __maybe_unused int first(struct cpuidle_driver *d, struct cpuidle_device *v, bool *stop)\n\
             {{\n\treturn 1;\n}}\n\
             static struct cpuidle_governor it = {{ .name = \"it\", {members} }};\n\
             static int __init init_it(void)\n{{\n\treturn cpuidle_register_governor(&it);\n}}\n\
             postcore_initcall(init_it);\n"
        );
        fs::write(folder.path().join("x.c"), text).unwrap();
        governor("c:x.c", folder.path()).map(|governor| decisions(governor, 20))
    };
    let (all, failure) = registers(".select = first").unwrap();
    assert_eq!(failure, None);
    assert!(all.len() == 20 && all.iter().all(|decision| decision.state == 1));
    let why = match registers("") {
        Err(why) => why,
        Ok((_, failure)) => failure.unwrap_or_default(),
    };
    assert!(why.contains("did not register itself"), "{why}");
}

#[test]
fn a_name_has_the_hash_of_the_content() {
    if !has_gcc() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(examples().join("last-idle.c")).unwrap();
    let name = |text: &str, policy: &str| {
        fs::write(folder.path().join("a.c"), text).unwrap();
        let set = load_governor(policy.parse().unwrap(), folder.path(), false);
        set.map(|set| set.to_string()).map_err(|e| e.to_string())
    };
    let first = name(&text, "c:./a.c + schedutil").unwrap();
    assert_eq!(name(&text, "c:a.c + schedutil").unwrap(), first);
    assert_eq!(name(&text, &first).unwrap(), first);
    let changed = text.replace("ns <= expected", "ns < expected");
    assert_ne!(changed, text);
    assert_ne!(name(&changed, "c:a.c + schedutil").unwrap(), first);
    let error = name(&changed, &first).unwrap_err();
    assert!(
        error.contains("is another one now: its hash begins with"),
        "{error}"
    );
}

/// The example with another rule in its line 39.
fn c_with(folder: &Path, rule: &str) {
    let text = fs::read_to_string(examples().join("last-idle.c")).unwrap();
    let (before, after) = text.split_once("\t*stop_tick =").unwrap();
    let text = format!("{before}\t{rule}\n\t*stop_tick ={after}");
    fs::write(folder.join("x.c"), text).unwrap();
}

#[test]
fn c_code_that_is_wrong_is_one_error() {
    if !has_gcc() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let fails = |rule: &str| {
        c_with(folder.path(), rule);
        let started = Instant::now();
        let why = match governor("c:x.c", folder.path()) {
            Err(why) => why,
            Ok(governor) => decisions(governor, 200).1.unwrap_or_default(),
        };
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{rule} took too long"
        );
        why
    };
    for (rule, says) in [
        ("chosen = chosn;", "x.c:4"),
        ("chosen = chosn;", "'chosn' undeclared"),
        ("if (1) {", "does not compile"),
        (
            "chosen = frobnicate();",
            "implicit declaration of function 'frobnicate'",
        ),
        (
            "*(volatile int *)8 = 1;",
            "it used memory that is not its own",
        ),
        (
            "{ volatile int none = 0; chosen /= none; }",
            "it divided by zero",
        ),
        (
            "for (;;) { volatile int x = 0; (void)x; }",
            "a loop without an end",
        ),
        ("chosen = 7;", "it chose idle state 7 and the CPU has 5"),
        ("return -3;", "it chose idle state -3"),
        (
            "{ extern int getppid(void); chosen = getppid(); }",
            "x.c:(.text",
        ),
    ] {
        let why = fails(rule);
        assert!(why.contains(says), "{rule}: {why}");
    }
    fs::write(
        folder.path().join("x.c"),
        "#include <linux/cpuidle.h>\nint x;\n",
    )
    .unwrap();
    let why = governor("c:x.c", folder.path()).unwrap_err();
    assert!(why.contains("registers no governor"), "{why}");
    for (policy, says) in [
        ("c:y.c", "is not there; name the C file of a governor"),
        ("c:.", "a folder, and no kernel tree"),
        ("exec:y", "there is no file"),
        ("exec:x.c", "is not executable: chmod +x"),
        ("exec:.", "is no file"),
    ] {
        let why = governor(policy, folder.path()).unwrap_err();
        assert!(why.contains(says), "{policy}: {why}");
    }
    fs::write(folder.path().join("empty.c"), "").unwrap();
    let why = governor("c:empty.c", folder.path()).unwrap_err();
    assert!(why.contains("is empty"), "{why}");
}

#[test]
fn a_program_that_is_wrong_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let answer = |what: &str| {
        format!(
            "while IFS=, read -r kind rest; do if [ \"$kind\" = select ]; then {what}; fi; done"
        )
    };
    for (text, says) in [
        (
            "exit 3",
            "it ended (exit status: 3) instead of answering question 1",
        ),
        ("echo oh no >&2; exit 1", "it said: oh no"),
        (
            "ulimit -t 1; while :; do :; done",
            "it ended (signal: 9 (SIGKILL))",
        ),
        (&*answer("echo deep"), "it answered `deep` to question 1"),
        (&answer("echo 1"), "Expected one line such as 2,1"),
        (
            &answer("echo 9,1"),
            "it chose idle state 9 and the CPU has 5",
        ),
        (&answer("printf '1,0\\n2,0\\n'"), "question"),
        (&answer("echo 1,0; exit"), "instead of answering question 2"),
        (&answer("head -c 1000 /dev/zero"), "it answered `\\u{0}"),
        ("sleep 60 & sleep 60", "What was not answered: `select,"),
        (
            &answer("printf 1; sleep 60"),
            "it began to answer `1`, without the end of the line",
        ),
        (
            "exec 1>&- 0<&-; sleep 60",
            "it closed its output instead of answering question 1",
        ),
    ] {
        script(folder.path(), text);
        let started = Instant::now();
        let governor = governor("exec:x", folder.path()).unwrap();
        let why = decisions(governor, 50).1.unwrap_or_default();
        // A busy machine does not give the loop a second of processor time in 10 s.
        let is_starved = text.starts_with("ulimit -t 1") && why.contains("no answer to question 1");
        assert!(why.contains(says) || is_starved, "{text}: {why}");
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "{text} took too long"
        );
    }
    fs::write(folder.path().join("x"), "\u{7f}ELF, and no more").unwrap();
    let broken = governor("exec:x", folder.path()).unwrap();
    assert!(decisions(broken, 2).1.is_some());
}

/// What a governor started ends with it.
#[test]
fn nothing_is_left_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let mark = format!("{}.5", 700_000 + std::process::id());
    script(
        folder.path(),
        &format!("sleep {mark} &\nread tick\necho 0,0\nsleep {mark}"),
    );
    let mut governor = governor("exec:x", folder.path()).unwrap();
    governor.select(&IdleQuery::default());
    assert_eq!(governor.failure_reason(), None);
    wait(&mut || running(&mark) == 2);
    drop(governor);
    wait(&mut || running(&mark) == 0);
}

/// The program to which docs/guides/own-governor.md leads, and the exchange on that page.
#[test]
fn the_pages_program_answers_as_the_page_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/own-governor.md");
    let page = fs::read_to_string(page).unwrap();
    let block = |start: &str| {
        let rest = page.split(&format!("```{start}\n")).nth(1).unwrap();
        rest.split("```").next().unwrap().to_owned()
    };
    let program = examples().join("first-timer.py");
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: no python3");
        return;
    }
    let mut child = Command::new("python3")
        .arg(&program)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut told, mut answers) = (String::new(), String::new());
    for line in block("text").lines() {
        let (to, line) = line.split_at(2);
        let side = if to == "< " { &mut told } else { &mut answers };
        side.push_str(line);
        side.push('\n');
    }
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, told.as_bytes()).unwrap();
    drop(input);
    let printed = child.wait_with_output().unwrap().stdout;
    assert_eq!(String::from_utf8(printed).unwrap(), answers);
    let governor = governor("exec:first-timer.py", &examples()).unwrap();
    let (all, failure) = decisions(governor, 200);
    assert_eq!(failure, None);
    assert!(
        all.iter()
            .any(|decision| decision.state > 0 && decision.stop_tick)
    );
}
