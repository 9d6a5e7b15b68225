//! Laying out tables for people, no wider than the screen.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::fold::{
    fold_into_lines, fold_with_indent, widest_unbreakable_width, width_in_terminal_columns,
};

/// Number of blanks between two columns.
const GAP: usize = 2;

/// Narrowest width to which a column is folded before long words are broken.
const WORD: usize = 40;

/// Shortest word that is broken, as a last resort.
const SHORT_WORD: usize = 12;

/// Width of the widest number with deviation and gain.
const NUMBER: usize = 32;

/// Columns narrower than this do not indent continued cells.
const INDENTED_FROM: usize = 16;

/// A column of a table: header and cells.
#[derive(Clone, Debug)]
struct TableColumn {
    header: String,
    cells: Vec<String>,
    /// Whether the cells begin like numbers, and are aligned to the right.
    numeric: bool,
}

impl TableColumn {
    /// Width of the column if no cell is folded.
    fn width_without_folding(&self) -> usize {
        self.widest_cell_by(width_in_terminal_columns)
            .max(width_in_terminal_columns(&self.header))
    }

    /// Narrowest width of the column, if words longer than `longest_unbroken_word` are broken.
    fn narrowest_width(&self, longest_unbroken_word: usize) -> usize {
        let header = widest_unbreakable_width(&self.header);
        if self.has_unbreakable_numbers() {
            self.widest_cell_by(width_in_terminal_columns).max(header)
        } else {
            self.widest_cell_by(widest_unbreakable_width)
                .max(header)
                .min(longest_unbroken_word)
        }
    }

    /// Whether the cells are numbers, which are never broken, and not sentences that begin with a number.
    fn has_unbreakable_numbers(&self) -> bool {
        self.numeric && self.widest_cell_by(width_in_terminal_columns) <= NUMBER
    }

    fn widest_cell_by(&self, measure: fn(&str) -> usize) -> usize {
        let widths = self.cells.iter().map(|cell| measure(cell));
        widths.max().unwrap_or(0)
    }

    /// The lines of a cell, folded to so many columns.
    fn fold_cell_into_lines(&self, cell: &str, columns: usize) -> Vec<String> {
        if self.has_unbreakable_numbers() || columns < INDENTED_FROM {
            fold_into_lines(cell, columns)
        } else {
            fold_with_indent(cell, columns, 2)
        }
    }
}

/// Whether a cell begins with a digit, perhaps after a sign, or is empty or a dash.
fn begins_like_number_or_lacks_one(cell: &str) -> bool {
    let unsigned = cell.strip_prefix(['+', '-']).unwrap_or(cell);
    unsigned.is_empty() || unsigned.starts_with(|c: char| c.is_ascii_digit())
}

/// Lays out a table as lines. If folding is not enough, splits into several tables, each beginning with the columns
/// that identify rows.
pub(super) fn fold_table_into_lines(
    header: &[String],
    rows: &[Vec<String>],
    columns: usize,
) -> Vec<String> {
    let table: Vec<TableColumn> = header
        .iter()
        .enumerate()
        .map(|(index, header)| {
            let cells: Vec<String> = rows
                .iter()
                .map(|row| row.get(index).cloned().unwrap_or_default())
                .collect();
            TableColumn {
                header: header.clone(),
                numeric: cells
                    .iter()
                    .all(|cell| begins_like_number_or_lacks_one(cell))
                    && cells.iter().any(|cell| !cell.is_empty()),
                cells,
            }
        })
        .collect();
    let all: Vec<&TableColumn> = table.iter().collect();
    if let Some(widths) = widths_that_fit_screen(&all, columns, WORD) {
        return render_header_and_rows(&all, &widths);
    }
    let parts = split_into_equal_column_groups(&all, columns);
    let mut lines = Vec::new();
    for part in parts {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let widths = [WORD, SHORT_WORD, 1]
            .into_iter()
            .find_map(|word| widths_that_fit_screen(&part, columns, word));
        // Numbers are never cut, even if they do not fit.
        let widths = widths.unwrap_or_else(|| {
            part.iter()
                .map(|column| column.narrowest_width(1))
                .collect()
        });
        lines.extend(render_header_and_rows(&part, &widths));
    }
    lines
}

/// Widths with which all columns fit into the screen; `None` if folding cells is not enough.
fn widths_that_fit_screen(
    table: &[&TableColumn],
    columns: usize,
    longest_unbroken_word: usize,
) -> Option<Vec<usize>> {
    let mut widths: Vec<usize> = table
        .iter()
        .map(|column| column.width_without_folding())
        .collect();
    let least: Vec<usize> = table
        .iter()
        .map(|column| column.narrowest_width(longest_unbroken_word))
        .collect();
    let gaps = GAP * table.len().saturating_sub(1);
    // A folded header costs a line, a folded cell a line in each row.
    for numeric in [true, false] {
        while widths.iter().sum::<usize>() + gaps > columns {
            let foldable = (0..table.len()).filter(|i| {
                table[*i].has_unbreakable_numbers() == numeric && widths[*i] > least[*i]
            });
            let Some(widest) = foldable.max_by_key(|i| widths[*i]) else {
                break;
            };
            widths[widest] -= 1;
        }
    }
    (widths.iter().sum::<usize>() + gaps <= columns).then_some(widths)
}

