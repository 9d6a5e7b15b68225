//! What a recording says about the machine and about itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wakepath_hardware::IdleState;
use wakepath_units::Nanoseconds;

use super::idle_tracker::OpenIdlePeriod;
use super::residency::IdleResidency;

/// Version of the format in new files. Version 1 lacks queueing, interrupts and task steps, version 2 readings of clocks.
pub const SCHEMA: u32 = 3;

/// Most names kept for tasks, and for interrupts.
pub const MAX_NAMES: usize = 4096;

/// A recording's description, without unknown facts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Version of the recording's format, [`SCHEMA`].
    pub schema: u32,
    /// Where the recording comes from: `wakepath record`, `trace.dat version 7`, ...
    pub source: String,
    /// Version of wakepath that wrote the file.
    pub wakepath: String,
    /// The recorded kernel's release: `6.1.0-44-amd64`.
    pub kernel: Option<String>,
    /// The recorded machine's architecture: `x86_64`.
    pub architecture: Option<String>,
    /// The processor's name as the kernel shows it: `AMD EPYC 7502 32-Core Processor`.
    pub processor: Option<String>,
    /// A digest that tells the machine from all others, and has no other meaning ([`Metadata::machine_conflict_with`]).
    pub machine_id: Option<String>,
    /// The clock of the recording's time stamps: `mono`, `local`, ...
    pub clock: Option<String>,
    /// Tick rate in Hz, `CONFIG_HZ`.
    pub hz: Option<u32>,
    /// Number of CPUs; 0 if unknown.
    pub cpus: u32,
    /// Start and end of the source in ns: for a trace the first and last event of any kind, for `record` the run.
    /// `None`: as the recorded events.
    pub span_ns: Option<[u64; 2]>,
    /// The cpuidle driver.
    pub idle_driver: Option<String>,
    /// The idle governor that ran: `menu`.
    pub idle_governor: Option<String>,
    /// Idle states, by groups of CPUs with equal states.
    pub idle_states: Vec<CpuIdleStates>,
    /// Names of idle states in which the CPU's own timer stops, so that another CPU's timer ends them.
    pub timer_stops: Vec<String>,
    /// CPUs sharing a core, by core; cores with a single CPU are left out.
    pub siblings: Vec<Vec<u32>>,
    /// CPUs by cluster within a package, as the kernel's topology has it; clusters of a single core are left out.
    pub clusters: Vec<Vec<u32>>,
    /// CPUs by package; packages with a single CPU are left out.
    pub packages: Vec<Vec<u32>>,
    /// The cpufreq driver.
    pub frequency_driver: Option<String>,
    /// Frequencies, by groups of CPUs sharing a policy.
    pub frequency_domains: Vec<FrequencyDomain>,
    /// The drives.
    pub devices: Vec<BlockDevice>,
    /// Names of interrupts by number, as in `/proc/interrupts`.
    #[serde(with = "numbered")]
    pub interrupts: BTreeMap<u32, String>,
    /// Names of tasks with I/O, by thread number.
    #[serde(with = "numbered")]
    pub tasks: BTreeMap<u32, String>,
    /// Cgroups of tasks with I/O by thread number, each as a path in the hierarchy of version 2: `/system.slice/cron.service`.
    /// `cgroup NUMBER` where the cgroup had ended before its path was read. Of a task that moves, the last cgroup.
    #[serde(with = "numbered")]
    pub cgroups: BTreeMap<u32, String>,
    /// The machine's settings at the start: idle governor parameters, latency limits, frequency governors and hints,
    /// drive tables.
    pub settings: Vec<RecordedSetting>,
    /// Counters of idle states from the start of the recording to its end; `None` where nobody read them.
    pub residency: Option<IdleResidency>,
    /// CPUs that were idle when the recording ended; rows tell of ended idle periods only. `None`: nobody noted which.
    pub idle_at_end: Option<Vec<OpenIdlePeriod>>,
    /// Which kinds of facts are recorded, and how well each is known.
    pub recorded: Recorded,
    /// Number of events lost while recording.
    pub lost_events: u64,
    /// Number of events in the source that were left out, because recordings have no use for them.
    pub other_events: u64,
    /// Whether the recording was ended properly.
    pub complete: bool,
    /// Faults found while recording.
    pub warnings: Vec<Warning>,
}

