//! Reading a result directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatchReader;
use serde::Deserialize;

use crate::document::{Document, SCHEMA, VERSION};
use crate::error::ResultsError;
use crate::folder::{self, ResultFolder};
use crate::layout::{DOCUMENT, TABLES};
use crate::plan::RunPlan;
use crate::rows::{AttributionRow, FrequencyRow, IdleRow, LatencyRow, MetricRow, TimelineRow};
use crate::run_record::RunRecord;
use crate::tables::{self, Row};

/// Reads a result directory. An interrupted study's tables are made from the finished runs. Runs imported from other
/// tools can be read in the same way.
#[derive(Clone, Debug)]
pub struct ResultReader {
    dir: PathBuf,
    document: Document,
    runs: Runs,
}

/// Where the runs are: in a directory, or in memory.
#[derive(Clone, Debug)]
enum Runs {
    /// The runs are files in a result directory.
    Stored(Arc<ResultFolder>),
    /// In no directory.
    Imported(Vec<RunRecord>),
}

/// Keys of `result.json` that every schema version has.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
    version: Option<u64>,
    #[serde(default)]
    tools: std::collections::BTreeMap<String, serde_json::Value>,
}

fn content_error(path: &Path, message: String) -> ResultsError {
    ResultsError::Content {
        path: path.to_owned(),
        message,
    }
}

