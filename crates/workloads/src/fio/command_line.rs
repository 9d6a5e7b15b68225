//! fio's command line: words such as `fio --name=a --rw=randread`, as a job file.
//!
//! The rules are fio 3.33's (`parse_cmd_line()` in `init.c`): an option before the first `--name` sets a default for all jobs, and
//! each `--name` begins a job. Job files among the words come after the jobs of the command line. A long option may
//! have one dash. Shortened names, which fio takes, are refused.

use std::fmt::Write as _;
use std::path::Path;

use super::error::{FioError, FioProblem, LineProblem, escape_and_shorten};
use super::options::{known_options, option_takes_no_word};
use super::sections::read_job_file_sections;
use super::surroundings::FioSurroundings;
use super::{FioJobFile, FioWarning};

/// Name of a command line in messages; the number behind it is that of the word, and `fio` is word 1.
pub const COMMAND_LINE_ORIGIN: &str = "fio command line";

/// Options that are of fio's command line only, decide nothing about a job's I/O, and take a value.
const REPORT_OPTIONS: [&str; 14] = [
    "output",
    "output-format",
    "terse-version",
    "eta",
    "eta-newline",
    "eta-interval",
    "status-interval",
    "max-jobs",
    "alloc-size",
    "aux-path",
    "debug",
    "idle-prof",
    "trigger-file",
    "trigger-timeout",
];

/// The same, without a value.
const REPORT_FLAGS: [&str; 5] = [
    "minimal",
    "append-terse",
    "bandwidth-log",
    "warnings-fatal",
    "readonly",
];

/// Options with which fio runs no job here.
const WITHOUT_JOB: [&str; 14] = [
    "help",
    "version",
    "cmdhelp",
    "enghelp",
    "crctest",
    "cpuclock-test",
    "parse-only",
    "showcmd",
    "server",
    "client",
    "daemonize",
    "remote-config",
    "inflate-log",
    "merge-blktrace-only",
];

/// A command line, as far as its words have been read.
#[derive(Default)]
struct CommandLine {
    /// Lines of a job file: line N is of word N.
    lines: Vec<String>,
    /// Job files among the words.
    files: Vec<String>,
    /// Names of the sections to run (`--section`); empty: all.
    sections: Vec<String>,
    warnings: Vec<FioWarning>,
}

/// Whether the words begin as a command line of fio: with its name, with `sudo` and its name, or with an option.
pub fn begins_as_command_line(words: &[String]) -> bool {
    let has_option = || words.first().is_some_and(|word| word.starts_with('-'));
    words_before_options(words) > 0 || has_option()
}

/// Number of words that name the program: 1 for `fio`, 2 for `sudo fio`, 0 without.
fn words_before_options(words: &[String]) -> usize {
    match words {
        [program, ..] if is_fios_name(program) => 1,
        [sudo, program, ..] if sudo == "sudo" && is_fios_name(program) => 2,
        _ => 0,
    }
}

/// Reads a command line of fio, with or without `fio` as its first word.
///
/// # Errors
/// All problems, each with the number of its word: those of [`parse`](super::parse), an option without its value, an option
/// with which fio runs no job, a word that no line of a job file can hold.
pub fn parse_command_line(
    words: &[String],
    surroundings: &FioSurroundings,
) -> Result<FioJobFile, FioError> {
    let mut read = CommandLine::read_words(words)?;
    for file in &read.files {
        read.lines.push(format!("include {file}"));
    }
    let text = read.lines.join("\n");
    let mut file =
        read_job_file_sections(&text, COMMAND_LINE_ORIGIN, surroundings, &read.sections)?;
    file.warnings.append(&mut read.warnings);
    file.warnings.sort_by_key(|warning| warning.line);
    Ok(file)
}

/// The text of a job file with the jobs of a command line of fio. Line N of the text is of word N, and `fio` is word 1.
///
/// # Errors
/// As [`parse_command_line`]; also a job file among the words, and `--section`.
pub fn job_file_text_of_command_line(words: &[String]) -> Result<String, FioError> {
    let read = CommandLine::read_words(words)?;
    if let Some(file) = read.files.first() {
        let message = format!(
            "`{}` is a job file; name it by the key `fio` instead",
            escape_and_shorten(file)
        );
        return Err(FioError::for_one_problem(
            COMMAND_LINE_ORIGIN,
            None,
            message,
        ));
    }
    if !read.sections.is_empty() {
        let message = "`--section` has no effect on a command line without a job file".to_owned();
        return Err(FioError::for_one_problem(
            COMMAND_LINE_ORIGIN,
            None,
            message,
        ));
    }
    let mut text = read.lines.join("\n");
    let _ = writeln!(text);
    Ok(text)
}

