//! Settings for frequency policies: governor, limits, energy-performance preference, boost.

use wakepath_policies::freq::FreqPolicy;
use wakepath_policies::freq::amd_pstate::{AmdMode, AmdPstateSettings};
use wakepath_policies::freq::epp::{Epp, explain_preference_refusal_under_performance};
use wakepath_policies::freq::limits::FrequencyLimits;
use wakepath_policies::mechanism::Policy;
use wakepath_system::setting::{self, SettingScope, setting_known_to_exist};
use wakepath_system::{At, SettingKey, System};

use super::target::{SettingsBuilder, switch_as_digit};
use crate::SettingsError;
use crate::kernel_command_line::{AMD_PSTATE, INTEL_PSTATE};

/// Path of the file with amd-pstate's mode.
const AMD_PSTATE_STATUS: &str = "sys/devices/system/cpu/amd_pstate/status";

/// Name of the cpufreq driver of amd-pstate in active mode.
pub(super) const ACTIVE_AMD_DRIVER: &str = "amd-pstate-epp";

impl SettingsBuilder<'_> {
    /// Asks for the lowest and highest frequencies that the policy gives.
    pub(super) fn add_wanted_frequency_limits(
        &mut self,
        limits: FrequencyLimits,
    ) -> Result<(), SettingsError> {
        for (name, limit) in [("frequency-min", limits.min), ("frequency-max", limits.max)] {
            if let Some(khz) = limit {
                self.add_wanted_value_at_selected_places(name, &khz.0.to_string())?;
            }
        }
        Ok(())
    }

    /// Asks for the policy's frequency governor, under the name that this machine's driver has for it.
    pub(super) fn add_wanted_frequency_governor(&mut self) -> Result<(), SettingsError> {
        if let Policy::Frequency(FreqPolicy::AmdPstate(settings)) = self.spec.typed_policy() {
            return self.add_wanted_amd_pstate_settings(*settings);
        }
        let name = self.spec.mechanism().name;
        let driver = self.first_cpufreq_driver();
        // These drivers choose frequencies themselves, and give the names `performance` and `powersave` another
        // meaning.
        let active = matches!(driver.as_deref(), Some("intel_pstate" | ACTIVE_AMD_DRIVER));
        match name {
            "intel_pstate" | "intel_pstate-hwp" => self.add_wanted_intel_pstate_settings(driver),
            "powersave" if active => Err(self.policy_error(
                "this driver's powersave scales with the load; intel_pstate-hwp or epp[value=power] asks for \
                 that, frequency[max=...] for the lowest frequency",
            )),
            _ => {
                if let Some((key, _)) = self.spec.given_keys().next() {
                    return Err(self.policy_error(format!(
                        "no running kernel lets `{key}` be set; it exists in the simulator"
                    )));
                }
                self.add_wanted_value_at_selected_places("frequency-governor", name)
            }
        }
    }

    /// Asks for intel_pstate's algorithm `powersave`, which scales with the load.
    fn add_wanted_intel_pstate_settings(
        &mut self,
        driver: Option<String>,
    ) -> Result<(), SettingsError> {
        if driver.as_deref() != Some("intel_pstate") {
            let other = driver.unwrap_or_else(|| "none".to_owned());
            // The driver's name in passive mode.
            let is_passive = other == "intel_cpufreq";
            let is_off = INTEL_PSTATE.is_on_command_line(self.system, "disable");
            let advice = if is_passive || is_off {
                let word = INTEL_PSTATE.advise_value("active");
                format!(". The mode is chosen at boot: {word}")
            } else {
                String::new()
            };
            return Err(self.policy_error(format!(
                "needs the cpufreq driver intel_pstate in active mode; this machine's driver is {other}{advice}"
            )));
        }
        let wants_hwp = self.spec.mechanism().name == "intel_pstate-hwp";
        if wants_hwp != runs_intel_hwp(self.system) {
            let why = if !wants_hwp {
                format!(
                    "needs intel_pstate without hardware-managed clocks (HWP); this machine's has them, and intel_pstate-hwp is its policy. \
                     That is chosen at boot: {}",
                    INTEL_PSTATE.advise_value("no_hwp")
                )
            } else if INTEL_PSTATE.is_on_command_line(self.system, "no_hwp") {
                format!(
                    "needs intel_pstate with hardware-managed clocks (HWP), which intel_pstate=no_hwp on the kernel command line \
                     switches off. Instead: {}",
                    INTEL_PSTATE.advise_value("active")
                )
            } else {
                "needs intel_pstate with hardware-managed clocks (HWP); this machine shows neither energy_performance_preference nor \
                 hwp_dynamic_boost. HWP is off by intel_pstate=no_hwp on the kernel command line, or the processor has none; \
                 without that word the next boot has it, if the processor does"
                    .to_owned()
            };
            return Err(self.policy_error(why));
        }
        self.add_wanted_value_at_selected_places("frequency-governor", "powersave")?;
        for (key, value) in self.spec.given_keys() {
            match key {
                "epp" => self.add_wanted_energy_preference(value)?,
                "hwp_dynamic_boost" => self.add_wanted_hwp_boost(value == "on")?,
                _ => {
                    return Err(self.policy_error(format!("no running kernel lets `{key}` be set")));
                }
            }
        }
        Ok(())
    }

    /// Asks for an energy-performance preference, where the governor that will be in force accepts one.
    pub(super) fn add_wanted_energy_preference(
        &mut self,
        preference: &str,
    ) -> Result<(), SettingsError> {
        let comes_with_performance = Epp::parse(preference).and_then(Epp::number) == Some(0);
        let instead = match self.first_cpufreq_driver().as_deref() {
            Some("intel_pstate") => "intel_pstate-hwp",
            Some(ACTIVE_AMD_DRIVER) => "amd-pstate[governor=powersave]",
            _ => return self.add_wanted_value_at_selected_places("epp", preference),
        };
        if !comes_with_performance && self.will_any_cpu_run_performance_governor()? {
            return Err(self.policy_error(explain_preference_refusal_under_performance(instead)));
        }
        self.add_wanted_value_at_selected_places("epp", preference)
    }

    /// Whether some CPU whose preference is to be set will be under the governor `performance`.
    fn will_any_cpu_run_performance_governor(&self) -> Result<bool, SettingsError> {
        Ok(match self.set.frequency() {
            Some(FreqPolicy::Performance) => true,
            Some(FreqPolicy::AmdPstate(settings)) => settings.is_active_with_performance_governor(),
            Some(_) => false,
            None => {
                let mut places = self.selected_existing_places("epp", |_| true)?.into_iter();
                places.any(|at| self.runs_performance_governor(at))
            }
        })
    }

    /// Whether the governor of a frequency policy is `performance` now.
    fn runs_performance_governor(&self, policy_place: At) -> bool {
        let governor = SettingKey::for_matching_scope(
            setting::setting_known_to_exist("frequency-governor"),
            policy_place,
        );
        let path = governor.map(|key| key.relative_path()).unwrap_or_default();
        self.system.root().read_text_if_readable(&path).as_deref() == Some("performance")
    }

    /// The cpufreq driver of the first frequency policy.
    fn first_cpufreq_driver(&self) -> Option<String> {
        read_file_of_first_frequency_policy(self.system, "scaling_driver")
    }

    /// Asks for a governor of amd-pstate in the mode that is in force: changing the mode makes all frequency policies
    /// anew, with other values in all of their files.
    fn add_wanted_amd_pstate_settings(
        &mut self,
        settings: AmdPstateSettings,
    ) -> Result<(), SettingsError> {
        let mode = self.read_amd_pstate_mode();
        let wanted = settings.mode.name();
        if mode.as_deref() != Some(wanted) {
            let has = match mode.as_deref() {
                None => format!("this machine does not run amd-pstate (no /{AMD_PSTATE_STATUS})"),
                Some(mode) => format!("this machine's amd-pstate is in the mode {mode}"),
            };
            return Err(self.policy_error(format!(
                "needs amd-pstate in {wanted} mode; {has}. The mode is chosen at boot: {}",
                AMD_PSTATE.advise_value(wanted)
            )));
        }
        self.add_wanted_value_at_selected_places("frequency-governor", settings.governor.name())?;
        for (key, value) in self.spec.given_keys() {
            match key {
                "epp" => self.add_wanted_energy_preference(value)?,
                "boost" => {
                    self.add_wanted_value_at_selected_places(
                        "frequency-boost",
                        switch_as_digit(value == "on"),
                    )?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the mode of amd-pstate. Active mode is also known by the driver's name: a captured machine may lack the
    /// file.
    fn read_amd_pstate_mode(&self) -> Option<String> {
        let status = self.system.root().read_text_if_readable(AMD_PSTATE_STATUS);
        status.or_else(|| {
            let is_active = self.first_cpufreq_driver().as_deref() == Some(ACTIVE_AMD_DRIVER);
            is_active.then(|| AmdMode::Active.name().to_owned())
        })
    }

    /// Asks for clocks above the base clock to be on or off, by the file that the driver has.
    pub(super) fn add_wanted_turbo(&mut self, on: bool) -> Result<(), SettingsError> {
        let places = self.system.places_in_scope(SettingScope::CpufreqPolicy);
        let has_boost_by_policy = places.into_iter().any(|at| {
            SettingKey::for_matching_scope(setting_known_to_exist("frequency-boost"), at)
                .is_some_and(|key| self.system.root().exists(&key.relative_path()))
        });
        let no_turbo = setting_known_to_exist("no-turbo");
        if has_boost_by_policy {
            self.add_wanted_value_at_selected_places("frequency-boost", switch_as_digit(on))
        } else if self.system.root().exists(no_turbo.path) {
            self.add_wanted_value_at_selected_places("no-turbo", switch_as_digit(!on))
        } else {
            self.add_wanted_value_at_selected_places("boost", switch_as_digit(on))
        }
    }

    /// Asks for HWP's boosts after I/O to be on or off.
    pub(super) fn add_wanted_hwp_boost(&mut self, on: bool) -> Result<(), SettingsError> {
        self.add_wanted_value_at_selected_places("hwp-dynamic-boost", switch_as_digit(on))
    }
}

/// Whether intel_pstate in active mode leaves the clocks to the hardware. Only then the kernel makes either file
/// (`hwp_cpufreq_attrs` and `intel_pstate_sysfs_expose_hwp_dynamic_boost()`, `drivers/cpufreq/intel_pstate.c`, Linux 6.12).
pub(super) fn runs_intel_hwp(system: &System) -> bool {
    read_file_of_first_frequency_policy(system, "energy_performance_preference").is_some()
        || system
            .root()
            .exists(setting_known_to_exist("hwp-dynamic-boost").path)
}

/// Reads a file of the first frequency policy.
pub(super) fn read_file_of_first_frequency_policy(system: &System, file: &str) -> Option<String> {
    let first = system.active_cpufreq_policies().into_iter().next()?;
    let path = format!("{}/cpufreq/policy{first}/{file}", wakepath_system::CPUS);
    system.root().read_text_if_readable(&path)
}
