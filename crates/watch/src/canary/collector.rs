//! Collects measurements from files: Prometheus' JSON, or CSV with times.

use std::path::Path;

use super::metric::CanaryMetric;
use super::samples::{BucketUnit, SampleStore, content_error};
use super::series::FleetSeries;
use super::{CanaryError, prometheus, table};

/// Largest accepted file in bytes.
const MAX_BYTES: u64 = 512 << 20;

/// Collects the series of a fleet from several files.
#[derive(Clone, Debug)]
pub struct SeriesCollector {
    samples: SampleStore,
}

impl SeriesCollector {
    /// A collector for a metric. `machine_label` is Prometheus' label with the machine's name, `unit` the unit of `le`.
    /// `change_s`: when machines were changed, in seconds since 1970; a counter's step over this moment is left out.
    pub fn new(
        metric: CanaryMetric,
        machine_label: &str,
        unit: BucketUnit,
        change_s: Option<i64>,
    ) -> Self {
        Self {
            samples: SampleStore::new(metric, machine_label, unit, change_s),
        }
    }

    /// Adds a file: Prometheus' answer to `query_range`, or CSV with a header.
    ///
    /// # Errors
    /// The file cannot be read, has other content, or has percentiles instead of histograms.
    pub fn add_file(&mut self, path: &Path) -> Result<(), CanaryError> {
        let bytes = wakepath_files::read_file_up_to(path, MAX_BYTES).map_err(|source| {
            CanaryError::Read {
                path: path.to_owned(),
                source,
            }
        })?;
        let text = wakepath_units::pasted::decode_text_strictly(bytes)
            .map_err(|_| content_error(path, "is no text; expected Prometheus' JSON or CSV"))?;
        let start = text.trim_start();
        if start.is_empty() {
            return Err(content_error(
                path,
                "is empty; expected Prometheus' JSON or CSV",
            ));
        }
        if start.starts_with('{') {
            prometheus::add_query_range(&mut self.samples, path, &text)
        } else {
            table::add_csv(&mut self.samples, path, &text)
        }
    }

    /// Puts the series of all machines together.
    ///
    /// # Errors
    /// Percentiles were asked for and no histogram was found; impossible times; too many machines.
    pub fn finish(self) -> Result<FleetSeries, CanaryError> {
        self.samples.finish()
    }
}
