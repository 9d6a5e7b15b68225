//! Results to compare: a source for each result directory.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use wakepath_results::{Document, MetricRow, ResultReader, ResultsError};

/// Results from one directory.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name of the results beside other sources.
    pub name: String,
    /// Document of the study: its setup and how it ran.
    pub document: Document,
    /// Values of all runs in all metrics.
    pub rows: Vec<MetricRow>,
    /// Texts of machines and workloads at the time of the run, by file name.
    pub files: BTreeMap<String, String>,
}

impl Source {
    /// Reads the values of all runs of a result.
    ///
    /// # Errors
    ///
    /// The result cannot be read.
    pub fn read_result(name: &str, results: &ResultReader) -> Result<Self, ResultsError> {
        Self::new(name, results, results.read_metric_rows()?)
    }

    /// Makes a source from a result and given values.
    ///
    /// # Errors
    ///
    /// A machine or workload that the result copied is no regular file there.
    pub fn new(
        name: &str,
        results: &ResultReader,
        rows: Vec<MetricRow>,
    ) -> Result<Self, ResultsError> {
        let document = results.document().clone();
        let workloads = document.workloads.iter().filter(|w| w.has_copied_source());
        let workload_files = workloads.map(|w| w.source.clone());
        let machine_files = document.machines.iter().map(|m| m.source.clone());
        let mut files = BTreeMap::new();
        for file in workload_files.chain(machine_files) {
            // Results imported from other tools have no copies of machines.
            if let Some(text) = results.read_file_if_present(&file)? {
                files.insert(file, text);
            }
        }
        Ok(Self {
            name: name.to_owned(),
            files,
            document,
            rows,
        })
    }
}

/// Name of a policy beside the policies from other sources.
pub fn name_beside_sources(sources: &[Source], source: &Source, policy: &str) -> String {
    match (sources.len(), source.document.policies.len()) {
        (1, _) => policy.to_owned(),
        (_, 1) => source.name.clone(),
        _ => format!("{}: {policy}", source.name),
    }
}

/// A workload on a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Load {
    /// Machine of the load in results with several machines; otherwise empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// The workload.
    pub workload: String,
}

impl Load {
    /// The load of a machine and workload in a result.
    pub fn new(document: &Document, machine: &str, workload: &str) -> Self {
        let several = document.machines.len() > 1;
        Self {
            machine: if several {
                machine.to_owned()
            } else {
                String::new()
            },
            workload: workload.to_owned(),
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.workload)?;
        match self.machine.as_str() {
            "" => Ok(()),
            machine => write!(f, " ({machine})"),
        }
    }
}
