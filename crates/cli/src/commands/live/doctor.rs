//! `wakepath doctor`: findings about a machine, worst first, with cost and remedy.

use wakepath_compare::figure::Unit;
use wakepath_doctor::{DoctorReport, Finding, examine_machine};

use super::RootArgs;
use crate::commands::here;
use crate::output::{self, Format, Screen};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath doctor
  wakepath doctor --root my-machine --format json
  wakepath doctor --machine calibrated.toml
  wakepath doctor --exit-code >/dev/null || echo look at this machine")]
pub(crate) struct Args {
    #[command(flatten)]
    root: RootArgs,
    /// A calibrated machine file, whose measured figures stand in place of declared and assumed ones [default: without --root
    /// the machine `here`, if there is one].
    #[arg(long, value_name = "FILE")]
    machine: Option<String>,
    /// Exit with 3 if there are findings that are more than notes, 0 if there are none; errors still exit with 1 or 2.
    #[arg(long)]
    exit_code: bool,
    /// Leave out findings that weigh less: the larger of the shares of latency and power that one costs, so 0.05 is 5 %.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = parse_share_up_to_one)]
    min_weight: f64,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Exit code for findings under `--exit-code`.
const FOUND: u8 = 3;

/// Prints the findings; returns the exit code.
pub(crate) fn examine_and_print_findings(args: &Args, out: &mut Screen) -> anyhow::Result<u8> {
    let system = args.root.open_system()?;
    let calibration = here::find_calibration(args.machine.as_deref(), &system)?;
    let mut report = examine_machine(
        &system,
        &args.root.root_option_or_empty(),
        calibration.as_ref(),
    )?;
    let all = report.findings.len();
    report.findings.retain(|f| f.weight >= args.min_weight);
    let left_out = all - report.findings.len();
    if left_out > 0 {
        report.notes.push(format!(
            "{left_out} finding(s) weigh less than {} and are left out",
            args.min_weight
        ));
    }
    print_doctor_report(args.format, &report, out)?;
    let found = args.exit_code && report.findings.iter().any(|finding| !finding.note);
    Ok(if found { FOUND } else { 0 })
}

/// Parses a share from 0 to 1.
fn parse_share_up_to_one(text: &str) -> Result<f64, String> {
    let value = text.parse().ok();
    value
        .filter(|value| (0.0..=1.0).contains(value))
        .ok_or_else(|| "expected a share from 0 to 1, such as 0.05".to_owned())
}

fn print_doctor_report(
    format: Format,
    report: &DoctorReport,
    out: &mut Screen,
) -> anyhow::Result<()> {
    match format {
        Format::Json => output::write_json(out, report),
        Format::Csv => {
            let header = [
                "finding",
                "us_per_io",
                "mw",
                "weight",
                "note",
                "title",
                "evidence",
                "computed",
                "fix",
            ];
            output::write_csv(out, header, report.findings.iter().map(finding_csv_cells))
        }
        Format::Table => print_findings_for_people(out, report),
    }
}

fn finding_csv_cells(finding: &Finding) -> [String; 9] {
    let [microseconds, milliwatts] = [finding.costs_us_per_io, finding.costs_mw]
        .map(|cost| cost.map_or_else(String::new, |cost| cost.to_string()));
    [
        finding.name.to_owned(),
        microseconds,
        milliwatts,
        finding.weight.to_string(),
        finding.note.to_string(),
        finding.title.clone(),
        finding.evidence.join("; "),
        finding.computed.clone().unwrap_or_default(),
        finding.fix.clone().unwrap_or_default(),
    ]
}

fn print_findings_for_people(out: &mut Screen, report: &DoctorReport) -> anyhow::Result<()> {
    out.write_folded(&report.machine, 2)?;
    if report.findings.is_empty() {
        writeln!(out, "\nnothing found")?;
    }
    for (i, finding) in report.findings.iter().enumerate() {
        let mark = if finding.note { " (note)" } else { "" };
        writeln!(out)?;
        let heading = format!("{}. {}{mark}: {}", i + 1, finding.name, finding.title);
        out.write_folded(&heading, 3)?;
        for line in &finding.evidence {
            out.write_folded(&format!("   seen   {line}"), 10)?;
        }
        if let Some(effect) = fix_effect_in_words(finding) {
            out.write_folded(&format!("   fixing {effect}"), 10)?;
        }
        if let Some(computed) = &finding.computed {
            out.write_folded(&format!("          ({computed})"), 11)?;
        }
        if let Some(fix) = &finding.fix {
            let line = format!("   fix    {fix}");
            // A command is printed on one line, so that it can be copied.
            if fix.starts_with("wakepath ") {
                writeln!(out, "{line}")?;
            } else {
                out.write_folded(&line, 10)?;
            }
        }
    }
    if !report.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &report.notes {
        out.write_folded(&format!("note: {note}"), 2)?;
    }
    Ok(())
}

/// What the fix changes in latency and power, in words.
fn fix_effect_in_words(finding: &Finding) -> Option<String> {
    let latency = finding
        .costs_us_per_io
        .map(|us| match some_unless_printed_as_zero(us) {
            None => "leaves the latency as it is".to_owned(),
            Some(us) if us > 0.0 => format!("makes each I/O {} faster", format_us_with_unit(us)),
            Some(us) => format!("makes each I/O {} slower", format_us_with_unit(-us)),
        });
    let power = finding
        .costs_mw
        .map(|mw| match some_unless_printed_as_zero(mw) {
            None => "leaves the power as it is".to_owned(),
            Some(mw) if mw > 0.0 => format!("saves {}", format_mw_with_unit(mw)),
            Some(mw) => format!("costs {}", format_mw_with_unit(-mw)),
        });
    let parts: Vec<String> = [latency, power].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

/// The value; `None` if it would be printed as 0.
fn some_unless_printed_as_zero(value: f64) -> Option<f64> {
    (value.abs() >= 0.05).then_some(value)
}

/// A latency with its unit, us.
fn format_us_with_unit(us: f64) -> String {
    if us < 1e3 {
        format!("{us:.1} us")
    } else if us < 1e6 {
        format!("{:.1} ms", us / 1e3)
    } else {
        format!("{:.1} s", us / 1e6)
    }
}

/// A power in mW or W. A captured machine's power figures are assumed.
fn format_mw_with_unit(mw: f64) -> String {
    if mw < 1e4 {
        let digits = usize::from(mw < 10.0);
        format!("{mw:.digits$} mW")
    } else {
        format!(
            "{} W",
            Unit::for_value("mW", mw)
                .for_assumed_power()
                .format_figure(mw, None)
        )
    }
}

#[cfg(test)]
mod tests {
    use wakepath_doctor::Finding;

    use super::fix_effect_in_words;

    fn words(us: Option<f64>, mw: Option<f64>) -> Option<String> {
        fix_effect_in_words(&Finding {
            name: "test",
            title: String::new(),
            evidence: Vec::new(),
            costs_us_per_io: us,
            costs_mw: mw,
            computed: None,
            fix: None,
            set: None,
            weight: 0.0,
            note: false,
        })
    }

    #[test]
    fn what_is_gained_and_what_is_paid_cannot_be_confused() {
        for (us, mw, expected) in [
            (
                -35_750.9,
                356.4,
                "makes each I/O 35.8 ms slower and saves 356 mW",
            ),
            (
                30.5,
                -901.0,
                "makes each I/O 30.5 us faster and costs 901 mW",
            ),
            (12.4, 4.25, "makes each I/O 12.4 us faster and saves 4.2 mW"),
            (
                -2e6,
                -81_200.0,
                "makes each I/O 2.0 s slower and costs 81 W",
            ),
            (
                0.04,
                -0.01,
                "leaves the latency as it is and leaves the power as it is",
            ),
        ] {
            assert_eq!(words(Some(us), Some(mw)).as_deref(), Some(expected));
        }
        assert_eq!(
            words(Some(6.1), None).unwrap(),
            "makes each I/O 6.1 us faster"
        );
        assert_eq!(words(None, Some(12.0)).unwrap(), "saves 12 mW");
        assert_eq!(words(None, None), None);
    }
}
