//! How requests get into the plug of a task that writes pages back, and from there to the drives.

use crate::block::request::RequestKind;
use crate::core::basics::{CpuId, Direction, TaskId};
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::page_cache::pages::Pages;
use crate::page_cache::plug::{PluggedWrite, is_plug_full};
use wakepath_policies::psd::LeaseTrigger;

impl<O: Observer> Engine<'_, O> {
    /// Puts the request that writes these pages back into the task's plug. A sync on XFS has no plug.
    pub(super) fn plug_write_back(&mut self, cpu: CpuId, task: TaskId, pages: Pages) {
        let now = self.context.now();
        let drives = self.drives.len();
        let (Some(caller), Some(cache)) = (&mut self.tasks[task].caller, &mut self.cache) else {
            return;
        };
        cache.pages.in_flight += 1;
        let is_flusher = task == cache.flusher;
        // The request begins where the waiting task's latency is attributed up to.
        let begun = if is_flusher {
            now
        } else {
            caller.request.attributed_until()
        };
        let has_plug = is_flusher || cache.pages.setup.plugs_syncs();
        let before = if is_plug_full(&caller.plug, drives) {
            std::mem::take(&mut caller.plug)
        } else {
            Vec::new()
        };
        caller.plug.push(PluggedWrite {
            number: caller.taken,
            pages,
            begun,
        });
        self.submit_plugged_writes(cpu, task, before);
        if !has_plug {
            self.empty_plug(cpu, task);
        }
    }

    /// Gives all requests of the task's plug to the drives.
    pub(super) fn empty_plug(&mut self, cpu: CpuId, task: TaskId) {
        if let Some(caller) = &mut self.tasks[task].caller {
            let plug = std::mem::take(&mut caller.plug);
            self.submit_plugged_writes(cpu, task, plug);
        }
    }

    fn submit_plugged_writes(&mut self, cpu: CpuId, task: TaskId, writes: Vec<PluggedWrite>) {
        for write in writes {
            self.grant_psd_lease_on(cpu, LeaseTrigger::is_issue_a_trigger);
            let PluggedWrite {
                number,
                pages,
                begun,
            } = write;
            let id =
                self.create_page_request((cpu, task), (number, pages), Direction::Write, begun);
            if let Some(id) = id {
                self.give_page_request_to_drives(id, RequestKind::Plain, pages);
            }
        }
    }
}
