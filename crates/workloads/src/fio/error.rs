//! Errors and warnings about a fio job file.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use serde::Serialize;
use wakepath_units::spelling::similar_name;

pub(super) use crate::text::escape_and_shorten;

/// Number of problems in a job file after which the search ends.
pub(super) const MAX_PROBLEMS: usize = 1000;

/// Most problems that a message lists.
const MAX_LISTED: usize = 40;

/// A problem in a job file, with its position and the nearest valid name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FioProblem {
    /// Name of the job file, or a placeholder (`-` for standard input).
    pub origin: String,
    /// Line of the problem, counted from 1. `None` when the problem is about the whole file.
    pub line: Option<usize>,
    /// What is wrong, and what was expected.
    pub message: String,
    /// The nearest valid name, if the problem is an unknown name.
    pub suggestion: Option<String>,
}

impl fmt::Display for FioProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(nearest) = &self.suggestion {
            write!(f, "; did you mean `{nearest}`?")?;
        }
        Ok(())
    }
}

/// Refusal of a job file, with all problems in line order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioError {
    /// Problems in line order; at least one.
    pub problems: Vec<FioProblem>,
}

impl FioError {
    /// Refusal of a job file because of one problem, at `line` or with the file as a whole.
    pub(crate) fn for_whole_file(origin: &str, line: Option<usize>, message: String) -> Self {
        FioProblem {
            origin: origin.to_owned(),
            line,
            message,
            suggestion: None,
        }
        .into()
    }
}

impl From<FioProblem> for FioError {
    fn from(problem: FioProblem) -> Self {
        Self {
            problems: vec![problem],
        }
    }
}

impl fmt::Display for FioError {
    /// Prints one line per problem.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().take(MAX_LISTED).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        match self.problems.len().saturating_sub(MAX_LISTED) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more problems"),
        }
    }
}

impl std::error::Error for FioError {}

/// A warning about a job file: the line was accepted, but has another effect than a user may expect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FioWarning {
    /// Line with the option, counted from 1.
    pub line: usize,
    /// Name of the option (or `section`) that the warning is about.
    pub option: String,
    /// The actual effect, which differs from what the line suggests.
    pub message: String,
}

impl fmt::Display for FioWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: `{}` {}", self.line, self.option, self.message)
    }
}

/// A problem on a line; the caller adds the line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) suggestion: Option<String>,
    /// Set if fio accepts the line and the simulator has no model for it.
    pub(super) unmodelled: bool,
}

impl Problem {
    /// A problem with a line that fio refuses, or reads differently from its obvious meaning.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            suggestion: None,
            unmodelled: false,
        }
    }

    /// A problem with a line that fio accepts and the simulator has no model for.
    pub(super) fn unmodelled(message: impl Into<String>) -> Self {
        Self {
            unmodelled: true,
            ..Self::new(message)
        }
    }

    pub(super) fn suggest_nearest<'a>(
        mut self,
        wrong: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.suggestion = similar_name(wrong, known).map(str::to_owned);
        self
    }

    pub(super) fn with_option_name(self, name: &str) -> Self {
        Self {
            message: format!("{name}: {}", self.message),
            ..self
        }
    }

    pub(super) fn at_place(self, place: &Place) -> FioProblem {
        FioProblem {
            origin: place.origin.to_string(),
            line: Some(place.line),
            message: self.message,
            suggestion: self.suggestion,
        }
    }
}

/// Position of a line: a file and a line number.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Number of the line in its file, counted from 1.
    pub(super) line: usize,
    /// Name of the file that has the line.
    pub(super) origin: Rc<str>,
}

/// Problems and warnings found in a job file so far.
#[derive(Default)]
pub(super) struct Findings {
    /// Name of the job file, which may include others.
    origin: Rc<str>,
    pub(super) warnings: Vec<FioWarning>,
    /// Problems that make the job file unusable.
    pub(super) malformed: Vec<FioProblem>,
    /// Options that fio accepts and the simulator has no model for.
    pub(super) unmodelled: Vec<FioProblem>,
    /// Lines about which a job has already said that they have no effect, or no model.
    judged: BTreeSet<(Place, bool)>,
}

impl Findings {
    /// Findings for the job file `origin`, empty so far.
    pub(super) fn new(origin: &str) -> Self {
        Self {
            origin: origin.into(),
            ..Self::default()
        }
    }

    pub(super) fn warn(&mut self, place: &Place, option: &str, mut message: String) {
        if *place.origin != *self.origin {
            message = format!("{message} (in the included file {})", place.origin);
        }
        self.warnings.push(FioWarning {
            line: place.line,
            option: option.to_owned(),
            message,
        });
    }

    pub(super) fn add_problem(&mut self, place: &Place, problem: Problem) {
        let list = if problem.unmodelled {
            &mut self.unmodelled
        } else {
            &mut self.malformed
        };
        list.push(problem.at_place(place));
    }

    /// Adds what a line means to a job. Several jobs may judge a line of a `[global]` section alike: the first
    /// judgement is kept.
    pub(super) fn add_verdict(&mut self, place: &Place, option: &str, verdict: Verdict) {
        let unmodelled = matches!(verdict, Verdict::Unmodelled(_));
        if verdict == Verdict::Fine || !self.judged.insert((place.clone(), unmodelled)) {
            return;
        }
        match verdict {
            Verdict::Fine => {}
            Verdict::Ignored(why) => self.warn(place, option, why),
            Verdict::Unmodelled(why) => {
                self.add_problem(place, Problem::unmodelled(why).with_option_name(option));
            }
        }
    }
}

/// What an option means to a job, judged once all options of the job are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The option has its obvious effect, or repeats a default.
    Fine,
    /// The option does not affect the model. The reason completes a sentence that begins with the option's name.
    Ignored(String),
    /// The option could change timing and has no model; the text gives a reason or an alternative.
    Unmodelled(String),
}
