//! Reads a recording, a batch of rows at a time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Repetition, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::ChunkReader;
use parquet::file::statistics::Statistics;
use wakepath_units::Nanoseconds;

use super::error::{METADATA_KEY, RecordingError, unfinished_tail_path};
use super::headers::{
    FOOTER, check_table_of_contents, check_table_structure, table_length_from_footer,
};
use super::pages::open_checked_pages;
use super::rows::{Columns, PackedIdlePeriod, SHORT, long_and_short_columns_of_schema};
use super::{Event, Metadata, SCHEMA};
use crate::file_kind::{FileKind, KIND_BYTES};

/// Longest table of contents beside an unfinished recording, in bytes.
const MAX_TAIL: u64 = 256 << 20;
/// Number of rows in a batch: as many as fit the processor's caches.
const BATCH: usize = 4096;

/// Reads a recording, finished or not.
pub struct Reader<R: ChunkReader = File> {
    path: PathBuf,
    input: Arc<R>,
    parquet: ParquetMetaData,
    metadata: Metadata,
    next_group: usize,
    group: Option<RowGroupReader>,
    columns: Columns,
}

/// Columns of the current row group.
struct RowGroupReader {
    rows_left: usize,
    long: Vec<ColumnReaderImpl<Int64Type>>,
    short: Vec<ColumnReaderImpl<Int32Type>>,
}

/// What visits a recording's events fast: it takes idle periods as they are stored.
pub trait Visitor {
    /// The visitor's error.
    type Error: From<RecordingError>;

    /// Takes an idle period of a CPU, with the period's end time.
    fn visit_idle_period(
        &mut self,
        end: Nanoseconds,
        cpu: u32,
        period: &PackedIdlePeriod,
    ) -> Result<(), Self::Error>;

    /// Any other event.
    fn visit_other_event(&mut self, event: &Event) -> Result<(), Self::Error>;
}

/// A batch of events in file order.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    columns: &'a Columns,
    path: &'a Path,
}

impl Batch<'_> {
    /// Number of events.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether the batch has no events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands each event to `each`, stopping at an error.
    ///
    /// # Errors
    /// An error from `each`, or a row without a meaning.
    #[inline]
    pub fn for_each_event<E: From<RecordingError>>(
        &self,
        mut each: impl FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        for i in 0..self.len() {
            match self.columns.decode_row(i) {
                Some(event) => each(event)?,
                None => return Err(self.meaningless_row_error(i).into()),
            }
        }
        Ok(())
    }

    /// Hands each event to `visitor`, stopping at an error.
    ///
    /// # Errors
    /// An error from the visitor, or a row without a meaning.
    #[inline]
    pub fn visit_events<V: Visitor>(&self, visitor: &mut V) -> Result<(), V::Error> {
        let rows = self.len();
        let idle = self.columns.idle_columns_of_first_rows(rows);
        let all_possible = idle.all_rows_have_valid_numbers();
        for i in 0..rows {
            if !idle.is_idle_row(i) {
                match self.columns.decode_row(i) {
                    Some(event) => visitor.visit_other_event(&event)?,
                    None => return Err(self.meaningless_row_error(i).into()),
                }
            } else if all_possible || idle.row_has_valid_numbers(i) {
                let (end, cpu) = idle.end_and_cpu_of_row(i);
                visitor.visit_idle_period(end, cpu, &idle.idle_period_in_row(i))?;
            } else {
                return Err(self.meaningless_row_error(i).into());
            }
        }
        Ok(())
    }

    #[cold]
    fn meaningless_row_error(&self, i: usize) -> RecordingError {
        let numbers: Vec<String> = SHORT
            .iter()
            .zip(&self.columns.short)
            .map(|(name, column)| format!("{name} {}", column[i]))
            .collect();
        RecordingError::Format {
            path: self.path.to_owned(),
            problem: format!(
                "the row at {} ns is no event this version knows ({})",
                self.columns.long[0][i],
                numbers.join(", ")
            ),
        }
    }
}

