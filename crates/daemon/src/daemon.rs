//! The daemon: starts what the configuration asks for, waits, acts, and puts everything back.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use rustix::time::{ClockId, clock_gettime};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wakepath_ebpf::LoadError;
use wakepath_policies::psd::LeaseRule;
use wakepath_settings::daemon_config::{self, Config, ConfigError};
use wakepath_settings::{Hold, Session, SettingsError, SettingsPlan, WantedSetting};
use wakepath_system::capture::tick_rate;
use wakepath_system::{SettingKey, System};
use wakepath_units::TickRate;
use wakepath_units::causes::in_one_line;

use crate::boost::{self, Boost, BoostOwner};
use crate::lease::{LeaseChange, Leases};
use crate::log;
use crate::managed_setting::{ManagedSetting, WriteOutcome};
use crate::metrics::{Metrics, Server};
use crate::power::on_mains;
use crate::profile::{CheckOutcome, DriveProfile, profiles};
use crate::psd::{LeaseLimits, module_settings};
use crate::watch::{CostMeter, Watch, Watched, now_ns};

/// How long the cost of the eBPF programs is measured, and how long it then is not: measuring costs, too.
const MEASURE: Duration = Duration::from_secs(5);
const REST: Duration = Duration::from_secs(55);
/// How often the power supply is looked at, where a profile depends on it.
const SUPPLY: Duration = Duration::from_secs(5);

