//! Runs the daemon under one configuration: starts, waits, acts, and puts everything back.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sd_notify::NotifyState;
use wakepath_settings::daemon_config::Config;
use wakepath_settings::{
    Hold, LockOffer, Session, SettingsError, SettingsPlan, remove_supply_record,
};
use wakepath_system::System;
use wakepath_watch::guard::{BREAKING_WINDOWS, WINDOW_REQUESTS, WINDOW_SLICES};

use crate::boost::{Boost, MinimumChange};
use crate::drives::ManagedDrives;
use crate::error::DaemonError;
use crate::guarding::Guarding;
use crate::lease::{LeaseChange, Leases};
use crate::lease_time::LeaseTime;
use crate::log;
use crate::machine_counters::MachineCounters;
use crate::managed_setting::{ManagedSetting, WriteOutcome};
use crate::metrics::Metrics;
use crate::metrics_file::MetricsFile;
use crate::metrics_server::MetricsServer;
use crate::missing::MissingPolicies;
use crate::plan::DaemonPlan;
use crate::probe_cost::ProbeCost;
use crate::psd::LeaseLimits;
use crate::signals::{Interruption, Signals};
use crate::watch::{Watch, monotonic_now_ns};

/// Policies that are in force while a set is not: they only measure.
const MEASURING_POLICIES: [&str; 2] = ["guard", "latency"];

/// Everything that runs under one configuration of the daemon.
pub(crate) struct Daemon {
    system: System,
    hold: Hold,
    watch: Option<Watch>,
    leases: Leases,
    limits: Option<LeaseLimits>,
    boost: Option<Boost>,
    /// Minimum frequencies that the boost raises.
    minima: Vec<ManagedSetting>,
    drives: ManagedDrives,
    servers: Vec<MetricsServer>,
    file: Option<MetricsFile>,
    counters: Arc<MachineCounters>,
    guarding: Option<Guarding>,
    /// Whether nothing is in force yet, because latency without the set is measured first.
    measures_first: bool,
    lease_time: LeaseTime,
    cost: ProbeCost,
    metrics: Metrics,
    missing: MissingPolicies,
}

/// What a wait of the daemon has ended with.
struct Woken {
    /// Whether a client asks each of the servers for metrics.
    is_asked: Vec<bool>,
    /// Whether somebody wants to borrow the lock.
    is_lock_wanted: bool,
}

impl Daemon {
    /// Checks that another configuration can take over: this machine has all parts, except for parts that were missing before.
    ///
    /// # Errors
    /// The parts that are missing.
    pub(crate) fn check_new_config_can_take_over(
        &self,
        config: &Config,
    ) -> Result<(), DaemonError> {
        let plan = DaemonPlan::plan_for_machine(&self.system, config, Some(&self.hold));
        plan.missing.check_misses_no_more_than(&self.missing)?;
        plan.check_not_empty_nor_worse_than(None)?;
        let port = config.metrics.port;
        if port != 0
            && !self
                .servers
                .iter()
                .any(|server| server.port() == Some(port))
        {
            listen_on_port(port)?;
        }
        let socket = config.metrics.socket.as_deref();
        if let Some(path) = socket
            && !self
                .servers
                .iter()
                .any(|server| server.socket_path() == socket)
        {
            listen_on_socket(path)?;
        }
        Ok(())
    }

