//! A machine, a workload and policies, compiled into what the engine needs.

pub(crate) mod policies;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::WorkloadKind;
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;

use crate::block::completion::CompletionSetup;
use crate::block::cost::IoCost;
use crate::core::basics::{Cycles, Interrupt, Timer};
use crate::core::topology::Topology;
use crate::cpu::setup::{CpuSetup, membership_by_cpu};
use crate::drive::volume::VolumeSetup;
use crate::drive::{Drive, DriveSetup};
use crate::emulator::state::{EmulatorSetup, Turns};
use crate::emulator::turn_taking::Emulator;
use crate::error::SimError;
use crate::frequency::setup::{ClockLimits, FrequencySetup};
use crate::page_cache::setup::PageCacheSetup;
use crate::power::setup::PowerSetup;
use crate::rcu::setup::{GracePeriodThread, RcuSetup};
use crate::rcu::state::GracePeriods;
use crate::scheduler::setup::SchedulerSetup;
use crate::setup::policies::Policies;
use crate::task::fio::pages::compile_page_cache;
use crate::task::fio::setup::{JobSetup, LONGEST_UNTIMED, compile_jobs};
use crate::task::kernel_thread::{BackgroundSetup, compile_background_sources};
use crate::task::rtapp::calibration::calibration_khz;
use crate::task::rtapp::program::Programs;
use crate::task::rtapp::step_tasks::{check_flushes_of_tasks, compile_step_tasks};
use crate::task::server::setup::ServerSetup;

/// Longest time that an rt-app file with a duration is simulated for, if nobody asks for another one.
pub const LONGEST_TIMED: Nanoseconds = Nanoseconds(600_000_000_000);

fn workload_kind(workload: &Workload) -> WorkloadKind {
    match workload {
        Workload::Fio(_) => WorkloadKind::Fio,
        Workload::Tasks(file) if file.has_counted_io() => WorkloadKind::Fio,
        // Background work that is seen beside threads of any program is seen beside a server, too.
        Workload::RtApp(_) | Workload::Server(_) | Workload::Tasks(_) => WorkloadKind::RtApp,
    }
}

/// The CPUs to which the kernel's threads keep on a machine with `nohz_full` CPUs, as a flag by CPU (`rcu_bind_gp_kthread()`).
/// `None`: the machine has no such CPUs.
fn find_housekeeping_cpus(machine: &Machine) -> Option<Vec<bool>> {
    if machine.isolation.nohz_full.is_empty() {
        return None;
    }
    let cpus = 0..machine.cpus();
    Some(
        cpus.map(|cpu| machine.isolation.is_housekeeping(cpu))
            .collect(),
    )
}

/// All figures that are the same for every run of a machine and workload under a policy set.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) topology: Topology,
    pub(crate) cpu: CpuSetup,
    pub(crate) scheduler: SchedulerSetup,
    pub(crate) frequency: FrequencySetup,
    pub(crate) power: PowerSetup,
    /// RCU's figures, if CPUs wait for grace periods.
    rcu: Option<RcuSetup>,
    /// The emulator's figures, if the CPUs take turns.
    emulator: Option<EmulatorSetup>,
    pub(crate) io: IoCost,
    pub(crate) completion: CompletionSetup,
    drive: DriveSetup,
    pub(crate) volume: VolumeSetup,
    /// Sources of the kernel's background work; the grace-period thread, if any, comes last.
    pub(crate) background: Vec<BackgroundSetup>,
    pub(crate) jobs: Vec<JobSetup>,
    /// The page cache's figures, if any job writes into it.
    pub(crate) page_cache: Option<PageCacheSetup>,
    pub(crate) programs: Programs,
    /// The server's figures, if the workload is one.
    server: Option<Box<ServerSetup>>,
}

