use proptest::prelude::*;
use wakepath_hardware::drive::{DriveLibrary, MAX_POWER_STATES};
use wakepath_hardware::machine::{DriveModel, DriveRest, Figure};
use wakepath_policies::apst::{ApstRule, ApstSettings, ApstTable};
use wakepath_units::Microwatts;

use super::buffer::{BufferSetup, FlashSetup};
use super::path::{IdlePath, RestLevel, State, Work};
use super::volume::VolumeSetup;
use super::*;
use crate::core::parts::Parts;
use crate::core::random::Streams;

const MS: u64 = 1_000_000;

fn without_power(units: usize) -> DriveSetup {
    DriveSetup {
        units,
        by_address: false,
        buffer: None,
        power: None,
    }
}

fn library(name: &str, rule: ApstRule) -> Drive {
    let settings = ApstSettings {
        rule,
        ..ApstSettings::default()
    };
    library_with(name, &settings)
}

fn library_with(name: &str, settings: &ApstSettings) -> Drive {
    let mut model = DriveModel::from_declared_drive(
        &DriveLibrary::builtin()
            .find_one_model(name)
            .unwrap()
            .most_frequent_table()
            .drive,
    );
    model.buffer = None;
    Drive::new(&DriveSetup::new(&model, Some(settings)))
}

const SN530: &str = "WDC PC SN530 SDBPNPZ-256G-1006";

#[test]
fn requests_beyond_the_units_wait_for_the_first_free_one() {
    let mut drive = Drive::new(&without_power(2));
    let mut accept = |now, service| {
        drive
            .accept_request(now, Demand::small(Direction::Read, service))
            .done
    };
    assert_eq!(accept(0, 100), 100);
    assert_eq!(accept(10, 50), 60);
    assert_eq!(accept(10, 50), 110);
    assert_eq!(accept(500, 5), 505);
    assert_eq!(drive.into_totals_at(505), None);
}

#[test]
fn a_drive_without_power_states_may_rest() {
    let mut model = DriveModel::find("sn530").unwrap();
    (model.power, model.buffer) = (None, None);
    model.rest_after_ms = Figure::assumed(50.0, "test");
    model.rest_exit_us = Figure::assumed(400.0, "test");
    model.deeper_rests = vec![DriveRest {
        after_ms: Figure::assumed(200.0, "test"),
        exit_us: Figure::assumed(5_000.0, "test"),
    }];
    let mut drive = Drive::new(&DriveSetup::new(&model, None));
    let mut wait = |now| {
        let read = Demand::small(Direction::Read, 1000);
        drive.accept_request(now, read).wake
    };
    assert_eq!(wait(0), 0);
    assert_eq!(wait(50 * MS), 0);
    assert_eq!(wait(101 * MS), 400_000);
    assert_eq!(wait(400 * MS), 5_000_000);
    assert_eq!(drive.power_state_and_next_change(500 * MS), None);
    assert_eq!(drive.into_totals_at(500 * MS), None);
}

#[test]
fn a_read_waits_for_the_unit_of_its_address() {
    let mut drive = Drive::new(&DriveSetup {
        by_address: true,
        ..without_power(2)
    });
    let mut accept = |now, unit| {
        let read = Demand {
            unit,
            ..Demand::small(Direction::Read, 100)
        };
        drive.accept_request(now, read).done
    };
    assert_eq!(accept(0, Some(1)), 100);
    assert_eq!(accept(10, Some(1)), 200, "although unit 0 is free");
    assert_eq!(accept(20, Some(0)), 120);
    // What has no address goes to the unit that is free first.
    assert_eq!(accept(30, None), 220);
    assert_eq!(accept(210, Some(1)), 310);
}

#[test]
fn what_goes_over_the_link_goes_one_after_the_other() {
    let mut drive = Drive::new(&without_power(4));
    let large = Demand {
        transfer: 300,
        link: 300,
        blocks: 8,
        ..Demand::small(Direction::Read, 100)
    };
    assert_eq!(drive.accept_request(0, large).done, 400);
    assert_eq!(drive.accept_request(0, large).done, 700);
    // What fits into the access time needs no turn.
    assert_eq!(
        drive
            .accept_request(0, Demand::small(Direction::Read, 100))
            .done,
        100
    );
    assert_eq!(drive.accept_request(900, large).done, 1300);
    // Of slow media several use the link at once.
    let slow = Demand { link: 50, ..large };
    assert_eq!(drive.accept_request(2000, slow).done, 2400);
    assert_eq!(drive.accept_request(2000, slow).done, 2450);
}

