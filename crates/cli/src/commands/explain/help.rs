//! What would help: sentences with commands, and what a replay of the recording says.

use std::path::Path;

use anyhow::Context;
use wakepath_explain::{
    Explanation, Help, REPLAY_BLOCKS, Remedy, ReplayExits, ReplayedBlock, ReplayedHelp,
    ReplayedSaving, RequestKind, TaskPlacement, most_that_exits_cost_ns,
};
use wakepath_policies::spec::PolicySet;
use wakepath_replay::{Report, TimeBlockPolicy};
use wakepath_study::plan::{Plan, RECORDED, ReplayRequest};
use wakepath_study::run::replay::Replay;
use wakepath_trace::recording::Metadata;
use wakepath_units::Nanoseconds;
use wakepath_units::cpus::format_cpu_list;

use super::wording::{format_us, name_of_kind};
use crate::messages::note;
use crate::output::Screen;

/// Prints what would help each kind of requests: sentences with commands.
pub(super) fn print_help_per_kind(
    explanation: &Explanation,
    kinds: &[RequestKind],
    out: &mut Screen,
) -> anyhow::Result<()> {
    let helped = kinds.iter().filter(|kind| !kind.help.is_empty());
    for kind in helped.clone() {
        writeln!(out)?;
        let text = format!(
            "What would help {}, of {} us:",
            name_of_kind(kind),
            format_us(kind.parts.latency_ns)
        );
        out.write_folded(&text, 2)?;
        for help in &kind.help {
            out.write_folded(&format!("  {}", help_sentence(kind, *help)), 4)?;
        }
    }
    if !helped.clone().any(has_help_that_costs_power) {
        return Ok(());
    }
    for policy in explanation.replayed.iter().flatten() {
        out.write_folded(&format!("  {}", replayed_help_sentence(policy)), 4)?;
    }
    if let Some(text) = what_would_tell_more(explanation) {
        out.write_folded(text, 2)?;
    }
    Ok(())
}

/// Whether a change with a cost in power would help.
fn has_help_that_costs_power(kind: &RequestKind) -> bool {
    let mut helps = kind.help.iter();
    helps.any(|help| help.remedy != Remedy::FewerOtherTasks)
}

/// What would help a kind of requests, and other policies by replay, as sentences.
pub(super) fn help_sentences(kind: &RequestKind, explanation: &Explanation) -> Vec<String> {
    let helps = kind.help.iter();
    let own = helps.map(|help| format!("What would help: {}", help_sentence(kind, *help)));
    let replayed = explanation.replayed.iter().flatten();
    // Replays tell of all drives, so they belong to an answer that has something to gain.
    let replayed = replayed.filter(|_| has_costly_exits(kind));
    own.chain(replayed.map(replayed_help_sentence)).collect()
}

/// What another run of `explain` would say beyond this one.
fn what_would_tell_more(explanation: &Explanation) -> Option<&'static str> {
    let Some(replayed) = &explanation.replayed else {
        return Some(
            "A recording tells more: what other governors would do, and with --machine NAME, whose figures have power, what all \
             this costs in watts: `sudo wakepath record -o load.parquet --duration 30s && wakepath explain load.parquet`.",
        );
    };
    let has_power = replayed.iter().any(|policy| policy.added_mw.is_some());
    (!has_power).then_some(
        "What this costs in watts is not known from events: explain a recording with --machine, whose figures have power, or try it \
         on a live study, which counts energy.",
    )
}