/// Why the daemon does not run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Settings of the machine.
    #[error(transparent)]
    Live(#[from] SettingsError),
    /// Nothing of what is asked for can be done here.
    #[error("nothing to do: {why}")]
    Nothing {
        /// What there is not.
        why: String,
        /// It may be there another time.
        passes: bool,
    },
    /// A configuration that is new, and of which a part cannot be done here.
    #[error("this machine cannot have all of it: {0}")]
    Partly(String),
    /// The metrics' port.
    #[error("metrics: port {port} of 127.0.0.1")]
    Port {
        /// Which.
        port: u16,
        /// Why not.
        source: io::Error,
    },
    /// Waiting failed.
    #[error("waiting for events")]
    Wait(#[from] io::Error),
}

impl DaemonError {
    /// Whether it would come again at every start, until somebody changes the configuration or the machine.
    pub const fn lasts(&self) -> bool {
        matches!(self, Self::Config(_) | Self::Nothing { passes: false, .. })
    }

    fn nothing(missing: &[String], passes: bool) -> Self {
        let why = match missing.len() {
            0 => "the configuration asks for nothing".to_owned(),
            _ => missing.join("; "),
        };
        Self::Nothing { why, passes }
    }
}

/// Tells systemd, if it started us.
fn tell(state: &[NotifyState]) {
    // The manager may be restarting; what matters is told again.
    let _ = sd_notify::notify(state);
}

/// Runs until SIGTERM or SIGINT, or until a lender ends, and puts everything back.
///
/// # Errors
/// Nothing can be done, or what was changed cannot be put back.
pub fn run(
    system: &System,
    path: Option<&Path>,
    lender: Option<&LockLender>,
) -> Result<(), DaemonError> {
    // Before the first change, so that a signal never ends us in the middle of one.
    let signals = Signals::new(lender)?;
    let mut config = load(path)?;
    let session = open_session(system, lender)?;
    let recovered = session.recovered();
    if !recovered.written.is_empty() {
        log::warning(&format!(
            "put {} setting(s) back that a process had changed which was killed",
            recovered.written.len()
        ));
    }
    for note in &recovered.notes {
        log::info(note);
    }
    for away in &recovered.away {
        log::warning(away);
    }
    let mut daemon = Daemon::start(system, session, &config, None)?;
    tell(&[NotifyState::Ready, NotifyState::Status(&daemon.status())]);
    loop {
        match daemon.serve(&signals)? {
            Ended::Stop => break,
            Ended::Reload => {
                tell(&[NotifyState::Status("Reloading")]);
                let refused = match load(path) {
                    // Before anything stops: leases go on if it is refused.
                    Ok(new) => match daemon.can_become(&new) {
                        Ok(()) => {
                            let had = daemon.missing.clone();
                            let Some(session) = daemon.stop()? else {
                                return Ok(());
                            };
                            match Daemon::start(system, session, &new, Some(&had)) {
                                Ok(started) => {
                                    daemon = started;
                                    config = new;
                                    None
                                }
                                Err(error) => {
                                    let session = open_session(system, lender)?;
                                    daemon = Daemon::start(system, session, &config, None)?;
                                    Some(in_one_line(&error))
                                }
                            }
                        }
                        Err(error) => Some(in_one_line(&error)),
                    },
                    Err(error) => Some(in_one_line(&error)),
                };
                match refused {
                    None => log::info("reloaded"),
                    Some(why) => {
                        log::error(&format!("not reloaded, the old configuration stays: {why}"));
                    }
                }
                tell(&[NotifyState::Status(&daemon.status())]);
            }
        }
    }
    tell(&[NotifyState::Stopping]);
    daemon.stop()?;
    Ok(())
}

/// The process that started this daemon and lent its lock on the machine's settings.
#[derive(Debug)]
pub struct LockLender {
    lock: OwnedFd,
    /// Readable once the process has ended.
    process: OwnedFd,
}

impl LockLender {
    /// The parent process, by its id; its lock is standard input.
    ///
    /// # Errors
    /// Another process is the parent, or the parent is gone.
    pub fn parent(id: i32) -> io::Result<Self> {
        let gone = || io::Error::other(format!("process {id}, which started this one, is gone"));
        let parent = Pid::from_raw(id).ok_or_else(gone)?;
        let process = pidfd_open(parent, PidfdFlags::empty())?;
        // Another process may have got the id meanwhile.
        if getppid() != Some(parent) {
            return Err(gone());
        }
        Ok(Self {
            lock: io::stdin().as_fd().try_clone_to_owned()?,
            process,
        })
    }
}

/// The right to change settings: of this process, or lent.
fn open_session(system: &System, lender: Option<&LockLender>) -> Result<Session, DaemonError> {
    Ok(match lender {
        None => Session::open(system)?,
        Some(lender) => Session::lent(system, lender.lock.try_clone()?)?,
    })
}

/// The configuration; without a path the one in /etc, or the defaults if there is none.
///
/// # Errors
/// It cannot be read, or something in it is wrong.
pub fn load(path: Option<&Path>) -> Result<Config, ConfigError> {
    let usual = PathBuf::from(daemon_config::PATH);
    match path {
        Some(path) => Config::load(path),
        None if usual.exists() => Config::load(&usual),
        None => Ok(Config::default()),
    }
}

/// Why waiting ended.
enum Ended {
    Stop,
    Reload,
}

struct Signals {
    wake: UnixStream,
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    /// A lender's process; its end means to stop.
    lender: Option<OwnedFd>,
}

impl Signals {
    fn new(lender: Option<&LockLender>) -> io::Result<Self> {
        let (wake, send) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let signals = Self {
            wake,
            stop: Arc::default(),
            reload: Arc::default(),
            lender: lender
                .map(|lender| lender.process.try_clone())
                .transpose()?,
        };
        for (signal, flag) in [
            (SIGTERM, &signals.stop),
            (SIGINT, &signals.stop),
            (SIGHUP, &signals.reload),
        ] {
            // The flag first: who wakes up has to find it set.
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, send.try_clone()?)?;
        }
        Ok(signals)
    }

    fn taken(&self) -> Option<Ended> {
        let mut bytes = [0; 64];
        while matches!(io::Read::read(&mut &self.wake, &mut bytes), Ok(1..)) {}
        if self.stop.load(Ordering::SeqCst) || self.lender_has_ended() {
            Some(Ended::Stop)
        } else {
            self.reload
                .swap(false, Ordering::SeqCst)
                .then_some(Ended::Reload)
        }
    }

    fn lender_has_ended(&self) -> bool {
        self.lender.as_ref().is_some_and(|process| {
            let mut fds = [PollFd::new(process, PollFlags::IN)];
            let at_once = Timespec::default();
            matches!(poll(&mut fds, Some(&at_once)), Ok(1..))
        })
    }
}

/// What runs under one configuration.
struct Daemon {
    system: System,
    hold: Hold,
    watch: Option<Watch>,
    leases: Leases,
    limits: Option<LeaseLimits>,
    boost: Option<Boost>,
    /// What the boost raises.
    minima: Vec<ManagedSetting>,
    drives: Drives,
    server: Option<Server>,
    measure: ProbeCost,
    metrics: Metrics,
    /// What the configuration asks for and is not in force.
    missing: Missing,
}

