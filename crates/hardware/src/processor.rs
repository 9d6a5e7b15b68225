//! The processors of the recorded systems: sockets, cores, threads, clocks and thermal design power.
//!
//! A plain figure was reported by the system itself: by processor registers, `/proc` or `/sys`. Thermal design power
//! is mostly the product's rating, and marked as assumed.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::machine::{Cppc, Figure, Origin};
use crate::recorded::RecordError;

const PROCESSORS: &str = include_str!("../data/recorded_systems/processors.toml");
const FILE: &str = "processors.toml";

/// The processors of a recorded system, all alike.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    /// Name of the recorded system that has the processors.
    pub system: String,
    /// Number of sockets.
    pub sockets: usize,
    /// Number of enabled cores per socket, all kinds together.
    pub cores: usize,
    /// Number of efficiency cores among the cores; each has one thread.
    #[serde(default)]
    pub efficiency_cores: usize,
    /// Hardware threads per core; on hybrid processors, per performance core.
    pub threads_per_core: usize,
    /// The highest clock without turbo, in MHz.
    #[serde(default)]
    pub base_mhz: Figure,
    /// Highest clocks by the number of active cores of a socket: up to so many cores, so many MHz. Empty: not known.
    #[serde(default)]
    pub turbo: Vec<(usize, u32)>,
    /// Thermal design power of a socket in W.
    #[serde(default)]
    pub tdp_w: Figure,
    /// Rated maximum turbo power of a socket in W, where the processor has such a rating.
    #[serde(default)]
    pub max_turbo_w: Figure,
    /// Power limits per socket from MSR 610h: watts and seconds for PL1, then PL2.
    #[serde(default)]
    pub power_limits: Option<[(f64, f64); 2]>,
    /// Lowest and highest clock of the uncore, in MHz.
    #[serde(default)]
    pub uncore_mhz: Option<(u32, u32)>,
    /// Energy-performance preference in force, 0 to 255.
    #[serde(default)]
    pub epp: Option<u8>,
    /// The CPPC performance scale, from `acpi_cppc` in sysfs.
    #[serde(default)]
    pub cppc: Option<Cppc>,
    /// Further remarks.
    #[serde(default)]
    pub note: Option<String>,
    /// Path in the recording's repository, and the files and registers there with the plain figures.
    pub source: String,
}

impl Processor {
    /// Number of CPUs (hardware threads) per socket.
    pub fn cpus_per_socket(&self) -> usize {
        (self.cores - self.efficiency_cores) * self.threads_per_core + self.efficiency_cores
    }

    /// Number of CPUs in the system.
    pub fn cpus(&self) -> usize {
        self.sockets * self.cpus_per_socket()
    }

    /// Whether the processor has two kinds of cores.
    pub fn is_hybrid(&self) -> bool {
        self.efficiency_cores > 0
    }

    /// Whether the thermal design power is assumed.
    pub fn tdp_is_assumed(&self) -> bool {
        matches!(self.tdp_w.origin, Origin::Assumed(_))
    }

    fn first_fault(&self) -> Option<&'static str> {
        let counts = [self.sockets, self.cores, self.threads_per_core];
        if counts.contains(&0) || counts.iter().any(|n| *n > 4096) {
            Some("sockets, cores and threads_per_core are between 1 and 4096")
        } else if self.efficiency_cores >= self.cores {
            Some("efficiency_cores are fewer than cores")
        } else if self
            .turbo
            .windows(2)
            .any(|w| w[0].0 >= w[1].0 || w[0].1 <= w[1].1)
            || self.turbo.last().is_some_and(|(n, _)| *n > self.cores)
        {
            Some("turbo goes from few to many cores of a socket, each clock below the one before")
        } else if self.power_limits.is_some_and(|[(pl1, tau), (pl2, short)]| {
            !(0.0 < pl1 && pl1 <= pl2 && 0.0 < short && short <= tau)
        }) {
            Some("power_limits are watts and seconds of PL1, then of PL2")
        } else if self
            .uncore_mhz
            .is_some_and(|(lowest, highest)| lowest > highest)
        {
            Some("uncore_mhz is the lowest and the highest clock")
        } else {
            None
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Processors {
    processor: Vec<Processor>,
}

/// Processors of all recorded systems.
#[expect(
    clippy::expect_used,
    reason = "the data is part of the build and tested"
)]
fn builtin_processors() -> &'static [Processor] {
    static ALL: OnceLock<Vec<Processor>> = OnceLock::new();
    ALL.get_or_init(|| parse_processors(PROCESSORS).expect("the processors are well-formed"))
}

