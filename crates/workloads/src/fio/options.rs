//! The options of a job: what each one sets, and which ones cannot matter.

use wakepath_units::Nanoseconds;

use super::error::{FioWarning, Problem, shown};
use super::sections::strip;
use super::values::{bytes, count, per_direction, percent, switch, time};
use super::{FioJob, IoEngine, MAX_IODEPTH, MAX_JOBS, PerDirection, ReadWrite, Size};

/// A job whose options are still being read.
#[derive(Clone)]
pub(super) struct Draft {
    pub(super) job: FioJob,
    pub(super) runtime_line: Option<usize>,
    pub(super) size_line: Option<usize>,
    pub(super) time_based_line: Option<usize>,
    pub(super) rate_line: Option<usize>,
    pub(super) rate_iops_line: Option<usize>,
    iodepth_line: Option<usize>,
    spin_line: Option<usize>,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            job: FioJob {
                name: String::new(),
                line: 0,
                description: None,
                filename: None,
                rw: ReadWrite::default(),
                rwmixread: 50,
                block_size: PerDirection {
                    read: 4096,
                    write: 4096,
                },
                iodepth: 1,
                numjobs: 1,
                ioengine: IoEngine::default(),
                direct: false,
                size: None,
                runtime: None,
                time_based: false,
                thinktime: Nanoseconds::ZERO,
                thinktime_spin: Nanoseconds::ZERO,
                thinktime_blocks: 1,
                thinkcycles: 0,
                rate: PerDirection::default(),
                rate_iops: PerDirection::default(),
                norandommap: false,
                group_reporting: false,
                stonewall: false,
                no_iowait: false,
            },
            runtime_line: None,
            size_line: None,
            time_based_line: None,
            rate_line: None,
            rate_iops_line: None,
            iodepth_line: None,
            spin_line: None,
        }
    }
}

impl Draft {
    /// A new job of the section `name` that starts from these defaults.
    pub(super) fn for_job(&self, name: &str, line: usize) -> Self {
        let mut draft = self.clone();
        draft.job.line = line;
        // Also where [global] has a name option: fio 3.33 prefers the section's name then.
        name.clone_into(&mut draft.job.name);
        draft
    }

    /// What can only be seen once all options of the job are known.
    pub(super) fn closing_warnings(&self) -> Vec<FioWarning> {
        let job = &self.job;
        let mut warnings = Vec::new();
        if job.iodepth > 1 && job.ioengine.is_synchronous() {
            warnings.push(FioWarning {
                line: self.iodepth_line.unwrap_or(job.line),
                option: "iodepth".to_owned(),
                message: format!(
                    "has no effect on job `{}`: the engine {} has one I/O in flight at most",
                    shown(&job.name),
                    job.ioengine
                ),
            });
        }
        if job.thinktime_spin > Nanoseconds::ZERO && job.thinktime == Nanoseconds::ZERO {
            warnings.push(FioWarning {
                line: self.spin_line.unwrap_or(job.line),
                option: "thinktime_spin".to_owned(),
                message: format!(
                    "has no effect on job `{}` without thinktime",
                    shown(&job.name)
                ),
            });
        }
        warnings
    }
}

/// What an option means to this program.
#[derive(Clone, Copy)]
enum Meaning {
    /// It sets a field of the job.
    Sets(Field),
    /// It cannot change when an I/O is issued or how long it takes: accepted with a warning that
    /// says why.
    NoTiming(&'static str),
    /// It could change timing, so only the value that leaves things as they are is accepted.
    Only(&'static str),
}

/// The fields that options set. One variant per option of fio, aliases share it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Description,
    Filename,
    Rw,
    RwMixRead,
    RwMixWrite,
    BlockSize,
    IoDepth,
    NumJobs,
    IoEngine,
    Direct,
    Buffered,
    Size,
    Runtime,
    TimeBased,
    ThinkTime,
    ThinkTimeSpin,
    ThinkTimeBlocks,
    ThinkCycles,
    Rate,
    RateIops,
    NoRandomMap,
    GroupReporting,
    Stonewall,
}

impl Field {
    /// Free text, in which a leading blank is part of the value and nothing is scaled.
    const fn is_text(self) -> bool {
        matches!(self, Self::Name | Self::Description | Self::Filename)
    }

