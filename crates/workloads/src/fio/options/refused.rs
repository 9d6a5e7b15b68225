//! fio options that could change timing and have no model.

use super::row::OptionRow;

const NOT_MODELLED: &str = "it could change timing, and is not modelled";
const REPLAY: &str =
    "replaying a log of I/O is not modelled; say with rw, bs and rate what it does";
const COMMANDS: &str = "running other programs is not modelled";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_refused_option(&["profile"], COMMANDS),
    OptionRow::for_refused_option(&["opendir"], NOT_MODELLED),
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
