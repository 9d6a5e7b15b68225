//! A task's present page cache call, and how the task reads its file.

use std::collections::VecDeque;

use crate::block::request::Request;
use crate::core::basics::Cycles;
use crate::page_cache::mappings::MappedReads;
use crate::page_cache::pages::Pages;
use crate::page_cache::plug::PluggedWrite;
use crate::page_cache::read_ahead::{ReadAheadRule, Window};
use crate::page_cache::state::{PageCache, Writer};

/// A task's present page cache call: of a process, or of the flusher thread.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// Number of the task's file, and the byte where the task begins there.
    pub(super) file: usize,
    pub(super) base: u64,
    pub(super) writer: Writer,
    pub(super) stage: Stage,
    /// Pages of the call, and its pages still to be copied or written back.
    pub(super) pages: Pages,
    pub(super) left: Pages,
    /// Whether the call writes only a part of its first page, and of its last page.
    pub(super) parts: [bool; 2],
    /// The read or write for which the call is made, with its latency so far.
    pub(super) request: Request,
    /// Work in cycles of the call's present part.
    pub(super) work: Cycles,
    /// Whether the call ends only with its data on the media.
    pub(super) syncs: bool,
    /// Whether the call is at its last action, a flush of the drives.
    pub(super) flushes: bool,
    /// The awaited request, unless the call awaits the whole file: a page's read, or the flush. 0: about to be
    /// submitted.
    pub(super) awaits: Option<u64>,
    /// Where the call goes on after that request.
    pub(super) stage_after_wait: Stage,
    /// Number of the last write-back request that the call awaits.
    pub(super) upto: u64,
    /// Number of the write-back request whose pages are taken.
    pub(super) taken: u64,
    /// Write-back requests that the drives do not have yet.
    pub(super) plug: Vec<PluggedWrite>,
    /// Whether other tasks use the file, too, so that syncs lock its pages.
    pub(super) shares_file: bool,
    /// Number of the lock on a page that the task has; others wait for that number.
    pub(super) lock: Option<u64>,
    /// Pages of a shared file that the task's sync has found, and locks or waits for in turn.
    pub(super) batch: VecDeque<u64>,
    /// How often the task has waited for the lock that it wants.
    pub(super) lock_waits: u32,
    /// Time in ns when a lock was released that the task waited for.
    pub(super) unlocked_at: Option<u64>,
    /// Whether this task's writes first read a page that they write only in part, unless the page is cached: the file has data there.
    pub(super) reads_parts: bool,
    /// Each write ends with the data on the media.
    pub(super) always_syncs: bool,
    /// Whether the file lies on a file system with a journal.
    pub(super) journals: bool,
    /// Whether the call waits for data only, as `fdatasync` does.
    pub(super) syncs_data_only: bool,
    /// Whether the call has asked for the commit that the call needs, and whether the flush of this commit is enough.
    pub(super) asked_for_commit: bool,
    pub(super) needs_no_flush: bool,
    /// The transaction that the call needs on XFS, and whether the call has waited for the buffer before that of the transaction.
    pub(super) transaction: Option<u64>,
    pub(super) has_awaited_buffer: bool,
    /// Whether the work to leave the run queue before a sleep is done.
    pub(super) deactivated: bool,
    /// The awaited request, once it has ended.
    pub(super) ended: Option<Request>,
    /// How the task's file is read ahead; `None` if its reads do not look at single pages.
    pub(super) reading: Option<Reading>,
    /// Reads that wait for a page while the task goes on, oldest first.
    pub(super) deferred: Vec<DeferredRead>,
}

/// A read that waits for a page beside its task, as io_uring's do.
#[derive(Clone, Debug)]
pub(crate) struct DeferredRead {
    /// Number of the awaited request, and the request itself, once it has ended.
    pub(super) awaits: u64,
    pub(super) ended: Option<Request>,
    /// The read with its latency so far, its pages, and those still to be copied.
    pub(super) request: Request,
    pub(super) pages: Pages,
    pub(super) left: Pages,
    /// The byte behind the read.
    pub(super) end: u64,
    /// Whether the read has waited for a page before this one.
    pub(super) waited: bool,
}

/// How a task reads a file.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(super) rule: ReadAheadRule,
    pub(super) window: Window,
    /// Number of the file's last page.
    pub(super) last_page: u64,
    /// Whether what is cached of the file is dropped before each pass.
    pub(super) invalidates: bool,
    /// Whether the process opens the file anew where its reads come back to the begin.
    pub(super) reopens: bool,
    /// Requests that the present call has to submit before it goes on.
    pub(super) to_submit: VecDeque<(u64, Pages)>,
    /// The byte behind the present read.
    pub(super) end: u64,
    /// Whether the present call has waited for a page.
    pub(super) waited: bool,
    /// Whether reads that have to wait for a page leave the task to go on.
    pub(super) defers: bool,
    /// How the task has the file mapped; `None` if it reads by system calls.
    pub(super) mapping: Option<MappedReads>,
}

