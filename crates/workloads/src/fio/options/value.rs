//! Option values: parsed as the option's row asks for, and printed as fio reads them.

use wakepath_units::Nanoseconds;

use crate::fio::PerDirection;
use crate::fio::error::{LineProblem, escape_and_shorten};
use crate::fio::values::{
    ByteSurprise, KbBase, parse_bytes, parse_count, parse_per_direction, parse_percent,
    parse_time_with_default_unit, parse_zero_or_one,
};

/// The value of a fio option, parsed as the option's row asks for.
pub(super) struct OptionValue<'a> {
    /// The value's text in the job file.
    pub(super) text: &'a str,
    pub(super) kb_base: KbBase,
    /// A remark on the value for the user, shown as a warning.
    pub(super) remark: Option<String>,
}

impl OptionValue<'_> {
    pub(super) fn set_remark(&mut self, text: impl Into<String>) {
        self.remark = Some(text.into());
    }

    /// The value as free text, quotes and all. Only a blank at its end is removed, as in fio.
    pub(super) fn nonempty_text(&self) -> Result<String, LineProblem> {
        if self.text.is_empty() {
            return Err(LineProblem::new("a value is missing"));
        }
        Ok(self.text.to_owned())
    }

    /// Parses the value as a number of bytes, at least `least`.
    pub(super) fn parse_bytes(&mut self, least: u64) -> Result<u64, LineProblem> {
        self.parse_bytes_in_part(self.text, least)
    }

    /// Parses a part of the value as a number of bytes, at least `least`.
    pub(super) fn parse_bytes_in_part(
        &mut self,
        part: &str,
        least: u64,
    ) -> Result<u64, LineProblem> {
        let parsed = parse_bytes(part, self.kb_base)?;
        if let Some(surprise) = parsed.surprise {
            let why = match surprise {
                ByteSurprise::SwappedPrefix => "whose kib is 1000 and whose k is 1024",
                ByteSurprise::NotComputed => {
                    "which computes only beside $pagesize, $mb_memory and $ncpus"
                }
            };
            self.set_remark(format!(
                "`{}` is {} bytes to fio, {why}",
                escape_and_shorten(part),
                parsed.value
            ));
        }
        check_at_least(least, parsed.value)
    }

    /// Parses numbers of bytes by direction, each at least `least`; an empty part leaves its direction unset.
    pub(super) fn parse_bytes_per_direction(
        &mut self,
        least: u64,
    ) -> Result<PerDirection<Option<u64>>, LineProblem> {
        let text = self.text;
        parse_per_direction(text, |part| self.parse_bytes_in_part(part, least))
    }

    /// Parses counts by direction, each at least `least`; an empty part leaves its direction unset.
    pub(super) fn parse_counts_per_direction(
        &self,
        least: u64,
    ) -> Result<PerDirection<Option<u64>>, LineProblem> {
        parse_per_direction(self.text, |part| {
            check_at_least(least, parse_count(part, self.kb_base)?)
        })
    }

    pub(super) fn parse_count(&self, least: u32, most: u32) -> Result<u32, LineProblem> {
        check_within(least, most, parse_count(self.text, self.kb_base)?)
    }

    pub(super) fn parse_percent(&self) -> Result<u8, LineProblem> {
        parse_percent(self.text)
    }

    /// Finds the value among names.
    pub(super) fn parse_name<T: Copy>(
        &self,
        names: &[(&'static str, T)],
    ) -> Result<T, LineProblem> {
        let found = names.iter().find(|(name, _)| *name == self.text);
        found
            .map(|(_, meaning)| *meaning)
            .ok_or_else(|| not_one_of_problem(self.text, &list_names(names)))
    }

    pub(super) fn parse_zero_or_one(&self) -> Result<bool, LineProblem> {
        parse_zero_or_one(self.text)
    }

    /// Parses a time with a unit; a number without a unit counts multiples of `default_unit_us` microseconds.
    pub(super) fn parse_time_with_default_unit(
        &self,
        default_unit_us: u64,
    ) -> Result<Nanoseconds, LineProblem> {
        parse_time_with_default_unit(self.text, default_unit_us)
    }
}

pub(super) fn check_at_least(least: u64, value: u64) -> Result<u64, LineProblem> {
    if value < least {
        return Err(LineProblem::new(format!("must be at least {least}")));
    }
    Ok(value)
}

pub(super) fn check_within(least: u32, most: u32, value: u64) -> Result<u32, LineProblem> {
    let message = format!("{value} is out of range; expected {least} to {most}");
    match u32::try_from(value) {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        Ok(value) if value < least => Err(LineProblem::new(message)),
        // The limits here are not fio's own, so the value counts as not modelled.
        _ => Err(LineProblem::unmodelled(message)),
    }
}

/// The names of values, for [`OptionRow::for_choice`](super::row::OptionRow::for_choice).
pub(super) fn list_names<T>(names: &[(&'static str, T)]) -> Vec<&'static str> {
    names.iter().map(|(name, _)| *name).collect()
}

/// The problem that a value is none of the option's `names`.
pub(super) fn not_one_of_problem(text: &str, names: &[&'static str]) -> LineProblem {
    let list = names.join(", ");
    LineProblem::new(format!(
        "`{}`: expected one of {list}",
        escape_and_shorten(text)
    ))
    .with_nearest_name_as_suggestion(text, names.iter().copied())
}

/// Values by direction in fio's notation; `None` if no direction has a value.
pub(super) fn print_per_direction<T: ToString>(values: &PerDirection<Option<T>>) -> Option<String> {
    let parts = values
        .as_array()
        .map(|part| part.as_ref().map(T::to_string));
    let given = parts.iter().any(Option::is_some);
    given.then(|| parts.map(Option::unwrap_or_default).join(","))
}

/// A flag as fio reads it: `1` or `0`.
pub(super) fn print_flag_as_digit(on: bool) -> String {
    u8::from(on).to_string()
}

/// A time in fio's notation, in whole microseconds.
pub(super) fn print_microseconds(time: Nanoseconds) -> String {
    format!("{}us", time.as_micros())
}
