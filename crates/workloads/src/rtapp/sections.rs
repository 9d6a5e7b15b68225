//! Reading the objects of an rt-app file: global, tasks, phases.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jsonc_parser::ast::{Object, Value};
use wakepath_units::Nanoseconds;
use wakepath_units::spelling::similar_name;

use super::events::{self, InTask, NAMES};
use super::place::{JsonEntry, JsonPlace, LineEnds, for_each_json_entry};
use super::warnings::RtAppWarnings;
use super::{
    Calibration, MAX_EVENTS, MAX_THREADS, Phase, RtAppError, RtAppEvent, RtAppFile, RtAppVersion,
    RtAppWarning, RtTask, Scheduling,
};
use crate::text::escape_and_shorten;

/// Keys in `global` without effect on a simulation: logging, locked memory, the device and the buffer of I/O and
/// memory steps.
const WITHOUT_EFFECT: [&str; 9] = [
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "lock_pages",
    "cumulative_slack",
    "io_device",
    "mem_buffer_size",
];

/// Keys that tasks and phases have in common, besides events.
const PROPERTIES: [&str; 12] = [
    "loop",
    "policy",
    "priority",
    "cpus",
    "util_min",
    "util_max",
    "taskgroup",
    "dl-runtime",
    "dl-period",
    "dl-deadline",
    "membind_nodes",
    "nodes_membind",
];

/// Scheduling policies by name, each with the least, the greatest and the default priority.
const POLICIES: [(&str, Scheduling, i64, i64); 4] = [
    ("SCHED_OTHER", Scheduling::Other { nice: 0 }, -20, 19),
    ("SCHED_IDLE", Scheduling::Idle, 0, 0),
    ("SCHED_FIFO", Scheduling::Fifo { priority: 10 }, 1, 99),
    ("SCHED_RR", Scheduling::RoundRobin { priority: 10 }, 1, 99),
];

/// Largest number of loops that a file can ask for: the largest `int`, as for rt-app itself.
const MAX_LOOPS: i64 = i32::MAX as i64;

/// Highest CPU number.
const MAX_CPUS: i64 = 65_535;

/// Most reasons that a refusal lists.
const MOST_REASONS: usize = 20;

struct RtAppReader<'a> {
    file: RtAppFile,
    warnings: RtAppWarnings,
    /// Task names so far, each with the last number that was appended.
    names: HashMap<String, u64>,
    default_policy: Scheduling,
    events: usize,
    /// Reasons to refuse the file, as far as they are kept.
    refused: Vec<RtAppError>,
    origin: &'a str,
}

pub(super) fn read_rt_app_file(
    root: &Value<'_>,
    text: &str,
    origin: &str,
    version: Option<RtAppVersion>,
) -> Result<RtAppFile, RtAppError> {
    let lines = LineEnds::new(text);
    let place = JsonPlace::at_root(origin, &lines);
    let Value::Object(root) = root else {
        return Err(place.error_here("is no object"));
    };
    let mut reader = RtAppReader::for_file(origin, version.unwrap_or_default());
    // The global object may come last, but its default policy counts for all tasks.
    let (mut has_tasks, mut unknown) = (false, None);
    for_each_json_entry(root, &place, |entry| {
        match entry.name {
            "tasks" | "global" | "resources" if entry.again => {
                reader.warnings.add_ignored_key(&entry, []);
            }
            "global" if entry.has_no_value() => {}
            "global" => reader.read_global_object(entry.expect_object()?, &entry.place, version)?,
            "tasks" => has_tasks = true,
            "resources" => {}
            other => {
                let known = ["tasks", "global", "resources"];
                reader.warnings.add_ignored_key(&entry, known);
                unknown.get_or_insert_with(|| entry.place.unknown_name_error("key", other, known));
            }
        }
        Ok(())
    })?;
    if let (false, Some(error)) = (has_tasks, unknown) {
        return Err(error);
    }
    for_each_json_entry(root, &place, |entry| match entry.name {
        "tasks" if !entry.again => {
            for_each_json_entry(entry.expect_object()?, &entry.place, |task| {
                let read = reader.read_task(&task);
                reader.keep_error_if_any(read);
                Ok(())
            })
        }
        _ => Ok(()),
    })?;
    reader.check_and_finish_file()
}

