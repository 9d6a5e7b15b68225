//! Each governor's cost, with intervals over time blocks, and verdicts on differences.

use serde::Serialize;
use wakepath_compare::figure::{Unit, doubt_about_mean, format_percents};
use wakepath_compare::results::{CompareOptions, Row, Source, compare_results};
use wakepath_compare::{Mean, Metric, interval_of_mean, standard_deviation};
use wakepath_replay::{FEWEST_SPANS, Report};
use wakepath_study::plan::Plan;
use wakepath_study::run::RunControl;
use wakepath_study::run::parts;
use wakepath_study::run::replay::Replay;

use crate::output::{self, Screen};

/// All figures of a replay, with intervals.
#[derive(Debug, Serialize)]
pub(super) struct ReplayIntervals {
    /// Number of time blocks, which are equally long.
    blocks: usize,
    /// Length of each time block, in s.
    block_s: f64,
    /// Intervals' confidence level.
    level: f64,
    /// Governor that the others are compared with.
    baseline: String,
    /// Figures ordered by metric, then governor.
    rows: Vec<GovernorFigure>,
}

/// A governor's metric.
#[derive(Debug, Serialize)]
struct GovernorFigure {
    metric: String,
    governor: String,
    unit: String,
    #[serde(skip)]
    title: String,
    /// Over the blocks.
    mean: f64,
    /// Interval of the mean; `None` with fewer than 4 blocks.
    interval: Option<[f64; 2]>,
    #[serde(skip)]
    deviation: Option<f64>,
    /// Gain over the baseline in percent, with its interval.
    gain_percent: Option<f64>,
    gain_interval: Option<[f64; 2]>,
    significant: bool,
    verdict: String,
}

impl ReplayIntervals {
    /// Makes the figures of a replay: the study's results compared as `wakepath compare` does. `by_state` adds the
    /// share of time in each idle state.
    pub(super) fn new(
        plan: &Plan,
        backend: &Replay<'_>,
        report: &Report,
        by_state: bool,
    ) -> anyhow::Result<Self> {
        let reader = parts::run_backend_in_memory(
            plan,
            backend,
            &RunControl::without_reports_or_cancellation(),
        )?;
        let comparison = compare_results(
            &[Source::read_result("", &reader)?],
            &CompareOptions::default(),
        )?;
        let mut rows: Vec<GovernorFigure> = comparison
            .rows
            .iter()
            .map(|row| {
                let metric = comparison.metrics.iter().find(|m| m.name == row.metric);
                GovernorFigure::new(row, metric)
            })
            .collect();
        if report.has_too_few_spans() {
            for row in &mut rows {
                row.withhold_verdict_for_few_spans(report.spans);
            }
        }
        if by_state {
            rows.extend(idle_time_share_figures(report, comparison.level));
        }
        Ok(Self {
            blocks: report.blocks.len(),
            block_s: report
                .blocks
                .first()
                .map_or(0.0, |b| b.duration_ns as f64 / 1e9),
            level: comparison.level,
            rows,
            baseline: comparison.baseline,
        })
    }

    /// Writes the figures as a table below a line of explanation.
    pub(super) fn write_table(&self, out: &mut Screen) -> anyhow::Result<()> {
        writeln!(
            out,
            "{} blocks of {:.3} s, intervals of {} %, compared with {}",
            self.blocks,
            self.block_s,
            self.level * 100.0,
            self.baseline
        )?;
        let reason = self.reason_shared_by_all_rows();
        if let Some(reason) = reason {
            writeln!(out, "No verdict: {reason}.")?;
        }
        // A figure without a verdict has no interval and no gain.
        let shown = if reason.is_some() { 3 } else { 6 };
        let header = [
            "metric", "governor", "mean", "interval", "gain %", "verdict",
        ];
        let rows = self.rows.iter().map(|row| {
            let of_metric = self.rows.iter().filter(|r| r.metric == row.metric);
            let unit = Unit::for_values(&row.unit, of_metric.map(|r| r.mean));
            let gain = row.gain_percent.map(|gain| {
                let [gain] = format_percents([gain], row.gain_interval);
                gain
            });
            let cells = [
                unit.title_with_unit(&row.title),
                row.governor.clone(),
                unit.format_figure(row.mean, doubt_about_mean(row.interval, row.deviation)),
                row.interval.map_or_else(dash_for_no_value, |interval| {
                    unit.format_interval(row.mean, interval)
                }),
                gain.unwrap_or_else(dash_for_no_value),
                row.verdict.clone(),
            ];
            cells.into_iter().take(shown).collect::<Vec<_>>()
        });
        output::write_table(out, &header[..shown], rows)
    }

