//! Writing tables and sentences for a terminal, or as Markdown.

use wakepath_units::printable;

use crate::output::{self, PageFormat, Screen};

/// How headings, sentences and tables are written.
pub(super) trait Style {
    fn write_heading(&self, out: &mut Screen, text: &str) -> anyhow::Result<()>;
    fn write_sentence(&self, out: &mut Screen, text: &str) -> anyhow::Result<()>;
    fn write_table(
        &self,
        out: &mut Screen,
        header: Vec<String>,
        rows: Vec<Vec<String>>,
    ) -> anyhow::Result<()>;

    /// Writes a table whose first row is the header.
    fn write_header_and_rows(
        &self,
        out: &mut Screen,
        mut header_and_rows: Vec<Vec<String>>,
    ) -> anyhow::Result<()> {
        let header = header_and_rows.remove(0);
        self.write_table(out, header, header_and_rows)
    }
}

pub(super) struct Text;

pub(super) struct Markdown;

/// The style for a page or for a terminal.
pub(super) fn markdown_or_text_style(format: PageFormat) -> &'static dyn Style {
    match format {
        PageFormat::Markdown => &Markdown,
        _ => &Text,
    }
}

impl Style for Text {
    fn write_heading(&self, out: &mut Screen, text: &str) -> anyhow::Result<()> {
        out.write_folded(text, 0)?;
        Ok(writeln!(out)?)
    }

    fn write_sentence(&self, out: &mut Screen, text: &str) -> anyhow::Result<()> {
        Ok(out.write_folded(text, 2)?)
    }

    fn write_table(
        &self,
        out: &mut Screen,
        header: Vec<String>,
        rows: Vec<Vec<String>>,
    ) -> anyhow::Result<()> {
        output::write_table(out, header, rows)
    }
}

impl Style for Markdown {
    fn write_heading(&self, out: &mut Screen, text: &str) -> anyhow::Result<()> {
        Ok(writeln!(
            out,
            "### {}\n",
            printable::escape_for_markdown(text)
        )?)
    }

    fn write_sentence(&self, out: &mut Screen, text: &str) -> anyhow::Result<()> {
        Ok(writeln!(out, "{}", printable::escape_for_markdown(text))?)
    }

    fn write_table(
        &self,
        out: &mut Screen,
        header: Vec<String>,
        rows: Vec<Vec<String>>,
    ) -> anyhow::Result<()> {
        output::write_markdown_table(out, header, rows)
    }
}
