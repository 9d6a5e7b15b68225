//! Polled I/O: which of a job's completions and submissions somebody spins for, instead of waiting for an interrupt or making a
//! system call.

use super::{FioJob, IoEngine};

const OTHER_SUBMITTERS: &str =
    "io_submit_mode=offload or force_async beside it is not modelled; remove either";
const TRIMS: &str = "polling beside trims, which are no polled I/O, is not modelled; remove it";

impl IoEngine {
    /// Whether the engine has fio's option `hipri`.
    pub(super) const fn has_polled_completions(self) -> bool {
        self.is_io_uring() || matches!(self, Self::Pvsync2)
    }
}

impl FioJob {
    /// Whether the job's processes, or the kernel threads that submit for them, spin until I/Os complete.
    ///
    /// A polled I/O of `pvsync2` waits for its interrupt since Linux 5.19 (`block/fops.c`).
    pub const fn polls_for_completions(&self) -> bool {
        self.polling.completions && !self.ioengine.is_synchronous()
    }

    /// Why the job's polled completions have no model, or fail in fio; `None` if they are modelled, or there are none.
    pub(super) fn polled_completions_without_model(&self) -> Option<&'static str> {
        if !self.polling.completions {
            return None;
        }
        if !self.ioengine.has_polled_completions() {
            return Some("fio has it for io_uring, io_uring_cmd and pvsync2 only");
        }
        if !self.polls_for_completions() {
            None
        } else if !self.is_direct() {
            Some("polled buffered I/O fails with EOPNOTSUPP; set direct=1")
        } else if self.calls_fsync() && self.rw.writes() {
            Some("a polled ring refuses fsync with EINVAL; remove one of them")
        } else if self.has_other_submitters() {
            Some(OTHER_SUBMITTERS)
        } else {
            self.rw.trims().then_some(TRIMS)
        }
    }

    /// Why the job's polled submissions have no model, or fail in fio; `None` if they are modelled, or there are none.
    pub(super) fn polled_submissions_without_model(&self) -> Option<&'static str> {
        if !self.polling.submissions {
            None
        } else if !self.ioengine.is_io_uring() {
            Some("fio has it for io_uring and io_uring_cmd only")
        } else if !self.is_direct() {
            Some("a kernel thread that submits buffered I/O is not modelled; set direct=1")
        } else if self.has_other_submitters() {
            Some(OTHER_SUBMITTERS)
        } else if self.verify.checksum.is_some() {
            Some("verify beside it is not modelled; remove either")
        } else {
            self.rw.trims().then_some(TRIMS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::super::tests::parse_modelled_job as job;

    #[test]
    fn direct_rings_are_polled() {
        let polled = job("direct=1\nioengine=io_uring\nhipri").unwrap();
        assert!(polled.polls_for_completions() && !polled.polling.submissions);
        let both = job("direct=1\nioengine=io_uring\nhipri=1\nsqthread_poll\nsqthread_poll_cpu=3")
            .unwrap();
        assert!(both.polls_for_completions() && both.polling.submissions);
        assert_eq!(both.polling.thread_cpu, Some(3));
        assert!(job("ioengine=io_uring_cmd\nhipri").is_ok());
        let off = job("direct=1\nioengine=io_uring\nhipri=0\nsqthread_poll=0\nsqthread_poll_cpu=3");
        assert!(off.unwrap().polling.thread_cpu == Some(3));
    }

    #[test]
    fn pvsync2_waits_for_its_interrupt() {
        let file = parse("[j]\nsize=1m\ndirect=1\nioengine=pvsync2\nhipri\n", "t.fio").unwrap();
        assert!(!file.jobs[0].polls_for_completions() && file.unmodelled.is_empty());
        let warning = file.warnings[0].to_string();
        assert!(warning.contains("5.19"), "{warning}");
    }

    #[test]
    fn what_fails_in_fio_is_refused_with_its_line() {
        for (lines, said) in [
            (
                "ioengine=io_uring\nhipri",
                "t.fio:4: hipri: polled buffered I/O",
            ),
            ("ioengine=io_uring\nsqthread_poll", "set direct=1"),
            ("direct=1\nhipri", "t.fio:4: hipri: fio has it for"),
            (
                "direct=1\nioengine=libaio\nsqthread_poll",
                "io_uring_cmd only",
            ),
            (
                "direct=1\nioengine=io_uring\nrw=write\nfsync=1\nhipri",
                "EINVAL",
            ),
            ("direct=1\nioengine=io_uring\nrw=trimwrite\nhipri", "trims"),
        ] {
            let error = job(lines).unwrap_err();
            assert!(error.contains(said), "{lines}: {error}");
        }
    }

    #[test]
    fn a_printed_job_polls_the_same_way() {
        let text = "[j]\nsize=1m\ndirect=1\nioengine=io_uring\nhipri=1\nsqthread_poll=1\nsqthread_poll_cpu=2\n";
        let file = parse(text, "t.fio").unwrap();
        let again = parse(&file.to_string(), "t.fio").unwrap();
        assert_eq!(again.jobs[0].polling, file.jobs[0].polling);
        assert_eq!(again.jobs[0].polling.thread_cpu, Some(2));
    }
}
