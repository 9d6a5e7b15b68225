//! A study's questions.

use toml::Spanned;
use wakepath_results::{Condition, Goal, Metric, Question, RunOrigin};

use super::cell::Cell;
use super::names::{find_name, select_name_or_group_members};
use super::planned::Plan;
use crate::file::{QuestionEntry, StudyError, StudyText};

/// All names that a question may refer to.
struct KnownNames<'a> {
    metrics: &'a [Metric],
    policies: Vec<&'a str>,
    workloads: Vec<&'a str>,
    machines: Vec<&'a str>,
}

/// Plans all questions in the study file.
pub(super) fn plan_questions(
    plan: &Plan,
    source: StudyText<'_>,
) -> Result<Vec<Question>, StudyError> {
    let known = KnownNames {
        metrics: &plan.metrics,
        policies: plan.policies.iter().map(|p| p.name.as_str()).collect(),
        workloads: plan.workloads.iter().map(|w| w.name.as_str()).collect(),
        machines: plan.machines.iter().map(|m| m.name.as_str()).collect(),
    };
    let mut all = Vec::with_capacity(plan.file.question.len());
    for entry in &plan.file.question {
        let mut question = plan_question(entry, source, &known)?;
        // A measurement runs on this computer, whatever the machine's name in the study.
        if plan.target != RunOrigin::Live {
            let names = &entry.get_ref().machines;
            question.machines = select_question_names(source, "machine", names, &known.machines)?;
        }
        if !plan.cells_of_first_repeat().iter().any(|cell: &Cell| {
            let key = plan.key_for_cell(*cell);
            question.includes_machine(&key.machine)
                && question.includes_workload(&key.workload)
                && question.includes_policy(&key.policy)
        }) {
            let message = "the question is about nothing that is run: its workloads do not run on its machines under its \
                           policies";
            return Err(source.error_at_value(entry, message));
        }
        all.push(question);
    }
    Ok(all)
}

/// The known names that a question's list selects.
fn select_question_names(
    source: StudyText<'_>,
    what: &str,
    names: &[Spanned<String>],
    known: &[&str],
) -> Result<Vec<String>, StudyError> {
    let names = names
        .iter()
        .map(|name| select_name_or_group_members(source, what, name, known));
    Ok(names.collect::<Result<Vec<_>, StudyError>>()?.concat())
}

fn plan_question(
    entry: &Spanned<QuestionEntry>,
    source: StudyText<'_>,
    known: &KnownNames<'_>,
) -> Result<Question, StudyError> {
    let keys = entry.get_ref();
    let (metric, goal) = match (&keys.metric, &keys.minimise, &keys.maximise) {
        (Some(metric), None, None) => (metric, None),
        (None, Some(metric), None) => (metric, Some(Goal::Minimise)),
        (None, None, Some(metric)) => (metric, Some(Goal::Maximise)),
        _ => {
            let message = "a question needs one of `metric`, `minimise` and `maximise`";
            return Err(source.error_at_value(entry, message));
        }
    };
    let metric = find_metric(metric, metric.get_ref(), source, known)?;
    if goal.is_none()
        && let Some(condition) = keys.keep.first()
    {
        let message = "`keep` goes with `minimise` or `maximise`, which say what is wanted among what keeps it";
        return Err(source.error_at_value(condition, message));
    }
    if let (Some(_), Some(baseline)) = (goal, &keys.baseline) {
        let message = "a question with `minimise` or `maximise` compares with no baseline";
        return Err(source.error_at_value(baseline, message));
    }
    let keep: Vec<Condition> = keys
        .keep
        .iter()
        .map(|text: &Spanned<String>| -> Result<Condition, StudyError> {
            let parsed = text.get_ref().parse::<Condition>();
            let condition = parsed.map_err(|message| source.error_at_value(text, message))?;
            find_metric(text, &condition.metric, source, known)?;
            Ok(condition)
        })
        .collect::<Result<_, StudyError>>()?;
    Ok(Question {
        ask: match &keys.ask {
            Some(ask) => ask.clone(),
            None => describe_question(metric, goal, &keep),
        },
        metric: metric.name.to_string(),
        goal,
        keep,
        policies: select_question_names(source, "policy", &keys.policies, &known.policies)?,
        workloads: select_question_names(source, "workload", &keys.workloads, &known.workloads)?,
        machines: Vec::new(),
        baseline: match &keys.baseline {
            None => None,
            Some(name) => {
                find_name(source, "policy", name, &known.policies)?;
                Some(name.get_ref().clone())
            }
        },
    })
}

