//! `wakepath fleet`: the classes of many machines, what stands out, and the settings for each class.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, ensure};
use wakepath_fleet::{
    DecisionRequest, FleetLoad, FleetReport, FleetSearch, KnownRuns, LIST, LabelPattern,
    NamePattern, PAGE, SurveyOptions, SurveyRequest, decide_for_classes,
    find_least_budget_for_classes, replay_classes, survey_fleet,
};
use wakepath_results::{Goal, LoadCondition};
use wakepath_tune::{Budget, SearchObjective, SearchRequest};
use wakepath_units::Nanoseconds;

use crate::messages::{note, tell};
use crate::new_file;
use crate::output::{Format, Screen, count_with_noun};
use crate::until;
use crate::waiting::{self, ThreadCount};

mod tables;

/// Requests for each class, where nobody gives a number and the loads need no more.
const DEFAULT_BUDGET: u64 = 400_000;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath fleet captures
  wakepath fleet captures --label 'rack1/*=web' --label 'rack2/*=db' --only 'rack*'
  wakepath fleet captures --load db.fio=6h --keep 'p99_us <= +5%' -o decisions")]
pub(crate) struct Args {
    /// Folder with captures (`wakepath machine capture`) in any depth; recordings, calibrations, doctor's JSON and explain's
    /// results lie in a capture's folder or are named after it.
    folder: PathBuf,
    /// A label for machines, by a pattern of their names; classes differ in labels. Give it again for each label.
    #[arg(long, value_name = "PATTERN=LABEL")]
    label: Vec<LabelPattern>,
    /// Only machines whose names match; give it again for each pattern.
    #[arg(long, value_name = "PATTERN")]
    only: Vec<NamePattern>,
    /// A load with its hours per day, as for `wakepath tune`; each class gets the best policy set for all loads.
    #[arg(long, value_name = "FILE[=HOURSh]")]
    load: Vec<String>,
    /// The metric to make small.
    #[arg(long, value_name = "METRIC", default_value = "mean_mw")]
    minimise: String,
    /// A condition that each set keeps, as for `wakepath tune`.
    #[arg(long, value_name = "CONDITION", requires = "load")]
    keep: Vec<LoadCondition>,
    /// What may be changed, as for `wakepath tune`.
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        requires = "load"
    )]
    over: Vec<String>,
    /// Requests to simulate for each class, and for each machine that its set is tried on [default: 400000, or what the loads take].
    #[arg(long, value_name = "REQUESTS", value_parser = parse_request_count)]
    budget: Option<u64>,
    /// Start of all seeds.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Longest time that each fio job, or an rt-app file, is simulated for.
    #[arg(long, value_name = "TIME", value_parser = until::parse_simulated_time_or_seconds)]
    seconds: Option<Nanoseconds>,
    /// A class with fewer machines joins the nearest class.
    #[arg(long, value_name = "COUNT", default_value_t = SurveyOptions::DEFAULT_FEWEST, value_parser = clap::value_parser!(u16).range(1..))]
    fewest: u16,
    /// Machines of a class that are examined as `wakepath doctor` does: one for all, then those that stand out.
    #[arg(long, value_name = "COUNT", default_value_t = SurveyOptions::DEFAULT_EXAMINED)]
    examine: u16,
    /// Write a page, a list of the machines, and a settings file for each class into this folder.
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Replace files in the folder of --output.
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    jobs: ThreadCount,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Surveys a fleet and prints it. Returns the exit code: 1 if loads were given and no class has a decision.
pub(crate) fn survey_and_print_fleet(args: &Args, out: &mut Screen) -> anyhow::Result<u8> {
    check_output_folder(args)?;
    let search = (!args.load.is_empty())
        .then(|| make_search_request(args))
        .transpose()?;
    let report = waiting::run_with_progress(args.jobs, 0, "steps", |finished, cancelled| {
        survey_and_decide(args, search.as_ref(), finished, cancelled)
    })?;
    tables::print_fleet(out, args.format, &report)?;
    note_labels_without_machine(args, &report);
    if report.decisions.is_none() {
        note!("give the loads of the machines by --load, and each class gets its best settings");
    }
    if let Some(folder) = &args.output {
        write_output_folder(folder, args, &report)?;
    }
    let has_no_decision =
        (report.decisions.as_ref()).is_some_and(|decisions| decisions.decisions.is_empty());
    Ok(u8::from(has_no_decision))
}

