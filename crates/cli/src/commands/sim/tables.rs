//! Tables by `wakepath sim` for fio jobs.

use wakepath_compare::figure::Unit;
use wakepath_hardware::Machine;
use wakepath_sim::{CpuTime, DriveRun, PolicyComparison, PolicyResult, Run};

use super::columns::{header, percent, row};
use super::states::write_states;
use super::{drawing, figures};
use crate::output::{self, Screen};

/// A count over all CPUs, per second.
pub(super) fn per_second(run: &Run, count: fn(&CpuTime) -> u64) -> String {
    let all: u64 = run.cpus.iter().map(count).sum();
    (all as f64 / run.seconds).to_string()
}

pub(super) fn write_csv(out: &mut Screen, comparison: &PolicyComparison) -> anyhow::Result<()> {
    let mut header = header(&[
        "seed",
        "iops",
        "mean_us",
        "p50_us",
        "p99_us",
        "p999_us",
        "mean_mhz",
        "mean_mw",
        "too_deep",
        "too_shallow",
        "above",
        "below",
        "ticks_per_s",
        "wake_ups_per_s",
    ]);
    let mut runs = comparison.results.iter().flat_map(|result| &result.runs);
    if runs.any(|run| run.drive.is_some()) {
        header.extend(["drive_mw", "drive_wake_ups", "drive_mean_wake_us"]);
    }
    let rows = comparison.results.iter().flat_map(|result| {
        result.runs.iter().map(|run| {
            let mut row = row(
                result,
                [
                    run.seed.to_string(),
                    run.iops.to_string(),
                    run.latency_us.mean.to_string(),
                    run.latency_us.p50.to_string(),
                    run.latency_us.p99.to_string(),
                    run.latency_us.p999.to_string(),
                    run.mean_mhz.to_string(),
                    run.energy
                        .as_ref()
                        .map_or_else(String::new, |e| e.mean_mw.to_string()),
                    run.too_deep.to_string(),
                    run.too_shallow.to_string(),
                    run.above.to_string(),
                    run.below.to_string(),
                    per_second(run, |cpu| cpu.idle_ticks),
                    per_second(run, |cpu| cpu.wake_ups),
                ],
            );
            if let Some(drive) = &run.drive {
                row.extend([
                    drive.average_mw.to_string(),
                    drive.wake_ups.to_string(),
                    drive.mean_wake_us.to_string(),
                ]);
            }
            row
        })
    });
    output::csv(out, header, rows)
}

pub(super) fn write_tables(
    out: &mut Screen,
    machine: &Machine,
    comparison: &PolicyComparison,
) -> anyhow::Result<()> {
    let runs = comparison.results.first().map_or(0, |r| r.runs.len());
    let drive = match &machine.drive.power {
        Some(_) => format!("; {}", machine.drive.name),
        None => String::new(),
    };
    writeln!(out, "{}{drive}: median of {runs} run(s)\n", machine.title)?;
    let power = figures::power(machine, comparison);
    output::table(
        out,
        header(&[
            "IOPS",
            "mean us",
            "p50",
            "p99",
            "p99.9",
            "MHz",
            &power.name,
            "uJ per I/O",
            "too deep",
            "too shallow",
        ]),
        comparison.results.iter().map(|r| {
            row(
                r,
                [
                    figures::median(r, Some(r.iops), |run| Some(run.iops)),
                    figures::median(r, Some(r.mean_us), |run| Some(run.latency_us.mean)),
                    figures::median(r, Some(r.p50_us), |run| Some(run.latency_us.p50)),
                    figures::median(r, Some(r.p99_us), |run| Some(run.latency_us.p99)),
                    figures::median(r, Some(r.p999_us), |run| Some(run.latency_us.p999)),
                    figures::median(r, Some(r.mean_mhz), |run| Some(run.mean_mhz)),
                    figures::mean_power(r, &power),
                    figures::energy(machine, r),
                    format!("{:.0}", r.too_deep),
                    format!("{:.0}", r.too_shallow),
                ],
            )
        }),
    )?;
    write_drive(out, machine, comparison)?;
    writeln!(
        out,
        "\nWhere a request's time goes: us of the mean and of the 99th percentile, first run\n"
    )?;
    output::table(
        out,
        header(&[
            "of",
            "submit",
            "queue",
            "wake",
            "drive",
            "irq",
            "idle exit",
            "low MHz",
            "wait",
            "resume",
        ]),
        comparison.results.iter().flat_map(attribution_rows),
    )?;
    write_states(out, machine, comparison)?;
    drawing::write(out, comparison)
}

/// Writes drive power, and the first run's time shares per power state; nothing without a named drive.
pub(super) fn write_drive(
    out: &mut Screen,
    machine: &Machine,
    comparison: &PolicyComparison,
) -> anyhow::Result<()> {
    let drives: Vec<(&PolicyResult, &DriveRun)> = comparison
        .results
        .iter()
        .filter_map(|r| Some((r, r.runs.first()?.drive.as_ref()?)))
        .collect();
    if drives.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nDrive: median power; wake-ups and time in % of the first run\n"
    )?;
    let average =
        |result: &PolicyResult, drive: &DriveRun| result.drive_mw.unwrap_or(drive.average_mw);
    let powers = drives.iter().map(|(result, drive)| average(result, drive));
    let power = figures::digits_of(machine, Unit::for_values("mW", powers));
    output::table(
        out,
        header(&[
            &power.name,
            "wake-ups",
            "mean wake us",
            "active",
            "changing",
            "power states",
        ]),
        drives.iter().map(|(result, drive)| {
            let all = drive.active_seconds
                + drive.transition_seconds
                + drive.states.iter().map(|s| s.seconds).sum::<f64>();
            let all = all.max(1e-9);
            let states: Vec<String> = drive
                .states
                .iter()
                .filter(|s| s.seconds > 0.0)
                .map(|s| format!("PS{} {}", s.state, percent(s.seconds, all)))
                .collect();
            row(
                result,
                [
                    figures::median_in(&power, result, Some(average(result, drive)), |run| {
                        Some(run.drive.as_ref()?.average_mw)
                    }),
                    drive.wake_ups.to_string(),
                    format!("{:.0}", drive.mean_wake_us),
                    percent(drive.active_seconds, all),
                    percent(drive.transition_seconds, all),
                    states.join(", "),
                ],
            )
        }),
    )
}

/// Latency parts in the first run's mean and 99th percentile.
pub(super) fn attribution_rows(result: &PolicyResult) -> Vec<Vec<String>> {
    let Some(run) = result.runs.first() else {
        return Vec::new();
    };
    [
        ("mean", &run.attribution.mean),
        ("p99", &run.attribution.p99),
    ]
    .map(|(at, attribution)| {
        let mut row = vec![result.policy.to_string()];
        row.push(at.to_owned());
        row.extend(attribution.parts().iter().map(|(_, us)| format!("{us:.1}")));
        row
    })
    .into()
}
