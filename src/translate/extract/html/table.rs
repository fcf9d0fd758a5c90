//! HTML tables as rows, or as pairs of name and value.

use std::{collections::HashMap, rc::Rc};

use scraper::{Element, ElementRef};
use serde_json::{Map, Value};

use super::page::PageBudget;
use super::text;
use crate::translate::extract::RECORD_LIMIT;
use crate::translate::extract::records::add;
use crate::translate::read_error::{ReadError, at_most};

/// Returns the rows below the headings, as objects by column name.
pub(super) fn rows(
    table: ElementRef<'_>,
    declared_names: Option<&[String]>,
    budget: &mut PageBudget,
) -> Result<Value, ReadError> {
    let rows = read_rows(table, budget)?;
    let heading_count = rows.iter().take_while(|row| row.is_heading || row.is_blank()).count();
    // Without heading rows (in `<thead>`, or with `<th>` only), the first row with text is the header.
    let has_headings = declared_names.is_some() || rows[..heading_count].iter().any(|row| row.is_heading);
    let heading_count = if has_headings { heading_count } else { rows.len().min(heading_count + 1) };
    let (headings, rows) = rows.split_at(heading_count);
    let names = declared_names.map_or_else(|| names(headings, rows), <[String]>::to_vec);
    let mut found = Vec::new();
    for row in rows.iter().filter(|row| !row.is_heading && !row.is_blank()) {
        at_most(RECORD_LIMIT, found.len() + 1, "rows")?;
        let mut record = Map::new();
        for (name, cell) in names.iter().zip(&row.cells) {
            let Some(cell) = cell else { continue };
            budget.take(name.len() + cell.len())?;
            record.insert(name.clone(), Value::from(&**cell));
        }
        found.push(Value::Object(record));
    }
    Ok(Value::Array(found))
}

/// Unique names of the columns: the headings of each column, joined from top to bottom. A heading over
/// several columns is a prefix of each name; a heading that spans several rows occurs once.
fn names(headings: &[TableRow], rows: &[TableRow]) -> Vec<String> {
    let columns = headings.iter().chain(rows).map(|row| row.cells.len()).max().unwrap_or(0);
    // Number of columns with each name. Trying each suffix from 2 would take quadratic time.
    let mut seen = HashMap::<String, usize>::new();
    let unique_name = |column: usize| {
        let mut words: Vec<&Rc<str>> =
            headings.iter().filter_map(|row| row.cells.get(column)?.as_ref()).collect();
        words.retain(|word| !word.is_empty());
        words.dedup();
        let words: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
        let plain = if words.is_empty() { format!("column {}", column + 1) } else { words.join(" ") };
        let mut name = plain.clone();
        while let Some(count) = seen.get_mut(&name) {
            *count += 1;
            name = format!("{plain} {count}");
        }
        seen.insert(name.clone(), 1);
        name
    };
    (0..columns).map(unique_name).collect()
}

/// Returns an object of names and values: the first cell of a row is a name, the others are its values. In a
/// row with several `<th>`, each begins a pair. The values of a repeated name become a list.
pub(super) fn pairs(table: ElementRef<'_>, budget: &mut PageBudget) -> Result<Value, ReadError> {
    let mut found = Map::new();
    for row in row_elements(table) {
        budget.take(1)?;
        let cells: Vec<ElementRef<'_>> = cell_elements(row).collect();
        // A row of headings only is not a pair. In a row with several headings, each begins a pair.
        let headings = cells.iter().filter(|cell| is_heading(cell)).count();
        if headings == cells.len() {
            continue;
        }
        // Some pages have the names in `<td>` and the values in `<th>`.
        let are_names_plain = cells.len() == 2 * headings
            && cells.iter().enumerate().all(|(index, cell)| is_heading(cell) == (index % 2 == 1));
        for pair in cells.chunk_by(|_, next| headings < 2 || is_heading(next) == are_names_plain) {
            let [name, values @ ..] = pair else { continue };
            let name = text::rendered_text(*name, budget)?;
            let name = name.trim().trim_end_matches(':').trim_end();
            if name.is_empty() {
                continue;
            }
            for value in values {
                add(&mut found, name, text::rendered_text(*value, budget)?.into());
            }
        }
    }
    match found.is_empty() {
        true => Err("expected a table with rows of a name and a value, found none".into()),
        false => Ok(Value::Object(found)),
    }
}

