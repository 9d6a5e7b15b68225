//! `wakepath study check`: what a study would run, and how long that takes.

use std::time::Duration;

use serde::Serialize;
use wakepath_policies::idle::program::ProgramForm;
use wakepath_results::{Goal, Question, RunOrigin};
use wakepath_study::plan::{Plan, Task};
use wakepath_study::run::{self, Order};
use wakepath_units::Nanoseconds;

use super::notes::hold_notes_on_study_input;
use crate::output::{self, Format, Screen};
use crate::until;

/// How long each workload is tried under each policy for the estimate.
const TRY: Duration = Duration::from_millis(20);

/// What `study check` prints.
#[derive(Serialize)]
struct CheckedStudy {
    study: String,
    on: RunOrigin,
    /// Machines to simulate.
    machines: Vec<CheckedMachine>,
    runs: usize,
    repeats: u32,
    baseline: String,
    workloads: Vec<CheckedWorkload>,
    policies: Vec<wakepath_results::PolicyInfo>,
    questions: Vec<Question>,
    /// How long the whole study takes, in seconds, if that can be estimated.
    seconds: Option<f64>,
    jobs: usize,
    /// Whether custom governors run, whose time is not known.
    #[serde(skip)]
    has_program: bool,
}

#[derive(Serialize)]
struct CheckedMachine {
    name: String,
    title: String,
}

#[derive(Serialize)]
struct CheckedWorkload {
    name: String,
    what: String,
    /// Duration of a run by its own file, in seconds.
    seconds: Option<f64>,
}

impl CheckedStudy {
    /// Checks a plan's cells, and estimates how long all runs take on so many threads.
    fn check_cells_and_estimate_duration(plan: &Plan, threads: usize) -> anyhow::Result<Self> {
        let backend = run::make_backend(plan)?;
        run::check_cells(plan, &*backend)?;
        let side_by_side = match backend.run_order() {
            Order::Parallel => threads,
            Order::Serial(_) => 1,
        };
        let total = backend.estimate_duration(TRY)?;
        let machines = plan.machines.iter().filter_map(|machine| {
            Some(CheckedMachine {
                name: machine.name.clone(),
                title: machine.model.as_ref()?.title.clone(),
            })
        });
        let workloads = plan.workloads.iter().map(|workload| CheckedWorkload {
            name: workload.name.clone(),
            what: task_kind_or_command(&workload.task),
            seconds: workload.expected_duration().map(Nanoseconds::as_secs_f64),
        });
        Ok(Self {
            study: plan.file.name.get_ref().clone(),
            on: plan.target,
            machines: machines.collect(),
            runs: plan.run_count(),
            repeats: plan.repeats(),
            baseline: plan.policies[plan.baseline].name.clone(),
            workloads: workloads.collect(),
            policies: plan.describe_policies(),
            questions: plan.questions.clone(),
            seconds: total.map(|total| total.as_secs_f64() / side_by_side as f64),
            jobs: threads,
            has_program: plan.policies.iter().any(|policy| {
                let program = policy.set.own_governor();
                program.is_some_and(|program| program.form() == ProgramForm::Exec)
            }),
        })
    }

    /// A line with the number of runs, and where they are made.
    fn heading_with_runs_and_place(&self) -> String {
        let names: Vec<&str> = self.machines.iter().map(|m| m.name.as_str()).collect();
        let place = match (&self.machines[..], self.on) {
            ([], RunOrigin::Replay) => "replayed".to_owned(),
            ([], _) => "measured on this machine".to_owned(),
            ([only], RunOrigin::Replay) => format!("replayed with the figures of {}", only.title),
            (_, RunOrigin::Replay) => format!("replayed with the figures of {}", names.join(", ")),
            ([only], _) => format!("simulated on {}", only.title),
            (_, _) => format!("simulated on {}", names.join(", ")),
        };
        format!(
            "{}: {}, {} of each workload under each policy, {place}",
            self.study,
            output::count_with_noun(self.runs as u64, "run"),
            self.repeats
        )
    }

    /// How long all runs take, in words; `None` if nothing needs to be said.
    fn estimated_duration_in_words(&self) -> Option<String> {
        Some(match self.seconds {
            Some(seconds) if self.has_program => format!(
                "Takes about {} on {} core(s), and what the programs of exec: take: they are not run here.",
                until::duration_in_words(seconds),
                self.jobs
            ),
            Some(seconds) if self.on == RunOrigin::Sim => format!(
                "Takes about {} on {} core(s).",
                until::duration_in_words(seconds),
                self.jobs
            ),
            Some(seconds) => format!("Takes at least {}.", until::duration_in_words(seconds)),
            None if self.on == RunOrigin::Replay => return None,
            None => {
                "How long it takes cannot be said: a workload does not say when it ends.".to_owned()
            }
        })
    }

