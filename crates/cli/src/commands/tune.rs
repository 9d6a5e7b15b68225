//! `wakepath tune`: the best policy set for one's loads on a modelled machine.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use wakepath_hardware::Machine;
use wakepath_results::{Goal, LoadCondition};
use wakepath_tune::{
    Budget, DailyLoad, Effort, Evaluator, SearchAnswer, SearchObjective, SearchRequest,
    Sensitivity, Simulation, Space, TrialOutcome, search_best_policy_set, vary_assumed_figures,
};
use wakepath_units::{KernelVersion, Nanoseconds};
use wakepath_workloads::Workload;

use self::steps::StepsIntoForce;
use super::{arguments, here};
use crate::messages::{self, MessageKind, note};
use crate::new_file;
use crate::output::{self, Format, Screen};
use crate::until;
use crate::waiting::{self, ThreadCount};

mod cost;
mod page;
mod steps;
mod tables;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath tune workloads/iowait-rk3399.fio=8h --machine rk3399 --minimise mean_mw --keep 'p99_us <= +5%'
  wakepath tune db.fio=6h backup.fio=1h --machine here --keep 'p99_us(db) < 150' --over idle,psd,cpu-latency
  wakepath tune db.fio --machine rk3399 --minimise p99_us --keep 'mean_mw <= +3%' --budget 400000")]
