//! Frequencies: how long the CPUs were powered at each.

use serde_json::json;

use super::super::number::{
    format_four_significant_digits, format_share_as_percent, round_to_five_digits_or_null as number,
};
use super::super::view::{Frequency, PageWorkload, View};
use super::figure::{Figure, Table, build_alternative_text, distinct, policy_name};
use super::idle::menu_of_cpu_kinds_if_several;

pub(super) fn draw_frequencies(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let all: Vec<&Frequency> = workload
        .frequency
        .iter()
        .filter(|f| !f.shares.is_empty())
        .collect();
    if all.is_empty() {
        return None;
    }
    let kinds = distinct(all.iter().map(|f| f.cpu_kind.as_str()));
    let mut table = Table::with_head(2, ["CPUs", "policy", "frequency, MHz", "time"]);
    for frequency in &all {
        for (khz, part) in &frequency.shares {
            table.add_row([
                frequency.cpu_kind.clone(),
                policy_name(view, frequency.policy).to_owned(),
                format_four_significant_digits(*khz as f64 / 1e3),
                format_share_as_percent(*part),
            ]);
        }
    }
    Some(Figure {
        id: String::new(),
        kind: "frequencies",
        title: "Frequencies, MHz, % of powered time".into(),
        note: "The time that CPUs of a kind were busy, waking up or polling.".into(),
        alt: build_alternative_text(
            "Histogram of the share of powered time at each frequency, one group of bars per frequency.",
            all.iter()
                .map(|frequency| describe_most_used_frequency(view, frequency)),
        ),
        choices: menu_of_cpu_kinds_if_several(&kinds),
        table,
        data: json!({
            "kinds": kinds.iter().map(|kind| {
                let rows: Vec<&&Frequency> = all.iter().filter(|f| f.cpu_kind == *kind).collect();
                let mut khz: Vec<u64> = rows.iter().flat_map(|r| r.shares.iter().map(|s| s.0)).collect();
                khz.sort_unstable();
                khz.dedup();
                json!({
                    "name": kind,
                    "mhz": khz.iter().map(|k| number(*k as f64 / 1e3)).collect::<Vec<_>>(),
                    "rows": rows.iter().map(|row| json!({
                        "policy": row.policy,
                        "values": khz.iter().map(|k| {
                            let found = row.shares.iter().find(|s| s.0 == *k);
                            number(found.map_or(0.0, |s| s.1 * 100.0))
                        }).collect::<Vec<_>>(),
                    })).collect::<Vec<_>>(),
                })
            }).collect::<Vec<_>>(),
        }),
    })
}

/// The most used frequency under a policy, in words.
fn describe_most_used_frequency(view: &View, frequency: &Frequency) -> String {
    let shares = frequency.shares.iter();
    let longest = shares.max_by(|a, b| a.1.total_cmp(&b.1));
    let most_used = longest.map_or(String::new(), |(khz, part)| {
        format!(
            "{} of the time at {} MHz",
            format_share_as_percent(*part),
            format_four_significant_digits(*khz as f64 / 1e3)
        )
    });
    format!(
        "{} CPUs under {}: {most_used}",
        frequency.cpu_kind,
        policy_name(view, frequency.policy)
    )
}
