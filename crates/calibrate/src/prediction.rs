//! Differences between simulated and measured jobs.

use serde::Serialize;
use wakepath_hardware::machine::{MetricErrors, PredictionError, RankingAgreement};
use wakepath_measure::Conditions;
use wakepath_results::RunRecord;
use wakepath_units::median;

/// Latency, rate and power of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobFigures {
    /// Mean latency in us.
    pub mean_us: f64,
    /// 99th percentile of latency in us.
    pub p99_us: f64,
    /// Requests per second.
    pub iops: f64,
    /// Package power in mW; absent without counters or a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_mw: Option<f64>,
}

/// A job under a policy set, on the machine and in the simulator, over all rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JobPrediction {
    /// Name of the job, as the calibration prints it.
    pub job: String,
    /// Policy set under which the job ran.
    pub policy: String,
    /// Rounds of calibrating, predicting and measuring.
    pub rounds: Vec<PredictionRound>,
}

/// Power of the packages in a job: measured, and simulated with the calibrated machine, in medians over rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerPrediction {
    /// Power on the machine in mW.
    pub live_mw: f64,
    /// Power in the simulator in mW.
    pub simulated_mw: f64,
    /// By how many per cent the simulation is above the machine.
    pub error_percent: f64,
    /// Difference without sign between any two runs on the machine in per cent; `None` with a single run.
    pub itself_percent: Option<f64>,
    /// Error of the simulation with the machine as captured; `None` if that has no figures of power.
    pub uncalibrated_percent: Option<f64>,
}

/// A job in a round: measured, and simulated with what the round's calibration found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictionRound {
    /// Each run on the machine.
    pub live: Vec<JobFigures>,
    /// The job in the simulator, with the calibrated machine.
    pub simulated: JobFigures,
    /// The same with the machine as captured.
    pub uncalibrated: JobFigures,
}

impl JobFigures {
    /// Median figures over runs; `None` without runs.
    pub(crate) fn median_of_runs(runs: &[RunRecord]) -> Option<Self> {
        let all: Option<Vec<Self>> = runs.iter().map(Self::from_run).collect();
        Self::median_of(all?)
    }

    /// Figures of a run; `None` if the run lacks a figure.
    pub(crate) fn from_run(run: &RunRecord) -> Option<Self> {
        let mean = find_power(run, "mean_mw");
        let without_drive = mean.map(|mw| mw - find_metric(run, "drive_mw").unwrap_or(0.0));
        Some(Self {
            mean_us: find_metric(run, "mean_us")?,
            p99_us: find_metric(run, "p99_us")?,
            iops: find_metric(run, "iops")?,
            package_mw: find_power(run, "package_mw").or(without_drive),
        })
    }

    fn median_of(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let all: Vec<Self> = all.into_iter().collect();
        Some(Self {
            mean_us: median(all.iter().map(|figures| figures.mean_us))?,
            p99_us: median(all.iter().map(|figures| figures.p99_us))?,
            iops: median(all.iter().map(|figures| figures.iops))?,
            package_mw: median(all.iter().filter_map(|figures| figures.package_mw)),
        })
    }

    /// By how many per cent these figures are above others: mean, p99, IOPS.
    pub fn percent_above(&self, other: &Self) -> [f64; 3] {
        let ratios = [
            self.mean_us / other.mean_us,
            self.p99_us / other.p99_us,
            self.iops / other.iops,
        ];
        ratios.map(|ratio| (ratio - 1.0) * 100.0)
    }

    /// By how many per cent the power is above another, if both are known.
    fn power_percent_above(&self, other: &Self) -> Option<f64> {
        let (own, other) = (self.package_mw?, other.package_mw?);
        Some((own / other - 1.0) * 100.0)
    }
}

impl JobPrediction {
    /// Medians over all runs on the machine; `None` without runs.
    pub fn median_on_machine(&self) -> Option<JobFigures> {
        JobFigures::median_of(self.live_runs())
    }

    /// Medians over rounds from simulations with the calibrated machine.
    pub fn median_simulated(&self) -> Option<JobFigures> {
        JobFigures::median_of(self.rounds.iter().map(|round| round.simulated))
    }

    /// Median signed errors in per cent of simulations with the calibrated machine, over rounds: mean, p99, IOPS.
    pub fn errors(&self) -> Option<[f64; 3]> {
        median_of_each(&self.errors_by_round(|round| round.simulated))
    }

    /// Median signed errors in per cent of simulations with the machine as captured.
    pub fn uncalibrated_errors(&self) -> Option<[f64; 3]> {
        median_of_each(&self.errors_by_round(|round| round.uncalibrated))
    }

