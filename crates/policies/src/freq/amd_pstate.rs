//! amd-pstate: how its three modes turn frequencies and utilisation into requests on the performance
//! scale of CPPC (Collaborative Processor Performance Control).
//!
//! Source: `drivers/cpufreq/amd-pstate.c`, Linux 6.12 and 7.3. The driver was rewritten between these two; which
//! release has which part was not compared, and every kernel from 6.15 counts as 7.3.

use serde::Serialize;
use wakepath_units::{KernelVersion, Kilohertz, Nanoseconds};

/// Time to leave between two frequency changes by amd-pstate, where the firmware names none and the
/// processor has no fast CPPC (`AMD_PSTATE_TRANSITION_DELAY`).
pub const TRANSITION_DELAY: Nanoseconds = Nanoseconds(1_000_000);

/// Mode of the driver (`/sys/devices/system/cpu/amd_pstate/status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum AmdMode {
    /// Active mode: the processor chooses the frequency, by an energy-performance preference.
    Active,
    /// Passive mode: a kernel governor chooses the frequency.
    Passive,
    /// Guided mode: the kernel's governor chooses the lowest frequency, the processor anything
    /// above.
    Guided,
}

impl AmdMode {
    /// Name in sysfs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Passive => "passive",
            Self::Guided => "guided",
        }
    }
}

/// Governor that chooses the performance within amd-pstate's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum AmdGovernor {
    /// The scheduler's utilisation signals decide; not in active mode.
    Schedutil,
    /// `performance`: in active mode, no less than the nominal performance and EPP 0; otherwise the
    /// highest frequency.
    Performance,
    /// `powersave`: in active mode, what the load asks for; otherwise the lowest frequency.
    Powersave,
}

impl AmdGovernor {
    /// Name in sysfs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Schedutil => "schedutil",
            Self::Performance => "performance",
            Self::Powersave => "powersave",
        }
    }
}

/// Settings of the amd-pstate driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AmdPstateSettings {
    /// Mode of the amd-pstate driver.
    pub mode: AmdMode,
    /// Governor within the driver's limits.
    pub governor: AmdGovernor,
    /// Energy-performance preference, 0 (performance) to 255 (power).
    pub epp: u8,
    /// Whether frequencies above the nominal one may be used.
    pub boost: bool,
    /// Kernel version of the amd-pstate driver, which decides its rules.
    pub kernel: KernelVersion,
}

impl AmdPstateSettings {
    /// Whether amd-pstate runs in active mode under `performance`: the processor then chooses from
    /// the nominal frequency up, and nobody can change the preference.
    pub fn is_active_with_performance_governor(&self) -> bool {
        (self.mode, self.governor) == (AmdMode::Active, AmdGovernor::Performance)
    }

    /// Whether amd-pstate runs in active mode under `powersave`, where a preference can be given.
    pub fn takes_preference(&self) -> bool {
        (self.mode, self.governor) == (AmdMode::Active, AmdGovernor::Powersave)
    }

    /// Whether the kernel has the older amd-pstate driver, before its rewrite in 6.15.
    fn is_before_linux_6_15(&self) -> bool {
        self.kernel.release() < (6, 15, 0)
    }

    /// Whether amd-pstate knows only passive mode, as in Linux 6.1: a request is not kept within
    /// the limits of the policy.
    fn has_only_passive_mode(&self) -> bool {
        self.kernel.release() < (6, 3, 0)
    }

    /// Energy-performance preference that the processor has in effect. In guided mode the newer
    /// driver writes 0 with each request; the older one leaves the field alone.
    pub fn epp_in_force(&self) -> u8 {
        match (self.mode, self.governor) {
            (AmdMode::Active, AmdGovernor::Performance) => 0,
            (AmdMode::Active, _) => self.epp,
            _ if self.is_before_linux_6_15() => self.epp,
            _ => 0,
        }
    }
}

/// CPPC performance scale of a CPU, as processor or firmware declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfScale {
    /// The highest performance, with boost.
    pub highest: u8,
    /// Performance that can be sustained with all cores busy.
    pub nominal: u8,
    /// Performance below which a lower frequency saves less energy than it costs performance.
    pub lowest_nonlinear: u8,
    /// The lowest performance.
    pub lowest: u8,
    /// The frequency at the nominal performance, in kHz; not 0.
    pub nominal_khz: u32,
    /// Lowest frequency declared by firmware, in kHz; the older driver's lowest frequency.
    pub lowest_khz: u32,
    /// Lowest performance that the firmware asks for; 0: none.
    pub firmware_minimum: u8,
}

