//! A fio job's walk: position and size of each I/O, for jobs where positions affect the number of I/Os. Such jobs have
//! varying sizes, zones, or random jobs with sequential runs.

use super::random_map::RandomMap;
use super::{FioJob, IoSizes, Zones};

/// Most blocks in a random map; bigger jobs have no map. Such a job would need more I/Os to hit used blocks.
const MAX_BLOCKS: u64 = 1 << 28;

/// How often a size is drawn at most until an I/O fits into the rest of the area.
const DRAWS: usize = 1000;

/// Numbers at random.
pub trait Draw {
    /// Draws a number from 0 to less than `n`, which is at least 1.
    fn draw_below(&mut self, n: u64) -> u64;
    /// Draws the size of an I/O in bytes.
    fn draw_size(&mut self, sizes: &IoSizes) -> u64;
}

/// The next I/O of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextIo {
    /// Offset from the start of the job's area in the file, in bytes.
    pub offset: u64,
    /// At least 1.
    pub bytes: u64,
}

/// A process's path through its file, as in fio 3.33 (`fill_io_u()` in `io_u.c`, `do_io()` and `keep_running()` in
/// `backend.c`).
#[derive(Clone, Debug)]
pub struct Walk {
    random: bool,
    /// Whether the process starts over at the end of the file.
    time_based: bool,
    /// Sizes of reads and writes, if they vary.
    sizes: Option<[IoSizes; 2]>,
    /// Smallest read and smallest write in bytes: the block size for each direction.
    smallest: [u64; 2],
    /// Random offsets are multiples of so many bytes.
    align: [u64; 2],
    /// Bytes of the largest block in any direction, used or not.
    largest: u64,
    /// Size of the area that a pass covers, in bytes.
    cover: u64,
    /// Size of the area that I/Os can reach, in bytes.
    reach: u64,
    /// Bytes after which a pass ends; `None`: where the file ends, or at the job's limits.
    pass_bytes: Option<u64>,
    /// Bytes skipped after each I/O of a sequential job, or backwards.
    skip: i64,
    /// Offset of the job's area in its file, in bytes.
    start: u64,
    /// Total bytes after which no further pass begins; `None`: only `loops` repeats passes.
    io_size: Option<u64>,
    loops: u32,
    /// One I/O in so many has a random position, the others follow each other.
    every: u64,
    /// Share of truly random I/Os in percent, for reads and for writes.
    random_percent: [u8; 2],
    zones: Option<Zones>,
    /// Number of blocks in the random map; `None` without a map.
    blocks: Option<u64>,
    /// Bytes transferred in earlier passes.
    before: u64,
    pass: Pass,
}

/// Progress of the present pass.
#[derive(Clone, Debug)]
struct Pass {
    bytes: u64,
    /// Bytes that the process read back of what it wrote.
    read_back: u64,
    /// Where the next sequential read and the next sequential write begin.
    position: [u64; 2],
    until_random: u64,
    map: Option<RandomMap>,
    /// Where the present zone begins, and bytes transferred in the zone.
    zone: u64,
    zone_bytes: u64,
}

