//! How large the I/Os of a job are, what is in them, and how many go to the drive together.

use serde::Serialize;

use super::PerDirection;

/// Most parts of a `bssplit`: fio's own limit (`BSSPLIT_MAX`).
pub(super) const MAX_PARTS: usize = 64;

/// fio's `iodepth_batch*` and `iodepth_low` as given; [`FioJob::batching`](super::FioJob::batching) gives the effective values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Batches {
    /// I/Os submitted together; 0: `iodepth`. Default 1.
    pub submit: u32,
    /// I/Os waited for together. Default 1.
    pub complete_min: u32,
    /// I/Os taken back together at most; less than `complete_min` counts as that. Default 0.
    pub complete_max: u32,
    /// Once `iodepth` is reached, I/Os left in flight before more are submitted; 0: `iodepth`. Default 0.
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

/// A size in bytes with an optional share in percent.
pub type SplitPart = (u64, Option<u8>);

/// Block sizes that vary from I/O to I/O.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockSizes {
    /// fio's `bsrange`: the least and the most bytes.
    pub range: PerDirection<Option<(u64, u64)>>,
    /// fio's `bssplit`, which overrides `range`: at most 64 sizes with shares.
    pub split: PerDirection<Option<Vec<SplitPart>>>,
    /// Sizes need not be multiples of the smallest. Default false.
    pub unaligned: bool,
    /// Sizes for reads apply to sequential I/Os, sizes for writes to random I/Os. Default false.
    pub by_order: bool,
}

impl BlockSizes {
    /// Whether any size varies.
    pub fn vary(&self) -> bool {
        self.range.each().iter().any(|range| range.is_some())
            || self.split.each().iter().any(|split| split.is_some())
            || self.by_order
    }
}

/// Buffer content before each write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Content {
    /// Whether the whole buffer is filled anew each time (fio's `refill_buffers`). Default: if it is partly
    /// `compressible`.
    pub refill: Option<bool>,
    /// Zeros instead of random data. Default false.
    pub zero: bool,
    /// Whether a few words of each 512 bytes are changed each time. Default: unless it is `zero`.
    pub scramble: Option<bool>,
    /// Pattern instead of random data. Default: none.
    pub pattern: Option<String>,
    /// Share of zeros in percent.
    pub compressible: Option<u8>,
    /// Share of duplicate blocks, in percent.
    pub duplicates: Option<u8>,
}
