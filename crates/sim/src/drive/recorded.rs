//! A drive's power states under recorded I/O: the recording says when the drive was busy, the APST table what it does meanwhile.
//!
//! The load is as recorded. A request that has to wake the drive makes the busy period longer by its wait, and later
//! requests come when they came. The recorded times hold whatever waits the recorded drive had by itself:
//! [`take_wake_ups_out_of_busy_periods`] takes them out where the recorded drive and its table are known.

use serde::Serialize;
use wakepath_hardware::machine::DriveModel;
use wakepath_policies::apst::ApstSettings;
use wakepath_policies::apst::gaps::BusyPeriod;
use wakepath_units::Nanoseconds;

use super::Sleep;
use super::ledger::DriveTotals;
use super::result::DriveRun;
use super::setup::DriveSetup;
use crate::error::SimError;

/// A drive under recorded I/O and one APST table.
#[derive(Clone, Debug, Serialize)]
pub struct RecordedDriveRun {
    /// Figures of the whole recording.
    pub whole: DriveRun,
    /// Figures of each block of equal time, in order of time.
    pub blocks: Vec<DriveRun>,
    /// Power of the drive once it has been idle for so long that its state changes no more, in mW.
    pub power_at_rest_mw: f64,
    /// The wait of each request that found the drive asleep or falling asleep, the shortest first.
    pub waits: Vec<Nanoseconds>,
}

impl RecordedDriveRun {
    /// The wait that a share of the wake-ups did not exceed, 0 to 1: 0.99 is the 99th percentile, by the nearest rank.
    /// `None` without wake-ups.
    pub fn wait_not_exceeded_by_share(&self, share: f64) -> Option<Nanoseconds> {
        let rank = (share * self.waits.len() as f64).ceil() as usize;
        self.waits.get(rank.max(1) - 1).copied()
    }
}

/// Puts a drive through recorded busy periods, which are in order of time and do not overlap, from `begin` to `end` in
/// `blocks` blocks of equal time. Before the first busy period the drive has been idle since `begin`.
///
/// # Errors
/// The drive has no power states.
pub fn run_drive_under_recorded_io(
    model: &DriveModel,
    settings: &ApstSettings,
    busy: &[BusyPeriod],
    (begin, end): (Nanoseconds, Nanoseconds),
    blocks: u32,
) -> Result<RecordedDriveRun, SimError> {
    let Some(power) = DriveSetup::new(model, Some(settings)).power else {
        return Err(SimError::NoPowerStates(model.name.clone()));
    };
    let duration = end.0.saturating_sub(begin.0).max(1);
    let block_ends = (1..=u128::from(blocks.max(1)))
        .map(|block| (u128::from(duration) * block / u128::from(blocks.max(1))) as u64);
    let mut block_ends = block_ends.peekable();
    let mut sleep = Sleep::new(power);
    let mut waits = Vec::new();
    let mut totals_at_block_ends: Vec<(u64, DriveTotals)> = Vec::new();
    for period in busy {
        let [from, until] = [period.start, period.end].map(|time| time.0.saturating_sub(begin.0));
        while let Some(block_end) = block_ends.next_if(|block_end| *block_end <= from) {
            totals_at_block_ends.push((block_end, sleep.totals_at(block_end)));
        }
        let wake_ups = sleep.ledger.count_wake_ups_so_far();
        let wait = sleep.wake_for_request(from).saturating_sub(from);
        if sleep.ledger.count_wake_ups_so_far() > wake_ups {
            waits.push(Nanoseconds(wait));
        }
        sleep.idle_from = sleep.idle_from.max(until.saturating_add(wait));
    }
    totals_at_block_ends
        .extend(block_ends.map(|block_end| (block_end, sleep.totals_at(block_end))));
    waits.sort_unstable();
    let mut runs = Vec::new();
    let (mut last_end, mut before) = (0, None::<DriveTotals>);
    for (block_end, totals) in &totals_at_block_ends {
        let mut within = totals.clone();
        if let Some(before) = &before {
            within.subtract_earlier(before);
        }
        runs.push(DriveRun::new(&[within], block_end - last_end));
        (last_end, before) = (*block_end, Some(totals.clone()));
    }
    let at_rest = before.as_ref().map_or(0, |totals| totals.power_at_rest().0);
    Ok(RecordedDriveRun {
        power_at_rest_mw: at_rest as f64 / 1e3,
        whole: DriveRun::new(before.as_slice(), duration),
        blocks: runs,
        waits,
    })
}