impl Walk {
    /// The walk of each process on a drive with `capacity` bytes. `None` if limits suffice: I/Os have a single size,
    /// and their positions do not matter. Positions always matter to the page cache.
    pub fn for_job_if_positions_matter(job: &FioJob, capacity: u64) -> Option<Self> {
        let smallest = job.smallest_block_per_direction();
        let unit = smallest.into_iter().min()?;
        let used = [job.rw.reads(), job.rw.writes()];
        let apart = [0, 1].map(|n| used[n] && smallest[n] != unit);
        let vary = job.block_sizes.any_size_varies();
        let map = job.has_random_map();
        let both = used == [true, true] && smallest[0] != smallest[1];
        let zones = job.strided_zones();
        let percent = job.places.percentage_random;
        let random_percent = [percent.read, percent.write];
        let partly = job.rw.is_random() && random_percent != [100; 2];
        let has_gaps_in_cache =
            job.step != 0 && !job.rw.is_random() && job.reads_depend_on_cached_pages();
        let irregular = vary
            || both
            || partly
            || zones.is_some()
            || (map && (apart[0] || apart[1]))
            || (map && (job.writes_to_page_cache() || job.reads_depend_on_cached_pages()))
            || has_gaps_in_cache
            || job.reads_back();
        if !irregular || job.rw.trims() {
            return None;
        }
        let extent = job.process_extent(capacity);
        let start = job.byte_offset_of_first_process(capacity);
        let reach = if job.goes_to_devices() {
            extent.file.max(capacity.saturating_sub(start))
        } else {
            extent.file
        };
        let cover = extent.file.saturating_mul(extent.files);
        let given = job.places.block_align;
        let align = [given.read, given.write].map(|align| align.filter(|_| job.rw.is_random()));
        let given_io_size = job.io_size_option_in_bytes(capacity);
        let (pass_bytes, io_size, skip) = if job.reads_back() {
            // What was read back counts towards the size, so fio looks whether it is reached even without an io_size.
            let pass_bytes = job.bytes_of_verified_pass(extent.size, given_io_size);
            let skip = if job.rw.is_random() { 0 } else { job.step };
            (pass_bytes, given_io_size.or(Some(extent.size)), skip)
        } else {
            (
                (!job.is_time_based()).then_some(extent.size),
                given_io_size,
                if has_gaps_in_cache { job.step } else { 0 },
            )
        };
        let mut walk = Self {
            random: job.rw.is_random(),
            time_based: job.is_time_based(),
            sizes: job.read_and_write_sizes_if_varying(),
            smallest: [smallest[0], smallest[1]],
            align: [
                align[0].unwrap_or(smallest[0]),
                align[1].unwrap_or(smallest[1]),
            ],
            largest: job.largest_block_per_direction().into_iter().max()?,
            cover,
            reach: reach.saturating_mul(extent.files),
            pass_bytes,
            skip,
            start,
            io_size,
            loops: job.loops,
            every: if job.rw.is_random() {
                u64::try_from(job.step).unwrap_or(1).max(1)
            } else {
                1
            },
            random_percent,
            blocks: map
                .then_some(zones.map_or(cover, |zones| zones.range) / unit)
                .filter(|n| *n <= MAX_BLOCKS),
            zones,
            before: 0,
            pass: Pass::default(),
        };
        walk.pass = walk.begin_pass();
        Some(walk)
    }

    fn begin_pass(&self) -> Pass {
        Pass {
            bytes: 0,
            read_back: 0,
            position: [0; 2],
            until_random: 1,
            map: self.blocks.map(RandomMap::new),
            zone: 0,
            zone_bytes: 0,
        }
    }

    /// Whether the pass has not transferred all its bytes.
    pub fn pass_has_bytes_left(&self) -> bool {
        let done = self.pass.bytes + self.pass.read_back;
        self.pass_bytes.is_none_or(|all| done < all)
    }

    /// Counts bytes that the process read back of what it wrote.
    pub fn count_read_back(&mut self, bytes: u64) {
        self.pass.read_back += bytes;
    }

    /// The next read (`direction` 0) or write (1) of the pass, which counts as done; `None`: the pass ends.
    pub fn next_io_of_pass(&mut self, direction: usize, draw: &mut impl Draw) -> Option<NextIo> {
        if !self.pass_has_bytes_left() {
            return None;
        }
        self.advance_zone_if_done(direction);
        let (offset, in_map) = self.next_offset_and_whether_in_map(direction, draw)?;
        let zone = self.pass.zone;
        let mut bytes = self.draw_fitting_size(direction, offset, draw)?;
        if offset.saturating_add(bytes) > self.reach {
            return None;
        }
        if in_map && let Some(map) = &mut self.pass.map {
            let block = self.smallest[direction];
            let taken = map.take_run_of_free_blocks((offset - zone) / block, bytes.div_ceil(block));
            bytes = bytes.min(taken.max(1).saturating_mul(block));
        }
        self.pass.position[direction] = offset + bytes;
        self.pass.bytes += bytes;
        self.pass.zone_bytes += bytes;
        Some(NextIo { offset, bytes })
    }

    /// Ends the pass, and begins another if the job is not finished. Returns whether another pass began and the ended
    /// pass transferred anything.
    pub fn start_over_unless_finished_or_stuck(&mut self) -> bool {
        let done = self.pass.bytes > 0;
        self.before += self.pass.bytes + self.pass.read_back;
        if self.loops > 1 {
            self.loops -= 1;
        } else if !self.time_based {
            // fio begins another pass only if at least the largest block is left.
            let left = self.io_size.and_then(|all| all.checked_sub(self.before));
            if left.is_none_or(|left| left == 0 || left < self.largest) {
                return false;
            }
        }
        let until_random = self.pass.until_random;
        self.pass = self.begin_pass();
        self.pass.until_random = until_random;
        done
    }

