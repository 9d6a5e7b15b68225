//! `wakepath explain`: where the time of recorded block requests went.

use std::path::PathBuf;

use anyhow::ensure;
use wakepath_explain::{
    Collector, Coverage, ExitCost, Explanation, MAX_REQUESTS, RequestKind, Unseparated,
};
use wakepath_trace::recording::{Known, Metadata, Reader, RecordingError};

use crate::messages::{note, warning};
use crate::output::{self, Format, Screen};

/// Where the time of recorded block requests went: drive, idle exit, interrupt, hand-over.
///
/// Measured parts add up to each request's latency. The exit from an idle state is estimated, with a 95 % interval, from
/// requests that are alike but for the state that the completing CPU was in.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo wakepath record -o load.parquet --duration 30s && wakepath explain load.parquet
  wakepath explain load.parquet --format csv")]
pub(crate) struct Args {
    /// A recording of `wakepath record` or `wakepath import`.
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let mut reader = Reader::open(&args.recording)?;
    let metadata = reader.metadata().clone();
    let mut collector = Collector::default();
    reader.for_each(|event| -> Result<(), RecordingError> {
        collector.push(&event);
        Ok(())
    })?;
    let (requests, coverage) = collector.finish();
    warn_of_gaps(&coverage);
    ensure!(
        !requests.is_empty(),
        "{}: no block request with issue and completion; record with `wakepath record`, or trace block_rq_issue and \
         block_rq_complete",
        args.recording.display()
    );
    let explanation = wakepath_explain::explain(&requests, coverage, &metadata);
    name_missing(&metadata);
    match args.format {
        Format::Json => output::json(out, &explanation),
        Format::Csv => output::csv(out, [&PARTS[..], &EXITS].concat(), csv_rows(&explanation)),
        Format::Table => print_answer(&explanation, out),
    }
}

fn warn_of_gaps(coverage: &Coverage) {
    if coverage.gaps > 0 {
        warning!(
            "the recording lacks events at {} places; requests in flight there are left out",
            coverage.gaps
        );
    }
    let unpaired = coverage.without_issue + coverage.without_completion;
    if unpaired > 0 {
        warning!("{unpaired} requests have only an issue or only a completion, and are left out");
    }
    if coverage.backwards > 0 {
        warning!(
            "{} requests completed before they were issued: the trace's clock differs from CPU to CPU",
            coverage.backwards
        );
    }
    if coverage.beyond_limit > 0 {
        warning!(
            "{} requests beyond the first {MAX_REQUESTS} are left out",
            coverage.beyond_limit
        );
    }
}

/// Says which parts a recording cannot have.
fn name_missing(metadata: &Metadata) {
    note!(
        "recordings have no queueing, interrupt vectors or task switches: time before issue, run queue and process are \
         not known"
    );
    let recorded = &metadata.recorded;
    for (known, what) in [
        (recorded.idle, "no idle periods: no idle exits"),
        (
            recorded.wakes,
            "no wake-ups: no hand-over, and nobody knows who waited",
        ),
        (
            recorded.frequency,
            "no frequency changes: requests at different clocks are compared",
        ),
        (
            recorded.timers,
            "no timers: an exit that a timer caused may count as the drive's",
        ),
    ] {
        if known == Known::Missing {
            note!("the recording has {what}");
        }
    }
}

fn print_answer(explanation: &Explanation, out: &mut Screen) -> anyhow::Result<()> {
    for kind in &explanation.kinds {
        for sentence in sentences(kind) {
            out.prose(&sentence, 2)?;
        }
    }
    writeln!(out)?;
    output::table(out, PARTS, explanation.kinds.iter().map(parts_cells))?;
    writeln!(out)?;
    output::table(
        out,
        [&PARTS[..NAMES], &EXITS].concat(),
        exit_rows(explanation),
    )?;
    let inseparable =
        |kind: &RequestKind| kind.split.states.iter().any(|state| state.cost.is_none());
    if explanation.kinds.iter().any(inseparable) {
        let text = "States without a cost: a longer recording helps where there are too few requests, one with varied \
                    pauses where a state goes with the gap.";
        writeln!(out)?;
        out.prose(text, 2)?;
    }
    for help in explanation.kinds.iter().filter_map(help_sentence) {
        writeln!(out)?;
        out.prose(&help, 2)?;
    }
    Ok(())
}

