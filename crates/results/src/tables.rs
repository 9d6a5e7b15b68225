//! Writing rows as Parquet tables, and reading them.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray};
use arrow_schema::{ArrowError, FieldRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::ChunkReader;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_arrow::schema::{SchemaLike, TracingOptions};

use crate::document::Document;
use crate::metric;
use crate::plan::RunPlan;
use crate::rows::{LARGEST_COUNT, RunKey};

/// Why a table cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The table's file is no Parquet file, or a damaged one.
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    /// A batch of the table's rows cannot be decoded.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// A column of the table is missing, or has another type than the row's field.
    #[error(transparent)]
    Columns(#[from] serde_arrow::Error),
    /// The table's file could not be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A column of the table is missing.
    #[error("no column `{0}`")]
    NoColumn(String),
    /// A row of the table belongs to no planned run.
    #[error(
        "{0}; the table was changed after it was made: `wakepath study run --resume` makes the tables again from the runs"
    )]
    Foreign(String),
}

/// A table's row: a struct with texts and numbers, each field a column.
pub(crate) trait Row: Serialize + DeserializeOwned {}

impl<T: Serialize + DeserializeOwned> Row for T {}

/// The columns of a table, in the order of the row's fields.
fn columns_from_row_fields<R: Row>() -> Result<Vec<FieldRef>, TableError> {
    let options = TracingOptions::default().strings_as_large_utf8(false);
    Ok(Vec::<FieldRef>::from_type::<R>(options)?)
}

/// Number of rows that are encoded at a time, which bounds the memory for writing.
const ROWS_AT_ONCE: usize = 1 << 14;

/// Writes rows as a Parquet file. The same rows make the same bytes, in whatever portions they are given.
pub(crate) struct ParquetWriter<R, W: Write + Send> {
    columns: Vec<FieldRef>,
    waiting: Vec<R>,
    file: ArrowWriter<W>,
}

impl<R: Row, W: Write + Send> ParquetWriter<R, W> {
    pub(crate) fn new(to: W) -> Result<Self, TableError> {
        let columns = columns_from_row_fields::<R>()?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(concat!("wakepath ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let none: &[R] = &[];
        let schema = serde_arrow::to_record_batch(&columns, &none)?.schema();
        Ok(Self {
            columns,
            waiting: Vec::new(),
            file: ArrowWriter::try_new(to, schema, Some(properties))?,
        })
    }

    pub(crate) fn append_rows(
        &mut self,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), TableError> {
        for row in rows {
            self.waiting.push(row);
            if self.waiting.len() == ROWS_AT_ONCE {
                self.encode_buffered_rows()?;
            }
        }
        Ok(())
    }

    fn encode_buffered_rows(&mut self) -> Result<(), TableError> {
        let batch = serde_arrow::to_record_batch(&self.columns, &self.waiting)?;
        self.waiting.clear();
        Ok(self.file.write(&batch)?)
    }

    /// Encodes the remaining rows, ends the file, and returns the underlying writer.
    pub(crate) fn finish_into_inner(mut self) -> Result<W, TableError> {
        if !self.waiting.is_empty() {
            self.encode_buffered_rows()?;
        }
        Ok(self.file.into_inner()?)
    }
}

/// Reads a study's Parquet file as Arrow batches; a row that the document does not plan is an error.
pub(crate) fn checked_batches_from_parquet(
    from: impl ChunkReader + 'static,
    document: &Document,
) -> Result<Box<dyn RecordBatchReader + Send>, TableError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(from)?;
    let reader = builder.with_batch_size(1 << 16).build()?;
    let (schema, check) = (reader.schema(), PlannedRowCheck::new(document));
    let checked = reader.map(move |batch| {
        let batch = batch?;
        let checked = check.check_run_keys_and_numbers(&batch);
        checked.map_err(|error| ArrowError::ExternalError(error.into()))?;
        Ok(batch)
    });
    Ok(Box::new(RecordBatchIterator::new(checked, schema)))
}

/// Arrow batches from rows in memory.
pub(crate) fn batches_from_rows<R: Row>(
    rows: &[R],
) -> Result<Box<dyn RecordBatchReader + Send>, TableError> {
    let batch = serde_arrow::to_record_batch(&columns_from_row_fields::<R>()?, &rows)?;
    let schema = batch.schema();
    Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)))
}

