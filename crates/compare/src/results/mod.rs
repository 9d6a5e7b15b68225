//! Comparing what is in result directories: a row for every metric of every workload under every policy.

mod choice;
mod idle_rates;
mod scope;

use std::collections::BTreeMap;
use std::fmt;

use rayon::prelude::*;
use serde::Serialize;
use wakepath_results::question::is_among;
use wakepath_results::{Document, MetricRow, ResultReader, ResultsError, RunOrigin};

pub use choice::{
    Among, Answer, Candidate, Choice, Holds, MetricFigure, Objective, Point, answer, answers,
    choose, front, front_of,
};
pub use idle_rates::beside_replay;
pub use scope::{InFiles, MachineScope, Points, scopes};

use crate::differences::machine_kinds;
use crate::figure::Unit;
use crate::gain::interval_of_mean;
use crate::power_scope::{PowerCounts, has_scope, mixed_scopes};
use crate::{
    Design, Gain, Mean, Metric, Verdict, assumes_power, benjamini_hochberg, differences, gain,
    shortfalls, standard_deviation, warnings,
};

/// Seed of the resampling: the same numbers give the same intervals.
const SEED: u64 = 1;

/// Results of one origin.
#[derive(Clone, Debug)]
pub struct Source {
    /// What to call it beside others.
    pub name: String,
    /// What was compared, and how.
    pub document: Document,
    /// The numbers.
    pub rows: Vec<MetricRow>,
    /// Its machines and its workloads as they were run, by the name of the file.
    pub files: BTreeMap<String, String>,
}

impl Source {
    /// The numbers of a result that is called `name`.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read(name: &str, results: &ResultReader) -> Result<Self, ResultsError> {
        Self::new(name, results, results.metrics()?)
    }

    /// These numbers of a result that is called `name`.
    ///
    /// # Errors
    /// A copy in the results is no regular file there.
    pub fn new(
        name: &str,
        results: &ResultReader,
        rows: Vec<MetricRow>,
    ) -> Result<Self, ResultsError> {
        let document = results.document().clone();
        let workloads = document.workloads.iter().filter(|w| w.has_copy());
        let names = workloads.map(|w| w.source.clone());
        let names = names.chain(document.machines.iter().map(|m| m.source.clone()));
        let mut files = BTreeMap::new();
        for name in names {
            // Other tools leave none.
            if let Some(text) = results.file(&name)? {
                files.insert(name, text);
            }
        }
        Ok(Self {
            name: name.to_owned(),
            files,
            document,
            rows,
        })
    }
}

/// What to compare.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions {
    /// The policy to compare with; none: of each machine, that of its first source.
    pub baseline: Option<String>,
    /// Names of machines; empty: all.
    pub machines: Vec<String>,
    /// Names of workloads; empty: all.
    pub workloads: Vec<String>,
    /// Names of metrics; empty: those in the headlines and those that questions ask about.
    pub metrics: Vec<String>,
    /// Confidence level; none: the first source's.
    pub level: Option<f64>,
}

/// Why nothing can be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// No results.
    #[error("nothing to compare: there is no finished run")]
    Nothing,
    /// No such name.
    #[error("no {what} is called `{name}`; there are {known}")]
    Unknown {
        /// Of what.
        what: &'static str,
        /// The name.
        name: String,
        /// What there is.
        known: String,
    },
    /// A choice needs a metric that nothing has.
    #[error(
        "no policy has `{metric}` on the workload `{workload}`: ask about workloads that have it"
    )]
    NoFigures {
        /// The metric.
        metric: String,
        /// The workload.
        workload: String,
    },
    /// Power of machines that counts different things.
    #[error("{0}")]
    MixedPower(String),
    /// The same name for different things.
    #[error(
        "`{metric}` is in {one} in {first} and in {other} in {second}: results in different units cannot be compared"
    )]
    MixedUnits {
        /// The metric.
        metric: String,
        /// One unit.
        one: String,
        /// Where.
        first: String,
        /// The other.
        other: String,
        /// Where.
        second: String,
    },
}

