//! `wakepath workload show`: a built-in workload's description, figures with origins, distance from a real program, and commands.

use std::path::PathBuf;

use anyhow::Context;

use super::builtin::{BuiltinWorkload, CallsFrom, CallsPerRequest, load_by_name};
use crate::new_file;
use crate::output::{self, PageFormat, Screen};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath workload show postgres-commit
  wakepath workload show postgres-commit -o mine.toml
  wakepath workload show office-day-assumed --format json")]
pub(super) struct Args {
    /// Name of a built-in workload, with or without its ending; `wakepath workload list` has all.
    name: String,
    /// File to write the workload to, so that it can be simulated, tuned and changed.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long, requires = "output")]
    force: bool,
    /// What to print.
    #[arg(long, value_enum, default_value_t, conflicts_with = "output")]
    format: PageFormat,
}

const FIGURE_HEADER: [&str; 4] = ["key", "value", "origin", "which"];
const CALL_HEADER: [&str; 7] = [
    "calls",
    "clients",
    "reads",
    "bytes read",
    "writes",
    "bytes written",
    "flushes",
];

pub(super) fn show_builtin_workload(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let workload = load_by_name(&args.name)?;
    if let Some(path) = &args.output {
        new_file::check_output_may_be_written(path, args.force)
            .and_then(|()| {
                new_file::write_whole_file(path, args.force, |mut file| {
                    use std::io::Write as _;
                    Ok(file.write_all(workload.text.as_bytes())?)
                })
            })
            .with_context(|| path.display().to_string())?;
        writeln!(out, "{}: {}", path.display(), workload.title)?;
        return Ok(());
    }
    match args.format {
        PageFormat::Table => write_for_people(&workload, out),
        PageFormat::Json => output::write_json(out, &workload),
        PageFormat::Csv => output::write_csv(out, FIGURE_HEADER, figure_rows(&workload)),
        PageFormat::Markdown => write_page(&workload, out),
    }
}

