//! Policies that a recorded system's kernel ran, under the simulator's names.

use crate::recorded::RecordedSystem;

/// Idle governor and frequency policy of a recorded system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPolicy {
    /// The idle governor, as policy sets name it.
    pub idle: String,
    /// The frequency policy, as policy sets name it.
    pub freq: String,
    /// Note about a substitute for a policy that is not simulated.
    pub stands_in: Option<String>,
}

/// Simulated idle governors.
const IDLE: [&str; 4] = ["menu", "teo", "ladder", "haltpoll"];
/// Simulated cpufreq governors.
const GOVERNORS: [&str; 4] = ["schedutil", "ondemand", "performance", "powersave"];

/// Governors that are simulated with amd-pstate in passive mode.
const AMD_GOVERNORS: [&str; 3] = ["schedutil", "performance", "powersave"];

impl RecordedSystem {
    /// The policy that the recorded kernel ran, from driver, governor, energy-performance preference and HWP boost.
    pub fn kernel_policy_or_stand_in(&self) -> KernelPolicy {
        let idle = self.idle.as_ref().map_or("menu", |idle| &idle.governor);
        let mut stands_in = Vec::new();
        // Notes a policy that is not simulated, and returns the substitute.
        let mut substitute = |kind: &str, recorded: &str, instead: &'static str| {
            stands_in.push(format!(
                "{} ran {kind} {recorded}, which is not simulated; {instead} stands in for it",
                self.name
            ));
            instead.to_owned()
        };
        let idle = match IDLE.iter().find(|known| **known == idle) {
            Some(known) => (*known).to_owned(),
            None => substitute("the idle governor", idle, "menu"),
        };
        let freq = match self.frequency.first() {
            None => "schedutil".to_owned(),
            Some(policy) => match (policy.driver.as_str(), policy.governor.as_str()) {
                ("intel_pstate", "performance") => "performance".to_owned(),
                ("intel_pstate", _) if policy.epp.is_none() => "intel_pstate".to_owned(),
                ("intel_pstate", _) => self.hwp_policy_with_boost_and_epp(policy.epp.as_deref()),
                ("acpi-cpufreq" | "intel_cpufreq", governor) if GOVERNORS.contains(&governor) => {
                    governor.to_owned()
                }
                // In active mode amd-pstate's performance governor writes its own preference.
                ("amd-pstate-epp", "performance") => "amd-pstate[governor=performance]".to_owned(),
                ("amd-pstate-epp", _) => match policy.epp.as_deref() {
                    Some("default") | None => "amd-pstate".to_owned(),
                    Some(epp) => format!("amd-pstate[epp={epp}]"),
                },
                // amd-pstate's guided mode has the same driver name as passive mode.
                ("amd-pstate", governor) if AMD_GOVERNORS.contains(&governor) => {
                    format!("amd-pstate[mode=passive,governor={governor}]")
                }
                (driver, governor) => {
                    let instead = match governor {
                        "performance" => "performance",
                        _ => "schedutil",
                    };
                    substitute(driver, &format!("with {governor}"), instead)
                }
            },
        };
        KernelPolicy {
            idle,
            freq,
            stands_in: (!stands_in.is_empty()).then(|| stands_in.join("; ")),
        }
    }

    /// Whether HWP has a preference between that for speed alone, 0, and the usual 128, as a number.
    pub(crate) fn prefers_speed_by_hwp(&self) -> bool {
        let Some(policy) = self.frequency.first() else {
            return false;
        };
        let register = self.processor.as_ref().and_then(|p| p.epp).map(u64::from);
        let epp = register.or_else(|| policy.epp.as_ref()?.parse().ok());
        policy.governor != "performance" && epp.is_some_and(|epp| (1..128).contains(&epp))
    }

    /// The policy text for HWP with this preference. The value in the register counts, because the kernel gives its
    /// names other values on some processors.
    fn hwp_policy_with_boost_and_epp(&self, epp: Option<&str>) -> String {
        let register = self.processor.as_ref().and_then(|p| p.epp);
        let epp = match (register, epp) {
            (Some(value), _) => value.to_string(),
            (None, Some("default") | None) => "balance_performance".to_owned(),
            (None, Some(name)) => name.to_owned(),
        };
        let boost = match self.hwp_dynamic_boost {
            Some(true) => "on",
            _ => "off",
        };
        format!("intel_pstate-hwp[hwp_dynamic_boost={boost},epp={epp}]")
    }
}

#[cfg(test)]
mod tests {
    use crate::recorded;

    #[test]
    fn a_system_runs_what_its_record_names() {
        for (name, idle, freq) in [
            (
                "spr1",
                "menu",
                "intel_pstate-hwp[hwp_dynamic_boost=on,epp=32]",
            ),
            (
                "adl0",
                "menu",
                "intel_pstate-hwp[hwp_dynamic_boost=off,epp=102]",
            ),
            ("gnr3", "ladder", "performance"),
            ("rome0", "menu", "schedutil"),
            ("bdw0", "menu", "schedutil"),
            ("turin0", "menu", "amd-pstate[governor=performance]"),
        ] {
            let policy = recorded::find_recorded_system(name)
                .unwrap()
                .kernel_policy_or_stand_in();
            assert_eq!((policy.idle.as_str(), policy.freq.as_str()), (idle, freq));
            assert_eq!(policy.stands_in, None, "{name}");
        }
    }

    #[test]
    fn what_is_not_simulated_is_told() {
        let mut system = recorded::find_recorded_system("turin0").unwrap().clone();
        "cppc_cpufreq".clone_into(&mut system.frequency[0].driver);
        let policy = system.kernel_policy_or_stand_in();
        assert_eq!(policy.freq, "performance");
        let told = policy.stands_in.unwrap();
        assert!(told.contains("cppc_cpufreq with performance"), "{told}");
        let mut odd = recorded::find_recorded_system("rome0").unwrap().clone();
        "conservative".clone_into(&mut odd.frequency[0].governor);
        let policy = odd.kernel_policy_or_stand_in();
        assert_eq!(policy.freq, "schedutil");
        assert!(policy.stands_in.unwrap().contains("conservative"));
    }
}
