//! fio options that could change timing and have no model, or a model of a single value.

use super::row::Row;

const NOT_MODELLED: &str = "it could change timing, and is not modelled";
const REPLAY: &str =
    "replaying a log of I/O is not modelled; say with rw, bs and rate what it does";
const FLOW: &str = "the flow of several jobs against each other is not modelled";
const TARGET: &str = "a depth that follows the latency is not modelled; set iodepth";
const STEADY: &str =
    "an end by steady state is not modelled; remove it, and the job runs to its end";
const COMMANDS: &str = "running other programs is not modelled";

pub(super) const ROWS: &[Row] = &[
    Row::for_neutral_values(&["io_submit_mode"], &["inline"], NOT_MODELLED),
    Row::for_refused_option(&["profile"], COMMANDS),
    Row::for_refused_option(&["opendir"], NOT_MODELLED),
    Row::for_refused_option(&["latency_target"], TARGET),
    Row::for_refused_option(&["steadystate", "ss"], STEADY),
    Row::for_refused_option(&["flow"], FLOW),
    Row::for_refused_option(&["flow_id"], FLOW),
    Row::for_refused_option(&["flow_sleep"], FLOW),
    Row::for_refused_option(&["read_iolog"], REPLAY),
    Row::for_refused_option(&["read_iolog_chunked"], REPLAY),
    Row::for_refused_option(&["replay_no_stall"], REPLAY),
    Row::for_refused_option(&["replay_redirect"], REPLAY),
    Row::for_refused_option(&["replay_scale"], REPLAY),
    Row::for_refused_option(&["replay_align"], REPLAY),
    Row::for_refused_option(&["replay_time_scale"], REPLAY),
    Row::for_refused_option(&["replay_skip"], REPLAY),
    Row::for_refused_option(&["merge_blktrace_file"], REPLAY),
    Row::for_refused_option(&["merge_blktrace_scalars"], REPLAY),
    Row::for_refused_option(&["merge_blktrace_iters"], REPLAY),
];
