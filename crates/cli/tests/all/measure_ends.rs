//! Measurements that are killed, and full disks: nothing is left behind, and one error says what to do.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::Duration;

use wakepath_hardware::Machine;

use crate::common::captured::{content, different};
use crate::common::processes::wait;
use crate::common::systemd_guest::SystemdGuest;
use crate::common::{fails_with, lock_machine, repository, skip, start_silently, wakepath};
use crate::measure::{has_no_idle_states, limits, settings};
use crate::persist_rig::{VALUES, installed_guest};

/// Bytes of a test file.
const BYTES: u64 = 16 << 20;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// A file with data on the drive.
fn write_data(folder: &Path) -> String {
    let path = folder.join("data");
    let mut word = 1_u64;
    let words = (0..BYTES / 8).flat_map(|_| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        word.to_le_bytes()
    });
    fs::write(&path, words.collect::<Vec<u8>>()).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    path.display().to_string()
}

/// Whether a process has a file open below a folder whose name ends so.
fn has_open(child: &Child, folder: &Path, ending: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{}/fd", child.id())) else {
        return false;
    };
    files.flatten().any(|file| {
        let target = fs::read_link(file.path()).unwrap_or_default();
        target.starts_with(folder) && target.to_string_lossy().ends_with(ending)
    })
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9)
    );
}

/// Runs a command with no file larger than so many KiB.
fn run_with_small_files(kib: u64, arguments: &[&str]) -> Output {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("ulimit -f {kib}; exec \"$0\" \"$@\"")]);
    shell.arg(env!("CARGO_BIN_EXE_wakepath")).args(arguments);
    shell.env("WAKEPATH_HERE", "").output().unwrap()
}

/// Messages of the system's errors, such as `(os error 27)`; notes on what could not be measured are none.
fn find_errors(said: &str) -> Vec<&str> {
    let lines = said.lines();
    let errors = lines.filter(|line| !line.starts_with("wakepath: note: "));
    errors.filter(|line| line.contains("(os error ")).collect()
}

#[test]
fn a_killed_measurement_of_a_drive_leaves_no_file() {
    let _machine = lock_machine();
    let folder = folder();
    let at = fs::canonicalize(folder.path()).unwrap();
    let new = at.join("new").display().to_string();
    let arguments = ["measure", "drive", "--write-to", &new, "--size", "16m"];
    let child = start_silently(&[&arguments[..], &["--time", "2m"]].concat());
    wait(&mut || has_open(&child, &at, "new (deleted)"));
    kill(child);
    assert_eq!(names_in(&at), [""; 0]);
    // Neither a file nor a lock is in the way of the next.
    let report = ["--time", "1s", "--dry-run"];
    wakepath(&[&arguments[..], &report].concat()).success();
    wakepath(&["restore"]).success();
}

#[test]
fn a_killed_measurement_of_the_path_lets_the_next_one_in() {
    let _machine = lock_machine();
    let folder = folder();
    let at = fs::canonicalize(folder.path()).unwrap();
    let data = write_data(&at);
    let child = start_silently(&["measure", "path", "--file", &data, "--time", "2m"]);
    wait(&mut || has_open(&child, &at, "data"));
    std::thread::sleep(Duration::from_millis(100));
    kill(child);
    assert_eq!(names_in(&at), ["data"]);
    wakepath(&["restore"]).success();
    wakepath(&["measure", "path", "--file", &data, "--time", "1s"]).success();
}

/// Starts a calibration of the drive, then of wake-ups, that would write its machine file into another folder.
fn start_calibration(at: &Path, results: &Path) -> Child {
    let machine = results.join("machine.toml").display().to_string();
    let folder = at.display().to_string();
    let drive = ["calibrate", "--folder", &folder, "--size", "16m"];
    let more = ["--budget", "10s", "--phases", "wake", "-o", &machine];
    start_silently(&[&drive[..], &more].concat())
}