/// Fields of a CPU's CPPC request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The least performance.
    pub minimum: u8,
    /// Performance to have; 0: the processor chooses.
    pub desired: u8,
    /// The most performance.
    pub maximum: u8,
}

/// The amd-pstate driver on a CPU.
#[derive(Clone, Copy, Debug)]
pub struct AmdPstate {
    scale: PerfScale,
    settings: AmdPstateSettings,
    /// Whether the processor can boost, and the firmware lets it.
    boost_supported: bool,
    /// Lower limit of the policy in force, on the performance scale.
    lowest: u8,
    highest: u8,
}

impl AmdPstate {
    /// The amd-pstate driver with its initial limits: everything from the lowest frequency up; for
    /// the newer driver, from the lowest non-linear frequency.
    pub fn new(scale: PerfScale, settings: AmdPstateSettings, boost_supported: bool) -> Self {
        let mut driver = Self {
            scale,
            settings,
            boost_supported,
            lowest: scale.lowest,
            highest: scale.highest,
        };
        driver.set_policy_limits(
            driver.initial_minimum_frequency(),
            driver.highest_policy_frequency(),
        );
        driver
    }

    /// Sets the frequency limits of the policy, clamped to the driver's range
    /// (`amd_pstate_update_min_max_limit()`).
    pub fn set_policy_limits(&mut self, minimum: Kilohertz, maximum: Kilohertz) {
        let performance = self.settings.mode == AmdMode::Active
            && self.settings.governor == AmdGovernor::Performance;
        let scale = self.scale;
        if self.settings.is_before_linux_6_15() {
            self.lowest = self
                .performance_limit_before_6_15(minimum)
                .max(scale.lowest);
            self.highest = self.performance_limit_before_6_15(maximum).max(self.lowest);
            if performance {
                self.lowest = scale.nominal.min(self.highest);
            }
        } else {
            self.highest = self.performance_at_frequency(maximum);
            self.lowest = if performance {
                let wanted = match scale.firmware_minimum {
                    0 => scale.nominal,
                    firmware => firmware,
                };
                wanted.min(self.highest)
            } else {
                self.performance_at_frequency(minimum)
            };
        }
    }

    /// Performance that the older driver sets as the limit for a frequency: a share of the range in
    /// force, which ends at the nominal frequency without boost.
    fn performance_limit_before_6_15(&self, frequency: Kilohertz) -> u8 {
        let highest = if self.boost_supported && !self.settings.boost {
            self.scale.nominal
        } else {
            self.scale.highest
        };
        let scaled = frequency.0.wrapping_mul(u32::from(highest));
        (scaled / self.highest_policy_frequency().0.max(1)).min(u32::from(u8::MAX)) as u8
    }

    /// Performance for a frequency: rounded up by the newer driver, to the nearest by the older
    /// one.
    pub fn performance_at_frequency(&self, frequency: Kilohertz) -> u8 {
        let scale = self.scale;
        let khz = u64::from(frequency.0);
        if self.settings.is_before_linux_6_15() {
            let top = u64::from(self.boosted_frequency().0.max(1));
            let nearest = (khz * u64::from(scale.highest) + top / 2) / top;
            return nearest.min(u64::from(u8::MAX)) as u8;
        }
        let scaled = khz * u64::from(scale.nominal);
        // As in the kernel, only 32 bits of the performance are kept.
        let exact = scaled.div_ceil(u64::from(scale.nominal_khz.max(1))) as u32;
        clamp_performance_upper_end_wins(exact, scale.lowest, scale.highest)
    }

    /// Frequency of the CPU at a performance level.
    pub fn frequency_at_performance(&self, performance: u8) -> Kilohertz {
        self.scale.frequency_at_performance(performance)
    }

    /// Highest frequency with boost, as amd-pstate reckons it.
    pub fn boosted_frequency(&self) -> Kilohertz {
        if self.settings.is_before_linux_6_15() {
            self.frequency_at_performance_before_6_15(self.scale.highest)
        } else {
            self.frequency_at_performance(self.scale.highest)
        }
    }

