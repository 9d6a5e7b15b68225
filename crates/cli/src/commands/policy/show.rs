//! `wakepath policy show`: a policy set's meaning, or another tool's profile.

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_policies::mechanism::Place;
use wakepath_policies::profile::Profile;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_sim::expand_profile_for_machine;

use super::kernels::GovernorGeneration;
use crate::output::{self, Format, Screen};
use crate::policy_set::WholePolicySetParser;

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
    #[arg(value_name = "SET", value_parser = WholePolicySetParser(Place::Sim), hide_possible_values = true)]
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
    /// Parts of a profile that the machine does not have.
    notes: Vec<String>,
}

#[derive(Serialize)]
struct ShownPolicy {
    /// Several are alternatives.
    policy: Vec<String>,
    kind: &'static str,
    on: Vec<&'static str>,
    summary: Vec<&'static str>,
    /// Generation of the governor in the named kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<GovernorGeneration>,
}

#[derive(Serialize)]
struct ShownProfile {
    name: &'static str,
    tool: &'static str,
    summary: &'static str,
    source: &'static str,
    /// Settings of a profile that no policy covers.
    others: &'static [&'static str],
}

impl ShownPolicy {
    fn from_first_of_alternatives(choices: &[PolicySpec]) -> Option<Self> {
        let first = choices.first()?;
        Some(Self {
            policy: choices.iter().map(ToString::to_string).collect(),
            kind: first.kind().name_for_users(),
            on: possible_place_names(first),
            summary: choices.iter().map(|p| p.mechanism().summary).collect(),
            generation: generation_if_kernel_governor(first),
        })
    }

    fn row_cells(&self) -> [String; 4] {
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

/// The generation of a governor with a kernel version; `None` for other policies.
fn generation_if_kernel_governor(policy: &PolicySpec) -> Option<GovernorGeneration> {
    let generation = policy.as_idle_policy().ok()?.generation()?;
    Some(GovernorGeneration::new(policy.mechanism().name, generation))
}

fn possible_place_names(policy: &PolicySpec) -> Vec<&'static str> {
    let on = policy.mechanism().on.iter();
    on.copied().map(Place::command_name).collect()
}

impl ShownSet {
    fn new(set: &PolicySet, machine: Option<&Machine>) -> anyhow::Result<Self> {
        let (named, notes) = match machine {
            Some(machine) => {
                let expanded = expand_profile_for_machine(machine, set)?;
                let set = match machine.kernel {
                    Some(kernel) => expanded.set.with_kernel_for_bare_names(kernel),
                    None => expanded.set,
                };
                (set, expanded.notes)
            }
            None => (set.without_profile(), Vec::new()),
        };
        let mut policies: Vec<ShownPolicy> = named
            .policies()
            .iter()
            .filter_map(|policy| {
                ShownPolicy::from_first_of_alternatives(std::slice::from_ref(policy))
            })
            .collect();
        let profile = set.profile();
        if machine.is_none() {
            let choices = profile
                .into_iter()
                .flat_map(Profile::alternatives_per_setting);
            let open = choices.filter(|choices| {
                !choices
                    .iter()
                    .any(|policy| named.decides_kind_or_setting_of(policy))
            });
            policies.extend(
                open.filter_map(|choices| ShownPolicy::from_first_of_alternatives(&choices)),
            );
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

pub(super) fn show_policy_set(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let machine = args.machine.as_deref().map(Machine::find).transpose()?;
    let shown = ShownSet::new(&args.set, machine.as_ref())?;
    let rows = shown.policies.iter().map(ShownPolicy::row_cells);
    match args.format {
        Format::Json => output::write_json(out, &shown),
        Format::Csv => output::write_csv(out, HEADER, rows),
        Format::Table => {
            output::write_table(out, HEADER, rows)?;
            for policy in &shown.policies {
                if let Some(generation) = &policy.generation {
                    writeln!(out)?;
                    let history = format!("{}: {generation}", policy.policy.join(" or "));
                    out.write_folded(&history, 2)?;
                }
            }
            if let Some(profile) = &shown.profile {
                let ShownProfile { name, tool, .. } = profile;
                writeln!(out, "\n{name}: {tool}, {}", profile.source)?;
                out.write_folded(profile.summary, 2)?;
                writeln!(out, "\nIt sets more, which wakepath has no policy for:")?;
                for other in profile.others {
                    out.write_folded(&format!("  {other}"), 4)?;
                }
            }
            // The first note is about parts outside any policy.
            for note in shown.notes.iter().skip(1) {
                writeln!(out)?;
                out.write_folded(note, 2)?;
            }
            Ok(())
        }
    }
}
