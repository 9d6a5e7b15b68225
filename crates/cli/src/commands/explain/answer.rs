//! The answer of `wakepath explain`: sentences first, then tables.

use wakepath_explain::{
    BoundedExits, ClockRange, Disagreement, ExitCost, Explanation, HopParts, InterruptParts,
    ProbeCost, RequestKind, SubmitterParts, TimerLateness, Unseparated, WaitParts,
};

use super::arguments::By;
use super::exits::exit_cost_sentence;
use super::waits::{long_wait_in_words, queue_sentence, wake_up_sentence};
use super::wording::{
    count_in_words, count_kinds_with_sentences, direction_in_words, format_us, interval_in_words,
    name_of_kind, name_of_remaining_time, size_in_words, slowest_requests_in_words,
};
use super::{help, residency};
use crate::output::{self, Format, Screen};

/// Prints an explanation, whose kinds are told apart `by` submitter or not.
pub(super) fn print_explanation(
    explanation: &Explanation,
    by: Option<By>,
    format: Format,
    out: &mut Screen,
) -> anyhow::Result<()> {
    match format {
        Format::Json => output::write_json(out, explanation),
        Format::Csv => output::write_csv(out, csv_header(by), rows_per_request_kind(explanation)),
        Format::Table => print_answer(explanation, by, out),
    }
}

/// Prints an interval's explanation as CSV, with the interval's number, from 1, before each row.
pub(super) fn print_interval_csv(
    explanation: &Explanation,
    by: Option<By>,
    number: u64,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let rows =
        rows_per_request_kind(explanation).map(|row| [vec![number.to_string()], row].concat());
    if number > 1 {
        return output::write_csv_rows_without_header(out, rows);
    }
    output::write_csv(out, [&["interval"][..], &csv_header(by)].concat(), rows)
}

fn csv_header(by: Option<By>) -> Vec<&'static str> {
    [&name_header(by)[..], &PARTS, &WAITS, &EXITS].concat()
}

/// Titles of the columns that name a kind of requests, first in every table of kinds.
fn name_header(by: Option<By>) -> Vec<&'static str> {
    let columns = ["device", "direction", "size"];
    columns.into_iter().chain(by.map(By::column)).collect()
}

fn print_answer(explanation: &Explanation, by: Option<By>, out: &mut Screen) -> anyhow::Result<()> {
    let names = name_header(by);
    print_kind_sentences(&explanation.kinds, out)?;
    if let Some(sentence) = timer_lateness_sentence(explanation) {
        out.write_folded(&sentence, 2)?;
    }
    if let Some(probes) = &explanation.probes {
        out.write_folded(&probe_cost_sentence(probes), 2)?;
    }
    writeln!(out)?;
    let parts = explanation.kinds.iter().map(parts_row).collect();
    let header = [&names[..], &PARTS].concat();
    let (header, rows) = drop_columns_without_values(header, parts, &[FLUSH]);
    output::write_table(out, header, rows)?;
    let waited = explanation.kinds.iter().filter(|kind| kind.wait.is_some());
    let waits: Vec<Vec<String>> = waited.map(task_wait_row).collect();
    if !waits.is_empty() {
        writeln!(out)?;
        output::write_table(out, [&names[..], &WAITS].concat(), waits)?;
    }
    let rows: Vec<Vec<String>> = exit_cost_rows(explanation).collect();
    if !rows.is_empty() {
        writeln!(out)?;
        let header = [&names[..], &EXITS].concat();
        let (header, rows) = drop_columns_without_values(header, rows, &[TIMERS_LATE, MEASURED]);
        output::write_table(out, header, rows)?;
    }
    writeln!(out)?;
    output::write_table(
        out,
        INTERRUPTS,
        explanation.interrupts.iter().map(interrupt_part_cells),
    )?;
    for (by, submitters) in [
        (By::Process, &explanation.processes),
        (By::Cgroup, &explanation.cgroups),
    ] {
        if !submitters.is_empty() {
            writeln!(out)?;
            let header = [&[by.column(), "requests", "mean us"][..], &WAITS].concat();
            output::write_table(out, header, submitters.iter().map(submitter_cells))?;
        }
    }
    if !explanation.hops.is_empty() {
        writeln!(out)?;
        output::write_table(out, HOPS, explanation.hops.iter().map(interrupt_hop_cells))?;
    }
    if let Some(shares) = &explanation.residency {
        residency::print(shares, out)?;
    }
    let mut kinds = explanation.kinds.iter();
    if let Some(kind) = kinds.find(|kind| has_exits_that_nobody_measured(kind)) {
        writeln!(out)?;
        out.write_folded(&help::unknown_exit_help(kind), 2)?;
    }
    let said = count_kinds_with_sentences(&explanation.kinds);
    help::print_help_per_kind(
        explanation,
        explanation.kinds.get(..said).unwrap_or(&[]),
        out,
    )
}

