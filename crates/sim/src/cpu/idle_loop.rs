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
        debug_assert_eq!(self.context.due(Slot::Phase(cpu)), NEVER);
        self.end_uncore_slots();
        let now = self.context.now();
        let setup = &self.setup.cpu;
        let timers = &self.migratory_timers;
        let migratory = (timers.exist()).then(|| timers.expiry_for(cpu, &self.cpus));
        let c = &mut self.cpus[cpu];
        let call = c.idle_call(now, setup.tick_period, migratory.as_ref());
        let query = call.governor_query();
        let ceiling = c.idle.lease_ceiling(now);
        if c.idle.governor.wants_utilisation() {
            let capacity = self.setup.topology.cluster(c.cluster).capacity();
            c.tell_utilisation(capacity);
        }
        let table = c.idle.table;
        let choice = call.ask_governor(&query, &table.declared, &mut c.idle.governor, ceiling);
        if let Some(observer) = self.context.observer() {
            observer.idle_choice(cpu, &query, choice.decision);
        }
        if setup.menu_round > 0 {
            let more = setup.menu_round * u64::from(c.idle.governor.pattern_passes() - 1);
            c.idle.uncounted = self.domains[c.domain].time_for(now, more);
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
            let point = self.domains[c.domain].current();
            c.fall_asleep(
                now,
                entered,
                setup.demotion.as_ref(),
                point,
                &mut self.power,
            );
        }
        self.core_use_changed(cpu);
        self.observe_cpu(cpu);
        if choice.stops_tick {
            self.arm_clock(cpu);
        }
    }

    /// Whether a CPU goes on polling. If not, the idle state is over, and the governor hears about an ended period.
    #[inline(always)]
    pub(crate) fn goes_on_polling(&mut self, cpu: CpuId, must_run: bool) -> bool {
        let now = self.context.now();
        let c = &mut self.cpus[cpu];
        if let Some(until) = c.idle.polling_until {
            if now < until && !must_run {
                self.begin_phase(cpu, Mode::Idle, until - now);
                return true;
            }
            c.end_idle_period(now, !must_run);
            // The time limit.
            self.context.cancel(Slot::Phase(cpu));
        }
        if let Some(period) = c.idle.unreflected.take() {
            let outcome = c.reflect(now, period);
            if let Some(observer) = self.context.observer() {
                observer.idle_outcome(cpu, &outcome);
            }
        }
        false
    }

    /// A CPU with something to run leaves the idle loop.
    #[inline(always)]
    pub(crate) fn leave_idle_loop(&mut self, cpu: CpuId) {
        let period = self.setup.cpu.tick_period;
        if self.cpus[cpu].leave_idle_loop(self.context.now(), period) {
            self.stop_tick(cpu);
            self.arm_clock(cpu);
        }
    }

    /// Begins to wake a CPU up.
    pub(crate) fn begin_wake(&mut self, cpu: CpuId) {
        let setup = self.setup;
        self.end_uncore_slots();
        self.wake_clock(cpu);
        let c = &mut self.cpus[cpu];
        self.power.sees_clock(self.domains[c.domain].frequency().0);
        let mut begun = c.idle.since;
        let table = c.idle.table;
        let mut chosen = &table.states[c.idle.state];
        let (mut joined, mut whole) = (c.idle.state, chosen.whole_cluster);
        if let Some(demotion) = &setup.cpu.demotion {
            c.idle.demotion.wake_up(demotion, self.context.now());
            if std::mem::take(&mut c.idle.demoted) {
                // The cluster and the package were not told about a later state.
                joined = demotion.to;
                whole = table.states[joined].whole_cluster;
                if c.idle.undemoted_at < self.context.now() {
                    begun = c.idle.undemoted_at;
                    c.idle.demotion.undemotions += 1;
                    chosen = table.alone_in(chosen);
                } else {
                    chosen = &table.states[demotion.to];
                }
            }
        }
        c.power_up(self.context.now());
        c.idle.wake_began = self.context.now();
        c.idle.undemoted_at = NEVER;
        let cluster_was_down = self
            .power
            .cpu_awake(self.context.now(), c.cluster, whole, joined);
        if whole {
            c.totals.states[joined].down += self.power.down_time(c.cluster) - c.idle.down_before;
        }
        let really_in = if whole && !cluster_was_down {
            table.alone_in(chosen)
        } else {
            chosen
        };
        c.begin_waking(self.context.now(), really_in.index);
        c.totals.states[really_in.index].entering +=
            (self.context.now() - begun).min(really_in.entry);
        let entered_at = begun + really_in.entry;
        let of_package = self.power.package_wait(self.context.now());
        let wait = if self.context.now() < entered_at {
            // Too late to turn back, too early to have lost anything.
            (entered_at - self.context.now()).max(of_package)
        } else {
            c.phase.cold += really_in.cold_start;
            let own = match &really_in.exit_spread {
                None => really_in.exit,
                Some(times) => self.context.random().exit(cpu, times),
            };
            of_package + own
        };
        c.phase.mode = Mode::Waking;
        c.phase.start = self.context.now();
        let wait = self.emulator.begin_exit(cpu, self.context.now(), wait);
        self.phase_begun(cpu, wait);
    }
}

