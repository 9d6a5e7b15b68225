//! Criteria: expectations, and whether the simulated cells meet them.

use serde::Serialize;

use super::TableCell;
use super::table::PlanRuns;
use crate::file::{ExpectEntry, Show, StudyError, Take};
use crate::plan::published::{Expectation, Table, format_decimal};

/// An expectation that was judged: a requirement on an experiment's cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Criterion {
    /// Expectation.
    pub expected: String,
    /// Finding.
    pub found: String,
    /// Whether the finding meets the expectation; `None` if nothing could be judged.
    pub met: bool,
    /// Whether the expectation is only reported: published, but not among what the experiment was set to reproduce.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub observation: bool,
}

/// The cells that an expectation is judged by.
struct Judged<'a> {
    cells: Vec<&'a TableCell>,
    /// Highest value among the cells to compare with.
    against: f64,
    show: Show,
    at_least: Option<usize>,
}

impl Criterion {
    /// Judges the cells of the tables by an expectation. `figures`: how many figures were fitted.
    ///
    /// # Errors
    /// A condition's metric is missing in the results.
    pub(super) fn judge(
        expectation: &Expectation,
        tables: &[Table],
        all: &[Vec<TableCell>],
        found: &PlanRuns<'_>,
        figures: usize,
    ) -> Result<Self, StudyError> {
        let entry = &expectation.entry;
        let mut cells = Vec::new();
        for &[table, cell] in &expectation.cells {
            let planned = &tables[table];
            let mut kept = true;
            for pair in &planned.cells[cell].pairs {
                let both = [
                    (&expectation.condition, Some(pair.at)),
                    (&expectation.base_condition, pair.base),
                ];
                for (condition, at) in both {
                    if let (Some((metric, condition)), Some(at)) = (condition, at) {
                        kept &= condition
                            .is_met_by(found.combine_metric_over_runs(planned, metric, at)?);
                    }
                }
            }
            if kept {
                cells.push(&all[table][cell]);
            }
        }
        let against = expectation
            .against
            .iter()
            .filter_map(|&[table, cell]| all[table][cell].simulated.number());
        let judged = Judged {
            cells,
            against: against.fold(f64::NEG_INFINITY, f64::max),
            show: expectation
                .cells
                .first()
                .map_or(Show::Value, |[table, _]| tables[*table].recipe.show),
            at_least: entry.at_least.as_ref().map(|least| *least.get_ref()),
        };
        let verdict = judged.judge_entry(entry, figures);
        let (found, met) = verdict.unwrap_or_else(|| ("nothing to judge by".to_owned(), false));
        Ok(Self {
            expected: entry.text.get_ref().clone(),
            found,
            met,
            observation: entry.observation,
        })
    }

    /// The outcome in a word or two: whether the expectation is met.
    pub fn outcome_in_words(&self) -> &'static str {
        match (self.observation, self.met) {
            (false, true) => "met",
            (false, false) => "not met",
            (true, true) => "observed",
            (true, false) => "not observed",
        }
    }
}

/// A finding in words, and whether the finding meets the expectation; `None`: there was nothing to judge.
type Verdict = Option<(String, bool)>;