    fn write_workloads_with_length(&self, out: &mut Screen) -> anyhow::Result<()> {
        let otherwise = match self.on {
            RunOrigin::Replay => "as recorded",
            _ => "until it ends",
        };
        let rows = self.workloads.iter().map(|workload| {
            let length = workload.seconds.map(|s| format!("{s} s"));
            [
                workload.name.clone(),
                workload.what.clone(),
                length.unwrap_or_else(|| otherwise.to_owned()),
            ]
        });
        output::write_table(out, ["workload", "what", "length"], rows)
    }

    fn write_policies_with_settings(&self, out: &mut Screen) -> anyhow::Result<()> {
        let rows = self.policies.iter().map(|policy| {
            let is_baseline = policy.name == self.baseline;
            let role = if is_baseline { "baseline" } else { "" };
            [
                policy.name.clone(),
                policy_settings_in_words(policy),
                role.to_owned(),
            ]
        });
        output::write_table(out, ["policy", "settings", ""], rows)
    }

    fn write_questions_with_goal(&self, out: &mut Screen) -> anyhow::Result<()> {
        let questions = self.questions.iter();
        let rows =
            questions.map(|question| [question.ask.clone(), metric_or_goal_in_words(question)]);
        output::write_table(out, ["question", "answered by"], rows)
    }

    fn write_checked_study(&self, out: &mut Screen) -> anyhow::Result<()> {
        out.write_folded(&self.heading_with_runs_and_place(), 2)?;
        writeln!(out)?;
        self.write_workloads_with_length(out)?;
        writeln!(out)?;
        self.write_policies_with_settings(out)?;
        if !self.questions.is_empty() {
            writeln!(out)?;
            self.write_questions_with_goal(out)?;
        }
        if self.repeats < 4 {
            writeln!(
                out,
                "\n{} run(s) of each: no interval can be given for fewer than 4; set `repeats`",
                self.repeats
            )?;
        }
        if let Some(duration) = self.estimated_duration_in_words() {
            writeln!(out, "\n{duration}")?;
        }
        Ok(())
    }
}

/// Checks a plan, and prints what would run and how long that takes on so many threads.
pub(super) fn check_and_print_plan(
    plan: &Plan,
    threads: usize,
    format: Format,
    out: &mut Screen,
) -> anyhow::Result<()> {
    hold_notes_on_study_input(plan);
    let checked = CheckedStudy::check_cells_and_estimate_duration(plan, threads)?;
    match format {
        Format::Json => output::write_json(out, &checked),
        Format::Csv => {
            let rows = (0..plan.cells_of_first_repeat().len()).map(|cell| {
                let key = plan.key_at(cell);
                [
                    key.machine,
                    key.workload,
                    key.policy,
                    plan.repeats().to_string(),
                ]
            });
            output::write_csv(out, ["machine", "workload", "policy", "runs"], rows)
        }
        Format::Table => checked.write_checked_study(out),
    }
}

fn task_kind_or_command(task: &Task) -> String {
    match task {
        Task::Fio { .. } => "fio job".to_owned(),
        Task::RtApp { .. } => "rt-app file".to_owned(),
        Task::BlockTrace { .. } => "block trace".to_owned(),
        Task::Server { .. } => "server".to_owned(),
        Task::Tasks { .. } => "tasks of given steps".to_owned(),
        Task::Recording(_) => "recording".to_owned(),
        Task::Command { words, .. } => words.join(" "),
    }
}

fn policy_settings_in_words(policy: &wakepath_results::PolicyInfo) -> String {
    let settings = policy.settings.iter();
    let all: Vec<String> = settings.map(|(k, v)| format!("{k}={v}")).collect();
    if all.is_empty() {
        "nothing changed".to_owned()
    } else {
        all.join(", ")
    }
}

/// A question's metric, or its goal and conditions, in words.
fn metric_or_goal_in_words(question: &Question) -> String {
    let metric = &question.metric;
    let wanted = match question.goal {
        None => metric.clone(),
        Some(Goal::Minimise) => format!("least {metric}"),
        Some(Goal::Maximise) => format!("most {metric}"),
    };
    let keep = question.keep.iter().map(ToString::to_string);
    let parts: Vec<String> = std::iter::once(wanted).chain(keep).collect();
    parts.join(", ")
}
