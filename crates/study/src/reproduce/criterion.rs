//! What is expected of a part, as a check of its cells.

use serde::Serialize;

use super::{Cell, Value};

/// Something that has to hold for the cells of a part.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Criterion {
    /// What is expected.
    pub expected: String,
    /// What the cells say.
    pub found: String,
    /// Whether that is what was expected.
    pub met: bool,
    /// Published, but not among what this part was set to reproduce: reported beside the criteria, and not
    /// counted with them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub observation: bool,
}

impl Criterion {
    /// Something that was found to hold or not.
    pub fn new(expected: impl Into<String>, found: impl Into<String>, met: bool) -> Self {
        Self {
            expected: expected.into(),
            found: found.into(),
            met,
            observation: false,
        }
    }

    /// The same as an observation.
    #[must_use]
    pub fn as_observation(mut self) -> Self {
        self.observation = true;
        self
    }

    /// How it came out, in a word or two.
    pub fn verdict(&self) -> &'static str {
        match (self.observation, self.met) {
            (false, true) => "met",
            (false, false) => "not met",
            (true, true) => "observed",
            (true, false) => "not observed",
        }
    }

    /// Every cell with a published number is within `tolerance` of it, as a share: 0.1 is 10 %.
    /// Not met without such a cell.
    pub fn within<'a>(
        expected: impl Into<String>,
        tolerance: f64,
        cells: impl IntoIterator<Item = &'a Cell>,
    ) -> Self {
        let worst = cells
            .into_iter()
            .filter_map(|cell| Some((cell, cell.relative_error?)))
            .max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
        match worst {
            Some((cell, error)) => Self::new(
                expected,
                format!("largest error {} % ({})", percent(error), cell.name()),
                error.abs() <= tolerance,
            ),
            None => Self::nothing(expected),
        }
    }

    /// Every cell with a published text or bound agrees with it. Not met without such a cell.
    pub fn agree<'a>(
        expected: impl Into<String>,
        cells: impl IntoIterator<Item = &'a Cell>,
    ) -> Self {
        let judged: Vec<&Cell> = cells
            .into_iter()
            .filter(|cell| cell.agrees.is_some())
            .collect();
        if judged.is_empty() {
            return Self::nothing(expected);
        }
        let against: Vec<String> = judged
            .iter()
            .filter(|cell| cell.agrees == Some(false))
            .map(|cell| cell.name())
            .collect();
        let found = if against.is_empty() {
            format!("{} of {}", judged.len(), judged.len())
        } else {
            format!("not {}", against.join(", "))
        };
        Self::new(expected, found, against.is_empty())
    }

    /// The simulated numbers of the cells come in the order of the published ones.
    pub fn same_order(expected: impl Into<String>, cells: &[Cell]) -> Self {
        let by = |value: fn(&Cell) -> Option<f64>| {
            let mut order: Vec<(usize, f64)> = cells
                .iter()
                .enumerate()
                .filter(|(_, cell)| cell.relative_error.is_some())
                .filter_map(|(index, cell)| Some((index, value(cell)?)))
                .collect();
            order.sort_by(|(_, a), (_, b)| a.total_cmp(b));
            order.into_iter().map(|(index, _)| index).collect()
        };
        let published: Vec<usize> = by(|cell| cell.published.number());
        let simulated: Vec<usize> = by(|cell| cell.simulated.number());
        if published.is_empty() {
            return Self::nothing(expected);
        }
        let names: Vec<String> = simulated.iter().map(|i| cells[*i].name()).collect();
        Self::new(expected, names.join(" < "), published == simulated)
    }

    fn nothing(expected: impl Into<String>) -> Self {
        Self::new(expected, "nothing to judge by", false)
    }
}

/// A share in percent with its sign; nothing has none.
pub fn percent(share: f64) -> String {
    let tenths = (share * 1000.0).round();
    if tenths == 0.0 {
        "0.0".to_owned()
    } else {
        format!("{:+.1}", tenths / 10.0)
    }
}

impl Cell {
    /// Its labels in one text.
    pub fn name(&self) -> String {
        self.labels.join(" / ")
    }
}

impl Value {
    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::Published;

    fn cell(name: &str, published: Published, simulated: f64) -> Cell {
        let labels = vec![name.to_owned()];
        Cell::new(labels, published, Value::Number(simulated), false)
    }

    #[test]
    fn the_worst_cell_decides() {
        let near = cell("near", Published::Number(100.0), 104.0);
        let far = cell("far", Published::Number(100.0), 85.0);
        let met = Criterion::within("10 %", 0.1, [&near]);
        assert!(met.met && met.found.contains("+4.0 % (near)"), "{met:?}");
        let missed = Criterion::within("10 %", 0.1, [&near, &far]);
        assert!(
            !missed.met && missed.found.contains("-15.0 % (far)"),
            "{missed:?}"
        );
        let order = [near, far];
        assert!(Criterion::same_order("order", &order[..1]).met);
    }

    #[test]
    fn order_and_bounds_are_checked_and_nothing_proves_nothing() {
        let rising = [1.0, 2.0, 3.0];
        let cells = |simulated: [f64; 3]| -> Vec<Cell> {
            (rising.iter().zip(simulated))
                .map(|(p, s)| cell(&p.to_string(), Published::Number(*p), s))
                .collect()
        };
        assert!(Criterion::same_order("order", &cells([5.0, 6.0, 9.0])).met);
        assert!(!Criterion::same_order("order", &cells([5.0, 4.0, 9.0])).met);
        let bound = |to| {
            let published = Published::Between {
                from: None,
                to: Some(to),
            };
            cell("x", published, 5.0)
        };
        assert!(Criterion::agree("bounds", [&bound(6.0)]).met);
        let missed = Criterion::agree("bounds", [&bound(6.0), &bound(4.0)]);
        assert_eq!((missed.met, missed.found.as_str()), (false, "not x"));
        for empty in [
            Criterion::within("w", 0.1, []),
            Criterion::agree("a", []),
            Criterion::same_order("o", &[]),
        ] {
            assert!(!empty.met, "{empty:?}");
        }
    }
}
