//! Who interrupts CPUs from outside: clients that wait for a task, or others, who send to a pool of tasks.

use std::collections::BTreeSet;

use super::item::{Item, Wait};

/// Fewest arrivals that tell who sends.
const FEWEST_ARRIVALS: usize = 4;

/// Fewest arrivals while several tasks slept that tell which of them takes the next request.
const FEWEST_CHOICES: usize = 20;

/// Sleeps of tasks with one name, as a server's threads are, that interrupts from outside ended. Times in ns.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrivalSleeps {
    /// Begin of each sleep, and the interrupt that ended it.
    sleeps: Vec<(u64, u64)>,
    /// From an interrupt to the task's next sleep for one.
    answers: Vec<u64>,
}

impl ArrivalSleeps {
    pub(super) fn add_task(&mut self, items: &[Item]) {
        let mut last = None;
        for item in items {
            if let Item::Wait(Wait::Arrival { begun, at, .. }) = item {
                self.sleeps.push((*begun, *at));
                if let Some(last) = last.replace(*at) {
                    self.answers.push(begun.saturating_sub(last));
                }
            }
        }
    }

    /// Whether clients wait for the tasks, and send again once they have the reply: most interrupts come sooner after it than in half
    /// the time that a reply takes.
    pub(super) fn have_waiting_clients(&self) -> bool {
        let mut lengths: Vec<u64> = (self.sleeps.iter())
            .map(|(begun, at)| at.saturating_sub(*begun))
            .collect();
        let mut answers = self.answers.clone();
        lengths.sort_unstable();
        answers.sort_unstable();
        answers.len() >= FEWEST_ARRIVALS && median(&lengths) < median(&answers) / 2
    }

    /// Whether, of several sleeping tasks, mostly the one that fell asleep last was woken, as where all wait for the same socket.
    pub(super) fn end_with_last_sleeper_first(&self) -> bool {
        let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * self.sleeps.len());
        for (number, (begun, at)) in self.sleeps.iter().enumerate() {
            // At one time, sleeps begin before others end.
            moments.extend([(*begun, false, number), (*at, true, number)]);
        }
        moments.sort_unstable();
        let mut asleep = BTreeSet::new();
        let (mut choices, mut last_ones) = (0, 0);
        for (_, ends, number) in moments {
            let begun = self.sleeps[number].0;
            if !ends {
                asleep.insert((begun, number));
                continue;
            }
            if asleep.len() > 1 {
                choices += 1;
                last_ones += usize::from(asleep.last() == Some(&(begun, number)));
            }
            asleep.remove(&(begun, number));
        }
        choices >= FEWEST_CHOICES && 10 * last_ones >= 8 * choices
    }
}

/// The median of ascending times in ns; 0 without any.
pub(super) fn median(times: &[u64]) -> u64 {
    times.get(times.len() / 2).copied().unwrap_or(0)
}
