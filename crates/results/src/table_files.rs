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

/// Runs in memory at a time, read on all threads of the current rayon pool.
const RUNS_AT_ONCE: usize = 256;

/// Makes the tables from all runs in a directory; `document` plans the runs.
///
/// # Errors
/// A run cannot be read or was not planned; the file system refuses.
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
            .map(|index| Ok(folder.run(*index, &plan)?.1));
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

/// A table file, which exists whole or not at all.
struct TableFile<R> {
    path: PathBuf,
    unfinished: Unfinished,
    rows: ResultWriter<R, BufWriter<File>>,
}

impl<R: Row> TableFile<R> {
    fn begin(path: &Path) -> Result<Self, ResultsError> {
        Self::try_begin(path).map_err(|source| refused_row(path, source))
    }

    fn try_begin(path: &Path) -> Result<Self, TableError> {
        let unfinished = Unfinished::begin(path)?;
        let rows = ResultWriter::new(BufWriter::new(unfinished.file().try_clone()?))?;
        Ok(Self {
            path: path.to_owned(),
            unfinished,
            rows,
        })
    }

    fn extend(&mut self, rows: impl Iterator<Item = R>) -> Result<(), ResultsError> {
        let extended = self.rows.extend(rows);
        extended.map_err(|source| refused_row(&self.path, source))
    }

    fn finish(self) -> Result<(), ResultsError> {
        let path = self.path.clone();
        self.try_finish()
            .map_err(|source| refused_row(&path, source))
    }

    fn try_finish(self) -> Result<(), TableError> {
        self.rows.finish()?.flush()?;
        Ok(self.unfinished.finish()?)
    }
}

fn refused_row(path: &Path, source: TableError) -> ResultsError {
    ResultsError::Table {
        path: path.to_owned(),
        source,
    }
}