    /// Starts all parts of a configuration. `predecessor`: missing parts of the configuration before; a configuration that misses
    /// more is refused. `measured`: a measurement of this configuration that goes on. Where a condition is relative and nothing is
    /// measured yet, the settings are left as they are until it is.
    pub(crate) fn start_parts(
        system: &System,
        session: Session,
        config: &Config,
        predecessor: Option<&MissingPolicies>,
        measured: Option<Guarding>,
    ) -> Result<Self, DaemonError> {
        let mut plan = DaemonPlan::plan_for_machine(system, config, None);
        // The eBPF programs are started first: without them there are no leases to keep old values for.
        let watch = plan.start_needed_programs_or_drop_parts(config);
        let guarding = measured
            .and_then(|measured| measured.go_on_with_set_in_force(&mut plan.missing))
            .or_else(|| Guarding::start_if_asked(config, &mut plan.missing));
        if guarding.is_none() {
            plan.note_nothing_is_measured();
        }
        plan.check_not_empty_nor_worse_than(predecessor)?;
        log_reasons_of_parts_off(&plan.missing.reasons);
        if let Some(waiting) = guarding.as_ref()
            && waiting.waits_for_figures_before()
        {
            return Self::start_measuring_before_set(system, session, config, plan, guarding);
        }
        let hold = plan.reserve_settings(system, session)?;
        // After an error the dropped hold puts back what was changed until then.
        plan.write_constant_settings(&hold)?;
        let refused = plan.set_apst_tables_or_drop_profiles(&hold)?;
        log_reasons_of_parts_off(&refused);
        plan.check_not_empty_nor_worse_than(predecessor)?;
        let (servers, file) = open_metrics_outputs(config)?;
        let minima = plan
            .boost
            .iter()
            .flat_map(Boost::minimum_settings_with_highest_values);
        let daemon = Self {
            minima: minima.map(|(key, _)| ManagedSetting::new(key)).collect(),
            system: system.clone(),
            hold,
            cost: ProbeCost::schedule_first_measurement(watch.is_some()),
            watch,
            leases: Leases::default(),
            limits: plan.limits,
            boost: plan.boost,
            drives: plan.drives,
            servers,
            file,
            counters: Arc::new(MachineCounters::start(system)),
            guarding,
            measures_first: false,
            lease_time: LeaseTime::default(),
            metrics: Metrics {
                kernel_module: plan.kernel_module,
                policies: plan.missing.requested_policies_and_if_in_force(config),
                ..Metrics::default()
            },
            missing: plan.missing,
        };
        log::log_info(&daemon.status_line());
        Ok(daemon)
    }

    /// Measures latency without the set, which relative conditions compare with. Nothing is written meanwhile.
    fn start_measuring_before_set(
        system: &System,
        session: Session,
        config: &Config,
        mut plan: DaemonPlan,
        guarding: Option<Guarding>,
    ) -> Result<Self, DaemonError> {
        plan.drives.forget_all();
        let mut policies = plan.missing.requested_policies_and_if_in_force(config);
        keep_only_measuring_policies(&mut policies);
        let (servers, file) = open_metrics_outputs(config)?;
        let daemon = Self {
            system: system.clone(),
            hold: session.reserve_for_repeated_changes(&SettingsPlan::default())?,
            watch: None,
            leases: Leases::default(),
            limits: None,
            boost: None,
            minima: Vec::new(),
            drives: plan.drives,
            servers,
            file,
            counters: Arc::new(MachineCounters::start(system)),
            guarding,
            measures_first: true,
            lease_time: LeaseTime::default(),
            cost: ProbeCost::schedule_first_measurement(false),
            metrics: Metrics {
                policies,
                ..Metrics::default()
            },
            missing: plan.missing,
        };
        log::log_info(&daemon.status_line());
        Ok(daemon)
    }

    /// Puts the set in force, now that latency without it is known. `None`: the process is ending.
    pub(crate) fn put_set_in_force(mut self, config: &Config) -> Result<Option<Self>, DaemonError> {
        let system = self.system.clone();
        let measured = self.guarding.take();
        let Some(session) = self.stop_parts_and_put_back()? else {
            return Ok(None);
        };
        Self::start_parts(&system, session, config, None, measured).map(Some)
    }

    /// The requested policies that are not in force.
    pub(crate) const fn missing_policies(&self) -> &MissingPolicies {
        &self.missing
    }

