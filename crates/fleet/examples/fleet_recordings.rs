//! How long a fleet's recordings take, beside pyarrow reading the same columns of the same files.
//!
//! Usage: `fleet_recordings FOLDER [MEGABYTES] [PYTHON]`. Makes copies of a captured machine in the folder, each with a
//! recording, 200 MB in all unless given, or takes recordings from an earlier run. Five machines make a class, as many as
//! `fleet` replays of one. Both sides take turns over the same files, on all cores:
//!
//! - from memory: each part of the fleet, at most 5 GB, is read once without a clock, then twice by each side. The shorter
//!   times of each side are added up.
//! - from the drive: the whole fleet, once by each side, after the files were dropped from the page cache.
//!
//! CPU time is printed, too: other programs on the machine disturb it less. Exit code 1: the fleet takes more than three times
//! pyarrow's time from memory, or something failed; 3: this Python has no pyarrow.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use wakepath_fleet::{SurveyRequest, replay_classes, survey_fleet};
use wakepath_hardware::IdleState;
use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
use wakepath_trace::recording::{
    Before, CpuIdleStates, Event, EventKind, IdleInputs, IdlePeriod, Metadata, Overwrite, Writer,
};
use wakepath_units::Nanoseconds;

/// The captured machine, below the workspace.
const CAPTURE: &str = "docs/examples/captured-server";

/// Number of machines in a class, as many as `fleet` replays of one.
const MACHINES_PER_CLASS: u64 = 5;

/// Largest recording in bytes, unless that makes less than one class.
const LARGEST_RECORDING: u64 = 500_000_000;

/// Number of classes whose recordings fit into memory together.
const CLASSES_PER_PART: usize = 2;

/// Size of all recordings in MB unless given.
const MEGABYTES: u64 = 200;

/// Number of CPUs in a recording.
const CPUS: usize = 16;

/// Tick rate of the recorded machine in Hz, and its period in ns.
const HZ: u32 = 250;
const TICK_NS: u64 = 4_000_000;

/// Number of idle periods between two looks at the size of the file.
const PERIODS_PER_LOOK: u64 = 200_000;

/// Idle states with exit latency and target residency in us.
const STATES: [(&str, u64, u64); 4] = [
    ("POLL", 0, 0),
    ("C1", 2, 2),
    ("C1E", 10, 20),
    ("C6", 133, 600),
];

/// Reads all columns of recordings a row group at a time, the fastest way that needs bounded memory, and prints seconds and
/// CPU seconds.
const READ_BY_PYARROW: &str = "
import sys, time
import pyarrow.parquet as parquet
begin, cpu = time.perf_counter(), time.process_time()
for path in sys.argv[1:]:
    file = parquet.ParquetFile(path)
    for group in range(file.num_row_groups):
        file.read_row_group(group)
print(time.perf_counter() - begin, time.process_time() - cpu)
";

/// Drops files from the page cache.
const DROP_FROM_MEMORY: &str = "
import os, sys
for path in sys.argv[1:]:
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
";

/// A class of machines with equal labels.
struct Class {
    /// Name of the folder and label.
    name: String,
    recordings: Vec<PathBuf>,
}

/// Time on the clock, and of all CPUs together, in s.
#[derive(Clone, Copy, Default)]
struct Cost {
    wall: f64,
    cpu: f64,
}

impl Cost {
    const LONGEST: Self = Self {
        wall: f64::INFINITY,
        cpu: f64::INFINITY,
    };

    fn keep_shorter_times(self, other: Self) -> Self {
        Self {
            wall: self.wall.min(other.wall),
            cpu: self.cpu.min(other.cpu),
        }
    }