/// SN530, current rule: PS3 after 100 ms (entry 3.9, exit 11 ms), PS4 2000 ms later (5 and 39).
#[test]
fn a_request_waits_as_long_as_the_idle_time_before_it_tells() {
    for (gap_us, waits_us) in [
        (99_999, 0),
        (100_000, 3_900 + 11_000),
        (102_000, 1_900 + 11_000),
        (103_900, 11_000),
        (2_103_899, 11_000),
        (2_103_900, 5_000 + 39_000),
        (2_108_900, 39_000),
        (9_000_000, 39_000),
    ] {
        let mut drive = library(SN530, ApstRule::Current);
        assert_eq!(
            drive
                .accept_request(0, Demand::small(Direction::Read, 1000))
                .done,
            1000
        );
        let now = 1000 + gap_us * 1000;
        let done = drive
            .accept_request(now, Demand::small(Direction::Read, 7))
            .done;
        assert_eq!(done, now + waits_us * 1000 + 7, "{gap_us}");
        if waits_us == 0 {
            continue;
        }
        // A second request that comes meanwhile waits for the same wake-up.
        assert_eq!(
            drive
                .accept_request(now + 1, Demand::small(Direction::Read, 9))
                .done,
            done + 2
        );
    }
}

#[test]
fn the_legacy_rule_lets_it_sleep_later() {
    let mut drive = library(SN530, ApstRule::Legacy);
    drive.accept_request(0, Demand::small(Direction::Read, 1000));
    assert_eq!(
        drive
            .accept_request(700 * MS, Demand::small(Direction::Read, 1))
            .done,
        700 * MS + 1
    );
}

/// By hand: 1 us active at 1.8 W, 100 ms idle at 0.38 W, entry 3.9 ms at 1.09 W, the rest of a
/// second in PS3 at 0.025 W, exit 11 ms at 1.09 W, 2 us active.
#[test]
fn energy_is_power_by_time() {
    let mut drive = library(SN530, ApstRule::Current);
    drive.accept_request(0, Demand::small(Direction::Read, 1000));
    let done = drive
        .accept_request(1000 * MS + 1000, Demand::small(Direction::Read, 2000))
        .done;
    let totals = drive.into_totals_at(done).unwrap();
    assert_eq!(totals.active, 3000);
    assert_eq!(totals.states, [100 * MS, 0, 0, 896_100_000, 0]);
    assert_eq!(totals.entries, [0, 0, 0, 1, 0]);
    assert_eq!(totals.transition, 14_900_000);
    assert_eq!((totals.wake_ups, totals.waited), (1, 11 * MS));
    let energy = 1_800_000 * 3000
        + 380_000 * 100_000_000
        + 1_090_000 * 14_900_000
        + 25_000 * 896_100_000_u128;
    assert_eq!(totals.energy, energy);
}

/// Asleep for `g - T` less the entry, a drive saves `idle - asleep`. Entry and exit draw more than that, so that a sleep pays
/// from a gap on of `g = T + (entry x (transition - asleep) + exit x transition) / (idle - asleep)`.
#[test]
fn a_sleep_pays_from_the_gap_on_at_which_it_has_saved_what_its_transitions_take() {
    let (timeout, entry, exit) = (100 * MS, 3_900_000, 11 * MS);
    let (idle, transition, asleep) = (380_000, 1_090_000, 25_000);
    let drawn = |drive: &mut Drive, gap: u64| {
        drive.accept_request(0, Demand::small(Direction::Read, 1000));
        let done = drive.accept_request(1000 + gap, Demand::small(Direction::Read, 1000));
        drive.clone().into_totals_at(done.done).unwrap().energy
    };
    let costs = entry * (transition - asleep) + exit * transition;
    let break_even = timeout + costs / (idle - asleep);
    assert_eq!(break_even / 1000, 145_474);
    let awake = ApstSettings {
        max_latency_us: 0,
        ..ApstSettings::default()
    };
    for (gap, pays) in [(break_even - 1000, false), (break_even + 1000, true)] {
        let asleep = drawn(&mut library(SN530, ApstRule::Current), gap);
        let awake = drawn(&mut library_with(SN530, &awake), gap);
        assert_eq!(asleep < awake, pays, "{gap}: {asleep} and {awake}");
    }
}

