//! Wake-ups that follow completions, also through other threads to the task that waits in the end.
//!
//! A woken thread may only pass the request on: `jbd2`, a `dm-crypt` worker, an `md` thread. Such a thread soon wakes the
//! waiting task. A thread passes on if another task submitted the request, or if the name is a kernel thread's.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::cpu::{Cpu, HANDLER_NS};
use crate::requests::{Hop, MAX_HOPS, Notification, RequestLog, TaskWake};

/// Most remembered tasks between wake-up and CPU.
const MAX_WAKING: usize = 1 << 20;
/// Longest run before a thread wakes the next thread. Assumed: `jbd2` and `dm-crypt` take
/// some 10 us, the decryption of 1 MiB some 500 us.
const PASSING_NS: u64 = 1_000_000;
/// Kernel threads that do I/O for others, by a name prefix that no program has.
const KERNEL_THREADS: [&str; 7] = [
    "jbd2/", "kworker/", "kcryptd", "dmcrypt_", "xfsaild/", "btrfs-", "z_",
];
/// Whether a text follows the number in a thread's name.
type IsRestOfName = fn(&str) -> bool;
/// Kernel threads with a device's number in their name: what is before the number, and what follows it.
const NUMBERED_THREADS: [(&str, IsRestOfName); 3] = [
    // `md127_raid1`, but not `md5sum`.
    ("md", |rest| rest.starts_with('_')),
    // `loop0`, but not `loop0back`.
    ("loop", str::is_empty),
    // `raid5wq`.
    ("raid", |rest| rest == "wq"),
];

/// A task on its way from a completion, or from the thread before, to a CPU.
#[derive(Clone, Copy)]
struct Waking {
    request: usize,
    time: u64,
    waker: u32,
}

/// A thread that runs because of a completion, and may wake the task that waits.
#[derive(Clone, Copy)]
struct Passing {
    request: usize,
    task: u32,
    since: u64,
    /// The thread works for everybody; otherwise only the submitter's wake-up counts.
    for_others: bool,
}

/// Tasks between completions and CPUs.
#[derive(Default)]
pub(crate) struct WakeUps {
    waking: HashMap<u32, Waking>,
    /// Threads that may pass a request on, by the CPU that runs them.
    passing: HashMap<u32, Passing>,
    kernel_threads: HashSet<u32>,
    /// Threads that handle a device's interrupt (`threadirqs`, PREEMPT_RT), with the interrupt's number.
    interrupt_threads: HashMap<u32, u32>,
    pub(crate) hops: Vec<Hop>,
}

impl WakeUps {
    /// Learns which tasks are kernel threads that do I/O for others, or that handle interrupts.
    pub(crate) fn learn_kernel_threads(&mut self, names: &BTreeMap<u32, String>) {
        let threads = names
            .iter()
            .filter(|(_, name)| is_name_of_kernel_io_thread(name));
        self.kernel_threads = threads.map(|(task, _)| *task).collect();
        let handlers = names
            .iter()
            .filter_map(|(task, name)| Some((*task, interrupt_of_thread_name(name)?)));
        self.interrupt_threads = handlers.collect();
    }

    /// The interrupt that a thread handles; `None` for other tasks.
    pub(crate) fn interrupt_of_thread(&self, task: u32) -> Option<u32> {
        self.interrupt_threads.get(&task).copied()
    }

    /// Forgets all tasks on their way, because events are missing.
    pub(crate) fn forget_tasks(&mut self) {
        self.waking.clear();
        self.passing.clear();
    }

    /// A thread submits a bio, and waits for another request from now on.
    pub(crate) fn note_submission(&mut self, on: u32, task: u32) {
        if self.passing.get(&on).is_some_and(|p| p.task == task) {
            self.passing.remove(&on);
        }
    }

    /// A CPU that becomes idle ran no thread to its next wake-up.
    pub(crate) fn note_idle_entry(&mut self, on: u32, entry: u64) {
        if self.passing.get(&on).is_some_and(|p| p.since < entry) {
            self.passing.remove(&on);
        }
    }

    /// A CPU begins to wake a task; `last_request` was completed there just before.
    pub(crate) fn begin_wake_up(
        &mut self,
        time: u64,
        waker: u32,
        task: u32,
        last_request: Option<(usize, u64)>,
        requests: &mut RequestLog,
    ) {
        self.waking.remove(&task);
        let request = match last_request {
            Some((request, completed)) => {
                if time.checked_sub(completed).is_none_or(|ns| ns > HANDLER_NS) {
                    return;
                }
                start_way_to_task(requests, request, Some(task), time);
                request
            }
            None => match self.pass_request_to_next_thread(time, waker, task, requests) {
                Some(request) => request,
                None => return,
            },
        };
        if self.waking.len() < MAX_WAKING {
            let waking = Waking {
                request,
                time,
                waker,
            };
            self.waking.insert(task, waking);
        }
    }

