//! Flushes on their way, from their submission by a task to their completion.

use crate::recording::Block;

/// Most flushes that are followed at a time; a damaged recording may have any number.
const MAX_FLUSHES: usize = 4096;

/// A flush on its way.
#[derive(Clone, Copy, Debug)]
struct Flush {
    device: u32,
    sector: u64,
    task: u32,
}

/// Flushes in flight, the first submitted first.
///
/// The kernel sends one flush of its own to the drive for all that wait (`blk_kick_flush()`, `block/blk-flush.c`, Linux 6.12): a
/// request that writes nothing and has no place, whose completion says nothing of a task. Then it completes each task's flush, which
/// counts as a write without data.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlushesInFlight(Vec<Flush>);

impl FlushesInFlight {
    /// Adds a task's flush. Returns false if it is known already, and only goes on to the device below, or if there are too many.
    pub(crate) fn begin_flush(&mut self, block: &Block, task: u32) -> bool {
        let Block { device, sector, .. } = *block;
        let flush = Flush {
            device,
            sector,
            task,
        };
        let above = (self.0.iter_mut()).find(|above| above.task == task && above.device != device);
        if let Some(above) = above {
            *above = flush;
            return false;
        }
        if self.0.len() >= MAX_FLUSHES {
            return false;
        }
        self.0.push(flush);
        true
    }

    /// Ends the flush that a completion without data belongs to. Returns its task.
    pub(crate) fn end_flush(&mut self, completed: &Block) -> Option<u32> {
        let index = self.0.iter().position(|flush| {
            let is_this = completed.sector != 0 && flush.sector == completed.sector;
            flush.device == completed.device && (completed.write || is_this)
        })?;
        Some(self.0.remove(index).task)
    }

    /// Ends the flush of a task that is woken: tasks sleep until their flush is over. Returns whether there was one, whose completion
    /// the recording lacks. A simulator's flushes have places, and their tasks may be woken by something else.
    pub(crate) fn end_flush_of_woken_task(&mut self, task: u32) -> bool {
        let index = (self.0.iter()).position(|flush| flush.task == task && flush.sector == 0);
        index.map(|index| self.0.remove(index)).is_some()
    }

    /// Forgets all flushes: events were lost.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_data(device: u32, write: bool) -> Block {
        Block {
            device,
            sector: 0,
            bytes: 0,
            write,
        }
    }

    #[test]
    fn the_kernels_own_flush_ends_nothing_and_each_tasks_ends_in_order() {
        let mut flushes = FlushesInFlight::default();
        let queued = without_data(1, true);
        assert!(flushes.begin_flush(&queued, 7) && flushes.begin_flush(&queued, 8));
        let own = Block {
            sector: u64::MAX,
            ..without_data(1, false)
        };
        assert_eq!(flushes.end_flush(&own), None);
        assert_eq!(flushes.end_flush(&without_data(1, false)), None);
        assert_eq!(flushes.end_flush(&without_data(2, true)), None);
        let ended = [(); 3].map(|()| flushes.end_flush(&queued));
        assert_eq!(ended, [Some(7), Some(8), None]);
    }

    #[test]
    fn a_flush_goes_on_to_the_device_below() {
        let mut flushes = FlushesInFlight::default();
        assert!(flushes.begin_flush(&without_data(1, true), 7));
        assert!(!flushes.begin_flush(&without_data(2, true), 7));
        assert_eq!(flushes.end_flush(&without_data(1, true)), None);
        assert_eq!(flushes.end_flush(&without_data(2, true)), Some(7));
    }

    #[test]
    fn a_simulators_flush_has_a_place() {
        let mut flushes = FlushesInFlight::default();
        let simulated = |sector| Block {
            sector,
            ..without_data(1, false)
        };
        assert!(flushes.begin_flush(&simulated(1), 7) && flushes.begin_flush(&simulated(9), 8));
        assert_eq!(flushes.end_flush(&simulated(9)), Some(8));
        assert_eq!(flushes.end_flush(&simulated(1)), Some(7));
    }

    #[test]
    fn no_more_flushes_are_followed_than_the_limit() {
        let mut flushes = FlushesInFlight::default();
        let queued = without_data(1, true);
        let followed = (0..=MAX_FLUSHES as u32).filter(|task| flushes.begin_flush(&queued, *task));
        assert_eq!(followed.count(), MAX_FLUSHES);
    }
}
