//! What a page shows of results that would make it too large: the policies of most interest, then the first workloads.

use super::RenderError;
use super::view::{PageRow, PageWorkload, View};

/// Largest page, in bytes.
pub const LARGEST: usize = 5_000_000;

/// So many policies are shown in the pictures at first: more lines at once are a tangle.
pub(crate) const AT_FIRST: usize = 8;

/// The policies by what a reader looks for first: baselines, those that answers name, those on Pareto fronts, the
/// best by each metric on each workload. The others follow in the order of the study.
pub(crate) fn by_interest(view: &View) -> Vec<usize> {
    let all = 0..view.policies.len();
    let baselines = all.clone().filter(|p| view.policies[*p].baseline);
    let named = view.answers.iter().flat_map(|a| a.policies.iter().copied());
    let fronts = view.workloads.iter().flat_map(|w| &w.tradeoff);
    let fronts = fronts.filter(|t| t.front).map(|t| t.policy);
    let mut seen = vec![false; all.len()];
    let mut order: Vec<usize> = Vec::new();
    for policy in baselines
        .chain(named)
        .chain(fronts)
        .chain(best(view))
        .chain(all)
    {
        if let Some(seen) = seen.get_mut(policy).filter(|seen| !**seen) {
            *seen = true;
            order.push(policy);
        }
    }
    order
}

/// The policies that gain most, of each metric on each workload.
fn best(view: &View) -> Vec<usize> {
    let percent = |row: &&PageRow| row.gain.map_or(f64::NEG_INFINITY, |g| g.percent);
    let mut groups: Vec<&[PageRow]> = view
        .rows
        .chunk_by(|a, b| (a.workload, a.metric) == (b.workload, b.metric))
        .collect();
    groups.sort_by_key(|rows| rows.first().map(|r| r.metric));
    let best = groups.into_iter().filter_map(|rows| {
        let gained = rows.iter().filter(|r| r.gain.is_some());
        gained
            .rev()
            .max_by(|a, b| percent(a).total_cmp(&percent(b)))
    });
    best.map(|row| row.policy).collect()
}

/// The page of as much as fits, where the page of all of it has `size` bytes.
pub(crate) fn fitting(
    view: &View,
    order: &[usize],
    size: usize,
    page: impl Fn(&View) -> Result<String, RenderError>,
) -> Result<String, RenderError> {
    let baselines = view.policies.iter().filter(|p| p.baseline).count();
    let few = AT_FIRST.max(baselines).min(order.len());
    let (policies, workloads) = (order.len(), view.workloads.len());
    let made = |policies: usize, workloads: usize| {
        let mut excerpt = excerpt(view, &order[..policies], workloads);
        excerpt.left_out = Some(told(view, &excerpt, size));
        page(&excerpt)
    };
    let found = largest([few, policies], size, |n| made(n, workloads))?;
    match found {
        Some(page) => Ok(page),
        None => match largest([1, workloads], size, |n| made(few, n))? {
            Some(page) => Ok(page),
            None => made(few, 1.min(workloads)),
        },
    }
}

/// The largest page that fits and was found, of between so few things and fewer than all, which make `size` bytes; none if
/// even few of them do not fit.
fn largest(
    [few, all]: [usize; 2],
    size: usize,
    page: impl Fn(usize) -> Result<String, RenderError>,
) -> Result<Option<String>, RenderError> {
    if few >= all {
        return Ok(None);
    }
    let mut fits = (few, page(few)?);
    let mut over = (all, size);
    if fits.1.len() > LARGEST {
        return Ok(None);
    }
    // What each adds is much the same, so that a straight line between both leads close.
    while over.0 - fits.0 > 1 && fits.1.len() < LARGEST / 100 * 95 {
        let (bytes, things) = (over.1 - fits.1.len(), over.0 - fits.0);
        // A little less, or the line would often lead just beyond.
        let room = (LARGEST - fits.1.len()) / 100 * 98;
        let more = (room as f64 / bytes as f64 * things as f64) as usize;
        let next = (fits.0 + more).clamp(fits.0 + 1, over.0 - 1);
        let made = page(next)?;
        if made.len() <= LARGEST {
            fits = (next, made);
        } else {
            over = (next, made.len());
        }
    }
    Ok(Some(fits.1))
}

/// What is left out, and where it is.
fn told(all: &View, excerpt: &View, size: usize) -> String {
    let count =
        |some: usize, of: usize, what: &str| (some < of).then(|| format!("{some} of {of} {what}"));
    let shown = [
        count(excerpt.policies.len(), all.policies.len(), "policies"),
        count(excerpt.workloads.len(), all.workloads.len(), "workloads"),
    ];
    let shown: Vec<String> = shown.into_iter().flatten().collect();
    let results = all.results.join(" ");
    format!(
        "The tables and pictures of this page show {}; with everything it would be {:.1} MB. Shown are baselines, \
         policies that the answers name, those on Pareto fronts, the best by each metric, then the first of the others. \
         Answers, stars and Pareto fronts consider all. Every figure: `wakepath compare {results} --format csv`; a ranking: \
         `wakepath compare {results} --top {}`; everything: the Parquet tables of the results.",
        shown.join(" and "),
        size as f64 / 1e6,
        all.policies.len(),
    )
}

/// The view of these policies and the first workloads.
fn excerpt(view: &View, policies: &[usize], workloads: usize) -> View {
    let mut kept = policies.to_vec();
    kept.sort_unstable();
    let place = Places(
        (0..view.policies.len())
            .map(|policy| kept.binary_search(&policy).ok())
            .collect(),
    );
    let mut rows = place.kept(&view.rows, |row| &mut row.policy);
    rows.retain(|row| row.workload < workloads);
    let of_workload = |w: &PageWorkload| PageWorkload {
        name: w.name.clone(),
        about: w.about.clone(),
        latency_of: w.latency_of.clone(),
        curves: place.kept(&w.curves, |of| &mut of.policy),
        percentiles: place.kept(&w.percentiles, |of| &mut of.policy),
        parts: place.kept(&w.parts, |of| &mut of.policy),
        tradeoff: place.kept(&w.tradeoff, |of| &mut of.policy),
        idle: place.kept(&w.idle, |of| &mut of.policy),
        frequency: place.kept(&w.frequency, |of| &mut of.policy),
        timelines: place.kept(&w.timelines, |of| &mut of.policy),
    };
    let mut answers = view.answers.clone();
    for answer in &mut answers {
        answer.policies = place.kept(&answer.policies, |policy| policy);
    }
    View {
        title: view.title.clone(),
        facts: view.facts.clone(),
        cautions: view.cautions.clone(),
        answers,
        policies: kept.iter().map(|p| view.policies[*p].clone()).collect(),
        metrics: view.metrics.clone(),
        rows,
        assumes_power: view.assumes_power,
        workloads: view.workloads[..workloads]
            .iter()
            .map(of_workload)
            .collect(),
        sources: view.sources.clone(),
        commands: view.commands.clone(),
        results: view.results.clone(),
        left_out: None,
        made_by: view.made_by.clone(),
    }
}

/// Where each policy is in an excerpt; none of those that are left out.
struct Places(Vec<Option<usize>>);

impl Places {
    /// What belongs to the policies of the excerpt, with their places there.
    fn kept<T: Clone>(&self, all: &[T], policy: impl Fn(&mut T) -> &mut usize) -> Vec<T> {
        let placed = |of: &T| {
            let mut of = of.clone();
            let policy = policy(&mut of);
            *policy = self.0.get(*policy).copied().flatten()?;
            Some(of)
        };
        all.iter().filter_map(placed).collect()
    }
}
