//! `result.json`: what was compared, on what, how, and with which tools.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::metric::Metric;
use crate::question::{Question, is_among};
use crate::shard::Shard;

/// What `schema` says in `result.json`.
pub const SCHEMA: &str = "wakepath-result";

/// The version of the schema that this code writes, and the only one that it reads.
pub const VERSION: u32 = 2;

/// What the confidence level of intervals may be.
pub const LEVELS: RangeInclusive<f64> = 0.5..=0.999;
/// The largest margin that a study can have.
const MAX_MARGIN_PERCENT: f64 = 1000.0;
/// The most repeats that a study can have.
const MAX_REPEATS: u32 = 100_000;
/// The most CPUs of a kind: those of the largest kernel.
const MAX_CPUS: u32 = 8192;
/// The longest warm-up: a year.
const MAX_WARM_UP_S: f64 = 366.0 * 86400.0;

/// Where the numbers come from: the backend that made them, or another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOrigin {
    /// The simulator.
    Sim,
    /// A recorded trace.
    Replay,
    /// The machine itself.
    Live,
    /// A virtual machine in virtual time, with known hardware (docs/laboratory.md).
    Lab,
    /// Another tool's results.
    Import,
}

impl RunOrigin {
    /// Its name in `result.json`, and after `--on`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Replay => "replay",
            Self::Live => "live",
            Self::Lab => "lab",
            Self::Import => "import",
        }
    }
}

/// How the runs of two policies belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Design {
    /// The runs of equal repeat share a seed, or a block of time.
    Paired,
    /// They have nothing to do with one another.
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
    /// Whether every planned run is there.
    pub complete: bool,
    /// The part of the study that is here, if not all of it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The study.
    pub study: StudyInfo,
    /// Where the numbers come from.
    pub backend: RunOrigin,
    /// Programs by name with their versions: `wakepath`, and what ran the workloads.
    pub tools: BTreeMap<String, String>,
    /// The machines, in the order of the study.
    pub machines: Vec<MachineInfo>,
    /// The workloads, in the order of the study.
    pub workloads: Vec<WorkloadInfo>,
    /// The policies, in the order of the study.
    pub policies: Vec<PolicyInfo>,
    /// SHA-256 by path of the files that results name and have no copy of: recordings, and lists of idle states.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sha256: BTreeMap<String, String>,
    /// Name of the policy that the others are compared with.
    pub baseline: String,
    /// Planned runs of each workload under each policy.
    pub repeats: u32,
    /// How runs of different policies belong together.
    pub design: Design,
    /// The seeds by repeat, of a simulation; of a measurement one, that of its order.
    pub seeds: Vec<u64>,
    /// What is asked.
    pub questions: Vec<Question>,
    /// Every metric that the runs may give.
    pub metrics: Vec<Metric>,
    /// Confidence level of intervals, among [`LEVELS`].
    pub level: f64,
    /// Differences up to so many percent are of no interest.
    pub margin_percent: f64,
    /// Circumstances that a reader should know of.
    pub notes: Vec<String>,
}

/// The study in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StudyInfo {
    /// Short name.
    pub name: String,
    /// What it is about.
    pub title: String,
}

/// A machine in short; its file has all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineInfo {
    /// Its name in the tables.
    pub name: String,
    /// Its file: `machine.toml`, of several one in `machines/`; empty if nothing is known of it.
    pub source: String,
    /// What it is.
    pub title: String,
    /// Kinds of CPU (clusters) and the number of each, in the order of CPU numbers.
    pub cpu_kinds: Vec<CpuKind>,
    /// Idle states by name, shallowest first.
    pub idle_states: Vec<String>,
    /// The drive.
    pub drive: String,
    /// What tells a measured host from others of its name: the beginning of a hash of its `/etc/machine-id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What the watts of its runs count: `package`, `board` or `wall`; empty if that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub power_scope: String,
}

