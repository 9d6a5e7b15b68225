//! Making the tables in a result directory, in one pass with few runs in memory at a time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::atomic::UnfinishedFile;
use crate::document::Document;
use crate::error::ResultsError;
use crate::folder::ResultFolder;
use crate::layout::TABLES;
use crate::plan::RunPlan;
use crate::rows::{AttributionRow, FrequencyRow, IdleRow, LatencyRow, MetricRow, TimelineRow};
use crate::run_record::RunRecord;
use crate::tables::{ParquetWriter, Row, TableError};

/// Number of runs in memory at a time; they are read on all threads of the current rayon pool.
const RUNS_AT_ONCE: usize = 256;

/// Writes all Parquet tables from the runs in a directory; `document` plans the runs.
///
/// # Errors
/// A run cannot be read or was not planned; or the file system refused.
pub(crate) fn write_tables(dir: &Path, document: &Document) -> Result<(), ResultsError> {
    let folder = ResultFolder::open(dir)?;
    let plan = RunPlan::new(document);
    let [metrics, latency, attribution, idle, frequency, timeline] =
        TABLES.map(|name| dir.join(name));
    let mut metrics = TableFile::<MetricRow>::begin_unfinished(&metrics)?;
    let mut latency = TableFile::<LatencyRow>::begin_unfinished(&latency)?;
    let mut attribution = TableFile::<AttributionRow>::begin_unfinished(&attribution)?;
    let mut idle = TableFile::<IdleRow>::begin_unfinished(&idle)?;
    let mut frequency = TableFile::<FrequencyRow>::begin_unfinished(&frequency)?;
    let mut timeline = TableFile::<TimelineRow>::begin_unfinished(&timeline)?;
    for some in folder.finished_run_indices()?.chunks(RUNS_AT_ONCE) {
        let runs = some
            .par_iter()
            .map(|index| Ok(folder.read_run_checked_by_plan(*index, &plan)?.1));
        for run in runs.collect::<Result<Vec<RunRecord>, ResultsError>>()? {
            metrics.append_rows(run.metric_rows())?;
            latency.append_rows(run.latency_rows())?;
            attribution.append_rows(run.attribution_rows())?;
            idle.append_rows(run.idle_rows())?;
            frequency.append_rows(run.frequency_rows())?;
            timeline.append_rows(run.timeline_rows())?;
        }
    }
    metrics.finish_and_rename()?;
    latency.finish_and_rename()?;
    attribution.finish_and_rename()?;
    idle.finish_and_rename()?;
    frequency.finish_and_rename()?;
    timeline.finish_and_rename()
}

/// A table's file while written: it exists whole or not at all.
struct TableFile<R> {
    path: PathBuf,
    unfinished: UnfinishedFile,
    rows: ParquetWriter<R, BufWriter<File>>,
}

impl<R: Row> TableFile<R> {
    fn begin_unfinished(path: &Path) -> Result<Self, ResultsError> {
        Self::begin_unfinished_or_table_error(path).map_err(|source| table_error_at(path, source))
    }

    fn begin_unfinished_or_table_error(path: &Path) -> Result<Self, TableError> {
        let unfinished = UnfinishedFile::create_beside(path)?;
        let rows = ParquetWriter::new(BufWriter::new(unfinished.temporary_file().try_clone()?))?;
        Ok(Self {
            path: path.to_owned(),
            unfinished,
            rows,
        })
    }

    fn append_rows(&mut self, rows: impl Iterator<Item = R>) -> Result<(), ResultsError> {
        let extended = self.rows.append_rows(rows);
        extended.map_err(|source| table_error_at(&self.path, source))
    }

    fn finish_and_rename(self) -> Result<(), ResultsError> {
        let path = self.path.clone();
        self.finish_and_rename_or_table_error()
            .map_err(|source| table_error_at(&path, source))
    }

    fn finish_and_rename_or_table_error(self) -> Result<(), TableError> {
        self.rows.finish_into_inner()?.flush()?;
        Ok(self.unfinished.sync_and_rename_into_place()?)
    }
}

fn table_error_at(path: &Path, source: TableError) -> ResultsError {
    ResultsError::Table {
        path: path.to_owned(),
        source,
    }
}
