//! Provenance for a study's numbers.

use std::collections::BTreeMap;

use wakepath_results::MachineInfo;

/// Programs, machines and circumstances behind the numbers of a study.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// Programs' versions by name.
    pub tools: BTreeMap<String, String>,
    /// The machines in short.
    pub machines: Vec<MachineInfo>,
    /// A file for each machine.
    pub machine_files: Vec<Vec<u8>>,
    /// Circumstances for readers to know.
    pub notes: Vec<String>,
}
