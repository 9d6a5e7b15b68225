//! Writes a recording such that a killed writer leaves a readable file.

use std::fs::{self, File, OpenOptions};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use super::error::{METADATA_KEY, RecordingError, tail_path};
use super::rows::{Columns, LONG, SECTOR, SHORT};
use super::{Event, Metadata};

/// Limit on the rows in a row group, which bounds the memory of writer and reader.
const ROW_GROUP: usize = 1 << 18;

/// What is done if the recording's file exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// The existing file is kept, and the recording fails.
    No,
    /// The existing file is replaced (`--force`).
    Yes,
}

/// Writes a recording, event by event.
///
/// Events on a CPU must come in order of time; events on different CPUs may be slightly out of order.
///
/// Parquet's table of contents comes at the end, in [`Writer::finish_file`]. Until then a second file, named with `.tail`
/// appended, has the table of contents so far. Each [`Writer::flush`] replaces that file as a whole. A killed writer
/// therefore leaves two files, which [`super::Reader`] reads up to the last flush.
pub struct Writer {
    path: PathBuf,
    file: SerializedFileWriter<BufWriter<File>>,
    schema: TypePtr,
    columns: Columns,
    metadata: Metadata,
    events: u64,
    tail: bool,
}

fn build_schema() -> Result<TypePtr, ParquetError> {
    let long = LONG
        .iter()
        .map(|name| column_type(name, PhysicalType::INT64));
    let short = SHORT
        .iter()
        .map(|name| column_type(name, PhysicalType::INT32));
    let fields = long.chain(short).collect::<Result<_, _>>()?;
    let message = Type::group_type_builder("recording")
        .with_fields(fields)
        .build()?;
    Ok(Arc::new(message))
}

/// A required column's type.
fn column_type(name: &str, kind: PhysicalType) -> Result<TypePtr, ParquetError> {
    let column = Type::primitive_type_builder(name, kind).with_repetition(Repetition::REQUIRED);
    Ok(Arc::new(column.build()?))
}

/// Names of columns with at most a few bits per row.
const SMALL: [&str; 8] = [
    "latency_request_ns",
    "count",
    "other_sector",
    "cpu",
    "iowaiters",
    "khz",
    "irq",
    "from_device",
];

/// Encodings of the columns. Times are stored as differences between rows, uncompressed: compression gains little, and
/// takes more than half the reading time. Sectors and constant columns repeat, and are compressed. Tiny columns are
/// not.
fn encoding_properties() -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_statistics_enabled(ColumnPath::from("time_ns"), EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_created_by(format!("wakepath {}", env!("CARGO_PKG_VERSION")));
    for name in &LONG[..SECTOR - 1] {
        let path = ColumnPath::from(*name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED)
            .set_column_compression(path, Compression::UNCOMPRESSED);
    }
    for name in SMALL {
        properties =
            properties.set_column_compression(ColumnPath::from(name), Compression::UNCOMPRESSED);
    }
    Ok(properties.build())
}

