//! How a command prints: a table for people, JSON and CSV for programs.

use std::borrow::Cow;
use std::io::Write;

use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use wakepath_report::html::sets_direction;

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

/// Writes `value` as indented JSON with a final line end.
pub(crate) fn json(out: &mut impl Write, value: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)?;
    Ok(())
}

/// A user's text, such as the name of a task, without what would steer the terminal or turn what follows around.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() || sets_direction(c);
    if !text.contains(steers) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown.into()
}

/// Writes rows under a header, numbers to the right.
pub(crate) fn table<H: ToString>(
    out: &mut impl Write,
    header: impl AsRef<[H]>,
    rows: impl IntoIterator<Item = impl AsRef<[String]>>,
) -> anyhow::Result<()> {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    let header = header.as_ref();
    table.set_header(header.iter().map(|name| {
        // Policies have columns.
        printable(&name.to_string()).into_owned()
    }));
    let mut numeric = vec![true; header.len()];
    let rows: Vec<_> = rows.into_iter().collect();
    for row in &rows {
        for (column, text) in numeric.iter_mut().zip(row.as_ref()) {
            *column &= text.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c));
        }
    }
    for row in rows {
        table.add_row(row.as_ref().iter().map(|text| printable(text)));
    }
    for (column, numeric) in table.column_iter_mut().zip(numeric) {
        if numeric {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for line in table.lines() {
        // Every cell has a space before it; more of them are part of a number's alignment.
        writeln!(
            out,
            "{}",
            line.strip_prefix(' ').unwrap_or(&line).trim_end()
        )?;
    }
    Ok(())
}

/// Writes rows under a header as CSV.
pub(crate) fn csv(
    out: &mut impl Write,
    header: impl AsRef<[&'static str]>,
    rows: impl IntoIterator<Item = impl AsRef<[String]>>,
) -> anyhow::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(header.as_ref())?;
    for row in rows {
        writer.write_record(row.as_ref())?;
    }
    writer.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_steer_the_terminal() {
        let mut out = Vec::new();
        let header = ["policy", "a\u{202e}b"];
        let row = ["x\u{1b}[31m".to_owned(), "\u{5d0}\u{2067}'q'".to_owned()];
        table(&mut out, header, [row]).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert!(shown.contains("a\\u{202e}b"), "{shown}");
        assert!(shown.contains("x\\u{1b}[31m"), "{shown}");
        // Letters from right to left are a name, and quotes are no danger.
        assert!(shown.contains("\u{5d0}\\u{2067}'q'"), "{shown}");
    }
}
