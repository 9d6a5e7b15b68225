//! A row of the tables of options.

use super::draft::Draft;
use super::value::Value;
use crate::fio::FioJob;
use crate::fio::error::{Problem, Verdict};

/// A fio option.
pub(in crate::fio) struct Row {
    /// fio's names for the option.
    pub(super) names: &'static [&'static str],
    pub(super) kind: Kind,
    pub(super) set: Option<Set>,
    pub(super) check: Option<Check>,
    pub(super) judge: Option<Judge>,
    pub(super) print: Option<fn(&FioJob) -> Option<String>>,
    pub(super) support: OptionSupport,
}

pub(super) type Set = fn(&mut FioJob, &mut Value<'_>) -> Result<(), Problem>;
pub(super) type Check = fn(&mut Value<'_>) -> Result<(), Problem>;
pub(super) type Judge = fn(&Draft, &str) -> Verdict;

/// How the text behind the `=` is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Numbers and names, which fio misreads after a blank.
    Plain,
    /// Free text, where a leading blank is part of the value.
    Text,
    /// `0` or `1`, and `1` if there is nothing.
    Flag,
}

impl Row {
    const fn new(names: &'static [&'static str], support: OptionSupport) -> Self {
        Self {
            names,
            kind: Kind::Plain,
            set: None,
            check: None,
            judge: None,
            print: None,
            support,
        }
    }

    /// An option that sets a field of the job.
    pub(super) const fn sets(names: &'static [&'static str], set: Set) -> Self {
        Self {
            set: Some(set),
            ..Self::new(names, OptionSupport::Full)
        }
    }

    /// An option whose effect depends on value and job.
    pub(super) const fn depends(names: &'static [&'static str], judge: Judge) -> Self {
        Self::new(names, OptionSupport::Depends).judged(judge)
    }

    /// It cannot change when an I/O is issued or how long it takes: a warning says why.
    pub(super) const fn ignored(names: &'static [&'static str], why: &'static str) -> Self {
        Self::new(names, OptionSupport::Ignored(why))
    }

    /// An option that could change timing: only neutral values are accepted.
    pub(super) const fn only(
        names: &'static [&'static str],
        values: &'static [&'static str],
        why: &'static str,
    ) -> Self {
        Self::new(names, OptionSupport::OnlyValues(values, why))
    }

    /// An option that could change timing and has no model; the text gives a reason or an alternative.
    pub(super) const fn refused(names: &'static [&'static str], why: &'static str) -> Self {
        Self::new(names, OptionSupport::Refused(why))
    }

    pub(super) const fn text(self) -> Self {
        Self {
            kind: Kind::Text,
            ..self
        }
    }

    pub(super) const fn flag(self) -> Self {
        Self {
            kind: Kind::Flag,
            ..self
        }
    }

    /// Adds a check: values that fio refuses are errors.
    pub(super) const fn checked(self, check: Check) -> Self {
        Self {
            check: Some(check),
            ..self
        }
    }

    pub(super) const fn judged(self, judge: Judge) -> Self {
        Self {
            judge: Some(judge),
            ..self
        }
    }

    /// Adds the printed value, `None` for defaults.
    pub(super) const fn printed(self, print: fn(&FioJob) -> Option<String>) -> Self {
        Self {
            print: Some(print),
            ..self
        }
    }
}

/// How far an option of fio is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionSupport {
    /// Sets a field in [`FioJob`].
    Full,
    /// Accepted where the value changes nothing for the job.
    Depends,
    /// Accepted with a warning that explains why the option does not matter.
    Ignored(&'static str),
    /// Accepted with neutral values only; the text explains why others have no model.
    OnlyValues(&'static [&'static str], &'static str),
    /// Not modelled, with the reason.
    Refused(&'static str),
}
