//! Options that could change timing, with no model or a single modelled value.

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
    Row::only(&["io_submit_mode"], &["inline"], NOT_MODELLED),
    Row::refused(&["profile"], COMMANDS),
    Row::refused(&["opendir"], NOT_MODELLED),
    Row::refused(&["latency_target"], TARGET),
    Row::refused(&["steadystate", "ss"], STEADY),
    Row::refused(&["flow"], FLOW),
    Row::refused(&["flow_id"], FLOW),
    Row::refused(&["flow_sleep"], FLOW),
    Row::refused(&["read_iolog"], REPLAY),
    Row::refused(&["read_iolog_chunked"], REPLAY),
    Row::refused(&["replay_no_stall"], REPLAY),
    Row::refused(&["replay_redirect"], REPLAY),
    Row::refused(&["replay_scale"], REPLAY),
    Row::refused(&["replay_align"], REPLAY),
    Row::refused(&["replay_time_scale"], REPLAY),
    Row::refused(&["replay_skip"], REPLAY),
    Row::refused(&["merge_blktrace_file"], REPLAY),
    Row::refused(&["merge_blktrace_scalars"], REPLAY),
    Row::refused(&["merge_blktrace_iters"], REPLAY),
];
