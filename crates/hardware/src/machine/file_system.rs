//! The file system that the files of jobs lie on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figure;

const COMMIT_KCYCLES: f64 = 20.0;
const INODE_KCYCLES: f64 = 2.0;
const WRITE_KCYCLES: f64 = 0.0;
const WHY: &str =
    "instructions in the laboratory (docs/background/laboratory.md), about two in a cycle";

/// Kinds of file systems whose journal is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileSystemKind {
    /// ext4 with a journal on the same drive, as `mke2fs` makes it, mounted with its defaults.
    Ext4,
    /// XFS with its log on the same drive, as `mkfs.xfs` makes it, mounted with its defaults.
    Xfs,
}

/// The file system of plain files, whose journal `fsync` waits for.
///
/// Without it `fsync` waits for data and a flush, as that of a block device does.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSystem {
    /// Which one: `ext4` or `xfs`.
    pub kind: FileSystemKind,
    /// Work for a commit, without that of its requests. Absent: 20, assumed.
    #[serde(default = "assumed_commit")]
    #[schemars(extend("unit" = "1000 cycles"))]
    pub commit_kcycles: Figure,
    /// Work of a write that changes the file's timestamps: the first one after each tick. Absent: 2, assumed.
    #[serde(default = "assumed_inode")]
    #[schemars(extend("unit" = "1000 cycles"))]
    pub inode_kcycles: Figure,
    /// Work of each write, beyond that of a write to the raw drive. Absent: 0, assumed.
    #[serde(default = "assumed_write")]
    #[schemars(extend("unit" = "1000 cycles"))]
    pub write_kcycles: Figure,
    /// Where the kind and plain figures come from.
    pub source: String,
}

fn assumed_commit() -> Figure {
    Figure::assumed(COMMIT_KCYCLES, WHY)
}

fn assumed_inode() -> Figure {
    Figure::assumed(INODE_KCYCLES, WHY)
}

fn assumed_write() -> Figure {
    Figure::assumed(WRITE_KCYCLES, "no machine's writes were compared")
}
