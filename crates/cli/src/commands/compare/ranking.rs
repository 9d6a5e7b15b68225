//! Policies in an order: by a question with conditions, as a Pareto front, and of a sweep with too many for a table.

use wakepath_compare::figure::Unit;
use wakepath_compare::results::{
    Choice, Comparison, Compliance, Load, MachineScope, Objective, Points, ScopeList,
    choose_policy, say_per_machine,
};
use wakepath_compare::{Better, Goal, Metric};

use super::cells::describe_baseline_and_method;
use super::style::{Style, markdown_or_text_style};
use crate::output::{self, PageFormat, Screen};

/// Above this number of policies they are ranked: nobody reads a table with a column for each, nor a sentence for each.
pub(super) const RANKED_ABOVE: usize = 20;

/// Policies that share a line, because all their runs gave equal numbers.
struct EqualPolicies<'a>(Vec<Vec<&'a str>>);

impl<'a> EqualPolicies<'a> {
    fn new(comparison: &'a Comparison) -> Self {
        Self(comparison.groups_of_equal_policies())
    }

    /// Whether an earlier policy with equal numbers stands for this policy.
    fn is_shown_by_earlier(&self, policy: &str) -> bool {
        self.0.iter().any(|group| group[1..].contains(&policy))
    }

    /// A policy's name, with the number of policies that have equal numbers.
    fn name_with_equal_count(&self, policy: &str) -> String {
        let group = self.0.iter().find(|group| group[0] == policy);
        group.map_or_else(
            || policy.to_owned(),
            |group| format!("{policy} (and {} equal)", group.len() - 1),
        )
    }
}

/// Writes the machine's name as heading, if there are several machines.
fn write_machine_heading_if_several<T>(
    scope: &MachineScope<T>,
    out: &mut Screen,
    comparison: &Comparison,
    style: &dyn Style,
) -> anyhow::Result<()> {
    match &scope.machine {
        Some(machine) => style.write_heading(out, machine),
        None if comparison.machines.len() > 1 => style.write_heading(out, "All machines"),
        None => Ok(()),
    }
}

/// Whether a scope has a load's machine.
fn is_load_in_scope<T>(load: &Load, scope: &MachineScope<T>) -> bool {
    let mut machine = scope.machine.iter();
    machine.all(|machine| *machine == load.machine)
}

/// Writes what is said for each machine as CSV; the first column names the machine if there are several.
fn write_csv_per_machine<T, const N: usize>(
    out: &mut Screen,
    comparison: &Comparison,
    scopes: &[MachineScope<T>],
    columns: [&str; N],
    rows_of_machine: impl Fn(&T) -> Vec<[String; N]>,
) -> anyhow::Result<()> {
    let is_named = comparison.machines.len() > 1;
    let machine_title = is_named.then_some("machine");
    let rows = scopes.iter().flat_map(|scope| {
        let name = scope.machine.clone().unwrap_or_default();
        let machine = is_named.then_some(name);
        let rows = rows_of_machine(&scope.said).into_iter();
        rows.map(move |row| machine.clone().into_iter().chain(row).collect::<Vec<_>>())
    });
    let header: Vec<&str> = machine_title.into_iter().chain(columns).collect();
    output::write_csv(out, header, rows)
}

/// Writes what is said for each machine below the machine's name, with an empty line between two machines.
fn write_section_per_machine<T>(
    out: &mut Screen,
    comparison: &Comparison,
    scopes: &[MachineScope<T>],
    style: &dyn Style,
    write_section: impl Fn(&mut Screen, &MachineScope<T>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for (number, scope) in scopes.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        write_machine_heading_if_several(scope, out, comparison, style)?;
        write_section(out, scope)?;
    }
    Ok(())
}

/// Prints for each machine the answer to a question with conditions, then the ranking.
pub(super) fn print_choices_per_machine(
    out: &mut Screen,
    comparison: &Comparison,
    choices: &[MachineScope<Choice>],
    top: u32,
    format: PageFormat,
) -> anyhow::Result<()> {
    match format {
        PageFormat::Json => output::write_json(out, &ScopeList::from(choices)),
        PageFormat::Csv => {
            let columns = ["rank", "policy", "value", "conditions", "miss_percent"];
            write_csv_per_machine(out, comparison, choices, columns, |choice| {
                csv_rows_by_rank(choice).collect()
            })
        }
        PageFormat::Table | PageFormat::Markdown => {
            let style = markdown_or_text_style(format);
            write_section_per_machine(out, comparison, choices, style, |out, scope| {
                write_choice_and_ranking(out, comparison, &scope.said, top, style)
            })
        }
    }
}

