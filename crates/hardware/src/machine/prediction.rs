//! How far predictions on a machine were from what it did.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Median differences between jobs run on the machine and the same jobs simulated, by `wakepath calibrate`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PredictionError {
    /// Jobs compared; no figure of the file was fitted to them.
    pub jobs: usize,
    /// Difference of the mean latency in per cent, without sign.
    pub mean_percent: f64,
    /// Difference of the 99th percentile of latency in per cent, without sign.
    pub p99_percent: f64,
    /// Difference of the request rate in per cent, without sign.
    pub iops_percent: f64,
    /// Day of the comparison: YYYY-MM-DD, in UTC.
    pub date: String,
    /// Release of the kernel that ran, as `uname -r` prints it.
    pub kernel: String,
}

impl fmt::Display for PredictionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            jobs,
            mean_percent,
            p99_percent,
            iops_percent,
            date,
            kernel,
        } = self;
        let plural = if *jobs == 1 { "" } else { "s" };
        write!(
            f,
            "mean within {mean_percent:.0} %, p99 {p99_percent:.0} %, IOPS {iops_percent:.0} % \
             ({jobs} job{plural}, {date}, Linux {kernel})"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    #[test]
    fn a_machine_file_keeps_its_prediction_error() {
        let mut machine = Machine::find("laptop").unwrap();
        machine.prediction = Some(PredictionError {
            jobs: 4,
            mean_percent: 6.0,
            p99_percent: 15.2,
            iops_percent: 0.4,
            date: "2026-11-27".to_owned(),
            kernel: "6.12.48".to_owned(),
        });
        let text = machine.to_toml().unwrap();
        let again = Machine::parse(&text, "text").unwrap();
        assert_eq!(again.prediction, machine.prediction);
        assert_eq!(again.to_toml().unwrap(), text);
        let wrong = text.replace("jobs = 4", "jobs = -4");
        assert!(Machine::parse(&wrong, "text").is_err());
    }
}