/// A workload on a machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Load {
    /// The machine, of a result with several; otherwise empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub machine: String,
    /// The workload.
    pub workload: String,
}

impl Load {
    /// What a result's rows of a workload on a machine are of.
    pub fn new(document: &Document, machine: &str, workload: &str) -> Self {
        let several = document.machines.len() > 1;
        Self {
            machine: if several {
                machine.to_owned()
            } else {
                String::new()
            },
            workload: workload.to_owned(),
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.workload)?;
        match self.machine.as_str() {
            "" => Ok(()),
            machine => write!(f, " ({machine})"),
        }
    }
}

/// The comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The policy that the others are compared with; of several machines the first one's, and each row has its own.
    pub baseline: String,
    /// How p-values are corrected.
    pub correction: &'static str,
    /// What they are corrected over: a question each.
    pub families: Vec<Family>,
    /// Confidence level of the intervals.
    pub level: f64,
    /// Differences up to so many percent are of no interest.
    pub margin_percent: f64,
    /// All policies, the baseline first.
    pub policies: Vec<String>,
    /// The machines of results that have several; policies are only compared on the same machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    /// All workloads.
    pub workloads: Vec<String>,
    /// Each workload on each machine.
    #[serde(skip)]
    pub loads: Vec<Load>,
    /// The metrics.
    pub metrics: Vec<Metric>,
    /// A row for each of these that has values, by metric, workload and policy.
    pub rows: Vec<Row>,
    /// Over all workloads.
    pub summaries: Vec<Summary>,
    /// What a reader should know of all of it.
    pub notes: Vec<String>,
    /// Whether power and energy are modelled with figures that are assumed, so that they deserve few digits.
    #[serde(skip)]
    pub assumes_power: bool,
    /// What power counts on each machine.
    #[serde(skip)]
    power_counts: PowerCounts,
}

impl Comparison {
    /// The unit of a metric's figures for people.
    pub fn unit(&self, metric: &Metric) -> Unit {
        let rows = self.rows.iter().filter(|r| r.metric == metric.name);
        self.digits_of(Unit::of_all(&metric.unit, rows.map(|r| r.mean)))
    }

    /// Policies whose runs gave the same numbers in every metric of every workload, each group as the policies are ordered.
    /// Those that equal no other are in none.
    pub fn equal_policies(&self) -> Vec<Vec<&str>> {
        let mut groups: Vec<(Vec<Fingerprint<'_>>, Vec<&str>)> = Vec::new();
        let mut by_policy: BTreeMap<&str, Vec<Fingerprint<'_>>> = BTreeMap::new();
        for row in &self.rows {
            let values = row.values.iter().map(|value| value.to_bits()).collect();
            let rows = by_policy.entry(&row.policy).or_default();
            rows.push((&row.metric, &row.load, values));
        }
        for policy in &self.policies {
            let Some(rows) = by_policy.remove(policy.as_str()) else {
                continue;
            };
            match groups.iter_mut().find(|(same, _)| *same == rows) {
                Some((_, group)) => group.push(policy),
                None => groups.push((rows, vec![policy])),
            }
        }
        let groups = groups.into_iter().map(|(_, group)| group);
        groups.filter(|group| group.len() > 1).collect()
    }

    /// A unit with the digits that figures of this comparison deserve.
    pub fn digits_of(&self, unit: Unit) -> Unit {
        if self.assumes_power {
            unit.assumed()
        } else {
            unit
        }
    }
}

/// A comparison in files: the questions of the studies with a goal, then everything.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Compared<'a> {
    /// The questions that have a goal.
    pub answers: &'a [Answer],
    /// Everything.
    #[serde(flatten)]
    pub comparison: &'a Comparison,
}

/// The comparisons that answer one question: what differs in this metric.
#[derive(Clone, Debug, Serialize)]
pub struct Family {
    /// Name of the metric.
    pub metric: String,
    /// How many comparisons there are.
    pub comparisons: usize,
}

