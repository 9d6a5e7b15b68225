//! `wakepath sim`: a fio job or an rt-app file on a modelled machine, under the given policy sets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use wakepath_compare::figure::Unit;
use wakepath_compare::{missed_rate, steady_change, still_drifts};
use wakepath_hardware::Machine;
use wakepath_hardware::machine::Origin;
use wakepath_hardware::recorded::{self, RecordedSystem};
use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Place;
use wakepath_sim::{
    CpuTime, Drift, DriveRun, LONGEST_UNTIMED, PolicyComparison, PolicyResult, RateRun, Run,
    in_force,
};
use wakepath_study::file::StudyError;
use wakepath_study::plan::{Plan, requested_rates};
use wakepath_study::run::RunControl;
use wakepath_study::run::sim::Sim;
use wakepath_units::{KernelVersion, Nanoseconds, median};
use wakepath_workloads::Workload;
use wakepath_workloads::rtapp::{MAX_THREADS, RtAppVersion};

mod drawing;
mod figures;
mod power;
mod threads;

use super::timeline::TimelineArgs;
use crate::messages::{self, Kind, note, warning};
use crate::output::{self, Format, Screen};
use crate::policy_set::{self, Programs, WholeSet};
use crate::until;
use crate::waiting::{self, Jobs};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  wakepath sim workloads/iowait-rk3399.fio --machine rk3399 --policy menu@6.1 --policy 'teo + schedutil[iowait_boost=off]'
  wakepath sim workloads/iowait-rk3399.fio --machine rk3399 --policy '' --policy 'cpu-latency[limit=20us]'
  wakepath sim workloads/apst-7.fio --machine laptop --drive sn530 --policy 'apst[rule=legacy]' --policy apst
  wakepath sim workloads/iowait-rk3399.fio --machine rk3399 --perfetto menu.pftrace
  wakepath sim workloads/ping-pong.json --machine intel-tbench-80t --policy performance --policy 'performance + poll[rule=first]'")]
