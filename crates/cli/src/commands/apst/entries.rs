//! Table entries, for people and programs.

use serde::Serialize;
use wakepath_policies::apst::ApstTable;

/// A table entry for programs. States without a transition have neither target nor time.
#[derive(Serialize)]
pub(super) struct Entry {
    pub(super) state: u8,
    pub(super) target: Option<u8>,
    pub(super) timeout_ms: Option<u32>,
}

/// Entries for the first `count` states.
pub(super) fn decode_entries(table: &ApstTable, count: usize) -> Vec<Entry> {
    table
        .entries()
        .zip(table.0)
        .take(count)
        .map(|(entry, raw)| Entry {
            state: entry.state,
            target: (raw != 0).then_some(entry.target),
            timeout_ms: (raw != 0).then_some(entry.timeout_ms),
        })
        .collect()
}

impl Entry {
    /// Text for people. Drives take a time of 0 as "no transition from this state".
    pub(super) fn describe(&self) -> String {
        match (self.target, self.timeout_ms) {
            (Some(target), Some(0)) => format!("PS{target} after 0 ms: never"),
            (Some(target), Some(ms)) => format!("PS{target} after {ms} ms"),
            _ => "-".to_owned(),
        }
    }
}

/// 512 hexadecimal digits.
pub(super) fn table_hex(table: &ApstTable) -> String {
    table.to_string().replace('\n', "")
}
