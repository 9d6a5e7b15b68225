//! Tables for people that are not wider than what they are shown on.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::fold::{fold, hanging, widest_piece, width};

/// Blanks between two columns.
const GAP: usize = 2;

/// A column is folded to no less than this, unless there is no other way: a longer word is broken.
const WORD: usize = 40;

/// Where there is no other way, it is this.
const SHORT_WORD: usize = 12;

/// No number with its deviation and its gain is wider.
const NUMBER: usize = 32;

/// From this width on, what continues in a cell is indented.
const INDENTED_FROM: usize = 16;

/// A column with its header and its cells.
#[derive(Clone, Debug)]
struct Column {
    header: String,
    cells: Vec<String>,
    /// Whether it stands to the right.
    numeric: bool,
}

impl Column {
    /// As wide as it likes to be.
    fn natural(&self) -> usize {
        self.widest_cell(width).max(width(&self.header))
    }

    /// As narrow as it can be with words of at most so many columns.
    fn least(&self, word: usize) -> usize {
        let header = widest_piece(&self.header);
        if self.is_kept() {
            self.widest_cell(width).max(header)
        } else {
            self.widest_cell(widest_piece).max(header).min(word)
        }
    }

    /// Whether its cells are numbers, which are never broken, and no sentences that begin with one.
    fn is_kept(&self) -> bool {
        self.numeric && self.widest_cell(width) <= NUMBER
    }

    fn widest_cell(&self, measure: fn(&str) -> usize) -> usize {
        let widths = self.cells.iter().map(|cell| measure(cell));
        widths.max().unwrap_or(0)
    }

    /// The lines of a cell.
    fn lines(&self, cell: &str, columns: usize) -> Vec<String> {
        if self.is_kept() || columns < INDENTED_FROM {
            fold(cell, columns)
        } else {
            hanging(cell, columns, 2)
        }
    }
}

/// The lines of a table. Where its columns cannot be folded to so many columns, it becomes several tables that begin with
/// the same columns.
pub(super) fn lines(header: &[String], rows: &[Vec<String>], columns: usize) -> Vec<String> {
    let table = header.iter().enumerate().map(|(index, header)| {
        let cells = rows
            .iter()
            .map(|row| row.get(index).cloned().unwrap_or_default());
        let cells: Vec<String> = cells.collect();
        let signs = |c: char| c.is_ascii_digit() || "+-".contains(c);
        Column {
            header: header.clone(),
            numeric: cells
                .iter()
                .all(|cell| cell.is_empty() || cell.starts_with(signs))
                && cells.iter().any(|cell| !cell.is_empty()),
            cells,
        }
    });
    let table: Vec<Column> = table.collect();
    let all: Vec<&Column> = table.iter().collect();
    if let Some(widths) = fitted(&all, columns, WORD) {
        return rendered(&all, &widths);
    }
    let parts = parts(&all, columns);
    let mut lines = Vec::new();
    for part in parts {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let widths = [WORD, SHORT_WORD, 1]
            .into_iter()
            .find_map(|word| fitted(&part, columns, word));
        // Numbers are never cut, even where they do not fit.
        let widths = widths.unwrap_or_else(|| part.iter().map(|column| column.least(1)).collect());
        lines.extend(rendered(&part, &widths));
    }
    lines
}

/// Widths with which the columns fit; none if there are none.
fn fitted(table: &[&Column], columns: usize, word: usize) -> Option<Vec<usize>> {
    let mut widths: Vec<usize> = table.iter().map(|column| column.natural()).collect();
    let least: Vec<usize> = table.iter().map(|column| column.least(word)).collect();
    let gaps = GAP * table.len().saturating_sub(1);
    // A folded header costs a line, a folded cell one for each row.
    for numeric in [true, false] {
        while widths.iter().sum::<usize>() + gaps > columns {
            let foldable = (0..table.len())
                .filter(|i| table[*i].is_kept() == numeric && widths[*i] > least[*i]);
            let Some(widest) = foldable.max_by_key(|i| widths[*i]) else {
                break;
            };
            widths[widest] -= 1;
        }
    }
    (widths.iter().sum::<usize>() + gaps <= columns).then_some(widths)
}

/// The columns in groups that fit, each after the columns that name a row.
fn parts<'a>(table: &[&'a Column], columns: usize) -> Vec<Vec<&'a Column>> {
    let (names, rest) = table.split_at(naming(table, columns));
    let width = |column: &&Column| GAP + column.least(WORD);
    let label = names.iter().map(width).sum::<usize>();
    let label = label.saturating_sub(GAP).min(columns / 2);
    let mut parts = vec![names.to_vec()];
    let mut taken = label;
    for column in rest {
        let wanted = width(column);
        let part = parts.last().map_or(0, Vec::len);
        if part > names.len() && taken + wanted > columns {
            parts.push(names.to_vec());
            taken = label;
        }
        taken += wanted;
        if let Some(part) = parts.last_mut() {
            part.push(column);
        }
    }
    parts
}

