//! The files that fio may open for the jobs in a job file: where data may end up.
//!
//! File names follow fio 3.33 (`str_filename_cb` and `get_next_str` in `options.c`, `add_job` and `make_filename` in
//! `init.c`, `add_file` in `filesetup.c`). Where fio's choice depends on section order, process or existing files, all
//! choices are listed.

use super::FioJob;
use super::error::{FioError, LineProblem, escape_and_shorten};
use super::lines::read_lines_expanding_includes_and_variables;
use super::read::parse;
use super::surroundings::FioSurroundings;
use super::syntax::{parse_section_header, split_at_unescaped_colons, strip_comment_and_blanks};

/// Keywords that fio replaces in any option's value.
const REPLACED: [&str; 4] = ["${", "$pagesize", "$mb_memory", "$ncpus"];

/// The files that fio may open for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPaths {
    /// Name of the job that opens the files.
    pub job: String,
    /// Whether the job writes to the files.
    pub writes: bool,
    /// Paths that a process of the job may open for I/O.
    pub files: Vec<String>,
    /// Path of the file that `mem=mmapshared:FILE` maps as memory: even reads write to this file.
    pub memory: Option<String>,
}

/// Options that name files, from a section and from the `[global]` sections above.
#[derive(Clone, Default)]
struct FileNameOptions {
    /// `filename` values in file order: fio uses the names from `[global]` and from the job.
    files: Vec<String>,
    /// File names, each with the directory that was set when fio read the name.
    directories: Vec<String>,
    format: Option<String>,
    memory: Option<String>,
}

/// Lists the files that fio may open, job by job, in file order. `origin` is the job file's name for messages.
///
/// # Errors
/// As [`parse`], and where a name cannot be known because fio would replace a part of it.
pub fn list_job_paths(text: &str, origin: &str) -> Result<Vec<JobPaths>, FioError> {
    let parsed = parse(text, origin)?;
    let mut global = FileNameOptions::default();
    // The section being read, with its names; `None` in `[global]`.
    let mut section: Option<(String, FileNameOptions)> = None;
    let mut all: Vec<(String, FileNameOptions)> = Vec::new();
    for (place, line) in
        read_lines_expanding_includes_and_variables(text, origin, &FioSurroundings::default())
    {
        let raw = line.map_err(|p| p.at_place(&place))?;
        let content = strip_comment_and_blanks(&raw);
        if content.starts_with('[') {
            let name = parse_section_header(content).map_err(|p| p.at_place(&place))?;
            all.extend(section.take());
            if !name.starts_with("global") {
                section = Some((name.to_owned(), global.clone()));
            }
        } else if let Some((key, value)) = content.split_once('=') {
            let names = section.as_mut().map_or(&mut global, |(_, names)| names);
            names
                .keep_if_file_option(key.trim_end(), value.trim())
                .map_err(|p| p.at_place(&place))?;
        }
    }
    all.extend(section);
    let jobs = parsed.jobs.iter().zip(all);
    jobs.map(|(job, (section, names))| names.job_paths_for_section(job, &section, origin))
        .collect()
}

impl FileNameOptions {
    fn keep_if_file_option(&mut self, key: &str, value: &str) -> Result<(), LineProblem> {
        if !["filename", "directory", "filename_format", "mem"].contains(&key) {
            return Ok(());
        }
        if let Some(word) = REPLACED.iter().find(|word| value.contains(*word)) {
            return Err(LineProblem::new(format!(
                "{key}: fio replaces `{word}` in `{}`, so that the file is not known; write its name out",
                escape_and_shorten(value)
            )));
        }
        match key {
            "filename" => self.files.extend(split_at_unescaped_colons(value)),
            "directory" => self.directories.extend(split_at_unescaped_colons(value)),
            "filename_format" => self.format = Some(value.to_owned()),
            _ => self.memory = value.split_once(':').map(|(_, file)| file.to_owned()),
        }
        Ok(())
    }

    /// The files for a job in this section.
    fn job_paths_for_section(
        self,
        job: &FioJob,
        section: &str,
        origin: &str,
    ) -> Result<JobPaths, FioError> {
        let mut names = self.files;
        if job.io_log.is_given() {
            names = job.io_log.opened_files().ok_or_else(|| {
                let message = "read_iolog: fio opens the files that its log names, and the log cannot be read here: name one \
                               with replay_redirect=FILE";
                FioError::for_one_problem(origin, Some(job.line), message.to_owned())
            })?;
        } else if names.is_empty() {
            // If something with the section's name exists and is no regular file, fio takes it as the job's file.
            names.push(section.to_owned());
            let given = self.format.as_deref().filter(|f| !f.is_empty());
            let format = given.unwrap_or("$jobname.$jobnum.$filenum");
            let of_process = (0..job.numjobs)
                .map(|number| expand_filename_format_for_single_file(format, section, number));
            names.extend(of_process);
        }
        names.dedup();
        let mut files = names.clone();
        for directory in &self.directories {
            files.extend(names.iter().map(|name| format!("{directory}/{name}")));
        }
        Ok(JobPaths {
            job: job.name.clone(),
            writes: job.io_log.may_write().unwrap_or(job.rw.writes()),
            files,
            memory: self.memory,
        })
    }
}

