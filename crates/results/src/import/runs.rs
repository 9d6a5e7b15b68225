//! Runs that another tool has measured.

use std::collections::BTreeMap;

use crate::document::{SCHEMA, VERSION};
use crate::{
    Design, Document, METRICS, MachineInfo, Metric, PolicyInfo, RunOrigin, RunRecord, StudyInfo,
    WorkloadInfo,
};

/// What another tool has measured.
#[derive(Debug, Default)]
pub struct ImportedRuns {
    /// The runs.
    pub runs: Vec<RunRecord>,
    /// The tools with their versions.
    pub tools: BTreeMap<String, String>,
    /// Metrics that are not or not so in the dictionary.
    pub metrics: Vec<Metric>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl ImportedRuns {
    /// Runs of a tool.
    pub(super) fn from_tool(tool: &str, version: &str, runs: Vec<RunRecord>) -> Self {
        Self {
            runs,
            tools: BTreeMap::from([(tool.to_owned(), version.to_owned())]),
            ..Self::default()
        }
    }

    /// Adds the runs of another file, which were made later.
    pub(super) fn append(&mut self, other: Self) {
        let after = |runs: &[RunRecord]| runs.iter().map(|r| r.key.repeat + 1).max().unwrap_or(0);
        let first = after(&self.runs);
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

    /// What `result.json` would say. Every policy and workload of the runs is listed in the order of the runs.
    pub fn document(&self, name: &str) -> Document {
        let kind = self.tools.keys().next().map_or("", String::as_str);
        let mut workloads: Vec<WorkloadInfo> = Vec::new();
        let mut policies: Vec<PolicyInfo> = Vec::new();
        for run in &self.runs {
            if !workloads.iter().any(|w| w.name == run.key.workload) {
                workloads.push(WorkloadInfo {
                    name: run.key.workload.clone(),
                    kind: kind.to_owned(),
                    source: name.to_owned(),
                    ..WorkloadInfo::default()
                });
            }
            if !policies.iter().any(|p| p.name == run.key.policy) {
                policies.push(PolicyInfo {
                    name: run.key.policy.clone(),
                    settings: BTreeMap::new(),
                });
            }
        }
        let given = |name: &str| {
            self.runs
                .iter()
                .any(|r| r.metrics.iter().any(|m| m.0 == name))
        };
        let own = |metric: &&Metric| self.metrics.iter().any(|m| m.name == metric.name);
        let mut metrics: Vec<Metric> = METRICS.iter().filter(|m| !own(m)).cloned().collect();
        metrics.extend(self.metrics.iter().cloned());
        // What none of the tables would show otherwise.
        let has_headline = metrics.iter().any(|m| m.headline && given(&m.name));
        for metric in &mut metrics {
            metric.headline |= !has_headline && given(&metric.name);
        }
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
            workloads,
            policies,
            repeats: repeats.unwrap_or(0),
            design: Design::Unpaired,
            seeds: Vec::new(),
            sha256: BTreeMap::new(),
            questions: Vec::new(),
            metrics,
            level: 0.95,
            margin_percent: 2.0,
            notes: self.notes.clone(),
        }
    }
}

pub(super) fn not_finite(metric: &str, value: f64) -> String {
    format!("{metric} comes to {value}, which is no result")
}
