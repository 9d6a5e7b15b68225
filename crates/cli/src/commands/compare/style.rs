//! Tables and sentences for a terminal, or as Markdown.

use wakepath_units::printable;

use crate::output::{self, PageFormat, Screen};

/// How tables are written.
pub(super) trait Style {
    fn heading(&self, out: &mut Screen, text: &str) -> anyhow::Result<()>;
    fn sentence(&self, out: &mut Screen, text: &str) -> anyhow::Result<()>;
    fn table(&self, out: &mut Screen, rows: Vec<Vec<String>>) -> anyhow::Result<()>;
}

pub(super) struct Text;

pub(super) struct Markdown;

/// How the tables of a page or a terminal are written.
pub(super) fn choose_style(format: PageFormat) -> &'static dyn Style {
    match format {
        PageFormat::Markdown => &Markdown,
        _ => &Text,
    }
}

impl Style for Text {
    fn heading(&self, out: &mut Screen, text: &str) -> anyhow::Result<()> {
        out.prose(text, 0)?;
        Ok(writeln!(out)?)
    }

    fn sentence(&self, out: &mut Screen, text: &str) -> anyhow::Result<()> {
        Ok(out.prose(text, 2)?)
    }

    fn table(&self, out: &mut Screen, mut rows: Vec<Vec<String>>) -> anyhow::Result<()> {
        let header = rows.remove(0);
        output::table(out, header, rows)
    }
}

impl Style for Markdown {
    fn heading(&self, out: &mut Screen, text: &str) -> anyhow::Result<()> {
        Ok(writeln!(
            out,
            "### {}\n",
            printable::escape_for_markdown(text)
        )?)
    }

    fn sentence(&self, out: &mut Screen, text: &str) -> anyhow::Result<()> {
        Ok(writeln!(out, "{}", printable::escape_for_markdown(text))?)
    }

    fn table(&self, out: &mut Screen, mut rows: Vec<Vec<String>>) -> anyhow::Result<()> {
        let header = rows.remove(0);
        output::markdown(out, header, rows)
    }
}
