//! Finds runs that did less than their workload asks for.

use std::collections::BTreeMap;

use wakepath_results::{Mean, MetricRow, RequestedRate};

use crate::gain::interval_of_mean;
use crate::results::Source;

/// Percentage from which a requested rate counts as reached: fio's own jobs end a little early or
/// late.
const REACHED: f64 = 98.0;

/// Change within a run, in percent, up to which the run counts as settled.
const SETTLED: f64 = 2.0;

/// Confidence level for saying that runs still drift.
const DRIFT_LEVEL: f64 = 0.95;

/// Most policies that a sentence on shortfalls names.
const NAMED: usize = 3;

/// Finds workloads that do not reach a requested rate, still drift, or were cut short, each in a
/// sentence, among machines and workloads that `is_compared`. Results carry the given names; in a result called "" only the
/// workload is named.
pub fn describe_shortfalls(
    sources: &[(&str, &Source)],
    is_compared: impl Fn(&str, &str) -> bool,
) -> Vec<String> {
    let mut sentences = Vec::new();
    for (name, source) in sources {
        let reached = rows_with_metric(source, "rate_reached");
        let cut = rows_with_metric(source, "cut_after_s");
        let drift = rows_with_metric(source, "drift_percent");
        for (machine, workload) in source.document.planned_machine_workload_pairs() {
            if !is_compared(&machine.name, &workload.name) {
                continue;
            }
            let on = match source.document.machines.len() {
                1 => String::new(),
                _ => format!(" on {}", machine.name),
            };
            let who = match *name {
                "" => format!("workload `{}`{on}", workload.name),
                name => format!("{name}: workload `{}`{on}", workload.name),
            };
            let is_own =
                |row: &MetricRow| row.machine == machine.name && row.workload == workload.name;
            let shares_by_policy = values_by_policy(&reached, is_own);
            let policies = source.document.policies.iter();
            let shares: Vec<(String, f64)> = policies
                .filter_map(|policy| {
                    let values = shares_by_policy.get(policy.name.as_str())?;
                    Some((policy.name.clone(), Mean::Arithmetic.average(values)))
                })
                .collect();
            sentences.extend(describe_missed_rate(&who, &workload.rates, &shares));
            let drifting: Vec<(String, f64)> = values_by_policy(&drift, is_own)
                .into_iter()
                .filter_map(|(policy, changes)| {
                    Some((policy.to_owned(), mean_change_if_significant(&changes)?))
                })
                .collect();
            sentences.extend(describe_drift(&who, &drifting, "`warm_up_s` of the study"));
            if let Some(row) = cut.iter().find(|row| is_own(row)) {
                sentences.push(format!(
                    "{who} was cut after {} s with more to do: `runtime` in the job or `seconds` of the workload sets \
                     another time",
                    row.value
                ));
            }
        }
    }
    sentences
}

fn rows_with_metric<'a>(source: &'a Source, metric: &str) -> Vec<&'a MetricRow> {
    let rows = source.rows.iter();
    rows.filter(|row| row.metric == metric).collect()
}

/// Values of the selected rows, by policy.
fn values_by_policy<'a>(
    rows: &[&'a MetricRow],
    select: impl Fn(&MetricRow) -> bool,
) -> BTreeMap<&'a str, Vec<f64>> {
    let mut values: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in rows.iter().filter(|row| select(row)) {
        values.entry(&row.policy).or_default().push(row.value);
    }
    values
}

/// Mean of the changes within runs, in percent, if it is not 0 by chance and large enough to
/// matter. `None` for fewer than 4 runs.
pub fn mean_change_if_significant(percent: &[f64]) -> Option<f64> {
    // The shift makes all changes positive, because an interval around amounts ends at 0.
    let lowest = percent.iter().copied().fold(f64::INFINITY, f64::min);
    let shift = lowest.min(0.0) - 1.0;
    let shifted: Vec<f64> = percent.iter().map(|p| p - shift).collect();
    let [low, high] = interval_of_mean(Mean::Arithmetic, &shifted, DRIFT_LEVEL)?;
    let mean = Mean::Arithmetic.average(percent);
    let apart = low + shift > 0.0 || high + shift < 0.0;
    (apart && mean.abs() > SETTLED).then_some(mean)
}

/// Sentence on runs that had not settled; `None` if all had. `drifting` has the change of mean
/// latency under each policy with a steady change; `option` makes the warm-up longer.
pub fn describe_drift(who: &str, drifting: &[(String, f64)], option: &str) -> Option<String> {
    let farthest = drifting
        .iter()
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let (policy, percent) = farthest;
    let than = if *percent < 0.0 { "shorter" } else { "longer" };
    let others = match drifting.len() - 1 {
        0 => String::new(),
        1 => " and one other policy".to_owned(),
        others => format!(" and {others} other policies"),
    };
    Some(format!(
        "{who} still drifts: mean latency of the second half is {:.0} % {than} than of the first under {policy}{others}; \
         {option} makes the warm-up longer",
        percent.abs()
    ))
}

