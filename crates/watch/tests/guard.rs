//! How often intervals and guards are wrong, over simulated requests whose true latency is known.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;
use wakepath_watch::guard::{
    DriveLatencies, Guard, GuardEvent, LatencySlice, PutBackOutcome, WindowVerdict,
};
use wakepath_watch::{LatencyCounts, LatencyInterval, Quantile, mean_interval, quantile_interval};

/// Median latency in ns.
const MEDIAN_NS: f64 = 100_000.0;
/// Standard deviation of the logarithm of latency.
const SPREAD: f64 = 0.5;
/// Normal quantile of the 99th percentile.
const Z_99: f64 = 2.326_348;

/// How a request's latency depends on those before.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Every request by itself.
    Independent,
    /// Logarithms of neighbours are correlated by so much.
    Correlated(f64),
    /// Each slice has its own level: so many standard deviations of a request.
    BusySlices(f64),
}

/// A stream of latencies whose logarithm is normal with [`SPREAD`], whatever the load.
struct Requests {
    random: Pcg64Mcg,
    load: Load,
    last: f64,
    level: f64,
}

impl Requests {
    fn new(seed: u64, load: Load) -> Self {
        Self {
            random: Pcg64Mcg::seed_from_u64(seed),
            load,
            last: 0.0,
            level: 0.0,
        }
    }

    fn normal(&mut self) -> f64 {
        Normal::new(0.0, 1.0).unwrap().sample(&mut self.random)
    }

    fn begin_slice(&mut self) {
        self.level = self.normal();
    }

    fn next_latency(&mut self) -> u64 {
        let own = self.normal();
        let score = match self.load {
            Load::Independent => own,
            Load::Correlated(rho) => {
                self.last = rho * self.last + (1.0 - rho * rho).sqrt() * own;
                self.last
            }
            Load::BusySlices(weight) => {
                (weight * self.level + own) / (1.0 + weight * weight).sqrt()
            }
        };
        (MEDIAN_NS * (SPREAD * score).exp()) as u64
    }

    fn counts(&mut self, requests: u64) -> LatencyCounts {
        self.begin_slice();
        let mut counts = LatencyCounts::new();
        for _ in 0..requests {
            counts.add_latency(self.next_latency());
        }
        counts
    }

    /// The latencies of a slice on a drive, all multiplied by `factor`.
    fn slice(&mut self, requests: u64, factor: f64) -> LatencySlice {
        self.begin_slice();
        let mut drive = DriveLatencies::default();
        for _ in 0..requests {
            let latency = (self.next_latency() as f64 * factor) as u64;
            if self.random.random_bool(0.5) {
                drive.reads.add_latency(latency);
            } else {
                drive.writes.add_latency(latency);
            }
        }
        LatencySlice {
            drives: [("nvme0n1".to_owned(), drive)].into(),
        }
    }
}

fn true_quantile_ns(normal_quantile: f64) -> f64 {
    MEDIAN_NS * (SPREAD * normal_quantile).exp()
}

/// Shares of intervals that lie wholly above, and wholly below, the true figure.
fn shares_beside(truth: f64, intervals: impl Iterator<Item = LatencyInterval>) -> (f64, f64) {
    let (mut above, mut below, mut all) = (0, 0, 0);
    for interval in intervals {
        above += u32::from(interval.low_ns > truth);
        below += u32::from(interval.high_ns < truth);
        all += 1;
    }
    (
        f64::from(above) / f64::from(all),
        f64::from(below) / f64::from(all),
    )
}

/// Intervals of windows with 10 slices of 100 requests, or more.
fn windows(load: Load, per_slice: u64) -> impl Iterator<Item = Vec<LatencyCounts>> {
    (0..1_000).map(move |seed| {
        let mut requests = Requests::new(seed, load);
        (0..10).map(|_| requests.counts(per_slice)).collect()
    })
}

/// 1,000 windows: a share of 2.5 % beside the truth has a standard error of 0.5 %.
#[test]
fn an_interval_misses_a_percentile_as_seldom_as_it_says() {
    for (load, per_slice) in [
        (Load::Independent, 100),
        (Load::Independent, 1_000),
        (Load::Correlated(0.9), 300),
        (Load::BusySlices(0.3), 300),
    ] {
        for (quantile, normal) in [
            (Quantile::MEDIAN, 0.0),
            (Quantile::P90, 1.281_552),
            (Quantile::P99, Z_99),
        ] {
            let intervals = windows(load, per_slice)
                .map(|groups| quantile_interval(&groups, quantile).unwrap());
            let (above, below) = shares_beside(true_quantile_ns(normal), intervals);
            println!("{load:?} {per_slice} {quantile:?}: {above} above, {below} below");
            // Below the figure is the side of a broken condition.
            assert!(above <= 0.035, "{load:?} {quantile:?}: {above}");
            assert!(below <= 0.05, "{load:?} {quantile:?}: {below}");
        }
    }
}

