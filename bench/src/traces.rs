//! Import of a `trace.dat` beside `trace-cmd report`, replay of a recording, peak memory of an import.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use wakepath_hardware::{IdleState, IdleStates};
use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
use wakepath_policies::spec::PolicySpec;
use wakepath_replay::{GroupIdleStates, Setup, replay_recording};
use wakepath_trace::import::{ImportOptions, import_file};
use wakepath_trace::recording::{
    Before, Event, EventKind, IdleInputs, IdlePeriod, Metadata, Overwrite, Reader, Writer,
};
use wakepath_units::{Nanoseconds, TickRate};

use crate::{Effort, long_trace, median, memory, print_figure, print_judged, timed};

/// Tick rate of the recording to replay.
const HZ: TickRate = TickRate::HZ_250;
/// Default governors of `wakepath replay`.
const DEFAULT: &str = "menu@6.1,menu@6.12,teo@6.1,teo@6.12";
/// Idle periods of the recording to replay.
const PERIODS: u64 = 4_000_000;
const FLAG: &str = "--import";

/// The trace of `--import`, which only a child process has: the process measures its own memory.
pub fn requested_trace() -> Option<PathBuf> {
    let mut arguments = std::env::args_os().skip_while(|a| a != FLAG).skip(1);
    arguments.next().map(PathBuf::from)
}

/// Imports a trace and prints the process's peak memory in KiB.
pub fn print_import_peak(trace: &Path) -> anyhow::Result<()> {
    import_trace(trace, &trace.with_extension("parquet"))?;
    println!("{}", memory::read_own_peak()?);
    Ok(())
}

/// Prints the speed of imports and of replay.
pub fn measure_speed(effort: Effort) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR"))?;
    measure_import_speed(folder.path(), effort)?;
    measure_replay_speed(folder.path(), effort)
}

/// Imports a trace into a recording, and returns the number of events.
fn import_trace(trace: &Path, recording: &Path) -> anyhow::Result<u64> {
    let mut writer = Writer::create(recording, Overwrite::Yes, Metadata::default())?;
    let imported = import_file(trace, &mut writer, ImportOptions::default(), &mut |_| ())?;
    writer.finish_and_count_events()?;
    Ok(imported.counts.iter().map(|(_, count)| count).sum())
}

fn measure_import_speed(folder: &Path, effort: Effort) -> anyhow::Result<()> {
    let trace = folder.join("trace.dat");
    long_trace::write_repeated(&trace, (40 << 20) / effort.divisor)?;
    let recording = folder.join("trace.parquet");
    let (mut rates, mut trace_cmd_rates) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let (time, events) = timed(|| import_trace(&trace, &recording));
        rates.push(events? as f64 / time.as_secs_f64());
        if effort.peers
            && let Some((time, events)) = run_trace_cmd(&trace)?
        {
            trace_cmd_rates.push(events as f64 / time.as_secs_f64());
        }
    }
    let rate = median(rates);
    print_figure(
        "importing a trace.dat: events per second",
        &format!("{:.2} M", rate / 1e6),
    );
    if !effort.peers {
        return Ok(());
    }
    if trace_cmd_rates.is_empty() {
        println!("    trace-cmd is not installed");
        return Ok(());
    }
    let ratio = rate / median(trace_cmd_rates);
    print_judged(
        "    times trace-cmd report's",
        &format!("{ratio:.1} x"),
        "at least 3 x",
        ratio >= 3.0,
    );
    Ok(())
}

/// Runs `trace-cmd report`: CPU time and number of printed events; `None` without trace-cmd.
fn run_trace_cmd(trace: &Path) -> anyhow::Result<Option<(Duration, u64)>> {
    let before = child_time()?;
    let text = trace.with_extension("txt");
    let run = Command::new("trace-cmd")
        .arg("report")
        .arg(trace)
        .stdout(File::create(&text)?)
        .stderr(Stdio::null())
        .status();
    let Ok(status) = run else { return Ok(None) };
    anyhow::ensure!(status.success(), "trace-cmd report: {status}");
    let lines = String::from_utf8_lossy(&fs::read(&text)?).lines().count() as u64;
    // The first line is the number of CPUs.
    Ok(Some((child_time()?.saturating_sub(before), lines - 1)))
}

/// User and system time of finished children: `cutime` and `cstime` in proc(5), in hundredths of a second.
fn child_time() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = fields
        .split_whitespace()
        .skip(13)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<_, _>>()?;
    Ok(Duration::from_millis(10 * ticks))
}