/// CSV rows for all candidates, the best first.
fn csv_rows_by_rank(choice: &Choice) -> impl Iterator<Item = [String; 5]> {
    choice.candidates.iter().enumerate().map(|(rank, c)| {
        let holds = match c.holds {
            _ if choice.keep.is_empty() => "",
            Compliance::Surely => "surely kept",
            Compliance::CannotTell => "cannot tell",
            Compliance::Fails => "fails",
        };
        let miss = c
            .condition
            .as_ref()
            .map_or_else(String::new, |_| format!("{:.1}", c.miss_percent.max(0.0)));
        [
            (rank + 1).to_string(),
            c.policy.clone(),
            c.value.to_string(),
            holds.to_owned(),
            miss,
        ]
    })
}

fn write_choice_and_ranking(
    out: &mut Screen,
    comparison: &Comparison,
    choice: &Choice,
    top: u32,
    style: &dyn Style,
) -> anyhow::Result<()> {
    for sentence in &choice.sentences {
        style.write_sentence(out, sentence)?;
    }
    writeln!(out)?;
    let unit = choice.unit_for_goal();
    let title = unit.title_with_unit(&choice.metric.title);
    let header = [
        "rank",
        "policy",
        &title,
        "conditions",
        "beyond the limit, %",
    ];
    let all = choice.candidates.len();
    let equal = EqualPolicies::new(comparison);
    let rows = csv_rows_by_rank(choice)
        .zip(&choice.candidates)
        .filter(|(_, c)| !equal.is_shown_by_earlier(&c.policy))
        .take(top as usize)
        .map(|(mut row, c)| {
            row[1] = equal.name_with_equal_count(&c.policy);
            row[2] = unit.format_figure(c.value, c.doubt);
            row.to_vec()
        });
    write_rows_under_header(out, style, header, rows)?;
    write_omitted_count_if_any(out, all, top)
}

fn write_omitted_count_if_any(out: &mut Screen, all: usize, top: u32) -> anyhow::Result<()> {
    if all > top as usize {
        writeln!(
            out,
            "\n{top} of {all} policies; --top {all} and --format csv have all of them."
        )?;
    }
    Ok(())
}

/// Writes rows under a header in a style.
fn write_rows_under_header<H: ToString>(
    out: &mut Screen,
    style: &dyn Style,
    header: impl IntoIterator<Item = H>,
    rows: impl Iterator<Item = Vec<String>>,
) -> anyhow::Result<()> {
    let header = header.into_iter().map(|cell| cell.to_string()).collect();
    style.write_table(out, header, rows.collect())
}

/// Prints for each machine the Pareto front; CSV and JSON have the other policies, too.
pub(super) fn print_fronts_per_machine(
    out: &mut Screen,
    comparison: &Comparison,
    metrics: &[String],
    fronts: &[MachineScope<Points>],
    format: PageFormat,
) -> anyhow::Result<()> {
    match format {
        PageFormat::Json => output::write_json(out, &ScopeList::from(fronts)),
        PageFormat::Csv => {
            let columns = ["policy", "metric", "value", "on_front"];
            write_csv_per_machine(out, comparison, fronts, columns, |front| {
                csv_rows_by_point_and_metric(front, metrics)
            })
        }
        PageFormat::Table | PageFormat::Markdown => {
            let style = markdown_or_text_style(format);
            write_section_per_machine(out, comparison, fronts, style, |out, scope| {
                let loads = comparison.loads.iter();
                let on = loads.filter(|load| is_load_in_scope(load, scope));
                write_pareto_front(out, comparison, &scope.said, on.count(), style)
            })
        }
    }
}

fn csv_rows_by_point_and_metric(front: &Points, metrics: &[String]) -> Vec<[String; 4]> {
    let rows = front.points.iter().flat_map(|point| {
        let values = metrics.iter().zip(&point.values);
        values.map(|(metric, value)| {
            [
                point.policy.clone(),
                metric.clone(),
                value.to_string(),
                point.on_front.to_string(),
            ]
        })
    });
    rows.collect()
}

