//! A machine's figures about CPUs, compiled: idle loop, ticks and timers.

use wakepath_hardware::Machine;
use wakepath_hardware::c1_demotion::DemotionRule;
use wakepath_hardware::idle::IdleStates;
use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
use wakepath_policies::idle::{Governor, IdlePolicy};
use wakepath_policies::poll::PollPolicy;
use wakepath_policies::psd::{IdleDepthLease, PsdPolicy};
use wakepath_units::TickRate;

use crate::core::basics::{CpuId, Cycles, FULL_SHARE};
use crate::core::topology::Topology;
use crate::cpu::idle_table::IdleTable;
use crate::cpu::shortest_sleep::longest_trial_sleep;
use crate::cpu::state::Cpu;
use crate::cpu::stolen_setup::StolenSetup;
use crate::error::SimError;

/// The first releases whose server for fair tasks stays when the CPU goes idle ("sched/deadline: Less agressive
/// dl_server handling").
const SERVES_IDLE_CPUS: [(u16, u16, u16); 2] = [(6, 12, 92), (6, 17, 0)];

/// A machine's CPUs under the idle policies.
#[derive(Clone, Debug)]
pub(crate) struct CpuSetup {
    pub(super) tick: TickRate,
    /// Period of the scheduler tick, in ns.
    pub(super) tick_period: u64,
    /// Work in cycles of a scheduler tick's interrupt.
    tick_cycles: Cycles,
    /// Idle states by cluster.
    tables: Vec<IdleTable>,
    governor: IdlePolicy,
    /// PSD lease policy by cluster; empty without leases.
    leases: Vec<PsdPolicy>,
    /// By CPU, the longest exit latency in ns that latency requests allow.
    latency_requests: Vec<i64>,
    pub(super) demotion: Option<DemotionRule>,
    /// Work of the menu governor for each further pass over its intervals.
    pub(super) menu_round: Cycles,
    /// By CPU, whether it has no tick while one task runs (`nohz_full`); empty without such CPUs.
    nohz_full: Vec<bool>,
    /// Extra work of each system call on a `nohz_full` CPU.
    syscall_cycles: Cycles,
    /// By CPU, for how many CPUs it does the background work.
    keeps_house_for: Vec<u32>,
    /// Timer slack in ns: how much later than asked for an ordinary task's sleep ends.
    pub(super) timer_slack: u64,
    shortest_sleep: u64,
    /// Whether each CPU has a deadline server for fair tasks, whose timer runs on while the CPU is idle.
    pub(super) fair_server: bool,
    /// By cluster, how threads on a core slow each other down; `None` if they do nowhere.
    pub(super) core_shares: Option<Vec<CoreShares>>,
    /// By cluster, whether a core's threads share its idle state; empty if they do nowhere.
    pub(super) threads_sleep_together: Vec<bool>,
    /// How a virtual machine's host takes CPUs; `None` if it takes none.
    pub(super) stolen: Option<StolenSetup>,
}

/// A hardware thread's share in the core, with [`FULL_SHARE`] as all.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoreShares {
    /// The share while all other threads of the core are busy.
    pub(super) all_busy: u64,
    /// The share while another thread of the core polls.
    pub(super) another_polls: u64,
}

fn core_share_from_fraction(fraction: f64) -> u64 {
    ((fraction * FULL_SHARE as f64).round() as u64).clamp(1, FULL_SHARE)
}

fn core_shares_by_cluster(machine: &Machine) -> Option<Vec<CoreShares>> {
    let mut clusters = machine.cluster.iter();
    if !clusters.any(|c| c.smt_speedup.is_given() || c.smt_poll_loss.is_given()) {
        return None;
    }
    let shares = machine.cluster.iter().map(|c| CoreShares {
        all_busy: if c.smt_speedup.is_given() {
            core_share_from_fraction(c.smt_speedup.value / c.threads_per_core as f64)
        } else {
            FULL_SHARE
        },
        another_polls: core_share_from_fraction(1.0 - c.smt_poll_loss.value),
    });
    Some(shares.collect())
}

/// By cluster, whether threads of a core share its idle state; empty if they do nowhere.
fn find_cores_with_one_idle_state(machine: &Machine) -> Vec<bool> {
    let clusters = machine.cluster.iter();
    let together: Vec<bool> = clusters
        .map(|cluster| cluster.threads_sleep_together && cluster.threads_per_core > 1)
        .collect();
    if together.contains(&true) {
        together
    } else {
        Vec::new()
    }
}

/// By CPU, the longest exit latency in ns that latency requests allow.
fn exit_latency_requests_by_cpu(machine: &Machine) -> Vec<i64> {
    let requests = (0..machine.cpus()).map(|cpu| machine.smallest_latency_request(cpu));
    let limits = requests.map(|request| request.map_or(NO_LATENCY_REQUEST, |limit| limit.0 as i64));
    limits.collect()
}

/// By CPU of the machine, whether it is in a list; empty if the list is.
pub(crate) fn membership_by_cpu(cpus: &[CpuId], machine: &Machine) -> Vec<bool> {
    if cpus.is_empty() {
        return Vec::new();
    }
    (0..machine.cpus()).map(|cpu| cpus.contains(&cpu)).collect()
}

