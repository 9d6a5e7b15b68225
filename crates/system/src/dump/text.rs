//! Idle-state counters as people paste them: lines with path and value, a path above its value, and output from
//! `cpupower idle-info`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Read};

use wakepath_hardware::idle::MAX_STATES;
use wakepath_units::cpus::MAX_CPUS;
use wakepath_units::pasted;

use super::counters::{Counters, Dump};

/// Largest size of a sysfs file in bytes: a page.
pub(super) const MAX_FILE: u64 = 4096;
/// Limit on the files of a dump: 8192 CPUs with 10 states of 17 files, and as many others.
pub(super) const MAX_FILES: usize = 3_000_000;

/// A file of an idle state in sysfs, or the uptime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CounterFile {
    Name,
    Usage,
    Time,
    Above,
    Below,
    Rejected,
    Latency,
    Residency,
    Disable,
    Uptime,
}

impl CounterFile {
    fn from_file_name(name: &str) -> Option<Self> {
        Some(match name {
            "name" => Self::Name,
            "usage" => Self::Usage,
            "time" => Self::Time,
            "above" => Self::Above,
            "below" => Self::Below,
            "rejected" => Self::Rejected,
            "latency" => Self::Latency,
            "residency" => Self::Residency,
            "disable" => Self::Disable,
            _ => return None,
        })
    }

    const fn file_name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Usage => "usage",
            Self::Time => "time",
            Self::Above => "above",
            Self::Below => "below",
            Self::Rejected => "rejected",
            Self::Latency => "latency",
            Self::Residency => "residency",
            Self::Disable => "disable",
            Self::Uptime => "/proc/uptime",
        }
    }
}

impl CounterFile {
    /// Whether the file is no counter but constant, so that it may be shown once for two dumps.
    const fn keeps_its_value(self) -> bool {
        matches!(
            self,
            Self::Name | Self::Latency | Self::Residency | Self::Disable
        )
    }

    /// Whether this file can hold `now` in a later dump, after `then`.
    fn may_change_to(self, then: &str, now: &str) -> bool {
        match self {
            Self::Name | Self::Latency | Self::Residency => now == then,
            Self::Disable => true,
            Self::Uptime => parse_uptime(then) <= parse_uptime(now),
            _ => matches!((then.parse::<u64>(), now.parse::<u64>()), (Ok(a), Ok(b)) if a <= b),
        }
    }

    /// Whether a line can be the content of this file.
    fn accepts_content(self, line: &str) -> bool {
        match self {
            Self::Name => {
                !line.contains(char::is_whitespace) && line.contains(char::is_alphanumeric)
            }
            Self::Uptime => parse_uptime(line).is_some(),
            _ => line.parse::<u64>().is_ok(),
        }
    }
}

/// Which file a value is of: CPU, idle state and file name. A path may lack the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    cpu: Option<u32>,
    state: u32,
    file: CounterFile,
}

impl Place {
    const UPTIME: Self = Self {
        cpu: None,
        state: 0,
        file: CounterFile::Uptime,
    };

    /// The place that a path names: `.../cpu3/cpuidle/state1/usage`, or `state1/usage` as within that folder.
    pub(super) fn from_path(path: &str) -> Option<Self> {
        if path.ends_with("proc/uptime") {
            return Some(Self::UPTIME);
        }
        let mut parts = path.rsplit('/');
        let file = CounterFile::from_file_name(parts.next()?)?;
        let state = parse_number_after_prefix(parts.next()?, "state")?;
        let cpu = match (parts.next(), parts.next()) {
            (Some("cpuidle"), Some(".") | None) | (Some(".") | None, _) => None,
            (Some("cpuidle"), Some(cpu)) => Some(parse_number_after_prefix(cpu, "cpu")?),
            _ => return None,
        };
        Some(Self { cpu, state, file })
    }

    /// Refuses impossible places.
    pub(super) fn check_cpu_and_state_limits(self) -> io::Result<()> {
        match self.cpu {
            Some(cpu) if cpu >= MAX_CPUS => Err(io::Error::other(format!(
                "{}: CPU {cpu}, and no kernel has more than {MAX_CPUS} CPUs",
                self.relative_path()
            ))),
            _ if self.state as usize >= MAX_STATES => Err(io::Error::other(format!(
                "{}: state {}, and a CPU has at most {MAX_STATES}",
                self.relative_path(),
                self.state
            ))),
            _ => Ok(()),
        }
    }

