//! Reading the log of I/O that a job replays (`read_iolog`), and what is left of the job's own options then.
//!
//! As fio 3.33: the log decides directions, places, sizes, times and the end (`init_iolog()` in `iolog.c`, `do_io()` in `backend.c`).
//! Depth, engine, `runtime`, `ramp_time` and the order of jobs stay the job's.

use std::path::Path;

use crate::block_trace::{BlockTraceTotals, JobLog};

use super::replay::read_write_of_requests;
use super::syntax::split_at_unescaped_colons;
use super::{BlockSizes, BufferFilling, FioJob, LatencyTarget, PerDirection, Places, Polling};

impl FioJob {
    /// Reads the log that the job replays, which takes the place of the job's own directions, sizes, places and end. Returns what a
    /// user should know of the log.
    ///
    /// # Errors
    /// The log cannot be replayed; the message begins with its name.
    pub(super) fn read_io_log(&mut self) -> Result<Vec<String>, String> {
        let names = (self.io_log.file.as_deref())
            .map(split_at_unescaped_colons)
            .unwrap_or_default();
        let name = match &names[..] {
            [] => return Err("no log is named".to_owned()),
            [name] => name,
            // Process N takes the log with this number.
            [name, ..] if self.numjobs == 1 => name,
            _ => {
                return Err(
                    "a log for each process of a job is not modelled; give each log a job of its own".to_owned(),
                );
            }
        };
        if name == "-" {
            return Err("a log from standard input is not read; name a file".to_owned());
        }
        let log = JobLog::load(Path::new(name), self.io_log.options).map_err(|e| e.to_string())?;
        let mut notes = log.notes();
        if names.len() > 1 {
            notes.push("takes the first of its logs for a job of one process".to_owned());
        }
        self.leave_work_to_log(&log.totals);
        self.io_log.log = Some(Box::new(log));
        Ok(notes)
    }

    /// Lets the log decide what fio leaves to it.
    fn leave_work_to_log(&mut self, totals: &BlockTraceTotals) {
        self.rw = read_write_of_requests(totals);
        self.step = 0;
        self.block_size = PerDirection {
            read: totals.largest_read.max(1),
            write: totals.largest_write.max(1),
            trim: 1,
        };
        self.block_sizes = BlockSizes::default();
        self.size = None;
        self.filesize = None;
        self.io_size = None;
        self.number_ios = None;
        self.fill_device = false;
        self.loops = 1;
        self.time_based = false;
        self.fsync = 0;
        self.fdatasync = 0;
        self.rate = PerDirection::default();
        self.rate_iops = PerDirection::default();
        self.norandommap = true;
        self.places = Places::default();
    }

    /// What the job asks for beside a log that has no model there; `None`: nothing.
    pub(super) fn option_without_model_beside_log(&self) -> Option<&'static str> {
        let asked = [
            (self.verify.checksum.is_some(), "verify"),
            (
                self.has_other_submitters(),
                "io_submit_mode=offload or force_async",
            ),
            (self.polling != Polling::default(), "hipri or sqthread_poll"),
            (
                self.batching_unless_one_by_one().is_some(),
                "iodepth_batch and iodepth_low",
            ),
            (
                self.latency_target != LatencyTarget::default(),
                "latency_target",
            ),
            (self.steady_state.seconds > 0, "steadystate"),
            (self.flow.weight > 0, "flow"),
            (
                self.thinktime.0 > 0 || self.thinkcycles > 0,
                "thinktime or thinkcycles",
            ),
            (self.sync, "sync"),
            (
                matches!(
                    self.buffer_filling_before_write(),
                    BufferFilling::Copied | BufferFilling::Random(_)
                ),
                "refill_buffers",
            ),
        ];
        let found = asked.into_iter().find(|(is_asked, _)| *is_asked);
        found.map(|(_, option)| option)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use wakepath_units::Nanoseconds;

    use super::super::{FioJobFile, ReadWrite, Size, list_job_paths, parse};

    const LOG: &str = "fio version 3 iolog\n0 f add\n0 f open\n10 f read 0 8192\n20 f trim 0 512\n30 f write 8192 512\n\
                       40 f sync 0 0\n";

    /// A folder with a log, and the log's path.
    fn folder_with_log(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("io.log");
        std::fs::write(&path, text).unwrap();
        (folder, path)
    }

