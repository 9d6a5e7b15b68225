//! Tables for people, no wider than the screen.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::fold::{fold, hanging, widest_piece, width};

/// Blanks between two columns.
const GAP: usize = 2;

/// A column is folded to no less than this, unless there is no other way: a longer word is broken.
const WORD: usize = 40;

/// Shortest word to break, as a last resort.
const SHORT_WORD: usize = 12;

/// Widest number with deviation and gain.
const NUMBER: usize = 32;

/// Fewest columns to indent continued cells.
const INDENTED_FROM: usize = 16;

/// A column: header and cells.
#[derive(Clone, Debug)]
struct Column {
    header: String,
    cells: Vec<String>,
    /// Whether aligned to the right.
    numeric: bool,
}

impl Column {
    /// Width without folding.
    fn natural(&self) -> usize {
        self.widest_cell(width).max(width(&self.header))
    }

    /// Narrowest width, breaking words longer than `word`.
    fn least(&self, word: usize) -> usize {
        let header = widest_piece(&self.header);
        if self.is_kept() {
            self.widest_cell(width).max(header)
        } else {
            self.widest_cell(widest_piece).max(header).min(word)
        }
    }

    /// Whether cells are numbers, which are never broken, rather than sentences beginning with a number.
    fn is_kept(&self) -> bool {
        self.numeric && self.widest_cell(width) <= NUMBER
    }

    fn widest_cell(&self, measure: fn(&str) -> usize) -> usize {
        let widths = self.cells.iter().map(|cell| measure(cell));
        widths.max().unwrap_or(0)
    }

    /// A cell's lines.
    fn lines(&self, cell: &str, columns: usize) -> Vec<String> {
        if self.is_kept() || columns < INDENTED_FROM {
            fold(cell, columns)
        } else {
            hanging(cell, columns, 2)
        }
    }
}

/// A table's lines. If folding is not enough, splits into several tables, each beginning with the columns that identify
/// rows.
pub(super) fn table_lines(header: &[String], rows: &[Vec<String>], columns: usize) -> Vec<String> {
    let table: Vec<Column> = header
        .iter()
        .enumerate()
        .map(|(index, header)| {
            let cells: Vec<String> = rows
                .iter()
                .map(|row| row.get(index).cloned().unwrap_or_default())
                .collect();
            Column {
                header: header.clone(),
                numeric: cells.iter().all(|cell| {
                    cell.is_empty()
                        || cell.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c))
                }) && cells.iter().any(|cell| !cell.is_empty()),
                cells,
            }
        })
        .collect();
    let all: Vec<&Column> = table.iter().collect();
    if let Some(widths) = fit_columns(&all, columns, WORD) {
        return render_lines(&all, &widths);
    }
    let parts = split_table(&all, columns);
    let mut lines = Vec::new();
    for part in parts {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let widths = [WORD, SHORT_WORD, 1]
            .into_iter()
            .find_map(|word| fit_columns(&part, columns, word));
        // Numbers are never cut, even where they do not fit.
        let widths = widths.unwrap_or_else(|| part.iter().map(|column| column.least(1)).collect());
        lines.extend(render_lines(&part, &widths));
    }
    lines
}

/// Fitting widths, if any.
fn fit_columns(table: &[&Column], columns: usize, word: usize) -> Option<Vec<usize>> {
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

/// The columns in groups that fit, each after the columns that tell the rows apart. The groups are about as wide as each other.
fn split_table<'a>(table: &[&'a Column], columns: usize) -> Vec<Vec<&'a Column>> {
    let (labels, rest) = table.split_at(column_labels(table, columns));
    let room = columns.saturating_sub(label_width(labels, columns));
    let fewest = group_columns(labels, rest, room).len();
    let mut evenly = (1..=room)
        .map(|most| group_columns(labels, rest, most))
        .skip_while(|parts| parts.len() > fewest);
    evenly
        .next()
        .unwrap_or_else(|| group_columns(labels, rest, room))
}

