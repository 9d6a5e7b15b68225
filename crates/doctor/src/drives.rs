//! Findings about drives: APST off, changed, or quirked.

use wakepath_hardware::drive::Drive;
use wakepath_hardware::drive::quirks::{PciId, QuirkKind, Quirks};
use wakepath_policies::PolicySet;
use wakepath_policies::apst::{ApstPlan, ApstSettings, ApstTable, plan_apst_table};
use wakepath_system::apst::{
    read_inputs_of_kernel_apst_table, read_pci_id_and_dmi_names, read_quirks_told_by_kernel,
};
use wakepath_system::nvme::{self, ApstFeature};

use crate::case::{Case, Priced};
use crate::finding::Finding;
use crate::model::{SELDOM, simulate_load, subtract_latency_and_power};

/// All findings about all drives.
pub(crate) fn find_faults_of_all_drives(case: &mut Case<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in case.system.nvme_controller_names() {
        let root = case.system.root();
        let Ok(drive) = nvme::identify_drive(root, &name) else {
            // The notes about the machine say why such a drive is left out.
            case.notes.push(format!(
                "the APST table of {name} is not looked at, since it cannot be identified"
            ));
            continue;
        };
        findings.extend(find_known_drive_quirks(case, &name, &drive));
        match ApstFeature::read_from_drive(&*nvme::open_drive_or_capture(root, &name)) {
            Ok(feature) => {
                findings.extend(find_apst_fault(case, &name, &drive, &feature));
                findings.extend(find_slow_wake_up(case, &name, &drive, &feature));
            }
            Err(_) if drive.apsta == Some(false) => findings.push(
                Finding::new(
                    "apst-unsupported",
                    format!("{name} ({}) cannot go to sleep by itself", drive.model),
                )
                .with_evidence("APSTA of Identify Controller is 0"),
            ),
            Err(e) => case
                .notes
                .push(format!("{name}: Get Features of APST: {e}")),
        }
    }
    findings
}

fn find_known_drive_quirks(case: &Case<'_>, name: &str, drive: &Drive) -> Vec<Finding> {
    let quirks = Quirks::builtin();
    let in_force = read_quirks_told_by_kernel(case.system.root(), name);
    let at = read_pci_id_and_dmi_names(case.system.root(), name);
    let found = quirks.find_entries_for_drive(drive, &at);
    let with_kind = found
        .into_iter()
        .flat_map(|(quirk, certainty)| quirk.kinds.iter().map(move |k| (quirk, *k, certainty)));
    with_kind
        .map(|(quirk, kind, certainty)| {
            let text = quirks.effect_and_override_of_kind(kind);
            let finding = Finding::new(
                "quirk",
                format!(
                    "{name} ({}) is known for a fault: {}",
                    drive.model, text.effect
                ),
            )
            .with_evidence(format!(
                "{} in Linux {} ({}), {certainty:?}: {}",
                kind.kernel_constant_name(),
                quirks.kernel,
                quirk.file,
                quirk.why
            ));
            let Some(in_force) = &in_force else {
                let fix = format!("leave it on; {}", text.lifted_by);
                return finding.with_fix(fix).marked_as_note();
            };
            let finding = finding.with_evidence(match in_force.as_slice() {
                [] => format!("/sys/class/nvme/{name}/quirks is none"),
                list => format!("/sys/class/nvme/{name}/quirks: {}", list.join(", ")),
            });
            let has_quirk = in_force
                .iter()
                .any(|name| name == kind.kernel_parameter_name());
            let word = at
                .pci
                .map(|pci| boot_word_that_adds_or_lifts_quirk(pci, "", kind));
            match (has_quirk, word) {
                (true, _) => {
                    let lifts = at.pci.map_or_else(String::new, |pci| {
                        let word = boot_word_that_adds_or_lifts_quirk(pci, "^", kind);
                        format!("; {word} on the kernel command line lifts it, to try")
                    });
                    finding
                        .with_fix(format!("leave it on{lifts}"))
                        .marked_as_note()
                }
                (false, Some(word)) => finding.with_fix(format!(
                    "the running kernel does not have it: put {word} on the kernel command line"
                )),
                (false, None) => finding.with_fix("the running kernel does not have it"),
            }
        })
        .collect()
}