#[test]
fn a_run_that_ends_asleep_or_awake_is_accounted_to_its_end() {
    for end in [0, 50 * MS, 101 * MS, 104 * MS, 5000 * MS] {
        let mut drive = library(SN530, ApstRule::Current);
        drive.accept_request(0, Demand::small(Direction::Read, 1000));
        let t = drive.into_totals_at(end).unwrap();
        assert_eq!(t.active + t.transition + t.states.iter().sum::<u64>(), end);
    }
}

#[test]
fn every_drive_of_the_library_adds_up_under_both_rules() {
    for table in DriveLibrary::builtin().tables() {
        for rule in [ApstRule::Current, ApstRule::Legacy] {
            let settings = ApstSettings {
                rule,
                ..ApstSettings::default()
            };
            let model = DriveModel::from_declared_drive(&table.drive);
            let mut drive = Drive::new(&DriveSetup::new(&model, Some(&settings)));
            let mut now = 0;
            for gap in [1, 30, 120, 900, 4000, 30_000] {
                now = drive
                    .accept_request(now + gap * MS, Demand::small(Direction::Write, 5000))
                    .done;
            }
            let t = drive.into_totals_at(now).unwrap();
            assert_eq!(t.active + t.transition + t.states.iter().sum::<u64>(), now);
        }
    }
}

prop_compose! {
    fn any_state()(
        entry in 0..20 * MS,
        exit in 0..50 * MS,
        power in 0..1_000_000_u64,
        non_operational in any::<bool>(),
    ) -> State {
        State { entry, exit, power: Microwatts(power), non_operational }
    }
}

prop_compose! {
    /// Any table at all, even of targets that are not there or lead back.
    fn any_table(last: u64)(
        entries in prop::collection::vec((0..=last + 1, 0..300_u64), MAX_POWER_STATES),
    ) -> ApstTable {
        let mut table = ApstTable::default();
        for (slot, (target, timeout)) in table.0.iter_mut().zip(entries) {
            *slot = target << 3 | timeout << 8;
        }
        table
    }
}

