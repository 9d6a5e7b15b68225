//! The simulated model of the machine, with its present policies.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{
    ClusterIdleState, DriveModel, EXIT_NOT_KNOWN, MachineError, MachineIdleState, Origin,
};
use wakepath_policies::mechanism::Kind;
use wakepath_policies::spec::SpecError;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_sim::{PolicyComparison, PolicyResult};
use wakepath_study::file::StudyError;
use wakepath_study::plan::Plan;
use wakepath_study::run::RunControl;
use wakepath_study::run::sim::Sim;
use wakepath_system::capture::machine::describe_machine;
use wakepath_system::capture::running::{self, RunningPolicies};
use wakepath_system::{StateInfo, System};
use wakepath_workloads::fio;

use crate::calibration::EarlierCalibration;

/// Seed of the first run, and number of runs; results are medians.
const SEED: u64 = 1;
const RUNS: u32 = 3;

/// The load of one 4 KiB read at a time, the next as soon as the last is done.
pub const READS: &str = "one 4 KiB read at a time";
const READS_JOB: &str =
    "[reads]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\ntime_based\nruntime=1s\n";
/// The load of reads with about as much computing between them as a read takes, so that the clock matters.
pub const WORK: &str = "one 4 KiB read at a time and 200,000 cycles of work after each";
/// The load of a read every 10 ms, so that the machine is mostly idle.
pub const QUIET: &str = "a 4 KiB read every 10 ms";
const QUIET_JOB: &str = "[quiet]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\nthinktime=10000\n\
     time_based\nruntime=2s\n";
/// The load of a read every 5 s, which finds a drive asleep that sleeps at all.
pub const SELDOM: &str = "a 4 KiB read every 5 s";
const SELDOM_JOB: &str = "[seldom]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\nthinktime=5000000\n\
     time_based\nruntime=60s\n";

/// The simulated machine with its present policies.
#[derive(Clone)]
pub(crate) struct Model {
    /// The machine, with idle states disabled as at present.
    pub(crate) machine: Machine,
    /// Present policies.
    pub(crate) now: PolicySet,
    /// Idle states of each cluster's first CPU.
    states: Vec<Vec<StateInfo>>,
    /// Whether the host decides the exit times, so that differences in latency and power are unknown.
    pub(crate) of_host: bool,
}

/// Whether an idle state belongs to the host of this virtual machine.
fn belongs_to_host(state: &MachineIdleState) -> bool {
    matches!(&state.true_exit_us.origin, Origin::Assumed(why) if why == EXIT_NOT_KNOWN)
}

/// What the present settings cost over alternative ones.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    /// Mean latency at present minus that of the alternative, in us.
    pub(crate) us_per_io: f64,
    /// Mean power at present minus that of the alternative, in mW.
    pub(crate) mw: Option<f64>,
    /// The larger of both costs, relative to the present value.
    pub(crate) weight: f64,
    /// What was simulated, in words.
    pub(crate) how: String,
}

impl Model {
    /// Reads a machine with the policies in force and a calibration's figures. Also returns notes on all of them.
    pub(crate) fn read(
        system: &System,
        calibration: Option<&EarlierCalibration>,
    ) -> Result<(Self, Vec<String>), MachineError> {
        let (mut machine, mut notes) = describe_machine(system, "this machine")?;
        if let Some(calibration) = calibration {
            notes.extend(calibration.apply_to(&mut machine)?);
        }
        // The machine's own notes already mention substitutes.
        let now = read_running_policies(system, &machine)
            .or_else(|_| PolicySet::from_names(["menu", "schedutil"]))
            .map_err(|e| MachineError::Invalid {
                origin: machine.name.clone(),
                key: "policy".to_owned(),
                message: e.to_string(),
            })?;
        let online = system.cpus();
        let refused: Vec<String> = system
            .find_mostly_refused_states()
            .into_iter()
            .map(|state| state.name)
            .collect();
        let mut first = 0;
        let states = machine.cluster.iter().map(|cluster| {
            let cpu = online.get(first).copied();
            first += cluster.cpus;
            let mut states = cpu.map_or_else(Vec::new, |cpu| system.read_idle_states(cpu));
            // An idle state that firmware refuses is as good as missing.
            for state in states.iter_mut().filter(|s| refused.contains(&s.name)) {
                (state.disabled, state.off_by_default) = (true, true);
            }
            states
        });
        let model = Self {
            states: states.collect(),
            of_host: machine.idle_state.iter().any(belongs_to_host),
            machine,
            now,
        };
        Ok((model, notes))
    }