fn write_for_people(workload: &BuiltinWorkload, out: &mut Screen) -> anyhow::Result<()> {
    if workload.recipe.is_some() {
        out.write_folded(&format!("{}: {}", workload.name, workload.title), 0)?;
    } else {
        writeln!(out, "{}", workload.name)?;
    }
    out.write_folded(&workload.description, 0)?;
    if !workload.figures.is_empty() {
        writeln!(out)?;
        output::write_table(out, FIGURE_HEADER, figure_rows(workload))?;
    }
    if !workload.calls.is_empty() {
        writeln!(out)?;
        out.write_folded(&title_of_calls(workload), 0)?;
        output::write_table(out, CALL_HEADER, call_rows(workload))?;
    }
    if let Some(recipe) = workload.recipe {
        writeln!(out, "\nWhat to look at:")?;
        out.write_folded(recipe.look, 0)?;
        writeln!(out, "\nCommands:")?;
        let file = format!("my-{}", workload.name);
        writeln!(out, "  wakepath workload show {} -o {file}", recipe.name())?;
        for command in commands(workload, &file) {
            writeln!(out, "  {command}")?;
        }
    } else if workload.figures.is_empty() {
        writeln!(out)?;
        for line in workload.text.lines() {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Writes a documentation page, with links from `docs/reference/recipes`.
fn write_page(workload: &BuiltinWorkload, out: &mut Screen) -> anyhow::Result<()> {
    write_heading("#", &workload.title, out)?;
    writeln!(out, "{}", workload.description)?;
    writeln!(out)?;
    let article = if workload.kind.starts_with('r') {
        "an"
    } else {
        "a"
    };
    writeln!(
        out,
        "File: [`{name}`](../../../workloads/{name}), {article} {kind}.",
        name = workload.name,
        kind = workload.kind,
    )?;
    if let Some(recipe) = workload.recipe {
        let noun = match workload.kind {
            "rt-app file" => "operation",
            _ => "request",
        };
        writeln!(out, "Each {noun} is {}.", recipe.operation)?;
    }
    writeln!(out)?;
    if workload.figures.is_empty() {
        write_heading("##", "The file", out)?;
        writeln!(out, "```")?;
        for line in workload.text.lines() {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "```")?;
    } else {
        write_heading("##", "Figures", out)?;
        output::write_markdown_table(out, FIGURE_HEADER, figure_rows(workload))?;
    }
    if !workload.calls.is_empty() {
        writeln!(out)?;
        write_heading("##", "Calls to the disk", out)?;
        writeln!(out, "{}", title_of_calls(workload))?;
        writeln!(out)?;
        output::write_markdown_table(out, CALL_HEADER, call_rows(workload))?;
    }
    if let Some(recipe) = workload.recipe {
        writeln!(out)?;
        write_heading("##", "What to look at", out)?;
        writeln!(out, "{}", recipe.look)?;
        writeln!(out)?;
        write_heading("##", "Commands", out)?;
        writeln!(out, "```sh")?;
        for command in commands(workload, &format!("workloads/{}", workload.name)) {
            writeln!(out, "{command}")?;
        }
        writeln!(out, "```")?;
    }
    Ok(())
}

fn write_heading(marks: &str, text: &str, out: &mut Screen) -> anyhow::Result<()> {
    writeln!(out, "{marks} {text}")?;
    writeln!(out)?;
    Ok(())
}

fn figure_rows(workload: &BuiltinWorkload) -> Vec<[String; 4]> {
    let rows = workload.figures.iter().map(|figure| {
        [
            figure.key.to_owned(),
            figure.value.to_string(),
            figure.origin.to_owned(),
            figure.reason.clone(),
        ]
    });
    rows.collect()
}

/// Explains the table with calls.
fn title_of_calls(workload: &BuiltinWorkload) -> String {
    match &workload.program {
        Some(program) => format!(
            "Calls for a request, on average: counted by scripts/recipes.py beside {program}, and simulated on two CPUs and a drive with the \
             counted times of a write and a flush. A test holds them within 10 %; less than the file system's own commits is not compared."
        ),
        None => "Calls for a request, on average, simulated. No real program was set beside them."
            .to_owned(),
    }
}

/// Rows with counted calls, simulated calls and differences, by clients.
fn call_rows(workload: &BuiltinWorkload) -> Vec<[String; 7]> {
    let mut rows = Vec::new();
    let simulated = workload
        .calls
        .iter()
        .filter(|calls| calls.from == CallsFrom::Simulated);
    for calls in simulated {
        let counted = workload
            .calls
            .iter()
            .find(|other| other.from == CallsFrom::Counted && other.clients == calls.clients);
        if let Some(counted) = counted {
            rows.push(call_row("counted", counted));
        }
        rows.push(call_row("simulated", calls));
        if let Some(counted) = counted {
            rows.push(difference_row(counted, calls));
        }
    }
    rows
}

fn call_row(title: &str, calls: &CallsPerRequest) -> [String; 7] {
    let [reads, read_bytes, writes, written_bytes, flushes] = calls.figures.in_order();
    [
        title.to_owned(),
        clients_or_empty(calls),
        format_count(reads),
        format!("{read_bytes:.0}"),
        format_count(writes),
        format!("{written_bytes:.0}"),
        format_count(flushes),
    ]
}

fn difference_row(counted: &CallsPerRequest, simulated: &CallsPerRequest) -> [String; 7] {
    let [reads, read_bytes, writes, written_bytes, flushes] = counted.figures.in_order();
    let beside = simulated.figures;
    [
        "difference".to_owned(),
        clients_or_empty(counted),
        format_difference(reads, beside.reads),
        format_difference(read_bytes, beside.read_bytes),
        format_difference(writes, beside.writes),
        format_difference(written_bytes, beside.written_bytes),
        format_difference(flushes, beside.flushes),
    ]
}

fn clients_or_empty(calls: &CallsPerRequest) -> String {
    calls.clients.map_or_else(String::new, |n| n.to_string())
}

/// Calls for a request, with three significant digits.
fn format_count(count: f64) -> String {
    if count >= 0.1 || count == 0.0 {
        format!("{count:.3}")
    } else {
        format!("{count:.5}")
    }
}

/// Difference between a simulated and a counted figure in percent; empty without any calls.
fn format_difference(counted: f64, simulated: f64) -> String {
    if counted <= 0.0 || simulated <= 0.0 {
        return String::new();
    }
    format!("{:+.1} %", (simulated / counted - 1.0) * 100.0)
}

/// Commands for a recipe in `file`.
fn commands(workload: &BuiltinWorkload, file: &str) -> Vec<String> {
    let Some(recipe) = workload.recipe else {
        return Vec::new();
    };
    let clients = if workload.has_clients {
        " --set clients=4"
    } else {
        ""
    };
    let keep = match workload.kind {
        "rt-app file" => "ops_per_s >= -2%",
        "fio job" => "sync_p99_us <= +5%",
        _ => "p99_us <= +5%",
    };
    let machine = recipe.machine;
    vec![
        format!(
            "wakepath sim {file} --machine {machine}{clients} --policy menu --policy 'menu + cpu-latency[limit=20us]' --policy 'menu + psd'"
        ),
        format!("wakepath tune {file} --machine {machine} --minimise mean_mw --keep '{keep}'"),
        format!("wakepath study run {}", recipe.study),
        format!(
            "wakepath compare {0}-sim --workload \"{1}\"",
            recipe.study, recipe.cell
        ),
    ]
}
