//! A drive measured through files of the machine that runs the test, with the settings of a captured one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs::{self, File};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use wakepath_hardware::machine::{DriveModel, Origin};
use wakepath_measure::drive::{DeclaredSleep, DriveMeasurement, DrivePlan, TestTarget, measure};
use wakepath_measure::{ExperimentControl, MeasureError};
use wakepath_settings::{Session, SettingsError};
use wakepath_system::{Root, System};

use crate::captured::{content, copy_of_laptop, different};

const MIB: u64 = 1 << 20;

/// A folder on the drive of the repository; `None` on memory, or where files have no extents.
fn folder() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("probe");
    fs::write(&path, [1; 4096]).unwrap();
    let extents = wakepath_system::extents::read_file_extents(&File::open(&path).unwrap());
    let new = TestTarget::Write {
        path: folder.path().join("new"),
        bytes: 16 * MIB,
    };
    if extents.is_err() || new.check().is_err() {
        eprintln!("skipped: measure drive: no direct I/O or no extents here");
        return None;
    }
    Some(folder)
}

/// A captured machine whose latency limit can be held, and which counts no idle time.
fn machine() -> (tempfile::TempDir, System) {
    let machine = copy_of_laptop();
    let system = System::new(Root::at_directory(machine.path()));
    (machine, system)
}

fn run(
    system: &System,
    target: TestTarget,
    cancel_after: usize,
) -> Result<DriveMeasurement, MeasureError> {
    let plan = DrivePlan::short(target);
    let (steps, cancelled) = (AtomicUsize::new(0), AtomicBool::new(false));
    let finished = |done: usize| {
        let all = steps.fetch_add(done, Ordering::Relaxed) + done;
        cancelled.store(all >= cancel_after, Ordering::Relaxed);
    };
    measure(system, &plan, ExperimentControl::new(&finished, &cancelled))
}

fn new_file(folder: &Path, mib: u64) -> TestTarget {
    TestTarget::Write {
        path: folder.join("new"),
        bytes: mib * MIB,
    }
}

