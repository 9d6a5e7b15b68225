//! What `explain` writes beside its answer: a result directory, a page.

use std::path::Path;

use wakepath_explain::Explanation;

use super::arguments::Args;
use super::page::PageTarget;
use super::results::{ResultTarget, TracedResults, check_directory};

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

    /// Writes the results of a recording, or else of this machine, as directory and page.
    pub(super) fn write(
        &self,
        results: TracedResults,
        explanation: &Explanation,
        recording: Option<&Path>,
    ) -> anyhow::Result<()> {
        if let Some(target) = &self.directory {
            results.write_directory(target)?;
        }
        match &self.page {
            Some(page) => page.write(results, explanation, recording),
            None => Ok(()),
        }
    }
}
