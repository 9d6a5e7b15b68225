//! Single wake-ups on this machine: a pinned sleeper and a pinned waker.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use rustix::thread::{ClockId, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::Timespec;
use wakepath_record::{ReachedCounters, ReachedTicks};
use wakepath_system::{CPUS, System};
use wakepath_units::Nanoseconds;

use super::plan::WakeSource;
use super::waker::choose_waker;
use crate::MeasureError;
use crate::clock::monotonic_ns;
use crate::drive::random_block;
use crate::pin::{gone, pin_to};
use crate::test_file::{ALIGNMENT, AlignedBuffer, TestFile};

/// A CPU that does not answer for so long is gone.
const PATIENCE: Duration = Duration::from_secs(2);
/// A drive that does not answer a read for so long has failed: the kernel's own timeout of NVMe requests is 30 s.
const READ_PATIENCE: Duration = Duration::from_secs(40);
/// From the order to sleep to the sleep itself, before a deadline counts.
const LEAD_IN: u64 = 20_000;

/// Before the first of two wake-ups: long enough for any state to be reached.
const BEFORE_FIRST_OF_TWO: u64 = 1_000_000;
/// From a sleeper's deadline to the end of the waking thread's own sleep: longer than any exit of a package.
const AFTER_DEADLINE: u64 = 1_000_000;

/// Wakes a CPU once and times that: on this machine, or in a test on a made-up one.
pub trait WakeSampler {
    /// Wakes a CPU once after a pause; returns the latency.
    ///
    /// # Errors
    /// The CPU does not answer, or the drive fails.
    fn sample(
        &mut self,
        cpu: usize,
        source: WakeSource,
        gap: Nanoseconds,
    ) -> Result<Nanoseconds, MeasureError>;

    /// Wakes a CPU by a task, lets it fall asleep again, and wakes it a second time a pause after it last had work; returns
    /// the latency of the second wake-up.
    ///
    /// # Errors
    /// As [`Self::sample`].
    fn sample_again_after(
        &mut self,
        cpu: usize,
        gap: Nanoseconds,
    ) -> Result<Nanoseconds, MeasureError>;

    /// Has a CPU woken by its timer after a pause in which the waking thread sleeps, too; returns the latency.
    ///
    /// # Errors
    /// As [`Self::sample`].
    fn sample_at_rest(&mut self, cpu: usize, gap: Nanoseconds)
    -> Result<Nanoseconds, MeasureError>;

    /// Reads the hardware's counters of states that a CPU's core and package reached; empty where there are none.
    fn read_reached(&mut self, cpu: usize) -> Vec<ReachedTicks>;
}

/// Orders to the sleeping thread.
mod order {
    pub(super) const WAIT: u8 = 0;
    pub(super) const SLEEP: u8 = 1;
    pub(super) const READ: u8 = 2;
    pub(super) const END: u8 = 3;
}

/// Orders of the waking thread to the sleeping one, and the answers.
#[derive(Debug, Default)]
struct Mailbox {
    /// The order to the sleeping thread.
    order: AtomicU8,
    /// Number of the present order.
    turn: AtomicU64,
    /// The last order that was carried out.
    done: AtomicU64,
    /// Deadline of a sleep, on the monotonic clock in ns.
    deadline: AtomicU64,
    /// Moment of the wake-up on the monotonic clock, or latency of a read; 0 after an error.
    stamp: AtomicU64,
}

/// A thread that sleeps on a CPU.
#[derive(Debug)]
struct Sleeper {
    cpu: usize,
    mailbox: Arc<Mailbox>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes CPUs of this machine.
#[derive(Debug)]
pub(crate) struct LiveSampler {
    system: System,
    file: Option<Arc<TestFile>>,
    sleeper: Option<Sleeper>,
    reached: ReachedCounters,
}

impl LiveSampler {
    /// A sampler on the machine's CPUs; `file` serves wake-ups by a drive.
    pub(crate) fn new(system: &System, file: Option<Arc<TestFile>>) -> Self {
        Self {
            system: system.clone(),
            file,
            sleeper: None,
            reached: ReachedCounters::open(system.root()),
        }
    }

    /// Whether a CPU is of the core, or with `package` of the package, of another.
    fn shares_unit(&self, cpu: usize, other: usize, package: bool) -> bool {
        if package {
            let [own, its] = [cpu, other].map(|cpu| self.read_package(cpu));
            return own == its;
        }
        self.system.cpus_of_same_core(cpu).contains(&other)
    }