/// What an option of fio's command line is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordKind {
    /// An option of jobs.
    Job,
    /// `--section`.
    Section,
    /// An option that decides nothing about a job's I/O.
    Report,
    /// An option with which fio runs no job here.
    WithoutJob,
}

impl CommandLine {
    fn read_words(words: &[String]) -> Result<Self, FioError> {
        let named = words_before_options(words);
        let mut read = Self::default();
        read.lines.push("[global]".to_owned());
        // Behind `sudo`, `fio` is word 2.
        read.lines.resize(named.max(1), String::new());
        let mut problems = Vec::new();
        let mut rest = words.iter().skip(named);
        let mut only_files = false;
        while let Some(word) = rest.next() {
            let number = read.lines.len() + 1;
            if word == "--" {
                only_files = true;
                read.lines.push(String::new());
            } else if only_files || !word.starts_with('-') {
                read.files.push(word.clone());
                read.lines.push(String::new());
            } else if let Err(problem) = read.read_option(word, &mut rest) {
                problems.push(FioProblem {
                    origin: COMMAND_LINE_ORIGIN.to_owned(),
                    line: Some(number),
                    message: problem.message,
                    suggestion: problem.suggestion,
                });
                read.lines.resize(number, String::new());
            }
        }
        if problems.is_empty() {
            Ok(read)
        } else {
            Err(FioError { problems })
        }
    }

    /// Reads an option and, where it needs one, the word behind it.
    fn read_option<'a>(
        &mut self,
        word: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), LineProblem> {
        let number = self.lines.len() + 1;
        let option = word.trim_start_matches('-');
        let (key, mut value) = match option.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (option, None),
        };
        let kind = kind_of_option(key)?;
        let needs_value = match kind {
            WordKind::Job => !option_takes_no_word(key),
            WordKind::Section => true,
            WordKind::Report => !REPORT_FLAGS.contains(&key),
            WordKind::WithoutJob => false,
        };
        let mut words = 1;
        if value.is_none() && needs_value {
            let missing = || LineProblem::new(format!("`--{key}` needs a value"));
            value = Some(rest.next().ok_or_else(missing)?);
            words = 2;
        }
        let line = match kind {
            WordKind::WithoutJob => {
                return Err(LineProblem::new(format!(
                    "`--{key}`: fio runs no job with it"
                )));
            }
            WordKind::Report => {
                self.warnings.push(FioWarning {
                    line: number,
                    option: key.to_owned(),
                    message: "is ignored: it changes what fio reports, not what it does".to_owned(),
                });
                String::new()
            }
            WordKind::Section => {
                self.sections.extend(value.map(str::to_owned));
                String::new()
            }
            WordKind::Job => self.job_file_line(key, value)?,
        };
        self.lines.push(line);
        self.lines
            .resize(self.lines.len() + words - 1, String::new());
        Ok(())
    }

    /// The line of a job file for an option of jobs.
    fn job_file_line(&self, key: &str, value: Option<&str>) -> Result<String, LineProblem> {
        let text = value.unwrap_or_default();
        if text.contains(['\n', '\r', ';', '#']) || text.contains("${") {
            return Err(LineProblem::new(format!(
                "`--{key}`: no line of a job file can hold this value; the signs ; # ${{ and ends of lines are not possible here"
            )));
        }
        Ok(match (key, value) {
            // As in fio, options behind a job that is not to run are defaults for the next ones.
            ("name", _) if !self.runs_section(text) => "[global]".to_owned(),
            ("name", _) => format!("[{text}]"),
            (_, None) => key.to_owned(),
            (_, Some(text)) => format!("{key}={text}"),
        })
    }

    fn runs_section(&self, name: &str) -> bool {
        self.sections.is_empty() || self.sections.iter().any(|section| section == name)
    }
}

fn is_fios_name(word: &str) -> bool {
    Path::new(word)
        .file_name()
        .is_some_and(|name| name == "fio")
}

