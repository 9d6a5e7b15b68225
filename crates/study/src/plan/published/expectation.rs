//! Planning expectations: which cells of which tables they are about.

use toml::Spanned;
use wakepath_results::Condition;

use super::study::PublishedStudy;
use super::tables::{Expectation, Quantity, Table};
use crate::file::{ExpectEntry, Names, Selection, Show, StudyError};
use crate::plan::names::find_name;

impl PublishedStudy<'_> {
    pub(super) fn plan_expectation(
        &self,
        entry: &ExpectEntry,
        tables: &[Table],
    ) -> Result<Expectation, StudyError> {
        let known: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
        let mut chosen = Vec::new();
        for name in Names::spanned_names(&entry.tables, self.source)? {
            chosen.push(find_name(self.source, "[[published]]", &name, &known)?);
        }
        let cells = self.select_table_cells(&entry.tables, &entry.cells, &chosen, tables)?;
        let against = match &entry.less_than {
            Some(other) => {
                self.select_table_cells(other, &other.get_ref().cells, &chosen, tables)?
            }
            None => Vec::new(),
        };
        if let Some(alone) = chosen
            .iter()
            .find(|table| tables[**table].recipe.show == Show::Value)
            && let Some(at) = (entry.same_direction.as_ref().map(Spanned::span))
                .or_else(|| entry.change_within.as_ref().map(Spanned::span))
                .or_else(|| entry.where_base.as_ref().map(Spanned::span))
        {
            let message = format!(
                "the values of `{}` are compared with no others",
                known[*alone]
            );
            return Err(self.source.error_at_value(&Spanned::new(at, ()), message));
        }
        if let Some(least) = entry
            .at_least
            .as_ref()
            .filter(|n| *n.get_ref() > cells.len())
        {
            let message = format!("it is about {} cells", cells.len());
            return Err(self.source.error_at_value(least, message));
        }
        Ok(Expectation {
            entry: entry.clone(),
            cells,
            against,
            condition: self.parse_cell_condition(entry.condition.as_ref())?,
            base_condition: self.parse_cell_condition(entry.where_base.as_ref())?,
        })
    }

    /// The cells that a selection at `at` chooses in these tables, each as table index and cell index.
    fn select_table_cells<T>(
        &self,
        at: &Spanned<T>,
        selection: &Selection,
        indices: &[usize],
        tables: &[Table],
    ) -> Result<Vec<[usize; 2]>, StudyError> {
        let cells = indices.iter().flat_map(|index| &tables[*index].cells);
        let names: Vec<String> = cells.map(|cell| cell.names.policy.clone()).collect();
        self.check_cell_names(selection, &names)?;
        let mut chosen: Vec<[usize; 2]> = Vec::new();
        for table in indices {
            let cells = tables[*table].cells.iter().enumerate();
            let cells = cells.filter(|(_, cell)| cell.names.are_selected_by(selection));
            chosen.extend(cells.map(|(cell, _)| [*table, cell]));
        }
        if chosen.is_empty() {
            let message = "`cells` has none of the cells of these tables";
            return Err(self.source.error_at_value(at, message));
        }
        Ok(chosen)
    }

    fn parse_cell_condition(
        &self,
        text: Option<&Spanned<String>>,
    ) -> Result<Option<(Quantity, Condition)>, StudyError> {
        let Some(text) = text else { return Ok(None) };
        let parsed = text.get_ref().parse::<Condition>();
        let condition = parsed.map_err(|message| self.source.error_at_value(text, message))?;
        Ok(Some((
            self.find_quantity(text, &condition.metric)?,
            condition,
        )))
    }
}