    /// Passes a request on from a thread that its completion woke to the next thread; returns the request's index if so.
    fn pass_request_to_next_thread(
        &mut self,
        time: u64,
        waker: u32,
        task: u32,
        requests: &mut RequestLog,
    ) -> Option<usize> {
        let passing = *self.passing.get(&waker)?;
        let request = requests.get_mut(passing.request)?;
        let is_late = time.saturating_sub(passing.since) > PASSING_NS;
        let is_meant = passing.for_others || request.task == Some(task);
        let wake = request.wake.as_mut()?;
        if is_late || !is_meant || task == passing.task || usize::from(wake.hops) >= MAX_HOPS {
            return None;
        }
        self.passing.remove(&waker);
        let waited = wake.exit + wake.run_queue?;
        let ran = time.checked_sub(passing.since)?;
        self.hops.push(Hop {
            request: passing.request,
            task: passing.task,
            waited,
            ran,
        });
        *wake = TaskWake {
            task: Some(task),
            cpu: None,
            hops: wake.hops + 1,
            through: wake.through + waited + ran,
            exit: 0,
            run_queue: None,
            notification: Notification::Unknown,
            ..*wake
        };
        Some(passing.request)
    }

    /// Notes that a CPU runs a task, which ends the task's wait for a request if there was one.
    pub(crate) fn note_running_task(
        &mut self,
        time: u64,
        on: u32,
        task: u32,
        cpu: &Cpu,
        requests: &mut RequestLog,
    ) {
        self.passing.remove(&on);
        let Some(waking) = self.waking.remove(&task) else {
            return;
        };
        let Some(request) = requests.get_mut(waking.request) else {
            return;
        };
        let submitter = request.task;
        let Some(wake) = request.wake.as_mut() else {
            return;
        };
        let mut periods = cpu.periods.iter();
        let slept = periods.rfind(|period| period.contains_time(waking.time));
        let exit = slept.map_or(0, |period| {
            period.exit.min(time).saturating_sub(waking.time)
        });
        let notified = cpu.notified.filter(|sender| {
            sender.cpu == waking.waker && (waking.time..=time).contains(&sender.sent)
        });
        wake.cpu = Some(on);
        wake.exit = exit;
        wake.run_queue = time.checked_sub(waking.time.saturating_add(exit));
        wake.notification = match notified {
            _ if waking.waker == on => Notification::SameCpu,
            Some(sender) => sender.notification,
            None => Notification::Unknown,
        };
        let for_others = self.kernel_threads.contains(&task);
        if for_others || submitter.is_some_and(|submitter| submitter != task) {
            let passing = Passing {
                request: waking.request,
                task,
                since: time,
                for_others,
            };
            self.passing.insert(on, passing);
        }
    }
}

/// Begins a completed request's way to a task that is woken at this time.
pub(crate) fn start_way_to_task(
    requests: &mut RequestLog,
    request: usize,
    task: Option<u32>,
    time: u64,
) {
    if let Some(request) = requests.get_mut(request) {
        let hand_over = time.saturating_sub(request.completed);
        request.wake = Some(TaskWake {
            task,
            cpu: None,
            hand_over,
            hops: 0,
            through: 0,
            exit: 0,
            run_queue: None,
            notification: Notification::Unknown,
        });
    }
}

/// Whether the name is a kernel thread's that does I/O for others.
fn is_name_of_kernel_io_thread(name: &str) -> bool {
    let mut prefixes = KERNEL_THREADS.iter();
    let mut numbered = NUMBERED_THREADS.iter();
    prefixes.any(|prefix| name.starts_with(prefix))
        || numbered.any(|(prefix, fits)| {
            name.strip_prefix(prefix).is_some_and(|numbered| {
                let rest = numbered.trim_start_matches(|c: char| c.is_ascii_digit());
                rest.len() < numbered.len() && fits(rest)
            })
        })
}

/// The number of the interrupt that a thread of this name handles: 27 for `irq/27-nvme0q1` (`setup_irq_thread()`,
/// `kernel/irq/manage.c`, Linux 6.1 and 6.12).
fn interrupt_of_thread_name(name: &str) -> Option<u32> {
    let (number, _) = name.strip_prefix("irq/")?.split_once('-')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_interrupts_are_known_by_their_numbers() {
        for (name, irq) in [
            ("irq/27-nvme0q1", Some(27)),
            ("irq/127-s-nvme0", Some(127)),
            ("irq/27", None),
            ("irq/-5-nvme", None),
            ("irq/99999999999-", None),
            ("irqbalance-27", None),
        ] {
            assert_eq!(interrupt_of_thread_name(name), irq, "{name}");
        }
    }

    #[test]
    fn kernel_threads_are_told_from_programs() {
        for name in [
            "jbd2/nvme0n1p2-8",
            "kworker/u8:2",
            "kcryptd/253:0",
            "md127_raid1",
            "loop0",
            "raid5wq",
        ] {
            assert!(is_name_of_kernel_io_thread(name), "{name}");
        }
        for name in [
            "fio",
            "md5sum",
            "md_raid1",
            "mdadm",
            "loopback",
            "loop2mount",
            "raid6check",
            "raider",
            "irqbalance",
        ] {
            assert!(!is_name_of_kernel_io_thread(name), "{name}");
        }
    }
}