/// Drives with profiles, and when to look at them.
struct Drives {
    profiles: Vec<DriveProfile>,
    every: Duration,
    next: Instant,
    mains: bool,
    supply_next: Option<Instant>,
    /// How long the machine has slept since its start.
    slept: Duration,
}

/// What the eBPF programs cost, measured now and then.
struct ProbeCost {
    meter: Option<CostMeter>,
    next: Option<Instant>,
}

/// What the configuration asks for and cannot be had.
#[derive(Clone, Default)]
struct Missing {
    why: Vec<String>,
    /// What of that was asked for only where it helps.
    optional: Vec<String>,
    /// The policies concerned: `psd`, `boost`, `drives`.
    policies: BTreeSet<&'static str>,
}

impl Missing {
    fn add(&mut self, policy: &'static str, why: String) {
        self.policies.insert(policy);
        self.why.push(why);
    }

    /// Refuses a configuration that is to take the place of another, if it misses more than that one: `had`.
    fn check(&self, had: &Self) -> Result<(), DaemonError> {
        let new = |why: &&String| !had.why.contains(why) && !self.optional.contains(why);
        let why: Vec<&str> = self.why.iter().filter(new).map(String::as_str).collect();
        if why.is_empty() {
            return Ok(());
        }
        Err(DaemonError::Partly(why.join("; ")))
    }

    /// What a configuration asks for, and whether all of it is there.
    fn policies_of(&self, config: &Config) -> Vec<(&'static str, bool)> {
        let boosts = config.boost.mode != daemon_config::BoostMode::Off;
        let asked = [
            ("psd", config.policy.leases().is_some()),
            ("boost", boosts),
            ("drives", !config.drive.is_empty()),
        ];
        let asked = asked.into_iter().filter(|(_, asked)| *asked);
        asked
            .map(|(policy, _)| (policy, !self.policies.contains(policy)))
            .collect()
    }
}

/// What a configuration asks for, as it is on a machine. Nothing of it is in force.
struct Found {
    at_once: Vec<(SettingKey, String)>,
    limits: Option<LeaseLimits>,
    raising: Option<Boost>,
    drives: Drives,
    missing: Missing,
    /// Whether what is missing may be there another time.
    passes: bool,
    kernel_module: bool,
}

impl Found {
    /// `held`: what a daemon sets now that would be stopped before.
    fn new(system: &System, config: &Config, held: Option<&Hold>) -> Self {
        let mut missing = Missing::default();
        let mut at_once: Vec<(SettingKey, String)> = Vec::new();

        let mut kernel_module = false;
        let mut limits = None;
        if let Some(psd) = config.policy.leases() {
            let module = config.kernel_module.then(|| module_settings(system, psd));
            match module.unwrap_or(Ok(None)) {
                Ok(Some(settings)) => {
                    kernel_module = true;
                    at_once.extend(settings);
                }
                Ok(None) => match LeaseLimits::new(system, &psd.ceiling, held) {
                    Ok(found) => limits = Some(found),
                    Err(why) => missing.add("psd", format!("psd: {why}")),
                },
                Err(why) => missing.add("psd", format!("psd: {why}")),
            }
        }
        let mut raising = None;
        if config.boost.mode != daemon_config::BoostMode::Off {
            let hz = tick_rate(system.root()).and_then(|hz| TickRate::new(u32::try_from(hz).ok()?));
            let found = boost::who(system, config.boost.mode).and_then(|who| match who {
                BoostOwner::Kernel(setting) => {
                    Ok((Some((setting.parse::<SettingKey>()?, "1".to_owned())), None))
                }
                BoostOwner::Daemon => Ok((
                    None,
                    Some(Boost::new(system, hz.unwrap_or_default(), held)?),
                )),
            });
            match found {
                Ok((kernel, own)) => {
                    at_once.extend(kernel);
                    raising = own;
                }
                Err(why) => {
                    let why = format!("boost: {why}");
                    if config.boost.mode == daemon_config::BoostMode::Auto {
                        missing.optional.push(why.clone());
                    }
                    missing.add("boost", why);
                }
            }
        }
        let (drives, unfit) = Drives::new(system, config);
        if drives.profiles.is_empty() && unfit.is_empty() && !config.drive.is_empty() {
            let names = system.drives();
            let why = match names.len() {
                0 => "drives: this machine shows no NVMe drive".to_owned(),
                _ => format!("drives: no profile fits any of {}", names.join(", ")),
            };
            missing.add("drives", why);
        }
        // A drive may answer another time; what a policy asks of it will not be there then either.
        let passes = unfit
            .iter()
            .any(|(_, why)| !matches!(why, SettingsError::Policy { .. }));
        for (name, why) in &unfit {
            missing.add("drives", format!("drive {name}: {why}"));
        }
        for profile in &drives.profiles {
            if profile.observes() && profile.observed().next().is_none() {
                let why = format!(
                    "observed timeouts of {}: this machine shows no block device of it; those of the policy hold",
                    profile.name
                );
                missing.add("drives", why);
            }
        }
        Self {
            at_once,
            limits,
            raising,
            drives,
            missing,
            passes,
            kernel_module,
        }
    }

