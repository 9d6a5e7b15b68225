//! Summary of a finished replay over CPUs, groups of CPUs and blocks of time.

use std::collections::BTreeMap;
use std::ops::Range;

use wakepath_trace::recording::{Before, DataQuality, Metadata, PackedIdlePeriod};

use crate::agreement::Agreement;
use crate::cost::{Totals, TotalsByBlock};
use crate::cpu::{Cpu, CpuGroup};
use crate::drives::DriveReport;
use crate::error::ReplayError;
use crate::events::{BlockCounts, SharedState};
use crate::idle_loop::Counts;
use crate::package;
use crate::report::{BlockPolicy, BlockReport, PolicyReport, Report, StateReport};

/// Sums up a pass over a recording whose idle spans are all finished.
pub(crate) fn summarise_pass<'a>(
    pass: &SharedState<'a>,
    cpus: &[Box<Cpu<'a>>],
    metadata: &Metadata,
) -> Result<Report, ReplayError> {
    if pass.periods == 0 && pass.drives.has_no_requests() {
        return Err(ReplayError::NoPeriods);
    }
    let summary = Summary { pass, cpus };
    let whole = 0..pass.blocks.block_count();
    let mut policies = vec![summary.report_recorded_choices(metadata)];
    policies
        .extend((0..pass.setup.policies.len()).map(|policy| summary.report_setup_policy(policy)));
    let drives = pass
        .drives
        .report_drives(|device| metadata.device_name(device));
    let mut warned = metadata.clone();
    add_warnings(&mut warned, pass, &drives);
    let with_periods = cpus.iter().filter(|cpu| cpu.has_periods);
    Ok(Report {
        periods: pass.periods,
        spans: summary.sum_over_blocks(|counts| counts.spans),
        cpus: with_periods.map(|cpu| cpu.number as u32).collect(),
        duration_ns: pass.blocks.total_duration(whole.clone()),
        policies,
        agreement: summary.total_agreement(),
        drives,
        io_wake_ups: summary.sum_over_blocks(|counts| counts.io_wake_ups),
        io_completions: summary.sum_over_blocks(|counts| counts.io_completions),
        blocks: whole.map(|block| summary.report_block(block)).collect(),
        approximate: summary.count_approximate_periods(),
        measured_latencies: pass.setup.states.iter().all(|s| s.measured),
        warnings: warned.warnings,
    })
}

/// Adds warnings about what the replay found to the recording's warnings.
fn add_warnings(metadata: &mut Metadata, pass: &SharedState<'_>, drives: &[DriveReport]) {
    if pass.periods == 0 {
        metadata.add_or_count_warning("no-idle-periods", || {
            "the recording has no idle periods, so that governors have nothing to choose. Its drives are all that it shows"
                .to_owned()
        });
    }
    for _ in 0..pass.long_periods {
        metadata.add_or_count_warning("long-idle-period", || {
            "idle periods of more than ten minutes are left out; the clock may have jumped"
                .to_owned()
        });
    }
    for _ in 0..pass.clock_jumps {
        metadata.add_or_count_warning("clock-jump", || {
            "the clock of a CPU goes back; the idle period at that place is left out".to_owned()
        });
    }
    if let Some(tally) = pass.package.tally() {
        for _ in 0..tally.cpus_without_idle_periods() {
            metadata.add_or_count_warning("silent-cpu", || {
                "a CPU of the machine has no idle periods in the recording; for the package's energy it counts as \
                 asleep"
                    .to_owned()
            });
        }
        let left_out = tally.windows.left_out;
        if left_out > 0 {
            metadata.add_or_count_warning("short-windows", || {
                format!(
                    "too many times in which all CPUs are idle: the package counts as awake in those of up to \
                     {left_out} ns"
                )
            });
        }
    }
    for drive in drives.iter().filter(|drive| drive.is_uncertain()) {
        metadata.add_or_count_warning("missing-completions", || {
            format!(
                "{} of the {} requests issued to {} have no recorded completion, so its idle gaps and the timeouts \
                 that follow from them are uncertain",
                drive.missed, drive.issued, drive.name
            )
        });
    }
}

/// A finished pass over a recording, and its CPUs.
struct Summary<'s, 'a> {
    pass: &'s SharedState<'a>,
    cpus: &'s [Box<Cpu<'a>>],
}

/// Function that selects a CPU's sums for the governor in question.
type SelectTotals<'f> = dyn for<'b> Fn(&'b Cpu<'_>) -> &'b TotalsByBlock + 'f;

impl Summary<'_, '_> {
    /// Adds up a count over all blocks of time.
    fn sum_over_blocks(&self, count: fn(&BlockCounts) -> u64) -> u64 {
        self.pass.counts.iter().map(count).sum()
    }

    /// Adds up a count over all CPUs, under a policy of the setup.
    fn sum_over_cpus(&self, policy: usize, count: fn(&Counts) -> u64) -> u64 {
        let counts = self.cpus.iter().map(|cpu| &cpu.loops[policy].counts);
        counts.map(count).sum()
    }

    /// What was recorded.
    fn report_recorded_choices(&self, metadata: &Metadata) -> PolicyReport {
        let tick_known = metadata.recorded.tick != DataQuality::Missing;
        let flags = &self.pass.flags;
        let tick_stops = flags.count_periods_where(|period| period.stop_tick() == Some(true));
        let limit_hits = flags.count_periods_where(|period| period.poll_limit_hit() == Some(true));
        PolicyReport {
            policy: "recorded".to_owned(),
            selections: self.pass.periods,
            tick_stops: tick_known.then_some(tick_stops),
            poll_limit_hits: tick_known.then_some(limit_hits),
            ..self.report_states_and_package(package::RECORDED, &|cpu| &cpu.recorded)
        }
    }