impl Judged<'_> {
    /// Judges the cells by the only requirement that an entry has.
    fn judge_entry(&self, entry: &ExpectEntry, figures: usize) -> Verdict {
        if let Some(percent) = &entry.within_percent {
            self.judge_relative_errors(percent.get_ref() / 100.0)
        } else if entry.as_published.is_some() {
            self.judge_each_cell(|cell| cell.agrees)
        } else if entry.same_order.is_some() {
            self.judge_order()
        } else if let Some(least) = &entry.same_direction {
            // Smaller changes are chance: other seeds would turn them round.
            self.judge_changes(|published, simulated| {
                simulated.abs() >= least.get_ref() / 100.0
                    && published.signum() * simulated.signum() > 0.0
            })
        } else if let Some(within) = &entry.change_within {
            let within = within.get_ref();
            self.judge_changes(|published, simulated| {
                let share = published.abs() * within.percent / 100.0;
                (simulated - published).abs() <= share.max(within.points / 100.0)
            })
        } else if let Some(bounds) = entry.range_bounds() {
            self.judge_range(entry.take, bounds)
        } else if let Some(other) = &entry.less_than {
            self.judge_highest_against_others(other.get_ref().times)
        } else if let Some(most) = &entry.fitted_at_most {
            let most = most.get_ref();
            self.judge_fitted_amount(
                figures,
                most.figures.unwrap_or(usize::MAX),
                most.cells.unwrap_or(usize::MAX),
            )
        } else {
            None
        }
    }

    /// Whether `holding` cells among `all` are as many as the expectation requires.
    fn are_as_many_as_required(&self, holding: usize, all: usize) -> bool {
        holding >= self.at_least.unwrap_or(all)
    }

    /// Judges that every cell holds: `holds` returns `None` for cells that do not count.
    fn judge_each_cell(&self, holds: impl Fn(&TableCell) -> Option<bool>) -> Verdict {
        let judged: Vec<_> = self
            .cells
            .iter()
            .filter_map(|cell| Some((cell, holds(cell)?)))
            .collect();
        let against: Vec<String> = judged
            .iter()
            .filter(|(_, holds)| !holds)
            .map(|(cell, _)| cell.label_text())
            .collect();
        let (all, holding) = (judged.len(), judged.len() - against.len());
        let found = match against.join(", ") {
            none if none.is_empty() => format!("{holding} of {all}"),
            not => format!("{holding} of {all}, not {not}"),
        };
        (all > 0).then(|| (found, self.are_as_many_as_required(holding, all)))
    }

    /// Judges that simulated numbers are within `tolerance` of the published numbers, as a share.
    fn judge_relative_errors(&self, tolerance: f64) -> Verdict {
        let errors: Vec<_> = self
            .cells
            .iter()
            .filter_map(|cell| Some((cell, cell.relative_error?)))
            .collect();
        let holding = errors
            .iter()
            .filter(|(_, error)| error.abs() <= tolerance)
            .count();
        let worst = errors
            .iter()
            .max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
        let (cell, error) = worst?;
        let found = format!(
            "largest error {} % ({})",
            format_share(*error),
            cell.label_text()
        );
        Some((found, self.are_as_many_as_required(holding, errors.len())))
    }

    /// Judges each cell by its published and its simulated change, which `holds` gets as shares.
    fn judge_changes(&self, holds: impl Fn(f64, f64) -> bool) -> Verdict {
        self.judge_each_cell(|cell| {
            let published = self.shown_value_as_change(cell.published.number_or_median()?);
            Some(holds(
                published,
                self.shown_value_as_change(cell.simulated.number()?),
            ))
        })
    }

    /// A value, as the table shows it, converted to a change as a share: 0.1 for 10 % more.
    fn shown_value_as_change(&self, value: f64) -> f64 {
        match self.show {
            Show::Percent => value / 100.0,
            _ => value - 1.0,
        }
    }

    /// Judges that simulated numbers are in the published order.
    fn judge_order(&self) -> Verdict {
        let numbers: Vec<&&TableCell> = self
            .cells
            .iter()
            .filter(|cell| cell.relative_error.is_some())
            .collect();
        let published = indices_sorted_by_value(&numbers, |cell| cell.published.number_or_median());
        let simulated = indices_sorted_by_value(&numbers, |cell| cell.simulated.number());
        let names: Vec<String> = simulated
            .iter()
            .map(|index| numbers[*index].label_text())
            .collect();
        (!numbers.is_empty()).then(|| (names.join(" < "), published == simulated))
    }

    /// Judges that all simulated numbers, or their lowest or highest, are within bounds.
    fn judge_range(&self, take: Take, bounds: [Option<f64>; 2]) -> Verdict {
        let mut numbers = self.simulated_numbers();
        numbers.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let (lowest, highest) = (numbers.first()?, numbers.last()?);
        Some(match take {
            Take::Lowest => self.judge_value_in_range(lowest, bounds),
            Take::Highest => self.judge_value_in_range(highest, bounds),
            Take::Each if numbers.len() == 1 => self.judge_value_in_range(lowest, bounds),
            Take::Each => {
                let within = numbers
                    .iter()
                    .filter(|(_, value)| is_within_bounds(*value, bounds));
                let holding = within.count();
                let [low, high] = [lowest.1, highest.1].map(|value| self.format_shown_value(value));
                let low = low.split(' ').next().unwrap_or_default();
                let found = format!("{low} to {high} in {} cells", numbers.len());
                (found, self.are_as_many_as_required(holding, numbers.len()))
            }
        })
    }

    /// A cell's number in words, and whether the number is within bounds.
    fn judge_value_in_range(
        &self,
        (cell, value): &(&TableCell, f64),
        bounds: [Option<f64>; 2],
    ) -> (String, bool) {
        let found = format!(
            "{} ({})",
            self.format_shown_value(*value),
            cell.label_text()
        );
        (found, is_within_bounds(*value, bounds))
    }

    /// Judges that the highest number is less than `times` the highest of the other cells.
    fn judge_highest_against_others(&self, times: f64) -> Verdict {
        let numbers = self.simulated_numbers();
        let highest = numbers
            .into_iter()
            .map(|(_, value)| value)
            .reduce(f64::max)?;
        let found = format!(
            "{} against {}",
            self.format_shown_value(highest),
            self.format_shown_value(self.against)
        );
        Some((found, highest < times * self.against))
    }

    /// Judges that at most so many figures and cells were fitted, and at least one cell was not.
    fn judge_fitted_amount(
        &self,
        figures: usize,
        most_figures: usize,
        most_cells: usize,
    ) -> Verdict {
        let cells = self.cells.iter().filter(|cell| cell.fitted).count();
        if self.cells.is_empty() {
            return None;
        }
        let found = format!(
            "{figures} fitted, with {cells} of {} cells in view",
            self.cells.len()
        );
        let met = figures <= most_figures && cells <= most_cells && cells < self.cells.len();
        Some((found, met))
    }

    fn simulated_numbers(&self) -> Vec<(&TableCell, f64)> {
        let cells = self.cells.iter();
        cells
            .filter_map(|cell| Some((*cell, cell.simulated.number()?)))
            .collect()
    }

    /// A number as the table shows it: a value, a ratio or a change.
    fn format_shown_value(&self, value: f64) -> String {
        match self.show {
            Show::Value => format_decimal(value),
            Show::Ratio => format!("{value:.3} times"),
            Show::Percent => format!("{} %", format_share(value / 100.0)),
        }
    }
}

