//! A compared metric as bars and histograms below its table, on a terminal.

use wakepath_compare::results::{Comparison, Row};
use wakepath_compare::{Metric, Verdict};
use wakepath_units::printable;

use super::cells::mean_cell;
use crate::bars::{Canvas, Hue, count_values_on_linear_scale};
use crate::output::Screen;

/// Width of each histogram and bar, in columns.
const HISTOGRAM: usize = 24;
const BAR: usize = 20;

/// Most columns for a policy's name beside its bar.
const NAME: usize = 32;

/// Draws the mean of each policy, and its runs on a scale from the lowest to the highest of the workload. Histograms are
/// left out where the terminal is too narrow for them, and everything where not even bars fit.
pub(super) fn draw_means_and_runs(
    out: &mut Screen,
    canvas: Canvas,
    comparison: &Comparison,
    metric: &Metric,
) -> anyhow::Result<()> {
    let unit = comparison.unit_for_metric(metric);
    let rows: Vec<&Row> = comparison
        .rows
        .iter()
        .filter(|row| row.metric == metric.name)
        .collect();
    let names = widest_text_length(
        rows.iter()
            .map(|row| escape_and_shorten_policy_name(&row.policy)),
    );
    let means = widest_text_length(rows.iter().map(|row| mean_cell(row, &unit)));
    let narrow = names + BAR + means + 4;
    if narrow > canvas.width {
        return Ok(());
    }
    let with_histogram = narrow + HISTOGRAM + 2 <= canvas.width;
    for load in &comparison.loads {
        let drawn: Vec<&Row> = rows.iter().copied().filter(|r| r.load == *load).collect();
        if drawn.is_empty() {
            continue;
        }
        let most = drawn.iter().map(|r| r.mean).fold(0.0, f64::max);
        let values = drawn.iter().flat_map(|r| &r.values).copied();
        let [from, to] = values.fold([f64::INFINITY, f64::NEG_INFINITY], |[from, to], value| {
            [value.min(from), value.max(to)]
        });
        let scale = if with_histogram {
            format!(
                ", and the runs from {} to {}",
                unit.format_figure(from, None),
                unit.format_figure(to, None)
            )
        } else {
            String::new()
        };
        writeln!(out, "\n  {load}: mean{scale}")?;
        for row in drawn {
            let bar = canvas.draw_bar_for_share(row.mean / most.max(f64::MIN_POSITIVE), BAR);
            let padding = " ".repeat(BAR - bar.chars().count());
            let line = format!(
                "  {:<names$} {}{padding} {:>means$}",
                escape_and_shorten_policy_name(&row.policy),
                canvas.paint(&bar, hue_for_verdict(row)),
                mean_cell(row, &unit)
            );
            if with_histogram {
                let runs = count_values_on_linear_scale(&row.values, [from, to], HISTOGRAM);
                out.write_line_unescaped(&format!(
                    "{line}  {}",
                    canvas.draw_histogram_line(&runs).trim_end()
                ));
            } else {
                out.write_line_unescaped(&line);
            }
        }
    }
    Ok(())
}

/// Number of columns that the widest text needs.
fn widest_text_length(texts: impl Iterator<Item = String>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

/// Colours say the same as the stars in the table.
fn hue_for_verdict(row: &Row) -> Hue {
    match row.verdict {
        Some(Verdict::Better { .. }) => Hue::Good,
        Some(Verdict::Worse { .. }) => Hue::Bad,
        _ => Hue::Plain,
    }
}

fn escape_and_shorten_policy_name(policy: &str) -> String {
    let policy = &printable::escape_for_one_line(policy);
    if policy.chars().count() <= NAME {
        return policy.to_string();
    }
    let mut cut: String = policy.chars().take(NAME - 2).collect();
    cut.push_str("..");
    cut
}
