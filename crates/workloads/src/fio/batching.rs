//! What follows from a job's blocks, batches and content: how large each I/O is, how many go to the drive together, and
//! what each write costs before.

use super::blocks::SplitPart;
use super::{FioJob, IoEngine};

/// How a process submits and reaps, with fio's rules applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// I/Os submitted together, from 1 to the depth.
    pub submit: u32,
    /// I/Os waited for together, at least 1.
    pub least: u32,
    /// Once the depth is reached, I/Os left in flight before more are submitted, 1 to the depth.
    pub low: u32,
}

/// I/O sizes in a direction, after fio's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// From `least` to `most` bytes, in multiples of `step` and `most` itself.
    Range {
        /// At least 1.
        least: u64,
        /// At least `least`.
        most: u64,
        /// At least 1.
        step: u64,
    },
    /// Sizes in bytes, each with the sum of the shares up to it in percent; the last sum is 100.
    Split(Vec<(u64, u8)>),
}

impl Sizes {
    /// The smallest in bytes.
    pub fn smallest(&self) -> u64 {
        match self {
            Self::Range { least, .. } => *least,
            Self::Split(parts) => parts.iter().map(|p| p.0).min().unwrap_or(1),
        }
    }

    /// The largest in bytes.
    pub fn largest(&self) -> u64 {
        match self {
            Self::Range { most, .. } => *most,
            Self::Split(parts) => parts.iter().map(|p| p.0).max().unwrap_or(1),
        }
    }
}

/// As fio does (`get_next_buflen()`): sorted by share, and the largest share takes whatever the others leave of 100 %.
fn split(parts: &[SplitPart], unaligned: bool) -> Sizes {
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

/// fio's treatment of a buffer before each write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// Nothing.
    Untouched,
    /// Changes a few words in each 512 bytes.
    Scrambled,
    /// Copies zeros or a pattern over the whole buffer.
    Copied,
    /// Writes new random data to a share, in percent, and zeros to the rest.
    Random(u8),
}

impl FioJob {
    /// How each process submits and reaps; `None` if one by one, as by default.
    pub fn batching(&self) -> Option<Batching> {
        let depth = self.effective_iodepth();
        let batches = &self.batches;
        let batching = Batching {
            submit: at_most_depth(batches.submit, depth),
            least: batches.complete_min.clamp(1, depth),
            low: at_most_depth(batches.low, depth),
        };
        (batching.submit > 1 || batching.least > 1 || batching.low < depth).then_some(batching)
    }

    /// How many completed I/Os a process takes back with one system call at most: one, unless the job says otherwise.
    ///
    /// Traced: fio 3.33 with libaio at depth 4 calls `io_getevents()` for exactly one event, then submits one I/O.
    pub fn most_at_once(&self) -> u32 {
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
            // The engine's threads do one I/O per file at a time.
            u64::from(self.iodepth).min(self.files().max(1)) as u32
        } else {
            self.iodepth
        }
    }

    /// Sizes of reads and writes, if any varies.
    pub fn sizes(&self) -> Option<[Sizes; 2]> {
        let sizes_given = &self.block_sizes;
        if !sizes_given.vary() {
            return None;
        }
        let (ranges, splits) = (&sizes_given.range, &sizes_given.split);
        let [read, write] = [
            (ranges.read, &splits.read, self.block_size.read),
            (ranges.write, &splits.write, self.block_size.write),
        ]
        .map(|(range, parts, block)| match parts {
            Some(parts) => split(parts, sizes_given.unaligned),
            None => range_of_sizes(range.unwrap_or((block, block)), sizes_given.unaligned),
        });
        Some(match (sizes_given.by_order, self.rw.is_random()) {
            (false, _) => [read, write],
            (true, false) => [read.clone(), read],
            (true, true) => [write.clone(), write],
        })
    }

    /// Treatment of the buffer before each write.
    ///
    /// As in fio 3.33: `fixup_options()` and `init_flags()` in `init.c`, `get_io_u()` and `fill_io_buffer()` in
    /// `io_u.c`.
    pub fn filling(&self) -> Filling {
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

/// A number of I/Os, where 0 and more than the depth stand for the depth.
const fn at_most_depth(ios: u32, depth: u32) -> u32 {
    if ios == 0 || ios > depth { depth } else { ios }
}

/// Sizes from the least to the most bytes.
const fn range_of_sizes((least, most): (u64, u64), unaligned: bool) -> Sizes {
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
            job(lines).batching().map(|b| (b.submit, b.least, b.low))
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
        assert_eq!(job("iodepth_batch_complete_max=8").most_at_once(), 8);
        assert_eq!(job("").most_at_once(), 1);
        assert_eq!(batching("iodepth_batch=8\nioengine=psync"), None);
        assert_eq!(job("iodepth_batch_complete_min=0").effective_iodepth(), 1);
    }

    #[test]
    fn shares_are_those_of_fio() {
        fn parse_split(text: &str) -> Option<Sizes> {
            let sizes = job(&format!("bssplit={text}")).sizes();
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
                .sizes()
                .map(|[read, _]| (read.smallest(), read.largest())),
            Some((4096, 16384))
        );
    }
}
