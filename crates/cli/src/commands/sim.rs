//! `wakepath sim`: a fio job or an rt-app file on a modelled machine, under every combination of the given policies.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, bail};
use wakepath_compare::figure::Unit;
use wakepath_hardware::Machine;
use wakepath_hardware::recorded::{self, RecordedSystem};
use wakepath_policies::spec::{self, PolicySpec};
use wakepath_sim::{
    Combination, CombinationResult, Comparison, DriveRun, Experiment, LONGEST_UNTIMED, Run,
    compare_all,
};
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;
use wakepath_workloads::fio::FioJob;
use wakepath_workloads::rtapp::MAX_THREADS;

mod drawing;
mod figures;
mod power;
mod threads;

use super::timeline::TimelineArgs;
use crate::output::{self, Format};
use crate::waiting::{self, Jobs};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  wakepath sim workloads/part-b-rk3399.fio --machine rk3399 \\
      --idle menu@6.1,teo@6.12 --freq 'schedutil,schedutil[iowait_boost=off]'
  wakepath sim workloads/part-d-7.fio --machine laptop --drive sn530 --apst 'apst[rule=legacy],apst'
  wakepath sim workloads/part-b-rk3399.fio --machine rk3399 --perfetto menu.pftrace
  wakepath sim workloads/ping-pong.json --machine intel-tbench-80t --freq performance \\
      --poll 'poll,poll[rule=first]'")]
