//! What a recording says about the machine and about itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wakepath_hardware::IdleState;
use wakepath_units::Nanoseconds;

/// The version of the format that this library writes. Version 1 has no queueing, interrupts and steps of tasks.
pub const SCHEMA: u32 = 2;

/// Names of tasks, and of interrupts, that a description keeps at most.
pub const MAX_NAMES: usize = 4096;

/// The description of a recording. What is not known is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Version of the format, [`SCHEMA`].
    pub schema: u32,
    /// What it was made from: `wakepath record`, `trace.dat version 7`, ...
    pub source: String,
    /// The version of wakepath that wrote it.
    pub wakepath: String,
    /// The kernel's release, `6.1.0-44-amd64`.
    pub kernel: Option<String>,
    /// The machine's architecture, `x86_64`.
    pub architecture: Option<String>,
    /// The processor's name as the kernel shows it: `AMD EPYC 7502 32-Core Processor`.
    pub processor: Option<String>,
    /// Tells one machine from all others, and nothing else about it ([`Metadata::conflict_with`]).
    pub machine_id: Option<String>,
    /// The clock of the time stamps: `mono`, `local`, ...
    pub clock: Option<String>,
    /// Tick rate, `CONFIG_HZ`.
    pub hz: Option<u32>,
    /// Number of CPUs; 0 is unknown.
    pub cpus: u32,
    /// When the source began and ended in ns: a trace with its first and last event of any kind, `record` when it did.
    /// `None`: with the events of the recording.
    pub span_ns: Option<[u64; 2]>,
    /// The cpuidle driver.
    pub idle_driver: Option<String>,
    /// The governor that ran: `menu`.
    pub idle_governor: Option<String>,
    /// Idle states, by groups of CPUs that have the same.
    pub idle_states: Vec<CpuIdleStates>,
    /// CPUs that share a core, by core; none for cores of one CPU.
    pub siblings: Vec<Vec<u32>>,
    /// The cpufreq driver.
    pub frequency_driver: Option<String>,
    /// Frequencies, by groups of CPUs that share a policy.
    pub frequency_domains: Vec<FrequencyDomain>,
    /// The drives.
    pub devices: Vec<BlockDevice>,
    /// Names of interrupts by number, as in `/proc/interrupts`.
    #[serde(with = "numbered")]
    pub interrupts: BTreeMap<u32, String>,
    /// Names of tasks that did I/O, by thread number.
    #[serde(with = "numbered")]
    pub tasks: BTreeMap<u32, String>,
    /// The machine's settings when the recording began: parameters of the idle governor, latency limits, frequency
    /// governors and their hints, the drives' tables.
    pub settings: Vec<RecordedSetting>,
    /// What was recorded.
    pub recorded: Recorded,
    /// Events that got lost while recording.
    pub lost_events: u64,
    /// Events of the source that are not of interest here and were left out.
    pub other_events: u64,
    /// The recording was ended properly.
    pub complete: bool,
    /// What is wrong with it.
    pub warnings: Vec<Warning>,
}

/// Names by number as text has them: TOML knows no keys but strings.
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

    /// What is no number is left out.
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
            siblings: Vec::new(),
            frequency_driver: None,
            frequency_domains: Vec::new(),
            devices: Vec::new(),
            interrupts: BTreeMap::new(),
            tasks: BTreeMap::new(),
            settings: Vec::new(),
            recorded: Recorded::default(),
            lost_events: 0,
            other_events: 0,
            complete: false,
            warnings: Vec::new(),
        }
    }
}

impl Metadata {
    /// The value of a setting of the whole machine, such as `haltpoll-max`, if the recording has it.
    pub fn system_setting(&self, name: &str) -> Option<&str> {
        let is_it =
            |s: &&RecordedSetting| s.name == name && s.places.iter().any(|place| place == SYSTEM);
        self.settings.iter().find(is_it).map(|s| s.value.as_str())
    }

