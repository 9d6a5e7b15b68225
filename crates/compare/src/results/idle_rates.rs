//! Adds to results how often idle periods did not fit their state, from counts.

use std::collections::BTreeMap;

use wakepath_results::document::RunOrigin;
use wakepath_results::{MetricRow, ResultReader, ResultsError, RunRecord};

use super::source::Source;

/// Adds the metrics `too_deep_per_s` and `too_shallow_per_s` to simulations and laboratory results
/// that stand beside a replay. Without a replay nothing changes.
///
/// # Errors
///
/// Runs cannot be read.
pub fn add_idle_rates(
    sources: &mut [Source],
    results: &[&ResultReader],
) -> Result<(), ResultsError> {
    let mut origins = sources.iter().map(|source| source.document.backend);
    if !origins.any(|origin| origin == RunOrigin::Replay) {
        return Ok(());
    }
    for (source, results) in sources.iter_mut().zip(results) {
        if matches!(source.document.backend, RunOrigin::Sim | RunOrigin::Lab) {
            let cpus = count_cpus(source);
            for run in results.read_runs()? {
                source.rows.extend(idle_rates_of_run(&run, &cpus));
            }
        }
    }
    Ok(())
}

/// Number of CPUs, by machine and kind of CPU.
type CpuCounts = BTreeMap<(String, String), u32>;

fn count_cpus(source: &Source) -> CpuCounts {
    let mut counts = CpuCounts::new();
    for machine in &source.document.machines {
        for kind in &machine.cpu_kinds {
            counts.insert((machine.name.clone(), kind.name.clone()), kind.cpus);
        }
    }
    counts
}

/// A run's rates.
fn idle_rates_of_run(run: &RunRecord, cpus: &CpuCounts) -> Vec<MetricRow> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut deep, mut shallow) = (0, 0);
    for idle in &run.idle {
        *sums.entry(&idle.cpu_kind).or_default() += idle.time_ns;
        deep += idle.too_deep;
        shallow += idle.too_shallow;
    }
    // Every CPU was watched for the same time, and the rows of a kind add up to that time on all
    // its CPUs.
    let watched_s = sums.iter().find_map(|(kind, time_ns)| {
        let cpus = *cpus.get(&(run.key.machine.clone(), (*kind).to_owned()))?;
        (cpus > 0 && *time_ns > 0).then(|| *time_ns as f64 / 1e9 / f64::from(cpus))
    });
    let Some(watched_s) = watched_s else {
        return Vec::new();
    };
    let rates = [("too_deep_per_s", deep), ("too_shallow_per_s", shallow)];
    rates
        .map(|(metric, count)| MetricRow {
            machine: run.key.machine.clone(),
            workload: run.key.workload.clone(),
            policy: run.key.policy.clone(),
            repeat: run.key.repeat,
            seed: run.seed,
            block: run.block,
            order: run.order,
            metric: metric.to_owned(),
            value: count as f64 / watched_s,
        })
        .into()
}

#[cfg(test)]
mod tests {
    use wakepath_results::document::{CpuKind, Document, SCHEMA, VERSION};
    use wakepath_results::{Design, Idle, METRICS, MachineInfo, RunKey, StudyInfo};

    use super::*;

    fn idle(state: &str, time_ns: u64, too_deep: u64, too_shallow: u64) -> Idle {
        Idle {
            cpu_kind: "cpu".into(),
            state: state.into(),
            time_ns,
            entries: 100,
            too_deep,
            too_shallow,
            above: None,
            below: None,
            added_latency_ns: None,
            wasted_energy_uj: None,
        }
    }

    /// Two CPUs over half a second: 10 idle periods that were too deep, 4 too shallow.
    fn reader(backend: RunOrigin) -> ResultReader {
        let document = Document {
            schema: SCHEMA.into(),
            version: VERSION,
            complete: true,
            shard: None,
            study: StudyInfo {
                name: "s".into(),
                title: String::new(),
            },
            backend,
            tools: BTreeMap::new(),
            sha256: BTreeMap::new(),
            machines: vec![MachineInfo {
                name: "m".into(),
                cpu_kinds: vec![CpuKind {
                    name: "cpu".into(),
                    cpus: 2,
                }],
                ..MachineInfo::default()
            }],
            workloads: Vec::new(),
            policies: Vec::new(),
            baseline: "menu".into(),
            repeats: 1,
            design: Design::Unpaired,
            seeds: vec![1],
            questions: Vec::new(),
            metrics: METRICS.to_vec(),
            level: 0.95,
            margin_percent: 2.0,
            notes: Vec::new(),
        };
        let key = RunKey {
            machine: "m".into(),
            workload: "w".into(),
            policy: "menu".into(),
            repeat: 0,
        };
        let mut run = RunRecord::new(key, None, 0, 0);
        run.idle = vec![
            idle("C1", 300_000_000, 0, 4),
            idle("C6", 600_000_000, 10, 0),
            idle("(busy)", 100_000_000, 0, 0),
        ];
        ResultReader::for_imported_runs("r", document, vec![run])
    }

    fn values(origins: &[RunOrigin]) -> Vec<Vec<f64>> {
        let readers: Vec<ResultReader> = origins.iter().map(|origin| reader(*origin)).collect();
        let mut sources: Vec<Source> = readers
            .iter()
            .map(|reader| Source::new("r", reader, Vec::new()).unwrap())
            .collect();
        add_idle_rates(&mut sources, &readers.iter().collect::<Vec<_>>()).unwrap();
        sources
            .iter()
            .map(|source| source.rows.iter().map(|row| row.value).collect())
            .collect()
    }

    #[test]
    fn beside_a_replay_all_have_rates_per_second() {
        let found = values(&[
            RunOrigin::Sim,
            RunOrigin::Replay,
            RunOrigin::Lab,
            RunOrigin::Live,
        ]);
        assert_eq!(found, [vec![20.0, 8.0], vec![], vec![20.0, 8.0], vec![]]);
    }

    #[test]
    fn without_a_replay_nothing_is_added() {
        let found = values(&[RunOrigin::Sim, RunOrigin::Lab]);
        assert!(found.iter().all(Vec::is_empty), "{found:?}");
    }
}
