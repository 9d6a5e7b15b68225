//! `result.json`: machines, workloads, policies, method and tools.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::metric::Metric;
use crate::question::{Question, is_empty_or_contains};
use crate::shard::Shard;

/// Value of the key `schema` in `result.json`.
pub const SCHEMA: &str = "wakepath-result";

/// The version of `result.json` that this code writes, and the only version accepted by the reader.
pub const VERSION: u32 = 2;

/// Allowed confidence levels.
pub const LEVELS: RangeInclusive<f64> = 0.5..=0.999;
/// Largest margin.
const MAX_MARGIN_PERCENT: f64 = 1000.0;
/// Most repeats.
const MAX_REPEATS: u32 = 100_000;
/// Most CPUs that a document may claim: the limit of the largest kernel.
const MAX_CPUS: u32 = 8192;
/// The longest warm-up that a document may claim, in seconds: a year.
const MAX_WARM_UP_S: f64 = 366.0 * 86400.0;

/// Where a document's numbers come from: one of the backends, or another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOrigin {
    /// The simulator.
    Sim,
    /// A recorded trace.
    Replay,
    /// The machine itself.
    Live,
    /// Laboratory: a virtual machine in virtual time, with known hardware (docs/background/laboratory.md).
    Lab,
    /// Another tool's results.
    Import,
    /// Block requests of a recording, followed by `wakepath explain`.
    Traced,
}

impl RunOrigin {
    /// The origin's name in `result.json`, and after the option `--on`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Replay => "replay",
            Self::Live => "live",
            Self::Lab => "lab",
            Self::Import => "import",
            Self::Traced => "traced",
        }
    }
}

/// How runs under two policies belong together in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Design {
    /// Paired: runs with the same repeat number share a seed, or a block of time.
    Paired,
    /// Runs are independent.
    Unpaired,
}

/// `result.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`].
    pub version: u32,
    /// Whether every planned run is finished, and the tables exist.
    pub complete: bool,
    /// The shard of the study in this directory; `None` for a whole study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The study.
    pub study: StudyInfo,
    /// Where the runs come from.
    pub backend: RunOrigin,
    /// Versions by program name: `wakepath`, and the programs that ran the workloads.
    pub tools: BTreeMap<String, String>,
    /// Machines in the study's order.
    pub machines: Vec<MachineInfo>,
    /// Workloads in the study's order.
    pub workloads: Vec<WorkloadInfo>,
    /// Policies in the study's order.
    pub policies: Vec<PolicyInfo>,
    /// SHA-256 by path, for named files without a copy: recordings, and lists of idle states.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sha256: BTreeMap<String, String>,
    /// Name of the policy that the others are compared with.
    pub baseline: String,
    /// Number of planned runs for each machine, workload and policy.
    pub repeats: u32,
    /// How runs under different policies belong together.
    pub design: Design,
    /// Seeds. A simulation has one per repeat; a measurement has one, which ordered the session.
    pub seeds: Vec<u64>,
    /// The study's questions.
    pub questions: Vec<Question>,
    /// Possible metrics.
    pub metrics: Vec<Metric>,
    /// Confidence level of the intervals, within [`LEVELS`].
    pub level: f64,
    /// Margin: differences between policies up to so many percent are of no interest.
    pub margin_percent: f64,
    /// Remarks about the results, for the reader.
    pub notes: Vec<String>,
}

/// The study's title: its subject in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyInfo {
    /// Short name.
    pub name: String,
    /// The publication that the study reproduces, in words; empty without.
    pub title: String,
}

/// Short description of a machine; the whole description is in the machine's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineInfo {
    /// Name of the machine in the tables.
    pub name: String,
    /// The machine's file: `machine.toml`, or a file in `machines/` if there are several; empty if nothing is known.
    pub source: String,
    /// Title.
    pub title: String,
    /// CPU kinds (clusters), ordered by CPU number.
    pub cpu_kinds: Vec<CpuKind>,
    /// Idle states by name, shallowest first.
    pub idle_states: Vec<String>,
    /// The drive.
    pub drive: String,
    /// The start of a hash over `/etc/machine-id`, which tells measured hosts with the same name apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What the measured power covers: `package`, `board` or `wall`; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub power_scope: String,
}

/// A CPU kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuKind {
    /// Name of the CPU kind: the cluster's.
    pub name: String,
    /// CPU count.
    pub cpus: u32,
}

/// A workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadInfo {
    /// Name of the workload in the tables.
    pub name: String,
    /// `fio`, `rt-app`, `trace`, `command` or `recording`.
    pub kind: String,
    /// What the workload runs: a file under `workloads/`, a command, a block trace, or a recording.
    pub source: String,
    /// Rates requested by the workload's fio jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RequestedRate>,
    /// Seconds at the start of each run that are not counted; absent: none, or unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_s: Option<f64>,
    /// Names of the machines that the workload runs on; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    /// Names of the policies that the workload runs under; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
    /// Set if this workload counts only some requests of another workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subset: Option<RequestSubset>,
}

/// Requests of a workload that are counted as a workload of their own, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSubset {
    /// Name of the whole workload.
    pub workload: String,
    /// The selected requests in words: `C6 met`.
    pub requests: String,
}