fn measure_replay_speed(folder: &Path, effort: Effort) -> anyhow::Result<()> {
    let recording = folder.join("idle.parquet");
    write_recording(&recording, PERIODS / effort.divisor)?;
    for governors in [DEFAULT, "ladder", "teo@6.12", "menu@6.12", "menu@6.1"] {
        let setup = replay_setup(governors)?;
        let each = setup.policies.len() as f64;
        let mut rates = Vec::new();
        for _ in 0..effort.rounds {
            let (time, done) = timed(|| -> anyhow::Result<u64> {
                let mut reader = Reader::open(&recording)?;
                Ok(replay_recording(&mut reader, &setup, None, &mut |_| true)?.periods)
            });
            rates.push(done? as f64 * each / time.as_secs_f64());
        }
        let rate = median(rates) / 1e6;
        let measurement = if governors == DEFAULT {
            "replaying as by default: idle periods x 4 governors per second".to_owned()
        } else {
            format!("replaying through {governors}: idle periods per second and core")
        };
        print_judged(
            &measurement,
            &format!("{rate:.2} M"),
            "at least 20 M",
            rate >= 20.0,
        );
    }
    Ok(())
}

fn idle_state(name: &str, exit_us: u64, residency_us: u64) -> IdleState {
    IdleState {
        name: name.to_owned(),
        exit_latency: Nanoseconds::from_micros(exit_us),
        target_residency: Nanoseconds::from_micros(residency_us),
        polling: name == "POLL",
        disabled: false,
    }
}

/// A replay through governors on four idle states.
fn replay_setup(governors: &str) -> anyhow::Result<Setup> {
    // Idle states of Skylake-SP, from drivers/idle/intel_idle.c.
    let states = IdleStates::new(vec![
        idle_state("POLL", 0, 0),
        idle_state("C1", 2, 2),
        idle_state("C1E", 10, 20),
        idle_state("C6", 133, 600),
    ])?;
    let mut policies = Vec::new();
    for governor in governors.split(',') {
        let spec: PolicySpec = governor.parse()?;
        policies.push((governor.to_owned(), spec.as_idle_policy()?));
    }
    Ok(Setup {
        states: vec![GroupIdleStates::from_declared(Vec::new(), states)],
        package: None,
        tick: HZ,
        policies,
        psd: None,
        latency: None,
        recorded_governor: None,
        blocks: 1,
    })
}

/// Pseudo-random numbers of xorshift64.
struct Xorshift(u64);

impl Xorshift {
    fn next_number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Draws a number, and an idle period in ns: mostly some 10 or 100 us, sometimes milliseconds.
    fn draw_idle_period(&mut self) -> (u64, u64) {
        let random = self.next_number();
        (random, (20_000 + random % 200_000) << (random >> 60 & 3))
    }
}

/// Writes a recording: four CPUs rest for varying times between tasks. The next event is the earlier of tick and timer; an
/// idle period beyond the next event has its tick stopped.
fn write_recording(path: &Path, periods: u64) -> anyhow::Result<()> {
    let mut writer = Writer::create(path, Overwrite::Yes, Metadata::default())?;
    let mut numbers = Xorshift(0x9e37_79b9_7f4a_7c15);
    let tick = HZ.period().0;
    let mut free = [1_000_000_000; 4];
    let mut next = [(); 4].map(|()| numbers.draw_idle_period());
    for _ in 0..periods {
        let first = (0..free.len()).min_by_key(|&cpu| free[cpu] + next[cpu].1);
        let cpu = first.unwrap_or(0);
        let (random, duration) = next[cpu];
        let end = free[cpu] + duration;
        let start = end - duration;
        let sleep_length = duration + random % 2_000_000;
        let delta_tick = sleep_length.min(tick - start % tick);
        let period = IdlePeriod {
            state: if duration > 600_000 { 3 } else { 2 },
            duration: Nanoseconds(duration),
            inputs: IdleInputs {
                sleep_length: Some(sleep_length as i64),
                delta_tick: Some(delta_tick as i64),
                tick_stopped: Some(false),
                latency_request: Some(NO_LATENCY_REQUEST),
                iowaiters: Some((random & 1) as u32),
                select_lead: Some(600),
                inferred: false,
            },
            before: Before::Task,
            stop_tick: Some(duration > delta_tick),
            got_tick: Some(false),
            poll_limit_hit: Some(false),
        };
        writer.add_event(&Event {
            time: Nanoseconds(end),
            cpu: cpu as u32,
            kind: EventKind::Idle(period),
        })?;
        free[cpu] = end + 5_000 + random % 20_000;
        next[cpu] = numbers.draw_idle_period();
    }
    writer.finish_and_count_events()?;
    Ok(())
}

/// Prints whether the memory for an import grows with the file.
pub fn measure_growth(effort: Effort) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR"))?;
    let mut peaks = Vec::new();
    let sizes = [100, 1000].map(|mib: u64| mib / effort.divisor);
    for mib in sizes {
        let trace = folder.path().join("long.dat");
        long_trace::write_repeated(&trace, mib << 20)?;
        let mut command = Command::new(std::env::current_exe()?);
        peaks.push(memory::read_child_peak(command.arg(FLAG).arg(&trace))?);
    }
    let ratio = peaks[1] / peaks[0];
    print_judged(
        &format!(
            "peak memory, importing {} MiB and {} MiB: {:.0} and {:.0} MiB",
            sizes[0],
            sizes[1],
            peaks[0] / 1024.0,
            peaks[1] / 1024.0
        ),
        &format!("{ratio:.2} x"),
        "does not grow",
        ratio < 1.25,
    );
    Ok(())
}
