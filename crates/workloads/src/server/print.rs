//! Printing a server file: all that a run depends on, arrival times included.

use std::fmt::{self, Formatter};

use super::figure::{FigureOrigin, ServerFigure};
use super::log::{AppendLog, BackgroundWriter, JournaledSyncs, LogSync, MAX_BACKGROUND_DEPTH};
use super::model::{Arrivals, CallDirection, CpuAmount, ServerFile, Spacing};

/// Writes a server file as TOML that reads as the same file. A caller's time limit is left out.
pub(super) fn write_server_file(file: &ServerFile, f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(f, "kind = \"server\"\nname = {}", quote(&file.name))?;
    if !file.has_clients_in_process() {
        writeln!(f, "workers = {}", file.workers)?;
    }
    writeln!(f, "seconds = {:?}", file.duration.as_secs_f64())?;
    writeln!(
        f,
        "warm_up_s = {:?}\n\n[arrivals]",
        file.warm_up.as_secs_f64()
    )?;
    write_arrivals(file, f)?;
    writeln!(f, "\n[request]")?;
    write_amount("work", &file.work.mean, f)?;
    write_amount("reply", &file.reply.mean, f)?;
    let clock = [&file.work.mean, &file.reply.mean].map(|amount| match amount {
        CpuAmount::Time { at_mhz, .. } => *at_mhz,
        CpuAmount::Kilocycles(_) => None,
    });
    if let Some(mhz) = clock[0].or(clock[1]) {
        writeln!(f, "at_mhz = {mhz:?}")?;
    }
    writeln!(f, "spread = \"{}\"", spacing_name(file.work.spacing))?;
    for call in &file.calls {
        let operation = match call.direction {
            CallDirection::Read => "read",
            CallDirection::Write => "write",
        };
        writeln!(
            f,
            "\n[[request.disk]]\noperation = \"{operation}\"\nbytes = {}",
            call.bytes
        )?;
        writeln!(
            f,
            "direct = {}\ncalls = {}\ntogether = {}",
            call.direct, call.calls, call.together
        )?;
        writeln!(f, "share = {}", print_figure(&call.share))?;
    }
    if let Some(log) = &file.log {
        write_log(log, f)?;
    }
    for writer in &file.background {
        write_background(writer, f)?;
    }
    Ok(())
}

/// Writes a background writer. Newer keys are left out at their defaults, so that older result directories keep their bytes.
fn write_background(writer: &BackgroundWriter, f: &mut Formatter<'_>) -> fmt::Result {
    let (start_key, start) = writer.rounds.key_and_figure();
    let (writes_key, writes) = writer.writes.key_and_figure();
    writeln!(f, "\n[[background]]\n{start_key} = {}", print_figure(start))?;
    writeln!(f, "{writes_key} = {}", print_figure(writes))?;
    writeln!(f, "bytes = {}", print_figure(&writer.bytes))?;
    if let Some(reads) = &writer.reads {
        writeln!(f, "reads = {}", print_figure(&reads.reads))?;
        writeln!(f, "read_bytes = {}", print_figure(&reads.bytes))?;
    }
    if writer.depth != MAX_BACKGROUND_DEPTH {
        writeln!(f, "depth = {}", writer.depth)?;
    }
    if writer.work_us != ServerFigure::declared(0.0) {
        writeln!(f, "work_us = {}", print_figure(&writer.work_us))?;
    }
    writeln!(f, "flushes = {}", writer.flushes)
}

fn write_log(log: &AppendLog, f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n[log]\nbytes = {}", print_figure(&log.bytes))?;
    match log.sync {
        LogSync::Each => writeln!(f, "sync = \"each\"")?,
        LogSync::Every(interval) => writeln!(f, "sync_every_s = {:?}", interval.as_secs_f64())?,
    }
    writeln!(f, "block_bytes = {}", print_figure(&log.block_bytes))?;
    let largest = print_figure(&log.largest_write_bytes);
    writeln!(f, "largest_write_bytes = {largest}")?;
    // Newer keys are left out at their defaults, so that older result directories keep their bytes.
    if log.work_us != ServerFigure::declared(0.0) {
        writeln!(f, "work_us = {}", print_figure(&log.work_us))?;
    }
    if !log.group_commit {
        writeln!(f, "group_commit = false")?;
    }
    let Some(journal) = &log.journal else {
        return Ok(());
    };
    let when = match journal.when {
        JournaledSyncs::Each => "each",
        JournaledSyncs::NewBlock => "new_block",
    };
    writeln!(f, "\n[log.journal]\nwhen = \"{when}\"")?;
    writeln!(f, "bytes = {}", print_figure(&journal.bytes))?;
    let commit = print_figure(&journal.commit_bytes);
    writeln!(f, "commit_bytes = {commit}")
}

fn write_arrivals(file: &ServerFile, f: &mut Formatter<'_>) -> fmt::Result {
    match &file.arrivals {
        Arrivals::Open { rate, spacing } => {
            let pattern = match spacing {
                Spacing::Fixed => "fixed",
                Spacing::Exponential => "poisson",
            };
            writeln!(f, "pattern = \"{pattern}\"\nrate = {}", print_figure(rate))?;
        }
        Arrivals::Recorded { times } => {
            let times: Vec<String> = times.iter().map(|time| time.0.to_string()).collect();
            writeln!(
                f,
                "pattern = \"recorded\"\ntimes_ns = [{}]",
                times.join(", ")
            )?;
        }
        Arrivals::Clients {
            clients,
            think_us,
            spacing,
            in_process,
        } => {
            writeln!(f, "pattern = \"clients\"\nclients = {clients}")?;
            writeln!(f, "think_us = {}", print_figure(think_us))?;
            writeln!(f, "think = \"{}\"", spacing_name(*spacing))?;
            // Left out if false, so that older result directories keep their bytes.
            if *in_process {
                writeln!(f, "in_process = true")?;
            }
        }
    }
    if !file.interrupt_cpus.is_empty() {
        writeln!(f, "interrupt_cpus = {:?}", file.interrupt_cpus)?;
    }
    Ok(())
}

fn write_amount(name: &str, amount: &CpuAmount, f: &mut Formatter<'_>) -> fmt::Result {
    let unit = match amount {
        CpuAmount::Kilocycles(_) => "kcycles",
        CpuAmount::Time { .. } => "us",
    };
    writeln!(f, "{name}_{unit} = {}", print_figure(amount.figure()))
}

const fn spacing_name(spacing: Spacing) -> &'static str {
    match spacing {
        Spacing::Fixed => "fixed",
        Spacing::Exponential => "exponential",
    }
}

fn print_figure(figure: &ServerFigure) -> String {
    let value = figure.value;
    match &figure.origin {
        FigureOrigin::Declared => format!("{value:?}"),
        FigureOrigin::Source(why) => format!("{{ value = {value:?}, source = {} }}", quote(why)),
        FigureOrigin::Measured(why) => {
            format!("{{ value = {value:?}, measured = {} }}", quote(why))
        }
        FigureOrigin::Assumed(why) => format!("{{ value = {value:?}, assumed = {} }}", quote(why)),
        FigureOrigin::Fitted(to) => format!("{{ value = {value:?}, fitted = {} }}", quote(to)),
    }
}

/// A text as a TOML string.
fn quote(text: &str) -> String {
    toml::Value::from(text).to_string()
}
