//! `wakepath measure path`: what the CPU does for a read, and what system calls, context switches, IPIs and ticks take.

use std::path::PathBuf;
use std::time::Duration;

use wakepath_measure::path::{
    ClockTransitions, CompletionLine, EngineCost, EngineParts, FioEngine, PathLoad,
    PathMeasurement, PathPlan, ReadParts, follow_engines_of_fio, measure,
};
use wakepath_measure::summary::Estimate;
use wakepath_report::html::measurements::{
    MeasuredCurve, MeasuredInterval, MeasuredPicture, MeasuredSection,
};
use wakepath_system::System;

use super::experiment::{PlanReport, print_notes};
use super::followed_reads::EventFollower;
use super::page::{PageArgs, describe_conditions, interval_us, page_head, page_rows};
use crate::output::{self, Format, Screen};
use crate::until;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo wakepath measure path --file /var/lib/data.img
  sudo wakepath measure path --file /var/lib/data.img --time 30s --format json")]
pub(super) struct Args {
    /// A file that is there, or a drive's device: it is read, and nothing is written.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// How long to measure.
    #[arg(long, value_name = "TIME", default_value = "14s", value_parser = until::parse_duration_or_seconds)]
    time: Duration,
    /// Say what would be done and how long that takes, and do nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    page: PageArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let plan = PathPlan::new(&args.file, args.time);
    plan.check()?;
    args.page.check()?;
    let steps = plan.steps() + plan.steps_to_follow_engines();
    let duration = plan.duration() + plan.duration_of_engines();
    let mut does = plan.describe();
    does.push(
        "has fio read it once more, and follows each read through the kernel by eBPF (needs root)"
            .to_owned(),
    );
    let report = PlanReport::new(steps, duration, does);
    if args.dry_run {
        return report.print_plan(args.format, out);
    }
    let system = System::live();
    let result = report.announce_and_measure("", |control| {
        let mut result = measure(&system, &plan, control)?;
        let mut follower = EventFollower::default();
        follow_engines_of_fio(&system, &plan, &mut result, &mut follower, control)?;
        Ok(result)
    })?;
    print_notes(&result.notes);
    match args.format {
        Format::Json => output::write_json(out, &result),
        Format::Csv => output::write_csv(out, HEADER, result.loads.iter().map(row_for_load)),
        Format::Table => print_tables(&result, out),
    }?;
    // What was measured is shown even where it cannot be written any more.
    output::print_result(out)?;
    args.page.write(
        "The path of reads",
        describe_conditions(&result.conditions),
        &result.notes,
        || sections(&result),
    )
}

/// The CPU's work for reads by depth, and what a system call, a context switch and an IPI take.
pub(in crate::commands) fn sections(result: &PathMeasurement) -> Vec<MeasuredSection> {
    let curve = |name: &str, value: fn(&PathLoad) -> Option<f64>| MeasuredCurve {
        name: name.to_owned(),
        points: result
            .loads
            .iter()
            .filter_map(|load| Some([load.depth as f64, value(load)? / 1e3]))
            .collect(),
    };
    let parts = |part: fn(&ReadParts) -> Estimate| result.parts.as_ref().map(part);
    let times = [
        ("system call", result.system_call),
        (
            "context switch",
            result.context_switch.map(|time| time.estimate),
        ),
        (
            "interrupt of another CPU",
            result.ipi.map(|time| time.estimate),
        ),
        ("submission of a read", parts(|parts| parts.submission)),
        ("interrupt of a read", parts(|parts| parts.interrupt)),
    ];
    let time_lines = times
        .into_iter()
        .filter_map(|(name, estimate)| Some(interval_us(name.to_owned(), estimate?)));
    vec![
        MeasuredSection {
            title: "CPU time and latency of a 4 KiB read, us".to_owned(),
            note: figures_in_sentences(result).join(". "),
            picture: Some(MeasuredPicture::Curves {
                x_title: "reads in flight".to_owned(),
                curves: vec![
                    curve("mean latency", |load| Some(load.latency.mean.ns)),
                    curve("task on a CPU", |load| load.task_ns),
                    curve("ready, not running", |load| load.waiting_ns),
                ],
            }),
            head: page_head(HEADER),
            rows: page_rows(result.loads.iter().map(row_for_load)),
        },
        MeasuredSection {
            title: "System call, context switch, interrupts, and parts of a read, us".to_owned(),
            picture: Some(MeasuredPicture::Intervals(time_lines.collect())),
            ..MeasuredSection::default()
        },
        MeasuredSection {
            title: "CPU time of a read by I/O engine, us".to_owned(),
            note: "As fio accounts for its own processes; the upright line is the mean latency."
                .to_owned(),
            picture: Some(MeasuredPicture::Intervals(
                result.engines.iter().map(engine_line).collect(),
            )),
            head: page_head(PARTS_HEADER),
            rows: page_rows(result.engine_parts.iter().map(row_for_parts)),
        },
    ]
}

