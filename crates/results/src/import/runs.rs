//! Runs measured by other tools.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::{SCHEMA, VERSION};
use crate::{
    Design, Document, METRICS, MachineInfo, Metric, PolicyInfo, RunKey, RunOrigin, RunRecord,
    StudyInfo, WorkloadInfo,
};

/// Another tool's measurements.
#[derive(Debug, Default)]
pub struct ImportedRuns {
    /// The runs.
    pub runs: Vec<RunRecord>,
    /// Versions by tool.
    pub tools: BTreeMap<String, String>,
    /// Metrics that the dictionary lacks, or describes otherwise.
    pub metrics: Vec<Metric>,
    /// Remarks about the import, for the reader.
    pub notes: Vec<String>,
}

/// Makes the record for another tool's run, still without numbers. Each repeat is a block, in session order.
pub(super) fn new_imported_run(workload: &str, policy: &str, repeat: u32) -> RunRecord {
    let key = RunKey {
        machine: String::new(),
        workload: workload.to_owned(),
        policy: policy.to_owned(),
        repeat,
    };
    RunRecord::new(key, None, repeat, repeat)
}

impl ImportedRuns {
    /// Imported runs with the name and version of the tool that measured them.
    pub(super) fn from_tool(tool: &str, version: &str, runs: Vec<RunRecord>) -> Self {
        Self {
            runs,
            tools: BTreeMap::from([(tool.to_owned(), version.to_owned())]),
            ..Self::default()
        }
    }

    /// Appends runs from another file, as later repeats.
    pub(super) fn append_as_later_repeats(&mut self, other: Self) {
        let repeats = self.runs.iter().map(|r| r.key.repeat + 1);
        let first = repeats.max().unwrap_or(0);
        self.runs.extend(other.runs.into_iter().map(|mut run| {
            run.key.repeat += first;
            run.block += first;
            run.order += first;
            run
        }));
        self.tools.extend(other.tools);
        for metric in other.metrics {
            if !self.metrics.contains(&metric) {
                self.metrics.push(metric);
            }
        }
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Makes the document for imported runs; policies and workloads are in the order of their first run.
    pub fn make_document_named(&self, name: &str) -> Document {
        let policies = self.list_policies_by_first_run();
        let repeats = self.runs.iter().map(|r| r.key.repeat + 1).max();
        Document {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            complete: true,
            shard: None,
            study: StudyInfo {
                name: name.to_owned(),
                title: name.to_owned(),
            },
            backend: RunOrigin::Import,
            tools: self.tools.clone(),
            machines: vec![MachineInfo::default()],
            baseline: policies
                .first()
                .map_or_else(String::new, |p| p.name.clone()),
            workloads: self.list_workloads_by_first_run(name),
            policies,
            repeats: repeats.unwrap_or(0),
            design: Design::Unpaired,
            seeds: Vec::new(),
            sha256: BTreeMap::new(),
            questions: Vec::new(),
            metrics: self.dictionary_with_own_metrics(),
            level: 0.95,
            margin_percent: 2.0,
            notes: self.notes.clone(),
        }
    }

    fn list_workloads_by_first_run(&self, source: &str) -> Vec<WorkloadInfo> {
        let kind = self.tools.keys().next().map_or("", String::as_str);
        let mut workloads: Vec<WorkloadInfo> = Vec::new();
        for run in &self.runs {
            if !workloads.iter().any(|w| w.name == run.key.workload) {
                workloads.push(WorkloadInfo {
                    name: run.key.workload.clone(),
                    kind: kind.to_owned(),
                    source: source.to_owned(),
                    ..WorkloadInfo::default()
                });
            }
        }
        workloads
    }

    fn list_policies_by_first_run(&self) -> Vec<PolicyInfo> {
        let mut policies: Vec<PolicyInfo> = Vec::new();
        for run in &self.runs {
            if !policies.iter().any(|p| p.name == run.key.policy) {
                policies.push(PolicyInfo {
                    name: run.key.policy.clone(),
                    settings: BTreeMap::new(),
                    notes: Vec::new(),
                });
            }
        }
        policies
    }

    /// The metric dictionary with the imported runs' own metrics. If no metric would be shown in tables by default, all
    /// measured metrics are.
    fn dictionary_with_own_metrics(&self) -> Vec<Metric> {
        let values = self.runs.iter().flat_map(|run| &run.metrics);
        let measured: BTreeSet<&str> = values.map(|(name, _)| name.as_str()).collect();
        let mut metrics = METRICS.to_vec();
        metrics.retain(|metric| self.metrics.iter().all(|own| own.name != metric.name));
        metrics.extend(self.metrics.iter().cloned());
        let has_headline = metrics
            .iter()
            .any(|metric| metric.headline && measured.contains(&*metric.name));
        for metric in &mut metrics {
            metric.headline |= !has_headline && measured.contains(&*metric.name);
        }
        metrics
    }
}

pub(super) fn non_finite_message(metric: &str, value: f64) -> String {
    format!("{metric} comes to {value}, which is no result")
}