impl Cpu<'_> {
    /// The kernel's question to the governor, as a CPU goes idle with a tick every `period` ns.
    #[inline(always)]
    fn idle_call(
        &mut self,
        now: u64,
        period: u64,
        migratory: Option<&MigratoryExpiry>,
    ) -> IdleCall {
        let after_tick = std::mem::replace(&mut self.idle.in_loop, true) & self.idle.got_tick;
        self.idle.got_tick = false;
        // As tick_nohz_get_sleep_length() sees it: a timer-wheel timer within a tick keeps the tick.
        let timer = (self.timers.precise.next()).min(self.timers.fair_server.timer());
        let mut wheel = self.timers.wheel.next();
        if let Some(migratory) = migratory {
            // A stopped tick may wake for such timers.
            let seen = if self.tick.stopped {
                self.tick.next
            } else {
                migratory.own
            };
            wheel = wheel.min(seen);
        }
        let can_stop = self.tick.stopped
            || (self.rcu.is_empty()
                && (wheel.saturating_sub(now) > period
                    || wheel.saturating_sub(now / period * period) > period));
        if let Some(migratory) = migratory
            && can_stop
            && !self.tick.stopped
        {
            // The last awake CPU sees to all timers; any other CPU leaves timers to awake CPUs.
            let left = if migratory.last { migratory.all } else { NEVER };
            wheel = self.timers.wheel.next().min(left);
        }
        IdleCall {
            now,
            next_timer: until(now, timer.min(wheel)),
            tick_stopped: self.tick.stopped,
            after_tick,
            tick: self.tick.next,
            keeps_tick: !can_stop,
            latency_request: self.idle.latency_request,
            nr_iowait: self.run_queue.waiting_for_io(),
            true_idle: 0,
            package_saving: 0,
        }
    }

    /// Tells a governor that asks how busy the CPU is, as a share of this capacity.
    fn tell_utilisation(&mut self, capacity: u32) {
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

    /// Begins an idle period in the governor's choice.
    #[inline(always)]
    fn begin_idle_period(&mut self, now: u64, state: usize) {
        self.totals.selections += 1;
        self.totals.tickless += u64::from(self.tick.stopped);
        self.idle.state = state;
        self.idle.since = now;
        self.phase.mode = Mode::Idle;
        self.totals.states[state].entries += 1;
    }

    /// The CPU polls in its idle state. Returns the time limit in ns.
    #[inline(always)]
    fn begin_polling(&mut self, now: u64) -> u64 {
        let limit = own_poll_limit_or(&self.idle.governor, self.idle.table.poll_limit).0;
        self.idle.polling_until = Some(now + limit);
        limit
    }

    /// The CPU sleeps in the state `entered`, or in a shallower one if the hardware demotes. Its clock was at operating
    /// point number `point`.
    #[inline(always)]
    fn fall_asleep(
        &mut self,
        now: u64,
        entered: &TrueState,
        demotion: Option<&DemotionRule>,
        point: usize,
        power: &mut PowerTracker,
    ) {
        let (mut really, mut whole) = (self.idle.state, entered.whole_cluster);
        if let Some(demotion) = demotion
            && let Some(undemoted_at) = self.idle.demotion.demote(demotion, now, self.idle.state)
        {
            (self.idle.demoted, self.idle.undemoted_at) = (true, undemoted_at);
            really = demotion.to;
            whole = self.idle.table.states[really].whole_cluster;
        }
        self.power_down(now, point, really);
        if whole {
            self.idle.down_before = power.down_time(self.cluster);
        }
        power.cpu_asleep(now, self.cluster, whole, really);
    }

    /// Counts an idle period that ends now.
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
        // The same question for the truly idle time, unknown to the kernel.
        let woken = if entered.polling {
            now
        } else {
            self.idle.wake_began
        };
        let idle = woken - self.idle.since;
        let fit =
            &mut self.totals.fits[self.idle.state * self.totals.states.len() + table.fitting(idle)];
        fit.periods += 1;
        fit.idle += idle;
        fit.wake += now - woken;
    }

    /// Tells the governor about the last idle period.
    #[inline(always)]
    pub(crate) fn reflect(
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

    /// The CPU has something to run. Returns whether its tick comes back, every `period` ns.
    #[inline]
    fn leave_idle_loop(&mut self, now: u64, period: u64) -> bool {
        let back = self.idle.in_loop && self.tick.stopped;
        self.idle.in_loop = false;
        if back {
            self.tick.restart(now, period);
        }
        back
    }
}

/// The time from `now` until `at`, as the kernel's signed nanoseconds.
///
/// For a CPU without timers the next event is at the end of time, `KTIME_MAX` (`tick_nohz_get_sleep_length()`, Linux
/// 6.1 and 6.12). The time left goes into the governors' arithmetic, and overflows differently with each `now`.
fn until(now: u64, at: u64) -> i64 {
    let at = if at == NEVER { i64::MAX } else { at as i64 };
    at - now as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_timer_the_sleep_lasts_until_the_end_of_time() {
        assert_eq!(until(5, 7), 2);
        assert_eq!(until(7, 5), -2);
        assert_eq!(until(0, NEVER), i64::MAX);
        assert_eq!(until(1_000, NEVER), i64::MAX - 1_000);
    }
}
