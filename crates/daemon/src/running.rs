//! Runs the daemon under one configuration: starts, waits, acts, and puts everything back.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sd_notify::NotifyState;
use wakepath_settings::daemon_config::Config;
use wakepath_settings::{Hold, Session, SettingsError};
use wakepath_system::System;

use crate::boost::{Boost, MinimumChange};
use crate::drives::ManagedDrives;
use crate::error::DaemonError;
use crate::lease::{LeaseChange, Leases};
use crate::log;
use crate::managed_setting::{ManagedSetting, WriteOutcome};
use crate::metrics::Metrics;
use crate::metrics_server::MetricsServer;
use crate::missing::MissingPolicies;
use crate::plan::DaemonPlan;
use crate::probe_cost::ProbeCost;
use crate::psd::LeaseLimits;
use crate::signals::{Interruption, Signals};
use crate::watch::{Watch, monotonic_now_ns};

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
    server: Option<MetricsServer>,
    cost: ProbeCost,
    metrics: Metrics,
    missing: MissingPolicies,
}

/// What a wait of the daemon has ended with.
struct Woken {
    /// Whether a client asks for metrics.
    client_asks: bool,
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
        if port != 0 && self.server.as_ref().and_then(MetricsServer::port) != Some(port) {
            listen_for_metrics(port)?;
        }
        Ok(())
    }

    /// Starts all parts of a configuration. `predecessor`: missing parts of the configuration before; a configuration that misses
    /// more is refused.
    pub(crate) fn start_parts(
        system: &System,
        session: Session,
        config: &Config,
        predecessor: Option<&MissingPolicies>,
    ) -> Result<Self, DaemonError> {
        let mut plan = DaemonPlan::plan_for_machine(system, config, None);
        // The eBPF programs are started first: without them there are no leases to keep old values for.
        let watch = plan.start_needed_programs_or_drop_parts(config);
        plan.check_not_empty_nor_worse_than(predecessor)?;
        log_reasons_of_parts_off(&plan.missing.reasons);
        let hold = plan.reserve_settings(system, session)?;
        // After an error the dropped hold puts back what was changed until then.
        plan.write_constant_settings(&hold)?;
        let refused = plan.set_apst_tables_or_drop_profiles(&hold)?;
        log_reasons_of_parts_off(&refused);
        plan.check_not_empty_nor_worse_than(predecessor)?;
        let server = match config.metrics.port {
            0 => None,
            port => Some(listen_for_metrics(port)?),
        };
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
            server,
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
        match parts.len() {
            0 => "settings only".to_owned(),
            _ => parts.join(", "),
        }
    }

    /// Waits for events and acts on them, until the daemon is interrupted.
    pub(crate) fn serve_until_interrupted(
        &mut self,
        signals: &Signals,
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
            let woken = self.wait_for_event_or_due_action(signals, watchdog_next)?;
            if let Some(interruption) = signals.take_interruption() {
                return Ok(interruption);
            }
            self.apply_changes_by_bursts();
            self.check_drives_if_due();
            if let Some(watch) = &mut self.watch {
                self.cost.begin_or_end_if_due(watch);
            }
            if woken.client_asks
                && let Some(server) = &self.server
            {
                server.accept_and_answer_client_in_thread(|| {
                    self.current_metrics().to_prometheus_text()
                });
            }
        }
    }

    /// Waits until an event comes or something is due.
    fn wait_for_event_or_due_action(
        &self,
        signals: &Signals,
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
        let server_index = fds.len();
        if let Some(server) = &self.server {
            fds.push(PollFd::from_borrowed_fd(
                server.listener_descriptor(),
                readable,
            ));
        }
        let time_left = self.time_to_next_action(watchdog_next);
        let timeout = time_left.and_then(|time| Timespec::try_from(time).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let server = fds.get(server_index);
        Ok(Woken {
            client_asks: server.is_some_and(|fd| !fd.revents().is_empty()),
        })
    }

    /// Time left until the next thing is due; `None`: nothing is due.
    fn time_to_next_action(&self, watchdog_next: Option<Instant>) -> Option<Duration> {
        let now = Instant::now();
        let instants = [
            watchdog_next,
            self.cost.next_step_time(),
            self.drives.next_check_time(),
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
            WriteOutcome::Foreign { key, value } => log::log_warning(&format!(
                "{key} is '{}' instead of '{}': somebody else has set it, so {consequence_if_foreign} until the next reload",
                value.found, value.expected
            )),
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

    /// The metrics, with the figures that are read only on demand.
    fn current_metrics(&self) -> Metrics {
        let mut metrics = self.metrics.clone();
        if let Some(watch) = &self.watch {
            (metrics.ios, metrics.lost) = watch.io_counts_by_cpu_and_lost_events();
        }
        metrics.timed = self.cost.latest_cost();
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

    /// Stops everything and puts it back. `None`: the settings have been put back before.
    pub(crate) fn stop_and_put_back(mut self) -> Result<Option<Session>, DaemonError> {
        let summary = self.current_metrics().to_summary_line();
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
        log::log_info(&summary);
        Ok(released.map(|(session, _)| session))
    }
}

fn log_reasons_of_parts_off(reasons: &[String]) {
    for why in reasons {
        log::log_warning(&format!("off: {why}"));
    }
}

fn listen_for_metrics(port: u16) -> Result<MetricsServer, DaemonError> {
    MetricsServer::listen_on_loopback(port).map_err(|source| DaemonError::Port { port, source })
}

/// Notifies systemd, if systemd started this process. A lost message does no harm: the next message repeats the state.
pub(crate) fn notify_systemd(state: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(state);
}
