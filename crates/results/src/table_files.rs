//! The tables of a result directory, made in one pass over its runs, a few of which are in memory at a time.

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

/// Runs that are read at a time, on all threads of the current rayon pool.
const RUNS_AT_ONCE: usize = 256;

/// Makes the tables of all runs in a directory, which are those of `document`.
///
/// # Errors
/// A run cannot be read, or is another one; the file system refuses.
pub(crate) fn write(dir: &Path, document: &Document) -> Result<(), ResultsError> {
    let folder = ResultFolder::open(dir)?;
    let plan = RunPlan::new(document);
    let [metrics, latency, attribution, idle, frequency, timeline] =
        TABLES.map(|name| dir.join(name));
    let mut metrics = TableFile::<MetricRow>::begin(metrics)?;
    let mut latency = TableFile::<LatencyRow>::begin(latency)?;
    let mut attribution = TableFile::<AttributionRow>::begin(attribution)?;
    let mut idle = TableFile::<IdleRow>::begin(idle)?;
    let mut frequency = TableFile::<FrequencyRow>::begin(frequency)?;
    let mut timeline = TableFile::<TimelineRow>::begin(timeline)?;
    for some in folder.run_indices()?.chunks(RUNS_AT_ONCE) {
        let read = |index: &usize| Ok(folder.run(*index, &plan)?.1);
        let runs = some.par_iter().map(read);
        for run in runs.collect::<Result<Vec<RunRecord>, _>>()? {
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

/// One of them, which is there whole or not at all.
struct TableFile<R> {
    path: PathBuf,
    unfinished: Unfinished,
    rows: ResultWriter<R, BufWriter<File>>,
}

impl<R: Row> TableFile<R> {
    fn begin(path: PathBuf) -> Result<Self, ResultsError> {
        let begun = || -> Result<_, TableError> {
            let unfinished = Unfinished::begin(&path)?;
            let rows = ResultWriter::new(BufWriter::new(unfinished.file().try_clone()?))?;
            Ok((unfinished, rows))
        };
        let (unfinished, rows) = begun().map_err(|source| refused(&path, source))?;
        Ok(Self {
            path,
            unfinished,
            rows,
        })
    }

    fn extend(&mut self, rows: impl Iterator<Item = R>) -> Result<(), ResultsError> {
        let extended = self.rows.extend(rows);
        extended.map_err(|source| refused(&self.path, source))
    }

    fn finish(self) -> Result<(), ResultsError> {
        let finished = || -> Result<(), TableError> {
            self.rows.finish()?.flush()?;
            Ok(self.unfinished.finish()?)
        };
        finished().map_err(|source| refused(&self.path, source))
    }
}

fn refused(path: &Path, source: TableError) -> ResultsError {
    ResultsError::Table {
        path: path.to_owned(),
        source,
    }
}