    fn add_cost(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}

/// Most time of the fleet, in times of pyarrow's.
const MOST_TIMES: f64 = 3.0;

/// Exit code where something is missing that the comparison needs.
const MISSING: u8 = 3;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: fleet_recordings FOLDER [MEGABYTES] [PYTHON]";
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    let megabytes = match arguments.next() {
        Some(text) => text.parse::<u64>().map_err(|_| usage)?,
        None => MEGABYTES,
    };
    let python = arguments.next().unwrap_or_else(|| "python3".to_owned());
    if let Err(error) = run_python(&python, "import pyarrow.parquet", &[]) {
        let why = error.to_string();
        let last_line = why.lines().last().unwrap_or_default();
        eprintln!(
            "skipped: recordings of a fleet beside pyarrow: {python}: {last_line}; scripts/setup-python.sh installs pyarrow"
        );
        return Ok(ExitCode::from(MISSING));
    }
    let classes = make_fleet(&folder, megabytes * 1_000_000)?;
    // Writing takes more memory than reading, so the peak begins anew.
    fs::write("/proc/self/clear_refs", "5")?;
    let recordings: Vec<PathBuf> = classes
        .iter()
        .flat_map(|class| class.recordings.clone())
        .collect();
    println!(
        "{} recordings of {} classes, {:.2} GB",
        recordings.len(),
        classes.len(),
        total_bytes(&recordings)? as f64 / 1e9
    );
    let (mut pyarrow, mut fleet) = (Cost::default(), Cost::default());
    for part in classes.chunks(CLASSES_PER_PART) {
        let (pyarrow_part, fleet_part) = time_from_memory(&folder, part, &python)?;
        pyarrow.add_cost(pyarrow_part);
        fleet.add_cost(fleet_part);
    }
    let is_met = print_costs("from memory", pyarrow, fleet);
    run_python(&python, DROP_FROM_MEMORY, &recordings)?;
    let pyarrow = read_with_pyarrow(&python, &recordings)?;
    run_python(&python, DROP_FROM_MEMORY, &recordings)?;
    let fleet = replay_fleet(&folder, &classes)?;
    print_costs("from the drive", pyarrow, fleet);
    println!(
        "peak memory of fleet: {} MB",
        peak_memory_bytes()? / 1_000_000
    );
    Ok(ExitCode::from(u8::from(!is_met)))
}

/// Times pyarrow and the fleet over some classes, after their files have been read.
fn time_from_memory(
    folder: &Path,
    part: &[Class],
    python: &str,
) -> Result<(Cost, Cost), Box<dyn Error>> {
    let recordings: Vec<PathBuf> = part
        .iter()
        .flat_map(|class| class.recordings.clone())
        .collect();
    for recording in &recordings {
        std::io::copy(&mut fs::File::open(recording)?, &mut std::io::sink())?;
    }
    let (mut pyarrow, mut fleet) = (Cost::LONGEST, Cost::LONGEST);
    for _ in 0..2 {
        pyarrow = pyarrow.keep_shorter_times(read_with_pyarrow(python, &recordings)?);
        fleet = fleet.keep_shorter_times(replay_fleet(folder, part)?);
    }
    Ok((pyarrow, fleet))
}

/// Prints the times of both sides. Returns whether the fleet's is small enough.
fn print_costs(source: &str, pyarrow: Cost, fleet: Cost) -> bool {
    for (side, cost) in [
        ("pyarrow, all columns", pyarrow),
        ("fleet, with its replays", fleet),
    ] {
        println!(
            "{source}: {side}: {:.2} s, {:.2} s of CPU time",
            cost.wall, cost.cpu
        );
    }
    let times = fleet.wall / pyarrow.wall;
    let is_met = times <= MOST_TIMES;
    println!(
        "{source}: fleet takes {times:.2} times as long (at most {MOST_TIMES}: {}), and {:.2} times the CPU time",
        if is_met { "met" } else { "NOT MET" },
        fleet.cpu / pyarrow.cpu
    );
    is_met
}

fn total_bytes(files: &[PathBuf]) -> std::io::Result<u64> {
    let sizes = files
        .iter()
        .map(|path| fs::metadata(path).map(|file| file.len()));
    sizes.sum()
}

