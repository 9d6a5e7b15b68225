//! Syncs that tasks share, as a database's group commit does.
//!
//! While one task of a pool writes and flushes, other tasks append to the same log and sleep. At the end the first task wakes the tasks
//! whose data are on the media, and the task that syncs next. The length of a sync decides who shares one, so groups are no part of the
//! steps. Each commit joins a sync instead, and has a sync's steps in case that no other task syncs at that moment.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use super::item::{Item, Wait};
use super::observed::{ObservedIo, ObservedRun};
use super::write_pools::MOST_STEPS_OF_SHARED_SYNC;

/// Fewest syncs of a pool, and fewest commits by another task's sync.
const FEWEST_SYNCS: usize = 20;

/// Most items of a sync. A wait for another task's sync becomes a sync's items and three steps more: the begin, the work before the
/// first request, and the end. `write_pools` counts so many steps for such a wait.
const MOST_ITEMS_OF_SYNC: usize = MOST_STEPS_OF_SHARED_SYNC - 3;

/// Most cycles of the kernel's work between two requests of a sync, or between a sync's end and a wake-up.
const MOST_CYCLES_BETWEEN: u64 = 40_000;

/// Clock in kHz where none is recorded.
const UNKNOWN_KHZ: u32 = 2_000_000;

/// Size of a sector in bytes.
const SECTOR: u32 = 512;

/// A task of a pool.
#[derive(Debug)]
pub(super) struct PoolTask<'a> {
    /// The kernel's thread number.
    pub(super) number: u32,
    pub(super) items: &'a mut Vec<Item>,
    /// Largest number of the task's requests in flight.
    pub(super) depth: &'a mut u32,
}

/// Makes tasks that write one at a time join each other's syncs of a log with this number. Tasks that never wait for another task's
/// sync, or would get more than `room` further items, stay as they are. Otherwise `room` shrinks by these items. Returns whether the
/// tasks join syncs.
pub(super) fn share_syncs(tasks: &mut [PoolTask<'_>], log: u32, room: &mut usize) -> bool {
    let Some(pool) = Pool::find_group_commits(tasks) else {
        return false;
    };
    let Some(left) = room.checked_sub(pool.count_added_items()) else {
        return false;
    };
    *room = left;
    for (commits, task) in pool.tasks.iter().zip(tasks) {
        *task.items = commits.rewrite(task.items, &pool, log);
        *task.depth = (*task.depth).max(1);
    }
    true
}

/// A task's sync, by indices of items: from the first write or flush to the last wait, and the wake-ups after the last wait.
#[derive(Clone, Debug)]
struct Sync {
    first: usize,
    last: usize,
    wakes: Vec<usize>,
    /// Commits that the sync brings to the media.
    commits: u64,
}

/// What a wait for another task's sync led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommitWait {
    /// The commit was on the media.
    Covered,
    /// The task syncs next.
    Leads,
}

/// Syncs of a task, and the task's waits for other tasks' syncs by index of the item.
#[derive(Debug, Default)]
struct TaskCommits {
    syncs: Vec<Sync>,
    waits: BTreeMap<usize, CommitWait>,
}

/// Tasks that share syncs.
#[derive(Debug)]
struct Pool {
    tasks: Vec<TaskCommits>,
    bytes: CommitBytes,
    /// Steps of a sync for tasks without a sync of their own.
    first_sync: Vec<Item>,
    /// Work of a task between the wake-up that lets the task sync and its first request; `None`: not seen.
    work_before_sync: Option<ObservedRun>,
}

/// Bytes of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CommitBytes {
    /// What one commit adds to a sync.
    each: u32,
    /// The first write of a sync for one commit.
    alone: u32,
}

