//! `--on live`: the workloads really run, on this machine.
//!
//! Runs come in blocks of one repeat. In each block workloads and policies are shuffled by the study's seed, so that what
//! drifts over a session hits all policies alike, and runs of a block are compared as pairs. Settings go through
//! [`wakepath_settings`]: journalled, read back, and put back when a policy's turn is over, after an error and after
//! Ctrl-C; after a kill by the next session.

mod counters;
mod daemon;
mod energy;
mod machine;
mod program;
mod settings;
mod targets;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wakepath_results::RunRecord;
use wakepath_settings::{Hold, Session};
use wakepath_system::System;
use wakepath_workloads::Workload;
use wakepath_workloads::fio::warm_up::{SeparateWarmUp, separate_warm_up};

use self::counters::Counters;
use self::daemon::DaemonProcess;
use self::energy::Meter;
use self::settings::PolicyChanges;
use super::backend::{Backend, Order};
use crate::file::StudyError;
use crate::plan::{Cell, Plan, PlannedPolicy, PlannedWorkload, Provenance, Task, requested_rates};

/// The backend that measures on this machine.
pub struct Live<'a> {
    plan: &'a Plan,
    system: System,
    /// Path of the program with the daemon for leases.
    wakepath: PathBuf,
    /// Version of fio, if the study needs fio.
    fio: Option<String>,
    /// Notes on the settings that policies change.
    notes: Vec<String>,
    held: Mutex<HeldState>,
}

/// What is changed on the machine now.
#[derive(Default)]
struct HeldState {
    /// The right to change settings, while nothing is changed.
    session: Option<Session>,
    policy: Option<PolicyInForce>,
}

/// The policy that the current runs are under.
struct PolicyInForce {
    /// Index of the policy in the plan.
    index: usize,
    /// The policy's settings while held; `None` if the policy changes nothing.
    hold: Option<Hold>,
    /// The daemon that gives the policy's leases; the daemon ends with the hold.
    daemon: Option<Arc<DaemonProcess>>,
}

impl<'a> Live<'a> {
    /// The backend that measures a plan on this machine. Changes nothing yet.
    ///
    /// # Errors
    /// A program is missing, or the machine cannot have a policy.
    pub fn new(plan: &'a Plan) -> Result<Self, StudyError> {
        Self::on_system(plan, System::live(), daemon::find_daemon_program())
    }

    /// The backend that runs a plan's workloads here, with settings and energy counters of `system`, which may be a
    /// captured machine.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_settings_of(plan: &'a Plan, system: System) -> Result<Self, StudyError> {
        Self::on_system(plan, system, daemon::find_daemon_program())
    }

    /// The backend that runs a plan's workloads here, with settings on `system`. `wakepath` is the path of the program
    /// with the daemon for leases.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn on_system(
        plan: &'a Plan,
        system: System,
        wakepath: PathBuf,
    ) -> Result<Self, StudyError> {
        let fio = if plan
            .workloads
            .iter()
            .any(|w: &PlannedWorkload| matches!(w.task, Task::Fio { .. }))
        {
            Some(program::read_fio_version()?)
        } else {
            None
        };
        let mut notes = Vec::new();
        for policy in &plan.policies {
            let changes = PolicyChanges::new(&system, policy)?;
            if let Some(config) = &changes.daemon {
                let checked = daemon::check_configuration(&wakepath, &system, config);
                checked.map_err(|e| add_policy_name_unless_interrupted(policy, e))?;
            }
            let policy_notes = changes.settings.notes.iter();
            notes.extend(policy_notes.map(|note| format!("{}: {note}", policy.name)));
        }
        Ok(Self {
            plan,
            system,
            wakepath,
            fio,
            notes,
            held: Mutex::default(),
        })
    }

    /// Applies a policy to the machine and waits until settled, unless the policy is in force already.
    fn apply_policy_and_settle_unless_in_force(
        &self,
        policy: usize,
        cancelled: &AtomicBool,
    ) -> Result<(), StudyError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.policy.as_ref().is_some_and(|now| now.index == policy) {
            return Ok(());
        }
        held.release_policy()?;
        let planned = &self.plan.policies[policy];
        let changes = PolicyChanges::new(&self.system, planned)?;
        let (mut hold, mut daemon) = (None, None);
        if !changes.is_empty() {
            let session = held.session.take();
            let holding = settings::apply_settings_while_held(&self.system, session, &changes)?;
            if let Some(config) = &changes.daemon {
                let started = self.start_daemon_with_lent_lock(&holding, config, cancelled);
                daemon = started.map_err(|e| add_policy_name_unless_interrupted(planned, e))?;
            }
            hold = Some(holding);
        }
        held.policy = Some(PolicyInForce {
            index: policy,
            hold,
            daemon,
        });
        wait_for_machine_to_settle(self.plan, cancelled)
    }

    fn start_daemon_with_lent_lock(
        &self,
        hold: &Hold,
        config: &str,
        cancelled: &AtomicBool,
    ) -> Result<Option<Arc<DaemonProcess>>, StudyError> {
        hold.lend_lock_to_tenant(|lock| {
            let lock =
                lock.map_err(|e| StudyError::Settings(format!("the settings' lock: {e}")))?;
            DaemonProcess::start(&self.wakepath, &self.system, config, lock, cancelled)
                .map(Arc::new)
        })
    }

    /// Checks that the daemon of the policy in force, if any, still runs.
    fn check_daemon_alive(&self) -> Result<(), StudyError> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let daemon = held.policy.as_ref().and_then(|now| now.daemon.as_ref());
        daemon.map_or(Ok(()), |daemon| daemon.check_alive())
    }
}