fn help_sentence(kind: &RequestKind, help: Help) -> String {
    let gain = if help.low_ns > 0.0 {
        format!(
            "{} to {} us",
            format_us(help.low_ns),
            format_us(help.high_ns)
        )
    } else {
        format!("at most {} us", format_us(help.high_ns))
    };
    match help.remedy {
        Remedy::ShallowStates => limit_depth_sentence(&gain, kind),
        Remedy::Leases => format!(
            "{gain} by leases of 3 ms after completions (psd): `wakepath daemon`. CPUs sleep deeply otherwise."
        ),
        Remedy::CompleteWhereInterrupted => format!(
            "{gain} by completion on the interrupted CPU: `wakepath apply 'rq-affinity[value=0]' --for 10m`."
        ),
        Remedy::TasksWhereCompleted => placement_sentence(&gain, kind),
        Remedy::HighestFrequency => {
            format!("{gain} by the highest clock: `wakepath apply performance --for 10m`.")
        }
        Remedy::FewerOtherTasks => format!(
            "{gain} of the wait by fewer other tasks on these busy CPUs: others with `nice -n 19`, or on other CPUs (`taskset`, \
             cpuset.cpus). `top` names them."
        ),
    }
}

/// A sentence on the gain if tasks run where their requests complete. Commands name CPUs where these are known and would
/// change something.
fn placement_sentence(gain: &str, kind: &RequestKind) -> String {
    let TaskPlacement {
        completing_cpus,
        task_cpus,
    } = &kind.placement;
    let tasks_moved = if leaves_out_any(completing_cpus, task_cpus) {
        let cpus = cpu_list_for_shell(completing_cpus);
        format!("`taskset --cpu-list {cpus}` before the load's command")
    } else {
        "`taskset` with a CPU in the table of interrupts".to_owned()
    };
    // The kernel manages the interrupts of NVMe queues, and refuses to move them.
    let is_movable = !kind.device.starts_with("nvme");
    let interrupt_moved = if is_movable && leaves_out_any(task_cpus, completing_cpus) {
        let cpus = cpu_list_for_shell(task_cpus);
        format!(
            ", or `wakepath apply 'irq-affinity[cpus={cpus}]' --for 10m` where the interrupt can be moved"
        )
    } else {
        String::new()
    };
    format!(
        "{gain} of the wait by tasks on the CPUs that complete: {tasks_moved}{interrupt_moved}."
    )
}

/// Whether a list of CPUs, if there is any, lacks one of the others.
fn leaves_out_any(cpus: &[u32], others: &[u32]) -> bool {
    !cpus.is_empty() && others.iter().any(|other| !cpus.contains(other))
}

/// CPUs as `taskset` and policies take them: `0-3,8`.
fn cpu_list_for_shell(cpus: &[u32]) -> String {
    format_cpu_list(cpus).replace(' ', "")
}

/// A sentence on the gain if no state deeper than the reference is used, with the command: by the state's name, else by
/// its exit latency.
fn limit_depth_sentence(gain: &str, kind: &RequestKind) -> String {
    if let Some(ceiling) = reference_name_for_shell(kind) {
        return format!(
            "{gain} by no state deeper than {ceiling}: `wakepath apply 'cpu-latency[state={ceiling},cpus=all]' --for 10m`, or \
             idle-states[ceiling={ceiling}]."
        );
    }
    match kind.reference_exit_us {
        Some(limit) => format!(
            "{gain} by no state with an exit of more than {limit} us: \
             `wakepath apply 'cpu-latency[limit={limit}us,cpus=all]' --for 10m`."
        ),
        None => format!("{gain} by shallower idle states."),
    }
}

/// Name of the deepest state that is kept, if a shell can take the name without quotes.
fn reference_name_for_shell(kind: &RequestKind) -> Option<&str> {
    let name = kind.state_names.get(&kind.split.reference?)?;
    is_plain_for_shell(name).then_some(name)
}

fn device_name_for_shell(kind: &RequestKind) -> &str {
    if is_plain_for_shell(&kind.device) {
        &kind.device
    } else {
        "DEVICE"
    }
}

/// What tells the exits of states without a cost.
pub(super) fn unknown_exit_help(kind: &RequestKind) -> String {
    format!(
        "States without a cost: `sudo wakepath measure wake --file /dev/{}` finds exits by experiment, and reads the drive only. A \
         longer recording helps where there are too few requests, one with varied pauses where a state goes with the gap.",
        device_name_for_shell(kind)
    )
}

