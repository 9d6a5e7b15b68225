//! Compares all policies in results with their baselines.

use rayon::prelude::*;
use wakepath_results::{Mean, Metric, RunOrigin};

use super::baselines::find_baselines;
use super::comparison::{CORRECTION, Comparison, Family, Row, Summary};
use super::error::CompareError;
use super::selection::{CompareOptions, distinct_names};
use super::series::{Reference, SeriesKey, SeriesTable};
use super::source::{Load, Source};
use crate::assumed_power::assumes_power;
use crate::correction::correct_by_benjamini_hochberg;
use crate::differences::describe_differences;
use crate::gain::Gain;
use crate::power_scope::{PowerCounts, describe_mixed_scopes_of_machines, is_scoped_power_metric};
use crate::shortfalls::describe_shortfalls;
use crate::verdict::Verdict;

/// Compares all policies of all results with a baseline. Each machine has its own baseline, unless
/// the options name one. Runs are paired where they were made in pairs: within a simulation by
/// seed, within a measurement by block. Policies of different sources are never paired. With
/// several sources a policy is called by its source and its own name.
///
/// # Errors
/// Nothing to compare, unknown names, a metric in several units.
pub fn compare_results(
    sources: &[Source],
    options: &CompareOptions,
) -> Result<Comparison, CompareError> {
    let first = sources.first().ok_or(CompareError::Nothing)?;
    let mut metrics = options.metrics_to_compare(sources)?;
    options.check_selected_names(sources)?;
    let table = SeriesTable::collect_series(sources, options, &metrics);
    if table.series.is_empty() {
        return Err(CompareError::Nothing);
    }
    let baselines = find_baselines(sources, options.baseline.as_deref(), &table.policies)?;
    let power_counts = PowerCounts::from_sources(sources);
    let level = options.level.unwrap_or(first.document.level);
    let margin = first.document.margin_percent;
    let mut rows = make_rows(&table, &metrics, &baselines, &power_counts, level);
    let families = add_verdicts(&mut rows, &metrics, level, margin);
    let order = policy_indices_by_baseline(&baselines);
    let policies: Vec<String> = order.iter().map(|p| table.policies[*p].clone()).collect();
    sort_rows(&mut rows, &metrics, &table, &policies);
    metrics.retain(|m| rows.iter().any(|r| r.metric == m.name));
    let machines = table.loads.iter().map(|l| &l.machine);
    let machines = distinct_names(machines.filter(|machine| !machine.is_empty()));
    let mut notes = collect_notes(sources, &table.loads);
    let is_scoped = metrics
        .iter()
        .any(|metric| is_scoped_power_metric(&metric.name));
    notes.extend(describe_mixed_scopes_of_machines(sources, &machines).filter(|_| is_scoped));
    Ok(Comparison {
        baseline: policies.first().cloned().unwrap_or_default(),
        correction: CORRECTION,
        families,
        level,
        margin_percent: margin,
        summaries: summaries_without_mixed_power(sources, &metrics, &policies, &rows),
        policies,
        machines,
        workloads: distinct_names(table.loads.iter().map(|l| &l.workload)),
        loads: table.loads,
        metrics,
        rows,
        notes,
        assumes_power: sources.iter().any(models_assumed_power),
        power_counts,
    })
}

/// Makes a row for each series, with its gain but without a verdict.
fn make_rows(
    table: &SeriesTable,
    metrics: &[Metric],
    baselines: &[usize],
    power_counts: &PowerCounts,
    level: f64,
) -> Vec<Row> {
    table
        .series
        .par_iter()
        .map(|(key, series)| {
            let metric = &metrics[key.metric];
            let reference = find_comparison_partner(table, *key, metric, baselines, power_counts);
            let load = &table.loads[key.load];
            series.make_row(
                metric,
                (load, &table.policies[key.policy]),
                reference,
                level,
            )
        })
        .collect()
}

/// Finds what a series is compared with: its baseline's runs, or the reason why not.
fn find_comparison_partner<'a>(
    table: &'a SeriesTable,
    key: SeriesKey,
    metric: &Metric,
    baselines: &[usize],
    power_counts: &PowerCounts,
) -> Reference<'a> {
    let baseline = baselines[key.policy];
    if key.policy == baseline {
        return Reference::Itself;
    }
    let name = &table.policies[baseline];
    let machine = table.loads[key.load].machine.as_str();
    let pair = [name, &table.policies[key.policy]].map(|policy| (policy.as_str(), machine));
    if is_scoped_power_metric(&metric.name)
        && power_counts
            .describe_mixed_scopes(pair.into_iter())
            .is_some()
    {
        return Reference::OtherScope(name);
    }
    let baseline_key = SeriesKey {
        policy: baseline,
        ..key
    };
    match table.series.get(&baseline_key) {
        Some(series) => Reference::Baseline(name, series),
        None => Reference::Missing(name),
    }
}

/// Adds verdicts to the rows, with p-values corrected metric by metric.
fn add_verdicts(rows: &mut [Row], metrics: &[Metric], level: f64, margin: f64) -> Vec<Family> {
    let families = metrics.iter().map(|metric| Family {
        metric: metric.name.to_string(),
        comparisons: add_verdicts_in_family(
            rows.iter_mut().filter(|r| r.metric == metric.name),
            metric.better,
            (level, margin),
        ),
    });
    families.collect()
}