fn engine_line(cost: &EngineCost) -> MeasuredInterval {
    let cpu_us = cost.cpu_ns / 1e3;
    MeasuredInterval {
        name: name_engine_and_depth(cost.engine),
        value: cpu_us,
        low: cpu_us,
        high: cpu_us,
        reference: Some(cost.mean_ns / 1e3),
    }
}

const HEADER: [&str; 9] = [
    "depth",
    "reads",
    "mean us",
    "median",
    "p99",
    "task on CPU us",
    "cycles",
    "ready, not running us",
    "interrupts per read",
];

fn row_for_load(load: &PathLoad) -> [String; 9] {
    let interrupts: f64 = load.completions.iter().map(|line| line.per_read).sum();
    let latency = &load.latency;
    [
        load.depth.to_string(),
        load.reads.to_string(),
        format_us(Some(latency.mean.ns)),
        format_us(Some(latency.median.ns)),
        format_us(Some(latency.p99.0 as f64)),
        format_us(load.task_ns),
        load.cycles
            .map_or_else(String::new, |cycles| format!("{cycles:.0}")),
        format_us(load.waiting_ns),
        format!("{interrupts:.2}"),
    ]
}

const PARTS_HEADER: [&str; 9] = [
    "engine",
    "depth",
    "reads",
    "queued us",
    "drive us",
    "interrupt us",
    "woke %",
    "hand-over us",
    "resume us",
];

fn row_for_parts(parts: &EngineParts) -> [String; 9] {
    let reads = &parts.reads;
    [
        name_engine(parts.engine),
        parts.engine.depth.to_string(),
        reads.reads.to_string(),
        format_us(reads.queued_ns),
        format_us(Some(reads.drive_ns)),
        format_us(Some(reads.interrupt_ns)),
        format!("{:.0}", reads.woke as f64 / reads.reads as f64 * 100.0),
        format_us(reads.hand_over_ns),
        format_us(reads.resume_ns),
    ]
}

/// A time in us; empty where it is not known.
fn format_us(ns: Option<f64>) -> String {
    ns.map_or_else(String::new, |ns| format!("{:.2}", ns / 1e3))
}

fn name_engine(engine: FioEngine) -> String {
    let polled = if engine.polled { " polled" } else { "" };
    format!("{}{polled}", engine.name)
}

fn name_engine_and_depth(engine: FioEngine) -> String {
    let polled = if engine.polled { ", polled" } else { "" };
    format!("{}, depth {}{polled}", engine.name, engine.depth)
}

fn print_tables(result: &PathMeasurement, out: &mut Screen) -> anyhow::Result<()> {
    out.write_folded(
        &format!(
            "{}: 4 KiB direct random reads, {}, Linux {}",
            result.file, result.conditions.date, result.conditions.kernel
        ),
        2,
    )?;
    output::write_table(out, HEADER, result.loads.iter().map(row_for_load))?;
    writeln!(out)?;
    if !result.engine_parts.is_empty() {
        writeln!(out, "Mean parts of a read by I/O engine:")?;
        let rows = result.engine_parts.iter().map(row_for_parts);
        output::write_table(out, PARTS_HEADER, rows)?;
        writeln!(out)?;
    }
    for line in figures_in_sentences(result) {
        out.write_folded(&line, 2)?;
    }
    Ok(())
}