/// The word on the kernel's command line that adds a quirk to a drive, or with `^` takes it away (Linux 7.0).
fn boot_word_that_adds_or_lifts_quirk(pci: PciId, mark: &str, kind: QuirkKind) -> String {
    let (vendor, device) = (pci.vendor, pci.device);
    format!(
        "nvme.quirks={vendor:04x}:{device:04x}:{mark}{}",
        kind.kernel_parameter_name()
    )
}

fn find_apst_fault(
    case: &mut Case<'_>,
    name: &str,
    drive: &Drive,
    now: &ApstFeature,
) -> Option<Finding> {
    let settings = read_inputs_of_kernel_apst_table(case.system.root(), name, drive);
    let planned = plan_apst_table(
        drive.npss,
        drive.apsta.unwrap_or(true),
        &drive.states,
        &settings,
    )
    .ok()?;
    if !now.enabled || now.table == ApstTable::default() {
        return report_empty_apst_table(case, name, drive, now, &planned, &settings);
    }
    if now.table == planned.table && now.enabled == planned.enabled {
        return None;
    }
    let set = policy_set_that_writes_apst_table(settings.quirks.no_deepest)?;
    let differing: Vec<String> = now
        .table
        .entries()
        .zip(planned.table.entries())
        .filter(|(is, would)| is != would)
        .map(|(is, would)| {
            format!(
                "PS{}: {}, planned {}",
                is.state,
                transition_in_words(is.target, is.timeout_ms),
                transition_in_words(would.target, would.timeout_ms)
            )
        })
        .collect();
    let finding = Finding::new(
        "apst-changed",
        format!(
            "{name} ({}) has another APST table than this kernel would program",
            drive.model
        ),
    )
    .with_evidence(differing.join("; "))
    .with_evidence(
        "the kernel programs its table at every reset and whenever the latency tolerance changes. A firmware \
         update, a program such as nvme-cli, or other module parameters since then can have changed it",
    );
    Some(finding.fixed_by_set(case, set))
}

/// Finds a drive whose APST table is empty, so that it never goes to sleep by itself.
fn report_empty_apst_table(
    case: &mut Case<'_>,
    name: &str,
    drive: &Drive,
    now: &ApstFeature,
    planned: &ApstPlan,
    settings: &ApstSettings,
) -> Option<Finding> {
    let mut finding = Finding::new(
        "apst-off",
        format!(
            "{name} ({}) never goes to sleep by itself: its APST table is {}",
            drive.model,
            if now.enabled { "empty" } else { "switched off" }
        ),
    )
    .with_evidence(explain_empty_table(planned, settings));
    // With the kernel's default settings there may be power states to use.
    let wanted = ApstSettings {
        quirks: settings.quirks,
        ..ApstSettings::default()
    };
    let possible = plan_apst_table(
        drive.npss,
        drive.apsta.unwrap_or(true),
        &drive.states,
        &wanted,
    )
    .ok()?;
    if possible.chosen_states_with_timeouts_ms().next().is_some() {
        return Some(add_fix_and_simulated_sleep_costs(
            case,
            drive,
            finding,
            &ApstFeature {
                enabled: possible.enabled,
                table: possible.table,
            },
            settings.quirks.no_deepest,
        ));
    }
    finding.fix = Some(format!(
        "no state of this drive fits the kernel's tolerances; `wakepath apst plan --drive '{}'` says why for each",
        drive.model
    ));
    Some(finding)
}

/// An autonomous transition in words; a time of 0 means none.
fn transition_in_words(target: u8, ms: u32) -> String {
    match ms {
        0 => "never".to_owned(),
        ms => format!("PS{target} after {ms} ms"),
    }
}

