//! Generates NVMe drives, and the parameters for their APST tables.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;

use super::numbers::{random_by_magnitude, random_near_limit};
use crate::record::{DriveCase, DriveState};

/// Generates a random drive that nobody built, with parameters that nobody set.
pub fn random_drive(rng: &mut Pcg64Mcg) -> DriveCase {
    let npss = match rng.random_range(0..20) {
        0 => rng.random_range(0..=255),
        1 | 2 => rng.random_range(0..=31),
        _ => rng.random_range(0..=6),
    };
    let first_non_operational = rng.random_range(0..=6);
    let orderly = rng.random_ratio(3, 4);
    let mut states: Vec<DriveState> = (0..=npss.min(31))
        .map(|i| DriveState {
            entry_us: random_drive_latency(rng),
            exit_us: random_drive_latency(rng),
            non_operational: if orderly {
                i >= first_non_operational
            } else {
                rng.random_ratio(1, 2)
            },
        })
        .collect();
    if orderly {
        states.sort_by_key(|s| (s.non_operational, s.entry_us));
    }
    let mut drive = DriveCase {
        name: "a random drive".to_owned(),
        apsta: !rng.random_ratio(1, 20),
        npss,
        states,
        ..DriveCase::default()
    };
    randomize_rule(rng, &mut drive);
    drive
}

/// Sets a drive's budget, timeouts, tolerances and quirks at random.
pub fn randomize_rule(rng: &mut Pcg64Mcg, drive: &mut DriveCase) {
    drive.enabled = !rng.random_ratio(1, 20);
    drive.no_deepest = rng.random_ratio(1, 4);
    let sums: Vec<i64> = drive
        .states
        .iter()
        .map(|s| i64::from(s.entry_us) + i64::from(s.exit_us))
        .chain([15_000, 100_000])
        .collect();
    let exits: Vec<i64> = drive
        .states
        .iter()
        .map(|s| i64::from(s.exit_us))
        .chain([100_000])
        .collect();
    drive.max_latency_us = random_apst_parameter(rng, &exits, 1 << 32);
    drive.primary_timeout_ms = random_apst_parameter(rng, &[100, (1 << 24) - 2], 1 << 26);
    drive.secondary_timeout_ms = random_apst_parameter(rng, &[2_000, (1 << 24) - 2], 1 << 26);
    drive.primary_tolerance_us = random_apst_parameter(rng, &sums, 1 << 33);
    drive.secondary_tolerance_us = random_apst_parameter(rng, &sums, 1 << 33);
}

/// Random value of a kernel parameter: its default, 0, at one of the limits, or anything up to the
/// largest.
fn random_apst_parameter(rng: &mut Pcg64Mcg, limits: &[i64], largest: i64) -> Option<u64> {
    match rng.random_range(0..8) {
        0..=2 => None,
        3 => Some(0),
        4 | 5 => Some(random_near_limit(rng, limits).max(0) as u64),
        _ => Some(random_by_magnitude(rng, 1, largest) as u64),
    }
}

fn random_drive_latency(rng: &mut Pcg64Mcg) -> u32 {
    match rng.random_range(0..12) {
        0 => 0,
        1 => u32::MAX - rng.random_range(0..3),
        2 | 3 => random_near_limit(rng, &[15_000, 100_000, 7_500, 50_000]) as u32,
        4 => rng.random(),
        _ => random_by_magnitude(rng, 1, 2_000_000) as u32,
    }
}