    /// The policies in force, in one line, for systemd's status.
    pub(crate) fn status_line(&self) -> String {
        let mut parts = Vec::new();
        if self.metrics.kernel_module {
            parts.push("leases by the kernel module wakepath_psd".to_owned());
        }
        if let Some(limits) = &self.limits {
            parts.push(format!("leases on {}", limits.describe_cpus_and_ceiling()));
        }
        if self.boost.is_some() {
            parts.push("I/O boost".to_owned());
        }
        for profile in &self.drives.profiles {
            parts.push(format!("table of {} ({})", profile.name, profile.model()));
        }
        if let Some(watch) = &self.watch
            && !watch.ends_bursts_by_kernel_timers()
        {
            parts.push("without timers of the kernel".to_owned());
        }
        let guarding = self.guarding.as_ref();
        if guarding.is_some_and(Guarding::has_guard) {
            parts.push("guard".to_owned());
        }
        if guarding.and_then(|guarding| guarding.state().set_was_put_back) == Some(true) {
            return "the guard has taken the set back; a reload puts it in force again".to_owned();
        }
        if self.measures_first {
            return format!(
                "measuring latency before the set is put in force: {BREAKING_WINDOWS} windows of {WINDOW_SLICES} s with requests, \
                 each with {WINDOW_REQUESTS} requests or more"
            );
        }
        match parts.len() {
            0 => "settings only".to_owned(),
            _ => parts.join(", "),
        }
    }

    /// Waits for events and acts on them, until the daemon is interrupted.
    pub(crate) fn serve_until_interrupted(
        &mut self,
        signals: &Signals,
        offer: Option<&LockOffer>,
    ) -> Result<Interruption, DaemonError> {
        let watchdog = sd_notify::watchdog_enabled()
            .filter(|time| !time.is_zero())
            .map(|time| time / 2);
        let mut watchdog_next = watchdog.map(|_| Instant::now());
        loop {
            if let (Some(interval), Some(next)) = (watchdog, watchdog_next)
                && next <= Instant::now()
            {
                notify_systemd(&[NotifyState::Watchdog]);
                watchdog_next = Some(Instant::now() + interval);
            }
            let woken = self.wait_for_event_or_due_action(signals, offer, watchdog_next)?;
            if let Some(interruption) = signals.take_interruption() {
                return Ok(interruption);
            }
            self.apply_changes_by_bursts();
            self.check_drives_if_due();
            if let Some(watch) = &mut self.watch {
                self.cost.begin_or_end_if_due(watch);
            }
            for (server, is_asked) in self.servers.iter().zip(woken.is_asked) {
                if is_asked {
                    server.accept_and_answer_client_in_thread(self.page_renderer());
                }
            }
            self.write_file_if_due();
            if woken.is_lock_wanted {
                return Ok(Interruption::LockWanted);
            }
            if let Some(guarding) = &mut self.guarding
                && guarding.take_slices_if_due()
            {
                return Ok(Interruption::ConditionBroken);
            }
            let guarding = self.guarding.as_ref();
            if self.measures_first && !guarding.is_some_and(Guarding::waits_for_figures_before) {
                return Ok(Interruption::MeasuredBefore);
            }
        }
    }