    /// Lowest non-linear frequency, as amd-pstate reckons it.
    pub fn lowest_nonlinear_frequency(&self) -> Kilohertz {
        if self.settings.is_before_linux_6_15() {
            self.frequency_at_performance_before_6_15(self.scale.lowest_nonlinear)
        } else {
            self.frequency_at_performance(self.scale.lowest_nonlinear)
        }
    }

    /// Settings of the amd-pstate driver.
    pub fn settings(&self) -> &AmdPstateSettings {
        &self.settings
    }

    /// Whether amd-pstate accepts the CPU's performance scale (`amd_pstate_init_freq()`); with an
    /// impossible one it does not load.
    pub fn accepts_performance_scale(&self) -> bool {
        let scale = self.scale;
        let (lowest, nonlinear) = (scale.lowest_khz, self.lowest_nonlinear_frequency().0);
        if self.settings.has_only_passive_mode() {
            // With a highest frequency of 0 the amd-pstate driver loads, and requests nothing.
            return self.boosted_frequency().0 > 0 && lowest <= self.boosted_frequency().0;
        }
        let lowest_fits = if self.settings.is_before_linux_6_15() {
            lowest < nonlinear
        } else {
            lowest <= nonlinear
        };
        let highest = self.boosted_frequency().0;
        let positive = lowest > 0 && scale.nominal_khz > 0 && highest > 0;
        positive && lowest <= highest && lowest_fits && nonlinear <= scale.nominal_khz
    }

    /// Lowest frequency that an amd-pstate policy can have.
    pub fn lowest_policy_frequency(&self) -> Kilohertz {
        if self.settings.is_before_linux_6_15() {
            Kilohertz(self.scale.lowest_khz)
        } else {
            self.frequency_at_performance(self.scale.lowest)
        }
    }

    /// Highest frequency that amd-pstate allows: the nominal one while boost is switched off.
    pub fn highest_policy_frequency(&self) -> Kilohertz {
        let boosted = self.boosted_frequency();
        if self.boost_supported && !self.settings.boost {
            boosted.min(Kilohertz(self.scale.nominal_khz))
        } else {
            boosted
        }
    }

    /// Lowest frequency that an amd-pstate policy begins with.
    pub fn initial_minimum_frequency(&self) -> Kilohertz {
        if self.settings.is_before_linux_6_15() {
            Kilohertz(self.scale.lowest_khz)
        } else {
            match self.scale.firmware_minimum {
                0 => self.lowest_nonlinear_frequency(),
                firmware => self.frequency_at_performance(firmware),
            }
        }
    }

    /// Frequency at a performance as the older driver reckons: in whole MHz, with a ratio of ten
    /// binary places.
    fn frequency_at_performance_before_6_15(&self, performance: u8) -> Kilohertz {
        let nominal = u32::from(self.scale.nominal.max(1));
        let ratio = (u32::from(performance) << 10) / nominal;
        let mhz = (self.scale.nominal_khz / 1000).wrapping_mul(ratio) >> 10;
        Kilohertz(mhz.wrapping_mul(1000))
    }

    /// CPPC request for running at a frequency (`amd_pstate_update_freq()`). `changes_continually`: the
    /// governor changes the frequency continually.
    pub fn request_for_frequency(&self, target: Kilohertz, changes_continually: bool) -> Request {
        let desired = self.performance_at_frequency(target);
        if self.settings.is_before_linux_6_15() {
            self.request_within_policy_limits(
                (self.scale.lowest, desired, self.scale.highest),
                changes_continually,
            )
        } else {
            self.request_within_policy_limits(
                (self.lowest, desired, self.highest),
                changes_continually,
            )
        }
    }