impl Reader {
    /// Opens the recording `path`. An unfinished recording is read up to the writer's last flush, with help from the
    /// file beside it.
    ///
    /// # Errors
    /// The file cannot be read, is no Parquet file, is damaged, or is not a recording.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let input = wakepath_files::open_regular_file(path)
            .map_err(RecordingError::io_error_with_path(path))?;
        let tail = match wakepath_files::read_file_up_to(&unfinished_tail_path(path), MAX_TAIL) {
            Ok(bytes) => Some(Bytes::from(bytes)),
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => None,
            Err(cause) => {
                return Err(RecordingError::io_error_with_path(&unfinished_tail_path(
                    path,
                ))(cause));
            }
        };
        Self::new(input, tail.as_ref(), path)
    }
}

impl<R: ChunkReader + 'static> Reader<R> {
    /// Reads a recording from `input`, with the table of contents beside an unfinished file;
    /// errors name `path_for_errors`.
    pub fn new(
        input: R,
        table_beside_file: Option<&Bytes>,
        path_for_errors: &Path,
    ) -> Result<Self, RecordingError> {
        let error = RecordingError::parquet_error_with_path(path_for_errors);
        let whole = check_table_of_contents(&input)
            .and_then(|()| ParquetMetaDataReader::new().parse_and_finish(&input));
        let (parquet, finished) = match (whole, table_beside_file) {
            (Ok(parquet), _) => (parquet, true),
            (Err(_), Some(tail)) => (read_table_from_tail(tail).map_err(&error)?, false),
            (Err(_), None) if !begins_as_parquet(&input) => {
                return Err(foreign_file_error(path_for_errors));
            }
            (Err(cause), None) => {
                return Err(unfinished_without_tail_error(path_for_errors, &cause));
            }
        };
        let mut metadata = read_metadata_of_known_version(&parquet, path_for_errors)?;
        check_column_names_and_types(&parquet, metadata.schema, path_for_errors)?;
        check_columns_lie_in_file(&parquet, input.len(), path_for_errors)?;
        metadata.complete &= finished;
        if !finished {
            metadata.add_or_count_warning("unfinished", || {
                "whoever wrote this recording did not finish it; the last seconds may be missing"
                    .to_owned()
            });
        }
        Ok(Self {
            path: path_for_errors.to_owned(),
            input: Arc::new(input),
            parquet,
            metadata,
            next_group: 0,
            group: None,
            columns: Columns::default(),
        })
    }

    /// What the recording says about the machine and about itself.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Number of events.
    pub fn event_count(&self) -> u64 {
        self.parquet.file_metadata().num_rows().max(0) as u64
    }

    /// Start and end of the recording in time: the first and last event, or the source's own span if longer. Rewinds to
    /// the first event. `None`: no events.
    ///
    /// # Errors
    /// A file from another writer lacks the time range, and its times cannot be read.
    pub fn time_range_and_rewind(
        &mut self,
    ) -> Result<Option<(Nanoseconds, Nanoseconds)>, RecordingError> {
        let (first, last) = if let Some(extent) = self.time_range_in_table_of_contents() {
            self.rewind_to_first_event();
            extent
        } else {
            self.time_range_of_all_events()?
        };
        let [first, last] = [first, last].map(|time| time.max(0) as u64);
        let [begins, ends] = self.metadata().span_ns.unwrap_or([first, last]);
        let extent = (first.min(begins), last.max(ends));
        Ok((first <= last).then_some((Nanoseconds(extent.0), Nanoseconds(extent.1))))
    }

    /// The time range of the recording, found by reading all events.
    pub(super) fn time_range_of_all_events(&mut self) -> Result<(i64, i64), RecordingError> {
        self.rewind_to_first_event();
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        while let Some(batch) = self.next_batch()? {
            for time in &batch.columns.long[0] {
                first = first.min(*time);
                last = last.max(*time);
            }
        }
        self.rewind_to_first_event();
        Ok((first, last))
    }

    /// The time range of the recording according to the table of contents.
    pub(super) fn time_range_in_table_of_contents(&self) -> Option<(i64, i64)> {
        let mut extent = (i64::MAX, i64::MIN);
        for group in self.parquet.row_groups() {
            let Some(Statistics::Int64(times)) = group.columns().first()?.statistics() else {
                return None;
            };
            extent.0 = extent.0.min(*times.min_opt()?);
            extent.1 = extent.1.max(*times.max_opt()?);
        }
        Some(extent)
    }

    /// Goes back to the first event.
    pub fn rewind_to_first_event(&mut self) {
        self.next_group = 0;
        self.group = None;
        self.columns.clear();
    }

    /// Reads the next batch of events; `None` after the last one.
    pub fn next_batch(&mut self) -> Result<Option<Batch<'_>>, RecordingError> {
        let error = RecordingError::parquet_error_with_path(&self.path);
        let rows = loop {
            if let Some(group) = &mut self.group
                && group.rows_left > 0
            {
                break group.read_batch_into(&mut self.columns).map_err(&error)?;
            }
            if self.next_group >= self.parquet.num_row_groups() {
                return Ok(None);
            }
            self.group = Some(self.open_row_group(self.next_group).map_err(&error)?);
            self.next_group += 1;
        };
        debug_assert_eq!(rows, self.columns.len());
        Ok(Some(Batch {
            columns: &self.columns,
            path: &self.path,
        }))
    }

    /// Hands each event to `each`, stopping at an error.
    pub fn for_each_event<E: From<RecordingError>>(
        &mut self,
        mut each: impl FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(batch) = self.next_batch()? {
            batch.for_each_event(&mut each)?;
        }
        Ok(())
    }

    fn open_row_group(&self, index: usize) -> Result<RowGroupReader, ParquetError> {
        let metadata = self.parquet.row_group(index);
        let rows = usize::try_from(metadata.num_rows())
            .map_err(|_| ParquetError::General("a negative number of rows".to_owned()))?;
        let mut long = Vec::new();
        let mut short = Vec::new();
        let (long_names, short_names) = long_and_short_columns_of_schema(self.metadata.schema);
        for column in 0..long_names.len() + short_names.len() {
            let metadata = metadata.column(column);
            let pages = open_checked_pages(&self.input, metadata, rows)?;
            let description = metadata.column_descr_ptr();
            match get_column_reader(description, Box::new(pages)) {
                ColumnReader::Int64ColumnReader(reader) if column < long_names.len() => {
                    long.push(reader);
                }
                ColumnReader::Int32ColumnReader(reader) if column >= long_names.len() => {
                    short.push(reader);
                }
                _ => {
                    return Err(ParquetError::General(
                        "a column of an unexpected type".to_owned(),
                    ));
                }
            }
        }
        Ok(RowGroupReader {
            rows_left: rows,
            long,
            short,
        })
    }
}

