//! Intervals hold the truth as often as they say, and chance is called a finding as rarely as it should be:
//! 10,000 simulated studies per case.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use rand::SeedableRng;
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use wakepath_compare::{Design, Metric, gain, holm};

const STUDIES: u64 = 10_000;

/// The share of studies whose 95 % interval holds the true gain, in percent, and the share with a p-value of at most
/// 5 % although there is no difference.
fn coverage(metric: &str, design: Design, runs: usize, spread: f64, factor: f64) -> [f64; 2] {
    let metric = Metric::find(metric).unwrap();
    // Log-normal values: any mean of the series is `factor` times that of the baseline.
    let noise = LogNormal::new(0.0, spread).unwrap();
    let truth = (factor - 1.0) * 100.0;
    let hits: Vec<[bool; 2]> = (0..STUDIES)
        .into_par_iter()
        .map(|study| {
            let mut random = Pcg64Mcg::seed_from_u64(study);
            let mut draw = || noise.sample(&mut random);
            let (mut a, mut b) = (Vec::new(), Vec::new());
            for _ in 0..runs {
                let common = match design {
                    Design::Paired => draw(),
                    Design::Unpaired => 1.0,
                };
                a.push(100.0 * common * draw());
                b.push(100.0 * common * draw() * factor);
            }
            let found = gain(metric, &a, &b, design, 0.95, study).unwrap();
            let [low, high] = found.interval;
            [(low..=high).contains(&truth), found.p_value <= 0.05]
        })
        .collect();
    [0, 1].map(|i| hits.iter().filter(|h| h[i]).count() as f64 / STUDIES as f64)
}

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    for (metric, design, runs, spread, factor) in [
        ("iops", Design::Unpaired, 5, 0.02, 1.0),
        ("iops", Design::Unpaired, 10, 0.1, 1.2),
        ("iops", Design::Paired, 4, 0.02, 1.0),
        ("iops", Design::Paired, 5, 0.02, 1.0),
        ("iops", Design::Paired, 10, 0.1, 1.2),
        ("iops", Design::Unpaired, 20, 0.3, 1.0),
    ] {
        let [held, _] = coverage(metric, design, runs, spread, factor);
        let case = format!("{metric} {design:?} n={runs} spread={spread}: {held:.4}");
        println!("{case}");
        assert!((0.93..=0.975).contains(&held), "{case}");
    }
}

#[test]
fn chance_is_rarely_called_a_finding() {
    for (design, runs) in [(Design::Unpaired, 5), (Design::Paired, 10)] {
        let [_, found] = coverage("iops", design, runs, 0.05, 1.0);
        assert!(
            (0.025..=0.07).contains(&found),
            "{design:?} n={runs}: {found}"
        );
    }
}

/// Comparisons of a study of several metrics, workloads and policies.
const COMPARISONS: usize = 60;

/// P-values of 60 comparisons of log-normal series, corrected; the first series is `factor` times its baseline.
fn corrected(study: u64, design: Design, runs: usize, spread: f64, factor: f64) -> Vec<f64> {
    let noise = LogNormal::new(0.0, spread).unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(study);
    let mut p_values = Vec::new();
    for number in 0..COMPARISONS {
        let factor = if number == 0 { factor } else { 1.0 };
        let [a, b] = [1.0, factor].map(|f| {
            let values = (0..runs).map(|_| 100.0 * f * noise.sample(&mut random));
            values.collect::<Vec<f64>>()
        });
        let metric = Metric::find(["iops", "mean_us"][number % 2]).unwrap();
        p_values.push(gain(metric, &a, &b, design, 0.95, study).unwrap().p_value);
    }
    holm(&p_values)
}

#[test]
fn a_large_gain_is_found_among_many_comparisons() {
    for (design, runs, at_most) in [
        (Design::Paired, 10, 0.01),
        (Design::Unpaired, 10, 0.01),
        (Design::Paired, 5, 0.01),
        (Design::Unpaired, 5, 0.01),
        (Design::Paired, 4, 0.05),
        (Design::Unpaired, 4, 0.05),
    ] {
        for study in 0..20 {
            let found = corrected(study, design, runs, 0.02, 1.94)[0];
            assert!(
                found < at_most,
                "{design:?} n={runs} study {study}: {found}"
            );
        }
    }
}

#[test]
fn ties_and_a_run_that_stands_out_do_not_hide_a_large_gain() {
    // IOPS of a job under two governors: the fifth run of the second one was slow.
    let baseline = [608.1, 608.3, 608.1, 608.2, 608.1];
    let series = [746.5, 746.3, 746.4, 746.4, 729.2];
    let iops = Metric::find("iops").unwrap();
    for design in [Design::Paired, Design::Unpaired] {
        let found = gain(iops, &baseline, &series, design, 0.95, 1).unwrap();
        let [low, high] = found.interval;
        // Student's t of the pairs says 20.6 to 23.8 %.
        assert!(low > 18.0 && high < 26.0, "{design:?}: {found:?}");
        assert!(found.p_value < 1e-3, "{design:?}: {found:?}");
    }
}

#[test]
fn chance_is_rarely_called_a_finding_among_many_comparisons() {
    const STUDIES: u64 = 1000;
    for (design, runs, spread) in [
        (Design::Paired, 10, 0.05),
        (Design::Unpaired, 10, 0.05),
        (Design::Unpaired, 5, 0.3),
        (Design::Paired, 5, 0.05),
    ] {
        let wrong = (0..STUDIES).into_par_iter().filter(|study| {
            let p_values = corrected(*study, design, runs, spread, 1.0);
            p_values.iter().any(|p| *p <= 0.05)
        });
        let share = wrong.count() as f64 / STUDIES as f64;
        let case = format!("{design:?} n={runs} spread={spread}: {share:.4}");
        println!("{case}");
        assert!(share <= 0.05, "{case}");
    }
}
