//! Excerpts from results too large for a page: the most interesting policies, then the first workloads.

use super::view::{Focus, LoadSeries, PageRow, PageWorkload, View};

/// Largest report page, in bytes.
pub const LARGEST_PAGE: usize = 5_000_000;

/// Policies shown in the pictures at first: more lines at once are a tangle.
pub(crate) const AT_FIRST: usize = 8;

/// Policies by interest for a reader: baselines, policies named in answers, policies on Pareto fronts, the best by each
/// metric on each workload, then the rest in the order of the study.
pub(crate) fn rank_policies_by_interest(view: &View) -> Vec<usize> {
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
        .chain(policies_that_gain_most_per_metric_and_workload(view))
        .chain(all)
    {
        if let Some(seen) = seen.get_mut(policy).filter(|seen| !**seen) {
            *seen = true;
            order.push(policy);
        }
    }
    order
}

/// For each metric and workload the policy with the largest gain over the baseline.
fn policies_that_gain_most_per_metric_and_workload(view: &View) -> Vec<usize> {
    let mut groups: Vec<&[PageRow]> = view
        .rows
        .chunk_by(|a, b| (a.workload, a.metric) == (b.workload, b.metric))
        .collect();
    groups.sort_by_key(|rows| rows.first().map(|r| r.metric));
    let best = groups.into_iter().filter_map(|rows| {
        let gained = rows.iter().filter(|r| r.gain.is_some());
        gained.rev().max_by(|a, b| {
            a.gain_percent_or_lowest()
                .total_cmp(&b.gain_percent_or_lowest())
        })
    });
    best.map(|row| row.policy).collect()
}

/// Renders as many policies and workloads as fit on a page. `whole_page_bytes` is the size of a page with all, in bytes.
pub(crate) fn render_excerpt_for_page_limit<E>(
    view: &View,
    order: &[usize],
    whole_page_bytes: usize,
    render: impl Fn(&View) -> Result<String, E>,
) -> Result<String, E> {
    let baselines = view.policies.iter().filter(|p| p.baseline).count();
    let few = AT_FIRST.max(baselines).min(order.len());
    let (policies, workloads) = (order.len(), view.workloads.len());
    let render_some = |policies: usize, workloads: usize| {
        let mut excerpt = keep_policies_and_first_workloads(view, &order[..policies], workloads);
        excerpt.left_out = Some(say_how_much_excerpt_shows(view, &excerpt, whole_page_bytes));
        render(&excerpt)
    };
    if let Some(page) = render_largest_fitting_excerpt([few, policies], whole_page_bytes, |n| {
        render_some(n, workloads)
    })? {
        return Ok(page);
    }
    match render_largest_fitting_excerpt([1, workloads], whole_page_bytes, |n| render_some(few, n))?
    {
        Some(page) => Ok(page),
        None => render_some(few, 1.min(workloads)),
    }
}

/// Looks for the largest page within [`LARGEST_PAGE`] that shows from `few` to below `all` policies or workloads. A page with
/// `all` has `whole_page_bytes` bytes. `None` if even a page with `few` is too large.
fn render_largest_fitting_excerpt<E>(
    [few, all]: [usize; 2],
    whole_page_bytes: usize,
    render: impl Fn(usize) -> Result<String, E>,
) -> Result<Option<String>, E> {
    if few >= all {
        return Ok(None);
    }
    let mut fits = (few, render(few)?);
    let mut over = (all, whole_page_bytes);
    if fits.1.len() > LARGEST_PAGE {
        return Ok(None);
    }
    // Each policy or workload adds about the same size, so a straight line between both ends leads close.
    while over.0 - fits.0 > 1 && fits.1.len() < LARGEST_PAGE / 100 * 95 {
        let (bytes, things) = (over.1 - fits.1.len(), over.0 - fits.0);
        // The guess is a little lower, or pages would often be just too large.
        let room = (LARGEST_PAGE - fits.1.len()) / 100 * 98;
        let more = (room as f64 / bytes as f64 * things as f64) as usize;
        let next = (fits.0 + more).clamp(fits.0 + 1, over.0 - 1);
        let page = render(next)?;
        if page.len() <= LARGEST_PAGE {
            fits = (next, page);
        } else {
            over = (next, page.len());
        }
    }
    Ok(Some(fits.1))
}

