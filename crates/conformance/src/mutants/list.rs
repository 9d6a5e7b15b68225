//! The alterations of the kernel's text, each of which the comparison must notice.
//!
//! An alteration whose text no longer occurs is an error, so that the list cannot go stale.

use crate::program::Alteration;
use crate::subject::Subject;
use crate::subject::Subject::{
    AmdPstate, Apst, Haltpoll, HaltpollLimit, HwpBoost, IntelPstate, Ladder, Menu, PollLimit,
    SchedutilBoost, Teo,
};

/// Kernel versions that have the altered text, as Debian names their source packages.
type KernelVersions = &'static [&'static str];

// Nothing of 7.2 is altered: its compared code is the same in 7.3.
const ALL: KernelVersions = &["6.1", "6.12", "7.3"];
const UP_TO_6_12: KernelVersions = &["6.1", "6.12"];
const FROM_6_12: KernelVersions = &["6.12", "7.3"];
const ONLY_6_1: KernelVersions = &["6.1"];
const ONLY_6_12: KernelVersions = &["6.12"];
const ONLY_7_3: KernelVersions = &["7.3"];

/// Header that menu and teo share from 6.12 on.
const GOV_H: &str = "drivers/cpuidle/governors/gov.h";

/// An alteration of kernel code that the comparison must notice.
#[derive(Clone, Copy)]
pub(super) struct Mutant {
    pub(super) subject: Subject,
    /// Kernel versions that have the altered text.
    pub(super) versions: KernelVersions,
    pub(super) alteration: Alteration,
}

const fn mutant_of_file(
    subject: Subject,
    versions: KernelVersions,
    from: &'static str,
    to: &'static str,
) -> Mutant {
    Mutant {
        subject,
        versions,
        alteration: Alteration {
            file: subject.kernel_file(),
            from,
            to,
        },
    }
}

const fn mutant_of_shared_header(
    subject: Subject,
    versions: KernelVersions,
    from: &'static str,
    to: &'static str,
) -> Mutant {
    Mutant {
        subject,
        versions,
        alteration: Alteration {
            file: GOV_H,
            from,
            to,
        },
    }
}

