//! From lines to jobs: comments, section headers, inheritance from `[global]`.

use super::error::{Findings, FioError, FioProblem, MAX_PROBLEMS, Place, Problem, shown};
use super::lines::lines;
use super::options::Draft;
use super::syntax::{section_name, strip};
use super::{FioJob, FioJobFile, MAX_JOBS};

/// fio reads lines into a buffer of 4096 bytes; a longer one falls apart in the middle.
const MAX_LINE_BYTES: usize = 4095;

/// Where the options of a line belong.
enum Scope {
    /// Before the first section header.
    Outside,
    /// Defaults for all jobs below.
    Global,
    /// The job being read.
    Job(Box<Draft>),
}

/// A file as far as it has been read.
struct Reading {
    defaults: Draft,
    scope: Scope,
    /// The lines of the section being read.
    lines: Vec<(String, Place)>,
    findings: Findings,
    jobs: Vec<FioJob>,
    /// Number of jobs, with clones.
    processes: u32,
}

pub(super) fn read_sections(text: &str, origin: &str) -> Result<FioJobFile, FioError> {
    let mut reading = Reading {
        defaults: Draft::default(),
        scope: Scope::Outside,
        lines: Vec::new(),
        findings: Findings::new(origin),
        jobs: Vec::new(),
        processes: 0,
    };
    for (place, line) in lines(text, origin) {
        if let Err(problem) = line.and_then(|raw| reading.line(&raw, &place)) {
            reading.findings.add(&place, problem);
        }
        if reading.findings.malformed.len() >= MAX_PROBLEMS {
            break;
        }
    }
    reading.finish();
    let Findings {
        mut warnings,
        malformed: mut problems,
        mut unmodelled,
        ..
    } = reading.findings;
    if problems.is_empty() && reading.jobs.is_empty() {
        problems.push(FioProblem {
            origin: origin.to_string(),
            line: None,
            message: "has no job section; a job starts with a line like [reader]".to_owned(),
            suggestion: None,
        });
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

impl Reading {
    fn line(&mut self, raw: &str, place: &Place) -> Result<(), Problem> {
        if raw.len() > MAX_LINE_BYTES {
            return Err(Problem::new(format!(
                "the line is longer than fio's {MAX_LINE_BYTES} bytes"
            )));
        }
        let content = strip(raw);
        if content.is_empty() {
            return Ok(());
        }
        if content.starts_with('[') {
            self.finish();
            // What follows a header that is not understood is read, but belongs to no job.
            self.scope = Scope::Global;
            let name = section_name(content)?;
            // fio compares the first six letters only.
            if let Some(rest) = name.strip_prefix("global") {
                if !rest.is_empty() {
                    let option = format!("[{}]", shown(name));
                    let message = "is read by fio as a [global] section, not as a job";
                    self.findings.warn(place, &option, message.to_owned());
                }
                self.scope = Scope::Global;
            } else {
                self.scope = Scope::Job(Box::new(self.defaults.for_job(name, place)));
            }
            return Ok(());
        }
        if matches!(self.scope, Scope::Outside) {
            return Err(Problem::new(format!(
                "`{}` stands before any section; start with [global] or [a job name]",
                shown(content)
            )));
        }
        self.lines.push((content.to_owned(), place.clone()));
        Ok(())
    }

    /// Takes in the section being read; a job is checked as a whole and filed.
    fn finish(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let target = match &mut self.scope {
            Scope::Outside => return,
            Scope::Global => &mut self.defaults,
            Scope::Job(draft) => draft,
        };
        target.apply_all(&lines, &mut self.findings);
        let Scope::Job(draft) = std::mem::replace(&mut self.scope, Scope::Outside) else {
            return;
        };
        self.processes = self.processes.saturating_add(draft.job.numjobs);
        if self.processes > MAX_JOBS && self.processes - draft.job.numjobs <= MAX_JOBS {
            let message =
                format!("more than {MAX_JOBS} jobs, counting numjobs, which is fio's limit");
            self.findings.add(draft.header(), Problem::new(message));
        }
        draft.judge(&mut self.findings);
        if let Some(name) = &draft.job.wait_for
            && !self.jobs.iter().any(|job| job.name == *name)
        {
            let names = self.jobs.iter().map(|job| job.name.as_str());
            let message = format!("wait_for: no job above is called `{}`", shown(name));
            let problem = Problem::new(message).nearest(name, names);
            self.findings.add(draft.place_of("wait_for"), problem);
        }
        self.jobs.push(draft.job);
    }
}
