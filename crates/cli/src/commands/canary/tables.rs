//! Plans and judgements of the canary as sentences, tables, CSV and JSON.

use wakepath_watch::canary::{
    AnalysisOutcome, CanaryVerdict, Judgement, MachineChange, PlannedRollOut, RollOutPlan,
};

use crate::messages::note;
use crate::output::{self, Format, Screen, count_with_noun};

/// Most machines in the table for people.
const MOST_MACHINES: usize = 20;

pub(super) fn print_plan(
    out: &mut Screen,
    format: Format,
    plan: &RollOutPlan,
) -> anyhow::Result<()> {
    let header = [
        "days",
        "change",
        "leave alone",
        "harm found %",
        "false alarms %",
        "spread %",
    ];
    let rows = plan.roll_outs.iter().map(plan_cells);
    match format {
        Format::Json => output::write_json(out, plan),
        Format::Csv => output::write_csv(out, header, rows),
        Format::Table => {
            let text = format!(
                "To find {} worse by {} % with {:.0} % power, by {} of {} machines:",
                plan.metric,
                format_percent(plan.harm_percent),
                plan.power * 100.0,
                count_with_noun(plan.hours.unsigned_abs(), "hour"),
                plan.machines_in_history
            );
            out.write_folded(&text, 2)?;
            writeln!(out)?;
            output::write_table(out, header, rows)?;
            writeln!(out)?;
            out.write_folded(&recommend_roll_out(plan), 2)?;
            for text in &plan.notes {
                note!("{text}");
            }
            Ok(())
        }
    }
}

fn plan_cells(row: &PlannedRollOut) -> [String; 6] {
    [
        row.days.to_string(),
        count_or_dash(row.changed),
        count_or_dash(row.left_alone),
        share_as_percent(row.found),
        share_as_percent(row.false_alarms),
        format_percent(row.spread_percent),
    ]
}

fn count_or_dash(count: Option<usize>) -> String {
    count.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn share_as_percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |part| format_percent(part * 100.0))
}

/// The shortest roll-out that finds the harm, in a sentence.
fn recommend_roll_out(plan: &RollOutPlan) -> String {
    let first = plan
        .roll_outs
        .iter()
        .find_map(|row| Some((row.days, row.changed?)));
    match first {
        Some((days, changed)) => format!(
            "Shortest: change {changed} of {} machines, chosen at random, and judge them for {}. Both shares are of {} trials.",
            plan.machines,
            count_with_noun(u64::from(days), "day"),
            plan.trials
        ),
        None => format!(
            "No number of these {} machines finds it: ask for more harm, or give a longer history.",
            plan.machines
        ),
    }
}

pub(super) fn print_judgement(
    out: &mut Screen,
    format: Format,
    judgement: &Judgement,
) -> anyhow::Result<()> {
    match format {
        Format::Json => output::write_json(out, judgement),
        Format::Csv => {
            let header = [
                "hours",
                "changed",
                "left_alone",
                "change_percent",
                "low_percent",
                "high_percent",
                "p_value",
                "harm_alpha",
                "verdict",
            ];
            output::write_csv(
                out,
                header,
                judgement.analyses.iter().map(analysis_csv_cells),
            )
        }
        Format::Table => print_judgement_for_people(out, judgement),
    }
}

fn print_judgement_for_people(out: &mut Screen, judgement: &Judgement) -> anyhow::Result<()> {
    out.write_folded(&verdict_in_words(judgement), 2)?;
    if !judgement.silent.is_empty() {
        let silent = count_with_noun(judgement.silent.len() as u64, "changed machine");
        let text = format!(
            "Look first at {silent} without values since the change or soon after: {}.",
            judgement.silent.join(", ")
        );
        out.write_folded(&text, 2)?;
    }
    writeln!(out)?;
    if judgement.analyses.is_empty() {
        writeln!(out, "No analysis is due yet.")?;
    } else {
        let header = [
            "after",
            "changed",
            "left alone",
            "change %",
            "low %",
            "high %",
            "p",
            "shown at",
            "verdict",
        ];
        let rows = judgement.analyses.iter().map(analysis_cells);
        output::write_table(out, header, rows)?;
    }
    write_machines(out, judgement)?;
    for uncounted in &judgement.uncounted {
        note!("{} does not count: {}", uncounted.machine, uncounted.why);
    }
    for text in &judgement.notes {
        note!("{text}");
    }
    Ok(())
}