impl HeldState {
    /// Puts back what the policy in force has changed, and keeps the right to change settings.
    fn release_policy(&mut self) -> Result<(), StudyError> {
        if let Some(PolicyInForce {
            hold: Some(hold), ..
        }) = self.policy.take()
        {
            let released = hold
                .put_back_and_release()
                .map_err(|e| settings::settings_error(&e))?;
            if let Some((session, restored)) = released {
                self.session = Some(session);
                // A setting that was not put back would spoil the next runs.
                if !restored.away.is_empty() {
                    return Err(StudyError::Settings(restored.away.join("; ")));
                }
            }
        }
        Ok(())
    }
}

impl Backend for Live<'_> {
    fn check_cell(&self, cell: Cell) -> Result<(), StudyError> {
        let workload = &self.plan.workloads[cell.workload];
        refuse_fio_job_that_could_overwrite(workload)
            .map_err(|e| StudyError::Settings(format!("{}: {e}", workload.name)))
    }

    fn run_order(&self) -> Order {
        Order::Serial(shuffle_run_order(self.plan))
    }

    fn provenance(&self) -> Result<Provenance, StudyError> {
        let mut tools = BTreeMap::from([
            ("wakepath".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
            ("kernel".to_owned(), machine::kernel_name_and_release()),
        ]);
        tools.extend(self.fio.clone().map(|version| ("fio".to_owned(), version)));
        let mut notes = self.notes.clone();
        let workloads = self.plan.workloads.iter();
        notes.extend(workloads.filter_map(|workload| {
            let warm_up = split_warm_up(workload, self.fio.as_deref())?;
            Some(format!(
                "{}: its warm-up of {} is a run of fio by itself, and figures start with the first request of the next one, \
                 because fio before 3.35 makes no pauses right after a ramp_time",
                workload.name, warm_up.lasts
            ))
        }));
        if !Meter::for_packages(&self.system).has_kept_counters() {
            notes.push("no energy counters (RAPL) here: no power is measured".to_owned());
        }
        let observed = machine::Observed::new(&self.system);
        Ok(Provenance {
            tools,
            machines: vec![observed.describe()],
            machine_files: vec![observed.print_machine_file()?],
            notes,
        })
    }

    /// Workloads' own durations.
    fn estimate_duration(&self, _: Duration) -> Result<Option<Duration>, StudyError> {
        let durations = self.plan.cells_of_first_repeat().iter().map(|cell| {
            let duration = self.plan.workloads[cell.workload].expected_duration()?;
            Some(duration.as_secs_f64())
        });
        let per_repeat = durations.sum::<Option<f64>>();
        let settling = self.plan.run_count() as f64 * self.plan.file.settle_s.get_ref();
        let all = per_repeat.map(|each| each * f64::from(self.plan.repeats()) + settling);
        Ok(all.map(|seconds| Duration::from_secs_f64(seconds.min(1e12))))
    }

    fn acquire_rights(&self) -> Result<(), StudyError> {
        // The right to change settings may be another process's: then this is an error.
        let session = settings::open_session_if_needed(&self.system, self.plan)?;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.session = session;
        Ok(())
    }

    fn run_cell(
        &self,
        cell: Cell,
        run: &mut RunRecord,
        cancelled: &AtomicBool,
    ) -> Result<(), StudyError> {
        self.apply_policy_and_settle_unless_in_force(cell.policy, cancelled)?;
        let workload = &self.plan.workloads[cell.workload];
        let measured = measure_run(workload, &self.system, self.fio.as_deref(), run, cancelled)
            .and_then(|()| self.check_daemon_alive().map_err(|e| e.to_string()));
        measured.map_err(|message| {
            if cancelled.load(Ordering::Relaxed) {
                return StudyError::Interrupted;
            }
            StudyError::Measurement {
                workload: workload.name.clone(),
                policy: self.plan.policies[cell.policy].name.clone(),
                message,
            }
        })
    }

    fn restore_machine(&self) -> Result<(), StudyError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.release_policy()
    }
}