    fn read_package(&self, cpu: usize) -> Option<String> {
        let path = format!("{CPUS}/cpu{cpu}/topology/physical_package_id");
        self.system.root().read_text_if_readable(&path)
    }

    /// A failed read of the measured file.
    fn failed_read_error(&self, why: &str) -> MeasureError {
        let why = format!("{why}; is its drive still there?");
        match &self.file {
            Some(file) => file.refuse(why),
            None => MeasureError::Impossible(why),
        }
    }

    /// The sleeper on a CPU; pins this thread, the waker, to another CPU, which is on another core where there is one.
    fn sleeper_on(&mut self, cpu: usize) -> Result<&Sleeper, MeasureError> {
        if self
            .sleeper
            .as_ref()
            .is_none_or(|sleeper| sleeper.cpu != cpu)
        {
            self.sleeper = None;
            pin_to(choose_waker(&self.system, cpu).unwrap_or(cpu))?;
            self.sleeper = Some(Sleeper::start(cpu, self.file.clone())?);
        }
        self.sleeper
            .as_ref()
            .ok_or_else(|| MeasureError::Impossible(format!("CPU {cpu}: no thread runs there")))
    }
}

impl WakeSampler for LiveSampler {
    fn sample(
        &mut self,
        cpu: usize,
        source: WakeSource,
        gap: Nanoseconds,
    ) -> Result<Nanoseconds, MeasureError> {
        let sleeper = self.sleeper_on(cpu)?;
        match source {
            WakeSource::Task => {
                spin_until(monotonic_ns() + gap.0);
                self.wake_by_task(cpu)
            }
            WakeSource::Timer => {
                let deadline = monotonic_ns() + gap.0 + LEAD_IN;
                sleeper.mailbox.deadline.store(deadline, Ordering::Relaxed);
                let woke = sleeper
                    .give_order_and_wait(order::SLEEP, PATIENCE + gap.as_duration())
                    .ok_or_else(|| no_answer_error(cpu))?;
                Ok(Nanoseconds(woke.saturating_sub(deadline)))
            }
            WakeSource::Drive => {
                spin_until(monotonic_ns() + gap.0);
                match sleeper.give_order_and_wait(order::READ, READ_PATIENCE) {
                    None => Err(self.failed_read_error(&format!(
                        "a read took longer than {} s",
                        READ_PATIENCE.as_secs()
                    ))),
                    Some(0) => Err(self.failed_read_error("it cannot be read any more")),
                    Some(latency) => Ok(Nanoseconds(latency)),
                }
            }
        }
    }

    fn sample_again_after(
        &mut self,
        cpu: usize,
        gap: Nanoseconds,
    ) -> Result<Nanoseconds, MeasureError> {
        spin_until(monotonic_ns() + BEFORE_FIRST_OF_TWO);
        self.wake_by_task(cpu)?;
        spin_until(monotonic_ns() + gap.0);
        self.wake_by_task(cpu)
    }

    fn sample_at_rest(
        &mut self,
        cpu: usize,
        gap: Nanoseconds,
    ) -> Result<Nanoseconds, MeasureError> {
        let sleeper = self.sleeper_on(cpu)?;
        let deadline = monotonic_ns() + gap.0 + LEAD_IN;
        sleeper.mailbox.deadline.store(deadline, Ordering::Relaxed);
        let turn = sleeper.give_order(order::SLEEP);
        // Well behind the other's wake-up, which is not to be shortened by this one.
        sleep_until(deadline + AFTER_DEADLINE);
        let woke = sleeper
            .wait_for_answer(turn, PATIENCE)
            .ok_or_else(|| no_answer_error(cpu))?;
        Ok(Nanoseconds(woke.saturating_sub(deadline)))
    }