/// Finds a metric by name; an unknown name is an error at `at`.
fn find_metric<'a>(
    at: &Spanned<String>,
    name: &str,
    source: StudyText<'_>,
    known: &KnownNames<'a>,
) -> Result<&'a Metric, StudyError> {
    let found = known.metrics.iter().find(|m| m.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.metrics.iter().map(|m| &*m.name).collect();
        source.error_at_value(
            at,
            crate::file::unknown_name_message("metric", name, &names),
        )
    })
}

fn describe_question(metric: &Metric, goal: Option<Goal>, keep: &[Condition]) -> String {
    let title = &metric.title;
    let end = match goal {
        None => return format!("What changes in {title}?"),
        Some(Goal::Minimise) => "lowest",
        Some(Goal::Maximise) => "highest",
    };
    let keep: Vec<String> = keep.iter().map(ToString::to_string).collect();
    let keep = match keep.join(" and ") {
        none if none.is_empty() => none,
        all => format!(" and keeps {all}"),
    };
    format!("Which policy has the {end} {title}{keep}?")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wakepath_results::{Goal, Question, RunOrigin};

    use crate::plan::Plan;

    const STUDY: &str = "name = 's'\nmachine = 'rk3399'\n\
        [[workload]]\nname = 'w'\nfio = 'iowait-rk3399.fio'\nseconds = 1\n[[policy]]\nname = 'p'\n[[question]]\n";

    fn planned(question: &str) -> Result<Vec<Question>, String> {
        let text = format!("{STUDY}{question}\n");
        let plan = Plan::from_text(&text, "s.toml", Path::new("."), RunOrigin::Sim);
        Ok(plan.map_err(|e| e.to_string())?.questions)
    }

    #[test]
    fn a_question_may_want_the_best_policy_under_conditions() {
        let questions = planned(
            "minimise = 'mean_mw'\nkeep = ['p99_us<150', 'iops >= 2e3']\nworkloads = ['w']",
        );
        let question = &questions.unwrap()[0];
        assert_eq!(
            (question.metric.as_str(), question.goal),
            ("mean_mw", Some(Goal::Minimise))
        );
        let kept: Vec<String> = question.keep.iter().map(ToString::to_string).collect();
        assert_eq!(kept, ["p99_us < 150", "iops >= 2000"]);
        assert_eq!(
            question.ask,
            "Which policy has the lowest power and keeps p99_us < 150 and iops >= 2000?"
        );
        let most = &planned("maximise = 'iops'").unwrap()[0];
        assert_eq!(most.goal, Some(Goal::Maximise));
        assert_eq!(most.ask, "Which policy has the highest IOPS?");
        assert_eq!(planned("metric = 'iops'").unwrap()[0].goal, None);
    }

    #[test]
    fn what_is_wrong_with_a_question_has_its_line() {
        for (question, line, part) in [
            ("ask = 'x'", 9, "one of `metric`, `minimise` and `maximise`"),
            (
                "metric = 'iops'\nminimise = 'mean_mw'",
                9,
                "one of `metric`",
            ),
            (
                "minimise = 'mean_mw'\nmaximise = 'iops'",
                9,
                "one of `metric`",
            ),
            (
                "metric = 'iops'\nkeep = ['p99_us < 1']",
                11,
                "`keep` goes with",
            ),
            ("minimise = 'mean_mw'\nbaseline = 'p'", 11, "no baseline"),
            ("minimise = 'mean_mx'", 10, "did you mean `mean_mw`"),
            ("minimise = 'mean_mw'\nkeep = ['p99 < 1']", 11, "`p99`"),
            (
                "minimise = 'mean_mw'\nkeep = ['p99_us']",
                11,
                "no condition such as",
            ),
            (
                "minimise = 'mean_mw'\nkeep = ['']",
                11,
                "no condition such as",
            ),
            (
                "minimise = 'mean_mw'\nkeep = 'p99_us < 1'",
                11,
                "instead of a list",
            ),
            ("minimise = 'mean_mw'\nworkloads = ['v']", 11, "`v`"),
        ] {
            let error = planned(question).unwrap_err();
            assert!(
                error.contains(&format!("s.toml:{line}")) && error.contains(part),
                "{question}: {error}"
            );
        }
    }
}