impl Pool {
    /// `None`: the tasks do not share syncs.
    fn find_group_commits(all: &[PoolTask<'_>]) -> Option<Self> {
        let mut tasks: Vec<TaskCommits> = (all.iter())
            .map(|task| TaskCommits {
                syncs: find_syncs(task.items),
                waits: BTreeMap::new(),
            })
            .collect();
        let mut all_syncs = tasks.iter().flat_map(|task| &task.syncs);
        if all_syncs.any(|sync| sync.range().count() > MOST_ITEMS_OF_SYNC) {
            return None;
        }
        classify_waits(all, &mut tasks);
        let syncs: usize = tasks.iter().map(|task| task.syncs.len()).sum();
        let waits = tasks.iter().flat_map(|task| task.waits.values());
        let covered = waits.filter(|wait| **wait == CommitWait::Covered);
        if syncs < FEWEST_SYNCS || covered.count() < FEWEST_SYNCS {
            return None;
        }
        let bytes = measure_commit_bytes(all, &tasks)?;
        let mut first_syncs = (tasks.iter().zip(all))
            .filter_map(|(task, pool_task)| pool_task.items.get(task.syncs.first()?.range()));
        let first_sync = with_first_write(first_syncs.next()?, bytes.alone);
        Some(Self {
            work_before_sync: find_median_work_before_sync(all, &tasks),
            tasks,
            bytes,
            first_sync,
        })
    }

    /// Upper limit of the items that sharing adds: each sync gets a begin and an end, and each wait for a sync becomes a sync.
    fn count_added_items(&self) -> usize {
        let tasks = self.tasks.iter();
        let added =
            tasks.map(|task| 2 * task.syncs.len() + task.count_items_of_covered_waits(self));
        added.sum()
    }
}

impl Sync {
    /// Indices of the sync's own items.
    fn range(&self) -> RangeInclusive<usize> {
        self.first..=self.last
    }
}

impl TaskCommits {
    /// Whether the task begins a sync after the item with this index, with nothing but runs between item and sync.
    fn begins_sync_after(&self, items: &[Item], index: usize) -> bool {
        let mut next = items.iter().enumerate().skip(index + 1);
        let action = next.find(|(_, item)| !matches!(item, Item::Run(_)));
        action.is_some_and(|(action, _)| {
            let found = self.syncs.binary_search_by_key(&action, |sync| sync.first);
            found.is_ok()
        })
    }

    /// Number of items that the task's waits for other tasks' syncs become. A wait becomes a sync like the task's own last sync before
    /// the wait.
    fn count_items_of_covered_waits(&self, pool: &Pool) -> usize {
        let mut syncs = self.syncs.iter().peekable();
        let mut own_items = pool.first_sync.len();
        let waits = self.waits.iter();
        let covered = waits.filter(|(_, wait)| **wait == CommitWait::Covered);
        let counts = covered.map(|(index, _)| {
            while let Some(sync) = syncs.next_if(|sync| sync.first < *index) {
                own_items = sync.range().count();
            }
            3 + own_items
        });
        counts.sum()
    }

