//! Settings for latency requests: of the whole system, or of CPUs.

use wakepath_policies::latency::{CpuLatency, LatencyScope};
use wakepath_system::At;
use wakepath_system::setting::{self, NO_SYSTEM_LATENCY_LIMIT_US};
use wakepath_units::Nanoseconds;

use super::target::{SettingsBuilder, check_cpus_online};
use crate::SettingsError;

impl SettingsBuilder<'_> {
    /// Asks for a latency limit. The name of a state means the state of each CPU; for the whole system, of the first
    /// CPU.
    pub(super) fn add_wanted_cpu_latency_limits(
        &mut self,
        latency: &CpuLatency,
    ) -> Result<(), SettingsError> {
        let places = match &latency.scope {
            LatencyScope::System if self.targets.cpus.is_some() => {
                return Err(self.policy_error(
                    "without `cpus` it holds for the whole system, whatever --cpus says; \
                     cpu-latency[limit=20us,cpus=all] holds for those of --cpus",
                ));
            }
            LatencyScope::System => {
                let first = self.system.cpus().first().copied().unwrap_or(0);
                let limit = self.resolve_latency_limit_us(latency, first)?;
                let us = limit.unwrap_or(NO_SYSTEM_LATENCY_LIMIT_US);
                return self.add_wanted_value_at_selected_places("system-latency", &us.to_string());
            }
            LatencyScope::EachCpu => self.selected_existing_places("cpu-latency", |_| true)?,
            LatencyScope::Cpus(cpus) => {
                check_cpus_online(self.system, cpus).map_err(|why| self.policy_error(why))?;
                self.selected_existing_places(
                    "cpu-latency",
                    |at| matches!(at, At::Cpu(cpu) if cpus.contains(cpu)),
                )?
            }
        };
        for at in places {
            if let At::Cpu(cpu) = at {
                let limit = self.resolve_latency_limit_us(latency, cpu)?;
                self.add_wanted_value("cpu-latency", at, setting::format_resume_latency(limit));
            }
        }
        Ok(())
    }

    /// The latency limit in us, by the idle states of a CPU.
    fn resolve_latency_limit_us(
        &self,
        latency: &CpuLatency,
        cpu: usize,
    ) -> Result<Option<u64>, SettingsError> {
        let states = self.system.read_idle_states(cpu);
        let latencies = states.iter().map(|s| (s.name.as_str(), s.exit_latency()));
        latency
            .limit
            .resolve_for_states(latencies)
            .map(|limit| limit.map(Nanoseconds::as_micros))
            .map_err(|why| self.policy_error(why.to_string()))
    }
}
