//! A recording through policy sets' idle governors.

use std::collections::BTreeMap;
use std::io::Write;

use wakepath_hardware::{IdleState, Machine};
use wakepath_policies::PolicySet;
use wakepath_policies::idle::IdlePolicy;
use wakepath_policies::latency::{CpuLatency, LatencyScope};
use wakepath_policies::psd::{PsdPolicy, PsdSettings};
use wakepath_policies::spec::PolicySpec;
use wakepath_replay::package::PackageFigures;
use wakepath_replay::{
    GroupIdleStates, LatencyLimits, RecordedGovernor, ReplayError, Report, Setup, replay_recording,
};
use wakepath_results::document::CpuKind;
use wakepath_system::HaltpollAsSet;
use wakepath_trace::recording::{Metadata, Reader};
use wakepath_units::causes::with_causes;
use wakepath_units::{KernelVersion, Nanoseconds, TickRate};

use crate::file::StudyError;
use crate::plan::{PlannedRecording, reason_against_replay};

/// A recording with everything that its replay needs.
#[derive(Debug)]
pub struct Replaying<'a> {
    recording: &'a PlannedRecording,
    setup: Setup,
    kinds: Vec<String>,
    passes: Vec<Pass>,
    policies: usize,
}

/// A pass through the recording, for policy sets with equal leases and latency requests.
#[derive(Debug)]
struct Pass {
    psd: Option<PsdPolicy>,
    latency: Option<LatencyLimits>,
    /// The pass's policies: place among all sets, name, governor.
    policies: Vec<(usize, (String, IdlePolicy))>,
}

/// The outcome of replaying a recording.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Report for the recorded choices first, then for policy sets in order, except sets without changes.
    pub report: Report,
    /// For each policy set its index in the report, and its governor; recorded choices have no governor.
    pub policies: Vec<(usize, Option<IdlePolicy>)>,
    /// Names and sizes of the CPU groups.
    pub kinds: Vec<CpuKind>,
}

impl<'a> Replaying<'a> {
    /// Prepares a recording's replay. `machine`: idle states, latencies and power in place of the recording's.
    ///
    /// # Errors
    /// No idle states, or a policy set impossible on the recording.
    pub fn new(
        recording: &'a PlannedRecording,
        machine: Option<&Machine>,
        sets: &[(&str, &PolicySet)],
    ) -> Result<Self, StudyError> {
        let metadata = &recording.metadata;
        let (states, kinds) = match (&recording.states, machine) {
            (Some((_, states)), _) => {
                let all = vec![GroupIdleStates::from_declared(Vec::new(), states.clone())];
                (all, vec!["cpu".to_owned()])
            }
            (None, Some(machine)) => {
                let names = machine.cluster.iter().map(|c| c.name.clone());
                let states = GroupIdleStates::from_machine(machine)
                    .map_err(|e| recording.error_about_file(&with_causes(&e)))?;
                (states, names.collect())
            }
            (None, None) => {
                let states = GroupIdleStates::from_recording(metadata)
                    .map_err(|e| recording.error_about_file(&with_causes(&e)))?;
                let names = states
                    .iter()
                    .map(|group| name_cpu_group(&group.cpus))
                    .collect();
                (states, names)
            }
        };
        let recorded_hz = metadata.hz.and_then(TickRate::new);
        let of_machine = machine.map(Machine::tick_rate);
        let tick = recording.tick.or(recorded_hz).or(of_machine);
        let recorded_governor = match &recording.ran {
            Some(spec) => Some(RecordedGovernor {
                name: spec.to_string(),
                policy: spec
                    .as_idle_policy()
                    .map_err(|e| recording.error_about_file(&with_causes(&e)))?,
                parameters_known: true,
            }),
            None => find_recorded_governor(metadata),
        };
        let setup = Setup {
            states,
            package: machine.and_then(PackageFigures::from_machine),
            tick: tick.unwrap_or_default(),
            policies: Vec::new(),
            psd: None,
            latency: None,
            recorded_governor,
            blocks: 1,
        };
        Ok(Self {
            passes: plan_passes(sets, &setup, recording)?,
            recording,
            setup,
            kinds,
            policies: sets.len(),
        })
    }

    /// Replaces the exits of idle states, by index, for wake-ups. Governors still know the declared latencies.
    pub(super) fn replace_exits(&mut self, exits: &BTreeMap<u8, Nanoseconds>) {
        for group in &mut self.setup.states {
            for (index, exit) in (0..=u8::MAX).zip(&mut group.exit) {
                if let Some(known) = exits.get(&index) {
                    *exit = *known;
                }
            }
        }
    }

    /// Metadata about the recording and the recorded machine.
    pub fn recorded_metadata(&self) -> &Metadata {
        &self.recording.metadata
    }

    /// Number of events in the recording.
    pub fn event_count(&self) -> u64 {
        self.recording.events
    }

    /// The governor that ran, as policy sets name it, with its kernel's version; `None` if the recording does not say.
    pub fn recorded_governor_name(&self) -> Option<&str> {
        let governor = self.setup.recorded_governor.as_ref();
        governor.map(|governor| governor.name.as_str())
    }