    /// What shows that another recording is of another machine: `processor AMD EPYC 7502 against Intel Xeon 6980P`. `None`:
    /// both are of one machine, as far as they say.
    ///
    /// A machine's identity decides where both have it. Otherwise what both know is compared that no setting and no update
    /// changes: architecture, processor, idle driver, idle states, frequencies.
    pub fn conflict_with(&self, other: &Self) -> Option<String> {
        if self.source.is_empty() || other.source.is_empty() {
            // Nothing was recorded yet.
            return None;
        }
        let text = |what: &str, a: &Option<String>, b: &Option<String>| {
            let (a, b) = differ(a.as_ref(), b.as_ref(), String::clone)?;
            Some(format!("{what} {a} against {b}"))
        };
        let ids = (&self.machine_id, &other.machine_id);
        if let (Some(a), Some(b)) = ids {
            let processors = || text("processor", &self.processor, &other.processor);
            return (a != b).then(|| {
                processors().unwrap_or_else(|| format!("two machines of one kind, {a} and {b}"))
            });
        }
        let states = || {
            let (a, b) = differ(self.shapes(), other.shapes(), |shapes| listed(&shapes))?;
            Some(format!("idle states {a} against {b}"))
        };
        let frequencies = || {
            let (a, b) = differ(self.khz(), other.khz(), |khz| {
                format!("{} to {} kHz", khz.0, khz.1)
            })?;
            Some(format!("frequencies {a} against {b}"))
        };
        text("architecture", &self.architecture, &other.architecture)
            .or_else(|| text("processor", &self.processor, &other.processor))
            .or_else(|| text("idle driver", &self.idle_driver, &other.idle_driver))
            .or_else(states)
            .or_else(frequencies)
            .or_else(|| {
                let one_only = self.idle_states.is_empty() != other.idle_states.is_empty();
                one_only.then(|| "only one of them names its machine's idle states".to_owned())
            })
    }

    /// Whether [`Metadata::conflict_with`] had anything to compare that tells kinds of machines apart: without it, that it
    /// found nothing says nothing.
    pub(crate) fn may_show_conflict(&self, other: &Self) -> bool {
        let both = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some();
        self.source.is_empty()
            || both(&self.machine_id, &other.machine_id)
            || both(&self.processor, &other.processor)
            || (!self.idle_states.is_empty() && !other.idle_states.is_empty())
            // A build of a kernel, on so many CPUs.
            || (self.kernel.is_some() && self.kernel == other.kernel && self.cpus == other.cpus)
    }

    /// Name, exit latency and target residency of the idle states of each group of CPUs.
    fn shapes(&self) -> Option<Vec<StateShape<'_>>> {
        let states = self.idle_states.iter().flat_map(|group| &group.states);
        let shapes: Vec<_> = states
            .map(|s| (s.name.as_str(), s.exit_latency, s.target_residency))
            .collect();
        (!shapes.is_empty()).then_some(shapes)
    }

    /// The lowest and the highest frequency.
    fn khz(&self) -> Option<(u32, u32)> {
        let all = || self.frequency_domains.iter().flat_map(|domain| &domain.khz);
        Some((*all().min()?, *all().max()?))
    }

    /// Adds a warning, or one more to the number of those of that name.
    pub fn warn(&mut self, name: &str, text: impl FnOnce() -> String) {
        match self.warnings.iter_mut().find(|w| w.name == name) {
            Some(warning) => warning.count += 1,
            None => self.warnings.push(Warning {
                name: name.to_owned(),
                count: 1,
                text: text(),
            }),
        }
    }

    /// Adds what a further part of the same recording says. Counts and warnings add up, and nothing counts as
    /// recorded that a part lacks. What both say of the machine is as the first one says.
    pub fn append(&mut self, next: Self) {
        if self.source.is_empty() {
            // There was no part before.
            let (lost, other) = (self.lost_events, self.other_events);
            let earlier = std::mem::replace(self, next);
            self.schema = SCHEMA;
            self.lost_events = self.lost_events.saturating_add(lost);
            self.other_events = self.other_events.saturating_add(other);
            self.append_warnings(earlier.warnings);
            return;
        }
        if !self.source.split("; ").any(|part| part == next.source) {
            self.source = format!("{}; {}", self.source, next.source);
        }
        or(&mut self.kernel, next.kernel);
        or(&mut self.architecture, next.architecture);
        or(&mut self.processor, next.processor);
        or(&mut self.machine_id, next.machine_id);
        or(&mut self.clock, next.clock);
        or(&mut self.hz, next.hz);
        or(&mut self.idle_driver, next.idle_driver);
        or(&mut self.idle_governor, next.idle_governor);
        or(&mut self.frequency_driver, next.frequency_driver);
        if self.idle_states.is_empty() {
            self.idle_states = next.idle_states;
        }
        if self.frequency_domains.is_empty() {
            self.frequency_domains = next.frequency_domains;
        }
        if self.siblings.is_empty() {
            self.siblings = next.siblings;
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
        self.cpus = self.cpus.max(next.cpus);
        self.span_ns = match (self.span_ns, next.span_ns) {
            (Some([first, last]), Some([begins, ends])) => {
                Some([first.min(begins), last.max(ends)])
            }
            (known, next) => known.or(next),
        };
        self.recorded = self.recorded.weakest(next.recorded);
        self.lost_events = self.lost_events.saturating_add(next.lost_events);
        self.other_events = self.other_events.saturating_add(next.other_events);
        self.complete &= next.complete;
        self.append_warnings(next.warnings);
    }

    fn append_warnings(&mut self, next: Vec<Warning>) {
        for warning in next {
            match self.warnings.iter_mut().find(|w| w.name == warning.name) {
                Some(same) => same.count = same.count.saturating_add(warning.count),
                None => self.warnings.push(warning),
            }
        }
    }

    /// Keeps the name of a task, unless there are [`MAX_NAMES`] names.
    pub fn name_task(&mut self, task: u32, name: &str) {
        if self.tasks.len() < MAX_NAMES || self.tasks.contains_key(&task) {
            self.tasks.insert(task, name.to_owned());
        }
    }

    /// Keeps the name of an interrupt, unless there are [`MAX_NAMES`] names.
    pub fn name_interrupt(&mut self, irq: u32, name: &str) {
        if self.interrupts.len() < MAX_NAMES && !self.interrupts.contains_key(&irq) {
            self.interrupts.insert(irq, name.to_owned());
        }
    }

    /// Adds the warning that a CPU goes on- or offline.
    pub fn warn_of_hotplug(&mut self, cpu: u32, time: Nanoseconds, online: bool) {
        self.warn("hotplug", || {
            let how = if online { "online" } else { "offline" };
            format!(
                "CPU {cpu} goes {how} at {} ns; what it did on the way is left out",
                time.0
            )
        });
    }
}

