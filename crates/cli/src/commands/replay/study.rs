//! From the arguments of `wakepath replay` to a replay request.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use wakepath_hardware::Machine;
use wakepath_policies::mechanism::Kind;
use wakepath_policies::spec::{PolicySet, PolicySpec};
use wakepath_study::plan::{RECORDED, ReplayRequest, reason_against_replay};
use wakepath_system::dump::GivenStates;
use wakepath_trace::recording::Metadata;

use super::arguments::Args;
use crate::messages::note;
use crate::policy_set;

/// Makes the replay request from the arguments. The baseline is the recorded choice, or the first kernel with
/// `--kernel`.
pub(super) fn make_replay_request(
    args: &Args,
    metadata: &Metadata,
) -> anyhow::Result<ReplayRequest> {
    // The arguments are checked here, because errors about a study would name a line.
    if let Some(machine) = &args.machine {
        Machine::find(machine)?;
    }
    if let Some(path) = &args.states {
        for text in GivenStates::read_file_or_folder(path)?.notes {
            note!("{}: {text}", path.display());
        }
    }
    if let Some(ran) = &args.ran {
        let spec: PolicySpec = ran.parse().context("--ran")?;
        spec.as_idle_policy().context("--ran")?;
    }
    let sets = policy_sets_per_kernel(args, metadata)?;
    for set in &sets {
        if let Some(message) = reason_against_replay(set) {
            bail!("--policy '{set}': {message}");
        }
    }
    let stem: String = args
        .trace
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .chars()
        .filter(|c| !c.is_control())
        .take(25)
        .collect();
    Ok(ReplayRequest {
        title: if args.kernel.is_empty() {
            format!("Which governor suits {stem}?")
        } else {
            format!("What would each kernel have decided on {stem}?")
        },
        machine: args.machine.clone(),
        blocks: args.blocks,
        baseline: match sets.first() {
            Some(first) if !args.kernel.is_empty() => first.to_string(),
            _ => RECORDED.to_owned(),
        },
        sets,
        workload: if stem.trim().is_empty() {
            "recording".to_owned()
        } else {
            stem
        },
        recording: absolute_path_without_links(&args.trace)?,
        states: args
            .states
            .as_deref()
            .map(absolute_path_without_links)
            .transpose()?,
        tick: args.hz,
        ran: args.ran.clone(),
    })
}

/// An absolute path without links, as text, for a study.
fn absolute_path_without_links(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let whole = fs::canonicalize(path).with_context(|| shown.to_string())?;
    let text = whole.to_str().map(str::to_owned);
    text.with_context(|| format!("{shown}: the path is not UTF-8; rename the file"))
}

/// The policy sets to replay: each set in each kernel, if `--kernel` is given.
pub(super) fn policy_sets_per_kernel(
    args: &Args,
    metadata: &Metadata,
) -> anyhow::Result<Vec<PolicySet>> {
    if args.kernel.is_empty() {
        let default = ["menu@6.1", "menu@6.12", "teo@6.1", "teo@6.12"];
        return match &args.policy[..] {
            [] => Ok(default
                .map(str::parse)
                .into_iter()
                .collect::<Result<_, _>>()?),
            given => Ok(policy_set::remove_and_note_repeated_sets(
                policy_set::load_custom_governors(given, args.programs)?,
            )),
        };
    }
    let unchanged = [PolicySet::default()];
    let given = match &args.policy[..] {
        [] => &unchanged[..],
        given => given,
    };
    let ran = metadata.idle_governor.as_deref().unwrap_or("menu");
    let (mut each, mut own) = (Vec::new(), Vec::new());
    for set in given {
        let governor = match set.policy_of_kind(Kind::Idle) {
            Some(governor) => governor.clone(),
            None => ran.parse()?,
        };
        if governor.own_governor().is_some() {
            // Custom governors have no kernel versions, so each is replayed once.
            own.extend(policy_set::load_custom_governors(
                std::slice::from_ref(set),
                args.programs,
            )?);
            continue;
        }
        ensure!(
            governor.version().is_none() || governor.is_bare(),
            "--policy '{set}' names a kernel itself; with --kernel give the governor alone, such as --policy menu"
        );
        for kernel in &args.kernel {
            let governor = governor.in_kernel_version(*kernel);
            ensure!(
                governor.version().is_none_or(|version| version == *kernel),
                "what this governor does in {kernel} is not known; the next series in which it is has {governor}"
            );
            let of_kernel = set.with_policy(governor)?;
            ensure!(
                !each.contains(&of_kernel),
                "{of_kernel} twice; kernels do not differ in it, or one is given twice"
            );
            each.push(of_kernel);
        }
    }
    ensure!(
        !each.is_empty(),
        "--kernel says in which kernels to take the governors of --policy, and there is none of a kernel; give one, such as \
         --policy menu"
    );
    each.extend(policy_set::remove_and_note_repeated_sets(own));
    Ok(each)
}
