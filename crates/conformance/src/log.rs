//! The kernel's own answers to a governor call log that somebody else made, such as
//! `wakepath replay --calls`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result};
use wakepath_policies::input::{CallReader, read_states};
use wakepath_units::TickRate;

use crate::program::KernelProgram;
use crate::record::{CallRecord, Case, StateRecord, format_decision};
use crate::source::{KernelSource, VERSIONS};
use crate::subject::Subject;

/// An idle governor of one kernel version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelGovernor {
    /// The governor.
    pub subject: Subject,
    /// Version as in the name of Debian's source package, `6.12`.
    pub version: &'static str,
}

impl KernelGovernor {
    /// Parses the name of a governor with version, such as `menu@6.12`.
    ///
    /// # Errors
    ///
    /// There is no such governor or version.
    pub fn parse(name: &str) -> Result<Self> {
        let (governor, version) = name
            .split_once('@')
            .with_context(|| format!("{name}: expected GOVERNOR@VERSION, such as menu@6.12"))?;
        let subject = Subject::governor_by_name(governor);
        let version = VERSIONS.into_iter().find(|known| *known == version);
        Ok(Self {
            subject: subject.with_context(|| {
                let known = Subject::GOVERNORS.map(Subject::name).join(", ");
                format!("no governor {governor}; there are {known}")
            })?,
            version: version
                .with_context(|| format!("no kernel version; there are {}", VERSIONS.join(", ")))?,
        })
    }
}

/// Compiles the kernel's governor and has it answer every call of a log. The result has a line for
/// each, as `wakepath policy idle` prints them.
///
/// # Errors
/// A file cannot be read, or the governor cannot be compiled.
pub fn answer_log_by_kernel(
    governor: KernelGovernor,
    source: &KernelSource,
    tick: TickRate,
    states: &Path,
    calls: &Path,
) -> Result<String> {
    let case = read_case_files(states, calls)?;
    let program = KernelProgram::compile_subject(governor.subject, source, tick.hz(), None)?;
    let mut input = Vec::new();
    case.append_to(&mut input);
    let mut text = String::new();
    for decision in program.run_over_input(&input)? {
        let _ = writeln!(text, "{}", format_decision(decision));
    }
    Ok(text)
}

fn read_case_files(states: &Path, calls: &Path) -> Result<Case> {
    let (states, states_name) = open_with_name(states)?;
    let (calls, calls_name) = open_with_name(calls)?;
    parse_case((states, &states_name), (calls, &calls_name))
}

/// Opens a file; returns also its name for messages.
fn open_with_name(path: &Path) -> Result<(BufReader<File>, String)> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| name.clone())?;
    Ok((BufReader::new(file), name))
}

/// Parses a state table and a call log; each text comes with a name for messages.
pub(crate) fn parse_case(
    (states, states_name): (impl Read, &str),
    (calls, calls_name): (impl Read, &str),
) -> Result<Case> {
    let table = read_states(states, states_name)?;
    let calls = CallReader::new(calls, calls_name).map(|call| {
        let call = call?;
        anyhow::Ok(CallRecord::from((&call.query, &call.outcome)))
    });
    Ok(Case {
        halt_poll: None,
        states: table.iter().map(StateRecord::from).collect(),
        calls: calls.collect::<Result<_>>()?,
    })
}
