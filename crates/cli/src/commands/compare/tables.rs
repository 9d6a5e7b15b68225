//! The table of means for each metric, and a sentence for each comparison.

use wakepath_compare::figure::{format_percent, format_percents, format_signed};
use wakepath_compare::results::{Answer, Comparison, Row};
use wakepath_compare::{Better, Mean, Metric, Verdict};
use wakepath_report::html::view;

use super::cells::{
    describe_baseline_and_method, machine_and_workload_cells, machine_and_workload_columns,
    mean_and_deviation_cell,
};
use super::style::Style;
use super::{drawing, ranking};
use crate::bars::Canvas;
use crate::output::Screen;

/// Writes the answers to the studies' questions.
pub(super) fn write_study_answers(
    out: &mut Screen,
    answers: &[Answer],
    style: &dyn Style,
) -> anyhow::Result<()> {
    for answer in answers {
        style.write_heading(out, &answer.question)?;
        for sentence in &answer.sentences {
            style.write_sentence(out, sentence)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes each metric's table, with a drawing if possible, then a sentence per comparison.
pub(super) fn write_means_and_verdicts(
    out: &mut Screen,
    comparison: &Comparison,
    style: &dyn Style,
    canvas: Option<Canvas>,
) -> anyhow::Result<()> {
    write_means_per_metric(out, comparison, style, canvas)?;
    style.write_heading(out, &describe_baseline_and_method(comparison))?;
    let (rows, reasons) = verdict_table_and_reasons(comparison);
    if rows.len() > 1 {
        style.write_header_and_rows(out, rows)?;
        if !reasons.is_empty() {
            writeln!(out)?;
        }
    }
    for reason in reasons {
        style.write_sentence(out, &reason)?;
    }
    let repeated = policies_equal_to_earlier(comparison);
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
        style.write_heading(out, "Warnings")?;
        let header = vec!["series".to_owned(), "what is odd".to_owned()];
        style.write_header_and_rows(out, [vec![header], warnings].concat())?;
    }
    write_comparison_notes(out, comparison, style)
}

/// Writes each metric's table, with a drawing if possible.
pub(super) fn write_means_per_metric(
    out: &mut Screen,
    comparison: &Comparison,
    style: &dyn Style,
    canvas: Option<Canvas>,
) -> anyhow::Result<()> {
    for metric in &comparison.metrics {
        style.write_heading(out, &title_with_unit_mean_and_direction(comparison, metric))?;
        style.write_header_and_rows(out, table_of_means(comparison, metric))?;
        if let Some(canvas) = canvas {
            drawing::draw_means_and_runs(out, canvas, comparison, metric)?;
        }
        writeln!(out)?;
    }
    let equal = sentences_on_equal_policies(comparison);
    for sentence in &equal {
        style.write_sentence(out, sentence)?;
    }
    if !equal.is_empty() {
        writeln!(out)?;
    }
    Ok(())
}

/// Most policies that a sentence names.
pub(super) const NAMED: usize = 4;

/// Sentences that name policies with the same numbers in every run, which tables show once.
pub(super) fn sentences_on_equal_policies(comparison: &Comparison) -> Vec<String> {
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

/// Names of policies that equal an earlier policy in every run.
pub(super) fn policies_equal_to_earlier(comparison: &Comparison) -> Vec<&str> {
    let groups = comparison.groups_of_equal_policies().into_iter();
    groups.flat_map(|group| group.into_iter().skip(1)).collect()
}

/// Names of policies that equal no earlier policy.
pub(super) fn policies_unlike_earlier(comparison: &Comparison) -> Vec<&String> {
    let repeated = policies_equal_to_earlier(comparison);
    let policies = comparison.policies.iter();
    policies
        .filter(|policy| !repeated.contains(&policy.as_str()))
        .collect()
}

/// Writes notes below tables and rankings.
pub(super) fn write_comparison_notes(
    out: &mut Screen,
    comparison: &Comparison,
    style: &dyn Style,
) -> anyhow::Result<()> {
    if !comparison.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &comparison.notes {
        style.write_sentence(out, note)?;
    }
    Ok(())
}

/// Writes the tables or rankings, the answers that a report would give, and notes.
pub(super) fn write_means_or_rankings_and_answers(
    out: &mut Screen,
    comparison: &Comparison,
    answers: &[view::PageAnswer],
    top: u32,
    style: &dyn Style,
) -> anyhow::Result<()> {
    if comparison.policies.len() > ranking::RANKED_ABOVE {
        ranking::print_rankings_per_metric(out, comparison, top, style)?;
        writeln!(out)?;
    } else {
        write_means_per_metric(out, comparison, style, None)?;
    }
    for answer in answers {
        style.write_sentence(out, &format!("{} {}", answer.question, answer.sentence))?;
    }
    write_comparison_notes(out, comparison, style)
}

/// A metric's title with its unit, its kind of mean, and its better direction.
pub(super) fn title_with_unit_mean_and_direction(
    comparison: &Comparison,
    metric: &Metric,
) -> String {
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

/// Table of a metric's means: a row per workload, a column per policy, and the geometric mean below.
pub(super) fn table_of_means(comparison: &Comparison, metric: &Metric) -> Vec<Vec<String>> {
    let header = machine_and_workload_columns(comparison)
        .into_iter()
        .map(str::to_owned);
    let mut table = vec![header.collect::<Vec<String>>()];
    let policies = policies_unlike_earlier(comparison);
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
        let mut line = machine_and_workload_cells(comparison, load);
        line.extend(policies.iter().map(|policy: &&String| {
            let row = rows.iter().find(|r| r.policy == **policy);
            row.map_or_else(String::new, |row| {
                let star = if row.significant { "*" } else { "" };
                let gain = row.gain.map_or_else(String::new, |g| {
                    let [percent] = format_percents([g.percent], Some(g.interval));
                    format!(" ({star}{percent} %{star})")
                });
                format!("{}{gain}", mean_and_deviation_cell(row, &unit))
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
        line.resize(
            machine_and_workload_columns(comparison).len(),
            String::new(),
        );
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

/// Rows for all comparisons, different policies first; and for impossible comparisons the reasons, each once.
pub(super) fn verdict_table_and_reasons(
    comparison: &Comparison,
) -> (Vec<Vec<String>>, Vec<String>) {
    let mut header = vec!["metric"];
    header.extend(machine_and_workload_columns(comparison));
    header.extend([
        "policy",
        "verdict",
        "gain %",
        "interval %",
        "p",
        "effect",
        "runs",
    ]);
    let repeated = policies_equal_to_earlier(comparison);
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
    table.extend(rows.into_iter().map(|row| verdict_cells(comparison, row)));
    (table, reasons_rows_cannot_be_compared(&without))
}

/// The cells of a comparison's row.
pub(super) fn verdict_cells(comparison: &Comparison, row: &Row) -> Vec<String> {
    let gain = row.gain.as_ref();
    let [change, interval, effect] = [
        gain.map(|g| format_percents([g.percent], Some(g.interval)).concat()),
        gain.map(|g| format_percents(g.interval, Some(g.interval)).join(" to ")),
        gain.and_then(|g| g.effect)
            .map(format_effect_size_up_to_100),
    ]
    .map(Option::unwrap_or_default);
    let mut line = vec![row.metric.clone()];
    line.extend(machine_and_workload_cells(comparison, &row.load));
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

/// Reasons why rows cannot be compared, each once.
pub(super) fn reasons_rows_cannot_be_compared(rows: &[&Row]) -> Vec<String> {
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

/// An effect size; beyond 100 standard deviations runs hardly vary, so no number is printed.
pub(super) fn format_effect_size_up_to_100(value: f64) -> String {
    if value.abs() <= 100.0 {
        format_signed(value, 1)
    } else {
        format!("{}100", if value < 0.0 { "<-" } else { ">+" })
    }
}