/// Leaves out those columns with the given titles that have no value in any row.
fn drop_columns_without_values(
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    optional: &[&str],
) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let kept: Vec<bool> = header
        .iter()
        .enumerate()
        .map(|(column, title)| {
            let has_value =
                |row: &Vec<String>| row.get(column).is_some_and(|cell| cell != NO_VALUE);
            !optional.contains(title) || rows.iter().any(has_value)
        })
        .collect();
    let rows = rows.into_iter().map(|row| keep_columns(row, &kept));
    (keep_columns(header, &kept), rows.collect())
}

fn keep_columns<T>(cells: Vec<T>, kept: &[bool]) -> Vec<T> {
    let cells = cells.into_iter().zip(kept);
    cells
        .filter_map(|(cell, is_kept)| is_kept.then_some(cell))
        .collect()
}

/// Whether a state that requests met has an exit with neither a cost nor a measurement.
fn has_exits_that_nobody_measured(kind: &RequestKind) -> bool {
    let states = kind.split.states.iter();
    let without_cost = states.filter(|state| state.cost.is_none());
    let only = kind
        .split
        .reference
        .filter(|_| kind.split.charged.is_none());
    let mut unknown = without_cost.map(|state| state.state).chain(only);
    unknown.any(|state| !kind.polling.contains(&state) && !kind.measured.contains_key(&state))
}

fn print_kind_sentences(kinds: &[RequestKind], out: &mut Screen) -> anyhow::Result<()> {
    let said = count_kinds_with_sentences(kinds);
    for kind in kinds.iter().take(said) {
        for sentence in kind_sentences(kind) {
            out.write_folded(&sentence, 2)?;
        }
    }
    let rest = kinds.len() - said;
    if rest > 0 {
        let text = format!("The tables have {rest} more kinds, with little of the time.");
        out.write_folded(&text, 2)?;
    }
    Ok(())
}

/// A sentence with the second estimate of exits: how late timers were.
fn timer_lateness_sentence(explanation: &Explanation) -> Option<String> {
    let kind = explanation.kinds.first()?;
    let timers = explanation.timers.iter();
    let states: Vec<String> = timers
        .map(|lateness| {
            format!(
                "{} {} us ({})",
                kind.state_name(lateness.state),
                lateness_in_words(lateness),
                count_in_words(lateness.timers, "timer")
            )
        })
        .collect();
    let stops = match &explanation.timer_stops[..] {
        [] => String::new(),
        names => format!(
            " Left out, because the CPU's own timer stops there: {}.",
            names.join(", ")
        ),
    };
    (!states.is_empty() || !stops.is_empty()).then(|| {
        format!(
            "Timers that ended a state were late by a median of: {}. That is at least its exit, less where hardware wakes before \
             the deadline.{stops}",
            states.join(", ")
        )
    })
}

/// A median lateness in us, with its interval if known.
fn lateness_in_words(lateness: &TimerLateness) -> String {
    let interval = lateness
        .interval_ns
        .map_or_else(String::new, interval_in_words);
    format!("{}{interval}", format_us(lateness.median_ns))
}

