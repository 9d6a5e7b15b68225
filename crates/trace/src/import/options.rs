//! What a user says about traces to import, and what an import returns.

use wakepath_units::TickRate;

use crate::recording::Metadata;

/// Options of an import: facts about a trace that only the user knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImportOptions {
    /// Tick rate of the traced machine; by default the rate seen in the trace.
    pub hz: Option<TickRate>,
    /// Whether files from different machines may become one recording.
    pub any_machine: bool,
}

impl ImportOptions {
    /// Refuses a further file from another machine ([`Metadata::machine_conflict_with`]). Warns if no fact shows that the
    /// machines are the same.
    pub(super) fn check_same_machine(
        self,
        so_far: &mut Metadata,
        next: &Metadata,
    ) -> Result<(), String> {
        if self.any_machine {
            return Ok(());
        }
        if let Some(found) = so_far.machine_conflict_with(next) {
            return Err(format!(
                "it seems to be of another machine than the files before it: {found}. A recording is of one machine, so \
                 import it on its own, or give --any-machine"
            ));
        }
        if !so_far.has_comparable_facts(next) {
            so_far.add_or_count_warning("machine-unknown", || {
                "these files do not say which machine they are of, and are taken to be of one. If they are not, import \
                 them one by one"
                    .to_owned()
            });
        }
        Ok(())
    }
}

/// Outcome of an import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Kind of file: `trace.dat version 7`.
    pub source: String,
    /// Events of the file by name, most frequent first.
    pub counts: Vec<(String, u64)>,
}
