//! Pages of a column, looked at before the Parquet library decodes them: some that cannot be decoded make it panic.

use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;

use super::packed::{Packed, Stop};

type Result<T> = std::result::Result<T, ParquetError>;

/// Hands out the pages that can be decoded; an error for any other.
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

    fn check(&mut self, page: &Page) -> Result<()> {
        if let Page::DictionaryPage { .. } = page {
            if std::mem::replace(&mut self.dictionary, true) {
                return Err(damaged("a column has two dictionaries"));
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
            return Err(damaged("a page has levels, and no column is nested"));
        }
        let bytes = Packed(page.buffer());
        let numbers = match page.encoding() {
            Encoding::PLAIN => Ok(()),
            Encoding::DELTA_BINARY_PACKED => bytes.check_deltas(page.num_values()),
            Encoding::RLE_DICTIONARY if self.dictionary => bytes.check_runs(page.num_values()),
            Encoding::RLE_DICTIONARY => return Err(damaged("a page lacks its dictionary")),
            other => return Err(damaged(&format!("a page of encoding {other}"))),
        };
        match numbers {
            Err(Stop::TooLong) => Err(damaged("a page has a number of more than 64 bits")),
            Err(Stop::Count) => Err(damaged("a page has not as many values as it says")),
            // The library says of pages that are too short what they lack.
            Ok(()) | Err(Stop::End | Stop::Strange) => Ok(()),
        }
    }
}

pub(super) fn damaged(what: &str) -> ParquetError {
    ParquetError::General(format!("damaged: {what}"))
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
            self.check(page)?;
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
