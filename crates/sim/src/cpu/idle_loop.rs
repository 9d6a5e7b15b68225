//! The kernel's idle loop: asking the governor, entering, leaving, telling it.

use wakepath_hardware::c1_demotion::DemotionRule;
use wakepath_policies::idle::kernel::{IdleCall, own_poll_limit_or};
use wakepath_policies::idle::{IdleGovernor, IdleOutcome};

use crate::core::basics::{CpuId, NEVER};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::cpu::idle_table::TrueState;
use crate::cpu::migratory_timers::MigratoryExpiry;
use crate::cpu::phase::Mode;
use crate::cpu::state::Cpu;
use crate::engine::Engine;
use crate::power::state::PowerTracker;

impl<O: Observer> Engine<'_, O> {
    /// Sends a CPU to sleep, as its governor chooses.
    #[inline(always)]
    pub(crate) fn enter_idle(&mut self, cpu: CpuId) {
        debug_assert_eq!(self.context.due_time_or_never(Slot::Phase(cpu)), NEVER);
        self.end_due_uncore_slots();
        let now = self.context.now();
        let setup = &self.setup.cpu;
        let timers = &self.migratory_timers;
        let migratory =
            (timers.machine_has_any()).then(|| timers.next_expiries_for(cpu, &self.cpus));
        let c = &mut self.cpus[cpu];
        let call = c.make_idle_call(now, setup.tick_period, migratory.as_ref());
        let query = call.governor_query();
        let ceiling = c.idle.latency_ceiling_of_lease(now);
        if c.idle.governor.wants_utilisation() {
            let capacity = self.setup.topology.cluster(c.cluster).capacity();
            c.tell_governor_utilisation(capacity);
        }
        let table = c.idle.table;
        let choice = call.ask_governor(&query, &table.declared, &mut c.idle.governor, ceiling);
        if let Some(observer) = self.context.observer() {
            observer.idle_state_chosen(cpu, &query, choice.decision);
        }
        if setup.menu_round > 0 {
            let more = setup.menu_round * u64::from(c.idle.governor.interval_search_passes() - 1);
            c.idle.uncounted = self.domains[c.domain].time_for_work(now, more);
        }
        if choice.stops_tick {
            c.stop_tick_while_idle(migratory.as_ref());
        }
        c.begin_idle_period(now, choice.state);
        let entered = &table.states[choice.state];
        if entered.polling {
            let limit = c.begin_polling(now);
            self.begin_phase(cpu, Mode::Idle, limit);
        } else {
            let point = self.domains[c.domain].current_point_index();
            c.fall_asleep_in_state(
                now,
                entered,
                setup.demotion.as_ref(),
                point,
                &mut self.power,
            );
        }
        self.update_core_use(cpu);
        self.update_sleep_of_core(cpu);
        self.tell_observer_of_cpu(cpu);
        if choice.stops_tick {
            self.schedule_next_clock_event(cpu);
        }
    }

    /// Continues polling if a polling CPU has no task and time left. Otherwise ends the idle period, and tells the governor.
    #[inline(always)]
    pub(crate) fn continue_polling_or_end_idle(&mut self, cpu: CpuId, has_task: bool) -> bool {
        let now = self.context.now();
        let c = &mut self.cpus[cpu];
        if let Some(until) = c.idle.polling_until {
            if now < until && !has_task {
                self.begin_phase(cpu, Mode::Idle, until - now);
                return true;
            }
            c.end_idle_period(now, !has_task);
            // The end of the polling limit is no longer awaited.
            self.context.cancel(Slot::Phase(cpu));
        }
        if let Some(period) = c.idle.unreflected.take() {
            let outcome = c.report_outcome_to_governor(now, period);
            if let Some(observer) = self.context.observer() {
                observer.idle_outcome_told(cpu, &outcome);
            }
        }
        false
    }

    /// Takes a CPU with something to run out of the idle loop, and brings its tick back.
    #[inline(always)]
    pub(crate) fn leave_idle_loop(&mut self, cpu: CpuId) {
        let period = self.setup.cpu.tick_period;
        if self.cpus[cpu].leave_idle_loop_and_restart_tick(self.context.now(), period) {
            self.stop_tick_if_nohz_full(cpu);
            self.schedule_next_clock_event(cpu);
        }
    }

    /// Begins to wake a sleeping CPU: its exit latency starts, and the package's and cluster's state are settled.
    pub(crate) fn begin_cpu_wake_up(&mut self, cpu: CpuId) {
        let setup = self.setup;
        self.end_due_uncore_slots();
        self.tell_clock_hardware_of_wake_up(cpu);
        let limit = self.limit_by_other_threads(cpu);
        let c = &mut self.cpus[cpu];
        self.power
            .note_powered_cpu_clock(self.domains[c.domain].frequency().0);
        let mut begun = c.idle.since;
        let table = c.idle.table;
        let mut chosen = &table.states[c.idle.state];
        let (mut joined, mut whole) = (c.idle.state, chosen.whole_cluster);
        if let Some(demotion) = &setup.cpu.demotion {
            c.idle.demotion.note_wake_up(demotion, self.context.now());
            if std::mem::take(&mut c.idle.demoted) {
                // Cluster and package know only the state that the hardware demoted to.
                joined = demotion.to;
                whole = table.states[joined].whole_cluster;
                if c.idle.undemoted_at < self.context.now() {
                    begun = c.idle.undemoted_at;
                    c.idle.demotion.undemotions += 1;
                    chosen = table.state_while_cluster_is_up(chosen);
                } else {
                    chosen = &table.states[demotion.to];
                }
            }
        }
        c.end_sleep_time(self.context.now());
        c.idle.wake_began = self.context.now();
        c.idle.undemoted_at = NEVER;
        let cluster_was_down =
            self.power
                .note_cpu_awake(self.context.now(), c.cluster, whole, joined);
        if whole {
            c.totals.states[joined].down +=
                self.power.settled_cluster_time_down(c.cluster) - c.idle.down_before;
        }
        let mut really_in = if whole && !cluster_was_down {
            table.state_while_cluster_is_up(chosen)
        } else {
            chosen
        };
        if let Some(limit) = limit {
            really_in = &table.states[really_in.index.min(limit.state)];
            begun = begun.max(limit.since);
        }
        c.begin_waking_time(self.context.now(), really_in.index);
        c.totals.states[really_in.index].entering +=
            (self.context.now() - begun).min(really_in.entry);
        let entered_at = begun + really_in.entry;
        let of_package = self.power.wait_for_package(self.context.now());
        let wait = if self.context.now() < entered_at {
            // The CPU is still entering the state: the entry is completed first, and caches are not lost.
            (entered_at - self.context.now()).max(of_package)
        } else {
            c.phase.cold += really_in.cold_start;
            let own = match really_in.exit_after(self.context.now() - begun) {
                (exit, None) => exit,
                (_, Some(times)) => self
                    .context
                    .random_streams()
                    .draw_idle_exit_time(cpu, times),
            };
            of_package + own
        };
        c.phase.mode = Mode::Waking;
        c.phase.start = self.context.now();
        let wait = self.emulator.begin_idle_exit(cpu, self.context.now(), wait);
        self.schedule_phase_end(cpu, wait);
        self.update_sleep_of_core(cpu);
    }
}

