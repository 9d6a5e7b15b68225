//! From the lines of a job file to jobs: comments, section headers, defaults from `[global]`.

use super::error::{
    FioError, FioProblem, JobFileFindings, LinePlace, LineProblem, MAX_PROBLEMS, escape_and_shorten,
};
use super::lines::read_lines_expanding_includes_and_variables;
use super::options::JobDraft;
use super::surroundings::FioSurroundings;
use super::syntax::{parse_section_header, strip_comment_and_blanks};
use super::{FioJob, FioJobFile, MAX_JOBS};

/// fio reads lines into a buffer of 4096 bytes, and cuts a longer line into two.
const MAX_LINE_BYTES: usize = 4095;

/// Section in which a line stands.
enum Scope {
    /// Lines before the first section header.
    Outside,
    /// A `[global]` section: defaults for all jobs below.
    Global,
    /// A job's section that is not among the chosen ones: fio does not look at its options.
    Skipped,
    /// A job's section, with the options read so far.
    Job(Box<JobDraft>),
}

/// A job file, as far as its lines have been read.
struct JobFileReading<'a> {
    surroundings: &'a FioSurroundings,
    /// Names of the only jobs to read; empty: all.
    chosen: &'a [String],
    /// Names of the first jobs that are not among them.
    skipped: Vec<String>,
    defaults: JobDraft,
    scope: Scope,
    /// A section began, of whatever name.
    has_section: bool,
    /// Option lines of the section being read.
    lines: Vec<(String, LinePlace)>,
    findings: JobFileFindings,
    jobs: Vec<FioJob>,
    /// Number of jobs so far, counting `numjobs` clones.
    processes: u32,
}

/// Reads a job file's sections. `chosen`: names of the only jobs to read; empty: all.
pub(super) fn read_job_file_sections(
    text: &str,
    origin: &str,
    surroundings: &FioSurroundings,
    chosen: &[String],
) -> Result<FioJobFile, FioError> {
    let mut reading = JobFileReading {
        surroundings,
        chosen,
        skipped: Vec::new(),
        defaults: JobDraft::default(),
        scope: Scope::Outside,
        has_section: false,
        lines: Vec::new(),
        findings: JobFileFindings::new(origin),
        jobs: Vec::new(),
        processes: 0,
    };
    for (place, line) in read_lines_expanding_includes_and_variables(text, origin, surroundings) {
        if let Err(problem) =
            line.and_then(|raw| reading.begin_section_or_collect_line(&raw, &place))
        {
            reading.findings.add_problem(&place, problem);
        }
        if reading.findings.malformed.len() >= MAX_PROBLEMS {
            break;
        }
    }
    reading.finish_section();
    let skipped = reading.skipped;
    let JobFileFindings {
        mut warnings,
        malformed: mut problems,
        mut unmodelled,
        ..
    } = reading.findings;
    let has_section = reading.has_section || text.lines().any(is_section_header);
    if !has_section {
        // A problem for each line would tell the reader of another kind of file nothing.
        problems = vec![problem_of_file_without_section(origin)];
    } else if problems.is_empty() && reading.jobs.is_empty() {
        problems.push(problem_of_file_without_job(origin, chosen, &skipped));
    }
    if !problems.is_empty() {
        problems.extend(unmodelled);
        problems.sort_by_key(|p| p.line);
        return Err(FioError { problems });
    }
    warnings.sort_by_key(|w| w.line);
    unmodelled.sort_by_key(|p| p.line);
    Ok(FioJobFile {
        jobs: reading.jobs,
        warnings,
        unmodelled,
    })
}

fn is_section_header(line: &str) -> bool {
    line.trim_start().starts_with('[')
}

/// The problem of a file that is no job file, and that nothing tells as another kind of workload either.
fn problem_of_file_without_section(origin: &str) -> FioProblem {
    FioProblem {
        origin: origin.to_owned(),
        line: None,
        message: "has no job section, as fio's job files have, with a line like [reader]. If it is a block trace, its beginning is \
                  damaged: text of blkparse, fio's iolog, MSR Cambridge and recordings are known by their first line"
            .to_owned(),
        suggestion: None,
    }
}

