//! fio options that cannot change, in the model, when an I/O is issued or how long it takes.

use super::row::OptionRow;

const LOG: &str = "is ignored: logs are not written";
const REPORT: &str = "is ignored: it shapes fio's report";
const OFFSETS: &str = "is ignored: it picks the random numbers, the model has its own seed";
const LAYOUT: &str = "is ignored: files are not laid out";
const BESIDE: &str = "is ignored: another program before or after a job is no part of it";
const OVERHEAD: &str = "is ignored: the cost of fio's own measuring is not modelled";
const PROCESS: &str = "is ignored: it changes how fio runs, not what the drive and the CPU see";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_ignored_option(&["unit_base"], REPORT),
    OptionRow::for_ignored_option(&["directory"], LAYOUT),
    OptionRow::for_ignored_option(&["filename_format"], LAYOUT),
    OptionRow::for_ignored_option(&["unique_filename"], LAYOUT),
    OptionRow::for_ignored_option(&["fallocate"], LAYOUT),
    OptionRow::for_ignored_option(&["create_serialize"], LAYOUT),
    OptionRow::for_ignored_option(&["create_fsync"], LAYOUT),
    OptionRow::for_ignored_option(&["allow_file_create"], LAYOUT),
    OptionRow::for_ignored_option(&["allow_mounted_write"], LAYOUT),
    OptionRow::for_ignored_option(&["unlink"], LAYOUT),
    OptionRow::for_ignored_option(&["randrepeat"], OFFSETS),
    OptionRow::for_ignored_option(&["allrandrepeat"], OFFSETS),
    OptionRow::for_ignored_option(&["randseed"], OFFSETS),
    OptionRow::for_ignored_option(&["random_generator"], OFFSETS),
    OptionRow::for_ignored_option(&["thread"], PROCESS),
    OptionRow::for_ignored_option(&["threads"], PROCESS),
    OptionRow::for_ignored_option(&["mem", "iomem"], PROCESS),
    OptionRow::for_ignored_option(&["iomem_align", "mem_align"], PROCESS),
    OptionRow::for_ignored_option(&["hugepage-size"], PROCESS),
    OptionRow::for_ignored_option(&["uid"], PROCESS),
    OptionRow::for_ignored_option(&["gid"], PROCESS),
    OptionRow::for_ignored_option(&["exec_prerun"], BESIDE),
    OptionRow::for_ignored_option(&["exec_postrun"], BESIDE),
    OptionRow::for_ignored_option(
        &["write_barrier"],
        "is ignored: no engine for block devices acts on it",
    ),
    OptionRow::for_ignored_option(&["stats"], REPORT),
    OptionRow::for_ignored_option(&["error_dump"], REPORT),
    OptionRow::for_ignored_option(&["disk_util"], REPORT),
    OptionRow::for_ignored_option(&["unified_rw_reporting"], REPORT),
    OptionRow::for_ignored_option(&["lat_percentiles"], REPORT),
    OptionRow::for_ignored_option(&["clat_percentiles"], REPORT),
    OptionRow::for_ignored_option(&["slat_percentiles"], REPORT),
    OptionRow::for_ignored_option(&["percentile_list"], REPORT),
    OptionRow::for_ignored_option(&["significant_figures"], REPORT),
    OptionRow::for_ignored_option(&["block_error_percentiles"], REPORT),
    OptionRow::for_ignored_option(&["clocksource"], OVERHEAD),
    OptionRow::for_ignored_option(&["gtod_reduce"], OVERHEAD),
    OptionRow::for_ignored_option(&["gtod_cpu"], OVERHEAD),
    OptionRow::for_ignored_option(&["disable_lat"], OVERHEAD),
    OptionRow::for_ignored_option(&["disable_clat"], OVERHEAD),
    OptionRow::for_ignored_option(&["disable_slat"], OVERHEAD),
    OptionRow::for_ignored_option(&["disable_bw_measurement", "disable_bw"], OVERHEAD),
    OptionRow::for_ignored_option(&["per_job_logs"], LOG),
    OptionRow::for_ignored_option(&["write_bw_log"], LOG),
    OptionRow::for_ignored_option(&["write_lat_log"], LOG),
    OptionRow::for_ignored_option(&["write_iops_log"], LOG),
    OptionRow::for_ignored_option(&["write_hist_log"], LOG),
    OptionRow::for_ignored_option(&["write_iolog"], LOG),
    OptionRow::for_ignored_option(&["bwavgtime"], LOG),
    OptionRow::for_ignored_option(&["iopsavgtime"], LOG),
    OptionRow::for_ignored_option(&["log_entries"], LOG),
    OptionRow::for_ignored_option(&["log_avg_msec"], LOG),
    OptionRow::for_ignored_option(&["log_hist_msec"], LOG),
    OptionRow::for_ignored_option(&["log_hist_coarseness"], LOG),
    OptionRow::for_ignored_option(&["log_max_value"], LOG),
    OptionRow::for_ignored_option(&["log_offset"], LOG),
    OptionRow::for_ignored_option(&["log_prio"], LOG),
    OptionRow::for_ignored_option(&["log_compression"], LOG),
    OptionRow::for_ignored_option(&["log_compression_cpus"], LOG),
    OptionRow::for_ignored_option(&["log_store_compressed"], LOG),
    OptionRow::for_ignored_option(&["log_unix_epoch"], LOG),
    OptionRow::for_ignored_option(&["log_alternate_epoch"], LOG),
    OptionRow::for_ignored_option(&["log_alternate_epoch_clock_id"], LOG),
];
