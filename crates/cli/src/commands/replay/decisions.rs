//! `wakepath replay --decisions`: a log with answers beside governors' answers, on one CPU.

use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use wakepath_policies::idle::{Governor, IdleDecision};
use wakepath_policies::input::{Call, CallReader, read_decisions};
use wakepath_policies::mechanism::Kind;
use wakepath_policies::spec::PolicySet;
use wakepath_replay::StateReport;
use wakepath_replay::cost::IdlePeriodTotals;
use wakepath_replay::score::CallLog;
use wakepath_study::run::replay::Replaying;
use wakepath_units::cpus;

use super::arguments::Args;
use crate::output::{self, Format, Screen};

const HEADER: [&str; 10] = [
    "governor",
    "state",
    "time ms",
    "count",
    "too deep",
    "too shallow",
    "slower",
    "added us",
    "wasted J",
    "energy J",
];

/// Figures of a governor in an idle state; `all` stands for all states together.
#[derive(Serialize)]
struct ScoreRow {
    governor: String,
    state: String,
    time_ns: u64,
    count: u64,
    too_deep: u64,
    too_shallow: u64,
    slower: u64,
    added_latency_ns: u64,
    wasted_j: Option<f64>,
    energy_j: Option<f64>,
}

/// Scores the answers in `file`, and the answers that governors give to the same calls.
pub(super) fn score_and_print_given_answers(
    file: &Path,
    args: &Args,
    recording: &Replaying<'_>,
    sets: &[PolicySet],
    out: &mut Screen,
) -> anyhow::Result<()> {
    let cpu = args.cpu.unwrap_or(0);
    let name = file.display().to_string();
    let input = wakepath_files::open_regular_file(file).with_context(|| name.clone())?;
    let answers = read_decisions(BufReader::new(input), &name)?;
    let log = make_call_log_by_replay(args, recording, cpu)?;
    ensure!(
        log.calls.len() == answers.len(),
        "{name} has {} answers, and CPU {cpu} was asked {} times. Write its calls with \
         --calls FILE --cpu {cpu}, and answer each line with one",
        answers.len(),
        log.calls.len()
    );
    let mut rows = score_per_state_and_all(&log, &name, &answers)?;
    for set in sets {
        rows.extend(score_per_state_and_all(
            &log,
            &set.to_string(),
            &answer_calls_by_governor(&log, set)?,
        )?);
    }
    match args.format {
        Format::Json => output::write_json(out, &rows),
        Format::Csv => output::write_csv(out, HEADER, rows.iter().map(|row| row.row_cells(false))),
        Format::Table => {
            writeln!(
                out,
                "CPU {cpu}: {} calls, and how long it was idle then",
                log.calls.len()
            )?;
            output::write_table(out, HEADER, rows.iter().map(|row| row.row_cells(true)))
        }
    }
}

/// The governor call log of a CPU, made by replaying the recording.
fn make_call_log_by_replay(
    args: &Args,
    recording: &Replaying<'_>,
    cpu: u32,
) -> anyhow::Result<CallLog> {
    let mut log = Vec::new();
    let replayed = recording.replay_in_blocks(1, Some((cpu, &mut log)), &mut |_| true)?;
    ensure!(
        !log.is_empty(),
        "CPU {cpu} has no idle period in {}; --cpu can be {}",
        args.trace.display(),
        cpus::format_cpu_list(&replayed.report.cpus)
    );
    let calls: Vec<Call> = CallReader::new(&log[..], "the call log").collect::<Result<_, _>>()?;
    let (states, tick) = recording.idle_states_of_cpu_and_tick_rate(cpu);
    Ok(CallLog {
        states: states.clone(),
        tick,
        calls,
    })
}

/// The answers that a governor gives to the calls.
fn answer_calls_by_governor(log: &CallLog, set: &PolicySet) -> anyhow::Result<Vec<IdleDecision>> {
    let others = set
        .policies()
        .iter()
        .any(|policy| policy.kind() != Kind::Idle);
    let Some(policy) = set.idle().filter(|_| !others) else {
        bail!(
            "--policy '{set}': beside a log of answers there are idle governors alone, without psd"
        );
    };
    let mut governor = Governor::new_or_only_state_rule(&policy, &log.states.declared, log.tick);
    let mut answers = Vec::new();
    let calls = log.calls.iter().map(|call| (&call.query, &call.outcome));
    governor.replay_logged_calls(calls, |decision| answers.push(decision));
    if let Some(why) = governor.failure_reason() {
        bail!("the governor {why}");
    }
    Ok(answers)
}

/// Rows with scored answers: a row for each idle state, and a row for all.
fn score_per_state_and_all(
    log: &CallLog,
    name: &str,
    answers: &[IdleDecision],
) -> anyhow::Result<Vec<ScoreRow>> {
    let by_state = log
        .score_answers(answers)
        .with_context(|| name.to_owned())?;
    let has_power = log.states.power.is_some();
    let mut all = IdlePeriodTotals::default();
    for totals in &by_state {
        all.add_totals(totals);
    }
    let names = log.states.declared.iter().map(|state| state.name.clone());
    let rows = names.zip(by_state).chain([("all".to_owned(), all)]);
    Ok(rows
        .map(|(state, totals)| {
            let report = StateReport::from_totals(state, &totals, has_power);
            ScoreRow {
                governor: name.to_owned(),
                state: report.state,
                time_ns: report.time_ns,
                count: report.count,
                too_deep: report.too_deep,
                too_shallow: report.too_shallow,
                slower: report.slower,
                added_latency_ns: report.added_latency_ns,
                wasted_j: report.wasted_j,
                energy_j: report.energy_j,
            }
        })
        .collect())
}

impl ScoreRow {
    fn row_cells(&self, rounded: bool) -> Vec<String> {
        let [wasted, used] = [self.wasted_j, self.energy_j].map(|joules| {
            joules.map_or_else(
                || "-".to_owned(),
                |joules| format_rounded_or_full(joules, 6, rounded),
            )
        });
        vec![
            self.governor.clone(),
            self.state.clone(),
            format_rounded_or_full(self.time_ns as f64 / 1e6, 3, rounded),
            self.count.to_string(),
            self.too_deep.to_string(),
            self.too_shallow.to_string(),
            self.slower.to_string(),
            format_rounded_or_full(self.added_latency_ns as f64 / 1e3, 1, rounded),
            wasted,
            used,
        ]
    }
}

fn format_rounded_or_full(value: f64, digits: usize, rounded: bool) -> String {
    if rounded {
        format!("{value:.digits$}")
    } else {
        value.to_string()
    }
}