/// A sentence on a state whose exit comes out differently by requests, by experiment and by timers.
fn disagreement_sentence(kind: &RequestKind, all: &Disagreement) -> String {
    let reference = kind.split.reference.map(|state| kind.state_name(state));
    let requests = all.requests.map(|cost| {
        format!(
            "{} us{} more than {} by requests",
            format_us(cost.mean_ns),
            interval_in_words([cost.low_ns, cost.high_ns]),
            reference.unwrap_or_default()
        )
    });
    let measured = all.measured.map(|exit| {
        format!(
            "{} us{} as measured",
            format_us(exit.mean_ns),
            interval_in_words([exit.low_ns, exit.high_ns])
        )
    });
    let timers = all
        .timers
        .map(|timers| format!("at least {} us by timers", lateness_in_words(&timers)));
    let estimates: Vec<String> = [requests, measured, timers].into_iter().flatten().collect();
    format!(
        "  The exit from {} comes out differently, by more than the intervals: {}.",
        kind.state_name(all.state),
        estimates.join(", ")
    )
}

fn probe_cost_sentence(probes: &ProbeCost) -> String {
    format!(
        "Its own probes take {:.0} ns each. They add about {} us before the issue, {} to out, {} to interrupt, {} to hand-over, {} \
         to exit and run queue. Where another CPU sleeps and is told by IPI, they add {} to a completion there, and {} to a task's \
         exit and run queue.",
        probes.run_ns,
        format_us(probes.queued_ns),
        format_us(probes.out_ns),
        format_us(probes.interrupt_ns),
        format_us(probes.hand_over_ns),
        format_us(probes.run_queue_ns),
        format_us(probes.other_cpu_ns),
        format_us(probes.other_run_queue_ns)
    )
}

/// Sentences on a kind of requests: the answer first, then its parts.
pub(super) fn kind_sentences(kind: &RequestKind) -> Vec<String> {
    let parts = &kind.parts;
    let interval = kind.rest_interval_ns();
    let mut terms = vec![format!(
        "{} {}{}",
        name_of_remaining_time(kind),
        format_us(kind.rest_ns.unwrap_or(parts.out_ns)),
        interval.map_or_else(String::new, interval_in_words)
    )];
    let measured_reference = kind.reference_exit.zip(kind.split.reference);
    terms.extend(measured_reference.map(|(exit, reference)| {
        format!(
            "{} {}{} as measured",
            kind.state_name(reference),
            format_us(exit.mean_ns),
            interval_in_words([exit.low_ns, exit.high_ns])
        )
    }));
    let states = kind.split.states.iter();
    terms.extend(states.filter_map(|state| charged_time_in_words(kind, state)));
    for (name, exits) in [
        ("exits from states chosen later", kind.late_exits),
        ("exits that something else began", kind.begun_exits),
    ] {
        let mean = exits.map_or(0.0, |exits| exits.mean_ns);
        if mean >= LEAST_PRINTED_NS {
            terms.push(format!("{name} {}", format_us(mean)));
        }
    }
    for (name, time) in [
        ("interrupt", parts.interrupt_ns),
        (
            "idle exit of another CPU that completes",
            parts.remote_exit_ns,
        ),
        ("completion there", parts.remote_ns),
    ] {
        if time > 0.0 {
            terms.push(format!("{name} {}", format_us(time)));
        }
    }
    let name = name_of_kind(kind);
    let mean = format_us(parts.latency_ns);
    let mut all = Vec::new();
    let begin = match long_wait_in_words(kind) {
        Some(wait) => {
            all.push(format!(
                "{name}: {wait}; mean {mean} us from issue to completion."
            ));
            "  From issue to completion".to_owned()
        }
        None => name,
    };
    all.push(format!(
        "{begin}: mean {mean} us = {}; median {}, p99 {}: {}.",
        terms.join(" + "),
        format_us(kind.median_ns as f64),
        format_us(kind.p99_ns as f64),
        slowest_requests_in_words(kind),
    ));
    for state in &kind.split.states {
        all.extend(exit_cost_sentence(kind, state));
    }
    let disagreements = kind.disagreements.iter();
    all.extend(disagreements.map(|all| disagreement_sentence(kind, all)));
    for (exits, came, unseen) in [
        (
            kind.late_exits,
            "met a state that the governor chose later, and that may then cost less",
            "what they paid",
        ),
        (
            kind.begun_exits,
            "came while the CPU was leaving a state, or behind another one",
            "how long they waited for it",
        ),
    ] {
        all.extend(exits.and_then(|exits| bounded_exit_sentence(kind, &exits, came, unseen)));
    }
    all.extend(kind.clock.as_ref().map(clock_sentence));
    all.extend(queue_sentence(kind));
    all.extend(wake_up_sentence(kind));
    all
}

