//! How large the I/Os of a job are, what is in them, and how many go to the drive together.

use serde::Serialize;

use super::PerDirection;

/// Largest number of parts in a `bssplit`: fio's own limit (`BSSPLIT_MAX`).
pub(super) const MAX_PARTS: usize = 64;

/// fio's `iodepth_batch*` and `iodepth_low` as given; [`FioJob::effective_batching`](super::FioJob::effective_batching) gives the effective values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Batches {
    /// Number of I/Os submitted together; 0: `iodepth`. Default 1.
    pub submit: u32,
    /// Number of I/Os waited for together. Default 1.
    pub complete_min: u32,
    /// Most I/Os reaped by one call; a number below `complete_min` counts as `complete_min`. Default 0.
    pub complete_max: u32,
    /// Number of I/Os left in flight, once `iodepth` is reached, before more are submitted; 0: `iodepth`. Default 0.
    pub low: u32,
}

impl Default for Batches {
    fn default() -> Self {
        Self {
            submit: 1,
            complete_min: 1,
            complete_max: 0,
            low: 0,
        }
    }
}

/// A part of a `bssplit`: a size in bytes with an optional share in percent.
pub type SplitPart = (u64, Option<u8>);

/// Block sizes that vary from I/O to I/O.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockSizes {
    /// fio's `bsrange`: the least and the most bytes.
    pub range: PerDirection<Option<(u64, u64)>>,
    /// fio's `bssplit`, which overrides `range`: at most 64 sizes with shares.
    pub split: PerDirection<Option<Vec<SplitPart>>>,
    /// Whether sizes need not be multiples of the smallest. Default false.
    pub unaligned: bool,
    /// Whether the sizes for reads apply to sequential I/Os, and the sizes for writes to random I/Os. Default false.
    pub by_order: bool,
}

impl BlockSizes {
    /// Whether any block size varies from I/O to I/O.
    pub fn any_size_varies(&self) -> bool {
        self.range.as_array().iter().any(|range| range.is_some())
            || self.split.as_array().iter().any(|split| split.is_some())
            || self.by_order
    }
}

/// What the buffer of a write contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Content {
    /// Whether the whole buffer is filled anew each time (fio's `refill_buffers`). Default: if it is partly
    /// `compressible`.
    pub refill: Option<bool>,
    /// Whether buffers hold zeros instead of random data. Default false.
    pub zero: bool,
    /// Whether a few words of each 512 bytes in a buffer are changed each time. Default: unless it is `zero`.
    pub scramble: Option<bool>,
    /// Pattern that fills the buffers instead of random data. Default: none.
    pub pattern: Option<String>,
    /// Share of zeros in a buffer, in percent.
    pub compressible: Option<u8>,
    /// Share of duplicate blocks among the written data, in percent.
    pub duplicates: Option<u8>,
}