    /// Whether there is nothing to do.
    fn is_nothing(&self) -> bool {
        self.at_once.is_empty()
            && self.limits.is_none()
            && self.raising.is_none()
            && self.drives.profiles.is_empty()
    }
}

impl Daemon {
    /// Whether a configuration can take the place of the one that runs: all that it asks for is to be had here, but what
    /// was missing before, too.
    ///
    /// # Errors
    /// What of it cannot be had.
    fn can_become(&self, config: &Config) -> Result<(), DaemonError> {
        let found = Found::new(&self.system, config, Some(&self.hold));
        found.missing.check(&self.missing)?;
        if found.is_nothing() {
            return Err(DaemonError::nothing(&found.missing.why, found.passes));
        }
        let port = config.metrics.port;
        if port != 0 && self.server.as_ref().and_then(Server::port) != Some(port) {
            listen(port)?;
        }
        Ok(())
    }

    /// Starts what the configuration asks for. `had`: what is missing of a configuration in whose place it comes; then it is
    /// refused if it misses more.
    fn start(
        system: &System,
        session: Session,
        config: &Config,
        had: Option<&Missing>,
    ) -> Result<Self, DaemonError> {
        let Found {
            at_once,
            mut limits,
            mut raising,
            mut drives,
            mut missing,
            passes,
            kernel_module,
        } = Found::new(system, config, None);
        let mut metrics = Metrics {
            kernel_module,
            ..Metrics::default()
        };
        // The programs first: without them there are no leases to keep old values for.
        let profiles = drives.profiles.iter();
        let mut observed: Vec<Vec<u32>> = profiles.map(|p| p.observed().collect()).collect();
        observed.retain(|devices| !devices.is_empty());
        let mut watch = None;
        if limits.is_some() || raising.is_some() || !observed.is_empty() {
            match start_watch(config, raising.is_some(), observed.clone()) {
                Ok(started) => watch = Some(started),
                Err(why) => {
                    for (policy, what, there) in [
                        ("psd", "psd", limits.take().is_some()),
                        ("boost", "boost", raising.take().is_some()),
                        (
                            "drives",
                            "observed timeouts, instead of which those of the policy hold",
                            !observed.is_empty(),
                        ),
                    ] {
                        if there {
                            missing.add(policy, format!("{what}: {why}"));
                        }
                    }
                }
            }
        }
        let nothing = |drives: &Drives| {
            at_once.is_empty()
                && limits.is_none()
                && raising.is_none()
                && drives.profiles.is_empty()
        };
        if nothing(&drives) {
            return Err(DaemonError::nothing(&missing.why, passes));
        }
        if let Some(had) = had {
            missing.check(had)?;
        }
        for why in &missing.why {
            log::warning(&format!("off: {why}"));
        }

        let mut values = at_once.clone();
        values.extend(drives.profiles.iter().map(DriveProfile::setting));
        values.extend(limits.iter().flat_map(LeaseLimits::settings));
        values.extend(raising.iter().flat_map(Boost::settings));
        let wanted = WantedSetting {
            values,
            notes: Vec::new(),
        };
        let hold = session.reserve(&SettingsPlan::new(system, wanted)?)?;
        // An error puts back what was changed until then, as the hold goes.
        for (key, value) in &at_once {
            hold.set(key, Some(value))?;
        }
        // A drive that refuses its table is no reason to leave out the rest.
        let mut refused = Vec::new();
        drives.profiles.retain(|profile| match profile.set(&hold) {
            Ok(()) => true,
            Err(why) => {
                // It may have taken a part of it. If it does not take this either, the end tries again.
                let _ = hold.set(&profile.setting().0, None);
                refused.push(format!("drive {}: {why}", profile.name));
                false
            }
        });
        if nothing(&drives) {
            missing.why.extend(refused);
            return Err(DaemonError::nothing(&missing.why, true));
        }
        for why in &refused {
            log::warning(&format!("off: {why}"));
        }
        for why in refused {
            missing.add("drives", why);
        }
        if let Some(had) = had {
            missing.check(had)?;
        }
        metrics.policies = missing.policies_of(config);
        let server = match config.metrics.port {
            0 => None,
            port => Some(listen(port)?),
        };
        let minima = raising.iter().flat_map(Boost::settings);
        let daemon = Self {
            minima: minima.map(|(key, _)| ManagedSetting::new(key)).collect(),
            system: system.clone(),
            hold,
            measure: ProbeCost::new(watch.is_some()),
            watch,
            leases: Leases::default(),
            limits,
            boost: raising,
            drives,
            server,
            metrics,
            missing,
        };
        log::info(&daemon.status());
        Ok(daemon)
    }