impl<'a> RtAppReader<'a> {
    fn for_file(origin: &'a str, version: RtAppVersion) -> Self {
        Self {
            file: RtAppFile {
                duration: None,
                at_most: None,
                tasks: Vec::new(),
                copies: 1,
                warm_up: Nanoseconds::ZERO,
                version,
                calibration: Calibration::default(),
                warnings: Vec::new(),
            },
            warnings: RtAppWarnings::default(),
            names: HashMap::new(),
            default_policy: Scheduling::default(),
            events: 0,
            refused: Vec::new(),
            origin,
        }
    }

    /// Keeps the reason for a refusal and goes on, so that all problems of a file are reported at once.
    fn keep_error_if_any(&mut self, read: Result<(), RtAppError>) {
        if let Err(error) = read {
            self.refused.push(error);
        }
    }

    fn read_global_object(
        &mut self,
        object: &Object<'_>,
        place: &JsonPlace<'_>,
        version: Option<RtAppVersion>,
    ) -> Result<(), RtAppError> {
        for_each_json_entry(object, place, |entry| {
            let read = self.read_global_key(&entry, version);
            self.keep_error_if_any(read);
            Ok(())
        })
    }

    fn read_global_key(
        &mut self,
        entry: &JsonEntry<'_, '_>,
        version: Option<RtAppVersion>,
    ) -> Result<(), RtAppError> {
        match entry.name {
            known if entry.again => self.warnings.add_ignored_key(entry, [known]),
            _ if entry.has_no_value() => {}
            "duration" => {
                let seconds = entry.expect_integer_within(i64::from(i32::MIN), MAX_LOOPS)?;
                self.file.duration = match u64::try_from(seconds) {
                    Ok(0) | Err(_) => None,
                    Ok(seconds) => Some(Nanoseconds::from_secs(seconds)),
                };
            }
            "default_policy" => {
                self.default_policy = read_scheduling_policy(entry, &mut self.warnings)?;
            }
            "calibration" => self.read_calibration(entry)?,
            "rt_app_version" => {
                let own: RtAppVersion = (entry.expect_text()?.parse())
                    .map_err(|e: String| entry.place.error_here(e))?;
                self.file.version = version.unwrap_or(own);
            }
            "pi_enabled" => {
                if entry.expect_boolean()? {
                    return Err(entry
                        .place
                        .error_here("priority inheritance is not supported"));
                }
            }
            other if WITHOUT_EFFECT.contains(&other) => {
                self.warnings.add(entry, "has no effect on a simulation");
            }
            _ => {
                let modelled = ["duration", "default_policy", "calibration", "pi_enabled"];
                let known = modelled.into_iter().chain(WITHOUT_EFFECT);
                self.warnings.add_ignored_key(entry, known);
            }
        }
        Ok(())
    }

    fn read_calibration(&mut self, entry: &JsonEntry<'_, '_>) -> Result<(), RtAppError> {
        if let Value::NumberLit(_) = entry.value {
            let loop_ns =
                u32::try_from(entry.expect_integer_within(0, MAX_LOOPS)?).unwrap_or_default();
            // A calibration of 0 ns means that rt-app measures CPU 0.
            if loop_ns > 0 {
                self.file.calibration = Calibration::LoopNs(loop_ns);
                self.warnings.add(
                    entry,
                    "gives ns per loop of a program that is not run here: `run` counts in time of the biggest core at \
                     its highest frequency",
                );
            }
            return Ok(());
        }
        let cpu = entry.expect_text()?.strip_prefix("CPU").and_then(|number| {
            let digits = number.find(|c: char| !c.is_ascii_digit());
            let cpu: usize = number[..digits.unwrap_or(number.len())].parse().ok()?;
            (cpu <= MAX_CPUS as usize).then_some(cpu)
        });
        match cpu {
            Some(cpu) => {
                self.file.calibration = Calibration::Cpu(cpu);
                Ok(())
            }
            None => Err(entry
                .place
                .error_here("expected a CPU such as \"CPU0\", or ns per loop")),
        }
    }

