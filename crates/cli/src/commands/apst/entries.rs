//! Entries of an APST table, for people and programs.

use serde::Serialize;
use wakepath_policies::apst::ApstTable;

/// A decoded entry of an APST table, for programs. States without a transition have neither target nor time.
#[derive(Serialize)]
pub(super) struct DecodedApstEntry {
    pub(super) state: u8,
    pub(super) target: Option<u8>,
    pub(super) timeout_ms: Option<u32>,
}

/// Decodes the entries for the first `count` power states.
pub(super) fn decode_entries_of_first_states(
    table: &ApstTable,
    count: usize,
) -> Vec<DecodedApstEntry> {
    table
        .entries()
        .zip(table.0)
        .take(count)
        .map(|(entry, raw)| DecodedApstEntry {
            state: entry.state,
            target: (raw != 0).then_some(entry.target),
            timeout_ms: (raw != 0).then_some(entry.timeout_ms),
        })
        .collect()
}

impl DecodedApstEntry {
    /// The entry in words for people. Drives take a time of 0 as "no transition from this state".
    pub(super) fn transition_in_words(&self) -> String {
        match (self.target, self.timeout_ms) {
            (Some(target), Some(0)) => format!("PS{target} after 0 ms: never"),
            (Some(target), Some(ms)) => format!("PS{target} after {ms} ms"),
            _ => "-".to_owned(),
        }
    }
}

/// 512 hexadecimal digits.
pub(super) fn table_as_512_hex_digits(table: &ApstTable) -> String {
    table.to_string().replace('\n', "")
}
