//! Requests at a file, from as many threads as there are to be in flight.

use std::fs::File;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wakepath_system::System;

use super::cpus_in_turn::choose_biggest_cpus;
use super::plan::{AccessDirection, AddressOrder, LoadShape};
use crate::ExperimentControl;
use crate::pin::pin_to;
use crate::test_file::{ALIGNMENT, AlignedBuffer};

/// Upper bound for samples per thread: half a minute with the fastest drives.
const MAX_SAMPLES: usize = 1 << 22;

/// What a load left.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadSamples {
    /// Latencies in ns, ordered by start time over all threads.
    pub(super) latencies: Vec<u64>,
    /// From the first request to the end of the last.
    pub(super) elapsed: Duration,
}

/// Where requests go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadTarget<'a> {
    pub(crate) file: &'a File,
    /// Size of the measured part.
    pub(crate) bytes: u64,
}

/// Runs a load for a time, or until writes have covered the file once.
pub(super) fn run_load(
    target: LoadTarget<'_>,
    shape: LoadShape,
    time: Duration,
    control: ExperimentControl<'_>,
) -> io::Result<LoadSamples> {
    run_load_with_threads(target, shape, time, control, |_| {}, 0)
}

/// Runs reads at depth 1 on one of the biggest CPUs after the other, for equal times.
///
/// What a read takes depends on the CPU: which one the interrupt comes to, which one is busy with other things. A thread that may
/// run anywhere stays where the scheduler put it first, so that each measurement finds the time of another CPU.
pub(super) fn run_reads_on_cpus_in_turn(
    system: &System,
    target: LoadTarget<'_>,
    shape: LoadShape,
    time: Duration,
    control: ExperimentControl<'_>,
) -> io::Result<LoadSamples> {
    let cpus = choose_biggest_cpus(system)?;
    let mut all = LoadSamples::default();
    for (turn, cpu) in cpus.iter().enumerate() {
        // Where a CPU goes away meanwhile, the thread runs on another.
        let prepare = |_| drop(pin_to(*cpu));
        let first_seed = turn as u64;
        let each = time / cpus.len() as u32;
        let samples = run_load_with_threads(target, shape, each, control, prepare, first_seed)?;
        all.latencies.extend(samples.latencies);
        all.elapsed += samples.elapsed;
    }
    Ok(all)
}

/// Runs a load. Each thread calls `prepare` first; the first of them draws its places by the seed `first_seed`.
fn run_load_with_threads(
    target: LoadTarget<'_>,
    shape: LoadShape,
    time: Duration,
    control: ExperimentControl<'_>,
    prepare: impl Fn(u64) + Sync,
    first_seed: u64,
) -> io::Result<LoadSamples> {
    let started = Instant::now();
    let shared = SharedLoad {
        target,
        shape,
        began: started,
        end: started + time,
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        all: Mutex::new((Vec::new(), None)),
        control,
    };
    std::thread::scope(|scope| {
        for thread in 0..shape.depth as u64 {
            let (shared, prepare) = (&shared, &prepare);
            scope.spawn(move || {
                prepare(thread);
                shared.send_requests_in_thread(first_seed + thread);
            });
        }
    });
    let elapsed = started.elapsed();
    let (samples, error) = shared
        .all
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    match error {
        Some(error) => Err(error),
        None => Ok(LoadSamples {
            latencies: order_by_start(samples),
            elapsed,
        }),
    }
}

/// Latencies of samples in the order of their start.
fn order_by_start(mut samples: Vec<TimedSample>) -> Vec<u64> {
    // One thread's samples are in order already, which a stable sort notices.
    samples.sort_by_key(|sample| sample.start_ns);
    samples.iter().map(|sample| sample.latency_ns).collect()
}

/// A request's start since the load's start, and its latency.
#[derive(Clone, Copy, Debug)]
struct TimedSample {
    start_ns: u64,
    latency_ns: u64,
}

/// Shared by the threads of a load.
struct SharedLoad<'a> {
    target: LoadTarget<'a>,
    shape: LoadShape,
    began: Instant,
    end: Instant,
    /// Requests begun.
    next: AtomicU64,
    stop: AtomicBool,
    /// Samples from ended threads, and the first error.
    all: Mutex<(Vec<TimedSample>, Option<io::Error>)>,
    control: ExperimentControl<'a>,
}

impl SharedLoad<'_> {
    fn send_requests_in_thread(&self, thread: u64) {
        let mut samples = Vec::new();
        let result = self.send_requests(thread, &mut samples);
        let mut all = self
            .all
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        all.0.append(&mut samples);
        if let Err(error) = result {
            self.stop.store(true, Ordering::Relaxed);
            all.1.get_or_insert(error);
        }
    }

    fn send_requests(&self, thread: u64, samples: &mut Vec<TimedSample>) -> io::Result<()> {
        let block = (self.shape.kib as usize) << 10;
        let mut buffer = AlignedBuffer::with_random_content(block, thread);
        let mut random = Pcg64Mcg::seed_from_u64(seed_for_thread(self.shape, thread));
        let blocks = (self.target.bytes / block as u64).max(1);
        while samples.len() < MAX_SAMPLES && !self.is_over() {
            let request = self.next.fetch_add(1, Ordering::Relaxed);
            if self.shape.direction == AccessDirection::Write && request >= blocks {
                break;
            }
            let place = match self.shape.order {
                AddressOrder::Sequential => request % blocks,
                AddressOrder::Random => random.random_range(0..blocks),
            };
            let began = Instant::now();
            transfer(
                self.target.file,
                self.shape.direction,
                &mut buffer,
                place * block as u64,
            )?;
            samples.push(TimedSample {
                latency_ns: began.elapsed().as_nanos() as u64,
                start_ns: began.saturating_duration_since(self.began).as_nanos() as u64,
            });
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.control.is_cancelled()
            || Instant::now() >= self.end
    }
}

/// A seed of its own for each thread of each load: blocks that an earlier load read could be in the drive's cache.
fn seed_for_thread(shape: LoadShape, thread: u64) -> u64 {
    (shape.kib << 32) | ((shape.depth as u64) << 16) | thread
}

/// One request.
pub(super) fn transfer(
    file: &File,
    direction: AccessDirection,
    buffer: &mut AlignedBuffer,
    offset: u64,
) -> io::Result<()> {
    let expected = buffer.bytes().len();
    let done = match direction {
        AccessDirection::Read => rustix::io::pread(file, buffer.bytes_mut(), offset)?,
        AccessDirection::Write => rustix::io::pwrite(file, buffer.bytes(), offset)?,
    };
    if done == expected {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("{done} of {expected} bytes at {offset}"),
    ))
}

/// A random 4 KiB block's offset.
pub(crate) fn random_block(random: &mut Pcg64Mcg, bytes: u64) -> u64 {
    let blocks = (bytes / ALIGNMENT as u64).max(1);
    random.random_range(0..blocks) * ALIGNMENT as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn deeper_loads_read_other_blocks() {
        let seeds_at = |depth: usize| {
            let shape = LoadShape {
                direction: AccessDirection::Read,
                order: AddressOrder::Random,
                kib: 4,
                depth,
            };
            (0..depth as u64).map(move |thread| seed_for_thread(shape, thread))
        };
        let seeds: BTreeSet<u64> = [1, 4, 16, 32].into_iter().flat_map(seeds_at).collect();
        assert_eq!(seeds.len(), 1 + 4 + 16 + 32);
    }
}