impl Setup {
    pub(crate) fn new(
        machine: &Machine,
        workload: &Workload,
        policies: Policies,
    ) -> Result<Self, SimError> {
        let io = IoCost::new(&machine.io_path, &machine.page_cache);
        let mut jobs = match workload {
            Workload::Fio(file) => compile_jobs(
                file,
                machine,
                policies.io_uring_iowait,
                io.program_work_between_ios(),
            )?,
            Workload::RtApp(_) | Workload::Server(_) | Workload::Tasks(_) => Vec::new(),
        };
        let page_cache = match workload {
            Workload::Fio(file) => compile_page_cache(machine, &mut jobs, &file.jobs),
            Workload::RtApp(_) | Workload::Server(_) | Workload::Tasks(_) => None,
        };
        let topology = Topology::new(machine);
        let isolated = membership_by_cpu(&machine.isolation.isolcpus, machine);
        let scheduler = SchedulerSetup::new(machine, isolated);
        let (home, poll) = (scheduler.home_cluster(), policies.poll);
        let cpu = CpuSetup::new(machine, policies.idle, policies.psd, poll, home, &topology)?;
        let (policy, name) = (policies.frequency, policies.frequency_name);
        let limits = ClockLimits::new(policies.frequency_limits, policies.has_turbo);
        let frequency = FrequencySetup::new(machine, &topology, policy, name, limits)?;
        let server = match workload {
            Workload::Server(file) => {
                let highest = frequency.fastest_cpu_khz();
                Some(Box::new(ServerSetup::new(file, machine, highest)?))
            }
            Workload::Fio(_) | Workload::RtApp(_) | Workload::Tasks(_) => None,
        };
        let mut programs = match workload {
            Workload::Server(_) => Programs::for_server(
                server
                    .as_ref()
                    .map_or(0, |server| server.latest_end_of_run()),
            ),
            Workload::Fio(file) => Programs::for_jobs(file, &mut jobs, machine.cpus()),
            Workload::Tasks(file) => {
                check_flushes_of_tasks(file, &machine.drive)?;
                let volatile = VolumeSetup::new(&machine.drive).has_volatile_cache();
                compile_step_tasks(file, &io, &frequency, (topology.cpu_count(), volatile))
            }
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
        let recorded = match workload {
            Workload::Tasks(file) => Some(file),
            Workload::Fio(_) | Workload::RtApp(_) | Workload::Server(_) => None,
        };
        let has_background = recorded.is_some_and(|file| file.has_background);
        let grace_period_cpu = recorded.and_then(|file| file.grace_period_cpu_on(machine.cpus()));
        let background =
            compile_background_sources(machine, workload_kind(workload), has_background);
        let housekeepers = find_housekeeping_cpus(machine);
        let cpu_set = housekeepers.map(|cpus| programs.add_cpu_set(cpus));
        let thread = background.len().checked_sub(1);
        let thread = thread.map(|task| {
            let mut thread = GracePeriodThread::new(task);
            thread.set_first_cpu(grace_period_cpu);
            thread.set_allowed_cpu_set(cpu_set);
            thread
        });
        let rcu = RcuSetup::new(machine, thread);
        let fastest = u64::from(frequency.fastest_cpu_khz());
        let emulator = machine.emulator.as_ref();
        Ok(Self {
            power: PowerSetup::new(machine, cpu.declared_states_of_first_cluster().len()),
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
            server,
            topology,
            cpu,
            scheduler,
            frequency,
        })
    }

    /// The server's figures; `None` if the workload is none.
    #[inline]
    pub(crate) fn server(&self) -> Option<&ServerSetup> {
        self.server.as_deref()
    }

    /// Creates the state of the emulator; on a real machine, CPUs take no turns.
    pub(crate) fn create_emulator(&self) -> Emulator {
        let turns = self
            .emulator
            .map(|emulator| Turns::new(emulator, self.topology.cpu_count()));
        Emulator::new(turns)
    }

    /// Creates the state of RCU's grace periods, if CPUs wait for them; the CPU that plays the drives does, too.
    pub(crate) fn create_grace_periods(&self) -> Option<GracePeriods> {
        let players = usize::from(self.emulator.is_some());
        let cpus = self.topology.cpu_count() + players;
        self.rcu.map(|_| GracePeriods::new(cpus))
    }

    /// Creates the state of `count` drives, idle for long.
    pub(crate) fn create_idle_drives(&self, count: usize) -> Vec<Drive> {
        (0..count).map(|_| Drive::new(&self.drive)).collect()
    }

    /// RCU's grace-period thread; `None` if nobody waits for grace periods.
    #[inline]
    pub(crate) fn grace_period_thread(&self) -> Option<GracePeriodThread> {
        self.rcu.map(|rcu| rcu.grace_period_thread())
    }

    /// Work in cycles to serve an interrupt; for a completion, `wakes_task` says whether it wakes its task.
    pub(crate) fn interrupt_service_work(&self, interrupt: Interrupt, wakes_task: bool) -> Cycles {
        match interrupt {
            Interrupt::Completion(_) => self.io.completion_interrupt_work(wakes_task),
            // The machine's own interrupts cost as much, and a worker is woken as a waiting task is.
            Interrupt::Network => self.io.completion_interrupt_work(true),
            Interrupt::Tick | Interrupt::Timer(Timer::Lease | Timer::FairServer) => {
                self.cpu.tick_interrupt_work()
            }
            Interrupt::Timer(Timer::Background(i)) if !self.background[i].works_as_task() => {
                self.background[i].work_per_timer()
            }
            Interrupt::Rcu => self.rcu.map_or(0, |rcu| rcu.soft_interrupt_work()),
            Interrupt::Frequency(_) => self.frequency.sugov_interrupt_work(),
            Interrupt::Timer(_) | Interrupt::Reschedule | Interrupt::Stolen => 0,
        }
    }
}
