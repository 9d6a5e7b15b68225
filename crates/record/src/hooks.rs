//! The kernel hooks of the eBPF programs: the list, what each records, and attaching.

use std::collections::BTreeMap;

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
    /// The program runs when a kernel function returns.
    Return,
}

/// A kernel hook, and the eBPF program for it.
struct Hook {
    /// Name of the tracepoint or kernel function.
    name: &'static str,
    /// Name of the eBPF program in `record.bpf.c`.
    program: &'static str,
    place: Place,
    /// What is not recorded without the hook.
    gives: &'static str,
}

/// What [`MissingHook::gives`] says where the inputs of idle governors are not seen.
pub const GOVERNOR_INPUTS: &str = "governor inputs";
const QUEUEING: &str = "block requests before their issue";
const TASK_NAMES: &str = "new names of tasks";
const ARRIVING_IPIS: &str = "IPIs that arrive (explain takes completions that one CPU hands to another by IPI for the second's own)";
/// Name of the handlers of IPIs on arm64 and RISC-V (`arch/arm64/kernel/smp.c`, `arch/riscv/kernel/smp.c` of Linux 6.12).
const IPI_HANDLER: &str = "IPI";
const SENT_IPIS: &str = "how one CPU wakes another";

/// The first hook is required. Without the last, switches of the idle task tell when CPUs leave the idle loop, except
/// exits without work.
const HOOKS: [Hook; 32] = [
    tracepoint_hook("cpu_idle", "idle states"),
    tracepoint_hook("cpu_frequency", "frequency changes"),
    tracepoint_hook("sched_wakeup", "wake-ups"),
    tracepoint_hook("hrtimer_expire_entry", "timers that fired"),
    tracepoint_hook("timer_expire_entry", "timers that fired"),
    tracepoint_hook("block_rq_issue", "block requests"),
    tracepoint_hook("block_rq_complete", "block requests"),
    tracepoint_hook("block_bio_queue", QUEUEING),
    tracepoint_hook("block_getrq", QUEUEING),
    tracepoint_hook("block_rq_insert", QUEUEING),
    tracepoint_hook("block_rq_merge", QUEUEING),
    tracepoint_hook("block_split", QUEUEING),
    tracepoint_hook("block_bio_remap", QUEUEING),
    tracepoint_hook("irq_handler_entry", "interrupts of devices"),
    tracepoint_hook("softirq_entry", "the softirq that completes block requests"),
    Hook {
        program: "call_function_single",
        ..tracepoint_hook("call_function_single_entry", ARRIVING_IPIS)
    },
    Hook {
        program: "reschedule",
        ..tracepoint_hook("reschedule_entry", ARRIVING_IPIS)
    },
    tracepoint_hook("ipi_send_cpu", SENT_IPIS),
    Hook {
        program: "wake_without_ipi",
        ..tracepoint_hook("sched_wake_idle_without_ipi", SENT_IPIS)
    },
    tracepoint_hook("sched_waking", "wake-ups of tasks that wait for I/O"),
    tracepoint_hook("sched_switch", "when tasks run that waited for I/O"),
    tracepoint_hook("sched_process_exec", TASK_NAMES),
    tracepoint_hook("sched_process_exit", TASK_NAMES),
    tracepoint_hook("cpuhp_enter", "CPUs going on- and offline"),
    function_return_hook(
        "cpuidle_governor_latency_req",
        "latency_req",
        GOVERNOR_INPUTS,
    ),
    function_return_hook(
        "tick_nohz_get_sleep_length",
        "sleep_length",
        GOVERNOR_INPUTS,
    ),
    function_return_hook("nr_iowait_cpu", "nr_iowait", GOVERNOR_INPUTS),
    function_return_hook("tick_nohz_tick_stopped", "tick_stopped", GOVERNOR_INPUTS),
    function_return_hook("cpuidle_select", "cpuidle_select", GOVERNOR_INPUTS),
    function_return_hook("tick_nohz_idle_got_tick", "got_tick", GOVERNOR_INPUTS),
    function_return_hook("cpuidle_reflect", "cpuidle_reflect", GOVERNOR_INPUTS),
    function_return_hook(
        "tick_nohz_idle_exit",
        "idle_exit",
        "when CPUs leave the idle loop",
    ),
];

const fn tracepoint_hook(name: &'static str, gives: &'static str) -> Hook {
    Hook {
        name,
        program: name,
        place: Place::Tracepoint,
        gives,
    }
}

const fn function_return_hook(
    name: &'static str,
    program: &'static str,
    gives: &'static str,
) -> Hook {
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
    /// Name of the tracepoint or kernel function.
    pub name: &'static str,
    /// What is missing or incomplete in the recording without the hook.
    pub gives: &'static str,
    /// Why not.
    pub reason: String,
}