    /// The reason against any verdict, if all rows share it.
    fn reason_shared_by_all_rows(&self) -> Option<&str> {
        let reason = self.rows.first()?.verdict.as_str();
        (!reason.is_empty()
            && self
                .rows
                .iter()
                .all(|row: &GovernorFigure| row.interval.is_none() && row.verdict == reason))
        .then_some(reason)
    }

    /// As CSV.
    pub(super) fn write_csv(&self, out: &mut Screen) -> anyhow::Result<()> {
        let header = [
            "metric",
            "governor",
            "unit",
            "mean",
            "low",
            "high",
            "gain %",
            "gain low %",
            "gain high %",
            "significant",
            "verdict",
        ];
        let rows = self.rows.iter().map(|row| {
            let [low, high] = interval_ends_or_dashes(row.interval);
            let [gain_low, gain_high] = interval_ends_or_dashes(row.gain_interval);
            [
                row.metric.clone(),
                row.governor.clone(),
                row.unit.clone(),
                row.mean.to_string(),
                low,
                high,
                row.gain_percent
                    .map_or_else(dash_for_no_value, |gain| gain.to_string()),
                gain_low,
                gain_high,
                row.significant.to_string(),
                row.verdict.clone(),
            ]
        });
        output::write_csv(out, header, rows)
    }
}

impl GovernorFigure {
    fn new(row: &Row, metric: Option<&Metric>) -> Self {
        Self {
            metric: row.metric.clone(),
            governor: row.policy.clone(),
            unit: metric.map_or_else(String::new, |m| m.unit.to_string()),
            title: metric.map_or_else(|| row.metric.clone(), |m| m.title.to_string()),
            mean: row.mean,
            interval: row.interval,
            deviation: row.deviation,
            gain_percent: row.gain.map(|gain| gain.percent),
            gain_interval: row.gain.map(|gain| gain.interval),
            significant: row.significant,
            // The comparison's sentences say run where a replay has time blocks.
            verdict: row.sentence.replace(" run", " block"),
        }
    }
}

impl GovernorFigure {
    /// Removes interval, gain and verdict, and says that too few idle spans were recorded.
    fn withhold_verdict_for_few_spans(&mut self, spans: u64) {
        self.interval = None;
        self.gain_percent = None;
        self.gain_interval = None;
        self.significant = false;
        self.verdict =
            format!("too few idle periods: {spans} spans, and {FEWEST_SPANS} are needed");
    }
}

/// Share of CPU time in each idle state, without verdicts: no state is better.
fn idle_time_share_figures(report: &Report, level: f64) -> Vec<GovernorFigure> {
    let names = report
        .policies
        .first()
        .map_or(&[][..], |p| &p.states)
        .iter()
        .map(|state| state.state.as_str());
    let policies = report.policies.iter().enumerate();
    let cells = names.flat_map(|name| policies.clone().map(move |policy| (name, policy)));
    cells
        .map(|(name, (index, policy))| {
            let shares: Vec<f64> = report
                .blocks
                .iter()
                .map(|block| {
                    let groups = block.policies.get(index).map(|policy| &policy.groups);
                    let states = groups.into_iter().flatten().flatten();
                    let time: u64 = states.filter(|s| s.state == name).map(|s| s.time_ns).sum();
                    let whole = block.duration_ns as f64 * report.cpus.len() as f64;
                    100.0 * time as f64 / whole.max(1.0)
                })
                .collect();
            GovernorFigure {
                metric: format!("time_in_{}", name.replace(char::is_whitespace, "_")),
                governor: policy.policy.clone(),
                unit: "%".to_owned(),
                title: format!("time in {name}"),
                mean: Mean::Arithmetic.average(&shares),
                // An idle span counts in its first block, so single blocks may exceed 100 %; a mean never does.
                interval: interval_of_mean(Mean::Arithmetic, &shares, level)
                    .map(|[low, high]| [low, high.min(100.0)]),
                deviation: standard_deviation(&shares),
                gain_percent: None,
                gain_interval: None,
                significant: false,
                verdict: String::new(),
            }
        })
        .collect()
}

fn dash_for_no_value() -> String {
    "-".to_owned()
}

/// Cells for the lower and upper end of an interval; empty without an interval.
fn interval_ends_or_dashes(interval: Option<[f64; 2]>) -> [String; 2] {
    interval.map_or_else(
        || [dash_for_no_value(), dash_for_no_value()],
        |ends| ends.map(|end| end.to_string()),
    )
}
