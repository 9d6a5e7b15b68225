//! What a machine's kernel offers without another boot.

use wakepath_hardware::Machine;
use wakepath_policies::freq::FreqPolicy;
use wakepath_policies::freq::amd_pstate::AmdMode;
use wakepath_policies::{PolicySet, PolicySpec};

/// Whether the machine's kernel offers a policy's governor; a silent machine has every governor.
pub(crate) fn kernel_offers_governor(machine: &Machine, policy: &str) -> bool {
    let offered = list_offered_governors(machine, policy);
    let name = policy.split('[').next().unwrap_or(policy);
    offered.is_empty() || offered.iter().any(|governor| governor == name)
}

/// Governors offered by the machine's kernel in place of a policy; empty for other policies and silent machines.
pub(crate) fn list_offered_governors<'a>(machine: &'a Machine, policy: &str) -> &'a [String] {
    match policy.split('[').next().unwrap_or(policy) {
        "menu" | "teo" | "ladder" | "haltpoll" => &machine.idle_governors,
        "schedutil" | "performance" | "powersave" | "ondemand" => &machine.frequency_governors,
        _ => &[],
    }
}

/// Why a captured machine cannot have a frequency policy, as its driver runs now; `None` where it can, for other policies, and for
/// machines that do not tell their governors.
pub(crate) fn explain_policy_of_other_driver(
    machine: &Machine,
    in_force: &PolicySet,
    policy: &str,
) -> Option<String> {
    if machine.frequency_governors.is_empty() {
        return None;
    }
    let wanted = policy
        .parse::<PolicySpec>()
        .ok()?
        .as_frequency_policy()
        .ok()?;
    let running = in_force.frequency()?;
    // The governor `performance` goes with every driver; HWP alone gives a machine these figures.
    let has_hwp_figures = machine.cluster.iter().all(|c| c.hwp_ramp_ms.is_given());
    let runs_hwp = match running {
        FreqPolicy::IntelPstateHwp { .. } => true,
        FreqPolicy::Performance => has_hwp_figures,
        _ => false,
    };
    let scales_under_powersave = match running {
        FreqPolicy::IntelPstate { .. } => true,
        FreqPolicy::AmdPstate(amd) => amd.mode == AmdMode::Active,
        _ => runs_hwp,
    };
    match (wanted, running) {
        (FreqPolicy::IntelPstate { .. }, _) if runs_hwp => {
            Some("needs intel_pstate=no_hwp on the kernel command line".to_owned())
        }
        (FreqPolicy::IntelPstateHwp { .. }, FreqPolicy::IntelPstate { .. }) => Some(
            "intel_pstate runs without HWP: by intel_pstate=no_hwp on the kernel command line, or for want of it"
                .to_owned(),
        ),
        (FreqPolicy::Powersave, _) if scales_under_powersave => {
            Some("this driver's powersave scales with the load".to_owned())
        }
        (FreqPolicy::AmdPstate(other), FreqPolicy::AmdPstate(amd)) if other.mode != amd.mode => {
            let mode = other.mode.name();
            Some(format!("needs amd_pstate={mode} on the kernel command line"))
        }
        _ => None,
    }
}