/// Whether a shell reads the name as it is.
fn is_plain_for_shell(name: &str) -> bool {
    let mut chars = name.chars();
    !name.is_empty() && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

fn replayed_help_sentence(policy: &ReplayedHelp) -> String {
    let ReplayedSaving {
        saved_ns,
        saved_interval_ns,
    } = policy.saving;
    let (verb, sign) = if saved_ns >= 0.0 {
        ("saves", 1.0)
    } else {
        ("costs", -1.0)
    };
    let interval = saved_interval_ns.map_or_else(String::new, |[low, high]| {
        let [one, other] = [low, high].map(|end| sign * end);
        format!(
            " [{}, {}]",
            format_us(one.min(other)),
            format_us(one.max(other))
        )
    });
    let effect = format!("{verb} {} us{interval}", format_us(sign * saved_ns));
    let power = policy.added_mw.map_or_else(String::new, |mw| {
        let verb = if mw >= 0.0 { "adds" } else { "saves" };
        format!(", and {verb} {:.0} mW", mw.abs())
    });
    let declared = match &policy.declared_exits[..] {
        [] => String::new(),
        names => format!(", and declared ones from {}", names.join(", ")),
    };
    format!(
        "{} {effect} per completion of any drive{power}, by replay with these exits{declared}.",
        policy.policy
    )
}

/// Replays the recording under what the events propose, and under other governors.
///
/// Exits come from requests, so that no saving exceeds the measured times; power comes from `machine`.
pub(super) fn replay_proposals(
    path: &Path,
    metadata: &Metadata,
    explanation: &Explanation,
    machine: Option<&str>,
) -> anyhow::Result<Vec<ReplayedHelp>> {
    let mut kinds = explanation.kinds.iter();
    let Some(kind) = kinds.find(|kind| has_costly_exits(kind)) else {
        return Ok(Vec::new());
    };
    let exits = match ReplayExits::from_kind(kind, metadata) {
        Ok(exits) => exits,
        Err(reason) => {
            note!("what other governors would do is not known: {reason}");
            return Ok(Vec::new());
        }
    };
    let whole = std::fs::canonicalize(path).with_context(|| path.display().to_string())?;
    let recording = whole
        .to_str()
        .context("the path is not UTF-8; rename the file")?;
    let request = ReplayRequest {
        machine: machine.map(str::to_owned),
        ..ReplayRequest::for_recording_as_taken(
            "What would help?",
            recording,
            propose_sets(kind, metadata)?,
            REPLAY_BLOCKS as u32,
        )
    };
    let plan = Plan::for_replay(&request, false)?;
    let exits_by_state = exits.by_state_ns.iter();
    let backend = Replay::new(&plan)?.with_exits(
        &exits_by_state
            .map(|(state, ns)| (*state, Nanoseconds(*ns)))
            .collect(),
    );
    let recording = backend.find_recording(0, 0).context("no recording")?;
    let replayed = recording.replay_in_blocks(REPLAY_BLOCKS, None, &mut |_| true)?;
    let places = replayed.policies.iter().map(|(place, _)| *place);
    let policies = plan.policies.iter().zip(places);
    let others = policies.filter(|(policy, _)| policy.name != RECORDED);
    let compared = others.filter_map(|(policy, place)| {
        Some(ReplayedHelp {
            policy: policy.name.clone(),
            saving: saving_against_recorded(&replayed.report, place)?,
            declared_exits: exits.declared.clone(),
            added_mw: added_power_mw(&replayed.report, place),
        })
    });
    let most_ns = most_that_exits_cost_ns(&explanation.kinds);
    let possible = compared.filter(|policy| is_saving_possible(policy, most_ns));
    Ok(possible
        .map(|policy| limit_interval_of_saving(policy, most_ns))
        .collect())
}

/// Ends the interval of a saving where all exits of requests would be saved.
fn limit_interval_of_saving(mut policy: ReplayedHelp, most_ns: f64) -> ReplayedHelp {
    if let Some([_, high_ns]) = &mut policy.saving.saved_interval_ns {
        *high_ns = high_ns.min(most_ns);
    }
    policy
}

/// Whether a replayed policy saves at most the cost of all requests' exits; an impossible saving is noted.
fn is_saving_possible(policy: &ReplayedHelp, most_ns: f64) -> bool {
    let saved_ns = policy.saving.saved_ns;
    let is_possible = saved_ns <= most_ns;
    if !is_possible {
        note!(
            "{} is left out: by replay it saves {} us per completion, but all exits of requests cost at most {} us",
            policy.policy,
            format_us(saved_ns),
            format_us(most_ns)
        );
    }
    is_possible
}

fn has_costly_exits(kind: &RequestKind) -> bool {
    let mut helps = kind.help.iter();
    helps.any(|help| help.remedy == Remedy::ShallowStates)
}

/// Policy sets to replay: the governor that ran, with a limit or leases, and other governors of its kernel.
fn propose_sets(kind: &RequestKind, metadata: &Metadata) -> anyhow::Result<Vec<PolicySet>> {
    let known = ["menu", "teo", "ladder"];
    let governor = metadata.idle_governor.as_deref();
    let ran = governor
        .filter(|name| known.contains(name))
        .unwrap_or("menu");
    let mut texts = Vec::new();
    if let Some(ceiling) = reference_name_for_shell(kind) {
        texts.push(format!("{ran} + cpu-latency[state={ceiling}]"));
        // The daemon is what the sentence on leases advises.
        texts.push(format!("{ran} + psd[rule=daemon,ceiling={ceiling}]"));
    }
    let others = ["menu", "teo"].into_iter().filter(|other| *other != ran);
    texts.extend(others.map(str::to_owned));
    let sets = texts.iter().map(|text| Ok(text.parse::<PolicySet>()?));
    sets.collect()
}

/// Index of the recorded choices in a replay's report.
const RECORDED_PLACE: usize = 0;

/// The exit latency that a policy saves per completion, against the recorded choices. The delay beyond the oracle's does not
/// tell: an oracle that goes by power may be as slow as every policy.
fn saving_against_recorded(report: &Report, place: usize) -> Option<ReplayedSaving> {
    let blocks = report.blocks.iter().map(|block| {
        Some(ReplayedBlock {
            // I/O without any idle CPU tells nothing about idle states.
            completions: block.io_completions * u64::from(block.spans > 0),
            recorded_exit_ns: sum_exits_of_states(block.policies.get(RECORDED_PLACE)?),
            policy_exit_ns: sum_exits_of_states(block.policies.get(place)?),
        })
    });
    ReplayedSaving::from_blocks(&blocks.collect::<Option<Vec<ReplayedBlock>>>()?)
}

/// Exit latencies of idle states before completions, in ns. Estimated exits have the package's part already.
fn sum_exits_of_states(policy: &TimeBlockPolicy) -> u64 {
    let states = policy.groups.iter().flatten();
    states.map(|state| state.io_exit_ns).sum()
}

/// Mean power that a policy adds to the recorded choices', in mW; `None` without figures of power.
fn added_power_mw(report: &Report, place: usize) -> Option<f64> {
    let joules = |place: usize| report.policies.get(place)?.total_sums().energy_j;
    let seconds = report.duration_ns as f64 / 1e9;
    let added = joules(place)? - joules(RECORDED_PLACE)?;
    (seconds > 0.0).then(|| 1e3 * added / seconds)
}

#[cfg(test)]
mod tests {
    use wakepath_explain::{Collected, explain_requests};

    use super::*;

    #[test]
    fn a_live_answer_says_what_a_recording_would_tell() {
        let live = explain_requests(&Collected::default(), &Metadata::default());
        let text = what_would_tell_more(&live).unwrap_or_default();
        assert!(text.contains("sudo wakepath record"), "{text}");
        let replayed = Explanation {
            replayed: Some(Vec::new()),
            ..live
        };
        let text = what_would_tell_more(&replayed).unwrap_or_default();
        assert!(
            text.contains("explain a recording with --machine"),
            "{text}"
        );
    }
}