    /// The machine and its policies after applying a set (`settings::policy`). A governor or driver already in use
    /// keeps its keys unless the set gives others. A ceiling also enables states.
    pub(crate) fn machine_and_policies_after_applying(
        &self,
        set: &PolicySet,
    ) -> (Machine, PolicySet) {
        let mut machine = self.machine.clone();
        if set
            .idle_states()
            .is_some_and(|limit| limit.ceiling.is_some())
        {
            self.enable_user_disabled_states(&mut machine);
        }
        let policies = set.policies().iter().map(|policy| {
            let adjusted = self.policy_in_use_with_given_keys(policy);
            adjusted.unwrap_or_else(|| policy.clone())
        });
        let set = PolicySet::new(policies).unwrap_or_else(|_| set.clone());
        (machine, set.completed_from(&self.now))
    }

    /// The policy that results where a policy names the governor or driver in use: the one in use, with the given keys.
    fn policy_in_use_with_given_keys(&self, policy: &PolicySpec) -> Option<PolicySpec> {
        let now = self.now.policy_of_kind(policy.kind())?;
        let by_key = matches!(policy.kind(), Kind::Idle | Kind::Frequency);
        if !by_key || now.mechanism() != policy.mechanism() {
            return None;
        }
        let mut given = policy.given_keys();
        given.try_fold(now.clone(), |now, (key, value)| {
            now.with_key(key, value).ok()
        })
    }

    /// Enables states that a user disabled, on each core type. States missing on its CPUs, or disabled by the driver,
    /// stay off.
    fn enable_user_disabled_states(&self, machine: &mut Machine) {
        for state in &mut machine.idle_state {
            let mut tables = self.states.iter();
            state.disabled = tables.all(|table| is_missing_or_off_by_driver(table, &state.name));
        }
        let states = machine.idle_state.iter();
        let on: Vec<String> = states
            .filter(|state| !state.disabled)
            .map(|state| state.name.clone())
            .collect();
        for (cluster, table) in machine.cluster.iter_mut().zip(&self.states) {
            for own in &mut cluster.idle_state {
                own.disabled =
                    on.contains(&own.name) && is_missing_or_off_by_driver(table, &own.name);
            }
            for name in &on {
                let known = cluster.idle_state.iter().any(|own| own.name == *name);
                if !known && is_missing_or_off_by_driver(table, name) {
                    let mut own =
                        ClusterIdleState::without_overrides(name, "cpuidle of its first CPU");
                    own.disabled = true;
                    cluster.idle_state.push(own);
                }
            }
        }
    }

    /// The idle states of the first CPU of each core type.
    pub(crate) fn idle_states_of_each_core_type(&self) -> impl Iterator<Item = &[StateInfo]> {
        self.states.iter().map(Vec::as_slice)
    }

    /// The text of the present policy of a kind.
    pub(crate) fn text_of_present_policy(&self, kind: Kind) -> String {
        let policy = self.now.policy_of_kind(kind);
        policy.map(ToString::to_string).unwrap_or_default()
    }

    /// What the present machine and policies cost compared to another machine or other policies.
    pub(crate) fn simulate_cost_compared_to(
        &self,
        machine: &Machine,
        policies: &PolicySet,
        load: &str,
        what: &str,
    ) -> Result<Difference, StudyError> {
        let now = simulate_load(&self.machine, &self.now, load)?;
        let then = simulate_load(machine, policies, load)?;
        Ok(subtract_latency_and_power(
            &now,
            &then,
            format!("simulated, {load}: now against {what}"),
        ))
    }

    /// The same model with all CPUs choosing clocks as in a given cpufreq policy.
    ///
    /// # Errors
    /// The cpufreq policy has a preference unknown to the simulator.
    pub(crate) fn with_frequency_policy_of_cpufreq_policy(
        &self,
        system: &System,
        policy: usize,
    ) -> Result<Self, SpecError> {
        let frequency = running::read_simulated_frequency_policy(
            system,
            &self.machine,
            policy,
            &mut Vec::new(),
        )?
        .with_kernel_if_bare(system.nearest_kernel_version());
        Ok(Self {
            now: PolicySet::new([frequency])?.completed_from(&self.now),
            ..self.clone()
        })
    }

