//! A drive's service time, parallel units, flush and sleep, measured through a file on it.
//!
//! Reads and writes bypass the page cache (`O_DIRECT`). CPUs are held in their first idle state, where the user may do
//! that, so that no idle exit is in the figures. For pauses they may take the shallowest state that sleeps: its exit is in
//! all reads after pauses alike, and these are only compared with each other.

mod apst;
mod block_counters;
mod cpus_in_turn;
mod declared;
mod figures;
mod interrupt;
mod load;
mod measurement;
mod other_requests;
mod parallel_units;
mod pause_tally;
mod paused_reads;
mod plan;
mod service;
mod short_pauses;
mod since_boot;
mod sleep;

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use wakepath_system::System;
use wakepath_units::Nanoseconds;

use self::block_counters::{BlockCounters, CountedLoad};
use self::cpus_in_turn::choose_usable_cpus;
use self::load::{run_load, run_reads_on_cpus_in_turn, transfer};
use self::other_requests::BegunRequests;
use self::paused_reads::{PausedDrive, read_after_pauses};
use self::plan::DriveStep;
use self::short_pauses::{ShortPauseTarget, measure_short_pauses};
use crate::conditions::{CpuTimes, StolenTime};
use crate::storage::find_drives;
use crate::summary::LatencySummary;
use crate::test_file::{ALIGNMENT, AlignedBuffer, TestFile};
use crate::{Conditions, ExperimentControl, MeasureError, ShallowHold, StorageStack};

pub(crate) use self::apst::ApstSwitch;
pub use self::block_counters::BlockLayerView;
pub(crate) use self::cpus_in_turn::choose_biggest_cpus;
pub use self::declared::DeclaredSleep;
pub use self::interrupt::InterruptView;
pub(crate) use self::interrupt::watch_interrupts;
pub(crate) use self::load::{LoadTarget, random_block};
pub use self::measurement::DriveMeasurement;
pub use self::parallel_units::ParallelUnits;
pub use self::pause_tally::PauseTally;
pub use self::plan::{AccessDirection, AddressOrder, DrivePlan, LoadShape};
pub use self::service::ServiceTime;
pub use self::short_pauses::{ShortPauses, ShortRest};
pub use self::since_boot::take_figures_since_boot;
pub use self::sleep::{DriveSleep, GapLatency, SleepEntry};
pub use crate::test_file::{BackingDevice, TestTarget};

/// Carries the plan out. CPUs may sleep again when it returns, whatever happened.
///
/// # Errors
/// The file cannot serve, a request fails, another wakepath changes settings, or a signal came before the first result.
pub fn measure(
    system: &System,
    plan: &DrivePlan,
    control: ExperimentControl<'_>,
) -> Result<DriveMeasurement, MeasureError> {
    // A second measurement is refused before anything is written.
    let mut hold = ShallowHold::take(system)?;
    let conditions = Conditions::observe(system, control);
    let stolen = StolenTime::watch(system);
    let file = TestFile::open(&plan.target, system, control)?;
    let mut result = DriveMeasurement {
        file: plan.target.path().display().to_string(),
        bytes: file.bytes(),
        device: file.device().cloned(),
        storage: StorageStack::find(
            system,
            file.file(),
            file.device().map(|device| device.disk.as_str()),
        ),
        held_shallow: hold.refusal().is_none(),
        service: Vec::new(),
        flush: None,
        forced_write: None,
        short_pauses: None,
        sleep: DriveSleep::default(),
        sleep_entries: Vec::new(),
        sleep_without_apst: None,
        sleep_entries_without_apst: Vec::new(),
        declared_sleep: file
            .device()
            .map_or_else(Vec::new, |device| DeclaredSleep::read(system, &device.disk)),
        parallel_units: None,
        complete: false,
        notes: conditions.note_on_load().into_iter().collect(),
        conditions,
    };
    result.notes.extend(hold.refusal().map(|why| {
        format!("CPUs may have slept meanwhile, and their idle exits are in the figures: {why}")
    }));
    result.notes.extend(result.storage.note_on_encryption());
    if result.device.is_none() {
        result.notes.push(
            "which disk the file is on is not known, so there is no view of the block layer"
                .to_owned(),
        );
    }
    let disks = result
        .device
        .as_ref()
        .map_or_else(Vec::new, |device| find_drives(system.root(), &device.disk));
    let mut experiment = DriveExperiment {
        system,
        file: &file,
        disks: &disks,
        hold: &mut hold,
        apst: plan.apst.as_ref(),
        control,
        random: Pcg64Mcg::seed_from_u64(1),
    };
    let outcome = experiment.run(plan, &mut result);
    if let Err(unrestored) = MeasureError::combine_with_release(outcome, hold.release())? {
        result.notes.push(unrestored.to_string());
    }
    result.storage.finish(system);
    let note = stolen.finish(system, &mut result.conditions);
    result.notes.extend(note);
    result.complete = !control.is_cancelled();
    if result.service.is_empty() {
        return Err(MeasureError::Cancelled);
    }
    result.parallel_units = ParallelUnits::estimate(&result.service);
    result.sleep_entries = result.sleep.entries();
    let without_apst = result.sleep_without_apst.as_ref();
    result.sleep_entries_without_apst = without_apst.map_or_else(Vec::new, DriveSleep::entries);
    let without_apst = without_apst.iter().flat_map(|sleep| &sleep.pauses);
    let pauses: Vec<PauseTally> = result
        .sleep
        .pauses
        .iter()
        .chain(without_apst)
        .copied()
        .collect();
    result.notes.extend(PauseTally::describe(&pauses));
    if !result.held_shallow && !result.sleep_entries.is_empty() {
        result.notes.push(
            "CPUs sleep deeper after longer pauses, so a rise of the latency may be theirs and not the drive's".to_owned(),
        );
    }
    Ok(result)
}