/// A wake-up that takes longer than a picture on a display with 60 Hz is seen.
const SEEN_US: u64 = 16_700;
/// Latency tolerances in ms that are easily remembered, the longest first.
const TOLERANCES_MS: [u64; 11] = [1000, 500, 250, 100, 50, 25, 15, 10, 5, 2, 1];

/// A power state that a drive falls into by itself.
struct Asleep {
    state: u8,
    after_ms: u64,
    exit_us: u64,
}

/// The power states that a drive falls into one after the other, with the idle time until each.
fn list_sleep_steps(drive: &Drive, now: &ApstFeature) -> Vec<Asleep> {
    let mut way: Vec<Asleep> = Vec::new();
    let (mut state, mut after_ms) = (0, 0);
    while let Some(entry) = now.table.entries().find(|entry| entry.state == state)
        && entry.timeout_ms > 0
        && entry.target > state
    {
        after_ms += u64::from(entry.timeout_ms);
        state = entry.target;
        let declared = drive.states.get(usize::from(state));
        let Some(declared) = declared else { break };
        way.push(Asleep {
            state,
            after_ms,
            exit_us: u64::from(declared.exit_latency_us),
        });
    }
    way
}

/// An exit latency in words.
fn exit_latency_in_words(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        us => format!("{:.0} ms", us as f64 / 1e3),
    }
}

/// A time before a transition, in words.
fn idle_time_in_words(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        ms => format!("{:.1} s", ms as f64 / 1e3),
    }
}

/// A slow wake-up's remedy.
struct WakeUpRemedy {
    /// The longest latency tolerance, ms, beyond the other states' exit latencies and below the slow states'.
    tolerance_ms: u64,
    /// Whether the tolerance leaves no state.
    keeps_awake: bool,
}

/// Finds the remedy of a slow wake-up among these states; `None` without slow states, or without a tolerance between.
fn find_remedy_of_slow_wake_up(way: &[Asleep]) -> Option<WakeUpRemedy> {
    let slow = way.iter().filter(|asleep| asleep.exit_us > SEEN_US);
    let first = slow.min_by_key(|asleep| asleep.exit_us)?;
    let others = way.iter().filter(|asleep| asleep.exit_us <= SEEN_US);
    let kept_us = others.map(|asleep| asleep.exit_us).max().unwrap_or(0);
    let tolerance_ms = TOLERANCES_MS
        .into_iter()
        .find(|ms| ms * 1000 < first.exit_us && ms * 1000 >= kept_us)?;
    Some(WakeUpRemedy {
        tolerance_ms,
        keeps_awake: kept_us == 0,
    })
}

/// Finds a drive that sleeps when used, with a wake-up that users notice.
fn find_slow_wake_up(
    case: &mut Case<'_>,
    name: &str,
    drive: &Drive,
    now: &ApstFeature,
) -> Option<Finding> {
    if !now.enabled {
        return None;
    }
    let way = list_sleep_steps(drive, now);
    let WakeUpRemedy {
        tolerance_ms: tolerance,
        keeps_awake,
    } = find_remedy_of_slow_wake_up(&way)?;
    let last = way.last()?;
    let states: Vec<String> = way
        .iter()
        .map(|asleep| {
            let (after, exit) = (
                idle_time_in_words(asleep.after_ms),
                exit_latency_in_words(asleep.exit_us),
            );
            format!("PS{} after {after}, left in {exit}", asleep.state)
        })
        .collect();
    let ends = if keeps_awake {
        "keeps it awake"
    } else {
        "ends that"
    };
    let finding = Finding::new(
        "drive-slow-to-wake",
        format!(
            "{name} ({}) falls asleep: a read after {} waits {}; a tolerance of {tolerance} ms {ends}",
            drive.model,
            idle_time_in_words(last.after_ms),
            exit_latency_in_words(last.exit_us)
        ),
    )
    .with_evidence(format!("{} (declared exit latencies; APST in force)", states.join("; ")));
    let set: PolicySet = format!("drive-latency[tolerance={tolerance}ms]")
        .parse()
        .ok()?;
    let machine = case.model.machine_with_drive(drive);
    let (_, then) = case.model.machine_and_policies_after_applying(&set);
    let simulated = simulate_load(&machine, &case.model.now, SELDOM).and_then(|now| {
        let then = simulate_load(&machine, &then, SELDOM)?;
        let how = format!("simulated, {SELDOM}: now against a tolerance of {tolerance} ms");
        Ok(subtract_latency_and_power(&now, &then, how))
    });
    Some(
        match case.result_or_note_without_cost("drive-slow-to-wake", simulated) {
            Some(difference) => finding.fixed_by_priced_set(case, Priced { set, difference }),
            None => finding.fixed_by_set(case, set),
        },
    )
}

