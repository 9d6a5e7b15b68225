//! What follows from a job's blocks, batches and content: how large each I/O is, how many go to the drive together, and
//! what each write costs before.

use super::blocks::SplitPart;
use super::{FioJob, IoEngine};

/// How a process submits and reaps I/Os, with fio's rules applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Number of I/Os submitted together, from 1 to the depth.
    pub submit: u32,
    /// Number of I/Os waited for together, at least 1.
    pub least: u32,
    /// Number of I/Os left in flight, once the depth is reached, before more are submitted; 1 to the depth.
    pub low: u32,
}

/// The I/O sizes of a direction, after fio's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Any size from `least` to `most` bytes, in multiples of `step`, and `most` itself.
    Range {
        /// At least 1.
        least: u64,
        /// At least `least`.
        most: u64,
        /// At least 1.
        step: u64,
    },
    /// Sizes in bytes, each with the sum of the shares up to this size in percent; the last sum is 100.
    Split(Vec<(u64, u8)>),
}

impl Sizes {
    /// The smallest possible I/O in bytes.
    pub fn smallest(&self) -> u64 {
        match self {
            Self::Range { least, .. } => *least,
            Self::Split(parts) => parts.iter().map(|p| p.0).min().unwrap_or(1),
        }
    }

    /// The largest possible I/O in bytes.
    pub fn largest(&self) -> u64 {
        match self {
            Self::Range { most, .. } => *most,
            Self::Split(parts) => parts.iter().map(|p| p.0).max().unwrap_or(1),
        }
    }
}

/// Sizes from a `bssplit` as fio takes them (`get_next_buflen()`): sorted by share, and the largest share gets whatever
/// the others leave of 100 %.
fn sizes_from_split(parts: &[SplitPart], unaligned: bool) -> Sizes {
    let smallest = parts.iter().map(|p| p.0).min().unwrap_or(1).max(1);
    let step = if unaligned { 1 } else { smallest };
    let given: u32 = parts.iter().filter_map(|p| p.1.map(u32::from)).sum();
    let open = parts.iter().filter(|p| p.1.is_none()).count() as u32;
    let each = 100_u32.saturating_sub(given).checked_div(open).unwrap_or(0);
    let mut parts: Vec<(u64, u32)> = parts
        .iter()
        .map(|(size, share)| (size / step * step, share.map_or(each, u32::from)))
        .filter(|(_, share)| *share > 0)
        .collect();
    parts.sort_by_key(|(_, share)| *share);
    let mut sum = 0;
    let last = parts.len().saturating_sub(1);
    let sums = parts.into_iter().enumerate().map(|(i, (size, share))| {
        sum = if i == last {
            100
        } else {
            (sum + share).min(100)
        };
        (size, sum as u8)
    });
    Sizes::Split(sums.collect())
}

/// How fio treats an I/O buffer before each write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// Nothing.
    Untouched,
    /// fio changes a few words in each 512 bytes of the buffer.
    Scrambled,
    /// fio copies zeros or a pattern over the whole buffer.
    Copied,
    /// fio writes new random data to a share of the buffer, in percent, and zeros to the rest.
    Random(u8),
}

impl FioJob {
    /// How each process submits and reaps I/Os; `None` if I/Os go one by one, as by default.
    pub fn effective_batching(&self) -> Option<Batching> {
        let depth = self.effective_iodepth();
        let batches = &self.batches;
        let batching = Batching {
            submit: clamp_to_depth(batches.submit, depth),
            least: batches.complete_min.clamp(1, depth),
            low: clamp_to_depth(batches.low, depth),
        };
        (batching.submit > 1 || batching.least > 1 || batching.low < depth).then_some(batching)
    }

    /// How many completed I/Os a process takes back with one system call at most: one, unless the job says otherwise.
    ///
    /// Traced: fio 3.33 with libaio at depth 4 calls `io_getevents()` for exactly one event, then submits one I/O.
    pub fn most_reaped_per_call(&self) -> u32 {
        let batches = &self.batches;
        batches.complete_max.max(batches.complete_min).max(1)
    }

    /// I/Os that are really in flight at once: 1 with a synchronous engine, with libaio and buffered reads, which wait in
    /// the submission, or if `iodepth_batch_complete_min` is 0 and `iodepth_batch_complete_max` not given, as fio then
    /// waits for each; else `iodepth`.
    pub fn effective_iodepth(&self) -> u32 {
        let waits_for_each = (self.batches.complete_min == 0 && self.batches.complete_max == 0)
            || self.waits_in_submission();
        if self.ioengine.is_synchronous() || waits_for_each || self.rw.trims() {
            1
        } else if self.ioengine == IoEngine::Posixaio {
            // The threads of this engine have one I/O per file in flight.
            u64::from(self.iodepth).min(self.files_per_process().max(1)) as u32
        } else {
            self.iodepth
        }
    }

