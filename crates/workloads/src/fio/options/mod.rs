//! Job options. Each option is a [`Row`] in a table below: names, effect, judgement once the whole job is known, and
//! printed form.

use std::collections::BTreeMap;

use wakepath_units::Nanoseconds;

use super::error::{Findings, Place, Problem, Verdict, shown};
use super::sections::{MAX_PROBLEMS, strip};
use super::values::{KbBase, bytes, count, per_direction, percent, switch, time};
use super::{FioJob, PerDirection, ZoneMode};

mod basic;
mod conditional;
mod content;
mod extent;
mod ignored;
mod lifetime;
mod pace;
mod pattern;
mod places;
mod refused;

/// The tables in which options are looked up, in the order in which a job is printed.
const TABLES: [&[Row]; 10] = [
    basic::ROWS,
    pace::ROWS,
    lifetime::ROWS,
    extent::ROWS,
    pattern::ROWS,
    places::ROWS,
    content::ROWS,
    conditional::ROWS,
    refused::ROWS,
    ignored::ROWS,
];

/// Pairs of opposite options: the later option counts.
const OPPOSITES: [(&str, &str); 2] = [("rwmixwrite", "rwmixread"), ("buffered", "direct")];

/// A fio option.
pub(super) struct Row {
    /// fio's names for the option.
    names: &'static [&'static str],
    kind: Kind,
    set: Option<Set>,
    check: Option<Check>,
    judge: Option<Judge>,
    print: Option<fn(&FioJob) -> Option<String>>,
    support: OptionSupport,
}

type Set = fn(&mut FioJob, &mut Value<'_>) -> Result<(), Problem>;
type Check = fn(&mut Value<'_>) -> Result<(), Problem>;
type Judge = fn(&Draft, &str) -> Verdict;

/// How the text behind the `=` is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
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
    const fn sets(names: &'static [&'static str], set: Set) -> Self {
        Self {
            set: Some(set),
            ..Self::new(names, OptionSupport::Full)
        }
    }

    /// An option whose effect depends on value and job.
    const fn depends(names: &'static [&'static str], judge: Judge) -> Self {
        Self::new(names, OptionSupport::Depends).judged(judge)
    }

    /// It cannot change when an I/O is issued or how long it takes: a warning says why.
    const fn ignored(names: &'static [&'static str], why: &'static str) -> Self {
        Self::new(names, OptionSupport::Ignored(why))
    }

    /// An option that could change timing: only neutral values are accepted.
    const fn only(
        names: &'static [&'static str],
        values: &'static [&'static str],
        why: &'static str,
    ) -> Self {
        Self::new(names, OptionSupport::OnlyValues(values, why))
    }

    /// An option that could change timing and has no model; the text gives a reason or an alternative.
    const fn refused(names: &'static [&'static str], why: &'static str) -> Self {
        Self::new(names, OptionSupport::Refused(why))
    }

    const fn text(self) -> Self {
        Self {
            kind: Kind::Text,
            ..self
        }
    }

    const fn flag(self) -> Self {
        Self {
            kind: Kind::Flag,
            ..self
        }
    }

    /// Adds a check: values that fio refuses are errors.
    const fn checked(self, check: Check) -> Self {
        Self {
            check: Some(check),
            ..self
        }
    }

    const fn judged(self, judge: Judge) -> Self {
        Self {
            judge: Some(judge),
            ..self
        }
    }

    /// Adds the printed value, `None` for defaults.
    const fn printed(self, print: fn(&FioJob) -> Option<String>) -> Self {
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

fn rows() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().flat_map(|table| table.iter())
}

fn row(name: &str) -> Option<&'static Row> {
    rows().find(|row| row.names.contains(&name))
}

/// Every option that is known, aliases included.
pub fn known_options() -> impl Iterator<Item = (&'static str, OptionSupport)> {
    rows().flat_map(|row| row.names.iter().map(|name| (*name, row.support)))
}

/// Whether a line sets the same as `option`, by any name: `timeout` is `runtime`, and `buffered` the opposite of
/// `direct`.
pub fn line_sets(line: &str, option: &str) -> bool {
    let (key, _) = split(strip(line));
    let decides = |name| {
        let name = row(name).map_or(name, |row| row.names[0]);
        let opposite = OPPOSITES.iter().find(|(one, _)| *one == name);
        opposite.map_or(name, |(_, other)| *other)
    };
    decides(key) == decides(option)
}

