//! Outliers of a class: machines with rare settings and facts, or with figures far from the class's median.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::facts::MachineFacts;

/// Fewest machines in a class with outliers.
const FEWEST_MACHINES: usize = 5;

/// Largest share of a class with a rare value.
const RARE_SHARE: f64 = 0.02;

/// Largest count of a rare value in a class of any size.
const RARE_COUNT: usize = 1;

/// Least share of machines with the common values of a fact.
const COMMON_SHARE: f64 = 0.8;

/// Most common values of a fact: old and new value during a roll-out.
const COMMON_VALUES: usize = 2;

/// A figure stands out beyond so many robust standard deviations. In a fleet of thousands with some tens of figures, chance
/// reaches 6.
const FAR_DEVIATIONS: f64 = 8.0;

/// Least difference of an outlying figure, as a share of the class's median.
const FAR_SHARE: f64 = 0.25;

/// Least difference of an outlying share, such as time in a state.
const FAR_ABSOLUTE_SHARE: f64 = 0.05;

/// Standard deviation over median absolute deviation, for normal distributions.
const DEVIATIONS_PER_MAD: f64 = 1.4826;

/// A difference from the class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Deviation {
    /// Name of the fact, the figure, or the doctor's finding.
    pub what: String,
    /// The machine's value.
    pub value: String,
    /// The class's usual value.
    pub usual: String,
}

/// A fact with several common values in a class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DividedFact {
    /// Name of the fact.
    pub what: String,
    /// Values with machine counts, the most frequent first.
    pub values: Vec<(String, usize)>,
}

/// How the machines of a class differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClassDifferences {
    /// Deviations by machine, in order.
    pub(crate) deviations: Vec<Vec<Deviation>>,
    /// Facts with several common values.
    pub(crate) divided: Vec<DividedFact>,
}

/// Finds how the machines of a class differ.
pub(crate) fn compare_machines(machines: &[&MachineFacts]) -> ClassDifferences {
    let mut differences = ClassDifferences {
        deviations: vec![Vec::new(); machines.len()],
        divided: Vec::new(),
    };
    if machines.len() < FEWEST_MACHINES {
        return differences;
    }
    let names = machines.iter().flat_map(|machine| machine.facts.keys());
    let mut fact_names: Vec<&String> = names.collect();
    fact_names.sort();
    fact_names.dedup();
    for name in fact_names {
        compare_fact(machines, name, &mut differences);
    }
    let figures = machines.iter().flat_map(|machine| machine.figures.keys());
    let mut figure_names: Vec<&String> = figures.collect();
    figure_names.sort();
    figure_names.dedup();
    for name in figure_names {
        compare_figure(machines, name, &mut differences);
    }
    differences
}

/// The text for a missing fact.
const MISSING: &str = "(none)";

fn compare_fact(machines: &[&MachineFacts], name: &str, differences: &mut ClassDifferences) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for machine in machines {
        *counts.entry(value_or_missing(machine, name)).or_default() += 1;
    }
    let mut by_count: Vec<(String, usize)> = counts.into_iter().collect();
    by_count.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    if by_count.len() < 2 {
        return;
    }
    let all = machines.len();
    let rare = f64::max(RARE_COUNT as f64, (RARE_SHARE * all as f64).floor());
    // A fact that most machines have for themselves, such as a command line with a name, tells nothing.
    let is_own_of_each = by_count.len() * 2 > all;
    if let Some(common) = find_common_values(&by_count, rare, all) {
        let shares: Vec<String> = common
            .iter()
            .map(|(value, count)| format!("{value} ({count} of {all})"))
            .collect();
        let usual = shares.join(", ");
        for (place, machine) in machines.iter().enumerate() {
            let value = value_or_missing(machine, name);
            let count = by_count.iter().find(|(known, _)| *known == value);
            if count.is_some_and(|(_, count)| *count as f64 <= rare) {
                differences.deviations[place].push(Deviation {
                    what: name.to_owned(),
                    value,
                    usual: usual.clone(),
                });
            }
        }
    }
    let frequent: Vec<(String, usize)> = by_count
        .into_iter()
        .filter(|(_, count)| *count as f64 > rare)
        .collect();
    if frequent.len() > 1 && !is_own_of_each {
        differences.divided.push(DividedFact {
            what: name.to_owned(),
            values: frequent,
        });
    }
}

/// Fewest values with most machines, without rare values; `None`: values are spread more widely.
fn find_common_values(
    by_count: &[(String, usize)],
    rare: f64,
    all: usize,
) -> Option<&[(String, usize)]> {
    let most = COMMON_VALUES.min(by_count.len());
    let common = (1..=most).map(|number| &by_count[..number]).find(|values| {
        let machines: usize = values.iter().map(|(_, count)| count).sum();
        machines as f64 >= COMMON_SHARE * all as f64
    });
    common.filter(|values| values.iter().all(|(_, count)| *count as f64 > rare))
}