/// Sentence on requested rates that runs missed; `None` if all were reached. `reached` has the
/// percentage under each policy.
pub fn describe_missed_rate(
    who: &str,
    rates: &[RequestedRate],
    reached: &[(String, f64)],
) -> Option<String> {
    let mut missed: Vec<&(String, f64)> = reached.iter().filter(|(_, p)| *p < REACHED).collect();
    missed.sort_by(|a, b| a.1.total_cmp(&b.1));
    let [(_, least), ..] = missed[..] else {
        return None;
    };
    let most = missed.last().map_or(least, |(_, most)| most);
    let under = if missed.len() <= NAMED {
        let each = missed.iter().map(|(policy, percent)| {
            format!("{} under {policy}", format_share_of_rates(rates, *percent))
        });
        each.collect::<Vec<_>>().join(", ")
    } else {
        let (from, to) = (
            format_share_of_rates(rates, *least),
            format_share_of_rates(rates, *most),
        );
        let range = if from == to {
            from
        } else {
            format!("{from} to {to}")
        };
        format!(
            "{range} under {} of {} policies",
            missed.len(),
            reached.len()
        )
    };
    if let [only] = rates {
        let asked = format_rate(only, only.per_second);
        return Some(format!(
            "{who} does not reach the {asked} per second that it asks for: {under}"
        ));
    }
    let asked = rates.iter().map(|rate| {
        let what = match rate.unit.as_str() {
            "bytes" => format!(
                "{} of {}s",
                format_rate(rate, rate.per_second),
                rate.direction
            ),
            _ => format!("{:.0} {}s", rate.per_second, rate.direction),
        };
        format!("{what} per second in job `{}`", rate.job)
    });
    let asked: Vec<String> = asked.collect();
    Some(format!(
        "{who} does not reach all rates that it asks for ({}), and the slowest is at {under}",
        asked.join(", ")
    ))
}

/// Percentage of the requested rates in words: as an amount if there is only one rate.
fn format_share_of_rates(rates: &[RequestedRate], percent: f64) -> String {
    match rates {
        [only] => format_rate(only, only.per_second * percent / 100.0),
        _ => format!("{percent:.0} %"),
    }
}

/// Amount per second in the unit of a requested rate, in words.
fn format_rate(rate: &RequestedRate, per_second: f64) -> String {
    if rate.unit == "bytes" {
        format!("{:.1} MB", per_second / 1e6)
    } else {
        let count = format!("{per_second:.0}");
        let unit = match count.as_str() {
            "1" => rate.unit.strip_suffix('s').unwrap_or(&rate.unit),
            _ => &rate.unit,
        };
        format!("{count} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(job: &str, per_second: f64, unit: &str) -> RequestedRate {
        RequestedRate {
            job: job.to_owned(),
            direction: "read".to_owned(),
            per_second,
            unit: unit.to_owned(),
            poisson: false,
        }
    }

    fn said(rates: &[RequestedRate], reached: &[(&str, f64)]) -> String {
        let reached: Vec<(String, f64)> =
            reached.iter().map(|(n, p)| ((*n).to_owned(), *p)).collect();
        describe_missed_rate("workload `w`", rates, &reached).unwrap_or_default()
    }

    #[test]
    fn a_rate_that_is_not_reached_is_told_with_what_was_done() {
        let one = [rate("r", 200_000.0, "I/Os")];
        assert_eq!(said(&one, &[("a", 98.0), ("b", 100.0)]), "");
        assert_eq!(said(&one, &[]), "");
        assert_eq!(
            said(&one, &[("a", 44.4), ("b", 99.0), ("c", 40.0)]),
            "workload `w` does not reach the 200000 I/Os per second that it asks for: 80000 I/Os under c, 88800 I/Os \
             under a"
        );
        let slow = [rate("r", 1.0, "I/Os")];
        assert_eq!(
            said(&slow, &[("a", 60.0)]),
            "workload `w` does not reach the 1 I/O per second that it asks for: 1 I/O under a"
        );
        let bytes = [rate("r", 1e8, "bytes")];
        assert_eq!(
            said(&bytes, &[("a", 50.0)]),
            "workload `w` does not reach the 100.0 MB per second that it asks for: 50.0 MB under a"
        );
    }

    #[test]
    fn many_rates_and_many_policies_are_summed_up() {
        let two = [rate("r", 2000.0, "I/Os"), rate("s", 1e6, "bytes")];
        let many: Vec<(&str, f64)> = vec![
            ("a", 40.0),
            ("b", 50.0),
            ("c", 60.0),
            ("d", 70.0),
            ("e", 99.0),
        ];
        assert_eq!(
            said(&two, &many),
            "workload `w` does not reach all rates that it asks for (2000 reads per second in job `r`, 1.0 MB of reads \
             per second in job `s`), and the slowest is at 40 % to 70 % under 4 of 5 policies"
        );
    }
}
