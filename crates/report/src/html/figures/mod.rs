//! The pictures, each with a title, an alternative text, a table, and data for `charts.js`.

mod colours;
mod figure;
mod frequency;
mod gains;
mod idle;
mod latency;
mod load;
mod parts;
mod timeline;
mod tradeoff;

use super::view::{PageWorkload, View};

pub(crate) use colours::list_names_to_colour;
pub(crate) use figure::{Figure, Group, Slot};
pub(crate) use gains::draw_gains;
pub(crate) use load::draw_load_curves;

/// A function that draws a workload's figure, the title, and a sentence where the figure cannot be drawn.
type Draw = (
    fn(&View, &PageWorkload) -> Option<Figure>,
    &'static str,
    &'static str,
);

/// Groups of pictures of a workload: title, end of the id, pictures.
const GROUPS: [(&str, &str, &[Draw]); 5] = [
    (
        "Latency",
        "latency",
        &[
            (
                latency::draw_distribution,
                "Latency distribution",
                "These results have no latency histogram.",
            ),
            (
                latency::draw_percentiles,
                "Percentiles",
                "These results have no latency percentiles.",
            ),
        ],
    ),
    (
        "Where a request's time goes",
        "parts",
        &[(
            parts::draw_parts,
            "Parts of the latency",
            "These results do not say what latency is made of: only simulations and recorded requests can.",
        )],
    ),
    (
        "Power against latency",
        "power",
        &[(
            tradeoff::draw_tradeoff,
            "Power against latency",
            "These results do not have both power and latency.",
        )],
    ),
    (
        "Idle states and frequencies",
        "cpus",
        &[
            (
                idle::draw_residency,
                "Time in idle states",
                "These results have no idle-state residencies.",
            ),
            (
                idle::draw_misfits,
                "Too deep, too shallow",
                "These results do not say which idle states were too deep or too shallow.",
            ),
            (
                frequency::draw_frequencies,
                "Frequencies",
                "These results have no frequencies.",
            ),
        ],
    ),
    (
        "A few milliseconds",
        "timeline",
        &[(
            timeline::draw_timelines,
            "Timelines",
            "These results have no timelines.",
        )],
    ),
];

/// Draws all pictures of a workload in their groups; `prefix` begins the ids of the pictures.
pub(crate) fn draw_workload_groups(
    view: &View,
    workload: &PageWorkload,
    prefix: &str,
) -> Vec<Group> {
    GROUPS
        .iter()
        .map(|(title, id, draws)| Group {
            title,
            id,
            slots: draws
                .iter()
                .map(|draw| draw_or_explain_absence(view, workload, prefix, draw))
                .collect(),
        })
        .collect()
}

fn draw_or_explain_absence(
    view: &View,
    workload: &PageWorkload,
    prefix: &str,
    (draw, title, missing): &Draw,
) -> Slot {
    match draw(view, workload) {
        None => Slot::Missing { title, missing },
        Some(mut figure) => {
            figure.id = format!("{prefix}-{}", figure.kind);
            Slot::Figure(Box::new(figure))
        }
    }
}
