//! When a request's interrupt comes, and whether to the CPU that submitted, as seen by a thread that spins there.
//!
//! The thread submits a request through io_uring, then reads the clock over and over and looks for the completion. The
//! interrupt stops it, so the last reading before the completion shows is the moment at which the interrupt came. Neither an
//! idle exit nor the work of the CPU behind the interrupt is in that time. Of the work before, the way back from the system
//! call is taken off: half of a call that submits nothing for a drive. The jump of the clock is what the interrupt takes.
//!
//! That holds where the interrupt comes to the CPU that submitted, as with NVMe's queues for each CPU. Elsewhere a time
//! would be too long, which the block layer's own mean shows.
//!
//! Nor may the kernel hand a request to another thread, as it does with a write that has to change the file's time first:
//! that thread shares the CPU with the spinning one, and waits for it up to a tick. Requests are therefore sent with
//! `RWF_NOWAIT`. What the kernel cannot begin at once is sent again as an ordinary request, which is not watched.

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use io_uring::{IoUring, opcode, squeue, types};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use rustix::io::{Errno, ReadWriteFlags};
use serde::Serialize;

use super::load::{LoadTarget, random_block, transfer};
use super::plan::AccessDirection;
use crate::ExperimentControl;
use crate::clock::monotonic_ns;
use crate::pin::pin_to;
use crate::summary::{Estimate, LatencySummary, drop_slow_samples};
use crate::test_file::{ALIGNMENT, AlignedBuffer};

/// Requests are watched for no longer than this, in ns: a drive that failed answers later, or never.
const PATIENCE: u64 = 40_000_000_000;
/// A jump of the clock shorter than this, in ns, is no interrupt.
const LEAST_JUMP: u64 = 300;
/// Share of requests whose completion came with a jump, for a figure.
const LEAST_SHARE: f64 = 0.8;
/// Fewest requests for a figure.
const FEWEST: usize = 200;
/// Fewest requests of a CPU that tell whether its interrupts come to it.
const FEWEST_OF_CPU: usize = 20;
/// Calls without a request, for the way back from a call.
const EMPTY_CALLS: usize = 200;

/// Time from a request's submission to its interrupt, without slow requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct InterruptView {
    /// Requests.
    pub n: u64,
    /// Mean time from the submission to the interrupt.
    pub service: Estimate,
    /// Median time that the interrupt kept the thread from running: handler, completion, and what else ran.
    pub interruption: Estimate,
    /// Median CPU time of the submission: from the system call to the drive's request, without the way back.
    pub submission: Estimate,
    /// CPUs that requests were submitted on.
    pub cpus_watched: usize,
    /// Among them, CPUs that the interrupts of their own requests came to.
    pub cpus_interrupted: usize,
}

/// A request, in ns of the clock.
#[derive(Clone, Copy, Debug)]
struct WatchedRequest {
    /// The system call that submits began.
    begun: u64,
    /// The system call that submitted returned.
    submitted: u64,
    /// The last look at the clock without the completion.
    last_without: u64,
    /// The first look at the clock with the completion.
    first_with: u64,
    /// Looks at the clock.
    looks: u64,
}

/// Watches 4 KiB random requests at depth 1 for a time, on one CPU after the other, or until writes have covered the file once;
/// `None`: on no CPU do their interrupts come to the CPU that submits, or the file system cannot begin requests at once.
///
/// # Errors
/// A request fails, or the kernel has no io_uring for this program.
pub(crate) fn watch_interrupts(
    target: LoadTarget<'_>,
    direction: AccessDirection,
    time: Duration,
    control: ExperimentControl<'_>,
    cpus: &[usize],
) -> io::Result<Option<InterruptView>> {
    let joined = std::thread::scope(|scope| {
        // Its own thread: the binding to a CPU ends with it.
        let watcher = scope.spawn(move || watch_in_thread(target, direction, time, control, cpus));
        watcher.join()
    });
    joined.unwrap_or_else(|_| Err(io::Error::other("the watching thread failed")))
}

