//! Fits a configuration to a machine, before anything is in force.

use std::time::Duration;

use wakepath_ebpf::LoadError;
use wakepath_policies::psd::LeaseRule;
use wakepath_settings::daemon_config::{BoostMode, Config};
use wakepath_settings::{Hold, Session, SettingsError, SettingsPlan, WantedSetting};
use wakepath_system::capture::read_configured_tick_rate_hz;
use wakepath_system::{SettingKey, System};
use wakepath_units::TickRate;

use crate::boost::{self, Boost, BoostOwner};
use crate::drives::ManagedDrives;
use crate::error::DaemonError;
use crate::missing::MissingPolicies;
use crate::profile::DriveProfile;
use crate::psd::{LeaseLimits, kernel_module_settings_if_loaded};
use crate::watch::{Watch, WatchOptions};

/// The parts of a configuration that this machine supports.
pub(crate) struct DaemonPlan {
    /// Settings that keep one value while the daemon runs.
    constant: Vec<(SettingKey, String)>,
    pub(crate) limits: Option<LeaseLimits>,
    pub(crate) boost: Option<Boost>,
    pub(crate) drives: ManagedDrives,
    pub(crate) missing: MissingPolicies,
    /// Whether missing parts may be found at a later start.
    passes: bool,
    /// Whether the kernel module gives the leases.
    pub(crate) kernel_module: bool,
    /// Whether measuring latency is a purpose of its own.
    measures: bool,
}

impl DaemonPlan {
    /// Finds which parts of a configuration this machine supports. `held`: settings of a daemon that stops before,
    /// whose old values count.
    pub(crate) fn plan_for_machine(system: &System, config: &Config, held: Option<&Hold>) -> Self {
        let (drives, unfit) = ManagedDrives::find_managed_and_unfit(system, config);
        // A drive that does not answer may answer another time. A policy that cannot be applied to it never can.
        let passes = unfit
            .iter()
            .any(|(_, why)| !matches!(why, SettingsError::Policy { .. }));
        let mut plan = Self {
            constant: Vec::new(),
            limits: None,
            boost: None,
            drives,
            missing: MissingPolicies::default(),
            passes,
            kernel_module: false,
            measures: config.metrics.latency
                || config.guard.applied && !config.guard.keep.is_empty(),
        };
        if let Err(why) = plan.plan_leases(system, config, held) {
            plan.missing.add_missing("psd", format!("psd: {why}"));
        }
        plan.plan_boost_or_note_reason(system, config.boost.mode, held);
        plan.note_missing_drives(system, config, &unfit);
        plan
    }

    /// Plans leases: by the kernel module where it is loaded and allowed, else by the daemon.
    ///
    /// # Errors
    /// The reason why there are none.
    fn plan_leases(
        &mut self,
        system: &System,
        config: &Config,
        held: Option<&Hold>,
    ) -> Result<(), String> {
        let Some(psd) = config.policy.requested_lease_settings() else {
            return Ok(());
        };
        if config.kernel_module
            && let Some(settings) = kernel_module_settings_if_loaded(system, psd)?
        {
            self.kernel_module = true;
            self.constant.extend(settings);
            return Ok(());
        }
        self.limits = Some(LeaseLimits::read_for_online_cpus(
            system,
            &psd.ceiling,
            held,
        )?);
        Ok(())
    }

    /// Plans the I/O boost, or notes why there is none.
    fn plan_boost_or_note_reason(&mut self, system: &System, mode: BoostMode, held: Option<&Hold>) {
        if mode == BoostMode::Off {
            return;
        }
        match self.plan_boost(system, mode, held) {
            Ok(()) => {}
            Err(why) if mode == BoostMode::Auto => {
                self.missing
                    .add_missing_optional("boost", format!("boost: {why}"));
            }
            Err(why) => self.missing.add_missing("boost", format!("boost: {why}")),
        }
    }

    fn plan_boost(
        &mut self,
        system: &System,
        mode: BoostMode,
        held: Option<&Hold>,
    ) -> Result<(), String> {
        match boost::choose_boost_owner(system, mode)? {
            BoostOwner::Kernel(setting) => {
                self.constant.push((setting.parse()?, "1".to_owned()));
            }
            BoostOwner::Daemon => {
                let hz = read_configured_tick_rate_hz(system.root())
                    .and_then(|hz| u32::try_from(hz).ok());
                let tick = hz.and_then(TickRate::new).unwrap_or_default();
                self.boost = Some(Boost::new(system, tick, held)?);
            }
        }
        Ok(())
    }

