//! The replay requested by arguments.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use wakepath_hardware::Machine;
use wakepath_policies::mechanism::Kind;
use wakepath_policies::spec::{PolicySet, PolicySpec};
use wakepath_study::plan::{RECORDED, ReplayRequest, cannot_replay};
use wakepath_system::dump::GivenStates;
use wakepath_trace::recording::Metadata;

use super::arguments::Args;
use crate::messages::note;
use crate::policy_set;

/// Builds the requested replay. The baseline is the recorded choice, or the first kernel with `--kernel`.
pub(super) fn request(args: &Args, metadata: &Metadata) -> anyhow::Result<ReplayRequest> {
    // Study errors would name a line, missing here.
    if let Some(machine) = &args.machine {
        Machine::find(machine)?;
    }
    if let Some(path) = &args.states {
        for text in GivenStates::read_path(path)?.notes {
            note!("{}: {text}", path.display());
        }
    }
    if let Some(ran) = &args.ran {
        let spec: PolicySpec = ran.parse().context("--ran")?;
        spec.idle().context("--ran")?;
    }
    let sets = sets(args, metadata)?;
    for set in &sets {
        if let Some(message) = cannot_replay(set) {
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
        recording: whole(&args.trace)?,
        states: args.states.as_deref().map(whole).transpose()?,
        tick: args.hz,
        ran: args.ran.clone(),
    })
}

/// An absolute path for a study.
fn whole(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let whole = fs::canonicalize(path).with_context(|| shown.to_string())?;
    let text = whole.to_str().map(str::to_owned);
    text.with_context(|| format!("{shown}: the path is not UTF-8; rename the file"))
}

/// The sets to replay: each in each kernel, if there are kernels.
pub(super) fn sets(args: &Args, metadata: &Metadata) -> anyhow::Result<Vec<PolicySet>> {
    if args.kernel.is_empty() {
        let default = ["menu@6.1", "menu@6.12", "teo@6.1", "teo@6.12"];
        return match &args.policy[..] {
            [] => Ok(default
                .map(str::parse)
                .into_iter()
                .collect::<Result<_, _>>()?),
            given => Ok(policy_set::each_once(policy_set::load(
                given,
                args.programs,
            )?)),
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
        let governor = match set.get(Kind::Idle) {
            Some(governor) => governor.clone(),
            None => ran.parse()?,
        };
        if governor.program().is_some() {
            // Custom governors have no kernel versions.
            own.extend(policy_set::load(std::slice::from_ref(set), args.programs)?);
            continue;
        }
        ensure!(
            governor.version().is_none() || governor.is_bare(),
            "--policy '{set}' names a kernel itself; with --kernel give the governor alone, such as --policy menu"
        );
        for kernel in &args.kernel {
            let governor = governor.of_kernel(*kernel);
            ensure!(
                governor.version().is_none_or(|version| version == *kernel),
                "what this governor does in {kernel} is not known; the next series in which it is has {governor}"
            );
            let of_kernel = set.with(governor)?;
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
    each.extend(policy_set::each_once(own));
    Ok(each)
}
