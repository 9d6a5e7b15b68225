//! One sequence of I/Os through every rule of leases, and through the code of those that have some.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::ops::Range;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use wakepath_conformance::leases::{leases_by_kernel_code, leases_by_rule};
use wakepath_conformance::program::has_compiler;
use wakepath_policies::psd::{LeaseRule, PsdPolicy};
use wakepath_units::TickRate;

const MS: u64 = 1_000_000;

/// I/Os in bursts: gaps far below the timeout, around it and its parts, at its very ends, and far above it.
fn ios(seed: u64, timeout_ms: u32) -> Vec<u64> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let timeout = u64::from(timeout_ms) * MS;
    let mut now = 10_000 * MS + random.random_range(0..4 * MS);
    let mut all = Vec::new();
    for _ in 0..2000 {
        all.push(now);
        now += match random.random_range(0..10) {
            0..=3 => random.random_range(1..timeout / 10),
            4..=5 => random.random_range(1..2 * timeout),
            6 => timeout / 2 * random.random_range(1..5),
            7 => timeout / 2 * random.random_range(1..5) + 1,
            8 => timeout / 2 * random.random_range(1..5) - 1,
            _ => random.random_range(timeout..20 * timeout),
        };
    }
    all
}

fn policy(rule: LeaseRule, timeout_ms: u32, start_after: u32) -> PsdPolicy {
    PsdPolicy {
        rule,
        timeout_ms,
        start_after,
        ..PsdPolicy::default()
    }
}

/// The patch in its own words: a lease that is granted in one tick lasts so many ticks.
fn patch(timeout_ms: u32, tick: TickRate, ios: &[u64]) -> Vec<Range<u64>> {
    let ticks = (u64::from(timeout_ms) * u64::from(tick.hz())).div_ceil(1000);
    let tick = tick.period().0;
    let mut leases: Vec<Range<u64>> = Vec::new();
    for io in ios {
        let end = (io / tick + ticks) * tick;
        match leases.last_mut().filter(|last| *io <= last.end) {
            Some(last) => last.end = end,
            None => leases.push(*io..end),
        }
    }
    leases
}

#[test]
fn the_same_ios_give_the_leases_of_the_rule_by_every_rule() {
    if !has_compiler() {
        eprintln!("skipped: no gcc");
        return;
    }
    for (seed, timeout_ms) in [(1, 3), (2, 4), (3, 40), (4, 60), (5, 2)] {
        let ios = ios(seed, timeout_ms);
        for hz in [100, 250, 300, 1000] {
            let tick = TickRate::new(hz).unwrap();
            let of_patch = leases_by_rule(&policy(LeaseRule::Patch, timeout_ms, 1), tick, &ios);
            assert_eq!(of_patch, patch(timeout_ms, tick, &ios), "patch, {hz} Hz");
        }
        let tick = TickRate::HZ_250;
        for (rule, firsts) in [
            (LeaseRule::Module, &[1][..]),
            (LeaseRule::Daemon, &[1, 2, 3]),
        ] {
            for first in firsts {
                let policy = policy(rule, timeout_ms, *first);
                let of_code = leases_by_kernel_code(&policy, &ios).unwrap();
                assert!(of_code.len() > 100, "{policy:?}: {}", of_code.len());
                assert_eq!(of_code, leases_by_rule(&policy, tick, &ios), "{policy:?}");
            }
        }
    }
}