fn sentences(kind: &RequestKind) -> Vec<String> {
    let parts = &kind.parts;
    let mut terms = Vec::new();
    if let (Some(rest), Some(reference)) = (kind.rest_ns, kind.split.reference) {
        terms.push(format!("{} {}", rest_name(kind, reference), us(rest)));
        let states = kind.split.states.iter();
        terms.extend(states.filter_map(|state| charged_term(kind, state)));
    } else {
        terms.push(format!("drive and idle exits {}", us(parts.out_ns)));
    }
    if parts.interrupt_ns > 0.0 {
        terms.push(format!("interrupt {}", us(parts.interrupt_ns)));
    }
    let mut all = vec![format!(
        "{} of {}, {}: mean {} us = {}; median {}, p99 {}.",
        direction(kind),
        kind.device,
        size(kind.bytes),
        us(parts.latency_ns),
        terms.join(" + "),
        us(kind.median_ns as f64),
        us(kind.p99_ns as f64),
    )];
    for state in &kind.split.states {
        all.extend(cost_sentence(kind, state));
    }
    if kind.woke > 0 {
        let after = format!(
            "  {} of {} requests woke a task: hand-over {} us, idle exit of the task's CPU {} us, after completion.",
            kind.woke,
            kind.requests,
            us(parts.hand_over_ns),
            us(parts.task_exit_ns)
        );
        all.push(after);
    }
    all
}

/// What is left when the known exits are charged.
fn rest_name(kind: &RequestKind, reference: u8) -> String {
    let unknown = kind.split.states.iter().any(|state| state.cost.is_none());
    let polls = kind.polling.contains(&reference);
    match (polls, kind.state_name(reference), unknown) {
        (true, _, false) => "drive".to_owned(),
        (true, _, true) => "drive and unknown exits".to_owned(),
        (false, name, false) => format!("drive and {name}"),
        (false, name, true) => format!("drive, {name} and unknown exits"),
    }
}

/// What keeps CPUs out of the states that surely cost, and how much that is worth.
fn help_sentence(kind: &RequestKind) -> Option<String> {
    let requests = kind.requests.max(1) as f64;
    let costly = kind.split.states.iter().filter_map(|state| {
        let cost = state.cost.filter(|cost| cost.low_ns > 0.0)?;
        Some([cost.low_ns, cost.high_ns].map(|ns| ns * state.met as f64 / requests))
    });
    let [low, high] = costly.reduce(|a, b| [a[0] + b[0], a[1] + b[1]])?;
    let ceiling = kind.state_names.get(&kind.split.reference?)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if ceiling.is_empty() || !ceiling.chars().all(plain) {
        return None;
    }
    Some(format!(
        "What would help {} of {}, {}: no state deeper than {ceiling}, {} to {} us of the mean. Try it with `wakepath apply \
         'idle-states[ceiling={ceiling}]' --for 10m`. Its cost in watts is not known from a recording.",
        direction(kind),
        kind.device,
        size(kind.bytes),
        us(low),
        us(high),
    ))
}

fn charged_term(kind: &RequestKind, state: &ExitCost) -> Option<String> {
    let share = state.met as f64 / kind.requests.max(1) as f64;
    let mean = state.cost?.mean_ns * share;
    Some(format!("{} {}", kind.state_name(state.state), us(mean)))
}

fn cost_sentence(kind: &RequestKind, state: &ExitCost) -> Option<String> {
    let name = kind.state_name(state.state);
    if let (Some(cost), Some(reference)) = (state.cost, kind.split.reference) {
        let verb = if cost.low_ns <= 0.0 && cost.high_ns >= 0.0 {
            "shows no sure cost:"
        } else {
            "costs"
        };
        return Some(format!(
            "  {name} {verb} {} us [{}, {}] more than {}; {:.0} % of requests met it.",
            us(cost.mean_ns),
            us(cost.low_ns),
            us(cost.high_ns),
            kind.state_name(reference),
            100.0 * state.met as f64 / kind.requests.max(1) as f64
        ));
    }
    let why = explain_absence(state.reason?);
    Some(format!("  {name}: {why} ({} requests met it).", state.met))
}