    /// A unique name for a task: `workgen` appends a number to a name that is taken.
    fn make_unique_task_name(&mut self, task: &JsonEntry<'_, '_>) -> String {
        let mut number = match self.names.get(task.name) {
            None => {
                self.names.insert(task.name.to_owned(), 0);
                return task.name.to_owned();
            }
            Some(last) => *last,
        };
        let name = loop {
            number += 1;
            let numbered = format!("{}{number}", task.name);
            if !self.names.contains_key(&numbered) {
                break numbered;
            }
        };
        self.names.insert(task.name.to_owned(), number);
        self.names.insert(name.clone(), 0);
        let message = format!(
            "is another task's name already: this one is called `{}`, as with workgen",
            escape_and_shorten(&name)
        );
        self.warnings.add(task, &message);
        name
    }

    fn read_task(&mut self, task: &JsonEntry<'_, '_>) -> Result<(), RtAppError> {
        if task.name.is_empty() {
            return Err(task.place.error_here("a task needs a name"));
        }
        let name = self.make_unique_task_name(task);
        let in_task = InTask {
            name: &name,
            written: task.name,
            version: self.file.version,
        };
        let object = task.expect_object()?;
        let refused = self.refused.len();
        let mut own = TaskOrPhaseKeys::default();
        let (mut instances, mut delay) = (1, Nanoseconds::ZERO);
        let mut phases = None;
        let mut events = Vec::new();
        for_each_json_entry(object, &task.place, |entry| {
            match entry.name {
                known @ ("instance" | "delay" | "phases") if entry.again => {
                    self.warnings.add_ignored_key(&entry, [known]);
                }
                "instance" | "delay" | "phases" if entry.has_no_value() => {}
                "instance" => match entry.expect_integer_within(0, i64::from(MAX_THREADS)) {
                    Ok(number) => instances = u32::try_from(number).unwrap_or_default(),
                    Err(error) => self.refused.push(error),
                },
                "delay" => match entry.expect_integer_within(0, MAX_LOOPS) {
                    Ok(us) => delay = Nanoseconds::from_micros(us.unsigned_abs()),
                    Err(error) => self.refused.push(error),
                },
                "phases" => match self.read_phases(&entry, in_task) {
                    Ok(all) => phases = Some(all),
                    Err(error) => self.refused.push(error),
                },
                _ => self.read_task_or_phase_key_or_keep_error(
                    &entry,
                    in_task,
                    &mut own,
                    &mut events,
                ),
            }
            Ok(())
        })?;
        if self.refused.len() > refused {
            return Ok(());
        }
        let scheduling = own.scheduling_if_given(self.default_policy, &task.place)?;
        let Some(phases) = self.choose_own_phases_or_make_one(task, phases, events)? else {
            return Err(own.no_event_error(&task.place));
        };
        let task_read = RtTask {
            line: task.place.line_number(),
            instances,
            delay,
            loops: own.loop_count_unless_forever(-1),
            scheduling: scheduling.unwrap_or(self.default_policy),
            cpus: own.cpus,
            phases,
            name,
        };
        self.add_task_and_report_first_excess(task_read, &task.place)
    }

    /// The phases of a task: its own, or one made from its events. `None`: the task has neither.
    fn choose_own_phases_or_make_one(
        &mut self,
        task: &JsonEntry<'_, '_>,
        phases: Option<Vec<Phase>>,
        events: Vec<RtAppEvent>,
    ) -> Result<Option<Vec<Phase>>, RtAppError> {
        match phases {
            Some(phases) if phases.is_empty() => {
                Err(task.place.error_here("does nothing: it has no phase"))
            }
            Some(phases) => {
                if !events.is_empty() {
                    self.warnings.add(
                        task,
                        "has events outside of its `phases`, which are ignored as by rt-app",
                    );
                }
                Ok(Some(phases))
            }
            None if events.is_empty() => Ok(None),
            None => Ok(Some(vec![Phase {
                name: "phase".to_owned(),
                loops: Some(1),
                scheduling: None,
                cpus: None,
                events,
            }])),
        }
    }