/// Splits the columns into groups that fit, each after the columns that tell the rows apart. The groups are about
/// equally wide.
fn split_into_equal_column_groups<'a>(
    table: &[&'a TableColumn],
    columns: usize,
) -> Vec<Vec<&'a TableColumn>> {
    let (labels, rest) = table.split_at(count_columns_that_tell_rows_apart(table, columns));
    let room = columns.saturating_sub(width_kept_for_labels(labels, columns));
    let fewest = group_columns_after_labels(labels, rest, room).len();
    let mut evenly = (1..=room)
        .map(|most| group_columns_after_labels(labels, rest, most))
        .skip_while(|parts| parts.len() > fewest);
    evenly
        .next()
        .unwrap_or_else(|| group_columns_after_labels(labels, rest, room))
}

/// Number of columns, from the first on, that tell the rows apart; 1 if they would leave little room for the others.
fn count_columns_that_tell_rows_apart(table: &[&TableColumn], columns: usize) -> usize {
    let labels = (1..table.len())
        .find(|count| are_all_rows_different(&table[..*count]))
        .filter(|count| narrowest_width_with_gaps(&table[..*count]) <= columns / 2);
    labels.unwrap_or(1).min(table.len())
}

/// Whether no two rows have the same cells in these columns.
fn are_all_rows_different(labels: &[&TableColumn]) -> bool {
    let rows = labels.first().map_or(0, |column| column.cells.len());
    let cells = |row: usize| labels.iter().map(move |column| &column.cells[row]);
    let names: BTreeSet<Vec<&String>> = (0..rows).map(|row| cells(row).collect()).collect();
    names.len() == rows
}

/// Width that columns take with the gaps between them.
fn narrowest_width_with_gaps(columns: &[&TableColumn]) -> usize {
    let wanted = columns
        .iter()
        .map(|column| GAP + column.narrowest_width(WORD));
    wanted.sum::<usize>().saturating_sub(GAP)
}

/// How much of the width is for the labels. A single name can be folded further.
fn width_kept_for_labels(labels: &[&TableColumn], columns: usize) -> usize {
    match labels {
        [name] if !name.has_unbreakable_numbers() => {
            narrowest_width_with_gaps(labels).min(columns / 3)
        }
        _ => narrowest_width_with_gaps(labels),
    }
}

/// Groups the columns after the labels, each group with as many columns as there is room for, and at least one.
fn group_columns_after_labels<'a>(
    labels: &[&'a TableColumn],
    rest: &[&'a TableColumn],
    room: usize,
) -> Vec<Vec<&'a TableColumn>> {
    let mut parts = vec![labels.to_vec()];
    let mut so_far = 0;
    for column in rest {
        let wanted = GAP + column.narrowest_width(WORD);
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

fn render_header_and_rows(table: &[&TableColumn], widths: &[usize]) -> Vec<String> {
    let rows = table.first().map_or(0, |column| column.cells.len());
    let header = render_row_lines(table, widths, |column| &column.header);
    let body = (0..rows)
        .flat_map(|index| render_row_lines(table, widths, move |column| &column.cells[index]));
    header.into_iter().chain(body).collect()
}

/// A row's lines.
fn render_row_lines<'a>(
    table: &[&'a TableColumn],
    widths: &[usize],
    cell: impl Fn(&'a TableColumn) -> &'a String,
) -> Vec<String> {
    let cells: Vec<Vec<String>> = table
        .iter()
        .zip(widths)
        .map(|(column, columns)| column.fold_cell_into_lines(cell(column), *columns))
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let lines = (0..height).map(|number| {
        let mut line = String::new();
        for ((column, columns), cell) in table.iter().zip(widths).zip(&cells) {
            let text = cell.get(number).map_or("", String::as_str);
            let blanks = " ".repeat(columns.saturating_sub(width_in_terminal_columns(text)));
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
            fold_table_into_lines(&header, &rows, 60)[1],
            "teo + psd[timeout=3ms,ceiling=C1E]  188.345           12"
        );
        assert_eq!(
            fold_table_into_lines(&header, &rows, 40),
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
        let shown = fold_table_into_lines(&header, &[row], 60);
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
            fold_table_into_lines(&header, &rows, 32),
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

    #[test]
    fn a_sign_alone_makes_no_number() {
        let header = texts(&["policy", "a"]);
        let rows = [texts(&["00000000", "+=]] =[+a]a+=]a=[ =] +a]a=+a[+ +"])];
        for line in fold_table_into_lines(&header, &rows, 40) {
            assert!(width_in_terminal_columns(&line) <= 40, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_table_is_too_wide(
            rows in prop::collection::vec(prop::collection::vec("[a-z \\[\\],+=]{0,60}|[0-9]{1,8}", 7), 0..6),
            columns in 40_usize..160,
        ) {
            let header = texts(&["policy", "a", "b c", "long header of words", "e", "f", "g"]);
            for line in fold_table_into_lines(&header, &rows, columns) {
                prop_assert!(width_in_terminal_columns(&line) <= columns, "{} > {}: {}", width_in_terminal_columns(&line), columns, line);
            }
        }
    }
}
