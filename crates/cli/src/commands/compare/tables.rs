//! The table of each metric, and a sentence for each comparison.

use wakepath_compare::figure::{format_percent, format_percents, format_signed};
use wakepath_compare::results::{Answer, Comparison, Row};
use wakepath_compare::{Better, Mean, Metric, Verdict};
use wakepath_report::html::view;

use super::cells::{describe_procedure, load_cells, load_header, mean_and_deviation};
use super::style::Style;
use super::{drawing, ranking};
use crate::bars::Canvas;
use crate::output::Screen;

/// Writes answers to the studies' questions with goals.
pub(super) fn answered_rows(
    out: &mut Screen,
    answers: &[Answer],
    style: &dyn Style,
) -> anyhow::Result<()> {
    for answer in answers {
        style.heading(out, &answer.question)?;
        for sentence in &answer.sentences {
            style.sentence(out, sentence)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes each metric's table, with a drawing if possible, then a sentence per comparison.
pub(super) fn print_comparison(
    out: &mut Screen,
    comparison: &Comparison,
    style: &dyn Style,
    canvas: Option<Canvas>,
) -> anyhow::Result<()> {
    write_metric_tables(out, comparison, style, canvas)?;
    style.heading(out, &describe_procedure(comparison))?;
    let (rows, reasons) = verdict_sentences(comparison);
    if rows.len() > 1 {
        style.table(out, rows)?;
        if !reasons.is_empty() {
            writeln!(out)?;
        }
    }
    for reason in reasons {
        style.sentence(out, &reason)?;
    }
    let repeated = repeated_sentences(comparison);
    let warnings: Vec<Vec<String>> = comparison
        .rows
        .iter()
        .filter(|row| !repeated.contains(&row.policy.as_str()))
        .flat_map(|row| {
            let name = format!("{}, {}, {}", row.load, row.policy, row.metric);
            row.warnings
                .iter()
                .map(move |w| vec![name.clone(), w.clone()])
        })
        .collect();
    if !warnings.is_empty() {
        writeln!(out)?;
        style.heading(out, "Warnings")?;
        let header = vec!["series".to_owned(), "what is odd".to_owned()];
        style.table(out, [vec![header], warnings].concat())?;
    }
    write_notes(out, comparison, style)
}

/// Writes each metric's table, with a drawing if possible.
pub(super) fn write_metric_tables(
    out: &mut Screen,
    comparison: &Comparison,
    style: &dyn Style,
    canvas: Option<Canvas>,
) -> anyhow::Result<()> {
    for metric in &comparison.metrics {
        style.heading(out, &metric_title(comparison, metric))?;
        style.table(out, mean_cells(comparison, metric))?;
        if let Some(canvas) = canvas {
            drawing::write_drawing(out, canvas, comparison, metric)?;
        }
        writeln!(out)?;
    }
    let equal = tell_equal_policies(comparison);
    for sentence in &equal {
        style.sentence(out, sentence)?;
    }
    if !equal.is_empty() {
        writeln!(out)?;
    }
    Ok(())
}

/// Most policies named in a sentence.
pub(super) const NAMED: usize = 4;

/// Which policies gave the same numbers in every run, and are shown once.
pub(super) fn tell_equal_policies(comparison: &Comparison) -> Vec<String> {
    let groups = comparison.groups_of_equal_policies().into_iter();
    groups
        .filter_map(|group: Vec<&str>| {
            let (first, others) = group.split_first()?;
            let others = match others {
                few if few.len() <= NAMED => few.join(", "),
                many => format!(
                    "{} and {} more",
                    many[..NAMED].join(", "),
                    many.len() - NAMED
                ),
            };
            Some(format!(
                "The same numbers as {first} in every run: {others}."
            ))
        })
        .collect()
}

/// Policies equal to an earlier policy in every run.
pub(super) fn repeated_sentences(comparison: &Comparison) -> Vec<&str> {
    let groups = comparison.groups_of_equal_policies().into_iter();
    groups.flat_map(|group| group.into_iter().skip(1)).collect()
}

/// Policies unequal to every earlier policy.
pub(super) fn shown_rows(comparison: &Comparison) -> Vec<&String> {
    let repeated = repeated_sentences(comparison);
    let policies = comparison.policies.iter();
    policies
        .filter(|policy| !repeated.contains(&policy.as_str()))
        .collect()
}

/// Writes remarks below tables and rankings.
pub(super) fn write_notes(
    out: &mut Screen,
    comparison: &Comparison,
    style: &dyn Style,
) -> anyhow::Result<()> {
    if !comparison.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &comparison.notes {
        style.sentence(out, note)?;
    }
    Ok(())
}

/// The tables, and what a report on the same results answers.
pub(super) fn brief_sentence(
    out: &mut Screen,
    comparison: &Comparison,
    answers: &[view::PageAnswer],
    top: u32,
    style: &dyn Style,
) -> anyhow::Result<()> {
    if comparison.policies.len() > ranking::RANKED_ABOVE {
        ranking::print_scopes(out, comparison, top, style)?;
        writeln!(out)?;
    } else {
        write_metric_tables(out, comparison, style, None)?;
    }
    for answer in answers {
        style.sentence(out, &format!("{} {}", answer.question, answer.sentence))?;
    }
    write_notes(out, comparison, style)
}

/// A metric's title, unit, mean and better direction.
pub(super) fn metric_title(comparison: &Comparison, metric: &Metric) -> String {
    let mean = match metric.mean {
        Mean::Arithmetic => "Amean",
        Mean::Harmonic => "Hmean",
        Mean::Geometric => "Gmean",
    };
    let better = match metric.better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
        Better::Neither => "neither is better",
    };
    let change = match metric.better {
        Better::Neither => "change in % (plus is more",
        _ => "gain in % (plus is better",
    };
    format!(
        "{}: {mean} with standard deviation, and {change}, * significant); {better}",
        comparison
            .unit_for_metric(metric)
            .title_with_unit(&metric.title)
    )
}

/// A line per workload, a column per policy, and the geometric mean below.
pub(super) fn mean_cells(comparison: &Comparison, metric: &Metric) -> Vec<Vec<String>> {
    let header = load_header(comparison).into_iter().map(str::to_owned);
    let mut table = vec![header.collect::<Vec<String>>()];
    let policies = shown_rows(comparison);
    table[0].extend(policies.iter().map(|policy| (*policy).clone()));
    let unit = comparison.unit_for_metric(metric);
    let of_metric: Vec<&Row> = comparison
        .rows
        .iter()
        .filter(|r| r.metric == metric.name)
        .collect();
    for load in &comparison.loads {
        let rows: Vec<&&Row> = of_metric.iter().filter(|r| r.load == *load).collect();
        if rows.is_empty() {
            continue;
        }
        let mut line = load_cells(comparison, load);
        line.extend(policies.iter().map(|policy: &&String| {
            let row = rows.iter().find(|r| r.policy == **policy);
            row.map_or_else(String::new, |row| {
                let star = if row.significant { "*" } else { "" };
                let gain = row.gain.map_or_else(String::new, |g| {
                    let [percent] = format_percents([g.percent], Some(g.interval));
                    format!(" ({star}{percent} %{star})")
                });
                format!("{}{gain}", mean_and_deviation(row, &unit))
            })
        }));
        table.push(line);
    }
    let summaries: Vec<_> = comparison
        .summaries
        .iter()
        .filter(|s| s.metric == metric.name)
        .collect();
    if !summaries.is_empty() {
        let mut line = vec!["Gmean".to_owned()];
        line.resize(load_header(comparison).len(), String::new());
        line.extend(policies.iter().map(|policy| {
            let found = summaries.iter().find(|s| s.policy == **policy);
            found.map_or_else(String::new, |s| {
                format!("({} %)", format_percent(s.percent, 1))
            })
        }));
        table.push(line);
    }
    table
}

/// A line per comparison, different ones first. Impossible comparisons become reasons, each said once.
pub(super) fn verdict_sentences(comparison: &Comparison) -> (Vec<Vec<String>>, Vec<String>) {
    let mut header = vec!["metric"];
    header.extend(load_header(comparison));
    header.extend([
        "policy",
        "verdict",
        "gain %",
        "interval %",
        "p",
        "effect",
        "runs",
    ]);
    let repeated = repeated_sentences(comparison);
    let compared = comparison
        .rows
        .iter()
        .filter(|r| r.baseline.is_some() && !repeated.contains(&r.policy.as_str()));
    let (mut rows, without): (Vec<&Row>, Vec<&Row>) = compared.partition(|row| row.gain.is_some());
    rows.sort_by_key(|row| match row.verdict {
        Some(Verdict::Better { .. } | Verdict::Worse { .. }) => 0,
        Some(Verdict::CannotTell { .. }) => 1,
        _ => 2,
    });
    let mut table = vec![header.into_iter().map(str::to_owned).collect()];
    table.extend(
        rows.into_iter()
            .map(|row| verdict_sentence(comparison, row)),
    );
    (table, list_reasons(&without))
}

/// A comparison in cells.
pub(super) fn verdict_sentence(comparison: &Comparison, row: &Row) -> Vec<String> {
    let gain = row.gain.as_ref();
    let [change, interval, effect] = [
        gain.map(|g| format_percents([g.percent], Some(g.interval)).concat()),
        gain.map(|g| format_percents(g.interval, Some(g.interval)).join(" to ")),
        gain.and_then(|g| g.effect).map(effect_text),
    ]
    .map(Option::unwrap_or_default);
    let mut line = vec![row.metric.clone()];
    line.extend(load_cells(comparison, &row.load));
    line.extend([
        row.policy.clone(),
        row.sentence.clone(),
        change,
        interval,
        row.corrected_p.map_or_else(String::new, |p| match p {
            p if p < 1e-4 => "<0.0001".to_owned(),
            p => format!("{p:.4}"),
        }),
        effect,
        row.runs.to_string(),
    ]);
    line
}

/// Why rows cannot be compared, each reason once.
pub(super) fn list_reasons(rows: &[&Row]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in rows {
        match reasons.iter_mut().find(|(why, _)| *why == row.sentence) {
            Some((_, rows)) => rows.push(row),
            None => reasons.push((&row.sentence, vec![row])),
        }
    }
    reasons
        .into_iter()
        .map(|(why, rows)| {
            let advice = if why.contains("no interval") {
                "; give `repeats` of 4 or more"
            } else {
                ""
            };
            match rows[..] {
                [row] => format!(
                    "{why} ({}, {}, {}){advice}.",
                    row.metric, row.load, row.policy
                ),
                _ => format!("{why} ({} comparisons){advice}.", rows.len()),
            }
        })
        .collect()
}

/// An effect size; beyond 100 standard deviations runs hardly vary.
pub(super) fn effect_text(value: f64) -> String {
    if value.abs() <= 100.0 {
        format_signed(value, 1)
    } else {
        format!("{}100", if value < 0.0 { "<-" } else { ">+" })
    }
}
