//! Tiles: answers at a glance, with the policy, its condition, its cost, the next best policy and what is assumed.

use wakepath_compare::figure::{doubt_about_mean, format_percent as format_change, unit_as_suffix};
use wakepath_compare::results::{Candidate, Choice, Compliance, MetricFigure};
use wakepath_results::Condition;

use super::super::number::{format_signed_percent, format_with_decimals_or_four_digits};
use super::super::view::{PagePolicy, PageRow, Tile, TileEntry, View};
use super::comparison::Compared;

/// Most workloads in a tile of an answer that depends on the workload.
const MAX_WORKLOADS: usize = 4;

/// The tile of a question for the best policy; `None` without a candidate.
pub(super) fn tile_for_goal_choice(
    view: &View,
    compared: &Compared,
    choice: &Choice,
) -> Option<Tile> {
    let first = choice.candidates.first()?;
    let mut entries = Vec::new();
    if let (Some(figure), Some(condition)) = (&first.worst, &first.condition) {
        entries.push(entry_for_figure_nearest_to_limit(
            view, compared, first, figure, condition,
        ));
    }
    entries.push(entry_for_goal_metric(view, choice, first));
    let second = choice.candidates.get(1);
    if let Some(next) = second.filter(|next| next.holds == first.holds) {
        entries.push(TileEntry {
            label: "next best".to_owned(),
            value: next.policy.clone(),
            note: format!(
                "{} {}",
                choice.metric.title,
                format_change_percent(percent_change_against(next.value, first.value))
            ),
        });
    }
    let policy = view.policies.iter().find(|p| p.name == first.policy);
    let settings = settings_unless_in_name(policy);
    entries.extend(entry_for_assumed_figures(view, policy));
    if first.holds != Compliance::Fails {
        return Some(Tile {
            headline: first.policy.clone(),
            settings,
            entries,
        });
    }
    let nearest = TileEntry {
        label: "nearest".to_owned(),
        value: first.policy.clone(),
        note: settings,
    };
    entries.insert(0, nearest);
    Some(Tile {
        headline: "Nothing keeps the limit".to_owned(),
        settings: String::new(),
        entries,
    })
}

/// The figure that is nearest to a limit, and by how much the limit is kept or missed.
fn entry_for_figure_nearest_to_limit(
    view: &View,
    compared: &Compared,
    candidate: &Candidate,
    figure: &MetricFigure,
    condition: &Condition,
) -> TileEntry {
    let metric = view.metrics.iter().position(|m| m.name == figure.metric);
    let unit = metric.and_then(|index| compared.page_unit_of_metric(index));
    let (value, limit) = unit.map_or_else(
        || (figure.mean.to_string(), condition.limit.to_string()),
        |unit| {
            let mean = unit.format_figure(figure.mean, doubt_about_mean(figure.interval, None));
            let limit = format_limit(condition.limit * unit.factor);
            let name = unit_as_suffix(&unit.name);
            (format!("{mean}{name}"), format!("{limit}{name}"))
        },
    );
    let title = metric.map_or(figure.metric.as_str(), |index| &view.metrics[index].title);
    let miss = candidate.miss_percent;
    let kept = match candidate.holds {
        Compliance::Surely => format!("kept by {}", format_percent_of_limit(miss)),
        Compliance::Fails => format!("missed by {}", format_percent_of_limit(miss)),
        Compliance::CannotTell if miss > 0.0 => {
            format!(
                "missed by {}, but not surely",
                format_percent_of_limit(miss)
            )
        }
        Compliance::CannotTell => {
            format!("kept by {}, but not surely", format_percent_of_limit(miss))
        }
    };
    let bound = if condition.below {
        "at most"
    } else {
        "at least"
    };
    let place = if view.workloads.len() > 1 {
        format!("; worst on {}", figure.load)
    } else {
        String::new()
    };
    TileEntry {
        label: title.to_owned(),
        value,
        note: format!("limit {bound} {limit}, {kept}{place}"),
    }
}

/// The metric that the question asks for, and how it differs from the baseline's.
fn entry_for_goal_metric(view: &View, choice: &Choice, first: &Candidate) -> TileEntry {
    let unit = choice.unit_for_goal();
    let mut notes = Vec::new();
    if first.figures.len() > 1 {
        notes.push(format!("mean of {} workloads", first.figures.len()));
    }
    let mut baselines = view.policies.iter().filter(|policy| policy.baseline);
    let baseline = baselines.next().filter(|_| baselines.next().is_none());
    let reference = baseline.filter(|policy| policy.name != first.policy);
    let other = reference.and_then(|policy| {
        let mut candidates = choice.candidates.iter();
        candidates.find(|candidate| candidate.policy == policy.name)
    });
    if let Some(other) = other {
        let change = format_change_percent(percent_change_against(first.value, other.value));
        notes.push(format!("{change} against {}", other.policy));
    }
    if view
        .metrics
        .iter()
        .any(|metric| metric.name == choice.metric.name && view.rests_on_assumed_power(metric))
    {
        notes.push("from assumed figures".to_owned());
    }
    TileEntry {
        label: choice.metric.title.to_string(),
        value: format!(
            "{}{}",
            unit.format_figure(first.value, first.doubt),
            unit_as_suffix(&unit.name)
        ),
        note: notes.join("; "),
    }
}