pub(crate) struct Args {
    /// fio job file, or rt-app file (*.json).
    job: PathBuf,
    /// Built-in machine, recorded system, or a machine file (*.toml).
    #[arg(long)]
    machine: String,
    /// Policies that hold together, such as 'menu + schedutil + psd[timeout=3ms]'; give it again for each set to
    /// compare. What a set does not name is as the machine's kernel has it. `wakepath policy list` has them all.
    /// `file:/etc/wakepath/daemon.toml` stands for what the daemon would do by that configuration.
    #[arg(long, value_name = "SET", value_parser = WholeSet(Place::Sim), hide_possible_values = true)]
    policy: Vec<PolicySet>,
    /// The machine's drive instead of its own: sn530, 760p, pm991, bc511, kbg40zns, any drive of
    /// `wakepath drive list`, a drive model file (*.toml), or a file with what `nvme id-ctrl` or smartctl printed. On a
    /// captured machine also another of its own, such as nvme1. A drive with power states sleeps by the kernel's default
    /// unless the set has an apst.
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
    /// How often to run an rt-app workload side by side, each copy with threads and resources of its
    /// own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    copies: Option<u32>,
    /// Longest time that each fio job, or an rt-app file, is simulated for, such as 500ms or 30s; a plain number counts seconds.
    /// Without it, what gives no time of its own ends after 60 s, and an rt-app file after 600 s.
    #[arg(long, value_name = "TIME", value_parser = until::simulated)]
    seconds: Option<Nanoseconds>,
    /// The rt-app that a file was written for: 1.0, where `suspend` waits for the name that it gives, or 2025, where it waits
    /// for its own task's [default: as the file says, or 2025].
    #[arg(long, value_name = "VERSION")]
    rt_app: Option<RtAppVersion>,
    /// Time at the start of time-based fio jobs that does not count, such as 500ms; a plain number counts seconds, and
    /// 0 counts from the first request. A job that has a ramp_time keeps it [default: ten times what is measured, 2 s at most;
    /// none of a job that pauses for as long as it runs].
    #[arg(long, value_name = "TIME", value_parser = until::warm_up)]
    warm_up: Option<Nanoseconds>,
    /// The kernel whose policies bare names mean, and what no set names, such as 6.12.48 or 7.3; `wakepath policy kernels` has
    /// what changed [default: the machine's, or 6.12].
    #[arg(long, value_name = "VERSION", value_parser = super::parse_kernel)]
    kernel: Option<KernelVersion>,
    /// Runs per policy set, each with a seed of its own.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Seed of the first run; the others count up from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    programs: Programs,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    timeline: TimelineArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let mut machine = Machine::find(&args.machine)?;
    if let Some(kernel) = args.kernel {
        machine.kernel = Some(kernel);
        machine.kernel_from = Some("--kernel".to_owned());
    }
    if let Some(name) = &args.drive {
        let drive = machine.find_drive(name).context("--drive")?;
        machine.replace_drive(drive);
    }
    let given = policy_set::load(&args.policy, args.programs)?;
    let policies = policies(&machine, &given)?;
    let mut workload = Workload::load_for(&args.job, args.rt_app)?;
    match &mut workload {
        Workload::Fio(_) if args.rt_app.is_some() => {
            bail!("--rt-app is for rt-app files, and this is a fio job")
        }
        Workload::Fio(file) => {
            for job in &mut file.jobs {
                job.at_most = args.seconds;
            }
        }
        Workload::RtApp(file) => file.at_most = args.seconds,
    }
    let workload = match workload {
        Workload::Fio(file) => file.with_warm_up(args.warm_up).into(),
        threads @ Workload::RtApp(_) => threads,
    };
    let workload = match args.copies {
        Some(copies) => copied(workload, copies).context("--copies")?,
        None => workload,
    };
    let plan = Plan::on_the_spot(
        &args.job.display().to_string(),
        machine.clone(),
        workload.clone(),
        policies,
        args.seed,
        args.runs,
    );
    let comparison = waiting::counting(args.jobs, plan.runs(), "runs", |finished, cancelled| {
        let sim = Sim::new(&plan)?;
        args.timeline.write(&plan, &sim).map_err(plain)?;
        let control = RunControl {
            finished,
            cancelled,
        };
        sim.compare(&control).map_err(|e| plain(e.into()))
    })?;
    for warning in workload.warnings() {
        messages::add(
            Kind::Remark,
            None,
            format!("{}:{warning}", args.job.display()),
        );
    }
    tell_warm_up(&workload, args.format);
    tell_drifts(&args.job, &comparison);
    tell_cut_jobs(&workload, &comparison);
    threads::tell(&args.job, &workload, &comparison);
    tell_page_cache(&machine, &comparison);
    tell_power_limits(&comparison);
    let drive = &machine.drive;
    if let Some(note) = &drive.note {
        note!("{note}");
    }
    let declared = drive.power.as_ref().map(|power| &power.declared);
    for contradiction in declared.iter().flat_map(|d| d.contradictions()) {
        warning!(
            "what {} declares contradicts itself: {contradiction}; its power is partly assumed \
             (`wakepath machine show`)",
            drive.name
        );
    }
    if let Some(warning) = missed_rates(&workload, &comparison) {
        messages::add(
            Kind::Warning,
            Some(&args.job.display().to_string()),
            warning,
        );
    }
    let of_threads = matches!(workload, Workload::RtApp(_));
    match args.format {
        Format::Json => output::json(out, &comparison),
        Format::Csv if of_threads => threads::write_csv(out, &comparison),
        Format::Csv => write_csv(out, &comparison),
        Format::Table if of_threads => threads::write_tables(out, &machine, &comparison),
        Format::Table => write_tables(out, &machine, &comparison),
    }
}

/// An error without the names of workload and policy, which are those of the command line.
fn plain(error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        Ok(StudyError::Simulation { source, .. }) => (*source).into(),
        Ok(other) => other.into(),
        Err(other) => other,
    }
}

/// Says what was left out at the beginning, beside a table.
fn tell_warm_up(workload: &Workload, format: Format) {
    let Workload::Fio(file) = workload else {
        return;
    };
    if let (Some(time), Format::Table) = (file.warm_up(), format) {
        note!(
            "the first {} s are a warm-up and do not count (--warm-up)",
            time.as_secs_f64()
        );
    }
    for job in file.jobs_that_mostly_pause() {
        note!(
            "job `{}` pauses for as long as it runs: it has no warm-up, and counts from its first request",
            job.name
        );
    }
}

/// Says under which policies latency had not settled.
fn tell_drifts(job: &Path, comparison: &PolicyComparison) {
    let drifts = comparison.results.iter().filter_map(|result| {
        let drifts: Vec<f64> = result
            .runs
            .iter()
            .filter_map(|run| Some(run.drift?.percent))
            .collect();
        let percent = match &result.runs[..] {
            [_, _, _, _, ..] => steady_change(&drifts)?,
            // Too few runs for an interval between them: each has one of its own.
            runs => {
                let sure = |run: &Run| Some(run.drift.filter(Drift::is_sure)?.percent);
                let sure: Option<Vec<f64>> = runs.iter().map(sure).collect();
                median(sure?)?
            }
        };
        Some((result.policy.to_string(), percent))
    });
    let drifts: Vec<(String, f64)> = drifts.collect();
    if let Some(warning) = still_drifts("the job", &drifts, "--warm-up") {
        let job = job.display().to_string();
        messages::add(Kind::Warning, Some(&job), warning);
    }
}

