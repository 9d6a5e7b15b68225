//! Workloads that differ only in the rate of their requests, for curves over the load.

use std::collections::BTreeMap;

use wakepath_compare::results::Load;
use wakepath_results::WorkloadInfo;

use super::super::view::{LoadSeries, View};
use super::place::PlacedResult;

/// Adds a series for each workload that a study runs with a list of rates, such as `rate_iops = [1000, 2000]`.
pub(super) fn add_series_over_requested_rates(view: &mut View, places: &[PlacedResult<'_>]) {
    let mut found: BTreeMap<(String, String), Vec<(f64, usize)>> = BTreeMap::new();
    for place in places {
        let document = place.reader.document();
        for (machine, workload) in document.planned_machine_workload_pairs() {
            let key = (machine.name.as_str(), workload.name.as_str());
            let index = place.workloads.get(&key).copied();
            let rate = sum_of_requested_rates(workload).filter(|_| workload.subset.is_none());
            let name = workload_name_without_rates(&workload.name);
            if let (Some(index), Some((rate, unit)), Some(name)) = (index, rate, name) {
                let series = Load::new(document, &machine.name, &name).to_string();
                let points = found.entry((series, unit.to_owned())).or_default();
                if !points.iter().any(|(_, known)| *known == index) {
                    points.push((rate, index));
                }
            }
        }
    }
    for ((name, unit), mut points) in found {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.len() > 1 {
            view.load_series.push(LoadSeries { name, unit, points });
        }
    }
}

/// The rate that all jobs of a workload ask for together, with its unit; `None` without a rate or with rates in both units.
fn sum_of_requested_rates(workload: &WorkloadInfo) -> Option<(f64, &str)> {
    let unit = &workload.rates.first()?.unit;
    if workload.rates.iter().any(|rate| rate.unit != *unit) {
        return None;
    }
    let each = workload.rates.iter().map(|rate| rate.per_second);
    Some((each.sum(), unit))
}

/// The name without the parts that name a rate; `None` if no part does. A study calls the workloads of a list
/// `reads/rate_iops=1000` and so on.
fn workload_name_without_rates(name: &str) -> Option<String> {
    let parts = name.split('/');
    let others: Vec<&str> = parts.filter(|part| !is_rate_option(part)).collect();
    let shorter = others.join("/");
    (shorter.len() < name.len() && !shorter.is_empty()).then_some(shorter)
}

fn is_rate_option(part: &str) -> bool {
    let option = part.split_once('=').map(|(option, _)| option);
    matches!(option, Some("rate" | "rate_iops"))
}

#[cfg(test)]
mod tests {
    use wakepath_results::document::RequestedRate;

    use super::*;

    #[test]
    fn only_the_rate_leaves_a_name() {
        for (name, base) in [
            ("reads/rate_iops=1000", Some("reads")),
            ("reads/iodepth=4/rate=1m", Some("reads/iodepth=4")),
            ("reads", None),
            ("rate=1m", None),
        ] {
            assert_eq!(workload_name_without_rates(name).as_deref(), base, "{name}");
        }
    }

    #[test]
    fn rates_of_one_unit_add_up() {
        let rate = |per_second, unit: &str| RequestedRate {
            job: "a".into(),
            direction: "read".into(),
            per_second,
            unit: unit.into(),
            poisson: false,
        };
        let workload = |rates| WorkloadInfo {
            rates,
            ..WorkloadInfo::default()
        };
        let both = workload(vec![rate(100.0, "I/Os"), rate(50.0, "I/Os")]);
        assert_eq!(sum_of_requested_rates(&both), Some((150.0, "I/Os")));
        let mixed = workload(vec![rate(100.0, "I/Os"), rate(50.0, "bytes")]);
        assert_eq!(sum_of_requested_rates(&mixed), None);
        assert_eq!(sum_of_requested_rates(&workload(vec![])), None);
    }
}