pub(crate) struct Args {
    /// fio job file, or rt-app file (*.json).
    job: PathBuf,
    /// Built-in machine, recorded system, or a machine file (*.toml).
    #[arg(long)]
    machine: String,
    /// Idle governors, separated by commas. By default menu, or what a recorded system ran.
    #[arg(long, value_name = "A,B")]
    idle: Option<String>,
    /// Frequency policies, separated by commas: schedutil, ondemand, performance, powersave, and on
    /// machines that say what they need, intel_pstate and intel_pstate-hwp, for example
    /// intel_pstate-hwp[hwp_dynamic_boost=on]. By default schedutil, or what a recorded system ran.
    #[arg(long, value_name = "C,D")]
    freq: Option<String>,
    /// Power-sleep demotion prevention in all runs, for example psd[timeout=3ms].
    #[arg(long)]
    psd: Option<String>,
    /// Whether a process that waits with io_uring counts as waiting for I/O; off is what
    /// IORING_ENTER_NO_IOWAIT asks for (Linux 6.15).
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = switch, action = clap::ArgAction::Set)]
    io_uring_iowait: bool,
    /// Idle states to switch off, separated by commas, as writing 1 to their `disable` files does.
    #[arg(long, value_name = "S,T", value_delimiter = ',')]
    disable_idle: Vec<String>,
    /// The machine's drive instead of its own: sn530, 760p, pm991, bc511, kbg40zns, any drive of
    /// `wakepath drive list`, a drive model file (*.toml), or another one of a captured machine, such as nvme1.
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
    /// When the drive sleeps: APST policies, separated by commas. A drive with power states, of --drive or of a captured
    /// machine, sleeps by the kernel's default.
    #[arg(long, value_name = "E,F")]
    apst: Option<String>,
    /// How long the polling idle state polls: policies, separated by commas, for example
    /// poll,poll[rule=first].
    #[arg(long, value_name = "G,H")]
    poll: Option<String>,
    /// How often to run an rt-app workload side by side, each copy with threads and resources of its
    /// own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    copies: Option<u32>,
    /// Longest time that each fio job is simulated for, in seconds; without it, a job that has no runtime ends after
    /// 60 s.
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<Nanoseconds>,
    /// Runs per combination, each with a seed of its own.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Seed of the first run; the others count up from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    timeline: TimelineArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    let mut machine = Machine::find(&args.machine)?;
    let ran = recorded::find(&machine.name).map(RecordedSystem::kernel_policy);
    let ran_idle = ran.as_ref().map_or("menu", |ran| &ran.idle);
    let ran_freq = ran.as_ref().map_or("schedutil", |ran| &ran.freq);
    let idle = spec::parse_list(args.idle.as_deref().unwrap_or(ran_idle)).context("--idle")?;
    let freq = spec::parse_list(args.freq.as_deref().unwrap_or(ran_freq)).context("--freq")?;
    let stands_in = ran.as_ref().and_then(|ran| ran.stands_in.as_ref());
    if let Some(told) = stands_in.filter(|_| args.idle.is_none() || args.freq.is_none()) {
        eprintln!("wakepath: {told}");
    }
    note_repeated("--idle", &idle);
    note_repeated("--freq", &freq);
    let psd = args
        .psd
        .as_deref()
        .map(str::parse::<PolicySpec>)
        .transpose()
        .context("--psd")?;
    if let Some(name) = &args.drive {
        let drive = machine.find_drive(name).context("--drive")?;
        machine.replace_drive(drive);
    }
    let mut apst = vec![None];
    if machine.drive.power.is_some() || args.apst.is_some() {
        apst = spec::parse_list(args.apst.as_deref().unwrap_or("apst"))
            .context("--apst")?
            .into_iter()
            .map(Some)
            .collect();
    }
    let off: Vec<&str> = args.disable_idle.iter().map(String::as_str).collect();
    machine
        .disable_idle_states(&off)
        .context("--disable-idle")?;
    let mut poll = vec![None];
    if let Some(names) = &args.poll {
        let names = spec::parse_list(names).context("--poll")?;
        poll = names.into_iter().map(Some).collect();
    }
    let mut workload = Workload::load(&args.job)?;
    if let Workload::Fio(file) = &mut workload {
        for job in &mut file.jobs {
            job.no_iowait = !args.io_uring_iowait;
            job.at_most = args.seconds;
        }
    }
    if let Some(copies) = args.copies {
        workload = copied(workload, copies).context("--copies")?;
    }
    let combinations: Vec<Combination> = idle
        .iter()
        .flat_map(|idle| freq.iter().map(move |freq| (idle, freq)))
        .flat_map(|(idle, freq)| {
            let psd = &psd;
            let with = move |apst: &Option<PolicySpec>, poll: &Option<PolicySpec>| Combination {
                idle: idle.clone(),
                freq: freq.clone(),
                psd: psd.clone(),
                apst: apst.clone(),
                poll: poll.clone(),
            };
            let poll = &poll;
            apst.iter()
                .flat_map(move |apst| poll.iter().map(move |poll| with(apst, poll)))
        })
        .collect();
    let seeds = seeds(args.seed, args.runs);
    let all = combinations.len() * seeds.len();
    let experiments = [Experiment {
        machine,
        workload,
        combinations,
    }];
    let [experiment] = &experiments;
    let comparison = waiting::with_progress(args.jobs, all, "runs", |waiting| {
        args.timeline.write(experiment, args.seed)?;
        let comparisons = compare_all(waiting, &experiments, &seeds)?;
        Ok(comparisons.into_iter().next().unwrap_or_default())
    })?;
    for warning in experiment.workload.warnings() {
        eprintln!("wakepath: {}:{warning}", args.job.display());
    }
    tell_cut_jobs(experiment, &comparison);
    let drive = &experiment.machine.drive;
    let declared = drive.power.as_ref().map(|power| &power.declared);
    for contradiction in declared.iter().flat_map(|d| d.contradictions()) {
        eprintln!(
            "wakepath: warning: what {} declares contradicts itself: {contradiction}; its power is partly assumed \
             (`wakepath machine show`)",
            drive.name
        );
    }
    for warning in missed_rates(&experiment.workload, &comparison) {
        eprintln!("wakepath: {}: warning: {warning}", args.job.display());
    }
    let of_threads = matches!(experiment.workload, Workload::RtApp(_));
    match args.format {
        Format::Json => output::json(out, &comparison),
        Format::Csv if of_threads => threads::write_csv(out, &comparison),
        Format::Csv => write_csv(out, &comparison),
        Format::Table if of_threads => threads::write_tables(out, &experiment.machine, &comparison),
        Format::Table => write_tables(out, &experiment.machine, &comparison),
    }
}

