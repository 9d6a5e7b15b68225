//! Latency requests: how long leaving an idle state may take at most.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// A latency request for the whole system.
    pub const fn system_wide(us: u64) -> Self {
        Self {
            us,
            cpus: Vec::new(),
        }
    }

    pub(super) fn applies_to_cpu(&self, cpu: usize) -> bool {
        self.cpus.is_empty() || self.cpus.contains(&cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

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
        let us =
            |machine: &Machine, cpu| machine.smallest_latency_request(cpu).map(|ns| ns.0 / 1000);
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
            machine.disable_idle_states_everywhere(off).unwrap();
            machine.latency_requests = vec![LatencyRequest::system_wide(us)];
            machine.deepest_allowed_idle_state(0)
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
