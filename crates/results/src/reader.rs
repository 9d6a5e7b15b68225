//! Reading a result directory.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatchReader;
use serde::Deserialize;

use crate::directory::{DOCUMENT, RUNS, ResultsError, at, run_index, run_path};
use crate::document::{Document, SCHEMA, VERSION};
use crate::rows::{
    AttributionRow, FrequencyRow, IdleRow, LatencyRow, MetricRow, RunRecord, TimelineRow,
};
use crate::tables::{self, Row};

/// The Parquet tables: metrics, latency, attribution, idle, frequency, timeline.
pub(crate) const TABLES: [&str; 6] = [
    "metrics.parquet",
    "latency.parquet",
    "attribution.parquet",
    "idle.parquet",
    "frequency.parquet",
    "timeline.parquet",
];

/// Reads a result directory, also one whose study was interrupted: then the tables have the runs that were finished.
/// What another tool has measured can be read in the same way.
#[derive(Clone, Debug)]
pub struct ResultReader {
    dir: PathBuf,
    document: Document,
    /// Runs that no directory has.
    imported: Option<Vec<RunRecord>>,
}

/// What any version has.
#[derive(Deserialize)]
struct Head {
    schema: Option<String>,
    version: Option<u64>,
    #[serde(default)]
    tools: std::collections::BTreeMap<String, serde_json::Value>,
}

impl ResultReader {
    /// Reads `result.json`.
    ///
    /// # Errors
    /// No results there, or of another schema version.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, ResultsError> {
        let dir = dir.into();
        let path = dir.join(DOCUMENT);
        if !path.exists() {
            return Err(ResultsError::NoResults(dir));
        }
        let text = fs::read(&path).map_err(at(&path))?;
        let content = |message: String| ResultsError::Content {
            path: path.clone(),
            message,
        };
        let head: Head = serde_json::from_slice(&text).map_err(|e| content(e.to_string()))?;
        if head.schema.as_deref() != Some(SCHEMA) {
            return Err(content(format!("its `schema` is not `{SCHEMA}`")));
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
        let document = serde_json::from_slice(&text).map_err(|e| content(e.to_string()))?;
        Ok(Self {
            dir,
            document,
            imported: None,
        })
    }

    /// Runs that were imported from `path`, as if a result directory held them.
    pub fn of_runs(path: impl Into<PathBuf>, document: Document, runs: Vec<RunRecord>) -> Self {
        Self {
            dir: path.into(),
            document,
            imported: Some(runs),
        }
    }

    /// The directory; of imported runs what they were read from.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the runs are in no directory, but in memory.
    pub fn is_in_memory(&self) -> bool {
        self.imported.is_some()
    }

    /// `result.json`.
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// A file that was copied in, such as `study.toml`, `machine.toml` or `workloads/...`.
    ///
    /// # Errors
    /// It is not there, or not UTF-8.
    pub fn file(&self, name: &str) -> Result<String, ResultsError> {
        let path = self.dir.join(name);
        if self.imported.is_some() {
            // The directory is only a name: what is found there belongs to something else.
            return Err(at(&path)(io::Error::from(io::ErrorKind::NotFound)));
        }
        fs::read_to_string(&path).map_err(at(&path))
    }

    /// The finished runs, in the order of their plan.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn runs(&self) -> Result<Vec<RunRecord>, ResultsError> {
        match &self.imported {
            Some(runs) => Ok(runs.clone()),
            None => runs(&self.dir),
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

    /// What latencies are made of.
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

    /// Timelines of a few milliseconds.
    ///
    /// # Errors
    /// As [`Self::metrics`].
    pub fn timeline(&self) -> Result<Vec<TimelineRow>, ResultsError> {
        self.table(5, |run, rows| rows.extend(run.timeline_rows()))
    }

    /// A table of these, in Arrow's layout: `metrics`, `latency`, `attribution`, `idle`, `frequency`, `timeline`. That of
    /// finished results is read a part at a time.
    ///
    /// # Errors
    /// No such table; as [`Self::metrics`].
    pub fn batches(&self, table: &str) -> Result<Box<dyn RecordBatchReader + Send>, ResultsError> {
        let path = self.dir.join(format!("{table}.parquet"));
        let index = TABLES.iter().position(|name| path.ends_with(name));
        let batches = match index {
            Some(_) if self.imported.is_none() && self.document.complete => {
                tables::batches(File::open(&path).map_err(at(&path))?)
            }
            Some(0) => tables::in_memory(&self.metrics()?),
            Some(1) => tables::in_memory(&self.latency()?),
            Some(2) => tables::in_memory(&self.attribution()?),
            Some(3) => tables::in_memory(&self.idle()?),
            Some(4) => tables::in_memory(&self.frequency()?),
            Some(5) => tables::in_memory(&self.timeline()?),
            _ => {
                let known = TABLES.map(|name| name.trim_end_matches(".parquet"));
                let message = format!("no such table; there are {}", known.join(", "));
                return Err(ResultsError::Content { path, message });
            }
        };
        batches.map_err(|source| ResultsError::Table { path, source })
    }

    /// A table; of an interrupted study, what it will have been made of.
    fn table<R: Row>(
        &self,
        table: usize,
        of_run: fn(&RunRecord, &mut Vec<R>),
    ) -> Result<Vec<R>, ResultsError> {
        if let Some(runs) = &self.imported {
            let mut rows = Vec::new();
            for run in runs {
                of_run(run, &mut rows);
            }
            return Ok(rows);
        }
        if !self.document.complete {
            let mut rows = Vec::new();
            for run in runs(&self.dir)? {
                of_run(&run, &mut rows);
            }
            return Ok(rows);
        }
        let path = self.dir.join(TABLES[table]);
        let file = File::open(&path).map_err(at(&path))?;
        tables::read(file).map_err(|source| ResultsError::Table { path, source })
    }
}

/// The finished runs of a directory, in the order of their plan.
fn runs(dir: &Path) -> Result<Vec<RunRecord>, ResultsError> {
    let finished = run_indices(dir)?.into_iter();
    finished
        .map(|index| read_run(&run_path(dir, index)))
        .collect()
}

/// The indices of the finished runs of a directory, in their order. It is read once: to ask for each of millions of files
/// would take minutes on a network.
pub(crate) fn run_indices(dir: &Path) -> Result<Vec<usize>, ResultsError> {
    let folder = dir.join(RUNS);
    let mut indices: Vec<usize> = Vec::new();
    for entry in fs::read_dir(&folder).map_err(at(&folder))? {
        let name = entry.map_err(at(&folder))?.file_name();
        indices.extend(name.to_str().and_then(run_index));
    }
    indices.sort_unstable();
    Ok(indices)
}

pub(crate) fn read_run(path: &Path) -> Result<RunRecord, ResultsError> {
    let text = fs::read(path).map_err(at(path))?;
    serde_json::from_slice(&text).map_err(|e| ResultsError::Content {
        path: path.to_owned(),
        message: e.to_string(),
    })
}
