//! `explain --page`: the answer and its pictures as a page.

use std::path::Path;

use anyhow::Context;
use wakepath_explain::Explanation;
use wakepath_report::html::view::PageAnswer;
use wakepath_report::html::{from_results, render_html_report};
use wakepath_units::printable::escape_for_one_line;

use super::answer::kind_sentences;
use super::help::help_sentences;
use super::results::{THIS_MACHINE, TracedResults};
use super::wording::{count_kinds_with_sentences, name_of_kind};
use crate::commands::measure::experiment::{check_result_file, write_result_file};
use crate::messages::tell;

/// Where a page goes.
pub(super) struct PageTarget<'a> {
    path: &'a Path,
    force: bool,
}

impl<'a> PageTarget<'a> {
    /// Checks that the file may be written, before any work is done for it.
    pub(super) fn check(path: &'a Path, force: bool) -> anyhow::Result<Self> {
        check_result_file(path, force).context("--page")?;
        Ok(Self { path, force })
    }

    /// Writes the page of a recording, or else of this machine.
    pub(super) fn write(
        &self,
        results: TracedResults,
        explanation: &Explanation,
        recording: Option<&Path>,
    ) -> anyhow::Result<()> {
        let reader = results.into_reader(recording.unwrap_or(Path::new(THIS_MACHINE)));
        let mut view = from_results::build_view(&[reader], None)?;
        view.answers = answers(explanation);
        let quoted = std::mem::take(&mut view.results);
        view.commands = vec![match recording {
            Some(_) => format!("wakepath explain {} --page load.html", quoted.join(" ")),
            None => "sudo wakepath explain --page load.html".to_owned(),
        }];
        let html = render_html_report(&view)?;
        write_result_file(self.path, self.force, &html)
            .with_context(|| format!("--page {}", self.path.display()))?;
        tell!(
            "the answer with its pictures is in {}; any browser opens it",
            self.path.display()
        );
        Ok(())
    }
}

/// An answer for each kind of requests that has sentences: where its time goes, then what would help.
fn answers(explanation: &Explanation) -> Vec<PageAnswer> {
    let said = count_kinds_with_sentences(&explanation.kinds);
    let kinds = explanation.kinds.iter().take(said);
    let answers = kinds.map(|kind| {
        let sentences = kind_sentences(kind)
            .into_iter()
            .chain(help_sentences(kind, explanation));
        let mut printable = sentences.map(|text| escape_for_one_line(text.trim()).into_owned());
        let name = name_of_kind(kind);
        PageAnswer {
            question: format!("Where do the microseconds of {name} go?"),
            sentence: printable.next().unwrap_or_default(),
            details: printable.collect(),
            ..PageAnswer::default()
        }
    });
    answers.collect()
}
