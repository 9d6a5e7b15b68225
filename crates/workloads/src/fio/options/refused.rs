//! fio options that could change timing and have no model, or a model of a single value.

use super::row::OptionRow;

const NOT_MODELLED: &str = "it could change timing, and is not modelled";
const REPLAY: &str =
    "replaying a log of I/O is not modelled; say with rw, bs and rate what it does";
const FLOW: &str = "the flow of several jobs against each other is not modelled";
const TARGET: &str = "a depth that follows the latency is not modelled; set iodepth";
const STEADY: &str =
    "an end by steady state is not modelled; remove it, and the job runs to its end";
const COMMANDS: &str = "running other programs is not modelled";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_neutral_values(&["io_submit_mode"], &["inline"], NOT_MODELLED),
    OptionRow::for_refused_option(&["profile"], COMMANDS),
    OptionRow::for_refused_option(&["opendir"], NOT_MODELLED),
    OptionRow::for_refused_option(&["latency_target"], TARGET),
    OptionRow::for_refused_option(&["steadystate", "ss"], STEADY),
    OptionRow::for_refused_option(&["flow"], FLOW),
    OptionRow::for_refused_option(&["flow_id"], FLOW),
    OptionRow::for_refused_option(&["flow_sleep"], FLOW),
    OptionRow::for_refused_option(&["read_iolog"], REPLAY),
    OptionRow::for_refused_option(&["read_iolog_chunked"], REPLAY),
    OptionRow::for_refused_option(&["replay_no_stall"], REPLAY),
    OptionRow::for_refused_option(&["replay_redirect"], REPLAY),
    OptionRow::for_refused_option(&["replay_scale"], REPLAY),
    OptionRow::for_refused_option(&["replay_align"], REPLAY),
    OptionRow::for_refused_option(&["replay_time_scale"], REPLAY),
    OptionRow::for_refused_option(&["replay_skip"], REPLAY),
    OptionRow::for_refused_option(&["merge_blktrace_file"], REPLAY),
    OptionRow::for_refused_option(&["merge_blktrace_scalars"], REPLAY),
    OptionRow::for_refused_option(&["merge_blktrace_iters"], REPLAY),
];
