//! Seeded inputs: state tables, governor call logs, utilisation updates and drives.
//!
//! A log that is only random keeps a governor in its corners: it learns nothing from noise. So most logs here are
//! stories with a tick that runs or is stopped: a regular interrupt, a timer, a burst after a pause. Now and then a
//! value is put exactly on a limit that the governors compare with, or one beside it.

mod drives;
mod events;
mod numbers;
mod story;
mod tables;

pub use drives::{random_drive, randomize_rule};
pub use events::random_event_case;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use self::numbers::{MS, US, random_by_magnitude, random_near_limit};
use self::story::{Story, Timers, Wakeups};
use self::tables::{REAL_TABLES, random_state_table, states_from_real_table};
use crate::record::{Case, HaltPoll};

/// Random generator for batch number `batch` of a run with `seed`: independent of how batches are
/// spread over threads.
pub fn batch_generator(seed: u64, batch: u64) -> Pcg64Mcg {
    // An odd factor gives different pairs of seed and batch different generators.
    Pcg64Mcg::seed_from_u64(
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(batch.wrapping_mul(2).wrapping_add(1)),
    )
}

/// Random governor cases with `calls` calls altogether.
pub fn random_governor_cases(rng: &mut Pcg64Mcg, tick: i64, calls: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut left = calls;
    while left > 0 {
        let length = rng.random_range(20..=800).min(left);
        cases.push(random_governor_case(rng, tick, length));
        left -= length;
    }
    cases
}

/// Random case of one CPU with `calls` calls, for a tick of `tick` nanoseconds.
pub fn random_governor_case(rng: &mut Pcg64Mcg, tick: i64, calls: usize) -> Case {
    let states = random_state_table(rng, tick);
    let calls = Story::new(rng, &states, tick).generate_log(rng, calls);
    Case {
        halt_poll: random_halt_poll(rng),
        states,
        calls,
    }
}

/// Case of a client machine under an interrupt every 300 us or so, with timers far away: what a
/// device with one request in flight does to a CPU.
pub fn regular_interrupt_case(rng: &mut Pcg64Mcg, tick: i64, calls: usize) -> Case {
    let states = states_from_real_table(REAL_TABLES[0]);
    let story = Story {
        wakeups: Wakeups::Regular {
            period: 300 * US,
            jitter: 30 * US,
        },
        timers: Timers::Far,
        refuse: 0,
        tighten: 0,
        odd: 0,
        turn: 0,
        toggle: 0,
        iowait: 1,
        busy: 20 * US,
        ..Story::new(rng, &states, tick)
    };
    Case {
        halt_poll: None,
        calls: story.generate_log(rng, calls),
        states,
    }
}

/// Random parameters of haltpoll; `None`: its defaults.
fn random_halt_poll(rng: &mut Pcg64Mcg) -> Option<HaltPoll> {
    if rng.random_ratio(1, 2) {
        return None;
    }
    Some(HaltPoll {
        limit: random_by_magnitude(rng, 1, 2 * MS) as u32,
        shrink: rng.random_range(0..=4),
        grow: rng.random_range(0..=4),
        grow_start: random_by_magnitude(rng, 1, 200 * US) as u32,
        allow_shrink: rng.random_ratio(3, 4),
    })
}

/// Random state table without calls, for the polling limit.
pub fn random_state_table_case(rng: &mut Pcg64Mcg, tick: i64) -> Case {
    let mut states = random_state_table(rng, tick);
    if rng.random_ratio(1, 3) {
        for state in &mut states {
            state.target_residency = random_near_limit(rng, &[10 * US, tick / 16, tick, 0]).max(0);
        }
    }
    Case {
        states,
        ..Case::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CallRecord;

    #[test]
    fn the_same_seed_gives_the_same_cases() {
        let [first, same, other] = [7, 7, 8]
            .map(|seed| random_governor_cases(&mut batch_generator(seed, 3), 4 * MS, 5_000));
        assert_eq!(first, same);
        assert_ne!(first, other);
        assert_eq!(first.iter().map(|c| c.calls.len()).sum::<usize>(), 5_000);
    }

    #[test]
    fn tables_and_logs_cover_what_they_should() {
        let cases = random_governor_cases(&mut batch_generator(1, 0), 4 * MS, 200_000);
        let calls: Vec<&CallRecord> = cases.iter().flat_map(|case| &case.calls).collect();
        for count in 1..=10 {
            assert!(cases.iter().any(|c| c.states.len() == count), "{count}");
        }
        assert!(cases.iter().any(|c| c.states.iter().all(|s| s.disabled)));
        assert!(cases.iter().any(|c| !c.states[0].polling));
        assert!(cases.iter().all(|c| {
            c.states
                .iter()
                .all(|s| s.exit_latency >= 0 && s.target_residency >= 0)
        }));
        assert!(calls.iter().any(|c| c.sleep_length < 0));
        assert!(calls.iter().any(|c| c.sleep_length == i64::MAX));
        assert!(calls.iter().any(|c| c.residency == 0));
        assert!(calls.iter().any(|c| c.latency_request == 0));
        assert!(calls.iter().any(|c| c.got_tick));
        assert!(calls.iter().any(|c| c.nr_iowait > 1_000));
        assert!(
            calls
                .iter()
                .any(|c| c.toggle.state_and_disabled().is_some())
        );
        assert!(calls.iter().all(|c| c.latency_request >= 0));
    }

    #[test]
    fn drives_stay_within_the_format() {
        let mut rng = batch_generator(5, 0);
        for _ in 0..10_000 {
            let drive = random_drive(&mut rng);
            assert!(drive.states.len() <= 32);
            assert_eq!(drive.states.len(), usize::from(drive.npss.min(31)) + 1);
        }
    }
}