    /// Adds a task. The first task with which there are too many threads is an error.
    fn add_task_and_report_first_excess(
        &mut self,
        task: RtTask,
        place: &JsonPlace<'_>,
    ) -> Result<(), RtAppError> {
        let fitted = self.thread_count_is_within_limit();
        self.file.tasks.push(task);
        if fitted && !self.thread_count_is_within_limit() {
            let message = format!("makes more than {MAX_THREADS} threads");
            return Err(place.error_here(message));
        }
        Ok(())
    }

    /// Whether the number of threads so far is within the limit.
    fn thread_count_is_within_limit(&self) -> bool {
        let most = u64::from(MAX_THREADS);
        self.file.thread_count() <= most && self.file.tasks.len() as u64 <= most
    }

    fn read_phases(
        &mut self,
        all: &JsonEntry<'_, '_>,
        task: InTask<'_>,
    ) -> Result<Vec<Phase>, RtAppError> {
        let mut phases = Vec::new();
        for_each_json_entry(all.expect_object()?, &all.place, |phase| {
            match self.read_phase(&phase, task) {
                Ok(phase) => phases.push(phase),
                Err(error) => self.refused.push(error),
            }
            Ok(())
        })?;
        Ok(phases)
    }

    fn read_phase(
        &mut self,
        phase: &JsonEntry<'_, '_>,
        task: InTask<'_>,
    ) -> Result<Phase, RtAppError> {
        let refused = self.refused.len();
        let mut own = TaskOrPhaseKeys::default();
        let mut events = Vec::new();
        for_each_json_entry(phase.expect_object()?, &phase.place, |entry| {
            self.read_task_or_phase_key_or_keep_error(&entry, task, &mut own, &mut events);
            Ok(())
        })?;
        if events.is_empty() && self.refused.len() == refused {
            return Err(own.no_event_error(&phase.place));
        }
        Ok(Phase {
            name: phase.name.to_owned(),
            loops: own.loop_count_unless_forever(1),
            scheduling: own.scheduling_if_given(self.default_policy, &phase.place)?,
            cpus: own.cpus,
            events,
        })
    }

    /// Reads a key that tasks and phases have in common; a refusal is kept.
    fn read_task_or_phase_key_or_keep_error(
        &mut self,
        entry: &JsonEntry<'_, '_>,
        task: InTask<'_>,
        own: &mut TaskOrPhaseKeys,
        events: &mut Vec<RtAppEvent>,
    ) {
        let read = self.read_task_or_phase_key(entry, task, own, events);
        self.keep_error_if_any(read);
    }

    fn read_task_or_phase_key(
        &mut self,
        entry: &JsonEntry<'_, '_>,
        task: InTask<'_>,
        own: &mut TaskOrPhaseKeys,
        events: &mut Vec<RtAppEvent>,
    ) -> Result<(), RtAppError> {
        let is_property = PROPERTIES.contains(&entry.name);
        if is_property && (entry.again || entry.has_no_value()) {
            if entry.again {
                self.warnings.add_ignored_key(entry, []);
            }
            return Ok(());
        }
        match entry.name {
            "loop" => {
                own.loops = Some(match entry.expect_integer_within(-1, MAX_LOOPS)? {
                    0 => {
                        return Err(entry
                            .place
                            .error_here("0 loops: is -1 for ever, or at least 1"));
                    }
                    loops => loops,
                });
            }
            "policy" => own.policy = Some(read_scheduling_policy(entry, &mut self.warnings)?),
            "priority" => own.priority = Some(entry.expect_integer_within(-20, 99)?),
            "cpus" => own.cpus = Some(read_cpu_list(entry)?),
            "util_min" | "util_max" => {
                // rt-app's value for no change of the priority.
                if entry.expect_integer_within(-1, 1024)? != -1 {
                    return Err(entry
                        .place
                        .error_here("utilisation clamping is not supported"));
                }
            }
            "taskgroup" => {
                if !entry.expect_text()?.is_empty() {
                    return Err(entry.place.error_here("task groups are not supported"));
                }
            }
            "dl-runtime" | "dl-period" | "dl-deadline" => {
                self.warnings.add(
                    entry,
                    "has no effect: deadlines are not supported, and slices of a task's own are not modelled",
                );
            }
            "membind_nodes" | "nodes_membind" => {
                self.warnings
                    .add(entry, "has no effect: memory is the same everywhere");
            }
            key => self.add_event_or_note_unknown_key(key, entry, task, own, events)?,
        }
        Ok(())
    }

