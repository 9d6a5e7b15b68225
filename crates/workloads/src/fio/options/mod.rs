//! Job options. Each option is a [`OptionRow`] in a table below: names, effect, judgement once the whole job is known, and
//! printed form.

mod basic;
mod cached_reads;
mod conditional;
mod content;
mod description;
mod draft;
mod extent;
mod ignored;
mod io_log;
mod lifetime;
mod pace;
mod pattern;
mod places;
mod polling;
mod refused;
mod row;
mod steering;
mod threads;
mod value;
mod verify;

pub use self::description::{OptionDescription, OptionValues};
use self::draft::GivenValue;
pub(super) use self::draft::JobDraft;
pub use self::row::{FioTimeUnit, OptionSupport};
use self::row::{OptionRow, ValueKind};
use self::value::OptionValue;
use super::error::{
    JobFileFindings, LinePlace, LineProblem, MAX_PROBLEMS, OptionVerdict, escape_and_shorten,
};
use super::syntax::strip_comment_and_blanks;
use super::values::KbBase;
use super::{FioJob, ZoneMode};

/// The tables in which options are looked up; a job's options are printed in this order.
const TABLES: [&[OptionRow]; 16] = [
    basic::ROWS,
    pace::ROWS,
    lifetime::ROWS,
    extent::ROWS,
    pattern::ROWS,
    places::ROWS,
    content::ROWS,
    verify::ROWS,
    steering::ROWS,
    threads::ROWS,
    polling::ROWS,
    cached_reads::ROWS,
    io_log::ROWS,
    conditional::ROWS,
    refused::ROWS,
    ignored::ROWS,
];

/// Pairs of opposite options: the later option in a job counts.
const OPPOSITES: [(&str, &str); 2] = [("rwmixwrite", "rwmixread"), ("buffered", "direct")];

fn all_option_rows() -> impl Iterator<Item = &'static OptionRow> {
    TABLES.iter().flat_map(|table| table.iter())
}

fn find_option_row(name: &str) -> Option<&'static OptionRow> {
    all_option_rows().find(|row| row.names.contains(&name))
}

/// Every fio option that is known, aliases included, with how far it is supported.
pub fn known_options() -> impl Iterator<Item = (&'static str, OptionSupport)> {
    all_option_rows().flat_map(|row| row.names.iter().map(|name| (*name, row.support)))
}

/// Every fio option that is known, described for users.
pub fn describe_options() -> impl Iterator<Item = OptionDescription> {
    all_option_rows().map(OptionRow::describe)
}

/// fio's options that stand alone, without a value in a word behind them on the command line: those that fio 3.33 marks as
/// switches (`FIO_OPT_STR_SET`).
const WITHOUT_WORD: [&str; 16] = [
    "bs_unaligned",
    "exitall",
    "exitall_on_error",
    "fixedbufs",
    "group_reporting",
    "hipri",
    "new_group",
    "norandommap",
    "refill_buffers",
    "registerfiles",
    "sqthread_poll",
    "stonewall",
    "thread",
    "time_based",
    "verify_only",
    "zero_buffers",
];

/// Whether an option of fio's command line, under any of its names, takes no value from the next word.
pub(super) fn option_takes_no_word(name: &str) -> bool {
    let first = find_option_row(name).map_or(name, |row| row.names[0]);
    WITHOUT_WORD.contains(&first)
}

/// Whether a line sets `option`, under any of its names: `timeout` is `runtime`, and `buffered` the opposite of
/// `direct`.
pub fn line_sets_option_or_opposite(line: &str, option: &str) -> bool {
    let (key, _) = split_key_and_value(strip_comment_and_blanks(line));
    first_name_of_option_or_opposite(key) == first_name_of_option_or_opposite(option)
}

/// The first name of an option, or of its opposite, from any of their names.
fn first_name_of_option_or_opposite(name: &str) -> &str {
    let first = find_option_row(name).map_or(name, |row| row.names[0]);
    let opposite = OPPOSITES.iter().find(|(one, _)| *one == first);
    opposite.map_or(first, |(_, other)| *other)
}

impl JobDraft {
    /// Applies a line with an option, `key=value` or a flag, to the draft.
    fn apply_line_noting_problems(
        &mut self,
        content: &str,
        place: &LinePlace,
        findings: &mut JobFileFindings,
    ) {
        let before = findings.malformed.len() + findings.unmodelled.len();
        self.apply_option_line(content, place, findings);
        self.incomplete |= findings.malformed.len() + findings.unmodelled.len() > before;
    }

