//! Judging a roll-out: difference in differences over machines, at planned times.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::Serialize;

use super::CanaryError;
use super::harm::{CanaryVerdict, GroupHarm, decide_by_harm};
use super::metric::CanaryMetric;
use super::schedule::{InterimAnalysis, plan_analyses};
use super::series::{FleetSeries, MachineSeries, MetricChange, Uncounted, UnixHour};

/// Fewest machines in each group.
pub const FEWEST_MACHINES: usize = 2;

/// Fewest hours before the change: a day, so that each hour has a counterpart.
const FEWEST_HOURS_BEFORE: i64 = 24;

/// A machine without values for so many hours, while others have values, is silent.
const SILENT_HOURS: i64 = 3;

/// A change of some machines, with the limits for a verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct RollOut {
    /// Names of the changed machines; all others were left alone.
    pub changed: BTreeSet<String>,
    /// When the machines were changed, in seconds since 1970.
    pub since_s: i64,
    /// Days until the last analysis.
    pub days: u32,
    /// Harm that is tolerated, as a share: 0.05 for 5 %.
    pub tolerated: f64,
    /// Probability of taking back a harmless change, and of going on with harm beyond the tolerated.
    pub alpha: f64,
}

/// A machine's change over the last analysis.
#[derive(Clone, Debug, Serialize)]
pub struct MachineChange {
    /// The machine.
    pub machine: String,
    /// Whether the machine was changed.
    pub changed: bool,
    /// The metric before.
    pub before: f64,
    /// The metric after.
    pub after: f64,
    /// Number of hours after the change.
    pub hours: usize,
}

/// A machine without a part in an analysis.
#[derive(Clone, Debug, Serialize)]
pub struct UncountedMachine {
    /// The machine.
    pub machine: String,
    /// Whether the machine was changed.
    pub changed: bool,
    /// Why.
    pub why: &'static str,
}

/// The outcome of an analysis.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AnalysisOutcome {
    /// Hours since the change.
    pub hours: u32,
    /// Number of changed machines.
    pub changed: usize,
    /// Number of machines left alone.
    pub left_alone: usize,
    /// Change of the metric against machines left alone, in %. `None` with too few machines.
    pub change_percent: Option<f64>,
    /// Lower end of the change in %, at the analysis' error rate.
    pub low_percent: Option<f64>,
    /// Upper end of the change in %.
    pub high_percent: Option<f64>,
    /// Probability of such harm by chance; harm is shown at `harm_alpha` or less.
    pub p_value: Option<f64>,
    /// The analysis' share of the error rate.
    pub harm_alpha: f64,
    /// The analysis' decision; `None`: undecided.
    pub verdict: Option<CanaryVerdict>,
}

/// The judgement on a roll-out.
#[derive(Clone, Debug, Serialize)]
pub struct Judgement {
    /// Name of the metric.
    pub metric: String,
    /// Unit of the metric.
    pub unit: String,
    /// What to do.
    pub verdict: CanaryVerdict,
    /// Hours since the change at the analysis that decided; `None`: undecided.
    pub decided_at_hours: Option<u32>,
    /// Whole hours since the change. An hour is whole once most of the machines left alone have a later value.
    pub hours: u32,
    /// Hours since the change at which the next analysis is due; `None` after the last.
    pub next_analysis_hours: Option<u32>,
    /// The analyses so far.
    pub analyses: Vec<AnalysisOutcome>,
    /// The machines of the last analysis.
    pub machines: Vec<MachineChange>,
    /// Machines that did not count in the last analysis.
    pub uncounted: Vec<UncountedMachine>,
    /// Changed machines without values since some hours, while others have values.
    pub silent: Vec<String>,
    /// Tolerated harm in %.
    pub tolerated_percent: f64,
    /// Error rate for either wrong verdict.
    pub alpha: f64,
    /// What a reader should know about the input.
    pub notes: Vec<String>,
}

/// Changes of all machines over a span after the change.
struct MachineChanges {
    changes: Vec<(String, MetricChange)>,
    uncounted: Vec<(String, Uncounted)>,
}

