//! Events of the running machine as they happen, without a file.

use std::collections::HashSet;

use wakepath_system::{CgroupPaths, System};
use wakepath_trace::recording::{Event, EventKind, MAX_NAMES, Metadata, OpenIdlePeriod};

use crate::Overhead;
use crate::events::EventAssembler;
use crate::facts;
use crate::recording::LiveRecording;
use crate::residency::ResidencyMeter;
use crate::wire::{Record, RecordKind, WireError};

/// Name of the warning in a recording's metadata about tasks that the kernel runs no programs for.
pub const UNSEEN_SWITCHES: &str = "unseen-tasks";

/// Hands out events while they are recorded. Writing a file would be I/O itself.
pub struct EventStream {
    recording: LiveRecording,
    assembler: EventAssembler,
    metadata: Metadata,
    cgroups: CgroupPaths,
    residency: ResidencyMeter,
    /// CPUs whose idle periods no governor chose a state for.
    without_states: Vec<u32>,
    events: Vec<Event>,
}

impl EventStream {
    /// Begins to hand out the events of attached programs.
    pub fn start(recording: LiveRecording, system: &System) -> Self {
        let mut metadata = facts::read_metadata(system);
        metadata.recorded = recording.recorded_data();
        Self {
            assembler: EventAssembler::new(recording.sees_idle_outcomes()),
            without_states: facts::find_cpus_without_states_among_others(
                system,
                &metadata.idle_states,
            ),
            cgroups: CgroupPaths::find_mount_and_cgroups(system.root()),
            residency: ResidencyMeter::start(system.clone()),
            metadata,
            recording,
            events: Vec::new(),
        }
    }

    /// Metadata about the machine and about what is recorded; names of tasks come as their I/O does.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Puts the counters of idle states since the start or the last call into the description.
    pub fn update_residency_in_metadata(&mut self) {
        self.metadata.residency = self.residency.take_since_last_call();
    }

    /// The eBPF programs' cost so far; `None` where the kernel does not count it.
    pub fn overhead_so_far(&self) -> Option<Overhead> {
        self.recording.overhead_so_far()
    }

    /// Makes room for names and cgroups of new tasks: where half of [`MAX_NAMES`] are known, drops names of tasks other than
    /// `used`.
    pub fn forget_unused_task_names_if_half_full(&mut self, used: &HashSet<u32>) {
        if self.metadata.tasks.len() >= MAX_NAMES / 2 {
            self.metadata.tasks.retain(|task, _| used.contains(task));
            self.metadata.cgroups.retain(|task, _| used.contains(task));
        }
    }

    /// The idle periods in which CPUs are, after the events handed out so far.
    pub fn open_idle_periods(&self) -> Vec<OpenIdlePeriod> {
        self.assembler.open_idle_periods()
    }

    /// Hands the events since the last call to `visit`; to be called a few times a second.
    ///
    /// # Errors
    /// The programs wrote something else than this library reads; a fault of wakepath's.
    pub fn visit_new_events(&mut self, visit: impl FnMut(&Event)) -> Result<(), WireError> {
        let batch = self.recording.take_batch()?;
        for record in &batch.records {
            keep_fact_for_metadata(&mut self.metadata, &mut self.cgroups, record);
            self.assembler.take_record(record, &mut self.events);
        }
        for (cpu, count) in &batch.lost {
            self.metadata.lost_events += count;
            self.assembler.forget_cpu_after_lost_records(
                *cpu,
                batch.until_ns,
                *count,
                &mut self.events,
            );
        }
        let without_states = &self.without_states;
        self.events.retain(|event| {
            !matches!(event.kind, EventKind::Idle(_)) || !without_states.contains(&event.cpu)
        });
        self.events.iter().for_each(visit);
        self.events.clear();
        Ok(())
    }
}

/// Keeps the name or the cgroup of a task that a record tells, or counts a switch that the programs did not see.
pub(crate) fn keep_fact_for_metadata(
    metadata: &mut Metadata,
    cgroups: &mut CgroupPaths,
    record: &Record,
) {
    match record.kind {
        RecordKind::TaskName { task, name } => {
            let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
            metadata.keep_latest_task_name(task, &String::from_utf8_lossy(text));
        }
        RecordKind::TaskCgroup { task, cgroup } => {
            let path = cgroups.find_path_by_inode(cgroup).map(str::to_owned);
            metadata.keep_latest_cgroup_of_task(
                task,
                path.unwrap_or_else(|| format!("cgroup {cgroup}")),
            );
        }
        RecordKind::UnseenSwitch { task } => {
            let name = metadata.tasks.get(&task).cloned();
            metadata.add_or_count_warning(UNSEEN_SWITCHES, || {
                let named = name.map_or_else(String::new, |name| format!(" ({name})"));
                format!(
                    "while thread {task}{named} ran on CPU {}, the kernel ran no eBPF programs: interrupts, completions and \
                     wake-ups at such places are missing",
                    record.cpu
                )
            });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_that_no_program_saw_are_counted_and_explained() {
        let mut metadata = Metadata::default();
        metadata.tasks.insert(75, "init".to_owned());
        for task in [75, 75, 76] {
            let record = Record {
                time_ns: 5,
                cpu: 1,
                kind: RecordKind::UnseenSwitch { task },
            };
            keep_fact_for_metadata(&mut metadata, &mut CgroupPaths::default(), &record);
        }
        let [warning] = &metadata.warnings[..] else {
            panic!("{:?}", metadata.warnings);
        };
        assert_eq!((warning.name.as_str(), warning.count), (UNSEEN_SWITCHES, 3));
        assert!(warning.text.contains("thread 75 (init) ran on CPU 1"));
    }

    #[test]
    fn a_task_is_in_the_cgroup_of_its_last_move() {
        let mut metadata = Metadata::default();
        let mut cgroups = CgroupPaths::default();
        for cgroup in [7, 9] {
            let kind = RecordKind::TaskCgroup { task: 812, cgroup };
            let record = Record {
                time_ns: 5,
                cpu: 0,
                kind,
            };
            keep_fact_for_metadata(&mut metadata, &mut cgroups, &record);
        }
        // No directory is known by that number.
        assert_eq!(metadata.cgroups[&812], "cgroup 9");
        assert!(metadata.tasks.is_empty());
    }
}
