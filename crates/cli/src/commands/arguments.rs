//! Arguments shared by several commands.

use std::path::Path;

use wakepath_compare::{Condition, Metric};
use wakepath_units::{KernelVersion, TickRate};
use wakepath_workloads::{Workload, WorkloadWarning};

use crate::messages::{self, MessageKind};

/// Warns of a condition on a percentage that looks like a condition on a share: `rate_reached >= 0.98` is always kept.
pub(super) fn note_percent_limits_like_shares<'a>(
    conditions: impl IntoIterator<Item = &'a Condition>,
) {
    for condition in conditions {
        let limit = condition.limit;
        let in_percent = Metric::find(&condition.metric).is_some_and(|metric| metric.unit == "%");
        if in_percent && limit > 0.0 && limit <= 1.0 {
            messages::note!(
                "`{condition}`: {} is in %, so this is {limit} % and not {} %",
                condition.metric,
                limit * 100.0
            );
        }
    }
}

/// Holds warnings about lines in a workload's file that were accepted but have another effect than a user may expect.
pub(super) fn hold_workload_warnings(path: &Path, workload: &Workload) {
    for warning in workload.warnings() {
        let text = format!("{}:{warning}", path.display());
        hold_workload_warning(None, &warning, text);
    }
}

/// Holds a warning about a line of a workload. A line without effect explains no error.
pub(super) fn hold_workload_warning(about: Option<&str>, warning: &WorkloadWarning, text: String) {
    if warning.is_about_line_without_effect() {
        messages::hold_message_until_result(MessageKind::Remark, about, text);
    } else {
        messages::hold_remark_until_result_or_error(about, text);
    }
}

/// Parses a kernel's version, or what `uname -r` prints.
pub(super) fn parse_kernel_version_or_nearest(text: &str) -> anyhow::Result<KernelVersion> {
    let version = text.parse::<KernelVersion>();
    let of_distribution = text.contains(|c: char| !c.is_ascii_digit() && c != '.');
    if version.is_ok() || !of_distribution {
        return Ok(version?);
    }
    if let Ok(known) = KernelVersion::from_release_name(text) {
        return Ok(known);
    }
    let nearest = KernelVersion::nearest_supported(text).ok_or_else(|| {
        anyhow::anyhow!("not a kernel version; write one such as 6.12, 6.12.48 or 7.3")
    })?;
    messages::note!(
        "the policies of Linux {text} are not known; those of {nearest}, the nearest that are, stand in for them"
    );
    Ok(nearest)
}

/// Parses a tick rate in Hz.
pub(super) fn parse_tick_rate(text: &str) -> Result<TickRate, String> {
    text.parse()
        .ok()
        .and_then(TickRate::new)
        .ok_or_else(|| "expected a whole number from 1 to 6250".to_owned())
}