/// Sentences on what the measured figures mean.
fn figures_in_sentences(result: &PathMeasurement) -> Vec<String> {
    let mut lines = Vec::new();
    let single = result.loads.iter().find(|load| load.depth == 1);
    let completions = single.map_or(&[][..], |load| &load.completions);
    lines.extend(completions.iter().map(completions_in_words));
    if single.is_some() && completions.is_empty() {
        lines.push("completions: no interrupt came with the reads, so the driver polls or the device hides it".to_owned());
    }
    let time = |what: &str, estimate: Option<Estimate>| {
        estimate.map(|estimate| {
            let [value, low, high] = [estimate.ns, estimate.low, estimate.high].map(|ns| ns / 1e3);
            format!("{what}: {value:.3} us ({low:.3} to {high:.3})")
        })
    };
    lines.extend(result.parts.as_ref().map(describe_parts));
    lines.extend(single.and_then(describe_cycles));
    lines.extend(time("system call", result.system_call));
    lines.extend(time(
        "context switch, with the wake-up before it (hand-over)",
        result.context_switch.map(|time| time.estimate),
    ));
    lines.extend(time(
        "interrupt of another, running CPU (IPI), from sending to answer",
        result.ipi.map(|time| time.estimate),
    ));
    lines.extend(result.interruptions.map(|found| {
        format!(
            "a spinning thread: interrupted {:.0} times per s, for {:.2} us in the median (ticks, and others' work)",
            found.per_second,
            found.median_ns / 1e3
        )
    }));
    lines.extend(result.thefts.map(|found| {
        format!(
            "the host: takes the CPU of a running thread {:.1} times per s, for {:.0} us in the mean ({} times seen)",
            found.per_running_second,
            found.mean.ns / 1e3,
            found.n
        )
    }));
    lines.extend(result.engines.iter().map(describe_engine));
    if let [alone, .., all] = &result.speeds[..] {
        lines.push(format!(
            "clock: with {} CPUs at work each is {:.1} % as fast as {} alone",
            all.active,
            all.relative * 100.0,
            alone.active
        ));
    }
    lines.extend(result.ramp.map(|ramp| {
        format!(
            "clock after a pause of 120 ms: {:.0} % of its steady speed at first, risen after {:.0} us",
            ramp.first * 100.0,
            ramp.rises_us
        )
    }));
    lines.extend(result.transitions.as_ref().map(describe_transitions));
    lines
}

/// The parts of a read's CPU time in a sentence.
fn describe_parts(parts: &ReadParts) -> String {
    let us = |time: Estimate| {
        let [value, low, high] = [time.ns, time.low, time.high].map(|ns| ns / 1e3);
        format!("{value:.2} us ({low:.2} to {high:.2})")
    };
    let resume = match parts.resume_ns {
        Some(ns) => format!("{:.2} us on the CPU besides the submission", ns / 1e3),
        None => "not known".to_owned(),
    };
    format!(
        "a read at depth 1, in time (cycles of interrupts are nobody's): submission {}, interrupt {}; sleep and resume {resume}",
        us(parts.submission),
        us(parts.interrupt)
    )
}

/// How a read's cycles fall into user space and kernel; `None` where they are not counted.
fn describe_cycles(load: &PathLoad) -> Option<String> {
    let (all, user) = load.cycles.zip(load.user_cycles)?;
    Some(format!(
        "cycles of a read at depth 1: {user:.0} in user space, {:.0} in the kernel for submission and resume",
        all - user
    ))
}

/// How long a clock takes to follow its limits, in a sentence.
fn describe_transitions(found: &ClockTransitions) -> String {
    let [low, high] = found.khz.map(|khz| khz / 1000);
    let time = |direction: &str, estimate: Option<Estimate>| match estimate {
        Some(estimate) => {
            let [value, low, high] = [estimate.ns, estimate.low, estimate.high].map(|ns| ns / 1e3);
            format!("{direction} {value:.1} us ({low:.1} to {high:.1})")
        }
        None => format!("{direction} no change seen"),
    };
    let stall = found.stall_ns.map_or_else(String::new, |ns| {
        format!(", standing still for {:.1} us", ns / 1e3)
    });
    format!(
        "clock of CPU {} after a new limit, {low} to {high} MHz: {}, {}{stall}",
        found.cpu,
        time("up", found.up),
        time("down", found.down)
    )
}

/// An engine's costs in a sentence.
fn describe_engine(cost: &EngineCost) -> String {
    format!(
        "{}: {:.2} us of CPU time per read, {:.2} of it in the kernel, {:.2} context switches, mean latency {:.2} us (fio)",
        name_engine_and_depth(cost.engine),
        cost.cpu_ns / 1e3,
        cost.kernel_ns / 1e3,
        cost.context_switches,
        cost.mean_ns / 1e3
    )
}

fn completions_in_words(line: &CompletionLine) -> String {
    let shares: Vec<String> = line
        .shares
        .iter()
        .map(|(cpu, share)| format!("{:.0} % on CPU {cpu}", share * 100.0))
        .collect();
    format!(
        "completions: {}, {:.2} interrupts per read: {}",
        line.name,
        line.per_read,
        shares.join(", ")
    )
}
