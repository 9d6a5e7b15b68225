//! Compiles the kernel's C into test programs, each linked with a driver of ours from `c/`.

use std::fs;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::recipe::{Recipe, cut_pieces, recipe_for_subject};
use crate::source::KernelSource;
use crate::subject::Subject;

/// A change to the kernel's text before it is compiled.
#[derive(Clone, Copy, Debug)]
pub struct Alteration {
    /// A kernel file.
    pub file: &'static str,
    /// Text to replace, which must occur exactly once in the compiled source.
    pub from: &'static str,
    /// Replacement.
    pub to: &'static str,
}

impl Alteration {
    /// Replaces the text in `text`, if `file` is the kernel file that is to be altered.
    fn alter_file_text(&self, file: &str, text: String) -> Result<String> {
        if file != self.file {
            return Ok(text);
        }
        let count = text.matches(self.from).count();
        ensure!(
            count == 1,
            "stale mutant: `{}` occurs {count} times in {file}, not once",
            self.from
        );
        Ok(text.replace(self.from, self.to))
    }
}

/// Time limit for a test program over one batch, which takes less than a second.
const LIMIT: Duration = Duration::from_secs(600);

/// Error: a test program did not end in time; altered code may loop.
#[derive(Debug)]
pub struct TimedOut(Duration);

impl std::fmt::Display for TimedOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "still running after {} s, and ended", self.0.as_secs())
    }
}

impl std::error::Error for TimedOut {}

/// A compiled test program with kernel code.
#[derive(Debug)]
pub struct KernelProgram {
    path: PathBuf,
    arguments: &'static [&'static str],
    limit: Duration,
    // Removes the program with its folder.
    _scratch: tempfile::TempDir,
}

impl KernelProgram {
    /// Compiles a subject's kernel code from `source`, for a kernel with `hz` ticks a second.
    pub fn compile_subject(
        subject: Subject,
        source: &KernelSource,
        hz: u32,
        alteration: Option<&Alteration>,
    ) -> Result<Self> {
        // Kernels are built with this optimisation level.
        Self::compile_with_flags(&["-O2"], subject, source, hz, alteration)
    }

    /// Compiles a subject's kernel code so that each run adds to the counts that `gcov` reads.
    pub fn compile_for_coverage(subject: Subject, source: &KernelSource, hz: u32) -> Result<Self> {
        Self::compile_with_flags(&["-O0", "--coverage"], subject, source, hz, None)
    }

    fn compile_with_flags(
        flags: &[&str],
        subject: Subject,
        source: &KernelSource,
        hz: u32,
        alteration: Option<&Alteration>,
    ) -> Result<Self> {
        Self::try_compile(flags, subject, source, hz, alteration).with_context(|| {
            format!(
                "{} of {} at HZ={hz}",
                subject.name(),
                source.describe_package()
            )
        })
    }

    fn try_compile(
        flags: &[&str],
        subject: Subject,
        source: &KernelSource,
        hz: u32,
        alteration: Option<&Alteration>,
    ) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let folder = scratch.path();
        let path = folder.join("program");
        let mut compiler = gcc_command_for_driver(subject, folder)?;
        compiler
            .args(flags)
            .arg(format!("-DHZ={hz}"))
            .arg("-o")
            .arg(&path);
        match recipe_for_subject(subject) {
            Recipe::Whole => add_whole_file(&mut compiler, subject, source, alteration, folder)?,
            Recipe::Cut(pieces) => {
                let cut = cut_pieces(&source.read_file(subject.kernel_file())?, pieces)?;
                let altered = alter_if_for_file(alteration, subject.kernel_file(), cut)?;
                add_cut_pieces(&mut compiler, &altered, folder)?;
            }
        }
        let output = compiler
            .output()
            .context("cannot run gcc, which the comparison needs (Debian package gcc)")?;
        ensure!(
            output.status.success(),
            "gcc failed:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(Self {
            path,
            arguments: subject.driver_arguments(),
            limit: LIMIT,
            _scratch: scratch,
        })
    }

    /// Path of the compiled test program.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same test program with another time limit for each run.
    #[must_use]
    pub fn with_time_limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Runs the test program over `input` and returns what it wrote.
    ///
    /// # Errors
    ///
    /// The program fails, or does not end in time ([`TimedOut`]).
    pub fn run_over_input(&self, input: &[u8]) -> Result<Vec<u8>> {
        run_command_within(
            Command::new(&self.path).args(self.arguments),
            input,
            self.limit,
        )
    }
}

/// A gcc command with a subject's driver, and the language rules of a kernel build.
fn gcc_command_for_driver(subject: Subject, folder: &Path) -> Result<Command> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = [crates.join("conformance/c"), crates.join("governors/c")];
    let driver = folders
        .iter()
        .map(|folder| folder.join(subject.driver_file()))
        .find(|file| file.is_file())
        .with_context(|| format!("no driver {}", subject.driver_file()))?;
    let mut compiler = Command::new("gcc");
    compiler
        // The flag makes signed overflow wrap, as in a kernel.
        .args(["-std=gnu11", "-fno-strict-overflow"])
        .args(["-fno-strict-aliasing", "-w"])
        .arg("-I")
        .arg(folder.join("include"))
        .arg(driver)
        .arg(folders[1].join("record.c"));
    for folder in &folders {
        compiler.arg("-I").arg(folder);
    }
    Ok(compiler)
}

