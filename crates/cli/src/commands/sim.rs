//! `wakepath sim`: a fio job on a modelled machine, under every combination of the given policies.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use wakepath_hardware::Machine;
use wakepath_policies::spec::{self, PolicySpec};
use wakepath_sim::{Combination, CombinationResult, Comparison, compare_while};
use wakepath_workloads::fio;

use super::timeline::TimelineArgs;
use crate::output::{self, Format};
use crate::waiting;

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  wakepath sim workloads/part-b-rk3399.fio --machine rk3399 \\
      --idle menu@6.1,teo@6.12 --freq 'schedutil,schedutil[iowait_boost=off]'
  wakepath sim workloads/part-b-rk3399.fio --machine rk3399 --perfetto menu.pftrace")]
pub(crate) struct Args {
    /// fio job file.
    job: PathBuf,
    /// Built-in machine, or a machine file (*.toml).
    #[arg(long)]
    machine: String,
    /// Idle governors, separated by commas.
    #[arg(long, value_name = "A,B", default_value = "menu")]
    idle: String,
    /// Frequency policies, separated by commas.
    #[arg(long, value_name = "C,D", default_value = "schedutil")]
    freq: String,
    /// Power-sleep demotion prevention in all runs, for example psd[timeout=3ms].
    #[arg(long)]
    psd: Option<String>,
    /// Runs per combination, each with a seed of its own.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Seed of the first run; the others count up from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    timeline: TimelineArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    let machine = Machine::find(&args.machine)?;
    let idle = spec::parse_list(&args.idle).context("--idle")?;
    let freq = spec::parse_list(&args.freq).context("--freq")?;
    let psd = args
        .psd
        .as_deref()
        .map(str::parse::<PolicySpec>)
        .transpose()
        .context("--psd")?;
    let workload = fio::load(&args.job)?;
    let combinations: Vec<Combination> = idle
        .iter()
        .flat_map(|idle| {
            freq.iter().map(|freq| Combination {
                idle: idle.clone(),
                freq: freq.clone(),
                psd: psd.clone(),
            })
        })
        .collect();
    let seeds = seeds(args.seed, args.runs);
    let all = combinations.len() * seeds.len();
    let comparison = waiting::with_progress(all, "runs", |waiting| {
        args.timeline
            .write(&machine, &workload, &combinations, args.seed)?;
        let result = compare_while(waiting, &machine, &workload, &combinations, &seeds)?;
        Ok(result)
    })?;
    for warning in &workload.warnings {
        eprintln!(
            "wakepath: {}:{}: {}",
            args.job.display(),
            warning.line,
            warning.message
        );
    }
    match args.format {
        Format::Json => output::json(out, &comparison),
        Format::Csv => write_csv(out, &comparison),
        Format::Table => write_tables(out, &machine, &comparison),
    }
}

/// `runs` seeds counting up from `first`.
pub(crate) fn seeds(first: u64, runs: u32) -> Vec<u64> {
    (0..u64::from(runs))
        .map(|i| first.wrapping_add(i))
        .collect()
}

fn write_csv(out: &mut impl Write, comparison: &Comparison) -> anyhow::Result<()> {
    let header = [
        "idle",
        "freq",
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
    ];
    let rows = comparison.results.iter().flat_map(|result| {
        result.runs.iter().map(|run| {
            [
                result.idle.to_string(),
                result.freq.to_string(),
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
            ]
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
    writeln!(out, "{}: median of {runs} run(s)\n", machine.title)?;
    output::table(
        out,
        [
            "idle",
            "freq",
            "IOPS",
            "mean us",
            "p50",
            "p99",
            "p99.9",
            "MHz",
            "mW",
            "uJ per I/O",
            "too deep",
            "too shallow",
        ],
        comparison.results.iter().map(|r| {
            [
                r.idle.to_string(),
                r.freq.to_string(),
                format!("{:.0}", r.iops),
                format!("{:.1}", r.mean_us),
                format!("{:.1}", r.p50_us),
                format!("{:.1}", r.p99_us),
                format!("{:.1}", r.p999_us),
                format!("{:.0}", r.mean_mhz),
                r.mean_mw.map_or_else(String::new, |mw| format!("{mw:.0}")),
                r.per_io_uj
                    .map_or_else(String::new, |uj| format!("{uj:.0}")),
                format!("{:.0}", r.too_deep),
                format!("{:.0}", r.too_shallow),
            ]
        }),
    )?;
    writeln!(
        out,
        "\nWhere a request's time goes: us of the mean and of the 99th percentile, first run\n"
    )?;
    output::table(
        out,
        [
            "idle",
            "freq",
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
        comparison.results.iter().flat_map(attribution_rows),
    )?;
    writeln!(
        out,
        "\nShare of CPU time, all {} CPUs, first run\n",
        machine.cpus()
    )?;
    let rows = comparison.results.iter().flat_map(state_rows);
    output::table(
        out,
        [
            "idle",
            "freq",
            "state",
            "time %",
            "entries",
            "too deep",
            "too shallow",
        ],
        rows,
    )
}

/// The parts of the mean and of the 99th percentile of the first run.
fn attribution_rows(result: &CombinationResult) -> Vec<[String; 12]> {
    let Some(run) = result.runs.first() else {
        return Vec::new();
    };
    [
        ("mean", &run.attribution.mean),
        ("p99", &run.attribution.p99),
    ]
    .map(|(of, attribution)| {
        let mut row = [const { String::new() }; 12];
        row[0] = result.idle.to_string();
        row[1] = result.freq.to_string();
        of.clone_into(&mut row[2]);
        for (cell, (_, us)) in row[3..].iter_mut().zip(attribution.parts()) {
            *cell = format!("{us:.1}");
        }
        row
    })
    .into()
}

/// One row per idle state of the first run, and one for the time in between.
fn state_rows(result: &CombinationResult) -> Vec<[String; 7]> {
    let Some(run) = result.runs.first() else {
        return Vec::new();
    };
    let all = run.seconds * run.cpus.len() as f64;
    let percent = |seconds: f64| format!("{:.2}", 100.0 * seconds / all);
    let busy: f64 = run.cpus.iter().map(|c| c.busy_seconds).sum();
    let names = || [result.idle.to_string(), result.freq.to_string()];
    let mut rows: Vec<[String; 7]> = run
        .idle_states
        .iter()
        .map(|s| {
            let [idle, freq] = names();
            [
                idle,
                freq,
                s.name.clone(),
                percent(s.seconds),
                s.entries.to_string(),
                s.too_deep.to_string(),
                s.too_shallow.to_string(),
            ]
        })
        .collect();
    let [idle, freq] = names();
    let none = String::new;
    rows.push([
        idle,
        freq,
        "(busy)".into(),
        percent(busy),
        none(),
        none(),
        none(),
    ]);
    rows
}