    /// Waits until an event comes or something is due.
    fn wait_for_event_or_due_action(
        &self,
        signals: &Signals,
        offer: Option<&LockOffer>,
        watchdog_next: Option<Instant>,
    ) -> io::Result<Woken> {
        let readable = PollFlags::IN;
        let mut fds: Vec<PollFd<'_>> = signals
            .interruption_descriptors()
            .map(|fd| PollFd::from_borrowed_fd(fd, readable))
            .collect();
        if let Some(watch) = &self.watch {
            fds.push(PollFd::from_borrowed_fd(watch.event_descriptor(), readable));
        }
        let first_server = fds.len();
        fds.extend(
            self.servers
                .iter()
                .map(|server| PollFd::from_borrowed_fd(server.listener_descriptor(), readable)),
        );
        let first_offer = fds.len();
        fds.extend(offer.map(|offer| PollFd::from_borrowed_fd(offer.descriptor(), readable)));
        let time_left = self.time_to_next_action(watchdog_next);
        let timeout = time_left.and_then(|time| Timespec::try_from(time).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (first, offers) = fds.split_at(first_offer);
        Ok(Woken {
            is_asked: first.iter().skip(first_server).map(is_ready).collect(),
            is_lock_wanted: offers.iter().any(is_ready),
        })
    }

    /// Time left until the next thing is due; `None`: nothing is due.
    fn time_to_next_action(&self, watchdog_next: Option<Instant>) -> Option<Duration> {
        let now = Instant::now();
        let instants = [
            watchdog_next,
            self.cost.next_step_time(),
            self.drives.next_check_time(),
            self.file.as_ref().map(MetricsFile::next_write_time),
            self.guarding.as_ref().and_then(Guarding::next_check_time),
        ];
        let bursts = [
            self.watch.as_ref().and_then(Watch::next_call_due_ns),
            self.boost.as_ref().and_then(Boost::next_call_due_ns),
        ];
        let until_instants = instants
            .into_iter()
            .flatten()
            .map(|at| at.saturating_duration_since(now));
        let until_bursts = bursts
            .into_iter()
            .flatten()
            .map(|due| Duration::from_nanos(due.saturating_sub(monotonic_now_ns())));
        until_instants.chain(until_bursts).min()
    }

    /// Gives leases and boosts by the bursts so far, and takes them back.
    fn apply_changes_by_bursts(&mut self) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        let events = watch.take_events();
        let changes = self.leases.take_lease_changes(&events);
        for change in &changes {
            self.apply_lease_change(*change);
        }
        if let Some(boost) = &mut self.boost {
            for change in boost.choose_minimum_changes(&events, &changes, monotonic_now_ns()) {
                self.apply_minimum_change(&change);
            }
        }
    }

    fn apply_lease_change(&mut self, change: LeaseChange) {
        let Some(limits) = &mut self.limits else {
            return;
        };
        match limits.add_cpu_if_new(&self.system, &self.hold, change.cpu) {
            Ok(note) => note.iter().for_each(|text| log::log_info(text)),
            Err(error) => return self.count_failure_and_log_rarely(&error),
        }
        let outcome = limits.give_or_take_back_lease(&self.hold, change);
        if matches!(outcome, WriteOutcome::Written) {
            self.metrics.lease_writes += 1;
            self.metrics.leases_given += u64::from(change.give);
            self.lease_time
                .note_lease(change.cpu, change.give, Instant::now());
        } else if matches!(outcome, WriteOutcome::Foreign { .. }) {
            self.lease_time
                .note_lease(change.cpu, false, Instant::now());
        }
        self.report_foreign_or_failed(outcome, "this CPU gets no more leases");
    }

    fn apply_minimum_change(&mut self, change: &MinimumChange) {
        let mut minima = self.minima.iter_mut();
        let Some(minimum) = minima.find(|minimum| *minimum.key() == change.key) else {
            return;
        };
        let value = change.khz.map(|khz| khz.to_string());
        let outcome = minimum.write_or_put_back_unless_foreign(&self.hold, value.as_deref());
        self.metrics.boost_writes += u64::from(matches!(outcome, WriteOutcome::Written));
        self.report_foreign_or_failed(outcome, "this policy is boosted no more");
    }

    /// Reports why a setting was not written, and the consequence if somebody else has set it.
    fn report_foreign_or_failed(&mut self, outcome: WriteOutcome, consequence_if_foreign: &str) {
        match outcome {
            WriteOutcome::Written | WriteOutcome::Unchanged => {}
            WriteOutcome::Foreign { key, value } => {
                self.metrics.foreign += 1;
                log::log_warning(&format!(
                    "{key} is '{}' instead of '{}': somebody else has set it, so {consequence_if_foreign} until the next reload",
                    value.found, value.expected
                ));
            }
            WriteOutcome::Failed(error) => self.count_failure_and_log_rarely(&error),
        }
    }