    /// What runs, in a line.
    fn status(&self) -> String {
        let mut parts = Vec::new();
        if self.metrics.kernel_module {
            parts.push("leases by the kernel module wakepath_psd".to_owned());
        }
        if let Some(limits) = &self.limits {
            parts.push(format!("leases on {}", limits.describe()));
        }
        if self.boost.is_some() {
            parts.push("I/O boost".to_owned());
        }
        for profile in &self.drives.profiles {
            parts.push(format!("table of {} ({})", profile.name, profile.model()));
        }
        if let Some(watch) = &self.watch
            && !watch.timed()
        {
            parts.push("without timers of the kernel".to_owned());
        }
        match parts.len() {
            0 => "settings only".to_owned(),
            _ => parts.join(", "),
        }
    }

    /// Waits and acts until a signal comes.
    fn serve(&mut self, signals: &Signals) -> Result<Ended, DaemonError> {
        let alive = sd_notify::watchdog_enabled()
            .filter(|time| !time.is_zero())
            .map(|time| time / 2);
        let mut alive_next = alive.map(|_| Instant::now());
        loop {
            if let (Some(every), Some(next)) = (alive, alive_next)
                && next <= Instant::now()
            {
                tell(&[NotifyState::Watchdog]);
                alive_next = Some(Instant::now() + every);
            }
            let asked = self.wait(signals, alive_next)?;
            if let Some(ended) = signals.taken() {
                return Ok(ended);
            }
            self.handle();
            self.look_at_drives();
            self.measure();
            if asked && let Some(server) = &self.server {
                server.answer(|| self.metrics_now());
            }
        }
    }