/// Judges a roll-out by what was measured so far. Only the planned analyses decide, so looking more often changes nothing,
/// and the first decision stays.
///
/// # Errors
/// Unknown machines, too few of them, or too little time before the change.
pub fn judge_roll_out(
    series: &FleetSeries,
    roll_out: &RollOut,
    metric: &CanaryMetric,
) -> Result<Judgement, CanaryError> {
    check_groups(series, roll_out)?;
    let (first, _) = series
        .first_and_last_hour()
        .ok_or_else(|| CanaryError::Machines("no machine has any value".to_owned()))?;
    let until = UnixHour::containing_second(roll_out.since_s);
    let since = UnixHour::beginning_after_second(roll_out.since_s);
    if until.0 - first.0 < FEWEST_HOURS_BEFORE {
        return Err(CanaryError::History(format!(
            "{} hours before the change; 24 are needed, so that each hour of the day has its counterpart",
            (until.0 - first.0).max(0)
        )));
    }
    let last = find_present_hour(series, roll_out, until)?;
    // The last hour may still be going on.
    let hours = u32::try_from(last.0 - since.0).unwrap_or(0);
    let planned = plan_analyses(roll_out.days, roll_out.alpha);
    let mut analyses = Vec::new();
    let mut latest = None;
    for analysis in planned.iter().filter(|analysis| analysis.hours <= hours) {
        let span = since..since.plus_hours(i64::from(analysis.hours));
        let measured = measure_all_machines(series, metric, first..until, span);
        analyses.push(analyse_changes(&measured, roll_out, metric, analysis));
        latest = Some(measured);
    }
    let decisive = analyses
        .iter()
        .find_map(|outcome| Some((outcome.hours, outcome.verdict?)));
    let measured = latest.unwrap_or_else(|| MachineChanges {
        changes: Vec::new(),
        uncounted: Vec::new(),
    });
    let wide_buckets = note_wide_buckets(&measured.changes, metric, roll_out.tolerated);
    Ok(Judgement {
        metric: metric.name().to_owned(),
        unit: metric.unit().to_owned(),
        verdict: decisive.map_or(CanaryVerdict::Stop, |(_, verdict)| verdict),
        decided_at_hours: decisive.map(|(decided_at, _)| decided_at),
        hours,
        next_analysis_hours: planned
            .iter()
            .map(|analysis| analysis.hours)
            .find(|due| *due > hours),
        analyses,
        machines: measured
            .changes
            .into_iter()
            .map(|(machine, change)| MachineChange {
                changed: roll_out.changed.contains(&machine),
                machine,
                before: change.before,
                after: change.after,
                hours: change.hours,
            })
            .collect(),
        uncounted: measured
            .uncounted
            .into_iter()
            .map(|(machine, why)| UncountedMachine {
                changed: roll_out.changed.contains(&machine),
                machine,
                why: why.in_words(),
            })
            .collect(),
        silent: find_silent_machines(series, roll_out, since, last),
        tolerated_percent: roll_out.tolerated * 100.0,
        alpha: roll_out.alpha,
        notes: [
            series.notes.clone(),
            note_times_beside_the_present(series, since, last),
            wide_buckets.into_iter().collect(),
        ]
        .concat(),
    })
}

/// The last hour that most of the machines left alone have reached. Changed machines are no clock, since the change may have
/// silenced all of them; machines that had ended a day before the change are none, either.
fn find_present_hour(
    series: &FleetSeries,
    roll_out: &RollOut,
    until: UnixHour,
) -> Result<UnixHour, CanaryError> {
    let day_before = until.plus_hours(-FEWEST_HOURS_BEFORE);
    let clocks = series.machines.iter().filter(|(name, machine)| {
        let span = machine.first_and_last_hour();
        !roll_out.changed.contains(*name) && span.is_some_and(|(_, last)| last >= day_before)
    });
    series
        .last_hour_of_most(clocks.map(|(name, _)| name))
        .ok_or_else(|| {
            CanaryError::History(
                "no machine left alone has values in the day before the change, or later; is --since right?".to_owned(),
            )
        })
}

/// Notes of machines whose values are later than the present, and of a change that is later.
fn note_times_beside_the_present(
    series: &FleetSeries,
    since: UnixHour,
    present: UnixHour,
) -> Vec<String> {
    let mut notes = Vec::new();
    if present < since {
        notes.push(format!(
            "the values end {} hours before the change; is --since right?",
            since.0 - present.0
        ));
    }
    for (name, machine) in &series.machines {
        let Some((_, last)) = machine.first_and_last_hour() else {
            continue;
        };
        let ahead = last.0 - present.0;
        if ahead > SILENT_HOURS {
            notes.push(format!(
                "{name} has values {ahead} hours later than most machines left alone: its clock is ahead, or they are silent; \
                 hours later than theirs do not count"
            ));
        }
    }
    notes
}

fn check_groups(series: &FleetSeries, roll_out: &RollOut) -> Result<(), CanaryError> {
    let unknown = roll_out
        .changed
        .iter()
        .find(|name| !series.machines.contains_key(*name));
    if let Some(name) = unknown {
        return Err(CanaryError::Machines(format!(
            "{name}: no such machine in the input"
        )));
    }
    let left_alone = series.machines.len() - roll_out.changed.len();
    for (group, machines) in [
        ("changed", roll_out.changed.len()),
        ("left alone", left_alone),
    ] {
        if machines < FEWEST_MACHINES {
            return Err(CanaryError::Machines(format!(
                "{machines} machines {group}; at least {FEWEST_MACHINES} are needed, since machines differ"
            )));
        }
    }
    Ok(())
}

