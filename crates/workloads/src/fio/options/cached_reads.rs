//! fio options for what is cached of a file, and for read-ahead.

use super::super::error::OptionVerdict;
use super::super::{FadviseHint, Invalidation};
use super::conditional::CACHE;
use super::draft::JobDraft;
use super::row::OptionRow;
use super::value::{list_names, print_flag_as_digit};

const NO_READS: &str = "is ignored: what the page cache has of the file before hardly matters to a job that only writes";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_switch(&["invalidate"], |job, on| job.invalidate = Invalidation(on))
        .with_judge(|draft, _| match ignore_without_buffered_reads(draft) {
            OptionVerdict::Fine if !draft.job.invalidate.0 => OptionVerdict::Ignored(
                "keeps what the run itself has cached; before the run, nothing is".to_owned(),
            ),
            other => other,
        })
        .with_printer_unless_default(|job| print_flag_as_digit(job.invalidate.0))
        .with_note(
            "drops what is cached of a file before each pass; nothing is cached before the run",
        ),
    OptionRow::for_choice(
        &["fadvise_hint"],
        || list_names(&FadviseHint::NAMES),
        |job, value| {
            job.fadvise = value.parse_name(&FadviseHint::NAMES)?;
            Ok(())
        },
    )
    .with_judge(|draft, _| ignore_without_buffered_reads(draft))
    .with_printer(|job| {
        let name = match job.fadvise {
            FadviseHint::Pattern => return None,
            FadviseHint::Off => "0",
            FadviseHint::Random => "random",
            FadviseHint::Sequential => "sequential",
        };
        Some(name.to_owned())
    })
    .with_default("1")
    .with_note("of buffered reads: `1` is as `rw` says"),
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
