//! Job options. Each option is a [`Row`] in a table below: names, effect, judgement once the whole job is known, and
//! printed form.

mod basic;
mod conditional;
mod content;
mod draft;
mod extent;
mod ignored;
mod lifetime;
mod pace;
mod pattern;
mod places;
mod refused;
mod row;
mod value;

pub(super) use self::draft::Draft;
use self::draft::GivenValue;
pub use self::row::OptionSupport;
use self::row::{Kind, Row};
use self::value::Value;
use super::error::{Findings, MAX_PROBLEMS, Place, Problem, Verdict, shown};
use super::syntax::strip;
use super::values::KbBase;
use super::{FioJob, ZoneMode};

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
    decided_option(key) == decided_option(option)
}

/// The option that a name decides: its first name, or that of its opposite.
fn decided_option(name: &str) -> &str {
    let first = row(name).map_or(name, |row| row.names[0]);
    let opposite = OPPOSITES.iter().find(|(one, _)| *one == first);
    opposite.map_or(first, |(_, other)| *other)
}

impl Draft {
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
