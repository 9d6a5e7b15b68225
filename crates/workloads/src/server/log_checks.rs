//! Checks of a server's log and background writers.

use serde::Deserialize;
use toml::Spanned;

use super::error::{ServerError, TextPlace};
use super::figure::ServerFigure;
use super::log::{
    AppendLog, BackgroundWriter, JournaledSyncs, LogJournal, LogSync, MAX_BACKGROUND_DEPTH,
    MAX_BACKGROUND_WRITERS, RoundReads, RoundStart, RoundWrites,
};
use super::ranges::{
    figure_in_range, number_in_range, seconds_to_time, time_in_range, whole_sectors_in_range,
};

/// Seconds between two syncs of a log, if the file gives none.
const DEFAULT_SYNC_EVERY: f64 = 1.0;
/// Bytes of a block, if the file gives none: a page.
const DEFAULT_BLOCK: f64 = 4096.0;
const MAX_LOG_BYTES: f64 = 1_048_576.0;
const MAX_WRITE_BYTES: f64 = 67_108_864.0;
const MAX_FLUSHES: u32 = 16;

/// `[log]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLog {
    bytes: Spanned<ServerFigure>,
    #[serde(default)]
    sync: RawSync,
    sync_every_s: Option<Spanned<f64>>,
    block_bytes: Option<Spanned<ServerFigure>>,
    largest_write_bytes: Option<Spanned<ServerFigure>>,
    work_us: Option<Spanned<ServerFigure>>,
    group_commit: Option<Spanned<bool>>,
    journal: Option<RawJournal>,
}

/// Value of `sync`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawSync {
    Each,
    #[default]
    Every,
}

/// `[log.journal]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawJournal {
    #[serde(default)]
    when: JournaledSyncs,
    bytes: Spanned<ServerFigure>,
    commit_bytes: Option<Spanned<ServerFigure>>,
}

/// `[[background]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBackground {
    every_s: Option<Spanned<ServerFigure>>,
    every_requests: Option<Spanned<ServerFigure>>,
    writes: Option<Spanned<ServerFigure>>,
    writes_per_request: Option<Spanned<ServerFigure>>,
    bytes: Spanned<ServerFigure>,
    reads: Option<Spanned<ServerFigure>>,
    read_bytes: Option<Spanned<ServerFigure>>,
    depth: Option<Spanned<u32>>,
    work_us: Option<Spanned<ServerFigure>>,
    flushes: Option<Spanned<u32>>,
}

pub(super) fn check_log(raw: &RawLog, place: TextPlace<'_>) -> Result<AppendLog, ServerError> {
    let sync = match (raw.sync, &raw.sync_every_s) {
        (RawSync::Each, Some(seconds)) => {
            let message =
                "`sync_every_s` is for `sync = \"every\"`, and each request syncs this log";
            return Err(place.error_at_value(seconds, message));
        }
        (RawSync::Each, None) => LogSync::Each,
        (RawSync::Every, Some(seconds)) => {
            LogSync::Every(time_in_range(seconds, "sync_every_s", 0.01, place)?)
        }
        (RawSync::Every, None) => LogSync::Every(seconds_to_time(DEFAULT_SYNC_EVERY)),
    };
    let journal = raw.journal.as_ref().map(|journal| {
        Ok(LogJournal {
            when: journal.when,
            bytes: whole_sectors_in_range(&journal.bytes, "bytes", MAX_LOG_BYTES, place)?,
            commit_bytes: block_or_page(journal.commit_bytes.as_ref(), "commit_bytes", place)?,
        })
    });
    Ok(AppendLog {
        bytes: figure_in_range(&raw.bytes, "bytes", (1.0, MAX_LOG_BYTES), place)?,
        sync,
        block_bytes: block_or_page(raw.block_bytes.as_ref(), "block_bytes", place)?,
        largest_write_bytes: check_largest_write(raw.largest_write_bytes.as_ref(), place)?,
        work_us: match &raw.work_us {
            Some(work) => figure_in_range(work, "work_us", (0.0, 1e7), place)?,
            None => ServerFigure::declared(0.0),
        },
        group_commit: check_group_commit(raw.group_commit.as_ref(), sync, place)?,
        journal: journal.transpose()?,
    })
}

/// Whether requests share a sync; they do, if the file does not say.
fn check_group_commit(
    given: Option<&Spanned<bool>>,
    sync: LogSync,
    place: TextPlace<'_>,
) -> Result<bool, ServerError> {
    match (given, sync) {
        (Some(group_commit), LogSync::Every(_)) => {
            let message =
                "`group_commit` is for `sync = \"each\"`, and no request waits for this log";
            Err(place.error_at_value(group_commit, message))
        }
        (Some(group_commit), LogSync::Each) => Ok(*group_commit.get_ref()),
        (None, _) => Ok(true),
    }
}

