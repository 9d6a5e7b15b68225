//! Options that cannot change when an I/O is issued or how long it takes in the model.

use super::row::Row;

const LOG: &str = "is ignored: logs are not written";
const REPORT: &str = "is ignored: it shapes fio's report";
const OFFSETS: &str = "is ignored: it picks the random numbers, the model has its own seed";
const LAYOUT: &str = "is ignored: files are not laid out";
const BESIDE: &str = "is ignored: another program before or after a job is no part of it";
const OVERHEAD: &str = "is ignored: the cost of fio's own measuring is not modelled";
const PROCESS: &str = "is ignored: it changes how fio runs, not what the drive and the CPU see";

pub(super) const ROWS: &[Row] = &[
    Row::ignored(&["unit_base"], REPORT),
    Row::ignored(&["directory"], LAYOUT),
    Row::ignored(&["filename_format"], LAYOUT),
    Row::ignored(&["unique_filename"], LAYOUT),
    Row::ignored(&["fallocate"], LAYOUT),
    Row::ignored(&["create_serialize"], LAYOUT),
    Row::ignored(&["create_fsync"], LAYOUT),
    Row::ignored(&["allow_file_create"], LAYOUT),
    Row::ignored(&["allow_mounted_write"], LAYOUT),
    Row::ignored(&["unlink"], LAYOUT),
    Row::ignored(&["randrepeat"], OFFSETS),
    Row::ignored(&["allrandrepeat"], OFFSETS),
    Row::ignored(&["randseed"], OFFSETS),
    Row::ignored(&["random_generator"], OFFSETS),
    Row::ignored(&["thread"], PROCESS),
    Row::ignored(&["mem", "iomem"], PROCESS),
    Row::ignored(&["iomem_align", "mem_align"], PROCESS),
    Row::ignored(&["hugepage-size"], PROCESS),
    Row::ignored(&["uid"], PROCESS),
    Row::ignored(&["gid"], PROCESS),
    Row::ignored(&["exec_prerun"], BESIDE),
    Row::ignored(&["exec_postrun"], BESIDE),
    Row::ignored(
        &["write_barrier"],
        "is ignored: no engine for block devices acts on it",
    ),
    Row::ignored(&["new_group"], REPORT),
    Row::ignored(&["stats"], REPORT),
    Row::ignored(&["error_dump"], REPORT),
    Row::ignored(&["disk_util"], REPORT),
    Row::ignored(&["unified_rw_reporting"], REPORT),
    Row::ignored(&["lat_percentiles"], REPORT),
    Row::ignored(&["clat_percentiles"], REPORT),
    Row::ignored(&["slat_percentiles"], REPORT),
    Row::ignored(&["percentile_list"], REPORT),
    Row::ignored(&["significant_figures"], REPORT),
    Row::ignored(&["block_error_percentiles"], REPORT),
    Row::ignored(&["clocksource"], OVERHEAD),
    Row::ignored(&["gtod_reduce"], OVERHEAD),
    Row::ignored(&["gtod_cpu"], OVERHEAD),
    Row::ignored(&["disable_lat"], OVERHEAD),
    Row::ignored(&["disable_clat"], OVERHEAD),
    Row::ignored(&["disable_slat"], OVERHEAD),
    Row::ignored(&["disable_bw_measurement", "disable_bw"], OVERHEAD),
    Row::ignored(&["per_job_logs"], LOG),
    Row::ignored(&["write_bw_log"], LOG),
    Row::ignored(&["write_lat_log"], LOG),
    Row::ignored(&["write_iops_log"], LOG),
    Row::ignored(&["write_hist_log"], LOG),
    Row::ignored(&["write_iolog"], LOG),
    Row::ignored(&["bwavgtime"], LOG),
    Row::ignored(&["iopsavgtime"], LOG),
    Row::ignored(&["log_entries"], LOG),
    Row::ignored(&["log_avg_msec"], LOG),
    Row::ignored(&["log_hist_msec"], LOG),
    Row::ignored(&["log_hist_coarseness"], LOG),
    Row::ignored(&["log_max_value"], LOG),
    Row::ignored(&["log_offset"], LOG),
    Row::ignored(&["log_prio"], LOG),
    Row::ignored(&["log_compression"], LOG),
    Row::ignored(&["log_compression_cpus"], LOG),
    Row::ignored(&["log_store_compressed"], LOG),
    Row::ignored(&["log_unix_epoch"], LOG),
    Row::ignored(&["log_alternate_epoch"], LOG),
    Row::ignored(&["log_alternate_epoch_clock_id"], LOG),
];