/// Serializes names by number as names by text: TOML knows no keys but strings.
mod numbered {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        names: &BTreeMap<u32, String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(
            names
                .iter()
                .map(|(number, name)| (number.to_string(), name)),
        )
    }

    /// A key that is no number is left out.
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<u32, String>, D::Error> {
        let names = BTreeMap::<String, String>::deserialize(deserializer)?.into_iter();
        let numbered = names.filter_map(|(number, name)| Some((number.parse().ok()?, name)));
        Ok(numbered.collect())
    }
}

impl Default for Metadata {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            source: String::new(),
            wakepath: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: None,
            architecture: None,
            processor: None,
            machine_id: None,
            clock: None,
            hz: None,
            cpus: 0,
            span_ns: None,
            idle_driver: None,
            idle_governor: None,
            idle_states: Vec::new(),
            timer_stops: Vec::new(),
            siblings: Vec::new(),
            clusters: Vec::new(),
            packages: Vec::new(),
            frequency_driver: None,
            frequency_domains: Vec::new(),
            devices: Vec::new(),
            interrupts: BTreeMap::new(),
            tasks: BTreeMap::new(),
            cgroups: BTreeMap::new(),
            settings: Vec::new(),
            residency: None,
            idle_at_end: None,
            recorded: Recorded::default(),
            lost_events: 0,
            other_events: 0,
            complete: false,
            warnings: Vec::new(),
        }
    }
}

impl Metadata {
    /// The kernel's name for a device, or its major and minor number if the name was not recorded.
    pub fn device_name_or_numbers(&self, device: u32) -> String {
        let known = self.devices.iter().find(|known| known.device == device);
        known.map_or_else(
            || format!("{}:{}", device >> 20, device & 0xf_ffff),
            |known| known.name.clone(),
        )
    }

    /// The value of a machine-wide setting, such as `haltpoll-max`, if recorded.
    pub fn machine_wide_setting(&self, name: &str) -> Option<&str> {
        let setting = self.settings.iter().find(|setting| {
            setting.name == name && setting.places.iter().any(|place| place == SYSTEM)
        });
        Some(setting?.value.as_str())
    }

    /// Evidence that another recording comes from another machine: `processor AMD EPYC 7502 against Intel Xeon 6980P`.
    /// `None`: nothing speaks against a single machine.
    ///
    /// The machines' identities decide if both are known. Otherwise facts known to both are compared, as far as no
    /// setting and no update changes them: architecture, processor, idle driver, idle states, frequencies.
    pub fn machine_conflict_with(&self, other: &Self) -> Option<String> {
        if self.source.is_empty() || other.source.is_empty() {
            // One description is still empty: nothing was recorded under it yet.
            return None;
        }
        let processors = [&self.processor, &other.processor];
        if let (Some(a), Some(b)) = (&self.machine_id, &other.machine_id) {
            return (a != b).then(|| {
                describe_text_conflict("processor", processors)
                    .unwrap_or_else(|| format!("two machines of one kind, {a} and {b}"))
            });
        }
        describe_text_conflict("architecture", [&self.architecture, &other.architecture])
            .or_else(|| describe_text_conflict("processor", processors))
            .or_else(|| {
                describe_text_conflict("idle driver", [&self.idle_driver, &other.idle_driver])
            })
            .or_else(|| {
                let shapes = [self.idle_state_shapes(), other.idle_state_shapes()];
                describe_conflict("idle states", shapes, |shapes| {
                    describe_state_shapes(&shapes)
                })
            })
            .or_else(|| {
                let ranges = [self.khz_range(), other.khz_range()];
                describe_conflict("frequencies", ranges, |(low, high)| {
                    format!("{low} to {high} kHz")
                })
            })
            .or_else(|| {
                let one_only = self.idle_states.is_empty() != other.idle_states.is_empty();
                one_only.then(|| "only one of them names its machine's idle states".to_owned())
            })
    }