/// Whether the energy counters of the processor packages are there, so that live runs have `package_mw`.
pub fn measures_package_power(system: &System) -> bool {
    Meter::for_packages(system).has_kept_counters()
}

/// Adds the policy's name to an error.
fn add_policy_name_unless_interrupted(policy: &PlannedPolicy, error: StudyError) -> StudyError {
    match error {
        StudyError::Interrupted => StudyError::Interrupted,
        error => StudyError::Settings(format!("policy '{}': {error}", policy.name)),
    }
}

/// Refuses a fio job that would overwrite something by accident.
fn refuse_fio_job_that_could_overwrite(workload: &PlannedWorkload) -> Result<(), String> {
    match &workload.task {
        Task::Fio { text, .. } => targets::refuse_fio_targets_other_than_files(text, "its fio job"),
        Task::RtApp { .. }
        | Task::BlockTrace { .. }
        | Task::Server { .. }
        | Task::Tasks { .. }
        | Task::Command { .. }
        | Task::Recording(_) => Ok(()),
    }
}

/// Indices of all runs in the order in which they are made: by repeat, then workloads shuffled, then policies shuffled.
fn shuffle_run_order(plan: &Plan) -> Vec<usize> {
    let mut random = Pcg64Mcg::seed_from_u64(plan.file.seed);
    let mut order = Vec::with_capacity(plan.run_count());
    for repeat in 0..plan.repeats() as usize {
        for workload in shuffle_indices(plan.workloads.len(), &mut random) {
            for policy in shuffle_indices(plan.policies.len(), &mut random) {
                let mut cells = plan.cells_of_first_repeat().iter();
                let cell =
                    cells.position(|cell| cell.workload == workload && cell.policy == policy);
                order.extend(cell.map(|cell| repeat * plan.cells_of_first_repeat().len() + cell));
            }
        }
    }
    order
}

/// The numbers below `count` in random order.
fn shuffle_indices(count: usize, random: &mut Pcg64Mcg) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        all.swap(last, random.random_range(0..=last));
    }
    all
}

