//! Counters and sensors of the machine that are read for each page of metrics, outside of the daemon's loop.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use wakepath_measure::power::{PowerMeter, PowerSourceKind};
use wakepath_system::{AppliedSettings, System};

/// The machine, with what has to be remembered between two readings.
#[derive(Debug)]
pub(crate) struct MachineCounters {
    system: System,
    power: Mutex<PowerMeter>,
}

/// What a reading has shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineReading {
    /// Time in each idle state since boot over all CPUs, in seconds, by the name of the state.
    pub idle_seconds: BTreeMap<String, f64>,
    /// Power of each source in watts: its name, its kind, the mean since the reading before. Sources overlap.
    pub power_watts: Vec<(String, &'static str, f64)>,
    /// Settings that `wakepath apply` has set for good; `None` if that cannot be read.
    pub applied: Option<AppliedSettings>,
}

impl MachineCounters {
    pub(crate) fn start(system: &System) -> Self {
        Self {
            power: Mutex::new(PowerMeter::start(system.root())),
            system: system.clone(),
        }
    }

    /// Reads everything: some files for each idle state of each CPU.
    pub(crate) fn read(&self) -> MachineReading {
        let mut idle_seconds: BTreeMap<String, f64> = BTreeMap::new();
        for cpu in self.system.cpus() {
            for count in self.system.read_idle_counts(cpu) {
                *idle_seconds.entry(count.state.name).or_default() += count.time_us as f64 / 1e6;
            }
        }
        let mut power = self.power.lock().unwrap_or_else(PoisonError::into_inner);
        let sources = power.mean_power_since_last_reading().into_iter();
        let power_watts = sources.map(|(source, milliwatts)| {
            let kind = match source.kind {
                PowerSourceKind::Rapl => "rapl",
                PowerSourceKind::Hwmon => "hwmon",
                PowerSourceKind::Battery => "battery",
                PowerSourceKind::Nvme => "nvme",
            };
            (source.name.clone(), kind, milliwatts / 1e3)
        });
        MachineReading {
            idle_seconds,
            power_watts: power_watts.collect(),
            applied: AppliedSettings::read(&self.system),
        }
    }
}
