//! Measured figures replace declared and assumed figures.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, Origin};
use wakepath_measure::drive::{AccessDirection, AddressOrder, DriveMeasurement};
use wakepath_measure::wake::WakeMeasurement;

/// Puts measured figures into a machine. Others stay as they are.
pub fn put_in_place(
    machine: &mut Machine,
    drive: &DriveMeasurement,
    wake: Option<&WakeMeasurement>,
) {
    drive.apply_to(&mut machine.drive);
    if let Some(device) = &drive.device {
        let model = device.model.as_deref().unwrap_or("model not known");
        machine.drive.name = format!("{} ({model}), measured", device.disk);
    }
    if let Some(wake) = wake {
        wake.apply_to(machine);
    }
    if let Some(kcycles) = fit_request_work(machine, drive) {
        machine.io_path.kcycles_per_io = kcycles;
    }
    machine.title = format!(
        "{}, calibrated on {}",
        machine
            .title
            .trim_end_matches("; what its hardware really takes is assumed"),
        drive.conditions.date
    );
}

/// CPU work per request: what a program waits at depth 1 beyond the block layer's time, at the highest clock. `None`
/// without a view of the block layer, or without a clock.
fn fit_request_work(machine: &Machine, drive: &DriveMeasurement) -> Option<Figure> {
    let alone = drive.service.iter().find(|s| {
        s.shape.direction == AccessDirection::Read
            && s.shape.order == AddressOrder::Random
            && (s.shape.kib, s.shape.depth) == (4, 1)
    })?;
    let in_drive = alone.block_layer.mean?;
    // The median: other work on the CPUs makes the mean longer, and not the request's own work.
    let beyond_us = (alone.latency.median.ns - in_drive.0 as f64) / 1e3;
    let fastest = machine.cluster.iter().flat_map(|cluster| &cluster.opps);
    let khz = fastest.map(|opp| opp.khz).max()?;
    // Microseconds times MHz are cycles.
    let cycles = beyond_us * f64::from(khz) / 1e3;
    let kcycles = (cycles / 10.0).round() / 100.0;
    (kcycles > 0.0).then(|| Figure {
        value: kcycles,
        origin: Origin::Fitted(format!(
            "median of 4 KiB random reads at depth 1 less the block layer's mean: {beyond_us:.2} us at {} MHz",
            khz / 1000
        )),
    })
}