    /// Waits until something happens, or is due; whether a client asks for metrics.
    fn wait(&self, signals: &Signals, alive: Option<Instant>) -> io::Result<bool> {
        let now = Instant::now();
        let soonest = [
            alive,
            self.measure.next,
            (!self.drives.profiles.is_empty()).then_some(self.drives.next),
            self.drives.supply_next,
        ];
        let mut wait = soonest
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.saturating_duration_since(now));
        let bursts = [
            self.watch.as_ref().and_then(Watch::due_ns),
            self.boost.as_ref().and_then(Boost::due_ns),
        ];
        if let Some(due) = bursts.into_iter().flatten().min() {
            let left = Duration::from_nanos(due.saturating_sub(now_ns()));
            wait = Some(wait.map_or(left, |wait| wait.min(left)));
        }
        let wait = wait.and_then(|time| Timespec::try_from(time).ok());
        let readable = PollFlags::IN;
        let mut fds = vec![PollFd::from_borrowed_fd(signals.wake.as_fd(), readable)];
        let server_at = self.server.as_ref().map(|server| {
            fds.push(PollFd::from_borrowed_fd(server.fd(), readable));
            fds.len() - 1
        });
        if let Some(watch) = &self.watch {
            fds.push(PollFd::from_borrowed_fd(watch.fd(), readable));
        }
        fds.extend(
            signals
                .lender
                .iter()
                .map(|process| PollFd::new(process, readable)),
        );
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(server_at.is_some_and(|at| !fds[at].revents().is_empty()))
    }

    /// Gives leases and boosts, and takes them back.
    fn handle(&mut self) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        let events = watch.take();
        let changes = self.leases.handle(&events);
        for change in &changes {
            self.lease(*change);
        }
        let minima = self
            .boost
            .as_mut()
            .map(|boost| boost.handle(&events, &changes, now_ns()));
        for minimum in minima.unwrap_or_default() {
            let mut minima = self.minima.iter_mut();
            let Some(own) = minima.find(|own| *own.key() == minimum.key) else {
                continue;
            };
            let value = minimum.khz.map(|khz| khz.to_string());
            let outcome = own.set(&self.hold, value.as_deref());
            self.metrics.boost_writes += u64::from(matches!(outcome, WriteOutcome::Written));
            self.not_set(outcome, "this policy is boosted no more");
        }
    }

    fn lease(&mut self, change: LeaseChange) {
        let Some(limits) = &mut self.limits else {
            return;
        };
        match limits.join(&self.system, &self.hold, change.cpu) {
            Ok(said) => said.iter().for_each(|text| log::info(text)),
            Err(error) => return self.failed(&error),
        }
        let outcome = limits.change(&self.hold, change);
        if matches!(outcome, WriteOutcome::Written) {
            self.metrics.lease_writes += 1;
            self.metrics.leases_given += u64::from(change.give);
        }
        self.not_set(outcome, "this CPU gets no more leases");
    }

    /// Says why a setting is not as it was to be, and what comes of it if somebody else has set it.
    fn not_set(&mut self, outcome: WriteOutcome, upshot: &str) {
        match outcome {
            WriteOutcome::Written | WriteOutcome::Nothing => {}
            WriteOutcome::Foreign {
                key,
                expected,
                found,
            } => log::warning(&format!(
                "{key} is '{found}' instead of '{expected}': somebody else has set it, so {upshot} until the next reload"
            )),
            WriteOutcome::Failed(error) => self.failed(&error),
        }
    }

    /// A setting could not be written; the first time is worth a line.
    fn failed(&mut self, error: &SettingsError) {
        self.metrics.failures += 1;
        if self.metrics.failures.is_power_of_two() {
            log::error(&format!("{error} (failure {})", self.metrics.failures));
        }
    }

    fn look_at_drives(&mut self) {
        let drives = &mut self.drives;
        let now = Instant::now();
        let due = !drives.profiles.is_empty() && drives.next <= now;
        let supply_due = drives.supply_next.is_some_and(|next| next <= now);
        if !due && !supply_due {
            return;
        }
        if supply_due {
            drives.supply_next = Some(now + SUPPLY);
        }
        let mains = on_mains(self.system.root());
        let slept = asleep();
        let has_slept = slept > drives.slept + Duration::from_millis(100);
        if !due && !has_slept && mains == drives.mains {
            return;
        }
        drives.next = now + drives.every;
        if mains != drives.mains {
            log::info(if mains {
                "on mains power"
            } else {
                "on battery"
            });
        }
        drives.mains = mains;
        drives.slept = slept;
        let mut failures = Vec::new();
        drives.profiles.retain_mut(|profile| {
            // They all lead to the gaps of the drive.
            let device = profile.observed().next();
            let gaps = device.and_then(|device| self.watch.as_ref()?.gaps(device));
            match profile.look(&self.system, &self.hold, mains, gaps.as_ref(), has_slept) {
                CheckOutcome::Fine => {}
                CheckOutcome::SetAgain(who) => {
                    self.metrics.tables_set_again += 1;
                    log::warning(&format!(
                        "{}: the APST table had changed and is set again; {who}",
                        profile.name
                    ));
                }
                CheckOutcome::Changed => {
                    log::info(&format!("{}: another APST table is set", profile.name));
                }
                CheckOutcome::Replaced(model) => {
                    failures.extend(leave(profile, &model, &self.hold));
                    return false;
                }
                CheckOutcome::Failed(error) => failures.push(error),
            }
            true
        });
        for error in failures {
            self.failed(&error);
        }
    }

    fn measure(&mut self) {
        if let Some(next) = self.measure.next
            && next <= Instant::now()
            && let Some(watch) = &mut self.watch
        {
            self.measure.step(watch, &mut self.metrics);
        }
    }

    fn metrics_now(&self) -> Metrics {
        let mut metrics = self.metrics.clone();
        if let Some(watch) = &self.watch {
            (metrics.ios, metrics.lost) = watch.totals();
        }
        if let Some(meter) = &self.measure.meter
            && let Some(cost) = meter.read()
        {
            metrics.timed = Some(cost);
        }
        metrics.leases = self.limits.as_ref().map_or(0, LeaseLimits::given);
        metrics.boosted = self.minima.iter().filter(|own| own.in_force()).count();
        metrics
    }

    /// Puts everything back. `None`: somebody has done so before.
    fn stop(mut self) -> Result<Option<Session>, DaemonError> {
        let metrics = self.metrics_now();
        let ios: u64 = metrics.ios.iter().sum();
        let mut text = format!(
            "{} lease(s) in {} write(s), {ios} I/O(s) watched",
            metrics.leases_given, metrics.lease_writes
        );
        if let Some(cost) = metrics.timed
            && let Some(each) = cost.programs.mean_ns()
        {
            let runs = cost.programs.runs;
            text = format!("{text}; {each:.0} ns of eBPF per I/O, over {runs} that were timed");
            if let Some(nothing) = cost.nothing.mean_ns() {
                text = format!("{text} ({nothing:.0} ns for a program that does nothing)");
            }
        }
        // No new leases while they are put back.
        self.watch = None;
        for profile in &self.drives.profiles {
            if let Some(model) = profile.replaced(&self.system)
                && let Some(error) = leave(profile, &model, &self.hold)
            {
                log::error(&error.to_string());
            }
        }
        let released = self.hold.release()?;
        if let Some((_, restored)) = &released {
            for note in restored.notes.iter().chain(&restored.away) {
                log::warning(note);
            }
        }
        log::info(&text);
        Ok(released.map(|(session, _)| session))
    }
}

