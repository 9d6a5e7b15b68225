//! Options for the positions of a job's I/Os, where the number of I/Os depends on positions.

use serde::Serialize;

use super::{PerDirection, Size};

/// Where the I/Os of a job lie in its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Places {
    /// Byte offset at which the first process begins in its file (fio's `offset`). Default: at the start.
    pub offset: Option<Size>,
    /// Distance from one process's start to the next process's (fio's `offset_increment`). Default: nothing.
    pub increment: Option<Size>,
    /// An offset in percent is rounded up to a multiple of so many bytes. Default: the smallest block.
    pub align: Option<u64>,
    /// Distribution of random offsets, if not uniform (`random_distribution`). Default: uniform.
    pub distribution: Option<String>,
    /// Random offsets are multiples of so many bytes (fio's `blockalign`). Default: the smallest block.
    pub block_align: PerDirection<Option<u64>>,
    /// Share of I/Os in a random job that have a random position, in percent, 0 to 100. Default 100.
    pub percentage_random: PerDirection<u8>,
    /// Zones of the file, with skipped areas in between.
    pub zones: Zones,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            offset: None,
            increment: None,
            align: None,
            distribution: None,
            block_align: PerDirection::default(),
            percentage_random: PerDirection {
                read: 100,
                write: 100,
                trim: 100,
            },
            zones: Zones::default(),
        }
    }
}

/// fio's `zonemode`, as far as it is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ZoneMode {
    /// No zones.
    #[default]
    None,
    /// Zones with gaps.
    Strided,
}

/// Zones of a file, separated by skipped areas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Zones {
    /// Whether zones are used.
    pub mode: ZoneMode,
    /// Bytes transferred in a zone before the next zone begins. Default 0: no zones.
    pub size: u64,
    /// Size of a zone in bytes; 0: `size`.
    pub range: u64,
    /// Bytes skipped between the end of a zone and the start of the next. Default 0.
    pub skip: u64,
}