    /// The field that decides the same: the later of the two counts.
    const fn canonical(self) -> Self {
        match self {
            Self::RwMixWrite => Self::RwMixRead,
            Self::Buffered => Self::Direct,
            other => other,
        }
    }

    /// A flag that is set by its name alone.
    const fn is_flag(self) -> bool {
        matches!(
            self,
            Self::TimeBased | Self::NoRandomMap | Self::GroupReporting | Self::Stonewall
        )
    }
}

const LOG: &str = "is ignored: logs are not written";
const REPORT: &str = "is ignored: it shapes fio's report";
const CONTENT: &str = "is ignored: the content of the data does not matter to the model";
const OFFSETS: &str = "is ignored: it picks the random numbers, the model has its own seed";
const PLACES: &str =
    "is ignored: where an I/O lies decides nothing but which drive of a RAID0 has it";
const LAYOUT: &str = "is ignored: files are not laid out";
const OVERHEAD: &str = "is ignored: the cost of fio's own measuring is not modelled";
const PROCESS: &str = "is ignored: it changes how fio runs, not what the drive and the CPU see";

/// Every option that is accepted in some form, in the order of fio's manual.
const OPTIONS: &[(&str, Meaning)] = &[
    ("name", Meaning::Sets(Field::Name)),
    ("description", Meaning::Sets(Field::Description)),
    ("filename", Meaning::Sets(Field::Filename)),
    ("rw", Meaning::Sets(Field::Rw)),
    ("readwrite", Meaning::Sets(Field::Rw)),
    ("rwmixread", Meaning::Sets(Field::RwMixRead)),
    ("rwmixwrite", Meaning::Sets(Field::RwMixWrite)),
    ("bs", Meaning::Sets(Field::BlockSize)),
    ("blocksize", Meaning::Sets(Field::BlockSize)),
    ("iodepth", Meaning::Sets(Field::IoDepth)),
    ("numjobs", Meaning::Sets(Field::NumJobs)),
    ("ioengine", Meaning::Sets(Field::IoEngine)),
    ("direct", Meaning::Sets(Field::Direct)),
    ("buffered", Meaning::Sets(Field::Buffered)),
    ("size", Meaning::Sets(Field::Size)),
    ("runtime", Meaning::Sets(Field::Runtime)),
    ("timeout", Meaning::Sets(Field::Runtime)),
    ("time_based", Meaning::Sets(Field::TimeBased)),
    ("thinktime", Meaning::Sets(Field::ThinkTime)),
    ("thinktime_spin", Meaning::Sets(Field::ThinkTimeSpin)),
    ("thinktime_blocks", Meaning::Sets(Field::ThinkTimeBlocks)),
    ("thinkcycles", Meaning::Sets(Field::ThinkCycles)),
    ("rate", Meaning::Sets(Field::Rate)),
    ("rate_iops", Meaning::Sets(Field::RateIops)),
    ("norandommap", Meaning::Sets(Field::NoRandomMap)),
    ("group_reporting", Meaning::Sets(Field::GroupReporting)),
    ("stonewall", Meaning::Sets(Field::Stonewall)),
    ("wait_for_previous", Meaning::Sets(Field::Stonewall)),
    ("kb_base", Meaning::Only("1024")),
    ("loops", Meaning::Only("1")),
    ("nrfiles", Meaning::Only("1")),
    ("thinktime_blocks_type", Meaning::Only("complete")),
    ("rate_process", Meaning::Only("linear")),
    ("rate_ignore_thinktime", Meaning::Only("0")),
    ("io_submit_mode", Meaning::Only("inline")),
    ("startdelay", Meaning::Only("0")),
    ("ramp_time", Meaning::Only("0")),
    ("fsync", Meaning::Only("0")),
    ("fdatasync", Meaning::Only("0")),
    ("end_fsync", Meaning::Only("0")),
    ("refill_buffers", Meaning::Only("0")),
    ("zonemode", Meaning::Only("none")),
    ("unit_base", Meaning::NoTiming(REPORT)),
    ("directory", Meaning::NoTiming(LAYOUT)),
    ("filename_format", Meaning::NoTiming(LAYOUT)),
    ("unique_filename", Meaning::NoTiming(LAYOUT)),
    ("fallocate", Meaning::NoTiming(LAYOUT)),
    ("create_serialize", Meaning::NoTiming(LAYOUT)),
    ("create_fsync", Meaning::NoTiming(LAYOUT)),
    ("allow_file_create", Meaning::NoTiming(LAYOUT)),
    ("allow_mounted_write", Meaning::NoTiming(LAYOUT)),
    ("overwrite", Meaning::NoTiming(LAYOUT)),
    ("unlink", Meaning::NoTiming(LAYOUT)),
    ("randrepeat", Meaning::NoTiming(OFFSETS)),
    ("allrandrepeat", Meaning::NoTiming(OFFSETS)),
    ("randseed", Meaning::NoTiming(OFFSETS)),
    ("random_generator", Meaning::NoTiming(OFFSETS)),
    ("offset", Meaning::NoTiming(PLACES)),
    ("offset_align", Meaning::NoTiming(PLACES)),
    ("offset_increment", Meaning::NoTiming(PLACES)),
    ("percentage_random", Meaning::NoTiming(PLACES)),
    ("random_distribution", Meaning::NoTiming(PLACES)),
    ("softrandommap", Meaning::NoTiming(PLACES)),
    ("zero_buffers", Meaning::NoTiming(CONTENT)),
    ("scramble_buffers", Meaning::NoTiming(CONTENT)),
    ("buffer_pattern", Meaning::NoTiming(CONTENT)),
    ("buffer_compress_percentage", Meaning::NoTiming(CONTENT)),
    ("buffer_compress_chunk", Meaning::NoTiming(CONTENT)),
    ("dedupe_percentage", Meaning::NoTiming(CONTENT)),
    ("thread", Meaning::NoTiming(PROCESS)),
    ("mem", Meaning::NoTiming(PROCESS)),
    ("uid", Meaning::NoTiming(PROCESS)),
    ("gid", Meaning::NoTiming(PROCESS)),
    ("new_group", Meaning::NoTiming(REPORT)),
    ("stats", Meaning::NoTiming(REPORT)),
    ("error_dump", Meaning::NoTiming(REPORT)),
    ("disk_util", Meaning::NoTiming(REPORT)),
    ("unified_rw_reporting", Meaning::NoTiming(REPORT)),
    ("lat_percentiles", Meaning::NoTiming(REPORT)),
    ("clat_percentiles", Meaning::NoTiming(REPORT)),
    ("slat_percentiles", Meaning::NoTiming(REPORT)),
    ("percentile_list", Meaning::NoTiming(REPORT)),
    ("significant_figures", Meaning::NoTiming(REPORT)),
    ("block_error_percentiles", Meaning::NoTiming(REPORT)),
    ("clocksource", Meaning::NoTiming(OVERHEAD)),
    ("gtod_reduce", Meaning::NoTiming(OVERHEAD)),
    ("gtod_cpu", Meaning::NoTiming(OVERHEAD)),
    ("disable_lat", Meaning::NoTiming(OVERHEAD)),
    ("disable_clat", Meaning::NoTiming(OVERHEAD)),
    ("disable_slat", Meaning::NoTiming(OVERHEAD)),
    ("disable_bw_measurement", Meaning::NoTiming(OVERHEAD)),
    ("per_job_logs", Meaning::NoTiming(LOG)),
    ("write_bw_log", Meaning::NoTiming(LOG)),
    ("write_lat_log", Meaning::NoTiming(LOG)),
    ("write_iops_log", Meaning::NoTiming(LOG)),
    ("write_hist_log", Meaning::NoTiming(LOG)),
    ("bwavgtime", Meaning::NoTiming(LOG)),
    ("iopsavgtime", Meaning::NoTiming(LOG)),
    ("log_entries", Meaning::NoTiming(LOG)),
    ("log_avg_msec", Meaning::NoTiming(LOG)),
    ("log_hist_msec", Meaning::NoTiming(LOG)),
    ("log_hist_coarseness", Meaning::NoTiming(LOG)),
    ("log_max_value", Meaning::NoTiming(LOG)),
    ("log_offset", Meaning::NoTiming(LOG)),
    ("log_prio", Meaning::NoTiming(LOG)),
    ("log_compression", Meaning::NoTiming(LOG)),
    ("log_compression_cpus", Meaning::NoTiming(LOG)),
    ("log_store_compressed", Meaning::NoTiming(LOG)),
    ("log_unix_epoch", Meaning::NoTiming(LOG)),
];

/// Options of fio that are known and refused, so that the message can say that it is not a
/// misspelling.
const UNSUPPORTED: &[&str] = &[
    "atomic",
    "ba",
    "blockalign",
    "blocksize_range",
    "blocksize_unaligned",
    "bs_is_seq_rand",
    "bs_unaligned",
    "bsrange",
    "bssplit",
    "cgroup",
    "cgroup_weight",
    "continue_on_error",
    "cpuchunks",
    "cpuload",
    "cpumask",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_only",
    "create_on_open",
    "do_verify",
    "exec_postrun",
    "exec_prerun",
    "exitall",
    "exitall_on_error",
    "exit_what",
    "fadvise_hint",
    "file_append",
    "file_service_type",
    "filesize",
    "fill_device",
    "fill_fs",
    "fixedbufs",
    "flow",
    "flow_id",
    "flow_sleep",
    "fsync_on_close",
    "hipri",
    "ignore_error",
    "invalidate",
    "io_limit",
    "io_size",
    "ioprio",
    "ioprio_class",
    "ioscheduler",
    "iodepth_batch",
    "iodepth_batch_complete",
    "iodepth_batch_complete_max",
    "iodepth_batch_complete_min",
    "iodepth_batch_submit",
    "iodepth_low",
    "iomem_align",
    "latency_percentile",
    "latency_run",
    "latency_target",
    "latency_window",
    "lockfile",
    "lockmem",
    "max_latency",
    "merge_blktrace_file",
    "nice",
    "nonvectored",
    "nowait",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "number_ios",
    "openfiles",
    "pre_read",
    "prio",
    "prioclass",
    "profile",
    "rate_cycle",
    "rate_iops_min",
    "rate_min",
    "read_iolog",
    "registerfiles",
    "replay_no_stall",
    "replay_redirect",
    "rw_sequencer",
    "serialize_overlap",
    "sqthread_poll",
    "sqthread_poll_cpu",
    "steadystate",
    "sync",
    "sync_file_range",
    "thinktime_iotime",
    "trim_percentage",
    "uncached",
    "userspace_reap",
    "verify",
    "verify_only",
    "wait_for",
    "write_barrier",
    "write_hint",
    "write_iolog",
    "zonerange",
    "zonesize",
    "zoneskip",
];

/// Options of fio's command line, which fio does not take in a job file either.
const COMMAND_LINE: &[&str] = &[
    "append-terse",
    "bandwidth-log",
    "client",
    "debug",
    "eta",
    "eta-newline",
    "idle-prof",
    "max-jobs",
    "minimal",
    "output",
    "output-format",
    "parse-only",
    "readonly",
    "section",
    "server",
    "showcmd",
    "status-interval",
    "terse-version",
    "trigger",
    "trigger-file",
    "trigger-timeout",
];

/// Engines of fio that move no data through a block device, or not through the kernel's block
/// layer.
const OTHER_ENGINES: &[&str] = &[
    "cpuio",
    "dev-dax",
    "e4defrag",
    "exec",
    "falloc",
    "filecreate",
    "filedelete",
    "filestat",
    "ftruncate",
    "gfapi",
    "io_uring_cmd",
    "libpmem",
    "mmap",
    "mtd",
    "nbd",
    "net",
    "netsplice",
    "null",
    "posixaio",
    "rados",
    "rbd",
    "rdma",
    "sg",
    "splice",
    "vsync",
    "xnvme",
];

/// Patterns of fio with trims, which no drive model answers yet.
const TRIMS: &[&str] = &["trim", "randtrim", "trimwrite", "randtrimwrite"];

/// How far an option of fio is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionSupport {
    /// It sets a field of [`FioJob`].
    Full,
    /// Accepted with a [`FioWarning`] that says why it does not matter.
    Ignored(&'static str),
    /// Accepted with this one value only, which leaves things as they are.
    OnlyValue(&'static str),
}

/// Every option that a job file may have, in the order of fio's manual, aliases included.
pub fn known_options() -> impl Iterator<Item = (&'static str, OptionSupport)> {
    OPTIONS.iter().map(|&(name, meaning)| {
        let support = match meaning {
            Meaning::Sets(_) => OptionSupport::Full,
            Meaning::NoTiming(why) => OptionSupport::Ignored(why),
            Meaning::Only(value) => OptionSupport::OnlyValue(value),
        };
        (name, support)
    })
}

/// Whether a line of a job file sets what `option` sets, by this or another name: `timeout` is `runtime`, and `buffered`
/// the opposite of `direct`.
pub fn line_sets(line: &str, option: &str) -> bool {
    let content = strip(line);
    let key = content.split_once('=').map_or(content, |(key, _)| key);
    let key = key.trim_end();
    let field = |name: &str| {
        OPTIONS
            .iter()
            .find(|(known, _)| *known == name)
            .and_then(|(_, meaning)| match meaning {
                Meaning::Sets(field) => Some(field.canonical()),
                Meaning::NoTiming(_) | Meaning::Only(_) => None,
            })
    };
    key == option || field(key).is_some_and(|of_line| field(option) == Some(of_line))
}

/// Applies one `key=value` or flag line to the job. Returns the option and a remark when the line
/// does not do all that it might seem to ask for.
pub(super) fn apply(
    draft: &mut Draft,
    content: &str,
    line: usize,
) -> Result<Option<(&'static str, String)>, Problem> {
    let (key, value) = match content.split_once('=') {
        Some((key, value)) => (key.trim_end(), Some(value)),
        None => (content, None),
    };
    let Some(&(name, meaning)) = OPTIONS.iter().find(|(name, _)| *name == key) else {
        return Err(unknown(key));
    };
    let about = |problem: Problem| Problem {
        message: format!("{name}: {}", problem.message),
        ..problem
    };
    match meaning {
        Meaning::NoTiming(why) => Ok(Some((name, why.to_owned()))),
        Meaning::Only(only) => {
            if value.map(str::trim) == Some(only) {
                Ok(None)
            } else {
                Err(Problem::new(format!(
                    "{name}: only {name}={only} is supported, because anything else could change timing"
                )))
            }
        }
        Meaning::Sets(field) => set(draft, field, value, line)
            .map(|remark| remark.map(|text| (name, text)))
            .map_err(about),
    }
}

fn unknown(key: &str) -> Problem {
    if UNSUPPORTED.contains(&key) || key.starts_with("verify_") || key.starts_with("trim_") {
        return Problem::new(format!(
            "the fio option `{key}` could change timing and is not supported"
        ));
    }
    if COMMAND_LINE.contains(&key) {
        return Problem::new(format!(
            "`{key}` is an option of fio's command line, not of a job file"
        ));
    }
    if key == "include" || key.starts_with("include ") {
        return Problem::new("`include` is not supported; copy the other file in");
    }
    if key.is_empty() {
        return Problem::new("an option name is missing before `=`");
    }
    Problem::new(format!("unknown option `{}`", shown(key)))
        .nearest(key, OPTIONS.iter().map(|(name, _)| *name))
}

/// The value of an option that needs one, with the blank that may follow `=` taken off where fio
/// does not trip over it.
fn required(field: Field, value: Option<&str>) -> Result<&str, Problem> {
    let value = value.ok_or_else(|| Problem::new("a value is missing; write option=value"))?;
    if field.is_text() {
        return Ok(value);
    }
    let trimmed = value.trim_start();
    if trimmed.len() < value.len() && !trimmed.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Problem::new(format!(
            "fio misreads `{}` after a blank; write it right behind the `=`",
            shown(trimmed)
        )));
    }
    Ok(trimmed)
}

