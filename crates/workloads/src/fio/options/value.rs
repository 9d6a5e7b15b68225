//! Values of options, read as an option asks for and printed as fio reads them.

use wakepath_units::Nanoseconds;

use crate::fio::PerDirection;
use crate::fio::error::{Problem, shown};
use crate::fio::values::{KbBase, bytes, count, per_direction, percent, switch, time};

/// The value of an option, read as the option asks for.
pub(super) struct Value<'a> {
    /// Text in the file.
    pub(super) text: &'a str,
    pub(super) kb_base: KbBase,
    /// A remark for the user.
    pub(super) remark: Option<String>,
}

impl Value<'_> {
    pub(super) fn remark(&mut self, text: impl Into<String>) {
        self.remark = Some(text.into());
    }

    /// Free text, taken as it stands, quotes and all. Only the blank at its end is lost, as in fio.
    pub(super) fn free_text(&self) -> Result<String, Problem> {
        if self.text.is_empty() {
            return Err(Problem::new("a value is missing"));
        }
        Ok(self.text.to_owned())
    }

    /// A number of bytes, at least `least`.
    pub(super) fn bytes(&mut self, least: u64) -> Result<u64, Problem> {
        self.bytes_of(self.text, least)
    }

    /// A number of bytes within the value.
    pub(super) fn bytes_of(&mut self, part: &str, least: u64) -> Result<u64, Problem> {
        let parsed = bytes(part, self.kb_base)?;
        if parsed.surprising {
            self.remark(format!(
                "`{}` is {} bytes to fio, whose kib is 1000 and whose k is 1024",
                shown(part),
                parsed.value
            ));
        }
        at_least(least, parsed.value)
    }

    /// Numbers of bytes, at least `least`; an empty part leaves its direction unchanged.
    pub(super) fn bytes_per_direction(
        &mut self,
        least: u64,
    ) -> Result<PerDirection<Option<u64>>, Problem> {
        let text = self.text;
        per_direction(text, |part| self.bytes_of(part, least))
    }

    /// Counts, at least `least`; an empty part leaves its direction unchanged.
    pub(super) fn counts_per_direction(
        &self,
        least: u64,
    ) -> Result<PerDirection<Option<u64>>, Problem> {
        per_direction(self.text, |part| {
            at_least(least, count(part, self.kb_base)?)
        })
    }

    pub(super) fn count(&self, least: u32, most: u32) -> Result<u32, Problem> {
        within(least, most, count(self.text, self.kb_base)?)
    }

    pub(super) fn percent(&self) -> Result<u8, Problem> {
        percent(self.text)
    }

    pub(super) fn switch(&self) -> Result<bool, Problem> {
        switch(self.text)
    }

    /// A time with a unit, or without one in units of so many microseconds.
    pub(super) fn time(&self, default_us: u64) -> Result<Nanoseconds, Problem> {
        time(self.text, default_us)
    }
}

pub(super) fn at_least(least: u64, value: u64) -> Result<u64, Problem> {
    if value < least {
        return Err(Problem::new(format!("must be at least {least}")));
    }
    Ok(value)
}

pub(super) fn within(least: u32, most: u32, value: u64) -> Result<u32, Problem> {
    let message = format!("{value} is out of range; expected {least} to {most}");
    match u32::try_from(value) {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        Ok(value) if value < least => Err(Problem::new(message)),
        // fio has other limits.
        _ => Err(Problem::unmodelled(message)),
    }
}

/// The error for a value that is none of the option's names.
pub(super) fn one_of(text: &str, names: &[&'static str]) -> Problem {
    let list = names.join(", ");
    Problem::new(format!("`{}`: expected one of {list}", shown(text)))
        .nearest(text, names.iter().copied())
}

/// Values by direction in fio's notation, if any.
pub(super) fn printed_list<T: ToString>(values: &PerDirection<Option<T>>) -> Option<String> {
    let parts = values.each().map(|part| part.as_ref().map(T::to_string));
    let given = parts.iter().any(Option::is_some);
    given.then(|| parts.map(Option::unwrap_or_default).join(","))
}

/// Printed form of a flag.
pub(super) fn flag(on: bool) -> String {
    u8::from(on).to_string()
}
