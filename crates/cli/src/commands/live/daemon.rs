//! `wakepath daemon`: keeps CPUs that handle I/O bursts from sleeping deeply.

use std::path::PathBuf;

use anyhow::Context;
use wakepath_daemon::{DaemonError, LockLender, psd};
use wakepath_settings::daemon_config;

use super::RootArgs;

use crate::output::Screen;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  sudo wakepath daemon
  wakepath daemon --check-config --config daemon.toml
  wakepath daemon --print-config > daemon.toml")]
pub(crate) struct Args {
    /// The configuration [default: /etc/wakepath/daemon.toml; without it, the defaults].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the configuration, and change nothing.
    #[arg(long)]
    check_config: bool,
    /// Print the configuration that is shipped, with a comment on every key.
    #[arg(long, conflicts_with_all = ["config", "check_config"])]
    print_config: bool,
    /// Work for the process of this id, which started this one with its lock of the settings as standard input, and end with
    /// it. Studies start a daemon so.
    #[arg(long, value_name = "PID", hide = true, conflicts_with_all = ["check_config", "print_config"])]
    lent_by: Option<i32>,
    #[command(flatten)]
    root: RootArgs,
}

/// Exit code that keeps the unit from restarting the daemon: `EX_CONFIG` in `sysexits.h`.
const NOT_AGAIN: u8 = 78;

/// Exit code for the daemon's own errors; `None` for all others.
pub(crate) fn exit_code_for_daemon_error(error: &anyhow::Error) -> Option<u8> {
    let error = error.downcast_ref::<DaemonError>()?;
    error.is_permanent().then_some(NOT_AGAIN)
}

pub(crate) fn run_daemon_command(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    if args.print_config {
        out.write_lines_unfolded(daemon_config::EXAMPLE);
        return Ok(());
    }
    if args.check_config {
        let config = wakepath_daemon::load_config_or_default(args.config.as_deref())?;
        let system = args.root.open_system()?;
        if let Some(leases) = config.policy.requested_lease_settings() {
            psd::check_ceiling_on_all_cpus(&system, &leases.ceiling)
                .map_err(|why| anyhow::anyhow!("policy: {why}"))?;
        }
        let path = args
            .config
            .clone()
            .unwrap_or_else(|| PathBuf::from(daemon_config::PATH));
        wakepath_daemon::check_guard_drives(&system, &config, &path.display().to_string())?;
        let what = if path.exists() {
            "fine"
        } else {
            "not there; the defaults hold"
        };
        writeln!(out, "{}: {what}", path.display())?;
        return Ok(());
    }
    let lender = args
        .lent_by
        .map(LockLender::from_parent_process)
        .transpose()
        .context("--lent-by")?;
    Ok(wakepath_daemon::run_until_stopped(
        &args.root.open_system()?,
        args.config.as_deref(),
        lender.as_ref(),
    )?)
}