/// Seconds of simulated time.
fn seconds(text: &str) -> Result<Nanoseconds, String> {
    let most = 365.0 * 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if (1e-6..=most).contains(&seconds) => {
            Ok(Nanoseconds((seconds * 1e9).round() as u64))
        }
        _ => Err("expected seconds, from 0.000001 up to a year".to_owned()),
    }
}

/// Says which jobs had more to do than was simulated.
fn tell_cut_jobs(experiment: &Experiment, comparison: &Comparison) {
    let Workload::Fio(file) = &experiment.workload else {
        return;
    };
    let runs = || comparison.results.iter().flat_map(|result| &result.runs);
    for (index, job) in file.jobs.iter().enumerate() {
        if runs().any(|run| run.cut_jobs.contains(&index)) {
            let seconds = job.at_most.unwrap_or(LONGEST_UNTIMED).as_secs_f64();
            eprintln!(
                "wakepath: note: job `{}` has more to do than the {seconds} s that were simulated of it; \
                 --seconds N simulates more or less",
                job.name
            );
        }
    }
}

/// A rate is reached that differs by no more than this share: fio's own jobs end a little early or late.
const REACHED: f64 = 0.98;

/// Where the jobs asked for more I/Os per second than were done.
fn missed_rates(workload: &Workload, comparison: &Comparison) -> Vec<String> {
    let Workload::Fio(file) = workload else {
        return Vec::new();
    };
    let asked: Option<f64> = file.jobs.iter().map(FioJob::asked_iops).sum();
    let Some(asked) = asked.filter(|_| !file.jobs.is_empty()) else {
        return Vec::new();
    };
    let missed = comparison
        .results
        .iter()
        .filter(|result| result.iops < REACHED * asked);
    missed
        .map(|result| {
            format!(
                "the rate asked for is not reached under {}: {asked:.0} I/Os per second asked, {:.0} done",
                names(result).join(" + "),
                result.iops
            )
        })
        .collect()
}

/// Says which policies of an option are named more than once: they run once.
fn note_repeated(option: &str, specs: &[PolicySpec]) {
    let mut said: Vec<&PolicySpec> = Vec::new();
    for (place, spec) in specs.iter().enumerate() {
        if specs[..place].contains(spec) && !said.contains(&spec) {
            said.push(spec);
            eprintln!("wakepath: note: {option} names {spec} more than once; it runs once");
        }
    }
}

/// The workload so many times side by side.
fn copied(workload: Workload, copies: u32) -> anyhow::Result<Workload> {
    match workload {
        Workload::RtApp(file) => match file.with_copies(copies) {
            Ok(file) => Ok(file.into()),
            Err(threads) => bail!("{threads} threads, and there may be 1 to {MAX_THREADS}"),
        },
        Workload::Fio(_) => bail!("for rt-app files; a fio job has numjobs"),
    }
}

/// `runs` seeds counting up from `first`.
pub(crate) fn seeds(first: u64, runs: u32) -> Vec<u64> {
    (0..u64::from(runs))
        .map(|i| first.wrapping_add(i))
        .collect()
}

/// The names that tell one combination from another; APST and polling policies only where there are any.
fn names(of: &CombinationResult) -> Vec<String> {
    let given = [
        Some(&of.idle),
        Some(&of.freq),
        of.apst.as_ref(),
        of.poll.as_ref(),
    ];
    given
        .into_iter()
        .flatten()
        .map(ToString::to_string)
        .collect()
}