    /// Counts a setting that could not be written, and logs it; the more failures, the rarer the lines.
    fn count_failure_and_log_rarely(&mut self, error: &SettingsError) {
        self.metrics.failures += 1;
        if self.metrics.failures.is_power_of_two() {
            log::log_error(&format!("{error} (failure {})", self.metrics.failures));
        }
    }

    fn check_drives_if_due(&mut self) {
        let watch = self.watch.as_ref();
        let report = self
            .drives
            .check_and_set_tables_if_due(&self.system, &self.hold, |device| {
                watch?.idle_gaps_of_drive_with_device(device)
            });
        self.metrics.tables_set_again += report.set_again;
        for error in report.errors {
            self.count_failure_and_log_rarely(&error);
        }
    }

    /// Makes a page of metrics as of now. The machine's own counters are read when the page is made.
    fn page_renderer(&self) -> impl FnOnce() -> String + Send + 'static {
        let metrics = self.current_metrics();
        let counters = Arc::clone(&self.counters);
        move || metrics.to_prometheus_text(&counters.read())
    }

    fn write_file_if_due(&mut self) {
        let due = self.file.as_ref().map(MetricsFile::next_write_time);
        if due.is_some_and(|due| due <= Instant::now()) {
            let render = self.page_renderer();
            if let Some(file) = &mut self.file {
                file.write_if_due(render);
            }
        }
    }

    /// The metrics, with the figures that are read only on demand.
    fn current_metrics(&self) -> Metrics {
        let mut metrics = self.metrics.clone();
        if let Some(watch) = &self.watch {
            (metrics.ios, metrics.lost) = watch.io_counts_by_cpu_and_lost_events();
        }
        metrics.timed = self.cost.latest_cost();
        metrics.lease_time = self.lease_time.total_until(Instant::now());
        metrics.guard = self
            .guarding
            .as_ref()
            .map(|guarding| guarding.state().clone());
        metrics.leases = self
            .limits
            .as_ref()
            .map_or(0, LeaseLimits::count_given_leases);
        metrics.boosted = self
            .minima
            .iter()
            .filter(|own| own.is_own_value_in_force())
            .count();
        metrics
    }

    /// Puts the set back because latency has broken a condition, and goes on measuring. `None`: the settings have been put back
    /// before, since the process is ending.
    pub(crate) fn put_back_set_and_keep_watching(
        mut self,
        config: &Config,
    ) -> Result<Option<Self>, DaemonError> {
        self.watch = None;
        self.drives
            .forget_tables_of_replaced_drives(&self.system, &self.hold);
        self.drives.forget_all();
        let Some((mut session, restored)) = self.hold.put_back_and_release()? else {
            return Ok(None);
        };
        let mut notes: Vec<String> = restored.notes.into_iter().chain(restored.away).collect();
        if config.guard.applied {
            let applied = session.restore_all()?;
            notes.extend(applied.notes.into_iter().chain(applied.away));
            // Without the record, no event puts persistent settings in force again in this boot.
            remove_supply_record(&self.system)?;
        }
        for note in &notes {
            log::log_warning(note);
        }
        log::log_warning(
            "the guard has put the set back, and watches whether latency is better; a reload puts it in force again",
        );
        if let Some(guarding) = &mut self.guarding {
            guarding.note_set_was_put_back();
        }
        let now = Instant::now();
        let cpus: Vec<usize> = self.system.cpus();
        for cpu in cpus {
            self.lease_time.note_lease(cpu, false, now);
        }
        keep_only_measuring_policies(&mut self.metrics.policies);
        Ok(Some(Self {
            hold: session.reserve_for_repeated_changes(&SettingsPlan::default())?,
            watch: None,
            leases: Leases::default(),
            limits: None,
            boost: None,
            minima: Vec::new(),
            cost: ProbeCost::schedule_first_measurement(false),
            ..self
        }))
    }

    /// Puts everything back, lends the lock by `lend`, and starts all parts again, as a reload does. A set that the guard has put
    /// back stays back, and one that waits to be measured goes on waiting. `None`: the daemon is to end.
    pub(crate) fn lend_lock_and_start_again(
        mut self,
        config: &Config,
        lend: impl FnOnce(Session) -> Result<Option<Session>, SettingsError>,
    ) -> Result<Option<Self>, DaemonError> {
        let guarding = self.guarding.as_ref();
        let is_put_back = guarding.and_then(|guarding| guarding.state().set_was_put_back);
        if is_put_back == Some(true) || self.measures_first {
            let Some((session, _)) = self.hold.put_back_and_release()? else {
                return Ok(None);
            };
            let Some(returned) = lend(session)? else {
                return Ok(None);
            };
            let hold = returned.reserve_for_repeated_changes(&SettingsPlan::default())?;
            return Ok(Some(Self { hold, ..self }));
        }
        let system = self.system.clone();
        // What relative conditions compare with is known already, and cannot be measured in passing. Without them the measurement
        // begins anew, with the drives that there are now.
        let measured = (self.guarding.take()).filter(Guarding::compares_with_before);
        let Some(session) = self.stop_parts_and_put_back()? else {
            return Ok(None);
        };
        let Some(returned) = lend(session)? else {
            return Ok(None);
        };
        // What the event has brought may be missing parts, or have them: both are told in the log.
        Self::start_parts(&system, returned, config, None, measured).map(Some)
    }

    /// Stops everything and puts it back. `None`: the settings have been put back before.
    pub(crate) fn stop_and_put_back(self) -> Result<Option<Session>, DaemonError> {
        let summary = self.current_metrics().to_summary_line();
        let session = self.stop_parts_and_put_back()?;
        log::log_info(&summary);
        Ok(session)
    }

    fn stop_parts_and_put_back(mut self) -> Result<Option<Session>, DaemonError> {
        // The programs end first, so that no new leases come while they are put back.
        self.watch = None;
        self.drives
            .forget_tables_of_replaced_drives(&self.system, &self.hold);
        let released = self.hold.put_back_and_release()?;
        if let Some((_, restored)) = &released {
            for note in restored.notes.iter().chain(&restored.away) {
                log::log_warning(note);
            }
        }
        Ok(released.map(|(session, _)| session))
    }
}

