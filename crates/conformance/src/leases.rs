//! Compares the latency leases by wakepath's code for the kernel with the rule in `policies`, on
//! the same I/Os.
//!
//! The kernel module and the daemon's eBPF program are compiled as they are, for one CPU in user space whose time stands still
//! while they work. So what they decide is compared, and not how fast a machine is.

use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use wakepath_policies::psd::{BurstEvent, HeardLease, Lease, LeaseRule, PsdPolicy};
use wakepath_units::{Nanoseconds, TickRate};

use crate::program::{included_headers, run_command_within};

/// Time limit for compiling and running a lease's C program.
const LIMIT: Duration = Duration::from_secs(60);

/// Leases on a CPU by the rule in `policies`, for I/Os at the given times in ns. Each lease is a
/// range from start to end.
pub fn leases_by_rule(policy: &PsdPolicy, tick: TickRate, ios: &[u64]) -> Vec<Range<u64>> {
    let mut lease = Lease::new(policy, tick);
    let mut leases: Vec<Range<u64>> = Vec::new();
    for io in ios.iter().map(|ns| Nanoseconds(*ns)) {
        lease.handle_io(io);
        if lease.holds_at(io) {
            append_or_extend_lease(&mut leases, io.0..lease.end_without_further_io().0);
        }
    }
    leases
}

/// Appends a lease. A lease that begins where the last one ends, or earlier, extends the last one.
fn append_or_extend_lease(leases: &mut Vec<Range<u64>>, lease: Range<u64>) {
    match leases.last_mut().filter(|last| lease.start <= last.end) {
        Some(last) => last.end = lease.end,
        None => leases.push(lease),
    }
}

/// Leases on a CPU by the kernel code itself: the module's, or the daemon's with its user space.
/// The patch has no code here.
///
/// # Errors
///
/// The code cannot be compiled or run; a rule that has no code; a module whose leases begin later
/// in a burst.
pub fn leases_by_kernel_code(policy: &PsdPolicy, ios: &[u64]) -> Result<Vec<Range<u64>>> {
    let (source, driver, daemon) = match policy.rule {
        LeaseRule::Module => ("module/wakepath_psd.c", "psd_module_main.c", false),
        LeaseRule::Daemon => (
            "crates/daemon/bpf/block_io.bpf.c",
            "psd_daemon_main.c",
            true,
        ),
        LeaseRule::Patch => bail!("the patch has no code here"),
    };
    ensure!(
        daemon || policy.start_after == 1,
        "the module's lease begins with the first I/O"
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scratch = tempfile::tempdir()?;
    let program = compile_lease_driver(&root.join(source), driver, scratch.path())?;
    let mut input = String::new();
    for io in ios {
        let _ = writeln!(input, "{io}");
    }
    let mut command = Command::new(program);
    command.arg(policy.timeout_ms.to_string());
    if daemon {
        command.arg(policy.start_after.to_string());
    }
    let output = String::from_utf8(run_command_within(&mut command, input.as_bytes(), LIMIT)?)?;
    let numbers: Vec<u64> = output
        .split_ascii_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    ensure!(rest.is_empty(), "half a line: {output}");
    if daemon {
        return Ok(leases_from_events(pairs));
    }
    let mut leases = Vec::new();
    for [from, to] in pairs {
        append_or_extend_lease(&mut leases, *from..*to);
    }
    Ok(leases)
}

/// Compiles a test program around wakepath's code for the kernel; returns the program's path.
fn compile_lease_driver(source: &Path, driver: &str, folder: &Path) -> Result<PathBuf> {
    let text = fs::read_to_string(source).with_context(|| source.display().to_string())?;
    // The driver's text has the kernel's definitions, so that the headers can be empty.
    for header in included_headers(&text).chain(["kernel.h"]) {
        let path = folder.join(header);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, "")?;
    }
    let program = folder.join("program");
    let compiled = Command::new("gcc")
        .args(["-std=gnu11", "-O1", "-w", "-I"])
        .arg(folder)
        .arg(format!("-DSOURCE=\"{}\"", source.display()))
        .arg("-o")
        .arg(&program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(driver))
        .output()
        .context("cannot run gcc")?;
    let errors = String::from_utf8_lossy(&compiled.stderr);
    ensure!(compiled.status.success(), "gcc failed:\n{errors}");
    Ok(program)
}

/// Leases as the daemon's user space grants them, from events with kind and time in ns.
fn leases_from_events(events: &[[u64; 2]]) -> Vec<Range<u64>> {
    let mut lease = HeardLease::default();
    let mut leases: Vec<Range<u64>> = Vec::new();
    for [kind, time] in events {
        let event = match kind {
            1 => BurstEvent::Io,
            _ => BurstEvent::Quiet,
        };
        lease.handle_event(event, *time);
        match (lease.take_change(), leases.last_mut()) {
            (Some(true), _) => append_or_extend_lease(&mut leases, *time..u64::MAX),
            (Some(false), Some(last)) => last.end = *time,
            _ => {}
        }
    }
    leases
}