#[test]
fn a_new_file_gives_all_figures_and_goes_again() {
    let Some(folder) = folder() else { return };
    let (machine, system) = machine();
    let before = content(machine.path());
    let result = run(&system, new_file(folder.path(), 32), usize::MAX).unwrap();
    assert!(result.complete && result.held_shallow);
    assert_eq!(result.bytes, 32 * MIB);
    assert!(result.flush.is_some() && result.forced_write.is_some());
    assert!(result.parallel_units.unwrap().units >= 1.0);
    assert!(different(&content(machine.path()), &before).is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

    let mut drive = DriveModel::find("pm991").unwrap();
    result.apply_to(&mut drive);
    for figure in [
        &drive.read_service_us,
        &drive.write_service_us,
        &drive.flush_us,
    ] {
        assert!(matches!(figure.origin, Origin::Measured(_)), "{figure:?}");
        assert!(figure.value > 0.0);
    }
    let fragment: toml::Table = result.to_toml().parse().unwrap();
    let read = &fragment["drive"]["read_service_us"];
    assert!((read["value"].as_float().unwrap() - drive.read_service_us.value).abs() < 1e-9);
}

#[test]
fn cpus_poll_during_loads_and_may_take_their_first_sleep_in_pauses() {
    let Some(folder) = folder() else { return };
    let (machine, system) = machine();
    let limit = machine.path().join("dev/cpu_dma_latency");
    let mut limits = Vec::new();
    let seen = Mutex::new(&mut limits);
    let cancelled = AtomicBool::new(false);
    let finished = |_: usize| {
        let bytes = fs::read(&limit).unwrap();
        seen.lock().unwrap().push(bytes);
    };
    let plan = DrivePlan::short(new_file(folder.path(), 32));
    let control = ExperimentControl::new(&finished, &cancelled);
    measure(&system, &plan, control).unwrap();
    limits.dedup();
    // C1E of the captured laptop.
    let [first, .., last] = &limits[..] else {
        panic!("{limits:?}");
    };
    assert_ne!(first, last);
    assert_eq!(limits.len(), 2, "{limits:?}");
}

#[test]
fn a_drive_declares_when_it_sleeps() {
    let (machine, system) = machine();
    let feature = machine.path().join("dev/nvme0.feature-0c");
    let mut bytes = fs::read(&feature).unwrap();
    assert_eq!(bytes.len(), 4 + 256);
    // On; from PS0 to PS3 after 100 ms, from PS3 to PS4 after 2 s (NVMe Base Specification, Feature 0Ch).
    bytes.fill(0);
    bytes[0] = 1;
    bytes[4..12].copy_from_slice(&((100_u64 << 8) | (3 << 3)).to_le_bytes());
    bytes[28..36].copy_from_slice(&((2000_u64 << 8) | (4 << 3)).to_le_bytes());
    fs::write(&feature, &bytes).unwrap();
    let declared = DeclaredSleep::read(&system, "nvme0n1");
    let seen: Vec<(u8, u64)> = declared
        .iter()
        .map(|s| (s.state, s.after.0 / 1_000_000))
        .collect();
    assert_eq!(seen, [(3, 100), (4, 2000)]);
    assert!(declared[0].exit.0 > 0 && declared[1].exit > declared[0].exit);
    assert!(DeclaredSleep::read(&system, "sda").is_empty());
    bytes[0] = 0;
    fs::write(&feature, &bytes).unwrap();
    assert!(DeclaredSleep::read(&system, "nvme0n1").is_empty());
}

/// Gives the captured drive an APST table that is on, and makes it the drive of a folder. Returns the feature's file.
fn give_apst(machine: &Path, folder: &Path) -> PathBuf {
    let device = folder.metadata().unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let numbers = machine.join("sys/dev/block");
    fs::create_dir_all(&numbers).unwrap();
    let link = numbers.join(format!("{major}:{minor}"));
    symlink("../../block/nvme0n1", link).unwrap();
    let feature = machine.join("dev/nvme0.feature-0c");
    let mut bytes = vec![0; 4 + 256];
    bytes[0] = 1;
    bytes[4..12].copy_from_slice(&((100_u64 << 8) | (3 << 3)).to_le_bytes());
    fs::write(&feature, &bytes).unwrap();
    feature
}

/// Steps with APST off: the switch, and three pauses.
const STEPS_WITHOUT_APST: usize = 4;

#[test]
fn sleep_is_measured_with_and_without_apst_which_is_put_back() {
    let Some(folder) = folder() else { return };
    let (machine, system) = machine();
    let feature = give_apst(machine.path(), folder.path());
    let target = new_file(folder.path(), 16);
    let plan = DrivePlan::short_with_and_without_apst(&system, target.clone());
    let described = plan.describe().join("\n");
    assert!(
        described.contains("switches APST of nvme0 off"),
        "{described}"
    );
    let before = content(machine.path());
    let on = fs::read(&feature).unwrap();
    // Whether APST was on after each step; while it is off, the journal has its table.
    let journal = machine.path().join("var/lib/wakepath/journal.json");
    let (seen, killed) = (Mutex::new(Vec::new()), Mutex::new(None));
    let cancelled = AtomicBool::new(false);
    let finished = |_: usize| {
        let is_on = fs::read(&feature).unwrap()[0] == 1;
        let journalled = fs::read_to_string(&journal).ok();
        let journalled = journalled.filter(|text| text.contains("apst"));
        if !is_on {
            *killed.lock().unwrap() = journalled.clone();
        }
        assert_eq!(is_on, journalled.is_none());
        seen.lock().unwrap().push(is_on);
    };
    let control = ExperimentControl::new(&finished, &cancelled);
    let result = measure(&system, &plan, control).unwrap();
    let seen = seen.into_inner().unwrap();
    let off = seen.iter().filter(|is_on| !**is_on);
    assert_eq!(off.count(), STEPS_WITHOUT_APST);
    assert!(seen.is_sorted_by(|before, after| before >= after));
    assert!(different(&content(machine.path()), &before).is_empty());
    assert_eq!(result.sleep_without_apst.unwrap().gaps.len(), 3);
    // Other work may look like sleep, and bring more pauses.
    assert!(result.sleep.gaps.len() >= 6);

    // What a killed process leaves is put back by the next.
    fs::write(&journal, killed.into_inner().unwrap().unwrap()).unwrap();
    fs::write(&feature, [&[0], &on[1..]].concat()).unwrap();
    drop(Session::open_and_recover(&system).unwrap());
    assert_eq!(fs::read(&feature).unwrap(), on);

    // A signal puts it back, too.
    let cancelled = AtomicBool::new(false);
    let finished = |_: usize| {
        cancelled.store(fs::read(&feature).unwrap()[0] == 0, Ordering::Relaxed);
    };
    let control = ExperimentControl::new(&finished, &cancelled);
    let ended = measure(&system, &plan, control).unwrap();
    assert!(!ended.complete);
    assert_eq!(fs::read(&feature).unwrap(), on);
}

#[test]
fn a_failure_with_apst_off_puts_it_back() {
    let Some(folder) = folder() else { return };
    let (machine, system) = machine();
    let feature = give_apst(machine.path(), folder.path());
    let on = fs::read(&feature).unwrap();
    let path = folder.path().join("data");
    fs::write(&path, vec![7; 20 * MIB as usize]).unwrap();
    let plan = DrivePlan::short_with_and_without_apst(&system, TestTarget::Read(path.clone()));
    let cancelled = AtomicBool::new(false);
    let finished = |_: usize| {
        if fs::read(&feature).unwrap()[0] == 0 {
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(1).unwrap();
        }
    };
    let control = ExperimentControl::new(&finished, &cancelled);
    let error = measure(&system, &plan, control).unwrap_err().to_string();
    assert!(error.contains("the file has become shorter"), "{error}");
    assert_eq!(fs::read(&feature).unwrap(), on);
}

#[test]
fn a_drive_without_apst_sleeps_as_it_is() {
    let Some(folder) = folder() else { return };
    let (machine, system) = machine();
    let target = new_file(folder.path(), 16);
    let count_steps = || DrivePlan::short_with_and_without_apst(&system, target.clone()).steps();
    let as_it_is = DrivePlan::short(target.clone()).steps();
    // The disk of the file is not the captured drive.
    assert_eq!(count_steps(), as_it_is);
    let feature = give_apst(machine.path(), folder.path());
    assert_eq!(count_steps(), as_it_is + STEPS_WITHOUT_APST);
    let mut bytes = fs::read(&feature).unwrap();
    bytes[0] = 0;
    fs::write(&feature, &bytes).unwrap();
    assert_eq!(count_steps(), as_it_is);
    fs::write(&feature, [1, 0]).unwrap();
    assert_eq!(count_steps(), as_it_is);
}

#[test]
fn a_file_that_is_there_is_only_read() {
    let Some(folder) = folder() else { return };
    let path = folder.path().join("data");
    let data: Vec<u8> = (0..20 * MIB).map(|i| (i % 251) as u8 + 1).collect();
    fs::write(&path, &data).unwrap();
    let (_machine, system) = machine();
    let result = run(&system, TestTarget::Read(path.clone()), usize::MAX).unwrap();
    assert!(result.flush.is_none() && result.service.iter().all(|s| s.latency.n > 0));
    assert_eq!(fs::read(&path).unwrap(), data);
}

#[test]
fn blocks_that_no_drive_reads_are_refused() {
    let Some(folder) = folder() else { return };
    let (_machine, system) = machine();
    let path = folder.path().join("file");
    let refusal = |system: &System| {
        let error = run(system, TestTarget::Read(path.clone()), usize::MAX).unwrap_err();
        error.to_string()
    };
    File::create(&path).unwrap().set_len(20 * MIB).unwrap();
    let hole = refusal(&system);
    assert!(hole.contains("in a hole of the file"), "{hole}");

    let file = File::create(&path).unwrap();
    let whole = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 20 * MIB);
    if whole.is_ok() {
        let unwritten = refusal(&system);
        assert!(unwritten.contains("unwritten"), "{unwritten}");
    }
    fs::write(&path, vec![0; 20 * MIB as usize]).unwrap();
    let zeros = refusal(&system);
    assert!(zeros.contains("zeros"), "{zeros}");
}

