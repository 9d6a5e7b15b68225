//! What can be wrong with a job file, and what is merely worth saying.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use serde::Serialize;
use wakepath_units::spelling::nearest;

pub(super) use crate::text::shown;

/// Most problems of a file that a message lists.
const MAX_LISTED: usize = 40;

/// One problem of a job file: its place, and the likely intention if there is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FioProblem {
    /// Name of the file, or what stands for it (`-` for standard input).
    pub origin: String,
    /// Line of the problem, counted from 1. `None` when it is about the file as a whole.
    pub line: Option<usize>,
    /// What is wrong and what was expected.
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

/// Why a job file was refused: all its problems, in the order of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioError {
    /// At least one.
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
    /// What happens instead of what the line might seem to ask for.
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
    /// fio takes the line; what it asks for is not modelled.
    pub(super) unmodelled: bool,
}

impl Problem {
    /// The line does not do in fio what it seems to say, or fio refuses it.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            suggestion: None,
            unmodelled: false,
        }
    }

    /// fio takes the line; what it asks for is not modelled.
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
        self.suggestion = nearest(wrong, known).map(str::to_owned);
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

/// A line of a file.
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
    /// Name of the file that includes all others.
    origin: Rc<str>,
    pub(super) warnings: Vec<FioWarning>,
    /// What makes it no job file that is understood.
    pub(super) malformed: Vec<FioProblem>,
    /// What the simulator has no model of.
    pub(super) unmodelled: Vec<FioProblem>,
    /// Lines of which a job has said already that they do nothing, or are not modelled.
    judged: BTreeSet<(Place, bool)>,
}

impl Findings {
    /// Nothing yet, of the file of this name.
    pub(super) fn of(origin: &str) -> Self {
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

/// What an option means to a job whose options are all known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It does what it says, or says what is so anyway.
    Fine,
    /// It changes nothing that the model knows of; why, as the end of a sentence that begins with the option.
    Ignored(String),
    /// It could change timing, and there is no model of it; why, or what to do.
    Unmodelled(String),
}
