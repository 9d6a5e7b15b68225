//! Check of the polling limit, over state tables.

use anyhow::Result;
use rand_pcg::Pcg64Mcg;
use wakepath_policies::poll;

use super::check::{Check, GovernorSetting, decode_u64s};
use super::governor::to_idle_states;
use crate::generate;
use crate::record::Case;

/// Check of the polling limit for one tick rate.
pub struct PollLimitCheck(pub GovernorSetting);

impl Check for PollLimitCheck {
    type Input = Case;
    type Answer = u64;

    fn generate_inputs(&self, rng: &mut Pcg64Mcg, _batch: u64, amount: usize) -> Vec<Case> {
        let tick = self.0.tick.period().0 as i64;
        (0..amount)
            .map(|_| generate::random_state_table_case(rng, tick))
            .collect()
    }

    fn append_input(&self, input: &Case, out: &mut Vec<u8>) {
        input.append_to(out);
    }

    fn decode_answers(&self, output: &[u8]) -> Vec<u64> {
        decode_u64s(output)
    }

    fn append_our_answers(&self, input: &Case, out: &mut Vec<u64>) -> Result<()> {
        let states = to_idle_states(&input.states)?;
        out.push(poll::polling_limit(&states, self.0.tick, None).0);
        Ok(())
    }

    fn describe_difference(&self, input: &Case, _at: usize, kernel: &u64, ours: &u64) -> String {
        format!(
            "poll limit with HZ={} over\n    {}\n  kernel: {kernel} ns  ours: {ours} ns",
            self.0.tick.hz(),
            input.states_csv().trim_end().replace('\n', "\n    "),
        )
    }
}
