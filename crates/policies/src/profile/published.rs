//! Profiles, as published by their tools.
//!
//! `TuneD`: `profiles/NAME/tuned.conf`. With `governor=schedutil|ondemand|powersave` the first governor offered by
//! the machine is used. The drivers `intel_pstate` and `amd-pstate-epp` use the name `powersave` for load-following
//! algorithms; the names here are `intel_pstate-hwp`, `intel_pstate` and `amd-pstate[governor=powersave]`.
//! `force_latency=cstate.id_no_zero:1|3` is the exit latency of state 1, or 3 us without such a state or with exit
//! latency 0.
//!
//! power-profiles-daemon: `src/ppd-driver-intel-pstate.c` and `src/ppd-driver-amd-pstate.c`.

use super::declaration::{Profile, Tool};

static TUNED: Tool = Tool {
    name: "tuned",
    title: "TuneD 2.28",
};
static POWER_PROFILES: Tool = Tool {
    name: "power-profiles",
    title: "power-profiles-daemon 0.23",
};

pub(super) static TOOLS: &[&Tool] = &[&TUNED, &POWER_PROFILES];

const STATE_1: &[&str] = &["cpu-latency[limit=3us,state=1]"];
const EPP_PERFORMANCE: &[&str] = &["epp[value=performance]"];
const EPP_BALANCED: &[&str] = &["epp[value=balance_performance]"];
const EPP_POWER: &[&str] = &["epp[value=power]"];
/// `schedutil|ondemand|powersave`.
const ON_DEMAND: &[&str] = &[
    "schedutil",
    "ondemand",
    "intel_pstate-hwp",
    "intel_pstate",
    "amd-pstate[governor=powersave]",
    "powersave",
];
/// Policies for `schedutil|conservative|powersave` in `TuneD`; no policy stands for `conservative`.
const SAVING: &[&str] = &[
    "schedutil",
    "intel_pstate-hwp",
    "intel_pstate",
    "amd-pstate[governor=powersave]",
    "powersave",
];
/// Policies for the governor `performance` in `TuneD`; AMD's driver has it as a setting.
const PERFORMANCE: &[&str] = &["amd-pstate[governor=performance]", "performance"];
/// Governors that power-profiles-daemon sets along with an energy-performance preference.
const SCALING: &[&str] = &["intel_pstate-hwp", "amd-pstate[governor=powersave]"];
/// Governors that power-profiles-daemon sets in the profile `performance`.
const SCALING_FAST: &[&str] = &["intel_pstate-hwp", "amd-pstate[governor=performance]"];

const fn tuned_profile(text: &'static str, summary: &'static str, source: &'static str) -> Profile {
    Profile {
        tool: &TUNED,
        text,
        summary,
        source,
        policies: &[],
        others: &[],
    }
}

const fn power_profiles_daemon_profile(
    text: &'static str,
    summary: &'static str,
    policies: &'static [&'static [&'static str]],
    others: &'static [&'static str],
) -> Profile {
    Profile {
        tool: &POWER_PROFILES,
        text,
        summary,
        source: "src/ppd-driver-intel-pstate.c, src/ppd-driver-amd-pstate.c",
        policies,
        others,
    }
}

