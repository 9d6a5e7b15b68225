//! How each subject is taken out of its kernel file.

use anyhow::Result;

use crate::cut::CFile;
use crate::subject::Subject;

/// How to get a compilable piece out of a kernel file.
pub(crate) enum Recipe {
    /// The kernel file is compiled whole, on its own.
    Whole,
    /// Definitions are cut out of the kernel file, and the driver includes them.
    Cut(&'static [Piece]),
}

/// A definition to cut out of a kernel file, or a header of ours in between.
pub(crate) enum Piece {
    Macro(&'static str),
    Struct(&'static str),
    Variable(&'static str),
    Function(&'static str),
    /// A function that only some kernels have.
    FunctionOfSome(&'static str),
    /// A header of ours that needs the pieces before, and is needed by the pieces after.
    Ours(&'static str),
}

use Piece::{Function, FunctionOfSome, Macro, Ours, Struct, Variable};

const POLL_LIMIT: &[Piece] = &[
    Macro("CPUIDLE_POLL_MIN"),
    Macro("CPUIDLE_POLL_MAX"),
    Function("cpuidle_poll_time"),
];
const SCHEDUTIL_BOOST: &[Piece] = &[
    Macro("IOWAIT_BOOST_MIN"),
    Struct("sugov_cpu"),
    Function("sugov_iowait_reset"),
    Function("sugov_iowait_boost"),
    Function("sugov_iowait_apply"),
];
const HWP_BOOST: &[Piece] = &[
    Variable("hwp_boost_hold_time_ns"),
    Function("intel_pstate_hwp_boost_up"),
    Function("intel_pstate_hwp_boost_down"),
    Function("intel_pstate_update_util_hwp_local"),
];
const INTEL_PSTATE: &[Piece] = &[
    Macro("INTEL_PSTATE_SAMPLING_INTERVAL"),
    Macro("FRAC_BITS"),
    Macro("int_tofp"),
    Macro("fp_toint"),
    Macro("ONE_EIGHTH_FP"),
    Macro("EXT_BITS"),
    Macro("EXT_FRAC_BITS"),
    Function("mul_fp"),
    Function("div_fp"),
    Function("mul_ext_fp"),
    Function("div_ext_fp"),
    Struct("sample"),
    Ours("pstate_cpu.h"),
    Function("intel_pstate_calc_avg_perf"),
    Function("intel_pstate_sample"),
    Function("get_avg_pstate"),
    Function("get_target_pstate"),
    Function("intel_pstate_prepare_request"),
    Function("intel_pstate_update_pstate"),
    Function("intel_pstate_adjust_pstate"),
    Function("intel_pstate_update_util"),
];
const AMD_PSTATE: &[Piece] = &[
    FunctionOfSome("freq_to_perf"),
    FunctionOfSome("perf_to_freq"),
    FunctionOfSome("amd_get_min_freq"),
    FunctionOfSome("amd_get_max_freq"),
    FunctionOfSome("amd_get_nominal_freq"),
    FunctionOfSome("amd_get_lowest_nonlinear_freq"),
    FunctionOfSome("amd_pstate_init_freq"),
    FunctionOfSome("amd_pstate_cpu_boost_update"),
    Function("amd_pstate_update"),
    FunctionOfSome("amd_pstate_update_min_max_limit"),
    Function("amd_pstate_update_freq"),
    Function("amd_pstate_adjust_perf"),
    FunctionOfSome("amd_pstate_epp_update_limit"),
];
const APST: &[Piece] = &[
    Variable("default_ps_max_latency_us"),
    Variable("apst_primary_timeout_ms"),
    Variable("apst_secondary_timeout_ms"),
    Variable("apst_primary_latency_tol_us"),
    Variable("apst_secondary_latency_tol_us"),
    Function("nvme_apst_get_transition_time"),
    Function("nvme_configure_apst"),
];

/// How a subject's code is taken out of its kernel file.
pub(crate) const fn recipe_for_subject(subject: Subject) -> Recipe {
    match subject {
        Subject::Menu
        | Subject::Teo
        | Subject::Ladder
        | Subject::Haltpoll
        | Subject::HaltpollLimit => Recipe::Whole,
        Subject::PollLimit => Recipe::Cut(POLL_LIMIT),
        Subject::SchedutilBoost => Recipe::Cut(SCHEDUTIL_BOOST),
        Subject::HwpBoost => Recipe::Cut(HWP_BOOST),
        Subject::IntelPstate => Recipe::Cut(INTEL_PSTATE),
        Subject::AmdPstate => Recipe::Cut(AMD_PSTATE),
        Subject::Apst => Recipe::Cut(APST),
    }
}

/// Cuts the pieces out of a kernel file and joins them, in their order.
pub(crate) fn cut_pieces(text: &str, pieces: &[Piece]) -> Result<String> {
    let file = CFile::new(text);
    let mut cut = String::new();
    for piece in pieces {
        match piece {
            Macro(name) => cut += file.cut_macro(name)?,
            Struct(name) => cut += file.cut_struct(name)?,
            Variable(name) => cut += file.cut_variable(name)?,
            Function(name) => cut += file.cut_function(name)?,
            FunctionOfSome(name) => cut += file.cut_function(name).unwrap_or_default(),
            Ours(header) => cut.extend(["#include \"", header, "\""]),
        }
        cut += "\n\n";
    }
    Ok(cut)
}