/// Smaller times are 0.0 in print.
const LEAST_PRINTED_NS: f64 = 50.0;

/// A sentence on exits of which requests paid an unknown part: how these requests `came`, and what is `unseen`.
fn bounded_exit_sentence(
    kind: &RequestKind,
    exits: &BoundedExits,
    came: &str,
    unseen: &str,
) -> Option<String> {
    let without = exits.requests - exits.estimated;
    let rare = if without > 0 {
        format!(
            " {without} have too few requests like them: their exits stay in {}.",
            name_of_remaining_time(kind)
        )
    } else {
        String::new()
    };
    (exits.highest_ns >= LEAST_PRINTED_NS).then(|| {
        format!(
            "  {} {came}. Nobody sees {unseen}: {} us in the mean over all requests, by what the drive takes for requests like \
             them, and at most {}.{rare}",
            count_in_words(exits.requests, "request"),
            format_us(exits.mean_ns),
            format_us(exits.highest_ns),
        )
    })
}

fn clock_sentence(clock: &ClockRange) -> String {
    let ghz = |khz: u32| format!("{:.1}", f64::from(khz) / 1e6);
    format!(
        "  Clock of the interrupted CPU: {} GHz in the mean, {} to {}.",
        ghz(clock.mean_khz),
        ghz(clock.lowest_khz),
        ghz(clock.highest_khz)
    )
}

fn charged_time_in_words(kind: &RequestKind, state: &ExitCost) -> Option<String> {
    let (cost, share) = (state.cost?, kind.share_of_requests(state.charged));
    let met = match state.met - state.charged {
        0 => "met it".to_owned(),
        late => format!("chose it first, {late} more met it later"),
    };
    Some(format!(
        "{} {}{} ({:.0} % of requests {met}, {} us each)",
        kind.state_name(state.state),
        format_us(cost.mean_ns * share),
        interval_in_words([cost.low_ns * share, cost.high_ns * share]),
        100.0 * share,
        format_us(cost.mean_ns)
    ))
}

/// Title of the column with time in the flush machinery.
const FLUSH: &str = "flush us";

const PARTS: [&str; 18] = [
    "requests",
    "woke a task",
    "mean us",
    "p99 us",
    "tag us",
    "plug us",
    "scheduler us",
    FLUSH,
    "out us",
    "interrupt us",
    "other CPU exit us",
    "other CPU us",
    "hand-over us",
    "task exit us",
    "awake",
    "leaving",
    "behind",
    "unknown",
];

const WAITS: [&str; 10] = [
    "tasks that ran",
    "wait us",
    "queued us",
    "latency us",
    "wait hand-over us",
    "other threads us",
    "wait exit us",
    "run queue us",
    "woken by IPI",
    "by store",
];

const INTERRUPTS: [&str; 6] = [
    "interrupt",
    "CPU",
    "requests",
    "completed elsewhere",
    "out us",
    "interrupt us",
];

const HOPS: [&str; 4] = ["thread between", "requests", "woken to run us", "ran us"];