    /// Median differences without sign between any two runs of the job on the machine; `None` with a single run.
    pub fn differences_from_itself(&self) -> Option<[f64; 3]> {
        let pairs = self.pairs_of_live_runs().into_iter();
        let differences: Vec<[f64; 3]> = pairs
            .map(|(one, other)| one.percent_above(&other).map(f64::abs))
            .collect();
        median_of_each(&differences)
    }

    /// Power of the packages; `None` if the machine counts no energy, or the simulator has no figures of power.
    pub fn package_power(&self) -> Option<PowerPrediction> {
        let pairs = self.pairs_of_live_runs().into_iter();
        let differences = pairs.filter_map(|(one, other)| one.power_percent_above(&other));
        Some(PowerPrediction {
            live_mw: self.median_on_machine()?.package_mw?,
            simulated_mw: self.median_simulated()?.package_mw?,
            error_percent: median(self.power_errors(|round| round.simulated))?,
            itself_percent: median(differences.map(f64::abs)),
            uncalibrated_percent: median(self.power_errors(|round| round.uncalibrated)),
        })
    }

    /// Every two runs of the job on the machine.
    fn pairs_of_live_runs(&self) -> Vec<(JobFigures, JobFigures)> {
        let runs: Vec<JobFigures> = self.live_runs().collect();
        let pairs = runs
            .iter()
            .enumerate()
            .flat_map(|(index, one)| runs[..index].iter().map(move |other| (*one, *other)));
        pairs.collect()
    }

    fn live_runs(&self) -> impl Iterator<Item = JobFigures> {
        self.rounds
            .iter()
            .flat_map(|round| round.live.iter().copied())
    }

    fn errors_by_round(&self, predicted: fn(&PredictionRound) -> JobFigures) -> Vec<[f64; 3]> {
        let errors = self.rounds.iter().filter_map(|round| {
            let live = JobFigures::median_of(round.live.iter().copied())?;
            Some(predicted(round).percent_above(&live))
        });
        errors.collect()
    }

    /// Signed errors of the power by round, in per cent.
    fn power_errors(&self, predicted: fn(&PredictionRound) -> JobFigures) -> Vec<f64> {
        let errors = self.rounds.iter().filter_map(|round| {
            let live = JobFigures::median_of(round.live.iter().copied())?;
            predicted(round).power_percent_above(&live)
        });
        errors.collect()
    }
}

/// The value of a run's metric by name; `None`: the run has no such metric.
pub(crate) fn find_metric(run: &RunRecord, name: &str) -> Option<f64> {
    let found = run.metrics.iter().find(|(metric, _)| metric == name);
    found.map(|(_, value)| *value)
}

/// A run's power by the name of the metric. A simulated machine without power has a mean of 0, as have counters of energy that
/// stand still.
fn find_power(run: &RunRecord, name: &str) -> Option<f64> {
    find_metric(run, name).filter(|mw| *mw > 0.0)
}

/// Median of each column; `None` without rows.
fn median_of_each(rows: &[[f64; 3]]) -> Option<[f64; 3]> {
    let medians = [0, 1, 2].map(|column| median(rows.iter().map(|row| row[column])));
    match medians {
        [Some(mean), Some(p99), Some(iops)] => Some([mean, p99, iops]),
        _ => None,
    }
}

/// Rounded to tenths of a per cent.
fn metric_errors(percents: [f64; 3]) -> MetricErrors {
    let [mean_percent, p99_percent, iops_percent] = percents.map(round_to_tenth);
    MetricErrors {
        mean_percent,
        p99_percent,
        iops_percent,
    }
}

fn round_to_tenth(percent: f64) -> f64 {
    (percent * 10.0).round() / 10.0
}

/// The median error over jobs and rounds under the first policy set; `None` without jobs.
pub fn prediction_error(
    jobs: &[JobPrediction],
    conditions: &Conditions,
) -> Option<PredictionError> {
    let policy = &jobs.first()?.policy;
    let compared: Vec<&JobPrediction> = jobs.iter().filter(|job| job.policy == *policy).collect();
    let error = median_error(&compared, |round| round.simulated)?;
    let itself: Vec<[f64; 3]> = compared
        .iter()
        .filter_map(|job| job.differences_from_itself())
        .collect();
    let power_errors = compared
        .iter()
        .flat_map(|job| job.power_errors(|round| round.simulated))
        .map(f64::abs);
    Some(PredictionError {
        jobs: compared.len(),
        rounds: compared.iter().map(|job| job.rounds.len()).max()?,
        mean_percent: error.mean_percent,
        p99_percent: error.p99_percent,
        iops_percent: error.iops_percent,
        package_percent: median(power_errors).map(round_to_tenth),
        date: conditions.date.clone(),
        kernel: conditions.kernel.clone(),
        ranking: compare_rankings(jobs),
        itself: median_of_each(&itself).map(metric_errors),
        uncalibrated: median_error(&compared, |round| round.uncalibrated),
    })
}

