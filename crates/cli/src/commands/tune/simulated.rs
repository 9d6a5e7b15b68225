//! The search of `wakepath tune` over simulated runs.

use std::path::Path;
use std::time::Instant;

use anyhow::bail;
use wakepath_doctor::{EarlierCalibration, examine_machine};
use wakepath_fleet::is_capture;
use wakepath_hardware::Machine;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_system::{Root, System};
use wakepath_tune::{
    Budget, Effort, Evaluator, SearchAnswer, SearchRequest, Sensitivity, Simulation, Space,
    TrialOutcome, add_power_at_rest_to_answer, leaves_hours_of_rest, search_best_policy_set,
    vary_assumed_figures,
};

use super::arguments::{Args, BudgetArgument, DecidedOn};
use super::figure_budget::SENSITIVITY_SHARE;
use super::page::AnswerForLimit;
use crate::commands::here;
use crate::messages::note;
use crate::waiting;

/// What the searches found.
pub(super) struct Searched {
    pub(super) answer: SearchAnswer,
    /// `None` where assumed figures were not to be varied, or no set was the answer.
    pub(super) sensitivity: Option<Sensitivity>,
    /// Answers for the further limits of a page's slider.
    pub(super) further: Vec<AnswerForLimit>,
    /// Policies that were asked for and that only a measurement can judge.
    pub(super) measured_only: Vec<PolicySpec>,
}

