//! The page of a fleet: classes, machines that stand out, replays, settings.

use std::path::Path;

use wakepath_report::html::measurements::{
    MeasuredInterval, MeasuredPicture, MeasuredSection, MeasurementPage,
};

use crate::report::FleetReport;
use crate::rows;

/// Program and version, for the foot of the page.
const MADE_BY: &str = concat!("wakepath ", env!("CARGO_PKG_VERSION"));

/// Puts the page together. `command` makes the page again.
pub(crate) fn compose_page(
    report: &FleetReport,
    folder: &Path,
    command: String,
) -> MeasurementPage {
    let classes = &report.survey.classes;
    let machines: usize = classes.iter().map(|class| class.machines.len()).sum();
    let outliers: usize = classes.iter().map(|class| class.outliers().count()).sum();
    let mut sections = vec![
        MeasuredSection {
            title: "Classes".to_owned(),
            note: "Machines of a class have processor, drives, kernel series and labels in common.".to_owned(),
            head: own_texts(rows::CLASS_HEADER),
            rows: classes
                .iter()
                .map(|class| rows::class_cells(class).to_vec())
                .collect(),
            ..MeasuredSection::default()
        },
        MeasuredSection {
            title: "Machines that stand out".to_owned(),
            note: "Settings that are rare in the class, figures of the kernel's counters far from the class's median, and findings \
                   of doctor that the class does not have."
                .to_owned(),
            head: own_texts(rows::OUTLIER_HEADER),
            rows: rows::outlier_rows(classes, usize::MAX)
                .into_iter()
                .map(Vec::from)
                .collect(),
            ..MeasuredSection::default()
        },
    ];
    sections.extend(findings_section(report));
    sections.extend(replay_section(report));
    sections.extend(decision_section(report));
    sections.extend(condition_section(report));
    MeasurementPage {
        subject: "fleet".to_owned(),
        is_prediction: true,
        title: format!(
            "A fleet of {}",
            count_in_words(machines, "machine", "machines")
        ),
        facts: vec![
            folder.display().to_string(),
            count_in_words(classes.len(), "class", "classes"),
            count_in_words(outliers, "machine stands out", "machines stand out"),
        ],
        cautions: report.notes(),
        answers: report
            .decisions
            .as_ref()
            .map(rows::sentences_about_decisions)
            .unwrap_or_default(),
        sections,
        commands: vec![command],
        made_by: MADE_BY.to_owned(),
        ..MeasurementPage::default()
    }
}

/// A count with its words, for one or for several.
fn count_in_words(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

fn own_texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

/// Findings of doctor on the machines that stand for the classes.
fn findings_section(report: &FleetReport) -> Option<MeasuredSection> {
    let mut rows = Vec::new();
    for class in &report.survey.classes {
        for finding in &class.findings {
            rows.push(vec![
                rows::class_with_representative(class),
                finding.name.clone(),
                finding.title.clone(),
            ]);
        }
    }
    (!rows.is_empty()).then(|| MeasuredSection {
        title: "Findings of doctor on the machine that stands for each class".to_owned(),
        note: "The other machines of a class may have other settings.".to_owned(),
        head: own_texts(["class", "finding", "what"]),
        rows,
        ..MeasuredSection::default()
    })
}

fn replay_section(report: &FleetReport) -> Option<MeasuredSection> {
    let cells: Vec<Vec<String>> = rows::replay_rows(&report.replays)
        .into_iter()
        .map(Vec::from)
        .collect();
    (!cells.is_empty()).then(|| MeasuredSection {
        title: "Recordings under other idle governors".to_owned(),
        note: "Added us: how much later a wake-up is than with the best choice, on average; in brackets the lowest and the highest \
               recording."
            .to_owned(),
        head: own_texts(rows::REPLAY_HEADER),
        rows: cells,
        ..MeasuredSection::default()
    })
}

/// What the conditions limit, before and after.
fn condition_section(report: &FleetReport) -> Option<MeasuredSection> {
    let found = rows::condition_rows(report.decisions.as_ref()?);
    (!found.is_empty()).then(|| MeasuredSection {
        title: "Conditions, simulated".to_owned(),
        note: "Values in the metric's own unit, on the machine that was searched.".to_owned(),
        head: own_texts(rows::CONDITION_HEADER),
        rows: found.into_iter().map(Vec::from).collect(),
        ..MeasuredSection::default()
    })
}

/// The decisions, with the gain of each class as a picture.
fn decision_section(report: &FleetReport) -> Option<MeasuredSection> {
    let decisions = report.decisions.as_ref()?;
    let outcomes = decisions
        .decisions
        .iter()
        .flat_map(|decision| &decision.outcomes);
    let lines = outcomes
        .map(|outcome| MeasuredInterval {
            name: outcome.class.clone(),
            value: rows::round_to_tenth(outcome.gain_percent),
            low: rows::round_to_tenth(outcome.spread_percent[0].min(outcome.gain_interval[0])),
            high: rows::round_to_tenth(outcome.spread_percent[1].max(outcome.gain_interval[1])),
            reference: Some(0.0),
        })
        .collect();
    Some(MeasuredSection {
        title: "Settings: gain in per cent, simulated".to_owned(),
        note: format!(
            "{} The bar has the confidence interval and the spread between machines of the class with other settings in force. \
             The upright line is what is in force.",
            decisions.question.describe()
        ),
        picture: Some(MeasuredPicture::Intervals(lines)),
        head: own_texts(rows::DECISION_HEADER),
        rows: rows::decision_rows(decisions)
            .into_iter()
            .map(Vec::from)
            .collect(),
    })
}
