//! Where the numbers of a study come from.

use std::collections::BTreeMap;

use wakepath_results::MachineInfo;

/// Programs, machines and circumstances behind the numbers of a study.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// Programs by name with their versions.
    pub tools: BTreeMap<String, String>,
    /// The machines in short.
    pub machines: Vec<MachineInfo>,
    /// The file of each machine.
    pub machine_files: Vec<Vec<u8>>,
    /// Circumstances that a reader should know of.
    pub notes: Vec<String>,
}
