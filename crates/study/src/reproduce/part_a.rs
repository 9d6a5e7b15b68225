//! Part A: what a longer polling limit is worth to clients and servers that talk over loopback.

use serde::Deserialize;
use wakepath_hardware::{IdleState, IdleStates, Machine};
use wakepath_policies::PolicySet;
use wakepath_policies::poll;
use wakepath_sim::{Comparison, Experiment, PolicyResult};
use wakepath_units::{Nanoseconds, TickRate};
use wakepath_workloads::rtapp::{self, RtAppFile};

use super::{
    Cell, Criterion, FittedFigure, Plan, Published, ReproduceError, Reproduction, Section, Value,
};

const PART_A: &str = include_str!("../../data/published-a.toml");
const TBENCH: &str = include_str!("../../../../workloads/tbench-like.json");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    title: String,
    source: String,
    machine: String,
    idle: String,
    freq: String,
    before: String,
    after: String,
    milliseconds: u64,
    warm_up_milliseconds: u64,
    limit: Vec<LimitData>,
    row: Vec<RowData>,
    expected: Vec<ExpectedData>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitData {
    residencies_us: Vec<u64>,
    limit_us: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowData {
    clients: u32,
    before: f64,
    after: f64,
    /// A figure was chosen with the gain in view.
    #[serde(default)]
    fitted: bool,
    /// A figure was chosen with the throughput in view.
    #[serde(default)]
    throughput_fitted: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedData {
    from_clients: u32,
    to_clients: u32,
    from: f64,
    to: f64,
}

impl Data {
    /// What has to come out with so many clients, if anything.
    fn expected(&self, clients: u32) -> Published {
        let of = |e: &&ExpectedData| (e.from_clients..=e.to_clients).contains(&clients);
        let expected = self.expected.iter().find(of);
        expected.map_or(Published::Nothing, |e| Published::between(e.from, e.to))
    }
}

/// The polling limits, and tbench with more and more clients under the old and the new rule.
pub(super) fn plan() -> Result<Plan, ReproduceError> {
    let data: Data = toml::from_str(PART_A)?;
    let machine = Machine::find(&data.machine)?;
    let tbench = rtapp::parse(TBENCH, "tbench-like.json")?;
    let with = |poll: &str| PolicySet::named([&*data.idle, &*data.freq, poll]);
    let policies = vec![with(&data.before)?, with(&data.after)?];
    let experiments = data
        .row
        .iter()
        .map(|row| Experiment {
            machine: machine.clone(),
            workload: RtAppFile {
                copies: row.clients,
                duration: Some(Nanoseconds::from_millis(data.milliseconds)),
                warm_up: Nanoseconds::from_millis(data.warm_up_milliseconds),
                ..tbench.clone()
            }
            .into(),
            policies: policies.clone(),
        })
        .collect();
    Ok(Plan::new(experiments, move |comparisons| {
        let limits: Vec<Cell> = data.limit.iter().map(limit).collect::<Result<_, _>>()?;
        let gains: Vec<Cell> = data
            .row
            .iter()
            .zip(&comparisons)
            .map(|(row, comparison)| gain(&data, row, &comparison.results))
            .collect();
        let scaling = scaling(&data.row, &comparisons);
        let criteria = vec![
            Criterion::agree("the polling limits are exact", &limits),
            Criterion::agree(
                "gain of 3 to 15 % with 1 to 8 clients",
                gains
                    .iter()
                    .zip(&data.row)
                    .filter(|(_, row)| row.clients <= 8)
                    .map(|(cell, _)| cell),
            ),
            Criterion::agree(
                "the gain vanishes or turns (-3.5 to 2 %) from 32 clients on",
                gains
                    .iter()
                    .zip(&data.row)
                    .filter(|(_, row)| row.clients >= 32)
                    .map(|(cell, _)| cell),
            ),
        ];
        let mut fitted_figures = FittedFigure::of(None, machine.figures());
        fitted_figures.push(work_per_message(&tbench));
        Ok(Reproduction {
            title: data.title,
            source: data.source,
            criteria,
            fitted_figures,
            machine: machine.title,
            sections: vec![
                Section::new("polling limit in us", &["target residencies in us"], limits),
                Section::new(
                    "change of throughput by the longer limit in %",
                    &["clients", "measured change"],
                    gains,
                ),
                Section::new(
                    "throughput with the short limit over that of one client",
                    &["clients"],
                    scaling,
                ),
            ],
        })
    }))
}

/// The limit by the rule of today, exactly.
fn limit(data: &LimitData) -> Result<Cell, ReproduceError> {
    let micros = Nanoseconds::from_micros;
    let polling = IdleState {
        name: "POLL".to_owned(),
        exit_latency: Nanoseconds::ZERO,
        target_residency: Nanoseconds::ZERO,
        polling: true,
        disabled: false,
    };
    let states = data.residencies_us.iter().map(|us| IdleState {
        name: format!("C{us}"),
        exit_latency: micros(*us),
        target_residency: micros(*us),
        polling: false,
        disabled: false,
    });
    let states = IdleStates::new(std::iter::once(polling).chain(states).collect())?;
    let names: Vec<String> = data.residencies_us.iter().map(u64::to_string).collect();
    Ok(Cell::new(
        vec![names.join("/")],
        Published::Text(data.limit_us.to_string()),
        Value::Text(
            poll::limit(&states, TickRate::HZ_250, None)
                .as_micros()
                .to_string(),
        ),
        false,
    ))
}

fn operations(results: &[PolicyResult], index: usize) -> f64 {
    let of = results.get(index).and_then(|r| r.operations_per_second);
    of.unwrap_or_default()
}

/// What more clients do together over what the first row does.
fn scaling(rows: &[RowData], comparisons: &[Comparison]) -> Vec<Cell> {
    let rate = |of: &Comparison| operations(&of.results, 0);
    let mut all = rows.iter().zip(comparisons);
    let Some((one, alone)) = all.next() else {
        return Vec::new();
    };
    all.map(|(row, comparison)| {
        Cell::new(
            vec![row.clients.to_string()],
            Published::Number(row.before / one.before),
            Value::Number(rate(comparison) / rate(alone)),
            row.throughput_fitted,
        )
    })
    .collect()
}

fn gain(data: &Data, row: &RowData, results: &[PolicyResult]) -> Cell {
    let percent = |before: f64, after: f64| (after / before - 1.0) * 100.0;
    Cell::new(
        vec![
            row.clients.to_string(),
            format!("{:+.2}", percent(row.before, row.after)),
        ],
        data.expected(row.clients),
        Value::Number(percent(operations(results, 0), operations(results, 1))),
        row.fitted,
    )
}

/// The CPU work of a message, which the publication does not give.
fn work_per_message(tbench: &RtAppFile) -> FittedFigure {
    let runs = tbench
        .tasks
        .iter()
        .flat_map(rtapp::RtTask::events)
        .filter_map(|e| match e {
            rtapp::Event::Run(time) => Some(time.as_micros() as f64),
            _ => None,
        });
    let (sum, count) = runs.fold((0.0, 0.0), |(sum, count), us| (sum + us, count + 1.0));
    FittedFigure {
        model: Some("workloads/tbench-like.json".to_owned()),
        key: "run, mean in us".to_owned(),
        value: sum / count,
        fitted: "part A, gains of 1 to 64 clients: CPU work of a message".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::reproduce::{Part, reproduce};

    #[test]
    fn limits_are_exact_and_polling_longer_pays_for_few_clients_only() {
        let a = reproduce(&[Part::find("A").unwrap()], &[1]).unwrap();
        // A single run is not the median of five, so the bounds are wider than the criteria's.
        let reproduction = &a[0].reproduction;
        assert!(reproduction.criteria[0].met, "{:#?}", reproduction.criteria);
        for cell in &reproduction.sections[1].cells {
            let clients: u32 = cell.labels[0].parse().unwrap();
            let gain = cell.simulated.number().unwrap();
            let bounds = match clients {
                ..=8 => 2.0..16.0,
                16 => -3.0..10.0,
                _ => -6.0..5.0,
            };
            assert!(bounds.contains(&gain), "{cell:?}");
        }
        // The shape of the curve: busy cores from 32 clients on, moving about with 64, full CPUs from 128.
        for cell in &reproduction.sections[2].cells {
            assert!(cell.relative_error.unwrap().abs() < 0.35, "{cell:?}");
        }
    }
}