/// A calibration that is killed while idle states are switched off: the next one puts these back, and removes the test files.
#[test]
fn the_calibration_after_a_killed_one_puts_back_and_clears_away() {
    let test = "the_calibration_after_a_killed_one_puts_back_and_clears_away";
    if !rustix::process::geteuid().is_root() {
        return skip(test, "needs root to change settings");
    }
    if has_no_idle_states(test) {
        return;
    }
    let _machine = lock_machine();
    let [folder, results] = [folder(), folder()];
    let at = fs::canonicalize(folder.path()).unwrap();
    let before = (settings(), limits());
    let mut killed = start_calibration(&at, results.path());
    wait(&mut || settings() != before.0 || killed.try_wait().unwrap().is_some());
    if killed.try_wait().unwrap().is_some() {
        return skip(test, "idle states cannot be switched off here");
    }
    kill(killed);
    assert_ne!(settings(), before.0);
    let left = names_in(&at);
    let [left] = &left[..] else {
        unreachable!("one folder: {left:?}");
    };
    assert!(at.join(left).join("fio.tmp").is_file(), "{left}");

    let mut next = start_calibration(&at, results.path());
    wait(&mut || {
        let names = names_in(&at);
        let is_new = |name: &String| name != left && at.join(name).join("fio.tmp").is_file();
        !names.contains(left) && names.iter().any(is_new)
    });
    // The drive comes first: no idle state is switched off again so early.
    assert_eq!(settings(), before.0);
    let pid = rustix::process::Pid::from_child(&next);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    next.wait().unwrap();
    assert_eq!((settings(), limits()), before);
    assert_eq!(names_in(&at), [""; 0]);
}

#[test]
fn a_file_that_may_not_grow_so_far_is_one_error() {
    let _machine = lock_machine();
    let folder = folder();
    let new = folder.path().join("new").display().to_string();
    let arguments = ["measure", "drive", "--write-to", &new, "--size", "16m"];
    let refused = run_with_small_files(8 << 10, &arguments);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    let errors = find_errors(&said);
    assert_eq!(errors.len(), 1, "{said}");
    for part in ["new: filling it", "File too large", "ulimit -f", "--size"] {
        assert!(errors[0].contains(part), "{part}: {said}");
    }
    assert_eq!(names_in(folder.path()), [""; 0]);
}

#[test]
fn a_page_that_finds_no_room_costs_no_figures() {
    let _machine = lock_machine();
    let folder = folder();
    let data = write_data(folder.path());
    let page = folder.path().join("page.html").display().to_string();
    let arguments = ["measure", "path", "--file", &data, "--time", "1s", "--page"];
    let full = run_with_small_files(1, &[&arguments[..], &[&page]].concat());
    let said = String::from_utf8(full.stderr).unwrap();
    assert_eq!(full.status.code(), Some(1), "{said}");
    let errors = find_errors(&said);
    assert_eq!(errors.len(), 1, "{said}");
    assert!(errors[0].contains("page.html"), "{said}");
    let printed = String::from_utf8(full.stdout).unwrap();
    assert!(printed.contains("system call: "), "{printed}");
    assert_eq!(names_in(folder.path()), ["data"]);
}

/// Runs `explain` with a file or directory for which there is no room: one error that names it, behind the whole answer.
fn explain_without_room(arguments: &[&str], at: &str, answer: &[u8]) {
    let full = run_with_small_files(1, arguments);
    let said = String::from_utf8(full.stderr).unwrap();
    assert_eq!(full.status.code(), Some(1), "{said}");
    let errors = find_errors(&said);
    assert_eq!(errors.len(), 1, "{said}");
    for part in [at, "File too large"] {
        assert!(errors[0].contains(part), "{part}: {said}");
    }
    assert!(
        full.stdout == answer,
        "{}",
        String::from_utf8_lossy(&full.stdout)
    );
}

