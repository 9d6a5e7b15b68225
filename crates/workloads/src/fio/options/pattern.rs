//! Where I/Os go, how large they are, how many are in flight, and what is in them.

use super::Row;

const NOT_MODELLED: &str = "it could change timing, and is not modelled";
const PLACES: &str =
    "is ignored: where an I/O lies decides nothing but which drive of a RAID0 has it";

pub(super) const ROWS: &[Row] = &[
    Row::refused(&["iodepth_batch", "iodepth_batch_submit"], NOT_MODELLED),
    Row::refused(
        &["iodepth_batch_complete_min", "iodepth_batch_complete"],
        NOT_MODELLED,
    ),
    Row::refused(&["iodepth_batch_complete_max"], NOT_MODELLED),
    Row::refused(&["iodepth_low"], NOT_MODELLED),
    Row::refused(&["ba", "blockalign"], NOT_MODELLED),
    Row::refused(&["bsrange", "blocksize_range"], NOT_MODELLED),
    Row::refused(&["bssplit"], NOT_MODELLED),
    Row::refused(&["bs_unaligned", "blocksize_unaligned"], NOT_MODELLED),
    Row::refused(&["bs_is_seq_rand"], NOT_MODELLED),
    Row::refused(&["rw_sequencer"], NOT_MODELLED),
    Row::ignored(&["offset", "fileoffset"], PLACES),
    Row::ignored(&["offset_increment"], PLACES),
    Row::ignored(&["offset_align"], PLACES),
    Row::ignored(&["random_distribution"], PLACES),
    Row::ignored(&["percentage_random"], PLACES),
    Row::ignored(&["softrandommap"], PLACES),
    Row::only(&["refill_buffers"], &["0"], NOT_MODELLED).flag(),
    Row::refused(&["trim_percentage"], NOT_MODELLED),
    Row::refused(&["trim_verify_zero"], NOT_MODELLED),
    Row::refused(&["trim_backlog"], NOT_MODELLED),
    Row::refused(&["trim_backlog_batch"], NOT_MODELLED),
];
