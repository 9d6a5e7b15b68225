//! Proof that the comparison can fail: the kernel's text is altered on purpose, one constant or
//! comparison at a time, and the normal inputs must show a difference.

use std::time::Duration;

use anyhow::{Context as _, Result};
use rayon::prelude::*;
use serde::Serialize;
use wakepath_units::TickRate;

use crate::checks::{GovernorSetting, compare_batch};
use crate::compare::batch_size;
use crate::generate;
use crate::program::{Alteration, KernelProgram, TimedOut};
use crate::source::KernelSource;
use crate::subject::Subject;

/// The kernel versions that have the text to alter, as Debian names their packages. Of 7.2 nothing is altered: what is
/// compared of it is the same in 7.3.
type In = &'static [&'static str];

const ALL: In = &["6.1", "6.12", "7.3"];
const UP_TO_6_12: In = &["6.1", "6.12"];
const FROM_6_12: In = &["6.12", "7.3"];
const ONLY_6_1: In = &["6.1"];
const ONLY_6_12: In = &["6.12"];
const ONLY_7_3: In = &["7.3"];

/// How long a mutant may take over a batch, of which the unaltered code does dozens in this time. One that loops is noticed.
const LIMIT: Duration = Duration::from_secs(20);

/// An alteration that the comparison must notice.
struct Mutant {
    subject: Subject,
    versions: In,
    alteration: Alteration,
}

/// Result for an altered program.
#[derive(Clone, Debug, Serialize)]
pub struct MutantRow {
    /// Altered policy.
    pub policy: String,
    /// The kernel version.
    pub kernel: &'static str,
    /// The text before.
    pub from: &'static str,
    /// The text after.
    pub to: &'static str,
    /// Decisions compared until the first batch with a difference was through.
    pub decisions: u64,
    /// Differing decisions.
    pub differences: u64,
    /// It did not end in time.
    pub timed_out: bool,
}

impl MutantRow {
    /// Whether the comparison noticed it.
    pub fn is_noticed(&self) -> bool {
        self.differences > 0 || self.timed_out
    }
}

const GOV_H: &str = "drivers/cpuidle/governors/gov.h";