    /// The machine with the declared power states of another drive.
    pub(crate) fn machine_with_drive(&self, drive: &wakepath_hardware::drive::Drive) -> Machine {
        let mut machine = self.machine.clone();
        machine.replace_drive_keeping_count(DriveModel::from_declared_drive(drive));
        machine
    }
}

/// Simulates the machine under a load from this module.
pub(crate) fn simulate_load(
    machine: &Machine,
    policies: &PolicySet,
    load: &str,
) -> Result<PolicyResult, StudyError> {
    let job = match load {
        QUIET => QUIET_JOB,
        SELDOM => SELDOM_JOB,
        _ => READS_JOB,
    };
    simulate_job(machine, policies, load, job)
}

/// Simulates the load [`WORK`] on a single CPU.
pub(crate) fn simulate_work_on(
    machine: &Machine,
    policies: &PolicySet,
    cpu: usize,
) -> Result<PolicyResult, StudyError> {
    simulate_job(
        machine,
        policies,
        WORK,
        &fio_job_of_reads_and_work_on_cpu(cpu),
    )
}

fn fio_job_of_reads_and_work_on_cpu(cpu: usize) -> String {
    format!("{READS_JOB}thinkcycles=200000\ncpus_allowed={cpu}\n")
}

fn simulate_job(
    machine: &Machine,
    policies: &PolicySet,
    load: &str,
    job: &str,
) -> Result<PolicyResult, StudyError> {
    #[expect(clippy::expect_used, reason = "constants that the tests parse")]
    let file = fio::parse(job, "doctor").expect("a job of our own");
    let plan = Plan::without_file(
        load,
        machine.clone(),
        file.into(),
        vec![policies.clone()],
        SEED,
        RUNS,
    );
    let simulated = Sim::new(&plan)?.compare(&RunControl::without_reports_or_cancellation())?;
    let comparison = PolicyComparison::from(simulated);
    #[expect(clippy::expect_used, reason = "one result per policy set")]
    Ok(comparison.results.into_iter().next().expect("one result"))
}

/// Average power of the drive alone in mW, in the first run.
fn mean_drive_mw(result: &PolicyResult) -> Option<f64> {
    Some(result.runs.first()?.drive.as_ref()?.average_mw)
}

/// Whether an idle state is missing on a cluster's CPUs, or disabled by the driver.
fn is_missing_or_off_by_driver(table: &[StateInfo], name: &str) -> bool {
    let state = table.iter().find(|state| state.name == name);
    // Clusters without a table of their own have the first cluster's states.
    !table.is_empty() && state.is_none_or(|state| state.off_by_default)
}

/// A part divided by the whole; 0 without a whole.
fn share_or_zero(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// What `now` costs more than `then`, in latency and power.
pub(crate) fn subtract_latency_and_power(
    now: &PolicyResult,
    then: &PolicyResult,
    how: String,
) -> Difference {
    let us_per_io = now.mean_us - then.mean_us;
    // The machine's power includes drives with power states.
    let of_machine = now.mean_mw.zip(then.mean_mw);
    let both = of_machine.or_else(|| mean_drive_mw(now).zip(mean_drive_mw(then)));
    let mw = both.map(|(now, then)| now - then);
    let all_mw = now.mean_mw.or_else(|| mean_drive_mw(now));
    let of_power = mw
        .zip(all_mw)
        .map_or(0.0, |(mw, all)| share_or_zero(mw, all));
    Difference {
        us_per_io,
        mw,
        weight: share_or_zero(us_per_io, now.mean_us).max(of_power).max(0.0),
        how,
    }
}

/// Reads the running kernel's policies, in its versions.
fn read_running_policies(system: &System, machine: &Machine) -> Result<PolicySet, SpecError> {
    let running = RunningPolicies::read(system, machine)?;
    // Without cpufreq the clocks stay where they are, as under the governor performance.
    let set = running.set.completed_from(&"performance".parse()?);
    Ok(set.with_kernel_for_bare_names(system.nearest_kernel_version()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loads_are_job_files() {
        for job in [
            READS_JOB,
            QUIET_JOB,
            SELDOM_JOB,
            &fio_job_of_reads_and_work_on_cpu(1),
        ] {
            fio::parse(job, "test").unwrap();
        }
    }
}
