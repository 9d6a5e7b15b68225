//! fio options that could change timing and have no model.

use super::row::OptionRow;

const MERGED: &str =
    "traces of several drives are not merged; give each job a log of its own (read_iolog)";
const FOUND_BY_FIO: &str = "jobs and files that fio finds by itself are not modelled";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_refused_option(&["profile"], FOUND_BY_FIO),
    OptionRow::for_refused_option(&["opendir"], FOUND_BY_FIO),
    OptionRow::for_refused_option(&["merge_blktrace_file"], MERGED),
    OptionRow::for_refused_option(&["merge_blktrace_scalars"], MERGED),
    OptionRow::for_refused_option(&["merge_blktrace_iters"], MERGED),
];