prop_compose! {
    fn any_setup()(states in prop::collection::vec(any_state(), 1..6))(
        table in prop::option::of(any_table(states.len() as u64)),
        mut states in Just(states),
        units in 1_usize..4,
        buffer in prop::option::of((1..2 * MS, 1..20_u64)),
        flash in prop::option::of((1..2 * MS, 1..2 * MS, 0..MS)),
        work in prop::option::of((0..300 * MS, 0..300 * MS, 0..1_000_000_u64)),
        rests in prop::collection::btree_map(0..5 * MS, 0..3 * MS, 0..3),
        (active, idle, transition) in (0..9_000_000_u64, 0..1_000_000_u64, 0..9_000_000_u64),
    ) -> DriveSetup {
        let idle = Microwatts(idle);
        states[0].power = idle;
        states[0].non_operational = false;
        let rests = rests.into_iter();
        let work = work.map(|(from, length, power)| Work {
            from,
            until: from + length,
            power: Microwatts(power),
        });
        DriveSetup {
            by_address: false,
            units,
            buffer: buffer.map(|(media, writes)| BufferSetup {
                media,
                full: media * writes,
                flash: flash.map(|(program, longest_wait, read)| FlashSetup {
                    program,
                    longest_wait,
                    read,
                }),
            }),
            power: Some(PowerSetup {
                path: IdlePath::new(states, table.as_ref(), Microwatts(transition), work,
                    rests.map(|(after, exit)| RestLevel { after, exit }).collect()),
                active: Microwatts(active),
                idle,
                transition: Microwatts(transition),
                is_known: true,
            }),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn times_add_up_energy_has_its_bounds_and_nothing_is_served_asleep(
        setup in any_setup(),
        requests in prop::collection::vec(
            (0..800 * MS, any::<bool>(), any::<bool>(), 1..2 * MS), 1..40),
        tail in 0..900 * MS,
    ) {
        let power = setup.power.clone().unwrap();
        let mut drive = Drive::new(&setup);
        let (mut now, mut last) = (0, 0);
        for (gap, burst, write, service) in requests {
            // Half of them come while others are on their way.
            now += if burst { gap / 1000 } else { gap };
            let idle_from = drive.sleep.as_ref().unwrap().idle_from;
            let direction = if write { Direction::Write } else { Direction::Read };
            let done = drive.accept_request(now, Demand::small(direction, service)).done;
            let mut earliest = now + service;
            if now > idle_from {
                let wake = power.path.wake_after(now - idle_from);
                earliest += wake.entry_left + wake.exit + wake.rest;
            }
            prop_assert!(done >= earliest);
            prop_assert!(done >= drive.sleep.as_ref().unwrap().awake_at + service);
            last = last.max(done);
        }
        let end = last + tail;
        let t = drive.into_totals_at(end).unwrap();
        prop_assert_eq!(t.active + t.transition + t.states.iter().sum::<u64>(), end);
        let powers = power.path.powers_on_way_down().chain([power.active, power.idle, power.transition]);
        let (least, most) = (powers.clone().min().unwrap(), powers.max().unwrap());
        prop_assert!(t.energy >= u128::from(least.0) * u128::from(end));
        let extra = u128::from(power.path.work_power().0) * u128::from(t.background);
        prop_assert!(t.energy <= u128::from(most.0) * u128::from(end) + extra);
        prop_assert!(t.background <= t.states.iter().sum());
    }

    #[test]
    fn a_longer_gap_never_finds_a_shallower_state(
        setup in any_setup(),
        (a, b) in (0..2000 * MS, 0..2000 * MS),
    ) {
        let path = setup.power.unwrap().path;
        prop_assert!(path.state_after(a.min(b)) <= path.state_after(a.max(b)));
    }
}

/// Times in ns of reads that come one after the other, with nothing else to do for the drive.
fn times_of_lone_reads(model: &DriveModel, count: u64) -> Vec<u64> {
    let volume = VolumeSetup::new(model);
    let mut drive = Drive::new(&without_power(1));
    let mut streams = Streams::new(7, 1, 0, false, false);
    let reads = 0..count;
    reads
        .map(|index| {
            let now = index * 1_000_000_000;
            let read = (Direction::Read, 4096, false);
            let mut parts = Parts::default();
            volume.give_request_to_drive(&mut drive, now, read, &mut streams, &mut parts) - now
        })
        .collect()
}

#[test]
fn slow_requests_have_the_percentile_and_leave_the_mean() {
    let mut model = DriveModel::find("sn530").unwrap();
    (model.read_service_us.value, model.spread.value) = (90.0, 0.08);
    model.read_p999_us = Figure::assumed(900.0, "test");
    let mut times = times_of_lone_reads(&model, 400_000);
    let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
    assert!((mean / 90_000.0 - 1.0).abs() < 0.005, "{mean}");
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize] as f64 / 900_000.0;
    assert!((at(0.999) - 1.0).abs() < 0.03, "{}", at(0.999));
    // Between the slow ones and the others there is nothing.
    assert!(
        at(0.9975) < 0.15 && at(0.9985) > 0.75,
        "{} {}",
        at(0.9975),
        at(0.9985)
    );
}

#[test]
fn a_drive_without_slow_requests_is_as_it_was() {
    let mut model = DriveModel::find("sn530").unwrap();
    let before = times_of_lone_reads(&model, 1000);
    model.write_p999_us = Figure::assumed(900.0, "test");
    assert_eq!(times_of_lone_reads(&model, 1000), before);
    model.read_p999_us = Figure::assumed(900.0, "test");
    assert_ne!(times_of_lone_reads(&model, 1000), before);
}
