//! The CPU in whose time an rt-app file gives its work.

use wakepath_workloads::rtapp::{Calibration, RtAppFile};

use crate::core::topology::Topology;
use crate::error::SimError;
use crate::frequency::setup::FrequencySetup;

/// Thousands of cycles that the CPU in whose time a file gives its work does in a second, at its highest frequency.
pub(crate) fn calibration_khz(
    file: &RtAppFile,
    topology: &Topology,
    frequency: &FrequencySetup,
) -> Result<u64, SimError> {
    let Calibration::Cpu(cpu) = file.calibration else {
        return Ok(frequency.fastest_cpu_khz().into());
    };
    frequency
        .top_speed_khz(cpu)
        .ok_or_else(|| SimError::Workload {
            job: "global".to_owned(),
            what: format!(
                "a calibration on CPU {cpu}: the machine has CPUs 0 to {}",
                topology.cpu_count().saturating_sub(1)
            ),
        })
}
