//! The event loop: each event goes to the mechanism that it belongs to. No rule of any mechanism is here.

use crate::core::basics::NEVER;
use crate::core::calendar::{Event, Slot};
use crate::engine::watchdog::Watchdog;
use crate::engine::{Engine, Finished};
use crate::error::{LATEST, SimError, Stuck};
use crate::observe::observer::Observer;

impl<O: Observer> Engine<'_, O> {
    /// Runs until every job has ended, or the time is over.
    ///
    /// # Errors
    /// The run goes nowhere: the threads of the workload wait for each other, or take steps without
    /// end.
    pub(crate) fn run(mut self) -> Result<Finished, SimError> {
        let end = self.setup.programs.ends().unwrap_or(u64::MAX);
        let last = end.min(LATEST);
        let mut events = 0;
        let mut warm_up_ends = self.jobs.end_of_warm_up(&self.setup.jobs).unwrap_or(NEVER);
        if let Some((begin, end)) = self.jobs.counted_span(&self.setup.jobs) {
            self.recorder.expect_requests_between(begin, end);
        }
        let mut watchdog = Watchdog::default();
        // Every CPU has asked by now.
        self.check_governors()?;
        while self.has_process() && !self.observer.has_enough() {
            self.ask_observer();
            let Some((time, next)) = self.calendar.pop() else {
                if end <= last {
                    self.now = end;
                }
                break;
            };
            debug_assert!(
                time >= self.now,
                "{next:?} at {time} comes after {}",
                self.now
            );
            if time > last {
                if end > last {
                    return Err(Stuck::TooLong.into());
                }
                self.now = end;
                break;
            }
            if time >= warm_up_ends {
                self.now = warm_up_ends;
                warm_up_ends = NEVER;
                self.end_warm_up();
            }
            self.now = time;
            events += 1;
            if events % Watchdog::EVERY == 0 {
                let finished = self.recorder.finished();
                watchdog.look(time, (!self.setup.jobs.is_empty()).then_some(finished))?;
                self.check_governors()?;
            }
            match next {
                Event::Slot(Slot::Phase(cpu)) => self.end_phase(cpu),
                Event::Slot(Slot::Clock(cpu)) => self.expire_timers(cpu),
                Event::Slot(Slot::Frequency(clock)) => self.frequency_changed(clock),
                Event::Slot(Slot::Hardware(cluster)) => self.end_clock_slot(cluster),
                Event::Slot(Slot::Device(device)) => self.device(device),
                Event::Served(request) => self.served(request),
            }
            self.pass_turns();
        }
        self.check_governors()?;
        let own = events - self.looks;
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(self.finish(own)),
        }
    }

    /// Whether all governors of one's own still answer.
    fn check_governors(&self) -> Result<(), SimError> {
        let failure = self.cpus.iter().find_map(|cpu| cpu.governor_failure());
        failure.map_or(Ok(()), |why| Err(SimError::Governor(why.to_owned())))
    }
}