/// As many columns, from the first on, as tell the rows apart; one if they would leave little room for the others.
fn column_labels(table: &[&Column], columns: usize) -> usize {
    let labels = (1..table.len())
        .find(|count| tell_rows_apart(&table[..*count]))
        .filter(|count| taken_width(&table[..*count]) <= columns / 2);
    labels.unwrap_or(1).min(table.len())
}

/// Whether no two rows have the same cells in these columns.
fn tell_rows_apart(labels: &[&Column]) -> bool {
    let rows = labels.first().map_or(0, |column| column.cells.len());
    let cells = |row: usize| labels.iter().map(move |column| &column.cells[row]);
    let names: BTreeSet<Vec<&String>> = (0..rows).map(|row| cells(row).collect()).collect();
    names.len() == rows
}

/// Least width for columns and gaps.
fn taken_width(columns: &[&Column]) -> usize {
    let wanted = columns.iter().map(|column| GAP + column.least(WORD));
    wanted.sum::<usize>().saturating_sub(GAP)
}

/// How much of so many columns is for the labels. A name alone can be folded further.
fn label_width(labels: &[&Column], columns: usize) -> usize {
    match labels {
        [name] if !name.is_kept() => taken_width(labels).min(columns / 3),
        _ => taken_width(labels),
    }
}

/// The columns in groups after the labels, each group with as many as there is room for, and at least one.
fn group_columns<'a>(
    labels: &[&'a Column],
    rest: &[&'a Column],
    room: usize,
) -> Vec<Vec<&'a Column>> {
    let mut parts = vec![labels.to_vec()];
    let mut so_far = 0;
    for column in rest {
        let wanted = GAP + column.least(WORD);
        let part = parts.last().map_or(0, Vec::len);
        if part > labels.len() && so_far + wanted > room {
            parts.push(labels.to_vec());
            so_far = 0;
        }
        so_far += wanted;
        if let Some(part) = parts.last_mut() {
            part.push(column);
        }
    }
    parts
}

fn render_lines(table: &[&Column], widths: &[usize]) -> Vec<String> {
    let rows = table.first().map_or(0, |column| column.cells.len());
    let header = render_row(table, widths, |column| &column.header);
    let body =
        (0..rows).flat_map(|index| render_row(table, widths, move |column| &column.cells[index]));
    header.into_iter().chain(body).collect()
}

/// A row's lines.
fn render_row<'a>(
    table: &[&'a Column],
    widths: &[usize],
    cell: impl Fn(&'a Column) -> &'a String,
) -> Vec<String> {
    let cells: Vec<Vec<String>> = table
        .iter()
        .zip(widths)
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
            table_lines(&header, &rows, 60)[1],
            "teo + psd[timeout=3ms,ceiling=C1E]  188.345           12"
        );
        assert_eq!(
            table_lines(&header, &rows, 40),
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
        let shown = table_lines(&header, &[row], 60);
        assert_eq!(
            shown[0],
            "load   column0  column1  column2  column3  column4"
        );
        assert_eq!(
            shown[1],
            "reads  1000000  1000001  1000002  1000003  1000004"
        );
        assert_eq!(
            shown[3],
            "load   column5  column6  column7  column8  column9"
        );
    }

    #[test]
    fn each_part_of_a_table_says_whose_rows_it_has() {
        let header = texts(&["policy", "task", "loops", "wake-ups", "slack"]);
        let rows = [
            texts(&["menu", "server", "100200", "3000", "7"]),
            texts(&["menu", "client", "100300", "4000", "8"]),
        ];
        assert_eq!(
            table_lines(&header, &rows, 32),
            [
                "policy  task     loops",
                "menu    server  100200",
                "menu    client  100300",
                "",
                "policy  task    wake-ups  slack",
                "menu    server      3000      7",
                "menu    client      4000      8",
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
            for line in table_lines(&header, &rows, columns) {
                prop_assert!(width(&line) <= columns, "{} > {}: {}", width(&line), columns, line);
            }
        }
    }
}