/// Median error without sign over jobs and rounds.
fn median_error(
    jobs: &[&JobPrediction],
    predicted: fn(&PredictionRound) -> JobFigures,
) -> Option<MetricErrors> {
    let errors: Vec<[f64; 3]> = jobs
        .iter()
        .flat_map(|job| job.errors_by_round(predicted))
        .map(|error| error.map(f64::abs))
        .collect();
    median_of_each(&errors).map(metric_errors)
}

/// Whether the first two policy sets rank alike, live and simulated, by mean latency. Jobs count whose sets differ by more
/// than the machine differs from itself. `None`: one policy set ran.
fn compare_rankings(jobs: &[JobPrediction]) -> Option<RankingAgreement> {
    let first = &jobs.first()?.policy;
    let mut agreement = RankingAgreement { jobs: 0, alike: 0 };
    let mut has_two = false;
    for one in jobs.iter().filter(|job| job.policy == *first) {
        let mut others = jobs.iter();
        let Some(other) = others.find(|job| job.job == one.job && job.policy != *first) else {
            continue;
        };
        has_two = true;
        let Some((live, simulated)) = mean_ratios(one, other) else {
            continue;
        };
        let noise = [one, other].map(|job| {
            let differences = job.differences_from_itself();
            differences.map_or(0.0, |[mean, ..]| mean)
        });
        if (live - 1.0).abs() * 100.0 > noise[0].max(noise[1]) {
            agreement.jobs += 1;
            agreement.alike += usize::from((live > 1.0) == (simulated > 1.0));
        }
    }
    has_two.then_some(agreement)
}

