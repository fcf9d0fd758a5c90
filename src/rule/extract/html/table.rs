//! A table as rows, or as pairs of name and value.

use std::{collections::HashMap, rc::Rc};

use scraper::ElementRef;
use serde_json::{Map, Value};

use super::{
    super::{RECORD_LIMIT, records::add},
    grid::{self, Row, RowKind},
    text,
    work::Work,
};

/// The rows below the headings, as objects by the names of the columns.
pub(super) fn rows(table: ElementRef<'_>, given: &[String], work: &mut Work) -> Result<Value, String> {
    let rows = grid::read(table, work)?;
    let first = rows.iter().take_while(|row| row.kind == RowKind::Heading || row.is_blank()).count();
    // Without headings, the first row is one.
    let first = if first == 0 && given.is_empty() { rows.len().min(1) } else { first };
    let (headings, rows) = rows.split_at(first);
    let names = if given.is_empty() { names(headings, rows) } else { given.to_vec() };
    let mut found = Vec::new();
    for row in rows.iter().filter(|row| row.kind == RowKind::Data && !row.is_blank()) {
        if found.len() >= RECORD_LIMIT {
            return Err(format!("expected at most {RECORD_LIMIT} rows, found more"));
        }
        let mut record = Map::new();
        for (name, cell) in names.iter().zip(&row.cells) {
            let Some(cell) = cell else { continue };
            work.take(name.len() + cell.len())?;
            record.insert(name.clone(), Value::from(&**cell));
        }
        found.push(Value::Object(record));
    }
    Ok(Value::Array(found))
}

/// The headings of each column from top to bottom, made different from each other. A heading above several columns
/// goes before the name of each, one beside several rows is there once.
fn names(headings: &[Row], rows: &[Row]) -> Vec<String> {
    let columns = headings.iter().chain(rows).map(|row| row.cells.len()).max().unwrap_or(0);
    let mut seen = HashMap::<String, usize>::new();
    let unique = |column: usize| {
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
    (0..columns).map(unique).collect()
}

/// An object of names and values: from rows `<th>name</th><td>value</td>`, or of two cells of one kind. What has
/// several values is a list.
pub(super) fn pairs(table: ElementRef<'_>, work: &mut Work) -> Result<Value, String> {
    let mut found = Map::new();
    for row in grid::rows(table) {
        work.take(1)?;
        let cells: Vec<ElementRef<'_>> = grid::cells(row).collect();
        let names = cells.iter().filter(|cell| grid::is_heading(cell)).count();
        // Headings alone are no pair; several have a value each.
        let length = match names {
            _ if names == cells.len() => continue,
            0 | 1 => cells.len(),
            _ => 2,
        };
        for pair in cells.chunks(length) {
            let [name, values @ ..] = pair else { continue };
            let name = text::shown(*name, work)?;
            let name = name.trim().trim_end_matches(':').trim_end();
            if name.is_empty() {
                continue;
            }
            for value in values {
                add(&mut found, name, text::shown(*value, work)?.into());
            }
        }
    }
    match found.is_empty() {
        true => Err("expected a table with rows of a name and a value, found none".to_owned()),
        false => Ok(Value::Object(found)),
    }
}