impl RowGroupReader {
    fn read_batch_into(&mut self, columns: &mut Columns) -> Result<usize, ParquetError> {
        columns.clear();
        let rows = self.rows_left.min(BATCH);
        for (reader, values) in self.long.iter_mut().zip(&mut columns.long) {
            fill_values_to_row_count(reader, values, rows)?;
        }
        for (reader, values) in self.short.iter_mut().zip(&mut columns.short) {
            fill_values_to_row_count(reader, values, rows)?;
        }
        // Columns that the file's version does not have are filled with 0.
        for values in columns.long.iter_mut().skip(self.long.len()) {
            values.resize(rows, 0);
        }
        for values in columns.short.iter_mut().skip(self.short.len()) {
            values.resize(rows, 0);
        }
        self.rows_left -= rows;
        Ok(rows)
    }
}

fn fill_values_to_row_count<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    values: &mut Vec<T::T>,
    rows: usize,
) -> Result<(), ParquetError> {
    while values.len() < rows {
        let (_, read, _) = reader.read_records(rows - values.len(), None, None, values)?;
        if read == 0 {
            return Err(ParquetError::General(
                "a column has fewer rows than the file says".to_owned(),
            ));
        }
    }
    Ok(())
}

fn begins_as_parquet(input: &impl ChunkReader) -> bool {
    let length = input.len().min(KIND_BYTES as u64) as usize;
    input
        .get_bytes(0, length)
        .is_ok_and(|bytes| FileKind::detect(&bytes) == FileKind::Recording)
}