/// The verdict, why, and what comes next.
fn verdict_in_words(judgement: &Judgement) -> String {
    let metric = &judgement.metric;
    let tolerated = format_percent(judgement.tolerated_percent);
    let decisive = judgement
        .analyses
        .iter()
        .find(|analysis| analysis.verdict.is_some());
    let figures = decisive.map(change_in_words).unwrap_or_default();
    match (judgement.verdict, judgement.next_analysis_hours) {
        (CanaryVerdict::GoOn, _) => {
            format!("Go on: {metric} changed {figures}; harm of {tolerated} % or more is excluded.")
        }
        (CanaryVerdict::TakeBack, _) => {
            let doubt = decisive
                .filter(|analysis| holds_no_change(analysis))
                .map_or("", |_| {
                    " by the likely values. The interval holds 0, because it also counts that buckets do not say where their requests lie"
                });
            format!("Take back: {metric} changed {figures}, which is harm and no chance{doubt}.")
        }
        (CanaryVerdict::Stop, Some(next)) => format!(
            "Stop here for now: neither harm nor its absence is shown. The next analysis is due {} after the change.",
            format_hours(next)
        ),
        (CanaryVerdict::Stop, None) => format!(
            "Stop: neither harm nor its absence is shown, and the last analysis is over. `wakepath canary plan` says how many \
             machines would show {tolerated} %."
        ),
    }
}

/// Whether the interval of an analysis holds 0 %. An end that is not known is far off.
fn holds_no_change(analysis: &AnalysisOutcome) -> bool {
    analysis.low_percent.is_none_or(|low| low <= 0.0)
        && analysis.high_percent.is_none_or(|high| high >= 0.0)
}

fn change_in_words(analysis: &AnalysisOutcome) -> String {
    let change = (analysis.change_percent).map_or_else(
        || "by an unknown amount".to_owned(),
        |percent| format!("by {} %", signed_percent(Some(percent), "")),
    );
    let interval = interval_in_words(analysis.low_percent, analysis.high_percent);
    format!("{change}{interval} after {}", format_hours(analysis.hours))
}

/// An interval in percent behind a change; empty if both ends are unknown.
fn interval_in_words(low: Option<f64>, high: Option<f64>) -> String {
    let [low, high] = [low, high].map(|end| end.map(|percent| signed_percent(Some(percent), "")));
    match (low, high) {
        (Some(low), Some(high)) => format!(" ({low} to {high} %)"),
        (Some(low), None) => format!(" (at least {low} %; there is no upper end)"),
        (None, Some(high)) => format!(" (at most {high} %; there is no lower end)"),
        (None, None) => String::new(),
    }
}

fn analysis_cells(analysis: &AnalysisOutcome) -> [String; 9] {
    [
        format_hours(analysis.hours),
        analysis.changed.to_string(),
        analysis.left_alone.to_string(),
        signed_percent(analysis.change_percent, "-"),
        signed_percent(analysis.low_percent, "-"),
        signed_percent(analysis.high_percent, "-"),
        analysis
            .p_value
            .map_or_else(|| "-".to_owned(), format_p_value),
        format!("{:.4}", analysis.harm_alpha),
        analysis.verdict.map_or("", name_of_verdict).to_owned(),
    ]
}

fn analysis_csv_cells(analysis: &AnalysisOutcome) -> [String; 9] {
    [
        analysis.hours.to_string(),
        analysis.changed.to_string(),
        analysis.left_alone.to_string(),
        number_or_empty(analysis.change_percent),
        number_or_empty(analysis.low_percent),
        number_or_empty(analysis.high_percent),
        number_or_empty(analysis.p_value),
        analysis.harm_alpha.to_string(),
        analysis.verdict.map_or("", name_of_verdict).to_owned(),
    ]
}

fn number_or_empty(value: Option<f64>) -> String {
    value.map_or_else(String::new, |number| number.to_string())
}

/// A change in % with a sign, or what stands for an unknown change.
fn signed_percent(value: Option<f64>, unknown: &str) -> String {
    value.map_or_else(|| unknown.to_owned(), |percent| format!("{percent:+.1}"))
}