#[test]
fn an_interval_misses_the_mean_as_seldom_as_it_says() {
    let truth = MEDIAN_NS * (SPREAD * SPREAD / 2.0).exp();
    for load in [
        Load::Independent,
        Load::Correlated(0.9),
        Load::BusySlices(0.5),
    ] {
        let intervals = windows(load, 200).map(|groups| mean_interval(&groups).unwrap());
        let (above, below) = shares_beside(truth, intervals);
        println!("{load:?}: {above} above, {below} below");
        assert!(above <= 0.04 && below <= 0.055, "{load:?}: {above} {below}");
    }
}

/// Intervals that are too wide would never be wrong, and never of use.
#[test]
fn an_interval_of_independent_requests_is_no_wider_than_it_must_be() {
    let groups = windows(Load::Independent, 1_000).next().unwrap();
    let interval = quantile_interval(&groups, Quantile::P99).unwrap();
    let width = (interval.high_ns - interval.low_ns) / interval.estimate_ns;
    // By the density of the normal distribution: 2 * 1.96 * sqrt(0.99 * 0.01 / 10,000) * 0.5 / 0.02665 = 0.073.
    assert!((0.04..0.18).contains(&width), "{width}");
}

#[test]
fn few_requests_leave_an_interval_open() {
    let mut requests = Requests::new(1, Load::Independent);
    let groups: Vec<LatencyCounts> = (0..10).map(|_| requests.counts(10)).collect();
    let interval = quantile_interval(&groups, Quantile::P999).unwrap();
    assert!(interval.high_ns.is_infinite());
    assert!(interval.low_ns > 0.0);
    assert!(quantile_interval(&[], Quantile::P99).is_none());
    assert!(mean_interval(&[LatencyCounts::new()]).is_none());
}

/// Windows until a guard's set is put back; `None`: never.
fn windows_until_broken(
    guard: &mut Guard,
    mut slices: impl Iterator<Item = LatencySlice>,
) -> Option<u32> {
    let mut windows = 0;
    slices.find_map(|slice| {
        let events = guard.add_slice(&slice);
        windows += events
            .iter()
            .filter(|event| matches!(event, GuardEvent::Window(_)))
            .count() as u32;
        guard.demands_put_back().then_some(windows)
    })
}

fn guard(condition: &str) -> Guard {
    Guard::new(vec![condition.parse().unwrap()])
}

fn condition_at(factor: f64) -> String {
    format!("p99_us < {}", true_quantile_ns(Z_99) / 1e3 * factor)
}

/// The worst case: latency exactly at the limit. 100 windows have a chance of at most 100 * 0.025^3 = 0.16 %, in 100 guards
/// 0.2 false alarms.
#[test]
fn a_figure_at_its_limit_raises_hardly_any_false_alarm() {
    for load in [
        Load::Independent,
        Load::Correlated(0.9),
        Load::BusySlices(0.3),
    ] {
        let alarms = (0..100)
            .filter(|seed| {
                let mut requests = Requests::new(*seed, load);
                let slices = (0..1_000).map(|_| requests.slice(100, 1.0));
                windows_until_broken(&mut guard(&condition_at(1.0)), slices).is_some()
            })
            .count();
        println!("{load:?}: {alarms} false alarms in 100 guards of 100 windows");
        assert!(alarms <= 1, "{load:?}: {alarms}");
    }
}

#[test]
fn a_figure_a_third_above_its_limit_is_found_within_six_windows() {
    let found = (0..100)
        .filter(|seed| {
            let mut requests = Requests::new(*seed, Load::Independent);
            let slices = (0..60).map(|_| requests.slice(1_000, 4.0 / 3.0));
            windows_until_broken(&mut guard(&condition_at(1.0)), slices).is_some()
        })
        .count();
    assert_eq!(found, 100);
}