    /// Reads the event that a key stands for, and adds the event to `events`.
    fn add_event_or_note_unknown_key(
        &mut self,
        key: &str,
        entry: &JsonEntry<'_, '_>,
        task: InTask<'_>,
        own: &mut TaskOrPhaseKeys,
        events: &mut Vec<RtAppEvent>,
    ) -> Result<(), RtAppError> {
        let Some(kind) = events::find_event_kind_by_prefix(key, task.version) else {
            self.warnings
                .add_ignored_key(entry, task_and_phase_key_names());
            own.unknown.get_or_insert_with(|| {
                entry
                    .place
                    .unknown_name_error("key", key, task_and_phase_key_names())
            });
            return Ok(());
        };
        events.push(events::read_event(kind, entry, task, &mut self.warnings)?);
        self.events += 1;
        if self.events == MAX_EVENTS + 1 {
            let message = format!("is one more than {MAX_EVENTS} events");
            return Err(entry.place.error_here(message));
        }
        Ok(())
    }

    /// Checks what needs all tasks, and returns the file, or all reasons for a refusal.
    fn check_and_finish_file(mut self) -> Result<RtAppFile, RtAppError> {
        if let Some(refusal) = join_refusals(self.refused) {
            return Err(refusal);
        }
        if self.file.thread_count() == 0 {
            let message = "has no task with a thread";
            return Err(RtAppError::for_file(self.origin, message));
        }
        self.file.warnings = self.warnings.into_list_noting_excess();
        let resumed = warn_of_lost_resumes(&self.file.tasks);
        self.file.warnings.extend(resumed);
        Ok(self.file)
    }
}

/// Joins all reasons for a refusal in line order; `None` if there is no reason.
fn join_refusals(mut reasons: Vec<RtAppError>) -> Option<RtAppError> {
    reasons.sort_by_key(|reason| reason.line);
    let beyond = reasons.len().saturating_sub(MOST_REASONS);
    reasons.truncate(MOST_REASONS);
    if let Some(last) = reasons.last_mut()
        && beyond > 0
    {
        last.message = format!("{} (and {beyond} more)", last.message);
    }
    let mut reasons = reasons.into_iter();
    let first = reasons.next()?;
    Some(RtAppError {
        also: reasons.collect(),
        ..first
    })
}

/// Most names in a warning about resumes without a waiting thread.
const MOST_LOST: usize = 20;

/// Warnings about names that are resumed although no thread waits for them, each name once.
fn warn_of_lost_resumes(tasks: &[RtTask]) -> Vec<RtAppWarning> {
    let awaited: BTreeSet<&str> = (tasks.iter().flat_map(RtTask::events))
        .filter_map(RtAppEvent::awaited_condition)
        .collect();
    // Number of lost resumes, by the line of the task.
    let mut lost: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for task in tasks {
        for event in task.events() {
            if let RtAppEvent::Resume(name) = event
                && !awaited.contains(name.as_str())
            {
                lost.entry(name).or_insert((task.line, 0)).1 += 1;
            }
        }
    }
    let listed = lost.iter().take(MOST_LOST);
    listed
        .map(|(name, (line, count))| {
            let near = match similar_name(name, awaited.iter().copied()) {
                Some(near) => format!("; did you mean `{}`?", escape_and_shorten(near)),
                None => String::new(),
            };
            RtAppWarning {
                line: *line,
                key: "resume".to_owned(),
                message: format!(
                    "of `{}` wakes nobody: no task suspends on that name{near}",
                    escape_and_shorten(name)
                ),
                count: *count,
            }
        })
        .collect()
}