#[test]
fn an_explanation_whose_files_find_no_room_is_printed_and_spares_older_files() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let [page, results] = [at("page.html"), at("results")];
    let recording = repository().join("docs/examples/recorded-guest/reads.parquet");
    let explain = ["explain", recording.to_str().unwrap()];
    let answer = run_with_small_files(1, &explain).stdout;
    assert!(!answer.is_empty());
    let outputs = [["--page", &page], ["--output", &results]];
    for output in outputs {
        explain_without_room(&[explain, output].concat(), output[1], &answer);
    }
    assert_eq!(names_in(folder.path()), ["results"]);
    assert!(!Path::new(&results).join("result.json").exists());
    // What was begun is in the way of nothing.
    wakepath(&[&explain[..], &outputs.concat()].concat()).success();
    wakepath(&["report", &results, "-o", &at("report.html")]).success();

    let before = content(folder.path());
    for output in outputs {
        let again = [&explain[..], &output, &["--force"]].concat();
        explain_without_room(&again, output[1], &answer);
    }
    assert!(different(&content(folder.path()), &before).is_empty());
}

/// Calibrates with a machine file on a file system of so many bytes, which has an older machine file and its page. Returns what
/// was printed and told, and a folder with the files that the calibration left there; `None` without the right to mount.
fn calibrate_on_small_disk(size: &str) -> Option<([String; 2], tempfile::TempDir)> {
    let [folder, disk, left] = [folder(), folder(), folder()];
    let [data, at, to] = [&folder, &disk, &left].map(|folder| folder.path().display());
    let program = env!("CARGO_BIN_EXE_wakepath");
    // Only this process sees the file system.
    let script = format!(
        "mount -t tmpfs -o size={size} none {at} && printf older >{at}/machine.toml && printf older >{at}/machine.html && \
         {{ {program} calibrate --folder {data} --size 16m --budget 1s --phases background -o {at}/machine.toml --force; \
         echo \"code $?\"; cp -r {at}/. {to}; }}"
    );
    let mut mounted = Command::new("unshare");
    mounted.args(["--mount", "sh", "-c", &script]);
    let done = mounted.env("WAKEPATH_HERE", "").output().ok()?;
    let texts = [done.stdout, done.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(names_in(folder.path()), [""; 0]);
    done.status.success().then_some((texts, left))
}

#[test]
#[ignore = "nightly: calibrates twice, for 20 s each"]
fn a_calibration_whose_files_find_no_room_is_printed_and_spares_older_files() {
    let test = "a_calibration_whose_files_find_no_room_is_printed_and_spares_older_files";
    let _machine = lock_machine();
    let before = (settings(), limits());
    // No room for a machine file; then for the machine file, and not for its page.
    for (size, has_machine_file) in [("8k", false), ("64k", true)] {
        let Some(([printed, said], left)) = calibrate_on_small_disk(size) else {
            return skip(test, "no right to mount a file system");
        };
        assert!(printed.ends_with("code 1\n"), "{printed}{said}");
        assert!(printed.contains(" figures measured"), "{printed}");
        let errors = find_errors(&said);
        assert_eq!(errors.len(), 1, "{said}");
        assert!(errors[0].contains("No space left on device"), "{said}");
        let ending = if has_machine_file { "html" } else { "toml" };
        assert!(errors[0].contains(&format!(".{ending}: ")), "{said}");

        let page = fs::read_to_string(left.path().join("machine.html"));
        assert_eq!(page.unwrap(), "older");
        let mut files = names_in(left.path());
        files.sort();
        // Other work on the CPUs is a flaw, and such a calibration goes beside the older one.
        let partial = "machine.partial.toml".to_owned();
        let file = left.path().join(if files.contains(&partial) {
            &partial
        } else {
            "machine.toml"
        });
        files.retain(|name| *name != partial);
        assert_eq!(files, ["machine.html", "machine.toml"]);
        if has_machine_file {
            Machine::load(&file).unwrap();
        } else {
            assert_eq!(fs::read_to_string(&file).unwrap(), "older");
        }
    }
    assert_eq!((settings(), limits()), before);
}

#[test]
fn a_file_that_leaves_no_room_is_refused_before_anything_is_written() {
    let folder = folder();
    let at = folder.path().display().to_string();
    let new = folder.path().join("new").display().to_string();
    let drive = ["measure", "drive", "--write-to", &new, "--size", "900t"];
    fails_with(wakepath(&drive), &["are free", "smaller --size"]);
    let calibrate = ["calibrate", "--folder", &at, "--size", "900t", "--dry-run"];
    fails_with(wakepath(&calibrate), &["are free", "smaller --size"]);
    assert_eq!(names_in(folder.path()), [""; 0]);
}

#[test]
fn a_size_that_nobody_named_is_chosen_by_the_free_space_and_said() {
    let folder = folder();
    let new = folder.path().join("new").display().to_string();
    let plan = wakepath(&["measure", "drive", "--write-to", &new, "--dry-run"]);
    let output = plan.get_output();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("are free there") {
        return skip(
            "a_size_that_nobody_named_is_chosen_by_the_free_space_and_said",
            "the disk is full",
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let chosen = text
        .lines()
        .find(|line| line.contains("for the test file, by the"));
    let chosen = chosen.unwrap();
    let mib: u64 = chosen.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!((16..=2048).contains(&mib), "{chosen}");
    assert!(
        text.contains(&format!("writes {mib} MiB of random data")),
        "{text}"
    );
}

/// Prints the latency limit of all CPUs in us.
const LATENCY_LIMIT: &str = "od -An -td4 -N4 /dev/cpu_dma_latency | tr -d ' '";

/// Takes a guest's virtio disk away while a file on it, or its device, is measured. Returns what the measurement told.
fn unplug_while_measured(guest: &mut SystemdGuest, file: &str) -> String {
    let state = format!("{LATENCY_LIMIT} && {VALUES}");
    let before = guest.must(&state);
    let measure = format!("wakepath measure drive --file {file} --time 2m");
    guest.must(&format!(
        "rm -f /root/code; ({measure}; echo $? >/root/code) >/root/said 2>&1 &"
    ));
    guest.wait_for(&format!(
        "for pid in $(pidof wakepath); do ls -l /proc/$pid/fd; done | grep -e '-> {file}$'"
    ));
    guest.must("sleep 3");
    assert_eq!(guest.must(LATENCY_LIMIT), "0\n");
    guest.unplug_virtio_disk();
    guest.wait_for("test -s /root/code");
    let said = guest.must("cat /root/said");
    assert_eq!(guest.must("cat /root/code"), "1\n", "{said}");
    assert_eq!(guest.must(&state), before, "{said}");
    said
}

/// A device that is gone has no bytes any more, and requests to it fail; a file keeps its size. Each has one error, which says
/// that the drive is gone.
#[test]
#[ignore = "nightly: boots a guest"]
fn a_drive_that_is_taken_away_ends_its_measurement_with_one_error() {
    let test = "a_drive_that_is_taken_away_ends_its_measurement_with_one_error";
    let Some(mut guest) = installed_guest(test) else {
        return;
    };
    let fill = "dd if=/dev/urandom bs=1M conv=fsync";
    let whole = format!("{fill} of=/dev/vdc count=64");
    let format = "mkfs.ext4 -q -F /dev/vdc && mount /dev/vdc /mnt";
    let part = format!("{format} && {fill} of=/mnt/data count=24");
    for (prepare, file) in [(whole, "/dev/vdc"), (part, "/mnt/data")] {
        guest.plug_virtio_disk();
        guest.wait_for("test -b /dev/vdc");
        guest.must(&prepare);
        let said = unplug_while_measured(&mut guest, file);
        let errors: Vec<&str> = (said.lines())
            .filter(|line| line.contains("was removed"))
            .collect();
        let [error] = errors[..] else {
            unreachable!("one error: {said}");
        };
        assert!(
            error.starts_with(&format!("wakepath: {file}: reading it: ")),
            "{said}"
        );
        assert!(said.trim_end().ends_with(error), "{said}");
        guest.must("umount --lazy /mnt 2>/dev/null || true");
        guest.wait_for("test ! -e /sys/block/vdc");
    }
    guest.must("wakepath restore");
}
