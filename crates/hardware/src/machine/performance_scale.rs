//! A performance scale as operating points, as amd-pstate sees the CPUs.

use super::{Cluster, Cppc, Machine, Opp};

impl Cluster {
    /// Operating points, one per performance level. Voltage is constant up to the lowest non-linear performance, then
    /// rises with frequency.
    fn points_of(&self, cppc: &Cppc) -> Vec<Opp> {
        let (flat, top) = (
            cppc.frequency(cppc.lowest_nonlinear).0,
            cppc.frequency(cppc.highest).0,
        );
        let voltage = |khz: u32| {
            let (Some(first), Some(last)) = (self.opps.first(), self.opps.last()) else {
                return 0;
            };
            let (Some(low), Some(high)) = (self.volts(first), self.volts(last)) else {
                return 0;
            };
            let above = f64::from(khz.saturating_sub(flat)) / f64::from((top - flat).max(1));
            ((low + (high - low) * above) * 1e6).round() as u32
        };
        (cppc.lowest..=cppc.highest)
            .map(|performance| {
                let khz = cppc.frequency(performance).0;
                Opp {
                    khz,
                    uv: voltage(khz),
                }
            })
            .collect()
    }
}

impl Machine {
    /// Gives the CPUs their whole performance scale as operating points, as amd-pstate has it.
    ///
    /// # Errors
    /// Name of the first cluster without a performance scale, and the missing figure.
    pub fn use_performance_scale(&mut self) -> Result<(), (String, &'static str)> {
        for cluster in &mut self.cluster {
            let Some(cppc) = &cluster.cppc else {
                return Err((cluster.name.clone(), "CPPC performance scale (cppc)"));
            };
            if cppc.nominal_mhz == 0 {
                return Err((
                    cluster.name.clone(),
                    "nominal frequency of its firmware (cppc.nominal_mhz), without which the driver does not load",
                ));
            }
            cluster.opps = cluster.points_of(cppc);
        }
        Ok(())
    }
}
