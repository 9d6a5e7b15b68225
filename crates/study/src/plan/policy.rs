//! What is compared: one value of every setting.

use std::collections::BTreeMap;

use toml::Spanned;
use wakepath_daemon::policy_set;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{LatencyRequest, MAX_LATENCY_REQUEST_US, MachineIdleState};
use wakepath_policies::mechanism::Kind;
use wakepath_policies::spec::{PolicySet, PolicySpec};

use super::Target;
use crate::file::{PolicyEntry, Source, StudyError, unknown};

/// A policy of a study.
#[derive(Clone, Debug)]
pub struct PlannedPolicy {
    /// Its name in the results.
    pub name: String,
    /// Everything that it sets, as text.
    pub settings: BTreeMap<String, String>,
    /// The idle governor, if it names one.
    pub idle: Option<PolicySpec>,
    /// The frequency policy, if it names one.
    pub freq: Option<PolicySpec>,
    /// Its policies.
    pub policies: PolicySet,
    /// Idle states switched off, by name.
    pub disable_idle: Vec<String>,
    /// Idle states that take longer to leave, in us, are switched off.
    pub idle_latency_us: Option<u64>,
    /// The latency request of every CPU in us.
    pub cpu_latency_us: Option<u64>,
    /// The latency request of the whole system in us.
    pub system_latency_us: Option<u64>,
    /// Whether waiting with io_uring counts as waiting for I/O.
    pub io_uring_iowait: bool,
    /// Settings of the measured machine, by name.
    pub set: BTreeMap<String, String>,
}

/// The policy of a name. That of leases may be a configuration of the daemon: what it would do.
fn named_spec(kind: Kind, name: &str) -> Result<PolicySpec, String> {
    match kind {
        Kind::Psd => policy_set::parse_one(name),
        _ => name.parse::<PolicySpec>().map_err(|e| e.to_string()),
    }
}

