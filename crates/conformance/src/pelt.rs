//! The scheduler's signals of a CPU, utilisation and `runnable_avg`, by the kernel's own code.
//!
//! Kept apart from [`crate::checks`], because they are averages: ours are continuous, and the kernel's are rounded to periods.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cut::CFile;
use crate::program::run_command;
use crate::source::KernelSource;

/// How long it may take.
const LIMIT: Duration = Duration::from_secs(60);

/// What a queue had until some time, in ns.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// The time.
    pub until: u64,
    /// Number of tasks, with a single running one.
    pub tasks: u32,
}

/// `util_avg` and `runnable_avg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals {
    /// 1024: always busy.
    pub utilisation: u32,
    /// 1024 for each task.
    pub runnable: u32,
}

/// Both at the end of a stretch.
#[derive(Clone, Copy, Debug)]
pub struct PeltSums {
    /// Signals stored in the kernel, updated once per period of 1024 us.
    pub updated: Signals,
    /// Signals as if the kernel updated them now.
    pub now: Signals,
}

/// The signals of a queue on a CPU of full capacity, by `kernel/sched/pelt.c`.
///
/// # Errors
/// The source has other functions; it cannot be compiled or run.
pub fn by_kernel(source: &KernelSource, stretches: &[Stretch]) -> Result<Vec<PeltSums>> {
    let (pelt, header) = (
        source.text("kernel/sched/pelt.c")?,
        source.text("kernel/sched/pelt.h")?,
    );
    let (pelt, header) = (CFile::new(&pelt), CFile::new(&header));
    let mut cut = source.text("kernel/sched/sched-pelt.h")?;
    cut += header.macro_definition("PELT_MIN_DIVIDER")?;
    cut += "\n";
    cut += header.function("get_pelt_divider")?;
    for name in [
        "decay_load",
        "__accumulate_pelt_segments",
        "accumulate_sum",
        "___update_load_sum",
        "___update_load_avg",
    ] {
        cut += "\n";
        cut += pelt.function(name)?;
    }
    let scratch = tempfile::tempdir()?;
    let (path, program) = (scratch.path().join("cut.h"), scratch.path().join("program"));
    fs::write(&path, cut)?;
    let compiled = Command::new("gcc")
        .args(["-std=gnu11", "-O1", "-w"])
        .arg(format!("-DCUT_SOURCE=\"{}\"", path.display()))
        .arg("-o")
        .arg(&program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("c/pelt_main.c"))
        .output()
        .context("cannot run gcc")?;
    let complaint = String::from_utf8_lossy(&compiled.stderr);
    ensure!(compiled.status.success(), "gcc failed:\n{complaint}");
    let mut input = String::new();
    for Stretch { until, tasks } in stretches {
        let _ = writeln!(input, "{until} {tasks}");
    }
    let said = run_command(&mut Command::new(program), input.as_bytes(), LIMIT)?;
    let answers: Vec<PeltSums> = String::from_utf8(said)?
        .lines()
        .map(|line| {
            let numbers: Vec<u32> = line
                .split(' ')
                .map(str::parse)
                .collect::<Result<_, _>>()
                .with_context(|| line.to_owned())?;
            let signals = |at: usize| Signals {
                utilisation: numbers[at],
                runnable: numbers[at + 1],
            };
            ensure!(numbers.len() == 4, "not four numbers: {line}");
            Ok(PeltSums {
                updated: signals(0),
                now: signals(2),
            })
        })
        .collect::<Result<_>>()?;
    ensure!(
        answers.len() == stretches.len(),
        "{} answers to {} stretches",
        answers.len(),
        stretches.len()
    );
    Ok(answers)
}