fn watch_in_thread(
    target: LoadTarget<'_>,
    direction: AccessDirection,
    time: Duration,
    control: ExperimentControl<'_>,
    cpus: &[usize],
) -> io::Result<Option<InterruptView>> {
    let mut buffer = AlignedBuffer::with_random_content(ALIGNMENT, 5);
    let mut ring = IoUring::new(2)?;
    let way_back = time_empty_calls(&mut ring)? / 2;
    let mut random = Pcg64Mcg::seed_from_u64(6);
    let mut left = match direction {
        AccessDirection::Read => u64::MAX,
        AccessDirection::Write => target.bytes / ALIGNMENT as u64,
    };
    let time_for_each = time / cpus.len().max(1) as u32;
    let mut by_cpu = Vec::new();
    for cpu in cpus {
        // Submission and interrupt belong to one CPU.
        pin_to(*cpu).map_err(io::Error::other)?;
        let began = Instant::now();
        let mut requests = Vec::new();
        while left > 0 && began.elapsed() < time_for_each && !control.is_cancelled() {
            left -= 1;
            let offset = random_block(&mut random, target.bytes);
            match watch_request(&mut ring, (target, direction, offset), &mut buffer) {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => transfer(target.file, direction, &mut buffer, offset)?,
                Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                    return Ok(None);
                }
                Err(error) => {
                    if error.kind() == io::ErrorKind::TimedOut {
                        // The drive may still write there, whenever it answers.
                        std::mem::forget(buffer);
                    }
                    return Err(error);
                }
            }
        }
        by_cpu.push(requests);
    }
    Ok(summarise(&by_cpu, way_back))
}

/// Submits a request and spins until it is complete; `None`: the kernel could not begin it at once.
fn watch_request(
    ring: &mut IoUring,
    (target, direction, offset): (LoadTarget<'_>, AccessDirection, u64),
    buffer: &mut AlignedBuffer,
) -> io::Result<Option<WatchedRequest>> {
    let file = types::Fd(target.file.as_raw_fd());
    let bytes = buffer.bytes_mut();
    let (pointer, length) = (bytes.as_mut_ptr(), bytes.len() as u32);
    let at_once = ReadWriteFlags::NOWAIT.bits() as _;
    let entry = match direction {
        AccessDirection::Read => opcode::Read::new(file, pointer, length)
            .offset(offset)
            .rw_flags(at_once)
            .build(),
        AccessDirection::Write => opcode::Write::new(file, pointer.cast_const(), length)
            .offset(offset)
            .rw_flags(at_once)
            .build(),
    };
    push(ring, &entry)?;
    let begun = monotonic_ns();
    ring.submit()?;
    let submitted = monotonic_ns();
    let (mut last, mut looks) = (submitted, 0);
    loop {
        let completed = ring.completion().next();
        let now = monotonic_ns();
        looks += 1;
        if let Some(completed) = completed {
            let request = WatchedRequest {
                begun,
                submitted,
                last_without: last,
                first_with: now,
                looks,
            };
            return Ok(was_begun_at_once(completed.result(), length)?.then_some(request));
        }
        if now - submitted > PATIENCE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        last = now;
        std::hint::spin_loop();
    }
}

/// Whether a request was served. If not, the kernel could not begin it at once.
///
/// # Errors
/// The request failed, or was served in part.
fn was_begun_at_once(result: i32, length: u32) -> io::Result<bool> {
    match u32::try_from(result) {
        Ok(done) if done == length => Ok(true),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        Err(_) if result == -Errno::AGAIN.raw_os_error() => Ok(false),
        Err(_) => Err(io::Error::from_raw_os_error(-result)),
    }
}

#[allow(
    unsafe_code,
    reason = "what an entry points to has to outlive the request: each is waited for before its buffer goes"
)]
fn push(ring: &mut IoUring, entry: &squeue::Entry) -> io::Result<()> {
    // SAFETY: the caller keeps the buffer of `entry` until its completion has come, and for ever if none comes.
    unsafe { ring.submission().push(entry) }.map_err(io::Error::other)
}

/// Median time of a system call that submits a request without work, in ns.
fn time_empty_calls(ring: &mut IoUring) -> io::Result<u64> {
    let mut times = Vec::new();
    for _ in 0..EMPTY_CALLS {
        push(ring, &opcode::Nop::new().build())?;
        let before = monotonic_ns();
        ring.submit()?;
        times.push(monotonic_ns() - before);
        while ring.completion().next().is_none() {
            std::hint::spin_loop();
        }
    }
    Ok(upper_median(times))
}

/// The median of times; of an even number the upper middle. 0 without times.
fn upper_median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// The view of requests, by the CPU that submitted them; `None`: too few came with a jump of the clock on their own CPU.
fn summarise(by_cpu: &[Vec<WatchedRequest>], way_back: u64) -> Option<InterruptView> {
    let watched = by_cpu
        .iter()
        .filter(|requests| requests.len() >= FEWEST_OF_CPU);
    let own: Vec<Vec<&WatchedRequest>> = watched
        .clone()
        .filter_map(|requests| choose_interrupted(requests))
        .collect();
    let interrupted: Vec<&WatchedRequest> = own.iter().flatten().copied().collect();
    if interrupted.len() < FEWEST {
        return None;
    }
    let mut services: Vec<u64> = interrupted
        .iter()
        .map(|request| request.service(way_back))
        .collect();
    // A completion that is left to a kernel thread may wait for the spinning thread up to some ticks.
    drop_slow_samples(&mut services);
    let jumps: Vec<u64> = interrupted.iter().map(|request| request.jump()).collect();
    let submissions: Vec<u64> = interrupted
        .iter()
        .map(|request| request.submission(way_back))
        .collect();
    Some(InterruptView {
        n: services.len() as u64,
        service: LatencySummary::new(&services)?.mean,
        interruption: LatencySummary::new(&jumps)?.median,
        submission: LatencySummary::new(&submissions)?.median,
        cpus_watched: watched.count(),
        cpus_interrupted: own.len(),
    })
}