    /// The declared idle states of each group of CPUs, shallowest first.
    pub fn declared_idle_states(&self) -> impl Iterator<Item = Vec<IdleState>> {
        let groups = self.setup.states.iter();
        groups.map(|group| group.declared.iter().cloned().collect())
    }

    /// CPU groups with equal idle states: names, and numbers of CPUs. A group without a list counts all recorded CPUs.
    pub fn list_cpu_groups(&self) -> Vec<CpuKind> {
        let groups = self.kinds.iter().zip(&self.setup.states);
        groups
            .map(|(name, states)| CpuKind {
                name: name.clone(),
                cpus: match states.cpus.len() {
                    0 => self.recording.metadata.cpus,
                    known => known as u32,
                },
            })
            .collect()
    }

    /// The idle states of a CPU, and its tick rate.
    pub fn idle_states_of_cpu_and_tick_rate(&self, cpu: u32) -> (&GroupIdleStates, TickRate) {
        (
            &self.setup.states[self.setup.group_index_of_cpu(cpu)],
            self.setup.tick,
        )
    }

    /// Names of all CPUs' idle states, each once.
    pub fn list_state_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for state in self.setup.states.iter().flat_map(|g| g.declared.iter()) {
            if !names.contains(&state.name) {
                names.push(state.name.clone());
            }
        }
        names
    }

    /// Replays the recording, in `blocks` blocks with equal time. `calls`: a CPU, and where its governor call log goes.
    /// `progress` gets the finished share, 0 to 1, and returns whether to go on.
    ///
    /// # Errors
    /// The recording does not fit the idle states, or cannot be read to its end; [`StudyError::Interrupted`].
    pub fn replay_in_blocks(
        &self,
        blocks: usize,
        mut calls: Option<(u32, &mut dyn Write)>,
        progress: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Replayed, StudyError> {
        let events = self.recording.events;
        let all = (events * self.passes.len() as u64).max(1) as f64;
        let mut reports = Vec::new();
        for (pass, with) in self.passes.iter().enumerate() {
            let policies = with.policies.iter().map(|(_, policy)| policy.clone());
            let setup = Setup {
                policies: policies.collect(),
                psd: with.psd,
                latency: with.latency.clone(),
                blocks,
                ..self.setup.clone()
            };
            let mut reader = Reader::open(&self.recording.path)
                .map_err(|e| self.recording.error_about_file(&with_causes(&e)))?;
            let before = pass as u64 * events;
            let report = replay_recording(&mut reader, &setup, calls.take(), &mut |events| {
                progress((before + events) as f64 / all)
            });
            reports.push(report.map_err(|e| match e {
                ReplayError::Stopped => StudyError::Interrupted,
                other => self.recording.error_about_file(&with_causes(&other)),
            })?);
        }
        let report = merge_reports(reports, &self.passes)
            .ok_or_else(|| self.recording.error_about_file("no policy set to replay"))?;
        let mut policies: Vec<(usize, Option<IdlePolicy>)> = vec![(0, None); self.policies];
        let mut governors: Vec<_> = self.passes.iter().flat_map(|p| &p.policies).collect();
        governors.sort_by_key(|(place, _)| *place);
        for (index, (place, (_, policy))) in governors.into_iter().enumerate() {
            if let Some(of_set) = policies.get_mut(*place) {
                *of_set = (index + 1, Some(policy.clone()));
            }
        }
        let groups: Vec<usize> = report
            .cpus
            .iter()
            .map(|cpu| self.setup.group_index_of_cpu(*cpu))
            .collect();
        let kinds = self.kinds.iter().enumerate().map(|(group, name)| CpuKind {
            name: name.clone(),
            cpus: groups.iter().filter(|other| **other == group).count() as u32,
        });
        Ok(Replayed {
            kinds: kinds.collect(),
            policies,
            report,
        })
    }
}

/// A name for CPUs with equal idle states.
fn name_cpu_group(cpus: &[u32]) -> String {
    match cpus {
        [] => "cpu".to_owned(),
        [only] => format!("cpu{only}"),
        [first, .., last] => format!("cpu{first}-{last}"),
    }
}

/// Plans the passes that all policy sets need.
fn plan_passes(
    sets: &[(&str, &PolicySet)],
    setup: &Setup,
    recording: &PlannedRecording,
) -> Result<Vec<Pass>, StudyError> {
    // Recorded choices can be part of any pass.
    let mut passes: Vec<Pass> = vec![Pass {
        psd: None,
        latency: None,
        policies: Vec::new(),
    }];
    for (place, (name, set)) in sets.iter().enumerate() {
        if set.is_empty() {
            continue;
        }
        let replayed = resolve_policy(set, setup).map_err(|message| {
            recording.error_about_file(&format!("policy '{name}': {message}"))
        })?;
        let ReplayedPolicy { idle, psd, latency } = replayed;
        let policy = (place, ((*name).to_owned(), idle));
        match passes
            .iter_mut()
            .find(|pass| pass.psd == psd && pass.latency == latency)
        {
            Some(pass) => pass.policies.push(policy),
            None => passes.push(Pass {
                psd,
                latency,
                policies: vec![policy],
            }),
        }
    }
    if passes.len() > 1 && passes[0].policies.is_empty() {
        passes.remove(0);
    }
    Ok(passes)
}