/// Corrects the p-values of one metric's rows together, adds the verdicts, and counts the
/// comparisons.
fn add_verdicts_in_family<'a>(
    rows: impl Iterator<Item = &'a mut Row>,
    better: wakepath_results::Better,
    (level, margin): (f64, f64),
) -> usize {
    let mut compared: Vec<(&mut Row, Gain)> = rows
        .filter_map(|row| row.gain.map(|gain| (row, gain)))
        .collect();
    let p_values: Vec<f64> = compared.iter().map(|(_, gain)| gain.p_value).collect();
    for ((row, gain), corrected_p) in compared
        .iter_mut()
        .zip(correct_by_benjamini_hochberg(&p_values))
    {
        let verdict = Verdict::from_gain(gain, corrected_p, level, margin);
        row.corrected_p = Some(corrected_p);
        row.significant = verdict.names_winner();
        let judged = verdict.in_direction_of(better);
        row.sentence = judged.to_string();
        row.verdict = Some(judged);
    }
    compared.len()
}

/// Order of the policies by index: each baseline first, followed by the policies compared with it,
/// otherwise as in the studies.
fn policy_indices_by_baseline(baselines: &[usize]) -> Vec<usize> {
    let first_use = |baseline: usize| baselines.iter().position(|b| *b == baseline);
    let mut order: Vec<usize> = (0..baselines.len()).collect();
    order.sort_by_key(|p| (first_use(baselines[*p]), baselines[*p] != *p, *p));
    order
}

/// Sorts the comparison's rows by metric, load and policy.
fn sort_rows(rows: &mut [Row], metrics: &[Metric], table: &SeriesTable, policies: &[String]) {
    rows.sort_by_cached_key(|row| {
        (
            metrics.iter().position(|m| m.name == row.metric),
            table.loads.iter().position(|l| *l == row.load),
            policies.iter().position(|p| *p == row.policy),
        )
    });
}

/// Whether a source's power is modelled with figures that the machine's file marks as assumed.
fn models_assumed_power(source: &Source) -> bool {
    let modelled = matches!(source.document.backend, RunOrigin::Sim | RunOrigin::Replay);
    modelled
        && source.document.machines.iter().any(|machine| {
            let file = source.files.get(&machine.source);
            file.is_none_or(|text| assumes_power(text))
        })
}

/// Summaries over workloads, except for power that counts different things on different machines.
fn summaries_without_mixed_power(
    sources: &[Source],
    metrics: &[Metric],
    policies: &[String],
    rows: &[Row],
) -> Vec<Summary> {
    let whole: Vec<&Row> = rows
        .iter()
        .filter(|row| !is_subset_of_requests(sources, &row.load.workload))
        .collect();
    let mut summaries = summarise_over_workloads(metrics, policies, &whole);
    summaries.retain(|summary| {
        let summarised = rows
            .iter()
            .filter(|row| row.metric == summary.metric && row.policy == summary.policy);
        let machines = distinct_names(summarised.map(|row| &row.load.machine));
        !is_scoped_power_metric(&summary.metric)
            || describe_mixed_scopes_of_machines(sources, &machines).is_none()
    });
    summaries
}

/// Whether a workload is a subset of another workload's requests, and adds nothing to a mean over workloads.
fn is_subset_of_requests(sources: &[Source], workload: &str) -> bool {
    let mut known = sources.iter().flat_map(|source| &source.document.workloads);
    known.any(|known| known.name == workload && known.subset.is_some())
}

/// Gain of each policy in each metric as the geometric mean over workloads.
fn summarise_over_workloads(
    metrics: &[Metric],
    policies: &[String],
    rows: &[&Row],
) -> Vec<Summary> {
    let mut summaries = Vec::new();
    for metric in metrics {
        let metric_rows: Vec<&Row> = rows
            .iter()
            .copied()
            .filter(|r| r.metric == metric.name)
            .collect();
        for policy in policies {
            let policy_rows = metric_rows.iter().filter(|r| r.policy == *policy);
            let ratios: Vec<f64> = policy_rows
                .filter_map(|r| r.gain.map(|g| g.means[1] / g.means[0]))
                // A ratio of 0 to 0 is left out.
                .filter(|ratio| ratio.is_finite())
                .collect();
            if ratios.len() < 2 {
                continue;
            }
            let change = (Mean::Geometric.average(&ratios) - 1.0) * 100.0;
            summaries.push(Summary {
                metric: metric.name.to_string(),
                policy: policy.clone(),
                workloads: ratios.len(),
                percent: metric.better.gain_sign() * change,
            });
        }
    }
    summaries
}

/// Whether a workload on a machine is among the loads; results of one machine do not name it in loads.
fn includes_load(loads: &[Load], machine: &str, workload: &str) -> bool {
    let mut of_workload = loads.iter().filter(|load| load.workload == workload);
    of_workload.any(|load| load.machine.is_empty() || load.machine == machine)
}

/// Collects the sources' own notes, their differences, and notes on runs of these loads that fell short.
fn collect_notes(sources: &[Source], loads: &[Load]) -> Vec<String> {
    let mut notes = Vec::new();
    for source in sources {
        if !source.document.complete {
            notes.push(format!(
                "{}: the study was interrupted; only its finished runs are compared",
                source.name
            ));
        }
        let own_notes = source.document.notes.iter();
        notes.extend(own_notes.map(|note| format!("{}: {note}", source.name)));
    }
    let named: Vec<(&str, &Source)> = sources.iter().map(|s| (s.name.as_str(), s)).collect();
    notes.extend(describe_differences(&named));
    let warnings = describe_shortfalls(&named, |machine, workload| {
        includes_load(loads, machine, workload)
    });
    notes.extend(warnings.into_iter().map(|w| format!("warning: {w}")));
    notes
}
