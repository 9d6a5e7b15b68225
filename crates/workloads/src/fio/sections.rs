//! From lines to jobs: comments, section headers, inheritance from `[global]`.

use super::error::{FioError, FioWarning, Problem, shown};
use super::options::{self, Draft};
use super::{FioJobFile, MAX_JOBS, Size};

/// fio reads lines into a buffer of 4096 bytes; a longer one falls apart in the middle.
const MAX_LINE_BYTES: usize = 4095;

/// Where the options of a line belong.
enum Scope {
    /// Before the first section header.
    Outside,
    /// The defaults of all jobs below.
    Global,
    /// The job being read.
    Job(Box<Draft>),
}

pub(super) fn read(text: &str, origin: &str) -> Result<FioJobFile, FioError> {
    let mut file = FioJobFile {
        jobs: Vec::new(),
        warnings: Vec::new(),
    };
    let mut defaults = Draft::default();
    let mut scope = Scope::Outside;
    let mut processes = 0_u32;
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let fail = |problem: Problem| problem.at(origin, line);
        if raw.len() > MAX_LINE_BYTES {
            return Err(fail(Problem::new(format!(
                "the line is longer than fio's {MAX_LINE_BYTES} bytes"
            ))));
        }
        let content = strip(raw);
        if content.is_empty() {
            continue;
        }
        if content.starts_with('[') {
            let name = section_name(content).map_err(fail)?;
            finish(&mut scope, &mut file, &mut processes, origin)?;
            // fio compares the first six letters only.
            if let Some(rest) = name.strip_prefix("global") {
                if !rest.is_empty() {
                    file.warnings.push(FioWarning {
                        line,
                        option: format!("[{}]", shown(name)),
                        message: "is read by fio as a [global] section, not as a job".to_owned(),
                    });
                }
                scope = Scope::Global;
            } else {
                scope = Scope::Job(Box::new(defaults.for_job(name, line)));
            }
            continue;
        }
        let target = match &mut scope {
            Scope::Outside => {
                return Err(fail(Problem::new(format!(
                    "`{}` stands before any section; start with [global] or [a job name]",
                    shown(content)
                ))));
            }
            Scope::Global => &mut defaults,
            Scope::Job(draft) => draft,
        };
        if let Some((option, message)) = options::apply(target, content, line).map_err(fail)? {
            file.warnings.push(FioWarning {
                line,
                option: option.to_owned(),
                message,
            });
        }
    }
    finish(&mut scope, &mut file, &mut processes, origin)?;
    if file.jobs.is_empty() {
        return Err(FioError {
            origin: origin.to_owned(),
            line: None,
            message: "has no job section; a job starts with a line like [reader]".to_owned(),
            suggestion: None,
        });
    }
    Ok(file)
}

/// Cuts a comment off and the blanks around the rest. fio takes every `;` and `#` as the start of a
/// comment, wherever it stands.
pub(super) fn strip(line: &str) -> &str {
    let end = line.find([';', '#']).unwrap_or(line.len());
    line[..end].trim_matches(|c: char| c.is_ascii_whitespace() || c.is_ascii_control())
}

pub(super) fn section_name(header: &str) -> Result<&str, Problem> {
    let name = header
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .ok_or_else(|| {
            Problem::new(format!(
                "`{}` is not a section header; expected [name] alone on the line",
                shown(header)
            ))
        })?;
    if name.trim().is_empty() {
        return Err(Problem::new("a section needs a name between its brackets"));
    }
    if name.contains(['[', ']']) {
        return Err(Problem::new(format!(
            "the section name `{}` has a bracket in it",
            shown(name)
        )));
    }
    Ok(name)
}

/// Checks the job being read as a whole and files it.
fn finish(
    scope: &mut Scope,
    file: &mut FioJobFile,
    processes: &mut u32,
    origin: &str,
) -> Result<(), FioError> {
    let Scope::Job(draft) = std::mem::replace(scope, Scope::Outside) else {
        return Ok(());
    };
    let name = shown(&draft.job.name);
    let fail = |line: usize, message: String| Err(Problem::new(message).at(origin, line));
    let job = &draft.job;
    if job.runtime.is_none() && !matches!(job.size, Some(Size::Bytes(_))) {
        let (line, what) = match (draft.runtime_line, draft.size_line) {
            (Some(line), _) => (line, "runtime=0 sets no limit"),
            (None, Some(line)) => (line, "a size in percent depends on the file"),
            (None, None) => (job.line, "there is neither runtime nor size"),
        };
        return fail(
            line,
            format!("job `{name}` never ends: {what}; add runtime=SECONDS or size=BYTES"),
        );
    }
    if job.time_based && job.runtime.is_none() {
        return fail(
            draft.time_based_line.unwrap_or(job.line),
            format!("job `{name}` is time_based without a runtime; add runtime=SECONDS"),
        );
    }
    if let (Some(first), Some(second)) = (draft.rate_line, draft.rate_iops_line) {
        return fail(
            first.max(second),
            format!("job `{name}` has both rate and rate_iops; keep one of them"),
        );
    }
    *processes = processes.saturating_add(job.numjobs);
    if *processes > MAX_JOBS {
        return fail(
            job.line,
            format!("more than {MAX_JOBS} jobs, counting numjobs, which is fio's limit"),
        );
    }
    file.warnings.extend(draft.closing_warnings());
    file.jobs.push(draft.job);
    Ok(())
}