fn write_pareto_front(
    out: &mut Screen,
    comparison: &Comparison,
    Points { metrics, points }: &Points,
    workloads: usize,
    style: &dyn Style,
) -> anyhow::Result<()> {
    let known = metrics
        .iter()
        .filter_map(|name| comparison.metrics.iter().find(|m| m.name == *name));
    let (titles, units): (Vec<String>, Vec<Unit>) = known
        .enumerate()
        .map(|(i, metric)| {
            let values = points.iter().map(|p| p.values[i]);
            let unit = comparison.reduce_digits_if_assumed(Unit::for_values(&metric.unit, values));
            (unit.title_with_unit(&metric.title), unit)
        })
        .unzip();
    let header = std::iter::once("policy".to_owned()).chain(titles);
    let mut on: Vec<_> = points.iter().filter(|p| p.on_front).collect();
    on.sort_by(|a, b| a.values[0].total_cmp(&b.values[0]));
    let (few, all) = (on.len(), points.len());
    let equal = EqualPolicies::new(comparison);
    on.retain(|point| !equal.is_shown_by_earlier(&point.policy));
    let rows = on.into_iter().map(|point| {
        let mut row = vec![equal.name_with_equal_count(&point.policy)];
        let values = point.values.iter().zip(&point.doubts).zip(&units);
        row.extend(values.map(|((value, doubt), unit)| unit.format_figure(*value, *doubt)));
        row
    });
    write_rows_under_header(out, style, header, rows)?;
    writeln!(out)?;
    let sentence = format!(
        "{few} of {all} policies: none of the others is as good in all of these and better in one. Means are \
         geometric, over {workloads} workload(s)."
    );
    style.write_sentence(out, &sentence)
}

/// Prints for each machine and metric a ranking, in place of the metric's table.
pub(super) fn print_rankings_per_metric(
    out: &mut Screen,
    comparison: &Comparison,
    top: u32,
    style: &dyn Style,
) -> anyhow::Result<()> {
    for metric in &comparison.metrics {
        if metric.better == Better::Neither {
            let title = &metric.title;
            writeln!(
                out,
                "{title}: neither more nor less is better, so there is no ranking"
            )?;
            continue;
        }
        let ranked = say_per_machine(comparison, |among| {
            let objective = Objective {
                metric: metric.name.to_string(),
                goal: match metric.better {
                    Better::Lower | Better::Neither => Goal::Minimise,
                    Better::Higher => Goal::Maximise,
                },
                keep: Vec::new(),
                among,
            };
            choose_policy(comparison, &objective)
        });
        let Ok(ranked) = ranked else {
            writeln!(
                out,
                "{}: no policy has it on every workload\n",
                metric.title_with_unit()
            )?;
            continue;
        };
        for scope in &ranked {
            write_machine_heading_if_several(scope, out, comparison, style)?;
            write_ranking_by_metric(out, comparison, metric, scope, (top, style))?;
        }
    }
    style.write_sentence(out, &describe_baseline_and_method(comparison))?;
    writeln!(
        out,
        "{} policies are too many for a table: --top N ranks more, --format csv has every comparison.",
        comparison.policies.len()
    )?;
    Ok(())
}

fn write_ranking_by_metric(
    out: &mut Screen,
    comparison: &Comparison,
    metric: &Metric,
    scope: &MachineScope<Choice>,
    (top, style): (u32, &dyn Style),
) -> anyhow::Result<()> {
    let ranked = &scope.said;
    let unit = ranked.unit_for_goal();
    let title = unit.title_with_unit(&metric.title);
    let mut candidates = ranked.candidates.iter();
    let own = candidates.position(|c| c.policy == comparison.baseline);
    let place = own.map_or_else(String::new, |place| {
        format!("; {} is number {}", comparison.baseline, place + 1)
    });
    let heading = format!(
        "{title}: the best of {} policies, geometric mean over {} workload(s){place}",
        ranked.candidates.len(),
        comparison
            .loads
            .iter()
            .filter(|load| is_load_in_scope(load, scope))
            .count()
    );
    style.write_heading(out, &heading)?;
    let equal = EqualPolicies::new(comparison);
    let rows = ranked
        .candidates
        .iter()
        .enumerate()
        .filter(|(_, c)| !equal.is_shown_by_earlier(&c.policy))
        .take(top as usize)
        .map(|(rank, c)| {
            let changes = comparison
                .rows
                .iter()
                .filter(|r| r.policy == c.policy && r.metric == metric.name)
                .filter(|r| is_load_in_scope(&r.load, scope))
                .filter(|r| r.significant)
                .filter_map(|r| Some(r.gain?.percent));
            let better = changes.clone().filter(|percent| *percent > 0.0);
            let worse = changes.filter(|percent| *percent < 0.0);
            [
                (rank + 1).to_string(),
                equal.name_with_equal_count(&c.policy),
                unit.format_figure(c.value, c.doubt),
                better.count().to_string(),
                worse.count().to_string(),
            ]
            .to_vec()
        });
    let header = ["rank", "policy", &title, "better on", "worse on"];
    write_rows_under_header(out, style, header, rows)?;
    writeln!(out)?;
    Ok(())
}