/// An experiment on wake-ups while it runs: what all of its steps share.
struct DriveExperiment<'a> {
    system: &'a System,
    file: &'a TestFile,
    /// Disks that serve the file's requests; empty: not known.
    disks: &'a [String],
    hold: &'a mut ShallowHold,
    apst: Option<&'a ApstSwitch>,
    control: ExperimentControl<'a>,
    random: Pcg64Mcg,
}

impl DriveExperiment<'_> {
    /// Carries the steps out until the end or a signal.
    fn run(&mut self, plan: &DrivePlan, result: &mut DriveMeasurement) -> Result<(), MeasureError> {
        let mut may_sleep = false;
        for (step, time) in &plan.steps {
            if self.control.is_cancelled() {
                break;
            }
            if step.lets_cpus_sleep() && !may_sleep {
                self.hold.allow_shallowest_sleep(self.system)?;
                may_sleep = true;
            }
            self.run_step(*step, *time, result)?;
            self.control.finish_step();
        }
        Ok(())
    }

    fn run_step(
        &mut self,
        step: DriveStep,
        time: Duration,
        result: &mut DriveMeasurement,
    ) -> Result<(), MeasureError> {
        if step.measures_awake_drive() {
            self.wake_drive()?;
        }
        match step {
            DriveStep::Load(shape) => result.service.extend(self.measure_load(shape, time)?),
            DriveStep::Flush => result.flush = self.measure_flush(time)?,
            DriveStep::ForcedWrite => result.forced_write = self.measure_forced_write(time)?,
            DriveStep::ShortPauses => {
                result.short_pauses = self.measure_short_pauses(time, result.held_shallow)?;
            }
            DriveStep::Interrupts(direction) => self.watch_interrupts(direction, time, result)?,
            DriveStep::Gap(gap) => {
                self.measure_pauses(gap, time, &mut result.sleep, &mut result.notes)?;
            }
            DriveStep::SwitchApstOff => self.switch_apst_off(result)?,
            DriveStep::GapWithoutApst(gap) => {
                if let Some(sleep) = &mut result.sleep_without_apst {
                    self.measure_pauses(gap, time, sleep, &mut result.notes)?;
                }
            }
            DriveStep::Refinement => {
                if let Some(gap) = result.sleep.refinement() {
                    self.measure_pauses(gap, time, &mut result.sleep, &mut result.notes)?;
                }
            }
        }
        Ok(())
    }

    /// Switches the drive's APST off until the hold ends. A drive that refuses becomes a note, and its sleep without APST is
    /// not measured.
    fn switch_apst_off(&mut self, result: &mut DriveMeasurement) -> Result<(), MeasureError> {
        let Some(ApstSwitch { key, off, .. }) = self.apst.cloned() else {
            return Ok(());
        };
        if let Err(why) = self.hold.hold_also(self.system, key, off) {
            result
                .notes
                .push(format!("sleep without APST was not measured: {why}"));
            return Ok(());
        }
        result.sleep_without_apst = Some(DriveSleep::default());
        // A drive asleep leaves its state with the next request alone.
        self.wake_drive()
    }

    /// Reads after short pauses; `None` where CPUs may sleep, whose exits would be in the reads.
    fn measure_short_pauses(
        &self,
        time: Duration,
        held_shallow: bool,
    ) -> Result<Option<ShortPauses>, MeasureError> {
        if !held_shallow {
            return Ok(None);
        }
        let cpus =
            choose_biggest_cpus(self.system).map_err(|e| self.file.error("reading it", e))?;
        let target = ShortPauseTarget {
            root: self.system.root(),
            file: self.file,
            disks: self.disks,
            control: self.control,
        };
        measure_short_pauses(&target, &cpus, time).map(Some)
    }

    /// Adds reads after pauses of one length, and a note where use of the drive by others is not known.
    fn measure_pauses(
        &mut self,
        gap: Nanoseconds,
        time: Duration,
        sleep: &mut DriveSleep,
        notes: &mut Vec<String>,
    ) -> Result<(), MeasureError> {
        let mut reader = PauseReader {
            experiment: self,
            began: Instant::now(),
            buffer: AlignedBuffer::new(ALIGNMENT),
        };
        let found = read_after_pauses(&mut reader, gap, time)?;
        sleep.add(gap, &found.samples);
        match found.tally {
            Some(tally) => sleep.pauses.push(tally),
            None if !self.disks.is_empty() => {
                let note = "whether others used the drive in pauses is not known: the disk does not count requests";
                if !notes.iter().any(|other| other == note) {
                    notes.push(note.to_owned());
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Sends a read that does not count. A drive that fell asleep before a step pays for its wake-up in that read, and in no
    /// service time.
    fn wake_drive(&mut self) -> Result<(), MeasureError> {
        let mut buffer = AlignedBuffer::new(ALIGNMENT);
        let offset = random_block(&mut self.random, self.file.bytes());
        transfer(self.file.file(), AccessDirection::Read, &mut buffer, offset)
            .map_err(|e| self.file.error("reading it", e))
    }

    fn measure_load(
        &self,
        shape: LoadShape,
        time: Duration,
    ) -> Result<Option<ServiceTime>, MeasureError> {
        let target = LoadTarget {
            file: self.file.file(),
            bytes: self.file.bytes(),
        };
        let busy_before = CpuTimes::read_usable_cpus(self.system.root());
        let before = self.block_counters();
        let samples = if shape == small_shape(AccessDirection::Read) {
            run_reads_on_cpus_in_turn(self.system, target, shape, time, self.control)
        } else {
            run_load(target, shape, time, self.control)
        };
        let samples = samples.map_err(|e| self.file.error(describe_failure(shape.direction), e))?;
        let after = self.block_counters();
        let busy_after = CpuTimes::read_usable_cpus(self.system.root());
        let Some(latency) = LatencySummary::new(&samples.latencies) else {
            return Ok(None);
        };
        let seconds = samples.elapsed.as_secs_f64().max(1e-9);
        let iops = latency.n as f64 / seconds;
        let views = before.zip(after);
        let counted = CountedLoad {
            direction: shape.direction,
            requests: latency.n,
            kib: shape.kib,
            mean_ns: latency.mean.ns,
        };
        Ok(Some(ServiceTime {
            shape,
            iops,
            mb_per_s: iops * shape.kib as f64 * 1024.0 / 1e6,
            block_layer: views
                .map(|(before, after)| after.view_since(before, counted))
                .unwrap_or_default(),
            interrupt: None,
            busy_percent: busy_before
                .zip(busy_after)
                .and_then(|(before, after)| after.busy_percent_since(before)),
            latency,
        }))
    }

    /// Adds the time to the interrupt to the requests of the same kind; without io_uring a note says so.
    fn watch_interrupts(
        &self,
        direction: AccessDirection,
        time: Duration,
        result: &mut DriveMeasurement,
    ) -> Result<(), MeasureError> {
        let target = LoadTarget {
            file: self.file.file(),
            bytes: self.file.bytes(),
        };
        let watched = choose_usable_cpus()
            .and_then(|cpus| watch_interrupts(target, direction, time, self.control, &cpus));
        match watched {
            Ok(view) => {
                let mut all = result.service.iter_mut();
                if let Some(same) = all.find(|service| service.shape == small_shape(direction)) {
                    same.interrupt = view;
                }
                Ok(())
            }
            Err(error) if tells_lack_of_io_uring(&error) => {
                let note = format!(
                    "no time until the interrupt: this program cannot use io_uring ({error})"
                );
                if !result.notes.contains(&note) {
                    result.notes.push(note);
                }
                Ok(())
            }
            Err(error) => Err(self.file.error(describe_failure(direction), error)),
        }
    }

    fn block_counters(&self) -> Option<BlockCounters> {
        BlockCounters::read(self.system.root(), &self.file.device()?.disk)
    }

    /// Flush latency, measured after each write.
    fn measure_flush(&mut self, time: Duration) -> Result<Option<LatencySummary>, MeasureError> {
        self.time_writes(time, |file, buffer, offset| {
            transfer(file, AccessDirection::Write, buffer, offset)?;
            let began = Instant::now();
            rustix::fs::fdatasync(file)?;
            Ok(began.elapsed())
        })
    }

    fn measure_forced_write(
        &mut self,
        time: Duration,
    ) -> Result<Option<LatencySummary>, MeasureError> {
        let forced = self.file.open_forced()?;
        self.time_writes(time, |_, buffer, offset| {
            let began = Instant::now();
            transfer(&forced, AccessDirection::Write, buffer, offset)?;
            Ok(began.elapsed())
        })
    }

    fn time_writes(
        &mut self,
        time: Duration,
        mut write: impl FnMut(&File, &mut AlignedBuffer, u64) -> io::Result<Duration>,
    ) -> Result<Option<LatencySummary>, MeasureError> {
        let mut buffer = AlignedBuffer::with_random_content(ALIGNMENT, 3);
        let end = Instant::now() + time;
        let mut samples = Vec::new();
        let most = self.file.bytes() / ALIGNMENT as u64;
        while Instant::now() < end && !self.control.is_cancelled() && (samples.len() as u64) < most
        {
            let offset = random_block(&mut self.random, self.file.bytes());
            let took = write(self.file.file(), &mut buffer, offset)
                .map_err(|e| self.file.error("writing it", e))?;
            samples.push(took.as_nanos() as u64);
        }
        Ok(LatencySummary::new(&samples))
    }
}

/// Reads the file of an experiment after pauses.
struct PauseReader<'a, 'b> {
    experiment: &'a mut DriveExperiment<'b>,
    began: Instant,
    buffer: AlignedBuffer,
}

impl PausedDrive for PauseReader<'_, '_> {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn wait(&mut self, time: Duration) {
        self.experiment.control.sleep(time);
    }

    fn is_cancelled(&self) -> bool {
        self.experiment.control.is_cancelled()
    }

    fn count_requests(&self) -> Option<BegunRequests> {
        BegunRequests::count(self.experiment.system.root(), self.experiment.disks)
    }

    fn read(&mut self) -> Result<u64, MeasureError> {
        let DriveExperiment { file, random, .. } = &mut *self.experiment;
        let offset = random_block(random, file.bytes());
        let began = Instant::now();
        transfer(file.file(), AccessDirection::Read, &mut self.buffer, offset)
            .map_err(|e| file.error("reading it", e))?;
        Ok(began.elapsed().as_nanos() as u64)
    }
}

/// Whether an error is that of a program that may not use io_uring, or of a kernel without it.
fn tells_lack_of_io_uring(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput
    )
}

/// 4 KiB random requests, one at a time.
const fn small_shape(direction: AccessDirection) -> LoadShape {
    LoadShape {
        direction,
        order: AddressOrder::Random,
        kib: 4,
        depth: 1,
    }
}

const fn describe_failure(direction: AccessDirection) -> &'static str {
    match direction {
        AccessDirection::Read => "reading it",
        AccessDirection::Write => "writing it",
    }
}
