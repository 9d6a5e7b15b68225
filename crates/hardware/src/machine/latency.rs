//! Latency requests: how long leaving an idle state may take at most.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wakepath_units::Nanoseconds;

use super::{Fault, Machine, MachineIdleState};

/// The largest request in us: the next number is no request (`PM_QOS_RESUME_LATENCY_NO_CONSTRAINT`,
/// `include/linux/pm_qos.h`, Linux 6.12).
pub const MAX_LATENCY_REQUEST_US: u64 = i32::MAX as u64 - 1;

/// An upper bound on idle exit latency, which the kernel passes to the governor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencyRequest {
    /// Longest exit latency in us, 0 to 2147483646; 0 is state 0.
    pub us: u64,
    /// CPUs with the bound, such as `[0, 1]` (`pm_qos_resume_latency_us`). Absent: all CPUs, as with
    /// `/dev/cpu_dma_latency`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
}

impl LatencyRequest {
    /// A request for the whole system.
    pub const fn system(us: u64) -> Self {
        Self {
            us,
            cpus: Vec::new(),
        }
    }

    fn holds_for(&self, cpu: usize) -> bool {
        self.cpus.is_empty() || self.cpus.contains(&cpu)
    }
}

impl Machine {
    /// The smallest latency request that applies to a CPU; `None` without requests (`cpuidle_governor_latency_req()`,
    /// `drivers/cpuidle/governor.c`, Linux 6.1 and 6.12).
    pub fn latency_request(&self, cpu: usize) -> Option<Nanoseconds> {
        let requests = self.latency_requests.iter().filter(|r| r.holds_for(cpu));
        requests.map(|r| Nanoseconds::from_micros(r.us)).min()
    }

    /// Replaces these CPUs' own request, in us, or removes it, as writing `pm_qos_resume_latency_us` does.
    /// System-wide requests stay in force.
    pub fn set_latency_requests(&mut self, cpus: &[usize], us: Option<u64>) {
        self.latency_requests.retain_mut(|request| {
            let of_system = request.cpus.is_empty();
            request.cpus.retain(|cpu| !cpus.contains(cpu));
            of_system || !request.cpus.is_empty()
        });
        self.latency_requests.extend(us.map(|us| LatencyRequest {
            us,
            cpus: cpus.to_vec(),
        }));
    }

    /// The deepest idle state that a CPU may be in: enabled and within its latency request, or else the shallowest
    /// enabled one.
    pub fn deepest_allowed(&self, cpu: usize) -> Option<usize> {
        let limit = self.latency_request(cpu);
        let enabled = |s: &MachineIdleState| !s.disabled;
        let allowed = |s: &MachineIdleState| {
            enabled(s) && limit.is_none_or(|limit| s.exit_latency_us.micros() <= limit)
        };
        let states = self.idle_states_of(self.cluster_of(cpu)?);
        let deepest = states.iter().rposition(allowed);
        deepest.or_else(|| states.iter().position(enabled))
    }
}

/// Checks that the kernel accepts every request, and that the CPUs exist.
pub(super) fn check(machine: &Machine) -> Result<(), Fault> {
    for request in &machine.latency_requests {
        if request.us > MAX_LATENCY_REQUEST_US {
            let message = format!(
                "{} is not between 0 and {MAX_LATENCY_REQUEST_US}",
                request.us
            );
            return Err(("latency_request.us".to_owned(), message));
        }
        if let Some(cpu) = request.cpus.iter().find(|cpu| **cpu >= machine.cpus()) {
            let message = format!("CPU {cpu} of a machine with {} CPUs", machine.cpus());
            return Err(("latency_request.cpus".to_owned(), message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rk3399(requests: &str) -> Result<Machine, String> {
        let machine = Machine::find("rk3399").unwrap();
        let text = machine.to_toml().unwrap() + requests;
        Machine::parse(&text, "test").map_err(|e| e.to_string())
    }

    #[test]
    fn the_smallest_request_for_a_cpu_counts() {
        let text = "\n[[latency_request]]\nus = 500\n[[latency_request]]\nus = 20\ncpus = [1, 4]\n\
                    [[latency_request]]\nus = 900\ncpus = [2]\n";
        let mut machine = rk3399(text).unwrap();
        let us = |machine: &Machine, cpu| machine.latency_request(cpu).map(|ns| ns.0 / 1000);
        assert_eq!(
            [0, 1, 2, 4].map(|cpu| us(&machine, cpu)),
            [500, 20, 500, 20].map(Some)
        );
        let again = Machine::parse(&machine.to_toml().unwrap(), "again").unwrap();
        assert_eq!(again.latency_requests, machine.latency_requests);
        let all: Vec<usize> = (0..machine.cpus()).collect();
        machine.set_latency_requests(&all, Some(100));
        assert_eq!([0, 1, 5].map(|cpu| us(&machine, cpu)), [100; 3].map(Some));
        machine.set_latency_requests(&all, Some(1000));
        assert_eq!(us(&machine, 1), Some(500));
        machine.latency_requests.clear();
        assert_eq!(us(&machine, 1), None);
    }

    #[test]
    fn the_deepest_state_allowed_is_enabled_and_within_the_request() {
        let deepest = |us: u64, off: &[&str]| {
            let mut machine = Machine::find("rk3399").unwrap();
            machine.disable_idle_states(off).unwrap();
            machine.latency_requests = vec![LatencyRequest::system(us)];
            machine.deepest_allowed(0)
        };
        // WFI takes 1 us to leave, the others 370 and 900.
        assert_eq!(deepest(MAX_LATENCY_REQUEST_US, &[]), Some(2));
        assert_eq!(deepest(370, &[]), Some(1));
        assert_eq!(deepest(0, &[]), Some(0));
        assert_eq!(deepest(0, &["WFI"]), Some(1));
        assert_eq!(deepest(900, &["cluster-sleep"]), Some(1));
    }

    #[test]
    fn a_request_that_cannot_be_is_an_error() {
        for (line, says) in [
            (
                "us = 2147483647",
                "2147483647 is not between 0 and 2147483646",
            ),
            ("us = 20\ncpus = [6]", "CPU 6 of a machine with 6 CPUs"),
            ("us = -1", "-1"),
            ("cpus = [0]", "us"),
            ("us = 20\ncpu = [0]", "cpu"),
            ("us = 20\ncpus = 0", "list"),
        ] {
            let error = rk3399(&format!("\n[[latency_request]]\n{line}\n")).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
