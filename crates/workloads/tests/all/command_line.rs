//! Holds the reading of fio's command line, and of figures of the machine, against fio itself.

#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::process::{Command, Output};

use wakepath_workloads::fio::{self, FioSurroundings, MachineFigures, Size};

use crate::against_fio::fio_is_here;

fn run_fio(args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    Command::new("fio")
        .args(args)
        .current_dir(folder.path())
        .output()
        .unwrap()
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Numbers that fio reads from its arguments, in their order; `None` if it refuses them.
fn numbers_read_by_fio(args: &[&str]) -> Option<Vec<u64>> {
    let args = [&["--parse-only", "--debug=parse"], args].concat();
    let output = run_fio(&args);
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers = text.lines().filter_map(|line| {
        let (_, number) = line.split_once("ret=0, out=")?;
        number.trim().parse().ok()
    });
    Some(numbers.collect())
}

/// The last number that fio reads from a job file with this line.
fn number_read_by_fio(line: &str) -> Option<u64> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fio");
    std::fs::write(&path, format!("[a]\nfilesize=1m\n{line}\n")).unwrap();
    let numbers = numbers_read_by_fio(&[path.to_str().unwrap()])?;
    (numbers.len() > 1).then(|| numbers[numbers.len() - 1])
}

#[test]
fn a_command_line_and_its_job_file_are_the_same_numbers() {
    if !fio_is_here("a_command_line_and_its_job_file_are_the_same_numbers") {
        return;
    }
    for line in [
        "--bs=8k --rw=randread --name=a --size=1m --name=b --size=2m --bs=4k",
        "--name=a --size=1m --name b --size 2m --bs 16k",
        "--name=global --bs=8k --name=a --size=1m",
        "--size=1m --name=a --numjobs=2 --name=global --size=3m --name=b --iodepth=7",
        "-bs=2k -name=a -size 5m --time_based --runtime=3",
        "--name=a --norandommap --stonewall --size=1m --group_reporting --direct 1",
        "--name=a --bssplit=4k/50:8k/50 --size=6m --rate=1m,2m",
        "--name=a --ioengine=io_uring --fixedbufs --size=7m --verify=crc32c --zero_buffers",
    ] {
        let command: Vec<&str> = line.split_whitespace().collect();
        let text = fio::job_file_text_of_command_line(&words(line)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.fio");
        std::fs::write(&path, &text).unwrap();
        // fio reads the options of an engine last in a file.
        let mut of_command = numbers_read_by_fio(&command).unwrap_or_else(|| panic!("{line}"));
        let mut of_file = numbers_read_by_fio(&[path.to_str().unwrap()]).unwrap();
        of_command.sort_unstable();
        of_file.sort_unstable();
        assert!(of_command.len() > 1, "{line}");
        assert_eq!(of_command, of_file, "{line}\n{text}");
    }
}

#[test]
fn options_without_a_word_are_fios() {
    if !fio_is_here("options_without_a_word_are_fios") {
        return;
    }
    let help = run_fio(&["--cmdhelp=all"]);
    let help = String::from_utf8_lossy(&help.stdout);
    let has = |name: &str| help.split_whitespace().any(|word| word == name);
    let mut flags = 0;
    for (number, (option, _)) in fio::known_options().enumerate() {
        let line = format!("--name=a --{option} --size=bogus");
        let text = fio::job_file_text_of_command_line(&words(&line)).unwrap();
        let ours = text.lines().any(|line| line == option);
        // fio takes some time to start: of the many options with a value, one in six is tried.
        let is_tried = ours || number.is_multiple_of(6);
        let is_of_engine =
            ["hipri", "sqthread_poll", "fixedbufs", "registerfiles"].contains(&option);
        if !is_tried || !(has(option) || is_of_engine) {
            continue;
        }
        // An option with a value takes the faulty size as its value.
        let flag = format!("--{option}");
        let output = run_fio(&[
            "--name=a",
            "--ioengine=io_uring",
            &flag,
            "--size=bogus",
            "--parse-only",
        ]);
        let refusal = String::from_utf8_lossy(&output.stderr);
        let fios = refusal.contains("failed parsing size=bogus");
        assert_eq!(ours, fios, "--{option}");
        flags += u32::from(fios);
    }
    assert!(flags > 12, "only {flags}");
}

#[test]
fn arithmetic_is_fios() {
    if !fio_is_here("arithmetic_is_fios") {
        return;
    }
    if Command::new("bc").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
            "fio computes with bc (Debian package bc)"
        );
        eprintln!("skipped: arithmetic_is_fios: fio computes with bc, which is not installed");
        return;
    }
    let figure = |word: &str| number_read_by_fio(&format!("size={word}")).unwrap();
    let surroundings = FioSurroundings {
        machine: Some(MachineFigures {
            cpus: figure("$ncpus"),
            memory_mib: figure("$mb_memory"),
            page_bytes: figure("$pagesize"),
        }),
        ..FioSurroundings::default()
    };
    for (value, computed) in [
        ("4*1024", true),
        ("4+1", true),
        ("(4*1024)", false),
        ("$pagesize", true),
        ("$pagesize*4", true),
        ("4*$pagesize", true),
        ("$mb_memory/1024", true),
        ("$mb_memory*1024*1024", true),
        ("$mb_memory/8*7", true),
        ("7*$mb_memory/8", true),
        ("$pagesize+4k", false),
        ("$pagesize+4", true),
        ("$mb_memorym", true),
        ("$ncpusk", true),
        ("$ncpus*$pagesize", true),
        ("(2*$pagesize)", true),
        ("2*($pagesize+1)", true),
        ("$pagesize-1", true),
        ("$pagesize *4", true),
        ("2k*$ncpus", false),
        ("$pagesize/0", false),
        ("$ncpus*0x10", false),
    ] {
        let line = format!("size={value}");
        let theirs = number_read_by_fio(&line);
        let text = format!("[a]\ndirect=1\n{line}\n");
        let ours = fio::parse_in_surroundings(&text, "t.fio", &surroundings)
            .ok()
            .filter(|file| file.unmodelled.is_empty())
            .and_then(|file| match file.jobs[0].size {
                Some(Size::Bytes(bytes)) => Some(bytes),
                _ => None,
            });
        assert_eq!(ours, theirs, "{line}");
        assert_eq!(ours.is_some(), computed, "{line}");
    }
}