fn kind_of_option(key: &str) -> Result<WordKind, LineProblem> {
    if key == "section" {
        return Ok(WordKind::Section);
    }
    if REPORT_OPTIONS.contains(&key) || REPORT_FLAGS.contains(&key) {
        return Ok(WordKind::Report);
    }
    if WITHOUT_JOB.contains(&key) {
        return Ok(WordKind::WithoutJob);
    }
    if known_options().any(|(name, _)| name == key) {
        return Ok(WordKind::Job);
    }
    let own = REPORT_OPTIONS.into_iter().chain(REPORT_FLAGS);
    let known = known_options().map(|(name, _)| name).chain(own);
    Err(
        LineProblem::new(format!("unknown option `--{}`", escape_and_shorten(key)))
            .with_nearest_name_as_suggestion(key, known),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn parse(line: &str) -> Result<FioJobFile, String> {
        parse_command_line(&words(line), &FioSurroundings::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn options_before_the_first_name_are_defaults() {
        let file = parse(
            "fio --bs=8k --rw=randread --direct 1 --name=a --size=1m --name=b --size 2m --bs=4k",
        )
        .unwrap();
        let read: Vec<_> = file
            .jobs
            .iter()
            .map(|job| (job.name.as_str(), job.block_size.read, job.direct))
            .collect();
        assert_eq!(read, [("a", 8192, true), ("b", 4096, true)]);
    }

    #[test]
    fn flags_take_no_word() {
        let file = parse("--time_based --runtime=3 --norandommap -direct=1 --name=a --rw=randread")
            .unwrap();
        assert!(file.jobs[0].time_based && file.jobs[0].norandommap && file.jobs[0].direct);
    }

    #[test]
    fn a_problem_has_the_number_of_its_word() {
        let said = parse("fio --name=a --size=1m --iodept=4").unwrap_err();
        assert_eq!(
            said,
            "fio command line:4: unknown option `--iodept`; did you mean `iodepth`?"
        );
        let said = parse("--name=a --direct=1 --size 1m --bs=x").unwrap_err();
        assert!(said.starts_with("fio command line:6: bs"), "{said}");
        for (line, part) in [
            ("fio --name=a --size", "needs a value"),
            ("fio --showcmd --name=a", "fio runs no job"),
            (
                "fio --name=a --size=1m --filename=a;b",
                "no line of a job file",
            ),
            ("fio --size=1m", "has no job section"),
            ("fio --name=a --size=1m no-such.fio", "no-such.fio"),
        ] {
            let said = parse(line).unwrap_err();
            assert!(said.contains(part), "{line}: {said}");
        }
    }

    #[test]
    fn what_fio_reports_does_not_matter() {
        let file =
            parse("fio --output-format=json --minimal --output x --name=a --size=1m --direct=1")
                .unwrap();
        let options: Vec<_> = file.warnings.iter().map(|w| w.option.as_str()).collect();
        assert_eq!(options, ["output-format", "minimal", "output"]);
    }

    #[test]
    fn job_files_follow_with_the_defaults_and_the_chosen_sections() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.fio");
        std::fs::write(&path, "[global]\nsize=1m\n[x]\nbs=nonsense\n[y]\nbs=16k\n").unwrap();
        let line = format!("fio --direct=1 --bs=2k --section=y {}", path.display());
        let file = parse(&line).unwrap();
        assert_eq!(file.jobs.len(), 1);
        let job = &file.jobs[0];
        assert_eq!(
            (job.name.as_str(), job.block_size.read, job.direct),
            ("y", 16_384, true)
        );
        assert!(job_file_text_of_command_line(&words(&line)).is_err());
        let said = parse(&line.replace("=y ", "=yy ")).unwrap_err();
        assert_eq!(
            said,
            "fio command line: no section is called `yy`; did you mean `y`?"
        );
    }

    #[test]
    fn sudo_before_fio_is_a_word_that_counts() {
        let file = parse("sudo fio --name=a --size=1m --direct=1").unwrap();
        assert_eq!(file.jobs[0].name, "a");
        let said = parse("sudo fio --name=a --iodept=4").unwrap_err();
        assert!(said.starts_with("fio command line:4: "), "{said}");
        assert!(begins_as_command_line(&words("sudo /usr/bin/fio x.fio")));
        assert!(!begins_as_command_line(&words("sudo dd if=/dev/null")));
        assert!(!begins_as_command_line(&words("sudo")));
    }

    #[test]
    fn its_text_is_a_job_file() {
        let text =
            job_file_text_of_command_line(&words("--rw=randread --name=a --size 1m --direct=1"))
                .unwrap();
        let file = super::super::parse(&text, "t.fio").unwrap();
        assert_eq!(file.jobs[0].name, "a");
        assert_eq!(text.lines().nth(3), Some("size=1m"));
    }
}
