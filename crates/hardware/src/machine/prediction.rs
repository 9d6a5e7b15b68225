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
    /// Rounds of calibrating, predicting and measuring. Absent: 1.
    #[serde(default = "one_round")]
    pub rounds: usize,
    /// Difference of the mean latency in per cent, without sign.
    pub mean_percent: f64,
    /// Difference of the 99th percentile of latency in per cent, without sign.
    pub p99_percent: f64,
    /// Difference of the request rate in per cent, without sign.
    pub iops_percent: f64,
    /// Difference of the packages' power in per cent, without sign. Absent: the machine has no counters of energy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_percent: Option<f64>,
    /// Day of the comparison: YYYY-MM-DD, in UTC.
    pub date: String,
    /// Release of the kernel that ran, as `uname -r` prints it.
    pub kernel: String,
    /// Whether policies rank on the machine as they do in simulations. Absent: one policy set ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranking: Option<RankingAgreement>,
    /// Differences of the machine from itself, between runs of one job. Absent: each job ran once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub itself: Option<MetricErrors>,
    /// Errors of the machine as captured, in the same rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncalibrated: Option<MetricErrors>,
}

/// Median differences in per cent, without sign.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricErrors {
    /// Difference of the mean latency.
    pub mean_percent: f64,
    /// Difference of the 99th percentile of latency.
    pub p99_percent: f64,
    /// Difference of the request rate.
    pub iops_percent: f64,
}

/// How often two policy sets rank on the machine as they do in simulations, by mean latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RankingAgreement {
    /// Jobs whose two policy sets differ by more than the machine differs from itself.
    pub jobs: usize,
    /// Those jobs for which the simulation names the same set as the faster one.
    pub alike: usize,
}

/// Number of rounds where a file gives none.
const fn one_round() -> usize {
    1
}

impl fmt::Display for MetricErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            mean_percent,
            p99_percent,
            iops_percent,
        } = self;
        write!(
            f,
            "mean within {mean_percent:.0} %, p99 {p99_percent:.0} %, IOPS {iops_percent:.0} %"
        )
    }
}

impl PredictionError {
    /// Differences between prediction and machine, of the three metrics that every job has.
    pub const fn metric_errors(&self) -> MetricErrors {
        MetricErrors {
            mean_percent: self.mean_percent,
            p99_percent: self.p99_percent,
            iops_percent: self.iops_percent,
        }
    }
}

impl fmt::Display for PredictionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.metric_errors())?;
        if let Some(percent) = self.package_percent {
            write!(f, ", package power {percent:.0} %")?;
        }
        if let Some(RankingAgreement { jobs, alike }) = self.ranking {
            write!(f, ", policies rank alike for {alike} of {jobs}")?;
        }
        let plural = if self.jobs == 1 { "" } else { "s" };
        write!(f, " ({} job{plural}, ", self.jobs)?;
        if self.rounds > 1 {
            write!(f, "{} rounds, ", self.rounds)?;
        }
        write!(f, "{}, Linux {})", self.date, self.kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;
    use crate::machine::DriveModel;

    #[test]
    fn nothing_was_predicted_with_another_drive() {
        let mut machine = Machine::find("laptop").unwrap();
        machine.prediction = Some(prediction_error());
        machine.drive.device = Some("nvme0".to_owned());
        machine.replace_drive_keeping_count(machine.drive.clone());
        let words = machine.describe_prediction_error().unwrap();
        assert!(words.starts_with("predictions on this machine: mean within 6 %"));
        machine.replace_drive_keeping_count(DriveModel::find("sn530").unwrap());
        assert_eq!(machine.describe_prediction_error(), None);
    }

    fn prediction_error() -> PredictionError {
        PredictionError {
            jobs: 4,
            rounds: 5,
            mean_percent: 6.0,
            p99_percent: 15.2,
            iops_percent: 0.4,
            package_percent: Some(9.0),
            date: "2026-11-27".to_owned(),
            kernel: "6.12.48".to_owned(),
            ranking: Some(RankingAgreement { jobs: 3, alike: 2 }),
            itself: Some(MetricErrors {
                mean_percent: 2.0,
                p99_percent: 9.0,
                iops_percent: 1.0,
            }),
            uncalibrated: None,
        }
    }

    #[test]
    fn a_machine_file_keeps_its_prediction_error() {
        let mut machine = Machine::find("laptop").unwrap();
        machine.prediction = Some(prediction_error());
        let text = machine.to_toml().unwrap();
        let again = Machine::parse(&text, "text").unwrap();
        assert_eq!(again.prediction, machine.prediction);
        assert_eq!(again.to_toml().unwrap(), text);
        assert_eq!(
            again.prediction.unwrap().to_string(),
            "mean within 6 %, p99 15 %, IOPS 0 %, package power 9 %, policies rank alike for 2 of 3 \
             (4 jobs, 5 rounds, 2026-11-27, Linux 6.12.48)"
        );
        let wrong = text.replace("jobs = 4", "jobs = -4");
        assert!(Machine::parse(&wrong, "text").is_err());
    }
}
