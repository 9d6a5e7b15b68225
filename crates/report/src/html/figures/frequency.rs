//! Frequencies: at which the CPUs were powered, and how long.

use serde_json::json;

use super::super::number::{json as number, share, short};
use super::super::view::{Frequency, PageWorkload, View};
use super::idle::kind_choice;
use super::{Figure, Table, alt, distinct, policy_name};

pub(super) fn frequencies(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let all: Vec<&Frequency> = workload
        .frequency
        .iter()
        .filter(|f| !f.shares.is_empty())
        .collect();
    if all.is_empty() {
        return None;
    }
    let kinds = distinct(all.iter().map(|f| f.cpu_kind.as_str()));
    let mut table = Table::new(2, ["CPUs", "policy", "frequency, MHz", "time"]);
    for of in &all {
        for (khz, part) in &of.shares {
            table.row([
                of.cpu_kind.clone(),
                policy_name(view, of.policy).to_owned(),
                short(*khz as f64 / 1e3),
                share(*part),
            ]);
        }
    }
    let clause = |of: &&Frequency| {
        let most = of.shares.iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let most = most.map_or(String::new(), |(khz, part)| {
            format!(
                "{} of the time at {} MHz",
                share(*part),
                short(*khz as f64 / 1e3)
            )
        });
        format!(
            "{} CPUs under {}: {most}",
            of.cpu_kind,
            policy_name(view, of.policy)
        )
    };
    Some(Figure {
        id: String::new(),
        kind: "frequencies",
        title: "Frequencies, MHz, % of powered time".into(),
        note: "The time that CPUs of a kind were busy, waking up or polling.".into(),
        alt: alt(
            "Histogram of the share of powered time at each frequency, one group of bars per frequency.",
            all.iter().map(clause),
        ),
        choices: kind_choice(&kinds),
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