/// Titles of the columns with other estimates of an exit.
const TIMERS_LATE: &str = "timers late us";
const MEASURED: &str = "measured us";

const EXITS: [&str; 11] = [
    "state",
    "met",
    "exit us",
    "low us",
    "high us",
    TIMERS_LATE,
    MEASURED,
    "p50 exit us",
    "p90 exit us",
    "p99 exit us",
    "verdict",
];

fn rows_per_request_kind(explanation: &Explanation) -> impl Iterator<Item = Vec<String>> {
    explanation.kinds.iter().flat_map(|kind| {
        let states = &kind.split.states;
        let without = states
            .is_empty()
            .then(|| vec![no_value_cell(); EXITS.len()]);
        let exits = states
            .iter()
            .map(|state| exit_cost_cells(kind, state, &explanation.timers).to_vec());
        exits.chain(without).map(|cells| {
            let wait = task_wait_cells(kind.wait.as_ref()).to_vec();
            [parts_row(kind), wait, cells].concat()
        })
    })
}

fn exit_cost_rows(explanation: &Explanation) -> impl Iterator<Item = Vec<String>> {
    explanation.kinds.iter().flat_map(|kind| {
        let states = kind.split.states.iter();
        states.map(|state| {
            let names = name_cells(kind).into_iter();
            names
                .chain(exit_cost_cells(kind, state, &explanation.timers))
                .collect()
        })
    })
}

fn name_cells(kind: &RequestKind) -> Vec<String> {
    let cells = [
        kind.device.clone(),
        direction_in_words(kind).to_owned(),
        size_in_words(kind.bytes),
    ];
    cells.into_iter().chain(kind.submitter.clone()).collect()
}

fn parts_row(kind: &RequestKind) -> Vec<String> {
    let names = name_cells(kind).into_iter();
    names.chain(request_part_cells(kind)).collect()
}

fn request_part_cells(kind: &RequestKind) -> [String; PARTS.len()] {
    let parts = &kind.parts;
    [
        kind.requests.to_string(),
        kind.woke.to_string(),
        format_us(parts.latency_ns),
        format_us(kind.p99_ns as f64),
        mean_us_cell(kind.queued, parts.tag_ns),
        mean_us_cell(kind.queued, parts.plug_ns),
        mean_us_cell(kind.queued, parts.scheduler_ns),
        mean_us_cell(u64::from(parts.flush_ns > 0.0), parts.flush_ns),
        format_us(parts.out_ns),
        format_us(parts.interrupt_ns),
        mean_us_cell(kind.remote, parts.remote_exit_ns),
        mean_us_cell(kind.remote, parts.remote_ns),
        mean_us_cell(kind.woke, parts.hand_over_ns),
        mean_us_cell(kind.woke, parts.task_exit_ns),
        kind.awake.to_string(),
        kind.leaving.to_string(),
        kind.behind.to_string(),
        kind.unknown.to_string(),
    ]
}

fn task_wait_row(kind: &RequestKind) -> Vec<String> {
    let names = name_cells(kind).into_iter();
    names.chain(task_wait_cells(kind.wait.as_ref())).collect()
}

fn task_wait_cells(wait: Option<&WaitParts>) -> [String; WAITS.len()] {
    let Some(wait) = wait else {
        return std::array::from_fn(|_| no_value_cell());
    };
    [
        wait.requests.to_string(),
        format_us(wait.wait_ns),
        format_us(wait.queued_ns),
        format_us(wait.latency_ns),
        format_us(wait.hand_over_ns),
        format_us(wait.through_ns),
        format_us(wait.task_exit_ns),
        format_us(wait.run_queue_ns),
        wait.by_ipi.to_string(),
        wait.by_store.to_string(),
    ]
}

fn interrupt_part_cells(parts: &InterruptParts) -> [String; INTERRUPTS.len()] {
    let name = match parts.name.as_str() {
        "" => "none seen",
        name => name,
    };
    [
        name.to_owned(),
        parts.cpu.to_string(),
        parts.requests.to_string(),
        parts.remote.to_string(),
        format_us(parts.out_ns),
        format_us(parts.interrupt_ns),
    ]
}

