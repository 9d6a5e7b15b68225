//! A machine, a workload and two policies, compiled into what the engine needs.

pub(crate) mod policies;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::WorkloadKind;
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;

use crate::block::completion::CompletionSetup;
use crate::block::cost::IoCost;
use crate::core::basics::{Cycles, Interrupt, Timer};
use crate::core::topology::Topology;
use crate::cpu::setup::{CpuSetup, listed};
use crate::drive::volume::VolumeSetup;
use crate::drive::{Drive, DriveSetup};
use crate::emulator::state::{EmulatorSetup, Turns};
use crate::emulator::turn_taking::Emulator;
use crate::error::SimError;
use crate::frequency::setup::FrequencySetup;
use crate::page_cache::state::PageCacheSetup;
use crate::power::setup::PowerSetup;
use crate::rcu::setup::RcuSetup;
use crate::rcu::state::GracePeriods;
use crate::scheduler::setup::SchedulerSetup;
use crate::setup::policies::Policies;
use crate::task::fio::pages::page_cache;
use crate::task::fio::setup::{JobSetup, LONGEST_UNTIMED, jobs};
use crate::task::kernel_thread::{BackgroundSetup, background};
use crate::task::rtapp::calibration::calibration_khz;
use crate::task::rtapp::program::Programs;

/// Longest time that an rt-app file with a duration is simulated for, if nobody asks for another one.
pub const LONGEST_TIMED: Nanoseconds = Nanoseconds(600_000_000_000);

fn kind_of(workload: &Workload) -> WorkloadKind {
    match workload {
        Workload::Fio(_) => WorkloadKind::Fio,
        Workload::RtApp(_) => WorkloadKind::RtApp,
    }
}

/// Everything that is the same for every run of one policy combination.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) topology: Topology,
    pub(crate) cpu: CpuSetup,
    pub(crate) scheduler: SchedulerSetup,
    pub(crate) frequency: FrequencySetup,
    pub(crate) power: PowerSetup,
    /// If CPUs wait for grace periods.
    rcu: Option<RcuSetup>,
    /// If the CPUs take turns.
    emulator: Option<EmulatorSetup>,
    pub(crate) io: IoCost,
    pub(crate) completion: CompletionSetup,
    drive: DriveSetup,
    pub(crate) volume: VolumeSetup,
    /// Work of the kernel's own, the thread of grace periods last.
    pub(crate) background: Vec<BackgroundSetup>,
    pub(crate) jobs: Vec<JobSetup>,
    /// If somebody writes into it.
    pub(crate) page_cache: Option<PageCacheSetup>,
    pub(crate) programs: Programs,
}

impl Setup {
    pub(crate) fn new(
        machine: &Machine,
        workload: &Workload,
        policies: Policies,
    ) -> Result<Self, SimError> {
        let io = IoCost::new(&machine.io_path);
        let mut jobs = match workload {
            Workload::Fio(file) => jobs(file, machine, policies.io_uring_iowait, io.program())?,
            Workload::RtApp(_) => Vec::new(),
        };
        let page_cache = match workload {
            Workload::Fio(file) => page_cache(machine, &mut jobs, &file.jobs),
            Workload::RtApp(_) => None,
        };
        let topology = Topology::new(machine);
        let isolated = listed(&machine.isolation.isolcpus, machine);
        let scheduler = SchedulerSetup::new(machine, isolated);
        let (home, poll) = (scheduler.home(), policies.poll);
        let cpu = CpuSetup::new(machine, policies.idle, policies.psd, poll, home, &topology)?;
        let (policy, name) = (policies.frequency, policies.frequency_name);
        let frequency = FrequencySetup::new(machine, &topology, policy, name)?;
        let programs = match workload {
            Workload::Fio(file) => Programs::for_jobs(file, &mut jobs, machine.cpus()),
            Workload::RtApp(file) => {
                let khz = calibration_khz(file, &topology, &frequency)?;
                let default = match file.duration {
                    Some(_) => LONGEST_TIMED,
                    None => LONGEST_UNTIMED,
                };
                let longest = file.at_most.unwrap_or(default);
                Programs::new(file, khz, machine.cpus(), longest)?
            }
        };
        let background = background(machine, kind_of(workload));
        let rcu = RcuSetup::new(machine, background.len().checked_sub(1));
        let fastest = u64::from(frequency.fastest());
        let emulator = machine.emulator.as_ref();
        Ok(Self {
            power: PowerSetup::new(machine, cpu.declared_states().len()),
            rcu,
            emulator: emulator.map(|emulator| EmulatorSetup::new(emulator, fastest)),
            io,
            completion: CompletionSetup::new(machine),
            drive: DriveSetup::new(&machine.drive, policies.apst.as_ref()),
            volume: VolumeSetup::new(&machine.drive),
            background,
            jobs,
            page_cache,
            programs,
            topology,
            cpu,
            scheduler,
            frequency,
        })
    }

    /// The emulator, if the CPUs take turns.
    pub(crate) fn emulator(&self) -> Emulator {
        let turns = self
            .emulator
            .map(|emulator| Turns::new(emulator, self.topology.cpus()));
        Emulator::new(turns)
    }

    /// Grace periods, if CPUs wait for them: also the CPU does that plays the drives.
    pub(crate) fn grace_periods(&self) -> Option<GracePeriods> {
        let players = usize::from(self.emulator.is_some());
        let cpus = self.topology.cpus() + players;
        self.rcu.map(|_| GracePeriods::new(cpus))
    }

    /// `count` drives, idle for long.
    pub(crate) fn drives(&self, count: usize) -> Vec<Drive> {
        (0..count).map(|_| Drive::new(&self.drive)).collect()
    }

    /// The task of grace periods, and the background source of that number, if there is one.
    #[inline]
    pub(crate) fn grace_period_thread(&self) -> Option<usize> {
        self.rcu.map(|rcu| rcu.thread())
    }

    /// What it costs to serve an interrupt; of a completion, whether that `wakes` its task.
    pub(crate) fn cost(&self, interrupt: Interrupt, wakes: bool) -> Cycles {
        match interrupt {
            Interrupt::Completion(_) => self.io.interrupt(wakes),
            Interrupt::Tick | Interrupt::Timer(Timer::Lease | Timer::FairServer) => {
                self.cpu.tick_cycles()
            }
            Interrupt::Timer(Timer::Background(i)) if !self.background[i].is_task() => {
                self.background[i].cycles()
            }
            Interrupt::Rcu => self.rcu.map_or(0, |rcu| rcu.soft_interrupt()),
            Interrupt::Frequency(_) => self.frequency.sugov_interrupt(),
            Interrupt::Timer(_) | Interrupt::Reschedule => 0,
        }
    }
}