/// A header that begins with the columns of [`names`].
fn header<'a>(comparison: &Comparison, columns: &[&'a str]) -> Vec<&'a str> {
    let mut header = vec!["idle", "freq"];
    if comparison.results.iter().any(|r| r.apst.is_some()) {
        header.push("apst");
    }
    if comparison.results.iter().any(|r| r.poll.is_some()) {
        header.push("poll");
    }
    header.extend(columns);
    header
}

fn row<const N: usize>(of: &CombinationResult, columns: [String; N]) -> Vec<String> {
    let mut row = names(of);
    row.extend(columns);
    row
}

fn write_csv(out: &mut impl Write, comparison: &Comparison) -> anyhow::Result<()> {
    let mut header = header(
        comparison,
        &[
            "seed",
            "iops",
            "mean_us",
            "p50_us",
            "p99_us",
            "p999_us",
            "mean_mhz",
            "mean_mw",
            "too_deep",
            "too_shallow",
        ],
    );
    if comparison.results.iter().any(|r| r.apst.is_some()) {
        header.extend(["drive_mw", "drive_wake_ups", "drive_mean_wake_us"]);
    }
    let rows = comparison.results.iter().flat_map(|result| {
        result.runs.iter().map(|run| {
            let mut row = row(
                result,
                [
                    run.seed.to_string(),
                    run.iops.to_string(),
                    run.latency_us.mean.to_string(),
                    run.latency_us.p50.to_string(),
                    run.latency_us.p99.to_string(),
                    run.latency_us.p999.to_string(),
                    run.mean_mhz.to_string(),
                    run.energy
                        .as_ref()
                        .map_or_else(String::new, |e| e.mean_mw.to_string()),
                    run.too_deep.to_string(),
                    run.too_shallow.to_string(),
                ],
            );
            if let Some(drive) = &run.drive {
                row.extend([
                    drive.average_mw.to_string(),
                    drive.wake_ups.to_string(),
                    drive.mean_wake_us.to_string(),
                ]);
            }
            row
        })
    });
    output::csv(out, header, rows)
}

fn write_tables(
    out: &mut impl Write,
    machine: &Machine,
    comparison: &Comparison,
) -> anyhow::Result<()> {
    let runs = comparison.results.first().map_or(0, |r| r.runs.len());
    let drive = match &machine.drive.power {
        Some(_) => format!("; {}", machine.drive.name),
        None => String::new(),
    };
    writeln!(out, "{}{drive}: median of {runs} run(s)\n", machine.title)?;
    let power = figures::power(comparison);
    output::table(
        out,
        header(
            comparison,
            &[
                "IOPS",
                "mean us",
                "p50",
                "p99",
                "p99.9",
                "MHz",
                &power.name,
                "uJ per I/O",
                "too deep",
                "too shallow",
            ],
        ),
        comparison.results.iter().map(|r| {
            let median = |median: f64, of: fn(&Run) -> f64| {
                figures::median(r, Some(median), |run| Some(of(run)))
            };
            row(
                r,
                [
                    median(r.iops, |run| run.iops),
                    median(r.mean_us, |run| run.latency_us.mean),
                    median(r.p50_us, |run| run.latency_us.p50),
                    median(r.p99_us, |run| run.latency_us.p99),
                    median(r.p999_us, |run| run.latency_us.p999),
                    median(r.mean_mhz, |run| run.mean_mhz),
                    figures::mean_power(r, &power),
                    figures::energy(r),
                    format!("{:.0}", r.too_deep),
                    format!("{:.0}", r.too_shallow),
                ],
            )
        }),
    )?;
    write_drive(out, comparison)?;
    writeln!(
        out,
        "\nWhere a request's time goes: us of the mean and of the 99th percentile, first run\n"
    )?;
    output::table(
        out,
        header(
            comparison,
            &[
                "of",
                "submit",
                "queue",
                "wake",
                "drive",
                "irq",
                "idle exit",
                "low MHz",
                "wait",
                "resume",
            ],
        ),
        comparison.results.iter().flat_map(attribution_rows),
    )?;
    write_states(out, machine, comparison)?;
    drawing::write(out, comparison)
}

