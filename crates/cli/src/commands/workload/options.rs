//! `wakepath workload options`: fio's options, with what the simulator makes of each.

use clap::ValueEnum;
use serde::Serialize;
use wakepath_workloads::fio::{OptionDescription, OptionSupport, describe_options};

use crate::output::{self, PageFormat, Screen};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath workload options
  wakepath workload options refused
  wakepath workload options sets --format markdown")]
pub(super) struct Args {
    /// Only options with this effect. Default: all.
    #[arg(value_enum)]
    effect: Option<Effect>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: PageFormat,
}

/// What an option does to a simulated job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Effect {
    /// Sets something.
    Sets,
    /// Changes nothing, whatever its value: a warning says why.
    Ignored,
    /// Is taken in some jobs, or with some values, where it changes nothing.
    Depends,
    /// Has no model.
    Refused,
}

impl Effect {
    const ALL: [Self; 4] = [Self::Sets, Self::Ignored, Self::Depends, Self::Refused];

    const fn from_support(support: OptionSupport) -> Self {
        match support {
            OptionSupport::Full => Self::Sets,
            OptionSupport::Depends => Self::Depends,
            OptionSupport::Ignored(_) => Self::Ignored,
            OptionSupport::Refused(_) => Self::Refused,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Sets => "sets",
            Self::Ignored => "ignored",
            Self::Depends => "depends",
            Self::Refused => "refused",
        }
    }

    /// Header of the column with notes, in Markdown.
    const fn note_header(self) -> &'static str {
        match self {
            Self::Sets => "what it does",
            Self::Depends => "accepted",
            Self::Ignored | Self::Refused => "why",
        }
    }
}

/// Options with the same description, as a line of a table. Texts are Markdown.
#[derive(Serialize)]
struct OptionLine {
    names: Vec<&'static str>,
    effect: Effect,
    values: String,
    default: String,
    note: &'static str,
}

impl OptionLine {
    fn from_description(option: &OptionDescription) -> Self {
        Self {
            names: option.names.to_vec(),
            effect: Effect::from_support(option.support),
            values: option.values.to_string(),
            default: option.default.clone(),
            note: option.note,
        }
    }

    fn has_same_description(&self, other: &Self) -> bool {
        self.effect == other.effect
            && self.values == other.values
            && self.default == other.default
            && self.note == other.note
    }

    fn cells(&self) -> [String; 5] {
        [
            self.names.join(", "),
            self.effect.name().to_owned(),
            remove_markdown(&self.values),
            remove_markdown(&self.default),
            remove_markdown(self.note),
        ]
    }
}

pub(super) fn print_fio_options(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    const HEADER: [&str; 5] = ["option", "effect", "values", "default", "note"];
    let mut lines: Vec<OptionLine> = describe_options()
        .map(|option| OptionLine::from_description(&option))
        .collect();
    lines.retain(|line| args.effect.is_none_or(|effect| effect == line.effect));
    match args.format {
        PageFormat::Table => output::write_table(out, HEADER, lines.iter().map(OptionLine::cells)),
        PageFormat::Csv => output::write_csv(out, HEADER, lines.iter().map(OptionLine::cells)),
        PageFormat::Json => output::write_json(out, &lines),
        PageFormat::Markdown => write_markdown_tables(lines, out),
    }
}

/// Writes a table for each effect. Options with the same description share a line.
fn write_markdown_tables(lines: Vec<OptionLine>, out: &mut Screen) -> anyhow::Result<()> {
    let merged = merge_same_descriptions(lines);
    let mut is_first = true;
    for effect in Effect::ALL {
        let lines = merged.iter().filter(|line| line.effect == effect);
        let rows: Vec<String> = lines.map(format_markdown_row).collect();
        if rows.is_empty() {
            continue;
        }
        if !is_first {
            writeln!(out)?;
        }
        is_first = false;
        let header = effect.note_header();
        if effect == Effect::Sets {
            writeln!(out, "| option | values | default | {header} |")?;
            writeln!(out, "|---|---|---|---|")?;
        } else {
            writeln!(out, "| option | {header} |")?;
            writeln!(out, "|---|---|")?;
        }
        for row in rows {
            writeln!(out, "{row}")?;
        }
    }
    Ok(())
}

/// Joins lines with the same description. Lines of options that set something keep their order: only neighbours are joined.
fn merge_same_descriptions(lines: Vec<OptionLine>) -> Vec<OptionLine> {
    let mut merged: Vec<OptionLine> = Vec::new();
    for line in lines {
        let searched_from = match line.effect {
            Effect::Sets => merged.len().saturating_sub(1),
            Effect::Ignored | Effect::Depends | Effect::Refused => 0,
        };
        let same = merged[searched_from..]
            .iter_mut()
            .find(|earlier| earlier.has_same_description(&line));
        match same {
            Some(earlier) => earlier.names.extend(line.names),
            None => merged.push(line),
        }
    }
    merged
}

fn format_markdown_row(line: &OptionLine) -> String {
    let names: Vec<String> = line.names.iter().map(|name| format!("`{name}`")).collect();
    let cells = match line.effect {
        Effect::Sets => vec![
            names.join(", "),
            line.values.clone(),
            line.default.clone(),
            line.note.to_owned(),
        ],
        Effect::Ignored | Effect::Depends | Effect::Refused => {
            vec![names.join(" "), line.note.to_owned()]
        }
    };
    format!("| {} |", cells.join(" | ")).replace("|  |", "| |")
}

/// A text of a Markdown page for a terminal: links keep their words, and code loses its marks.
fn remove_markdown(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((words, target)) = link.split_once("](") else {
            break;
        };
        plain.push_str(before);
        plain.push_str(words);
        rest = target.split_once(')').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    plain.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_shows_words_of_links_and_no_marks() {
        let text = "as [the page](../a.md#b) says of `rw`; see [c](#d)";
        assert_eq!(remove_markdown(text), "as the page says of rw; see c");
        assert_eq!(remove_markdown("a [ alone"), "a [ alone");
    }

    #[test]
    fn options_share_a_line_only_if_described_alike() {
        let all = describe_options().map(|option| OptionLine::from_description(&option));
        let merged = merge_same_descriptions(all.collect());
        let line_of_option = |name: &str| {
            let found = merged.iter().position(|line| line.names.contains(&name));
            found.unwrap_or_else(|| panic!("{name} is lost"))
        };
        assert_eq!(line_of_option("fsync"), line_of_option("fdatasync"));
        assert_eq!(line_of_option("log_entries"), line_of_option("write_iolog"));
        assert_ne!(line_of_option("rwmixread"), line_of_option("rwmixwrite"));
        for option in describe_options() {
            let line = &merged[line_of_option(option.names[0])];
            assert_eq!(line.note, option.note, "{}", option.names[0]);
        }
    }
}