/// The tile of a question for the differences in a metric, if one policy wins. `best` has the winner's rows, `rows` those of
/// all policies.
pub(super) fn tile_for_single_winner(
    view: &View,
    best: &[&PageRow],
    rows: &[&PageRow],
) -> Option<Tile> {
    let first = best.first()?;
    let policy = view.policies.get(first.policy)?;
    let mut entries = vec![TileEntry {
        label: metric_title(view, first.metric),
        value: best_and_worst_gain(best),
        note: match best.len() {
            1 => format!("against {}", view.baseline_name_or_phrase()),
            count => format!(
                "against {}, on {count} workloads",
                view.baseline_name_or_phrase()
            ),
        },
    }];
    entries.extend(entry_for_winner_power(view, best));
    entries.extend(entry_for_next_best(view, best, rows));
    entries.extend(entry_for_assumed_figures(view, Some(policy)));
    Some(Tile {
        headline: policy.name.clone(),
        settings: settings_unless_in_name(Some(policy)),
        entries,
    })
}

/// The tile of a question whose answer depends on the workload: the best policy of each. `best` has a row per workload.
pub(super) fn tile_for_best_of_each_workload(view: &View, best: &[&PageRow]) -> Tile {
    let mut entries: Vec<TileEntry> = best
        .iter()
        .take(MAX_WORKLOADS)
        .map(|row| TileEntry {
            label: workload_name(view, row.workload),
            value: view
                .policies
                .get(row.policy)
                .map_or_else(String::new, |p| p.name.clone()),
            note: format!(
                "{} {} against {}",
                metric_title(view, row.metric),
                best_and_worst_gain(&[row]),
                view.baseline_name_or_phrase()
            ),
        })
        .collect();
    if best.len() > MAX_WORKLOADS {
        entries.push(TileEntry {
            label: "further workloads".to_owned(),
            value: (best.len() - MAX_WORKLOADS).to_string(),
            note: "below in words".to_owned(),
        });
    }
    entries.extend(entry_for_assumed_figures(view, None));
    Tile {
        headline: "Depends on the workload".to_owned(),
        settings: String::new(),
        entries,
    }
}

/// Smallest and largest gain in words, plus being better: `+9.7 to +10.4 %`.
fn best_and_worst_gain(rows: &[&PageRow]) -> String {
    let gains = rows.iter().filter_map(|row| row.gain);
    let low = gains.clone().min_by(|a, b| a.percent.total_cmp(&b.percent));
    let high = gains.max_by(|a, b| a.percent.total_cmp(&b.percent));
    let (Some(low), Some(high)) = (low, high) else {
        return "–".to_owned();
    };
    let [low, high] = [low, high].map(|gain| format_signed_percent(gain.percent, gain.interval));
    if low == high {
        format!("{low} better")
    } else {
        format!("{} to {high} better", low.trim_end_matches(" %"))
    }
}

/// The winner's mean power on the workloads that it wins, against the baseline.
fn entry_for_winner_power(view: &View, best: &[&PageRow]) -> Option<TileEntry> {
    let power = view.metrics.iter().position(|m| m.name == "mean_mw")?;
    if best.first()?.metric == power {
        return None;
    }
    let winner_power = best.iter().filter_map(|won| {
        view.rows
            .iter()
            .find(|row| (row.workload, row.metric, row.policy) == (won.workload, power, won.policy))
    });
    let rows: Vec<&PageRow> = winner_power.collect();
    let [low, high] = rows_with_least_and_most(&rows, |row| row.mean)?;
    let unit = unit_as_suffix(&view.metrics[power].unit);
    let [least, most] =
        [low, high].map(|row| format_with_decimals_or_four_digits(row.mean, row.decimals));
    let value = if least == most {
        format!("{least}{unit}")
    } else {
        format!("{least} to {most}{unit}")
    };
    let changes = rows_with_least_and_most(&rows, PageRow::gain_percent_or_lowest).map(|ends| {
        let [less, more] = ends.map(|row| {
            row.gain.map_or_else(String::new, |gain| {
                power_change_in_words(&format_signed_percent(gain.percent, gain.interval))
            })
        });
        if less == more {
            less
        } else {
            format!("{less} to {more}")
        }
    });
    let mut notes: Vec<String> = changes.into_iter().collect();
    if view.rests_on_assumed_power(&view.metrics[power]) {
        notes.push("from assumed figures".to_owned());
    }
    Some(TileEntry {
        label: metric_title(view, power),
        value,
        note: notes.join("; "),
    })
}

/// A gain in power, of which plus means saved, as the change that it is: `61.7 % more` for `−61.7 %`.
fn power_change_in_words(gain: &str) -> String {
    if let Some(percent) = gain.strip_prefix('−') {
        format!("{percent} more")
    } else if let Some(percent) = gain.strip_prefix('+') {
        format!("{percent} less")
    } else {
        gain.to_owned()
    }
}

