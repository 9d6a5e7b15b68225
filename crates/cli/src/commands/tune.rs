//! `wakepath tune`: the best policy set for one's loads on a modelled machine.

use std::path::Path;

use anyhow::Context;
use wakepath_results::Goal;
use wakepath_results::directory::DOCUMENT;
use wakepath_tune::{Budget, SearchAnswer, SearchObjective, SearchRequest};

use self::arguments::DecidedOn;
use self::measured::Measurement;
use self::simulated::Searched;
use self::steps::StepsIntoForce;
use self::tables::PredictionReport;
use crate::messages::{self, MessageKind, note};
use crate::new_file;
use crate::output::{self, Format, Screen};

mod arguments;
mod cost;
mod figure_budget;
mod finalist_study;
mod measured;
mod page;
mod question;
mod recorded;
mod simulated;
mod steps;
mod tables;

pub(crate) use self::arguments::Args;
pub(super) use self::arguments::{load_workloads_with_hours, parse_load_arguments};

pub(crate) fn search_and_print_best_policy_set(
    args: &Args,
    out: &mut Screen,
) -> anyhow::Result<()> {
    if let Some(path) = &args.daemon_toml {
        new_file::check_output_may_be_written(path, args.force)
            .with_context(|| format!("--daemon-toml {}", path.display()))?;
    }
    args.page.check(&args.keep, args.force)?;
    let loads = parse_load_arguments(&args.loads)?;
    let is_recorded = recorded::are_loads_recordings(&loads)?;
    let searches_drive = is_recorded && recorded::searches_tables_of_drive(args);
    let default_metric = if searches_drive {
        "drive_mw"
    } else {
        "mean_mw"
    };
    let minimised = args.minimise.as_deref().unwrap_or(default_metric);
    let (metric, goal) = match args.maximise.as_deref() {
        Some(maximised) => (maximised, Goal::Maximise),
        None => (minimised, Goal::Minimise),
    };
    let objective = SearchObjective::new(metric, goal)?;
    let mut request = SearchRequest {
        loads: Vec::new(),
        objective,
        conditions: args.keep.clone(),
        budget: Budget(0),
        seed: args.seed,
    };
    if let Some(folder) = &args.results {
        refuse_results_that_exist(folder, args.force)?;
    }
    if is_recorded {
        anyhow::ensure!(
            args.measure.on == DecidedOn::Sim && args.results.is_none(),
            "--on live and --results run the load itself, and a recording cannot be run; extract a job from it \
             (`wakepath workload extract`)"
        );
        if !searches_drive {
            let (subject, searched) = recorded::search_idle_policies(args, &loads, &mut request)?;
            return print_answer(args, &request, &subject, &searched, None, out);
        }
        let drive = recorded::find_drive(args)?;
        let (daily, recordings): (Vec<_>, Vec<_>) =
            recorded::read_recordings(args, &loads)?.into_iter().unzip();
        request.loads = daily;
        let searched = recorded::search_tables(args, &drive, &recordings, &mut request)?;
        return print_answer(args, &request, &drive.name, &searched, None, out);
    }
    anyhow::ensure!(
        args.device.is_none(),
        "--device names a drive of a recording, and no load is one"
    );
    measured::check_request_can_be_measured(&args.measure, &request)?;
    let machine = simulated::load_machine_and_note_choice(args)?;
    request.loads = load_workloads_with_hours(&loads, args.seconds)?;
    let searched = simulated::set_budget_and_search(args, &machine, &mut request)?;
    if args.measure.on == DecidedOn::Sim {
        if let Some(folder) = &args.results {
            let answer = &searched.answer;
            finalist_study::write_results_of_finalists(args, &loads, &request, answer, folder)?;
        }
        return print_answer(args, &request, &machine.name, &searched, None, out);
    }
    let measurement = Measurement::plan_for_best_sets(args, &loads, &request, &searched)?;
    if args.measure.dry_run {
        return measurement.print_plan(out);
    }
    let (answer, prediction) = measurement.run_and_decide(&searched.answer)?;
    let measured = Searched {
        answer,
        sensitivity: None,
        further: Vec::new(),
        measured_only: Vec::new(),
    };
    let subject = "this machine, measured";
    let request = measurement.measured_request();
    print_answer(args, request, subject, &measured, Some(&prediction), out)
}

/// Refuses a result directory that is there already, before any long work.
fn refuse_results_that_exist(folder: &Path, force: bool) -> anyhow::Result<()> {
    anyhow::ensure!(
        force || !folder.join(DOCUMENT).exists(),
        "--results {}: results are there already; --force replaces them",
        folder.display()
    );
    Ok(())
}

/// Prints an answer and writes the files that were asked for. `subject` names the machine, or the drive.
fn print_answer(
    args: &Args,
    request: &SearchRequest,
    subject: &str,
    searched: &Searched,
    prediction: Option<&PredictionReport>,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let Searched {
        answer,
        sensitivity,
        further,
        measured_only: _,
    } = searched;
    for name in &answer.left_out {
        note!("left out: {name}");
    }
    for text in &answer.notes {
        messages::hold_message_until_result(MessageKind::Remark, None, text.clone());
    }
    let day = args
        .cost
        .cost_with_best_and_in_force(answer, &request.loads)?;
    let steps = find_steps_into_force(answer)?;
    if let (Some(path), Some(steps)) = (&args.daemon_toml, &steps)
        && !steps.write_daemon_toml(path, args.force)?
    {
        note!(
            "{}: not written, since the answer has no leases",
            path.display()
        );
    }
    let report = tables::TuneReport {
        machine: subject,
        answer,
        day,
        steps,
        sensitivity: sensitivity.as_ref(),
        prediction,
    };
    let command = question::compose_command(args, request);
    args.page
        .write(request, &report, further, &command, args.force)?;
    match args.format {
        Format::Json => output::write_json(out, &report),
        Format::Csv => tables::write_finalists_as_csv(out, answer),
        Format::Table => {
            tables::write_answer_and_tables(out, request, &report, args.daemon_toml.as_deref())
        }
    }
}

/// The steps that put the answer in force; `None` without a set that changes something.
fn find_steps_into_force(answer: &SearchAnswer) -> anyhow::Result<Option<StepsIntoForce>> {
    let best = answer.best.as_ref().filter(|best| !best.changes_nothing());
    best.map(|best| StepsIntoForce::new(&best.set.parse()?))
        .transpose()
}