fn measure_all_machines(
    series: &FleetSeries,
    metric: &CanaryMetric,
    before: Range<UnixHour>,
    after: Range<UnixHour>,
) -> MachineChanges {
    let mut measured = MachineChanges {
        changes: Vec::new(),
        uncounted: Vec::new(),
    };
    for (name, machine) in &series.machines {
        match machine.measure_change(metric, before.clone(), after.clone()) {
            Ok(change) => measured.changes.push((name.clone(), change)),
            Err(why) => measured.uncounted.push((name.clone(), why)),
        }
    }
    let most = measured
        .changes
        .iter()
        .map(|(_, change)| change.hours)
        .max();
    let enough = most.unwrap_or(0).div_ceil(2);
    measured.changes.retain(|(name, change)| {
        let is_enough = change.hours >= enough;
        if !is_enough {
            measured.uncounted.push((name.clone(), Uncounted::Gaps));
        }
        is_enough
    });
    measured
}

fn analyse_changes(
    measured: &MachineChanges,
    roll_out: &RollOut,
    metric: &CanaryMetric,
    analysis: &InterimAnalysis,
) -> AnalysisOutcome {
    let sign = metric.harm_sign();
    let (mut changed, mut left_alone) = (GroupHarm::default(), GroupHarm::default());
    for (name, change) in &measured.changes {
        let group = if roll_out.changed.contains(name) {
            &mut changed
        } else {
            &mut left_alone
        };
        group.add_machine(sign, change);
    }
    let mut decision = decide_by_harm(&changed, &left_alone, roll_out.tolerated, analysis);
    let has_unbounded_change = measured
        .uncounted
        .iter()
        .any(|(name, why)| *why == Uncounted::BeyondBuckets && roll_out.changed.contains(name));
    if has_unbounded_change && decision.verdict == Some(CanaryVerdict::GoOn) {
        // The others cannot speak for a machine whose latency may be any.
        decision.verdict = None;
    }
    let harm = decision.difference;
    let [least_harm, most_harm] = decision.bounds;
    let (low, high) = if sign > 0.0 {
        (least_harm, most_harm)
    } else {
        (most_harm, least_harm)
    };
    AnalysisOutcome {
        hours: analysis.hours,
        changed: changed.machines(),
        left_alone: left_alone.machines(),
        change_percent: harm.map(|harm| change_in_percent(sign, harm.value())),
        low_percent: low.map(|low| change_in_percent(sign, low)),
        high_percent: high.map(|high| change_in_percent(sign, high)),
        p_value: harm.map(|harm| harm.p_value_of_increase()),
        harm_alpha: analysis.harm_alpha,
        verdict: decision.verdict,
    }
}

/// The change of a metric in %, by the logarithm of its harm.
fn change_in_percent(sign: f64, log_harm: f64) -> f64 {
    ((sign * log_harm).exp() - 1.0) * 100.0
}

/// Notes that a percentile lies in buckets wider than the tolerated harm, so that little may be known of its change.
fn note_wide_buckets(
    changes: &[(String, MetricChange)],
    metric: &CanaryMetric,
    tolerated: f64,
) -> Option<String> {
    let wide: Vec<[f64; 2]> = changes
        .iter()
        .filter_map(|(_, change)| change.bucket)
        .filter(|[low, high]| *high > low * (1.0 + tolerated))
        .collect();
    let [low, high] = wide
        .iter()
        .copied()
        .max_by(|a, b| (a[1] - a[0]).total_cmp(&(b[1] - b[0])))?;
    Some(format!(
        "{} of {} machines lies in buckets wider than the tolerated {} %, such as {low} to {high} us. The change is \
         right only if requests thin out steadily there; more bounds of buckets would tell",
        metric.name(),
        wide.len(),
        tolerated * 100.0
    ))
}

/// Changed machines without values since some hours, while others have values.
fn find_silent_machines(
    series: &FleetSeries,
    roll_out: &RollOut,
    since: UnixHour,
    last: UnixHour,
) -> Vec<String> {
    let mut silent = Vec::new();
    for name in &roll_out.changed {
        let machine = series.machines.get(name);
        let span = machine.and_then(MachineSeries::first_and_last_hour);
        let ended = span.map_or(since, |(_, end)| end);
        if last.0 - ended.0 > SILENT_HOURS {
            silent.push(name.clone());
        }
    }
    silent
}
