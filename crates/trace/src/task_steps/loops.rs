//! Loops of steps, made from what each task did.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::arrival_sources::{ArrivalSleeps, median};
use super::item::{Item, Wait};
use super::observed::{ArrivalSource, MAX_OBSERVED_STEPS, ObservedRun, ObservedStep, ObservedTask};
use super::shared_syncs::{PoolTask, share_syncs};
use super::spins::{count_spins, split_spins};

/// Names, or their beginnings, of tasks that are left out: the recorder, and threads that belong to mechanisms which a simulator has
/// itself (RCU, schedutil, interrupts, migration).
const LEFT_OUT: [&str; 7] = [
    "wakepath",
    "rcu_",
    "sugov:",
    "irq/",
    "ksoftirqd/",
    "migration/",
    "swapper",
];

/// Most CPU time in ns between two requests of one read-ahead: what it takes to submit one.
const BETWEEN_REQUESTS_NS: u64 = 20_000;

/// Most requests in a read-ahead, so that a reader with hardly any work is held back on a slower drive, too. Assumed.
const MOST_REQUESTS_OF_READ_AHEAD: u32 = 64;

/// Most waits for one write after the other; in front of them is one wait for all that are more.
const MOST_WAITS_IN_ORDER: u32 = 64;

/// Fewest sleeps that tell a periodic timer from sleeps of a fixed length.
const FEWEST_SLEEPS: usize = 4;

/// Most items of all tasks once they share syncs: as many steps as a file with tasks may have.
const MOST_ITEMS_WITH_SYNCS: usize = 2 * MAX_OBSERVED_STEPS;

/// What a task did from its first burst on.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskItems {
    items: Vec<Item>,
    pub(super) first_cpu: u32,
    /// CPUs on which the task ran, and how often it got one.
    cpus: BTreeSet<u32>,
    turns: u64,
    pub(super) delay_ns: u64,
    depth: u32,
    requests: u64,
    is_waited_for: bool,
    /// Whether the task slept for something else while a read was in flight, or ran on, as a reader of a file does that is read ahead.
    pub(super) reads_ahead: bool,
    pub(super) io_wait: bool,
    pub(super) is_running_at_end: bool,
    /// Whether the task leaves an RCU callback in each burst.
    pub(super) leaves_callbacks: bool,
}

impl TaskItems {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn add(&mut self, item: Item) {
        self.items.push(item);
    }

    /// Adds a burst, or makes the last one longer. Returns the number of items added.
    pub(super) fn add_run(&mut self, run: ObservedRun) -> usize {
        if run.time_ns == 0 {
            return 0;
        }
        if let Some(Item::Run(before)) = self.items.last_mut()
            && (before.cpu, before.khz) == (run.cpu, run.khz)
        {
            before.time_ns = before.time_ns.saturating_add(run.time_ns);
            before.interrupts = before.interrupts.saturating_add(run.interrupts);
            return 0;
        }
        self.items.push(Item::Run(run));
        1
    }

    /// Notes that the task got a CPU.
    pub(super) fn note_turn(&mut self, cpu: u32) {
        self.cpus.insert(cpu);
        self.turns += 1;
    }

    /// Notes a request with which so many are in flight.
    pub(super) fn note_request(&mut self, in_flight: u32, background: bool) {
        self.requests += 1;
        self.depth = self.depth.max(in_flight);
        self.is_waited_for |= !background;
    }

    /// Notes that the task waited for a read. The kernel flags all reads into the page cache as read-ahead, also those that a task
    /// waits for.
    pub(super) fn note_wait_for_read(&mut self) {
        self.is_waited_for = true;
    }

    /// Adds the sleep that goes on at the recording's end, unless the task begins anew with a wait for another task. Without this
    /// sleep the task would begin its next round too early.
    pub(super) fn add_sleep_at_end(&mut self, asleep_ns: u64) {
        if !self.begins_with_wake_up() {
            self.items.push(Item::Wait(Wait::Outside(asleep_ns)));
        }
    }

    /// Whether the task slept at first, until another task woke it.
    fn begins_with_wake_up(&self) -> bool {
        matches!(self.items.first(), Some(Item::Wait(Wait::Task { .. })))
    }

