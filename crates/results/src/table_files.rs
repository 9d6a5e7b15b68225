//! Making the tables in a result directory, in one pass with few runs in memory at a time.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::atomic::Unfinished;
use crate::document::Document;
use crate::error::ResultsError;
use crate::folder::ResultFolder;
use crate::layout::TABLES;
use crate::plan::RunPlan;
use crate::rows::{AttributionRow, FrequencyRow, IdleRow, LatencyRow, MetricRow, TimelineRow};
use crate::run_record::RunRecord;
use crate::tables::{ResultWriter, Row, TableError};

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
    let mut metrics = TableFile::<MetricRow>::begin(&metrics)?;
    let mut latency = TableFile::<LatencyRow>::begin(&latency)?;
    let mut attribution = TableFile::<AttributionRow>::begin(&attribution)?;
    let mut idle = TableFile::<IdleRow>::begin(&idle)?;
    let mut frequency = TableFile::<FrequencyRow>::begin(&frequency)?;
    let mut timeline = TableFile::<TimelineRow>::begin(&timeline)?;
    for some in folder.run_indices()?.chunks(RUNS_AT_ONCE) {
        let runs = some
            .par_iter()
            .map(|index| Ok(folder.read_planned_run(*index, &plan)?.1));
        for run in runs.collect::<Result<Vec<RunRecord>, ResultsError>>()? {
            metrics.extend(run.metric_rows())?;
            latency.extend(run.latency_rows())?;
            attribution.extend(run.attribution_rows())?;
            idle.extend(run.idle_rows())?;
            frequency.extend(run.frequency_rows())?;
            timeline.extend(run.timeline_rows())?;
        }
    }
    metrics.finish()?;
    latency.finish()?;
    attribution.finish()?;
    idle.finish()?;
    frequency.finish()?;
    timeline.finish()
}

/// A table's file while written: it exists whole or not at all.
struct TableFile<R> {
    path: PathBuf,
    unfinished: Unfinished,
    rows: ResultWriter<R, BufWriter<File>>,
}

impl<R: Row> TableFile<R> {
    fn begin(path: &Path) -> Result<Self, ResultsError> {
        Self::try_begin(path).map_err(|source| refused_row_error(path, source))
    }

    fn try_begin(path: &Path) -> Result<Self, TableError> {
        let unfinished = Unfinished::create_temporary(path)?;
        let rows = ResultWriter::new(BufWriter::new(unfinished.temporary_file().try_clone()?))?;
        Ok(Self {
            path: path.to_owned(),
            unfinished,
            rows,
        })
    }

    fn extend(&mut self, rows: impl Iterator<Item = R>) -> Result<(), ResultsError> {
        let extended = self.rows.extend(rows);
        extended.map_err(|source| refused_row_error(&self.path, source))
    }

    fn finish(self) -> Result<(), ResultsError> {
        let path = self.path.clone();
        self.try_finish()
            .map_err(|source| refused_row_error(&path, source))
    }

    fn try_finish(self) -> Result<(), TableError> {
        self.rows.finish()?.flush()?;
        Ok(self.unfinished.sync_and_rename()?)
    }
}

fn refused_row_error(path: &Path, source: TableError) -> ResultsError {
    ResultsError::Table {
        path: path.to_owned(),
        source,
    }
}
