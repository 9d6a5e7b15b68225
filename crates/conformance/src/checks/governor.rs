//! Checks of the cpuidle governors, over state tables and call logs.

use anyhow::{Result, bail};
use rand_pcg::Pcg64Mcg;
use wakepath_hardware::{IdleState, IdleStates};
use wakepath_policies::idle::{self, HaltpollParameters, IdleGovernor, IdlePolicy};
use wakepath_units::Nanoseconds;

use super::check::{Check, GovernorSetting, decode_u64s};
use crate::generate;
use crate::record::{CallRecord, Case, HaltPoll, StateRecord, encode_decision, format_decision};
use crate::subject::Subject;

/// Check of a governor in a kernel version, for a tick rate.
pub struct GovernorCheck(pub GovernorSetting);

impl Check for GovernorCheck {
    type Input = Case;
    type Answer = u8;

    fn generate_inputs(&self, rng: &mut Pcg64Mcg, _batch: u64, amount: usize) -> Vec<Case> {
        generate::random_governor_cases(rng, self.0.tick.period().0 as i64, amount)
    }

    fn append_input(&self, input: &Case, out: &mut Vec<u8>) {
        input.append_to(out);
    }

    fn decode_answers(&self, output: &[u8]) -> Vec<u8> {
        output.to_vec()
    }

    fn append_our_answers(&self, input: &Case, out: &mut Vec<u8>) -> Result<()> {
        let mut governor = our_governor_for_case(self.0, input)?;
        out.extend(input.calls.iter().map(|call| {
            apply_toggle(&mut governor, call);
            call_our_governor(&mut governor, call)
        }));
        Ok(())
    }

    fn describe_difference(&self, input: &Case, at: usize, kernel: &u8, ours: &u8) -> String {
        let (kernel, ours) = (format_decision(*kernel), format_decision(*ours));
        describe_call_difference(self.0, input, at, &kernel, &ours)
    }

    fn reproducing_case<'i>(&self, input: &'i Case) -> Option<&'i Case> {
        Some(input)
    }
}

/// Check of haltpoll's polling limit, which decisions alone hardly reveal.
pub struct HaltpollLimitCheck(pub GovernorSetting);

impl Check for HaltpollLimitCheck {
    type Input = Case;
    type Answer = u64;

    fn generate_inputs(&self, rng: &mut Pcg64Mcg, batch: u64, amount: usize) -> Vec<Case> {
        GovernorCheck(self.0).generate_inputs(rng, batch, amount)
    }

    fn append_input(&self, input: &Case, out: &mut Vec<u8>) {
        input.append_to(out);
    }

    fn decode_answers(&self, output: &[u8]) -> Vec<u64> {
        decode_u64s(output)
    }

    fn append_our_answers(&self, input: &Case, out: &mut Vec<u64>) -> Result<()> {
        let mut governor = our_governor_for_case(self.0, input)?;
        out.extend(input.calls.iter().map(|call| {
            apply_toggle(&mut governor, call);
            call_our_governor(&mut governor, call);
            governor.poll_limit().map_or(0, |limit| limit.0)
        }));
        Ok(())
    }

    fn describe_difference(&self, input: &Case, at: usize, kernel: &u64, ours: &u64) -> String {
        describe_call_difference(
            self.0,
            input,
            at,
            &format!("{kernel} ns"),
            &format!("{ours} ns"),
        )
    }
}

/// Our governor for a comparison, on a CPU that has never been idle.
pub(crate) fn our_governor_for_case(
    setting: GovernorSetting,
    case: &Case,
) -> Result<idle::Governor> {
    let states = to_idle_states(&case.states)?;
    let policy = idle_policy_for_setting(setting, case.halt_poll)?;
    Ok(idle::Governor::new(&policy, &states, setting.tick))
}

fn describe_call_difference(
    setting: GovernorSetting,
    input: &Case,
    at: usize,
    kernel: &str,
    ours: &str,
) -> String {
    format!(
        "call {at} of {} with HZ={}: {}\n  state table:\n    {}\n  {:?}\n  kernel: {kernel}  ours: {ours}",
        policy_name(setting),
        setting.tick.hz(),
        input.calls[at].to_input_call(),
        input.states_csv().trim_end().replace('\n', "\n    "),
        input.halt_poll,
    )
}

fn apply_toggle(governor: &mut idle::Governor, call: &CallRecord) {
    if let Some((state, off)) = call.toggle.state_and_disabled() {
        governor.set_disabled(state, off);
    }
}

/// Makes one call to our governor, as the C program makes it to the kernel's, and returns the
/// encoded decision.
#[inline]
pub fn call_our_governor(governor: &mut impl IdleGovernor, call: &CallRecord) -> u8 {
    let asked = call.to_input_call();
    let decision = governor.select(&asked.query);
    governor.reflect(decision.state, &asked.outcome);
    encode_decision(decision.state, decision.stop_tick)
}

/// Idle policy that a comparison is about.
fn idle_policy_for_setting(
    setting: GovernorSetting,
    halt_poll: Option<HaltPoll>,
) -> Result<IdlePolicy> {
    Ok(match setting.subject {
        Subject::Menu => IdlePolicy::Menu(setting.version),
        Subject::Teo => IdlePolicy::Teo(setting.version),
        Subject::Ladder => IdlePolicy::Ladder(setting.version),
        Subject::Haltpoll | Subject::HaltpollLimit => IdlePolicy::Haltpoll(
            setting.version,
            halt_poll.map_or_else(HaltpollParameters::default, |p| HaltpollParameters {
                guest_halt_poll_ns: p.limit,
                guest_halt_poll_shrink: p.shrink,
                guest_halt_poll_grow: p.grow,
                guest_halt_poll_grow_start: p.grow_start,
                guest_halt_poll_allow_shrink: p.allow_shrink,
            }),
        ),
        other => bail!("{} is not an idle governor", other.name()),
    })
}

/// Name of the compared policy: for a governor as on the command line, `menu@6.12`.
pub fn policy_name(setting: GovernorSetting) -> String {
    if Subject::GOVERNORS.contains(&setting.subject) {
        format!("{}@{}", setting.subject.name(), setting.version)
    } else {
        setting.subject.name().to_owned()
    }
}

/// Converts a test case's state table to what our policies take.
pub(crate) fn to_idle_states(states: &[StateRecord]) -> Result<IdleStates> {
    let states = states.iter().enumerate().map(|(i, s)| IdleState {
        name: format!("S{i}"),
        exit_latency: Nanoseconds(s.exit_latency as u64),
        target_residency: Nanoseconds(s.target_residency as u64),
        polling: s.polling,
        disabled: s.disabled,
    });
    Ok(IdleStates::new(states.collect())?)
}