/// Makes captures with recordings of so many bytes in all, unless the folder has them, and returns the classes.
fn make_fleet(folder: &Path, bytes: u64) -> Result<Vec<Class>, Box<dyn Error>> {
    let classes = bytes
        .div_ceil(LARGEST_RECORDING * MACHINES_PER_CLASS)
        .max(1);
    let machines = classes * MACHINES_PER_CLASS;
    let made = (0..machines).into_par_iter().map(|machine| {
        let class = format!("class-{:02}", machine / MACHINES_PER_CLASS);
        let capture = folder.join(&class).join(format!("web-{machine:02}"));
        match make_machine(&capture, machine, bytes / machines) {
            Ok(recording) => Ok((class, recording)),
            Err(error) => Err(error.to_string()),
        }
    });
    let mut all: Vec<Class> = Vec::new();
    for (name, recording) in made.collect::<Result<Vec<_>, String>>()? {
        match all.last_mut().filter(|class| class.name == name) {
            Some(class) => class.recordings.push(recording),
            None => all.push(Class {
                name,
                recordings: vec![recording],
            }),
        }
    }
    Ok(all)
}

/// Makes a capture with a recording of so many bytes, unless it is there, and returns the recording.
fn make_machine(capture: &Path, machine: u64, bytes: u64) -> Result<PathBuf, Box<dyn Error>> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recording = capture.join("load.parquet");
    if !recording.exists() {
        copy_folder(&workspace.join(CAPTURE), capture)?;
        // Captures with equal counters are copies of one machine.
        fs::write(
            capture.join("proc/uptime"),
            format!("{}.00 0.00\n", 9000 + machine),
        )?;
        let unfinished = capture.join("unfinished");
        write_recording(&unfinished, machine, bytes)?;
        fs::rename(unfinished, &recording)?;
    }
    Ok(recording)
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Writes a recording of at least so many bytes: CPUs rest for varying times between tasks.
fn write_recording(path: &Path, machine: u64, bytes: u64) -> Result<(), Box<dyn Error>> {
    let states = STATES.map(|(name, exit_us, residency_us)| IdleState {
        name: name.to_owned(),
        exit_latency: Nanoseconds::from_micros(exit_us),
        target_residency: Nanoseconds::from_micros(residency_us),
        polling: name == "POLL",
        disabled: false,
    });
    let metadata = Metadata {
        source: "a benchmark".to_owned(),
        machine_id: Some(format!("machine {machine}")),
        hz: Some(HZ),
        cpus: CPUS as u32,
        idle_governor: Some("menu".to_owned()),
        idle_states: vec![CpuIdleStates {
            cpus: Vec::new(),
            states: states.to_vec(),
        }],
        ..Metadata::default()
    };
    let mut writer = Writer::create(path, Overwrite::Yes, metadata)?;
    let mut random = Pcg64Mcg::seed_from_u64(machine);
    let mut free = [1_000_000_000_u64; CPUS];
    let mut ends = free.map(|free| free + draw_idle_ns(&mut random));
    let mut periods = 0_u64;
    while !periods.is_multiple_of(PERIODS_PER_LOOK) || fs::metadata(path)?.len() < bytes {
        let cpu = (0..CPUS).min_by_key(|cpu| ends[*cpu]).unwrap_or(0);
        let (start, end) = (free[cpu], ends[cpu]);
        let duration = end - start;
        let sleep = duration + random.random_range(0..2_000_000);
        let until_tick = sleep.min(TICK_NS - start % TICK_NS);
        let period = IdlePeriod {
            state: if duration > 600_000 { 3 } else { 2 },
            duration: Nanoseconds(duration),
            inputs: IdleInputs {
                sleep_length: Some(sleep as i64),
                delta_tick: Some(until_tick as i64),
                tick_stopped: Some(false),
                latency_request: Some(NO_LATENCY_REQUEST),
                iowaiters: Some(random.random_range(0..2)),
                select_lead: Some(600),
                inferred: false,
            },
            before: Before::Task,
            stop_tick: Some(duration > until_tick),
            got_tick: Some(false),
            poll_limit_hit: Some(false),
        };
        writer.add_event(&Event {
            time: Nanoseconds(end),
            cpu: cpu as u32,
            kind: EventKind::Idle(period),
        })?;
        free[cpu] = end + random.random_range(5_000..25_000);
        ends[cpu] = free[cpu] + draw_idle_ns(&mut random);
        periods += 1;
    }
    writer.finish_and_count_events()?;
    Ok(())
}