/// The numbers of a policy in a metric of a workload, to the bit.
type Fingerprint<'a> = (&'a str, &'a Load, Vec<u64>);

/// How p-values are corrected.
pub const CORRECTION: &str = "Benjamini-Hochberg";

/// A metric of a workload under a policy.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the metric.
    pub metric: String,
    /// The workload on its machine.
    #[serde(flatten)]
    pub load: Load,
    /// The policy.
    pub policy: String,
    /// Runs.
    pub runs: usize,
    /// The metric's mean over them.
    pub mean: f64,
    /// Standard deviation; none of a single run.
    pub deviation: Option<f64>,
    /// The interval around the mean; none of fewer than 4 runs.
    pub interval: Option<[f64; 2]>,
    /// What each run gave, in the order of the session.
    #[serde(skip)]
    pub values: Vec<f64>,
    /// The policy that it is compared with; none of a baseline.
    pub baseline: Option<String>,
    /// How runs were compared with those of the baseline.
    pub design: Design,
    /// The gain over the baseline; none of the baseline itself.
    pub gain: Option<Gain>,
    /// The p-value of the gain, corrected for all comparisons of this metric here.
    pub corrected_p: Option<f64>,
    /// Whether the gain is significant after that, and larger than the margin.
    pub significant: bool,
    /// What can be said.
    pub verdict: Option<Verdict>,
    /// The same in words, or why nothing can be said.
    pub sentence: String,
    /// What is odd about the series.
    pub warnings: Vec<String>,
}

/// A metric over all workloads.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Name of the metric.
    pub metric: String,
    /// The policy.
    pub policy: String,
    /// Workloads that have it under both policies, those of each machine counted.
    pub workloads: usize,
    /// Gain of the geometric mean over workloads, in percent, plus being better.
    pub percent: f64,
}

impl Summary {
    /// The machines over which it is, among the rows of its comparison.
    fn machines(&self, rows: &[Row]) -> Vec<String> {
        let mine = rows
            .iter()
            .filter(|row| row.metric == self.metric && row.policy == self.policy);
        distinct(mine.map(|row| &row.load.machine))
    }
}

/// The runs of a metric of a workload under a policy.
#[derive(Debug, Default)]
struct Series {
    design: Option<Design>,
    source: usize,
    /// `(block, order, value)`.
    runs: Vec<(u32, u32, f64)>,
}