    /// The task's items, in which each commit joins a sync.
    fn rewrite(&self, items: &[Item], pool: &Pool, log: u32) -> Vec<Item> {
        let join = Item::JoinSync {
            log,
            bytes: pool.bytes.each,
        };
        let firsts: BTreeSet<usize> = self.syncs.iter().map(|sync| sync.first).collect();
        let dropped: BTreeSet<usize> = (self.syncs.iter())
            .flat_map(|sync| sync.wakes.iter().copied())
            .collect();
        let mut syncs = self.syncs.iter();
        let mut own_sync = pool.first_sync.clone();
        let mut has_joined = false;
        let mut all = Vec::with_capacity(items.len() * 2);
        let mut index = 0;
        while let Some(item) = items.get(index) {
            match self.waits.get(&index) {
                Some(CommitWait::Leads) => {
                    all.push(join);
                    has_joined = true;
                }
                Some(CommitWait::Covered) => {
                    all.push(join);
                    all.extend(pool.work_before_sync.map(Item::Run));
                    all.extend(&own_sync);
                    all.push(Item::EndSync);
                }
                None if firsts.contains(&index) => {
                    if !std::mem::take(&mut has_joined) {
                        all.push(join);
                    }
                    if let Some(sync) = syncs.next() {
                        own_sync = with_first_write(&items[sync.range()], pool.bytes.alone);
                        all.extend(&own_sync);
                        index = sync.last;
                    }
                    all.push(Item::EndSync);
                }
                None if dropped.contains(&index) => {}
                None => all.push(*item),
            }
            index += 1;
        }
        all
    }
}

/// Median work of a task between its wait for another task's sync and the first request of its own sync. Commits that another task
/// brought to the media show no such work.
fn find_median_work_before_sync(
    all: &[PoolTask<'_>],
    tasks: &[TaskCommits],
) -> Option<ObservedRun> {
    let mut runs: Vec<ObservedRun> = Vec::new();
    for (task, commits) in all.iter().zip(tasks) {
        let leading = commits
            .waits
            .iter()
            .filter(|(_, wait)| **wait == CommitWait::Leads);
        runs.extend(
            leading.filter_map(|(index, _)| match task.items.get(index + 1) {
                Some(Item::Run(run)) => Some(*run),
                _ => None,
            }),
        );
    }
    runs.sort_by_key(count_cycles);
    runs.get(runs.len() / 2).copied()
}

/// The items of a sync whose first write has so many bytes.
fn with_first_write(items: &[Item], bytes: u32) -> Vec<Item> {
    let mut all = items.to_vec();
    let first = all.iter_mut().find_map(|item| match item {
        Item::Io(io) => Some(io),
        _ => None,
    });
    if let Some(io) = first {
        io.bytes = bytes;
    }
    all
}

/// Whether an item writes to the drive or flushes its cache.
fn is_write_or_flush(item: &Item) -> bool {
    matches!(item, Item::Flush | Item::Io(ObservedIo { write: true, .. }))
}

/// Whether a run may be the kernel's work for a request or a wake-up.
fn is_short(run: &ObservedRun) -> bool {
    count_cycles(run) <= MOST_CYCLES_BETWEEN
}

fn count_cycles(run: &ObservedRun) -> u64 {
    let khz = u64::from(run.khz.unwrap_or(UNKNOWN_KHZ));
    run.time_ns.saturating_mul(khz) / 1_000_000
}

/// The syncs among a task's items: writes and flushes in a row, with a wait for the last request at the end.
fn find_syncs(items: &[Item]) -> Vec<Sync> {
    let mut syncs = Vec::new();
    let mut index = 0;
    while index < items.len() {
        let first = index;
        index += 1;
        if !is_write_or_flush(&items[first]) {
            continue;
        }
        let mut last = first;
        while let Some(item) = items.get(index) {
            match item {
                Item::Run(run) if is_short(run) => {}
                Item::Wait(Wait::Io(_)) | Item::Pass(_) => last = index,
                item if is_write_or_flush(item) => last = index,
                _ => break,
            }
            index += 1;
        }
        index = last + 1;
        if matches!(items[last], Item::Wait(Wait::Io(0)) | Item::Pass(0)) {
            syncs.push(Sync {
                first,
                last,
                wakes: find_wakes_from(items, index),
                commits: 1,
            });
        }
    }
    syncs
}

/// Wake-ups from an index on, with nothing but the kernel's work before each.
fn find_wakes_from(items: &[Item], start: usize) -> Vec<usize> {
    let after = items.iter().enumerate().skip(start);
    let next = after.take_while(|(_, item)| match item {
        Item::Run(run) => is_short(run),
        item => matches!(item, Item::Wake(_)),
    });
    let wakes = next.filter(|(_, item)| matches!(item, Item::Wake(_)));
    wakes.map(|(index, _)| index).collect()
}

/// The sync that ended just before each wake-up, by waking and woken task, in order of the wake-ups: index of the task, and index among
/// the task's syncs. `None`: no sync ended there.
type SyncsBeforeWakes = BTreeMap<(u32, u32), VecDeque<Option<(usize, usize)>>>;

/// Finds the waits for syncs among the waits for tasks of the pool, and counts the commits of each sync. A wake-up of a task outside
/// the pool is no end of a sync, and stays among the waker's items.
fn classify_waits(all: &[PoolTask<'_>], tasks: &mut [TaskCommits]) {
    let mut wakes = SyncsBeforeWakes::new();
    let numbers: BTreeSet<u32> = all.iter().map(|task| task.number).collect();
    for (at, (waker, commits)) in all.iter().zip(tasks.iter_mut()).enumerate() {
        for sync in &mut commits.syncs {
            sync.wakes.retain(
                |wake| matches!(waker.items[*wake], Item::Wake(woken) if numbers.contains(&woken)),
            );
        }
        let after_sync: BTreeMap<usize, usize> = (commits.syncs.iter().enumerate())
            .flat_map(|(number, sync)| sync.wakes.iter().map(move |wake| (*wake, number)))
            .collect();
        for (index, item) in waker.items.iter().enumerate() {
            if let Item::Wake(woken) = item {
                let sync = after_sync.get(&index).map(|sync| (at, *sync));
                let pair = wakes.entry((waker.number, *woken)).or_default();
                pair.push_back(sync);
            }
        }
    }
    for (at, woken) in all.iter().enumerate() {
        for (index, item) in woken.items.iter().enumerate() {
            let Item::Wait(Wait::Task { waker, .. }) = item else {
                continue;
            };
            let pair = wakes.get_mut(&(*waker, woken.number));
            let Some((leader, sync)) = pair.and_then(VecDeque::pop_front).flatten() else {
                continue;
            };
            let wait = if tasks[at].begins_sync_after(woken.items, index) {
                CommitWait::Leads
            } else {
                tasks[leader].syncs[sync].commits += 1;
                CommitWait::Covered
            };
            tasks[at].waits.insert(index, wait);
        }
    }
}

/// Bytes of commits, by a line through the sizes of syncs with few and with many; `None`: no sync writes.
fn measure_commit_bytes(all: &[PoolTask<'_>], tasks: &[TaskCommits]) -> Option<CommitBytes> {
    let (mut count, mut commits, mut bytes) = (0.0, 0.0, 0.0);
    let (mut squares, mut products) = (0.0, 0.0);
    for (task, commits_of_task) in all.iter().zip(tasks) {
        for sync in &commits_of_task.syncs {
            let written = task.items[sync.range()].iter().find_map(|item| match item {
                Item::Io(io) => Some(f64::from(io.bytes)),
                _ => None,
            });
            let Some(written) = written else { continue };
            let commits_of_sync = sync.commits as f64;
            count += 1.0;
            commits += commits_of_sync;
            bytes += written;
            squares += commits_of_sync * commits_of_sync;
            products += commits_of_sync * written;
        }
    }
    if count == 0.0 {
        return None;
    }
    let spread = count * squares - commits * commits;
    let slope = (count * products - commits * bytes) / spread.max(1.0);
    let mean = bytes / commits;
    let each = if spread > 0.0 {
        slope.clamp(0.0, mean)
    } else {
        mean
    };
    let alone = (bytes - each * commits) / count + each;
    let sectors = (alone / f64::from(SECTOR)).ceil().max(1.0);
    Some(CommitBytes {
        each: each.round() as u32,
        alone: (sectors as u32).saturating_mul(SECTOR),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORK: Item = Item::Run(ObservedRun {
        time_ns: 300_000,
        cpu: 0,
        khz: None,
        interrupts: 0,
    });

    fn write(bytes: u32) -> Item {
        Item::Io(ObservedIo {
            write: true,
            bytes,
            sector: 0,
            is_forced: false,
        })
    }

    fn wait_for_task(waker: u32) -> Item {
        Item::Wait(Wait::Task {
            waker,
            slept_ns: 500,
        })
    }

    const END_OF_WRITE: Item = Item::Wait(Wait::Io(0));

    /// Tasks 1 to 3: by turns, the first two sync for themselves and every second time for the third one, too.
    fn items_of_committers() -> [Vec<Item>; 3] {
        let mut all: [Vec<Item>; 3] = Default::default();
        for round in 0..50 {
            for leader in [1, 2] {
                let covers_third = round % 2 == 0;
                let items = &mut all[leader as usize - 1];
                if round + leader > 1 {
                    items.extend([WORK, wait_for_task(3 - leader)]);
                }
                items.extend([
                    write(if covers_third { 24_576 } else { 14_336 }),
                    END_OF_WRITE,
                ]);
                items.extend(covers_third.then_some(Item::Wake(3)));
                items.push(Item::Wake(3 - leader));
                if covers_third {
                    all[2].extend([WORK, wait_for_task(leader)]);
                }
            }
        }
        all
    }

    fn share(items: &mut [Vec<Item>; 3]) -> bool {
        share_within(items, &mut 1000)
    }

    fn share_within(items: &mut [Vec<Item>; 3], room: &mut usize) -> bool {
        let mut depths = [1, 1, 0];
        let tasks = items.iter_mut().zip(&mut depths).zip(1..);
        let mut pool: Vec<PoolTask<'_>> = tasks
            .map(|((items, depth), number)| PoolTask {
                number,
                items,
                depth,
            })
            .collect();
        let is_shared = share_syncs(&mut pool, 3, room);
        assert_eq!(depths, if is_shared { [1; 3] } else { [1, 1, 0] });
        is_shared
    }

    #[test]
    fn each_commit_joins_a_sync_of_its_own_size() {
        let mut items = items_of_committers();
        assert!(share(&mut items));
        // A commit adds 10,240 bytes to the 4,096 of any sync.
        let sync = [
            Item::JoinSync {
                log: 3,
                bytes: 10_240,
            },
            write(14_336),
            END_OF_WRITE,
            Item::EndSync,
        ];
        assert_eq!(items[0][..4], sync);
        for (task, commits) in items.iter().zip([50, 50, 50]) {
            let rounds: Vec<&[Item]> = task.split(|item| *item == WORK).collect();
            let with_sync = rounds.iter().filter(|round| **round == sync);
            assert_eq!(with_sync.count(), commits);
            assert!(
                rounds
                    .iter()
                    .all(|round| round.is_empty() || **round == sync)
            );
        }
    }

    /// A task that leads the next sync works for the submission after its wait. A covered task has the same work in its own sync.
    #[test]
    fn a_covered_commit_has_the_work_of_its_submission() {
        let submission = Item::Run(ObservedRun {
            time_ns: 7_000,
            cpu: 0,
            khz: None,
            interrupts: 0,
        });
        let mut items = items_of_committers();
        for task in &mut items[..2] {
            let all = std::mem::take(task);
            for item in all {
                let is_wait = matches!(item, Item::Wait(Wait::Task { .. }));
                task.push(item);
                task.extend(is_wait.then_some(submission));
            }
        }
        assert!(share(&mut items));
        let begun = items[2].iter().zip(items[2].iter().skip(1));
        let joined = begun
            .filter(|(item, next)| matches!(item, Item::JoinSync { .. }) && **next == submission);
        assert_eq!(joined.count(), 50);
    }

    #[test]
    fn tasks_that_wake_each_other_without_syncs_keep_their_wake_ups() {
        let mut items = items_of_committers();
        for item in items.iter_mut().flatten() {
            if matches!(item, Item::Io(_)) {
                *item = WORK;
            }
        }
        let before = items.clone();
        assert!(!share(&mut items));
        assert_eq!(items, before);
    }

    fn count_items(items: &[Vec<Item>; 3]) -> usize {
        items.iter().map(Vec::len).sum()
    }

    #[test]
    fn syncs_take_no_more_room_than_there_is() {
        let mut room = 10_000;
        let mut items = items_of_committers();
        let before = count_items(&items);
        assert!(share_within(&mut items, &mut room));
        let taken = 10_000 - room;
        assert!(count_items(&items) <= before + taken);
        let mut enough = items_of_committers();
        assert!(share_within(&mut enough, &mut taken.clone()));
        let mut too_many = items_of_committers();
        assert!(!share_within(&mut too_many, &mut (taken - 1)));
        assert_eq!(too_many, items_of_committers());
    }

    #[test]
    fn a_sync_with_many_requests_is_no_commit() {
        for (requests, is_shared) in [(MOST_ITEMS_OF_SYNC - 1, true), (MOST_ITEMS_OF_SYNC, false)] {
            let mut items = items_of_committers();
            let first = items[0].iter().position(is_write_or_flush);
            let flushes = vec![Item::Flush; requests - 1];
            let place = first.map_or(0, |first| first + 1);
            items[0].splice(place..place, flushes);
            assert_eq!(share(&mut items), is_shared, "{requests}");
        }
    }
}
