//! How a command prints: a table for people, JSON and CSV for programs.
//!
//! Everything that goes to standard output is collected in a [`Screen`], which lets no escape sequence and no line end of a
//! stranger's text through.

mod fold;
mod table;

use std::fmt;
use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use console::Term;
use serde::Serialize;
use wakepath_units::printable;

use crate::messages;

/// What to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Columns for people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// Comma-separated values with a header line.
    Csv,
}

/// What to print where the tables may go into a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageFormat {
    /// Columns for people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// Comma-separated values with a header line.
    Csv,
    /// Tables for a page.
    Markdown,
}

/// Columns if unknown.
const COLUMNS: usize = 100;

/// Fewest plausible columns.
const FEWEST_COLUMNS: usize = 40;

/// What a command writes to standard output. It is collected first: a command that fails half-way prints its error and
/// nothing else.
///
/// `writeln!` writes a line. What a terminal would obey is shown instead, and so is a line end in the middle: it came with a
/// stranger's text, and could fake a line. Line ends at the beginning make blank lines.
#[derive(Debug)]
pub(crate) struct Screen {
    bytes: Vec<u8>,
    columns: usize,
}

impl Screen {
    /// As wide as `COLUMNS` says, else as the terminal is, else 100 columns.
    pub(crate) fn for_stdout() -> Self {
        let said = std::env::var("COLUMNS")
            .ok()
            .and_then(|text| text.trim().parse().ok());
        let columns = said.filter(|columns| *columns > 0).or_else(|| {
            io::stdout()
                .is_terminal()
                .then(|| usize::from(Term::stdout().size().1))
        });
        Self::with_columns(columns.unwrap_or(COLUMNS).max(FEWEST_COLUMNS))
    }

    /// A screen with a given number of columns.
    pub(crate) const fn with_columns(columns: usize) -> Self {
        Self {
            bytes: Vec::new(),
            columns,
        }
    }

    /// Writes formatted text, for `write!` and `writeln!`: control characters and inner line ends are shown escaped.
    #[expect(clippy::unnecessary_wraps, reason = "`write!` expects a result")]
    pub(crate) fn write_fmt(&mut self, text: fmt::Arguments<'_>) -> io::Result<()> {
        let text = text.to_string();
        let content = text.trim_matches('\n');
        let start = text.len() - text.trim_start_matches('\n').len();
        let (before, rest) = text.split_at(start);
        self.bytes.extend_from_slice(before.as_bytes());
        self.bytes
            .extend_from_slice(printable::escape_for_one_line(content).as_bytes());
        self.bytes
            .extend_from_slice(&rest.as_bytes()[content.len()..]);
        Ok(())
    }

    /// Writes a text folded to the screen's width; continued lines have an indent.
    pub(crate) fn write_folded(&mut self, text: &str, indent: usize) -> io::Result<()> {
        let line = printable::escape_for_one_line(text);
        for line in fold::fold_with_indent(&line, self.columns, indent) {
            writeln!(self, "{line}")?;
        }
        Ok(())
    }

    /// Writes lines that have their own line ends; other control characters are shown escaped.
    pub(crate) fn write_lines_unfolded(&mut self, text: &str) {
        self.bytes
            .extend_from_slice(printable::escape_except_line_ends(text).as_bytes());
    }

    /// Writes a line of a coloured drawing, unchanged: names in the line went through [`printable::escape_for_one_line`] before.
    pub(crate) fn write_line_unescaped(&mut self, line: &str) {
        self.bytes.extend_from_slice(line.as_bytes());
        self.bytes.push(b'\n');
    }

    /// The screen's bytes, for output that programs read.
    pub(crate) const fn raw_bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Prints the collected content to standard output, and empties the screen.
    pub(crate) fn print(&mut self) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&self.bytes)?;
        self.bytes.clear();
        stdout.flush()
    }
}

/// Prints notes that were held, then the screen. A closed pipe counts as success, as the reader has seen enough. Commands print
/// before they write files, which may fail: figures that were measured are not lost with a full disk.
pub(crate) fn print_result(out: &mut Screen) -> io::Result<()> {
    messages::print_held_messages();
    match out.print() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed,
    }
}

/// Clears the terminal that standard output goes to.
pub(crate) fn clear_screen() -> io::Result<()> {
    console::Term::stdout().clear_screen()
}

