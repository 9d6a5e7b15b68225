//! Every recorded decision of every release, against ours. Needs neither a compiler nor a kernel source.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use wakepath_conformance::checks::{Check as _, Governor, Setting, policy_name};
use wakepath_conformance::recorded;

#[test]
fn every_recorded_decision_is_ours() -> Result<()> {
    let logs = recorded::logs()?;
    let mut rows: BTreeMap<String, (usize, usize, Option<String>)> = BTreeMap::new();
    for decided in recorded::decisions()? {
        let log = logs.iter().find(|log| log.number == decided.log);
        let log = log.with_context(|| format!("no log {}", decided.log))?;
        let setting = Setting {
            subject: decided.subject,
            version: decided.kernel,
            tick: log.tick,
        };
        let check = Governor(setting);
        let mut ours = Vec::new();
        check.ours(&log.case, &mut ours)?;
        assert_eq!(ours.len(), decided.decisions.len());
        let (compared, different, first) = rows.entry(policy_name(setting)).or_default();
        *compared += ours.len();
        for (at, (ours, kernel)) in ours.iter().zip(&decided.decisions).enumerate() {
            if ours != kernel {
                *different += 1;
                first.get_or_insert_with(|| {
                    let text = check.explain(&log.case, at, kernel, ours);
                    format!("log {}: {text}", log.number)
                });
            }
        }
    }
    assert_eq!(rows.len(), 24);
    let mut differ = false;
    for (policy, (compared, different, first)) in &rows {
        assert_eq!(*compared, 60_000, "{policy}");
        println!("{policy}: {different} of {compared} differ");
        if let Some(first) = first {
            println!("  {first}");
            differ = true;
        }
    }
    assert!(!differ);
    Ok(())
}