    /// Whether [`Metadata::machine_conflict_with`] had facts to compare about the kind of machine. Without such facts, finding
    /// no conflict means nothing.
    pub(crate) fn shares_machine_facts_with(&self, other: &Self) -> bool {
        self.source.is_empty()
            || (self.machine_id.is_some() && other.machine_id.is_some())
            || (self.processor.is_some() && other.processor.is_some())
            || (!self.idle_states.is_empty() && !other.idle_states.is_empty())
            // A kernel's release names a build of a kernel, on so many CPUs.
            || (self.kernel.is_some() && self.kernel == other.kernel && self.cpus == other.cpus)
    }

    /// Name, exit latency and target residency of all CPU groups' idle states.
    fn idle_state_shapes(&self) -> Option<Vec<StateShape<'_>>> {
        let states = self.idle_states.iter().flat_map(|group| &group.states);
        let shapes: Vec<_> = states
            .map(|s| (s.name.as_str(), s.exit_latency, s.target_residency))
            .collect();
        (!shapes.is_empty()).then_some(shapes)
    }

    /// The lowest and the highest frequency of all CPUs, in kHz.
    fn khz_range(&self) -> Option<(u32, u32)> {
        let all = self.frequency_domains.iter().flat_map(|domain| &domain.khz);
        Some((*all.clone().min()?, *all.max()?))
    }

    /// Adds a warning, or counts a warning known by name once more.
    pub fn add_or_count_warning(&mut self, name: &str, text: impl FnOnce() -> String) {
        match self.warnings.iter_mut().find(|w| w.name == name) {
            Some(warning) => warning.count += 1,
            None => self.warnings.push(Warning {
                name: name.to_owned(),
                count: 1,
                text: text(),
            }),
        }
    }

    /// Appends the description of a further part of the recording. Counts and warnings add up, and a fact counts as
    /// recorded only if all parts have it. The first part decides about the machine.
    pub fn append_part(&mut self, next: Self) {
        if self.source.is_empty() {
            // The first part.
            let (lost, other) = (self.lost_events, self.other_events);
            let earlier = std::mem::replace(self, next);
            self.schema = SCHEMA;
            self.lost_events = self.lost_events.saturating_add(lost);
            self.other_events = self.other_events.saturating_add(other);
            self.add_up_warnings(earlier.warnings);
            return;
        }
        if !self.source.split("; ").any(|part| part == next.source) {
            self.source = format!("{}; {}", self.source, next.source);
        }
        fill_if_unknown(&mut self.kernel, next.kernel);
        fill_if_unknown(&mut self.architecture, next.architecture);
        fill_if_unknown(&mut self.processor, next.processor);
        fill_if_unknown(&mut self.machine_id, next.machine_id);
        fill_if_unknown(&mut self.clock, next.clock);
        fill_if_unknown(&mut self.hz, next.hz);
        fill_if_unknown(&mut self.idle_driver, next.idle_driver);
        fill_if_unknown(&mut self.idle_governor, next.idle_governor);
        fill_if_unknown(&mut self.frequency_driver, next.frequency_driver);
        if self.idle_states.is_empty() {
            self.idle_states = next.idle_states;
        }
        if self.frequency_domains.is_empty() {
            self.frequency_domains = next.frequency_domains;
        }
        if self.siblings.is_empty() {
            self.siblings = next.siblings;
        }
        if self.clusters.is_empty() {
            self.clusters = next.clusters;
        }
        if self.packages.is_empty() {
            self.packages = next.packages;
        }
        if self.settings.is_empty() {
            self.settings = next.settings;
        }
        for device in next.devices {
            if !self.devices.iter().any(|d| d.device == device.device) {
                self.devices.push(device);
            }
        }
        for (irq, name) in next.interrupts {
            self.interrupts.entry(irq).or_insert(name);
        }
        for (task, name) in next.tasks {
            self.tasks.entry(task).or_insert(name);
        }
        for (task, path) in next.cgroups {
            self.cgroups.entry(task).or_insert(path);
        }
        // Counters of some parts only say nothing of the whole.
        self.residency = self
            .residency
            .take()
            .zip(next.residency)
            .map(|(mut all, part)| {
                all.add_counts(part);
                all
            });
        // The later part ends as the whole does.
        self.idle_at_end = next.idle_at_end;
        self.cpus = self.cpus.max(next.cpus);
        self.span_ns = match (self.span_ns, next.span_ns) {
            (Some([first, last]), Some([begins, ends])) => {
                Some([first.min(begins), last.max(ends)])
            }
            (known, next) => known.or(next),
        };
        self.recorded = self.recorded.weaker_quality_of_each(next.recorded);
        self.lost_events = self.lost_events.saturating_add(next.lost_events);
        self.other_events = self.other_events.saturating_add(next.other_events);
        self.complete &= next.complete;
        self.add_up_warnings(next.warnings);
    }

    fn add_up_warnings(&mut self, next: Vec<Warning>) {
        for warning in next {
            match self.warnings.iter_mut().find(|w| w.name == warning.name) {
                Some(same) => same.count = same.count.saturating_add(warning.count),
                None => self.warnings.push(warning),
            }
        }
    }

    /// Keeps a task's name, unless [`MAX_NAMES`] names are known.
    pub fn keep_latest_task_name(&mut self, task: u32, name: &str) {
        if self.tasks.len() < MAX_NAMES || self.tasks.contains_key(&task) {
            self.tasks.insert(task, name.to_owned());
        }
    }

    /// Keeps a task's cgroup in place of an earlier one, unless cgroups of [`MAX_NAMES`] tasks are known.
    pub fn keep_latest_cgroup_of_task(&mut self, task: u32, path: String) {
        if self.cgroups.len() < MAX_NAMES || self.cgroups.contains_key(&task) {
            self.cgroups.insert(task, path);
        }
    }

    /// Keeps an interrupt's name, unless [`MAX_NAMES`] names are known.
    pub fn keep_first_interrupt_name(&mut self, irq: u32, name: &str) {
        if self.interrupts.len() < MAX_NAMES && !self.interrupts.contains_key(&irq) {
            self.interrupts.insert(irq, name.to_owned());
        }
    }

    /// Adds the warning that a CPU goes on- or offline.
    pub fn warn_of_hotplug(&mut self, cpu: u32, time: Nanoseconds, online: bool) {
        self.add_or_count_warning("hotplug", || {
            let how = if online { "online" } else { "offline" };
            format!(
                "CPU {cpu} goes {how} at {} ns; what it did on the way is left out",
                time.0
            )
        });
    }
}

