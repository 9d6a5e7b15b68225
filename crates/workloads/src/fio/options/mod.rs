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
use super::error::{Findings, MAX_PROBLEMS, Place, Problem, Verdict, escape_and_shorten};
use super::syntax::strip_comment_and_blanks;
use super::values::KbBase;
use super::{FioJob, ZoneMode};

/// The tables in which options are looked up; a job's options are printed in this order.
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

/// Pairs of opposite options: the later option in a job counts.
const OPPOSITES: [(&str, &str); 2] = [("rwmixwrite", "rwmixread"), ("buffered", "direct")];

fn all_rows() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().flat_map(|table| table.iter())
}

fn find_row(name: &str) -> Option<&'static Row> {
    all_rows().find(|row| row.names.contains(&name))
}

/// Every fio option that is known, aliases included, with how far it is supported.
pub fn known_options() -> impl Iterator<Item = (&'static str, OptionSupport)> {
    all_rows().flat_map(|row| row.names.iter().map(|name| (*name, row.support)))
}

/// Whether a line sets `option`, under any of its names: `timeout` is `runtime`, and `buffered` the opposite of
/// `direct`.
pub fn line_sets_option(line: &str, option: &str) -> bool {
    let (key, _) = split_key_and_value(strip_comment_and_blanks(line));
    first_option_name(key) == first_option_name(option)
}

/// The first name of an option, or of its opposite, from any of their names.
fn first_option_name(name: &str) -> &str {
    let first = find_row(name).map_or(name, |row| row.names[0]);
    let opposite = OPPOSITES.iter().find(|(one, _)| *one == first);
    opposite.map_or(first, |(_, other)| *other)
}

impl Draft {
    /// Applies a line with an option, `key=value` or a flag, to the draft.
    fn apply(&mut self, content: &str, place: &Place, findings: &mut Findings) {
        let before = findings.malformed.len() + findings.unmodelled.len();
        self.apply_line(content, place, findings);
        self.incomplete |= findings.malformed.len() + findings.unmodelled.len() > before;
    }

    /// Applies all option lines of a section to the draft. As in fio, `kb_base` comes first, wherever written.
    pub(super) fn apply_all(&mut self, lines: &[(String, Place)], findings: &mut Findings) {
        for (content, _) in lines {
            match split_key_and_value(content) {
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
        let (key, value) = split_key_and_value(content);
        let Some(row) = find_row(key) else {
            return findings.add_problem(place, unknown_option_problem(key));
        };
        match row.support {
            OptionSupport::Refused(why) => {
                self.record_given_option(row, value.unwrap_or_default(), place);
                return findings.add_verdict(place, key, Verdict::Unmodelled(why.to_owned()));
            }
            OptionSupport::Ignored(why) if row.check.is_none() => {
                return findings.warn(place, key, why.to_owned());
            }
            _ => {}
        }
        let text = match trimmed_or_default_value(row.kind, value) {
            Ok(text) => text,
            Err(problem) => return findings.add_problem(place, problem.with_option_name(key)),
        };
        let mut value = Value {
            text,
            kb_base: self.kb_base,
            remark: None,
        };
        if let Some(check) = row.check
            && let Err(problem) = check(&mut value)
        {
            return findings.add_problem(place, problem.with_option_name(key));
        }
        if let OptionSupport::Ignored(why) = row.support {
            findings.warn(place, key, why.to_owned());
        }
        if let Some(set) = row.set
            && let Err(problem) = set(&mut self.job, &mut value)
        {
            if problem.unmodelled {
                self.record_given_option(row, text, place);
            }
            return findings.add_problem(place, problem.with_option_name(key));
        }
        if let Some(remark) = value.remark {
            findings.warn(place, key, remark);
        }
        self.record_given_option(row, text, place);
    }

    fn record_given_option(&mut self, row: &Row, value: &str, place: &Place) {
        let given = GivenValue {
            place: place.clone(),
            value: value.to_owned(),
        };
        self.given.insert(row.names[0], given);
    }

    /// Judges all options of the draft, once the job is complete.
    pub(super) fn judge_options(&self, findings: &mut Findings) {
        for row in all_rows() {
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
            findings.add_verdict(&given.place, row.names[0], verdict);
        }
        self.judge_combinations(findings);
    }

    /// Judges combinations of options that make sense only together.
    fn judge_combinations(&self, findings: &mut Findings) {
        let job = &self.job;
        let name = escape_and_shorten(&job.name);
        if self.incomplete {
            // Said already.
        } else if job.runtime.is_none()
            && !job.has_known_amount()
            && !job.takes_size_from_existing_files()
        {
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
            // fio takes the size of a file that exists.
            findings.add_problem(self.place_of_option(option), Problem::unmodelled(message));
        }
        if self.given.contains_key("rate") && self.given.contains_key("rate_iops") {
            let place = self
                .place_of_option("rate")
                .max(self.place_of_option("rate_iops"));
            let message = format!("job `{name}` has both rate and rate_iops; keep one of them");
            findings.add_problem(place, Problem::new(message));
        }
        if job.rw.trims() && job.rw.writes() && job.block_size.write != job.block_size.trim {
            let message =
                format!("job `{name}`: trims and writes of different sizes are not modelled");
            findings.add_problem(self.place_of_option("bs"), Problem::unmodelled(message));
        }
        let zones = job.places.zones;
        if (zones.mode == ZoneMode::Strided) != (zones.size > 0)
            && self.given_value("zonemode") != Some("zbd")
        {
            let message = "zonemode=strided and zonesize need each other";
            let option = if zones.size > 0 {
                "zonesize"
            } else {
                "zonemode"
            };
            findings.add_problem(self.place_of_option(option), Problem::new(message));
        }
        if let Some(what) = job.unmodelled_in_page_cache() {
            let message =
                format!("job `{name}`: buffered I/O is modelled without {what}; set direct=1");
            let option = if self.given.contains_key("buffered") {
                "buffered"
            } else {
                "direct"
            };
            findings.add_problem(self.place_of_option(option), Problem::unmodelled(message));
        }
    }
}

/// A job's options as keys and values for a job file, each under its first name.
pub(super) fn print_options(job: &FioJob) -> impl Iterator<Item = (&'static str, String)> {
    all_rows().filter_map(move |row| Some((row.names[0], row.print?(job)?)))
}

fn split_key_and_value(content: &str) -> (&str, Option<&str>) {
    match content.split_once('=') {
        Some((key, value)) => (key.trim_end(), Some(value)),
        None => (content, None),
    }
}

fn unknown_option_problem(key: &str) -> Problem {
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
    Problem::new(format!("unknown option `{}`", escape_and_shorten(key)))
        .suggest_nearest(key, known_options().map(|(name, _)| name))
}

/// Options of fio's command line, which fio refuses in a job file.
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

/// Trims the text of a value: a blank after `=` is removed where fio accepts it.
fn trimmed_or_default_value(kind: Kind, value: Option<&str>) -> Result<&str, Problem> {
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
            escape_and_shorten(trimmed)
        )));
    }
    Ok(trimmed)
}
