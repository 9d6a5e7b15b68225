//! What can be wrong with a job file, and what is merely worth saying.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use serde::Serialize;
use wakepath_units::spelling::similar_name;

pub(super) use crate::text::shown;

/// Problems after which the search ends.
pub(super) const MAX_PROBLEMS: usize = 1000;

/// Most problems listed in a message.
const MAX_LISTED: usize = 40;

/// A problem in a job file, with position and probable intention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FioProblem {
    /// Name of the file, or a placeholder (`-` for standard input).
    pub origin: String,
    /// Line of the problem, counted from 1. `None` when it is about the file as a whole.
    pub line: Option<usize>,
    /// The fault and the expected input.
    pub message: String,
    /// The nearest name that would have been understood.
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
    /// At least one problem.
    pub problems: Vec<FioProblem>,
}

impl FioError {
    /// A problem of the file as a whole.
    pub(crate) fn of_file(origin: &str, line: Option<usize>, message: String) -> Self {
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
    /// A line for each problem.
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

/// Something in a job file that was accepted but that the user should know about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FioWarning {
    /// Line that the warning is about, counted from 1.
    pub line: usize,
    /// The option (or `section`) that the warning is about.
    pub option: String,
    /// The actual effect, which differs from what the line suggests.
    pub message: String,
}

impl fmt::Display for FioWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: `{}` {}", self.line, self.option, self.message)
    }
}

/// A problem on a line that the caller knows.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) message: String,
    pub(super) suggestion: Option<String>,
    /// fio accepts the line; the simulator has no model.
    pub(super) unmodelled: bool,
}

impl Problem {
    /// fio refuses the line, or gives it another meaning than the obvious one.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            suggestion: None,
            unmodelled: false,
        }
    }

    /// fio accepts the line; the simulator has no model.
    pub(super) fn unmodelled(message: impl Into<String>) -> Self {
        Self {
            unmodelled: true,
            ..Self::new(message)
        }
    }

    pub(super) fn nearest<'a>(
        mut self,
        wrong: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.suggestion = similar_name(wrong, known).map(str::to_owned);
        self
    }

    pub(super) fn of_option(self, name: &str) -> Self {
        Self {
            message: format!("{name}: {}", self.message),
            ..self
        }
    }

    pub(super) fn at(self, place: &Place) -> FioProblem {
        FioProblem {
            origin: place.origin.to_string(),
            line: Some(place.line),
            message: self.message,
            suggestion: self.suggestion,
        }
    }
}

/// A line in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// Index of the file's line, counted from 1.
    pub(super) line: usize,
    /// Name of the file.
    pub(super) origin: Rc<str>,
}

/// What has been found out about a file so far.
#[derive(Default)]
pub(super) struct Findings {
    /// Name of the including file.
    origin: Rc<str>,
    pub(super) warnings: Vec<FioWarning>,
    /// Problems that make the job file unusable.
    pub(super) malformed: Vec<FioProblem>,
    /// Features without a model in the simulator.
    pub(super) unmodelled: Vec<FioProblem>,
    /// Lines already judged by a job as without effect, or as not modelled.
    judged: BTreeSet<(Place, bool)>,
}

impl Findings {
    /// Empty findings for a file with this name.
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

    pub(super) fn add(&mut self, place: &Place, problem: Problem) {
        let list = if problem.unmodelled {
            &mut self.unmodelled
        } else {
            &mut self.malformed
        };
        list.push(problem.at(place));
    }

    /// What a line means to a job. Several jobs may say the same of a line of a `[global]` section: once is enough.
    pub(super) fn judge(&mut self, place: &Place, option: &str, verdict: Verdict) {
        let unmodelled = matches!(verdict, Verdict::Unmodelled(_));
        if verdict == Verdict::Fine || !self.judged.insert((place.clone(), unmodelled)) {
            return;
        }
        match verdict {
            Verdict::Fine => {}
            Verdict::Ignored(why) => self.warn(place, option, why),
            Verdict::Unmodelled(why) => {
                self.add(place, Problem::unmodelled(why).of_option(option));
            }
        }
    }
}

/// Meaning of an option, once all options of the job are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The option has the obvious effect, or repeats a default.
    Fine,
    /// The option does not affect the model. The reason completes a sentence that begins with the option.
    Ignored(String),
    /// The option could change timing and has no model; the text gives a reason or an alternative.
    Unmodelled(String),
}
