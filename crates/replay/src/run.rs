//! Passes over a recording: one, or two if the package counts.

use std::io::Write;

use wakepath_trace::recording::{Event, Metadata, PackedIdlePeriod, Reader, Visitor};
use wakepath_units::Nanoseconds;
use wakepath_units::cpus::MAX_CPUS;

use crate::blocks::{MAX_BLOCKS, TimeBlocks};
use crate::cpu::{Cpu, CpuGroup};
use crate::error::ReplayError;
use crate::events::PassState;
use crate::hotplug::HotplugRule;
use crate::package::{PackageFigures, PackageTally};
use crate::package_stage::PackageStage;
use crate::report::Report;
use crate::setup::{Setup, SetupError};
use crate::summary;
use crate::windows::{WindowFinder, Windows};

/// Time in ns after the end of a CPU's last idle span from which the CPU will not change that span
/// any more.
const SETTLED_AFTER: u64 = 1_000_000_000;

/// Replays a recording under every governor of the setup.
///
/// `calls` names a CPU and the destination for its governor call log. `progress` gets the number of events so far, and
/// answers whether to go on.
///
/// # Errors
/// The recording cannot be read, or does not fit the states; [`ReplayError::Stopped`].
pub fn replay_recording(
    reader: &mut Reader,
    setup: &Setup,
    calls: Option<(u32, &mut dyn Write)>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Report, ReplayError> {
    if setup.states.is_empty() {
        return Err(SetupError::NoStates.into());
    }
    if !(1..=MAX_BLOCKS).contains(&setup.blocks) {
        return Err(SetupError::Blocks(setup.blocks).into());
    }
    let (first, last) = reader
        .time_range_and_rewind()?
        .ok_or(ReplayError::NoPeriods)?;
    let extent = (first.0, last.0);
    let blocks = TimeBlocks::new(extent.0, extent.1, setup.blocks);
    let states = setup.states.iter();
    let groups: Vec<CpuGroup<'_>> = states
        .map(|states| CpuGroup::new(states, setup.tick))
        .collect();
    let mut progress = Progress {
        events: 0,
        passes: 1 + u64::from(setup.package.is_some()),
        callback: progress,
    };
    let package = match setup.package {
        None => PackageStage::None,
        Some(package) => {
            let windows =
                find_all_idle_windows(reader, setup, package, &groups, extent, &mut progress)?;
            let governors = setup.policies.len();
            PackageStage::Tallies(Box::new(PackageTally::new(
                package, windows, governors, blocks,
            )))
        }
    };
    let hotplug = HotplugRule::for_idle_driver(reader.metadata().idle_driver.as_deref());
    let calls = calls.map(|(cpu, out)| (cpu, out as &mut dyn Write));
    let shared = PassState::new(setup, &groups, blocks, calls, hotplug, package);
    let mut pass = ReplayPass::new(shared);
    pass.handle_all_events(reader, &mut progress)?;
    pass.finish_pass_and_report(reader.metadata())
}

/// Finds the windows in which all CPUs are idle, in a pass of its own without any governor.
/// `extent`: times of the first and the last event, in ns.
fn find_all_idle_windows(
    reader: &mut Reader,
    setup: &Setup,
    package: PackageFigures,
    groups: &[CpuGroup<'_>],
    extent: (u64, u64),
    progress: &mut Progress<'_>,
) -> Result<Windows, ReplayError> {
    let without_governors = Setup {
        policies: Vec::new(),
        psd: None,
        latency: None,
        recorded_governor: None,
        blocks: 1,
        ..setup.clone()
    };
    let finder = WindowFinder::new(
        package.sleep.hysteresis.0,
        package.sleep.hysteresis_and_entry_time().0,
    );
    let whole = TimeBlocks::new(extent.0, extent.1, 1);
    let hotplug = HotplugRule::for_idle_driver(reader.metadata().idle_driver.as_deref());
    let stage = PackageStage::FindsWindows(finder);
    let shared = PassState::new(&without_governors, groups, whole, None, hotplug, stage);
    let mut pass = ReplayPass::new(shared);
    pass.handle_all_events(reader, progress)?;
    reader.rewind_to_first_event();
    Ok(pass.into_found_windows())
}

/// Counter of events read so far, over all passes.
struct Progress<'p> {
    events: u64,
    passes: u64,
    callback: &'p mut dyn FnMut(u64) -> bool,
}

impl Progress<'_> {
    /// Reports further events to the caller; fails if the caller wants to stop.
    fn report_progress_or_stop(&mut self, events: u64) -> Result<(), ReplayError> {
        self.events += events;
        if (self.callback)(self.events / self.passes) {
            Ok(())
        } else {
            Err(ReplayError::Stopped)
        }
    }
}

/// A pass over a recording: its CPUs and what they share.
struct ReplayPass<'a> {
    cpus: Vec<Option<Box<Cpu<'a>>>>,
    shared: PassState<'a>,
}

