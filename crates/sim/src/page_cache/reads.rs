//! Events of buffered reads that look at single pages: what is read ahead, what they wait for, and what they copy.
//!
//! As `filemap_read()` and `filemap_get_pages()` (`mm/filemap.c`, Linux 6.12): a read takes its pages in batches. A missing page
//! is read with those around it; a marked one begins the next read-ahead; the read waits for the last page of its batch, and copies
//! the batch.

use crate::block::request::RequestKind;
use crate::core::basics::{CpuId, Direction, TaskId};
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::page_cache::cached::ReadStep;
use crate::page_cache::caller::Stage;
use crate::page_cache::events::Turn;
use crate::page_cache::mapped::MappedStep;
use crate::page_cache::pages::{PAGE, Pages};
use crate::page_cache::read_ahead::Generation;

impl<O: Observer> Engine<'_, O> {
    /// Begins a pass of a task through its file: what is cached of the file is dropped, if the job says so.
    pub(crate) fn begin_pass_through_cached_file(&mut self, task: TaskId) {
        let caller = self.tasks[task].caller.as_ref();
        let Some(reading) = caller.and_then(|caller| caller.reading.as_ref()) else {
            return;
        };
        let (invalidates, maps) = (reading.invalidates, reading.is_mapped());
        if invalidates {
            self.drop_cached_pages_of_task(task);
        }
        if maps && let Some(cache) = &mut self.cache {
            cache.pages.mappings.map_anew(task);
        }
    }

    /// Ends a task's mappings of its file, if it has any.
    pub(crate) fn end_mappings_of_task(&mut self, task: TaskId) {
        if let Some(cache) = &mut self.cache {
            cache.pages.mappings.end_mappings(task);
        }
    }

    /// Takes a read from one of its stages up to the next action of the task. `None`: the read is over.
    pub(super) fn next_turn_of_read(&mut self, task: TaskId) -> Option<Turn> {
        let io = &self.setup.io;
        let extra_work = self.setup.cpu.extra_syscall_work(self.tasks[task].cpu);
        loop {
            let caller = self.tasks[task].caller.as_mut()?;
            let reading = caller.reading.as_mut()?;
            let cache = self.cache.as_mut()?;
            match caller.stage {
                Stage::Ahead(number, pages) => {
                    caller.stage = Stage::Fetch;
                    return Some(Turn::Read(number, pages));
                }
                Stage::CopyOut(pages) => {
                    if caller.request.direction == Direction::Read {
                        cache.pages.totals.copied += pages.count;
                    }
                    if reading.rule.generation == Generation::Linux6_1 && !reading.is_mapped() {
                        let end = pages.page_after_last() * PAGE;
                        reading.window.note_end_of_read(end.min(reading.end), PAGE);
                    }
                    caller.stage = Stage::Fetch;
                }
                _ => {}
            }
            if let Some((number, pages)) = reading.to_submit.pop_front() {
                caller.stage = Stage::Ahead(number, pages);
                let new_pages = cache.pages.work_for_new_pages(pages);
                return Some(Turn::Work(
                    io.submission_work(pages.count * PAGE) + new_pages,
                ));
            }
            if caller.left.count == 0 {
                if !reading.is_mapped() {
                    reading.window.note_end_of_read(reading.end, PAGE);
                }
                return None;
            }
            if let Some(mapping) = reading.mapping {
                let setup = cache.pages.setup;
                let left = &mut caller.left;
                let writes = caller.request.direction == Direction::Write;
                match (cache.pages).next_step_of_mapped(task, reading, mapping, (left, writes)) {
                    MappedStep::Fault { new_table } => {
                        return Some(Turn::Work(setup.fault_work(new_table) + extra_work));
                    }
                    MappedStep::Submit(requests) => {
                        (cache.others).extend(requests.iter().map(|(number, _)| *number));
                        reading.to_submit.extend(requests);
                    }
                    MappedStep::Wait(number) => {
                        caller.wait_for(number, Stage::Fetch);
                        return Some(Turn::Work(0));
                    }
                    MappedStep::Map(pages) => return Some(Turn::Work(setup.map_work(pages))),
                    MappedStep::Dirty { pages, entered } => {
                        caller.stage = Stage::Dirty(pages);
                        return Some(Turn::Work(setup.dirtying_work() + setup.map_work(entered)));
                    }
                    MappedStep::Copy(pages) => {
                        caller.stage = Stage::CopyOut(pages);
                        return Some(Turn::Work(setup.mapped_copy_work(pages.count)));
                    }
                }
                continue;
            }
            match cache
                .pages
                .next_step_of_read(caller.file, reading, &mut caller.left)
            {
                ReadStep::Submit(requests) => {
                    cache
                        .others
                        .extend(requests.iter().map(|(number, _)| *number));
                    reading.to_submit.extend(requests);
                }
                ReadStep::Wait(number) if reading.defers => {
                    caller.defer_read(number);
                    cache.deferred.push((number, task));
                    return Some(Turn::Defer);
                }
                ReadStep::Wait(number) => {
                    caller.wait_for(number, Stage::Fetch);
                    return Some(Turn::Work(0));
                }
                ReadStep::Copy(pages) => {
                    caller.stage = Stage::CopyOut(pages);
                    return Some(Turn::Work(cache.pages.setup.read_page * pages.count));
                }
            }
        }
    }

    /// Submits the request with this number, which reads pages into the page cache.
    pub(super) fn submit_read_into_cache(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        number: u64,
        pages: Pages,
    ) {
        let now = self.context.now();
        let begun = (self.tasks[task].caller.as_ref())
            .map_or(now, |caller| caller.request.attributed_until());
        let created =
            self.create_page_request((cpu, task), (number, pages), Direction::Read, begun);
        if let Some(id) = created {
            self.give_page_request_to_drives(id, RequestKind::Plain, pages);
        }
    }
}
