//! A row in the tables of fio options.

use super::draft::JobDraft;
use super::value::OptionValue;
use crate::fio::FioJob;
use crate::fio::error::{LineProblem, OptionVerdict};

/// A fio option.
pub(in crate::fio) struct OptionRow {
    /// fio's names for the option, the preferred name first.
    pub(super) names: &'static [&'static str],
    pub(super) kind: ValueKind,
    pub(super) set: Option<Set>,
    pub(super) check: Option<Check>,
    pub(super) judge: Option<Judge>,
    pub(super) print: Option<fn(&FioJob) -> Option<String>>,
    pub(super) support: OptionSupport,
}

pub(super) type Set = fn(&mut FioJob, &mut OptionValue<'_>) -> Result<(), LineProblem>;
pub(super) type Check = fn(&mut OptionValue<'_>) -> Result<(), LineProblem>;
pub(super) type Judge = fn(&JobDraft, &str) -> OptionVerdict;

/// How the text behind an option's `=` is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// A number or a name, which fio misreads after a blank.
    Plain,
    /// Free text, where a leading blank is part of the value.
    Text,
    /// A flag: `0` or `1`, and `1` if there is no value.
    Flag,
}

impl OptionRow {
    const fn new(names: &'static [&'static str], support: OptionSupport) -> Self {
        Self {
            names,
            kind: ValueKind::Plain,
            set: None,
            check: None,
            judge: None,
            print: None,
            support,
        }
    }

    /// The row for an option that sets a field of the job.
    pub(super) const fn for_job_field(names: &'static [&'static str], set: Set) -> Self {
        Self {
            set: Some(set),
            ..Self::new(names, OptionSupport::Full)
        }
    }

    /// The row for an option whose effect depends on its value and the job.
    pub(super) const fn for_judged_option(names: &'static [&'static str], judge: Judge) -> Self {
        Self::new(names, OptionSupport::Depends).with_judge(judge)
    }

    /// The row for an option that cannot change when an I/O is issued or how long it takes: a warning says `why`.
    pub(super) const fn for_ignored_option(
        names: &'static [&'static str],
        why: &'static str,
    ) -> Self {
        Self::new(names, OptionSupport::Ignored(why))
    }

    /// The row for an option that could change timing and has no model; `why` gives a reason or an alternative.
    pub(super) const fn for_refused_option(
        names: &'static [&'static str],
        why: &'static str,
    ) -> Self {
        Self::new(names, OptionSupport::Refused(why))
    }

    pub(super) const fn with_free_text_value(self) -> Self {
        Self {
            kind: ValueKind::Text,
            ..self
        }
    }

    pub(super) const fn with_flag_value(self) -> Self {
        Self {
            kind: ValueKind::Flag,
            ..self
        }
    }

    /// Adds a check to the row: values that fio refuses are errors.
    pub(super) const fn with_check(self, check: Check) -> Self {
        Self {
            check: Some(check),
            ..self
        }
    }

    pub(super) const fn with_judge(self, judge: Judge) -> Self {
        Self {
            judge: Some(judge),
            ..self
        }
    }

    /// Adds the function that prints the option's value; it returns `None` for defaults.
    pub(super) const fn with_printer(self, print: fn(&FioJob) -> Option<String>) -> Self {
        Self {
            print: Some(print),
            ..self
        }
    }
}

/// How far a fio option is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionSupport {
    /// The option sets a field in [`FioJob`].
    Full,
    /// The option is accepted where its value changes nothing for the job.
    Depends,
    /// The option is accepted with a warning that explains why it does not matter.
    Ignored(&'static str),
    /// The option has no model; the text says why.
    Refused(&'static str),
}
