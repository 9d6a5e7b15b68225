//! Check of cpufreq's boosts after I/O waits, and of intel_pstate without HWP, over logs of
//! utilisation updates.

use anyhow::{Result, bail};
use rand_pcg::Pcg64Mcg;
use wakepath_policies::freq::hwp_boost::{HwpBoost, HwpLevels};
use wakepath_policies::freq::intel_pstate::{Counters, IntelPstate, PstateLimits};
use wakepath_policies::freq::iowait_boost::{IowaitBoost, Settings};
use wakepath_units::{Capacity, Nanoseconds};

use super::check::{Check, GovernorSetting, decode_u32s};
use crate::generate;
use crate::record::EventCase;
use crate::subject::Subject;

/// Check of an iowait boost for a tick rate.
pub struct BoostCheck(pub GovernorSetting);

impl Check for BoostCheck {
    type Input = EventCase;
    type Answer = u32;

    fn generate_inputs(&self, rng: &mut Pcg64Mcg, _batch: u64, amount: usize) -> Vec<EventCase> {
        let tick = self.0.tick.period().0 as i64;
        let mut cases = Vec::new();
        let mut events = 0;
        while events < amount {
            let shared = self.0.subject == Subject::SchedutilBoost;
            let case = generate::random_event_case(rng, tick, shared);
            events += case.events.len();
            cases.push(case);
        }
        cases
    }

    fn append_input(&self, input: &EventCase, out: &mut Vec<u8>) {
        input.append_to(out);
    }

    fn decode_answers(&self, output: &[u8]) -> Vec<u32> {
        decode_u32s(output)
    }

    fn append_our_answers(&self, input: &EventCase, out: &mut Vec<u32>) -> Result<()> {
        let tick = self.0.tick;
        match self.0.subject {
            Subject::SchedutilBoost => {
                let mut boost = IowaitBoost::new(Settings::default(), tick);
                out.extend(input.events.iter().map(|event| {
                    let now = Nanoseconds(event.time);
                    if !event.other_cpu {
                        boost.note_report(now, event.iowait);
                    }
                    boost
                        .decay_and_scale_boost(now, Capacity(event.max_capacity))
                        .0
                }));
            }
            Subject::HwpBoost => {
                let levels = HwpLevels {
                    min: input.levels[0],
                    guaranteed: input.levels[1],
                    max: input.levels[2],
                };
                let mut boost = HwpBoost::new(levels, tick);
                out.extend(input.events.iter().map(|event| {
                    u32::from(boost.update_minimum(Nanoseconds(event.time), event.iowait))
                }));
            }
            Subject::IntelPstate => {
                let [min, max, max_physical, turbo, policy_min, policy_max] = input.levels;
                let limits = PstateLimits {
                    min,
                    max,
                    max_physical,
                    turbo,
                    policy_min,
                    policy_max,
                };
                let mut cpu = IntelPstate::new(limits, true, tick);
                let mut in_force = u16::MAX;
                out.extend(input.events.iter().map(|event| {
                    let [aperf, mperf, tsc] = event.counters;
                    let chosen =
                        cpu.choose_pstate_if_due(Nanoseconds(event.time), event.iowait, || {
                            Counters { aperf, mperf, tsc }
                        });
                    in_force = chosen.map_or(in_force, u16::from);
                    cpu.boost_in_256ths() | u32::from(in_force) << 16
                }));
            }
            other => bail!("{} is not a boost", other.name()),
        }
        Ok(())
    }

    fn describe_difference(
        &self,
        input: &EventCase,
        at: usize,
        kernel: &u32,
        ours: &u32,
    ) -> String {
        let log: Vec<String> = input.events[..=at]
            .iter()
            .map(|e| {
                let other = if e.other_cpu { " (another CPU)" } else { "" };
                let (time, iowait, [aperf, mperf, tsc]) = (e.time, u8::from(e.iowait), e.counters);
                let capacity = e.max_capacity;
                format!("{time},{iowait},{capacity},{aperf},{mperf},{tsc}{other}")
            })
            .collect();
        format!(
            "{} with HZ={}, levels {:?}, after the last of these updates (time, iowait, \
             max_capacity, aperf, mperf, tsc):\n    {}\n  kernel: {kernel:#x}  ours: {ours:#x}",
            self.0.subject.name(),
            self.0.tick.hz(),
            input.levels,
            log.join("\n    ")
        )
    }
}