    /// Leaves out what would not be followed by a wait if the task began anew, unless the task spins.
    fn end_with_whole_round(&mut self, used_ns: u64) {
        let last_wait = (self.items.iter()).rposition(|item| matches!(item, Item::Wait(_)));
        if self.begins_with_wake_up() {
            if self.is_running_at_end
                && let Some(last) = last_wait
            {
                self.items.truncate(last);
            }
            return;
        }
        if self.runs_to_end_since(last_wait.unwrap_or(0), used_ns) {
            return;
        }
        match last_wait {
            Some(last) => self.items.truncate(last + 1),
            None if self.is_empty() => {}
            None => self.items.push(Item::Wait(Wait::Outside(used_ns))),
        }
    }

    /// Whether most reads begin where the one before ended.
    fn reads_in_sequence(&self) -> bool {
        let (mut next, mut reads, mut in_sequence) = (None, 0, 0);
        for item in &self.items {
            if let Item::Io(read) = item
                && !read.write
            {
                reads += 1;
                in_sequence += usize::from(next == Some(read.sector));
                next = Some(read.sector.saturating_add(u64::from(read.bytes / 512)));
            }
        }
        2 * in_sequence > reads
    }

    fn count_waits(&self) -> u64 {
        let waits = self.items.iter();
        waits.filter(|item| matches!(item, Item::Wait(_))).count() as u64
    }

    /// Whether the task ran from some item on for at least half of the time, and at its end.
    fn runs_to_end_since(&self, first: usize, used_ns: u64) -> bool {
        let times = self.items.iter().skip(first).map(|item| match item {
            Item::Run(run) => run.time_ns,
            _ => 0,
        });
        self.is_running_at_end && times.fold(0, u64::saturating_add) >= used_ns / 2
    }

    /// Makes each request of a task with one at a time be waited for, also where it was over before the task could sleep.
    fn await_each_single_request(&mut self) {
        if self.reads_ahead {
            self.await_read_ahead_before_last();
            return;
        }
        if self.depth != 1 {
            return;
        }
        self.items.retain(|item| !matches!(item, Item::Pass(_)));
        let mut all = Vec::with_capacity(self.items.len());
        for (index, item) in self.items.iter().enumerate() {
            all.push(*item);
            if !matches!(item, Item::Io(_) | Item::Flush) {
                continue;
            }
            let next = self.items[index + 1..]
                .iter()
                .find(|item| matches!(item, Item::Io(_) | Item::Flush | Item::Wait(_)));
            if !matches!(next, Some(Item::Wait(Wait::Io(_)))) {
                all.push(Item::Wait(Wait::Io(0)));
            }
        }
        self.items = all;
    }

    /// Makes a reader whose file is read ahead wait, after each read-ahead, for the one before.
    ///
    /// The mark that begins a read-ahead lies on the first page of the last one. That is the page that the reader takes next
    /// (`filemap_get_pages()`, `mm/filemap.c`, Linux 6.12).
    fn await_read_ahead_before_last(&mut self) {
        let mut all = Vec::with_capacity(self.items.len());
        let (mut earlier, mut latest) = (0, 0);
        let mut run_ns = 0_u64;
        for item in &self.items {
            all.push(*item);
            match item {
                Item::Io(_) => {
                    let begins_read_ahead = latest == 0 || latest == MOST_REQUESTS_OF_READ_AHEAD;
                    if run_ns > BETWEEN_REQUESTS_NS || begins_read_ahead {
                        earlier = std::mem::take(&mut latest);
                    }
                    latest += 1;
                    run_ns = 0;
                    if earlier > 0 {
                        all.push(Item::Pass(latest));
                        self.depth = self.depth.max(earlier + latest);
                    }
                }
                Item::Run(run) => run_ns = run_ns.saturating_add(run.time_ns),
                Item::Spin(ns) => run_ns = run_ns.saturating_add(*ns),
                Item::Wait(Wait::Io(most)) | Item::Pass(most) => latest = latest.min(*most),
                Item::Wait(_) => run_ns = run_ns.saturating_add(BETWEEN_REQUESTS_NS + 1),
                Item::Flush | Item::Wake(_) | Item::JoinSync { .. } | Item::EndSync => {}
            }
        }
        self.items = all;
    }