/// Busy periods as a recorded drive would have had them without sleep: each is shorter by what its first request waited for
/// the drive to wake up. `model` and `settings` are those of the recorded drive, idle since `begin` before the first period.
pub fn take_wake_ups_out_of_busy_periods(
    model: &DriveModel,
    settings: &ApstSettings,
    busy: &[BusyPeriod],
    begin: Nanoseconds,
) -> Vec<BusyPeriod> {
    let Some(power) = DriveSetup::new(model, Some(settings)).power else {
        return busy.to_vec();
    };
    let ends = busy.iter().map(|period| period.end);
    let idle_since = std::iter::once(begin).chain(ends);
    let shortened = busy.iter().zip(idle_since).map(|(period, idle_from)| {
        let idle = period.start.0.saturating_sub(idle_from.0);
        let wait = if idle > 0 {
            power.path.wake_after(idle).whole_wait()
        } else {
            0
        };
        let end = period.end.0.saturating_sub(wait).max(period.start.0);
        BusyPeriod {
            end: Nanoseconds(end),
            ..*period
        }
    });
    shortened.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn busy(starts_and_ends_ms: &[(u64, u64)]) -> Vec<BusyPeriod> {
        let periods = starts_and_ends_ms.iter().map(|(start, end)| BusyPeriod {
            start: Nanoseconds::from_millis(*start),
            end: Nanoseconds::from_millis(*end),
            requests: 1,
        });
        periods.collect()
    }

    fn run(busy: &[BusyPeriod], settings: &ApstSettings, seconds: u64) -> RecordedDriveRun {
        let model = DriveModel::find("sn530").unwrap();
        let extent = (Nanoseconds(0), Nanoseconds(seconds * SECOND));
        run_drive_under_recorded_io(&model, settings, busy, extent, 4).unwrap()
    }

    fn seconds_of(run: &DriveRun) -> f64 {
        let asleep: f64 = run.states.iter().map(|state| state.seconds).sum();
        asleep + run.active_seconds + run.transition_seconds
    }

    #[test]
    fn blocks_add_up_to_the_whole_recording() {
        // A period crosses the end of the first block, and another waits for the drive.
        let busy = busy(&[(10, 20), (2_400, 2_600), (2_601, 2_602), (9_000, 9_001)]);
        let found = run(&busy, &ApstSettings::default(), 10);
        assert!((seconds_of(&found.whole) - 10.0).abs() < 1e-6);
        for block in &found.blocks {
            assert!((seconds_of(block) - 2.5).abs() < 1e-6, "{block:?}");
        }
        let energy: u64 = found.blocks.iter().map(|block| block.energy_pj).sum();
        assert!(energy.abs_diff(found.whole.energy_pj) <= 4);
        let wake_ups: u64 = found.blocks.iter().map(|block| block.wake_ups).sum();
        assert_eq!(wake_ups, found.whole.wake_ups);
        assert_eq!(found.waits.len() as u64, found.whole.wake_ups);
    }

    #[test]
    fn only_gaps_longer_than_the_timeout_cost_a_wake_up() {
        let busy = busy(&[(10, 20), (60, 70), (1_000, 1_001), (9_000, 9_001)]);
        let kernel = run(&busy, &ApstSettings::default(), 10);
        assert_eq!(kernel.whole.wake_ups, 2);
        let off = ApstSettings {
            max_latency_us: 0,
            ..ApstSettings::default()
        };
        let never = run(&busy, &off, 10);
        assert_eq!(never.whole.wake_ups, 0);
        assert_eq!(never.wait_not_exceeded_by_share(0.5), None);
        assert!(never.whole.average_mw > kernel.whole.average_mw);
    }

    #[test]
    fn a_wait_is_the_exit_latency_of_the_state_that_the_drive_was_in() {
        let model = DriveModel::find("sn530").unwrap();
        let states = &model.power.as_ref().unwrap().states;
        let deepest = run(&busy(&[(9_000, 9_001)]), &ApstSettings::default(), 10);
        let entered: Vec<usize> = deepest
            .whole
            .states
            .iter()
            .filter(|state| state.entries > 0)
            .map(|state| state.state)
            .collect();
        let exit = states[*entered.last().unwrap()].exit_us.micros_to_time();
        let wait = deepest.wait_not_exceeded_by_share(0.99).unwrap();
        assert!(wait >= exit, "{wait:?} {exit:?}");
        assert_eq!(deepest.wait_not_exceeded_by_share(0.0), Some(wait));
    }

    #[test]
    fn the_recorded_drives_own_wake_ups_are_taken_out_and_come_back_under_its_table() {
        let model = DriveModel::find("sn530").unwrap();
        let short = ApstSettings {
            primary_timeout_ms: 10,
            ..ApstSettings::default()
        };
        // A request that met an awake drive, and two that waited 11 ms for it.
        let recorded = busy(&[(0, 1), (200, 212), (400, 412)]);
        let without = take_wake_ups_out_of_busy_periods(&model, &short, &recorded, Nanoseconds(0));
        assert_eq!(without, busy(&[(0, 1), (200, 201), (400, 401)]));
        let again = run(&without, &short, 1);
        assert_eq!(again.waits, [Nanoseconds::from_millis(11); 2]);
        // 1 ms of service each, and not the waits.
        assert!(
            (again.whole.active_seconds - 0.003).abs() < 1e-9,
            "{again:?}"
        );
        let awake = ApstSettings {
            max_latency_us: 0,
            ..ApstSettings::default()
        };
        let kept = take_wake_ups_out_of_busy_periods(&model, &awake, &recorded, Nanoseconds(0));
        // A drive that never sleeps still rests.
        let rest = model.rests().map(|[_, exit_us]| exit_us.micros_to_time().0);
        let rest = rest.max().unwrap();
        let shorter_by = kept.iter().zip(&recorded);
        let shorter_by: Vec<u64> = shorter_by
            .map(|(kept, all)| all.end.0 - kept.end.0)
            .collect();
        assert_eq!(shorter_by, [0, rest, rest]);
        // A recorded wait shorter than the model's leaves nothing, and never less.
        let shorter = busy(&[(200, 203)]);
        let nothing = take_wake_ups_out_of_busy_periods(&model, &short, &shorter, Nanoseconds(0));
        assert_eq!(nothing, busy(&[(200, 200)]));
    }

    #[test]
    fn a_drive_without_power_states_is_refused() {
        let mut model = DriveModel::find("sn530").unwrap();
        model.power = None;
        let extent = (Nanoseconds(0), Nanoseconds(SECOND));
        let refused = run_drive_under_recorded_io(&model, &ApstSettings::default(), &[], extent, 1)
            .unwrap_err();
        assert!(refused.to_string().contains("has no power states"));
    }
}
