//! Options that could change timing and of which nothing, or one value only, is modelled.

use super::Row;

const NOT_MODELLED: &str = "it could change timing, and is not modelled";
const URING: &str = "this way of submitting with io_uring is not modelled";
const FLUSHES: &str = "flushes of the drive's cache are not modelled";
const PRIORITY: &str = "priorities of I/O are not modelled";
const REPLAY: &str = "replaying a log of I/O is not modelled";
const ZONES: &str = "zones are not modelled";
const FLOW: &str = "the flow of several jobs against each other is not modelled";
const TARGET: &str = "a depth that follows the latency is not modelled";
const STEADY: &str = "an end by steady state is not modelled";
const RATE_MIN: &str = "ending a job whose rate is too low is not modelled";
const COMMANDS: &str = "running other programs is not modelled";
const CACHE: &str = "the page cache is not modelled";

pub(super) const ROWS: &[Row] = &[
    Row::only(&["thinktime_blocks_type"], &["complete"], NOT_MODELLED),
    Row::only(&["rate_process"], &["linear"], NOT_MODELLED),
    Row::only(&["rate_ignore_thinktime"], &["0"], NOT_MODELLED),
    Row::only(&["io_submit_mode"], &["inline"], NOT_MODELLED),
    Row::refused(&["sync_file_range"], FLUSHES),
    Row::refused(&["write_barrier"], FLUSHES),
    Row::refused(&["nice"], PRIORITY),
    Row::refused(&["create_only"], NOT_MODELLED),
    Row::refused(&["exec_prerun"], COMMANDS),
    Row::refused(&["exec_postrun"], COMMANDS),
    Row::refused(&["profile"], COMMANDS),
    Row::refused(&["uncached"], CACHE),
    Row::refused(&["thp"], CACHE),
    Row::refused(&["file_append"], NOT_MODELLED),
    Row::refused(&["opendir"], NOT_MODELLED),
    Row::refused(&["serialize_overlap"], NOT_MODELLED),
    Row::refused(&["thinktime_iotime"], NOT_MODELLED),
    Row::refused(&["rate_iops_min"], RATE_MIN),
    Row::refused(&["rate_min", "ratemin"], RATE_MIN),
    Row::refused(&["latency_target"], TARGET),
    Row::refused(&["steadystate", "ss"], STEADY),
    Row::refused(&["flow"], FLOW),
    Row::refused(&["flow_id"], FLOW),
    Row::refused(&["flow_sleep"], FLOW),
    Row::refused(&["cmd_type"], URING),
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
    Row::only(&["zonemode"], &["none"], ZONES),
    Row::refused(&["zonesize"], ZONES),
    Row::refused(&["zonecapacity"], ZONES),
    Row::refused(&["zonerange"], ZONES),
    Row::refused(&["zoneskip"], ZONES),
    Row::refused(&["read_beyond_wp"], ZONES),
    Row::refused(&["max_open_zones"], ZONES),
    Row::refused(&["job_max_open_zones"], ZONES),
    Row::refused(&["ignore_zone_limits"], ZONES),
    Row::refused(&["zone_reset_threshold"], ZONES),
    Row::refused(&["zone_reset_frequency"], ZONES),
];