/// Reads all rows of a study's Parquet file; a row that the document does not plan is an error. Columns without a field
/// in `R` are ignored.
pub(crate) fn read_checked_table<R: Row>(
    from: impl ChunkReader + 'static,
    document: &Document,
) -> Result<Vec<R>, TableError> {
    let check = PlannedRowCheck::new(document);
    read_rows_with_batch_check(from, |batch| check.check_run_keys_and_numbers(batch))
}

fn read_rows_with_batch_check<R: Row>(
    from: impl ChunkReader + 'static,
    check: impl Fn(&RecordBatch) -> Result<(), TableError>,
) -> Result<Vec<R>, TableError> {
    let columns = columns_from_row_fields::<R>()?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(from)?;
    let mut rows = Vec::new();
    for batch in builder.with_batch_size(1 << 16).build()? {
        let batch = batch?;
        let known = select_row_columns_allow_old(&batch, &columns)?;
        check(&batch)?;
        let some: Vec<R> = serde_arrow::from_record_batch(&known)?;
        rows.extend(some);
    }
    Ok(rows)
}

/// Checks that a batch's rows belong to planned runs.
struct PlannedRowCheck(RunPlan);

impl PlannedRowCheck {
    fn new(document: &Document) -> Self {
        Self(RunPlan::new(document))
    }

    fn check_run_keys_and_numbers(&self, batch: &RecordBatch) -> Result<(), TableError> {
        let machines = require_text_column(batch, "machine")?;
        let workloads = require_text_column(batch, "workload")?;
        let policies = require_text_column(batch, "policy")?;
        let repeats = batch
            .column_by_name("repeat")
            .and_then(|column| column.as_primitive_opt::<UInt32Type>());
        let mut before: Option<RunKey> = None;
        for row in 0..batch.num_rows() {
            let repeat = repeats.map_or(0, |repeats| repeats.value(row));
            let is_repeated = before.as_ref().is_some_and(|key| {
                key.repeat == repeat
                    && key.policy == policies.value(row)
                    && key.workload == workloads.value(row)
                    && key.machine == machines.value(row)
            });
            if is_repeated {
                continue;
            }
            let key = RunKey {
                machine: machines.value(row).to_owned(),
                workload: workloads.value(row).to_owned(),
                policy: policies.value(row).to_owned(),
                repeat,
            };
            if !self.0.has_run_in_any_shard(&key) {
                return Err(TableError::Foreign(format!(
                    "has a row of {key}, which the study does not have"
                )));
            }
            before = Some(key);
        }
        check_number_ranges(batch)
            .map_err(|why| TableError::Foreign(format!("has a row where {why}")))
    }
}

/// A batch's text column by name.
fn require_text_column<'a>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a StringArray, TableError> {
    let column = batch.column_by_name(name);
    column
        .and_then(|column| column.as_string_opt::<i32>())
        .ok_or_else(|| TableError::NoColumn(name.to_owned()))
}

/// Checks that all numbers of a batch are finite and within the accepted ranges.
fn check_number_ranges(batch: &RecordBatch) -> Result<(), String> {
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let name = field.name();
        if let Some(numbers) = column.as_primitive_opt::<UInt64Type>()
            && name != "seed"
            && let Some(wrong) = numbers.iter().flatten().find(|n| *n > LARGEST_COUNT)
        {
            return Err(format!("{name} is {wrong}, which is no result"));
        }
        if let Some(numbers) = column.as_primitive_opt::<Float64Type>() {
            for number in numbers.iter().flatten() {
                metric::check_metric_value(name, number)?;
            }
        }
    }
    let metrics = batch
        .column_by_name("metric")
        .and_then(|column| column.as_string_opt::<i32>());
    let values = batch
        .column_by_name("value")
        .and_then(|column| column.as_primitive_opt::<Float64Type>());
    if let (Some(metrics), Some(values)) = (metrics, values) {
        for (name, value) in metrics.iter().zip(values.iter()) {
            metric::check_metric_value(name.unwrap_or_default(), value.unwrap_or(0.0))?;
        }
    }
    Ok(())
}

