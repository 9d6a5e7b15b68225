//! What is recorded about a system's processor, for people.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, Origin, PowerLimit};
use wakepath_hardware::processor::Processor;
use wakepath_hardware::recorded::RecordedSystem;

use crate::output::Screen;

/// Writes sockets, cores, threads, clocks, power limits and default policies.
pub(super) fn write_processor_if_known(
    system: &RecordedSystem,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let Some(processor) = &system.processor else {
        return Ok(());
    };
    write_sockets_cores_and_threads(processor, out)?;
    let machine = Machine::from_recorded(system).ok();
    if let Some(machine) = machine.as_ref().filter(|_| processor.is_hybrid()) {
        let clusters = machine.cluster.iter();
        let kinds: Vec<String> = clusters
            .map(|cluster| format!("{} {} CPUs", cluster.cpus, cluster.name))
            .collect();
        out.write_folded(&format!("simulated as {}", kinds.join(", ")), 2)?;
    }
    write_base_and_turbo_clocks(processor, out)?;
    out.write_folded(&tdp_in_words(&processor.tdp_w), 2)?;
    if let Some(limit) = machine.and_then(|machine| machine.power_limit) {
        out.write_folded(&power_limits_in_words(&limit), 2)?;
    }
    if let Some(note) = &processor.note {
        out.write_folded(note, 2)?;
    }
    out.write_folded(&format!("processor: {}", processor.source), 2)?;
    write_default_simulated_policies(system, out)
}

fn write_sockets_cores_and_threads(processor: &Processor, out: &mut Screen) -> anyhow::Result<()> {
    let cores = match processor.efficiency_cores {
        0 => format!("{} cores", processor.cores),
        n => format!(
            "{} performance and {n} efficiency cores",
            processor.cores - n
        ),
    };
    let threads = if processor.is_hybrid() {
        " (efficiency cores 1)"
    } else {
        ""
    };
    writeln!(
        out,
        "{} socket(s) of {cores}, {} thread(s) each{threads}: {} CPUs",
        processor.sockets,
        processor.threads_per_core,
        processor.cpus()
    )?;
    Ok(())
}

fn write_base_and_turbo_clocks(processor: &Processor, out: &mut Screen) -> anyhow::Result<()> {
    if processor.base_mhz.is_given() {
        writeln!(out, "base: {} MHz", processor.base_mhz.value)?;
    }
    let turbo = processor.turbo.iter();
    let limits: Vec<String> = turbo.map(|(n, mhz)| format!("{mhz} up to {n}")).collect();
    if limits.is_empty() {
        writeln!(out, "turbo by active cores: not known")?;
        return Ok(());
    }
    let text = format!("turbo MHz by active cores: {}", limits.join(", "));
    Ok(out.write_folded(&text, 2)?)
}

fn tdp_in_words(tdp_w: &Figure) -> String {
    let watts = tdp_w.value;
    match &tdp_w.origin {
        Origin::Default => "TDP: not known".to_owned(),
        Origin::Assumed(why) => format!("TDP: {watts} W assumed: {why}"),
        Origin::Table => format!("TDP: {watts} W"),
        origin => format!("TDP: {watts} W ({})", origin.describe_origin("")),
    }
}

fn power_limits_in_words(limit: &PowerLimit) -> String {
    let named = limit.limits_with_windows().zip(["PL1", "PL2"]);
    let limits: Vec<String> = named
        .map(|((power, window), name)| {
            let (watts, ms) = (power.0 as f64 / 1e6, window.0 as f64 / 1e6);
            let tenths = (ms * 10.0).round() / 10.0;
            format!("{name} {watts} W over {tenths} ms")
        })
        .collect();
    let is_assumed = matches!(limit.pl1_mw.origin, Origin::Assumed(_));
    let mark = if is_assumed { " (assumed)" } else { "" };
    format!("power limits: {}{mark}", limits.join(", "))
}

fn write_default_simulated_policies(
    system: &RecordedSystem,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let policy = system.kernel_policy_or_stand_in();
    let text = format!("simulated by default: {}, {}", policy.idle, policy.freq);
    out.write_folded(&text, 2)?;
    match &policy.stands_in {
        Some(stands_in) => Ok(out.write_folded(stands_in, 2)?),
        None => Ok(()),
    }
}