/// Waits for the study's time to settle after a change of settings.
fn wait_for_machine_to_settle(plan: &Plan, cancelled: &AtomicBool) -> Result<(), StudyError> {
    let until = Instant::now() + Duration::from_secs_f64(*plan.file.settle_s.get_ref());
    while Instant::now() < until {
        if cancelled.load(Ordering::Relaxed) {
            return Err(StudyError::Interrupted);
        }
        let left = until.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
    Ok(())
}

/// The warm-up and the run that counts, where this fio makes no pauses right after a `ramp_time`.
fn split_warm_up(workload: &PlannedWorkload, fio: Option<&str>) -> Option<SeparateWarmUp> {
    let Task::Fio {
        text,
        workload: Workload::Fio(file),
    } = &workload.task
    else {
        return None;
    };
    if fio.is_some_and(program::pauses_after_ramp) {
        return None;
    }
    separate_warm_up(text, file)
}

/// Runs a workload once; `fio` is the version of fio, if it is needed.
fn measure_run(
    workload: &PlannedWorkload,
    system: &System,
    fio: Option<&str>,
    run: &mut RunRecord,
    cancelled: &AtomicBool,
) -> Result<(), String> {
    // A path may lead to something else than when the study was checked.
    refuse_fio_job_that_could_overwrite(workload)?;
    let separate = split_warm_up(workload, fio);
    if let Some(parts) = &separate {
        program::warm_up_by_fio(&parts.warm_up_text, cancelled)
            .map_err(|error| format!("its warm-up: {error}"))?;
    }
    let started = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|d| d.as_secs_f64());
    run.started_unix_s = started.ok();
    let ramp = workload.uncounted_start().filter(|_| separate.is_none());
    let warm_up = ramp.map(|time| Duration::from_nanos(time.0));
    let mut since = MeasuredSince::begin_now(system, warm_up);
    let took = match &workload.task {
        Task::Fio { text, workload } => program::run_fio(
            separate.as_ref().map_or(text, |parts| &parts.counted_text),
            &requested_rates(workload),
            run,
            cancelled,
            &mut || since.restart_after_warm_up_and_read_meters(),
        )?,
        Task::Command { words, readings } => {
            program::run_command(words, readings, run, cancelled, &mut || {
                since.restart_after_warm_up_and_read_meters();
            })?
        }
        Task::RtApp { .. } => return Err("rt-app files are simulated only".to_owned()),
        Task::BlockTrace { .. } => return Err("block traces are simulated only".to_owned()),
        Task::Server { .. } => return Err("servers are simulated only".to_owned()),
        Task::Tasks { .. } => return Err("tasks of given steps are simulated only".to_owned()),
        Task::Recording(_) => return Err("recordings are replayed only".to_owned()),
    };
    let counted = if warm_up.is_some() && since.warm_up.is_none() {
        since.at.elapsed()
    } else {
        took
    };
    since.meter.add_mean_power(counted, run);
    since.platform.add_mean_power(counted, run);
    Counters::read_all(system).fill_changes_since(&since.counters, counted, run);
    if run.duration_ns == 0 {
        run.duration_ns = took.as_nanos() as u64;
    }
    Ok(())
}

/// Counters at the start of measuring, after any warm-up.
struct MeasuredSince<'a> {
    system: &'a System,
    /// Time that is left out first; `None` once the warm-up is over.
    warm_up: Option<Duration>,
    at: Instant,
    counters: Counters,
    meter: Meter<'a>,
    platform: Meter<'a>,
}

impl<'a> MeasuredSince<'a> {
    fn begin_now(system: &'a System, warm_up: Option<Duration>) -> Self {
        Self {
            system,
            warm_up,
            counters: Counters::read_all(system),
            meter: Meter::for_packages(system),
            platform: Meter::for_whole_platform(system),
            at: Instant::now(),
        }
    }

    /// Begins anew once the warm-up is over, and reads counters that may wrap.
    fn restart_after_warm_up_and_read_meters(&mut self) {
        if self.warm_up.is_some_and(|time| self.at.elapsed() >= time) {
            *self = Self::begin_now(self.system, None);
        }
        self.meter.read_if_due();
        self.platform.read_if_due();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wakepath_results::RunOrigin;

    use super::*;

    #[test]
    fn every_run_comes_once_in_blocks_and_the_same_seed_gives_the_same_order() {
        let text = "name = 'x'\nrepeats = 4\n[[workload]]\nname = 'a'\ncommand = ['true']\n\
                    [[workload]]\nname = 'b'\ncommand = ['true']\n[[policy]]\nname = 'p'\n\
                    [[policy]]\nname = 'q'\n[[policy]]\nname = 'r'\n";
        let plan =
            |text: &str| Plan::from_text(text, "x", Path::new("."), RunOrigin::Live).unwrap();
        let first = shuffle_run_order(&plan(text));
        assert_eq!(first, shuffle_run_order(&plan(text)));
        assert_ne!(
            first,
            shuffle_run_order(&plan(&text.replace("repeats", "seed = 2\nrepeats")))
        );
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..24).collect::<Vec<_>>());
        // A workload with a single policy.
        let some = plan(&text.replacen("['true']\n", "['true']\npolicies = 'q'\n", 1));
        let mut sorted = shuffle_run_order(&some);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..16).collect::<Vec<_>>());
        let whole = plan(text);
        for (block, runs) in first.chunks(6).enumerate() {
            assert!(
                runs.iter()
                    .all(|index| whole.cell_at(*index).repeat == block as u32)
            );
        }
    }
}