fn select_row_columns_allow_old(
    batch: &RecordBatch,
    columns: &[FieldRef],
) -> Result<RecordBatch, TableError> {
    let schema = batch.schema();
    let mut known = Vec::with_capacity(columns.len());
    for column in columns {
        match schema.index_of(column.name()) {
            Ok(index) => known.push(index),
            // A table older than a nullable column lacks the column.
            Err(_) if column.is_nullable() => {}
            Err(_) => return Err(TableError::NoColumn(column.name().clone())),
        }
    }
    Ok(batch.project(&known)?)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use serde::Deserialize;

    use super::*;

    /// A column that always has a number.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Full {
        number: f64,
    }

    /// The same since it may be unknown.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Holes {
        number: Option<f64>,
    }

    fn write<R: Row>(to: &File, rows: impl IntoIterator<Item = R>) {
        let mut writer = ParquetWriter::new(to).unwrap();
        writer.append_rows(rows).unwrap();
        writer.finish_into_inner().unwrap();
    }

    /// More rows than are encoded at a time.
    #[test]
    fn rows_come_back_in_their_order_and_their_parts_leave_no_trace() {
        let rows: Vec<Full> = (0..ROWS_AT_ONCE * 2 + 3)
            .map(|n| Full { number: n as f64 })
            .collect();
        let whole = tempfile::tempfile().unwrap();
        write(&whole, rows.clone());
        assert_eq!(
            read_rows_with_batch_check::<Full>(whole, |_| Ok(())).unwrap(),
            rows
        );
        let bytes = |size: usize| {
            let mut writer = ParquetWriter::new(Vec::new()).unwrap();
            for part in rows.chunks(size) {
                writer.append_rows(part.iter().cloned()).unwrap();
            }
            writer.finish_into_inner().unwrap()
        };
        assert!(bytes(1000) == bytes(rows.len()));
    }

    #[test]
    fn a_number_may_be_unknown_and_old_tables_without_holes_are_read() {
        let file = tempfile::tempfile().unwrap();
        let rows = [Some(0.5), None].map(|number| Holes { number });
        write(&file, rows.clone());
        assert_eq!(
            read_rows_with_batch_check::<Holes>(file, |_| Ok(())).unwrap(),
            rows
        );
        let old = tempfile::tempfile().unwrap();
        write(&old, [Full { number: 0.0 }]);
        let known = Holes { number: Some(0.0) };
        assert_eq!(
            read_rows_with_batch_check::<Holes>(old, |_| Ok(())).unwrap(),
            [known]
        );
    }

    #[test]
    fn old_tables_without_a_column_that_may_be_unknown_are_read() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Newer {
            number: f64,
            #[serde(default)]
            later: Option<u64>,
        }
        let old = tempfile::tempfile().unwrap();
        write(&old, [Full { number: 0.5 }]);
        let number = 0.5;
        assert_eq!(
            read_rows_with_batch_check::<Newer>(old, |_| Ok(())).unwrap(),
            [Newer {
                number,
                later: None
            }]
        );
    }

    #[test]
    fn a_missing_column_is_named() {
        #[derive(Debug, Serialize, Deserialize)]
        struct Letter {
            letter: String,
        }
        let file = tempfile::tempfile().unwrap();
        write(&file, [Full { number: 0.0 }]);
        let error = read_rows_with_batch_check::<Letter>(file, |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "no column `letter`");
    }
}
