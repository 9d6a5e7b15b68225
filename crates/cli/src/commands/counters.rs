//! `wakepath counters`: kernel idle-state counts between two sysfs dumps.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use wakepath_system::dump::{Counted, Dump, StateSum};

use crate::messages::note;
use crate::output::{self, Format, Screen};
use crate::until;

/// What a kernel counted of idle states between two dumps of sysfs.
///
/// A dump is `/sys/devices/system/cpu/cpu*/cpuidle` as a folder, a tar archive (also one of gzip) or text, or the output of
/// `cpupower idle-info`. Text is that of `grep -r .`, `head -v`, or `find` with `cat`, also quoted as in a mail; one text may
/// have both dumps. It needs no root, and neither dump has to be of this machine.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  mkdir before && cp -r --parents /proc/uptime /sys/devices/system/cpu/cpu*/cpuidle before
  wakepath counters before after
  wakepath counters before.tar after.tar --seconds 60s --per-cpu
  wakepath counters before.tar /sys/devices/system/cpu")]
pub(crate) struct Args {
    /// The earlier dump; alone: everything since the start of its machine.
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The later dump.
    #[arg(value_name = "AFTER")]
    after: Option<PathBuf>,
    /// How much time lies between them [default: by /proc/uptime, if the dumps have it].
    #[arg(long, value_name = "TIME", value_parser = until::parse_duration_or_seconds)]
    seconds: Option<Duration>,
    /// Each CPU by itself.
    #[arg(long)]
    per_cpu: bool,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn print_counters_between_dumps(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let seconds = args.seconds.map(|time| time.as_secs_f64());
    let counted = match &args.after {
        Some(after) => {
            Dump::read_single(after)?.counts_since(&Dump::read_single(&args.before)?, seconds)?
        }
        None => match &Dump::read_series(&args.before)?[..] {
            [before, after] => after.counts_since(before, seconds)?,
            dumps => match dumps.last() {
                Some(only) => only.counts_since_boot(seconds),
                None => bail!("{}: no dump", args.before.display()),
            },
        },
    };
    if args.format == Format::Json {
        return output::write_json(out, &counted);
    }
    for note in &counted.notes {
        note!("{note}");
    }
    let rows = rows_per_cpu_or_for_all(&counted, args.per_cpu);
    if args.format == Format::Csv {
        return output::write_csv(out, HEADER, rows);
    }
    let shares = "above and below are shares of the entries, rejected of the attempts";
    let heading = match counted.seconds {
        Some(seconds) => format!(
            "{} over {seconds:.1} s; time is a share of theirs, {shares}",
            output::count_with_noun(counted.cpus as u64, "CPU")
        ),
        None => format!(
            "{} over an unknown time (--seconds says how long); time is a share of the idle time, {shares}",
            output::count_with_noun(counted.cpus as u64, "CPU")
        ),
    };
    out.write_folded(&heading, 2)?;
    writeln!(out)?;
    output::write_table(out, HEADER, rows)
}

const HEADER: [&str; 12] = [
    "cpu",
    "state",
    "time s",
    "time %",
    "entries",
    "entries/s",
    "above",
    "above %",
    "below",
    "below %",
    "rejected",
    "rejected %",
];

fn rows_per_cpu_or_for_all(counted: &Counted, per_cpu: bool) -> Vec<[String; 12]> {
    if !per_cpu {
        return state_rows_with_shares(counted, "all", counted.cpus, &counted.states);
    }
    let each = counted.by_cpu.iter();
    each.flat_map(|(cpu, states)| state_rows_with_shares(counted, &cpu.to_string(), 1, states))
        .collect()
}

fn state_rows_with_shares(
    counted: &Counted,
    name: &str,
    cpus: usize,
    states: &[StateSum],
) -> Vec<[String; 12]> {
    let idle: f64 = states
        .iter()
        .filter_map(|s| s.time_us)
        .map(|us| us as f64)
        .sum();
    let whole = counted.seconds.map_or(idle, |s| s * 1e6 * cpus as f64);
    states
        .iter()
        .map(|state| {
            let entries = state.usage.unwrap_or(0) as f64;
            // The kernel does not count a refused entry as an entry.
            let attempts = state.usage.map_or(0.0, |usage| {
                usage as f64 + state.rejected.unwrap_or(0) as f64
            });
            let rate = state
                .usage
                .zip(counted.seconds)
                .map(|(usage, s)| usage as f64 / s.max(1e-9));
            [
                name.to_owned(),
                state.state.clone(),
                state
                    .time_us
                    .map_or_else(dash_for_no_value, |us| format!("{:.3}", us as f64 / 1e6)),
                percent_or_dash(state.time_us, whole),
                count_or_dash(state.usage),
                rate.map_or_else(dash_for_no_value, |rate| format!("{rate:.1}")),
                count_or_dash(state.above),
                percent_or_dash(state.above, entries),
                count_or_dash(state.below),
                percent_or_dash(state.below, entries),
                count_or_dash(state.rejected),
                percent_or_dash(state.rejected, attempts),
            ]
        })
        .collect()
}

fn count_or_dash(count: Option<u64>) -> String {
    count.map_or_else(dash_for_no_value, |count| count.to_string())
}

fn percent_or_dash(count: Option<u64>, whole: f64) -> String {
    let part = count.filter(|_| whole > 0.0);
    part.map_or_else(dash_for_no_value, |part| {
        format_percent_of_whole(part as f64, whole)
    })
}

fn format_percent_of_whole(part: f64, whole: f64) -> String {
    format!("{:.2}", 100.0 * part / whole)
}

fn dash_for_no_value() -> String {
    "-".to_owned()
}