/// What a series is compared with.
#[derive(Clone, Copy)]
enum With<'a> {
    /// It is the baseline.
    Itself,
    /// The baseline of this name has no such runs.
    Nothing(&'a str),
    /// The power of the baseline of this name counts another scope.
    OtherScope(&'a str),
    /// The baseline's name and its runs.
    Baseline(&'a str, &'a Series),
}

/// Compares all policies of all sources with a baseline. Results of several machines each have that machine's baseline,
/// unless the options name one. Runs are paired where they were made in pairs: within a
/// simulation by seed, within a measurement by block. Policies of different sources are never paired. With several
/// sources a policy is called by its source and its own name.
///
/// # Errors
/// Nothing to compare, unknown names, a metric in several units.
pub fn compare(sources: &[Source], options: &CompareOptions) -> Result<Comparison, CompareError> {
    let first = sources.first().ok_or(CompareError::Nothing)?;
    let metrics = metrics(sources, options)?;
    let mut names = Names::default();
    let mut all: BTreeMap<(usize, usize, usize), Series> = BTreeMap::new();
    let wanted: BTreeMap<&str, usize> = metrics
        .iter()
        .enumerate()
        .map(|(i, m)| (&*m.name, i))
        .collect();
    let documents = || sources.iter().map(|s| &s.document);
    let workloads = documents().flat_map(|d| &d.workloads);
    known("workload", &options.workloads, workloads.map(|w| &w.name))?;
    let machines = documents().flat_map(|d| &d.machines);
    known("machine", &options.machines, machines.map(|m| &m.name))?;
    let asked = |machine: &String, workload: &String| {
        is_among(&options.machines, machine) && is_among(&options.workloads, workload)
    };
    for (index, source) in sources.iter().enumerate() {
        let load = |machine: &str, workload: &str| Load::new(&source.document, machine, workload);
        for (machine, workload) in source.document.loads() {
            if asked(&machine.name, &workload.name) {
                index_of(&mut names.loads, load(&machine.name, &workload.name));
            }
        }
        for policy in &source.document.policies {
            index_of(
                &mut names.policies,
                policy_name(sources, source, &policy.name),
            );
        }
        let mut last: Option<(&MetricRow, usize, usize)> = None;
        for row in &source.rows {
            let Some(metric) = wanted.get(row.metric.as_str()) else {
                continue;
            };
            if !asked(&row.machine, &row.workload) {
                continue;
            }
            // Rows come in long stretches of the same run.
            let same = |of: &MetricRow| {
                (&of.machine, &of.workload, &of.policy)
                    == (&row.machine, &row.workload, &row.policy)
            };
            let (load, policy) = match last {
                Some((of, load, policy)) if same(of) => (load, policy),
                _ => (
                    index_of(&mut names.loads, load(&row.machine, &row.workload)),
                    index_of(
                        &mut names.policies,
                        policy_name(sources, source, &row.policy),
                    ),
                ),
            };
            last = Some((row, load, policy));
            let series = all.entry((*metric, load, policy)).or_default();
            series.design = Some(source.document.design);
            series.source = index;
            series.runs.push((row.block, row.order, row.value));
        }
    }
    if all.is_empty() {
        return Err(CompareError::Nothing);
    }
    let baselines = baselines(sources, options.baseline.as_deref(), &names.policies)?;
    let power_counts = PowerCounts::new(sources);
    let level = options.level.unwrap_or(first.document.level);
    let margin = first.document.margin_percent;
    let keys: Vec<(usize, usize, usize)> = all.keys().copied().collect();
    let mut rows: Vec<Row> = keys
        .par_iter()
        .map(|(m, l, p)| {
            let metric = &metrics[*m];
            let series = &all[&(*m, *l, *p)];
            let baseline = baselines[*p];
            let with = if *p == baseline {
                With::Itself
            } else {
                let name = &names.policies[baseline];
                let machine = names.loads[*l].machine.as_str();
                let pair = [name, &names.policies[*p]].map(|policy| (policy.as_str(), machine));
                if has_scope(&metric.name) && power_counts.mixed(pair.into_iter()).is_some() {
                    With::OtherScope(name)
                } else {
                    let series = all.get(&(*m, *l, baseline));
                    series.map_or(With::Nothing(name), |series| With::Baseline(name, series))
                }
            };
            row(
                metric,
                (&names.loads[*l], &names.policies[*p]),
                series,
                with,
                level,
            )
        })
        .collect();
    let families = metrics
        .iter()
        .map(|metric| Family {
            metric: metric.name.to_string(),
            comparisons: judge(
                rows.iter_mut().filter(|r| r.metric == metric.name),
                metric.better,
                (level, margin),
            ),
        })
        .collect();
    // Each baseline before what is compared with it, otherwise as the studies have them.
    let mut order: Vec<usize> = (0..names.policies.len()).collect();
    let first_of = |baseline: usize| baselines.iter().position(|b| *b == baseline);
    order.sort_by_key(|p| (first_of(baselines[*p]), baselines[*p] != *p, *p));
    let wanted = order
        .first()
        .map_or_else(String::new, |p| names.policies[*p].clone());
    let policies: Vec<String> = order.iter().map(|p| names.policies[*p].clone()).collect();
    let rank = |row: &Row| policies.iter().position(|p| *p == row.policy);
    let metric_rank = |row: &Row| metrics.iter().position(|m| m.name == row.metric);
    let load_rank = |row: &Row| names.loads.iter().position(|l| *l == row.load);
    rows.sort_by_cached_key(|row| (metric_rank(row), load_rank(row), rank(row)));
    let machines = distinct(
        names
            .loads
            .iter()
            .map(|l| &l.machine)
            .filter(|m| !m.is_empty()),
    );
    let mut metrics = metrics;
    metrics.retain(|m| rows.iter().any(|r| r.metric == m.name));
    let mut summaries = summaries(&metrics, &policies, &rows);
    summaries
        .retain(|s| !has_scope(&s.metric) || mixed_scopes(sources, &s.machines(&rows)).is_none());
    let mut notes = notes(sources);
    let is_scoped = metrics.iter().any(|metric| has_scope(&metric.name));
    notes.extend(mixed_scopes(sources, &machines).filter(|_| is_scoped));
    Ok(Comparison {
        baseline: wanted,
        correction: CORRECTION,
        families,
        level,
        margin_percent: margin,
        policies,
        machines,
        workloads: distinct(names.loads.iter().map(|l| &l.workload)),
        loads: names.loads,
        metrics,
        summaries,
        rows,
        notes,
        assumes_power: sources.iter().any(models_assumed_power),
        power_counts,
    })
}

/// Whether a source's power is that of a model with assumed figures, which its machine's file marks.
fn models_assumed_power(source: &Source) -> bool {
    let modelled = matches!(source.document.backend, RunOrigin::Sim | RunOrigin::Replay);
    modelled
        && source.document.machines.iter().any(|machine| {
            let file = source.files.get(&machine.source);
            file.is_none_or(|text| assumes_power(text))
        })
}

/// The baseline of each policy by index; that of a baseline is itself. `policies` are those of all sources, by their names
/// beside each other.
fn baselines(
    sources: &[Source],
    wanted: Option<&str>,
    policies: &[String],
) -> Result<Vec<usize>, CompareError> {
    let index = |name: &str| policies.iter().position(|p| p == name);
    let unknown = |name: &str| CompareError::Unknown {
        what: "policy",
        name: name.to_owned(),
        known: policies.join(", "),
    };
    if let Some(one) = wanted.and_then(index) {
        return Ok(vec![one; policies.len()]);
    }
    let machines = machine_kinds(sources);
    let of = |source: &Source, name: &str| index(&policy_name(sources, source, name));
    let mut all: Vec<Option<usize>> = vec![None; policies.len()];
    let mut first = None;
    for (number, machine) in machines.iter().enumerate() {
        if machines[..number].contains(machine) {
            continue;
        }
        let same = || sources.iter().zip(&machines).filter(|(_, m)| *m == machine);
        let found = match wanted {
            // The name without its source: of each machine its own.
            Some(name) => same().find_map(|(source, _)| {
                source.document.policies.iter().find(|p| p.name == name)?;
                of(source, name)
            }),
            None => of(&sources[number], &sources[number].document.baseline),
        };
        let own: Vec<usize> = same()
            .flat_map(|(s, _)| s.document.policies.iter().filter_map(|p| of(s, &p.name)))
            .collect();
        // A machine with nothing else to compare is compared with the first.
        let alone = found.is_none_or(|found| own.iter().all(|p| *p == found));
        let baseline = if alone { first.or(found) } else { found };
        let name = wanted.unwrap_or(&sources[number].document.baseline);
        let baseline = baseline.ok_or_else(|| unknown(name))?;
        first = first.or(Some(baseline));
        for policy in own {
            all[policy] = Some(baseline);
        }
    }
    // Policies that only the rows have.
    let rest = first.unwrap_or(0);
    Ok(all.into_iter().map(|b| b.unwrap_or(rest)).collect())
}

/// What there is, in the order in which it was first seen.
#[derive(Default)]
struct Names {
    loads: Vec<Load>,
    policies: Vec<String>,
}

fn index_of<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|n| *n == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

/// Each once, in the order in which they come.
fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut all = Vec::new();
    for name in names {
        index_of(&mut all, name);
    }
    all.into_iter().cloned().collect()
}