impl Visitor for ReplayPass<'_> {
    type Error = ReplayError;

    // Inlined, so that a period need not go through memory.
    #[inline(always)]
    fn visit_idle_period(
        &mut self,
        end: Nanoseconds,
        number: u32,
        period: &PackedIdlePeriod,
    ) -> Result<(), ReplayError> {
        let (cpu, shared) = self.cpu_or_new_for_event(end.0, number)?;
        shared.handle_idle_period(cpu, end.0, period)
    }

    #[inline(never)]
    fn visit_other_event(&mut self, event: &Event) -> Result<(), ReplayError> {
        let (cpu, shared) = self.cpu_or_new_for_event(event.time.0, event.cpu)?;
        shared.handle_event(cpu, event)
    }
}

impl<'a> ReplayPass<'a> {
    fn new(shared: PassState<'a>) -> Self {
        Self {
            cpus: Vec::new(),
            shared,
        }
    }

    /// Reads the recording to its end and handles every event.
    fn handle_all_events(
        &mut self,
        reader: &mut Reader,
        progress: &mut Progress<'_>,
    ) -> Result<(), ReplayError> {
        while let Some(batch) = reader.next_batch()? {
            let events = batch.len() as u64;
            batch.visit_events(self)?;
            self.add_up_finished_windows();
            for cpu in self.cpus.iter().flatten() {
                cpu.fail_if_own_governor_stopped()?;
            }
            progress.report_progress_or_stop(events)?;
        }
        Ok(())
    }

    /// Windows in which all CPUs are idle, after a pass that collected them.
    fn into_found_windows(mut self) -> Windows {
        for cpu in self.cpus.iter_mut().flatten() {
            self.shared.end_and_judge_span(cpu);
        }
        self.shared.package.into_found_windows()
    }

    /// Adds up the package windows that all CPUs have gone through, if many wait.
    fn add_up_finished_windows(&mut self) {
        let shared = &mut self.shared;
        let Some(extents) = shared.package.tally().and_then(|tally| {
            let extents = &tally.windows.cpus;
            tally.has_many_windows_waiting().then(|| extents.clone())
        }) else {
            return;
        };
        let last_events = self.cpus.iter().flatten().map(|cpu| cpu.last_event);
        let now = last_events.max().unwrap_or(0);
        let mut through = u64::MAX;
        for (number, extent) in extents.into_iter().enumerate() {
            let Some(extent) = extent else { continue };
            let Some(Some(cpu)) = self.cpus.get_mut(number) else {
                through = through.min(extent.first);
                continue;
            };
            if cpu.spans.end_of_last_period().saturating_add(SETTLED_AFTER) < now {
                if cpu.spans.end_of_last_period() >= extent.last {
                    shared.end_and_judge_span(cpu);
                }
                if cpu.spans.has_no_open_span() {
                    shared.replay_finished_spans(cpu);
                }
            }
            if cpu.asked_until < extent.last {
                through = through.min(cpu.asked_until);
            }
        }
        if let Some(tally) = shared.package.tally_mut() {
            tally.add_up_and_drop_windows_until(through);
        }
    }

    /// The CPU of an event at `time`, added if new, beside the state that belongs to no single CPU.
    #[inline(always)]
    fn cpu_or_new_for_event(
        &mut self,
        time: u64,
        number: u32,
    ) -> Result<(&mut Cpu<'a>, &mut PassState<'a>), ReplayError> {
        let index = number as usize;
        if self.cpus.get(index).is_none_or(Option::is_none) {
            self.add_cpu(number)?;
        }
        let shared = &mut self.shared;
        let Some(Some(cpu)) = self.cpus.get_mut(index) else {
            return Err(ReplayError::NoSuchCpu(number));
        };
        if time < cpu.last_event {
            shared.handle_clock_jump(cpu);
        }
        cpu.last_event = time;
        Ok((cpu, shared))
    }

    /// Adds a CPU to the pass at its first event.
    #[cold]
    fn add_cpu(&mut self, number: u32) -> Result<(), ReplayError> {
        if number >= MAX_CPUS {
            return Err(ReplayError::NoSuchCpu(number));
        }
        let index = number as usize;
        if self.cpus.len() <= index {
            self.cpus.resize_with(index + 1, || None);
        }
        self.cpus[index] = Some(Box::new(self.shared.new_cpu(number)));
        Ok(())
    }

    /// Ends all idle spans, sends them through the governors, and sums up the report.
    fn finish_pass_and_report(mut self, metadata: &Metadata) -> Result<Report, ReplayError> {
        let mut cpus = Vec::new();
        for mut cpu in self.cpus.into_iter().flatten() {
            self.shared.end_and_judge_span(&mut cpu);
            self.shared.replay_finished_spans(&mut cpu);
            self.shared.reflect_and_export_shadow_call(&mut cpu)?;
            cpu.fail_if_own_governor_stopped()?;
            cpus.push(cpu);
        }
        if let Some(tally) = self.shared.package.tally_mut() {
            tally.add_up_and_drop_windows_until(u64::MAX);
        }
        summary::summarise_pass(&self.shared, &cpus, metadata)
    }
}
