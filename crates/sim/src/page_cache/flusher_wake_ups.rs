//! When the kernel's flusher thread is woken: for many dirty pages, or by its timer for old ones.

use crate::core::basics::{CpuId, Timer};
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::page_cache::state::LOOK_EVERY;

impl<O: Observer> Engine<'_, O> {
    /// Starts the kernel's write-back timer after pages became dirty, and wakes the flusher if there are many.
    pub(super) fn start_timer_and_flusher_for_dirty_pages(&mut self, cpu: CpuId) {
        self.start_write_back_timer_if_dirty(cpu);
        let Some(cache) = &mut self.cache else {
            return;
        };
        if cache.rests && cache.pages.exceeds_background_threshold() {
            self.wake_flusher(cpu, Some((cpu, false)));
        }
    }

    /// Wakes the flusher from a CPU. `waker` is the waking task's CPU, and whether the waker is about to sleep; `None`: an interrupt wakes.
    fn wake_flusher(&mut self, cpu: CpuId, waker: Option<(CpuId, bool)>) {
        let Some(cache) = &mut self.cache else {
            return;
        };
        cache.rests = false;
        let flusher = cache.flusher;
        let to = self.choose_cpu_for_woken_task(flusher, waker);
        self.wake_task(Some(cpu), flusher, to);
    }

    /// Starts the kernel's write-back timer, unless running, if any page is dirty.
    pub(super) fn start_write_back_timer_if_dirty(&mut self, cpu: CpuId) {
        let at = self.first_tick_at_or_after(self.context.now() + LOOK_EVERY);
        if let Some(cache) = &mut self.cache
            && !cache.timer
            && cache.pages.dirty_page_count() > 0
        {
            cache.timer = true;
            self.start_wheel_timer(cpu, at, Timer::WriteBack);
        }
    }

    /// Handles the kernel's expired write-back timer: the flusher looks for old dirty pages.
    #[cold]
    pub(crate) fn handle_write_back_timer(&mut self, cpu: CpuId) {
        let Some(cache) = &mut self.cache else {
            return;
        };
        cache.timer = false;
        if cache.pages.dirty_page_count() > 0 {
            cache.round.old = true;
            if cache.rests {
                self.wake_flusher(cpu, None);
            }
        }
    }
}
