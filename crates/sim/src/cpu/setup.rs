//! A machine's figures about CPUs, compiled: idle loop, ticks and timers.

use wakepath_hardware::Machine;
use wakepath_hardware::c1_demotion::DemotionRule;
use wakepath_hardware::idle::IdleStates;
use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
use wakepath_policies::idle::{Governor, IdlePolicy};
use wakepath_policies::poll::PollPolicy;
use wakepath_policies::psd::{Lease, PsdPolicy};
use wakepath_units::TickRate;

use crate::core::basics::{CpuId, Cycles, FULL_SHARE};
use crate::core::topology::Topology;
use crate::cpu::idle_table::IdleTable;
use crate::cpu::shortest_sleep::shortest_sleep;
use crate::cpu::state::Cpu;
use crate::error::SimError;

/// The first releases whose server for fair tasks stays when the CPU goes idle ("sched/deadline: Less agressive
/// dl_server handling").
const SERVES_IDLE_CPUS: [(u16, u16, u16); 2] = [(6, 12, 92), (6, 17, 0)];

/// A machine's CPUs under the idle policies.
#[derive(Clone, Debug)]
pub(crate) struct CpuSetup {
    pub(super) tick: TickRate,
    /// Period of the tick, in ns.
    pub(super) tick_period: u64,
    /// Work of a tick.
    tick_cycles: Cycles,
    /// By cluster.
    tables: Vec<IdleTable>,
    governor: IdlePolicy,
    /// By cluster; empty without leases.
    leases: Vec<PsdPolicy>,
    /// By CPU: the longest exit latency in ns asked for.
    latency_requests: Vec<i64>,
    pub(super) demotion: Option<DemotionRule>,
    /// menu's work for each further pass over the intervals.
    pub(super) menu_round: Cycles,
    /// By CPU: no tick while one task runs; empty without such CPUs.
    nohz_full: Vec<bool>,
    /// System call work on a CPU without a tick.
    syscall_cycles: Cycles,
    /// By CPU: number of CPUs served with background work.
    keeps_house_for: Vec<u32>,
    /// How much later than asked for a sleep of an ordinary task ends, in ns.
    pub(super) timer_slack: u64,
    shortest_sleep: u64,
    /// Each CPU has a server for fair tasks, with a timer running while idle.
    pub(super) fair_server: bool,
    /// By cluster, if threads on some core slow each other down.
    pub(super) core_shares: Option<Vec<CoreShares>>,
}

/// A hardware thread's share in the core, with [`FULL_SHARE`] as all.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoreShares {
    /// While all other threads of the core are busy.
    pub(super) all_busy: u64,
    /// While another thread polls.
    pub(super) another_polls: u64,
}

fn share(of_one: f64) -> u64 {
    ((of_one * FULL_SHARE as f64).round() as u64).clamp(1, FULL_SHARE)
}

fn core_shares(machine: &Machine) -> Option<Vec<CoreShares>> {
    let mut clusters = machine.cluster.iter();
    if !clusters.any(|c| c.smt_speedup.is_given() || c.smt_poll_loss.is_given()) {
        return None;
    }
    let shares = machine.cluster.iter().map(|c| CoreShares {
        all_busy: if c.smt_speedup.is_given() {
            share(c.smt_speedup.value / c.threads_per_core as f64)
        } else {
            FULL_SHARE
        },
        another_polls: share(1.0 - c.smt_poll_loss.value),
    });
    Some(shares.collect())
}

/// By CPU, the longest exit latency in ns asked for.
fn latency_requests(machine: &Machine) -> Vec<i64> {
    let requests = (0..machine.cpus()).map(|cpu| machine.latency_request(cpu));
    let limits = requests.map(|request| request.map_or(NO_LATENCY_REQUEST, |limit| limit.0 as i64));
    limits.collect()
}

/// Which CPUs are in a list; empty if none are.
pub(crate) fn listed(cpus: &[CpuId], machine: &Machine) -> Vec<bool> {
    if cpus.is_empty() {
        return Vec::new();
    }
    (0..machine.cpus()).map(|cpu| cpus.contains(&cpu)).collect()
}