fn set(
    draft: &mut Draft,
    field: Field,
    value: Option<&str>,
    line: usize,
) -> Result<Option<String>, Problem> {
    if field.is_flag() {
        let on = match value {
            None => true,
            Some(_) => switch(required(field, value)?)?,
        };
        set_flag(draft, field, on, line);
        return Ok(None);
    }
    let value = required(field, value)?;
    let job = &mut draft.job;
    // Remarks on kib and its kind, in whichever option they stand.
    let mut surprise = None;
    let mut size_of = |text: &str| {
        let parsed = bytes(text)?;
        if parsed.surprising {
            surprise = Some(format!(
                "`{}` is {} bytes to fio, whose kib is 1000 and whose k is 1024",
                shown(text),
                parsed.value
            ));
        }
        Ok(parsed.value)
    };
    match field {
        Field::Name => job.name = text(value)?,
        Field::Description => job.description = Some(text(value)?),
        Field::Filename => {
            job.filename = Some(text(value)?);
            if value.starts_with(['"', '\'']) {
                return Ok(Some(
                    "keeps its quotes: they are part of the name".to_owned(),
                ));
            }
        }
        Field::Rw => job.rw = pattern(value)?,
        Field::RwMixRead => job.rwmixread = percent(value)?,
        Field::RwMixWrite => job.rwmixread = 100 - percent(value)?,
        Field::BlockSize => {
            let sizes = per_direction(value, |text| at_least(1, size_of(text)?))?;
            // An empty part leaves the direction as it was, by default or by a [global] section.
            job.block_size.read = sizes.read.unwrap_or(job.block_size.read);
            job.block_size.write = sizes.write.unwrap_or(job.block_size.write);
        }
        Field::IoDepth => {
            job.iodepth = within(1, MAX_IODEPTH, count(value)?)?;
            draft.iodepth_line = Some(line);
        }
        Field::NumJobs => job.numjobs = within(1, MAX_JOBS, count(value)?)?,
        Field::IoEngine => job.ioengine = engine(value)?,
        Field::Direct => job.direct = switch(value)?,
        Field::Buffered => job.direct = !switch(value)?,
        Field::Size => {
            job.size = Some(match value.strip_suffix('%') {
                Some(share) => Size::Percent(within(1, 100, u64::from(percent(share)?))? as u8),
                None => Size::Bytes(at_least(1, size_of(value)?)?),
            });
            draft.size_line = Some(line);
        }
        Field::Runtime => {
            let limit = time(value, 1_000_000)?;
            // 0 is fio's way to say "no limit".
            job.runtime = (limit > Nanoseconds::ZERO).then_some(limit);
            draft.runtime_line = Some(line);
        }
        Field::ThinkTime => job.thinktime = time(value, 1)?,
        Field::ThinkTimeSpin => {
            job.thinktime_spin = time(value, 1)?;
            draft.spin_line = Some(line);
        }
        Field::ThinkTimeBlocks => {
            job.thinktime_blocks = within(1, u32::MAX, count(value)?)?;
        }
        Field::ThinkCycles => {
            job.thinkcycles = u64::from(within(0, u32::MAX, count(value)?)?);
        }
        Field::Rate => {
            let limits = per_direction(value, |text| at_least(1, size_of(text)?))?;
            job.rate.read = limits.read.or(job.rate.read);
            job.rate.write = limits.write.or(job.rate.write);
            draft.rate_line = Some(line);
        }
        Field::RateIops => {
            let limits = per_direction(value, |text| at_least(1, count(text)?))?;
            job.rate_iops.read = limits.read.or(job.rate_iops.read);
            job.rate_iops.write = limits.write.or(job.rate_iops.write);
            draft.rate_iops_line = Some(line);
        }
        Field::TimeBased | Field::NoRandomMap | Field::GroupReporting | Field::Stonewall => {}
    }
    Ok(surprise)
}

