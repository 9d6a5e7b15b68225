//! Simulated fleets: machines that differ, with day curves, weekends, noise that lasts, common noise, and gaps.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;
use wakepath_watch::canary::{FleetSeries, MachineSeries, UnixHour};

/// Autocorrelation of noise from hour to hour.
const AUTOCORRELATION: f64 = 0.9;

/// What machines report.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Reported {
    /// A sample of power each hour.
    Power,
    /// A histogram of latencies each hour.
    Latencies,
}

/// A fleet to simulate.
#[derive(Clone, Copy)]
pub(crate) struct FleetModel {
    pub(crate) machines: usize,
    pub(crate) hours: i64,
    /// The hour of the change, and its effect on changed machines as a share.
    pub(crate) change: i64,
    pub(crate) changed: usize,
    pub(crate) harm: f64,
    pub(crate) reported: Reported,
}

/// Noise with mean 0, standard deviation 1 and [`AUTOCORRELATION`].
struct LastingNoise(f64);

impl LastingNoise {
    fn new(random: &mut Pcg64Mcg) -> Self {
        Self(StandardNormal.sample(random))
    }

    fn step(&mut self, random: &mut Pcg64Mcg) -> f64 {
        let innovation: f64 = StandardNormal.sample(random);
        self.0 = AUTOCORRELATION * self.0 + (1.0 - AUTOCORRELATION.powi(2)).sqrt() * innovation;
        self.0
    }
}

/// Simulates a fleet; the first machines are the changed ones, `m000` and on.
pub(crate) fn simulate_fleet(model: FleetModel, seed: u64) -> FleetSeries {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut common = LastingNoise::new(&mut random);
    let shared: Vec<f64> = (0..model.hours)
        .map(|hour| {
            let weekend = if hour / 24 % 7 >= 5 { -0.2 } else { 0.0 };
            weekend + 0.1 * common.step(&mut random)
        })
        .collect();
    let mut series = FleetSeries::default();
    for machine in 0..model.machines {
        let values = simulate_machine(model, machine, &shared, &mut random);
        series.machines.insert(name_of_machine(machine), values);
    }
    series
}

pub(crate) fn name_of_machine(machine: usize) -> String {
    format!("m{machine:03}")
}

fn simulate_machine(
    model: FleetModel,
    machine: usize,
    shared: &[f64],
    random: &mut Pcg64Mcg,
) -> MachineSeries {
    let mut normal = || -> f64 { StandardNormal.sample(random) };
    let (level, unlike) = (0.5 * normal(), 0.5 * normal());
    let spread = 0.1 * unlike.exp();
    let amplitude = random.random_range(0.0..0.5);
    let phase = random.random_range(-3.0..3.0);
    let mut noise = LastingNoise::new(random);
    let gaps: Vec<(i64, i64)> = (0..random.random_range(0..4))
        .map(|_| {
            let begin = random.random_range(0..model.hours);
            (begin, begin + random.random_range(1..30))
        })
        .collect();
    let mut series = MachineSeries::default();
    for hour in 0..model.hours {
        let angle = (hour as f64 + phase) / 24.0 * std::f64::consts::TAU;
        let harm = if machine < model.changed && hour >= model.change {
            model.harm.ln_1p()
        } else {
            0.0
        };
        let log_value = level
            + amplitude * angle.sin()
            + shared[hour as usize]
            + spread * noise.step(random)
            + harm;
        let is_missing = gaps.iter().any(|(from, to)| (*from..*to).contains(&hour));
        if is_missing || random.random_range(0.0..1.0) < 0.02 {
            continue;
        }
        match model.reported {
            Reported::Power => series.add_sample(UnixHour(hour), 1000.0 * log_value.exp()),
            Reported::Latencies => add_latencies(&mut series, hour, log_value, angle.sin()),
        }
    }
    series
}

/// Adds requests with a log-logistic latency of median 100 us times e^`log_value`; busy hours have more requests.
fn add_latencies(series: &mut MachineSeries, hour: i64, log_value: f64, busy: f64) {
    let requests = 20_000.0 * (1.0 + 0.8 * busy);
    let share_below = |bound_us: f64| 1.0 / (1.0 + (bound_us / (100.0 * log_value.exp())).powi(-4));
    let mut low_us = 0.0;
    let mut below = 0.0;
    for step in 0..40 {
        let high_us = 20.0 * 1.2_f64.powi(step);
        let share = share_below(high_us);
        series.add_requests(
            UnixHour(hour),
            (low_us * 1e3) as u64,
            (high_us * 1e3) as u64,
            requests * (share - below),
        );
        (low_us, below) = (high_us, share);
    }
}