    /// Applies all option lines of a section to the draft. As in fio, `kb_base` comes first, wherever written.
    pub(super) fn apply_section_lines(
        &mut self,
        lines: &[(String, LinePlace)],
        findings: &mut JobFileFindings,
    ) {
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
            self.apply_line_noting_problems(content, place, findings);
        }
    }

    fn apply_option_line(
        &mut self,
        content: &str,
        place: &LinePlace,
        findings: &mut JobFileFindings,
    ) {
        let (key, value) = split_key_and_value(content);
        let Some(row) = find_option_row(key) else {
            return findings.add_problem(place, unknown_option_problem(key));
        };
        match row.support {
            OptionSupport::Refused(why) => {
                self.record_given_option(row, value.unwrap_or_default(), place);
                return findings.add_first_verdict_on_line(
                    place,
                    key,
                    OptionVerdict::Unmodelled(why.to_owned()),
                );
            }
            OptionSupport::Ignored(why) if row.check.is_none() => {
                return findings.add_warning(place, key, why.to_owned());
            }
            _ => {}
        }
        let text = match trim_value_or_default_flag(row.kind, value) {
            Ok(text) => text,
            Err(problem) => return findings.add_problem(place, problem.prefix_option_name(key)),
        };
        let mut value = OptionValue {
            text,
            kb_base: self.kb_base,
            remark: None,
        };
        if let Some(check) = row.check
            && let Err(problem) = check(&mut value)
        {
            return findings.add_problem(place, problem.prefix_option_name(key));
        }
        if let OptionSupport::Ignored(why) = row.support {
            findings.add_warning(place, key, why.to_owned());
        }
        if let Some(setter) = row.setter
            && let Err(problem) = setter.parse_into_job(&mut self.job, &mut value)
        {
            if problem.unmodelled {
                self.record_given_option(row, text, place);
            }
            return findings.add_problem(place, problem.prefix_option_name(key));
        }
        if let Some(remark) = value.remark {
            findings.add_warning(place, key, remark);
        }
        self.record_given_option(row, text, place);
    }

    fn record_given_option(&mut self, row: &OptionRow, value: &str, place: &LinePlace) {
        let given = GivenValue {
            place: place.clone(),
            value: value.to_owned(),
        };
        self.given.insert(row.names[0], given);
    }

    /// Judges all options of the draft, once the job is complete.
    pub(super) fn judge_given_options(&self, findings: &mut JobFileFindings) {
        for row in all_option_rows() {
            let Some(given) = self.given.get(row.names[0]) else {
                continue;
            };
            let verdict =
                (row.judge).map_or(OptionVerdict::Fine, |judge| judge(self, &given.value));
            findings.add_first_verdict_on_line(&given.place, row.names[0], verdict);
        }
        self.report_problems_of_combined_options(findings);
    }

    /// Judges combinations of options that make sense only together.
    fn report_problems_of_combined_options(&self, findings: &mut JobFileFindings) {
        let job = &self.job;
        let name = escape_and_shorten(&job.name);
        if self.incomplete {
            // Said already.
        } else if job.runtime.is_none()
            && !job.io_log.is_given()
            && !job.options_determine_amount()
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
            findings.add_problem(
                self.place_of_option_or_header(option),
                LineProblem::unmodelled(message),
            );
        }
        if self.given.contains_key("rate") && self.given.contains_key("rate_iops") {
            let place = self
                .place_of_option_or_header("rate")
                .max(self.place_of_option_or_header("rate_iops"));
            let message = format!("job `{name}` has both rate and rate_iops; keep one of them");
            findings.add_problem(place, LineProblem::new(message));
        }
        if job.rw.trims() && job.rw.writes() && job.block_size.write != job.block_size.trim {
            let message =
                format!("job `{name}`: trims and writes of different sizes are not modelled");
            findings.add_problem(
                self.place_of_option_or_header("bs"),
                LineProblem::unmodelled(message),
            );
        }
        let zones = job.places.zones;
        if (zones.mode == ZoneMode::Strided) != (zones.size > 0)
            && self.value_given_for_option("zonemode") != Some("zbd")
        {
            let message = "zonemode=strided and zonesize need each other";
            let option = if zones.size > 0 {
                "zonesize"
            } else {
                "zonemode"
            };
            findings.add_problem(
                self.place_of_option_or_header(option),
                LineProblem::new(message),
            );
        }
        if let Some(what) = job.mapped_use_without_model() {
            let message = format!("job `{name}`: ioengine=mmap is modelled without {what}");
            findings.add_problem(
                self.place_of_option_or_header("ioengine"),
                LineProblem::unmodelled(message),
            );
        } else if let Some(what) = job.page_cache_use_without_model() {
            let message =
                format!("job `{name}`: buffered I/O is modelled without {what}; set direct=1");
            let option = if self.given.contains_key("buffered") {
                "buffered"
            } else {
                "direct"
            };
            findings.add_problem(
                self.place_of_option_or_header(option),
                LineProblem::unmodelled(message),
            );
        }
    }
}

/// A job's options as keys and values for a job file, each under its first name.
pub(super) fn print_options_in_table_order(
    job: &FioJob,
) -> impl Iterator<Item = (&'static str, String)> {
    all_option_rows().filter_map(move |row| Some((row.names[0], row.print_value(job)?)))
}

fn split_key_and_value(content: &str) -> (&str, Option<&str>) {
    match content.split_once('=') {
        Some((key, value)) => (key.trim_end(), Some(value)),
        None => (content, None),
    }
}

fn unknown_option_problem(key: &str) -> LineProblem {
    if COMMAND_LINE.contains(&key) {
        return LineProblem::new(format!(
            "`{key}` is an option of fio's command line, not of a job file"
        ));
    }
    if key == "include" || key.starts_with("include ") {
        return LineProblem::new("`include` is not supported; copy the other file in");
    }
    if key.is_empty() {
        return LineProblem::new("an option name is missing before `=`");
    }
    LineProblem::new(format!("unknown option `{}`", escape_and_shorten(key)))
        .with_nearest_name_as_suggestion(key, known_options().map(|(name, _)| name))
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
fn trim_value_or_default_flag(kind: ValueKind, value: Option<&str>) -> Result<&str, LineProblem> {
    let value = match (kind, value) {
        (ValueKind::Flag, None) => return Ok("1"),
        (_, Some(value)) => value,
        (_, None) => return Err(LineProblem::new("a value is missing; write option=value")),
    };
    if kind == ValueKind::Text {
        return Ok(value);
    }
    let trimmed = value.trim_start();
    if trimmed.len() < value.len() && !trimmed.bytes().all(|b| b.is_ascii_digit()) {
        return Err(LineProblem::unmodelled(format!(
            "fio misreads `{}` after a blank; write it right behind the `=`",
            escape_and_shorten(trimmed)
        )));
    }
    Ok(trimmed)
}
