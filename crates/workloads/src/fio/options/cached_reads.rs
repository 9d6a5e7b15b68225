//! fio options for what is cached of a file, and for read-ahead.

use super::super::error::OptionVerdict;
use super::super::{FadviseHint, Invalidation};
use super::conditional::CACHE;
use super::draft::JobDraft;
use super::row::OptionRow;
use super::value::{not_one_of_problem, print_flag_as_digit};

const NO_READS: &str = "is ignored: what the page cache has of the file before hardly matters to a job that only writes";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_job_field(&["invalidate"], |job, value| {
        job.invalidate = Invalidation(value.parse_zero_or_one()?);
        Ok(())
    })
    .with_judge(|draft, _| match ignore_without_buffered_reads(draft) {
        OptionVerdict::Fine if !draft.job.invalidate.0 => OptionVerdict::Ignored(
            "keeps what the run itself has cached; before the run, nothing is".to_owned(),
        ),
        other => other,
    })
    .with_printer(|job| (!job.invalidate.0).then(|| print_flag_as_digit(false))),
    OptionRow::for_job_field(&["fadvise_hint"], |job, value| {
        let found = FadviseHint::NAMES
            .iter()
            .find(|(name, _)| *name == value.text);
        let Some((_, hint)) = found else {
            return Err(not_one_of_problem(
                value.text,
                &FadviseHint::NAMES.map(|(name, _)| name),
            ));
        };
        job.fadvise = *hint;
        Ok(())
    })
    .with_judge(|draft, _| ignore_without_buffered_reads(draft))
    .with_printer(|job| {
        let name = match job.fadvise {
            FadviseHint::Pattern => return None,
            FadviseHint::Off => "0",
            FadviseHint::Random => "random",
            FadviseHint::Sequential => "sequential",
        };
        Some(name.to_owned())
    }),
];

/// Judges an option about cached pages: without effect where no buffered read asks for them.
fn ignore_without_buffered_reads(draft: &JobDraft) -> OptionVerdict {
    if draft.job.is_direct() {
        OptionVerdict::Ignored(CACHE.to_owned())
    } else if !draft.job.rw.reads() {
        OptionVerdict::Ignored(NO_READS.to_owned())
    } else {
        OptionVerdict::Fine
    }
}