/// Of an idle state what a driver declares.
type StateShape<'a> = (&'a str, Nanoseconds, Nanoseconds);

fn listed(states: &[StateShape<'_>]) -> String {
    let one = |(name, exit, _): &StateShape<'_>| format!("{name} ({} us)", exit.0 / 1000);
    states.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What two say that know different things.
fn differ<T: PartialEq>(
    a: Option<T>,
    b: Option<T>,
    what: impl Fn(T) -> String,
) -> Option<(String, String)> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => Some((what(a), what(b))),
        _ => None,
    }
}

/// What was known before, or else what the next one knows.
fn or<T>(known: &mut Option<T>, next: Option<T>) {
    *known = known.take().or(next);
}

/// The idle states of some CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuIdleStates {
    /// The CPUs.
    pub cpus: Vec<u32>,
    /// Their states, shallowest first.
    pub states: Vec<IdleState>,
}

/// The frequencies of some CPUs.
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
    /// As in [`crate::recording::Block::device`].
    pub device: u32,
    /// The kernel's name: `nvme0n1`.
    pub name: String,
    /// What the drive calls itself.
    #[serde(default)]
    pub model: Option<String>,
}

/// What a setting of the whole machine belongs to.
const SYSTEM: &str = "system";

/// A setting of the machine that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSetting {
    /// Its name in `wakepath status`: `haltpoll-max`, `epp`.
    pub name: String,
    /// What has this value: `system`, or all of `cpu0`, `policy0`, `nvme0` and so on.
    #[serde(rename = "of")]
    pub places: Vec<String>,
    /// As the machine writes it.
    pub value: String,
}

/// How far something is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Known {
    /// Not recorded.
    #[default]
    Missing,
    /// Worked out from other events that were there at that time, never from later ones.
    Inferred,
    /// Recorded.
    Exact,
}

/// What was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recorded {
    /// Idle entries and exits.
    pub idle: Known,
    /// [`crate::recording::IdleInputs::sleep_length`].
    pub sleep_length: Known,
    /// Whether the tick was stopped, and [`crate::recording::IdleInputs::delta_tick`].
    pub tick: Known,
    /// The latency request.
    pub latency_request: Known,
    /// The number of tasks that wait for I/O.
    pub iowaiters: Known,
    /// Whether a CPU left its idle loop between two idle periods.
    pub idle_loop: Known,
    /// Block requests.
    pub block: Known,
    /// Wake-ups of tasks.
    pub wakes: Known,
    /// Frequency changes.
    pub frequency: Known,
    /// Timers that expired.
    pub timers: Known,
    /// Bios from their entry into the block layer to their issue.
    pub queueing: Known,
    /// Interrupts of devices, and the block softirq.
    pub interrupts: Known,
    /// IPIs, sent and received.
    pub ipis: Known,
    /// Tasks that wait for I/O: their wake-ups, and when they run again.
    pub tasks: Known,
}

impl Recorded {
    /// How far each is known in both.
    fn weakest(self, other: Self) -> Self {
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
            timers: self.timers.min(other.timers),
            queueing: self.queueing.min(other.queueing),
            interrupts: self.interrupts.min(other.interrupts),
            ipis: self.ipis.min(other.ipis),
            tasks: self.tasks.min(other.tasks),
        }
    }
}

/// Something that is wrong with a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Short name, for programs: `clock-jump`.
    pub name: String,
    /// How often.
    pub count: u64,
    /// What it means, for people; of the first one.
    pub text: String,
}