/// Surveys the fleet, replays recordings, and decides for each class if there is something to search for.
fn survey_and_decide(
    args: &Args,
    search: Option<&SearchRequest>,
    finished: &(dyn Fn(usize) + Sync),
    cancelled: &AtomicBool,
) -> anyhow::Result<FleetReport> {
    let survey = survey_fleet(&SurveyRequest {
        folder: &args.folder,
        labels_for: &|name| LabelPattern::labels_for(&args.label, name),
        includes: &|name| args.includes(name),
        examined_per_class: usize::from(args.examine),
        cancelled,
        report_read: finished,
    })?;
    let replays = replay_classes(&survey.classes, &|| !cancelled.load(Ordering::Relaxed))?;
    let known_runs = KnownRuns::default();
    let decisions = search.map(|search| {
        let mut request = DecisionRequest {
            search,
            over: &args.over,
            fewest_machines: usize::from(args.fewest),
            cancelled,
            report_requests: &|requests| {
                finished(usize::try_from(requests).unwrap_or(usize::MAX));
            },
            known_runs: &known_runs,
        };
        let mut raised = search.clone();
        if args.budget.is_none() {
            let least = find_least_budget_for_classes(&survey, &request)?;
            if least > DEFAULT_BUDGET {
                raised.budget = Budget(least);
                request.search = &raised;
                waiting::print_beside_bar(|| {
                    note!(
                        "--budget {least} is taken for each class, the least that these loads need"
                    );
                });
            }
        }
        decide_for_classes(&survey, &request)
    });
    Ok(FleetReport {
        decisions: decisions.transpose()?,
        survey,
        replays,
    })
}

fn note_labels_without_machine(args: &Args, report: &FleetReport) {
    for label in &args.label {
        let classes = report.survey.classes.iter();
        let mut machines = classes.flat_map(|class| &class.machines);
        if !machines.any(|machine| label.matches(&machine.name)) {
            note!("--label {label}: no machine has such a name");
        }
    }
}

/// Parses a number of requests. A time is refused: how many requests it comes to differs from machine to machine.
fn parse_request_count(text: &str) -> Result<u64, String> {
    text.trim()
        .parse::<u64>()
        .ok()
        .filter(|requests| *requests > 0)
        .ok_or_else(|| "expected a number of simulated requests, such as 400000".to_owned())
}

impl Args {
    /// Whether a machine belongs to the survey.
    fn includes(&self, machine: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only.matches(machine))
    }
}

/// Refuses an output folder with an earlier survey, before any long work.
fn check_output_folder(args: &Args) -> anyhow::Result<()> {
    let Some(folder) = &args.output else {
        return Ok(());
    };
    if !args.force {
        let there = [PAGE, LIST].iter().any(|name| folder.join(name).exists());
        ensure!(
            !there,
            "--output {}: a survey is there already; --force replaces it",
            folder.display()
        );
    }
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

fn make_search_request(args: &Args) -> anyhow::Result<SearchRequest> {
    Ok(SearchRequest {
        loads: super::tune::load_workloads_with_hours(
            &super::tune::parse_load_arguments(&args.load)?,
            args.seconds,
        )?,
        objective: SearchObjective::new(&args.minimise, Goal::Minimise)?,
        conditions: args.keep.clone(),
        budget: Budget(args.budget.unwrap_or(DEFAULT_BUDGET)),
        seed: args.seed,
    })
}

/// The budget that was taken for each class.
fn taken_budget(args: &Args, report: &FleetReport) -> u64 {
    let decided = report.decisions.as_ref();
    decided.map_or(args.budget.unwrap_or(DEFAULT_BUDGET), |decisions| {
        decisions.question.budget
    })
}

/// The command that makes the same survey and decisions again.
fn compose_command(args: &Args, report: &FleetReport) -> anyhow::Result<String> {
    let options = SurveyOptions {
        labels: args.label.iter().map(ToString::to_string).collect(),
        only: args.only.iter().map(ToString::to_string).collect(),
        fewest: usize::from(args.fewest),
        examined: usize::from(args.examine),
    };
    let search = FleetSearch {
        at_most: args.seconds,
        minimise: args.minimise.clone(),
        conditions: args.keep.iter().map(ToString::to_string).collect(),
        over: args.over.clone(),
        budget: taken_budget(args, report),
        seed: args.seed,
        loads: FleetLoad::parse_all(&args.load)?,
    };
    let asked = Some(&search).filter(|search| !search.loads.is_empty());
    Ok(options.to_command(&args.folder, asked))
}

/// Writes the page, the list of machines, and a settings file for each class with a set.
fn write_output_folder(folder: &Path, args: &Args, report: &FleetReport) -> anyhow::Result<()> {
    let files = report.compose_files(&args.folder, &compose_command(args, report)?)?;
    for file in &files {
        write_text(&folder.join(&file.name), args.force, &file.content)?;
    }
    let settings = files
        .iter()
        .filter(|file| ![PAGE, LIST].contains(&&*file.name));
    tell!(
        "{}: {PAGE}, {LIST} and {}, for /etc/wakepath/settings.toml on the machines of their class",
        folder.display(),
        count_with_noun(settings.count() as u64, "settings file")
    );
    Ok(())
}

fn write_text(path: &Path, force: bool, text: &str) -> anyhow::Result<()> {
    new_file::write_whole_file(path, force, |mut file| Ok(file.write_all(text.as_bytes())?))
        .with_context(|| path.display().to_string())
}
