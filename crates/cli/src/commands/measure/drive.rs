//! `wakepath measure drive`: service times, parallel units, flush and sleep of a drive.

use std::path::PathBuf;
use std::time::Duration;

use wakepath_measure::drive::{
    DriveMeasurement, DrivePlan, GapLatency, InterruptView, LoadShape, ServiceTime, ShortRest,
    SleepEntry, TestTarget, measure,
};
use wakepath_measure::summary::LatencySummary;
use wakepath_report::html::measurements::{
    MeasuredCurve, MeasuredInterval, MeasuredPicture, MeasuredSection,
};
use wakepath_system::System;
use wakepath_units::Nanoseconds;

use super::experiment::{OutputArgs, PlanReport, choose_size, parse_mebibytes, print_notes};
use super::page::{PageArgs, describe_conditions, interval_us, page_head, page_rows};
use crate::new_file::parent_folder;
use crate::output::{self, Format, Screen};
use crate::until;

#[derive(clap::Args)]
#[command(
    group = clap::ArgGroup::new("target").required(true),
    after_help = "Examples:
  sudo wakepath measure drive --file /var/lib/data.img --time 30s
  sudo wakepath measure drive --write-to /var/tmp/wakepath.test --dry-run
  sudo wakepath measure drive --write-to /var/tmp/wakepath.test -o measured.toml"
)]
pub(super) struct Args {
    /// A file that is there, or a drive's device: it is read, and nothing is written. Refused where more than a tenth of
    /// sampled blocks are zeros.
    #[arg(long, value_name = "FILE", group = "target")]
    file: Option<PathBuf>,
    /// A new file, for writes and reads; removed at the end.
    #[arg(long, value_name = "FILE", group = "target")]
    write_to: Option<PathBuf>,
    /// Size of the new file: 256m, 4g; larger than the drive's cache is best [default: a sixteenth of the free space, 1 to 2
    /// GiB, at most half of what is free].
    #[arg(long, value_name = "SIZE", value_parser = parse_mebibytes)]
    size: Option<u64>,
    /// How long to measure [default: about 58 s for reads, 84 s for both].
    #[arg(long, value_name = "TIME", value_parser = until::parse_duration_or_seconds)]
    time: Option<Duration>,
    /// Say what would be done and how long that takes, and do nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    page: PageArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Args {
    /// The file to read, or the new file with its size. Where the size was chosen, a sentence says how.
    fn target(&self) -> anyhow::Result<(TestTarget, Option<String>)> {
        if let Some(file) = &self.file {
            return Ok((TestTarget::Read(file.clone()), None));
        }
        let path = self.write_to.clone().unwrap_or_default();
        let (bytes, reason) = choose_size(self.size, parent_folder(&path), 1)?;
        Ok((TestTarget::Write { path, bytes }, reason))
    }
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let (target, size_reason) = args.target()?;
    target.check()?;
    args.output.check_output_may_be_written()?;
    args.page.check()?;
    let system = System::live();
    let plan = DrivePlan::with_and_without_apst(&system, target, args.time);
    let mut does = plan.describe();
    does.extend(size_reason);
    let report = PlanReport::new(plan.steps(), plan.duration(), does)
        .with_bytes_written(plan.fill_bytes(), plan.most_bytes_written());
    if args.dry_run {
        return report.print_plan(args.format, out);
    }
    let fill = if plan.fill_bytes() > 0 {
        ", and the time to fill the file"
    } else {
        ""
    };
    let result = report.announce_and_measure(fill, |control| measure(&system, &plan, control))?;
    print_notes(&result.notes);
    match args.format {
        Format::Json => output::write_json(out, &result),
        Format::Csv => {
            let all = rows_by_request_kind(&result)
                .into_iter()
                .chain(sleep_state_rows(&result));
            output::write_csv(out, HEADER, all)
        }
        Format::Table => print_tables(&result, out),
    }?;
    // Figures are printed even if the file for them cannot be written any more.
    output::print_result(out)?;
    args.output.write_figures(&result.to_toml())?;
    args.page.write(
        &format!("Drive of {}", result.file),
        facts(&result),
        &result.notes,
        || sections(&result),
    )
}

/// Conditions of the experiment, and what lies between file and drive.
pub(in crate::commands) fn facts(result: &DriveMeasurement) -> Vec<String> {
    let mut facts = describe_conditions(&result.conditions);
    facts.extend(result.storage.describe());
    facts
}

