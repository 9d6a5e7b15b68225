//! Computes the scheduler's signals of a CPU, utilisation and `runnable_avg`, by the kernel's own
//! code.
//!
//! Kept apart from [`crate::checks`], because they are averages: ours are continuous, and the kernel's are rounded to periods.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::cut::CFile;
use crate::program::run_command_within;
use crate::source::KernelSource;

/// Time limit for running the kernel's PELT code.
const LIMIT: Duration = Duration::from_secs(60);

/// A time during which a CPU's run queue had the same tasks.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// End, in ns.
    pub until: u64,
    /// Number of tasks in the queue, one of them running.
    pub tasks: u32,
}

/// Signals `util_avg` and `runnable_avg` of a run queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals {
    /// 1024: always busy.
    pub utilisation: u32,
    /// 1024 for each task.
    pub runnable: u32,
}

/// Signals of a run queue at the end of a stretch.
#[derive(Clone, Copy, Debug)]
pub struct PeltSums {
    /// Signals as the kernel stores them, updated once per period of 1024 us.
    pub updated: Signals,
    /// Signals as if the kernel updated them at the stretch's end.
    pub now: Signals,
}

/// Signals of a queue on a CPU of full capacity, by `kernel/sched/pelt.c`, at the end of each
/// stretch.
///
/// # Errors
///
/// The source has other functions; it cannot be compiled or run.
pub fn signals_by_kernel_code(
    source: &KernelSource,
    stretches: &[Stretch],
) -> Result<Vec<PeltSums>> {
    let scratch = tempfile::tempdir()?;
    let program = compile_pelt(&cut_pelt_functions(source)?, scratch.path())?;
    let mut input = String::new();
    for Stretch { until, tasks } in stretches {
        let _ = writeln!(input, "{until} {tasks}");
    }
    let output = run_command_within(&mut Command::new(program), input.as_bytes(), LIMIT)?;
    let answers: Vec<PeltSums> = String::from_utf8(output)?
        .lines()
        .map(parse_pelt_sums)
        .collect::<Result<_>>()?;
    ensure!(
        answers.len() == stretches.len(),
        "{} answers to {} stretches",
        answers.len(),
        stretches.len()
    );
    Ok(answers)
}

/// Cuts out the kernel functions that keep a queue's signals, and the definitions that they need.
fn cut_pelt_functions(source: &KernelSource) -> Result<String> {
    let code = source.read_file("kernel/sched/pelt.c")?;
    let header = source.read_file("kernel/sched/pelt.h")?;
    let (code, header) = (CFile::new(&code), CFile::new(&header));
    let mut cut = source.read_file("kernel/sched/sched-pelt.h")?;
    cut += header.cut_macro("PELT_MIN_DIVIDER")?;
    cut += "\n";
    cut += header.cut_function("get_pelt_divider")?;
    for name in [
        "decay_load",
        "__accumulate_pelt_segments",
        "accumulate_sum",
        "___update_load_sum",
        "___update_load_avg",
    ] {
        cut += "\n";
        cut += code.cut_function(name)?;
    }
    Ok(cut)
}

fn compile_pelt(cut: &str, folder: &Path) -> Result<PathBuf> {
    let (path, program) = (folder.join("cut.h"), folder.join("program"));
    fs::write(&path, cut)?;
    let compiled = Command::new("gcc")
        .args(["-std=gnu11", "-O1", "-w"])
        .arg(format!("-DCUT_SOURCE=\"{}\"", path.display()))
        .arg("-o")
        .arg(&program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("c/pelt_main.c"))
        .output()
        .context("cannot run gcc")?;
    let errors = String::from_utf8_lossy(&compiled.stderr);
    ensure!(compiled.status.success(), "gcc failed:\n{errors}");
    Ok(program)
}

/// Parses a line of four numbers: both signals as stored, and both as of now.
fn parse_pelt_sums(line: &str) -> Result<PeltSums> {
    let numbers: Vec<u32> = line
        .split(' ')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| line.to_owned())?;
    let [stored_utilisation, stored_runnable, utilisation, runnable] = numbers[..] else {
        bail!("not four numbers: {line}");
    };
    Ok(PeltSums {
        updated: Signals {
            utilisation: stored_utilisation,
            runnable: stored_runnable,
        },
        now: Signals {
            utilisation,
            runnable,
        },
    })
}
