//! How long a fleet's recordings take, beside pyarrow reading the same columns of the same files.
//!
//! Usage: `fleet_recordings FOLDER [MEGABYTES] [PYTHON]`. Makes copies of a captured machine in the folder, each with a
//! recording, 200 MB in all unless given. Prints the time for the survey with replays, the time for pyarrow, and the ratio.
//! Both take two turns, so that the files are in memory; the shorter time counts.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wakepath_fleet::{SurveyRequest, replay_class, survey_fleet};
use wakepath_hardware::IdleState;
use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
use wakepath_trace::recording::{
    Before, CpuIdleStates, Event, EventKind, IdleInputs, IdlePeriod, Metadata, Overwrite, Writer,
};
use wakepath_units::Nanoseconds;

/// The captured machine, below the workspace.
const CAPTURE: &str = "docs/examples/captured-server";

/// Number of machines, as many as `fleet` replays of a class.
const MACHINES: u64 = 5;

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

/// Reads all columns of recordings, and prints rows and seconds.
const READ_BY_PYARROW: &str = "
import sys, time
import pyarrow.parquet as parquet
begin = time.perf_counter()
rows = 0
for path in sys.argv[1:]:
    file = parquet.ParquetFile(path)
    for group in range(file.num_row_groups):
        rows += file.read_row_group(group).num_rows
print(rows, time.perf_counter() - begin)
";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: fleet_recordings FOLDER [MEGABYTES] [PYTHON]";
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    let megabytes = match arguments.next() {
        Some(text) => text.parse::<u64>().map_err(|_| usage)?,
        None => MEGABYTES,
    };
    let python = arguments.next().unwrap_or_else(|| "python3".to_owned());
    let recordings = make_fleet(&folder, megabytes * 1_000_000 / MACHINES)?;
    let bytes: u64 = recordings
        .iter()
        .map(|path| fs::metadata(path).map(|file| file.len()))
        .sum::<Result<u64, _>>()?;
    println!("{MACHINES} recordings, {:.2} GB", bytes as f64 / 1e9);
    let mut pyarrow = Duration::MAX;
    let mut fleet = Duration::MAX;
    for _ in 0..2 {
        pyarrow = pyarrow.min(read_with_pyarrow(&python, &recordings)?);
        fleet = fleet.min(replay_fleet(&folder)?);
    }
    println!("pyarrow, all columns: {:.2} s", pyarrow.as_secs_f64());
    println!("fleet, with its replays: {:.2} s", fleet.as_secs_f64());
    println!(
        "fleet takes {:.2} times as long (goal: at most 3)",
        fleet.as_secs_f64() / pyarrow.as_secs_f64()
    );
    Ok(())
}

/// Makes captures with recordings of so many bytes each, unless the folder has them, and returns the recordings.
fn make_fleet(folder: &Path, bytes_each: u64) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut recordings = Vec::new();
    for machine in 0..MACHINES {
        let capture = folder.join(format!("web-{machine:02}"));
        let recording = capture.join("load.parquet");
        if !recording.exists() {
            copy_folder(&workspace.join(CAPTURE), &capture)?;
            // Captures with equal counters are copies of one machine.
            fs::write(
                capture.join("proc/uptime"),
                format!("{}.00 0.00\n", 9000 + machine),
            )?;
            write_recording(&recording, machine, bytes_each)?;
        }
        recordings.push(recording);
    }
    Ok(recordings)
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
fn read_with_pyarrow(python: &str, recordings: &[PathBuf]) -> Result<Duration, Box<dyn Error>> {
    let run = Command::new(python)
        .args(["-c", READ_BY_PYARROW])
        .args(recordings)
        .output()?;
    if !run.status.success() {
        return Err(format!("{python}: {}", String::from_utf8_lossy(&run.stderr).trim()).into());
    }
    let text = String::from_utf8(run.stdout)?;
    let seconds = text.split_whitespace().nth(1).ok_or("no time")?;
    Ok(Duration::from_secs_f64(seconds.parse()?))
}

/// Time for a survey with the replays of all classes.
fn replay_fleet(folder: &Path) -> Result<Duration, Box<dyn Error>> {
    let begin = Instant::now();
    let survey = survey_fleet(&SurveyRequest {
        folder,
        labels_for: &|_| Vec::new(),
        includes: &|_| true,
        examined_per_class: 0,
        cancelled: &AtomicBool::new(false),
        report_read: &|_| {},
    })?;
    let mut machines = 0;
    for class in &survey.classes {
        let replay = replay_class(class, &|| true)?.ok_or("a class without recordings")?;
        if let Some(note) = replay.notes.first() {
            return Err(note.clone().into());
        }
        machines += replay.machines.len();
    }
    if machines as u64 != MACHINES {
        return Err(format!("{machines} recordings were replayed, not {MACHINES}").into());
    }
    Ok(begin.elapsed())
}
