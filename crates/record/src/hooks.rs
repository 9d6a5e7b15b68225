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
    /// When CPUs leave the idle loop is seen only by the switches of the idle task.
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
        let lacks = |name: &str| self.missing.iter().any(|hook| hook.name == name);
        let known = |hooks: &[&str]| {
            if hooks.iter().any(|hook| lacks(hook)) {
                DataQuality::Missing
            } else {
                DataQuality::Exact
            }
        };
        // A question counts when it is seen asked, and the choice that it was asked for, too.
        let asked = |question| known(&["cpuidle_select", "cpuidle_governor_latency_req", question]);
        Recorded {
            idle: known(&["cpu_idle"]),
            sleep_length: asked("tick_nohz_get_sleep_length"),
            tick: asked("tick_nohz_tick_stopped"),
            latency_request: asked("cpuidle_governor_latency_req"),
            iowaiters: asked("nr_iowait_cpu"),
            idle_loop: if self.by_switches {
                DataQuality::Inferred
            } else {
                DataQuality::Exact
            },
            block: known(&["block_rq_issue", "block_rq_complete"]),
            wakes: known(&["sched_wakeup"]),
            frequency: known(&["cpu_frequency"]),
            timers: known(&["hrtimer_expire_entry", "timer_expire_entry"]),
            queueing: known(&["block_bio_queue", "block_getrq", "block_rq_insert"]),
            interrupts: known(&["irq_handler_entry", "softirq_entry"]),
            ipis: known(&["ipi_send_cpu", "sched_wake_idle_without_ipi"]),
            tasks: known(&["sched_waking", "sched_wakeup", "sched_switch"]),
        }
    }

    /// Whether what governors are told is seen.
    pub(crate) fn sees_reflect(&self) -> bool {
        !self
            .missing
            .iter()
            .any(|hook| hook.name == "cpuidle_reflect")
    }
}

fn attach_one(ebpf: &mut Ebpf, btf: &Btf, hook: &Hook) -> Result<Link, ProgramError> {
    let Some(program) = ebpf.program_mut(hook.program) else {
        return Err(ProgramError::NotLoaded);
    };
    match hook.place {
        Place::Tracepoint => {
            let program: &mut BtfTracePoint = program.try_into()?;
            program.load(hook.name, btf)?;
            let id = program.attach()?;
            program.take_link(id).map(Link::Tracepoint)
        }
        Place::Return => {
            let program: &mut FExit = program.try_into()?;
            program.load(hook.name, btf)?;
            let id = program.attach()?;
            program.take_link(id).map(Link::Return)
        }
    }
}
