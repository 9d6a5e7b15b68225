//! A row in the tables of fio options.

use wakepath_units::Nanoseconds;

use super::draft::JobDraft;
use super::value::OptionValue;
use crate::fio::FioJob;
use crate::fio::error::{LineProblem, OptionVerdict};

/// A fio option.
pub(in crate::fio) struct OptionRow {
    /// fio's names for the option, the preferred name first.
    pub(super) names: &'static [&'static str],
    pub(super) kind: ValueKind,
    pub(super) setter: Option<Setter>,
    pub(super) check: Option<Check>,
    pub(super) judge: Option<Judge>,
    pub(super) printer: Printer,
    pub(super) support: OptionSupport,
    /// Values in Markdown, where the setter does not say them.
    pub(super) values_in_words: Option<&'static str>,
    /// Default in Markdown, where a default job does not print it.
    pub(super) default_in_words: Option<&'static str>,
    /// Meaning of the option in Markdown; of an option whose effect depends on the job, when a job may have it.
    pub(super) note: &'static str,
}

pub(super) type Set = fn(&mut FioJob, &mut OptionValue<'_>) -> Result<(), LineProblem>;
pub(super) type Check = fn(&mut OptionValue<'_>) -> Result<(), LineProblem>;
pub(super) type Judge = fn(&JobDraft, &str) -> OptionVerdict;

/// Parser of an option's value, with the function that stores the parsed value in a job.
#[derive(Clone, Copy)]
pub(super) enum Setter {
    /// `0` or `1`.
    Switch(fn(&mut FioJob, bool)),
    Count {
        least: u32,
        most: u32,
        set: fn(&mut FioJob, u32),
    },
    Percent(fn(&mut FioJob, u8)),
    Text(fn(&mut FioJob, String)),
    Time {
        default_unit: FioTimeUnit,
        set: fn(&mut FioJob, Nanoseconds),
    },
    /// One of some names.
    Choice {
        list_names: fn() -> Vec<&'static str>,
        set: Set,
    },
    /// Any other notation; the row describes its values in words.
    Custom(Set),
}

impl Setter {
    /// Parses a value and stores it in a job.
    pub(super) fn parse_into_job(
        self,
        job: &mut FioJob,
        value: &mut OptionValue<'_>,
    ) -> Result<(), LineProblem> {
        match self {
            Self::Switch(set) => set(job, value.parse_zero_or_one()?),
            Self::Count { least, most, set } => set(job, value.parse_count(least, most)?),
            Self::Percent(set) => set(job, value.parse_percent()?),
            Self::Text(set) => set(job, value.nonempty_text()?),
            Self::Time { default_unit, set } => {
                set(
                    job,
                    value.parse_time_with_default_unit(default_unit.microseconds())?,
                );
            }
            Self::Choice { set, .. } | Self::Custom(set) => return set(job, value),
        }
        Ok(())
    }
}

/// Unit of a time that is written without a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FioTimeUnit {
    /// A millionth of a second.
    Microsecond,
    /// A second.
    Second,
}

impl FioTimeUnit {
    const fn microseconds(self) -> u64 {
        match self {
            Self::Microsecond => 1,
            Self::Second => 1_000_000,
        }
    }
}

/// Printer of an option's value in a job file.
#[derive(Clone, Copy)]
pub(super) enum Printer {
    /// No line: another option prints the field.
    Nothing,
    /// A line if the function returns a value.
    IfSome(fn(&FioJob) -> Option<String>),
    /// A line if the value differs from a default job's.
    UnlessDefault(fn(&FioJob) -> String),
}

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
            setter: None,
            check: None,
            judge: None,
            printer: Printer::Nothing,
            support,
            values_in_words: None,
            default_in_words: None,
            note: "",
        }
    }

    const fn with_setter(names: &'static [&'static str], setter: Setter) -> Self {
        Self {
            setter: Some(setter),
            ..Self::new(names, OptionSupport::Full)
        }
    }

    /// The row for an option whose values have their own notation.
    pub(super) const fn for_job_field(names: &'static [&'static str], set: Set) -> Self {
        Self::with_setter(names, Setter::Custom(set))
    }

    /// The row for an option that is `0` or `1`.
    pub(super) const fn for_switch(
        names: &'static [&'static str],
        set: fn(&mut FioJob, bool),
    ) -> Self {
        Self::with_setter(names, Setter::Switch(set))
    }

    /// The row for an option that is `0` or `1`, and `1` if it stands alone.
    pub(super) const fn for_flag(
        names: &'static [&'static str],
        set: fn(&mut FioJob, bool),
    ) -> Self {
        Self::for_switch(names, set).with_flag_value()
    }

    /// The row for an option that counts from `least` to `most`.
    pub(super) const fn for_count(
        names: &'static [&'static str],
        least: u32,
        most: u32,
        set: fn(&mut FioJob, u32),
    ) -> Self {
        Self::with_setter(names, Setter::Count { least, most, set })
    }

    pub(super) const fn for_percent(
        names: &'static [&'static str],
        set: fn(&mut FioJob, u8),
    ) -> Self {
        Self::with_setter(names, Setter::Percent(set))
    }

    /// The row for an option with free text, which may not be empty.
    pub(super) const fn for_text(
        names: &'static [&'static str],
        set: fn(&mut FioJob, String),
    ) -> Self {
        Self::with_setter(names, Setter::Text(set)).with_free_text_value()
    }

    pub(super) const fn for_time(
        names: &'static [&'static str],
        default_unit: FioTimeUnit,
        set: fn(&mut FioJob, Nanoseconds),
    ) -> Self {
        Self::with_setter(names, Setter::Time { default_unit, set })
    }

    /// The row for an option with names as values.
    pub(super) const fn for_choice(
        names: &'static [&'static str],
        list_names: fn() -> Vec<&'static str>,
        set: Set,
    ) -> Self {
        Self::with_setter(names, Setter::Choice { list_names, set })
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

    /// Adds the function that prints the option's value; it returns `None` where no line is needed.
    pub(super) const fn with_printer(self, print: fn(&FioJob) -> Option<String>) -> Self {
        Self {
            printer: Printer::IfSome(print),
            ..self
        }
    }

    /// Adds the function that prints the option's value, where the value is not the default.
    pub(super) const fn with_printer_unless_default(self, print: fn(&FioJob) -> String) -> Self {
        Self {
            printer: Printer::UnlessDefault(print),
            ..self
        }
    }

    /// Adds the values for users, in Markdown, where the setter does not say them.
    pub(super) const fn with_values(self, values: &'static str) -> Self {
        Self {
            values_in_words: Some(values),
            ..self
        }
    }

    /// Adds the default for users, in Markdown, where a default job does not print it.
    pub(super) const fn with_default(self, default: &'static str) -> Self {
        Self {
            default_in_words: Some(default),
            ..self
        }
    }

    /// Adds what the option does, or when a job may have it, for users, in Markdown.
    pub(super) const fn with_note(self, note: &'static str) -> Self {
        Self { note, ..self }
    }

    /// The option's value in a job's section; `None` if the job needs no line for it.
    pub(super) fn print_value(&self, job: &FioJob) -> Option<String> {
        match self.printer {
            Printer::Nothing => None,
            Printer::IfSome(print) => print(job),
            Printer::UnlessDefault(print) => {
                Some(print(job)).filter(|value| *value != print(&FioJob::default()))
            }
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