/// CPUs of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuKind {
    /// Its name, that of the cluster.
    pub name: String,
    /// How many there are.
    pub cpus: u32,
}

/// A workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadInfo {
    /// Its name in the tables.
    pub name: String,
    /// `fio`, `rt-app`, `command` or `recording`.
    pub kind: String,
    /// Its file under `workloads/`, the command, or the path of the recording.
    pub source: String,
    /// The rates that its jobs ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RequestedRate>,
    /// Seconds at the beginning of each run that nothing counts; absent: none, or not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_s: Option<f64>,
    /// The machines on which it runs; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    /// The policies under which it runs; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
}

/// A rate that a fio job asks for (`rate`, `rate_iops`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestedRate {
    /// Name of the job.
    pub job: String,
    /// `read` or `write`.
    pub direction: String,
    /// Per second, of all processes of the job together.
    pub per_second: f64,
    /// `I/Os` or `bytes`.
    pub unit: String,
    /// Whether requests arrive as a Poisson process, so that their number varies by chance.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub poisson: bool,
}

/// What is compared: one value of every setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyInfo {
    /// Its name in the tables.
    pub name: String,
    /// Its settings: `idle`, `freq` and so on with full policy names or values.
    pub settings: BTreeMap<String, String>,
}

impl WorkloadInfo {
    /// Whether `source` names a file that the results have a copy of. Commands and recordings have none.
    pub fn has_copy(&self) -> bool {
        ["fio", "rt-app"].contains(&self.kind.as_str())
    }
}

/// A copy is a file below the directory; nothing is one if nothing is known.
fn check_copy(list: &str, name: &str, source: &str) -> Result<(), String> {
    let inside = |part: Component<'_>| matches!(part, Component::Normal(_));
    if Path::new(source).components().all(inside) && !source.contains('\0') {
        return Ok(());
    }
    Err(format!(
        "`source` of `{name}` in `{list}` is {source:?}; it may only name a file below this directory, without `..`"
    ))
}

/// A file with two contents.
pub(crate) struct ChangedFile {
    pub(crate) path: String,
    pub(crate) here: String,
    pub(crate) there: String,
}

impl Document {
    /// Each workload on each machine on which it is planned, by the order of the machines.
    pub fn loads(&self) -> impl Iterator<Item = (&MachineInfo, &WorkloadInfo)> {
        self.machines.iter().flat_map(|machine| {
            let planned = |w: &&WorkloadInfo| is_among(&w.machines, &machine.name);
            self.workloads
                .iter()
                .filter(planned)
                .map(move |workload| (machine, workload))
        })
    }

    /// A file that both documents name by its path, and that had another content for each: its path, and SHA-256 here
    /// and in the other one.
    pub(crate) fn changed_file<'a>(&'a self, other: &'a Self) -> Option<ChangedFile> {
        self.sha256.iter().find_map(|(path, here)| {
            let there = other.sha256.get(path).filter(|there| *there != here)?;
            Some(ChangedFile {
                path: path.clone(),
                here: here.clone(),
                there: there.clone(),
            })
        })
    }

    /// Whether all of it can be: what a hand or a program that is not wakepath has put in is not trusted.
    ///
    /// # Errors
    /// The key, its value, and what it may be.
    pub fn check(&self) -> Result<(), String> {
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
            check_copy("machines", &machine.name, &machine.source)?;
        }
        for workload in self.workloads.iter().filter(|w| w.has_copy()) {
            check_copy("workloads", &workload.name, &workload.source)?;
        }
        for (path, sha256) in &self.sha256 {
            if sha256.len() != 64 || !sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(format!("`sha256` of {path} is no SHA-256 of 64 digits"));
            }
        }
        Ok(())
    }

    /// How many runs are planned.
    pub fn runs(&self) -> usize {
        let policies = self
            .loads()
            .map(|(_, workload)| match workload.policies.len() {
                0 => self.policies.len(),
                some => some,
            });
        policies.sum::<usize>() * self.repeats as usize
    }
}