const fn name_of_verdict(verdict: CanaryVerdict) -> &'static str {
    match verdict {
        CanaryVerdict::GoOn => "go on",
        CanaryVerdict::Stop => "stop",
        CanaryVerdict::TakeBack => "take back",
    }
}

/// Writes the changed machines, the worst first.
fn write_machines(out: &mut Screen, judgement: &Judgement) -> anyhow::Result<()> {
    let mut changed: Vec<&MachineChange> = judgement
        .machines
        .iter()
        .filter(|machine| machine.changed)
        .collect();
    if changed.is_empty() {
        return Ok(());
    }
    changed.sort_by(|a, b| (b.after / b.before).total_cmp(&(a.after / a.before)));
    writeln!(out)?;
    writeln!(out, "Changed machines at the last analysis:")?;
    let unit = if judgement.unit.is_empty() {
        String::new()
    } else {
        format!(", {}", judgement.unit)
    };
    let header = [
        "machine".to_owned(),
        format!("before{unit}"),
        format!("after{unit}"),
        "change %".to_owned(),
        "hours".to_owned(),
    ];
    let rows = changed.iter().take(MOST_MACHINES).map(|machine| {
        [
            machine.machine.clone(),
            format!("{:.1}", machine.before),
            format!("{:.1}", machine.after),
            format!("{:+.1}", 100.0 * (machine.after / machine.before - 1.0)),
            machine.hours.to_string(),
        ]
    });
    output::write_table(out, header, rows)?;
    if changed.len() > MOST_MACHINES {
        writeln!(out, "and {} more", changed.len() - MOST_MACHINES)?;
    }
    Ok(())
}

fn format_p_value(p: f64) -> String {
    if p < 0.0001 {
        "< 0.0001".to_owned()
    } else {
        format!("{p:.4}")
    }
}

fn format_hours(hours: u32) -> String {
    if hours < 24 {
        count_with_noun(u64::from(hours), "hour")
    } else {
        count_with_noun(u64::from(hours / 24), "day")
    }
}

fn format_percent(percent: f64) -> String {
    let text = format!("{percent:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A judgement after a day with this interval, to take the change back.
    fn harm_with_interval(low_percent: f64, high_percent: f64) -> Judgement {
        Judgement {
            metric: "p99_us".to_owned(),
            unit: "us".to_owned(),
            verdict: CanaryVerdict::TakeBack,
            decided_at_hours: Some(24),
            hours: 24,
            next_analysis_hours: None,
            analyses: vec![AnalysisOutcome {
                hours: 24,
                changed: 4,
                left_alone: 4,
                change_percent: Some(2.7),
                low_percent: Some(low_percent),
                high_percent: Some(high_percent),
                p_value: Some(0.0001),
                harm_alpha: 0.02,
                verdict: Some(CanaryVerdict::TakeBack),
            }],
            machines: Vec::new(),
            uncounted: Vec::new(),
            silent: Vec::new(),
            tolerated_percent: 5.0,
            alpha: 0.05,
            notes: Vec::new(),
        }
    }

    #[test]
    fn harm_whose_interval_holds_0_says_why() {
        assert_eq!(
            verdict_in_words(&harm_with_interval(-3.5, 11.8)),
            "Take back: p99_us changed by +2.7 % (-3.5 to +11.8 %) after 1 day, which is harm and no chance by the likely values. The \
             interval holds 0, because it also counts that buckets do not say where their requests lie."
        );
        assert_eq!(
            verdict_in_words(&harm_with_interval(1.5, 3.8)),
            "Take back: p99_us changed by +2.7 % (+1.5 to +3.8 %) after 1 day, which is harm and no chance."
        );
    }

    #[test]
    fn an_interval_without_an_end_says_so() {
        assert_eq!(
            interval_in_words(Some(17.3), Some(21.0)),
            " (+17.3 to +21.0 %)"
        );
        let [low, high] = [Some(17.3), Some(-2.0)];
        assert_eq!(
            interval_in_words(low, None),
            " (at least +17.3 %; there is no upper end)"
        );
        assert_eq!(
            interval_in_words(None, high),
            " (at most -2.0 %; there is no lower end)"
        );
        assert_eq!(interval_in_words(None, None), "");
    }
}