/// The rows with the least and the largest value; `None` without rows.
fn rows_with_least_and_most<'a>(
    rows: &[&'a PageRow],
    value: impl Fn(&PageRow) -> f64,
) -> Option<[&'a PageRow; 2]> {
    let mut sorted = rows.to_vec();
    sorted.sort_by(|a, b| value(a).total_cmp(&value(b)));
    Some([sorted.first()?, sorted.last()?])
}

/// The policy with the second largest gain on the first workload that the winner wins; the baseline if no other gains.
fn entry_for_next_best(view: &View, best: &[&PageRow], rows: &[&PageRow]) -> Option<TileEntry> {
    let won = best.first()?;
    let others = rows.iter().filter(|row| {
        row.workload == won.workload
            && row.policy != won.policy
            && row.gain.is_some_and(|gain| gain.percent > 0.0)
    });
    // Among equals the first wins.
    let second = others.rev().max_by(|a, b| {
        a.gain_percent_or_lowest()
            .total_cmp(&b.gain_percent_or_lowest())
    });
    let Some((next, gain)) = second.and_then(|row| Some((row, row.gain?))) else {
        return Some(TileEntry {
            label: "next best".to_owned(),
            value: view.baseline_name_or_phrase().to_owned(),
            note: "the baseline: no other policy gains".to_owned(),
        });
    };
    let place = if best.len() > 1 {
        format!(" on {}", workload_name(view, won.workload))
    } else {
        String::new()
    };
    Some(TileEntry {
        label: "next best".to_owned(),
        value: view.policies.get(next.policy)?.name.clone(),
        note: format!(
            "{} {}{place}",
            metric_title(view, next.metric),
            format_signed_percent(gain.percent, gain.interval)
        ),
    })
}

/// How many figures are assumed; `None` where nothing is, as in measurements.
fn entry_for_assumed_figures(view: &View, policy: Option<&PagePolicy>) -> Option<TileEntry> {
    let figures = view.assumed_figures;
    let notes = policy.map_or(0, |policy| policy.notes.len());
    if figures == 0 && notes == 0 {
        return None;
    }
    let of_policy = match notes {
        0 => String::new(),
        1 => "; and one thing about this policy".to_owned(),
        more => format!("; and {more} things about this policy"),
    };
    Some(TileEntry {
        label: "assumed".to_owned(),
        value: match figures {
            1 => "1 figure".to_owned(),
            count => format!("{count} figures"),
        },
        note: format!("of the machine's description{of_policy}"),
    })
}

/// A policy's settings, or nothing if the policy's name has them.
fn settings_unless_in_name(policy: Option<&PagePolicy>) -> String {
    let unnamed = policy.filter(|policy| !policy.name_contains_all_setting_values());
    unnamed.map_or_else(String::new, PagePolicy::settings_in_words)
}

fn metric_title(view: &View, metric: usize) -> String {
    view.metrics
        .get(metric)
        .map_or_else(String::new, |m| m.title.clone())
}

fn workload_name(view: &View, workload: usize) -> String {
    view.workloads
        .get(workload)
        .map_or_else(String::new, |w| w.name.clone())
}

/// By how many percent a value is above a reference.
fn percent_change_against(value: f64, reference: f64) -> f64 {
    (value / reference - 1.0) * 100.0
}

fn format_change_percent(value: f64) -> String {
    if value.is_finite() {
        format!("{} %", format_change(value, 1)).replace('-', "−")
    } else {
        "–".to_owned()
    }
}

/// The size of a percentage of a limit; "far" if the limit is 0.
fn format_percent_of_limit(percent_of_limit: f64) -> String {
    let size = percent_of_limit.abs();
    if size < 1e6 {
        let decimals = usize::from(size < 10.0);
        format!("{size:.decimals$} %")
    } else {
        "far".to_owned()
    }
}

/// A limit without digits that say nothing: `150`, `0.98`.
fn format_limit(limit: f64) -> String {
    let rounded: f64 = format!("{limit:.5e}").parse().unwrap_or(limit);
    rounded.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_power_says_in_which_direction_it_goes() {
        assert_eq!(power_change_in_words("−61.7 %"), "61.7 % more");
        assert_eq!(power_change_in_words("+9.7 %"), "9.7 % less");
        assert_eq!(power_change_in_words("–"), "–");
    }

    #[test]
    fn sizes_and_limits_are_short() {
        assert_eq!(format_percent_of_limit(-29.34), "29 %");
        assert_eq!(format_percent_of_limit(6.14), "6.1 %");
        assert_eq!(format_percent_of_limit(f64::INFINITY), "far");
        assert_eq!(format_limit(150.0), "150");
        assert_eq!(format_limit(0.98), "0.98");
        assert_eq!(format_limit(1.0 / 3.0), "0.333333");
        assert_eq!(
            format_change_percent(percent_change_against(88.0, 100.0)),
            "−12.0 %"
        );
        assert_eq!(format_change_percent(percent_change_against(1.0, 0.0)), "–");
    }
}