/// Whether all of these names are known.
fn known<'a>(
    what: &'static str,
    names: &[String],
    known: impl Iterator<Item = &'a String>,
) -> Result<(), CompareError> {
    let known = distinct(known);
    match names.iter().find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(name) => Err(CompareError::Unknown {
            what,
            name: name.clone(),
            known: known.join(", "),
        }),
    }
}

/// What a source's policy is called beside those of the others.
pub fn policy_name(sources: &[Source], source: &Source, policy: &str) -> String {
    match (sources.len(), source.document.policies.len()) {
        (1, _) => policy.to_owned(),
        (_, 1) => source.name.clone(),
        _ => format!("{}: {policy}", source.name),
    }
}

/// The metrics to compare, in one meaning.
fn metrics(sources: &[Source], options: &CompareOptions) -> Result<Vec<Metric>, CompareError> {
    let mut all: Vec<(&Metric, &str)> = Vec::new();
    for source in sources {
        for metric in &source.document.metrics {
            match all.iter().find(|(known, _)| known.name == metric.name) {
                None => all.push((metric, &source.name)),
                Some((known, of)) if known.unit != metric.unit || known.better != metric.better => {
                    return Err(CompareError::MixedUnits {
                        metric: metric.name.to_string(),
                        one: known.unit.to_string(),
                        first: (*of).to_owned(),
                        other: metric.unit.to_string(),
                        second: source.name.clone(),
                    });
                }
                Some(_) => {}
            }
        }
    }
    if options.metrics.is_empty() {
        let asked = |name: &str| {
            let mut questions = sources.iter().flat_map(|s| &s.document.questions);
            questions.any(|q| q.metrics().any(|m| m == name))
        };
        let of_interest = all
            .into_iter()
            .filter(|(m, _)| m.headline || asked(&m.name));
        return Ok(of_interest.map(|(m, _)| m.clone()).collect());
    }
    if options.metrics.iter().any(|m| m == "all") {
        return Ok(all.into_iter().map(|(m, _)| m.clone()).collect());
    }
    let find = |name: &String| {
        let found = all.iter().find(|(m, _)| m.name == *name);
        found
            .map(|(m, _)| (*m).clone())
            .ok_or_else(|| CompareError::Unknown {
                what: "metric",
                name: name.clone(),
                known: all
                    .iter()
                    .map(|(m, _)| &*m.name)
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    };
    let mut wanted: Vec<Metric> = Vec::new();
    for name in &options.metrics {
        // One that is named twice has one table.
        if !wanted.iter().any(|m| m.name == *name) {
            wanted.push(find(name)?);
        }
    }
    Ok(wanted)
}

/// A row without its verdict.
fn row(
    metric: &Metric,
    (load, policy): (&Load, &str),
    series: &Series,
    with: With<'_>,
    level: f64,
) -> Row {
    // As the session had them.
    let mut in_order = series.runs.clone();
    in_order.sort_by_key(|(_, order, _)| *order);
    let values: Vec<f64> = in_order.into_iter().map(|(.., value)| value).collect();
    let mut row = Row {
        metric: metric.name.to_string(),
        load: load.clone(),
        policy: policy.to_owned(),
        runs: values.len(),
        mean: mean(metric, &values),
        deviation: standard_deviation(&values),
        interval: interval_of_mean(metric.mean, &values, level),
        baseline: None,
        design: Design::Unpaired,
        gain: None,
        corrected_p: None,
        significant: false,
        verdict: None,
        sentence: String::new(),
        warnings: warnings(&values).iter().map(ToString::to_string).collect(),
        values,
    };
    let baseline = match with {
        With::Itself => return row,
        With::Nothing(name) => {
            row.baseline = Some(name.to_owned());
            "the baseline has no such runs".clone_into(&mut row.sentence);
            return row;
        }
        With::OtherScope(name) => {
            row.baseline = Some(name.to_owned());
            "the baseline's watts count something else (package, board or wall)"
                .clone_into(&mut row.sentence);
            return row;
        }
        With::Baseline(name, baseline) => {
            row.baseline = Some(name.to_owned());
            baseline
        }
    };
    let paired = baseline.source == series.source
        && series.design == Some(Design::Paired)
        && baseline.design == Some(Design::Paired);
    let (ours, theirs);
    if paired {
        row.design = Design::Paired;
        (theirs, ours) = pairs(&baseline.runs, &series.runs);
    } else {
        ours = row.values.clone();
        theirs = baseline.runs.iter().map(|(.., value)| *value).collect();
    }
    match gain(metric, &theirs, &ours, row.design, level, SEED) {
        Ok(gain) => row.gain = Some(gain),
        Err(error) => row.sentence = error.to_string(),
    }
    row
}

/// The values of blocks that both have, in the order of the blocks.
fn pairs(a: &[(u32, u32, f64)], b: &[(u32, u32, f64)]) -> (Vec<f64>, Vec<f64>) {
    let blocks: BTreeMap<u32, f64> = a.iter().map(|(block, _, value)| (*block, *value)).collect();
    let mut both: Vec<(u32, f64, f64)> = b
        .iter()
        .filter_map(|(block, _, value)| Some((*block, *blocks.get(block)?, *value)))
        .collect();
    both.sort_by_key(|(block, ..)| *block);
    both.into_iter().map(|(_, a, b)| (a, b)).unzip()
}

/// The metric's mean, which needs values above 0; else the arithmetic one.
fn mean(metric: &Metric, values: &[f64]) -> f64 {
    if values.iter().all(|v| *v > 0.0) {
        metric.mean.of(values)
    } else {
        Mean::Arithmetic.of(values)
    }
}

/// Corrects the p-values of the comparisons of one question and says what can be said; returns their number.
fn judge<'a>(
    rows: impl Iterator<Item = &'a mut Row>,
    better: crate::Better,
    (level, margin): (f64, f64),
) -> usize {
    let mut compared: Vec<(&mut Row, Gain)> = rows
        .filter_map(|row| row.gain.map(|gain| (row, gain)))
        .collect();
    let p: Vec<f64> = compared.iter().map(|(_, gain)| gain.p_value).collect();
    for ((row, gain), p) in compared.iter_mut().zip(benjamini_hochberg(&p)) {
        let verdict = Verdict::of(gain, p, level, margin);
        row.corrected_p = Some(p);
        row.significant = verdict.is_finding();
        let verdict = verdict.judged_by(better);
        row.sentence = verdict.to_string();
        row.verdict = Some(verdict);
    }
    compared.len()
}

/// The geometric mean over workloads of what each policy makes of a metric.
fn summaries(metrics: &[Metric], policies: &[String], rows: &[Row]) -> Vec<Summary> {
    let mut all = Vec::new();
    for metric in metrics {
        let of_metric: Vec<&Row> = rows.iter().filter(|r| r.metric == metric.name).collect();
        for policy in policies {
            let gains = of_metric.iter().filter(|r| r.policy == *policy);
            let ratios: Vec<f64> = gains
                .filter_map(|r| r.gain.map(|g| g.means[1] / g.means[0]))
                // 0 under both is no ratio.
                .filter(|ratio| ratio.is_finite())
                .collect();
            if ratios.len() < 2 {
                continue;
            }
            let change = (Mean::Geometric.of(&ratios) - 1.0) * 100.0;
            all.push(Summary {
                metric: metric.name.to_string(),
                policy: policy.clone(),
                workloads: ratios.len(),
                percent: metric.better.sign() * change,
            });
        }
    }
    all
}

fn notes(sources: &[Source]) -> Vec<String> {
    let mut notes = Vec::new();
    for source in sources {
        if !source.document.complete {
            notes.push(format!(
                "{}: the study was interrupted; only its finished runs are compared",
                source.name
            ));
        }
        let of_source = source.document.notes.iter();
        notes.extend(of_source.map(|note| format!("{}: {note}", source.name)));
    }
    let named: Vec<(&str, &Source)> = sources.iter().map(|s| (s.name.as_str(), s)).collect();
    notes.extend(differences(&named));
    let warnings = shortfalls(&named);
    notes.extend(warnings.into_iter().map(|w| format!("warning: {w}")));
    notes
}
