//! `wakepath canary`: whether a change that some machines of a fleet got does harm.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum};
use wakepath_fleet::NamePattern;
use wakepath_watch::canary::{
    BucketUnit, CanaryMetric, CanaryVerdict, FleetSeries, PlanRequest, RollOut, SeriesCollector,
    WorseDirection, judge_roll_out, parse_time_to_seconds, plan_roll_out,
};

use crate::output::{Format, Screen};

mod tables;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath canary plan history.json --harm 5%
  wakepath canary judge latency.json --changed 'web-0*' --since 2026-11-20T12:00:00Z
  wakepath canary judge power.csv --metric mean_mw --changed 'web-0[1-3]' --since 1763640000 --exit-code")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: CanaryCommand,
}

#[derive(Subcommand)]
enum CanaryCommand {
    /// How many machines and days find a given harm, by a history without a change.
    Plan(PlanArgs),
    /// Go on, stop, or take the change back.
    Judge(JudgeArgs),
}

/// What machines measured.
#[derive(clap::Args)]
struct InputArgs {
    /// Prometheus' answers to `query_range` (JSON), or CSV with the columns time, machine, and the metric, or low_us, high_us and
    /// count, or file, which names fio's JSON or a result directory beside the table.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The metric: a percentile such as p99_us, mean_us, or a metric of samples such as mean_mw.
    #[arg(long, value_name = "METRIC", default_value = "p99_us")]
    metric: String,
    /// The direction that is worse, for a metric that results do not know.
    #[arg(long, value_enum)]
    worse: Option<Worse>,
    /// Prometheus' label that names the machine.
    #[arg(long, value_name = "LABEL", default_value = "instance")]
    label: String,
    /// The unit of the buckets' bounds, `le`.
    #[arg(long, value_enum, default_value_t)]
    unit: Unit,
    /// Machines to leave out, such as those with another change; give it again for each pattern.
    #[arg(long, value_name = "PATTERN")]
    leave_out: Vec<NamePattern>,
}

#[derive(clap::Args)]
struct PlanArgs {
    #[command(flatten)]
    input: InputArgs,
    /// The harm to find, such as 5%.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent_to_share, allow_hyphen_values = true)]
    harm: f64,
    /// Machines of the fleet, 10000 at most: more do not change the plan [default: those of the history].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    machines: Option<u32>,
    /// Trials behind each share.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    trials: u32,
    /// Start of all random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(clap::Args)]
struct JudgeArgs {
    #[command(flatten)]
    input: InputArgs,
    /// The changed machines, by name or pattern such as 'web-0*'; give it again for each. All others were left alone.
    #[arg(long, value_name = "PATTERN", required = true)]
    changed: Vec<NamePattern>,
    /// When the machines were changed: 2026-11-20T12:00:00Z, or seconds since 1970.
    #[arg(long, value_name = "TIME", value_parser = parse_time_to_seconds, allow_negative_numbers = true)]
    since: i64,
    /// Days until the last analysis; decide this before the first look.
    #[arg(long, default_value_t = 14, value_parser = clap::value_parser!(u32).range(1..=365))]
    days: u32,
    /// Harm that is tolerated: the verdict is to go on once more is excluded.
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = parse_percent_to_share, allow_hyphen_values = true)]
    tolerate: f64,
    /// Exit with 3 if the change is to be taken back, 4 if the roll-out is to stop, 0 if it goes on.
    #[arg(long)]
    exit_code: bool,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The direction of a metric that is worse.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Worse {
    /// Larger values are worse.
    Up,
    /// Smaller values are worse.
    Down,
}

/// The unit of Prometheus' buckets.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Unit {
    /// Seconds.
    #[default]
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl From<Unit> for BucketUnit {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::S => Self::Seconds,
            Unit::Ms => Self::Milliseconds,
            Unit::Us => Self::Microseconds,
            Unit::Ns => Self::Nanoseconds,
        }
    }
}

/// Error rate of each of both wrong verdicts.
const ALPHA: f64 = 0.05;

/// Probability with which a plan finds the harm.
const POWER: f64 = 0.8;

/// Exit code for a change that is to be taken back, under `--exit-code`.
const TAKE_BACK_CODE: u8 = 3;

/// Exit code for a roll-out that is to stop, under `--exit-code`.
const STOP_CODE: u8 = 4;