/// The alterations. A text that no longer occurs is an error, so that the list cannot go stale.
fn mutants() -> Vec<Mutant> {
    use Subject::{
        AmdPstate, Apst, Haltpoll, HaltpollLimit, HwpBoost, IntelPstate, Ladder, Menu, PollLimit,
        SchedutilBoost, Teo,
    };
    let list = [
        (Menu, ALL, "#define DECAY 8", "#define DECAY 9"),
        (
            Menu,
            ALL,
            "#define INTERVAL_SHIFT 3",
            "#define INTERVAL_SHIFT 2",
        ),
        (
            Menu,
            ALL,
            "(50000 * NSEC_PER_USEC)",
            "(49000 * NSEC_PER_USEC)",
        ),
        (
            Menu,
            ALL,
            "divisor * 4 <= INTERVALS * 3",
            "divisor * 4 < INTERVALS * 3",
        ),
        (Menu, UP_TO_6_12, "> variance*36)", "> variance*35)"),
        (
            Menu,
            ONLY_7_3,
            "avg_sq > variance * 36",
            "avg_sq > variance * 35",
        ),
        (
            Menu,
            ONLY_7_3,
            "avg - min > max - avg",
            "avg - min >= max - avg",
        ),
        (Menu, ONLY_7_3, "max_thresh = max;", "max_thresh = max - 1;"),
        (Menu, ONLY_7_3, "min_thresh = min;", "min_thresh = min + 1;"),
        // Loops.
        (Menu, ONLY_7_3, "min_thresh = min;", ";"),
        (
            Menu,
            ONLY_7_3,
            "s->exit_latency_ns <= predicted_ns",
            "s->exit_latency_ns < predicted_ns",
        ),
        (Menu, ALL, "variance <= 400)", "variance <= 380)"),
        (
            Menu,
            ALL,
            "if (s->exit_latency_ns > latency_req)",
            "if (s->exit_latency_ns >= latency_req)",
        ),
        (
            Menu,
            ALL,
            "< 10000ULL * NSEC_PER_USEC",
            "<= 10000ULL * NSEC_PER_USEC",
        ),
        (
            Menu,
            ALL,
            "measured_ns > 2 * target->exit_latency_ns",
            "measured_ns > 3 * target->exit_latency_ns",
        ),
        (
            Menu,
            ONLY_6_1,
            "return 1 + 10 * nr_iowaiters",
            "return 1 + 9 * nr_iowaiters",
        ),
        (Menu, ONLY_6_1, "bucket = BUCKETS/2", "bucket = 0"),
        (Teo, ALL, "#define PULSE\t\t1024", "#define PULSE\t\t1000"),
        (Teo, ALL, "#define DECAY_SHIFT\t3", "#define DECAY_SHIFT\t2"),
        (
            Teo,
            ALL,
            "measured_ns -= lat_ns / 2",
            "measured_ns -= lat_ns / 3",
        ),
        (
            Teo,
            UP_TO_6_12,
            "time_span_ns >= cpu_data->sleep_length_ns",
            "time_span_ns > cpu_data->sleep_length_ns",
        ),
        (
            Teo,
            ALL,
            "if (s->exit_latency_ns <= latency_req)",
            "if (s->exit_latency_ns < latency_req)",
        ),
        (
            Teo,
            ONLY_6_1,
            "#define NR_RECENT\t9",
            "#define NR_RECENT\t8",
        ),
        (
            Teo,
            ONLY_6_1,
            "alt_recent = idx_recent_sum > NR_RECENT / 2",
            "alt_recent = idx_recent_sum >= NR_RECENT / 2",
        ),
        (
            Teo,
            FROM_6_12,
            "if (2 * idx_intercept_sum > cpu_data->total - idx_hit_sum)",
            "if (2 * idx_intercept_sum >= cpu_data->total - idx_hit_sum)",
        ),
        (
            Teo,
            ONLY_7_3,
            "3 * cpu_data->total_tick > 2 * cpu_data->total",
            "3 * cpu_data->total_tick > cpu_data->total",
        ),
        (
            Teo,
            ONLY_7_3,
            "3 * cpu_data->tick_intercepts < 2 * total",
            "3 * cpu_data->tick_intercepts < total",
        ),
        (
            Teo,
            ONLY_7_3,
            "3 * cpu_data->tick_intercepts >= 2 * cpu_data->total",
            "3 * cpu_data->tick_intercepts >= cpu_data->total",
        ),
        (
            Teo,
            ONLY_7_3,
            "measured_ns <= TICK_NSEC",
            "measured_ns < TICK_NSEC - 1000",
        ),
        (
            Teo,
            ONLY_7_3,
            "prev_intercepts >= intercept_max",
            "prev_intercepts > intercept_max",
        ),
        (
            Teo,
            ONLY_7_3,
            "i <= intercept_max_idx",
            "i < intercept_max_idx",
        ),
        (
            Teo,
            ONLY_7_3,
            "2 * cpu_data->short_idles >= cpu_data->total",
            "cpu_data->short_idles >= cpu_data->total",
        ),
        (
            Teo,
            ONLY_7_3,
            "#define LATENCY_THRESHOLD_NS\t(RESIDENCY_THRESHOLD_NS / 2)",
            "#define LATENCY_THRESHOLD_NS\t(RESIDENCY_THRESHOLD_NS)",
        ),
        (Teo, ONLY_7_3, "< lat_ns / 2)", "< lat_ns / 3)"),
        (Teo, ONLY_7_3, "\t\t*metric = 0;", "\t\t*metric -= 0;"),
        (
            Teo,
            ONLY_6_12,
            "cpu_data->total / 2 + cpu_data->total / 8",
            "cpu_data->total / 2 + cpu_data->total / 7",
        ),
        (
            Teo,
            ONLY_6_12,
            "cpu_data->tick_hits >> DECAY_SHIFT",
            "cpu_data->tick_hits >> 2",
        ),
        (
            Ladder,
            ALL,
            "#define PROMOTION_COUNT 4",
            "#define PROMOTION_COUNT 5",
        ),
        (
            Ladder,
            ALL,
            "#define DEMOTION_COUNT 1",
            "#define DEMOTION_COUNT 2",
        ),
        (
            Ladder,
            ALL,
            "last_residency > last_state->threshold.promotion_time_ns",
            "last_residency >= last_state->threshold.promotion_time_ns",
        ),
        (
            HaltpollLimit,
            ALL,
            "grow_start __read_mostly = 50000",
            "grow_start __read_mostly = 49999",
        ),
        (
            HaltpollLimit,
            ALL,
            "halt_poll_ns __read_mostly = 200000",
            "halt_poll_ns __read_mostly = 199999",
        ),
        (
            Haltpoll,
            ALL,
            "block_ns <= guest_halt_poll_ns",
            "block_ns < guest_halt_poll_ns",
        ),
        (
            Haltpoll,
            ALL,
            "dev->poll_limit_ns * guest_halt_poll_grow",
            "dev->poll_limit_ns + guest_halt_poll_grow",
        ),
        (
            HaltpollLimit,
            ALL,
            "guest_halt_poll_grow __read_mostly = 2",
            "guest_halt_poll_grow __read_mostly = 3",
        ),
        (
            HaltpollLimit,
            ALL,
            "guest_halt_poll_shrink __read_mostly = 2",
            "guest_halt_poll_shrink __read_mostly = 3",
        ),
        (
            HaltpollLimit,
            ALL,
            "if (val < guest_halt_poll_grow_start)\n\t\t\tval = guest_halt_poll_grow_start",
            "if (val > guest_halt_poll_grow_start)\n\t\t\tval = guest_halt_poll_grow_start",
        ),
        (
            PollLimit,
            ALL,
            "#define CPUIDLE_POLL_MIN 10000",
            "#define CPUIDLE_POLL_MIN 9999",
        ),
        (PollLimit, ALL, "(TICK_NSEC / 16)", "(TICK_NSEC / 15)"),
        (
            PollLimit,
            ALL,
            "state_limit < CPUIDLE_POLL_MIN",
            "state_limit <= CPUIDLE_POLL_MIN",
        ),
        (
            SchedutilBoost,
            ALL,
            "(SCHED_CAPACITY_SCALE / 8)",
            "(SCHED_CAPACITY_SCALE / 9)",
        ),
        (
            SchedutilBoost,
            ALL,
            "delta_ns <= TICK_NSEC",
            "delta_ns < TICK_NSEC",
        ),
        (
            SchedutilBoost,
            ALL,
            "sg_cpu->iowait_boost << 1",
            "sg_cpu->iowait_boost << 2",
        ),
        (
            SchedutilBoost,
            ALL,
            "sg_cpu->iowait_boost >>= 1",
            "sg_cpu->iowait_boost >>= 2",
        ),
        (HwpBoost, ALL, "3 * NSEC_PER_MSEC", "3 * NSEC_PER_MSEC - 1"),
        (HwpBoost, ALL, "2 * TICK_NSEC", "2 * TICK_NSEC + 1"),
        (HwpBoost, ALL, "+ min_limit) >> 1", "+ min_limit + 1) >> 1"),
        (
            HwpBoost,
            ALL,
            "cpu->hwp_boost_min < boost_level1",
            "cpu->hwp_boost_min <= boost_level1",
        ),
        (IntelPstate, ALL, "(FRAC_BITS - 3)", "(FRAC_BITS - 2)"),
        (
            IntelPstate,
            ALL,
            "cpu->iowait_boost >= ONE_EIGHTH_FP",
            "cpu->iowait_boost > ONE_EIGHTH_FP",
        ),
        (
            IntelPstate,
            ALL,
            "cpu->iowait_boost >>= 1",
            "cpu->iowait_boost >>= 2",
        ),
        (
            IntelPstate,
            ALL,
            "(10 * NSEC_PER_MSEC)",
            "(10 * NSEC_PER_MSEC + 1)",
        ),
        (
            IntelPstate,
            ALL,
            "target += target >> 2",
            "target += target >> 3",
        ),
        (
            IntelPstate,
            ALL,
            "(avg_pstate - target) >> 1",
            "(avg_pstate - target) >> 2",
        ),
        (
            IntelPstate,
            ALL,
            "if (busy_frac < cpu->iowait_boost)",
            "if (busy_frac > cpu->iowait_boost)",
        ),
        (
            AmdPstate,
            FROM_6_12,
            "DIV_ROUND_UP(cap_perf * target_perf, capacity)",
            "(cap_perf * target_perf / capacity)",
        ),
        (
            AmdPstate,
            FROM_6_12,
            "min_perf = des_perf;",
            "min_perf = min_perf;",
        ),
        (
            AmdPstate,
            ONLY_6_12,
            "DIV_ROUND_CLOSEST(target_freq * cap_perf,",
            "DIV_ROUND_UP(target_freq * cap_perf,",
        ),
        (
            AmdPstate,
            ONLY_6_12,
            "min_perf = lowest_nonlinear_perf;",
            "min_perf = lowest_nonlinear_perf + 1;",
        ),
        (
            AmdPstate,
            ONLY_6_12,
            "lowest_nonlinear_freq <= min_freq",
            "lowest_nonlinear_freq < min_freq",
        ),
        (
            AmdPstate,
            ONLY_6_12,
            "min_perf = min(cpudata->nominal_perf, max_perf);",
            "min_perf = max_perf;",
        ),
        (
            AmdPstate,
            ONLY_7_3,
            "DIV_ROUND_UP_ULL((u64)freq_val * perf.nominal_perf, nominal_freq)",
            "div_u64((u64)freq_val * perf.nominal_perf, nominal_freq)",
        ),
        (
            AmdPstate,
            ONLY_7_3,
            "perf.bios_min_perf ?: perf.nominal_perf",
            "perf.nominal_perf",
        ),
        (
            AmdPstate,
            ONLY_7_3,
            "if (max_perf < min_perf)",
            "if (max_perf > min_perf)",
        ),
        (
            AmdPstate,
            ONLY_7_3,
            "max_perf, 0, fast_switch",
            "max_perf, 1, fast_switch",
        ),
        (
            Apst,
            ALL,
            "apst_primary_latency_tol_us = 15000",
            "apst_primary_latency_tol_us = 14999",
        ),
        (
            Apst,
            ALL,
            "apst_primary_timeout_ms = 100",
            "apst_primary_timeout_ms = 101",
        ),
        (
            Apst,
            ALL,
            "default_ps_max_latency_us = 100000",
            "default_ps_max_latency_us = 99999",
        ),
        (Apst, ALL, "total_latency_us + 19", "total_latency_us + 18"),
        (Apst, ALL, "*last_index <= 2", "*last_index < 2"),
        (
            Apst,
            ALL,
            "exit_latency_us > ctrl->ps_max_latency_us",
            "exit_latency_us >= ctrl->ps_max_latency_us",
        ),
    ];
    let mut mutants: Vec<Mutant> = list
        .into_iter()
        .map(|(subject, versions, from, to)| Mutant {
            subject,
            versions,
            alteration: Alteration {
                file: subject.file(),
                from,
                to,
            },
        })
        .collect();
    // The header that menu and teo share from 6.12 on.
    for subject in [Menu, Teo] {
        for (versions, from, to) in [
            (FROM_6_12, "(15 * NSEC_PER_USEC)", "(16 * NSEC_PER_USEC)"),
            (ONLY_7_3, "(2 * TICK_NSEC)", "(3 * TICK_NSEC)"),
        ] {
            mutants.push(Mutant {
                subject,
                versions,
                alteration: Alteration {
                    file: GOV_H,
                    from,
                    to,
                },
            });
        }
    }
    mutants
}

