//! A fleet's survey and decisions as tables, CSV and JSON.

use wakepath_fleet::{
    ClassOutcome, ClassReplay, Deviation, FleetClass, FleetDecision, FleetDecisions,
};

use super::report::{FleetReport, settings_file_name};
use crate::messages::note;
use crate::output::{self, Format, Screen, count_with_noun};

/// Most machines that stand out in the tables for people.
const MOST_OUTLIERS: usize = 40;

/// Most deviations of a machine in the tables for people.
const MOST_DEVIATIONS: usize = 3;

pub(super) fn print_fleet(
    out: &mut Screen,
    format: Format,
    report: &FleetReport,
) -> anyhow::Result<()> {
    match format {
        Format::Json => output::write_json(out, report),
        Format::Csv => output::write_csv(out, MACHINE_HEADER, machine_rows(report)),
        Format::Table => print_for_people(out, report),
    }
}

/// Columns of the list of machines.
const MACHINE_HEADER: [&str; 6] = [
    "machine",
    "class",
    "settings_file",
    "what",
    "value",
    "usual",
];

/// Rows of the list of machines: a row for each deviation, or one without.
fn machine_rows(report: &FleetReport) -> Vec<[String; 6]> {
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

/// The list of machines as CSV text.
pub(super) fn list_machines(report: &FleetReport) -> anyhow::Result<String> {
    let mut list = Screen::for_stdout();
    output::write_csv(&mut list, MACHINE_HEADER, machine_rows(report))?;
    Ok(String::from_utf8_lossy(list.raw_bytes()).into_owned())
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

fn print_for_people(out: &mut Screen, report: &FleetReport) -> anyhow::Result<()> {
    let classes = &report.survey.classes;
    let machines: usize = classes.iter().map(|class| class.machines.len()).sum();
    writeln!(
        out,
        "{} in {}",
        count_with_noun(machines as u64, "machine"),
        if classes.len() == 1 {
            "1 class".to_owned()
        } else {
            format!("{} classes", classes.len())
        }
    )?;
    writeln!(out)?;
    output::write_table(out, CLASS_HEADER, classes.iter().map(class_cells))?;
    write_outliers(out, classes)?;
    write_findings(out, classes)?;
    write_replays(out, &report.replays)?;
    if let Some(decisions) = &report.decisions {
        write_decisions(out, decisions)?;
    }
    for text in notes_of_report(report) {
        note!("{text}");
    }
    Ok(())
}

/// Columns of the table of classes.
pub(super) const CLASS_HEADER: [&str; 4] = ["class", "what", "machines", "stand out"];

pub(super) fn class_cells(class: &FleetClass) -> [String; 4] {
    [
        class.name.clone(),
        class.key.describe(),
        class.machines.len().to_string(),
        class.outliers().count().to_string(),
    ]
}

/// Columns of the table of machines that stand out.
pub(super) const OUTLIER_HEADER: [&str; 5] = ["machine", "class", "what", "value", "usual"];

/// Rows of machines that stand out, at most `most` deviations of each.
pub(super) fn outlier_rows(classes: &[FleetClass], most: usize) -> Vec<[String; 5]> {
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

fn write_outliers(out: &mut Screen, classes: &[FleetClass]) -> anyhow::Result<()> {
    let rows = outlier_rows(classes, MOST_DEVIATIONS);
    writeln!(out)?;
    if rows.is_empty() {
        writeln!(out, "No machine stands out from its class.")?;
    } else {
        writeln!(out, "Machines that stand out from their class:")?;
        output::write_table(out, OUTLIER_HEADER, rows.iter().take(MOST_OUTLIERS))?;
        if rows.len() > MOST_OUTLIERS {
            writeln!(
                out,
                "and {} rows more; --format csv has all",
                rows.len() - MOST_OUTLIERS
            )?;
        }
    }
    Ok(())
}

/// Writes doctor's findings for whole classes.
fn write_findings(out: &mut Screen, classes: &[FleetClass]) -> anyhow::Result<()> {
    if classes.iter().all(|class| class.findings.is_empty()) {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "Findings of doctor for whole classes:")?;
    for class in classes {
        for finding in &class.findings {
            let text = format!("{}: {}: {}", class.name, finding.name, finding.title);
            out.write_folded(&text, 2)?;
        }
    }
    Ok(())
}

/// Columns of the table of replays.
pub(super) const REPLAY_HEADER: [&str; 7] = [
    "class",
    "governor",
    "machines",
    "idle periods",
    "too deep %",
    "too shallow %",
    "added us",
];

pub(super) fn replay_rows(replays: &[ClassReplay]) -> Vec<[String; 7]> {
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

fn write_replays(out: &mut Screen, replays: &[ClassReplay]) -> anyhow::Result<()> {
    let rows = replay_rows(replays);
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(out, "Recordings under other idle governors:")?;
    output::write_table(out, REPLAY_HEADER, rows)
}

/// Columns of the table of decisions.
pub(super) const DECISION_HEADER: [&str; 7] = [
    "class",
    "set",
    "in force",
    "with the set",
    "better by %",
    "spread %",
    "on machines",
];

pub(super) fn decision_rows(decisions: &FleetDecisions) -> Vec<[String; 7]> {
    let mut rows = Vec::new();
    for decision in &decisions.decisions {
        let set = decision.set.as_deref().unwrap_or("(as it is)");
        for outcome in &decision.outcomes {
            rows.push(outcome_cells(outcome, set));
        }
    }
    rows
}

fn outcome_cells(outcome: &ClassOutcome, set: &str) -> [String; 7] {
    let [low, high] = outcome.gain_interval;
    let [least, most] = outcome.spread_percent;
    [
        outcome.class.clone(),
        set.to_owned(),
        format!("{:.1} {}", outcome.in_force, outcome.unit),
        format!("{:.1} {}", outcome.objective, outcome.unit),
        format!("{:+.1} ({low:.1} to {high:.1})", outcome.gain_percent),
        format!("{least:.1} to {most:.1}"),
        outcome.tried.to_string(),
    ]
}

fn write_decisions(out: &mut Screen, decisions: &FleetDecisions) -> anyhow::Result<()> {
    writeln!(out)?;
    writeln!(out, "Settings, by simulation:")?;
    output::write_table(out, DECISION_HEADER, decision_rows(decisions))?;
    for line in sentences_about_decisions(decisions) {
        out.write_folded(&line, 2)?;
    }
    Ok(())
}

/// Which classes share a decision, and which joined another.
pub(super) fn sentences_about_decisions(decisions: &FleetDecisions) -> Vec<String> {
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

/// What a reader should know about a report.
pub(super) fn notes_of_report(report: &FleetReport) -> Vec<String> {
    let mut notes = report.survey.notes.clone();
    for class in &report.survey.classes {
        for divided in &class.divided {
            let values: Vec<String> = divided
                .values
                .iter()
                .map(|(value, count)| format!("{value} on {count}"))
                .collect();
            notes.push(format!(
                "{}: {} differs: {}",
                class.name,
                divided.what,
                values.join(", ")
            ));
        }
    }
    notes.extend(
        report
            .replays
            .iter()
            .flat_map(|replay| replay.notes.clone()),
    );
    if let Some(decisions) = &report.decisions {
        notes.extend(decisions.notes.iter().cloned());
    }
    notes
}