    /// Notes missing drives, and missing parts of profiles.
    fn note_missing_drives(
        &mut self,
        system: &System,
        config: &Config,
        unfit: &[(String, SettingsError)],
    ) {
        let profiles = &self.drives.profiles;
        if profiles.is_empty() && unfit.is_empty() && !config.drive.is_empty() {
            let names = system.nvme_controller_names();
            let why = match names.len() {
                0 => "drives: this machine shows no NVMe drive".to_owned(),
                _ => format!("drives: no profile fits any of {}", names.join(", ")),
            };
            self.missing.add_missing("drives", why);
        }
        for (name, why) in unfit {
            self.missing
                .add_missing("drives", format!("drive {name}: {why}"));
        }
        for profile in profiles {
            if profile.observes_gaps() && profile.numbers_of_observed_devices().next().is_none() {
                let why = format!(
                    "observed timeouts of {}: this machine shows no block device of it; those of the policy hold",
                    profile.name
                );
                self.missing.add_missing("drives", why);
            }
        }
    }

    /// Refuses an empty plan, and a plan of which more is missing than of its predecessor.
    ///
    /// # Errors
    /// As said.
    pub(crate) fn check_not_empty_nor_worse_than(
        &self,
        predecessor: Option<&MissingPolicies>,
    ) -> Result<(), DaemonError> {
        if self.is_empty() {
            return Err(DaemonError::nothing_to_do(
                &self.missing.reasons,
                self.passes,
            ));
        }
        predecessor.map_or(Ok(()), |predecessor| {
            self.missing.check_misses_no_more_than(predecessor)
        })
    }

    /// Latency cannot be measured, and so is no purpose any more.
    pub(crate) const fn note_nothing_is_measured(&mut self) {
        self.measures = false;
    }

    fn is_empty(&self) -> bool {
        !self.measures
            && self.constant.is_empty()
            && self.limits.is_none()
            && self.boost.is_none()
            && self.drives.profiles.is_empty()
    }

    /// Starts the eBPF programs that leases, boost and observed timeouts need. Without the programs these parts are
    /// missing.
    pub(crate) fn start_needed_programs_or_drop_parts(&mut self, config: &Config) -> Option<Watch> {
        let observed = self.drives.observed_devices_by_drive();
        if self.limits.is_none() && self.boost.is_none() && observed.is_empty() {
            return None;
        }
        let observes = !observed.is_empty();
        match start_burst_programs(config, self.boost.is_some(), observed) {
            Ok(watch) => Some(watch),
            Err(why) => {
                if self.limits.take().is_some() {
                    self.missing.add_missing("psd", format!("psd: {why}"));
                }
                if self.boost.take().is_some() {
                    self.missing.add_missing("boost", format!("boost: {why}"));
                }
                if observes {
                    let part = "observed timeouts, instead of which those of the policy hold";
                    self.missing.add_missing("drives", format!("{part}: {why}"));
                }
                None
            }
        }
    }

    /// Notes the old values of all settings that the daemon is going to change.
    ///
    /// # Errors
    /// A setting cannot be read, or the journal cannot be written.
    pub(crate) fn reserve_settings(
        &self,
        system: &System,
        session: Session,
    ) -> Result<Hold, SettingsError> {
        let mut values = self.constant.clone();
        values.extend(
            self.drives
                .profiles
                .iter()
                .map(DriveProfile::setting_and_table),
        );
        values.extend(
            self.limits
                .iter()
                .flat_map(LeaseLimits::settings_with_lease_values),
        );
        values.extend(
            self.boost
                .iter()
                .flat_map(Boost::minimum_settings_with_highest_values),
        );
        let wanted = WantedSetting {
            values,
            notes: Vec::new(),
        };
        session.reserve_for_repeated_changes(&SettingsPlan::from_wanted(system, wanted)?)
    }

    /// Writes the settings that keep one value while the daemon runs.
    ///
    /// # Errors
    /// The first that cannot be written; the end of the hold puts the others back.
    pub(crate) fn write_constant_settings(&self, hold: &Hold) -> Result<(), SettingsError> {
        self.constant
            .iter()
            .try_for_each(|(key, value)| hold.write_or_put_back(key, Some(value)))
    }

    /// Sets the drives' APST tables. A drive that refuses its table loses its profile. Returns the reasons.
    ///
    /// # Errors
    /// Nothing is left to do.
    pub(crate) fn set_apst_tables_or_drop_profiles(
        &mut self,
        hold: &Hold,
    ) -> Result<Vec<String>, DaemonError> {
        let refused = self.drives.set_apst_tables_or_drop_profiles(hold);
        for why in &refused {
            self.missing.add_missing("drives", why.clone());
        }
        if self.is_empty() {
            return Err(DaemonError::nothing_to_do(&self.missing.reasons, true));
        }
        Ok(refused)
    }
}

/// Starts the eBPF programs that tell bursts of I/O. A boost without leases uses the same bursts as leases would.
fn start_burst_programs(
    config: &Config,
    boost: bool,
    drives: Vec<Vec<u32>>,
) -> Result<Watch, LoadError> {
    let leases = config.policy.requested_lease_settings().cloned();
    let psd = leases.unwrap_or_else(|| LeaseRule::Daemon.default_settings());
    Watch::load_and_attach(WatchOptions {
        timeout: Duration::from_millis(psd.timeout_ms.into()),
        grant: psd.grant,
        first: psd.start_after,
        told: if boost { boost::EVENTS_PER_BURST } else { 1 },
        drives,
        kernel_timers: true,
    })
}
