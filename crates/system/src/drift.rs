//! Settings that `wakepath apply` has set for good, and how many of them have another value by now.

use crate::System;
use crate::journal::{ChangeReason, Journal};
use crate::setting::have_same_meaning;

/// Settings set for good, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppliedSettings {
    /// Number of settings that the journal has as set for good.
    pub applied: u64,
    /// Number of these that a person, a program or the kernel has changed since, or that cannot be read any more.
    pub drifted: u64,
}

impl AppliedSettings {
    /// Compares the journal with the machine; `None` if the journal is unreadable, which needs root.
    pub fn read(system: &System) -> Option<Self> {
        let mut counts = Self::default();
        if !crate::journal::has_pending_restore(system.root())? {
            return Some(counts);
        }
        let journal = Journal::read_without_lock(system.root())?;
        let applied = journal
            .layers
            .iter()
            .filter(|layer| layer.reason == ChangeReason::Applied);
        for entry in applied.flat_map(|layer| &layer.settings) {
            // Without a new value the setting is only kept for the restore.
            let Some(ours) = &entry.new else {
                continue;
            };
            counts.applied += 1;
            let is_ours = system
                .read_setting(&entry.key)
                .is_ok_and(|found| have_same_meaning(entry.key.setting, ours, &found));
            counts.drifted += u64::from(!is_ours);
        }
        Some(counts)
    }
}
