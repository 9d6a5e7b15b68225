//! `--perfetto`: the timeline of a simulated run as a file.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::CommandFactory;
use clap::error::ErrorKind;
use wakepath_hardware::Machine;
use wakepath_report::perfetto::Timeline;
use wakepath_sim::{Combination, Experiment, simulate_observed};
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;

use crate::waiting;

#[derive(clap::Args)]
pub(crate) struct TimelineArgs {
    /// Write a timeline of the first run for Perfetto; needs a single combination of policies.
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// How much of the run, from its start: a number with ns, us, ms or s.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time, requires = "perfetto")]
    perfetto_span: Nanoseconds,
    /// Replace the file of --perfetto if it exists.
    #[arg(long, requires = "perfetto")]
    force: bool,
}

impl TimelineArgs {
    /// Writes the timeline, if one is asked for.
    pub(crate) fn write(&self, of: &Experiment, seed: u64) -> anyhow::Result<()> {
        let Some(path) = &self.perfetto else {
            return Ok(());
        };
        let [policies] = &of.combinations[..] else {
            narrow(of.combinations.len());
        };
        self.check(path)
            .and_then(|()| self.write_to(path, &of.machine, &of.workload, policies, seed))
            .with_context(|| format!("--perfetto {}", path.display()))
    }

    /// What can be known before anything is written.
    fn check(&self, path: &Path) -> anyhow::Result<()> {
        match fs::metadata(path) {
            Ok(there) if !there.is_file() => bail!("it is there and not a regular file"),
            Ok(_) if !self.force => bail!("the file exists; --force replaces it"),
            _ => Ok(()),
        }
    }

    /// Under a temporary name beside `path` first, so that half a timeline never bears its name.
    fn write_to(
        &self,
        path: &Path,
        machine: &Machine,
        workload: &Workload,
        policies: &Combination,
        seed: u64,
    ) -> anyhow::Result<()> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // As any new file: the umask takes away what it does not want.
        let file = tempfile::Builder::new()
            .prefix(".wakepath-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            // Its own message names the temporary file, which tells nobody anything.
            .map_err(|e| io::Error::from(e.kind()))?;
        let out = BufWriter::new(UntilCancelled(file.as_file()));
        let mut timeline = Timeline::new(out, machine, workload, self.perfetto_span);
        simulate_observed(machine, workload, policies, seed, &mut timeline)?;
        timeline.finish()?;
        let kept = if self.force {
            file.persist(path)
        } else {
            file.persist_noclobber(path)
        };
        kept.map_err(|e| e.error)?;
        Ok(())
    }
}

/// Refuses to be written to after Ctrl-C.
struct UntilCancelled<'a>(&'a File);

impl Write for UntilCancelled<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if waiting::cancelled() {
            return Err(io::Error::other("interrupted; nothing was kept"));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A usage error: more than one combination.
fn narrow(combinations: usize) -> ! {
    let mut cli = crate::Cli::command();
    cli.build();
    let mut sim = cli.find_subcommand("sim").cloned().unwrap_or(cli);
    let message = format!(
        "--perfetto draws one combination of policies, and there are {combinations}; \
         name one governor in --idle and one policy in --freq"
    );
    sim.error(ErrorKind::TooManyValues, message).exit()
}

fn time(text: &str) -> Result<Nanoseconds, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let scale = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return Err("a number with ns, us, ms or s, such as 100ms".into()),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a whole number with ns, us, ms or s, such as 100ms")?;
    match number.checked_mul(scale) {
        None => Err("longer than can be simulated".into()),
        Some(0) => Err("a timeline of no time shows nothing".into()),
        Some(ns) => Ok(Nanoseconds(ns)),
    }
}