#[test]
fn quiet_time_and_single_bad_windows_break_nothing() {
    let mut requests = Requests::new(7, Load::Independent);
    let mut guard = guard(&condition_at(1.1));
    let mut bad_windows = 0;
    for window in 0..30 {
        let factor = if window % 3 == 2 { 1.0 } else { 3.0 };
        for _ in 0..10 {
            for _ in 0..20 {
                assert_eq!(guard.add_slice(&LatencySlice::default()), []);
            }
            for event in guard.add_slice(&requests.slice(1_000, factor)) {
                let GuardEvent::Window(report) = event else {
                    unreachable!("{event:?}");
                };
                bad_windows += u32::from(report.verdict == WindowVerdict::Broken);
            }
        }
    }
    assert_eq!(bad_windows, 20);
    assert!(!guard.demands_put_back());
}

#[test]
fn a_condition_of_one_drive_does_not_hear_of_another() {
    let mut requests = Requests::new(3, Load::Independent);
    let mut guard = guard("p99_us(sda) < 1");
    for _ in 0..100 {
        assert_eq!(guard.add_slice(&requests.slice(1_000, 1.0)), []);
    }
}

/// Runs a guard whose latency is `before`, `during` and `after` times the usual; what it says at the end.
fn outcome(condition: &str, before: f64, during: f64, after: f64) -> Option<PutBackOutcome> {
    let mut requests = Requests::new(11, Load::BusySlices(0.2));
    let mut guard = guard(condition);
    for _ in 0..200 {
        let factor = if guard.waits_for_figures_before() {
            before
        } else if guard.demands_put_back() {
            guard.note_set_was_put_back();
            continue;
        } else {
            during
        };
        guard.add_slice(&requests.slice(1_000, factor));
        if guard.demands_put_back() {
            break;
        }
    }
    if !guard.demands_put_back() {
        return None;
    }
    guard.note_set_was_put_back();
    let events = (0..60).flat_map(|_| guard.add_slice(&requests.slice(1_000, after)));
    let said: Vec<GuardEvent> = events.collect();
    assert!(guard.has_ended());
    match said[..] {
        [GuardEvent::AfterPutBack(outcome)] => Some(outcome),
        _ => unreachable!("{said:?}"),
    }
}

#[test]
fn what_follows_the_put_back_tells_setting_from_load() {
    let limit = condition_at(1.2);
    let outcome_of_setting = outcome(&limit, 1.0, 2.0, 1.0).unwrap();
    assert!(
        matches!(
            outcome_of_setting,
            PutBackOutcome::Better { keeps: true, .. }
        ),
        "{outcome_of_setting}"
    );
    let outcome_of_load = outcome(&limit, 1.0, 2.0, 2.0).unwrap();
    assert!(
        outcome_of_load
            .to_string()
            .contains("the load did it, not the setting"),
        "{outcome_of_load}"
    );
    let outcome_of_both = outcome(&limit, 1.0, 3.0, 2.0).unwrap();
    assert!(
        outcome_of_both
            .to_string()
            .contains("the load did a part of it"),
        "{outcome_of_both}"
    );
}

#[test]
fn a_relative_limit_counts_from_what_was_measured_before() {
    assert_eq!(outcome("p99_us <= +30%", 2.0, 2.2, 2.2), None);
    assert!(outcome("p99_us <= +30%", 1.0, 2.2, 1.0).is_some());
}

#[test]
fn a_limit_in_milliseconds_is_noted_once() {
    let mut requests = Requests::new(5, Load::Independent);
    let mut guard = guard("p99_us < 0.15");
    let mut notes = Vec::new();
    for _ in 0..20 {
        for event in guard.add_slice(&requests.slice(200, 1.0)) {
            if let GuardEvent::Window(report) = event {
                notes.extend(report.unit_note);
            }
        }
    }
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("limits are in us"), "{notes:?}");
}

/// Settings that an event of the machine takes away for a moment are measured before once, and judged from then on.
#[test]
fn a_set_that_was_away_for_a_moment_is_compared_with_the_figure_from_before() {
    let mut requests = Requests::new(5, Load::Independent);
    let mut guard = guard("p99_us <= +20%");
    while guard.waits_for_figures_before() {
        guard.add_slice(&requests.slice(1_000, 1.0));
    }
    let slow = |guard: &mut Guard, requests: &mut Requests, slices: u32| {
        let slices = (0..slices).map(|_| requests.slice(1_000, 2.0));
        windows_until_broken(guard, slices.collect::<Vec<_>>().into_iter())
    };
    // Two windows are broken, and the third one begins anew.
    assert_eq!(slow(&mut guard, &mut requests, 25), None);
    guard.note_set_was_applied_again();
    assert!(!guard.waits_for_figures_before());
    assert_eq!(slow(&mut guard, &mut requests, 25), None);
    assert_eq!(slow(&mut guard, &mut requests, 5), Some(1));
}
