//! The page cache, into which buffered writes go.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figure, Origin};

/// Default memory size.
const MEMORY_GIB: f64 = 16.0;
const MEMORY_WHY: &str = "the machine does not say how much memory it has";

const CALL_KCYCLES: f64 = 1.5;
const CALL_WHY: &str = "measured on another machine: fio 3.33, psync, writes of 4 KiB to 1 MiB into cached pages of ext4, Linux 6.18, Xeon of 2.6 GHz";

const PAGE_KCYCLES: f64 = 2.0;
const PAGE_WHY: &str = "measured on another machine: the same, 1.3 for a page that is cached, 2.8 for a new one of tmpfs";

const WRITE_BACK_KCYCLES: f64 = 1.0;
const WRITE_BACK_WHY: &str =
    "1.9 thousand instructions in the laboratory (docs/background/laboratory.md), two in a cycle";

/// Size of the page cache, and the cost of writing into the cache.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PageCache {
    /// Memory available to the page cache, the base for limits on dirty pages. Absent: 16, assumed.
    #[schemars(extend("unit" = "GiB", "minimum" = 0.0625, "maximum" = 65536.0))]
    pub memory_gib: Figure,
    /// Work for a write system call of any size. Absent: 1.5, assumed.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub write_kcycles: Figure,
    /// Work per 4 KiB written: finding or allocating the page, copying, and accounting. Absent: 2, assumed; without
    /// this table `io_path.page_cache_kcycles`, if that is given.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub page_kcycles: Figure,
    /// Work per 4 KiB that a read copies out of the page cache: finding the page and copying. Part of `io_path.page_cache_kcycles`,
    /// if that is given. Absent: as `page_kcycles`.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub read_page_kcycles: Figure,
    /// Work per 4 KiB that a read brings into a large folio, except the first, besides the copy: less than for a page by itself, which
    /// is allocated and inserted alone. Absent: as for a page by itself.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub folio_page_kcycles: Figure,
    /// Work of a program for a read or write of a mapped file of any size, without page faults. Absent: half of `write_kcycles`.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub mapped_io_kcycles: Figure,
    /// Work per 4 KiB that a program copies from or into a mapped file. Absent: half of `read_page_kcycles`.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub mapped_page_kcycles: Figure,
    /// Extra work per page written back, besides the request's: marking the page clean, and finishing writeback.
    /// Absent: 1, assumed.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub write_back_kcycles: Figure,
    /// Source of the table's plain figures, if there are any.
    pub source: String,
}

impl Default for PageCache {
    fn default() -> Self {
        Self {
            memory_gib: Figure::assumed(MEMORY_GIB, MEMORY_WHY),
            write_kcycles: Figure::assumed(CALL_KCYCLES, CALL_WHY),
            page_kcycles: Figure::assumed(PAGE_KCYCLES, PAGE_WHY),
            read_page_kcycles: Figure::default(),
            folio_page_kcycles: Figure::default(),
            mapped_io_kcycles: Figure::default(),
            mapped_page_kcycles: Figure::default(),
            write_back_kcycles: Figure::assumed(WRITE_BACK_KCYCLES, WRITE_BACK_WHY),
            source: String::new(),
        }
    }
}

impl PageCache {
    /// Whether the machine file says nothing about the page cache.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The first fault of the page cache's figures: key and explanation.
    pub(super) fn first_invalid_key_and_reason(&self) -> Option<(&'static str, &'static str)> {
        if self.write_kcycles.value + self.page_kcycles.value <= 0.0 {
            return Some(("write_kcycles", "a write takes time"));
        }
        let has_plain = [
            &self.memory_gib,
            &self.write_kcycles,
            &self.page_kcycles,
            &self.read_page_kcycles,
            &self.folio_page_kcycles,
            &self.mapped_io_kcycles,
            &self.mapped_page_kcycles,
            &self.write_back_kcycles,
        ]
        .iter()
        .any(|figure| figure.origin == Origin::Table);
        (self.source.is_empty() && has_plain)
            .then_some(("source", "where the plain figures come from"))
    }
}