/// Service times and quantiles by size and depth, throughput, and the curve of sleep.
pub(in crate::commands) fn sections(result: &DriveMeasurement) -> Vec<MeasuredSection> {
    let service = result.service.iter().map(service_interval);
    let synced = [
        ("flush", &result.flush),
        ("forced write", &result.forced_write),
    ];
    let synced_lines = synced
        .into_iter()
        .filter_map(|(name, latency)| Some(interval_us(name.to_owned(), latency.as_ref()?.mean)));
    let throughput = result.service.iter().map(|service| MeasuredInterval {
        name: name_shape(service.shape),
        value: service.iops,
        low: service.iops,
        high: service.iops,
        reference: None,
    });
    let mut sections = vec![
        MeasuredSection {
            title: "Latency of the drive, mean in us".to_owned(),
            note: "As a program sees it, with the 95 % interval. The upright line is the block layer's mean of the same requests, without \
                   the CPU's work."
                .to_owned(),
            picture: Some(MeasuredPicture::Intervals(service.chain(synced_lines).collect())),
            head: page_head(HEADER),
            rows: page_rows(
                rows_by_request_kind(result)
                    .into_iter()
                    .chain(sleep_state_rows(result)),
            ),
        },
        MeasuredSection {
            title: "Quantiles of the latency, us".to_owned(),
            note: "4 KiB requests: shortest (at 1), 10th, 50th, 90th and 99th percentile.".to_owned(),
            picture: Some(MeasuredPicture::Curves {
                x_title: "percentile".to_owned(),
                curves: quantile_curves(result),
            }),
            ..MeasuredSection::default()
        },
        MeasuredSection {
            title: "Requests per second".to_owned(),
            picture: Some(MeasuredPicture::Intervals(throughput.collect())),
            ..MeasuredSection::default()
        },
    ];
    if !result.sleep.gaps.is_empty() {
        sections.push(sleep_section(result));
    }
    sections
}

fn service_interval(service: &ServiceTime) -> MeasuredInterval {
    MeasuredInterval {
        reference: service.block_layer.mean.map(|mean| mean.0 as f64 / 1e3),
        ..interval_us(name_shape(service.shape), service.latency.mean)
    }
}

fn name_shape(shape: LoadShape) -> String {
    format!(
        "{} {} {} KiB, depth {}",
        shape.order.name(),
        shape.direction.name(),
        shape.kib,
        shape.depth
    )
}

/// Quantiles of 4 KiB requests, a curve for each direction and depth.
fn quantile_curves(result: &DriveMeasurement) -> Vec<MeasuredCurve> {
    let small = result
        .service
        .iter()
        .filter(|service| service.shape.kib == 4);
    let curves = small.map(|service| {
        let latency = &service.latency;
        let quantiles = [
            (1.0, latency.min),
            (10.0, latency.p10),
            (50.0, Nanoseconds(latency.median.ns as u64)),
            (90.0, latency.p90),
            (99.0, latency.p99),
        ];
        MeasuredCurve {
            name: name_shape(service.shape),
            points: quantiles
                .map(|(percentile, latency)| [percentile, latency.0 as f64 / 1e3])
                .to_vec(),
        }
    });
    curves.collect()
}

/// Latency of reads by the pause before them, with the sleep that was found and what the drive declares.
fn sleep_section(result: &DriveMeasurement) -> MeasuredSection {
    let median: fn(&LatencySummary) -> f64 = |latency| latency.median.ns;
    let mut curves = vec![
        sleep_curve("median", &result.sleep.gaps, median),
        sleep_curve("90th percentile", &result.sleep.gaps, |latency| {
            latency.p90.0 as f64
        }),
    ];
    let short = result.short_pauses.iter();
    curves.extend(short.map(|short| sleep_curve("median, CPUs awake", &short.gaps, median)));
    let without_apst = result.sleep_without_apst.iter();
    curves.extend(without_apst.map(|sleep| sleep_curve("median, APST off", &sleep.gaps, median)));
    MeasuredSection {
        title: "Sleep of the drive: latency of a read in us by the pause before it".to_owned(),
        note: sleep_in_sentences(result).join(". "),
        picture: Some(MeasuredPicture::Curves {
            x_title: "pause, ms".to_owned(),
            curves,
        }),
        ..MeasuredSection::default()
    }
}

