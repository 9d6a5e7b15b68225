//! Reads the rows of the built-in files with drive speeds.

use serde::de::DeserializeOwned;

/// All rows with the form `T`; the tests count them.
pub(super) fn read_well_formed_csv_rows<T: DeserializeOwned>(csv_text: &str) -> Vec<T> {
    let mut reader = csv::Reader::from_reader(csv_text.as_bytes());
    reader.deserialize().filter_map(Result::ok).collect()
}