/// Says which jobs had more to do than was simulated.
fn tell_cut_jobs(workload: &Workload, comparison: &PolicyComparison) {
    let Workload::Fio(file) = workload else {
        return;
    };
    let runs = || comparison.results.iter().flat_map(|result| &result.runs);
    let mut cut: BTreeMap<Nanoseconds, Vec<String>> = BTreeMap::new();
    for (index, job) in file.jobs.iter().enumerate() {
        if runs().any(|run| run.cut_jobs.contains(&index)) {
            let after = job.at_most.unwrap_or(LONGEST_UNTIMED);
            cut.entry(after)
                .or_default()
                .push(format!("`{}`", job.name));
        }
    }
    for (after, jobs) in cut {
        let (who, whose) = match jobs.as_slice() {
            [job] => (format!("job {job} has"), "it"),
            jobs => (format!("jobs {} have", jobs.join(", ")), "each"),
        };
        let seconds = after.as_secs_f64();
        note!(
            "{who} more to do than the {seconds} s that were simulated of {whose}; \
             --seconds N simulates more or less"
        );
    }
}

/// Says how much of what was written into the page cache has reached the drive, which decides what the figures are about.
fn tell_page_cache(machine: &Machine, comparison: &PolicyComparison) {
    let first = comparison
        .results
        .first()
        .and_then(|result| result.runs.first());
    let Some((run, cache)) = first.and_then(|run| Some((run, run.page_cache?))) else {
        return;
    };
    let mb = |bytes: u64| format!("{:.0} MB", bytes as f64 / 1e6);
    let memory = &machine.page_cache.memory_gib;
    let memory = match memory.origin {
        Origin::Assumed(_) => format!("{} GiB of memory, which are assumed", memory.value),
        _ => format!("{} GiB of memory", memory.value),
    };
    note!(
        "buffered writes: of {} dirtied, {} were written back within {:.3} s; writers were held back for {:.3} s; {memory}",
        mb(cache.dirtied_bytes),
        mb(cache.written_back_bytes),
        run.seconds,
        cache.held_back_seconds,
    );
}

/// Says where a power limit decided how fast the machine was.
fn tell_power_limits(comparison: &PolicyComparison) {
    for result in &comparison.results {
        let of_run = |run: &Run| run.energy.as_ref()?.power_limited_percent;
        let percent = median(result.runs.iter().filter_map(of_run)).unwrap_or(0.0);
        if percent >= 1.0 {
            note!(
                "a power limit of the processor held its clock down for {percent:.0} % of the time under {}",
                result.policy
            );
        }
    }
}

/// Where the jobs asked for more than was done.
fn missed_rates(workload: &Workload, comparison: &PolicyComparison) -> Option<String> {
    let rates = requested_rates(workload);
    let reached = |result: &PolicyResult| {
        let of_run = |run: &Run| run.rates.iter().map(RateRun::share).min_by(f64::total_cmp);
        let shares: Option<Vec<f64>> = result.runs.iter().map(of_run).collect();
        Some((result.policy.to_string(), 100.0 * median(shares?)?))
    };
    let reached: Vec<(String, f64)> = comparison.results.iter().filter_map(reached).collect();
    let who = match &rates[..] {
        [only] => format!("job `{}`", only.job),
        _ => "the workload".to_owned(),
    };
    missed_rate(&who, &rates, &reached)
}

/// The policy sets to run, each once.
fn policies(machine: &Machine, given: &[PolicySet]) -> anyhow::Result<Vec<PolicySet>> {
    let unchanged = [PolicySet::default()];
    let given = if given.is_empty() { &unchanged } else { given };
    let open = |set: &PolicySet| set.idle().is_none() || set.frequency().is_none();
    let ran = recorded::find(&machine.name).map(RecordedSystem::kernel_policy);
    let stands_in = ran.and_then(|ran| ran.stands_in);
    if let Some(told) = stands_in.filter(|_| given.iter().any(open)) {
        messages::add(Kind::Remark, None, told);
    }
    policy_set::tell_notes(machine, given).context("--policy")?;
    let sets: Result<Vec<PolicySet>, _> = given.iter().map(|set| in_force(machine, set)).collect();
    Ok(policy_set::each_once(sets.context("--policy")?))
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

/// A header that begins with the policies.
fn header<'a>(columns: &[&'a str]) -> Vec<&'a str> {
    [&["policy"], columns].concat()
}