/// A latency of reads by the pause before them.
fn sleep_curve(
    name: &str,
    pauses: &[GapLatency],
    latency: impl Fn(&LatencySummary) -> f64,
) -> MeasuredCurve {
    let rows = pauses.iter();
    MeasuredCurve {
        name: name.to_owned(),
        points: rows
            .map(|row| [row.gap.0 as f64 / 1e6, latency(&row.latency) / 1e3])
            .collect(),
    }
}

const HEADER: [&str; 12] = [
    "what", "KiB", "depth", "n", "mean us", "from", "to", "median", "p99", "drive us", "IOPS",
    "MB/s",
];

/// A table row for each kind of request; times in microseconds.
fn rows_by_request_kind(result: &DriveMeasurement) -> Vec<[String; 12]> {
    let service = result.service.iter().map(|s| {
        let (order, direction) = (s.shape.order.name(), s.shape.direction.name());
        let mut row = latency_row(format!("{order} {direction}"), &s.latency);
        row[1] = s.shape.kib.to_string();
        row[2] = s.shape.depth.to_string();
        row[9] = s
            .block_layer
            .mean
            .map_or_else(String::new, |ns| format_us(ns.0 as f64));
        row[10] = format!("{:.0}", s.iops);
        row[11] = format!("{:.1}", s.mb_per_s);
        row
    });
    let synced = [
        ("flush", &result.flush),
        ("forced write", &result.forced_write),
    ];
    let synced = synced
        .into_iter()
        .filter_map(|(what, latency)| Some(latency_row(what.to_owned(), latency.as_ref()?)));
    let short = result.short_pauses.iter();
    let short = short.flat_map(|short| sleep_rows(&short.gaps, ", CPUs awake"));
    let pauses = sleep_rows(&result.sleep.gaps, "");
    let without_apst = result.sleep_without_apst.iter();
    let without_apst = without_apst.flat_map(|sleep| sleep_rows(&sleep.gaps, ", APST off"));
    let watched = result.service.iter().flat_map(|service| {
        let direction = service.shape.direction.name();
        let view = service.interrupt.iter();
        view.flat_map(move |view| interrupt_rows(direction, view))
    });
    service
        .chain(watched)
        .chain(synced)
        .chain(short)
        .chain(pauses)
        .chain(without_apst)
        .collect()
}

/// A table row for each pause before reads.
fn sleep_rows(pauses: &[GapLatency], condition: &str) -> impl Iterator<Item = [String; 12]> {
    let pauses = pauses.iter();
    pauses.map(move |row| latency_row(format!("read after {}{condition}", row.gap), &row.latency))
}

/// The time until the interrupt of 4 KiB requests at depth 1, and what the interrupt takes.
fn interrupt_rows(direction: &str, view: &InterruptView) -> [[String; 12]; 2] {
    let mut until = empty_row(format!("{direction}, until its interrupt"), view.n);
    let mean = view.service;
    for (column, ns) in [(4, mean.ns), (5, mean.low), (6, mean.high)] {
        until[column] = format_us(ns);
    }
    let mut interruption = empty_row(format!("interrupt of a {direction}"), view.n);
    interruption[7] = format_us(view.interruption.ns);
    [until, interruption]
}

/// A row of 4 KiB requests at depth 1 without times.
fn empty_row(what: String, n: u64) -> [String; 12] {
    let mut row = <[String; 12]>::default();
    (row[0], row[1], row[2], row[3]) = (what, "4".to_owned(), "1".to_owned(), n.to_string());
    row
}

/// Table rows for sleep states as seen from outside: the exit latency, a difference of medians, with its own interval.
fn sleep_state_rows(result: &DriveMeasurement) -> Vec<[String; 12]> {
    let entries = result.sleep_entries.iter();
    let rows = entries.map(|entry| {
        let mut row: [String; 12] = std::array::from_fn(|_| String::new());
        row[0] = format!(
            "waking from sleep after {} to {}",
            entry.awake_after, entry.asleep_after
        );
        row[5] = format_us(entry.exit.low);
        row[6] = format_us(entry.exit.high);
        row[7] = format_us(entry.exit.ns);
        row
    });
    rows.collect()
}

