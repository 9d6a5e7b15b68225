//! A machine, a workload and two policies, compiled into what the engine needs.

pub(crate) mod policies;

use wakepath_hardware::Machine;
use wakepath_hardware::c1_demotion::DemotionRule;
use wakepath_hardware::machine::{Beside, Package, PackageSleep, Uncore};
use wakepath_policies::freq::FreqPolicy;
use wakepath_policies::idle::Governor;
use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
use wakepath_units::{Nanoseconds, TickRate};
use wakepath_workloads::Workload;

use crate::block::completion::CompletionSetup;
use crate::block::cost::IoCost;
use crate::core::basics::{CpuId, Cycles, Interrupt, Timer};
use crate::cpu::idle_table::IdleTable;
use crate::drive::volume::VolumeSetup;
use crate::emulator::state::EmulatorSetup;
use crate::error::SimError;
use crate::frequency::clocks::cluster::ClusterSetup;
use crate::frequency::setup::{clusters, counts_runnable};
use crate::page_cache::state::PageCacheSetup;
use crate::power::limit_setup::PowerLimitSetup;
use crate::scheduler::state::Tunables;
use crate::setup::policies::Policies;
use crate::task::fio::pages::page_cache;
use crate::task::fio::setup::{JobSetup, LONGEST_UNTIMED, job};
use crate::task::kernel_thread::{BackgroundSetup, background};
use crate::task::rtapp::calibration::calibration_khz;
use crate::task::rtapp::program::Programs;

/// Longest time that an rt-app file with a duration is simulated for, if nobody asks for another one.
pub const LONGEST_TIMED: Nanoseconds = Nanoseconds(600_000_000_000);

/// What a CPU asks for as the longest exit latency, in ns.
pub(crate) fn latency_request(machine: &Machine, cpu: usize) -> i64 {
    let request = machine.latency_request(cpu);
    request.map_or(NO_LATENCY_REQUEST, |limit| limit.0 as i64)
}

fn kind_of(workload: &Workload) -> Beside {
    match workload {
        Workload::Fio(_) => Beside::Fio,
        Workload::RtApp(_) => Beside::RtApp,
    }
}

/// The first releases whose server for fair tasks stays when its CPU goes idle ("sched/deadline: Less agressive dl_server
/// handling").
const SERVES_IDLE_CPUS: [(u16, u16, u16); 2] = [(6, 12, 92), (6, 17, 0)];

/// Everything that is the same for every run of one policy combination.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) tick: TickRate,
    /// Of the tick, in ns.
    pub(crate) tick_period: u64,
    /// By cluster.
    pub(crate) idle: Vec<IdleTable>,
    pub(crate) clusters: Vec<ClusterSetup>,
    pub(crate) home: usize,
    /// By CPU: only tasks that are bound there; empty if there are none such.
    pub(crate) isolated: Vec<bool>,
    /// By CPU: no tick while it has one task; empty if there are none such.
    nohz_full: Vec<bool>,
    /// Of a system call on such a CPU.
    syscall_cycles: Cycles,
    /// By CPU: of how many CPUs it does the background work.
    pub(crate) keeps_house_for: Vec<u32>,
    pub(crate) ipi: u64,
    tick_cycles: Cycles,
    /// How much later a sleep of fio's ends than asked for, in ns.
    pub(crate) timer_slack: u64,
    /// How long fio finds that its shortest sleep takes, if timers have slack.
    pub(crate) shortest_sleep: u64,
    /// Whether how many tasks could run counts for the frequency.
    pub(crate) counts_runnable: bool,
    /// Of a task that has moved to another core.
    pub(crate) migration_cycles: Cycles,
    /// Of a task that runs on a CPU on which another one ran last.
    pub(crate) switch_cycles: Cycles,
    pub(crate) io: IoCost,
    pub(crate) completion: CompletionSetup,
    pub(crate) demotion: Option<DemotionRule>,
    pub(crate) uncore: Option<Uncore>,
    pub(crate) power_limit: Option<PowerLimitSetup>,
    pub(crate) package_sleep: PackageSleep,
    pub(crate) background: Vec<BackgroundSetup>,
    pub(crate) volume: VolumeSetup,
    pub(crate) jobs: Vec<JobSetup>,
    /// If somebody writes into it.
    pub(crate) page_cache: Option<PageCacheSetup>,
    pub(crate) programs: Programs,
    /// Work of RCU's soft interrupt, if CPUs wait for grace periods.
    pub(crate) rcu: Option<Cycles>,
    /// Work of schedutil's thread with each change of frequency, if there is one, and of the interrupt that wakes it.
    pub(crate) sugov: Option<Cycles>,
    sugov_interrupt: Cycles,
    /// Work of menu each further time that it goes over its intervals.
    pub(crate) menu_round: Cycles,
    /// Each CPU has a server for fair tasks, whose timer runs while it idles.
    pub(crate) fair_server: bool,
    /// If the CPUs take turns.
    pub(crate) emulator: Option<EmulatorSetup>,
    pub(crate) tunables: Tunables,
    /// The clusters differ in capacity.
    pub(crate) unequal_clusters: bool,
    /// Threads of some core slow each other down.
    pub(crate) smt: bool,
}