#[rustfmt::skip]
pub(super) const MUTANTS: &[Mutant] = &[
    mutant_of_file(Menu, ALL, "#define DECAY 8", "#define DECAY 9"),
    mutant_of_file(Menu, ALL, "#define INTERVAL_SHIFT 3", "#define INTERVAL_SHIFT 2"),
    mutant_of_file(Menu, ALL, "(50000 * NSEC_PER_USEC)", "(49000 * NSEC_PER_USEC)"),
    mutant_of_file(Menu, ALL, "divisor * 4 <= INTERVALS * 3", "divisor * 4 < INTERVALS * 3"),
    mutant_of_file(Menu, UP_TO_6_12, "> variance*36)", "> variance*35)"),
    mutant_of_file(Menu, ONLY_7_3, "avg_sq > variance * 36", "avg_sq > variance * 35"),
    mutant_of_file(Menu, ONLY_7_3, "avg - min > max - avg", "avg - min >= max - avg"),
    mutant_of_file(Menu, ONLY_7_3, "max_thresh = max;", "max_thresh = max - 1;"),
    mutant_of_file(Menu, ONLY_7_3, "min_thresh = min;", "min_thresh = min + 1;"),
    // Without this line the kernel's governor loops forever.
    mutant_of_file(Menu, ONLY_7_3, "min_thresh = min;", ";"),
    mutant_of_file(Menu, ONLY_7_3, "s->exit_latency_ns <= predicted_ns", "s->exit_latency_ns < predicted_ns"),
    mutant_of_file(Menu, ALL, "variance <= 400)", "variance <= 380)"),
    mutant_of_file(Menu, ALL, "if (s->exit_latency_ns > latency_req)", "if (s->exit_latency_ns >= latency_req)"),
    mutant_of_file(Menu, ALL, "< 10000ULL * NSEC_PER_USEC", "<= 10000ULL * NSEC_PER_USEC"),
    mutant_of_file(
        Menu, ALL,
        "measured_ns > 2 * target->exit_latency_ns",
        "measured_ns > 3 * target->exit_latency_ns",
    ),
    mutant_of_file(Menu, ONLY_6_1, "return 1 + 10 * nr_iowaiters", "return 1 + 9 * nr_iowaiters"),
    mutant_of_file(Menu, ONLY_6_1, "bucket = BUCKETS/2", "bucket = 0"),
    mutant_of_file(Teo, ALL, "#define PULSE\t\t1024", "#define PULSE\t\t1000"),
    mutant_of_file(Teo, ALL, "#define DECAY_SHIFT\t3", "#define DECAY_SHIFT\t2"),
    mutant_of_file(Teo, ALL, "measured_ns -= lat_ns / 2", "measured_ns -= lat_ns / 3"),
    mutant_of_file(
        Teo, UP_TO_6_12,
        "time_span_ns >= cpu_data->sleep_length_ns",
        "time_span_ns > cpu_data->sleep_length_ns",
    ),
    mutant_of_file(Teo, ALL, "if (s->exit_latency_ns <= latency_req)", "if (s->exit_latency_ns < latency_req)"),
    mutant_of_file(Teo, ONLY_6_1, "#define NR_RECENT\t9", "#define NR_RECENT\t8"),
    mutant_of_file(
        Teo, ONLY_6_1,
        "alt_recent = idx_recent_sum > NR_RECENT / 2",
        "alt_recent = idx_recent_sum >= NR_RECENT / 2",
    ),
    mutant_of_file(
        Teo, FROM_6_12,
        "if (2 * idx_intercept_sum > cpu_data->total - idx_hit_sum)",
        "if (2 * idx_intercept_sum >= cpu_data->total - idx_hit_sum)",
    ),
    mutant_of_file(
        Teo, ONLY_7_3,
        "3 * cpu_data->total_tick > 2 * cpu_data->total",
        "3 * cpu_data->total_tick > cpu_data->total",
    ),
    mutant_of_file(
        Teo, ONLY_7_3,
        "3 * cpu_data->tick_intercepts < 2 * total",
        "3 * cpu_data->tick_intercepts < total",
    ),
    mutant_of_file(
        Teo, ONLY_7_3,
        "3 * cpu_data->tick_intercepts >= 2 * cpu_data->total",
        "3 * cpu_data->tick_intercepts >= cpu_data->total",
    ),
    mutant_of_file(Teo, ONLY_7_3, "measured_ns <= TICK_NSEC", "measured_ns < TICK_NSEC - 1000"),
    mutant_of_file(Teo, ONLY_7_3, "prev_intercepts >= intercept_max", "prev_intercepts > intercept_max"),
    mutant_of_file(Teo, ONLY_7_3, "i <= intercept_max_idx", "i < intercept_max_idx"),
    mutant_of_file(
        Teo, ONLY_7_3,
        "2 * cpu_data->short_idles >= cpu_data->total",
        "cpu_data->short_idles >= cpu_data->total",
    ),
    mutant_of_file(
        Teo, ONLY_7_3,
        "#define LATENCY_THRESHOLD_NS\t(RESIDENCY_THRESHOLD_NS / 2)",
        "#define LATENCY_THRESHOLD_NS\t(RESIDENCY_THRESHOLD_NS)",
    ),
    mutant_of_file(Teo, ONLY_7_3, "< lat_ns / 2)", "< lat_ns / 3)"),
    mutant_of_file(Teo, ONLY_7_3, "\t\t*metric = 0;", "\t\t*metric -= 0;"),
    mutant_of_file(
        Teo, ONLY_6_12,
        "cpu_data->total / 2 + cpu_data->total / 8",
        "cpu_data->total / 2 + cpu_data->total / 7",
    ),
    mutant_of_file(Teo, ONLY_6_12, "cpu_data->tick_hits >> DECAY_SHIFT", "cpu_data->tick_hits >> 2"),
    mutant_of_file(Ladder, ALL, "#define PROMOTION_COUNT 4", "#define PROMOTION_COUNT 5"),
    mutant_of_file(Ladder, ALL, "#define DEMOTION_COUNT 1", "#define DEMOTION_COUNT 2"),
    mutant_of_file(
        Ladder, ALL,
        "last_residency > last_state->threshold.promotion_time_ns",
        "last_residency >= last_state->threshold.promotion_time_ns",
    ),
    mutant_of_file(HaltpollLimit, ALL, "grow_start __read_mostly = 50000", "grow_start __read_mostly = 49999"),
    mutant_of_file(
        HaltpollLimit, ALL,
        "halt_poll_ns __read_mostly = 200000",
        "halt_poll_ns __read_mostly = 199999",
    ),
    mutant_of_file(Haltpoll, ALL, "block_ns <= guest_halt_poll_ns", "block_ns < guest_halt_poll_ns"),
    mutant_of_file(
        Haltpoll, ALL,
        "dev->poll_limit_ns * guest_halt_poll_grow",
        "dev->poll_limit_ns + guest_halt_poll_grow",
    ),
    mutant_of_file(
        HaltpollLimit, ALL,
        "guest_halt_poll_grow __read_mostly = 2",
        "guest_halt_poll_grow __read_mostly = 3",
    ),
    mutant_of_file(
        HaltpollLimit, ALL,
        "guest_halt_poll_shrink __read_mostly = 2",
        "guest_halt_poll_shrink __read_mostly = 3",
    ),
    mutant_of_file(
        HaltpollLimit, ALL,
        "if (val < guest_halt_poll_grow_start)\n\t\t\tval = guest_halt_poll_grow_start",
        "if (val > guest_halt_poll_grow_start)\n\t\t\tval = guest_halt_poll_grow_start",
    ),
    mutant_of_file(PollLimit, ALL, "#define CPUIDLE_POLL_MIN 10000", "#define CPUIDLE_POLL_MIN 9999"),
    mutant_of_file(PollLimit, ALL, "(TICK_NSEC / 16)", "(TICK_NSEC / 15)"),
    mutant_of_file(PollLimit, ALL, "state_limit < CPUIDLE_POLL_MIN", "state_limit <= CPUIDLE_POLL_MIN"),
    mutant_of_file(SchedutilBoost, ALL, "(SCHED_CAPACITY_SCALE / 8)", "(SCHED_CAPACITY_SCALE / 9)"),
    mutant_of_file(SchedutilBoost, ALL, "delta_ns <= TICK_NSEC", "delta_ns < TICK_NSEC"),
    mutant_of_file(SchedutilBoost, ALL, "sg_cpu->iowait_boost << 1", "sg_cpu->iowait_boost << 2"),
    mutant_of_file(SchedutilBoost, ALL, "sg_cpu->iowait_boost >>= 1", "sg_cpu->iowait_boost >>= 2"),
    mutant_of_file(HwpBoost, ALL, "3 * NSEC_PER_MSEC", "3 * NSEC_PER_MSEC - 1"),
    mutant_of_file(HwpBoost, ALL, "2 * TICK_NSEC", "2 * TICK_NSEC + 1"),
    mutant_of_file(HwpBoost, ALL, "+ min_limit) >> 1", "+ min_limit + 1) >> 1"),
    mutant_of_file(HwpBoost, ALL, "cpu->hwp_boost_min < boost_level1", "cpu->hwp_boost_min <= boost_level1"),
    mutant_of_file(IntelPstate, ALL, "(FRAC_BITS - 3)", "(FRAC_BITS - 2)"),
    mutant_of_file(IntelPstate, ALL, "cpu->iowait_boost >= ONE_EIGHTH_FP", "cpu->iowait_boost > ONE_EIGHTH_FP"),
    mutant_of_file(IntelPstate, ALL, "cpu->iowait_boost >>= 1", "cpu->iowait_boost >>= 2"),
    mutant_of_file(IntelPstate, ALL, "(10 * NSEC_PER_MSEC)", "(10 * NSEC_PER_MSEC + 1)"),
    mutant_of_file(IntelPstate, ALL, "target += target >> 2", "target += target >> 3"),
    mutant_of_file(IntelPstate, ALL, "(avg_pstate - target) >> 1", "(avg_pstate - target) >> 2"),
    mutant_of_file(IntelPstate, ALL, "if (busy_frac < cpu->iowait_boost)", "if (busy_frac > cpu->iowait_boost)"),
    mutant_of_file(
        AmdPstate, FROM_6_12,
        "DIV_ROUND_UP(cap_perf * target_perf, capacity)",
        "(cap_perf * target_perf / capacity)",
    ),
    mutant_of_file(AmdPstate, FROM_6_12, "min_perf = des_perf;", "min_perf = min_perf;"),
    mutant_of_file(
        AmdPstate, ONLY_6_12,
        "DIV_ROUND_CLOSEST(target_freq * cap_perf,",
        "DIV_ROUND_UP(target_freq * cap_perf,",
    ),
    mutant_of_file(
        AmdPstate, ONLY_6_12,
        "min_perf = lowest_nonlinear_perf;",
        "min_perf = lowest_nonlinear_perf + 1;",
    ),
    mutant_of_file(
        AmdPstate, ONLY_6_12,
        "lowest_nonlinear_freq <= min_freq",
        "lowest_nonlinear_freq < min_freq",
    ),
    mutant_of_file(
        AmdPstate, ONLY_6_12,
        "min_perf = min(cpudata->nominal_perf, max_perf);",
        "min_perf = max_perf;",
    ),
    mutant_of_file(
        AmdPstate, ONLY_7_3,
        "DIV_ROUND_UP_ULL((u64)freq_val * perf.nominal_perf, nominal_freq)",
        "div_u64((u64)freq_val * perf.nominal_perf, nominal_freq)",
    ),
    mutant_of_file(AmdPstate, ONLY_7_3, "perf.bios_min_perf ?: perf.nominal_perf", "perf.nominal_perf"),
    mutant_of_file(AmdPstate, ONLY_7_3, "if (max_perf < min_perf)", "if (max_perf > min_perf)"),
    mutant_of_file(AmdPstate, ONLY_7_3, "max_perf, 0, fast_switch", "max_perf, 1, fast_switch"),
    mutant_of_file(Apst, ALL, "apst_primary_latency_tol_us = 15000", "apst_primary_latency_tol_us = 14999"),
    mutant_of_file(Apst, ALL, "apst_primary_timeout_ms = 100", "apst_primary_timeout_ms = 101"),
    mutant_of_file(Apst, ALL, "default_ps_max_latency_us = 100000", "default_ps_max_latency_us = 99999"),
    mutant_of_file(Apst, ALL, "total_latency_us + 19", "total_latency_us + 18"),
    mutant_of_file(Apst, ALL, "*last_index <= 2", "*last_index < 2"),
    mutant_of_file(
        Apst, ALL,
        "exit_latency_us > ctrl->ps_max_latency_us",
        "exit_latency_us >= ctrl->ps_max_latency_us",
    ),
    mutant_of_shared_header(Menu, FROM_6_12, "(15 * NSEC_PER_USEC)", "(16 * NSEC_PER_USEC)"),
    mutant_of_shared_header(Menu, ONLY_7_3, "(2 * TICK_NSEC)", "(3 * TICK_NSEC)"),
    mutant_of_shared_header(Teo, FROM_6_12, "(15 * NSEC_PER_USEC)", "(16 * NSEC_PER_USEC)"),
    mutant_of_shared_header(Teo, ONLY_7_3, "(2 * TICK_NSEC)", "(3 * TICK_NSEC)"),
];
