//! Patterns of the files that say something about power and latency: `*` stands for any name in its place. Serial
//! numbers and other names of a single device are left out, so that a captured machine can be shown to others.
//!
//! Serial numbers and other names of a single device are left out, so that a captured machine can be shown
//! to others.

/// Files copied unchanged.
pub(super) const FILES: &[&str] = &[
    // Patterns of files about CPUs, idle states and frequencies.
    "sys/devices/system/cpu/{online,possible,present,isolated,nohz_full}",
    "sys/devices/system/cpu/smt/{active,control}",
    "sys/devices/system/cpu/cpuidle/*",
    "sys/devices/system/cpu/cpu*/cpuidle/state*/*",
    "sys/devices/system/cpu/cpu*/cpu_capacity",
    "sys/devices/system/cpu/cpu*/power/{pm_qos_resume_latency_us,energy_perf_bias}",
    "sys/devices/system/cpu/cpu*/topology/{physical_package_id,core_id,cluster_id,core_cpus_list,thread_siblings_list,cluster_cpus_list,package_cpus_list}",
    "sys/devices/system/cpu/cpu*/cache/index*/{level,type,size,shared_cpu_list}",
    "sys/devices/system/cpu/cpu*/acpi_cppc/*",
    "sys/devices/cpu_*/cpus",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/cpu/cpufreq/policy*/*",
    "sys/devices/system/cpu/cpufreq/policy*/{stats,schedutil}/*",
    "sys/devices/system/cpu/intel_pstate/*",
    "sys/devices/system/cpu/amd_pstate/*",
    "sys/kernel/debug/energy_model/*/*",
    "sys/kernel/debug/energy_model/*/*/*",
    // Patterns of files with parameters of relevant kernel modules.
    "sys/module/{cpuidle,haltpoll,cpuidle_haltpoll,intel_idle,processor,nvme,nvme_core,rcutree}/parameters/*",
    // Patterns of files about drives, queues and interrupts.
    "sys/class/nvme/nvme*/{model,firmware_rev,state,transport,queue_count,numa_node,quirks}",
    "sys/class/nvme/nvme*/power/{control,pm_qos_latency_tolerance_us,runtime_status}",
    "sys/class/nvme/nvme*/device/{vendor,device,subsystem_vendor,subsystem_device,numa_node,current_link_speed,current_link_width,max_link_speed,max_link_width}",
    "sys/class/nvme/nvme*/device/link/*",
    "sys/module/pcie_aspm/parameters/policy",
    "sys/block/*/{stat,size,ro}",
    "sys/block/*/queue/{rotational,scheduler,rq_affinity,nomerges,nr_requests,logical_block_size,io_poll,io_poll_delay,wbt_lat_usec,write_cache,read_ahead_kb}",
    "sys/block/*/mq/*/cpu_list",
    "proc/interrupts",
    "proc/irq/*/{smp_affinity_list,effective_affinity_list}",
    // Power.
    "sys/class/powercap/*/{name,energy_uj,max_energy_range_uj,enabled}",
    "sys/class/powercap/*/{constraint_0_name,constraint_0_power_limit_uw,constraint_0_time_window_us}",
    "sys/class/powercap/*/{constraint_1_name,constraint_1_power_limit_uw,constraint_1_time_window_us}",
    "sys/class/power_supply/*/{type,scope,online,status}",
    // Patterns of files that identify machine and kernel.
    "sys/class/dmi/id/{sys_vendor,product_name,board_vendor,board_name,chassis_type}",
    "sys/firmware/acpi/pm_profile",
    "sys/hypervisor/type",
    "proc/device-tree/{model,compatible,chassis-type}",
    "proc/device-tree/hypervisor/compatible",
    "sys/devices/system/clocksource/clocksource0/{current_clocksource,available_clocksource}",
    "proc/cpuinfo",
    "proc/uptime",
    "proc/sys/kernel/{osrelease,ostype}",
];

/// Beginnings of the relevant options in the kernel's configuration.
pub(super) const CONFIG: &[&str] = &[
    "CONFIG_HZ",
    "CONFIG_NO_HZ",
    "CONFIG_CPU_IDLE",
    "CONFIG_CPU_FREQ",
    "CONFIG_INTEL_IDLE",
    "CONFIG_X86_INTEL_PSTATE",
    "CONFIG_X86_AMD_PSTATE",
    "CONFIG_ENERGY_MODEL",
    "CONFIG_PREEMPT",
    "CONFIG_HIGH_RES_TIMERS",
];

/// Beginnings of the words on the kernel's command line that are captured; others may name disks or people.
pub(super) const COMMAND_LINE: &[&str] = &[
    "intel_idle.",
    "intel_pstate",
    "amd_pstate",
    "processor.",
    "cpuidle.",
    "cpuidle_haltpoll.",
    "haltpoll.",
    "cpufreq.",
    "idle=",
    "nohlt",
    "hlt",
    "nohz",
    "isolcpus",
    "irqaffinity",
    "rcu_nocb",
    "amd_prefcore",
    "nvme",
    "pcie_aspm",
    "mitigations",
    "nosmt",
    "maxcpus",
    "threadirqs",
    "skew_tick",
    "tsc",
    "highres",
];

/// Expands braces: `a/{b,c}/d` becomes `a/b/d` and `a/c/d`. Braces are not nested and appear any number of times.
pub(super) fn expand_braces(pattern: &str) -> Vec<String> {
    let Some((head, rest)) = pattern.split_once('{') else {
        return vec![pattern.to_owned()];
    };
    let (choices, tail) = rest.split_once('}').unwrap_or((rest, ""));
    choices
        .split(',')
        .flat_map(|choice| expand_braces(&format!("{head}{choice}{tail}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_choices() {
        assert_eq!(
            expand_braces("a/{b,c}/{d,e}"),
            ["a/b/d", "a/b/e", "a/c/d", "a/c/e"]
        );
        assert_eq!(expand_braces("a/*"), ["a/*"]);
    }
}
