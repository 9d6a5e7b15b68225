//! A fleet's survey and decisions as tables, CSV and JSON.

use wakepath_fleet::rows::{
    CLASS_HEADER, CONDITION_HEADER, DECISION_HEADER, OUTLIER_HEADER, REPLAY_HEADER, class_cells,
    class_with_representative, condition_rows, decision_rows, outlier_rows, replay_rows,
    sentences_about_decisions,
};
use wakepath_fleet::{ClassReplay, FleetClass, FleetDecisions, FleetReport};

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
        Format::Csv => {
            out.raw_bytes().extend(report.list_machines()?.as_bytes());
            Ok(())
        }
        Format::Table => print_for_people(out, report),
    }
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
    for text in report.notes() {
        note!("{text}");
    }
    Ok(())
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

/// Writes doctor's findings on the machines that stand for the classes.
fn write_findings(out: &mut Screen, classes: &[FleetClass]) -> anyhow::Result<()> {
    if classes.iter().all(|class| class.findings.is_empty()) {
        return Ok(());
    }
    writeln!(out)?;
    writeln!(
        out,
        "Findings of doctor on the machine that stands for each class:"
    )?;
    for class in classes {
        for finding in &class.findings {
            let place = class_with_representative(class);
            let text = format!("{place}: {}: {}", finding.name, finding.title);
            out.write_folded(&text, 2)?;
        }
    }
    Ok(())
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

fn write_decisions(out: &mut Screen, decisions: &FleetDecisions) -> anyhow::Result<()> {
    writeln!(out)?;
    let rows = decision_rows(decisions);
    if rows.is_empty() {
        writeln!(out, "No class has a decision.")?;
    } else {
        out.write_folded(&decisions.question.describe(), 2)?;
        output::write_table(out, DECISION_HEADER, rows)?;
    }
    let conditions = condition_rows(decisions);
    if !conditions.is_empty() {
        writeln!(out)?;
        writeln!(out, "Conditions, by simulation:")?;
        output::write_table(out, CONDITION_HEADER, conditions)?;
    }
    for line in sentences_about_decisions(decisions) {
        out.write_folded(&line, 2)?;
    }
    Ok(())
}
