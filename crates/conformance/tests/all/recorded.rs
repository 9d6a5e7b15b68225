//! Every recorded decision of every release, against ours. Needs neither a compiler nor a kernel source.

use anyhow::Result;
use wakepath_conformance::recorded;

#[test]
fn every_recorded_decision_is_ours() -> Result<()> {
    let rows = recorded::compare_recorded_decisions()?;
    assert_eq!(rows.len(), 24);
    for row in rows {
        assert_eq!(
            (row.decisions, row.differences),
            (60_000, 0),
            "{}",
            row.policy
        );
    }
    Ok(())
}
