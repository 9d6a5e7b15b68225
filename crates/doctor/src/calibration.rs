//! Figures that `wakepath calibrate` measured on the machine under examination.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, MachineError, Origin};

/// An earlier calibration of the machine under examination.
#[derive(Clone, Debug)]
pub struct EarlierCalibration {
    /// The calibrated machine.
    pub machine: Machine,
    /// Its file, for the report.
    pub file: String,
    /// Keys of figures that are from another kernel, processor, firmware or drive, and are not taken.
    pub stale: Vec<String>,
}

impl EarlierCalibration {
    /// Puts the calibration's figures into a description of the machine as it is now. Returns notes for the report.
    ///
    /// # Errors
    /// The figures make no valid machine.
    pub(crate) fn apply_to(&self, machine: &mut Machine) -> Result<Vec<String>, MachineError> {
        let is_stale = |key: &str| self.stale.iter().any(|stale| stale == key);
        let taken = machine.take_calibrated_figures(&self.machine, is_stale);
        if taken.is_empty() {
            let why = "none of its measured figures belongs to this machine as it is now";
            return Ok(vec![format!(
                "the calibration {} is not used: {why}",
                self.file
            )]);
        }
        machine.check()?;
        let date = self.machine.calibrated_on.as_ref();
        let date = date.map_or_else(String::new, |on| format!(" of {}", on.date));
        let mut notes = vec![format!(
            "{} measured, by the calibration{date} ({}): {}",
            if taken.len() == 1 {
                "1 figure is".to_owned()
            } else {
                format!("{} figures are", taken.len())
            },
            self.file,
            taken.join(", ")
        )];
        notes.extend(self.machine.describe_prediction_error());
        Ok(notes)
    }
}

/// A state's declared exit latency in us in parentheses, with the measured ones: several where kinds of cores differ.
pub(crate) fn describe_exit(name: &str, declared_us: u64, machine: &Machine) -> String {
    let mut measured: Vec<String> = Vec::new();
    for cluster in &machine.cluster {
        let states = machine.idle_states_on_cluster(cluster);
        let state = states.iter().find(|state| state.name == name);
        if let Some(exit) = state.and_then(|state| measured_us(&state.true_exit_us))
            && !measured.contains(&exit)
        {
            measured.push(exit);
        }
    }
    if measured.is_empty() {
        return format!("{name} ({declared_us} us)");
    }
    let all_measured = measured.join(" and ");
    format!("{name} ({declared_us} us declared, {all_measured})")
}

/// A measured figure in us with its interval, if known; `None` for a figure of another origin.
fn measured_us(figure: &Figure) -> Option<String> {
    let Origin::Measured(measurement) = &figure.origin else {
        return None;
    };
    let interval = measurement
        .interval()
        .map_or_else(String::new, |(low, high)| {
            format!(", {low:.1} to {high:.1}")
        });
    Some(format!("{:.1} us measured{interval}", figure.value))
}
