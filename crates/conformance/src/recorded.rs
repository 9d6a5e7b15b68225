//! Decisions of menu and teo of releases whose source no package archive has any more, over logs in `data/`.
//!
//! The decisions are those of the kernel's own C, compiled with -O2. `data/README.md` says where they come from.

use std::io::Read as _;

use anyhow::{Context as _, Result, ensure};
use lzma_rust2::XzReader;
use wakepath_policies::idle::KernelVersion;
use wakepath_units::TickRate;

use crate::checks::{Check as _, GovernorCheck, GovernorSetting, policy_name};
use crate::compare::ReleaseRow;
use crate::log::parse_case;
use crate::record::{Case, encode_decision};
use crate::subject::Subject;

/// Compressed logs: for each a line `log NUMBER hz RATE`, a line `states`, the table, a line
/// `calls` and the calls.
const LOGS: &[u8] = include_bytes!("../data/logs.txt.xz");
/// Compressed decisions: for each governor, release and log a line `GOVERNOR RELEASE NUMBER
/// DECISIONS`, with a digit per decision that keeps the tick and a letter from `a` on per decision
/// that stops it.
const DECISIONS: &[u8] = include_bytes!("../data/decisions.txt.xz");

/// A call log that several kernel releases have decided on.
#[derive(Clone, Debug)]
pub struct RecordedLog {
    /// Number, such as `03`.
    pub number: String,
    /// Ticks per second.
    pub tick: TickRate,
    /// State table and calls of the log.
    pub case: Case,
}

/// Decisions of one kernel release on a recorded log.
#[derive(Clone, Debug)]
pub struct RecordedDecisions {
    /// `menu` or `teo`.
    pub subject: Subject,
    /// The release.
    pub kernel: KernelVersion,
    /// Number of the log that was decided on.
    pub log: String,
    /// One byte per call, as [`encode_decision`] makes it.
    pub decisions: Vec<u8>,
}

/// Reads all recorded logs.
///
/// # Errors
///
/// The data is damaged.
pub fn read_recorded_logs() -> Result<Vec<RecordedLog>> {
    let text = decompress_text(LOGS)?;
    text.split("log ").skip(1).map(parse_log).collect()
}

fn parse_log(text: &str) -> Result<RecordedLog> {
    let [number, hz, states, calls] =
        split_log_text(text).context("a log without head, states or calls")?;
    let name = format!("log {number}");
    Ok(RecordedLog {
        tick: TickRate::new(hz.parse()?).with_context(|| format!("{name}: no tick rate: {hz}"))?,
        case: parse_case((states.as_bytes(), &name), (calls.as_bytes(), &name))?,
        number: number.to_owned(),
    })
}

/// Splits the text of a log into number, tick rate, state table and calls.
fn split_log_text(text: &str) -> Option<[&str; 4]> {
    let (head, rest) = text.split_once("\nstates\n")?;
    let (states, calls) = rest.split_once("calls\n")?;
    let (number, hz) = head.split_once(" hz ")?;
    Some([number, hz, states, calls])
}

/// Reads all recorded decisions.
///
/// # Errors
///
/// The data is damaged.
pub fn read_recorded_decisions() -> Result<Vec<RecordedDecisions>> {
    decompress_text(DECISIONS)?
        .lines()
        .map(parse_decisions_line)
        .collect()
}

fn parse_decisions_line(line: &str) -> Result<RecordedDecisions> {
    let parts: Vec<_> = line.split(' ').collect();
    let [governor, kernel, log, decisions] = parts[..] else {
        anyhow::bail!("not GOVERNOR RELEASE NUMBER DECISIONS: {line:.40}");
    };
    Ok(RecordedDecisions {
        subject: Subject::governor_by_name(governor)
            .with_context(|| format!("no governor {governor}"))?,
        kernel: kernel.parse()?,
        log: log.to_owned(),
        decisions: decisions
            .bytes()
            .map(parse_decision)
            .collect::<Result<_>>()?,
    })
}

/// Decodes a decision from its digit or letter.
fn parse_decision(letter: u8) -> Result<u8> {
    let (first, stop_tick) = if letter.is_ascii_digit() {
        (b'0', false)
    } else {
        (b'a', true)
    };
    let state = letter.wrapping_sub(first);
    ensure!(state < 10, "not a decision: {letter}");
    Ok(encode_decision(usize::from(state), stop_tick))
}

/// Compares every recorded decision with ours, and describes the first difference of each governor
/// and release. Needs neither a compiler nor a kernel's source.
///
/// # Errors
///
/// The data is damaged.
pub fn compare_recorded_decisions() -> Result<Vec<ReleaseRow>> {
    let logs = read_recorded_logs()?;
    let mut rows: Vec<ReleaseRow> = Vec::new();
    for decided in read_recorded_decisions()? {
        let log = logs
            .iter()
            .find(|log| log.number == decided.log)
            .with_context(|| format!("no log {}", decided.log))?;
        let setting = GovernorSetting {
            subject: decided.subject,
            version: decided.kernel,
            tick: log.tick,
        };
        let check = GovernorCheck(setting);
        let mut ours = Vec::new();
        check.append_our_answers(&log.case, &mut ours)?;
        ensure!(
            ours.len() == decided.decisions.len(),
            "log {} has {} calls, not {}",
            log.number,
            ours.len(),
            decided.decisions.len()
        );
        let policy = policy_name(setting);
        if rows.last().is_none_or(|row| row.policy != policy) {
            rows.push(ReleaseRow {
                policy,
                source: "recorded decisions".to_owned(),
                hz: None,
                decisions: 0,
                differences: 0,
            });
        }
        let Some(row) = rows.last_mut() else { continue };
        for (at, (ours, kernel)) in ours.iter().zip(&decided.decisions).enumerate() {
            row.decisions += 1;
            if ours == kernel {
                continue;
            }
            row.differences += 1;
            if row.differences == 1 {
                let text = check.describe_difference(&log.case, at, kernel, ours);
                eprintln!("DIFFERENCE (recorded log {}): {text}", log.number);
            }
        }
    }
    Ok(rows)
}

fn decompress_text(packed: &[u8]) -> Result<String> {
    let mut text = String::new();
    XzReader::new(packed, true)
        .read_to_string(&mut text)
        .context("the recorded decisions are damaged")?;
    Ok(text)
}