/// Formats a share in percent with its sign; a share that rounds to zero has no sign.
pub fn format_share(share: f64) -> String {
    let tenths = (share * 1000.0).round();
    if tenths == 0.0 {
        "0.0".to_owned()
    } else {
        format!("{:+.1}", tenths / 10.0)
    }
}

/// Indices into cells, sorted by ascending value.
fn indices_sorted_by_value(
    cells: &[&&TableCell],
    value: fn(&TableCell) -> Option<f64>,
) -> Vec<usize> {
    let values: Vec<f64> = cells
        .iter()
        .map(|cell| value(cell).unwrap_or_default())
        .collect();
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    order
}

fn is_within_bounds(value: f64, [from, to]: [Option<f64>; 2]) -> bool {
    from.is_none_or(|from| value >= from) && to.is_none_or(|to| value <= to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::published::Published;
    use crate::reproduce::Value;

    fn cell(name: &str, published: Published, simulated: f64) -> TableCell {
        let labels = vec![name.to_owned()];
        TableCell::new(labels, published, Value::Number(simulated), false)
    }

    fn judged(cells: &[TableCell]) -> Judged<'_> {
        Judged {
            cells: cells.iter().collect(),
            against: 10.0,
            show: Show::Value,
            at_least: None,
        }
    }

    fn number(name: &str, published: f64, simulated: f64) -> TableCell {
        cell(name, Published::Number(published), simulated)
    }

    #[test]
    fn the_worst_cell_decides_unless_fewer_are_enough() {
        let cells = [number("near", 100.0, 104.0), number("far", 100.0, 85.0)];
        let near = judged(&cells[..1]).judge_relative_errors(0.1).unwrap();
        assert_eq!(near, ("largest error +4.0 % (near)".to_owned(), true));
        let mut both = judged(&cells);
        let missed = both.judge_relative_errors(0.1).unwrap();
        assert_eq!(missed, ("largest error -15.0 % (far)".to_owned(), false));
        both.at_least = Some(1);
        assert!(both.judge_relative_errors(0.1).unwrap().1);
    }

    #[test]
    fn order_bounds_and_ranges_are_checked() {
        let rising = |simulated: [f64; 3]| -> Vec<TableCell> {
            let cells = [1.0, 2.0, 3.0].into_iter().zip(simulated);
            cells.map(|(p, s)| number(&p.to_string(), p, s)).collect()
        };
        assert!(judged(&rising([5.0, 6.0, 9.0])).judge_order().unwrap().1);
        let turned = judged(&rising([5.0, 4.0, 9.0])).judge_order().unwrap();
        assert_eq!(turned, ("2 < 1 < 3".to_owned(), false));
        let below = |to| {
            cell(
                "x",
                Published::Between {
                    from: None,
                    to: Some(to),
                },
                5.0,
            )
        };
        let agree =
            |cells: &[TableCell]| judged(cells).judge_each_cell(|cell| cell.agrees).unwrap();
        assert_eq!(agree(&[below(6.0)]), ("1 of 1".to_owned(), true));
        assert_eq!(
            agree(&[below(6.0), below(4.0)]),
            ("1 of 2, not x".to_owned(), false)
        );
        let cells = rising([5.0, 4.0, 9.0]);
        let range = |take, from, to| {
            judged(&cells)
                .judge_range(take, [Some(from), Some(to)])
                .unwrap()
        };
        assert_eq!(
            range(Take::Each, 4.0, 9.0),
            ("4 to 9 in 3 cells".to_owned(), true)
        );
        assert!(!range(Take::Each, 4.5, 9.0).1 && range(Take::Lowest, 3.0, 4.0).1);
        assert_eq!(range(Take::Highest, 4.0, 8.0), ("9 (3)".to_owned(), false));
        assert!(judged(&cells).judge_highest_against_others(1.0).unwrap().1);
        assert!(!judged(&cells).judge_highest_against_others(0.9).unwrap().1);
    }

    #[test]
    fn changes_have_a_direction_and_a_size() {
        let cells = [number("up", 1.5, 1.4), number("chance", 0.99, 0.9995)];
        let mut ratios = judged(&cells);
        ratios.show = Show::Ratio;
        assert_eq!(
            ratios
                .judge_changes(|published: f64, simulated: f64| published * simulated > 0.0
                    && simulated.abs() > 0.005)
                .unwrap(),
            ("1 of 2, not chance".to_owned(), false)
        );
        assert!(
            ratios
                .judge_changes(
                    |published: f64, simulated: f64| (published - simulated).abs() < 0.11
                )
                .unwrap()
                .1
        );
    }

    #[test]
    fn nothing_proves_nothing() {
        let empty = judged(&[]);
        let verdicts = [
            empty.judge_relative_errors(0.1),
            empty.judge_each_cell(|cell| cell.agrees),
            empty.judge_order(),
            empty.judge_range(Take::Each, [None, None]),
            empty.judge_highest_against_others(1.0),
            empty.judge_fitted_amount(0, 1, 1),
        ];
        assert!(verdicts.iter().all(Option::is_none));
    }
}
