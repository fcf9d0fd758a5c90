//! The cells of a table in rows and columns, each where it is shown.

use std::{iter, rc::Rc};

use scraper::{Element, ElementRef};

use super::{super::RECORD_LIMIT, text, work::Work};

/// How many columns a table may have, and a cell may span (HTML, section 4.9.11).
const COLUMN_LIMIT: usize = 1000;

/// How many rows a cell may span (HTML, section 4.9.11).
const ROW_SPAN_LIMIT: usize = 65_534;

/// How many cells a table may have, those counted again that span several rows or columns.
const CELL_LIMIT: usize = 10 * RECORD_LIMIT;

/// A row as it is shown.
pub(super) struct Row {
    /// A text for each column, `None` where it has no cell.
    pub(super) cells: Vec<Option<Rc<str>>>,
    pub(super) kind: RowKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    /// In `<thead>`, or all of its cells are `<th>`.
    Heading,
    Data,
}

impl Row {
    pub(super) fn is_blank(&self) -> bool {
        self.cells.iter().flatten().all(|cell| cell.is_empty())
    }
}

/// The rows of a table, but for those of `<tfoot>` and of tables inside.
pub(super) fn rows(table: ElementRef<'_>) -> impl Iterator<Item = ElementRef<'_>> {
    let is_row = |element: &ElementRef<'_>| element.value().name() == "tr";
    let parts = table.child_elements().filter(|part| matches!(part.value().name(), "thead" | "tbody"));
    parts.flat_map(|part| part.child_elements()).filter(is_row)
}

pub(super) fn cells(row: ElementRef<'_>) -> impl Iterator<Item = ElementRef<'_>> {
    row.child_elements().filter(|cell| matches!(cell.value().name(), "td" | "th"))
}

pub(super) fn is_heading(cell: &ElementRef<'_>) -> bool {
    cell.value().name() == "th"
}

/// A cell that goes on in the rows below.
#[derive(Clone)]
struct Hanging {
    text: Rc<str>,
    rows_left: usize,
}

/// Every row with a text for each column; a cell that spans several rows or columns stands in each.
pub(super) fn read(table: ElementRef<'_>, work: &mut Work) -> Result<Vec<Row>, String> {
    let mut found = Vec::new();
    let mut hanging: Vec<Option<Hanging>> = Vec::new();
    let mut cell_count = 0;
    for element in rows(table) {
        work.take(1)?;
        let row = read_row(element, &mut hanging, work)?;
        cell_count += row.len();
        if cell_count > CELL_LIMIT {
            return Err(format!("expected at most {CELL_LIMIT} cells in a table, found more"));
        }
        let in_head = element.parent_element().is_some_and(|part| part.value().name() == "thead");
        let is_heading =
            in_head || cells(element).next().is_some() && cells(element).all(|cell| is_heading(&cell));
        let kind = if is_heading { RowKind::Heading } else { RowKind::Data };
        found.push(Row { cells: row, kind });
    }
    Ok(found)
}

fn read_row(
    element: ElementRef<'_>,
    hanging: &mut Vec<Option<Hanging>>,
    work: &mut Work,
) -> Result<Vec<Option<Rc<str>>>, String> {
    let mut row = Vec::new();
    let mut cells = cells(element);
    loop {
        if let Some(from_above) = take_hanging(hanging, row.len()) {
            work.take(from_above.len())?;
            row.push(Some(from_above));
        } else if let Some(cell) = cells.next() {
            let text: Rc<str> = text::shown(cell, work)?.into();
            let columns = span(cell, "colspan").clamp(1, COLUMN_LIMIT);
            // `rowspan="0"` goes down to the end of the table.
            let rows = match span(cell, "rowspan") {
                0 => ROW_SPAN_LIMIT,
                rows => rows.min(ROW_SPAN_LIMIT),
            };
            if row.len() + columns > COLUMN_LIMIT {
                return Err(format!("expected at most {COLUMN_LIMIT} columns, found more"));
            }
            if rows > 1 {
                hanging.resize(hanging.len().max(row.len() + columns), None);
                hanging[row.len()..row.len() + columns]
                    .fill(Some(Hanging { text: Rc::clone(&text), rows_left: rows - 1 }));
            }
            work.take(columns * text.len())?;
            row.extend(iter::repeat_n(Some(text), columns));
        } else if hanging.len() > row.len() {
            row.push(None);
        } else {
            return Ok(row);
        }
    }
}

/// The text that goes on in this column of the next row.
fn take_hanging(hanging: &mut Vec<Option<Hanging>>, column: usize) -> Option<Rc<str>> {
    let cell = hanging.get_mut(column)?;
    let Hanging { text, rows_left } = cell.as_mut()?;
    let text = Rc::clone(text);
    *rows_left -= 1;
    if *rows_left == 0 {
        *cell = None;
        let used = hanging.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        hanging.truncate(used);
    }
    Some(text)
}

fn span(cell: ElementRef<'_>, attribute: &str) -> usize {
    cell.attr(attribute).and_then(|text| text.trim().parse().ok()).unwrap_or(1)
}
