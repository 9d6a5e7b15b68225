//! APST in force on a captured drive, as a policy.

use wakepath_hardware::drive::Drive;
use wakepath_hardware::machine::{DriveInForce, DriveModel};

use super::{ApstPlan, ApstSettings, plan_apst_table};
use crate::{PolicySet, PolicySpec};

/// The policy that runs where a set names no APST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApstInForce {
    /// The policy with which the kernel programs the captured table; else the kernel's own.
    pub policy: PolicySpec,
    /// Whether the captured table follows from no keys of `apst`, so that the kernel's own stands in for it.
    pub is_stand_in: bool,
}

/// Finds the APST policy in force on a drive: of a captured drive the one that gives the captured table, of others the kernel's
/// own. `None`: the drive has no power states.
pub fn find_apst_in_force(drive: &DriveModel) -> Option<ApstInForce> {
    let declared = &drive.power.as_ref()?.declared;
    let captured = drive.in_force.as_ref().and_then(CapturedTable::read);
    let mut candidates = vec![String::new()];
    if let Some(captured) = &captured {
        candidates.push("max_latency_us=0".to_owned());
        let tolerance = drive.in_force.as_ref().and_then(|in_force| {
            let text = in_force.latency_tolerance_us.as_deref()?;
            text.parse::<u64>().ok()
        });
        candidates.extend(tolerance.map(|us| format!("max_latency_us={us}")));
        candidates.push("rule=legacy".to_owned());
        candidates.extend(tolerance.map(|us| format!("rule=legacy,max_latency_us={us}")));
        candidates.push("no_deepest=on".to_owned());
        candidates.extend(captured.keys_from_states(declared));
    }
    let policies = candidates.iter().filter_map(|keys| parse_apst(keys));
    let gives_captured_table = |policy: &PolicySpec| match &captured {
        None => true,
        Some(captured) => (policy.as_apst_settings())
            .is_ok_and(|settings| captured.is_programmed_by(declared, &settings)),
    };
    let found = policies.into_iter().find(gives_captured_table);
    let is_stand_in = found.is_none();
    let policy = found.or_else(|| parse_apst(""))?;
    Some(ApstInForce {
        policy,
        is_stand_in,
    })
}

/// APST settings of a drive under a set: the captured ones where the set has none.
pub fn apst_settings_under_set(drive: &DriveModel, set: &PolicySet) -> ApstSettings {
    let in_force = find_apst_in_force(drive).and_then(|apst| PolicySet::new([apst.policy]).ok());
    let completed = in_force.map(|in_force| set.completed_from(&in_force));
    completed
        .as_ref()
        .unwrap_or(set)
        .apst_settings_with_drive_latency()
}

fn parse_apst(keys: &str) -> Option<PolicySpec> {
    match keys {
        "" => "apst".parse().ok(),
        keys => format!("apst[{keys}]").parse().ok(),
    }
}

/// Transitions of a captured table: state before, state after, idle time in ms. None where APST was off.
#[derive(Debug, PartialEq, Eq)]
struct CapturedTable(Vec<(u8, u8, u32)>);

impl CapturedTable {
    /// `None`: the table could not be read.
    fn read(in_force: &DriveInForce) -> Option<Self> {
        let rows = in_force.table.iter().filter(|row| row.idle_ms > 0);
        Some(Self(if in_force.apst? {
            rows.map(|row| (row.from, row.to, row.idle_ms)).collect()
        } else {
            Vec::new()
        }))
    }

    fn from_plan(plan: &ApstPlan) -> Self {
        let entries = plan.table.entries().filter(|entry| entry.timeout_ms > 0);
        Self(if plan.enabled {
            entries
                .map(|entry| (entry.state, entry.target, entry.timeout_ms))
                .collect()
        } else {
            Vec::new()
        })
    }

    /// Whether the kernel programs this table under the settings. A drive whose support is unknown counts as supporting APST.
    fn is_programmed_by(&self, declared: &Drive, settings: &ApstSettings) -> bool {
        let supports = declared.apsta.unwrap_or(true);
        match plan_apst_table(declared.npss, supports, &declared.states, settings) {
            Ok(plan) => Self::from_plan(&plan) == *self,
            // The kernel then leaves the feature alone, and the simulated drive never sleeps.
            Err(_) => true,
        }
    }