/// The requests of a CPU that completed with a jump of the clock; `None`: too few did, so interrupts come to another CPU.
fn choose_interrupted(requests: &[WatchedRequest]) -> Option<Vec<&WatchedRequest>> {
    let jumped = requests
        .iter()
        .filter(|request| request.jump() >= LEAST_JUMP);
    let interrupted: Vec<&WatchedRequest> = jumped.collect();
    let share = interrupted.len() as f64 / requests.len().max(1) as f64;
    (share >= LEAST_SHARE).then_some(interrupted)
}

impl WatchedRequest {
    /// The clock's jump at the completion.
    const fn jump(self) -> u64 {
        self.first_with.saturating_sub(self.last_without)
    }

    /// From the system call to the moment at which the drive has the request.
    const fn submission(self, way_back: u64) -> u64 {
        let call = self.submitted.saturating_sub(self.begun);
        call.saturating_sub(way_back)
    }

    /// From the submission to the interrupt, which came half a look behind the last one without it on average.
    fn service(self, way_back: u64) -> u64 {
        let watched = self.last_without.saturating_sub(self.submitted);
        let half_a_look = watched / self.looks.max(1) / 2;
        watched + half_a_look + way_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests of 50 us that are looked at every 100 ns, and whose interrupts take `jump`.
    fn requests(n: usize, jump: u64) -> Vec<WatchedRequest> {
        let begins = (1..=n as u64).map(|i| i * 60_000);
        begins
            .map(|submitted| WatchedRequest {
                begun: submitted.saturating_sub(900),
                submitted,
                last_without: submitted + 50_000,
                first_with: submitted + 50_000 + jump,
                looks: 500,
            })
            .collect()
    }

    #[test]
    fn a_request_ends_where_the_thread_was_interrupted() {
        let view = summarise(&[requests(300, 2_000)], 150).unwrap();
        assert_eq!(view.n, 300);
        assert_eq!((view.cpus_watched, view.cpus_interrupted), (1, 1));
        // Half a look, and the way back from the call.
        assert!(view.service.covers(50_000.0 + 50.0 + 150.0), "{view:?}");
        assert!(view.interruption.covers(2_000.0), "{view:?}");
        // The call of 900 ns without its way back.
        assert!(view.submission.covers(750.0), "{view:?}");
    }

    #[test]
    fn completions_from_another_cpu_give_no_figure() {
        assert_eq!(summarise(&[requests(300, 100)], 150), None);
        assert_eq!(summarise(&[requests(50, 2_000)], 150), None);
        let mut mixed = requests(300, 2_000);
        mixed.extend(requests(300, 100));
        assert_eq!(summarise(&[mixed], 150), None);
        assert_eq!(summarise(&[], 150), None);
    }

    #[test]
    fn slow_requests_are_left_out() {
        let mut all = requests(300, 4_000);
        for late in all.iter_mut().step_by(50) {
            late.last_without += 6_000_000;
            late.first_with += 6_000_000;
        }
        let view = summarise(&[all], 150).unwrap();
        assert_eq!(view.n, 294);
        assert!(view.service.covers(50_000.0 + 50.0 + 150.0), "{view:?}");
    }

    #[test]
    fn cpus_whose_requests_interrupt_others_are_counted() {
        let by_cpu = [
            requests(150, 2_000),
            requests(150, 100),
            requests(150, 2_000),
            requests(5, 100),
        ];
        let view = summarise(&by_cpu, 150).unwrap();
        assert_eq!(
            (view.n, view.cpus_watched, view.cpus_interrupted),
            (300, 3, 2)
        );
    }

    #[test]
    fn results_of_the_kernel_are_checked() {
        assert!(was_begun_at_once(4096, 4096).unwrap());
        let short = was_begun_at_once(512, 4096).unwrap_err();
        assert_eq!(short.kind(), io::ErrorKind::UnexpectedEof);
        let failed = was_begun_at_once(-5, 4096).unwrap_err();
        assert_eq!(failed.raw_os_error(), Some(5));
        // EAGAIN.
        assert!(!was_begun_at_once(-11, 4096).unwrap());
    }
}
