//! A performance scale as operating points, as amd-pstate sees the CPUs.

use super::{Cluster, Cppc, Machine, Opp};

impl Cluster {
    /// The operating points on a performance scale, one per level. Voltage is constant up to the lowest non-linear
    /// performance, then rises with frequency.
    fn operating_points_on_scale(&self, cppc: &Cppc) -> Vec<Opp> {
        (cppc.lowest..=cppc.highest)
            .map(|performance| {
                let khz = cppc.frequency_at_performance(performance).0;
                let uv = self.microvolts_at(khz, cppc).unwrap_or(0);
                Opp { khz, uv }
            })
            .collect()
    }

    /// Voltage at a clock of the performance scale; `None` for a cluster without voltages.
    fn microvolts_at(&self, khz: u32, cppc: &Cppc) -> Option<u32> {
        let flat = cppc.frequency_at_performance(cppc.lowest_nonlinear).0;
        let top = cppc.frequency_at_performance(cppc.highest).0;
        let low = self.voltage_at(self.opps.first()?)?;
        let high = self.voltage_at(self.opps.last()?)?;
        let above = f64::from(khz.saturating_sub(flat)) / f64::from((top - flat).max(1));
        Some(((low + (high - low) * above) * 1e6).round() as u32)
    }
}

impl Machine {
    /// Gives all CPUs their whole performance scale as operating points, as amd-pstate has it.
    ///
    /// # Errors
    /// Name of the first cluster without a performance scale, and the missing figure.
    pub fn use_scale_as_operating_points(&mut self) -> Result<(), (String, &'static str)> {
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
            cluster.opps = cluster.operating_points_on_scale(cppc);
        }
        Ok(())
    }
}
