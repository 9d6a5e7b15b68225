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

/// Reads a result directory. After an interruption the tables have the finished runs. Measurements from other tools can be
/// read in the same way.
#[derive(Clone, Debug)]
pub struct ResultReader {
    dir: PathBuf,
    document: Document,
    runs: Runs,
}

/// The place of the runs.
#[derive(Clone, Debug)]
enum Runs {
    /// In a result directory.
    Stored(Arc<ResultFolder>),
    /// In no directory.
    Imported(Vec<RunRecord>),
}

/// Keys in every schema version.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
    version: Option<u64>,
    #[serde(default)]
    tools: std::collections::BTreeMap<String, serde_json::Value>,
}

fn wrong_content(path: &Path, message: String) -> ResultsError {
    ResultsError::Content {
        path: path.to_owned(),
        message,
    }
}

impl ResultReader {
    /// Reads `result.json`.
    ///
    /// # Errors
    /// No results, or another schema version.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, ResultsError> {
        let dir = dir.into();
        let path = dir.join(DOCUMENT);
        if !path.exists() {
            return Err(ResultsError::NoResults(dir));
        }
        let folder = ResultFolder::open(&dir)?;
        let Some(text) = folder.document()? else {
            return Err(ResultsError::NoResults(dir));
        };
        let head: Head =
            serde_json::from_slice(&text).map_err(|e| wrong_content(&path, e.to_string()))?;
        if head.schema.as_deref() != Some(SCHEMA) {
            return Err(wrong_content(
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
            serde_json::from_slice(&text).map_err(|e| wrong_content(&path, e.to_string()))?;
        folder::check_document(&document, &dir)?;
        Ok(Self {
            dir,
            document,
            runs: Runs::Stored(Arc::new(folder)),
        })
    }

    /// A reader for runs that were imported from `path`.
    pub fn of_runs(path: impl Into<PathBuf>, document: Document, runs: Vec<RunRecord>) -> Self {
        Self {
            dir: path.into(),
            document,
            runs: Runs::Imported(runs),
        }
    }

    /// The directory, or the origin of imported runs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the runs are in no directory, but in memory.
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
    pub fn file(&self, name: &str) -> Result<Option<String>, ResultsError> {
        let Runs::Stored(folder) = &self.runs else {
            return Ok(None);
        };
        if name.is_empty() {
            return Ok(None);
        }
        let text = folder.read_if_there(name)?.map(String::from_utf8);
        text.transpose().map_err(|_| ResultsError::Content {
            path: self.dir.join(name),
            message: "is not UTF-8 text".to_owned(),
        })
    }

    /// Finished runs in planned order.
    ///
    /// # Errors
    /// A file cannot be read, or holds another run than planned.
    pub fn runs(&self) -> Result<Vec<RunRecord>, ResultsError> {
        match &self.runs {
            Runs::Imported(runs) => Ok(runs.clone()),
            Runs::Stored(folder) => {
                let plan = RunPlan::new(&self.document);
                let finished = folder.run_indices()?.into_iter();
                finished
                    .map(|index| Ok(folder.run(index, &plan)?.1))
                    .collect()
            }
        }
    }

    /// Numbers.
    ///
    /// # Errors
    /// The table cannot be read; the same holds for the other tables.
    pub fn metrics(&self) -> Result<Vec<MetricRow>, ResultsError> {
        self.table(0, |run, rows| rows.extend(run.metric_rows()))
    }

    /// Latency histograms.
    ///
    /// # Errors
    /// As [`Self::metrics`].
    pub fn latency(&self) -> Result<Vec<LatencyRow>, ResultsError> {
        self.table(1, |run, rows| rows.extend(run.latency_rows()))
    }

    /// Parts of the latency.
    ///
    /// # Errors
    /// As [`Self::metrics`].
    pub fn attribution(&self) -> Result<Vec<AttributionRow>, ResultsError> {
        self.table(2, |run, rows| rows.extend(run.attribution_rows()))
    }

    /// Idle states.
    ///
    /// # Errors
    /// As [`Self::metrics`].
    pub fn idle(&self) -> Result<Vec<IdleRow>, ResultsError> {
        self.table(3, |run, rows| rows.extend(run.idle_rows()))
    }

    /// Frequencies.
    ///
    /// # Errors
    /// As [`Self::metrics`].
    pub fn frequency(&self) -> Result<Vec<FrequencyRow>, ResultsError> {
        self.table(4, |run, rows| rows.extend(run.frequency_rows()))
    }

    /// Short timelines.
    ///
    /// # Errors
    /// As [`Self::metrics`].
    pub fn timeline(&self) -> Result<Vec<TimelineRow>, ResultsError> {
        self.table(5, |run, rows| rows.extend(run.timeline_rows()))
    }

    /// A table in Arrow's layout: `metrics`, `latency`, `attribution`, `idle`, `frequency` or `timeline`. A finished table is
    /// read in parts.
    ///
    /// # Errors
    /// No such table; as [`Self::metrics`].
    pub fn batches(&self, table: &str) -> Result<Box<dyn RecordBatchReader + Send>, ResultsError> {
        let name = format!("{table}.parquet");
        let path = self.dir.join(&name);
        let index = TABLES.iter().position(|known| *known == name);
        let batches = match (index, &self.runs) {
            (Some(_), Runs::Stored(folder)) if self.document.complete => {
                tables::read_batches(folder.file(&name)?, &self.document)
            }
            (Some(0), _) => tables::in_memory(&self.metrics()?),
            (Some(1), _) => tables::in_memory(&self.latency()?),
            (Some(2), _) => tables::in_memory(&self.attribution()?),
            (Some(3), _) => tables::in_memory(&self.idle()?),
            (Some(4), _) => tables::in_memory(&self.frequency()?),
            (Some(5), _) => tables::in_memory(&self.timeline()?),
            _ => {
                let known = TABLES.map(|name| name.trim_end_matches(".parquet"));
                let message = format!("no such table; there are {}", known.join(", "));
                return Err(ResultsError::Content { path, message });
            }
        };
        batches.map_err(|source| ResultsError::Table { path, source })
    }

    /// A table, made from the finished runs if the study was interrupted.
    fn table<R: Row>(
        &self,
        table: usize,
        add_rows: fn(&RunRecord, &mut Vec<R>),
    ) -> Result<Vec<R>, ResultsError> {
        if let Runs::Stored(folder) = &self.runs
            && self.document.complete
        {
            let file = folder.file(TABLES[table])?;
            return tables::read_table(file, &self.document).map_err(|source| {
                ResultsError::Table {
                    path: self.dir.join(TABLES[table]),
                    source,
                }
            });
        }
        let mut rows = Vec::new();
        match &self.runs {
            Runs::Imported(runs) => runs.iter().for_each(|run| add_rows(run, &mut rows)),
            Runs::Stored(_) => self.runs()?.iter().for_each(|run| add_rows(run, &mut rows)),
        }
        Ok(rows)
    }
}
