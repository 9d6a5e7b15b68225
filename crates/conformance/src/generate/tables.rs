//! Generates tables of idle states: those of real machines, and random ones.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;

use super::numbers::{MS, US, random_by_magnitude, random_near_limit};
use crate::record::StateRecord;

/// Exit latency and target residency in us of idle states, from drivers on real machines.
pub(super) const REAL_TABLES: [&[(i64, i64)]; 7] = [
    // Tables of Intel client and server processors (POLL first).
    &[
        (0, 0),
        (2, 2),
        (10, 20),
        (70, 100),
        (85, 200),
        (124, 800),
        (200, 800),
    ],
    &[(0, 0), (2, 2), (10, 20), (133, 600)],
    &[(0, 0), (1, 1), (2, 4), (220, 600), (280, 800), (680, 2_000)],
    &[(0, 0), (1, 1), (4, 12), (170, 650)],
    // ACPI, three states.
    &[(0, 0), (1, 2), (18, 36), (350, 700)],
    // Table of an Arm processor: wait for interrupt, CPU and cluster power-down.
    &[(1, 1), (250, 900), (600, 2_000)],
    // Table of a virtual machine under haltpoll.
    &[(0, 0), (1, 1)],
];

/// Random table of 1 to 10 idle states, shallowest first, mostly plausible.
pub(super) fn random_state_table(rng: &mut Pcg64Mcg, tick: i64) -> Vec<StateRecord> {
    let mut states = if rng.random_ratio(3, 10) {
        states_from_real_table(REAL_TABLES[rng.random_range(0..REAL_TABLES.len())])
    } else {
        random_states(rng, tick)
    };
    match rng.random_range(0..20) {
        // Any state off.
        0..=4 => {
            for state in &mut states {
                state.disabled = rng.random_ratio(3, 10);
            }
        }
        5 => states[0].disabled = true,
        6 => {
            for state in &mut states {
                state.disabled = true;
            }
        }
        // All idle states but one are switched off.
        7 => {
            let left = rng.random_range(0..states.len());
            for (i, state) in states.iter_mut().enumerate() {
                state.disabled = i != left;
            }
        }
        _ => {}
    }
    states
}

/// Idle states of a real table; the first one polls if it can be left at once.
pub(super) fn states_from_real_table(table: &[(i64, i64)]) -> Vec<StateRecord> {
    let first_polls = table[0].0 == 0;
    table
        .iter()
        .enumerate()
        .map(|(i, &(exit, residency))| StateRecord {
            exit_latency: exit * US,
            target_residency: residency * US,
            polling: i == 0 && first_polls,
            disabled: false,
        })
        .collect()
}

fn random_states(rng: &mut Pcg64Mcg, tick: i64) -> Vec<StateRecord> {
    let mut residencies = random_residencies(rng, tick);
    let polling = rng.random_ratio(1, 2);
    if polling && rng.random_ratio(9, 10) {
        residencies[0] = 0;
    }
    let whole_us = rng.random_ratio(3, 4);
    let mut states: Vec<StateRecord> = residencies
        .iter()
        .map(|&residency| {
            let exit_latency = random_exit_latency(rng, residency);
            StateRecord {
                exit_latency: round_down_to_us(exit_latency, whole_us),
                target_residency: round_down_to_us(residency, whole_us),
                polling: false,
                disabled: false,
            }
        })
        .collect();
    if polling {
        states[0].polling = true;
        if residencies[0] == 0 {
            states[0].exit_latency = 0;
        }
    } else if rng.random_ratio(1, 30) {
        let odd = rng.random_range(0..states.len());
        states[odd].polling = true;
    }
    states
}

/// Random target residencies of 1 to 10 states, mostly ascending.
fn random_residencies(rng: &mut Pcg64Mcg, tick: i64) -> Vec<i64> {
    let count = match rng.random_range(0..40) {
        0 => 10,
        1 => 1,
        _ => rng.random_range(1..=9),
    };
    let style = rng.random_range(0..8);
    let mut residencies: Vec<i64> = (0..count)
        .map(|_| random_residency(rng, style, tick))
        .collect();
    // Real drivers declare states in ascending order; the kernel does not check.
    if !rng.random_ratio(1, 20) {
        residencies.sort_unstable();
    }
    residencies
}

/// Random target residency in ns, in one of eight styles.
fn random_residency(rng: &mut Pcg64Mcg, style: u32, tick: i64) -> i64 {
    match style {
        // Residencies from a microsecond to a tenth of a second: the usual range and somewhat more.
        0..=2 => random_by_magnitude(rng, US, 100 * MS),
        // Residencies all shorter, or all longer, than most.
        3 => random_by_magnitude(rng, 1, 20 * US),
        4 => random_by_magnitude(rng, tick / 4, tick * 64),
        // Residencies on and beside the governors' limits.
        5 => random_near_limit(
            rng,
            &[15 * US, tick, tick / 2, 10 * US, 100 * US, 2 * tick, 0],
        )
        .max(0),
        6 => random_by_magnitude(rng, 1, 1 << 40),
        // Residencies that no driver would declare.
        _ => {
            if rng.random_ratio(1, 3) {
                rng.random_range(0..=i64::MAX)
            } else {
                random_by_magnitude(rng, 1, 1 << 34)
            }
        }
    }
}

/// Random exit latency in ns, mostly below the target residency.
fn random_exit_latency(rng: &mut Pcg64Mcg, residency: i64) -> i64 {
    match rng.random_range(0..20) {
        0..=12 => residency / rng.random_range(1..=6),
        13..=15 => residency,
        16 | 17 => residency.saturating_mul(rng.random_range(2..=4)),
        18 => 0,
        _ => random_by_magnitude(rng, 1, 1 << 36),
    }
}

/// Rounds a time down to whole microseconds where asked for and long enough.
fn round_down_to_us(ns: i64, whole_us: bool) -> i64 {
    if whole_us && ns >= US {
        ns / US * US
    } else {
        ns
    }
}
