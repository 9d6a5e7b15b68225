//! Requests at a file, from as many threads as there are to be in flight.

use std::fs::File;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::plan::{AccessDirection, AddressOrder, LoadShape};
use crate::ExperimentControl;
use crate::test_file::{ALIGNMENT, AlignedBuffer};

/// Upper bound for samples per thread: half a minute with the fastest drives.
const MAX_SAMPLES: usize = 1 << 22;

/// What a load left.
#[derive(Clone, Debug, Default)]
pub(super) struct LoadSamples {
    /// Latencies in ns, by thread and then by time.
    pub(super) latencies: Vec<u64>,
    /// From the first request to the end of the last.
    pub(super) elapsed: Duration,
}

/// Where requests go.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadTarget<'a> {
    pub(super) file: &'a File,
    /// Size of the measured part.
    pub(super) bytes: u64,
}

/// Runs a load for a time, or until writes have covered the file once.
pub(super) fn run_load(
    target: LoadTarget<'_>,
    shape: LoadShape,
    time: Duration,
    control: ExperimentControl<'_>,
) -> io::Result<LoadSamples> {
    let shared = SharedLoad {
        target,
        shape,
        end: Instant::now() + time,
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        all: Mutex::new((Vec::new(), None)),
        control,
    };
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..shape.depth as u64 {
            let shared = &shared;
            scope.spawn(move || shared.run_thread(thread));
        }
    });
    let elapsed = started.elapsed();
    let (latencies, error) = shared
        .all
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    match error {
        Some(error) => Err(error),
        None => Ok(LoadSamples { latencies, elapsed }),
    }
}

/// Shared by the threads of a load.
struct SharedLoad<'a> {
    target: LoadTarget<'a>,
    shape: LoadShape,
    end: Instant,
    /// Requests begun.
    next: AtomicU64,
    stop: AtomicBool,
    /// Latencies from ended threads, and the first error.
    all: Mutex<(Vec<u64>, Option<io::Error>)>,
    control: ExperimentControl<'a>,
}

impl SharedLoad<'_> {
    fn run_thread(&self, thread: u64) {
        let mut latencies = Vec::new();
        let result = self.send_requests(thread, &mut latencies);
        let mut all = self
            .all
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        all.0.append(&mut latencies);
        if let Err(error) = result {
            self.stop.store(true, Ordering::Relaxed);
            all.1.get_or_insert(error);
        }
    }

    fn send_requests(&self, thread: u64, latencies: &mut Vec<u64>) -> io::Result<()> {
        let block = (self.shape.kib as usize) << 10;
        let mut buffer = AlignedBuffer::with_random_content(block, thread);
        let mut random = Pcg64Mcg::seed_from_u64(thread);
        let blocks = (self.target.bytes / block as u64).max(1);
        while latencies.len() < MAX_SAMPLES && !self.is_over() {
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
            latencies.push(began.elapsed().as_nanos() as u64);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.control.is_cancelled()
            || Instant::now() >= self.end
    }
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
        format!("{done} of {expected} bytes at {offset}; the file has become shorter"),
    ))
}

/// A random 4 KiB block's offset.
pub(crate) fn random_block(random: &mut Pcg64Mcg, bytes: u64) -> u64 {
    let blocks = (bytes / ALIGNMENT as u64).max(1);
    random.random_range(0..blocks) * ALIGNMENT as u64
}