fn listen(port: u16) -> Result<Server, DaemonError> {
    Server::listen(port).map_err(|source| DaemonError::Port { port, source })
}

impl Drives {
    /// And why drives have none that a profile fits.
    fn new(system: &System, config: &Config) -> (Self, Vec<(String, SettingsError)>) {
        let mains = on_mains(system.root());
        let (profiles, missing) = profiles(system, config, mains);
        let supply = profiles.iter().any(DriveProfile::by_supply);
        let now = Instant::now();
        let drives = Self {
            every: config.drives.check.0,
            next: now + config.drives.check.0,
            supply_next: supply.then(|| now + SUPPLY),
            profiles,
            mains,
            slept: asleep(),
        };
        (drives, missing)
    }
}

impl ProbeCost {
    fn new(wanted: bool) -> Self {
        Self {
            meter: None,
            next: wanted.then(Instant::now),
        }
    }

    /// Begins to measure, or ends it.
    fn step(&mut self, watch: &mut Watch, metrics: &mut Metrics) {
        let now = Instant::now();
        if let Some(meter) = self.meter.take() {
            metrics.timed = meter.read().or(metrics.timed);
            self.next = Some(now + REST);
        } else {
            self.meter = Some(watch.meter());
            self.next = Some(now + MEASURE);
        }
    }
}

/// Leaves a drive alone that has taken the place of one with a profile: neither the table of the profile nor the one that
/// the other drive had before is its own.
fn leave(profile: &DriveProfile, model: &str, hold: &Hold) -> Option<SettingsError> {
    log::warning(&format!(
        "{} is another drive now ({model}, after {}): it is left alone until the next reload",
        profile.name,
        profile.model()
    ));
    hold.forget(&profile.setting().0).err()
}

fn start_watch(config: &Config, boost: bool, drives: Vec<Vec<u32>>) -> Result<Watch, LoadError> {
    // Boost without leases goes by the bursts that leases would go by.
    let psd = config.policy.leases().cloned();
    let psd = psd.unwrap_or_else(|| LeaseRule::Daemon.settings());
    Watch::start(Watched {
        timeout: Duration::from_millis(psd.timeout_ms.into()),
        grant: psd.grant,
        first: psd.start_after,
        heard: if boost { boost::EVENTS_PER_BURST } else { 1 },
        drives,
        kernel_timers: true,
    })
}

/// How long the machine has slept since its start.
fn asleep() -> Duration {
    let read = |clock| {
        let time = clock_gettime(clock);
        Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
    };
    read(ClockId::Boottime).saturating_sub(read(ClockId::Monotonic))
}
