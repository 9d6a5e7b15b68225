//! fio options that could change timing and have no model.

use super::row::OptionRow;

const NOT_MODELLED: &str = "it could change timing, and is not modelled";
const MERGED: &str =
    "traces of several drives are not merged; give each job a log of its own (read_iolog)";
const COMMANDS: &str = "running other programs is not modelled";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_refused_option(&["profile"], COMMANDS),
    OptionRow::for_refused_option(&["opendir"], NOT_MODELLED),
    OptionRow::for_refused_option(&["merge_blktrace_file"], MERGED),
    OptionRow::for_refused_option(&["merge_blktrace_scalars"], MERGED),
    OptionRow::for_refused_option(&["merge_blktrace_iters"], MERGED),
];
