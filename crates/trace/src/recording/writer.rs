//! Writing a recording, so that it can be read even if the writer is killed.

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

/// Rows after which a row group is written in any case. It bounds the memory of writer and reader.
const ROW_GROUP: usize = 1 << 18;

/// What to do with a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Keep it; it is an error.
    No,
    /// Replace it (`--force`).
    Yes,
}

/// Writes a recording, event by event.
///
/// Events of one CPU must come in the order of time; those of different CPUs may be a little out of
/// order.
///
/// Parquet's table of contents is at the end of the file and is written by [`Writer::finish`]. Until
/// then a second file, of the same name with `.tail` appended, has that of what was written so far.
/// It is replaced as a whole after each [`Writer::flush`], so that a writer that is killed leaves a
/// pair of files which [`super::Reader`] reads up to the last flush.
pub struct Writer {
    path: PathBuf,
    file: SerializedFileWriter<BufWriter<File>>,
    schema: TypePtr,
    columns: Columns,
    metadata: Metadata,
    events: u64,
    tail: bool,
}

fn schema() -> Result<TypePtr, ParquetError> {
    let column = |name: &&str, kind| {
        Type::primitive_type_builder(name, kind)
            .with_repetition(Repetition::REQUIRED)
            .build()
            .map(Arc::new)
    };
    let long = LONG.iter().map(|name| column(name, PhysicalType::INT64));
    let short = SHORT.iter().map(|name| column(name, PhysicalType::INT32));
    let fields = long.chain(short).collect::<Result<_, _>>()?;
    let message = Type::group_type_builder("recording")
        .with_fields(fields)
        .build()?;
    Ok(Arc::new(message))
}

/// Columns of a few bits per row at most.
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

/// Times that differ from row to row are stored as differences, and not compressed, because that
/// gains little and costs more than half of the time to read them. Sectors and what is the same for long do repeat; what
/// takes next to no room anyway is not compressed either.
fn properties() -> Result<WriterProperties, ParquetError> {
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
    /// Creates the file `path`.
    ///
    /// # Errors
    /// It is there already and is to be kept, or cannot be created.
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
            _ => RecordingError::io(path)(cause),
        })?;
        remove_if_there(&tail_path(path))?;
        let error = RecordingError::parquet(path);
        let schema = schema().map_err(&error)?;
        let properties = Arc::new(properties().map_err(&error)?);
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

    /// Adds an event. Every quarter of a million of them are written to the file as a row group.
    pub fn push(&mut self, event: &Event) -> Result<(), RecordingError> {
        self.columns.push(event);
        self.events += 1;
        if self.columns.len() >= ROW_GROUP {
            self.write_row_group()?;
        }
        Ok(())
    }

    /// How many events were added so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// What the recording says about itself. It may change until the end.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// Writes everything added so far, in such a way that it can be read if nothing follows. Each
    /// call that has something to write adds a row group of about 1 kB besides its events, so once a
    /// second is often enough.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        self.write_row_group()?;
        let error = RecordingError::parquet(&self.path);
        self.file.flush().map_err(RecordingError::io(&self.path))?;
        let metadata = self.file_metadata(self.file.flushed_row_groups().to_vec())?;
        let mut bytes = Vec::new();
        ParquetMetaDataWriter::new(&mut bytes, &metadata)
            .finish()
            .map_err(&error)?;
        let tail = tail_path(&self.path);
        let fresh = tail.with_extension("tail-new");
        fs::write(&fresh, bytes).map_err(RecordingError::io(&fresh))?;
        fs::rename(&fresh, &tail).map_err(RecordingError::io(&tail))?;
        self.tail = true;
        Ok(())
    }

    /// Ends the recording. Returns the number of its events.
    pub fn finish(mut self) -> Result<u64, RecordingError> {
        self.metadata.complete = true;
        self.write_row_group()?;
        let description = self.description()?;
        self.file.append_key_value_metadata(description);
        let path = self.path;
        self.file.finish().map_err(RecordingError::parquet(&path))?;
        self.file.flush().map_err(RecordingError::io(&path))?;
        if self.tail {
            remove_if_there(&tail_path(&path))?;
        }
        Ok(self.events)
    }

    fn description(&self) -> Result<KeyValue, RecordingError> {
        let json =
            serde_json::to_string(&self.metadata).map_err(|error| RecordingError::Format {
                path: self.path.clone(),
                problem: format!("its description cannot be written: {error}"),
            })?;
        Ok(KeyValue::new(METADATA_KEY.to_owned(), json))
    }

    fn file_metadata(
        &self,
        row_groups: Vec<RowGroupMetaData>,
    ) -> Result<ParquetMetaData, RecordingError> {
        let rows = row_groups.iter().map(RowGroupMetaData::num_rows).sum();
        let schema = parquet::schema::types::SchemaDescriptor::new(self.schema.clone());
        let file = FileMetaData::new(
            1,
            rows,
            None,
            Some(vec![self.description()?]),
            Arc::new(schema),
            None,
        );
        Ok(ParquetMetaData::new(file, row_groups))
    }

    fn write_row_group(&mut self) -> Result<(), RecordingError> {
        if self.columns.len() == 0 {
            return Ok(());
        }
        let columns = &self.columns;
        let write = |file: &mut SerializedFileWriter<_>| {
            let mut group = file.next_row_group()?;
            for values in &columns.long {
                write_column::<Int64Type, _>(&mut group, values)?;
            }
            for values in &columns.short {
                write_column::<Int32Type, _>(&mut group, values)?;
            }
            group.close().map(|_| ())
        };
        write(&mut self.file).map_err(RecordingError::parquet(&self.path))?;
        self.columns.clear();
        Ok(())
    }
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

fn remove_if_there(path: &Path) -> Result<(), RecordingError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(RecordingError::io(path)(cause))
        }
        _ => Ok(()),
    }
}