#[test]
fn a_file_that_becomes_shorter_ends_the_measurement() {
    let Some(folder) = folder() else { return };
    let (machine, system) = machine();
    let before = content(machine.path());
    let path = folder.path().join("data");
    fs::write(&path, vec![7; 20 * MIB as usize]).unwrap();
    let plan = DrivePlan::short(TestTarget::Read(path.clone()));
    let cancelled = AtomicBool::new(false);
    let finished = |_: usize| {
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(1)
            .unwrap();
    };
    let result = measure(
        &system,
        &plan,
        ExperimentControl::new(&finished, &cancelled),
    );
    let error = result.unwrap_err().to_string();
    assert!(error.contains("the file has become shorter"), "{error}");
    assert!(different(&content(machine.path()), &before).is_empty());
}

/// Puts a file that fails each read with `EIO` in the place of an open file. The kernel has no memory of this process at the
/// low addresses that a test file's offsets are.
#[allow(
    unsafe_code,
    reason = "only the descriptor of a running measurement may be replaced"
)]
fn lose_drive_of(path: &Path) {
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    let mut opened = descriptors.flatten().filter(|entry| {
        let target = fs::read_link(entry.path());
        target.is_ok_and(|target| target == path)
    });
    let entry = opened.next().unwrap();
    assert!(opened.next().is_none());
    let number = entry.file_name().into_string().unwrap().parse().unwrap();
    // SAFETY: the measurement has the descriptor open and waits for this call; it is never closed here.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    let mut descriptor = ManuallyDrop::new(descriptor);
    let failing = File::open("/proc/self/mem").unwrap();
    rustix::io::dup2(failing, &mut descriptor).unwrap();
}