/// A rate that a fio job asks for (`rate`, `rate_iops`), a block trace by its times, or at which requests to a server arrive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestedRate {
    /// Name of the job or server.
    pub job: String,
    /// `read`, `write`, or `request` of a block trace or server.
    pub direction: String,
    /// Requested amount per second, all processes together, in `unit`.
    pub per_second: f64,
    /// `I/Os`, `bytes`, or `requests` of a server.
    pub unit: String,
    /// Whether requests arrive as a Poisson process: their number varies by chance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub poisson: bool,
}

/// A policy: a value for every setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyInfo {
    /// Name of the policy in the tables.
    pub name: String,
    /// The policy's settings: `idle`, `freq` and so on, with full policy names or values.
    pub settings: BTreeMap<String, String>,
    /// What a simulation of this policy assumes or leaves out, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl WorkloadInfo {
    /// Whether the workload's `source` names a file copied into the results. Commands and recordings have no copy.
    pub fn has_copied_source(&self) -> bool {
        ["fio", "rt-app", "server"].contains(&self.kind.as_str())
    }
}

/// Checks that the path of a copy stays inside the result directory; an empty path stands for no copy.
fn check_source_stays_inside_results(
    list_key: &str,
    item_name: &str,
    source: &str,
) -> Result<(), String> {
    let mut parts = Path::new(source).components();
    if parts.all(|part| matches!(part, Component::Normal(_))) && !source.contains('\0') {
        return Ok(());
    }
    Err(format!(
        "`source` of `{item_name}` in `{list_key}` is {source:?}; it may only name a file below this directory, without `..`"
    ))
}

/// A file named by two documents with different contents.
pub(crate) struct ChangedFile {
    pub(crate) path: String,
    pub(crate) here: String,
    pub(crate) there: String,
}

impl Document {
    /// All planned pairs of machine and workload, machine by machine. A workload may be limited to some machines.
    pub fn planned_machine_workload_pairs(
        &self,
    ) -> impl Iterator<Item = (&MachineInfo, &WorkloadInfo)> {
        self.machines.iter().flat_map(|machine| {
            self.workloads
                .iter()
                .filter(|workload| is_empty_or_contains(&workload.machines, &machine.name))
                .map(move |workload| (machine, workload))
        })
    }

    /// The first file (recording, or list of idle states) whose SHA-256 differs between two documents.
    pub(crate) fn first_file_with_other_sha256<'a>(
        &'a self,
        other: &'a Self,
    ) -> Option<ChangedFile> {
        self.sha256.iter().find_map(|(path, here)| {
            let there = other.sha256.get(path).filter(|there| *there != here)?;
            Some(ChangedFile {
                path: path.clone(),
                here: here.clone(),
                there: there.clone(),
            })
        })
    }

    /// Checks all values of the document, which may come from a hand or another program.
    ///
    /// # Errors
    /// Names the key, its value and the allowed values.
    pub fn check_values(&self) -> Result<(), String> {
        if !LEVELS.contains(&self.level) {
            return Err(format!(
                "`level` is {}, and may be {} to {}",
                self.level,
                LEVELS.start(),
                LEVELS.end()
            ));
        }
        if !(0.0..=MAX_MARGIN_PERCENT).contains(&self.margin_percent) {
            return Err(format!(
                "`margin_percent` is {}, and may be 0 to {MAX_MARGIN_PERCENT}",
                self.margin_percent
            ));
        }
        if self.repeats > MAX_REPEATS {
            return Err(format!(
                "`repeats` is {}, and may be at most {MAX_REPEATS}",
                self.repeats
            ));
        }
        for workload in &self.workloads {
            let seconds = workload.warm_up_s.unwrap_or(0.0);
            if !(0.0..=MAX_WARM_UP_S).contains(&seconds) {
                return Err(format!(
                    "`warm_up_s` of `{}` is {seconds}, and may be 0 to {MAX_WARM_UP_S}",
                    workload.name
                ));
            }
        }
        for machine in &self.machines {
            if let Some(kind) = machine.cpu_kinds.iter().find(|kind| kind.cpus > MAX_CPUS) {
                return Err(format!(
                    "`cpus` of `{}` is {}, and may be at most {MAX_CPUS}",
                    machine.name, kind.cpus
                ));
            }
            check_source_stays_inside_results("machines", &machine.name, &machine.source)?;
        }
        for workload in self.workloads.iter().filter(|w| w.has_copied_source()) {
            check_source_stays_inside_results("workloads", &workload.name, &workload.source)?;
        }
        for (path, sha256) in &self.sha256 {
            if sha256.len() != 64 || !sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(format!("`sha256` of {path} is no SHA-256 of 64 digits"));
            }
        }
        Ok(())
    }

    /// Number of runs that the document plans, in all shards together.
    pub fn planned_runs_in_all_shards(&self) -> usize {
        let policies = self.planned_machine_workload_pairs().map(|(_, workload)| {
            match workload.policies.len() {
                0 => self.policies.len(),
                some => some,
            }
        });
        policies.sum::<usize>() * self.repeats as usize
    }
}
