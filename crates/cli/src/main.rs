//! The `wakepath` command line.
//!
//! Exit codes: 0 done; 1 the input or the machine is at fault; 2 the call itself is; 128 and the number of a signal
//! that ended it. The daemon also exits with 78: its configuration is wrong, or asks for nothing that can be done
//! here. `doctor --exit-code` exits with 3 if it has findings. `canary judge --exit-code` exits with 3 to take a change
//! back, and with 4 to stop. `fleet` exits with 1 if it was given loads and no class has a decision. `reproduce --exit-code` exits with 3 if something expected is not met.

mod bars;
mod commands;
mod input;
mod messages;
mod new_file;
mod output;
mod policy_set;
mod until;
mod waiting;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser};
use output::Screen;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;
use wakepath_units::causes::with_causes;
use wakepath_units::printable;

/// What saving power costs your I/O, which mechanism costs it, and which setting is best here.
#[derive(Parser)]
#[command(
    name = "wakepath",
    version,
    about,
    max_term_width = 100,
    propagate_version = true
)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let cli = match parse_command_line() {
        Ok(cli) => cli,
        Err(error) => return print_help_or_usage_error(&error),
    };
    raise_open_files_limit();
    survive_limit_of_file_size();
    let mut out = Screen::for_stdout();
    let result = cli
        .command
        .run_command(Cli::command(), &mut out)
        .and_then(|code| {
            output::print_result(&mut out).context("standard output")?;
            Ok((code, ()))
        });
    match result {
        Ok(_) if waiting::is_cancelled() => {
            ExitCode::from(waiting::exit_code_for_cancelling_signal())
        }
        Ok((code, ())) => ExitCode::from(code),
        Err(error) => {
            let text = with_causes(error.as_ref());
            if !waiting::is_cancelled() {
                messages::print_remarks_before_error(&text);
            }
            messages::print_error_without_held_messages(&text);
            ExitCode::from(if waiting::is_cancelled() {
                waiting::exit_code_for_cancelling_signal()
            } else {
                commands::exit_code_for_error(&error)
            })
        }
    }
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) an error like that of a full disk; the signal for it would end the
/// program without a word. Programs that are started have the signal as usual.
fn survive_limit_of_file_size() {
    // Without the handler the signal ends the program, as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Parses the command line. A negative number behind an option is the option's value, which the option's own parser refuses
/// with what it expects; clap alone takes the number for an unknown option.
fn parse_command_line() -> Result<Cli, clap::Error> {
    let mut command = take_negative_numbers_as_values(Cli::command());
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

fn take_negative_numbers_as_values(command: clap::Command) -> clap::Command {
    let with_own_options = command.mut_args(|arg: Arg| {
        let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        if takes_value && !arg.is_positional() {
            arg.allow_negative_numbers(true)
        } else {
            arg
        }
    });
    with_own_options.mut_subcommands(take_negative_numbers_as_values)
}

/// Raises the limit on open files: governor programs and recordings need more than the usual soft limit, meant for programs
/// unable to count beyond 1024. A refusal is ignored.
fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    _ = setrlimit(Resource::Nofile, raised);
}

/// Prints help or a usage error, without colours if any argument has terminal controls.
fn print_help_or_usage_error(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    // clap's text has lost control sequences, so the arguments are examined themselves.
    let mut arguments = std::env::args_os();
    let hostile = arguments.any(|word| word.to_string_lossy().contains(printable::is_hidden))
        || text.contains(|c| c != '\n' && printable::is_hidden(c));
    if error.use_stderr() && hostile {
        messages::print_usage_lines(&text);
    } else {
        // If nobody reads standard error, printing help is no use.
        _ = error.print();
    }
    ExitCode::from(error.exit_code() as u8)
}