/// What the CPUs did, and what the machine drew.
fn write_states(
    out: &mut impl Write,
    machine: &Machine,
    comparison: &Comparison,
) -> anyhow::Result<()> {
    writeln!(
        out,
        "\nShare of CPU time, all {} CPUs, first run\n",
        machine.cpus()
    )?;
    output::table(
        out,
        header(
            comparison,
            &["state", "time %", "entries", "too deep", "too shallow"],
        ),
        comparison.results.iter().flat_map(state_rows),
    )?;
    power::write(out, comparison)
}

/// What the drive drew, and its share of time per power state in the first run; nothing if no drive
/// was named.
fn write_drive(out: &mut impl Write, comparison: &Comparison) -> anyhow::Result<()> {
    let drives: Vec<(&CombinationResult, &DriveRun)> = comparison
        .results
        .iter()
        .filter_map(|r| Some((r, r.runs.first()?.drive.as_ref()?)))
        .collect();
    if drives.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nDrive: median power; wake-ups and time in % of the first run\n"
    )?;
    let average =
        |result: &CombinationResult, drive: &DriveRun| result.drive_mw.unwrap_or(drive.average_mw);
    let powers = drives.iter().map(|(result, drive)| average(result, drive));
    let power = Unit::of_all("mW", powers);
    output::table(
        out,
        header(
            comparison,
            &[
                &power.name,
                "wake-ups",
                "mean wake us",
                "active",
                "changing",
                "power states",
            ],
        ),
        drives.iter().map(|(result, drive)| {
            let all = drive.active_seconds
                + drive.transition_seconds
                + drive.states.iter().map(|s| s.seconds).sum::<f64>();
            let percent = |seconds: f64| format!("{:.2}", 100.0 * seconds / all.max(1e-9));
            let states: Vec<String> = drive
                .states
                .iter()
                .filter(|s| s.seconds > 0.0)
                .map(|s| format!("PS{} {}", s.state, percent(s.seconds)))
                .collect();
            row(
                result,
                [
                    figures::median_in(&power, result, Some(average(result, drive)), |run| {
                        Some(run.drive.as_ref()?.average_mw)
                    }),
                    drive.wake_ups.to_string(),
                    format!("{:.0}", drive.mean_wake_us),
                    percent(drive.active_seconds),
                    percent(drive.transition_seconds),
                    states.join(", "),
                ],
            )
        }),
    )
}

/// The parts of the mean and of the 99th percentile of the first run.
fn attribution_rows(result: &CombinationResult) -> Vec<Vec<String>> {
    let Some(run) = result.runs.first() else {
        return Vec::new();
    };
    [
        ("mean", &run.attribution.mean),
        ("p99", &run.attribution.p99),
    ]
    .map(|(of, attribution)| {
        let mut row = names(result);
        row.push(of.to_owned());
        row.extend(attribution.parts().iter().map(|(_, us)| format!("{us:.1}")));
        row
    })
    .into()
}

/// One row per idle state of the first run, and one for the time in between.
fn state_rows(result: &CombinationResult) -> Vec<Vec<String>> {
    let Some(run) = result.runs.first() else {
        return Vec::new();
    };
    let all = run.seconds * run.cpus.len() as f64;
    let percent = |seconds: f64| format!("{:.2}", 100.0 * seconds / all);
    let busy: f64 = run.cpus.iter().map(|c| c.busy_seconds).sum();
    let mut rows: Vec<Vec<String>> = run
        .idle_states
        .iter()
        .map(|s| {
            row(
                result,
                [
                    s.name.clone(),
                    percent(s.seconds),
                    s.entries.to_string(),
                    s.too_deep.to_string(),
                    s.too_shallow.to_string(),
                ],
            )
        })
        .collect();
    let none = String::new;
    rows.push(row(
        result,
        ["(busy)".into(), percent(busy), none(), none(), none()],
    ));
    rows
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err("expected on or off".into()),
    }
}