/// Name, exit latency and target residency of an idle state.
type StateShape<'a> = (&'a str, Nanoseconds, Nanoseconds);

fn describe_state_shapes(states: &[StateShape<'_>]) -> String {
    let states = states
        .iter()
        .map(|(name, exit, _)| format!("{name} ({} us)", exit.0 / 1000));
    states.collect::<Vec<_>>().join(", ")
}

/// A sentence about two machines' values, if both are known and differ.
fn describe_conflict<T: PartialEq>(
    fact_name: &str,
    values: [Option<T>; 2],
    value_text: impl Fn(T) -> String,
) -> Option<String> {
    match values {
        [Some(a), Some(b)] if a != b => Some(format!(
            "{fact_name} {} against {}",
            value_text(a),
            value_text(b)
        )),
        _ => None,
    }
}

/// A sentence about two machines' texts, if both are known and differ.
fn describe_text_conflict(fact_name: &str, texts: [&Option<String>; 2]) -> Option<String> {
    describe_conflict(fact_name, texts.map(Option::as_ref), String::clone)
}

/// Fills in an unknown value from the next part of a recording.
fn fill_if_unknown<T>(known: &mut Option<T>, next: Option<T>) {
    *known = known.take().or(next);
}

/// The idle states that a group of CPUs has in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuIdleStates {
    /// The CPUs.
    pub cpus: Vec<u32>,
    /// The group's idle states, shallowest first.
    pub states: Vec<IdleState>,
}