/// Builds every mutant and compares it with ours over at most `batches` batches.
pub fn run(sources: &[KernelSource], batches: u64, seed: u64) -> Result<Vec<MutantRow>> {
    let mutants = mutants();
    let altered: Vec<(&Mutant, &KernelSource)> = mutants
        .iter()
        .flat_map(|mutant| {
            sources
                .iter()
                .filter(|source| mutant.versions.contains(&source.version))
                .map(move |source| (mutant, source))
        })
        .collect();
    altered
        .par_iter()
        .map(|(mutant, source)| try_mutant(mutant, source, batches, seed))
        .collect()
}

fn try_mutant(
    mutant: &Mutant,
    source: &KernelSource,
    batches: u64,
    seed: u64,
) -> Result<MutantRow> {
    let Alteration { from, to, .. } = mutant.alteration;
    let setting = GovernorSetting {
        subject: mutant.subject,
        version: source.kernel()?,
        tick: TickRate::HZ_250,
    };
    let mut row = MutantRow {
        policy: mutant.subject.name().to_owned(),
        kernel: source.version,
        from,
        to,
        decisions: 0,
        differences: 0,
        timed_out: false,
    };
    let program = KernelProgram::build(
        setting.subject,
        source,
        setting.tick.hz(),
        Some(&mutant.alteration),
    )?
    .within(LIMIT);
    for batch in 0..batches {
        let mut rng = generate::rng(seed, batch);
        let size = batch_size(setting.subject) as usize;
        let outcome = match compare_batch(setting, &program, &mut rng, batch, size) {
            Err(error) if error.is::<TimedOut>() => {
                row.timed_out = true;
                break;
            }
            outcome => {
                outcome.with_context(|| format!("mutant `{from}` -> `{to}` of {}", row.policy))?
            }
        };
        row.decisions += outcome.decisions;
        row.differences += outcome.differences;
        if row.differences > 0 {
            break;
        }
    }
    Ok(row)
}