/// All profiles of other tools, in listing order.
pub static PROFILES: &[Profile] = &[
    Profile {
        policies: &[ON_DEMAND, EPP_BALANCED],
        others: &[
            "energy_perf_bias=normal",
            "boost=1",
            "platform_profile=balanced",
            "alpm=med_power_with_dipm",
            "[audio] timeout=10",
            "[video] radeon_powersave=dpm-balanced, panel_power_savings=0",
        ],
        ..tuned_profile(
            "tuned[balanced]",
            "the default: performance as the load asks for it",
            "profiles/balanced/tuned.conf",
        )
    },
    Profile {
        policies: &[ON_DEMAND, &["epp[value=balance_power]"]],
        others: &[
            "energy_perf_bias=normal",
            "boost=1",
            "platform_profile=balanced",
            "alpm=med_power_with_dipm",
            "[audio] timeout=10",
            "[video] radeon_powersave=dpm-balanced, panel_power_savings=1",
        ],
        ..tuned_profile(
            "tuned[balanced-battery]",
            "balanced, inclined to save power",
            "profiles/balanced-battery/tuned.conf",
        )
    },
    Profile {
        policies: &[SAVING, EPP_POWER],
        others: &[
            "boost=0 (no turbo)",
            "energy_perf_bias=powersave|power",
            "platform_profile=low-power|quiet",
            "alpm=med_power_with_dipm",
            "[audio] timeout=10",
            "[video] radeon_powersave=dpm-battery, panel_power_savings=3",
            "vm.dirty_writeback_centisecs=1500",
            "kernel.nmi_watchdog=0",
            "power saving of Wi-Fi",
        ],
        ..tuned_profile(
            "tuned[powersave]",
            "little power",
            "profiles/powersave/tuned.conf",
        )
    },
    Profile {
        policies: &[PERFORMANCE, STATE_1],
        others: &[
            "energy_perf_bias=performance",
            "min_perf_pct=100",
            "boost=1",
            "platform_profile=performance",
            "[vm] dirty_bytes=10%, dirty_background_bytes=3%",
            "vm.swappiness=10",
            "[video] panel_power_savings=0",
        ],
        ..tuned_profile(
            "tuned[latency-performance]",
            "short latencies, at the price of power",
            "profiles/latency-performance/tuned.conf",
        )
    },
    Profile {
        policies: &[PERFORMANCE, STATE_1],
        others: &[
            "what tuned[latency-performance] sets more",
            "[vm] transparent_hugepages=never",
            "net.core.busy_read=50",
            "net.core.busy_poll=50",
            "net.ipv4.tcp_fastopen=3",
            "kernel.numa_balancing=0",
            "kernel.hung_task_timeout_secs=600",
            "kernel.nmi_watchdog=0",
            "vm.stat_interval=10",
            "kernel.timer_migration=0",
            "boot parameters skew_tick, tsc, rcupdate, rcutree",
        ],
        ..tuned_profile(
            "tuned[network-latency]",
            "latency-performance with settings of the network",
            "profiles/network-latency/tuned.conf",
        )
    },
    Profile {
        policies: &[PERFORMANCE, EPP_PERFORMANCE],
        others: &[
            "energy_perf_bias=performance",
            "min_perf_pct=100",
            "boost=1",
            "platform_profile=performance",
            "[vm] dirty_bytes=40%, dirty_background_bytes=10%",
            "[disk] readahead=>4096",
            "vm.swappiness=10",
            "net.core.somaxconn=>2048",
            "[video] panel_power_savings=0",
        ],
        ..tuned_profile(
            "tuned[throughput-performance]",
            "the default of servers: high throughput",
            "profiles/throughput-performance/tuned.conf",
        )
    },
    power_profiles_daemon_profile(
        "power-profiles[performance]",
        "high performance",
        &[SCALING_FAST, EPP_PERFORMANCE],
        &[
            "energy_perf_bias=0",
            "platform_profile=performance",
            "on amd-pstate-epp: boost=1, lowest frequency to the lowest non-linear one",
        ],
    ),
    power_profiles_daemon_profile(
        "power-profiles[balanced]",
        "the default: performance as the load asks for it (on battery the EPP is balance_power)",
        &[SCALING, EPP_BALANCED],
        &[
            "energy_perf_bias=6",
            "platform_profile=balanced",
            "on amd-pstate-epp: boost=1, lowest frequency to the lowest non-linear one",
        ],
    ),
    power_profiles_daemon_profile(
        "power-profiles[power-saver]",
        "little power",
        &[SCALING, EPP_POWER],
        &[
            "energy_perf_bias=15",
            "platform_profile=low-power",
            "on amd-pstate-epp: boost=0",
            "amdgpu: panel_power_savings, performance level low",
            "USB chargers: trickle charge",
        ],
    ),
];
