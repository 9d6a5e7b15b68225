//! Rows as Parquet and back.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::ChunkReader;

/// Why a table cannot be written or read.
#[derive(Debug, thiserror::Error)]

pub enum TableError {
    #[error(transparent)]
    Parquet(#[from] parquet::errors::ParquetError),
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("no column `{0}`")]
    NoColumn(&'static str),
    #[error("column `{0}` is of another type or has holes")]
    Column(&'static str),
}

/// What a cell can be.
pub(crate) trait Cell: Sized {
    const TYPE: DataType;
    const NULLABLE: bool = false;
    fn array(cells: Vec<Self>) -> ArrayRef;
    /// All cells of a column, if it is of this type.
    fn cells(array: &dyn Array) -> Option<Vec<Self>>;
}

macro_rules! plain_cell {
    ($cell:ty, $array:ty, $type:expr) => {
        impl Cell for $cell {
            const TYPE: DataType = $type;
            fn array(cells: Vec<Self>) -> ArrayRef {
                Arc::new(<$array>::from(cells))
            }
            fn cells(array: &dyn Array) -> Option<Vec<Self>> {
                let array = array.as_any().downcast_ref::<$array>()?;
                let cells: Option<Vec<Self>> =
                    array.iter().map(|cell| cell.map(Into::into)).collect();
                cells
            }
        }
    };
}
plain_cell!(String, StringArray, DataType::Utf8);
plain_cell!(u32, UInt32Array, DataType::UInt32);
plain_cell!(u64, UInt64Array, DataType::UInt64);
plain_cell!(f64, Float64Array, DataType::Float64);

macro_rules! optional_cell {
    ($cell:ty, $array:ty, $type:expr) => {
        impl Cell for Option<$cell> {
            const TYPE: DataType = $type;
            const NULLABLE: bool = true;
            fn array(cells: Vec<Self>) -> ArrayRef {
                Arc::new(<$array>::from(cells))
            }
            fn cells(array: &dyn Array) -> Option<Vec<Self>> {
                Some(array.as_any().downcast_ref::<$array>()?.iter().collect())
            }
        }
    };
}
optional_cell!(u64, UInt64Array, DataType::UInt64);
optional_cell!(f64, Float64Array, DataType::Float64);

/// A row of a table.
pub(crate) trait Row: Sized {
    fn fields() -> Vec<Field>;
    fn columns(rows: Vec<Self>) -> Vec<ArrayRef>;
    fn read(batch: &RecordBatch, into: &mut Vec<Self>) -> Result<(), TableError>;
}

/// Defines a row type whose fields are the columns of a table.
macro_rules! table {
    (
        $(#[$about:meta])*
        $name:ident { $($(#[$meaning:meta])* $field:ident: $type:ty,)+ }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$meaning])* pub $field: $type,)+
        }

        impl $crate::tables::Row for $name {
            fn fields() -> Vec<arrow_schema::Field> {
                use $crate::tables::Cell;
                vec![$(arrow_schema::Field::new(
                    stringify!($field), <$type>::TYPE, <$type>::NULLABLE,
                )),+]
            }

            fn columns(rows: Vec<Self>) -> Vec<arrow_array::ArrayRef> {
                use $crate::tables::Cell;
                $(let mut $field: Vec<$type> = Vec::with_capacity(rows.len());)+
                for row in rows {
                    $($field.push(row.$field);)+
                }
                vec![$(<$type>::array($field)),+]
            }

            fn read(
                batch: &arrow_array::RecordBatch,
                into: &mut Vec<Self>,
            ) -> Result<(), $crate::tables::TableError> {
                $(let mut $field = $crate::tables::column::<$type>(
                    batch, stringify!($field),
                )?.into_iter();)+
                while let ($(Some($field),)+) = ($($field.next(),)+) {
                    into.push(Self { $($field),+ });
                }
                Ok(())
            }
        }
    };
}
pub(crate) use table;

/// A column by its name.
pub(crate) fn column<C: Cell>(
    batch: &RecordBatch,
    name: &'static str,
) -> Result<Vec<C>, TableError> {
    let array = batch
        .column_by_name(name)
        .ok_or(TableError::NoColumn(name))?;
    C::cells(array.as_ref()).ok_or(TableError::Column(name))
}

/// Rows of a row group: bounds the memory that writing takes.
const ROWS_AT_ONCE: usize = 1 << 20;

/// Writes rows as a Parquet file. The same rows make the same bytes.
pub(crate) fn write<R: Row>(
    to: impl Write + Send,
    rows: impl IntoIterator<Item = R>,
) -> Result<(), TableError> {
    let schema: SchemaRef = Arc::new(Schema::new(R::fields()));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(concat!("wakepath ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = ArrowWriter::try_new(to, schema.clone(), Some(properties))?;
    let mut rows = rows.into_iter();
    loop {
        let some: Vec<R> = rows.by_ref().take(ROWS_AT_ONCE).collect();
        if some.is_empty() {
            break;
        }
        writer.write(&RecordBatch::try_new(schema.clone(), R::columns(some))?)?;
    }
    writer.close()?;
    Ok(())
}

/// Reads all rows of a Parquet file.
pub(crate) fn read<R: Row>(from: impl ChunkReader + 'static) -> Result<Vec<R>, TableError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(from)?;
    let mut rows = Vec::new();
    for batch in builder.with_batch_size(1 << 16).build()? {
        R::read(&batch?, &mut rows)?;
    }
    Ok(rows)
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "rows are public where they are used")]
mod tests {
    use super::*;

    table! {
        /// A column that always has a number.
        Full {
            /// The number.
            number: f64,
        }
    }

    table! {
        /// The same since it may be unknown.
        Holes {
            /// The number.
            number: Option<f64>,
        }
    }

    #[test]
    fn a_number_may_be_unknown_and_old_tables_without_holes_are_read() {
        let file = tempfile::tempfile().unwrap();
        let rows = [Some(0.5), None].map(|number| Holes { number });
        write(&file, rows.clone()).unwrap();
        assert_eq!(read::<Holes>(file).unwrap(), rows);
        let old = tempfile::tempfile().unwrap();
        write(&old, [Full { number: 0.0 }]).unwrap();
        let known = Holes { number: Some(0.0) };
        assert_eq!(read::<Holes>(old).unwrap(), [known]);
    }
}
