//! Planned runs.

use std::collections::HashSet;

use crate::document::{Document, RunOrigin, VERSION};
use crate::layout::DOCUMENT;
use crate::metric;
use crate::question::is_empty_or_contains;
use crate::rows::RunKey;
use crate::run_record::RunRecord;
use crate::shard::Shard;

/// The runs that a document plans, by index.
#[derive(Clone, Debug)]
pub(crate) struct RunPlan {
    /// The cells (machine, workload, policy) of one repeat, in order.
    cells: Vec<PlannedCell>,
    known: HashSet<PlannedCell>,
    repeats: u32,
    shard: Option<Shard>,
    metrics: HashSet<String>,
    /// Seeds by repeat in a simulation; empty otherwise.
    seeds: Vec<u64>,
}

/// Names of a machine, a workload and a policy.
type PlannedCell = [String; 3];

impl RunPlan {
    pub(crate) fn new(document: &Document) -> Self {
        let cells = document
            .planned_machine_workload_pairs()
            .flat_map(|(machine, workload)| {
                let policies = document.policies.iter();
                let planned =
                    policies.filter(|p| is_empty_or_contains(&workload.policies, &p.name));
                planned
                    .map(|policy| [&machine.name, &workload.name, &policy.name].map(Clone::clone))
            });
        let cells: Vec<PlannedCell> = cells.collect();
        Self {
            known: cells.iter().cloned().collect(),
            cells,
            repeats: document.repeats,
            shard: document.shard,
            seeds: match document.backend {
                RunOrigin::Sim => document.seeds.clone(),
                _ => Vec::new(),
            },
            metrics: document
                .metrics
                .iter()
                .map(|m| m.name.to_string())
                .collect(),
        }
    }

    /// Checks that `run` is planned under `index`, and that its numbers are possible.
    ///
    /// # Errors
    /// The difference from the plan in words.
    pub(crate) fn check_run_planned_and_possible(
        &self,
        index: usize,
        run: &RunRecord,
    ) -> Result<(), String> {
        match self.planned_key_in_shard(index) {
            Some(planned) if planned == run.key => {}
            Some(planned) => {
                return Err(format!(
                    "holds {}, and the study has {planned} in its place",
                    run.key
                ));
            }
            None => {
                return Err(format!(
                    "holds {}, and the study has no run of this number",
                    run.key
                ));
            }
        }
        if run.version != VERSION {
            return Err(format!(
                "of version {}, and {DOCUMENT} is of version {VERSION}",
                run.version
            ));
        }
        let planned = self.seeds.get(run.key.repeat as usize);
        if planned.is_some() && planned != run.seed.as_ref() {
            let wanted = planned.map_or_else(String::new, u64::to_string);
            let has = run
                .seed
                .map_or_else(|| "none".to_owned(), |seed| seed.to_string());
            return Err(format!(
                "its seed is {has}, and the study has {wanted} for this repeat"
            ));
        }
        for (name, value) in &run.metrics {
            metric::check_metric_value(name, *value)?;
        }
        if let Some((what, number)) = run.first_too_large_number() {
            return Err(format!("{what} is {number}, which is no result"));
        }
        let mut names = HashSet::new();
        if let Some((twice, _)) = run.metrics.iter().find(|(name, _)| !names.insert(name)) {
            return Err(format!("it has {twice} twice"));
        }
        if let Some((unknown, _)) = run.metrics.iter().find(|(name, _)| !self.has_metric(name)) {
            return Err(format!("{DOCUMENT} has no metric {unknown:?}"));
        }
        if run
            .latency
            .iter()
            .any(|bucket| bucket.low_ns > bucket.high_ns)
        {
            return Err("a latency bucket ends before it begins".to_owned());
        }
        if run.timeline.iter().any(|span| span.start_ns > span.end_ns) {
            return Err("a stretch of its timeline ends before it begins".to_owned());
        }
        Ok(())
    }

    /// The key of the run planned under `index`; `None` beyond the last run.
    fn planned_key_in_shard(&self, index: usize) -> Option<RunKey> {
        let repeat = u32::try_from(index.checked_div(self.cells.len())?).ok()?;
        let [machine, workload, policy] = self.cells[index % self.cells.len()].clone();
        let here = self.shard.is_none_or(|shard| shard.includes_run(index));
        (repeat < self.repeats && here).then_some(RunKey {
            machine,
            workload,
            policy,
            repeat,
        })
    }

    /// Whether the document plans a run with this key.
    pub(crate) fn has_run_in_any_shard(&self, key: &RunKey) -> bool {
        let cell = [&key.machine, &key.workload, &key.policy].map(Clone::clone);
        key.repeat < self.repeats && self.known.contains(&cell)
    }

    pub(crate) fn has_metric(&self, name: &str) -> bool {
        self.metrics.contains(name)
    }
}