impl Setup {
    pub(crate) fn new(
        machine: &Machine,
        workload: &Workload,
        policies: &Policies,
    ) -> Result<Self, SimError> {
        let mut jobs = match workload {
            Workload::Fio(file) => {
                file.check_modelled()?;
                file.jobs
                    .iter()
                    .scan(0, |group, j| {
                        *group += usize::from(j.stonewall && j.line != file.jobs[0].line);
                        Some(job(j, *group, &machine.drive, policies.io_uring_iowait))
                    })
                    .collect::<Result<Vec<_>, _>>()?
            }
            Workload::RtApp(_) => Vec::new(),
        };
        let page_cache = match workload {
            Workload::Fio(file) => page_cache(machine, &mut jobs, &file.jobs),
            Workload::RtApp(_) => None,
        };
        let io = IoCost::new(&machine.io_path);
        for job in &mut jobs {
            job.think_cycles += io.program;
            if machine.emulator.is_some() {
                // A guest's ticks do not wait for its jobs: they start at any time between two.
                job.delay[1] += machine.tick_rate().period().0;
            }
        }
        let idle = machine.cluster.iter();
        let idle = idle.map(|cluster| IdleTable::new(machine, cluster, policies.poll));
        let idle = idle.collect::<Result<Vec<_>, _>>()?;
        let clusters = clusters(machine, &policies.frequency)?;
        let biggest = clusters
            .iter()
            .filter_map(|c| c.speed.last().copied())
            .max();
        let programs = match workload {
            Workload::Fio(file) => {
                let mut programs = Programs::default();
                for (setup, job) in jobs.iter_mut().zip(&file.jobs) {
                    setup.wait_for = (job.wait_for.as_ref())
                        .and_then(|name| file.jobs.iter().position(|other| other.name == *name));
                    setup.cpu_sets = programs.cpu_sets_of(job, machine.cpus());
                }
                programs
            }
            Workload::RtApp(file) => {
                let khz = calibration_khz(file, &clusters, biggest.unwrap_or(1))?;
                let default = match file.duration {
                    Some(_) => LONGEST_TIMED,
                    None => LONGEST_UNTIMED,
                };
                let longest = file.at_most.unwrap_or(default);
                Programs::new(file, khz, machine.cpus(), longest)?
            }
        };
        let home = machine
            .cluster
            .iter()
            .position(|c| c.name == machine.scheduler.home.cluster)
            .unwrap_or(0);
        let timer_slack = machine.scheduler.timer_slack_us.micros().0;
        let shortest_sleep = if timer_slack > 0 {
            let (table, tick) = (&idle[home], machine.tick_rate());
            crate::cpu::shortest_sleep::shortest_sleep(
                1000 + timer_slack,
                table,
                &mut Governor::in_kernel(&policies.idle, &table.declared, tick),
                latency_request(machine, clusters[home].first_cpu),
                tick,
            )
        } else {
            0
        };
        Ok(Self {
            tick: machine.tick_rate(),
            tick_period: machine.tick_rate().period().0,
            idle,
            clusters,
            home,
            isolated: listed(&machine.isolation.isolcpus, machine),
            nohz_full: listed(&machine.isolation.nohz_full, machine),
            syscall_cycles: machine.isolation.syscall_kcycles.kilocycles(),
            keeps_house_for: {
                let mut served = vec![0; machine.cpus()];
                for cpu in 0..machine.cpus() {
                    served[machine.housekeeper_of(cpu)] += 1;
                }
                served
            },
            ipi: machine.scheduler.ipi_us.micros().0,
            tick_cycles: machine.scheduler.tick_kcycles.kilocycles(),
            timer_slack,
            shortest_sleep,
            counts_runnable: counts_runnable(machine, &policies.frequency),
            migration_cycles: machine.scheduler.migration_kcycles.kilocycles(),
            switch_cycles: machine.scheduler.switch_kcycles.kilocycles(),
            io,
            completion: CompletionSetup::new(machine),
            demotion: DemotionRule::new(machine),
            uncore: machine.uncore.clone(),
            power_limit: PowerLimitSetup::new(machine),
            package_sleep: (machine.package.as_ref())
                .map_or_else(PackageSleep::default, Package::sleep),
            background: background(machine, kind_of(workload)),
            sugov: (machine.scheduler.sugov_kcycles.is_given()
                && matches!(policies.frequency, FreqPolicy::Schedutil(_)))
            .then(|| machine.scheduler.sugov_kcycles.kilocycles()),
            sugov_interrupt: (machine.scheduler.sugov_interrupt_kcycles).kilocycles(),
            menu_round: machine.scheduler.menu_round_kcycles.kilocycles(),
            fair_server: machine
                .kernel
                .is_some_and(|kernel| kernel.has(&SERVES_IDLE_CPUS)),
            rcu: machine
                .rcu
                .as_ref()
                .map(|rcu| rcu.softirq_kcycles.kilocycles()),
            volume: VolumeSetup::new(&machine.drive),
            jobs,
            page_cache,
            programs,
            emulator: {
                let khz = biggest.unwrap_or(1);
                (machine.emulator.as_ref()).map(|of| EmulatorSetup::new(of, u64::from(khz)))
            },
            tunables: Tunables::new(machine.cpus()),
            unequal_clusters: machine
                .cluster
                .windows(2)
                .any(|w| w[0].capacity != w[1].capacity),
            smt: machine
                .cluster
                .iter()
                .any(|c| c.smt_speedup.is_given() || c.smt_poll_loss.is_given()),
        })
    }

