//! How a job's processes poll for completions, and kernel threads for submissions, compiled.
//!
//! The rules are those of `block/blk-core.c`, `block/blk-mq.c` and `io_uring/sqpoll.c` in Linux 6.1, 6.12 and 7.3, and of
//! fio's engine io_uring.

use wakepath_hardware::Machine;
use wakepath_workloads::fio::{FioJob, IoEngine};

use crate::core::basics::CpuId;

/// The first kernel that fails polled requests to a drive without polled queues: assumed, between 6.1 and 6.12.
const REFUSES: (u16, u16, u16) = (6, 12, 0);

/// How a job's processes poll, and kernel threads for them. Default: nobody polls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PollingSetup {
    /// Whether processes spin until requests complete, instead of sleeping.
    pub(in crate::task) spins: bool,
    /// Whether requests go to polled queues, which interrupt nobody.
    pub(in crate::task) without_interrupts: bool,
    /// The kernel thread that submits the requests of each process, if there is one.
    pub(in crate::task) thread: Option<SubmitterSetup>,
}

/// A kernel thread that polls for a process's submissions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SubmitterSetup {
    /// The only CPU that the thread may run on; `None`: those of its process.
    pub(in crate::task) cpu: Option<CpuId>,
}

impl PollingSetup {
    /// Compiles a job's polling on a machine.
    ///
    /// # Errors
    /// The machine's kernel refuses the job's polled requests, or the machine is emulated.
    pub(crate) fn new(job: &FioJob, machine: &Machine) -> Result<Self, String> {
        let completions = job.polls_for_completions();
        let submissions = job.polling.submissions;
        if !completions && !submissions {
            return Ok(Self::default());
        }
        let queues = machine.io_path.completion.poll_queues.unwrap_or(0);
        if completions && queues == 0 && kernel_refuses_polling_without_queues(job, machine) {
            return Err(format!(
                "hipri on a drive without polled queues: {} fails with EOPNOTSUPP since Linux 6.12. Give \
                 io_path.completion.poll_queues (nvme.poll_queues=N) in the machine's file, or remove hipri",
                job.ioengine
            ));
        }
        if let Some(emulator) = &machine.emulator
            && (!submissions || !emulator.spin_turn_us.is_given())
            && (submissions || queues == 0)
        {
            return Err(
                "a program that polls without pauses on emulated CPUs, which take turns; the machine's file says by \
                 emulator.spin_turn_us when they do"
                    .to_owned(),
            );
        }
        let cpu = job.polling.thread_cpu.map(|cpu| cpu as CpuId);
        Ok(Self {
            spins: true,
            without_interrupts: completions && queues > 0,
            // As with cpus_allowed, a CPU that the machine lacks is left out.
            thread: submissions.then_some(SubmitterSetup {
                cpu: cpu.filter(|cpu| *cpu < machine.cpus()),
            }),
        })
    }
}

/// Whether the kernel fails polled requests to a drive without polled queues: Linux 6.1 makes ordinary ones of them. Commands
/// of the drive (`io_uring_cmd`) never fail.
fn kernel_refuses_polling_without_queues(job: &FioJob, machine: &Machine) -> bool {
    let is_new = (machine.kernel).is_none_or(|kernel| kernel.release() >= REFUSES);
    is_new && job.ioengine != IoEngine::IoUringCmd
}
