//! How many figures of a machine come from where.

use std::fmt;

use serde::Serialize;

use super::{Machine, MachineFigure, Origin};

/// Numbers of a machine's figures by origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FigureCounts {
    /// Figures measured on the machine itself.
    pub measured: usize,
    /// Figures with a published source.
    pub published: usize,
    /// Figures that firmware, driver or device declares.
    pub declared: usize,
    /// Figures chosen to meet published results.
    pub fitted: usize,
    /// Figures with no better reason than plausibility, or taken from another machine.
    pub assumed: usize,
}

impl FigureCounts {
    /// Counts the given figures among some.
    pub fn count<'a>(figures: impl IntoIterator<Item = &'a MachineFigure>) -> Self {
        let mut counts = Self::default();
        for figure in figures {
            let count = match figure.figure.origin {
                Origin::Default => continue,
                Origin::Table | Origin::Source(_) => &mut counts.published,
                Origin::Declared(_) => &mut counts.declared,
                Origin::Measured(_) => &mut counts.measured,
                Origin::Fitted(_) => &mut counts.fitted,
                Origin::Assumed(_) => &mut counts.assumed,
            };
            *count += 1;
        }
        counts
    }

    fn kinds_with_names(self) -> [(usize, &'static str); 5] {
        [
            (self.measured, "measured"),
            (self.published, "published"),
            (self.declared, "declared"),
            (self.fitted, "fitted"),
            (self.assumed, "assumed"),
        ]
    }
}

/// The kinds with figures, such as `16 published, 9 assumed`.
impl fmt::Display for FigureCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds_with_names().into_iter();
        let given: Vec<String> = kinds
            .filter(|(count, _)| *count > 0)
            .map(|(count, kind)| format!("{count} {kind}"))
            .collect();
        f.write_str(&given.join(", "))
    }
}

impl Machine {
    /// How many of the machine's figures come from where.
    pub fn count_figures_by_origin(&self) -> FigureCounts {
        FigureCounts::count(&self.figures())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Figure, builtin_machine_names};

    #[test]
    fn each_given_figure_counts_once() {
        for name in builtin_machine_names().chain(["spr1", "rome0"]) {
            let machine = Machine::find(name).unwrap();
            let figures = machine.figures();
            let given = figures.iter().filter(|figure| figure.figure.is_given());
            let kinds = machine.count_figures_by_origin().kinds_with_names();
            let counted: usize = kinds.iter().map(|(count, _)| count).sum();
            assert_eq!(counted, given.count(), "{name}");
        }
    }

    #[test]
    fn a_figure_with_another_origin_moves_from_one_count_to_the_other() {
        let mut machine = Machine::find("rk3399").unwrap();
        let before = machine.count_figures_by_origin();
        assert_eq!(before.fitted, 3, "{before}");
        machine.idle_state[0].exit_latency_us = Figure::assumed(1.0, "test");
        let after = machine.count_figures_by_origin();
        assert_eq!(
            (after.published, after.assumed),
            (before.published - 1, before.assumed + 1)
        );
        assert!(
            after
                .to_string()
                .ends_with(&format!("3 fitted, {} assumed", after.assumed))
        );
    }
}
