//! Utilisation and `runnable_avg` of the simulator beside those of the kernel's own code.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use wakepath_conformance::pelt::{PeltSums, Signals, Stretch, signals_by_kernel_code};
use wakepath_conformance::program::has_compiler;
use wakepath_conformance::source::{KernelSource, source_cache_folder};
use wakepath_policies::utilisation::{Runnable, Utilisation};

const US: u64 = 1000;
const MS: u64 = 1_000_000;
/// Both round, each in its way.
const NEAR: u32 = 2;
/// What a signal of one task may change by in a period of 1024 us.
const PERIOD: u32 = 23;

fn skip(reason: &str) {
    eprintln!("skipped: pelt: {}", reason.replace('\n', " "));
    assert!(
        std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
        "{reason}"
    );
}

/// Stretches far shorter than a period, about as long, and far longer, with up to so many tasks.
fn stretches(seed: u64, most: u32) -> Vec<Stretch> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut now = 0;
    let stretch = |_| {
        now += match random.random_range(0..10) {
            0..=3 => random.random_range(1..200 * US),
            4..=6 => random.random_range(200 * US..3 * MS),
            7..=8 => random.random_range(3 * MS..40 * MS),
            _ => random.random_range(40 * MS..2000 * MS),
        };
        // As often idle as not.
        let tasks = match random.random_range(0..2) {
            0 => 0,
            _ => random.random_range(1..=most),
        };
        Stretch { until: now, tasks }
    };
    (0..20_000).map(stretch).collect()
}

/// The same by the simulator's.
fn ours(stretches: &[Stretch]) -> Vec<Signals> {
    let mut utilisation = Utilisation::default();
    let mut runnable = Runnable::default();
    let answer = |stretch: &Stretch| {
        utilisation.account_running_until(stretch.until, if stretch.tasks > 0 { 1024 } else { 0 });
        runnable.account_runnable_until(stretch.until, stretch.tasks, 1024);
        Signals {
            utilisation: utilisation.out_of_1024(),
            runnable: runnable.average_tasks_times_1024(),
        }
    };
    stretches.iter().map(answer).collect()
}

#[test]
fn signals_are_those_of_the_kernel_but_for_its_rounding() {
    if !has_compiler() {
        skip("no gcc");
        return;
    }
    let source = match KernelSource::obtain_source("6.12", &source_cache_folder()) {
        Ok(source) => source,
        Err(error) => {
            skip(&format!("{error:#}"));
            return;
        }
    };
    for (seed, most) in [(1, 1), (2, 4), (3, 16)] {
        let stretches = stretches(seed, most);
        let kernel = signals_by_kernel_code(&source, &stretches).unwrap();
        let (mut worst, mut stale) = ([0; 2], [0; 2]);
        let mut off = [0; 2];
        for (ours, PeltSums { updated, now }) in ours(&stretches).iter().zip(&kernel) {
            let pairs = [
                (ours.utilisation, now.utilisation, updated.utilisation, 1),
                (ours.runnable, now.runnable, updated.runnable, most),
            ];
            for (i, (ours, now, updated, tasks)) in pairs.into_iter().enumerate() {
                worst[i] = worst[i].max(ours.abs_diff(now).div_ceil(tasks));
                stale[i] = stale[i].max(ours.abs_diff(updated).div_ceil(tasks));
                off[i] += i64::from(ours) - i64::from(now);
            }
        }
        println!(
            "{most} tasks: off by {worst:?} at most, {stale:?} from what the kernel last worked out, {off:?} in all"
        );
        assert!(worst.iter().all(|off| *off <= NEAR), "{worst:?}");
        assert!(stale.iter().all(|off| *off <= PERIOD + NEAR), "{stale:?}");
        // Neither more nor less in the mean.
        let mean = off.map(|off| off.abs() / stretches.len() as i64);
        assert!(
            mean.iter().all(|off| *off <= 2 * i64::from(most)),
            "{mean:?}"
        );
    }
}

/// The comparison can fail: a half-life of another length is another signal.
#[test]
fn another_half_life_is_seen() {
    if !has_compiler() {
        skip("no gcc");
        return;
    }
    let Ok(source) = KernelSource::obtain_source("6.12", &source_cache_folder()) else {
        skip("no source");
        return;
    };
    let stretches = stretches(1, 1);
    let kernel = signals_by_kernel_code(&source, &stretches).unwrap();
    let slower: Vec<Stretch> = stretches
        .iter()
        .map(|stretch| Stretch {
            until: stretch.until * 20 / 21,
            ..*stretch
        })
        .collect();
    let ours = ours(&slower);
    let worst = ours
        .iter()
        .zip(&kernel)
        .map(|(ours, kernel)| ours.utilisation.abs_diff(kernel.now.utilisation));
    assert!(worst.max().unwrap() > NEAR);
}