    /// Makes a task wait for each of its writes that comes before a flush, if it ever waited for them one by one. `fsync()` does so for
    /// the pages that it writes back.
    ///
    /// Which of these waits were sleeps in the recording depends on the clock.
    fn await_write_back_in_order(&mut self) {
        if self.reads_ahead || !self.waits_for_writes_one_by_one() {
            return;
        }
        let mut all: Vec<Item> = Vec::with_capacity(self.items.len());
        let (mut in_flight, mut after_writes) = (0, Vec::new());
        for item in &self.items {
            match item {
                Item::Io(_) | Item::Flush => {
                    if *item == Item::Flush {
                        add_waits_in_order(&mut all, in_flight, &after_writes);
                        in_flight = 0;
                    } else {
                        all.append(&mut after_writes);
                        in_flight += 1;
                    }
                    after_writes.clear();
                    all.push(*item);
                }
                Item::Wait(Wait::Io(_)) | Item::Pass(_) | Item::Run(_) if in_flight > 0 => {
                    after_writes.push(*item);
                }
                other => {
                    all.append(&mut after_writes);
                    all.push(*other);
                    in_flight = 0;
                }
            }
        }
        all.append(&mut after_writes);
        self.items = all;
    }

    /// Whether the task ever slept for some of its writes between the last one and a flush.
    fn waits_for_writes_one_by_one(&self) -> bool {
        let mut has_waited = false;
        self.items.iter().any(|item| match item {
            Item::Io(_) => {
                has_waited = false;
                false
            }
            Item::Wait(Wait::Io(most)) => {
                has_waited |= *most > 0;
                false
            }
            Item::Flush => std::mem::take(&mut has_waited),
            _ => false,
        })
    }

    /// Whether the task's timers expire more evenly than its sleeps last.
    fn has_periodic_timer(&self) -> bool {
        let (mut lengths, mut periods) = (Vec::new(), Vec::new());
        let mut last = None;
        for item in &self.items {
            if let Item::Wait(Wait::Timer { begun, expiry }) = item {
                lengths.push(expiry.saturating_sub(*begun));
                if let Some(last) = last.replace(*expiry) {
                    periods.push(expiry.saturating_sub(last));
                }
            }
        }
        periods.len() >= FEWEST_SLEEPS && mean_deviation(periods) < mean_deviation(lengths)
    }

    /// The steps, with `indices` of tasks by number.
    ///
    /// A periodic timer runs from the time when the task began, `begun`, on, and not from the end of what the task did first.
    fn into_steps(
        mut self,
        indices: &BTreeMap<u32, usize>,
        begun: u64,
        from: ArrivalSource,
    ) -> Vec<ObservedStep> {
        let is_periodic = self.has_periodic_timer();
        split_spins(&mut self.items);
        let mut last_expiry = Some(begun).filter(|_| is_periodic);
        let mut last_arrival = begun;
        let mut steps = Vec::with_capacity(self.items.len() + 1);
        let mut begins_burst = self.leaves_callbacks;
        for item in &self.items {
            if std::mem::take(&mut begins_burst) {
                steps.push(ObservedStep::LeaveCallback);
            }
            begins_burst = self.leaves_callbacks && matches!(item, Item::Wait(_));
            let step = match *item {
                Item::Run(run) => ObservedStep::Run(run),
                Item::Spin(ns) => ObservedStep::Spin(ns),
                Item::Io(io) => ObservedStep::Io(io),
                Item::Flush => ObservedStep::Flush,
                Item::JoinSync { log, bytes } => ObservedStep::JoinSync { log, bytes },
                Item::EndSync => ObservedStep::EndSync,
                Item::Wake(task) => match indices.get(&task) {
                    Some(index) => ObservedStep::Wake(*index),
                    None => continue,
                },
                Item::Wait(Wait::Io(most)) => ObservedStep::AwaitIo(most),
                Item::Pass(most) => ObservedStep::PassIo(most),
                Item::Wait(Wait::Timer { begun, expiry }) => {
                    match last_expiry.replace(expiry).filter(|_| is_periodic) {
                        Some(last) => {
                            ObservedStep::SleepAfterLastTimer(expiry.saturating_sub(last))
                        }
                        None => ObservedStep::Sleep(expiry.saturating_sub(begun)),
                    }
                }
                Item::Wait(Wait::Arrival { begun, at, cpu }) => {
                    let is_answer = from == ArrivalSource::Client;
                    let since = if is_answer { begun } else { last_arrival };
                    last_arrival = at;
                    ObservedStep::Arrival {
                        after_ns: at.saturating_sub(since),
                        cpu,
                        from,
                    }
                }
                Item::Wait(Wait::Task { .. }) => ObservedStep::AwaitWakeUp,
                Item::Wait(Wait::Outside(ns)) => ObservedStep::Sleep(ns),
            };
            steps.push(step);
        }
        if self.depth > 0 && steps.last() != Some(&ObservedStep::AwaitIo(0)) {
            steps.push(ObservedStep::AwaitIo(0));
        }
        steps
    }
}