/// Explains why the kernel's APST table is empty.
fn explain_empty_table(planned: &ApstPlan, settings: &ApstSettings) -> String {
    if planned.chosen_states_with_timeouts_ms().next().is_some() {
        return "the kernel's parameters would give a table with states in it. Something has switched it off since: \
                nvme-cli, a firmware update, or the start-up of the drive"
            .to_owned();
    }
    let reasons: Vec<String> = planned
        .states
        .iter()
        .filter(|choice| choice.explain(settings) != "operational: not a target")
        .map(|choice| format!("PS{} {}", choice.state, choice.explain(settings)))
        .collect();
    reasons.join("; ")
}

/// The policy set that gives a drive an APST table. On drives with the quirk, no table includes the deepest state,
/// whatever the set says.
fn policy_set_that_writes_apst_table(no_deepest: bool) -> Option<PolicySet> {
    let set = if no_deepest {
        "apst[no_deepest=on]"
    } else {
        "apst"
    };
    set.parse().ok()
}

/// The set with a latency tolerance of drives.
fn set_within_tolerance(set: &PolicySet, ms: u64) -> Option<PolicySet> {
    format!("{set} + drive-latency[tolerance={ms}ms]")
        .parse()
        .ok()
}

/// Adds to a finding the savings and costs of this drive's sleep on this machine, as simulated. The fix leaves out states of the
/// kernel's default table with slow wake-ups: each would be the next finding.
fn add_fix_and_simulated_sleep_costs(
    case: &mut Case<'_>,
    drive: &Drive,
    mut finding: Finding,
    default: &ApstFeature,
    no_deepest: bool,
) -> Finding {
    let machine = case.model.machine_with_drive(drive);
    let Some(mut set) = policy_set_that_writes_apst_table(no_deepest) else {
        return finding;
    };
    let mut table = "the kernel's default table".to_owned();
    let way = list_sleep_steps(drive, default);
    let slow = find_remedy_of_slow_wake_up(&way).filter(|slow| !slow.keeps_awake);
    if let (Some(slow), Some(last)) = (slow, way.last())
        && let Some(within) = set_within_tolerance(&set, slow.tolerance_ms)
    {
        let ms = slow.tolerance_ms;
        finding = finding.with_evidence(format!(
            "{table} alone would let it sleep in PS{}, left in {}; a tolerance of {ms} ms excludes PS{}",
            last.state,
            exit_latency_in_words(last.exit_us),
            last.state
        ));
        table = format!("{table} within {ms} ms");
        set = within;
    }
    let never: Option<PolicySet> = "apst[max_latency_us=0]".parse().ok();
    let Some(never) = never.map(|never| never.completed_from(&case.model.now)) else {
        return finding;
    };
    let (_, asleep) = case.model.machine_and_policies_after_applying(&set);
    let simulated = simulate_load(&machine, &never, SELDOM).and_then(|off| {
        let on = simulate_load(&machine, &asleep, SELDOM)?;
        let how = format!("simulated, {SELDOM}: never asleep against {table}");
        Ok(subtract_latency_and_power(&off, &on, how))
    });
    match case.result_or_note_without_cost("apst-off", simulated) {
        Some(difference) => finding.fixed_by_priced_set(case, Priced { set, difference }),
        None => finding.fixed_by_set(case, set),
    }
}
