//! Writing tables and sentences for a terminal, or as Markdown.

use wakepath_units::printable;

use crate::output::{self, PageFormat, Screen};

/// How headings, sentences and tables are written.
pub(super) trait Style {
    fn write_heading(&self, out: &mut Screen, text: &str) -> anyhow::Result<()>;
    fn write_sentence(&self, out: &mut Screen, text: &str) -> anyhow::Result<()>;
    fn write_table(&self, out: &mut Screen, rows: Vec<Vec<String>>) -> anyhow::Result<()>;
}

pub(super) struct Text;

pub(super) struct Markdown;

/// The style for a page or for a terminal.
pub(super) fn choose_style(format: PageFormat) -> &'static dyn Style {
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

    fn write_table(&self, out: &mut Screen, mut rows: Vec<Vec<String>>) -> anyhow::Result<()> {
        let header = rows.remove(0);
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

    fn write_table(&self, out: &mut Screen, mut rows: Vec<Vec<String>>) -> anyhow::Result<()> {
        let header = rows.remove(0);
        output::write_markdown_table(out, header, rows)
    }
}