/// Adds what a task did after so many writes and before a flush, with waits for one write after the other.
fn add_waits_in_order(all: &mut Vec<Item>, writes: u32, recorded: &[Item]) {
    let mut left = writes.min(MOST_WAITS_IN_ORDER);
    for item in recorded {
        match item {
            Item::Wait(Wait::Io(most)) => {
                all.extend((most + 1..left).rev().map(Item::Pass));
                left = left.min(*most);
                all.push(*item);
            }
            Item::Pass(_) => {}
            other => all.push(*other),
        }
    }
    all.extend((0..left).rev().map(Item::Pass));
}

/// Mean distance in ns of times from their median.
fn mean_deviation(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    let middle = median(&times);
    let distances = times.iter().map(|time| u128::from(time.abs_diff(middle)));
    (distances.sum::<u128>() / times.len().max(1) as u128) as u64
}

/// A task with its number and name, and what the task did.
#[derive(Debug)]
pub(super) struct FollowedTask {
    pub(super) number: u32,
    pub(super) name: Option<String>,
    /// Sleeps that something outside ended.
    pub(super) outside_wake_ups: u64,
    pub(super) items: TaskItems,
}

/// Makes a loop of what each task did, from a start on and for so many ns. Tasks with `exclusive` names write one at a time.
pub(super) fn make_loops(
    mut all: Vec<FollowedTask>,
    exclusive: &BTreeSet<String>,
    (start, used_ns): (u64, u64),
) -> Vec<ObservedTask> {
    all.retain(|task| !task.items.is_empty() && !is_left_out(task.name.as_deref()));
    for task in &mut all {
        task.items.end_with_whole_round(used_ns);
        task.items.reads_ahead &= task.items.reads_in_sequence();
        task.items.await_each_single_request();
        task.items.await_write_back_in_order();
    }
    all.retain(|task| !task.items.is_empty());
    all.sort_by_key(|task| (Reverse(task.items.requests), task.number));
    share_syncs_of_tasks(&mut all, exclusive);
    balance_wake_ups(&mut all);
    let indices: BTreeMap<u32, usize> = (all.iter().enumerate())
        .map(|(index, task)| (task.number, index))
        .collect();
    let sources = find_sources_of_arrivals(&all);
    let tasks = all.into_iter().map(|task| ObservedTask {
        number: task.number,
        delay_ns: task.items.delay_ns,
        first_cpu: task.items.first_cpu,
        cpus: task.items.cpus.iter().copied().collect(),
        turns: task.items.turns,
        depth: task.items.depth,
        requests: task.items.requests,
        io_wait: task.items.io_wait,
        uses_page_cache: task.items.reads_ahead || task.items.waits_for_writes_one_by_one(),
        waits: task.items.count_waits(),
        outside_wake_ups: task.outside_wake_ups,
        is_waited_for: task.items.is_waited_for,
        steps: {
            let begun = start.saturating_add(task.items.delay_ns);
            let from = sources.get(&task.name).copied();
            let source = from.unwrap_or(ArrivalSource::Own);
            task.items.into_steps(&indices, begun, source)
        },
        name: task.name,
    });
    tasks.collect()
}