fn foreign_file_error(path: &Path) -> RecordingError {
    RecordingError::Format {
        path: path.to_owned(),
        problem: format!(
            "no recording, nor any Parquet file; `wakepath import {} -o load.parquet` makes a recording of what trace-cmd or perf wrote",
            path.display()
        ),
    }
}

fn unfinished_without_tail_error(path: &Path, cause: &ParquetError) -> RecordingError {
    RecordingError::Format {
        path: path.to_owned(),
        problem: format!(
            "no finished Parquet file ({cause}), and no {} beside it to recover it with",
            unfinished_tail_path(path).display()
        ),
    }
}

fn tail_cut_off_error() -> ParquetError {
    ParquetError::General("the file beside it, .tail, is cut off".to_owned())
}

/// Reads the table of contents beside an unfinished file.
fn read_table_from_tail(tail: &Bytes) -> Result<ParquetMetaData, ParquetError> {
    let end = tail
        .len()
        .checked_sub(FOOTER)
        .ok_or_else(tail_cut_off_error)?;
    let length = table_length_from_footer(&tail[end..]);
    let start = end.checked_sub(length).ok_or_else(tail_cut_off_error)?;
    check_table_structure(&tail[start..end])?;
    ParquetMetaDataReader::decode_metadata(&tail[start..end])
}

fn read_metadata_of_known_version(
    parquet: &ParquetMetaData,
    path: &Path,
) -> Result<Metadata, RecordingError> {
    let entries = parquet.file_metadata().key_value_metadata();
    let json = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry.key == METADATA_KEY)
        .find_map(|entry| entry.value.as_deref())
        .ok_or_else(|| {
            RecordingError::format_error(
                path,
                "a Parquet file, but no recording of wakepath; expected the output of `wakepath \
                 record` or `wakepath import`"
                    .to_owned(),
            )
        })?;
    let metadata: Metadata = serde_json::from_str(json).map_err(|error| {
        RecordingError::format_error(path, format!("its description is damaged: {error}"))
    })?;
    if metadata.schema > SCHEMA {
        return Err(RecordingError::format_error(
            path,
            format!(
                "version {} of the format, and this wakepath knows versions up to {SCHEMA}; a newer \
                 one can read it",
                metadata.schema
            ),
        ));
    }
    Ok(metadata)
}

fn check_column_names_and_types(
    parquet: &ParquetMetaData,
    version: u32,
    path: &Path,
) -> Result<(), RecordingError> {
    let schema = parquet.file_metadata().schema_descr();
    let (long, short) = long_and_short_columns_of_schema(version);
    let expected = long
        .iter()
        .map(|name| (*name, PhysicalType::INT64))
        .chain(short.iter().map(|name| (*name, PhysicalType::INT32)));
    for (i, (name, kind)) in expected.enumerate() {
        let column = schema.columns().get(i);
        let fits = column.is_some_and(|c| {
            c.name() == name
                && c.physical_type() == kind
                && c.self_type().get_basic_info().repetition() == Repetition::REQUIRED
                && c.max_def_level() == 0
                && c.max_rep_level() == 0
        });
        if !fits {
            return Err(RecordingError::Format {
                path: path.to_owned(),
                problem: format!(
                    "column {}: expected {name} of type {kind}, required; found {}",
                    i + 1,
                    column.map_or("none", |c| c.name())
                ),
            });
        }
    }
    Ok(())
}

/// Checks that all columns lie within the file.
fn check_columns_lie_in_file(
    parquet: &ParquetMetaData,
    len: u64,
    path: &Path,
) -> Result<(), RecordingError> {
    for group in parquet.row_groups() {
        for column in group.columns() {
            let start = column
                .dictionary_page_offset()
                .unwrap_or(column.data_page_offset());
            let end = u64::try_from(start)
                .ok()
                .zip(u64::try_from(column.compressed_size()).ok())
                .and_then(|(start, size)| start.checked_add(size));
            if end.is_none_or(|end| end > len) {
                return Err(RecordingError::Format {
                    path: path.to_owned(),
                    problem: format!(
                        "damaged: column {} reaches beyond the end of the file",
                        column.column_path()
                    ),
                });
            }
        }
    }
    Ok(())
}
