//! What `explain` writes beside its answer: a result directory, a page.

use std::path::Path;

use anyhow::Context;
use wakepath_explain::Explanation;

use super::arguments::Args;
use super::page::PageTarget;
use super::results::{ResultTarget, TracedResults, check_directory};
use crate::output::{self, Screen};

/// Where results go.
pub(super) struct OutputTargets<'a> {
    directory: Option<ResultTarget<'a>>,
    page: Option<PageTarget<'a>>,
}

impl<'a> OutputTargets<'a> {
    /// Checks that what is asked for may be written, before any work is done for it.
    pub(super) fn check(args: &'a Args) -> anyhow::Result<Self> {
        let force = args.force;
        let directory = args
            .output
            .as_deref()
            .map(|dir| ResultTarget { dir, force });
        if let Some(target) = &directory {
            check_directory(target)?;
        }
        let page = args.page.as_deref();
        Ok(Self {
            directory,
            page: page
                .map(|path| PageTarget::check(path, force))
                .transpose()?,
        })
    }

    /// Whether anything is to be written.
    pub(super) const fn wants_results(&self) -> bool {
        self.directory.is_some() || self.page.is_some()
    }

    /// Prints the answer, and then writes the results of a recording, or else of this machine, as directory and page.
    pub(super) fn write_after_answer(
        &self,
        results: Option<TracedResults>,
        explanation: &Explanation,
        recording: Option<&Path>,
        out: &mut Screen,
    ) -> anyhow::Result<()> {
        let Some(results) = results else {
            return Ok(());
        };
        // The answer is printed even if there is no room for the files.
        output::print_result(out).context("standard output")?;
        if let Some(target) = &self.directory {
            results.write_directory(target).context("--output")?;
        }
        match &self.page {
            Some(page) => page.write(results, explanation, recording),
            None => Ok(()),
        }
    }
}
