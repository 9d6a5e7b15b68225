//! Whose time the work of an rt-app file is given in.

use wakepath_workloads::rtapp::{Calibration, RtAppFile};

use crate::error::SimError;
use crate::frequency::clocks::cluster::ClusterSetup;

/// Thousands of cycles that the CPU in whose time a file gives its work does in a second, at its highest frequency.
pub(crate) fn calibration_khz(
    file: &RtAppFile,
    clusters: &[ClusterSetup],
    biggest: u32,
) -> Result<u64, SimError> {
    let Calibration::Cpu(cpu) = file.calibration else {
        return Ok(biggest.into());
    };
    let cpus = clusters.iter().map(|c| c.cpus).sum::<usize>();
    let has_it = |c: &&ClusterSetup| (c.first_cpu..c.first_cpu + c.cpus).contains(&cpu);
    let Some(cluster) = clusters.iter().find(has_it) else {
        return Err(SimError::Workload {
            job: "global".to_owned(),
            what: format!(
                "a calibration on CPU {cpu}: the machine has CPUs 0 to {}",
                cpus.saturating_sub(1)
            ),
        });
    };
    let of_cluster = u64::from(cluster.speed.last().copied().unwrap_or(1));
    if cluster.fixed_speed {
        return Ok(of_cluster);
    }
    let [own, highest] = [cluster.own_limit(cpu), cluster.table.highest()].map(|f| u64::from(f.0));
    Ok((of_cluster * own / highest.max(1)).max(1))
}
