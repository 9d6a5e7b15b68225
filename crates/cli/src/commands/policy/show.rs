//! `wakepath policy show`: a policy set's meaning, or another tool's profile.

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_policies::mechanism::Place;
use wakepath_policies::profile::Profile;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_sim::expand_profile_for_machine;

use super::kernels::Generation;
use crate::output::{self, Format, Screen};
use crate::policy_set::WholeSet;

/// Show what a policy set says: its policies, and of a profile of another tool what it stands for and what it sets
/// beyond that.
///
/// What a profile stands for depends on the machine: of alternatives, which `or` separates, the first that it has.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath policy show 'tuned[latency-performance]'
  wakepath policy show 'power-profiles[balanced] + psd' --machine laptop")]
pub(super) struct Args {
    /// The set.
    #[arg(value_name = "SET", value_parser = WholeSet(Place::Sim), hide_possible_values = true)]
    set: PolicySet,
    /// Show what it is on this machine: a built-in machine, a recorded system or a machine file (*.toml).
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const HEADER: [&str; 4] = ["policy", "decides", "works in", "rule"];

/// A set.
#[derive(Serialize)]
struct ShownSet {
    set: String,
    policies: Vec<ShownPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<ShownProfile>,
    /// Profile parts missing on the machine.
    notes: Vec<String>,
}

#[derive(Serialize)]
struct ShownPolicy {
    /// Several are alternatives.
    policy: Vec<String>,
    kind: &'static str,
    on: Vec<&'static str>,
    summary: Vec<&'static str>,
    /// Generation for the named kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<Generation>,
}

#[derive(Serialize)]
struct ShownProfile {
    name: &'static str,
    tool: &'static str,
    summary: &'static str,
    source: &'static str,
    /// Profile settings beyond policies.
    others: &'static [&'static str],
}

impl ShownPolicy {
    fn new(choices: &[PolicySpec]) -> Option<Self> {
        let first = choices.first()?;
        Some(Self {
            policy: choices.iter().map(ToString::to_string).collect(),
            kind: first.kind().name(),
            on: places_in_words(first),
            summary: choices.iter().map(|p| p.mechanism().summary).collect(),
            generation: generation_text(first),
        })
    }

    fn cells(&self) -> [String; 4] {
        [
            self.policy.join(" or "),
            self.kind.to_owned(),
            self.on.join(", "),
            match self.summary[..] {
                [only] => only.to_owned(),
                _ => "the first that the machine has".to_owned(),
            },
        ]
    }
}

/// The generation for a versioned governor.
fn generation_text(policy: &PolicySpec) -> Option<Generation> {
    let generation = policy.idle().ok()?.generation()?;
    Some(Generation::new(policy.mechanism().name, generation))
}

fn places_in_words(policy: &PolicySpec) -> Vec<&'static str> {
    let on = policy.mechanism().on.iter();
    on.copied().map(Place::name).collect()
}

impl ShownSet {
    fn new(set: &PolicySet, machine: Option<&Machine>) -> anyhow::Result<Self> {
        let (named, notes) = match machine {
            Some(machine) => {
                let expanded = expand_profile_for_machine(machine, set)?;
                let set = match machine.kernel {
                    Some(kernel) => expanded.set.on_kernel(kernel),
                    None => expanded.set,
                };
                (set, expanded.notes)
            }
            None => (set.without_profile(), Vec::new()),
        };
        let mut policies: Vec<ShownPolicy> = named
            .policies()
            .iter()
            .filter_map(|policy| ShownPolicy::new(std::slice::from_ref(policy)))
            .collect();
        let profile = set.profile();
        if machine.is_none() {
            let choices = profile.into_iter().flat_map(Profile::choices);
            let open = choices.filter(|choices| !choices.iter().any(|policy| named.says(policy)));
            policies.extend(open.filter_map(|choices| ShownPolicy::new(&choices)));
        }
        Ok(Self {
            set: set.to_string(),
            policies,
            profile: profile.map(|profile| ShownProfile {
                name: profile.text,
                tool: profile.tool.title,
                summary: profile.summary,
                source: profile.source,
                others: profile.others,
            }),
            notes,
        })
    }
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let machine = args.machine.as_deref().map(Machine::find).transpose()?;
    let shown = ShownSet::new(&args.set, machine.as_ref())?;
    let rows = shown.policies.iter().map(ShownPolicy::cells);
    match args.format {
        Format::Json => output::json(out, &shown),
        Format::Csv => output::csv(out, HEADER, rows),
        Format::Table => {
            output::table(out, HEADER, rows)?;
            for policy in &shown.policies {
                if let Some(generation) = &policy.generation {
                    writeln!(out)?;
                    let history = format!("{}: {generation}", policy.policy.join(" or "));
                    out.prose(&history, 2)?;
                }
            }
            if let Some(profile) = &shown.profile {
                let ShownProfile { name, tool, .. } = profile;
                writeln!(out, "\n{name}: {tool}, {}", profile.source)?;
                out.prose(profile.summary, 2)?;
                writeln!(out, "\nIt sets more, which wakepath has no policy for:")?;
                for other in profile.others {
                    out.prose(&format!("  {other}"), 4)?;
                }
            }
            // The first note concerns parts outside any policy.
            for note in shown.notes.iter().skip(1) {
                writeln!(out)?;
                out.prose(note, 2)?;
            }
            Ok(())
        }
    }
}
