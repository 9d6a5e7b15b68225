//! Rows of tables about a fleet, for the terminal, pages and CSV: cells are text from strangers, and whoever shows them
//! escapes them.

use crate::class_search::{ClassOutcome, OutcomeOfCondition};
use crate::decision::{FleetDecision, FleetDecisions};
use crate::outlier::Deviation;
use crate::replayed::ClassReplay;
use crate::report::FleetReport;
use crate::survey::FleetClass;

/// Name of a class's settings file in an output folder.
pub(crate) fn settings_file_name(class: &str) -> String {
    format!("{class}.settings.toml")
}

/// Columns of the list of machines.
pub(crate) const MACHINE_HEADER: [&str; 6] = [
    "machine",
    "class",
    "settings_file",
    "what",
    "value",
    "usual",
];

/// Rows of the list of machines: a row for each deviation, or one without.
pub(crate) fn machine_rows(report: &FleetReport) -> Vec<[String; 6]> {
    let mut rows = Vec::new();
    for class in &report.survey.classes {
        let has_file = decision_for_class(report.decisions.as_ref(), &class.name)
            .is_some_and(|decision| decision.settings_file.is_some());
        let file = if has_file {
            settings_file_name(&class.name)
        } else {
            String::new()
        };
        for machine in &class.machines {
            let place = [&machine.name, &class.name, &file];
            if machine.deviations.is_empty() {
                rows.push(row_with_place(place, ["", "", ""]));
            }
            for Deviation { what, value, usual } in &machine.deviations {
                rows.push(row_with_place(place, [what, value, usual]));
            }
        }
    }
    rows
}

/// Cells of a machine's place, followed by cells of a deviation.
fn row_with_place([machine, class, file]: [&String; 3], deviation: [&str; 3]) -> [String; 6] {
    let [what, value, usual] = deviation;
    [machine, class, file, what, value, usual].map(str::to_owned)
}

fn decision_for_class<'a>(
    decisions: Option<&'a FleetDecisions>,
    class: &str,
) -> Option<&'a FleetDecision> {
    decisions?
        .decisions
        .iter()
        .find(|decision| decision.classes.iter().any(|name| name == class))
}

/// Columns of the table of classes.
pub const CLASS_HEADER: [&str; 4] = ["class", "what", "machines", "stand out"];

/// Cells of a class: name, features, numbers of machines and of outliers.
pub fn class_cells(class: &FleetClass) -> [String; 4] {
    [
        class.name.clone(),
        class.key.describe(),
        class.machines.len().to_string(),
        class.outliers().count().to_string(),
    ]
}

/// A class with the machine that stands for it, where the class has others.
pub fn class_with_representative(class: &FleetClass) -> String {
    match class.machines.len() {
        1 => class.name.clone(),
        all => format!(
            "{}, by {} of {all}",
            class.name,
            class.representative().name
        ),
    }
}

/// Columns of the table of machines that stand out.
pub const OUTLIER_HEADER: [&str; 5] = ["machine", "class", "what", "value", "usual"];

/// Rows of machines that stand out, at most `most` deviations of each.
pub fn outlier_rows(classes: &[FleetClass], most: usize) -> Vec<[String; 5]> {
    let mut rows = Vec::new();
    for class in classes {
        for machine in class.outliers() {
            for deviation in machine.deviations.iter().take(most) {
                let Deviation { what, value, usual } = deviation;
                rows.push(
                    [&machine.name, &class.name, what, value, usual].map(ToString::to_string),
                );
            }
        }
    }
    rows
}

/// Columns of the table of replays.
pub const REPLAY_HEADER: [&str; 7] = [
    "class",
    "governor",
    "machines",
    "idle periods",
    "too deep %",
    "too shallow %",
    "added us",
];