impl Cpu<'_> {
    /// Makes the kernel's question to the idle governor, as a CPU goes idle with a tick every `period` ns.
    #[inline(always)]
    fn make_idle_call(
        &mut self,
        now: u64,
        period: u64,
        migratory: Option<&MigratoryExpiry>,
    ) -> IdleCall {
        let after_tick = std::mem::replace(&mut self.idle.in_loop, true) & self.idle.got_tick;
        self.idle.got_tick = false;
        // As tick_nohz_get_sleep_length() sees it: a timer-wheel timer within a tick keeps the tick.
        let timer = (self.timers.precise.next_expiry()).min(self.timers.fair_server.timer_expiry());
        let mut wheel = self.timers.wheel.next_expiry();
        if let Some(migratory) = migratory {
            // A CPU with a stopped tick may keep a later tick for migratory timers.
            let seen = if self.tick.stopped {
                self.tick.next
            } else {
                migratory.own
            };
            wheel = wheel.min(seen);
        }
        let can_stop = self.tick.stopped
            || (self.rcu.has_no_callbacks()
                && (wheel.saturating_sub(now) > period
                    || wheel.saturating_sub(now / period * period) > period));
        if let Some(migratory) = migratory
            && can_stop
            && !self.tick.stopped
        {
            // The last awake CPU sees to all timers; any other CPU leaves timers to awake CPUs.
            let left = if migratory.last { migratory.all } else { NEVER };
            wheel = self.timers.wheel.next_expiry().min(left);
        }
        IdleCall {
            now,
            next_timer: signed_time_until(now, timer.min(wheel)),
            tick_stopped: self.tick.stopped,
            after_tick,
            tick: self.tick.next,
            keeps_tick: !can_stop,
            latency_request: self.idle.latency_request,
            nr_iowait: self.run_queue.io_waiter_count(),
            true_idle: 0,
            package_saving: 0,
        }
    }

    /// Tells the idle governor how busy the CPU is, as a share of its capacity in 1024ths.
    fn tell_governor_utilisation(&mut self, capacity: u32) {
        let share = self.run_queue.utilisation().out_of_1024() * 1024 / capacity.max(1);
        self.idle.governor.set_utilisation(share.min(1024) as u16);
    }

    /// The CPU stops its tick to go idle. The last awake CPU keeps a timer for all CPUs' timers.
    #[inline(always)]
    fn stop_tick_while_idle(&mut self, migratory: Option<&MigratoryExpiry>) {
        self.tick.stopped = true;
        self.tick.next = match migratory {
            Some(migratory) if migratory.last => migratory.all,
            _ => NEVER,
        };
        self.totals.tick_stops += 1;
    }

    /// Begins an idle period in the idle state that the governor chose.
    #[inline(always)]
    fn begin_idle_period(&mut self, now: u64, state: usize) {
        self.totals.selections += 1;
        self.totals.tickless += u64::from(self.tick.stopped);
        self.idle.state = state;
        self.idle.since = now;
        self.phase.mode = Mode::Idle;
        self.totals.states[state].entries += 1;
    }

    /// Begins to poll in the chosen idle state. Returns the polling limit in ns.
    #[inline(always)]
    fn begin_polling(&mut self, now: u64) -> u64 {
        let limit = own_poll_limit_or(&self.idle.governor, self.idle.table.poll_limit).0;
        self.idle.polling_until = Some(now + limit);
        limit
    }

    /// The CPU sleeps in the state `entered`, or in a shallower one if the hardware demotes. Its clock was at operating
    /// point number `point`.
    #[inline(always)]
    fn fall_asleep_in_state(
        &mut self,
        now: u64,
        entered: &TrueState,
        demotion: Option<&DemotionRule>,
        point: usize,
        power: &mut PowerTracker,
    ) {
        let (mut really, mut whole) = (self.idle.state, entered.whole_cluster);
        if let Some(demotion) = demotion
            && let Some(undemoted_at) =
                self.idle
                    .demotion
                    .demote_request_until(demotion, now, self.idle.state)
        {
            (self.idle.demoted, self.idle.undemoted_at) = (true, undemoted_at);
            really = demotion.to;
            whole = self.idle.table.states[really].whole_cluster;
        }
        self.begin_sleep_time(now, point, really);
        if whole {
            self.idle.down_before = power.settled_cluster_time_down(self.cluster);
        }
        power.note_cpu_asleep(now, self.cluster, whole, really);
    }

    /// Ends the idle period now, and counts whether its state fitted the time.
    #[inline(always)]
    pub(crate) fn end_idle_period(&mut self, now: u64, poll_limit_hit: bool) {
        let residency = now - self.idle.since;
        self.idle.polling_until = None;
        self.idle.awake_since = now;
        let counted = residency.saturating_sub(self.idle.uncounted);
        self.idle.unreflected = Some((IdleOutcome::nonzero_residency(counted), poll_limit_hit));
        let table = self.idle.table;
        let entered = &table.states[self.idle.state];
        let stats = &mut self.totals.states[self.idle.state];
        stats.time += residency - std::mem::take(&mut self.idle.busy_in_period);
        stats.above += u64::from(residency < entered.fit.shortest);
        stats.below += u64::from(residency > entered.fit.longest);
        // The fit is counted once more by the true idle time, unknown to the kernel.
        let woken = if entered.polling {
            now
        } else {
            self.idle.wake_began
        };
        let idle = woken - self.idle.since;
        let fit = &mut self.totals.fits
            [self.idle.state * self.totals.states.len() + table.deepest_fitting_state(idle)];
        fit.periods += 1;
        fit.idle += idle;
        fit.wake += now - woken;
    }

    /// Tells the governor about the last idle period.
    #[inline(always)]
    pub(crate) fn report_outcome_to_governor(
        &mut self,
        now: u64,
        (residency, poll_limit_hit): (u64, bool),
    ) -> IdleOutcome {
        let outcome = IdleOutcome {
            clock: now,
            residency,
            got_tick: self.idle.got_tick,
            poll_limit_hit,
        };
        self.idle.governor.reflect(self.idle.state, &outcome);
        outcome
    }

    /// Leaves the idle loop. Returns whether a stopped tick was restarted, every `period` ns.
    #[inline]
    fn leave_idle_loop_and_restart_tick(&mut self, now: u64, period: u64) -> bool {
        let back = self.idle.in_loop && self.tick.stopped;
        self.idle.in_loop = false;
        if back {
            self.tick.restart(now, period);
        }
        back
    }
}

/// Signed nanoseconds from `now` until `at`, as the kernel counts.
///
/// For a CPU without timers the next event is at the end of time, `KTIME_MAX` (`tick_nohz_get_sleep_length()`, Linux
/// 6.1 and 6.12). The time left goes into the governors' arithmetic, and overflows differently with each `now`.
fn signed_time_until(now: u64, at: u64) -> i64 {
    let at = if at == NEVER { i64::MAX } else { at as i64 };
    at - now as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_timer_the_sleep_lasts_until_the_end_of_time() {
        assert_eq!(signed_time_until(5, 7), 2);
        assert_eq!(signed_time_until(7, 5), -2);
        assert_eq!(signed_time_until(0, NEVER), i64::MAX);
        assert_eq!(signed_time_until(1_000, NEVER), i64::MAX - 1_000);
    }
}