fn set_flag(draft: &mut Draft, field: Field, on: bool, line: usize) {
    let job = &mut draft.job;
    match field {
        Field::TimeBased => {
            job.time_based = on;
            draft.time_based_line = Some(line);
        }
        Field::NoRandomMap => job.norandommap = on,
        Field::GroupReporting => job.group_reporting = on,
        Field::Stonewall => job.stonewall = on,
        _ => {}
    }
}

/// Free text, taken as it stands, quotes and all. Only the blank at its end is lost, as in fio.
fn text(value: &str) -> Result<String, Problem> {
    if value.is_empty() {
        return Err(Problem::new("a value is missing"));
    }
    if value.contains("${") {
        return Err(Problem::new(
            "environment variables are not substituted; write the value out",
        ));
    }
    Ok(value.to_owned())
}

fn pattern(value: &str) -> Result<ReadWrite, Problem> {
    if let Some((_, pattern)) = ReadWrite::NAMES.iter().find(|(name, _)| *name == value) {
        return Ok(*pattern);
    }
    let base = value.split(':').next().unwrap_or_default();
    if base.len() < value.len() && ReadWrite::NAMES.iter().any(|(name, _)| *name == base) {
        return Err(Problem::new(format!(
            "`{}`: a number of I/Os per offset is not supported; write rw={base}",
            shown(value)
        )));
    }
    if TRIMS.contains(&base) {
        return Err(Problem::new(format!("`{base}`: trims are not supported")));
    }
    let names = || ReadWrite::NAMES.iter().map(|(name, _)| *name);
    let list: Vec<&str> = names().collect();
    Err(Problem::new(format!(
        "unknown pattern `{}`; expected one of {}",
        shown(value),
        list.join(", ")
    ))
    .nearest(value, names()))
}

fn engine(value: &str) -> Result<IoEngine, Problem> {
    if let Some((_, engine)) = IoEngine::NAMES.iter().find(|(name, _)| *name == value) {
        return Ok(*engine);
    }
    let names = || IoEngine::NAMES.iter().map(|(name, _)| *name);
    let list: Vec<&str> = names().collect();
    let list = list.join(", ");
    if OTHER_ENGINES.contains(&value) {
        return Err(Problem::new(format!(
            "the engine `{value}` is not supported; expected one of {list}"
        )));
    }
    Err(Problem::new(format!(
        "unknown engine `{}`; expected one of {list}",
        shown(value)
    ))
    .nearest(value, names()))
}

fn at_least(least: u64, value: u64) -> Result<u64, Problem> {
    if value < least {
        return Err(Problem::new(format!("must be at least {least}")));
    }
    Ok(value)
}

fn within(least: u32, most: u32, value: u64) -> Result<u32, Problem> {
    u32::try_from(value)
        .ok()
        .filter(|v| (least..=most).contains(v))
        .ok_or_else(|| {
            Problem::new(format!(
                "{value} is out of range; expected {least} to {most}"
            ))
        })
}