/// Size of a block in bytes; a page, if the file gives none.
fn block_or_page(
    given: Option<&Spanned<ServerFigure>>,
    key: &str,
    place: TextPlace<'_>,
) -> Result<ServerFigure, ServerError> {
    given.map_or(Ok(ServerFigure::declared(DEFAULT_BLOCK)), |bytes| {
        whole_sectors_in_range(bytes, key, MAX_LOG_BYTES, place)
    })
}

/// Most bytes of a write; a mebibyte, if the file gives none.
fn check_largest_write(
    given: Option<&Spanned<ServerFigure>>,
    place: TextPlace<'_>,
) -> Result<ServerFigure, ServerError> {
    let Some(bytes) = given else {
        return Ok(ServerFigure::declared(MAX_LOG_BYTES));
    };
    let range = (DEFAULT_BLOCK, MAX_WRITE_BYTES);
    figure_in_range(bytes, "largest_write_bytes", range, place)?;
    whole_sectors_in_range(bytes, "largest_write_bytes", MAX_WRITE_BYTES, place)
}

pub(super) fn check_background_writers(
    raw: &[Spanned<RawBackground>],
    place: TextPlace<'_>,
) -> Result<Vec<BackgroundWriter>, ServerError> {
    if let Some(more) = raw.get(MAX_BACKGROUND_WRITERS) {
        let message = format!("there may be {MAX_BACKGROUND_WRITERS} [[background]]");
        return Err(place.error_at_value(more, message));
    }
    let writers = raw
        .iter()
        .map(|writer| check_background_writer(writer, place));
    writers.collect()
}

fn check_background_writer(
    table: &Spanned<RawBackground>,
    place: TextPlace<'_>,
) -> Result<BackgroundWriter, ServerError> {
    let raw = table.get_ref();
    let rounds = check_round_start(table, place)?;
    let writes = match (&raw.writes, &raw.writes_per_request) {
        (Some(each), None) => {
            RoundWrites::PerRound(figure_in_range(each, "writes", (0.0, 1e4), place)?)
        }
        (None, Some(each)) => {
            let range = (0.0, 100.0);
            RoundWrites::PerRequest(figure_in_range(each, "writes_per_request", range, place)?)
        }
        _ => {
            let message = "[[background]] needs `writes`, a number for each round, or `writes_per_request`, and not both";
            return Err(place.error_at_value(table, message));
        }
    };
    let flushes = raw.flushes.as_ref().map_or(0, |flushes| *flushes.get_ref());
    if let (Some(at), true) = (&raw.flushes, flushes > MAX_FLUSHES) {
        let message = format!("`flushes` is {flushes}, and may be 0 to {MAX_FLUSHES}");
        return Err(place.error_at_value(at, message));
    }
    let depths = (1, MAX_BACKGROUND_DEPTH);
    Ok(BackgroundWriter {
        rounds,
        writes,
        bytes: whole_sectors_in_range(&raw.bytes, "bytes", MAX_WRITE_BYTES, place)?,
        reads: check_round_reads(table, place)?,
        depth: number_in_range(raw.depth.as_ref(), "depth", depths.1, depths, place)?,
        work_us: match &raw.work_us {
            Some(work) => figure_in_range(work, "work_us", (0.0, 1e7), place)?,
            None => ServerFigure::declared(0.0),
        },
        flushes,
    })
}

fn check_round_start(
    table: &Spanned<RawBackground>,
    place: TextPlace<'_>,
) -> Result<RoundStart, ServerError> {
    match (&table.get_ref().every_s, &table.get_ref().every_requests) {
        (Some(seconds), None) => {
            let range = (0.001, 600.0);
            figure_in_range(seconds, "every_s", range, place).map(RoundStart::AfterSeconds)
        }
        (None, Some(replies)) => {
            let range = (1.0, 1e9);
            figure_in_range(replies, "every_requests", range, place).map(RoundStart::AfterReplies)
        }
        _ => {
            let message = "[[background]] needs `every_s`, seconds from round to round, or `every_requests`, and not both";
            Err(place.error_at_value(table, message))
        }
    }
}

fn check_round_reads(
    table: &Spanned<RawBackground>,
    place: TextPlace<'_>,
) -> Result<Option<RoundReads>, ServerError> {
    match (&table.get_ref().reads, &table.get_ref().read_bytes) {
        (Some(reads), Some(bytes)) => Ok(Some(RoundReads {
            reads: figure_in_range(reads, "reads", (0.0, 1e4), place)?,
            bytes: whole_sectors_in_range(bytes, "read_bytes", MAX_WRITE_BYTES, place)?,
        })),
        (None, None) => Ok(None),
        (Some(alone), None) | (None, Some(alone)) => {
            let message =
                "`reads` of [[background]] needs `read_bytes`, and `read_bytes` needs `reads`";
            Err(place.error_at_value(alone, message))
        }
    }
}