    fn parse_with_log(log: &str, options: &str) -> FioJobFile {
        let (_folder, path) = folder_with_log(log);
        let text = format!("[j]\ndirect=1\nread_iolog={}\n{options}\n", path.display());
        parse(&text, "t.fio").unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn the_log_decides_what_a_job_does() {
        let options = "rw=trim\nbs=1m\nsize=4k\nloops=7\nrate_iops=3\nnumber_ios=1\nfsync=1\nioengine=libaio\niodepth=8\n\
                       runtime=9\ntime_based\nreplay_time_scale=50\nreplay_scale=2\nreplay_align=4k\nreplay_redirect=g";
        let file = parse_with_log(LOG, options);
        assert_eq!(file.unmodelled, []);
        let job = &file.jobs[0];
        assert_eq!((job.rw, job.effective_iodepth()), (ReadWrite::RandRw, 8));
        assert_eq!((job.block_size.read, job.block_size.write), (8192, 512));
        assert_eq!((job.size, job.loops, job.fsync), (None, 1, 0));
        assert!(!job.time_based && !job.is_rate_limited());
        let limits = job.process_limits(1 << 40);
        assert_eq!((limits.ios, limits.bytes), (Some(3), Some(8704)));
        assert_eq!(limits.time, Some(Nanoseconds::from_secs(9)));
        let log = job.io_log.log.as_ref().unwrap();
        assert_eq!(log.duration(), Nanoseconds::from_micros(40));
        assert_eq!(log.totals.end_byte, 8192);
        let warning = file.warnings.iter().find(|w| w.option == "read_iolog");
        assert_eq!(
            warning.unwrap().message,
            "leaves out 1 trims or range flushes, as fio 3.33 does; decides instead of bs, size, number_ios, loops, fsync, \
             rate_iops"
        );
    }

    #[test]
    fn a_printed_job_with_a_log_is_the_same_job() {
        let (_folder, path) = folder_with_log(LOG);
        let text = format!(
            "[j]\ndirect=1\nread_iolog={}\nreplay_no_stall=1\nreplay_time_scale=7\nreplay_redirect=a b\nreplay_scale=3\n\
             replay_align=512\n",
            path.display()
        );
        let first = parse(&text, "t.fio").unwrap().jobs.remove(0);
        let mut again = parse(&first.to_string(), "t.fio").unwrap().jobs.remove(0);
        again.line = first.line;
        assert_eq!(again, first);
        assert_eq!(first.io_log.redirect.as_deref(), Some("a b"));
        assert!(!first.io_log.options.keeps_times);
    }

    #[test]
    fn jobs_beside_a_log_are_their_own() {
        let (_folder, path) = folder_with_log(LOG);
        let text = format!(
            "[global]\ndirect=1\n[log]\nread_iolog={}\n[own]\nrw=randread\nsize=1m\n",
            path.display()
        );
        let file = parse(&text, "t.fio").unwrap();
        assert_eq!(file.unmodelled, []);
        assert!(!file.jobs[1].io_log.is_given());
        assert_eq!(file.jobs[1].size, Some(Size::Bytes(1 << 20)));
    }

    #[test]
    fn what_has_no_model_beside_a_log_is_said() {
        for (options, wanted) in [
            ("verify=crc32c", "verify"),
            (
                "io_submit_mode=offload",
                "io_submit_mode=offload or force_async",
            ),
            (
                "ioengine=libaio\niodepth=8\niodepth_batch=4",
                "iodepth_batch and iodepth_low",
            ),
            ("thinktime=1ms", "thinktime or thinkcycles"),
            ("sync=1", "sync"),
            ("refill_buffers", "refill_buffers"),
            ("ss=iops:5%\nss_dur=3", "steadystate"),
            ("flow=1\nflow_id=1", "flow"),
        ] {
            let file = parse_with_log(LOG, options);
            let wanted = format!("t.fio:3: read_iolog: is not modelled together with {wanted}");
            let all: Vec<String> = file.unmodelled.iter().map(ToString::to_string).collect();
            assert!(all.contains(&wanted), "{options}: {all:?}");
        }
        let buffered = parse_with_log(LOG, "direct=0");
        let wanted = "t.fio:4: job `j`: buffered I/O is modelled without read_iolog: its requests are simulated as they stand, past \
                      the page cache; set direct=1";
        assert_eq!(buffered.unmodelled[0].to_string(), wanted);
    }

    #[test]
    fn a_log_that_cannot_be_replayed_keeps_a_job_from_being_simulated() {
        let (_folder, path) =
            folder_with_log("fio version 3 iolog\n10 f read 0 8192\n20 f read 0 0\n");
        let name = path.display().to_string();
        for (value, wanted) in [
            (
                name.clone(),
                format!("{name}:3: a read of 0 bytes: the trace is damaged"),
            ),
            (
                "-".to_owned(),
                "a log from standard input is not read; name a file".to_owned(),
            ),
            (":".to_owned(), "no log is named".to_owned()),
            (
                format!("{name}:{name}\nnumjobs=2"),
                "a log for each process of a job is not modelled; give each log a job of its own"
                    .to_owned(),
            ),
        ] {
            let file = parse(&format!("[j]\ndirect=1\nread_iolog={value}\n"), "t.fio").unwrap();
            let all: Vec<String> = file.unmodelled.iter().map(ToString::to_string).collect();
            assert_eq!(all, [format!("t.fio:3: read_iolog: {wanted}")]);
        }
        let missing = parse("[j]\ndirect=1\nread_iolog=no/such\x1b[2J.log\n", "t.fio").unwrap();
        let message = missing.unmodelled[0].to_string();
        assert!(
            message.starts_with("t.fio:3: read_iolog: no/such\\u{1b}[2J.log: cannot open: "),
            "{message}"
        );
        // fio itself may still run the job, with files that are known.
        assert!(list_job_paths("[j]\nread_iolog=no/such\nreplay_redirect=g\n", "t.fio").is_ok());
    }

    #[test]
    fn values_that_fio_refuses_are_errors() {
        for (line, wanted) in [
            (
                "replay_align=3000",
                "replay_align: `3000` is no power of 2, which fio asks for",
            ),
            (
                "replay_align=0",
                "replay_align: `0` is no power of 2, which fio asks for",
            ),
            (
                "replay_time_scale=0",
                "replay_time_scale: 0 is out of range; expected 1 to 4294967295",
            ),
            (
                "replay_skip=foo",
                "replay_skip: `foo`: expected one of read, write, trim, sync",
            ),
        ] {
            let error = parse(&format!("[j]\n{line}\nsize=1m\n"), "t.fio").unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("t.fio:2: {wanted}")),
                "{error}"
            );
        }
        let alone = parse("[j]\nreplay_no_stall=1\ndirect=1\nsize=1m\n", "t.fio").unwrap();
        let warning = alone.warnings[0].to_string();
        assert_eq!(
            warning,
            "line 2: `replay_no_stall` has no effect without read_iolog"
        );
    }
}