impl CpuSetup {
    /// The CPUs of a machine; jobs begin in the cluster `home`.
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
        let latency_requests = latency_requests(machine);
        let timer_slack = machine.scheduler.timer_slack_us.micros().0;
        let shortest_sleep = if timer_slack > 0 {
            let table = &tables[home];
            shortest_sleep(
                1000 + timer_slack,
                table,
                &mut Governor::new_or_only_state(&governor, &table.declared, tick),
                latency_requests[topology.cluster(home).cpus().start],
                tick,
            )
        } else {
            0
        };
        let mut keeps_house_for = vec![0; machine.cpus()];
        for cpu in 0..machine.cpus() {
            keeps_house_for[machine.housekeeper_of(cpu)] += 1;
        }
        Ok(Self {
            tick,
            tick_period: tick.period().0,
            tick_cycles: machine.scheduler.tick_kcycles.kilocycles(),
            tables,
            governor,
            leases,
            latency_requests,
            demotion: DemotionRule::new(machine),
            menu_round: machine.scheduler.menu_round_kcycles.kilocycles(),
            nohz_full: listed(&machine.isolation.nohz_full, machine),
            syscall_cycles: machine.isolation.syscall_kcycles.kilocycles(),
            keeps_house_for,
            timer_slack,
            shortest_sleep,
            fair_server: (machine.kernel).is_some_and(|kernel| kernel.has(&SERVES_IDLE_CPUS)),
            core_shares: core_shares(machine),
        })
    }

    /// All CPUs, idle for long. `operating_points`: count by cluster.
    pub(crate) fn cpus(&self, topology: &Topology, operating_points: &[usize]) -> Vec<Cpu<'_>> {
        let mut cpus = Vec::with_capacity(topology.cpus());
        for (number, cluster) in topology.clusters().iter().enumerate() {
            let table = &self.tables[number];
            let lease = self.leases.get(number);
            for cpu in cluster.cpus() {
                cpus.push(Cpu::new(
                    number,
                    table,
                    cluster.clock_of(cpu),
                    Governor::new_or_only_state(&self.governor, &table.declared, self.tick),
                    self.latency_requests[cpu],
                    lease.map(|policy| (Lease::new(policy, self.tick), *policy)),
                    operating_points[number],
                ));
            }
        }
        cpus
    }

    /// How many CPUs a CPU does background work for.
    pub(crate) fn keeps_house_for(&self, cpu: CpuId) -> u32 {
        self.keeps_house_for[cpu]
    }

    /// The idle states of the first cluster, as declared.
    pub(crate) fn declared_states(&self) -> &IdleStates {
        &self.tables[0].declared
    }

    /// Whether leaving an idle state takes a random time on some CPU.
    pub(crate) fn has_random_exits(&self) -> bool {
        let mut states = self.tables.iter().flat_map(|table| &table.states);
        states.any(|state| state.exit_spread.is_some())
    }

    /// Work for a tick, or for a timer that only looks at something.
    pub(crate) fn tick_cycles(&self) -> Cycles {
        self.tick_cycles
    }

    /// How much later than asked for a sleep of an ordinary task ends, in ns.
    #[inline(always)]
    pub(crate) fn timer_slack(&self) -> u64 {
        self.timer_slack
    }

    /// fio's estimate of the shortest sleep, in ns, if timers have slack.
    pub(crate) fn shortest_sleep(&self) -> u64 {
        self.shortest_sleep
    }

    /// Whether threads on some core slow each other down.
    #[inline(always)]
    pub(crate) fn shares_cores(&self) -> bool {
        self.core_shares.is_some()
    }

    /// Whether a CPU has no tick while running one task.
    #[inline(always)]
    pub(super) fn is_nohz_full(&self, cpu: CpuId) -> bool {
        self.nohz_full.get(cpu).is_some_and(|yes| *yes)
    }

    /// A system call's cost for a CPU besides an I/O's work.
    #[inline(always)]
    pub(crate) fn syscall(&self, cpu: CpuId) -> Cycles {
        if self.is_nohz_full(cpu) {
            self.syscall_cycles
        } else {
            0
        }
    }
}