fn interrupt_hop_cells(hop: &HopParts) -> [String; HOPS.len()] {
    [
        hop.name.clone(),
        hop.requests.to_string(),
        format_us(hop.waited_ns),
        format_us(hop.ran_ns),
    ]
}

fn submitter_cells(submitter: &SubmitterParts) -> Vec<String> {
    let names = [
        submitter.name.clone(),
        submitter.requests.to_string(),
        format_us(submitter.latency_ns),
    ];
    let wait = task_wait_cells(submitter.wait.as_ref());
    names.into_iter().chain(wait).collect()
}

fn exit_cost_cells(
    kind: &RequestKind,
    state: &ExitCost,
    timers: &[TimerLateness],
) -> [String; EXITS.len()] {
    let lateness = timers.iter().find(|timers| timers.state == state.state);
    let measured = kind.measured.get(&state.state);
    let reference = kind.split.reference.map(|state| kind.state_name(state));
    let verdict = match (state.cost, reference, state.reason) {
        (Some(_), Some(reference), _) => format!("more than {reference}"),
        _ if kind.polling.contains(&state.state) => "no exit".to_owned(),
        (_, _, Some(Unseparated::TooFew)) => "too few".to_owned(),
        (_, _, Some(Unseparated::GoesWithGap)) => "goes with gap".to_owned(),
        (_, _, Some(Unseparated::VariesWithGap)) => "varies with gap".to_owned(),
        (_, _, Some(Unseparated::VariesWithOtherCpus)) => "varies with CPUs".to_owned(),
        (_, _, Some(Unseparated::GoesWithLoad)) => "goes with load".to_owned(),
        (_, _, Some(Unseparated::ChosenAnew)) => "chosen anew".to_owned(),
        _ => no_value_cell(),
    };
    let cost = state.cost;
    [
        kind.state_name(state.state),
        state.met.to_string(),
        cost.map_or_else(no_value_cell, |cost| format_us(cost.mean_ns)),
        cost.map_or_else(no_value_cell, |cost| format_us(cost.low_ns)),
        cost.map_or_else(no_value_cell, |cost| format_us(cost.high_ns)),
        lateness.map_or_else(no_value_cell, |timers| format_us(timers.median_ns)),
        measured.map_or_else(no_value_cell, |exit| format_us(exit.mean_ns)),
        quantile_difference_cell(state, 0),
        quantile_difference_cell(state, 1),
        quantile_difference_cell(state, 2),
        verdict,
    ]
}

/// The difference of a quantile between exits and reference, by the quantile's place.
fn quantile_difference_cell(state: &ExitCost, place: usize) -> String {
    let cost = state.quantiles.get(place).copied().flatten();
    cost.map_or_else(no_value_cell, |cost| format_us(cost.difference_ns))
}

/// Content of a cell without a value.
const NO_VALUE: &str = "-";

fn no_value_cell() -> String {
    NO_VALUE.to_owned()
}

/// A mean in us over so many requests; `-` without requests.
fn mean_us_cell(requests: u64, ns: f64) -> String {
    if requests > 0 {
        format_us(ns)
    } else {
        no_value_cell()
    }
}

#[cfg(test)]
mod tests {
    use wakepath_explain::{
        Collected, MetState, NeighbourState, Notification, TaskWake, TracedRequest,
        explain_requests,
    };
    use wakepath_hardware::IdleState;
    use wakepath_trace::recording::{BlockDevice, CpuIdleStates, DataQuality, Metadata, Recorded};
    use wakepath_units::Nanoseconds;

    use super::*;

