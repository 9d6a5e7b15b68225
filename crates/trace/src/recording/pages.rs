//! Column pages, checked before the Parquet library decodes them: some damaged pages make the library panic.

use std::sync::Arc;

use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use super::headers::{check_page_headers, damage_error};
use super::packed::{Packed, Stop};

type Result<T> = std::result::Result<T, ParquetError>;

/// Columns up to this size are read at once, which bounds the memory for files with larger row groups than ours.
const AT_ONCE: u64 = 16 << 20;

/// A row group's column in memory, at its offset in the file.
struct Column {
    start: u64,
    bytes: Bytes,
}

impl Column {
    fn bytes_from(&self, at: u64) -> Result<Bytes> {
        let offset = at
            .checked_sub(self.start)
            .and_then(|o| usize::try_from(o).ok());
        match offset {
            Some(offset) if offset <= self.bytes.len() => Ok(self.bytes.slice(offset..)),
            _ => Err(damage_error("a page is outside of its column")),
        }
    }
}

impl Length for Column {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Column {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(self.bytes_from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let mut bytes = self.bytes_from(start)?;
        if length > bytes.len() {
            return Err(damage_error("a page reaches beyond its column"));
        }
        bytes.truncate(length);
        Ok(bytes)
    }
}

/// Opens the pages of a column within the file, with a known number of rows; each page is checked as it is read.
pub(super) fn open_checked_pages<R: ChunkReader + 'static>(
    input: &Arc<R>,
    column: &ColumnChunkMetaData,
    rows: usize,
) -> Result<Checked> {
    let (start, length) = column.byte_range();
    if length > AT_ONCE {
        return check_headers_and_open_pages(input.clone(), column, rows);
    }
    // The column is read at once, instead of twice for each page.
    let bytes = input.get_bytes(start, length as usize)?;
    check_headers_and_open_pages(Arc::new(Column { start, bytes }), column, rows)
}

fn check_headers_and_open_pages<R: ChunkReader + 'static>(
    input: Arc<R>,
    column: &ColumnChunkMetaData,
    rows: usize,
) -> Result<Checked> {
    check_page_headers(&*input, column)?;
    let pages = SerializedPageReader::new(input, column, rows, None)?;
    Ok(Checked::new(Box::new(pages)))
}

/// Hands out a column's pages that can be decoded; an error for any other.
pub(super) struct Checked {
    pages: Box<dyn PageReader>,
    dictionary: bool,
}

impl Checked {
    pub(super) fn new(pages: Box<dyn PageReader>) -> Self {
        Self {
            pages,
            dictionary: false,
        }
    }

    fn check_page(&mut self, page: &Page) -> Result<()> {
        if let Page::DictionaryPage { .. } = page {
            if std::mem::replace(&mut self.dictionary, true) {
                return Err(damage_error("a column has two dictionaries"));
            }
            return Ok(());
        }
        if let Page::DataPageV2 {
            def_levels_byte_len: 1..,
            ..
        }
        | Page::DataPageV2 {
            rep_levels_byte_len: 1..,
            ..
        } = page
        {
            return Err(damage_error("a page has levels, and no column is nested"));
        }
        let bytes = Packed(page.buffer());
        let numbers = match page.encoding() {
            Encoding::PLAIN => Ok(()),
            Encoding::DELTA_BINARY_PACKED => bytes.skip_deltas(page.num_values()),
            Encoding::RLE_DICTIONARY if self.dictionary => {
                bytes.skip_dictionary_runs(page.num_values())
            }
            Encoding::RLE_DICTIONARY => return Err(damage_error("a page lacks its dictionary")),
            other => return Err(damage_error(&format!("a page of encoding {other}"))),
        };
        match numbers {
            Err(Stop::TooLong) => Err(damage_error("a page has a number of more than 64 bits")),
            Err(Stop::Count) => Err(damage_error("a page has not as many values as it says")),
            // The Parquet library itself reports pages that are too short.
            Ok(()) | Err(Stop::End | Stop::Strange) => Ok(()),
        }
    }
}

impl Iterator for Checked {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Checked {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(page) = &page {
            self.check_page(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}