/// Searches for the best policy set within the budget that the arguments give, and varies the machine's assumed figures. A
/// time is converted to requests by running the policies in force once.
pub(super) fn set_budget_and_search(
    args: &Args,
    machine: &Machine,
    request: &mut SearchRequest,
) -> anyhow::Result<Searched> {
    let loads = request.loads.clone();
    // A measurement shows by itself how good the prediction is.
    let leaves_out_sensitivity = args.no_sensitivity || args.measure.on == DecidedOn::Live;
    let fixes = list_fixes_by_doctor(args)?;
    let searches = 1 + args.page.requests_for_further_limits(request).len();
    let varied_share = if leaves_out_sensitivity {
        0.0
    } else {
        SENSITIVITY_SHARE
    };
    let budgets = searches as f64 + varied_share;
    // A float beyond the range of `usize` becomes its highest number.
    let total = match args.budget {
        BudgetArgument::Requests(requests) => (requests as f64 * budgets).round() as usize,
        BudgetArgument::Time(_) => 0,
    };
    waiting::run_with_progress(args.jobs, total, "requests", |finished, cancelled| {
        let count = |requests: u64| finished(usize::try_from(requests).unwrap_or(usize::MAX));
        let simulation = Simulation::new(
            machine,
            &loads,
            request.objective.counts_hours_of_rest(),
            cancelled,
            &count,
        )?;
        let mut space = Space::new(machine, &args.over, |set| {
            simulation.policies_in_force_under(set)
        })?;
        if args.measure.on == DecidedOn::Sim {
            space.leave_out_what_is_only_measured()?;
        }
        space.try_sets_first(&fixes);
        let repeats = 2 * u32::try_from(rayon::current_num_threads()).unwrap_or(1);
        let in_force = [PolicySet::default()];
        request.budget = find_budget_for_arguments(args, &simulation, &in_force, repeats, budgets)?;
        let mut answer = search_best_policy_set(&space, request, &simulation)?;
        if args.cost.is_cost_asked_for() && leaves_hours_of_rest(&loads) {
            add_power_at_rest_to_answer(machine, &mut answer, cancelled)?;
        }
        let further = args
            .page
            .requests_for_further_limits(request)
            .into_iter()
            .map(|(limit, request)| {
                let answer = search_best_policy_set(&space, &request, &simulation)?;
                Ok(AnswerForLimit { limit, answer })
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        if leaves_out_sensitivity {
            return Ok(Searched {
                answer,
                sensitivity: None,
                further,
                measured_only: space.measured_only,
            });
        }
        let most_requests = (request.budget.0 as f64 * SENSITIVITY_SHARE) as u64;
        let sensitivity =
            vary_assumed_figures(machine, request, &answer, most_requests, cancelled, &count)?;
        Ok(Searched {
            answer,
            sensitivity,
            further,
            measured_only: space.measured_only,
        })
    })
}

/// Policy sets that `wakepath doctor` recommends, the one of most weight first: on this machine, or on the capture in whose folder the
/// machine file lies; none for other machines. What doctor cannot examine is no reason not to search.
fn list_fixes_by_doctor(args: &Args) -> anyhow::Result<Vec<PolicySet>> {
    let name = args.machine.as_deref();
    if here::means_calibrated_machine(name) {
        let system = System::live();
        let calibration = here::find_calibration_without_warning(name, &system)?;
        return Ok(list_fixes_for_system(&system, calibration.as_ref()));
    }
    Ok(find_capture_of_machine_file(name)
        .map_or_else(Vec::new, |system| list_fixes_for_system(&system, None)))
}

/// The captured machine in the folder of a machine file; `None` where the folder has no capture.
fn find_capture_of_machine_file(name: Option<&str>) -> Option<System> {
    let file = Path::new(name?);
    let parent = file.parent().filter(|_| file.is_file())?;
    let folder = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    is_capture(folder).then(|| System::new(Root::at_directory(folder)))
}

fn list_fixes_for_system(
    system: &System,
    calibration: Option<&EarlierCalibration>,
) -> Vec<PolicySet> {
    let examined = examine_machine(system, "", calibration);
    let findings = examined.map_or_else(|_| Vec::new(), |report| report.findings);
    let fixes = findings.into_iter().filter(|finding| !finding.note);
    fixes.filter_map(|finding| finding.set).collect()
}

/// The budget of a search that the arguments give. A time is for so many `budgets` together, and becomes requests by the rate of
/// `repeats` runs of some sets, the first of which is what is in force.
pub(super) fn find_budget_for_arguments(
    args: &Args,
    evaluator: &dyn Evaluator,
    sets: &[PolicySet],
    repeats: u32,
    budgets: f64,
) -> anyhow::Result<Budget> {
    let time = match args.budget {
        BudgetArgument::Requests(requests) => return Ok(Budget(requests)),
        BudgetArgument::Time(time) => time,
    };
    let effort = Effort {
        first_seed: args.seed,
        repeats,
        shortened: 1,
    };
    let started = Instant::now();
    let outcomes = evaluator.run_sets_in_order(sets, effort)?;
    let took = started.elapsed().as_secs_f64();
    let counts = outcomes.iter().map(|outcome| match outcome {
        TrialOutcome::Ran(trial) => trial.requests,
        TrialOutcome::Refused(_) => 0,
    });
    let requests = counts.sum();
    match outcomes.first() {
        Some(TrialOutcome::Ran(_)) => {
            let seconds = time.as_secs_f64() / budgets;
            Ok(Budget::from_seconds_at_measured_rate(
                seconds, requests, took,
            ))
        }
        Some(TrialOutcome::Refused(why)) => bail!("what is in force cannot be tried: {why}"),
        None => bail!("what is in force cannot be tried"),
    }
}

pub(super) fn load_machine_and_note_choice(args: &Args) -> anyhow::Result<Machine> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    #[test]
    fn a_machine_file_in_its_captures_folder_has_the_fixes_of_doctor() {
        let laptop = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/examples/captured-laptop"
        );
        let folder = tempfile::tempdir().unwrap();
        let parts = ["proc", "sys"].map(|part| format!("{laptop}/{part}"));
        let copied = Command::new("cp")
            .arg("-r")
            .args(parts)
            .arg(folder.path())
            .status();
        assert!(copied.unwrap().success());
        let file = folder.path().join("machine.toml");
        let name = file.to_str().unwrap();
        assert!(find_capture_of_machine_file(Some(name)).is_none());
        fs::write(&file, "").unwrap();
        let system = find_capture_of_machine_file(Some(name)).unwrap();
        let fixes = list_fixes_for_system(&system, None);
        assert!(!fixes.is_empty());
        let alone = tempfile::NamedTempFile::new().unwrap();
        assert!(find_capture_of_machine_file(alone.path().to_str()).is_none());
        assert!(find_capture_of_machine_file(Some("rk3399")).is_none());
    }
}