/// Rows of replays: a row per class and governor.
pub fn replay_rows(replays: &[ClassReplay]) -> Vec<[String; 7]> {
    let mut rows = Vec::new();
    for replay in replays {
        for choices in &replay.governors {
            let [low, high] = choices.added_us_spread;
            rows.push([
                replay.class.clone(),
                choices.governor.clone(),
                replay.machines.len().to_string(),
                choices.periods.to_string(),
                format!("{:.1}", choices.too_deep_percent),
                format!("{:.1}", choices.too_shallow_percent),
                format!("{:.2} ({low:.2} to {high:.2})", choices.added_us),
            ]);
        }
    }
    rows
}

/// Columns of the table of decisions.
pub const DECISION_HEADER: [&str; 7] = [
    "class",
    "set",
    "in force",
    "with the set",
    "better by %",
    "spread %",
    "on machines",
];

/// Rows of decisions: a row per searched class.
pub fn decision_rows(decisions: &FleetDecisions) -> Vec<[String; 7]> {
    let mut rows = Vec::new();
    for decision in &decisions.decisions {
        let set = decision.set.as_deref().unwrap_or("(as it is)");
        for outcome in &decision.outcomes {
            rows.push(outcome_cells(outcome, set));
        }
    }
    rows
}

/// Columns of the table of conditions.
pub const CONDITION_HEADER: [&str; 7] = [
    "class",
    "condition",
    "load",
    "in force",
    "with the set",
    "limit",
    "",
];

/// Rows of conditions: a row per searched class, condition and load.
pub fn condition_rows(decisions: &FleetDecisions) -> Vec<[String; 7]> {
    let outcomes = decisions
        .decisions
        .iter()
        .flat_map(|decision| &decision.outcomes);
    let mut rows = Vec::new();
    for outcome in outcomes {
        for kept in &outcome.conditions {
            rows.push([
                outcome.class.clone(),
                kept.condition.clone(),
                kept.load.clone(),
                format!("{:.1}", kept.in_force),
                format!("{:.1}", kept.value),
                format!("{:.1}", kept.limit),
                describe_keeping(kept).to_owned(),
            ]);
        }
    }
    rows
}

/// How sure it is that a condition is kept.
pub(crate) fn describe_keeping(kept: &OutcomeOfCondition) -> &'static str {
    match (kept.is_kept, kept.is_sure) {
        (true, true) => "kept",
        (true, false) => "perhaps kept",
        _ => "broken",
    }
}

/// A value to a tenth, without the sign of a zero.
pub(crate) fn round_to_tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0 + 0.0
}

fn outcome_cells(outcome: &ClassOutcome, set: &str) -> [String; 7] {
    let [low, high] = outcome.gain_interval.map(round_to_tenth);
    let [least, most] = outcome.spread_percent.map(round_to_tenth);
    let gain = round_to_tenth(outcome.gain_percent);
    [
        outcome.class.clone(),
        set.to_owned(),
        format!("{:.1} {}", outcome.in_force, outcome.unit),
        format!("{:.1} {}", outcome.objective, outcome.unit),
        format!("{gain:+.1} ({low:.1} to {high:.1})"),
        format!("{least:.1} to {most:.1}"),
        outcome.tried.to_string(),
    ]
}

/// Sentences about decisions: classes with one decision, broken conditions, joined classes.
pub fn sentences_about_decisions(decisions: &FleetDecisions) -> Vec<String> {
    let mut lines = Vec::new();
    for decision in &decisions.decisions {
        if decision.outcomes.len() > 1 {
            let set = decision.set.as_deref().unwrap_or("no change");
            let searched: Vec<&str> = decision
                .outcomes
                .iter()
                .map(|outcome| outcome.class.as_str())
                .collect();
            lines.push(format!("{} are alike: {set}.", searched.join(", ")));
        }
        for outcome in &decision.outcomes {
            if !outcome.broken.is_empty() {
                lines.push(format!(
                    "{}: with other settings in force the set breaks {}.",
                    outcome.class,
                    outcome.broken.join("; ")
                ));
            }
        }
    }
    for (small, nearest) in &decisions.joined {
        lines.push(format!(
            "{small} has few machines and takes the settings of {nearest}, the nearest class."
        ));
    }
    lines
}