    /// Sizes of reads and of writes, if any size varies; `None` for a job with fixed block sizes.
    pub fn variable_sizes(&self) -> Option<[Sizes; 2]> {
        let sizes_given = &self.block_sizes;
        if !sizes_given.any_size_varies() {
            return None;
        }
        let (ranges, splits) = (&sizes_given.range, &sizes_given.split);
        let [read, write] = [
            (ranges.read, &splits.read, self.block_size.read),
            (ranges.write, &splits.write, self.block_size.write),
        ]
        .map(|(range, parts, block)| match parts {
            Some(parts) => sizes_from_split(parts, sizes_given.unaligned),
            None => sizes_from_range(range.unwrap_or((block, block)), sizes_given.unaligned),
        });
        Some(match (sizes_given.by_order, self.rw.is_random()) {
            (false, _) => [read, write],
            (true, false) => [read.clone(), read],
            (true, true) => [write.clone(), write],
        })
    }

    /// How fio treats the buffer before each write.
    ///
    /// As in fio 3.33: `fixup_options()` and `init_flags()` in `init.c`, `get_io_u()` and `fill_io_buffer()` in
    /// `io_u.c`.
    pub fn buffer_filling(&self) -> Filling {
        let content = &self.content;
        let compressible = content.compressible.unwrap_or(0);
        let partly = (1..100).contains(&compressible);
        if content.refill.unwrap_or(partly) {
            return if content.duplicates.unwrap_or(0) > 0 || partly {
                Filling::Random(100 - if partly { compressible } else { 0 })
            } else if content.pattern.is_some() || content.zero || compressible == 100 {
                Filling::Copied
            } else {
                Filling::Random(100)
            };
        }
        let compressed = content.compressible.is_some() || content.duplicates.is_some();
        if !compressed && content.scramble.unwrap_or(!content.zero) {
            Filling::Scrambled
        } else {
            Filling::Untouched
        }
    }
}

/// Limits a number of I/Os to the depth; 0 stands for the depth.
const fn clamp_to_depth(ios: u32, depth: u32) -> u32 {
    if ios == 0 || ios > depth { depth } else { ios }
}

/// I/O sizes between `least` and `most` bytes, in multiples of the smallest unless `unaligned`.
const fn sizes_from_range((least, most): (u64, u64), unaligned: bool) -> Sizes {
    let step = if unaligned { 1 } else { least };
    Sizes::Range { least, most, step }
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn job(lines: &str) -> FioJob {
        let text = format!("[j]\nsize=1m\ndirect=1\nioengine=libaio\niodepth=16\n{lines}\n");
        parse(&text, "t.fio")
            .map(|mut file| file.jobs.remove(0))
            .unwrap_or_default()
    }

    #[test]
    fn batches_are_bounded_as_in_fio() {
        fn batching(lines: &str) -> Option<(u32, u32, u32)> {
            job(lines)
                .effective_batching()
                .map(|b| (b.submit, b.least, b.low))
        }
        assert_eq!(batching(""), None);
        assert_eq!(batching("iodepth_batch=8"), Some((8, 1, 16)));
        assert_eq!(batching("iodepth_batch=0"), Some((16, 1, 16)));
        assert_eq!(batching("iodepth_batch_submit=99"), Some((16, 1, 16)));
        assert_eq!(batching("iodepth_batch_complete=4"), Some((1, 4, 16)));
        assert_eq!(
            batching("iodepth_batch_complete_min=4\niodepth_batch_complete_max=2\niodepth_low=3"),
            Some((1, 4, 3))
        );
        assert_eq!(batching("iodepth_batch_complete_max=8"), None);
        assert_eq!(
            job("iodepth_batch_complete_max=8").most_reaped_per_call(),
            8
        );
        assert_eq!(job("").most_reaped_per_call(), 1);
        assert_eq!(batching("iodepth_batch=8\nioengine=psync"), None);
        assert_eq!(job("iodepth_batch_complete_min=0").effective_iodepth(), 1);
    }

    #[test]
    fn shares_are_those_of_fio() {
        fn parse_split(text: &str) -> Option<Sizes> {
            let sizes = job(&format!("bssplit={text}")).variable_sizes();
            sizes.map(|[read, _]| read)
        }
        fn split(parts: &[(u64, u8)]) -> Sizes {
            Sizes::Split(parts.to_vec())
        }
        assert_eq!(
            parse_split("4k/20:16k/40"),
            Some(split(&[(4096, 20), (16384, 100)]))
        );
        assert_eq!(
            parse_split("4k/50:16k/70"),
            Some(split(&[(4096, 50), (16384, 100)]))
        );
        assert_eq!(parse_split("4k"), Some(split(&[(4096, 100)])));
        assert_eq!(
            parse_split("4k:16k/:8k/60"),
            Some(split(&[(4096, 20), (16384, 40), (8192, 100)]))
        );
        assert_eq!(
            parse_split("4k/30:6k/70:8k/0"),
            Some(split(&[(4096, 30), (4096, 100)]))
        );
        for wrong in [
            "4k/0",
            "",
            "4k/120",
            "0/50:4k/50",
            "4k/90:8k/20:2k",
            "4k/x",
            "4k/50:",
        ] {
            let text = format!("[j]\nsize=1m\nbssplit={wrong}\n");
            assert!(parse(&text, "t.fio").is_err(), "{wrong}");
        }
        assert_eq!(
            job("bsrange=16k-4k")
                .variable_sizes()
                .map(|[read, _]| (read.smallest(), read.largest())),
            Some((4096, 16384))
        );
    }
}