fn value_or_missing(machine: &MachineFacts, fact: &str) -> String {
    let value = machine.facts.get(fact);
    value.map_or(MISSING, String::as_str).to_owned()
}

fn compare_figure(machines: &[&MachineFacts], name: &str, differences: &mut ClassDifferences) {
    let mut known: Vec<f64> = machines
        .iter()
        .filter_map(|machine| machine.figures.get(name).copied())
        .collect();
    let Some(middle) = median(&mut known).filter(|_| known.len() >= FEWEST_MACHINES) else {
        return;
    };
    let mut distances: Vec<f64> = known.iter().map(|value| (value - middle).abs()).collect();
    let spread = DEVIATIONS_PER_MAD * median(&mut distances).unwrap_or(0.0);
    let is_share = name.starts_with("share of");
    let least = if is_share { FAR_ABSOLUTE_SHARE } else { 0.0 };
    let limit = (FAR_DEVIATIONS * spread)
        .max(FAR_SHARE * middle.abs())
        .max(least);
    for (place, machine) in machines.iter().enumerate() {
        let Some(value) = machine.figures.get(name) else {
            continue;
        };
        if (value - middle).abs() > limit {
            differences.deviations[place].push(Deviation {
                what: name.to_owned(),
                value: format_figure(*value, is_share),
                usual: format!("{} (median)", format_figure(middle, is_share)),
            });
        }
    }
}

fn format_figure(value: f64, is_share: bool) -> String {
    if is_share {
        format!("{:.1} %", 100.0 * value)
    } else {
        format!("{value:.1}")
    }
}

/// The median; the values are sorted afterwards.
fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, upper))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::ClassKey;

    fn machine(facts: &[(&str, &str)], figures: &[(&str, f64)]) -> MachineFacts {
        MachineFacts {
            key: ClassKey {
                processor: "x".to_owned(),
                drives: Vec::new(),
                kernel: "6.12".to_owned(),
                labels: Vec::new(),
            },
            facts: facts
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            figures: figures
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            digest: [0; 32],
        }
    }

    fn compare(machines: &[MachineFacts]) -> ClassDifferences {
        compare_machines(&machines.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_rare_setting_stands_out_and_a_divided_one_does_not() {
        let mut machines = vec![machine(&[("epp", "balance")], &[]); 100];
        machines[7] = machine(&[("epp", "performance")], &[]);
        machines[8] = machine(&[], &[]);
        let differences = compare(&machines);
        let standing_out: Vec<usize> = (0..100)
            .filter(|place| !differences.deviations[*place].is_empty())
            .collect();
        assert_eq!(standing_out, [7, 8]);
        assert_eq!(
            differences.deviations[7],
            [Deviation {
                what: "epp".to_owned(),
                value: "performance".to_owned(),
                usual: "balance (98 of 100)".to_owned(),
            }]
        );
        for machine in machines.iter_mut().take(40) {
            machine.facts.insert("epp".to_owned(), "power".to_owned());
        }
        let divided = compare(&machines);
        assert_eq!(
            divided.divided[0].values,
            [("balance".to_owned(), 60), ("power".to_owned(), 40)]
        );
    }

    #[test]
    fn a_third_value_stands_out_beside_two_common_ones() {
        let mut machines = vec![machine(&[("epp", "balance")], &[]); 100];
        for machine in machines.iter_mut().take(30) {
            machine.facts.insert("epp".to_owned(), "power".to_owned());
        }
        machines[99] = machine(&[("epp", "default")], &[]);
        let differences = compare(&machines);
        assert_eq!(
            differences.deviations[99],
            [Deviation {
                what: "epp".to_owned(),
                value: "default".to_owned(),
                usual: "balance (69 of 100), power (30 of 100)".to_owned(),
            }]
        );
        assert_eq!(differences.deviations.iter().flatten().count(), 1);
        // Three values with a third of the machines each: none is what machines of the class usually have.
        for machine in machines.iter_mut().skip(30).take(33) {
            let value = "performance".to_owned();
            machine.facts.insert("epp".to_owned(), value);
        }
        assert!(compare(&machines).deviations.iter().all(Vec::is_empty));
    }

    #[test]
    fn a_far_figure_stands_out_and_a_wide_spread_does_not() {
        let mut machines: Vec<MachineFacts> = (0..50)
            .map(|place| machine(&[], &[("mean us per read", 90.0 + f64::from(place) / 5.0)]))
            .collect();
        machines[3] = machine(&[], &[("mean us per read", 300.0)]);
        let differences = compare(&machines);
        assert_eq!(differences.deviations[3][0].value, "300.0");
        assert_eq!(differences.deviations.iter().flatten().count(), 1);
    }

    #[test]
    fn few_machines_have_no_outlier() {
        let machines = [
            machine(&[("epp", "a")], &[]),
            machine(&[("epp", "a")], &[]),
            machine(&[("epp", "b")], &[]),
        ];
        assert!(compare(&machines).deviations.iter().all(Vec::is_empty));
    }
}