impl Writer {
    /// Creates a recording in the file `path`.
    ///
    /// # Errors
    /// The file exists and must be kept, or cannot be created.
    pub fn create(
        path: &Path,
        overwrite: Overwrite,
        metadata: Metadata,
    ) -> Result<Self, RecordingError> {
        let mut options = OpenOptions::new();
        options.write(true);
        match overwrite {
            Overwrite::No => options.create_new(true),
            Overwrite::Yes => options.create(true).truncate(true),
        };
        let file = options.open(path).map_err(|cause| match cause.kind() {
            std::io::ErrorKind::AlreadyExists => RecordingError::Exists(path.to_owned()),
            _ => RecordingError::io_error_with_path(path)(cause),
        })?;
        remove_file_if_there(&tail_path(path))?;
        let error = RecordingError::parquet_error_with_path(path);
        let schema = build_schema().map_err(&error)?;
        let properties = Arc::new(encoding_properties().map_err(&error)?);
        let file = SerializedFileWriter::new(BufWriter::new(file), schema.clone(), properties)
            .map_err(&error)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            schema,
            columns: Columns::default(),
            metadata,
            events: 0,
            tail: false,
        })
    }

    /// Adds an event. Every quarter of a million events become a row group in the file.
    pub fn add_event(&mut self, event: &Event) -> Result<(), RecordingError> {
        self.columns.push_event(event);
        self.events += 1;
        if self.columns.len() >= ROW_GROUP {
            self.write_row_group()?;
        }
        Ok(())
    }

    /// How many events were added so far.
    pub fn count_added_events(&self) -> u64 {
        self.events
    }

    /// The recording's description, which may change until the end.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// Writes all events so far in such a way that the file can be read if nothing follows. A flush with new events
    /// adds a row group and about 1 kB, so once a second is often enough.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        self.write_row_group()?;
        let error = RecordingError::parquet_error_with_path(&self.path);
        self.file
            .flush()
            .map_err(RecordingError::io_error_with_path(&self.path))?;
        let metadata = self.build_table_of_contents(self.file.flushed_row_groups().to_vec())?;
        let mut bytes = Vec::new();
        ParquetMetaDataWriter::new(&mut bytes, &metadata)
            .finish()
            .map_err(&error)?;
        let tail = tail_path(&self.path);
        let fresh = tail.with_extension("tail-new");
        fs::write(&fresh, bytes).map_err(RecordingError::io_error_with_path(&fresh))?;
        fs::rename(&fresh, &tail).map_err(RecordingError::io_error_with_path(&tail))?;
        self.tail = true;
        Ok(())
    }

    /// Ends the recording. Returns the number of events.
    pub fn finish_file(mut self) -> Result<u64, RecordingError> {
        self.metadata.complete = true;
        self.write_row_group()?;
        let description = self.metadata_as_key_value()?;
        self.file.append_key_value_metadata(description);
        let path = self.path;
        self.file
            .finish()
            .map_err(RecordingError::parquet_error_with_path(&path))?;
        self.file
            .flush()
            .map_err(RecordingError::io_error_with_path(&path))?;
        if self.tail {
            remove_file_if_there(&tail_path(&path))?;
        }
        Ok(self.events)
    }

    fn metadata_as_key_value(&self) -> Result<KeyValue, RecordingError> {
        let json =
            serde_json::to_string(&self.metadata).map_err(|error| RecordingError::Format {
                path: self.path.clone(),
                problem: format!("its description cannot be written: {error}"),
            })?;
        Ok(KeyValue::new(METADATA_KEY.to_owned(), json))
    }

    fn build_table_of_contents(
        &self,
        row_groups: Vec<RowGroupMetaData>,
    ) -> Result<ParquetMetaData, RecordingError> {
        let rows = row_groups.iter().map(RowGroupMetaData::num_rows).sum();
        let schema = parquet::schema::types::SchemaDescriptor::new(self.schema.clone());
        let file = FileMetaData::new(
            1,
            rows,
            None,
            Some(vec![self.metadata_as_key_value()?]),
            Arc::new(schema),
            None,
        );
        Ok(ParquetMetaData::new(file, row_groups))
    }

    fn write_row_group(&mut self) -> Result<(), RecordingError> {
        if self.columns.len() == 0 {
            return Ok(());
        }
        write_columns(&mut self.file, &self.columns)
            .map_err(RecordingError::parquet_error_with_path(&self.path))?;
        self.columns.clear();
        Ok(())
    }
}

/// Writes all columns as a row group.
fn write_columns(
    file: &mut SerializedFileWriter<BufWriter<File>>,
    columns: &Columns,
) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    for values in &columns.long {
        write_column::<Int64Type, _>(&mut group, values)?;
    }
    for values in &columns.short {
        write_column::<Int32Type, _>(&mut group, values)?;
    }
    group.close().map(|_| ())
}

fn write_column<T: DataType, W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("a column too many".to_owned()));
    };
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

fn remove_file_if_there(path: &Path) -> Result<(), RecordingError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(RecordingError::io_error_with_path(path)(cause))
        }
        _ => Ok(()),
    }
}