impl ResultReader {
    /// Opens a result directory and reads its `result.json`.
    ///
    /// # Errors
    /// There are no results, or they have another schema version.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, ResultsError> {
        let dir = dir.into();
        let path = dir.join(DOCUMENT);
        if !path.exists() {
            return Err(ResultsError::NoResults(dir));
        }
        let folder = ResultFolder::open(&dir)?;
        let Some(text) = folder.read_document_bytes_if_present()? else {
            return Err(ResultsError::NoResults(dir));
        };
        let head: Head =
            serde_json::from_slice(&text).map_err(|e| content_error(&path, e.to_string()))?;
        if head.schema.as_deref() != Some(SCHEMA) {
            return Err(content_error(
                &path,
                format!("its `schema` is not `{SCHEMA}`"),
            ));
        }
        let found = head.version.unwrap_or(0);
        if found != u64::from(VERSION) {
            let writer = head.tools.get("wakepath").and_then(|v| v.as_str());
            return Err(ResultsError::Version {
                path,
                found,
                writer: writer.unwrap_or("unknown").to_owned(),
            });
        }
        let document =
            serde_json::from_slice(&text).map_err(|e| content_error(&path, e.to_string()))?;
        folder::check_document_values(&document, &dir)?;
        Ok(Self {
            dir,
            document,
            runs: Runs::Stored(Arc::new(folder)),
        })
    }

    /// A reader for runs in memory that were imported from `path`.
    pub fn for_imported_runs(
        path: impl Into<PathBuf>,
        document: Document,
        runs: Vec<RunRecord>,
    ) -> Self {
        Self {
            dir: path.into(),
            document,
            runs: Runs::Imported(runs),
        }
    }

    /// Path of the result directory, or of the file that runs were imported from.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the runs are in memory, and not in a result directory.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.runs, Runs::Imported(_))
    }

    /// `result.json`.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// A copied file, such as `study.toml`, `machine.toml` or `workloads/...`; `None` without such a file, as in imported
    /// results.
    ///
    /// # Errors
    /// No regular file in the directory, or no UTF-8.
    pub fn read_file_if_present(&self, name: &str) -> Result<Option<String>, ResultsError> {
        let Runs::Stored(folder) = &self.runs else {
            return Ok(None);
        };
        if name.is_empty() {
            return Ok(None);
        }
        let text = folder.read_if_present(name)?.map(String::from_utf8);
        text.transpose().map_err(|_| ResultsError::Content {
            path: self.dir.join(name),
            message: "is not UTF-8 text".to_owned(),
        })
    }

    /// Reads all finished runs, in planned order.
    ///
    /// # Errors
    /// A file cannot be read, or holds another run than planned.
    pub fn read_runs(&self) -> Result<Vec<RunRecord>, ResultsError> {
        match &self.runs {
            Runs::Imported(runs) => Ok(runs.clone()),
            Runs::Stored(folder) => {
                let plan = RunPlan::new(&self.document);
                let finished = folder.finished_run_indices()?.into_iter();
                finished
                    .map(|index| Ok(folder.read_run_checked_by_plan(index, &plan)?.1))
                    .collect()
            }
        }
    }

    /// Reads the table of metrics.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn read_metric_rows(&self) -> Result<Vec<MetricRow>, ResultsError> {
        self.read_table_or_make_rows(0, |run, rows| rows.extend(run.metric_rows()))
    }

    /// Reads the table of latency histograms.
    ///
    /// # Errors
    /// As [`Self::read_metric_rows`].
    pub fn read_latency_rows(&self) -> Result<Vec<LatencyRow>, ResultsError> {
        self.read_table_or_make_rows(1, |run, rows| rows.extend(run.latency_rows()))
    }

    /// Reads the table of attribution: the parts of the latency.
    ///
    /// # Errors
    /// As [`Self::read_metric_rows`].
    pub fn read_attribution_rows(&self) -> Result<Vec<AttributionRow>, ResultsError> {
        self.read_table_or_make_rows(2, |run, rows| rows.extend(run.attribution_rows()))
    }

    /// Reads the table of idle states.
    ///
    /// # Errors
    /// As [`Self::read_metric_rows`].
    pub fn read_idle_rows(&self) -> Result<Vec<IdleRow>, ResultsError> {
        self.read_table_or_make_rows(3, |run, rows| rows.extend(run.idle_rows()))
    }

    /// Reads the table of frequencies.
    ///
    /// # Errors
    /// As [`Self::read_metric_rows`].
    pub fn read_frequency_rows(&self) -> Result<Vec<FrequencyRow>, ResultsError> {
        self.read_table_or_make_rows(4, |run, rows| rows.extend(run.frequency_rows()))
    }

    /// Reads the table of short timelines.
    ///
    /// # Errors
    /// As [`Self::read_metric_rows`].
    pub fn read_timeline_rows(&self) -> Result<Vec<TimelineRow>, ResultsError> {
        self.read_table_or_make_rows(5, |run, rows| rows.extend(run.timeline_rows()))
    }

    /// Reads a table as Arrow batches: `metrics`, `latency`, `attribution`, `idle`, `frequency` or `timeline`. A
    /// finished table is read in parts.
    ///
    /// # Errors
    /// There is no such table; else as [`Self::read_metric_rows`].
    pub fn read_record_batches(
        &self,
        table: &str,
    ) -> Result<Box<dyn RecordBatchReader + Send>, ResultsError> {
        let name = format!("{table}.parquet");
        let path = self.dir.join(&name);
        let index = TABLES.iter().position(|known| *known == name);
        let batches = match (index, &self.runs) {
            (Some(_), Runs::Stored(folder)) if self.document.complete => {
                tables::checked_batches_from_parquet(folder.open_file(&name)?, &self.document)
            }
            (Some(0), _) => tables::batches_from_rows(&self.read_metric_rows()?),
            (Some(1), _) => tables::batches_from_rows(&self.read_latency_rows()?),
            (Some(2), _) => tables::batches_from_rows(&self.read_attribution_rows()?),
            (Some(3), _) => tables::batches_from_rows(&self.read_idle_rows()?),
            (Some(4), _) => tables::batches_from_rows(&self.read_frequency_rows()?),
            (Some(5), _) => tables::batches_from_rows(&self.read_timeline_rows()?),
            _ => {
                let known = TABLES.map(|name| name.trim_end_matches(".parquet"));
                let message = format!("no such table; there are {}", known.join(", "));
                return Err(ResultsError::Content { path, message });
            }
        };
        batches.map_err(|source| ResultsError::Table { path, source })
    }

    /// Reads a table; for interrupted studies and runs in memory makes its rows from the finished runs.
    fn read_table_or_make_rows<R: Row>(
        &self,
        table: usize,
        add_rows: fn(&RunRecord, &mut Vec<R>),
    ) -> Result<Vec<R>, ResultsError> {
        if let Runs::Stored(folder) = &self.runs
            && self.document.complete
        {
            let file = folder.open_file(TABLES[table])?;
            return tables::read_checked_table(file, &self.document).map_err(|source| {
                ResultsError::Table {
                    path: self.dir.join(TABLES[table]),
                    source,
                }
            });
        }
        let mut rows = Vec::new();
        match &self.runs {
            Runs::Imported(runs) => runs.iter().for_each(|run| add_rows(run, &mut rows)),
            Runs::Stored(_) => self
                .read_runs()?
                .iter()
                .for_each(|run| add_rows(run, &mut rows)),
        }
        Ok(rows)
    }
}