/// The frequencies that a group of CPUs has in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequencyDomain {
    /// The CPUs.
    pub cpus: Vec<u32>,
    /// Operating points in kHz, slowest first; only the lowest and the highest where the driver has
    /// no table.
    pub khz: Vec<u32>,
    /// The governor: `schedutil`.
    pub governor: Option<String>,
}

/// A drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockDevice {
    /// The device's number, as in [`crate::recording::Block::device`].
    pub device: u32,
    /// The kernel's name for the device: `nvme0n1`.
    pub name: String,
    /// The drive's own model name.
    #[serde(default)]
    pub model: Option<String>,
}

/// The place that stands for a machine-wide setting.
const SYSTEM: &str = "system";

/// A setting on the recorded machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSetting {
    /// Name as in `wakepath status`: `haltpoll-max`, `epp`.
    pub name: String,
    /// Where the setting has this value: `system`, or all of `cpu0`, `policy0`, `nvme0` and so on.
    #[serde(rename = "of")]
    pub places: Vec<String>,
    /// The setting's value as the machine shows it.
    pub value: String,
}

/// How well a kind of fact is known in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataQuality {
    /// Not recorded.
    #[default]
    Missing,
    /// Inferred from other events up to the time in question, never from later events.
    Inferred,
    /// Recorded.
    Exact,
}

/// How well each kind of fact is known in a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recorded {
    /// Entries into idle states, and exits.
    pub idle: DataQuality,
    /// Time to the next timer, [`crate::recording::IdleInputs::sleep_length`].
    pub sleep_length: DataQuality,
    /// Whether the tick was stopped, and [`crate::recording::IdleInputs::delta_tick`].
    pub tick: DataQuality,
    /// The latency request.
    pub latency_request: DataQuality,
    /// Number of tasks waiting for I/O.
    pub iowaiters: DataQuality,
    /// Whether a CPU left its idle loop between two idle periods.
    pub idle_loop: DataQuality,
    /// Block requests.
    pub block: DataQuality,
    /// Task wake-ups.
    pub wakes: DataQuality,
    /// Frequency changes.
    pub frequency: DataQuality,
    /// Cycles of CPUs that complete requests.
    #[serde(default)]
    pub clock: DataQuality,
    /// Expired timers.
    pub timers: DataQuality,
    /// Steps of bios between entering the block layer and being issued.
    pub queueing: DataQuality,
    /// Interrupts of devices, and the block softirq.
    pub interrupts: DataQuality,
    /// IPIs, sent and received.
    pub ipis: DataQuality,
    /// Steps of tasks waiting for I/O: wake-ups, and times of running again.
    pub tasks: DataQuality,
    /// Steps of all tasks: every wake-up with its task, and every time that a task gets a CPU.
    #[serde(default)]
    pub all_tasks: DataQuality,
}

impl Recorded {
    /// For each kind of fact the weaker quality of two recordings.
    fn weaker_quality_of_each(self, other: Self) -> Self {
        Self {
            idle: self.idle.min(other.idle),
            sleep_length: self.sleep_length.min(other.sleep_length),
            tick: self.tick.min(other.tick),
            latency_request: self.latency_request.min(other.latency_request),
            iowaiters: self.iowaiters.min(other.iowaiters),
            idle_loop: self.idle_loop.min(other.idle_loop),
            block: self.block.min(other.block),
            wakes: self.wakes.min(other.wakes),
            frequency: self.frequency.min(other.frequency),
            clock: self.clock.min(other.clock),
            timers: self.timers.min(other.timers),
            queueing: self.queueing.min(other.queueing),
            interrupts: self.interrupts.min(other.interrupts),
            ipis: self.ipis.min(other.ipis),
            tasks: self.tasks.min(other.tasks),
            all_tasks: self.all_tasks.min(other.all_tasks),
        }
    }
}

/// A kind of fault found in a recording, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Short name of the warning, for programs: `clock-jump`.
    pub name: String,
    /// How often.
    pub count: u64,
    /// Text of the warning for people, from the first occurrence.
    pub text: String,
}