/// Parses `5%` or `5` as a share of 0.05. Its options take text with a hyphen, since clap knows `-5` as a number, but not `-5%`.
fn parse_percent_to_share(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>().ok();
    number
        .filter(|percent| *percent > 0.0 && *percent <= 1000.0)
        .map(|percent| percent / 100.0)
        .ok_or_else(|| "expected a number above 0, in per cent, such as 5%".to_owned())
}

/// Runs `wakepath canary`; returns the exit code.
pub(crate) fn run_canary_command(args: Args, out: &mut Screen) -> anyhow::Result<u8> {
    match args.command {
        CanaryCommand::Plan(plan) => plan_and_print(&plan, out).map(|()| 0),
        CanaryCommand::Judge(judge) => judge_and_print(&judge, out),
    }
}

fn plan_and_print(args: &PlanArgs, out: &mut Screen) -> anyhow::Result<()> {
    let (series, metric) = args.input.read_series(None)?;
    let request = PlanRequest {
        harm: args.harm,
        machines: args
            .machines
            .map_or(series.machines.len(), |machines| machines as usize),
        power: POWER,
        alpha: ALPHA,
        trials: args.trials,
        seed: args.seed,
    };
    let plan = plan_roll_out(&series, &metric, &request)?;
    tables::print_plan(out, args.format, &plan)
}

fn judge_and_print(args: &JudgeArgs, out: &mut Screen) -> anyhow::Result<u8> {
    let (series, metric) = args.input.read_series(Some(args.since))?;
    let roll_out = RollOut {
        changed: find_changed_machines(&series, &args.changed)?,
        since_s: args.since,
        days: args.days,
        tolerated: args.tolerate,
        alpha: ALPHA,
    };
    let judgement = judge_roll_out(&series, &roll_out, &metric)?;
    tables::print_judgement(out, args.format, &judgement)?;
    Ok(match judgement.verdict {
        CanaryVerdict::TakeBack if args.exit_code => TAKE_BACK_CODE,
        CanaryVerdict::Stop if args.exit_code => STOP_CODE,
        _ => 0,
    })
}

impl InputArgs {
    /// Reads all files. `change_s`: when machines were changed, in seconds since 1970.
    fn read_series(&self, change_s: Option<i64>) -> anyhow::Result<(FleetSeries, CanaryMetric)> {
        let worse = self.worse.map(|worse| match worse {
            Worse::Up => WorseDirection::Up,
            Worse::Down => WorseDirection::Down,
        });
        let metric = CanaryMetric::from_name(&self.metric, worse)?;
        let mut collector =
            SeriesCollector::new(metric.clone(), &self.label, self.unit.into(), change_s);
        for file in &self.files {
            collector.add_file(file)?;
        }
        let mut series = collector.finish()?;
        for pattern in &self.leave_out {
            let before = series.machines.len();
            series.machines.retain(|name, _| !pattern.matches(name));
            if series.machines.len() == before {
                bail!("--leave-out {pattern}: no machine has such a name");
            }
        }
        Ok((series, metric))
    }
}

/// The machines whose names match, at least one for each pattern.
fn find_changed_machines(
    series: &FleetSeries,
    patterns: &[NamePattern],
) -> anyhow::Result<BTreeSet<String>> {
    let mut changed = BTreeSet::new();
    for pattern in patterns {
        let before = changed.len();
        let names = series.machines.keys().filter(|name| pattern.matches(name));
        changed.extend(names.cloned());
        if changed.len() == before {
            let known: Vec<&str> = series.machines.keys().take(5).map(String::as_str).collect();
            bail!(
                "--changed {pattern}: no further machine has such a name; machines: {}{}",
                known.join(", "),
                if series.machines.len() > known.len() {
                    ", ..."
                } else {
                    ""
                }
            );
        }
    }
    Some(changed)
        .filter(|changed| changed.len() < series.machines.len())
        .context("--changed matches all machines; some must be left alone, to compare with")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_cent_are_shares() {
        assert_eq!(parse_percent_to_share("5%"), Ok(0.05));
        assert_eq!(parse_percent_to_share(" 50 "), Ok(0.5));
        for text in ["", "%", "0%", "-5%", "NaN", "1e9"] {
            assert!(parse_percent_to_share(text).is_err(), "{text}");
        }
    }
}
