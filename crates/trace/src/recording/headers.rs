//! Checks the headers in a Parquet file before the Parquet library reads them.

use std::io::Read;
use std::path::Path;

use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::ChunkReader;

use super::packed::{PackedBytes, Stop};

pub(super) fn damaged_parquet_error(what: &str) -> ParquetError {
    ParquetError::General(format!("damaged: {what}"))
}

/// Size in bytes of the end of a Parquet file: length of the table of contents, and a mark.
pub(super) const FOOTER: usize = 8;
const MARK: &[u8] = b"PAR1";

/// Whether a file begins as recordings do. Unreadable files are none.
pub fn is_recording_file(path: &Path) -> bool {
    let mut first_bytes = [0; 4];
    let file = wakepath_files::open_regular_file(path);
    file.is_ok_and(|mut file| file.read_exact(&mut first_bytes).is_ok() && first_bytes == *MARK)
}

/// Number of bytes that are mostly enough for the header of a page.
const HEADER: usize = 1 << 10;
/// Limit on the size of a page in bytes, far above the pages of recordings.
const LARGEST_PAGE: i64 = 256 << 20;
/// Numbers of the fields with sizes in a page's header.
const UNCOMPRESSED: usize = 2;
const COMPRESSED: usize = 3;

/// Checks the table of contents at the end of a Parquet file, if the file has one.
pub(super) fn check_table_of_contents(input: &impl ChunkReader) -> Result<(), ParquetError> {
    let Some(end) = input.len().checked_sub(FOOTER as u64) else {
        return Ok(());
    };
    let footer = input.get_bytes(end, FOOTER)?;
    let length = table_length_from_footer(&footer);
    match end.checked_sub(length as u64) {
        Some(start) if footer.ends_with(MARK) => {
            check_table_structure(&input.get_bytes(start, length)?)
        }
        _ => Ok(()),
    }
}

/// The length of the table of contents in bytes, as a Parquet file's footer gives it.
pub(super) fn table_length_from_footer(footer: &[u8]) -> usize {
    let bytes = footer.first_chunk().copied().unwrap_or_default();
    u32::from_le_bytes(bytes) as usize
}

/// Checks that a Parquet file's table of contents has a structure that the library can read.
pub(super) fn check_table_structure(table: &[u8]) -> Result<(), ParquetError> {
    match PackedBytes(table).skip_thrift_and_return_numbers() {
        Ok(_) => Ok(()),
        Err(_) => Err(damaged_parquet_error(
            "its table of contents announces what it does not hold",
        )),
    }
}

/// Checks the headers of a column's pages; the column must lie within the file.
pub(super) fn check_page_headers(
    input: &impl ChunkReader,
    column: &ColumnChunkMetaData,
) -> Result<(), ParquetError> {
    let (mut at, length) = column.byte_range();
    let end = at + length;
    while at < end {
        let left = usize::try_from(end - at).unwrap_or(usize::MAX);
        let mut bytes = input.get_bytes(at, left.min(HEADER))?;
        let mut header = PackedBytes(&bytes);
        let mut numbers = header.skip_thrift_and_return_numbers();
        if let Err(Stop::End) = numbers
            && left > HEADER
        {
            bytes = input.get_bytes(at, left)?;
            header = PackedBytes(&bytes);
            numbers = header.skip_thrift_and_return_numbers();
        }
        let fields = numbers.map_err(|_| missing_header_error())?;
        parquet_page_size_from_field(fields[UNCOMPRESSED])?;
        at += (bytes.len() - header.0.len()) as u64
            + parquet_page_size_from_field(fields[COMPRESSED])?;
    }
    Ok(())
}

/// Size of a Parquet page in bytes, from a field of its header.
fn parquet_page_size_from_field(field: Option<i64>) -> Result<u64, ParquetError> {
    match field {
        Some(size @ 0..=LARGEST_PAGE) => Ok(size as u64),
        _ => Err(missing_header_error()),
    }
}

fn missing_header_error() -> ParquetError {
    damaged_parquet_error("a page has no header")
}