/// A program attached to a hook; dropping it detaches the program.
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

/// Attaches a program to every hook that the kernel has.
///
/// # Errors
/// When the first hook, without which there is nothing to record, cannot be used.
pub(crate) fn attach_available_hooks(ebpf: &mut Ebpf, btf: &Btf) -> Result<Attached, ProgramError> {
    let mut attached = Attached {
        links: Vec::new(),
        missing: Vec::new(),
        by_switches: false,
    };
    for (index, hook) in HOOKS.iter().enumerate() {
        match attach_hook(ebpf, btf, hook) {
            Ok(link) => attached.links.push(link),
            Err(error) if index == 0 => return Err(error),
            Err(_) if index + 1 == HOOKS.len() => attached.by_switches = true,
            Err(error) => attached.missing.push(MissingHook {
                name: hook.name,
                gives: hook.gives,
                reason: wakepath_ebpf::error_with_causes(&error),
            }),
        }
    }
    Ok(attached)
}

impl Attached {
    /// Which kinds of facts the attached hooks record, and how well.
    pub(crate) fn recorded_data(&self) -> Recorded {
        Recorded {
            idle: self.quality_if_all_hooks_attached(&["cpu_idle"]),
            sleep_length: self.governor_input_quality("tick_nohz_get_sleep_length"),
            tick: self.governor_input_quality("tick_nohz_tick_stopped"),
            latency_request: self.governor_input_quality("cpuidle_governor_latency_req"),
            iowaiters: self.governor_input_quality("nr_iowait_cpu"),
            idle_loop: if self.by_switches {
                DataQuality::Inferred
            } else {
                DataQuality::Exact
            },
            block: self.quality_if_all_hooks_attached(&["block_rq_issue", "block_rq_complete"]),
            wakes: self.quality_if_all_hooks_attached(&["sched_wakeup"]),
            frequency: self.quality_if_all_hooks_attached(&["cpu_frequency"]),
            // Counters are no hooks.
            clock: DataQuality::Missing,
            timers: self
                .quality_if_all_hooks_attached(&["hrtimer_expire_entry", "timer_expire_entry"]),
            queueing: self.quality_if_all_hooks_attached(&[
                "block_bio_queue",
                "block_getrq",
                "block_rq_insert",
            ]),
            interrupts: self.quality_if_all_hooks_attached(&["irq_handler_entry", "softirq_entry"]),
            ipis: self
                .quality_if_all_hooks_attached(&["ipi_send_cpu", "sched_wake_idle_without_ipi"]),
            tasks: self.quality_if_all_hooks_attached(&[
                "sched_waking",
                "sched_wakeup",
                "sched_switch",
            ]),
            // The programs are told whose steps to record.
            all_tasks: DataQuality::Missing,
        }
    }

    /// Takes IPIs as recorded where they arrive like interrupts of devices: arm64 and RISC-V have no `irq_vectors` to trace.
    /// `names`: the interrupts' names by number.
    pub(crate) fn find_ipis_among_interrupts(&mut self, names: &BTreeMap<u32, String>) {
        let has_handlers = names.values().any(|name| name == IPI_HANDLER);
        if has_handlers && !self.is_hook_missing("irq_handler_entry") {
            self.missing.retain(|hook| hook.gives != ARRIVING_IPIS);
        }
    }

    /// Whether outcomes of idle states are recorded.
    pub(crate) fn sees_idle_outcomes(&self) -> bool {
        !self.is_hook_missing("cpuidle_reflect")
    }

    fn is_hook_missing(&self, hook_name: &str) -> bool {
        self.missing.iter().any(|hook| hook.name == hook_name)
    }

    /// Quality of a kind of fact from some hooks.
    fn quality_if_all_hooks_attached(&self, hooks: &[&str]) -> DataQuality {
        if hooks.iter().any(|hook| self.is_hook_missing(hook)) {
            DataQuality::Missing
        } else {
            DataQuality::Exact
        }
    }

    /// Quality of a governor's input. The hook where the governor asks and the hooks around the choice are needed.
    fn governor_input_quality(&self, input_hook: &str) -> DataQuality {
        self.quality_if_all_hooks_attached(&[
            "cpuidle_select",
            "cpuidle_governor_latency_req",
            input_hook,
        ])
    }
}