/// A job whose options are still being read.
#[derive(Clone, Default)]
pub(super) struct Draft {
    pub(super) job: FioJob,
    /// Section header.
    header: Place,
    /// A line was not understood, and may contain what seems missing.
    incomplete: bool,
    /// What the suffix `k` of a size stands for in this section: 1000 or 1024.
    kb_base: KbBase,
    /// Options given so far, by first name.
    given: BTreeMap<&'static str, GivenValue>,
}

/// Where an option was given last.
#[derive(Clone)]
struct GivenValue {
    place: Place,
    value: String,
}

impl Draft {
    /// Starts a job for the section `name` with these defaults.
    pub(super) fn for_job(&self, name: &str, place: &Place) -> Self {
        let mut draft = self.clone();
        draft.job.line = place.line;
        draft.header = place.clone();
        // Also where [global] has a name option: fio 3.33 prefers the section's name then.
        name.clone_into(&mut draft.job.name);
        draft
    }

    /// Line of the section header.
    pub(super) fn header(&self) -> &Place {
        &self.header
    }

    /// Value given for an option, by first name.
    fn value_of(&self, option: &str) -> Option<&str> {
        self.given.get(option).map(|given| given.value.as_str())
    }

    /// Where an option was given, by its first name, or else the job's header.
    pub(super) fn place_of(&self, option: &str) -> &Place {
        self.given
            .get(option)
            .map_or(&self.header, |given| &given.place)
    }

    /// Applies a `key=value` or flag line.
    fn apply(&mut self, content: &str, place: &Place, findings: &mut Findings) {
        let before = findings.malformed.len() + findings.unmodelled.len();
        self.apply_line(content, place, findings);
        self.incomplete |= findings.malformed.len() + findings.unmodelled.len() > before;
    }

    /// Applies the section's lines. As in fio, `kb_base` comes first, wherever written.
    pub(super) fn apply_all(&mut self, lines: &[(String, Place)], findings: &mut Findings) {
        for (content, _) in lines {
            match split(content) {
                ("kb_base", Some("1000")) => self.kb_base = KbBase::Standard,
                ("kb_base", Some("1024")) => self.kb_base = KbBase::Swapped,
                _ => {}
            }
        }
        for (content, place) in lines {
            if findings.malformed.len() >= MAX_PROBLEMS {
                break;
            }
            self.apply(content, place, findings);
        }
    }

    fn apply_line(&mut self, content: &str, place: &Place, findings: &mut Findings) {
        let (key, value) = split(content);
        let Some(row) = row(key) else {
            return findings.add(place, unknown(key));
        };
        match row.support {
            OptionSupport::Refused(why) => {
                self.given(row, value.unwrap_or_default(), place);
                return findings.judge(place, key, Verdict::Unmodelled(why.to_owned()));
            }
            OptionSupport::Ignored(why) if row.check.is_none() => {
                return findings.warn(place, key, why.to_owned());
            }
            _ => {}
        }
        let text = match text_of(row.kind, value) {
            Ok(text) => text,
            Err(problem) => return findings.add(place, problem.of_option(key)),
        };
        let mut value = Value {
            text,
            kb_base: self.kb_base,
            remark: None,
        };
        if let Some(check) = row.check
            && let Err(problem) = check(&mut value)
        {
            return findings.add(place, problem.of_option(key));
        }
        if let OptionSupport::Ignored(why) = row.support {
            findings.warn(place, key, why.to_owned());
        }
        if let Some(set) = row.set
            && let Err(problem) = set(&mut self.job, &mut value)
        {
            if problem.unmodelled {
                self.given(row, text, place);
            }
            return findings.add(place, problem.of_option(key));
        }
        if let Some(remark) = value.remark {
            findings.warn(place, key, remark);
        }
        self.given(row, text, place);
    }

    fn given(&mut self, row: &Row, value: &str, place: &Place) {
        let given = GivenValue {
            place: place.clone(),
            value: value.to_owned(),
        };
        self.given.insert(row.names[0], given);
    }