    fn relative_path(self) -> String {
        let Self { cpu, state, file } = self;
        let file = file.file_name();
        match cpu {
            _ if self == Self::UPTIME => file.to_owned(),
            Some(cpu) => format!("cpu{cpu}/cpuidle/state{state}/{file}"),
            None => format!("state{state}/{file}"),
        }
    }
}

/// A value found in the input.
#[derive(Clone, Debug)]
struct Value {
    place: Place,
    text: String,
    /// Quoting depth of the value's line.
    quoted: usize,
    /// Number of the value's line, from 1; 0 for values from files.
    line: usize,
}

/// All values that an input has, in order.
#[derive(Debug, Default)]
pub(super) struct Values(Vec<Value>);

impl Values {
    /// Whether no values were found in the input.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the content of a sysfs file.
    pub(super) fn add_content(&mut self, place: Place, text: &str) {
        self.0.push(Value {
            place,
            text: text.to_owned(),
            quoted: 0,
            line: 0,
        });
    }

    /// Adds the values in lines of text.
    pub(super) fn add_lines(&mut self, mut input: impl BufRead) -> io::Result<()> {
        let mut reader = LineReader::default();
        let mut bytes = Vec::new();
        for number in 1..=MAX_FILES {
            bytes.clear();
            if (&mut input).take(MAX_FILE).read_until(b'\n', &mut bytes)? == 0 {
                break;
            }
            let text = pasted::decode_line(&bytes);
            let (quoted, line) = pasted::quote_depth_and_text(&text);
            if let Some((place, text)) = reader.read_value_from_line(line.trim()) {
                place.check_cpu_and_state_limits()?;
                self.0.push(Value {
                    place,
                    text,
                    quoted,
                    line: number,
                });
            }
        }
        if reader.has_values_above_paths() {
            return Err(io::Error::other(
                "the values stand above their paths; give a text with each path above its value, or before it in the same line",
            ));
        }
        Ok(())
    }

    /// Makes a dump of all values, or two consecutive dumps. The error names a file with two values.
    pub(super) fn into_one_or_two_dumps(self) -> Result<Vec<Dump>, String> {
        let Some(conflict) = describe_first_conflict(&self.0) else {
            return Ok(vec![build_dump(&self.0)?]);
        };
        let least = self.0.iter().map(|value| value.quoted).min();
        let own: Vec<Value> = self
            .0
            .iter()
            .filter(|v| Some(v.quoted) == least)
            .cloned()
            .collect();
        if own.len() < self.0.len() && describe_first_conflict(&own).is_none() {
            let mut dump = build_dump(&own)?;
            dump.notes.push(format!(
                "quoted lines have other values of the same files and are left out; {conflict}"
            ));
            return Ok(vec![dump]);
        }
        let (before, again) = self.0.split_at(start_of_second_dump(&self.0));
        let after = &add_constants_of_first_dump(before, again)[..];
        // The files of a folder come in no particular order.
        let is_text = self.0.iter().all(|value| value.line > 0);
        if is_text && is_later_dump_of_same_files(before, after) {
            let mut later = build_dump(after)?;
            let note =
                "the text has two dumps of the same files; the second one counts as the later one";
            later.notes.push(note.to_owned());
            return Ok(vec![build_dump(before)?, later]);
        }
        Err(format!(
            "{conflict}. The text has several dumps; give one of a machine, or one and then a later one of the same files"
        ))
    }
}

/// Describes the first file that has two values.
fn describe_first_conflict(values: &[Value]) -> Option<String> {
    let mut seen: BTreeMap<Place, &Value> = BTreeMap::new();
    values.iter().find_map(|value| {
        let known = *seen.entry(value.place).or_insert(value);
        (known.text != value.text).then(|| {
            let lines = match (known.line, value.line) {
                (0, _) | (_, 0) => String::new(),
                (first, second) => format!(" in lines {first} and {second}"),
            };
            let path = value.place.relative_path();
            format!("{path} is `{}` and `{}`{lines}", known.text, value.text)
        })
    })
}

/// A second dump completed with constants of the first, such as names, which need not be repeated.
fn add_constants_of_first_dump(before: &[Value], after: &[Value]) -> Vec<Value> {
    let known: BTreeSet<Place> = after.iter().map(|value| value.place).collect();
    before
        .iter()
        .filter(|value| value.place.file.keeps_its_value() && !known.contains(&value.place))
        .chain(after)
        .cloned()
        .collect()
}