/// Who sends to tasks, by their name.
fn find_sources_of_arrivals(all: &[FollowedTask]) -> BTreeMap<Option<String>, ArrivalSource> {
    let mut sleeps: BTreeMap<_, ArrivalSleeps> = BTreeMap::new();
    for task in all {
        let of_name = sleeps.entry(task.name.clone()).or_default();
        of_name.add_task(&task.items.items);
    }
    let mut pools = 0..;
    let sources = sleeps.into_iter().map(|(name, sleeps)| {
        let source = if sleeps.have_waiting_clients() {
            ArrivalSource::Client
        } else if sleeps.end_with_last_sleeper_first() {
            pools.next().map_or(ArrivalSource::Own, ArrivalSource::Pool)
        } else {
            ArrivalSource::Own
        };
        (name, source)
    });
    sources.collect()
}

/// Makes tasks of one name that write one at a time join each other's syncs, if they wait for these.
fn share_syncs_of_tasks(all: &mut [FollowedTask], exclusive: &BTreeSet<String>) {
    if exclusive.is_empty() {
        return;
    }
    let mut logs = 0;
    // Spins are split off behind the sharing, and need room, too.
    let counts = all.iter().map(|task| {
        let items = &task.items.items;
        items.len() + count_spins(items)
    });
    let items: usize = counts.sum();
    let mut room = MOST_ITEMS_WITH_SYNCS.saturating_sub(items);
    for name in exclusive {
        let of_name = all
            .iter_mut()
            .filter(|task| task.name.as_ref() == Some(name));
        let mut pool: Vec<PoolTask<'_>> = of_name
            .map(|task| {
                let TaskItems { items, depth, .. } = &mut task.items;
                PoolTask {
                    number: task.number,
                    items,
                    depth,
                }
            })
            .collect();
        logs += u32::from(share_syncs(&mut pool, logs, &mut room));
    }
}

fn is_left_out(name: Option<&str>) -> bool {
    name.is_some_and(|name| LEFT_OUT.iter().any(|known| name.starts_with(known)))
}

/// Counts by pair: a waking and a woken task.
type PairCounts = BTreeMap<(u32, u32), usize>;

/// Makes each loop have as many waits for a task as that task's loop has wake-ups. Otherwise loops would drift, or stop.
fn balance_wake_ups(all: &mut [FollowedTask]) {
    let (mut wakes, mut waits) = (PairCounts::new(), PairCounts::new());
    for task in all.iter() {
        for item in &task.items.items {
            match item {
                Item::Wake(woken) => *wakes.entry((task.number, *woken)).or_default() += 1,
                Item::Wait(Wait::Task { waker, .. }) => {
                    *waits.entry((*waker, task.number)).or_default() += 1;
                }
                _ => {}
            }
        }
    }
    let mut surplus_wakes = subtract_counts(&wakes, &waits);
    let mut surplus_waits = subtract_counts(&waits, &wakes);
    for task in all.iter_mut() {
        let mut kept: Vec<Item> = Vec::with_capacity(task.items.items.len());
        // The last ones are left out: their counterparts came after the end.
        for item in task.items.items.iter().rev() {
            match item {
                Item::Wake(woken) if take_one(&mut surplus_wakes, (task.number, *woken)) => {}
                Item::Wait(Wait::Task { waker, slept_ns })
                    if take_one(&mut surplus_waits, (*waker, task.number)) =>
                {
                    kept.push(Item::Wait(Wait::Outside(*slept_ns)));
                }
                other => kept.push(*other),
            }
        }
        kept.reverse();
        task.items.items = kept;
    }
}

fn subtract_counts(counts: &PairCounts, others: &PairCounts) -> PairCounts {
    let rest = counts.iter().filter_map(|(pair, count)| {
        let rest = count.saturating_sub(others.get(pair).copied().unwrap_or(0));
        (rest > 0).then_some((*pair, rest))
    });
    rest.collect()
}

fn take_one(counts: &mut PairCounts, pair: (u32, u32)) -> bool {
    match counts.get_mut(&pair) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}