    /// Judges all options, once the job is complete.
    pub(super) fn judge(&self, findings: &mut Findings) {
        for row in rows() {
            let Some(given) = self.given.get(row.names[0]) else {
                continue;
            };
            let verdict = match (row.judge, row.support) {
                (Some(judge), _) => judge(self, &given.value),
                (None, OptionSupport::OnlyValues(values, why))
                    if !values.contains(&given.value.as_str()) =>
                {
                    let only = values.join(" or ");
                    Verdict::Unmodelled(format!("only {only} is possible here: {why}"))
                }
                (None, _) => Verdict::Fine,
            };
            findings.judge(&given.place, row.names[0], verdict);
        }
        self.judge_together(findings);
    }

    /// Judges combinations of options.
    fn judge_together(&self, findings: &mut Findings) {
        let job = &self.job;
        let name = shown(&job.name);
        if self.incomplete {
            // Said already.
        } else if job.runtime.is_none() && !job.is_sized() && !job.has_size_of_its_files() {
            let (option, what) = match job.size {
                Some(_) => ("size", "a size in percent is of a device or of filesize"),
                None if self.given.contains_key("runtime") => {
                    ("runtime", "runtime=0 sets no limit, and there is no size")
                }
                None => ("runtime", "there is neither runtime nor size"),
            };
            let message = format!(
                "job `{name}` never ends: {what}; add runtime=SECONDS or size=BYTES, or name a device or file (filename=/dev/...)"
            );
            // fio uses the size of an existing file.
            findings.add(self.place_of(option), Problem::unmodelled(message));
        }
        if self.given.contains_key("rate") && self.given.contains_key("rate_iops") {
            let place = self.place_of("rate").max(self.place_of("rate_iops"));
            let message = format!("job `{name}` has both rate and rate_iops; keep one of them");
            findings.add(place, Problem::new(message));
        }
        if job.rw.trims() && job.rw.writes() && job.block_size.write != job.block_size.trim {
            let message =
                format!("job `{name}`: trims and writes of different sizes are not modelled");
            findings.add(self.place_of("bs"), Problem::unmodelled(message));
        }
        let zones = job.places.zones;
        if (zones.mode == ZoneMode::Strided) != (zones.size > 0)
            && self.value_of("zonemode") != Some("zbd")
        {
            let message = "zonemode=strided and zonesize need each other";
            let option = if zones.size > 0 {
                "zonesize"
            } else {
                "zonemode"
            };
            findings.add(self.place_of(option), Problem::new(message));
        }
        if let Some(what) = job.unmodelled_in_page_cache() {
            let message =
                format!("job `{name}`: buffered I/O is modelled without {what}; set direct=1");
            let option = if self.given.contains_key("buffered") {
                "buffered"
            } else {
                "direct"
            };
            findings.add(self.place_of(option), Problem::unmodelled(message));
        }
    }
}

/// A job's options as lines for a job file, one name each.
pub(super) fn printed(job: &FioJob) -> impl Iterator<Item = (&'static str, String)> {
    rows().filter_map(move |row| Some((row.names[0], row.print?(job)?)))
}

fn split(content: &str) -> (&str, Option<&str>) {
    match content.split_once('=') {
        Some((key, value)) => (key.trim_end(), Some(value)),
        None => (content, None),
    }
}

fn unknown(key: &str) -> Problem {
    if COMMAND_LINE.contains(&key) {
        return Problem::new(format!(
            "`{key}` is an option of fio's command line, not of a job file"
        ));
    }
    if key == "include" || key.starts_with("include ") {
        return Problem::new("`include` is not supported; copy the other file in");
    }
    if key.is_empty() {
        return Problem::new("an option name is missing before `=`");
    }
    Problem::new(format!("unknown option `{}`", shown(key)))
        .nearest(key, known_options().map(|(name, _)| name))
}

/// Options of fio's command line, which fio does not take in a job file either.
const COMMAND_LINE: &[&str] = &[
    "append-terse",
    "bandwidth-log",
    "client",
    "debug",
    "eta",
    "eta-interval",
    "eta-newline",
    "idle-prof",
    "max-jobs",
    "minimal",
    "output",
    "output-format",
    "parse-only",
    "readonly",
    "section",
    "server",
    "showcmd",
    "status-interval",
    "terse-version",
    "trigger",
    "trigger-file",
    "trigger-timeout",
    "warnings-fatal",
];

