//! Observing the measured machine: processor, kernel, drives, idle states.

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest, Sha256};
use wakepath_results::MachineInfo;
use wakepath_results::directory::MACHINE;
use wakepath_results::document::CpuKind;
use wakepath_system::{Root, System};

use super::counters;
use crate::file::StudyError;
use crate::plan::host_name;

/// Content of `machine.toml` for a measurement. Stays constant between runs, so that a study can be resumed.
#[derive(Debug, Serialize)]
pub(super) struct Observed {
    host: String,
    host_id: Option<String>,
    kernel: String,
    cpu: String,
    online_cpus: usize,
    kinds: BTreeMap<String, u32>,
    idle_driver: Option<String>,
    frequency_driver: Option<String>,
    drives: Vec<Drive>,
    idle_state: Vec<State>,
}

#[derive(Debug, Serialize)]
struct State {
    name: String,
    exit_latency_us: u64,
    target_residency_us: u64,
    off_by_default: bool,
}

#[derive(Debug, Serialize)]
struct Drive {
    name: String,
    model: Option<String>,
    firmware: Option<String>,
}

/// A hash that tells hosts with equal names apart, which virtual machines often have. The id itself must stay secret
/// (machine-id(5)).
fn short_salted_hash_of_machine_id(root: &Root) -> Option<String> {
    let id = root
        .read_text_if_readable("etc/machine-id")
        .filter(|id| !id.is_empty())?;
    let hash = Sha256::digest(format!("wakepath {id}"));
    Some(
        hash.iter()
            .take(6)
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<String>>()
            .concat(),
    )
}

/// The kernel's release.
pub(super) fn kernel_name_and_release() -> String {
    let name = rustix::system::uname();
    format!(
        "{} {}",
        name.sysname().to_string_lossy(),
        name.release().to_string_lossy()
    )
}

/// Reads a file's content without white space around; `None` if it cannot be read.
fn read_trimmed(root: &Root, name: &str) -> Option<String> {
    root.read_text_if_readable(name)
        .map(|text| text.trim().to_owned())
}

impl Observed {
    pub(super) fn new(system: &System) -> Self {
        let root = system.root();
        let mut kinds = BTreeMap::new();
        let cpus = system.cpus();
        for cpu in &cpus {
            *kinds
                .entry(counters::name_cpu_kind(root, *cpu))
                .or_default() += 1;
        }
        let info = root
            .read_text_if_readable("proc/cpuinfo")
            .unwrap_or_default();
        let model = info.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            ["model name", "Hardware", "Model"]
                .contains(&key.trim())
                .then(|| value.trim().to_owned())
        });
        let states = cpus
            .first()
            .map(|cpu| system.read_idle_states(*cpu))
            .unwrap_or_default();
        Self {
            host: host_name(),
            host_id: short_salted_hash_of_machine_id(root),
            kernel: kernel_name_and_release(),
            cpu: model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            online_cpus: cpus.len(),
            kinds,
            idle_driver: read_trimmed(root, "sys/devices/system/cpu/cpuidle/current_driver"),
            frequency_driver: read_trimmed(
                root,
                "sys/devices/system/cpu/cpufreq/policy0/scaling_driver",
            ),
            drives: system
                .nvme_controller_names()
                .into_iter()
                .map(|name| Drive {
                    model: read_trimmed(root, &format!("sys/class/nvme/{name}/model")),
                    firmware: read_trimmed(root, &format!("sys/class/nvme/{name}/firmware_rev")),
                    name,
                })
                .collect(),
            idle_state: states
                .into_iter()
                .map(|s| State {
                    name: s.name,
                    exit_latency_us: s.latency_us,
                    target_residency_us: s.residency_us,
                    off_by_default: s.off_by_default,
                })
                .collect(),
        }
    }

    pub(super) fn describe(&self) -> MachineInfo {
        let drives: Vec<&str> = self
            .drives
            .iter()
            .filter_map(|d| d.model.as_deref())
            .collect();
        MachineInfo {
            name: self.host.clone(),
            source: MACHINE.to_owned(),
            title: format!("{}, {} CPUs, {}", self.cpu, self.online_cpus, self.kernel),
            cpu_kinds: self
                .kinds
                .iter()
                .map(|(name, cpus)| CpuKind {
                    name: name.clone(),
                    cpus: *cpus,
                })
                .collect(),
            idle_states: self.idle_state.iter().map(|s| s.name.clone()).collect(),
            drive: drives.join(", "),
            host: self.host_id.clone(),
            // Measured power covers the package (RAPL); `platform_mw` is a separate figure.
            power_scope: "package".to_owned(),
        }
    }

    pub(super) fn print_machine_file(&self) -> Result<Vec<u8>, StudyError> {
        let text = toml::to_string(self).map_err(|e| StudyError::Settings(e.to_string()))?;
        Ok(text.into_bytes())
    }
}
