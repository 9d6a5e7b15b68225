//! The command of a search, for a page.

use wakepath_tune::SearchRequest;
use wakepath_units::printable;

use super::arguments::{Args, DecidedOn};

/// The command that gives the same answer on any computer, quoted for a shell; measured answers differ from run to run.
pub(super) fn compose_command(args: &Args, request: &SearchRequest) -> String {
    let mut words = vec!["wakepath".to_owned(), "tune".to_owned()];
    words.extend(args.loads.iter().cloned());
    let mut push_option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    for (name, value) in [
        ("--machine", &args.machine),
        ("--drive", &args.drive),
        ("--device", &args.device),
        ("--minimise", &args.minimise),
        ("--maximise", &args.maximise),
    ] {
        if let Some(value) = value {
            push_option(name, value.clone());
        }
    }
    for condition in &args.keep {
        push_option("--keep", condition.to_string());
    }
    if !args.over.is_empty() {
        push_option("--over", args.over.join(","));
    }
    if let Some(time) = args.seconds {
        push_option("--seconds", format!("{}us", time.0 as f64 / 1e3));
    }
    if let Some(kernel) = args.kernel {
        push_option("--kernel", kernel.to_string());
    }
    push_option("--budget", request.budget.to_string());
    push_option("--seed", args.seed.to_string());
    if args.measure.on == DecidedOn::Live {
        push_option("--on", "live".to_owned());
        push_option("--measured-sets", args.measure.measured_sets.to_string());
        push_option("--repeats", args.measure.repeats.to_string());
    }
    let quoted = words.iter().map(|word| printable::quote_shell_word(word));
    quoted.collect::<Vec<_>>().join(" ")
}