/// The text of a value, with the blank that may follow `=` taken off where fio does not trip over it.
fn text_of(kind: Kind, value: Option<&str>) -> Result<&str, Problem> {
    let value = match (kind, value) {
        (Kind::Flag, None) => return Ok("1"),
        (_, Some(value)) => value,
        (_, None) => return Err(Problem::new("a value is missing; write option=value")),
    };
    if kind == Kind::Text {
        return Ok(value);
    }
    let trimmed = value.trim_start();
    if trimmed.len() < value.len() && !trimmed.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Problem::unmodelled(format!(
            "fio misreads `{}` after a blank; write it right behind the `=`",
            shown(trimmed)
        )));
    }
    Ok(trimmed)
}

/// The value of an option, read as the option asks for.
pub(super) struct Value<'a> {
    /// Text in the file.
    text: &'a str,
    kb_base: KbBase,
    /// A remark for the user.
    remark: Option<String>,
}

impl Value<'_> {
    fn remark(&mut self, text: impl Into<String>) {
        self.remark = Some(text.into());
    }

    /// Free text, taken as it stands, quotes and all. Only the blank at its end is lost, as in fio.
    fn free_text(&self) -> Result<String, Problem> {
        if self.text.is_empty() {
            return Err(Problem::new("a value is missing"));
        }
        Ok(self.text.to_owned())
    }

    /// A number of bytes, at least `least`.
    fn bytes(&mut self, least: u64) -> Result<u64, Problem> {
        self.bytes_of(self.text, least)
    }

    /// A number of bytes within the value.
    fn bytes_of(&mut self, part: &str, least: u64) -> Result<u64, Problem> {
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
    fn bytes_per_direction(&mut self, least: u64) -> Result<PerDirection<Option<u64>>, Problem> {
        let text = self.text;
        per_direction(text, |part| self.bytes_of(part, least))
    }

    /// Counts, at least `least`; an empty part leaves its direction unchanged.
    fn counts_per_direction(&self, least: u64) -> Result<PerDirection<Option<u64>>, Problem> {
        per_direction(self.text, |part| {
            at_least(least, count(part, self.kb_base)?)
        })
    }

    fn count(&self, least: u32, most: u32) -> Result<u32, Problem> {
        within(least, most, count(self.text, self.kb_base)?)
    }

    fn percent(&self) -> Result<u8, Problem> {
        percent(self.text)
    }

    fn switch(&self) -> Result<bool, Problem> {
        switch(self.text)
    }

    /// A time with a unit, or without one in units of so many microseconds.
    fn time(&self, default_us: u64) -> Result<Nanoseconds, Problem> {
        time(self.text, default_us)
    }
}

fn at_least(least: u64, value: u64) -> Result<u64, Problem> {
    if value < least {
        return Err(Problem::new(format!("must be at least {least}")));
    }
    Ok(value)
}

fn within(least: u32, most: u32, value: u64) -> Result<u32, Problem> {
    let message = || format!("{value} is out of range; expected {least} to {most}");
    match u32::try_from(value) {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        Ok(value) if value < least => Err(Problem::new(message())),
        // fio has other limits.
        _ => Err(Problem::unmodelled(message())),
    }
}

/// The error for a value that is none of the option's names.
fn one_of(text: &str, names: &[&'static str]) -> Problem {
    let list = names.join(", ");
    Problem::new(format!("`{}`: expected one of {list}", shown(text)))
        .nearest(text, names.iter().copied())
}

/// Values by direction in fio's notation, if any.
fn printed_list<T: ToString>(values: &PerDirection<Option<T>>) -> Option<String> {
    let parts = values.each().map(|part| part.as_ref().map(T::to_string));
    let given = parts.iter().any(Option::is_some);
    given.then(|| parts.map(Option::unwrap_or_default).join(","))
}

/// Printed form of a flag.
fn flag(on: bool) -> String {
    u8::from(on).to_string()
}
