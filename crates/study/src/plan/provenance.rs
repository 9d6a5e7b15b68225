//! Provenance: where a study's numbers come from.

use std::collections::BTreeMap;

use wakepath_results::MachineInfo;

/// Programs, machines and circumstances behind the numbers of a study.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// Versions of the programs by name.
    pub tools: BTreeMap<String, String>,
    /// Short descriptions of the machines.
    pub machines: Vec<MachineInfo>,
    /// Content of each machine's file.
    pub machine_files: Vec<Vec<u8>>,
    /// Remarks about the circumstances, for readers.
    pub notes: Vec<String>,
}