impl CpuSetup {
    /// Compiles a machine's CPUs; jobs begin in the cluster `home`.
    ///
    /// # Errors
    /// A cluster's idle states do not fit together.
    pub(crate) fn new(
        machine: &Machine,
        governor: IdlePolicy,
        leases: Vec<PsdPolicy>,
        poll: Option<PollPolicy>,
        home: usize,
        topology: &Topology,
    ) -> Result<Self, SimError> {
        let tick = machine.tick_rate();
        let tables: Vec<IdleTable> = (machine.cluster.iter())
            .map(|cluster| IdleTable::new(machine, cluster, poll))
            .collect::<Result<_, _>>()?;
        let latency_requests = exit_latency_requests_by_cpu(machine);
        let timer_slack = machine.scheduler.timer_slack_us.micros_to_time().0;
        let shortest_sleep = if timer_slack > 0 {
            let table = &tables[home];
            longest_trial_sleep(
                1000 + timer_slack,
                table,
                &mut Governor::new_or_only_state_rule(&governor, &table.declared, tick),
                latency_requests[topology.cluster(home).cpus().start],
                tick,
            )
        } else {
            0
        };
        let mut keeps_house_for = vec![0; machine.cpus()];
        for cpu in 0..machine.cpus() {
            keeps_house_for[machine.housekeeping_cpu_for(cpu)] += 1;
        }
        Ok(Self {
            tick,
            tick_period: tick.period().0,
            tick_cycles: machine.scheduler.tick_kcycles.kilocycles_to_cycles(),
            tables,
            governor,
            leases,
            latency_requests,
            demotion: DemotionRule::for_machine(machine),
            menu_round: machine.scheduler.menu_round_kcycles.kilocycles_to_cycles(),
            nohz_full: membership_by_cpu(&machine.isolation.nohz_full, machine),
            syscall_cycles: machine.isolation.syscall_kcycles.kilocycles_to_cycles(),
            keeps_house_for,
            timer_slack,
            shortest_sleep,
            fair_server: (machine.kernel)
                .is_some_and(|kernel| kernel.has_change_released_in(&SERVES_IDLE_CPUS)),
            core_shares: core_shares_by_cluster(machine),
            threads_sleep_together: find_cores_with_one_idle_state(machine),
            stolen: StolenSetup::new(machine),
        })
    }

    /// Creates the state of all CPUs, idle for long. `operating_points`: their number by cluster.
    pub(crate) fn create_idle_cpus(
        &self,
        topology: &Topology,
        operating_points: &[usize],
    ) -> Vec<Cpu<'_>> {
        let mut cpus = Vec::with_capacity(topology.cpu_count());
        for (number, cluster) in topology.clusters().iter().enumerate() {
            let table = &self.tables[number];
            let lease = self.leases.get(number);
            for cpu in cluster.cpus() {
                cpus.push(Cpu::new(
                    number,
                    table,
                    cluster.clock_number(cpu),
                    Governor::new_or_only_state_rule(&self.governor, &table.declared, self.tick),
                    self.latency_requests[cpu],
                    lease.map(|policy| (IdleDepthLease::new(policy, self.tick), *policy)),
                    operating_points[number],
                ));
            }
        }
        cpus
    }

    /// Number of CPUs whose background work a CPU does, itself included.
    pub(crate) fn housekept_cpu_count(&self, cpu: CpuId) -> u32 {
        self.keeps_house_for[cpu]
    }

    /// The first cluster's idle states, as declared to governors.
    pub(crate) fn declared_states_of_first_cluster(&self) -> &IdleStates {
        &self.tables[0].declared
    }

    /// Whether leaving an idle state takes a random time on some CPU.
    pub(crate) fn has_random_exits(&self) -> bool {
        let mut states = self.tables.iter().flat_map(|table| &table.states);
        states.any(|state| state.exit_spread.is_some())
    }

    /// Whether a virtual machine's host takes CPUs at times.
    pub(crate) fn is_stolen_from(&self) -> bool {
        self.stolen.is_some()
    }

    /// Work in cycles of a tick's interrupt, or of a timer that only looks at something.
    pub(crate) fn tick_interrupt_work(&self) -> Cycles {
        self.tick_cycles
    }

    /// Timer slack in ns: how much later than asked for an ordinary task's sleep ends.
    #[inline(always)]
    pub(crate) fn timer_slack(&self) -> u64 {
        self.timer_slack
    }

    /// fio's estimate of the shortest possible sleep, in ns; 0 if timers have no slack.
    pub(crate) fn fio_shortest_sleep(&self) -> u64 {
        self.shortest_sleep
    }

    /// Whether hardware threads on some core slow each other down.
    #[inline(always)]
    pub(crate) fn threads_slow_each_other(&self) -> bool {
        self.core_shares.is_some()
    }

    /// Whether a CPU is `nohz_full`: no tick while it runs one task.
    #[inline(always)]
    pub(crate) fn is_nohz_full(&self, cpu: CpuId) -> bool {
        self.nohz_full.get(cpu).is_some_and(|yes| *yes)
    }

    /// Extra work in cycles of each system call on a CPU: 0 unless the CPU is `nohz_full`.
    #[inline(always)]
    pub(crate) fn extra_syscall_work(&self, cpu: CpuId) -> Cycles {
        if self.is_nohz_full(cpu) {
            self.syscall_cycles
        } else {
            0
        }
    }
}