/// Draws an idle period in ns: mostly some 10 or 100 us, sometimes milliseconds.
fn draw_idle_ns(random: &mut Pcg64Mcg) -> u64 {
    let base: u64 = random.random_range(20_000..220_000);
    base << random.random_range(0..4)
}

/// Time for all columns of all recordings in pyarrow, without the start of Python.
fn read_with_pyarrow(python: &str, recordings: &[PathBuf]) -> Result<Cost, Box<dyn Error>> {
    let text = run_python(python, READ_BY_PYARROW, recordings)?;
    let mut seconds = text.split_whitespace().map(str::parse::<f64>);
    let mut take_next = || seconds.next().ok_or("pyarrow printed no time");
    Ok(Cost {
        wall: take_next()??,
        cpu: take_next()??,
    })
}

fn run_python(python: &str, script: &str, files: &[PathBuf]) -> Result<String, Box<dyn Error>> {
    let run = Command::new(python)
        .args(["-c", script])
        .args(files)
        .output()?;
    if !run.status.success() {
        return Err(format!("{python}: {}", String::from_utf8_lossy(&run.stderr).trim()).into());
    }
    Ok(String::from_utf8(run.stdout)?)
}

/// Time for a survey of some classes with all replays.
fn replay_fleet(folder: &Path, classes: &[Class]) -> Result<Cost, Box<dyn Error>> {
    let (begin, cpu_before) = (Instant::now(), cpu_seconds()?);
    let survey = survey_fleet(&SurveyRequest {
        folder,
        labels_for: &|name| vec![class_in_name(name).to_owned()],
        includes: &|name| {
            classes
                .iter()
                .any(|class| class.name == class_in_name(name))
        },
        examined_per_class: 0,
        cancelled: &AtomicBool::new(false),
        report_read: &|_| {},
    })?;
    let replays = replay_classes(&survey.classes, &|| true)?;
    let cost = Cost {
        wall: begin.elapsed().as_secs_f64(),
        cpu: cpu_seconds()? - cpu_before,
    };
    if let Some(note) = replays.iter().find_map(|replay| replay.notes.first()) {
        return Err(note.clone().into());
    }
    let replayed: usize = replays.iter().map(|replay| replay.machines.len()).sum();
    let recordings: usize = classes.iter().map(|class| class.recordings.len()).sum();
    if replayed != recordings {
        return Err(format!("{replayed} recordings were replayed, not {recordings}").into());
    }
    Ok(cost)
}

/// The class in a machine's name, which is the capture's path below the fleet's folder.
fn class_in_name(name: &str) -> &str {
    name.split_once('/').map_or(name, |(class, _)| class)
}

/// CPU time of this process so far in s, in user space and in the kernel (`proc_pid_stat(5)`).
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = fs::read_to_string("/proc/self/stat")?;
    let (_, after_name) = text.rsplit_once(')').ok_or("no process name")?;
    let ticks = after_name.split_whitespace().skip(11).take(2);
    let sum: u64 = ticks.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(sum as f64 / TICKS_PER_SECOND)
}

/// Largest resident size of this process in bytes, since it was last reset.
fn peak_memory_bytes() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.split_whitespace().next());
    Ok(kib.ok_or("no peak")?.parse::<u64>()? * 1024)
}
