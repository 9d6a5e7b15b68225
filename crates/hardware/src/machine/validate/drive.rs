//! Checks the values of a drive.

use crate::machine::DriveModel;
use crate::machine::fault::{Fault, fail_check};
use crate::machine::slow_requests::{SLOW_REQUEST_IN, is_tail_above_mean};

/// Checks a drive that is not part of a checked machine: ranges, and how the figures fit together.
pub(in crate::machine) fn check_drive_ranges_and_fit(drive: &DriveModel) -> Result<(), Fault> {
    drive.check_figure_ranges()?;
    check_drive_figures_fit_together(drive)
}

/// Checks that each rest begins later than the rest before, and delays no less.
fn check_deeper_rests(drive: &DriveModel) -> Result<(), Fault> {
    let rests: Vec<_> = drive.rests().collect();
    if rests.len() == drive.deeper_rests.len() && !rests.is_empty() {
        return fail_check(
            "drive.deeper_rest",
            "a deeper rest follows a first: rest_after_ms says when that begins, rest_exit_us what the next request waits",
        );
    }
    for pair in rests.windows(2) {
        let [[after_ms, exit_us], [deeper_after_ms, deeper_exit_us]] =
            [pair[0], pair[1]].map(|rest| rest.map(|figure| figure.value));
        if deeper_after_ms <= after_ms || deeper_exit_us < exit_us {
            return fail_check(
                "drive.deeper_rest",
                &format!(
                    "a deeper rest begins later than the rest before and delays no less: {deeper_after_ms} ms and {deeper_exit_us} us \
                     follow {after_ms} ms and {exit_us} us"
                ),
            );
        }
    }
    Ok(())
}

/// Checks how the figures of a drive fit together, after their ranges were checked.
pub(super) fn check_drive_figures_fit_together(drive: &DriveModel) -> Result<(), Fault> {
    if drive.parallel_units.value.fract() != 0.0 {
        return fail_check(
            "drive.parallel_units",
            "a drive serves a whole number of requests at a time",
        );
    }
    if ![0.0, 1.0].contains(&drive.reads_by_address.value) {
        return fail_check(
            "drive.reads_by_address",
            "1 if a read waits for the unit that its address lies on, else 0",
        );
    }
    if drive.read_service_us.value <= 0.0 || drive.write_service_us.value <= 0.0 {
        return fail_check("drive", "a service time is above 0");
    }
    for (key, service_us, p999_us) in [
        ("read_p999_us", &drive.read_service_us, &drive.read_p999_us),
        (
            "write_p999_us",
            &drive.write_service_us,
            &drive.write_p999_us,
        ),
    ] {
        if p999_us.is_given() && !is_tail_above_mean(service_us, p999_us) {
            return fail_check(
                &format!("drive.{key}"),
                &format!(
                    "the time that one request in 1000 exceeds is above the mean service time, {} us, and below {SLOW_REQUEST_IN} \
                     times as much",
                    service_us.value
                ),
            );
        }
    }
    if drive.count == 0 || drive.count > 1024 {
        return fail_check("drive.count", "a volume has 1 to 1024 drives");
    }
    if drive.count > 1 && drive.chunk_kib.value < 1.0 {
        return fail_check(
            "drive.chunk_kib",
            "several drives need the size of a chunk, at least 1 KiB",
        );
    }
    if let Some(power) = &drive.power
        && let Some((ps, asleep)) = power.sleep_state_with_most_power()
        && asleep.value > power.idle_w.value
    {
        return fail_check(
            &format!("drive.PS{ps}.power_w"),
            &format!(
                "a sleeping drive draws no more than a waiting one: {} W, and idle_w is {} W",
                asleep.value, power.idle_w.value
            ),
        );
    }
    if drive.rest_after_ms.is_given() != drive.rest_exit_us.is_given() {
        return fail_check(
            "drive.rest_after_ms",
            "a rest has both: rest_after_ms says when it begins, rest_exit_us what the next request waits",
        );
    }
    if drive.power.is_some() && drive.rest_after_ms.is_given() {
        return fail_check(
            "drive.rest_after_ms",
            "a drive with power states has its rest among them",
        );
    }
    check_deeper_rests(drive)?;
    if drive.buffer.as_ref().is_some_and(|b| b.kib.value < 4.0) {
        return fail_check(
            "drive.buffer.kib",
            "a buffer holds at least one block of 4 KiB",
        );
    }
    if let Some(flash) = &drive.flash {
        if drive.buffer.is_none() {
            return fail_check(
                "drive.flash",
                "flash needs a buffer that is emptied into it",
            );
        }
        if flash.read_mb_per_s.value < 1.0 {
            return fail_check("drive.flash.read_mb_per_s", "a rate is at least 1 MB/s");
        }
        if flash.program_us.value < 0.001 {
            return fail_check("drive.flash.program_us", "programming takes time");
        }
    }
    Ok(())
}