/// A count with its noun, in the plural unless 1: `1 run`, `2 runs`.
pub(crate) fn count_with_noun(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// Writes `value` as indented JSON with a final line end.
pub(crate) fn write_json(out: &mut Screen, value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    out.raw_bytes()
        .extend(printable::escape_hidden_in_json(&text).as_bytes());
    Ok(writeln!(out)?)
}

/// Writes `value` as JSON in a line.
pub(crate) fn write_json_line(out: &mut Screen, value: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(value)?;
    out.raw_bytes()
        .extend(printable::escape_hidden_in_json(&text).as_bytes());
    Ok(writeln!(out)?)
}

/// Writes rows under a header as a table for people, numbers to the right, folded to the screen's width.
pub(crate) fn write_table<H: ToString>(
    out: &mut Screen,
    header: impl AsRef<[H]>,
    rows: impl IntoIterator<Item = impl AsRef<[String]>>,
) -> anyhow::Result<()> {
    // Headers can hold strangers' names, such as policies', so they are escaped, too.
    let names: Vec<String> = header
        .as_ref()
        .iter()
        .map(|name| printable::escape_for_one_line(&name.to_string()).into_owned())
        .collect();
    let cells: Vec<Vec<String>> = rows
        .into_iter()
        .map(|row| {
            let cells = row.as_ref().iter();
            cells
                .map(|cell| printable::escape_for_one_line(cell).into_owned())
                .collect()
        })
        .collect();
    for line in table::fold_table_into_lines(&names, &cells, out.columns) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Writes rows under a header as a Markdown table.
pub(crate) fn write_markdown_table<H: ToString>(
    out: &mut Screen,
    header: impl AsRef<[H]>,
    rows: impl IntoIterator<Item = impl AsRef<[String]>>,
) -> anyhow::Result<()> {
    let header: Vec<String> = header.as_ref().iter().map(ToString::to_string).collect();
    writeln!(out, "{}", escaped_markdown_row(&header))?;
    writeln!(out, "| {} |", vec!["---"; header.len()].join(" | "))?;
    for row in rows {
        writeln!(out, "{}", escaped_markdown_row(row.as_ref()))?;
    }
    Ok(())
}

fn escaped_markdown_row(cells: &[String]) -> String {
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| printable::escape_for_markdown(cell))
        .collect();
    format!("| {} |", cells.join(" | "))
}

/// Writes rows under a header as CSV; no cell can act as a spreadsheet formula.
pub(crate) fn write_csv<H: AsRef<str>>(
    out: &mut Screen,
    header: impl AsRef<[H]>,
    rows: impl IntoIterator<Item = impl AsRef<[String]>>,
) -> anyhow::Result<()> {
    write_escaped_csv_row(
        &mut csv::Writer::from_writer(out.raw_bytes()),
        header.as_ref(),
    )?;
    write_csv_rows_without_header(out, rows)
}

/// Writes CSV rows without a header, such as rows that follow earlier ones.
pub(crate) fn write_csv_rows_without_header(
    out: &mut Screen,
    rows: impl IntoIterator<Item = impl AsRef<[String]>>,
) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(out.raw_bytes());
    for row in rows {
        write_escaped_csv_row(&mut writer, row.as_ref())?;
    }
    writer.flush()?;
    Ok(())
}

fn write_escaped_csv_row<T: AsRef<str>>(
    writer: &mut csv::Writer<&mut Vec<u8>>,
    cells: &[T],
) -> csv::Result<()> {
    let cells = cells.iter();
    writer.write_record(cells.map(|text| printable::escape_csv_cell(text.as_ref()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(out: &Screen) -> String {
        String::from_utf8(out.bytes.clone()).unwrap()
    }

    #[test]
    fn names_do_not_steer_the_terminal() {
        let mut out = Screen::with_columns(100);
        let header = ["policy", "a\u{202e}b"];
        let row = ["x\u{1b}[31m".to_owned(), "\u{5d0}\u{2067}'q'".to_owned()];
        write_table(&mut out, header, [row]).unwrap();
        let shown = shown(&out);
        assert!(shown.contains("a\\u{202e}b"), "{shown}");
        assert!(shown.contains("x\\u{1b}[31m"), "{shown}");
        // Letters from right to left are a name, and quotes are no danger.
        assert!(shown.contains("\u{5d0}\\u{2067}'q'"), "{shown}");
    }

    #[test]
    fn a_stranger_s_line_end_makes_no_line() {
        let mut out = Screen::with_columns(100);
        let title = "a\nwakepath: all is well\u{1b}[2K";
        writeln!(out, "\ntitle {title}\n").unwrap();
        assert_eq!(
            shown(&out),
            "\ntitle a\\nwakepath: all is well\\u{1b}[2K\n\n"
        );
    }

    #[test]
    fn programs_get_what_means_the_same() {
        let mut out = Screen::with_columns(100);
        write_json(&mut out, &["\u{202e}"]).unwrap();
        write_csv(&mut out, ["name"], [["=1+1".to_owned()], ["-3".to_owned()]]).unwrap();
        assert_eq!(shown(&out), "[\n  \"\\u202e\"\n]\nname\n'=1+1\n-3\n");
    }
}