/// Resolves a policy set on the recording's idle states.
struct ReplayedPolicy {
    idle: IdlePolicy,
    psd: Option<PsdPolicy>,
    latency: Option<LatencyLimits>,
}

fn resolve_policy(set: &PolicySet, setup: &Setup) -> Result<ReplayedPolicy, String> {
    if let Some(message) = reason_against_replay(set) {
        return Err(message);
    }
    let recorded = setup.recorded_governor.as_ref();
    let recorded_idle = recorded.map(|governor| governor.policy.clone());
    Ok(ReplayedPolicy {
        idle: set
            .idle()
            .or(recorded_idle)
            .ok_or("it names no idle governor, and the recording does not say which one ran")?,
        psd: set
            .psd()
            .map(|settings| resolve_leases(settings, &setup.states))
            .transpose()?,
        latency: set
            .cpu_latency()
            .map(|request| resolve_latency_limits(request, &setup.states))
            .transpose()?,
    })
}

/// Resolves the leases of a policy on the recording's idle states. A ceiling by name has to be the same state on every
/// CPU.
fn resolve_leases(settings: &PsdSettings, states: &[GroupIdleStates]) -> Result<PsdPolicy, String> {
    let mut on = states.iter().map(|states| {
        settings
            .resolve_for_states(&states.declared)
            .map_err(|e| with_causes(&e))
    });
    let first = on.next().ok_or("there are no idle states")??;
    for other in on {
        if other? != first {
            return Err(
                "CPUs of this recording have the state at another index; give the ceiling as a latency, such as 20us"
                    .to_owned(),
            );
        }
    }
    Ok(first)
}

const NO_LIFTING: &str = "cpu-latency[limit=none]: who asked for the recorded limits is not known, so none can be lifted";

/// Resolves a latency request on the recording's idle states.
fn resolve_latency_limits(
    request: &CpuLatency,
    states: &[GroupIdleStates],
) -> Result<LatencyLimits, String> {
    let limits = states.iter().map(|states| {
        let known = states.declared.iter();
        let known = known.map(|s| (s.name.as_str(), s.exit_latency));
        let limit = request
            .limit
            .resolve_for_states(known)
            .map_err(|e| with_causes(&e))?;
        limit.ok_or_else(|| NO_LIFTING.to_owned())
    });
    Ok(LatencyLimits {
        limits: limits.collect::<Result<_, String>>()?,
        cpus: match &request.scope {
            LatencyScope::System | LatencyScope::EachCpu => Vec::new(),
            LatencyScope::Cpus(cpus) => cpus.clone(),
        },
    })
}

/// The governor that ran during the recording, in its kernel's version, or the nearest known version.
fn find_recorded_governor(metadata: &Metadata) -> Option<RecordedGovernor> {
    let governor = metadata.idle_governor.as_deref()?;
    let version = KernelVersion::nearest_supported(metadata.kernel.as_deref()?)?;
    let (spec, parameters_known) = if governor == "haltpoll" {
        let as_set = HaltpollAsSet::from_settings(version, |name: &str| {
            metadata.machine_wide_setting(name).map(str::to_owned)
        })
        .ok()?;
        (as_set.policy, as_set.complete)
    } else {
        (
            governor
                .parse::<PolicySpec>()
                .ok()?
                .in_kernel_version(version),
            true,
        )
    };
    Some(RecordedGovernor {
        name: spec.to_string(),
        policy: spec.as_idle_policy().ok()?,
        parameters_known,
    })
}

/// Merges the reports of all passes, with policies in the order of the sets; `None` without a pass.
fn merge_reports(reports: Vec<Report>, passes: &[Pass]) -> Option<Report> {
    let mut reports = reports.into_iter();
    let mut merged = reports.next()?;
    let mut order: Vec<usize> = passes
        .iter()
        .flat_map(|p| &p.policies)
        .map(|(place, _)| *place)
        .collect();
    for mut report in reports {
        merged.policies.extend(report.policies.drain(1..));
        for (block, of_pass) in merged.blocks.iter_mut().zip(&mut report.blocks) {
            block.policies.extend(of_pass.policies.drain(1..));
        }
    }
    // Recorded choices stay first in the merged report.
    order.insert(0, 0);
    for place in &mut order[1..] {
        *place += 1;
    }
    sort_by_ranks(&mut merged.policies, &order);
    for block in &mut merged.blocks {
        sort_by_ranks(&mut block.policies, &order);
    }
    Some(merged)
}

/// Sorts items by the rank that `order` has for each.
fn sort_by_ranks<T>(items: &mut Vec<T>, order: &[usize]) {
    let ranked: BTreeMap<usize, T> = order.iter().copied().zip(items.drain(..)).collect();
    items.extend(ranked.into_values());
}