    /// A read of 80 us that woke a task, and whether nobody waited for it when it began.
    fn read(background: bool) -> TracedRequest {
        TracedRequest {
            device: 259 << 20,
            bytes: 4096,
            write: false,
            background,
            task: None,
            queued: None,
            completed: 1_000_000,
            latency: 80_000,
            out: 78_000,
            slept: 0,
            interrupt: 2_000,
            remote: None,
            cpu: 0,
            irq: None,
            gap: None,
            cpu_gap: None,
            in_flight: 0,
            khz: 0,
            first: None,
            periods: 0,
            overtaken: false,
            met: MetState::Awake,
            sibling: NeighbourState::None,
            cluster: NeighbourState::None,
            package: NeighbourState::None,
            wake: Some(TaskWake {
                task: None,
                cpu: None,
                hand_over: 1_000,
                hops: 0,
                through: 0,
                exit: 0,
                run_queue: Some(3_000),
                notification: Notification::SameCpu,
            }),
        }
    }

    fn sentences(background: bool) -> Vec<String> {
        let collected = Collected {
            requests: vec![read(background)],
            ..Collected::default()
        };
        kind_sentences(&explain_requests(&collected, &Metadata::default()).kinds[0])
    }

    #[test]
    fn tasks_come_to_wait_for_readahead_only_later() {
        let [first, waited] = &sentences(false)[..] else {
            panic!("two sentences");
        };
        assert!(
            first.ends_with("median 80.0, p99 80.0: a CPU awake in all."),
            "{first}"
        );
        assert!(
            waited.starts_with("  1 task waited 84.0 us = queued"),
            "{waited}"
        );
        let readahead = &sentences(true)[1];
        let start = "  1 task came to wait for these, since their bios 84.0 us = queued";
        assert!(readahead.starts_with(start), "{readahead}");
    }

    /// The first sentence on reads that met these states of a machine with POLL, C1 and C6.
    fn first_sentence(met: &[MetState], idle: DataQuality) -> String {
        let states = ["POLL", "C1", "C6"].map(|name| IdleState {
            name: name.to_owned(),
            exit_latency: Nanoseconds(0),
            target_residency: Nanoseconds(0),
            polling: name == "POLL",
            disabled: false,
        });
        let metadata = Metadata {
            idle_states: vec![CpuIdleStates {
                cpus: vec![0],
                states: states.to_vec(),
            }],
            recorded: Recorded {
                idle,
                ..Recorded::default()
            },
            ..Metadata::default()
        };
        let requests = met.iter().map(|met| TracedRequest {
            met: *met,
            slept: if *met == MetState::Awake { 0 } else { 70_000 },
            ..read(false)
        });
        let collected = Collected {
            requests: requests.collect(),
            ..Collected::default()
        };
        kind_sentences(&explain_requests(&collected, &metadata).kinds[0]).swap_remove(0)
    }

    #[test]
    fn the_drive_stands_alone_only_where_no_request_had_an_exit() {
        let (awake, poll, c1, c6) = (
            MetState::Awake,
            MetState::State(0),
            MetState::State(1),
            MetState::State(2),
        );
        let seen = DataQuality::Exact;
        for (met, idle, name) in [
            (&[awake; 3][..], seen, "drive"),
            (&[poll; 3], seen, "drive"),
            (&[awake, poll, MetState::Behind(0)], seen, "drive"),
            (&[c1; 3], seen, "drive and C1"),
            (&[awake, c1, MetState::Leaving(1)], seen, "drive and C1"),
            (&[awake, poll, MetState::Behind(2)], seen, "drive and C6"),
            (&[c1, c6], seen, "drive and idle exits"),
            (&[c1, MetState::Leaving(2)], seen, "drive and idle exits"),
            (&[c1, MetState::Unknown], seen, "drive and idle exits"),
            // Without idle periods in the recording, every CPU seems awake.
            (&[awake; 3], DataQuality::Missing, "drive and idle exits"),
            // A request in 201 has next to no time.
            (&[&[awake; 200][..], &[c6]].concat(), seen, "drive"),
            (&[&[c1; 200][..], &[c6]].concat(), seen, "drive and C1"),
        ] {
            let sentence = first_sentence(met, idle);
            let start =
                format!("reads of 259:0, 4 KiB: mean 80.0 us = {name} 78.0 + interrupt 2.0;");
            assert!(sentence.starts_with(&start), "{met:?}: {sentence}");
        }
    }

