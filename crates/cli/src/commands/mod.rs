//! One module per noun of the command line. Each has `Args`, which clap fills, and `run`, which
//! writes what the user asked for to `out` or returns one error chain.

use clap::Subcommand;

use crate::output::Screen;

mod apst;
mod arguments;
mod calibrate;
mod canary;
mod compare;
mod counters;
mod drive;
mod explain;
mod fleet;
mod foreign_recording;
mod generate;
mod here;
mod import;
mod live;
mod machine;
mod measure;
mod policy;
#[cfg(target_os = "linux")]
mod record;
mod replay;
mod report;
mod reproduce;
mod results;
mod sim;
mod study;
mod timeline;
mod tune;
mod workload;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run one policy over recorded inputs.
    Policy(policy::Args),
    /// Plan and decode NVMe APST tables.
    Apst(apst::Args),
    /// The machine models.
    Machine(machine::Args),
    /// The library of NVMe drives.
    Drive(drive::Args),
    /// Simulate a fio job on a modelled machine under each policy.
    Sim(sim::Args),
    /// Compare policies over many runs, simulated or measured, from one file.
    Study(study::Args),
    /// Find the best policy set for one's loads on a modelled machine.
    Tune(tune::Args),
    /// Which classes a fleet of captured machines has, what stands out, and the settings for each class.
    Fleet(fleet::Args),
    /// Whether a change that some machines of a fleet got does harm.
    Canary(canary::Args),
    /// Merge shards, draw timelines for Perfetto, set the laboratory beside a simulation.
    Results(results::Args),
    /// Which policy is better, by how much, and how sure that is.
    Compare(compare::CompareArgs),
    /// Record what this machine's CPUs and drives do, with eBPF.
    #[cfg(target_os = "linux")]
    Record(record::Args),
    /// Simulate a published experiment and print it beside the published numbers.
    Reproduce(reproduce::Args),
    /// Make a recording of traces that other tools made.
    Import(import::Args),
    /// Run recorded wake-ups through other idle governors.
    Replay(replay::Args),
    /// Make a workload of a recording; show those that are built in.
    Workload(workload::Args),
    /// Where the time of recorded block requests went.
    Explain(explain::Args),
    /// Make a page of results, with pictures.
    Report(report::Args),
    /// Change power settings of this machine by policy names, so that they can be put back.
    Apply(live::apply::Args),
    /// What is wrong with the power settings of this machine, what it costs, and what fixes it.
    Doctor(live::doctor::Args),
    /// What CPUs and drives do: idle states, latency limits, I/O rates.
    Status(live::status::Args),
    /// What a kernel counted of idle states between two dumps of sysfs.
    Counters(counters::Args),
    /// Measure what this machine's hardware takes; everything is put back afterwards.
    Measure(measure::Args),
    /// Measure this machine into a machine file, and say how far predictions with it are off.
    Calibrate(calibrate::Args),
    /// Put back what `apply` changed.
    Restore(live::restore::Args),
    /// Keep CPUs that handle bursts of I/O from sleeping deeply, and drives at their tables.
    #[cfg(target_os = "linux")]
    Daemon(live::daemon::Args),
    /// Print a completion script for a shell.
    Completions(generate::CompletionsArgs),
    /// Write the man pages into a directory.
    Man(generate::ManArgs),
}

impl Command {
    /// Runs the command that was given; returns the exit code. `cli` describes the whole command line, for man pages,
    /// completions and usage errors.
    pub(crate) fn run_command(self, cli: clap::Command, out: &mut Screen) -> anyhow::Result<u8> {
        let done = match self {
            Self::Policy(args) => policy::run_policy_command(args, out),
            Self::Apst(args) => apst::run_apst_command(args, out),
            Self::Machine(args) => machine::run_machine_command(&args, out),
            Self::Drive(args) => drive::run_drive_command(args, out),
            Self::Sim(args) => sim::simulate_and_print_policies(&args, cli, out),
            Self::Study(args) => study::run_study_command(args, out),
            Self::Tune(args) => tune::search_and_print_best_policy_set(&args, out),
            Self::Fleet(args) => return fleet::survey_and_print_fleet(&args, out),
            Self::Canary(args) => return canary::run_canary_command(args, out),
            Self::Results(args) => results::run_results_command(&args, out),
            Self::Compare(args) => compare::compare_and_print_results(&args, out),
            #[cfg(target_os = "linux")]
            Self::Record(args) => record::record_live_machine(&args, out),
            Self::Reproduce(args) => return reproduce::reproduce_and_print_experiments(&args, out),
            Self::Import(args) => import::import_traces_as_recording(&args, out),
            Self::Replay(args) => replay::replay_and_print_recording(&args, out),
            Self::Workload(args) => workload::run_workload_command(&args, out),
            Self::Explain(args) => explain::run(&args, out),
            Self::Report(args) => report::write_html_report(&args, out),
            Self::Apply(args) => live::apply::plan_apply_or_persist_policy_set(&args, out),
            Self::Doctor(args) => return live::doctor::examine_and_print_findings(&args, out),
            Self::Status(args) => live::status::print_or_watch_status(&args, out),
            Self::Counters(args) => counters::print_counters_between_dumps(&args, out),
            Self::Measure(args) => measure::run(&args, out),
            Self::Calibrate(args) => calibrate::run(&args, out),
            Self::Restore(args) => live::restore::restore_settings_and_end_persistence(&args, out),
            #[cfg(target_os = "linux")]
            Self::Daemon(args) => live::daemon::run_daemon_command(&args, out),
            Self::Completions(args) => {
                generate::write_completions(&args, cli, out);
                Ok(())
            }
            Self::Man(args) => generate::write_man_pages(&args, cli),
        };
        done.map(|()| 0)
    }
}

/// The exit code for an error that ended a command.
pub(crate) fn exit_code_for_error(error: &anyhow::Error) -> u8 {
    #[cfg(target_os = "linux")]
    if let Some(code) = live::daemon::exit_code_for_daemon_error(error) {
        return code;
    }
    let _ = error;
    1
}
