//! Excerpts from results too large for a page: the most interesting policies, then the first workloads.

use super::view::{PageRow, PageWorkload, View};

/// Largest page, in bytes.
pub const LARGEST: usize = 5_000_000;

/// Policies shown in the pictures at first: more lines at once are a tangle.
pub(crate) const AT_FIRST: usize = 8;

/// Policies by interest for a reader: baselines, policies named in answers, policies on Pareto fronts, the best by each
/// metric on each workload, then the rest in the order of the study.
pub(crate) fn policies_by_interest(view: &View) -> Vec<usize> {
    let all = 0..view.policies.len();
    let baselines = all.clone().filter(|p| view.policies[*p].baseline);
    let named = view.answers.iter().flat_map(|a| a.policies.iter().copied());
    let tradeoffs = view.workloads.iter().flat_map(|w| &w.tradeoff);
    let fronts = tradeoffs.filter(|t| t.front).map(|t| t.policy);
    let mut seen = vec![false; all.len()];
    let mut order: Vec<usize> = Vec::new();
    for policy in baselines
        .chain(named)
        .chain(fronts)
        .chain(best_policies(view))
        .chain(all)
    {
        if let Some(seen) = seen.get_mut(policy).filter(|seen| !**seen) {
            *seen = true;
            order.push(policy);
        }
    }
    order
}

/// Policies with the largest gain in a metric on a workload.
fn best_policies(view: &View) -> Vec<usize> {
    let mut groups: Vec<&[PageRow]> = view
        .rows
        .chunk_by(|a, b| (a.workload, a.metric) == (b.workload, b.metric))
        .collect();
    groups.sort_by_key(|rows| rows.first().map(|r| r.metric));
    let best = groups.into_iter().filter_map(|rows| {
        let gained = rows.iter().filter(|r| r.gain.is_some());
        gained
            .rev()
            .max_by(|a, b| a.gain_percent().total_cmp(&b.gain_percent()))
    });
    best.map(|row| row.policy).collect()
}

/// Renders as much as fits on a page; `size` is the size of a page with everything, in bytes.
pub(crate) fn render_excerpt<E>(
    view: &View,
    order: &[usize],
    size: usize,
    render: impl Fn(&View) -> Result<String, E>,
) -> Result<String, E> {
    let baselines = view.policies.iter().filter(|p| p.baseline).count();
    let few = AT_FIRST.max(baselines).min(order.len());
    let (policies, workloads) = (order.len(), view.workloads.len());
    let render_some = |policies: usize, workloads: usize| {
        let mut excerpt = cut_view(view, &order[..policies], workloads);
        excerpt.left_out = Some(left_out_sentence(view, &excerpt, size));
        render(&excerpt)
    };
    if let Some(page) = largest_excerpt([few, policies], size, |n| render_some(n, workloads))? {
        return Ok(page);
    }
    match largest_excerpt([1, workloads], size, |n| render_some(few, n))? {
        Some(page) => Ok(page),
        None => render_some(few, 1.min(workloads)),
    }
}

/// Looks for the largest page that fits, with from `few` to below `all` things; a page with all has `size` bytes. None if
/// even a page with few things does not fit.
fn largest_excerpt<E>(
    [few, all]: [usize; 2],
    size: usize,
    render: impl Fn(usize) -> Result<String, E>,
) -> Result<Option<String>, E> {
    if few >= all {
        return Ok(None);
    }
    let mut fits = (few, render(few)?);
    let mut over = (all, size);
    if fits.1.len() > LARGEST {
        return Ok(None);
    }
    // Each thing adds about the same size, so a straight line between both ends leads close.
    while over.0 - fits.0 > 1 && fits.1.len() < LARGEST / 100 * 95 {
        let (bytes, things) = (over.1 - fits.1.len(), over.0 - fits.0);
        // A little less, or the line would often lead just beyond.
        let room = (LARGEST - fits.1.len()) / 100 * 98;
        let more = (room as f64 / bytes as f64 * things as f64) as usize;
        let next = (fits.0 + more).clamp(fits.0 + 1, over.0 - 1);
        let page = render(next)?;
        if page.len() <= LARGEST {
            fits = (next, page);
        } else {
            over = (next, page.len());
        }
    }
    Ok(Some(fits.1))
}

/// A sentence that says where the omitted parts are.
fn left_out_sentence(all: &View, excerpt: &View, size: usize) -> String {
    let counts = [
        (excerpt.policies.len(), all.policies.len(), "policies"),
        (excerpt.workloads.len(), all.workloads.len(), "workloads"),
    ];
    let shown: Vec<String> = counts
        .into_iter()
        .filter(|(some, every, _)| some < every)
        .map(|(some, every, things)| format!("{some} of {every} {things}"))
        .collect();
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

/// A view with some policies and the first workloads.
fn cut_view(view: &View, policies: &[usize], workloads: usize) -> View {
    let mut kept = policies.to_vec();
    kept.sort_unstable();
    let places = Places(
        (0..view.policies.len())
            .map(|policy| kept.binary_search(&policy).ok())
            .collect(),
    );
    let mut rows = places.keep_policies(&view.rows, |row| &mut row.policy);
    rows.retain(|row| row.workload < workloads);
    let mut answers = view.answers.clone();
    for answer in &mut answers {
        answer.policies = places.keep_policies(&answer.policies, |policy| policy);
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
            .map(|workload| places.cut_workload(workload))
            .collect(),
        sources: view.sources.clone(),
        commands: view.commands.clone(),
        results: view.results.clone(),
        left_out: None,
        made_by: view.made_by.clone(),
    }
}

/// The place of each policy in an excerpt; none for omitted policies.
struct Places(Vec<Option<usize>>);

impl Places {
    /// The parts for policies in the excerpt, with the policies' new places.
    fn keep_policies<T: Clone>(
        &self,
        parts: &[T],
        policy: impl Fn(&mut T) -> &mut usize,
    ) -> Vec<T> {
        let mut kept = Vec::new();
        for mut part in parts.iter().cloned() {
            let index = policy(&mut part);
            if let Some(place) = self.0.get(*index).copied().flatten() {
                *index = place;
                kept.push(part);
            }
        }
        kept
    }

    fn cut_workload(&self, workload: &PageWorkload) -> PageWorkload {
        PageWorkload {
            name: workload.name.clone(),
            about: workload.about.clone(),
            latency_of: workload.latency_of.clone(),
            curves: self.keep_policies(&workload.curves, |part| &mut part.policy),
            percentiles: self.keep_policies(&workload.percentiles, |part| &mut part.policy),
            parts: self.keep_policies(&workload.parts, |part| &mut part.policy),
            tradeoff: self.keep_policies(&workload.tradeoff, |part| &mut part.policy),
            idle: self.keep_policies(&workload.idle, |part| &mut part.policy),
            frequency: self.keep_policies(&workload.frequency, |part| &mut part.policy),
            timelines: self.keep_policies(&workload.timelines, |part| &mut part.policy),
        }
    }
}