/// A table row for single 4 KiB requests.
fn latency_row(what: String, latency: &LatencySummary) -> [String; 12] {
    let mean = latency.mean;
    [
        what,
        "4".to_owned(),
        "1".to_owned(),
        latency.n.to_string(),
        format_us(mean.ns),
        format_us(mean.low),
        format_us(mean.high),
        format_us(latency.median.ns),
        format_us(latency.p99.0 as f64),
        String::new(),
        String::new(),
        String::new(),
    ]
}

/// Nanoseconds as microseconds.
fn format_us(ns: f64) -> String {
    format!("{:.1}", ns / 1e3)
}

fn print_tables(result: &DriveMeasurement, out: &mut Screen) -> anyhow::Result<()> {
    let device = result.device.as_ref().map_or_else(String::new, |device| {
        let model = device.model.as_deref().unwrap_or("model not known");
        format!(", on {} ({model})", device.disk)
    });
    let storage = result.storage.describe();
    let storage = storage.map_or_else(String::new, |storage| format!(", {storage}"));
    out.write_folded(
        &format!(
            "{}{device}{storage}: {} MiB, {}, Linux {}",
            result.file,
            result.bytes >> 20,
            result.conditions.date,
            result.conditions.kernel
        ),
        2,
    )?;
    output::write_table(out, HEADER, rows_by_request_kind(result))?;
    writeln!(out)?;
    for line in figures_in_sentences(result) {
        out.write_folded(&line, 2)?;
    }
    Ok(())
}

/// Sentences on what the measured figures mean.
fn figures_in_sentences(result: &DriveMeasurement) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(units) = result.parallel_units {
        let least = if units.at_least { "at least " } else { "" };
        lines.push(format!(
            "side by side: {least}{:.1} requests (throughput at depth {} times service time at depth 1)",
            units.units, units.depth
        ));
    }
    lines.extend(sleep_in_sentences(result));
    lines
}

/// Sentences on the drive's sleep: what was seen after pauses, and what the drive declares.
fn sleep_in_sentences(result: &DriveMeasurement) -> Vec<String> {
    let short = result.short_pauses.iter().flat_map(|short| &short.rests);
    let mut lines: Vec<String> = short.map(short_rest_in_words).collect();
    let longest = result
        .sleep
        .gaps
        .last()
        .map_or(Nanoseconds::ZERO, |row| row.gap);
    let entries = &result.sleep_entries;
    if entries.is_empty() && longest > Nanoseconds::ZERO {
        lines.push(format!("sleep: none seen after pauses of up to {longest}"));
    }
    for declared in &result.declared_sleep {
        lines.push(format!(
            "declared: PS{} after {}; entering takes {}, waking {}",
            declared.state, declared.after, declared.entry, declared.exit
        ));
    }
    lines.extend(
        entries
            .iter()
            .map(|entry| format!("sleep: {}", entry_in_words(entry))),
    );
    lines.extend(sleep_without_apst_in_sentences(result));
    lines
}

/// A sentence on a rest that begins within milliseconds.
fn short_rest_in_words(rest: &ShortRest) -> String {
    format!(
        "rest: after {} to {} of pause reads take {} us longer ({} to {}), whatever the CPUs do: the drive rests, or a host before it",
        rest.awake_after,
        rest.asleep_after,
        format_us(rest.delay.ns),
        format_us(rest.delay.low),
        format_us(rest.delay.high)
    )
}

/// Sentences on what is left of the drive's sleep with APST off; none where that was not measured.
fn sleep_without_apst_in_sentences(result: &DriveMeasurement) -> Vec<String> {
    let sleep = result.sleep_without_apst.as_ref();
    let Some(longest) = sleep.and_then(|sleep| sleep.gaps.last()) else {
        return Vec::new();
    };
    let entries = &result.sleep_entries_without_apst;
    if entries.is_empty() {
        let gap = longest.gap;
        let cause = if result.sleep_entries.is_empty() {
            ""
        } else {
            "; the drive's sleep is from APST"
        };
        return vec![format!(
            "APST off: no sleep seen after pauses of up to {gap}{cause}"
        )];
    }
    let words = entries.iter();
    words
        .map(|entry| format!("APST off: sleep all the same, {}", entry_in_words(entry)))
        .collect()
}

/// When a sleep begins, and what waking takes.
fn entry_in_words(entry: &SleepEntry) -> String {
    format!(
        "after {} to {}; waking takes {} us ({} to {})",
        entry.awake_after,
        entry.asleep_after,
        format_us(entry.exit.ns),
        format_us(entry.exit.low),
        format_us(entry.exit.high)
    )
}