    /// CPPC request for schedutil (`amd_pstate_adjust_perf()`): `least` and `target` are
    /// utilisations out of `capacity`. `changes_continually`: the governor changes the frequency continually.
    pub fn request_for_utilisation(
        &self,
        least: u64,
        target: u64,
        capacity: u64,
        changes_continually: bool,
    ) -> Request {
        let scale = self.scale;
        let desired = scale
            .performance_if_below_capacity(target, capacity)
            .unwrap_or(scale.highest);
        if self.settings.is_before_linux_6_15() {
            let minimum = scale
                .performance_if_below_capacity(least, capacity)
                .unwrap_or(scale.lowest)
                .max(scale.lowest_nonlinear);
            let maximum = scale.highest.max(minimum);
            let desired = clamp_performance_upper_end_wins(u32::from(desired), minimum, maximum);
            self.request_within_policy_limits((minimum, desired, maximum), changes_continually)
        } else {
            let minimum = scale
                .performance_if_below_capacity(least, capacity)
                .unwrap_or(scale.highest)
                .max(self.lowest);
            self.request_within_policy_limits(
                (minimum, desired, self.highest.max(minimum)),
                changes_continually,
            )
        }
    }

    /// CPPC request in active mode: the limits, with no desired performance
    /// (`amd_pstate_epp_update_limit()`).
    pub fn request_in_active_mode(&self) -> Request {
        Request {
            minimum: self.lowest,
            desired: 0,
            maximum: self.highest,
        }
    }

    /// Caps a performance at the nominal one if the processor cannot boost.
    fn cap_at_nominal_if_boost_unsupported(&self, performance: u8) -> u8 {
        if self.boost_supported {
            performance
        } else {
            performance.min(self.scale.nominal)
        }
    }

    /// CPPC request for minimum, desired and maximum performance, kept within the policy's limits;
    /// in guided mode the desired performance becomes the minimum (`amd_pstate_update()`).
    fn request_within_policy_limits(
        &self,
        (mut minimum, desired, mut maximum): (u8, u8, u8),
        changes_continually: bool,
    ) -> Request {
        if self.settings.has_only_passive_mode() {
            return Request {
                minimum,
                desired: clamp_performance_upper_end_wins(u32::from(desired), minimum, maximum),
                maximum,
            };
        }
        if self.settings.is_before_linux_6_15() {
            minimum =
                clamp_performance_upper_end_wins(u32::from(minimum), self.lowest, self.highest);
            maximum =
                clamp_performance_upper_end_wins(u32::from(maximum), self.lowest, self.highest);
        } else {
            maximum = self.cap_at_nominal_if_boost_unsupported(maximum);
        }
        let mut desired = clamp_performance_upper_end_wins(u32::from(desired), minimum, maximum);
        if self.settings.mode == AmdMode::Guided && changes_continually {
            (minimum, desired) = (desired, 0);
        }
        Request {
            minimum,
            desired,
            // The older driver has used the desired performance before this cap.
            maximum: self.cap_at_nominal_if_boost_unsupported(maximum),
        }
    }
}

impl PerfScale {
    /// Performance for a utilisation, rounded up; `None` if the utilisation is not below the
    /// capacity.
    fn performance_if_below_capacity(&self, utilisation: u64, capacity: u64) -> Option<u8> {
        let scaled = u64::from(self.highest) * utilisation;
        (utilisation < capacity).then(|| scaled.div_ceil(capacity) as u8)
    }

    /// Frequency at a performance, rounded up.
    pub fn frequency_at_performance(&self, performance: u8) -> Kilohertz {
        let scaled = u64::from(self.nominal_khz) * u64::from(performance);
        Kilohertz(scaled.div_ceil(u64::from(self.nominal.max(1))) as u32)
    }
}

