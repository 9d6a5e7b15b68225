//! Kernel hooks: the list, what each records, and attaching.

use aya::programs::fexit::FExitLink;
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::{BtfTracePoint, FExit, ProgramError};
use aya::{Btf, Ebpf};
use wakepath_trace::recording::{DataQuality, Recorded};

/// How a program gets to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At a tracepoint.
    Tracepoint,
    /// When a kernel function returns.
    Return,
}

/// A hook, and the program for it.
struct Hook {
    /// The tracepoint or function.
    name: &'static str,
    /// The program in `record.bpf.c`.
    program: &'static str,
    place: Place,
    /// Data missing without the hook.
    gives: &'static str,
}

/// What [`MissingHook::gives`] says where the inputs of idle governors are not seen.
pub const GOVERNOR_INPUTS: &str = "governor inputs";
const QUEUEING: &str = "block requests before their issue";
const TASK_NAMES: &str = "new names of tasks";
const ARRIVING_IPIS: &str = "IPIs that arrive";
const SENT_IPIS: &str = "how one CPU wakes another";

/// The first hook is required. Without the last, switches of the idle task tell when CPUs leave the idle loop, except
/// exits without work.
const HOOKS: [Hook; 32] = [
    tracepoint("cpu_idle", "idle states"),
    tracepoint("cpu_frequency", "frequency changes"),
    tracepoint("sched_wakeup", "wake-ups"),
    tracepoint("hrtimer_expire_entry", "timers that fired"),
    tracepoint("timer_expire_entry", "timers that fired"),
    tracepoint("block_rq_issue", "block requests"),
    tracepoint("block_rq_complete", "block requests"),
    tracepoint("block_bio_queue", QUEUEING),
    tracepoint("block_getrq", QUEUEING),
    tracepoint("block_rq_insert", QUEUEING),
    tracepoint("block_rq_merge", QUEUEING),
    tracepoint("block_split", QUEUEING),
    tracepoint("block_bio_remap", QUEUEING),
    tracepoint("irq_handler_entry", "interrupts of devices"),
    tracepoint("softirq_entry", "the softirq that completes block requests"),
    Hook {
        program: "call_function_single",
        ..tracepoint("call_function_single_entry", ARRIVING_IPIS)
    },
    Hook {
        program: "reschedule",
        ..tracepoint("reschedule_entry", ARRIVING_IPIS)
    },
    tracepoint("ipi_send_cpu", SENT_IPIS),
    Hook {
        program: "wake_without_ipi",
        ..tracepoint("sched_wake_idle_without_ipi", SENT_IPIS)
    },
    tracepoint("sched_waking", "wake-ups of tasks that wait for I/O"),
    tracepoint("sched_switch", "when tasks run that waited for I/O"),
    tracepoint("sched_process_exec", TASK_NAMES),
    tracepoint("sched_process_exit", TASK_NAMES),
    tracepoint("cpuhp_enter", "CPUs going on- and offline"),
    at_return(
        "cpuidle_governor_latency_req",
        "latency_req",
        GOVERNOR_INPUTS,
    ),
    at_return(
        "tick_nohz_get_sleep_length",
        "sleep_length",
        GOVERNOR_INPUTS,
    ),
    at_return("nr_iowait_cpu", "nr_iowait", GOVERNOR_INPUTS),
    at_return("tick_nohz_tick_stopped", "tick_stopped", GOVERNOR_INPUTS),
    at_return("cpuidle_select", "cpuidle_select", GOVERNOR_INPUTS),
    at_return("tick_nohz_idle_got_tick", "got_tick", GOVERNOR_INPUTS),
    at_return("cpuidle_reflect", "cpuidle_reflect", GOVERNOR_INPUTS),
    at_return(
        "tick_nohz_idle_exit",
        "idle_exit",
        "when CPUs leave the idle loop",
    ),
];

const fn tracepoint(name: &'static str, gives: &'static str) -> Hook {
    Hook {
        name,
        program: name,
        place: Place::Tracepoint,
        gives,
    }
}

const fn at_return(name: &'static str, program: &'static str, gives: &'static str) -> Hook {
    Hook {
        name,
        program,
        place: Place::Return,
        gives,
    }
}

/// A hook that this kernel lacks or refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingHook {
    /// The tracepoint or function.
    pub name: &'static str,
    /// Data missing or incomplete without the hook.
    pub gives: &'static str,
    /// Why not.
    pub reason: String,
}