impl Reading {
    /// A file that is not read yet, read by this rule.
    pub(super) fn new(rule: ReadAheadRule, last_page: u64, invalidates: bool) -> Self {
        Self {
            rule,
            window: Window::default(),
            last_page,
            invalidates,
            reopens: false,
            to_submit: VecDeque::new(),
            end: 0,
            waited: false,
            defers: false,
            mapping: None,
        }
    }
}

impl Reading {
    /// Whether the task has the file mapped.
    pub(super) fn is_mapped(&self) -> bool {
        self.mapping.is_some()
    }
}

/// A stage of a page cache call, or of the kernel's write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// At the begin of a write: wait for the request with this number, which writes the block of the file's inode.
    AwaitInode(u64),
    /// At the begin: looks whether any page has to be read before it is partly written.
    Look,
    /// Go on to copy the call's next pages.
    Next,
    /// Copy these pages.
    Copy(Pages),
    /// Be held back until a time.
    Pause(u64),
    /// Look for dirty pages to write back.
    WriteBack,
    /// Submit a request to read or write these pages; without pages: a flush.
    Issue(Pages),
    /// Look which of the read's next pages are cached, being read, or missing.
    Fetch,
    /// Submit the request with this number to read these pages ahead.
    Ahead(u64, Pages),
    /// Copy these cached pages to the reader, or the writer's data to these mapped pages.
    CopyOut(Pages),
    /// Let the writer write to these pages of its mapping, which are dirty from then on.
    Dirty(Pages),
    /// Look whether the awaited request has ended.
    Settle,
    /// Sleep until the awaited request has ended.
    Asleep,
    /// Go on after the sleep, with the work of that done.
    Resume,
    /// Look which commit the sync needs.
    Commit,
    /// Look where the sync's transaction is on its way through XFS's log.
    ForceLog,
    /// Submit the buffer of XFS's log with this number.
    WriteBuffer(u64),
}

impl Caller {
    /// State of the kernel's flusher thread, which belongs to no file.
    pub(crate) fn for_flusher() -> Self {
        Self::new(usize::MAX, 0)
    }

    pub(super) fn new(file: usize, base: u64) -> Self {
        let none = Pages::none_in_file(file);
        Self {
            file,
            base,
            writer: Writer::default(),
            stage: Stage::WriteBack,
            pages: none,
            left: none,
            parts: [false; 2],
            request: Request::default(),
            work: 0,
            syncs: false,
            flushes: false,
            awaits: None,
            stage_after_wait: Stage::Next,
            upto: 0,
            taken: 0,
            plug: Vec::new(),
            shares_file: false,
            lock: None,
            batch: VecDeque::new(),
            lock_waits: 0,
            unlocked_at: None,
            reads_parts: false,
            always_syncs: false,
            journals: false,
            syncs_data_only: false,
            asked_for_commit: false,
            needs_no_flush: false,
            transaction: None,
            has_awaited_buffer: false,
            deactivated: false,
            ended: None,
            reading: None,
            deferred: Vec::new(),
        }
    }

    /// Begins a call for the given pages, at the given stage.
    pub(crate) fn begin_call(&mut self, stage: Stage, pages: Pages) {
        self.stage = stage;
        self.flushes = false;
        (self.asked_for_commit, self.needs_no_flush) = (true, false);
        (self.pages, self.left) = (pages, pages);
    }

    /// Where the call goes on after a piece is written, or after the pause that follows.
    pub(super) fn stage_after_piece(&self) -> Stage {
        if self.reading.as_ref().is_some_and(Reading::is_mapped) {
            Stage::Fetch
        } else {
            Stage::Next
        }
    }

    /// Has the call wait for a request or a lock, and go on at a stage after that.
    pub(super) fn wait_for(&mut self, number: u64, after: Stage) {
        self.awaits = Some(number);
        self.stage = Stage::Settle;
        self.stage_after_wait = after;
    }

    /// The first partly written page of the call that is not cached, to be read before.
    pub(crate) fn partial_page_to_read(&self, cache: &PageCache) -> Option<Pages> {
        let Pages { file, first, count } = self.pages;
        let ends = [first, (first + count).saturating_sub(1)];
        let parts = ends.into_iter().zip(self.parts);
        let pages = parts.filter(|(_, part)| *part).map(|(first, _)| Pages {
            file,
            first,
            count: 1,
        });
        { pages }.find(|page| !cache.has_all_cached(*page))
    }
}