/// Expands `filename_format` for a process that has a single file.
fn expand_filename_format_for_single_file(format: &str, section: &str, process: u32) -> String {
    let number = process.to_string();
    let words = [
        ("$jobname", section),
        ("$jobnum", number.as_str()),
        ("$filenum", "0"),
        // The client's address is part of the name in fio's server mode.
        ("$clientuid", ""),
    ];
    let mut name = String::new();
    let mut rest = format;
    while let Some(letter) = rest.chars().next() {
        let word = words.iter().find(|(word, _)| {
            rest.get(..word.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(word))
        });
        let taken = if let Some((word, value)) = word {
            name.push_str(value);
            word.len()
        } else {
            name.push(letter);
            letter.len_utf8()
        };
        rest = &rest[taken..];
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> Vec<String> {
        let all = list_job_paths(text, "t.fio").unwrap_or_else(|e| panic!("{e}"));
        all.into_iter().flat_map(|job| job.files).collect()
    }

    #[test]
    fn lists_are_split_as_fio_splits_them() {
        for (text, parts) in [
            ("a", &["a"][..]),
            ("a:b", &["a", "b"]),
            (r"a\:b:c", &["a:b", "c"]),
            (":a::b:", &["a", "b"]),
            (r"\:", &[":"]),
            (":", &[]),
        ] {
            assert_eq!(split_at_unescaped_colons(text), parts, "{text}");
        }
    }

    #[test]
    fn names_come_from_filename_directory_format_and_section() {
        let cases: [(&str, &[&str]); 6] = [
            ("[a]\nfilename=x:y\nsize=1m\n", &["x", "y"]),
            (
                "[a]\nfilename=x\ndirectory=/d:e\nsize=1m\n",
                &["x", "/d/x", "e/x"],
            ),
            (
                "[global]\nfilename=g\n[a]\nfilename=x ; y\nsize=1m\n",
                &["g", "x"],
            ),
            (
                "[/dev/sda]\nsize=1m\nnumjobs=2\n",
                &["/dev/sda", "/dev/sda.0.0", "/dev/sda.1.0"],
            ),
            (
                "[a]\nname=b\nfilename_format=/dev/$JobName$jobnum\nsize=1m\n",
                &["a", "/dev/a0"],
            ),
            (
                "[global one]\ndirectory=/d\n[a]\nsize=1m\n[global]\n[b]\nfilename=x\nsize=1m\n",
                &["a", "a.0.0", "/d/a", "/d/a.0.0", "x", "/d/x"],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(files(text), expected, "{text}");
        }
        let memory = list_job_paths("[a]\nmem=mmapshared:/dev/sda\nsize=1m\n", "t.fio").unwrap();
        assert_eq!(memory[0].memory.as_deref(), Some("/dev/sda"));
        assert!(!memory[0].writes);
    }

    #[test]
    fn files_of_a_log_are_those_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let text = "fio version 3 iolog\n0 /dev/sdx open\n0 /dev/sdx read 0 512\n0 y read 0 512\n";
        std::fs::write(&log, text).unwrap();
        let job = format!("[a]\nfilename=z\nread_iolog={}\n", log.display());
        let paths = list_job_paths(&job, "t.fio").unwrap();
        assert_eq!(paths[0].files, ["/dev/sdx", "y"]);
        assert!(!paths[0].writes);
        let redirected = format!("{job}replay_redirect=/dev/sdy\n");
        assert_eq!(files(&redirected), ["/dev/sdy"]);
        let unread = "[a]\nread_iolog=no/such\nreplay_redirect=/dev/sdy\n";
        assert!(list_job_paths(unread, "t.fio").unwrap()[0].writes);
        let missing = list_job_paths("[a]\nread_iolog=no/such\n", "t.fio").unwrap_err();
        let wanted = "t.fio:1: read_iolog: fio opens the files that its log names, and the log cannot be read here: name one \
                      with replay_redirect=FILE";
        assert_eq!(missing.to_string(), wanted);
    }

    #[test]
    fn a_name_that_fio_would_make_up_is_refused() {
        for line in [
            "directory=${NO_SUCH_VARIABLE}",
            "filename=$ncpus",
            "filename_format=$pagesize",
        ] {
            let error = list_job_paths(&format!("[a]\n{line}\nsize=1m\n"), "t.fio").unwrap_err();
            assert_eq!(error.problems[0].line, Some(2));
            assert!(error.to_string().contains("write its name out"), "{error}");
        }
    }
}
