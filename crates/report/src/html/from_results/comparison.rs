//! Every metric of every policy beside the baseline's.

use std::collections::BTreeMap;

use wakepath_compare::{Gain, GainError, Verdict, gain, holm, warnings};
use wakepath_results::{Better, Design, Metric, ResultsError};

use super::super::view::{self, Row, Tone, View};
use super::{Place, rows, unplaced};

/// Values by workload, metric and policy, each with its repeat and its place in the session.
pub(super) type Series = BTreeMap<(usize, String, usize), Vec<Value>>;

/// What a run gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) repeat: u32,
    pub(super) order: u32,
    pub(super) number: f64,
}

/// The seed of the resampling: the same results give the same page.
const SEED: u64 = 1;

/// Fills in the metrics and the comparison, and gives all values.
pub(super) fn add(view: &mut View, places: &[Place<'_>]) -> Result<Series, ResultsError> {
    let mut series = Series::new();
    for place in places {
        let mut lost = 0;
        for row in rows(view, "comparison", place.reader.metrics())? {
            match place.of(&row.workload, &row.policy) {
                Some((workload, policy)) => {
                    let value = Value {
                        repeat: row.repeat,
                        order: row.order,
                        number: row.value,
                    };
                    series
                        .entry((workload, row.metric, policy))
                        .or_default()
                        .push(value);
                }
                None => lost += 1,
            }
        }
        unplaced(view, "metrics.parquet", lost);
    }
    for values in series.values_mut() {
        values.sort_by_key(|v| v.repeat);
    }
    let metrics = shown(places, &series);
    view.metrics = metrics.iter().map(described).collect();
    let Some(baseline) = view.policies.iter().position(|p| p.baseline) else {
        return Ok(series);
    };
    let mut pending = Vec::new();
    for workload in 0..view.workloads.len() {
        for (index, metric) in metrics.iter().enumerate() {
            let of = |policy: usize| series.get(&(workload, metric.name.to_string(), policy));
            for policy in 0..view.policies.len() {
                let Some(values) = of(policy) else { continue };
                let base = of(baseline).filter(|_| policy != baseline);
                let same_result = places
                    .iter()
                    .find(|p| p.policies.values().any(|i| *i == policy))
                    .filter(|p| p.policies.values().any(|i| *i == baseline));
                let design = same_result.map_or(Design::Unpaired, |p| p.reader.document().design);
                let level = places[0].reader.document().level;
                let compared = base.map(|base| compare(metric, base, values, design, level));
                pending.push((row(workload, index, policy, metric, values), compared));
            }
        }
    }
    let mut corrected = corrected(&pending);
    let document = places[0].reader.document();
    let (level, margin) = (document.level, document.margin_percent);
    for (mut row, compared) in pending {
        match compared {
            Some(Ok(gain)) => {
                let p = corrected
                    .get_mut(&row.metric)
                    .and_then(Iterator::next)
                    .unwrap_or(1.0);
                judge(
                    &mut row,
                    &gain,
                    &Verdict::of(&gain, p, level, margin),
                    p <= 1.0 - level,
                );
            }
            Some(Err(reason)) => row.verdict = format!("cannot tell: {reason}"),
            None if row.policy != baseline => {
                row.verdict = "cannot tell: the baseline has no such figure".into();
            }
            None => {}
        }
        view.rows.push(row);
    }
    Ok(series)
}

/// P-values in the order of the rows, corrected for all comparisons of the same metric: a question asks about one. Over all
/// metrics together, the smallest p-value that so many resamples can give would not be significant in a study of any size.
fn corrected(
    pending: &[(Row, Option<Result<Gain, GainError>>)],
) -> BTreeMap<usize, std::vec::IntoIter<f64>> {
    let mut by_metric: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (row, gain) in pending {
        if let Some(Ok(gain)) = gain {
            by_metric.entry(row.metric).or_default().push(gain.p_value);
        }
    }
    let corrected = by_metric.into_iter();
    corrected
        .map(|(metric, p)| (metric, holm(&p).into_iter()))
        .collect()
}

fn described(metric: &Metric) -> view::Metric {
    view::Metric {
        name: metric.name.to_string(),
        title: metric.title.to_string(),
        unit: metric.unit.to_string(),
        meaning: metric.meaning.to_string(),
        higher_is_better: metric.better == Better::Higher,
    }
}

/// The metrics that are worth a row: headlines, and what is asked for; of those that any run has.
fn shown(places: &[Place<'_>], series: &Series) -> Vec<Metric> {
    let mut shown: Vec<Metric> = Vec::new();
    let has = |name: &str| series.keys().any(|(_, metric, _)| metric == name);
    for place in places {
        let document = place.reader.document();
        let asked = |name: &str| document.questions.iter().any(|q| q.metric == name);
        let dictionary = document.metrics.iter().chain(wakepath_results::METRICS);
        for metric in dictionary {
            let wanted = metric.headline || asked(&metric.name) || metric.name == "p999_us";
            if wanted && has(&metric.name) && !shown.iter().any(|m| m.name == metric.name) {
                shown.push(metric.clone());
            }
        }
    }
    shown
}

fn row(workload: usize, metric: usize, policy: usize, about: &Metric, values: &[Value]) -> Row {
    let mut in_order = values.to_vec();
    in_order.sort_by_key(|v| v.order);
    let numbers: Vec<f64> = in_order.iter().map(|v| v.number).collect();
    let count = numbers.len() as f64;
    let arithmetic = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|v| (v - arithmetic).powi(2)).sum();
    Row {
        workload,
        metric,
        policy,
        mean: mean(about, &numbers),
        deviation_percent: (numbers.len() > 1)
            .then(|| 100.0 * (squares / (count - 1.0)).sqrt() / arithmetic.abs())
            .filter(|d| d.is_finite()),
        runs: numbers.len(),
        warnings: warnings(&numbers).iter().map(ToString::to_string).collect(),
        ..Row::default()
    }
}

/// The metric's own mean; that of amounts is the arithmetic one also where a value is 0.
fn mean(about: &Metric, values: &[f64]) -> f64 {
    let special = about.mean.of(values);
    if special.is_finite() || values.is_empty() {
        special
    } else {
        values.iter().sum::<f64>() / values.len() as f64
    }
}

fn compare(
    metric: &Metric,
    baseline: &[Value],
    values: &[Value],
    design: Design,
    level: f64,
) -> Result<Gain, GainError> {
    let [mut a, mut b]: [Vec<f64>; 2] =
        [baseline, values].map(|v| v.iter().map(|v| v.number).collect());
    if design == Design::Paired {
        // An interrupted study has repeats of one policy that the other does not have yet.
        let pairs = baseline.iter().filter_map(|x| {
            let y = values.iter().find(|y| y.repeat == x.repeat)?;
            Some((x.number, y.number))
        });
        (a, b) = pairs.unzip();
    }
    gain(metric, &a, &b, design, level, SEED)
}

fn judge(row: &mut Row, gain: &Gain, verdict: &Verdict, significant: bool) {
    row.verdict = verdict.to_string();
    row.tone = match verdict {
        Verdict::Better { .. } => Tone::Better,
        Verdict::Worse { .. } => Tone::Worse,
        Verdict::NoDifference { .. } => Tone::Same,
        Verdict::CannotTell { .. } => Tone::Open,
    };
    row.gain = Some(view::Gain {
        percent: gain.percent,
        interval: Some(gain.interval),
        effect: Some(gain.effect),
        significant,
    });
}