fn row<const N: usize>(of: &PolicyResult, columns: [String; N]) -> Vec<String> {
    let mut row = vec![of.policy.to_string()];
    row.extend(columns);
    row
}

/// A count of all CPUs, per second.
fn per_second(run: &Run, count: fn(&CpuTime) -> u64) -> String {
    let all: u64 = run.cpus.iter().map(count).sum();
    (all as f64 / run.seconds).to_string()
}

fn write_csv(out: &mut Screen, comparison: &PolicyComparison) -> anyhow::Result<()> {
    let mut header = header(&[
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
        "above",
        "below",
        "ticks_per_s",
        "wake_ups_per_s",
    ]);
    let mut runs = comparison.results.iter().flat_map(|result| &result.runs);
    if runs.any(|run| run.drive.is_some()) {
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
                    run.above.to_string(),
                    run.below.to_string(),
                    per_second(run, |cpu| cpu.idle_ticks),
                    per_second(run, |cpu| cpu.wake_ups),
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
    out: &mut Screen,
    machine: &Machine,
    comparison: &PolicyComparison,
) -> anyhow::Result<()> {
    let runs = comparison.results.first().map_or(0, |r| r.runs.len());
    let drive = match &machine.drive.power {
        Some(_) => format!("; {}", machine.drive.name),
        None => String::new(),
    };
    out.prose(
        &format!("{}{drive}: median of {runs} run(s)", machine.title),
        2,
    )?;
    writeln!(out)?;
    let power = figures::power(machine, comparison);
    let energy = figures::energy_unit(machine, comparison);
    output::table(
        out,
        header(&[
            "IOPS",
            "mean us",
            "p50",
            "p99",
            "p99.9",
            "MHz",
            &power.name,
            &format!("{} per I/O", energy.name),
            "too deep",
            "too shallow",
        ]),
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
                    figures::energy(r, &energy),
                    format!("{:.0}", r.too_deep),
                    format!("{:.0}", r.too_shallow),
                ],
            )
        }),
    )?;
    write_drive(out, machine, comparison)?;
    writeln!(
        out,
        "\nWhere a request's time goes: us of the mean and of the 99th percentile, first run\n"
    )?;
    output::table(
        out,
        header(&[
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
        ]),
        comparison.results.iter().flat_map(attribution_rows),
    )?;
    write_states(out, machine, comparison)?;
    drawing::write(out, comparison)
}

/// What the CPUs did, and what the machine drew.
fn write_states(
    out: &mut Screen,
    machine: &Machine,
    comparison: &PolicyComparison,
) -> anyhow::Result<()> {
    writeln!(
        out,
        "\nShare of CPU time, all {} CPUs, first run\n",
        machine.cpus()
    )?;
    output::table(
        out,
        header(&[
            "state",
            "time %",
            "usage",
            "above",
            "below",
            "too deep",
            "too shallow",
        ]),
        comparison.results.iter().flat_map(state_rows),
    )?;
    power::write(out, machine, comparison)
}

/// What the drive drew, and its share of time per power state in the first run; nothing if no drive
/// was named.
fn write_drive(
    out: &mut Screen,
    machine: &Machine,
    comparison: &PolicyComparison,
) -> anyhow::Result<()> {
    let drives: Vec<(&PolicyResult, &DriveRun)> = comparison
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
        |result: &PolicyResult, drive: &DriveRun| result.drive_mw.unwrap_or(drive.average_mw);
    let powers = drives.iter().map(|(result, drive)| average(result, drive));
    let power = figures::digits_of(machine, Unit::of_all("mW", powers));
    output::table(
        out,
        header(&[
            &power.name,
            "wake-ups",
            "mean wake us",
            "active",
            "changing",
            "power states",
        ]),
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
fn attribution_rows(result: &PolicyResult) -> Vec<Vec<String>> {
    let Some(run) = result.runs.first() else {
        return Vec::new();
    };
    [
        ("mean", &run.attribution.mean),
        ("p99", &run.attribution.p99),
    ]
    .map(|(of, attribution)| {
        let mut row = vec![result.policy.to_string()];
        row.push(of.to_owned());
        row.extend(attribution.parts().iter().map(|(_, us)| format!("{us:.1}")));
        row
    })
    .into()
}

/// One row per idle state of the first run, and one for the time in between.
fn state_rows(result: &PolicyResult) -> Vec<Vec<String>> {
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
                    s.above.to_string(),
                    s.below.to_string(),
                    s.too_deep.to_string(),
                    s.too_shallow.to_string(),
                ],
            )
        })
        .collect();
    let none = String::new;
    rows.push(row(
        result,
        [
            "(busy)".into(),
            percent(busy),
            none(),
            none(),
            none(),
            none(),
            none(),
        ],
    ));
    rows
}