/// Index of the first value whose file has come before, where a second dump begins.
fn start_of_second_dump(values: &[Value]) -> usize {
    let mut seen = BTreeSet::new();
    let again = values.iter().position(|value| !seen.insert(value.place));
    again.unwrap_or(values.len())
}

/// Whether `after` has the same files as `before`, each once, with the same names and no lower counters.
fn is_later_dump_of_same_files(before: &[Value], after: &[Value]) -> bool {
    let (first, second) = (text_by_place(before), text_by_place(after));
    before.len() == after.len()
        && second.len() == after.len()
        && first.iter().all(|(place, then)| {
            let now = second.get(place);
            now.is_some_and(|now| place.file.may_change_to(then, now))
        })
}

fn text_by_place(values: &[Value]) -> BTreeMap<Place, &str> {
    let values = values.iter();
    values
        .map(|value| (value.place, value.text.as_str()))
        .collect()
}

/// The number after a prefix, such as 3 in `cpu3`.
fn parse_number_after_prefix(text: &str, prefix: &str) -> Option<u32> {
    text.strip_prefix(prefix)?.parse().ok()
}

fn parse_uptime(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

fn build_dump(values: &[Value]) -> Result<Dump, String> {
    let mut dump = Dump::default();
    let mut unknown_cpu = false;
    for Value { place, text, .. } in values {
        if place.file == CounterFile::Uptime {
            dump.uptime_s = parse_uptime(text);
            continue;
        }
        unknown_cpu |= place.cpu.is_none();
        let states = dump.cpus.entry(place.cpu.unwrap_or(0)).or_default();
        let counters: &mut Counters = states.entry(place.state).or_default();
        let counter = match place.file {
            CounterFile::Name | CounterFile::Uptime => {
                counters.name = Some(text.clone());
                continue;
            }
            CounterFile::Usage => &mut counters.usage,
            CounterFile::Time => &mut counters.time_us,
            CounterFile::Above => &mut counters.above,
            CounterFile::Below => &mut counters.below,
            CounterFile::Rejected => &mut counters.rejected,
            CounterFile::Latency => {
                counters.latency_us = text.parse().ok();
                continue;
            }
            CounterFile::Residency => {
                counters.residency_us = text.parse().ok();
                continue;
            }
            CounterFile::Disable => {
                counters.disable = text.parse().ok();
                continue;
            }
        };
        let number = text.parse();
        *counter =
            Some(number.map_err(|_| format!("{}: `{text}` is no count", place.relative_path()))?);
    }
    if unknown_cpu {
        dump.notes
            .push("the paths do not say which CPU it is; it is called CPU 0".to_owned());
    }
    Ok(dump)
}

/// What a line-wise reader keeps of earlier lines.
#[derive(Default)]
struct LineReader {
    /// The path from the last line, if its value is to follow on the next line.
    path: Option<Place>,
    /// Where the next line's value is from, after a typed `cat .../state*/usage`.
    listed: Option<Place>,
    cpupower: Cpupower,
    /// Whether the first line is a value without a path.
    value_first: Option<bool>,
    /// Whether the last line was only the path of a state's file.
    path_last: bool,
}

/// Position in the output of `cpupower idle-info`.
#[derive(Default)]
struct Cpupower {
    cpu: Option<u32>,
    /// Names of the idle states in order, where cpupower lists them.
    names: Vec<String>,
    /// Number of idle states seen on this CPU so far.
    states: u32,
    /// A line that may be the name of an idle state.
    heading: Option<String>,
    state: Option<u32>,
}

impl LineReader {
    fn read_value_from_line(&mut self, line: &str) -> Option<(Place, String)> {
        if line.is_empty() {
            return None;
        }
        let is_word = !line.contains([':', '=', ' ', '\t']);
        self.path_last = is_word && line.contains("/state");
        self.value_first.get_or_insert(is_word && !self.path_last);
        if let Some(place) = first_path_of_cat_wildcard(line) {
            self.listed = Some(place);
            return None;
        }
        if let Some(place) = parse_path_alone(line) {
            self.path = Some(place);
            self.listed = None;
            return None;
        }
        if let Some(found) = split_path_and_value(line) {
            self.path = None;
            self.listed = None;
            return Some(found);
        }
        if let Some(place) = self.path.take() {
            return place
                .file
                .accepts_content(line)
                .then(|| (place, line.to_owned()));
        }
        if let Some(place) = self
            .listed
            .take_if(|place| place.file.accepts_content(line))
        {
            self.listed = Some(Place {
                state: place.state + 1,
                ..place
            });
            return Some((place, line.to_owned()));
        }
        self.listed = None;
        self.cpupower.read_value_from_line(line)
    }
}

impl LineReader {
    /// Whether each value stood above its path, as `find -exec cat {} \; -print` prints it: a value comes first and a
    /// path last. Otherwise every value would be taken for that of another file.
    fn has_values_above_paths(&self) -> bool {
        self.value_first == Some(true) && self.path_last
    }
}

/// The first file shown by a `cat` command in this line, for all states on a CPU.
fn first_path_of_cat_wildcard(line: &str) -> Option<Place> {
    let mut words = line.split_whitespace().rev();
    let path = words.next()?;
    let (mut is_cat, mut others) = (false, 0);
    for word in words {
        is_cat |= word == "cat";
        others += usize::from(word.contains("/state"));
    }
    let first = path
        .replace("/state*/", "/state0/")
        .replace("/state?/", "/state0/");
    (is_cat && others == 0 && first != path)
        .then(|| Place::from_path(&first))
        .flatten()
}

/// The path on a line with nothing else: as written by `head -v` or `find`, or after a printing command.
fn parse_path_alone(line: &str) -> Option<Place> {
    let headed = line
        .strip_prefix("==>")
        .and_then(|rest| rest.strip_suffix("<=="));
    let path = headed.unwrap_or(line).trim().trim_end_matches(':');
    Place::from_path(path.rsplit(char::is_whitespace).next()?)
}

/// Whether a character separates a path from its value.
fn is_separator(c: char) -> bool {
    c.is_whitespace() || ":=,;|\"'".contains(c)
}

/// Splits a line into path and value: `PATH:VALUE`, `PATH:1:VALUE` as grep -n has it, `PATH VALUE` or `PATH = VALUE`;
/// also as a row of CSV, JSON or Markdown.
fn split_path_and_value(line: &str) -> Option<(Place, String)> {
    let row = line.trim_matches(|c: char| c.is_whitespace() || "\"'|,;".contains(c));
    let (path, rest) = row.split_at(row.find(is_separator)?);
    let place = Place::from_path(path)?;
    let value = rest.trim_start_matches(is_separator);
    // A sysfs file has only one line.
    let text = value.strip_prefix("1:").unwrap_or(value).trim();
    Some((place, text.to_owned()))
}

impl Cpupower {
    fn read_value_from_line(&mut self, line: &str) -> Option<(Place, String)> {
        let (key, value) = line.split_once(':')?;
        let (key, value) = (key.trim(), value.trim());
        if let Some(cpu) = key.to_lowercase().strip_prefix("analyzing cpu ") {
            *self = Self {
                cpu: cpu.trim().parse().ok(),
                ..Self::default()
            };
            return None;
        }
        let (file, text) = match key {
            "Available idle states" => {
                self.names = value.split_whitespace().map(str::to_owned).collect();
                return None;
            }
            "Flags/Description" => (CounterFile::Name, self.begin_state_named_by_heading()?),
            "Usage" => (CounterFile::Usage, value.to_owned()),
            "Duration" => (CounterFile::Time, value.to_owned()),
            "Latency" => (CounterFile::Latency, value.to_owned()),
            "Residency" => (CounterFile::Residency, value.to_owned()),
            heading if value.is_empty() => {
                return self.note_heading_and_read_disabled_mark(heading);
            }
            _ => return None,
        };
        let place = Place {
            cpu: self.cpu,
            state: self.state?,
            file,
        };
        Some((place, text))
    }

    /// Handles a line that may be a state's name, possibly with a mark that the state is disabled.
    fn note_heading_and_read_disabled_mark(&mut self, heading: &str) -> Option<(Place, String)> {
        let name = heading.trim_end_matches("(DISABLED)").trim();
        self.heading = Some(name.to_owned());
        let place = Place {
            cpu: self.cpu,
            state: self.index_of_listed_or_next_state(name),
            file: CounterFile::Disable,
        };
        (name != heading).then(|| (place, "1".to_owned()))
    }

    /// Begins the idle state whose name was the heading before, and returns that name.
    fn begin_state_named_by_heading(&mut self) -> Option<String> {
        let name = self.heading.take()?;
        self.state = Some(self.index_of_listed_or_next_state(&name));
        self.states += 1;
        Some(name)
    }

    /// Index of an idle state: its place in the list of names, or else the next number.
    fn index_of_listed_or_next_state(&self, state_name: &str) -> u32 {
        let listed = self.names.iter().position(|known| known == state_name);
        listed.map_or(self.states, |index| index as u32)
    }
}
