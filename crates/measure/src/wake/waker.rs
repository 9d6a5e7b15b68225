//! Which CPU wakes the sleeping one.

use wakepath_system::System;

use super::plan::WakePlan;

/// The CPU to wake another CPU from. The first on another core, because the waker keeps busy, and a core sleeps no deeper than
/// its busiest thread; without another core, the first other CPU.
pub(super) fn choose_waker(system: &System, sleeper: usize) -> Option<usize> {
    let siblings = system.cpus_of_same_core(sleeper);
    let mut others = system.cpus();
    others.retain(|cpu| *cpu != sleeper);
    let outside = others.iter().find(|cpu| !siblings.contains(cpu));
    outside.or(others.first()).copied()
}

/// Notes on CPUs that are woken by a thread of their own core.
pub(super) fn note_wakers_on_same_core(system: &System, plan: &WakePlan) -> Vec<String> {
    let sleepers = plan.kinds.iter().map(|kind| kind.cpu);
    let notes = sleepers.filter_map(|sleeper| {
        let waker = choose_waker(system, sleeper)?;
        let is_shared = system.cpus_of_same_core(sleeper).contains(&waker);
        is_shared.then(|| {
            format!(
                "CPU {waker}, which wakes CPU {sleeper}, is a busy thread of the same core, for want of another core: the core itself \
                 never sleeps, and exits are those of a thread"
            )
        })
    });
    notes.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wakepath_system::{CPUS, Root};

    use super::*;
    use crate::wake::plan::WakeSource;

    /// A machine whose CPUs have these lists of siblings in a file; without a file none is written.
    fn machine(lists: &[&str], file: Option<&str>) -> (tempfile::TempDir, System) {
        let directory = tempfile::tempdir().unwrap();
        for (cpu, list) in lists.iter().enumerate() {
            let topology = directory.path().join(format!("{CPUS}/cpu{cpu}/topology"));
            fs::create_dir_all(&topology).unwrap();
            if let Some(file) = file {
                fs::write(topology.join(file), format!("{list}\n")).unwrap();
            }
        }
        let system = System::new(Root::at_directory(directory.path()));
        (directory, system)
    }

    /// Wakers of all CPUs in turn.
    fn wakers(system: &System) -> Vec<Option<usize>> {
        let sleepers = system.cpus().into_iter();
        sleepers.map(|cpu| choose_waker(system, cpu)).collect()
    }

    #[test]
    fn another_core_wakes_a_cpu_where_there_is_one() {
        let pairs = ["0-1", "0-1", "2-3", "2-3"];
        for file in ["core_cpus_list", "thread_siblings_list"] {
            let (_directory, system) = machine(&pairs, Some(file));
            assert_eq!(wakers(&system), [2, 2, 0, 0].map(Some), "{file}");
        }
        // Without lists each CPU is a core.
        let (_directory, system) = machine(&pairs, None);
        assert_eq!(wakers(&system), [1, 0, 0, 0].map(Some));
        let (_directory, system) = machine(&["0"], Some("core_cpus_list"));
        assert_eq!(wakers(&system), [None]);
    }

    #[test]
    fn a_note_says_when_a_thread_of_the_same_core_wakes() {
        let (directory, system) = machine(&["0,2", "1,3", "0,2", "1,3"], Some("core_cpus_list"));
        let plan = WakePlan::new(&system, &[WakeSource::Task], false, None).unwrap();
        assert_eq!(note_wakers_on_same_core(&system, &plan), [""; 0]);
        fs::write(directory.path().join(CPUS).join("online"), "0,2\n").unwrap();
        let plan = WakePlan::new(&system, &[WakeSource::Task], false, None).unwrap();
        let [note] = &note_wakers_on_same_core(&system, &plan)[..] else {
            panic!("one note for CPU 2");
        };
        assert!(note.contains("CPU 0, which wakes CPU 2,"), "{note}");
    }
}