/// The problem of a file with no job, or with none of those that were chosen; `skipped`: names of its other jobs.
fn problem_of_file_without_job(origin: &str, chosen: &[String], skipped: &[String]) -> FioProblem {
    let problem = match (chosen, skipped) {
        ([name, ..], [_, ..]) => LineProblem::new(format!(
            "no section is called `{}`",
            escape_and_shorten(name)
        ))
        .with_nearest_name_as_suggestion(name, skipped.iter().map(String::as_str)),
        _ => LineProblem::new("has no job section; a job starts with a line like [reader]"),
    };
    FioProblem {
        origin: origin.to_owned(),
        line: None,
        message: problem.message,
        suggestion: problem.suggestion,
    }
}

impl JobFileReading<'_> {
    fn begin_section_or_collect_line(
        &mut self,
        raw: &str,
        place: &LinePlace,
    ) -> Result<(), LineProblem> {
        if raw.len() > MAX_LINE_BYTES {
            return Err(LineProblem::new(format!(
                "the line is longer than fio's {MAX_LINE_BYTES} bytes"
            )));
        }
        let content = strip_comment_and_blanks(raw);
        if content.is_empty() {
            return Ok(());
        }
        if content.starts_with('[') {
            self.has_section = true;
            self.finish_section();
            // Options below a header that is not understood are checked, but belong to no job.
            self.scope = Scope::Global;
            let name = parse_section_header(content)?;
            // fio compares only the first six letters with `global`.
            if let Some(rest) = name.strip_prefix("global") {
                if !rest.is_empty() {
                    let option = format!("[{}]", escape_and_shorten(name));
                    let message = "is read by fio as a [global] section, not as a job";
                    self.findings
                        .add_warning(place, &option, message.to_owned());
                }
                self.scope = Scope::Global;
            } else if !self.chosen.is_empty() && !self.chosen.iter().any(|n| n == name) {
                if self.skipped.len() < MAX_PROBLEMS {
                    self.skipped.push(name.to_owned());
                }
                self.scope = Scope::Skipped;
            } else {
                self.scope = Scope::Job(Box::new(self.defaults.clone_for_section(name, place)));
            }
            return Ok(());
        }
        if matches!(self.scope, Scope::Outside) {
            return Err(LineProblem::new(format!(
                "`{}` stands before any section; start with [global] or [a job name]",
                escape_and_shorten(content)
            )));
        }
        if matches!(self.scope, Scope::Skipped) {
            return Ok(());
        }
        let inserted = self.surroundings.insert_machine_figures(content)?;
        if let Some(inserted) = &inserted {
            let (option, value) = inserted.split_once('=').unwrap_or((inserted, ""));
            let message = format!("is `{}` on this machine", escape_and_shorten(value));
            self.findings.add_warning(place, option.trim_end(), message);
        }
        let line = inserted.unwrap_or_else(|| content.to_owned());
        self.lines.push((line, place.clone()));
        Ok(())
    }

    /// Ends the section being read: applies its lines, checks the job as a whole, and adds the job to the file.
    fn finish_section(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let target = match &mut self.scope {
            Scope::Outside | Scope::Skipped => return,
            Scope::Global => &mut self.defaults,
            Scope::Job(draft) => draft,
        };
        target.apply_section_lines(&lines, &mut self.findings);
        let Scope::Job(mut draft) = std::mem::replace(&mut self.scope, Scope::Outside) else {
            return;
        };
        self.processes = self.processes.saturating_add(draft.job.numjobs);
        if self.processes > MAX_JOBS && self.processes - draft.job.numjobs <= MAX_JOBS {
            let message =
                format!("more than {MAX_JOBS} jobs, counting numjobs, which is fio's limit");
            self.findings
                .add_problem(draft.header_place(), LineProblem::new(message));
        }
        draft.read_io_log(&mut self.findings);
        draft.judge_given_options(&mut self.findings);
        if let Some(name) = &draft.job.wait_for
            && !self.jobs.iter().any(|job| job.name == *name)
        {
            let names = self.jobs.iter().map(|job| job.name.as_str());
            let message = format!(
                "wait_for: no job above is called `{}`",
                escape_and_shorten(name)
            );
            let problem = LineProblem::new(message).with_nearest_name_as_suggestion(name, names);
            self.findings
                .add_problem(draft.place_of_option_or_header("wait_for"), problem);
        }
        self.jobs.push(draft.job);
    }
}