    /// Whether a CPU has no tick while it has one task.
    #[inline]
    pub(crate) fn is_nohz_full(&self, cpu: CpuId) -> bool {
        self.nohz_full.get(cpu).is_some_and(|yes| *yes)
    }

    /// What a system call costs a CPU besides the work of an I/O.
    #[inline]
    pub(crate) fn syscall(&self, cpu: CpuId) -> Cycles {
        if self.is_nohz_full(cpu) {
            self.syscall_cycles
        } else {
            0
        }
    }

    /// The task of grace periods, and the background source of that number, if there is one.
    #[inline]
    pub(crate) fn grace_period_thread(&self) -> Option<usize> {
        self.rcu.map(|_| self.background.len() - 1)
    }

    /// What it costs to serve an interrupt; of a completion, whether that `wakes` its task.
    pub(crate) fn cost(&self, interrupt: Interrupt, wakes: bool) -> Cycles {
        match interrupt {
            Interrupt::Completion(_) => self.io.interrupt(wakes),
            Interrupt::Tick | Interrupt::Timer(Timer::Lease | Timer::FairServer) => {
                self.tick_cycles
            }
            Interrupt::Timer(Timer::Background(i)) if !self.background[i].as_task => {
                self.background[i].cycles
            }
            Interrupt::Rcu => self.rcu.unwrap_or(0),
            Interrupt::Frequency(_) => self.sugov_interrupt,
            Interrupt::Timer(_) | Interrupt::Reschedule => 0,
        }
    }
}

/// Which CPUs are in a list; empty if none are.
fn listed(cpus: &[CpuId], machine: &Machine) -> Vec<bool> {
    if cpus.is_empty() {
        return Vec::new();
    }
    (0..machine.cpus()).map(|cpu| cpus.contains(&cpu)).collect()
}