/// Adds a whole kernel file to the compiler's command, with the header that governors share.
fn add_whole_file(
    compiler: &mut Command,
    subject: Subject,
    source: &KernelSource,
    alteration: Option<&Alteration>,
    folder: &Path,
) -> Result<()> {
    const SHARED_HEADER: &str = "drivers/cpuidle/governors/gov.h";
    let text = alter_if_for_file(
        alteration,
        subject.kernel_file(),
        source.read_file(subject.kernel_file())?,
    )?;
    write_forwarding_headers(&text, &folder.join("include"))?;
    if text.contains("\"gov.h\"") {
        let header =
            alter_if_for_file(alteration, SHARED_HEADER, source.read_file(SHARED_HEADER)?)?;
        fs::write(folder.join("gov.h"), header)?;
    } else if alteration.is_some_and(|alteration| alteration.file == SHARED_HEADER) {
        bail!(
            "stale mutant: {} does not include gov.h",
            subject.kernel_file()
        );
    }
    let file = folder.join("governor.c");
    fs::write(&file, text)?;
    compiler.arg(file);
    Ok(())
}

/// Has the driver include the cut pieces of a kernel file, and tells it by macros what differs
/// between kernels.
fn add_cut_pieces(compiler: &mut Command, cut: &str, folder: &Path) -> Result<()> {
    if cut.contains("unsigned long sugov_iowait_apply(") {
        compiler.arg("-DAPPLY_RETURNS_BOOST");
    }
    if cut.contains("union perf_cached") {
        compiler.arg("-DPERF_CACHED");
    }
    if !cut.contains("amd_pstate_epp_update_limit") {
        compiler.arg("-DPASSIVE_ONLY");
    }
    let file = folder.join("cut.h");
    fs::write(&file, cut)?;
    compiler.arg(format!("-DCUT_SOURCE=\"{}\"", file.display()));
    Ok(())
}

/// Text of a kernel file, altered if the alteration is for this file.
fn alter_if_for_file(alteration: Option<&Alteration>, file: &str, text: String) -> Result<String> {
    match alteration {
        Some(alteration) => alteration.alter_file_text(file, text),
        None => Ok(text),
    }
}

/// Feeds `input` to a command and returns what the command wrote within `limit`.
///
/// # Errors
///
/// The command cannot be run, fails, or does not end in time ([`TimedOut`]).
pub fn run_command_within(command: &mut Command, input: &[u8], limit: Duration) -> Result<Vec<u8>> {
    let end = Instant::now() + limit;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let Some(mut stdin) = child.stdin.take() else {
        bail!("no pipe to {}", command.get_program().display());
    };
    let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        bail!("no pipe from {}", command.get_program().display());
    };
    // Test programs read their whole input before writing, so no deadlock. An early death breaks
    // the pipe; the program's own message says more.
    let written = stdin.write_all(input);
    drop(stdin);
    let (status, output, errors) = thread::scope(|scope| {
        let output = scope.spawn(move || read_all(&mut stdout));
        let errors = scope.spawn(move || read_all(&mut stderr));
        let mut pause = Duration::from_micros(100);
        let status = loop {
            match child.try_wait() {
                Ok(None) if Instant::now() < end => thread::sleep(pause),
                Ok(None) => {
                    child.kill().and_then(|()| child.wait())?;
                    return Err(TimedOut(limit).into());
                }
                Ok(Some(status)) => break status,
                Err(error) => return Err(error.into()),
            }
            pause = (pause * 2).min(Duration::from_millis(10));
        };
        anyhow::Ok((
            status,
            join_reader_thread(output)?,
            join_reader_thread(errors)?,
        ))
    })?;
    ensure!(
        status.success(),
        "{} failed ({status}): {}",
        command.get_program().display(),
        String::from_utf8_lossy(&errors).trim()
    );
    written?;
    Ok(output)
}

/// Output that a thread of [`read_all`] read; nothing if the thread panicked.
fn join_reader_thread(
    reader: thread::ScopedJoinHandle<'_, std::io::Result<Vec<u8>>>,
) -> std::io::Result<Vec<u8>> {
    reader.join().unwrap_or_else(|_| Ok(Vec::new()))
}

fn read_all(from: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut all = Vec::new();
    from.read_to_end(&mut all)?;
    Ok(all)
}

/// Headers that a C file includes in angle brackets.
pub(crate) fn included_headers(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("#include")?;
        let (header, _) = rest.trim().strip_prefix('<')?.split_once('>')?;
        Some(header)
    })
}

/// Writes a header for each one that a kernel file includes, which leads to our stand-ins.
fn write_forwarding_headers(text: &str, include: &Path) -> Result<()> {
    for header in included_headers(text) {
        ensure!(
            !header.split('/').any(|part| part == ".."),
            "an include leaves the tree: {header}"
        );
        let path = include.join(header);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, "#include \"cpuidle_standin.h\"\n")?;
    }
    Ok(())
}

/// Whether gcc is there to build the kernel's files with.
pub fn has_compiler() -> bool {
    Command::new("gcc")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}