    /// Reports on a policy of the setup over the whole recording.
    fn report_setup_policy(&self, policy: usize) -> PolicyReport {
        let sums = self.report_states_and_package(package::FIRST + policy, &|cpu| {
            &cpu.loops[policy].counts.totals
        });
        PolicyReport {
            policy: self.pass.setup.policies[policy].0.clone(),
            selections: self.sum_over_cpus(policy, |counts| counts.selections),
            tick_stops: Some(self.sum_over_cpus(policy, |counts| counts.tick_stops)),
            poll_limit_hits: Some(self.sum_over_cpus(policy, |counts| counts.poll_limit_hits)),
            ..sums
        }
    }

    /// Makes a report with idle states and package only. `governor`: index in the package's tally.
    fn report_states_and_package(
        &self,
        governor: usize,
        totals: &SelectTotals<'_>,
    ) -> PolicyReport {
        let whole = 0..self.pass.blocks.block_count();
        let tally = self.pass.package.tally();
        PolicyReport {
            policy: String::new(),
            states: merge_state_reports(self.report_states_by_group(totals, &whole)),
            selections: 0,
            tick_stops: None,
            poll_limit_hits: None,
            package: tally.map(|tally| tally.report_package(governor, whole)),
        }
    }

    /// Agreement of the governor that ran with the recording, over all CPUs, with the governor's
    /// name.
    fn total_agreement(&self) -> Option<(String, Agreement)> {
        let recorded = self.pass.setup.recorded_governor.as_ref()?;
        let mut all = Agreement::default();
        for agreement in self.cpus.iter().flat_map(|cpu| &cpu.shadow.agreements) {
            all.add_counts(agreement);
        }
        Some((recorded.name.clone(), all))
    }

    /// Idle periods that make the result approximate, by reason.
    fn count_approximate_periods(&self) -> BTreeMap<&'static str, u64> {
        let flags = &self.pass.flags;
        let counts = [
            (
                "sleep length inferred from timer events",
                flags.count_periods_where(PackedIdlePeriod::inferred),
            ),
            (
                "sleep length unknown; the CPU's longest idle span so far stands in for it",
                flags.count_periods_where(|period| period.sleep_length().is_none()),
            ),
            (
                "not known whether a task ran before; one is taken to have",
                flags.count_periods_where(|period| period.before() == Before::Unknown),
            ),
        ];
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Reports on one block of time.
    fn report_block(&self, block: usize) -> BlockReport {
        let counts = self.pass.counts[block];
        let setup = self.pass.setup;
        let recorded =
            self.report_governor_in_block(block, package::RECORDED, &|cpu| &cpu.recorded);
        let governors = (0..setup.policies.len()).map(|i| BlockPolicy {
            leased_spans: setup.psd.map(|_| counts.leased_spans),
            ..self.report_governor_in_block(block, package::FIRST + i, &|cpu| {
                &cpu.loops[i].counts.totals
            })
        });
        let mut agreement = Agreement::default();
        for cpu in self.cpus {
            if let Some(cpu_agreement) = cpu.shadow.agreements.get(block) {
                agreement.add_counts(cpu_agreement);
            }
        }
        BlockReport {
            duration_ns: self.pass.blocks.total_duration(block..block + 1),
            spans: counts.spans,
            io_wake_ups: counts.io_wake_ups,
            io_completions: counts.io_completions,
            agreement,
            policies: std::iter::once(recorded).chain(governors).collect(),
        }
    }

    /// Reports on one governor in one block of time. `governor`: index in the package's tally.
    fn report_governor_in_block(
        &self,
        block: usize,
        governor: usize,
        totals: &SelectTotals<'_>,
    ) -> BlockPolicy {
        let only = block..block + 1;
        let tally = self.pass.package.tally();
        BlockPolicy {
            groups: self.report_states_by_group(totals, &only),
            package: tally.map(|tally| tally.report_package(governor, only)),
            leased_spans: None,
        }
    }

    /// Reports on idle states over CPUs and blocks of time, by group of CPUs; empty for a group
    /// without CPUs in the recording.
    fn report_states_by_group(
        &self,
        totals: &SelectTotals<'_>,
        blocks: &Range<usize>,
    ) -> Vec<Vec<StateReport>> {
        let groups = self.pass.groups.iter();
        groups
            .map(|group| self.report_group_states(group, totals, blocks))
            .collect()
    }

    /// Reports on idle states over a group's CPUs and over blocks of time.
    fn report_group_states(
        &self,
        group: &CpuGroup<'_>,
        totals: &SelectTotals<'_>,
        blocks: &Range<usize>,
    ) -> Vec<StateReport> {
        let mut sums: Vec<Totals> = Vec::new();
        let cpus = self.cpus.iter();
        for cpu in cpus.filter(|cpu| std::ptr::eq(cpu.group, group)) {
            sums.resize(group.states.declared.len(), Totals::default());
            for (sum, cpu_totals) in sums
                .iter_mut()
                .zip(totals(cpu).totals_over_blocks(blocks.clone()))
            {
                sum.add_totals(&cpu_totals);
            }
        }
        let power_known = group.states.power.is_some();
        let states = group.states.declared.iter().zip(&sums);
        states
            .map(|(state, sum)| StateReport::from_totals(state.name.clone(), sum, power_known))
            .collect()
    }
}

/// Merges the reports of all groups of CPUs by the states' names.
fn merge_state_reports(groups: Vec<Vec<StateReport>>) -> Vec<StateReport> {
    let mut merged: Vec<StateReport> = Vec::new();
    for state in groups.into_iter().flatten() {
        match merged.iter_mut().find(|known| known.state == state.state) {
            Some(known) => known.add_report(&state),
            None => merged.push(state),
        }
    }
    merged
}