/// A program that runs; detached when dropped.
pub(crate) enum Link {
    Tracepoint(#[expect(dead_code, reason = "kept for its drop")] BtfTracePointLink),
    Return(#[expect(dead_code, reason = "kept for its drop")] FExitLink),
}

/// Result of attaching.
pub(crate) struct Attached {
    pub(crate) links: Vec<Link>,
    pub(crate) missing: Vec<MissingHook>,
    /// Whether only switches of the idle task tell when a CPU leaves the idle loop.
    by_switches: bool,
}

/// Attaches every available program.
///
/// # Errors
/// When the first hook, without which there is nothing to record, cannot be used.
pub(crate) fn attach(ebpf: &mut Ebpf, btf: &Btf) -> Result<Attached, ProgramError> {
    let mut attached = Attached {
        links: Vec::new(),
        missing: Vec::new(),
        by_switches: false,
    };
    for (index, hook) in HOOKS.iter().enumerate() {
        match attach_one(ebpf, btf, hook) {
            Ok(link) => attached.links.push(link),
            Err(error) if index == 0 => return Err(error),
            Err(_) if index + 1 == HOOKS.len() => attached.by_switches = true,
            Err(error) => attached.missing.push(MissingHook {
                name: hook.name,
                gives: hook.gives,
                reason: wakepath_ebpf::cause(&error),
            }),
        }
    }
    Ok(attached)
}

impl Attached {
    /// Data recorded by the attached hooks.
    pub(crate) fn recorded(&self) -> Recorded {
        Recorded {
            idle: self.quality(&["cpu_idle"]),
            sleep_length: self.input_quality("tick_nohz_get_sleep_length"),
            tick: self.input_quality("tick_nohz_tick_stopped"),
            latency_request: self.input_quality("cpuidle_governor_latency_req"),
            iowaiters: self.input_quality("nr_iowait_cpu"),
            idle_loop: if self.by_switches {
                DataQuality::Inferred
            } else {
                DataQuality::Exact
            },
            block: self.quality(&["block_rq_issue", "block_rq_complete"]),
            wakes: self.quality(&["sched_wakeup"]),
            frequency: self.quality(&["cpu_frequency"]),
            // Counters are no hooks.
            clock: DataQuality::Missing,
            timers: self.quality(&["hrtimer_expire_entry", "timer_expire_entry"]),
            queueing: self.quality(&["block_bio_queue", "block_getrq", "block_rq_insert"]),
            interrupts: self.quality(&["irq_handler_entry", "softirq_entry"]),
            ipis: self.quality(&["ipi_send_cpu", "sched_wake_idle_without_ipi"]),
            tasks: self.quality(&["sched_waking", "sched_wakeup", "sched_switch"]),
        }
    }

    /// Whether outcomes of idle states are recorded.
    pub(crate) fn sees_reflect(&self) -> bool {
        !self.lacks("cpuidle_reflect")
    }

    fn lacks(&self, name: &str) -> bool {
        self.missing.iter().any(|hook| hook.name == name)
    }

    /// Quality of data that come from some hooks.
    fn quality(&self, hooks: &[&str]) -> DataQuality {
        if hooks.iter().any(|hook| self.lacks(hook)) {
            DataQuality::Missing
        } else {
            DataQuality::Exact
        }
    }

    /// Quality of a governor's input. Beside the hook where the governor asks, the hooks around the choice are needed.
    fn input_quality(&self, question: &str) -> DataQuality {
        self.quality(&["cpuidle_select", "cpuidle_governor_latency_req", question])
    }
}

fn attach_one(ebpf: &mut Ebpf, btf: &Btf, hook: &Hook) -> Result<Link, ProgramError> {
    let Some(program) = ebpf.program_mut(hook.program) else {
        return Err(ProgramError::NotLoaded);
    };
    match hook.place {
        Place::Tracepoint => {
            let tracepoint: &mut BtfTracePoint = program.try_into()?;
            tracepoint.load(hook.name, btf)?;
            let id = tracepoint.attach()?;
            tracepoint.take_link(id).map(Link::Tracepoint)
        }
        Place::Return => {
            let exit: &mut FExit = program.try_into()?;
            exit.load(hook.name, btf)?;
            let id = exit.attach()?;
            exit.take_link(id).map(Link::Return)
        }
    }
}