    /// Moves on to the next zone if enough was transferred in the present zone (`setup_strided_zone_mode()`).
    fn advance_zone_if_done(&mut self, direction: usize) {
        let (Some(zones), pass) = (self.zones, &mut self.pass) else {
            return;
        };
        if pass.zone_bytes >= zones.size {
            pass.zone_bytes = 0;
            pass.zone = pass
                .zone
                .saturating_add(zones.range)
                .saturating_add(zones.skip);
            if pass.zone >= self.reach {
                pass.zone = 0;
            }
            pass.position[direction] = pass.zone;
        }
        if pass.position[direction] >= pass.zone.saturating_add(zones.range) {
            pass.position[direction] = pass.zone;
        }
        if pass.zone_bytes.is_multiple_of(zones.range) {
            pass.position = [pass.zone; 2];
            pass.map = self.blocks.map(RandomMap::new);
        }
    }

    /// Offset at which the next I/O begins, and whether the I/O is marked in the random map.
    fn next_offset_and_whether_in_map(
        &mut self,
        direction: usize,
        draw: &mut impl Draw,
    ) -> Option<(u64, bool)> {
        if self.random {
            self.pass.until_random -= 1;
            if self.pass.until_random == 0 {
                self.pass.until_random = self.every;
                let percent = u64::from(self.random_percent[direction]);
                if percent >= 100 || draw.draw_below(100) < percent {
                    return Some((self.next_random_offset(direction, draw)?, true));
                }
            }
        }
        let (zone, end) = (self.pass.zone, self.pass.position[direction]);
        let starts_over = end >= self.cover && self.time_based;
        let position = if starts_over {
            zone
        } else {
            self.position_behind_gap(end)
        };
        if position.checked_sub(zone)? < self.cover && position < self.reach {
            return Some((position, false));
        }
        if self.random {
            return Some((self.next_random_offset(direction, draw)?, false));
        }
        None
    }

    /// Where a sequential job goes on behind an I/O that ended at `end`: fio skips bytes, and starts over from the file's
    /// begin, or backwards from its end, where that leads out of the file (`get_next_seq_offset()`).
    fn position_behind_gap(&self, end: u64) -> u64 {
        // An I/O that ended with the file ends the pass.
        if self.skip == 0 || end == 0 || end >= self.reach {
            return end;
        }
        let file_end = self.reach.saturating_add(self.start);
        let position = end.wrapping_add_signed(self.skip);
        if position < file_end {
            position
        } else if self.skip > 0 {
            self.start
        } else {
            self.cover.wrapping_add_signed(self.skip)
        }
    }

    fn next_random_offset(&mut self, direction: usize, draw: &mut impl Draw) -> Option<u64> {
        let offset = self.draw_random_block_offset(direction, draw).or_else(|| {
            if self.time_based {
                self.pass.map = self.blocks.map(RandomMap::new);
            }
            self.draw_random_block_offset(direction, draw)
        })?;
        // The free block found may lie beyond the last block in this direction.
        (offset < self.cover).then_some(self.pass.zone.saturating_add(offset))
    }

    fn draw_random_block_offset(&self, direction: usize, draw: &mut impl Draw) -> Option<u64> {
        let align = self.align[direction];
        let beyond = self.smallest[direction].saturating_sub(align);
        let span = match self.zones {
            Some(zones) => zones.range,
            None => self.cover.min(self.reach),
        };
        let blocks = span.saturating_sub(beyond) / align;
        if blocks == 0 {
            return None;
        }
        let mut block = draw.draw_below(blocks);
        if let Some(map) = &self.pass.map {
            block = map.next_free_block_wrapping(block)?;
        }
        Some(block.saturating_mul(align))
    }

    /// Draws the size of an I/O at `offset`; a varying size is drawn until the I/O fits.
    fn draw_fitting_size(
        &self,
        direction: usize,
        offset: u64,
        draw: &mut impl Draw,
    ) -> Option<u64> {
        let Some(sizes) = &self.sizes else {
            return Some(self.smallest[direction]);
        };
        let sizes = &sizes[direction];
        if sizes.smallest() == sizes.largest() {
            return Some(sizes.smallest());
        }
        let left = self.cover.saturating_sub(offset);
        if left < sizes.smallest() {
            return None;
        }
        let mut drawn = (0..DRAWS).map(|_| draw.draw_size(sizes));
        Some(
            drawn
                .find(|size| *size <= left && *size > 0)
                .unwrap_or(sizes.smallest()),
        )
    }
}

impl Default for Pass {
    fn default() -> Self {
        Self {
            bytes: 0,
            read_back: 0,
            position: [0; 2],
            until_random: 1,
            map: None,
            zone: 0,
            zone_bytes: 0,
        }
    }
}