/// Keys that a task or a phase has about itself.
#[derive(Default)]
struct TaskOrPhaseKeys {
    /// The value of `loop` as in the file: -1 for ever.
    loops: Option<i64>,
    policy: Option<Scheduling>,
    priority: Option<i64>,
    cpus: Option<Vec<usize>>,
    /// The error about the first key that is neither an event nor another known key.
    unknown: Option<RtAppError>,
}

impl TaskOrPhaseKeys {
    /// The error for a task or phase without an event: perhaps an event's key is misspelt.
    fn no_event_error(self, place: &JsonPlace<'_>) -> RtAppError {
        (self.unknown.filter(|error| error.suggestion.is_some()))
            .unwrap_or_else(|| place.error_here("does nothing: it has no event"))
    }

    /// How often to repeat; `None` is for ever.
    fn loop_count_unless_forever(&self, default: i64) -> Option<u64> {
        u64::try_from(self.loops.unwrap_or(default)).ok()
    }

    /// The scheduling that the keys ask for; `None` without such keys.
    fn scheduling_if_given(
        &self,
        default: Scheduling,
        place: &JsonPlace<'_>,
    ) -> Result<Option<Scheduling>, RtAppError> {
        let (policy, priority) = match (self.policy, self.priority) {
            (None, None) => return Ok(None),
            (Some(policy), None) => return Ok(Some(policy)),
            (policy, Some(priority)) => (policy.unwrap_or(default), priority),
        };
        let range = POLICIES
            .iter()
            .find(|(name, ..)| *name == policy.policy_name())
            .map_or(0..=0, |(.., least, most)| *least..=*most);
        if !range.contains(&priority) {
            return Err(place.error_here(format!(
                "priority {priority} is not between {} and {}, as {} has it",
                range.start(),
                range.end(),
                policy.policy_name()
            )));
        }
        Ok(Some(match policy {
            Scheduling::Other { .. } => Scheduling::Other {
                nice: i8::try_from(priority).unwrap_or_default(),
            },
            Scheduling::Idle => Scheduling::Idle,
            Scheduling::Fifo { .. } => Scheduling::Fifo {
                priority: u8::try_from(priority).unwrap_or_default(),
            },
            Scheduling::RoundRobin { .. } => Scheduling::RoundRobin {
                priority: u8::try_from(priority).unwrap_or_default(),
            },
        }))
    }
}

fn read_scheduling_policy(
    entry: &JsonEntry<'_, '_>,
    warnings: &mut RtAppWarnings,
) -> Result<Scheduling, RtAppError> {
    let name = match entry.expect_text()? {
        "SCHED_DEADLINE" => {
            return Err(entry.place.error_here("SCHED_DEADLINE is not supported"));
        }
        "SCHED_BATCH" => {
            warnings.add(entry, "SCHED_BATCH is taken as SCHED_OTHER");
            "SCHED_OTHER"
        }
        name => name,
    };
    POLICIES
        .iter()
        .find(|(known, ..)| *known == name)
        .map(|(_, policy, ..)| *policy)
        .ok_or_else(|| {
            let known = POLICIES.iter().map(|(known, ..)| *known);
            entry.place.unknown_name_error("policy", name, known)
        })
}

fn read_cpu_list(entry: &JsonEntry<'_, '_>) -> Result<Vec<usize>, RtAppError> {
    let mut cpus = Vec::new();
    for value in &entry.expect_array()?.elements {
        let element = JsonEntry { value, ..*entry };
        cpus.push(usize::try_from(element.expect_integer_within(0, MAX_CPUS)?).unwrap_or_default());
    }
    if cpus.is_empty() {
        return Err(entry.place.error_here("names no CPU"));
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// All names of keys that a task or a phase can have.
fn task_and_phase_key_names() -> impl Iterator<Item = &'static str> {
    let own = ["phases", "instance", "delay"];
    (NAMES.iter().map(|(name, _)| *name))
        .chain(PROPERTIES)
        .chain(own)
}