/// Mean latency of one prediction over that of another: on the machine, and simulated.
fn mean_ratios(one: &JobPrediction, other: &JobPrediction) -> Option<(f64, f64)> {
    Some((
        one.median_on_machine()?.mean_us / other.median_on_machine()?.mean_us,
        one.median_simulated()?.mean_us / other.median_simulated()?.mean_us,
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use wakepath_hardware::Machine;
    use wakepath_results::RunKey;

    use super::*;

    fn figures(mean_us: f64) -> JobFigures {
        JobFigures {
            mean_us,
            p99_us: 2.0 * mean_us,
            iops: 1e6 / mean_us,
            package_mw: None,
        }
    }

    fn conditions() -> Conditions {
        Conditions {
            date: "2026-11-27".to_owned(),
            kernel: "6.12.48".to_owned(),
            busy_percent: None,
            stolen_percent: None,
        }
    }

    pub(crate) fn prediction(policy: &str, live: &[f64], simulated: f64) -> JobPrediction {
        JobPrediction {
            job: "reads".to_owned(),
            policy: policy.to_owned(),
            rounds: vec![PredictionRound {
                live: live.iter().copied().map(figures).collect(),
                simulated: figures(simulated),
                uncalibrated: figures(150.0),
            }],
        }
    }

    #[test]
    fn the_error_of_a_prediction_is_the_median_over_jobs() {
        let jobs =
            [90.0, 104.0, 125.0].map(|simulated| prediction("unchanged", &[100.0], simulated));
        let error = prediction_error(&jobs, &conditions()).unwrap();
        assert!((error.mean_percent - 10.0).abs() < 1e-9);
        assert!((error.iops_percent - 11.1).abs() < 1e-9);
        assert_eq!(error.itself, None);
        assert!((error.uncalibrated.unwrap().mean_percent - 50.0).abs() < 1e-9);
        assert_eq!(
            error.to_string(),
            "mean within 10 %, p99 10 %, IOPS 11 % (3 jobs, 2026-11-27, Linux 6.12.48)"
        );
        assert_eq!(prediction_error(&[], &conditions()), None);
    }

    /// A run's record with latencies, and with these further metrics.
    fn record(power: &[(&str, f64)]) -> RunRecord {
        let key = RunKey {
            machine: "here".to_owned(),
            workload: "reads".to_owned(),
            policy: "unchanged".to_owned(),
            repeat: 0,
        };
        let latencies = [("mean_us", 100.0), ("p99_us", 200.0), ("iops", 1e4)];
        let metrics = latencies.iter().chain(power);
        RunRecord {
            metrics: metrics
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            ..RunRecord::new(key, None, 0, 0)
        }
    }

    /// A job's rounds from records: runs on the machine, and one with the calibrated and the captured machine each.
    fn prediction_from_records(rounds: &[([f64; 2], [RunRecord; 2])]) -> JobPrediction {
        let rounds = rounds.iter().map(|(live_mw, simulated)| {
            let live = live_mw.map(|mw| JobFigures::from_run(&record(&[("package_mw", mw)])));
            let [calibrated, captured] = simulated.each_ref().map(|run| {
                let runs = std::slice::from_ref(run);
                JobFigures::median_of_runs(runs).unwrap()
            });
            PredictionRound {
                live: live.into_iter().map(Option::unwrap).collect(),
                simulated: calibrated,
                uncalibrated: captured,
            }
        });
        JobPrediction {
            job: "reads".to_owned(),
            policy: "unchanged".to_owned(),
            rounds: rounds.collect(),
        }
    }

    /// A simulated run: the machine's power contains that of the drive, which RAPL does not count.
    fn simulated(package_mw: f64) -> RunRecord {
        record(&[("mean_mw", package_mw + 700.0), ("drive_mw", 700.0)])
    }

    #[test]
    fn the_error_of_watts_is_that_of_the_packages() {
        let job = prediction_from_records(&[
            ([3_900.0, 4_100.0], [simulated(4_400.0), simulated(6_000.0)]),
            ([4_000.0, 4_000.0], [simulated(3_200.0), simulated(6_400.0)]),
            ([5_000.0, 5_000.0], [simulated(5_500.0), simulated(7_500.0)]),
        ]);
        let power = job.package_power().unwrap();
        assert!((power.live_mw - 4_050.0).abs() < 1e-9, "{power:?}");
        assert!((power.simulated_mw - 4_400.0).abs() < 1e-9, "{power:?}");
        // +10, -20 and +10 %; as captured +50, +60 and +50 %.
        assert!((power.error_percent - 10.0).abs() < 1e-9, "{power:?}");
        let captured = power.uncalibrated_percent.unwrap();
        assert!((captured - 50.0).abs() < 1e-9, "{power:?}");
        assert!(power.itself_percent.unwrap() > 5.0, "{power:?}");

        let error = prediction_error(&[job], &conditions()).unwrap();
        assert_eq!(error.package_percent, Some(10.0));
        assert_eq!(
            error.to_string(),
            "mean within 0 %, p99 0 %, IOPS 0 %, package power 10 % (1 job, 3 rounds, 2026-11-27, Linux 6.12.48)"
        );
        let mut machine = Machine::find("laptop").unwrap();
        machine.prediction = Some(error);
        let text = machine.to_toml().unwrap();
        assert!(text.contains("package_percent = 10"), "{text}");
        let again = Machine::parse(&text, "the calibrated machine").unwrap();
        assert_eq!(again.prediction, machine.prediction);
    }

    #[test]
    fn watts_that_nobody_counts_have_no_error() {
        let [known, unknown] = [4_000.0, 0.0].map(|mw| record(&[("mean_mw", mw)]));
        for job in [
            // Counters that stand still, and a machine file without power.
            prediction_from_records(&[([0.0, 0.0], [known.clone(), known.clone()])]),
            prediction_from_records(&[([4_000.0, 4_000.0], [unknown.clone(), unknown.clone()])]),
        ] {
            assert_eq!(job.package_power(), None);
            let error = prediction_error(&[job], &conditions()).unwrap();
            assert_eq!(error.package_percent, None);
            assert!(!error.to_string().contains("power"), "{error}");
        }
        let as_captured = prediction_from_records(&[([4_000.0, 4_000.0], [known, unknown])]);
        let power = as_captured.package_power().unwrap();
        assert!(power.error_percent.abs() < 1e-9 && power.uncalibrated_percent.is_none());
    }

    #[test]
    fn the_machine_is_compared_with_itself() {
        let runs = [prediction("unchanged", &[100.0, 110.0], 105.0)];
        let itself = prediction_error(&runs, &conditions())
            .unwrap()
            .itself
            .unwrap();
        assert!((itself.mean_percent - 10.0).abs() < 1e-9);
        assert!((itself.iops_percent - 9.1).abs() < 1e-9);
    }

    #[test]
    fn policies_rank_where_they_differ_by_more_than_the_machine_from_itself() {
        let clear = [
            prediction("unchanged", &[100.0, 101.0], 90.0),
            prediction("shallow", &[80.0, 80.0], 80.0),
        ];
        let ranking = prediction_error(&clear, &conditions()).unwrap().ranking;
        assert_eq!(ranking, Some(RankingAgreement { jobs: 1, alike: 1 }));
        let wrong = [
            prediction("unchanged", &[100.0, 101.0], 70.0),
            prediction("shallow", &[80.0, 80.0], 80.0),
        ];
        let ranking = prediction_error(&wrong, &conditions()).unwrap().ranking;
        assert_eq!(ranking, Some(RankingAgreement { jobs: 1, alike: 0 }));
        let noisy = [
            prediction("unchanged", &[70.0, 110.0], 70.0),
            prediction("shallow", &[80.0, 80.0], 80.0),
        ];
        let ranking = prediction_error(&noisy, &conditions()).unwrap().ranking;
        assert_eq!(ranking, Some(RankingAgreement { jobs: 0, alike: 0 }));
    }
}