    /// A read of 80 us whose task waited 1.2 ms for a busy CPU.
    #[test]
    fn a_wait_much_longer_than_the_request_comes_first() {
        let mut request = read(false);
        request.task = Some(7);
        request.wake = request.wake.map(|wake| TaskWake {
            task: Some(7),
            run_queue: Some(1_119_000),
            ..wake
        });
        let collected = Collected {
            requests: vec![request],
            ..Collected::default()
        };
        let metadata = Metadata {
            tasks: [(7, "fio".to_owned())].into(),
            ..Metadata::default()
        };
        let kinds = explain_requests(&collected, &metadata).kinds;
        let [first, second, ..] = &kind_sentences(&kinds[0])[..] else {
            panic!("two sentences");
        };
        assert_eq!(
            first,
            "reads of 259:0, 4 KiB: fio waited 1200.0 us (p99 1200.0), 1119.0 of them in the run queue (p99 1119.0); \
             mean 80.0 us from issue to completion."
        );
        let start = "  From issue to completion: mean 80.0 us = ";
        assert!(second.starts_with(start), "{second}");
        let helps = help::help_sentences(&kinds[0], &explain_requests(&collected, &metadata));
        let text = helps.join(" ");
        assert!(
            text.contains("at most 1119.0 us of the wait by fewer other tasks"),
            "{text}"
        );
    }

    /// What would help reads that CPU 1 completes, for tasks on two other CPUs.
    fn help_for_tasks_elsewhere(device: &str, task_cpus: [u32; 2]) -> String {
        let requests = task_cpus.map(|cpu| {
            let wake = read(false).wake.map(|wake| TaskWake {
                cpu: Some(cpu),
                exit: 20_000,
                notification: Notification::Ipi,
                ..wake
            });
            TracedRequest {
                cpu: 1,
                wake,
                ..read(false)
            }
        });
        let collected = Collected {
            requests: requests.to_vec(),
            ..Collected::default()
        };
        let metadata = Metadata {
            devices: vec![BlockDevice {
                device: 259 << 20,
                name: device.to_owned(),
                model: None,
            }],
            ..Metadata::default()
        };
        let explanation = explain_requests(&collected, &metadata);
        help::help_sentences(&explanation.kinds[0], &explanation).join(" ")
    }

    #[test]
    fn commands_that_move_tasks_and_interrupts_name_the_cpus() {
        let text = help_for_tasks_elsewhere("sda", [2, 3]);
        let commands = "`taskset --cpu-list 1` before the load's command, or `wakepath apply 'irq-affinity[cpus=2-3]' --for 10m` where";
        assert!(text.contains(commands), "{text}");
        let managed = help_for_tasks_elsewhere("nvme0n1", [2, 3]);
        let ending = "complete: `taskset --cpu-list 1` before the load's command.";
        assert!(managed.ends_with(ending), "{managed}");
        // Where tasks run on the same CPU, no list of CPUs moves anything.
        let same = help_for_tasks_elsewhere("sda", [1, 1]);
        let ending = "complete: `taskset` with a CPU in the table of interrupts.";
        assert!(same.ends_with(ending), "{same}");
    }

    #[test]
    fn columns_of_estimates_that_nobody_has_are_left_out() {
        let header = vec!["state", TIMERS_LATE, MEASURED];
        let rows = [["C1", "3.0", NO_VALUE], ["C6", NO_VALUE, NO_VALUE]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec()).to_vec();
        let (header, rows) = drop_columns_without_values(header, rows, &[TIMERS_LATE, MEASURED]);
        assert_eq!(header, ["state", TIMERS_LATE]);
        assert_eq!(rows, [["C1", "3.0"], ["C6", NO_VALUE]]);
    }
}