/// How many of the first columns tell the rows apart, if these take no more than half of the space; else 1.
fn naming(table: &[&Column], columns: usize) -> usize {
    let mut taken = 0;
    for (index, column) in table.iter().enumerate() {
        taken += column.natural();
        if taken > columns / 2 {
            break;
        }
        if tell_apart(&table[..=index]) {
            return index + 1;
        }
        taken += GAP;
    }
    table.len().min(1)
}

/// Whether no two rows have the same cells.
fn tell_apart(table: &[&Column]) -> bool {
    let rows = table.first().map_or(0, |column| column.cells.len());
    let mut seen = BTreeSet::new();
    (0..rows).all(|row| {
        let cells = table.iter().map(|column| column.cells[row].as_str());
        seen.insert(cells.collect::<Vec<_>>())
    })
}

fn rendered(table: &[&Column], widths: &[usize]) -> Vec<String> {
    let rows = table.first().map_or(0, |column| column.cells.len());
    let header = row(table, widths, |column| &column.header);
    let body = (0..rows).flat_map(|index| row(table, widths, move |column| &column.cells[index]));
    header.into_iter().chain(body).collect()
}

/// The lines of a row.
fn row<'a>(
    table: &[&'a Column],
    widths: &[usize],
    cell: impl Fn(&'a Column) -> &'a String,
) -> Vec<String> {
    let cells = table.iter().zip(widths);
    let cells: Vec<Vec<String>> = cells
        .map(|(column, columns)| column.lines(cell(column), *columns))
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let lines = (0..height).map(|number| {
        let mut line = String::new();
        for ((column, columns), cell) in table.iter().zip(widths).zip(&cells) {
            let text = cell.get(number).map_or("", String::as_str);
            let blanks = " ".repeat(columns.saturating_sub(width(text)));
            let gap = " ".repeat(GAP);
            let _ = if column.numeric {
                write!(line, "{blanks}{text}{gap}")
            } else {
                write!(line, "{text}{blanks}{gap}")
            };
        }
        line.truncate(line.trim_end().len());
        line
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(row: &[&str]) -> Vec<String> {
        row.iter().map(|&cell| cell.to_owned()).collect()
    }

    #[test]
    fn names_are_folded_and_numbers_are_not() {
        let header = texts(&["policy", "p99 us", "too shallow"]);
        let rows = [
            texts(&["teo + psd[timeout=3ms,ceiling=C1E]", "188.345", "12"]),
            texts(&["menu", "9.5", "3"]),
        ];
        assert_eq!(
            lines(&header, &rows, 60)[1],
            "teo + psd[timeout=3ms,ceiling=C1E]  188.345           12"
        );
        assert_eq!(
            lines(&header, &rows, 40),
            [
                "policy                   p99 us      too",
                "                                 shallow",
                "teo + psd[timeout=3ms,  188.345       12",
                "  ceiling=C1E]",
                "menu                        9.5        3",
            ]
        );
    }

    #[test]
    fn a_table_of_many_numbers_becomes_several() {
        let names: Vec<String> = (0..10).map(|n| format!("column{n}")).collect();
        let header: Vec<String> = std::iter::once("load".to_owned()).chain(names).collect();
        let row: Vec<String> = std::iter::once("reads".to_owned())
            .chain((0..10).map(|n| (1_000_000 + n).to_string()))
            .collect();
        let shown = lines(&header, &[row], 60);
        assert_eq!(
            shown[0],
            "load   column0  column1  column2  column3  column4  column5"
        );
        assert_eq!(
            shown[1],
            "reads  1000000  1000001  1000002  1000003  1000004  1000005"
        );
        assert_eq!(shown[3], "load   column6  column7  column8  column9");
    }

    #[test]
    fn each_part_names_its_rows() {
        let header = texts(&["cpu", "state", "entries", "above", "below", "rejected"]);
        let row = |state: &str| texts(&["all", state, "10000000", "10000000", "10000000", "1"]);
        let shown = lines(&header, &[row("POLL"), row("C1")], 40);
        let second = shown.iter().rposition(String::is_empty).unwrap() + 1;
        assert_eq!(
            shown[second..],
            [
                "cpu  state  rejected",
                "all  POLL          1",
                "all  C1            1"
            ]
        );
    }

    proptest! {
        #[test]
        fn no_table_is_too_wide(
            rows in prop::collection::vec(prop::collection::vec("[a-z \\[\\],+=]{0,60}|[0-9]{1,8}", 7), 0..6),
            columns in 40_usize..160,
        ) {
            let header = texts(&["policy", "a", "b c", "long header of words", "e", "f", "g"]);
            for line in lines(&header, &rows, columns) {
                prop_assert!(width(&line) <= columns, "{} > {}: {}", width(&line), columns, line);
            }
        }
    }
}