fn attach_hook(ebpf: &mut Ebpf, btf: &Btf, hook: &Hook) -> Result<Link, ProgramError> {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use wakepath_explain::probes::hooks;
    use wakepath_system::Root;

    use super::*;
    use crate::facts::read_interrupt_names;

    /// Hooks that run at other times than on a request's usual way, or whose runs end the last part.
    const BESIDE_THE_WAY: [&str; 17] = [
        // While the drive works, before the CPU sleeps.
        "cpuidle_governor_latency_req",
        "tick_nohz_get_sleep_length",
        "tick_nohz_tick_stopped",
        "cpuidle_select",
        // With a scheduler, merged, split, or through dm, md and partitions.
        "block_rq_insert",
        "block_rq_merge",
        "block_split",
        "block_bio_remap",
        // Instead of an IPI, or of the one that a sleeping CPU gets.
        "sched_wake_idle_without_ipi",
        "reschedule_entry",
        // The task runs.
        "sched_switch",
        // Not for requests.
        "cpu_frequency",
        "hrtimer_expire_entry",
        "timer_expire_entry",
        "sched_process_exec",
        "sched_process_exit",
        "cpuhp_enter",
    ];

    /// `explain` counts runs of probes on a request's way. A new hook has to be counted there, or not to run on the way.
    #[test]
    fn explain_counts_the_probes_of_these_hooks() {
        let parts: [&[&str]; 7] = [
            &hooks::QUEUED,
            &hooks::OUT,
            &hooks::INTERRUPT,
            &hooks::OTHER_CPU,
            &hooks::HAND_OVER,
            &hooks::RUN_QUEUE,
            &hooks::OTHER_RUN_QUEUE,
        ];
        for part in parts {
            let different: BTreeSet<&str> = part.iter().copied().collect();
            assert_eq!(different.len(), part.len(), "{part:?}");
        }
        let counted: BTreeSet<&str> = parts.concat().into_iter().collect();
        let beside = BTreeSet::from(BESIDE_THE_WAY);
        assert!(counted.is_disjoint(&beside), "{counted:?}");
        let attached: BTreeSet<&str> = HOOKS.iter().map(|hook| hook.name).collect();
        let known: BTreeSet<&str> = counted.union(&beside).copied().collect();
        assert_eq!(attached, known);
    }

    /// A kernel that lacks these hooks.
    fn attached_without(names: &[&str]) -> Attached {
        let hooks = HOOKS.iter().filter(|hook| names.contains(&hook.name));
        let missing = hooks.map(|hook| MissingHook {
            name: hook.name,
            gives: hook.gives,
            reason: "no such tracepoint".to_owned(),
        });
        Attached {
            links: Vec::new(),
            missing: missing.collect(),
            by_switches: false,
        }
    }

    /// Names of interrupts below a root, whose kernel has no `events/irq_vectors`.
    fn names_on(interrupts: &[(u32, &str)]) -> BTreeMap<u32, String> {
        let root = tempfile::tempdir().unwrap();
        for (number, name) in interrupts {
            let folder = root.path().join(format!("sys/kernel/irq/{number}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("actions"), format!("{name}\n")).unwrap();
        }
        read_interrupt_names(&Root::at_directory(root.path()))
    }

    const VECTORS: [&str; 2] = ["call_function_single_entry", "reschedule_entry"];

    #[test]
    fn arm64_lacks_vectors_and_no_part_is_lost() {
        let names = names_on(&[(1, "IPI"), (2, "IPI"), (11, "arch_timer"), (28, "nvme0q1")]);
        let mut attached = attached_without(&VECTORS);
        attached.find_ipis_among_interrupts(&names);
        assert_eq!(attached.missing, []);
        let recorded = attached.recorded_data();
        for quality in [
            recorded.idle,
            recorded.block,
            recorded.queueing,
            recorded.interrupts,
            recorded.ipis,
            recorded.wakes,
            recorded.tasks,
            recorded.timers,
        ] {
            assert_eq!(quality, DataQuality::Exact);
        }
    }

    #[test]
    fn ipis_that_nothing_shows_are_named_with_the_part_that_they_cost() {
        // Another architecture, whose IPIs are no interrupts with handlers.
        let mut attached = attached_without(&VECTORS);
        attached.find_ipis_among_interrupts(&names_on(&[(28, "nvme0q1")]));
        let missing: Vec<&str> = attached.missing.iter().map(|hook| hook.name).collect();
        assert_eq!(missing, VECTORS);
        let gives = attached.missing[0].gives;
        assert!(gives.contains("IPIs that arrive (explain takes"), "{gives}");
        // Handlers of IPIs help only where handlers are seen.
        let mut blind = attached_without(&["irq_handler_entry", VECTORS[0], VECTORS[1]]);
        blind.find_ipis_among_interrupts(&names_on(&[(1, "IPI")]));
        assert_eq!(blind.missing.len(), 3);
        assert_eq!(blind.recorded_data().interrupts, DataQuality::Missing);
        // Before Linux 6.4 nothing tells who sent an IPI.
        let older = attached_without(&["ipi_send_cpu"]);
        assert_eq!(older.recorded_data().ipis, DataQuality::Missing);
    }
}
