//! fio options that cannot change, in the model, when an I/O is issued or how long it takes.

use super::row::Row;

const LOG: &str = "is ignored: logs are not written";
const REPORT: &str = "is ignored: it shapes fio's report";
const OFFSETS: &str = "is ignored: it picks the random numbers, the model has its own seed";
const LAYOUT: &str = "is ignored: files are not laid out";
const BESIDE: &str = "is ignored: another program before or after a job is no part of it";
const OVERHEAD: &str = "is ignored: the cost of fio's own measuring is not modelled";
const PROCESS: &str = "is ignored: it changes how fio runs, not what the drive and the CPU see";

pub(super) const ROWS: &[Row] = &[
    Row::for_ignored_option(&["unit_base"], REPORT),
    Row::for_ignored_option(&["directory"], LAYOUT),
    Row::for_ignored_option(&["filename_format"], LAYOUT),
    Row::for_ignored_option(&["unique_filename"], LAYOUT),
    Row::for_ignored_option(&["fallocate"], LAYOUT),
    Row::for_ignored_option(&["create_serialize"], LAYOUT),
    Row::for_ignored_option(&["create_fsync"], LAYOUT),
    Row::for_ignored_option(&["allow_file_create"], LAYOUT),
    Row::for_ignored_option(&["allow_mounted_write"], LAYOUT),
    Row::for_ignored_option(&["unlink"], LAYOUT),
    Row::for_ignored_option(&["randrepeat"], OFFSETS),
    Row::for_ignored_option(&["allrandrepeat"], OFFSETS),
    Row::for_ignored_option(&["randseed"], OFFSETS),
    Row::for_ignored_option(&["random_generator"], OFFSETS),
    Row::for_ignored_option(&["thread"], PROCESS),
    Row::for_ignored_option(&["mem", "iomem"], PROCESS),
    Row::for_ignored_option(&["iomem_align", "mem_align"], PROCESS),
    Row::for_ignored_option(&["hugepage-size"], PROCESS),
    Row::for_ignored_option(&["uid"], PROCESS),
    Row::for_ignored_option(&["gid"], PROCESS),
    Row::for_ignored_option(&["exec_prerun"], BESIDE),
    Row::for_ignored_option(&["exec_postrun"], BESIDE),
    Row::for_ignored_option(
        &["write_barrier"],
        "is ignored: no engine for block devices acts on it",
    ),
    Row::for_ignored_option(&["new_group"], REPORT),
    Row::for_ignored_option(&["stats"], REPORT),
    Row::for_ignored_option(&["error_dump"], REPORT),
    Row::for_ignored_option(&["disk_util"], REPORT),
    Row::for_ignored_option(&["unified_rw_reporting"], REPORT),
    Row::for_ignored_option(&["lat_percentiles"], REPORT),
    Row::for_ignored_option(&["clat_percentiles"], REPORT),
    Row::for_ignored_option(&["slat_percentiles"], REPORT),
    Row::for_ignored_option(&["percentile_list"], REPORT),
    Row::for_ignored_option(&["significant_figures"], REPORT),
    Row::for_ignored_option(&["block_error_percentiles"], REPORT),
    Row::for_ignored_option(&["clocksource"], OVERHEAD),
    Row::for_ignored_option(&["gtod_reduce"], OVERHEAD),
    Row::for_ignored_option(&["gtod_cpu"], OVERHEAD),
    Row::for_ignored_option(&["disable_lat"], OVERHEAD),
    Row::for_ignored_option(&["disable_clat"], OVERHEAD),
    Row::for_ignored_option(&["disable_slat"], OVERHEAD),
    Row::for_ignored_option(&["disable_bw_measurement", "disable_bw"], OVERHEAD),
    Row::for_ignored_option(&["per_job_logs"], LOG),
    Row::for_ignored_option(&["write_bw_log"], LOG),
    Row::for_ignored_option(&["write_lat_log"], LOG),
    Row::for_ignored_option(&["write_iops_log"], LOG),
    Row::for_ignored_option(&["write_hist_log"], LOG),
    Row::for_ignored_option(&["write_iolog"], LOG),
    Row::for_ignored_option(&["bwavgtime"], LOG),
    Row::for_ignored_option(&["iopsavgtime"], LOG),
    Row::for_ignored_option(&["log_entries"], LOG),
    Row::for_ignored_option(&["log_avg_msec"], LOG),
    Row::for_ignored_option(&["log_hist_msec"], LOG),
    Row::for_ignored_option(&["log_hist_coarseness"], LOG),
    Row::for_ignored_option(&["log_max_value"], LOG),
    Row::for_ignored_option(&["log_offset"], LOG),
    Row::for_ignored_option(&["log_prio"], LOG),
    Row::for_ignored_option(&["log_compression"], LOG),
    Row::for_ignored_option(&["log_compression_cpus"], LOG),
    Row::for_ignored_option(&["log_store_compressed"], LOG),
    Row::for_ignored_option(&["log_unix_epoch"], LOG),
    Row::for_ignored_option(&["log_alternate_epoch"], LOG),
    Row::for_ignored_option(&["log_alternate_epoch_clock_id"], LOG),
];