/// Maximum number of columns of a table, and maximum `colspan` (HTML, section 4.9.11).
const COLUMN_LIMIT: usize = 1000;

/// Maximum number of cells of a table, including missing ones. A spanning cell counts once per row and
/// column.
const CELL_LIMIT: usize = 10 * RECORD_LIMIT;

/// Row with its spanning cells expanded.
struct TableRow {
    /// One text per column; `None` for a missing cell.
    cells: Vec<Option<Rc<str>>>,
    /// Whether the row is inside `<thead>`, or has `<th>` cells only.
    is_heading: bool,
}

impl TableRow {
    fn is_blank(&self) -> bool {
        self.cells.iter().flatten().all(|cell| cell.is_empty())
    }
}

/// Row elements of a table, without the rows of `<tfoot>` and of nested tables.
fn row_elements(table: ElementRef<'_>) -> impl Iterator<Item = ElementRef<'_>> {
    let is_row = |element: &ElementRef<'_>| element.value().name() == "tr";
    let parts = table.child_elements().filter(|part| matches!(part.value().name(), "thead" | "tbody"));
    parts.flat_map(|part| part.child_elements()).filter(is_row)
}

fn cell_elements(row: ElementRef<'_>) -> impl Iterator<Item = ElementRef<'_>> {
    row.child_elements().filter(|cell| matches!(cell.value().name(), "td" | "th"))
}

fn is_heading(cell: &ElementRef<'_>) -> bool {
    cell.value().name() == "th"
}

/// Reads all rows, with one text per column. A spanning cell is repeated in each row and column.
fn read_rows(table: ElementRef<'_>, budget: &mut PageBudget) -> Result<Vec<TableRow>, ReadError> {
    let elements: Vec<ElementRef<'_>> = row_elements(table).collect();
    let mut grid: Vec<Vec<Option<Rc<str>>>> = vec![Vec::new(); elements.len()];
    let mut cell_count = 0;
    for (index, element) in elements.iter().enumerate() {
        budget.take(1)?;
        let mut column = 0;
        for cell in cell_elements(*element) {
            let text: Rc<str> = text::rendered_text(cell, budget)?.into();
            // Skip columns that are occupied by spanning cells of the rows above.
            while grid[index].get(column).is_some_and(Option::is_some) {
                column += 1;
            }
            let columns = column..column + span(cell, "colspan").clamp(1, COLUMN_LIMIT);
            at_most(COLUMN_LIMIT, columns.end, "columns")?;
            // `rowspan="0"` spans to the end of the table.
            let rows_left = elements.len() - index;
            let rows = Some(span(cell, "rowspan")).filter(|rows| (1..rows_left).contains(rows));
            let rows = rows.unwrap_or(rows_left);
            budget.take(columns.len() * rows * text.len())?;
            for row in &mut grid[index..index + rows] {
                // Missing cells to the left take memory, too.
                cell_count += columns.end - row.len().min(columns.start);
                at_most(CELL_LIMIT, cell_count, "cells in a table")?;
                row.resize(row.len().max(columns.end), None);
                row[columns.clone()].fill(Some(Rc::clone(&text)));
            }
            column = columns.end;
        }
    }
    let row = |(element, cells): (&ElementRef<'_>, _)| {
        let is_in_head = element.parent_element().is_some_and(|part| part.value().name() == "thead");
        let mut row_cells = cell_elements(*element).peekable();
        let has_headings_only = row_cells.peek().is_some() && row_cells.all(|cell| is_heading(&cell));
        TableRow { cells, is_heading: is_in_head || has_headings_only }
    };
    Ok(elements.iter().zip(grid).map(row).collect())
}

fn span(cell: ElementRef<'_>, attribute: &str) -> usize {
    cell.attr(attribute).and_then(|text| text.trim().parse().ok()).unwrap_or(1)
}
