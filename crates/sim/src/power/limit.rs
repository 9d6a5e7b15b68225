//! A package's power budget and the remainder (RAPL).
//!
//! At the end of each clock slot the hardware adds the package's energy to each limit's running average. The averages
//! tell how much power the next slot may have without exceeding a limit, and so the clock's cap.

use wakepath_hardware::machine::PowerLimit;

/// A package's power limits, with the averages of the power drawn so far.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limits: Vec<Limit>,
    /// Energy is known up to this time; the energy until then, in femtojoules.
    until: u64,
    drawn: u128,
}

/// An average that may not exceed a limit. Powers are in microwatts, as femtojoules per nanosecond.
#[derive(Clone, Debug)]
struct Limit {
    power: f64,
    window: f64,
    average: f64,
}

impl Limit {
    /// Weight of the last `time` ns in the running average, 0 to 1.
    fn weight_in_average(&self, time: f64) -> f64 {
        -(-time / self.window).exp_m1()
    }

    fn add_to_average(&mut self, power: f64, time: f64) {
        self.average += (power - self.average) * self.weight_in_average(time);
    }

    /// Highest power that can be drawn for the next `time` ns with the average still within the limit.
    fn power_left_for(&self, time: f64) -> f64 {
        self.average + (self.power - self.average) / self.weight_in_average(time)
    }
}

impl Budget {
    /// The budget of a package that has drawn nothing for long.
    pub(crate) fn new(limit: &PowerLimit) -> Self {
        let limits = limit.limits().map(|(power, window)| Limit {
            power: power.0 as f64,
            window: window.0 as f64,
            average: 0.0,
        });
        Self {
            limits: limits.collect(),
            until: 0,
            drawn: 0,
        }
    }

    /// Time in ns up to which the package's energy is known.
    pub(crate) fn energy_known_until(&self) -> u64 {
        self.until
    }

    /// Notes that the package has drawn `drawn` femtojoules from the run's start until `now`, and updates the averages.
    pub(crate) fn note_energy_drawn(&mut self, now: u64, drawn: u128) {
        let time = now.saturating_sub(self.until);
        if time > 0 {
            let power = drawn.saturating_sub(self.drawn) as f64 / time as f64;
            (self.until, self.drawn) = (now, drawn);
            self.limits
                .iter_mut()
                .for_each(|l| l.add_to_average(power, time as f64));
        }
    }

    /// The package's power budget for the next `time` ns, in microwatts.
    pub(crate) fn power_left_for(&self, time: u64) -> f64 {
        let left = self
            .limits
            .iter()
            .map(|limit| limit.power_left_for(time as f64));
        left.fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// 20 W over 100 ms, 30 W over 10 ms.
    fn budget() -> Budget {
        let limits = [(20e6, 100e6), (30e6, 10e6)].map(|(power, window)| Limit {
            power,
            window,
            average: 0.0,
        });
        Budget {
            limits: limits.to_vec(),
            until: 0,
            drawn: 0,
        }
    }

    /// Draws the wanted power in each millisecond, as far as the budget allows; returns each millisecond's power in W.
    fn draw(wanted: &[f64]) -> Vec<f64> {
        let mut budget = budget();
        let mut drawn = 0;
        let mut all = Vec::new();
        for (slot, watts) in wanted.iter().enumerate() {
            let uw = (watts * 1e6).min(budget.power_left_for(MS)).max(0.0);
            drawn += (uw * MS as f64) as u128;
            budget.note_energy_drawn((slot as u64 + 1) * MS, drawn);
            all.push(uw / 1e6);
        }
        all
    }

    #[test]
    fn a_burst_is_as_long_as_the_average_takes() {
        let all = draw(&[50.0; 1000]);
        // PL2 holds as soon as its own average has come up: 10 ms x ln(50 / 20).
        assert!((all[8] - 50.0).abs() < 1e-6, "{}", all[8]);
        assert!((all[10] - 30.0).abs() < 0.5, "{}", all[10]);
        // PL1's average is at 20 W after some 100 ms x ln(30 / 10), less what was above PL2.
        let end = all.iter().position(|watts| *watts < 25.0).unwrap();
        assert!((80..115).contains(&end), "{end}");
        assert!(
            all[end + 2..]
                .iter()
                .all(|watts| (watts - 20.0).abs() < 1e-3)
        );
        // A rest buys the next burst.
        let mut wanted = vec![50.0; 300];
        wanted.extend([1.0; 100]);
        wanted.extend([50.0; 100]);
        let again = draw(&wanted);
        assert!(again[400] > 45.0 && again[499] < 20.1, "{again:?}");
    }

    /// The integral over the average's own equation: over any stretch, energy is at most the limit times the length,
    /// plus the window times the gap between limit and average at the begin. So a stretch that begins at the limit
    /// draws no more than the limit.
    #[test]
    fn no_stretch_draws_more_than_the_limit_and_what_was_saved() {
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as f64 / (1_u64 << 31) as f64
        };
        for _ in 0..20 {
            let mut wanted = Vec::new();
            while wanted.len() < 600 {
                let watts = if random() < 0.3 { 1.0 } else { 60.0 * random() };
                wanted.extend(vec![watts; 1 + (80.0 * random()) as usize]);
            }
            let all = draw(&wanted);
            let (limit, window) = (20.0, 0.1);
            let mut averages = vec![0.0];
            for watts in &all {
                let last = averages.last().copied().unwrap_or_default();
                averages.push(last + (watts - last) * -(-0.001_f64 / window).exp_m1());
            }
            assert!(averages.iter().all(|a| *a <= limit + 1e-9), "{averages:?}");
            for start in (0..all.len()).step_by(7) {
                let mut joules = 0.0;
                for (n, watts) in all[start..].iter().enumerate() {
                    joules += watts / 1e3;
                    let time = (n + 1) as f64 / 1e3;
                    let saved = (limit - averages[start]) * window;
                    assert!(joules <= limit * time + saved + 1e-9, "{start} {n}");
                }
            }
        }
    }
}