    fn read_reached(&mut self, cpu: usize) -> Vec<ReachedTicks> {
        let mut all: Vec<ReachedTicks> = self.reached.read().into_iter().flatten().collect();
        all.retain(|reached| self.shares_unit(cpu, reached.cpu, reached.package));
        all
    }
}

impl LiveSampler {
    /// Has a sleeping CPU do nothing but say when it woke up.
    fn wake_by_task(&mut self, cpu: usize) -> Result<Nanoseconds, MeasureError> {
        let sleeper = self.sleeper_on(cpu)?;
        let began = monotonic_ns();
        let woke = sleeper
            .give_order_and_wait(order::WAIT, PATIENCE)
            .ok_or_else(|| no_answer_error(cpu))?;
        Ok(Nanoseconds(woke.saturating_sub(began)))
    }
}

impl Sleeper {
    fn start(cpu: usize, file: Option<Arc<TestFile>>) -> Result<Self, MeasureError> {
        let mailbox = Arc::new(Mailbox::default());
        let shared = Arc::clone(&mailbox);
        let (started, is_pinned) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("sleeper on {cpu}"))
            .spawn(move || {
                let pinned = pin_to(cpu);
                let ready = pinned.is_ok();
                // The other end waits.
                let _ = started.send(pinned);
                if ready {
                    carry_out_orders(&shared, file.as_deref());
                }
            })
            .map_err(|e| MeasureError::Impossible(format!("no thread can be started: {e}")))?;
        is_pinned
            .recv()
            .unwrap_or_else(|_| Err(gone(cpu, "its thread has ended")))?;
        Ok(Self {
            cpu,
            mailbox,
            thread: Some(thread),
        })
    }

    /// Gives an order, wakes the sleeper and returns the sleeper's stamp; `None` if no answer comes in time.
    fn give_order_and_wait(&self, order: u8, patience: Duration) -> Option<u64> {
        let turn = self.give_order(order);
        self.wait_for_answer(turn, patience)
    }

    /// Gives an order and wakes the sleeper; returns the order's number.
    fn give_order(&self, order: u8) -> u64 {
        let mailbox = &self.mailbox;
        mailbox.order.store(order, Ordering::Relaxed);
        let turn = mailbox.turn.fetch_add(1, Ordering::Release) + 1;
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        turn
    }

    /// Spins until an order is carried out; returns the sleeper's stamp, or `None` if that takes too long.
    fn wait_for_answer(&self, turn: u64, patience: Duration) -> Option<u64> {
        let mailbox = &self.mailbox;
        let began = Instant::now();
        while mailbox.done.load(Ordering::Acquire) < turn {
            if began.elapsed() > patience {
                return None;
            }
            std::hint::spin_loop();
        }
        Some(mailbox.stamp.load(Ordering::Relaxed))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.mailbox.order.store(order::END, Ordering::Relaxed);
        self.mailbox.turn.fetch_add(1, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// The sleeping thread.
fn carry_out_orders(mailbox: &Mailbox, file: Option<&TestFile>) {
    // Refused only by kernels before 2.6.28; then timers are later by 50 us.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut buffer = AlignedBuffer::new(ALIGNMENT);
    let mut random = Pcg64Mcg::seed_from_u64(2);
    loop {
        let done = mailbox.done.load(Ordering::Relaxed);
        while mailbox.turn.load(Ordering::Acquire) == done {
            std::thread::park();
        }
        let woke = monotonic_ns();
        let stamp = match mailbox.order.load(Ordering::Relaxed) {
            order::WAIT => woke,
            order::SLEEP => {
                sleep_until(mailbox.deadline.load(Ordering::Relaxed));
                monotonic_ns()
            }
            order::READ => file.map_or(0, |file| time_read(file, &mut random, &mut buffer)),
            _ => return,
        };
        mailbox.stamp.store(stamp, Ordering::Relaxed);
        mailbox.done.store(done + 1, Ordering::Release);
    }
}

/// Latency of a random read in ns; 0 if it fails.
fn time_read(file: &TestFile, random: &mut Pcg64Mcg, buffer: &mut AlignedBuffer) -> u64 {
    let offset = random_block(random, file.bytes());
    let began = monotonic_ns();
    let read = rustix::io::pread(file.file(), buffer.bytes_mut(), offset);
    let latency = monotonic_ns() - began;
    if read == Ok(ALIGNMENT) { latency } else { 0 }
}

fn no_answer_error(cpu: usize) -> MeasureError {
    gone(cpu, "it did not answer for 2 s")
}

fn spin_until(deadline: u64) {
    while monotonic_ns() < deadline {
        std::hint::spin_loop();
    }
}

fn sleep_until(deadline: u64) {
    let request = Timespec {
        tv_sec: (deadline / 1_000_000_000) as i64,
        tv_nsec: (deadline % 1_000_000_000) as _,
    };
    // After a signal the rest of the sleep follows.
    while clock_nanosleep_absolute(ClockId::Monotonic, &request).is_err()
        && monotonic_ns() < deadline
    {}
}