fn log_reasons_of_parts_off(reasons: &[String]) {
    for why in reasons {
        log::log_warning(&format!("off: {why}"));
    }
}

/// Takes from policies by name that they are in force, unless they only measure.
fn keep_only_measuring_policies(policies: &mut [(&'static str, bool)]) {
    for (policy, is_in_force) in policies {
        *is_in_force &= MEASURING_POLICIES.contains(policy);
    }
}

/// Opens what a configuration wants metrics to be shown by.
fn open_metrics_outputs(
    config: &Config,
) -> Result<(Vec<MetricsServer>, Option<MetricsFile>), DaemonError> {
    let mut servers = Vec::new();
    if config.metrics.port != 0 {
        servers.push(listen_on_port(config.metrics.port)?);
    }
    if let Some(path) = &config.metrics.socket {
        servers.push(listen_on_socket(path)?);
    }
    Ok((
        servers,
        config.metrics.textfile.clone().map(MetricsFile::new),
    ))
}

fn listen_on_port(port: u16) -> Result<MetricsServer, DaemonError> {
    MetricsServer::listen_on_loopback(port).map_err(|source| DaemonError::Port { port, source })
}

fn listen_on_socket(path: &Path) -> Result<MetricsServer, DaemonError> {
    MetricsServer::listen_on_socket(path).map_err(|source| DaemonError::Socket {
        path: path.to_owned(),
        source,
    })
}

/// Notifies systemd, if systemd started this process. A lost message does no harm: the next message repeats the state.
pub(crate) fn notify_systemd(state: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(state);
}