/// The processors of the recorded system with this name, if they are known.
pub(crate) fn find_processor_of_system(system: &str) -> Option<&'static Processor> {
    builtin_processors().iter().find(|p| p.system == system)
}

/// Reads `processors.toml`.
fn parse_processors(text: &str) -> Result<Vec<Processor>, RecordError> {
    let all: Processors = toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |s| s.start);
        error_on_line_of_byte(text, at, e.message().to_owned())
    })?;
    for processor in &all.processor {
        if let Some(what) = processor.first_fault() {
            let name = format!("system = \"{}\"", processor.system);
            let at = text.find(&name).unwrap_or(0);
            return Err(error_on_line_of_byte(text, at, what.to_owned()));
        }
    }
    Ok(all.processor)
}

/// An error about the line of `text` that has the byte `at`.
fn error_on_line_of_byte(text: &str, at: usize, what: String) -> RecordError {
    RecordError {
        file: FILE,
        line: text[..at.min(text.len())].matches('\n').count() as u64 + 1,
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;

    #[test]
    fn every_recorded_system_has_its_processors_and_each_once() {
        let mut with_processors: Vec<&str> = builtin_processors()
            .iter()
            .map(|p| p.system.as_str())
            .collect();
        let systems = recorded::builtin_recorded_systems().iter();
        let mut recorded: Vec<&str> = systems.map(|s| s.name.as_str()).collect();
        with_processors.sort_unstable();
        recorded.sort_unstable();
        assert_eq!(with_processors, recorded);
    }

    #[test]
    fn the_record_and_the_processor_agree() {
        for system in recorded::builtin_recorded_systems() {
            let p = system.processor.as_ref().unwrap();
            assert!(p.source.contains(&format!("emul-data/{}:", system.name)));
            // The recording of idle states is cut short at 66 CPUs.
            if let Some(idle) = &system.idle {
                assert_eq!(idle.recorded_cpus, p.cpus().min(66), "{}", system.name);
            }
            // The highest clock is turbo's, where the kernel knows it: acpi-cpufreq has a placeholder.
            let highest = system.frequency.iter().map(|f| f.max.0 / 1000).max();
            if let (Some((_, turbo)), "intel_pstate") =
                (p.turbo.first(), system.frequency[0].driver.as_str())
            {
                assert_eq!(Some(*turbo), highest, "{}", system.name);
            }
        }
    }

    #[test]
    fn sockets_cores_and_threads_are_the_real_ones() {
        for (name, sockets, cores, cpus, watts) in [
            ("spr1", 4, 40, 320, 330.0),
            ("clx4s0", 4, 24, 192, 165.0),
            ("gnr0", 2, 128, 512, 500.0),
            ("rome0", 2, 64, 256, 225.0),
            ("adl0", 1, 12, 16, 28.0),
            ("lnl0", 1, 8, 8, 17.0),
        ] {
            let p = find_processor_of_system(name).unwrap();
            assert_eq!((p.sockets, p.cores, p.cpus()), (sockets, cores, cpus));
            assert!((p.tdp_w.value - watts).abs() < 1e-9, "{name}");
        }
        let (adl, gnr3) = (
            find_processor_of_system("adl0").unwrap(),
            find_processor_of_system("gnr3").unwrap(),
        );
        assert_eq!(adl.efficiency_cores, 8);
        let spr1 = find_processor_of_system("spr1").unwrap();
        assert!(gnr3.tdp_is_assumed() && !spr1.tdp_is_assumed());
        assert_eq!(spr1.turbo.last(), Some(&(40, 3100)));
    }

    #[test]
    fn damaged_data_is_an_error_with_its_line() {
        for (from, to, says) in [
            ("sockets = 1", "sockets = 0", "between 1 and 4096"),
            ("efficiency_cores = 8", "efficiency_cores = 12", "fewer"),
            ("[3, 4000]", "[2, 4000]", "few to many"),
            ("[400, 4000]", "[4000, 400]", "lowest"),
            ("cores = 12", "cors = 12", "unknown field"),
        ] {
            let error = parse_processors(&PROCESSORS.replacen(from, to, 1)).unwrap_err();
            let message = error.to_string();
            let expected = message.starts_with("processors.toml:") && message.contains(says);
            assert!(expected, "{message}");
        }
    }
}