impl PlannedPolicy {
    pub(super) fn new(
        entry: &PolicyEntry,
        source: Source<'_>,
        machine: Option<&Machine>,
        target: Target,
    ) -> Result<Self, StudyError> {
        let mut settings = BTreeMap::new();
        let mut named = Vec::new();
        let mut spec = |key: &str,
                        kind: Kind,
                        text: &Option<Spanned<String>>|
         -> Result<Option<PolicySpec>, StudyError> {
            let Some(text) = text else { return Ok(None) };
            let spec = named_spec(kind, text.get_ref()).map_err(|e| source.error(text, e))?;
            let of_kind = match kind {
                Kind::Idle => spec.idle().map(drop),
                Kind::Frequency => spec.frequency().map(drop),
                Kind::Psd => spec.psd().map(drop),
                Kind::Apst => spec.apst().map(drop),
                _ => spec.poll().map(drop),
            };
            of_kind.map_err(|e| source.error(text, e.to_string()))?;
            named.push(spec.to_string());
            settings.insert(key.to_owned(), spec.to_string());
            Ok(Some(spec))
        };
        let idle = spec("idle", Kind::Idle, &entry.idle)?;
        let freq = spec("freq", Kind::Frequency, &entry.freq)?;
        let psd = spec("psd", Kind::Psd, &entry.psd)?;
        let apst = spec("apst", Kind::Apst, &entry.apst)?;
        let poll = spec("poll", Kind::Poll, &entry.poll)?;
        let mut add = |key: &str, text: String| {
            named.push(format!("{key}={text}"));
            settings.insert(key.to_owned(), text);
        };
        let disable_idle: Vec<String> = entry
            .disable_idle
            .iter()
            .map(|s| s.get_ref().clone())
            .collect();
        if !disable_idle.is_empty() {
            add("disable_idle", disable_idle.join(","));
        }
        let number = |n: &Option<Spanned<u64>>| n.as_ref().map(|n| *n.get_ref());
        for (key, value) in [
            ("idle_latency_us", number(&entry.idle_latency_us)),
            ("cpu_latency_us", number(&entry.cpu_latency_us)),
            ("system_latency_us", number(&entry.system_latency_us)),
        ] {
            if let Some(value) = value {
                add(key, value.to_string());
            }
        }
        for request in [&entry.cpu_latency_us, &entry.system_latency_us] {
            if let Some(us) = request
                && *us.get_ref() > MAX_LATENCY_REQUEST_US
            {
                let message = format!(
                    "a latency request is a whole number of us from 0 to {MAX_LATENCY_REQUEST_US}"
                );
                return Err(source.error(us, message));
            }
        }
        if let Some(iowait) = entry.io_uring_iowait {
            add(
                "io_uring_iowait",
                if iowait { "on" } else { "off" }.to_owned(),
            );
        }
        let mut set = BTreeMap::new();
        for (key, value) in &entry.set {
            let text = match value.get_ref() {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(on) => u8::from(*on).to_string(),
                _ => {
                    let message = "a setting is a text, a whole number, true or false";
                    return Err(source.error(value, message));
                }
            };
            add(key, text.clone());
            set.insert(key.clone(), text);
            if target == Target::Sim {
                let message = format!(
                    "`{key}` is a setting of a real machine (--on live); \
                     the simulator has `idle`, `freq`, `psd`, `apst`, `poll` and idle states"
                );
                return Err(source.error(value, message));
            }
        }
        let named = if named.is_empty() {
            "unchanged".to_owned()
        } else {
            named.join(", ")
        };
        let name = entry.name.as_ref().map_or(named, |n| n.get_ref().clone());
        let iowait = entry.io_uring_iowait.unwrap_or(true);
        let io_uring = if iowait {
            None
        } else {
            Some("io_uring[iowait=off]")
        };
        let specs = [&idle, &freq, &psd, &apst, &poll].into_iter().flatten();
        let policies = PolicySet::new(specs.cloned())
            .map(|set| set.or(&PolicySet::named(io_uring).unwrap_or_default()))
            .map_err(|e| StudyError::Settings(e.to_string()))?;
        let policy = Self {
            name,
            settings,
            idle,
            freq,
            policies,
            disable_idle,
            idle_latency_us: number(&entry.idle_latency_us),
            cpu_latency_us: number(&entry.cpu_latency_us),
            system_latency_us: number(&entry.system_latency_us),
            io_uring_iowait: entry.io_uring_iowait.unwrap_or(true),
            set,
        };
        if let Some(machine) = machine {
            for state in &entry.disable_idle {
                let known: Vec<&str> = machine.idle_state.iter().map(|s| s.name.as_str()).collect();
                if !known.contains(&state.get_ref().as_str()) {
                    let message = unknown("idle state of this machine", state.get_ref(), &known);
                    return Err(source.error(state, message));
                }
            }
            let limit = entry.idle_latency_us.as_ref();
            policy
                .machine(machine)
                .map_err(|e| match (limit, entry.disable_idle.first()) {
                    (Some(at), _) => source.error(at, e.to_string()),
                    (_, Some(at)) => source.error(at, e.to_string()),
                    _ => StudyError::Machine(e),
                })?;
        }
        Ok(policy)
    }

    /// The machine without the idle states that this policy switches off, under its latency requests.
    ///
    /// # Errors
    /// None is left.
    pub fn machine(
        &self,
        machine: &Machine,
    ) -> Result<Machine, wakepath_hardware::machine::MachineError> {
        let mut machine = machine.clone();
        // One state is left, as on a real machine.
        let on = |s: &&MachineIdleState| !s.disabled && !self.disable_idle.contains(&s.name);
        let first = machine.idle_state.iter().find(on).map(|s| s.name.clone());
        let limit = self.idle_latency_us.unwrap_or(u64::MAX);
        let too_slow = machine
            .idle_state
            .iter()
            .filter(|s| s.exit_latency_us.value > limit as f64 && Some(&s.name) != first.as_ref());
        let mut off: Vec<String> = too_slow.map(|s| s.name.clone()).collect();
        off.extend(self.disable_idle.iter().cloned());
        let off: Vec<&str> = off.iter().map(String::as_str).collect();
        machine.disable_idle_states(&off)?;
        if let Some(us) = self.cpu_latency_us {
            machine.set_cpu_latency_request(us);
        }
        if let Some(us) = self.system_latency_us {
            machine.latency_requests.push(LatencyRequest::system(us));
        }
        Ok(machine)
    }
}