/// A sentence for the page: how many policies and workloads it shows, and where all are.
fn say_how_much_excerpt_shows(all: &View, excerpt: &View, whole_page_bytes: usize) -> String {
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
        whole_page_bytes as f64 / 1e6,
        all.policies.len(),
    )
}

/// A view with these policies and the first workloads only. Policy indices become those of the smaller view.
fn keep_policies_and_first_workloads(view: &View, policies: &[usize], workloads: usize) -> View {
    let mut kept = policies.to_vec();
    kept.sort_unstable();
    let places = ExcerptIndices(
        (0..view.policies.len())
            .map(|policy| kept.binary_search(&policy).ok())
            .collect(),
    );
    let mut rows = places.copy_parts_with_new_policy_indices(&view.rows, |row| &mut row.policy);
    rows.retain(|row| row.workload < workloads);
    let mut answers = view.answers.clone();
    for answer in &mut answers {
        answer.policies =
            places.copy_parts_with_new_policy_indices(&answer.policies, |policy| policy);
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
        assumed_figures: view.assumed_figures,
        focus: view.focus.clone().map(|focus| Focus {
            winner: focus
                .winner
                .and_then(|policy| places.index_in_excerpt(policy)),
            ..focus
        }),
        load_series: view
            .load_series
            .iter()
            .map(|series| keep_points_of_first_workloads(series, workloads))
            .collect(),
        workloads: view.workloads[..workloads]
            .iter()
            .map(|workload| places.copy_workload_without_omitted_policies(workload))
            .collect(),
        sources: view.sources.clone(),
        commands: view.commands.clone(),
        results: view.results.clone(),
        left_out: None,
        made_by: view.made_by.clone(),
    }
}

/// A series over the load with the points of the first workloads.
fn keep_points_of_first_workloads(series: &LoadSeries, workloads: usize) -> LoadSeries {
    let mut cut = series.clone();
    cut.points.retain(|(_, workload)| *workload < workloads);
    cut
}

/// The index of each policy in a smaller view; `None` for policies that the smaller view leaves out.
struct ExcerptIndices(Vec<Option<usize>>);

impl ExcerptIndices {
    /// The place of a policy in the excerpt; `None` if the excerpt leaves the policy out.
    fn index_in_excerpt(&self, policy: usize) -> Option<usize> {
        self.0.get(policy).copied().flatten()
    }

    /// Copies parts that belong to policies of the smaller view, with the policies' new indices.
    fn copy_parts_with_new_policy_indices<T: Clone>(
        &self,
        parts: &[T],
        policy: impl Fn(&mut T) -> &mut usize,
    ) -> Vec<T> {
        let mut kept = Vec::new();
        for mut part in parts.iter().cloned() {
            let index = policy(&mut part);
            if let Some(place) = self.index_in_excerpt(*index) {
                *index = place;
                kept.push(part);
            }
        }
        kept
    }

    fn copy_workload_without_omitted_policies(&self, workload: &PageWorkload) -> PageWorkload {
        PageWorkload {
            name: workload.name.clone(),
            about: workload.about.clone(),
            latency_of: workload.latency_of.clone(),
            curves: self
                .copy_parts_with_new_policy_indices(&workload.curves, |part| &mut part.policy),
            percentiles: self
                .copy_parts_with_new_policy_indices(&workload.percentiles, |part| &mut part.policy),
            parts: self
                .copy_parts_with_new_policy_indices(&workload.parts, |part| &mut part.policy),
            tradeoff: self
                .copy_parts_with_new_policy_indices(&workload.tradeoff, |part| &mut part.policy),
            idle: self.copy_parts_with_new_policy_indices(&workload.idle, |part| &mut part.policy),
            frequency: self
                .copy_parts_with_new_policy_indices(&workload.frequency, |part| &mut part.policy),
            timelines: self
                .copy_parts_with_new_policy_indices(&workload.timelines, |part| &mut part.policy),
        }
    }
}