#[test]
fn a_drive_that_fails_ends_the_measurement_with_one_error() {
    let Some(folder) = folder() else { return };
    let (machine, system) = machine();
    let before = content(machine.path());
    let path = fs::canonicalize(folder.path()).unwrap().join("data");
    fs::write(&path, vec![7; 20 * MIB as usize]).unwrap();
    let limit = machine.path().join("dev/cpu_dma_latency");
    let free = fs::read(&limit).unwrap();
    let plan = DrivePlan::short(TestTarget::Read(path.clone()));
    let (steps, cancelled) = (AtomicUsize::new(0), AtomicBool::new(false));
    let finished = |_: usize| {
        if steps.fetch_add(1, Ordering::Relaxed) == 1 {
            assert_ne!(fs::read(&limit).unwrap(), free);
            lose_drive_of(&path);
        }
    };
    let control = ExperimentControl::new(&finished, &cancelled);
    let error = measure(&system, &plan, control).unwrap_err();
    assert_eq!(steps.into_inner(), 2);
    assert_eq!(
        error.to_string(),
        format!(
            "{}: reading it: Input/output error (os error 5) (the drive failed or was removed, and `dmesg` says which; measure \
             again once it answers)",
            path.display()
        )
    );
    assert_eq!(fs::read(&limit).unwrap(), free);
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn an_end_by_signal_keeps_what_was_measured() {
    let Some(folder) = folder() else { return };
    let (machine, system) = machine();
    let before = content(machine.path());
    let result = run(&system, new_file(folder.path(), 16), 2).unwrap();
    assert!(!result.complete && result.service.len() == 2);
    let none = run(&system, new_file(folder.path(), 16), 0);
    assert!(none.is_ok_and(|none| none.service.len() <= 1));
    assert!(different(&content(machine.path()), &before).is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_second_measurement_is_refused_before_anything_is_written() {
    let Some(folder) = folder() else { return };
    let (_machine, system) = machine();
    let session = Session::open_and_recover(&system).unwrap();
    let error = run(&system, new_file(folder.path(), 16), usize::MAX).unwrap_err();
    assert!(
        matches!(error, MeasureError::Settings(SettingsError::Locked { .. })),
        "{error}"
    );
    drop(session);
    // Without the lock of wakepath, the file's own lock.
    let path = folder.path().join("data");
    let mut file = File::create(&path).unwrap();
    file.write_all(&vec![7; 20 * MIB as usize]).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let error = run(&system, TestTarget::Read(path), usize::MAX).unwrap_err();
    assert!(error.to_string().contains("has locked the file"), "{error}");
}

#[test]
fn a_machine_that_cannot_be_held_shallow_is_said() {
    let Some(folder) = folder() else { return };
    let (machine, system) = machine();
    fs::remove_file(machine.path().join("dev/cpu_dma_latency")).unwrap();
    let result = run(&system, new_file(folder.path(), 16), 3).unwrap();
    assert!(!result.held_shallow);
    let notes = result.notes.join("\n");
    assert!(notes.contains("idle exits are in the figures"), "{notes}");
}