/// Clamps a performance as the kernel does: the upper end wins, even if it is below the lower end.
fn clamp_performance_upper_end_wins(value: u32, lowest: u8, highest: u8) -> u8 {
    if value >= u32::from(highest) {
        highest
    } else if value <= u32::from(lowest) {
        lowest
    } else {
        value as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An EPYC 9555, as recorded.
    const TURIN: PerfScale = PerfScale {
        highest: 255,
        nominal: 185,
        lowest_nonlinear: 133,
        lowest: 70,
        nominal_khz: 3_200_000,
        lowest_khz: 1_200_000,
        firmware_minimum: 0,
    };

    fn settings(mode: AmdMode, kernel: KernelVersion) -> AmdPstateSettings {
        AmdPstateSettings {
            mode,
            governor: match mode {
                AmdMode::Active => AmdGovernor::Powersave,
                _ => AmdGovernor::Schedutil,
            },
            epp: 128,
            boost: true,
            kernel,
        }
    }

    fn driver(mode: AmdMode) -> AmdPstate {
        AmdPstate::new(TURIN, settings(mode, KernelVersion::V7_3), true)
    }

    #[test]
    fn frequencies_are_those_that_were_recorded() {
        let driver = driver(AmdMode::Active);
        assert_eq!(driver.highest_policy_frequency(), Kilohertz(4_410_811));
        assert_eq!(
            driver.frequency_at_performance(TURIN.lowest),
            Kilohertz(1_210_811)
        );
        assert_eq!(driver.performance_at_frequency(Kilohertz(4_410_811)), 255);
        let older = AmdPstate::new(TURIN, settings(AmdMode::Active, KernelVersion::V6_12), true);
        assert_eq!(older.highest_policy_frequency(), Kilohertz(4_409_000));
    }

    fn request_at_640(mode: AmdMode) -> Request {
        driver(mode).request_for_utilisation(0, 640, 1024, true)
    }

    #[test]
    fn each_mode_asks_for_what_its_rule_says() {
        // The lowest non-linear frequency, rounded up, is performance 134.
        let (minimum, desired, maximum) = (134, 160, 255);
        let passive = Request {
            minimum,
            desired,
            maximum,
        };
        assert_eq!(request_at_640(AmdMode::Passive), passive);
        let guided = Request {
            minimum: 160,
            desired: 0,
            maximum,
        };
        assert_eq!(request_at_640(AmdMode::Guided), guided);
        let active = Request {
            desired: 0,
            ..passive
        };
        assert_eq!(driver(AmdMode::Active).request_in_active_mode(), active);
        // Little load is never below the lowest non-linear performance.
        assert_eq!(
            driver(AmdMode::Passive)
                .request_for_utilisation(0, 10, 1024, true)
                .desired,
            134
        );
    }

    #[test]
    fn performance_keeps_the_nominal_frequency_and_no_boost_ends_there() {
        let mut fastest = settings(AmdMode::Active, KernelVersion::V7_3);
        fastest.governor = AmdGovernor::Performance;
        let driver = AmdPstate::new(TURIN, fastest, true);
        assert_eq!(driver.request_in_active_mode().minimum, 185);
        assert_eq!(fastest.epp_in_force(), 0);
        for kernel in [KernelVersion::V6_12, KernelVersion::V7_3] {
            let mut without_boost = settings(AmdMode::Passive, kernel);
            without_boost.boost = false;
            let most = AmdPstate::new(TURIN, without_boost, true)
                .request_for_utilisation(0, 1024, 1024, true);
            assert_eq!((most.desired, most.maximum), (185, 185), "{kernel}");
        }
    }

    proptest! {
        #[test]
        fn more_utilisation_never_asks_for_less_and_all_stay_on_the_scale(
            levels in prop::array::uniform4(1_u8..),
            nominal_khz in 1_000_000_u32..6_000_000,
            (a, b) in (0_u64..1500, 0_u64..1500),
            mode in 0_usize..2,
            boost in any::<bool>(),
            supported in any::<bool>(),
            older in any::<bool>(),
        ) {
            let mut levels = levels;
            levels.sort_unstable();
            let [lowest, lowest_nonlinear, nominal, highest] = levels;
            let scale = PerfScale {
                highest, nominal, lowest_nonlinear, lowest, nominal_khz,
                lowest_khz: (u64::from(nominal_khz) * u64::from(lowest) / u64::from(nominal)) as u32,
                firmware_minimum: 0,
            };
            let kernel = if older { KernelVersion::V6_12 } else { KernelVersion::V7_3 };
            let mode = [AmdMode::Passive, AmdMode::Guided][mode];
            let settings = AmdPstateSettings { boost, ..settings(mode, kernel) };
            let driver = AmdPstate::new(scale, settings, supported);
            let [less, more] = [a.min(b), a.max(b)].map(|utilisation| driver.request_for_utilisation(0, utilisation, 1024, true));
            for request in [less, more] {
                prop_assert!(request.minimum >= lowest && request.maximum <= highest);
            }
            prop_assert!(less.desired.max(less.minimum) <= more.desired.max(more.minimum));
        }
    }
}