    /// Keys with timeouts and tolerances that just let the one or two states of the table in.
    fn keys_from_states(&self, declared: &Drive) -> Option<String> {
        let mut targets: Vec<(u8, u32)> = self.0.iter().map(|row| (row.1, row.2)).collect();
        targets.sort_unstable();
        targets.dedup();
        let mut latencies = Vec::new();
        for (state, _) in &targets {
            let state = declared.states.get(usize::from(*state))?;
            latencies.push((
                state.entry_and_exit_latency_us(),
                u64::from(state.exit_latency_us),
            ));
        }
        let budget = latencies.iter().map(|(_, exit)| *exit).max()?;
        let (primary, secondary) = match (&*targets, &*latencies) {
            ([(_, ms)], [(total, _)]) => ((*ms, *total), None),
            ([(_, ms), (_, deep_ms)], [(total, _), (deep_total, _)]) => {
                ((*ms, *total), Some((*deep_ms, *deep_total)))
            }
            _ => return None,
        };
        let (deep_ms, deep_total) = secondary.unwrap_or_default();
        Some(format!(
            "primary_timeout_ms={},primary_tolerance_us={},secondary_timeout_ms={deep_ms},\
             secondary_tolerance_us={deep_total},max_latency_us={budget}",
            primary.0, primary.1
        ))
    }
}

#[cfg(test)]
mod tests {
    use wakepath_hardware::Machine;
    use wakepath_hardware::machine::Transition;

    use super::*;

    /// The policy in force on an SN530 with this captured table, and whether it stands in.
    fn in_force(apst: Option<bool>, tolerance: &str, rows: &[(u8, u8, u32)]) -> (String, bool) {
        let mut drive = DriveModel::find("sn530").unwrap();
        drive.in_force = Some(DriveInForce {
            latency_tolerance_us: Some(tolerance.to_owned()),
            apst,
            table: rows
                .iter()
                .map(|(from, to, idle_ms)| Transition {
                    from: *from,
                    to: *to,
                    idle_ms: *idle_ms,
                })
                .collect(),
        });
        let found = find_apst_in_force(&drive).unwrap();
        (found.policy.to_string(), found.is_stand_in)
    }

    /// The rows that the kernel programs into an SN530 under a policy.
    fn programmed(policy: &str) -> Vec<(u8, u8, u32)> {
        let drive = DriveModel::find("sn530").unwrap();
        let declared = drive.power.unwrap().declared;
        let settings = policy.parse::<PolicySpec>().unwrap();
        let settings = settings.as_apst_settings().unwrap();
        let plan = plan_apst_table(declared.npss, true, &declared.states, &settings).unwrap();
        CapturedTable::from_plan(&plan).0
    }

    #[test]
    fn a_captured_table_comes_back_as_the_policy_that_programs_it() {
        let kept = |policy: &str| {
            let (found, is_stand_in) = in_force(Some(true), "auto", &programmed(policy));
            assert!(!is_stand_in, "{policy}");
            assert_eq!(programmed(&found), programmed(policy), "{found}");
            found
        };
        assert_eq!(kept("apst"), "apst");
        assert_eq!(kept("apst[rule=legacy]"), "apst[rule=legacy]");
        assert!(kept("apst[primary_timeout_ms=30]").contains("primary_timeout_ms=30,"));
        kept("apst[primary_timeout_ms=10,secondary_timeout_ms=500]");
        kept("apst[primary_timeout_ms=10,secondary_timeout_ms=0]");
    }

    #[test]
    fn apst_that_is_off_stays_off_and_what_is_unknown_is_the_kernels() {
        let off = "apst[max_latency_us=0]".to_owned();
        assert_eq!(in_force(Some(false), "auto", &[]), (off.clone(), false));
        assert_eq!(in_force(Some(true), "auto", &[]), (off, false));
        assert_eq!(in_force(None, "auto", &[]), ("apst".to_owned(), false));
        // A table of a program's own, in which the states follow each other with times of their own.
        let own = [(0, 3, 70), (1, 3, 90), (3, 4, 900)];
        assert_eq!(
            in_force(Some(true), "auto", &own),
            ("apst".to_owned(), true)
        );
    }

    #[test]
    fn a_drive_without_power_states_has_no_apst() {
        let machine = Machine::find("rk3399").unwrap();
        assert_eq!(find_apst_in_force(&machine.drive), None);
    }
}