const fn explain_absence(reason: Unseparated) -> &'static str {
    match reason {
        Unseparated::TooFew => "not known, too few requests compare",
        Unseparated::GoesWithGap => {
            "not separated, it goes with gap, depth or clock, and so with a drive that slept"
        }
        Unseparated::ChosenAnew => {
            "not separated, the governor chose again during too many requests"
        }
    }
}

const PARTS: [&str; 14] = [
    "device",
    "direction",
    "size",
    "requests",
    "woke a task",
    "mean us",
    "p99 us",
    "out us",
    "interrupt us",
    "hand-over us",
    "task exit us",
    "awake",
    "leaving",
    "behind",
];

/// Columns that name a kind of requests, first in every table.
const NAMES: usize = 3;

const EXITS: [&str; 6] = ["state", "met", "exit us", "low us", "high us", "verdict"];

fn csv_rows(explanation: &Explanation) -> impl Iterator<Item = Vec<String>> {
    explanation.kinds.iter().flat_map(|kind| {
        let states = &kind.split.states;
        let without = states.is_empty().then(|| vec!["-".to_owned(); EXITS.len()]);
        let exits = states.iter().map(|state| exit_cells(kind, state).to_vec());
        exits
            .chain(without)
            .map(|cells| [parts_cells(kind).to_vec(), cells].concat())
    })
}

fn exit_rows(explanation: &Explanation) -> impl Iterator<Item = Vec<String>> {
    explanation.kinds.iter().flat_map(|kind| {
        let states = kind.split.states.iter();
        states.map(|state| {
            let names = parts_cells(kind).into_iter().take(NAMES);
            names.chain(exit_cells(kind, state)).collect()
        })
    })
}

fn parts_cells(kind: &RequestKind) -> [String; PARTS.len()] {
    let parts = &kind.parts;
    let woken = |time: f64| if kind.woke > 0 { us(time) } else { none() };
    [
        kind.device.clone(),
        direction(kind).to_owned(),
        size(kind.bytes),
        kind.requests.to_string(),
        kind.woke.to_string(),
        us(parts.latency_ns),
        us(kind.p99_ns as f64),
        us(parts.out_ns),
        us(parts.interrupt_ns),
        woken(parts.hand_over_ns),
        woken(parts.task_exit_ns),
        kind.awake.to_string(),
        kind.leaving.to_string(),
        kind.behind.to_string(),
    ]
}

fn exit_cells(kind: &RequestKind, state: &ExitCost) -> [String; EXITS.len()] {
    let reference = kind.split.reference.map(|state| kind.state_name(state));
    let verdict = match (state.cost, reference, state.reason) {
        (Some(_), Some(reference), _) => format!("more than {reference}"),
        (_, _, Some(Unseparated::TooFew)) => "too few".to_owned(),
        (_, _, Some(Unseparated::GoesWithGap)) => "goes with gap".to_owned(),
        (_, _, Some(Unseparated::ChosenAnew)) => "chosen anew".to_owned(),
        _ => none(),
    };
    let cost = state.cost;
    [
        kind.state_name(state.state),
        state.met.to_string(),
        cost.map_or_else(none, |cost| us(cost.mean_ns)),
        cost.map_or_else(none, |cost| us(cost.low_ns)),
        cost.map_or_else(none, |cost| us(cost.high_ns)),
        verdict,
    ]
}

fn none() -> String {
    "-".to_owned()
}

const fn direction(kind: &RequestKind) -> &'static str {
    if kind.write { "writes" } else { "reads" }
}

/// The class of a size: from this one on, below twice that.
fn size(bytes: u32) -> String {
    match bytes {
        0 => "no data".to_owned(),
        1..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn us(ns: f64) -> String {
    format!("{:.1}", ns / 1000.0)
}