pub(crate) struct Args {
    /// fio job files and rt-app files (*.json), each with its hours per day; what is left of the day is rest. Loads without
    /// hours share what is left of the day.
    #[arg(required = true, value_name = "FILE[=HOURSh]")]
    loads: Vec<String>,
    /// Built-in machine, recorded system, or a machine file (*.toml); `here` is this machine as it was calibrated.
    #[arg(long)]
    machine: Option<String>,
    /// The machine's drive instead of its own, as `wakepath sim --drive` takes it.
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
    /// The metric to make small, as results name it [default: mean_mw].
    #[arg(long, value_name = "METRIC", conflicts_with = "maximise")]
    minimise: Option<String>,
    /// The metric to make large.
    #[arg(long, value_name = "METRIC")]
    maximise: Option<String>,
    /// A condition that the answer keeps, such as 'p99_us < 150', 'p99_us(db) < 150' for one load, or 'p99_us <= +5%' of what
    /// is in force; give it again for each condition.
    #[arg(long, value_name = "CONDITION")]
    keep: Vec<LoadCondition>,
    /// What may be changed: idle, idle-states, psd, cpu-latency, poll, c1-demotion, frequency, epp, hwp-boost, apst, io_uring,
    /// profiles [default: all but idle-states, poll, c1-demotion and io_uring].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    over: Vec<String>,
    /// How much to simulate: a time such as 10m, which is turned into requests once and printed, or a number of requests, which
    /// gives the same answer on any machine.
    #[arg(long, value_name = "TIME|REQUESTS", default_value = "2m", value_parser = parse_time_or_request_budget)]
    budget: BudgetArgument,
    /// Start of all seeds.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Longest time that each fio job, or an rt-app file, is simulated for.
    #[arg(long, value_name = "TIME", value_parser = until::parse_simulated_time_or_seconds)]
    seconds: Option<Nanoseconds>,
    /// The kernel whose policies bare names mean [default: the machine's, or 6.12].
    #[arg(long, value_name = "VERSION", value_parser = arguments::parse_kernel_version_or_nearest)]
    kernel: Option<KernelVersion>,
    /// Do not vary the machine's assumed figures. Unless told so, each goes to both ends of its range after the search, which
    /// takes up to half as many requests again.
    #[arg(long)]
    no_sensitivity: bool,
    #[command(flatten)]
    cost: cost::CostArgs,
    /// Write the daemon's configuration to this file, where the answer has leases (psd), which only the daemon gives.
    #[arg(long, value_name = "FILE")]
    daemon_toml: Option<PathBuf>,
    #[command(flatten)]
    page: page::PageArgs,
    /// Replace files that exist.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    jobs: ThreadCount,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A search budget as written on the command line.
#[derive(Clone, Copy, Debug)]
enum BudgetArgument {
    Time(Duration),
    Requests(u64),
}

fn parse_time_or_request_budget(text: &str) -> anyhow::Result<BudgetArgument> {
    match text.trim().parse::<u64>() {
        Ok(0) => bail!("a budget of 0 requests finds nothing; give more"),
        Ok(requests) => Ok(BudgetArgument::Requests(requests)),
        Err(_) => until::parse_duration_or_seconds(text)
            .map(BudgetArgument::Time)
            .context("a plain number counts simulated requests"),
    }
}

pub(crate) fn search_and_print_best_policy_set(
    args: &Args,
    out: &mut Screen,
) -> anyhow::Result<()> {
    if let Some(path) = &args.daemon_toml {
        new_file::check_output_may_be_written(path, args.force)
            .with_context(|| format!("--daemon-toml {}", path.display()))?;
    }
    args.page.check(&args.keep, args.force)?;
    let machine = load_machine_and_note_choice(args)?;
    let objective = match &args.maximise {
        Some(metric) => SearchObjective::new(metric, Goal::Maximise)?,
        None => SearchObjective::new(
            args.minimise.as_deref().unwrap_or("mean_mw"),
            Goal::Minimise,
        )?,
    };
    let mut request = SearchRequest {
        loads: load_workloads_with_hours(&args.loads, args.seconds)?,
        objective,
        conditions: args.keep.clone(),
        budget: Budget(0),
        seed: args.seed,
    };
    let Searched {
        answer,
        sensitivity,
        further,
    } = set_budget_and_search(args, &machine, &mut request)?;
    for name in &answer.left_out {
        note!("left out: {name}");
    }
    for text in &answer.notes {
        messages::hold_message_until_result(MessageKind::Remark, None, text.clone());
    }
    let day = args
        .cost
        .cost_with_best_and_in_force(&answer, &request.loads)?;
    let steps = find_steps_into_force(&answer)?;
    if let (Some(path), Some(steps)) = (&args.daemon_toml, &steps)
        && !steps.write_daemon_toml(path, args.force)?
    {
        note!(
            "{}: not written, since the answer has no leases",
            path.display()
        );
    }
    let report = tables::TuneReport {
        machine: &machine.name,
        answer: &answer,
        day,
        steps,
        sensitivity,
    };
    args.page.write(&request, &report, &further, args.force)?;
    match args.format {
        Format::Json => output::write_json(out, &report),
        Format::Csv => tables::write_finalists_as_csv(out, &answer),
        Format::Table => {
            tables::write_answer_and_tables(out, &request, &report, args.daemon_toml.as_deref())
        }
    }
}

/// The steps that put the answer in force; `None` without a set that changes something.
fn find_steps_into_force(answer: &SearchAnswer) -> anyhow::Result<Option<StepsIntoForce>> {
    let best = answer.best.as_ref().filter(|best| !best.changes_nothing());
    best.map(|best| StepsIntoForce::new(&best.set.parse()?))
        .transpose()
}

/// What the searches found.
struct Searched {
    answer: SearchAnswer,
    /// `None` where assumed figures were not to be varied, or no set was the answer.
    sensitivity: Option<Sensitivity>,
    /// Answers for the further limits of a page's slider.
    further: Vec<page::AnswerForLimit>,
}

/// Requests for the variation of assumed figures, as a share of the search's budget.
const SENSITIVITY_SHARE: f64 = 0.5;

/// Searches for the best policy set within the budget that the arguments give, and varies the machine's assumed figures. A
/// time is converted to requests by running the policies in force once.
fn set_budget_and_search(
    args: &Args,
    machine: &Machine,
    request: &mut SearchRequest,
) -> anyhow::Result<Searched> {
    let loads = request.loads.clone();
    let total = match args.budget {
        BudgetArgument::Requests(requests) => requests,
        BudgetArgument::Time(_) => 0,
    };
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    waiting::run_with_progress(args.jobs, total, "requests", |finished, cancelled| {
        let count = |requests: u64| finished(usize::try_from(requests).unwrap_or(usize::MAX));
        let simulation = Simulation::new(
            machine,
            &loads,
            request.objective.counts_hours_of_rest(),
            cancelled,
            &count,
        )?;
        let space = Space::new(machine, &args.over, |set| {
            simulation.policies_in_force_under(set)
        })?;
        request.budget = match args.budget {
            BudgetArgument::Requests(requests) => Budget(requests),
            BudgetArgument::Time(time) => {
                let all = estimate_requests_in_time(&simulation, time, args.seed)?.0 as f64;
                let varied = if args.no_sensitivity {
                    0.0
                } else {
                    SENSITIVITY_SHARE
                };
                let searches = 1 + args.page.requests_for_further_limits(request).len();
                Budget((all / (searches as f64 + varied)).round().max(1.0) as u64)
            }
        };
        let answer = search_best_policy_set(&space, request, &simulation)?;
        let further = args
            .page
            .requests_for_further_limits(request)
            .into_iter()
            .map(|(limit, request)| {
                let answer = search_best_policy_set(&space, &request, &simulation)?;
                Ok(page::AnswerForLimit { limit, answer })
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        if args.no_sensitivity {
            return Ok(Searched {
                answer,
                sensitivity: None,
                further,
            });
        }
        let most_requests = (request.budget.0 as f64 * SENSITIVITY_SHARE) as u64;
        let sensitivity =
            vary_assumed_figures(machine, request, &answer, most_requests, cancelled, &count)?;
        Ok(Searched {
            answer,
            sensitivity,
            further,
        })
    })
}

/// Number of requests that this computer simulates in a time, by the rate of two runs for each thread.
fn estimate_requests_in_time(
    simulation: &Simulation<'_>,
    time: Duration,
    seed: u64,
) -> anyhow::Result<Budget> {
    let effort = Effort {
        first_seed: seed,
        repeats: 2 * u32::try_from(rayon::current_num_threads()).unwrap_or(1),
        shortened: 1,
    };
    let started = Instant::now();
    let outcomes =
        simulation.run_sets_in_order(&[wakepath_policies::PolicySet::default()], effort)?;
    let took = started.elapsed().as_secs_f64();
    match outcomes.into_iter().next() {
        Some(TrialOutcome::Ran(trial)) => Ok(Budget::from_seconds_at_measured_rate(
            time.as_secs_f64(),
            trial.requests,
            took,
        )),
        Some(TrialOutcome::Refused(why)) => bail!("what is in force cannot be simulated: {why}"),
        None => bail!("what is in force cannot be simulated"),
    }
}

fn load_machine_and_note_choice(args: &Args) -> anyhow::Result<Machine> {
    let (machine, chosen) = here::find_machine_to_simulate_and_notice(
        args.machine.as_deref(),
        args.kernel,
        args.drive.as_deref(),
    )?;
    if let Some(line) = chosen {
        note!("{line}");
    }
    Ok(machine)
}

/// Loads all workloads with their hours per day; loads without hours share what the others leave of the day.
pub(super) fn load_workloads_with_hours(
    loads: &[String],
    at_most: Option<Nanoseconds>,
) -> anyhow::Result<Vec<DailyLoad>> {
    let given: Vec<LoadArgument> = loads
        .iter()
        .map(|text| parse_load_file_and_hours(text))
        .collect::<anyhow::Result<_>>()?;
    let taken: f64 = given.iter().filter_map(|load| load.hours).sum();
    let without = given.iter().filter(|load| load.hours.is_none()).count();
    let share = (24.0 - taken) / without.max(1) as f64;
    given
        .iter()
        .map(|load| {
            let workload = read_workload_with_time_limit(&load.path, at_most)?;
            let stem = load.path.file_stem().unwrap_or_default();
            Ok(DailyLoad {
                name: stem.to_string_lossy().into_owned(),
                workload,
                hours: load.hours.unwrap_or(share),
            })
        })
        .collect()
}

/// A load as written on the command line.
struct LoadArgument {
    path: PathBuf,
    hours: Option<f64>,
}

/// Parses `FILE=8h` or `FILE`. An existing file whose name has a `=` is taken as a file.
fn parse_load_file_and_hours(text: &str) -> anyhow::Result<LoadArgument> {
    let whole = Path::new(text);
    let (path, hours) = match text.rsplit_once('=') {
        Some((path, hours)) if !whole.exists() => (Path::new(path), Some(hours)),
        _ => (whole, None),
    };
    let hours = hours
        .map(|hours| {
            let number = hours.trim().trim_end_matches('h').parse::<f64>().ok();
            number
                .filter(|hours| hours.is_finite() && *hours > 0.0 && *hours <= 24.0)
                .with_context(|| format!("{text}: hours per day are 0 to 24, as in load.fio=8h"))
        })
        .transpose()?;
    Ok(LoadArgument {
        path: path.to_owned(),
        hours,
    })
}

fn read_workload_with_time_limit(
    path: &Path,
    at_most: Option<Nanoseconds>,
) -> anyhow::Result<Workload> {
    let read = Workload::load(path)?;
    arguments::hold_workload_warnings(path, &read);
    Ok(read.with_time_limit_and_fio_warm_up(at_most, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_stand_behind_the_file() {
        let load = parse_load_file_and_hours("a.fio=8h").unwrap();
        assert_eq!((load.path.to_str(), load.hours), (Some("a.fio"), Some(8.0)));
        assert_eq!(parse_load_file_and_hours("a.fio").unwrap().hours, None);
    }

    #[test]
    fn hours_that_no_day_has_are_refused() {
        for text in ["a.fio=25h", "a.fio=0h", "a.fio=-1", "a.fio=x"] {
            assert!(parse_load_file_and_hours(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_plain_budget_counts_requests() {
        assert!(matches!(
            parse_time_or_request_budget("400000"),
            Ok(BudgetArgument::Requests(400_000))
        ));
        assert!(matches!(
            parse_time_or_request_budget("10m"),
            Ok(BudgetArgument::Time(_))
        ));
        assert!(parse_time_or_request_budget("0").is_err());
    }
}
