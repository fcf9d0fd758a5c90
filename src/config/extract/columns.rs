//! `columns` as the file has it.

use super::{
    Alone, Form,
    csv::{columns, skip, uneven},
};
use crate::{
    config::{
        keys::COLUMNS,
        language,
        node::{Kind, Node},
        section::Section,
    },
    translate::extract::{ColumnLayout, Columns, ExtractorKind},
};

pub(super) const FORM: Form = Form {
    name: "columns",
    keys: &COLUMNS,
    alone: Alone::Is(|| ExtractorKind::Columns(Columns::default())),
    short: None,
    options: |section| {
        let before = section.report.errors();
        let (names, widths) = (columns(section), widths(section));
        let first = section.text("first");
        if names.is_some() {
            section.refuse_beside(&["first"], "columns");
        } else if widths.is_some() {
            section.refuse_beside(&["first"], "widths");
        }
        if first.is_some_and(|first| first.trim().is_empty()) {
            section.report.error(
                section.place,
                "`first` is empty",
                "write what the column is called: `first: kind`",
            );
        }
        if let (Some(names), Some(widths)) = (&names, &widths)
            && widths.len() != names.len()
            && widths.len() + 1 != names.len()
        {
            let message = format!("{} columns and {} widths do not go together", names.len(), widths.len());
            section.report.error(
                section.place,
                message,
                "write a width for every column; the last may be left out",
            );
        }
        let pattern = |name: &'static str| {
            section.get(name).and_then(|node| language::pattern(section.report, node, &format!("`{name}`")))
        };
        let layout = match (widths, names) {
            (Some(widths), names) => ColumnLayout::Widths { widths, names },
            (None, Some(names)) => ColumnLayout::Words(names),
            (None, None) => ColumnLayout::Header,
        };
        let columns = Columns {
            layout,
            first: first.map(str::to_owned),
            skip: skip(section),
            from: pattern("from"),
            until: pattern("until"),
            uneven: uneven(section),
            allow_empty: section.flag("allow_empty").unwrap_or(false),
        };
        (section.report.errors() == before).then_some(ExtractorKind::Columns(columns))
    },
};

fn widths(section: &Section<'_, '_>) -> Option<Vec<usize>> {
    /// The widest that a column may be.
    const WIDEST: usize = 10_000;
    let node = section.get("widths")?;
    let wrong = |node: &Node, what: &str| {
        let message = format!("{what}, found {}", node.found());
        section.report.error(node.span, message, "write `widths: [10, 8, 20]`");
    };
    let Kind::List(items) = &node.kind else {
        wrong(node, "`widths` takes a list of numbers");
        return None;
    };
    if items.is_empty() {
        wrong(node, "`widths` takes a list of numbers");
    }
    let width = |item: &Node| {
        let width = match &item.kind {
            Kind::Number(text) => text.parse().ok().filter(|width| (1..=WIDEST).contains(width)),
            Kind::Nothing | Kind::Flag(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => None,
        };
        if width.is_none() {
            wrong(item, &format!("a width must be a whole number from 1 to {WIDEST}"));
        }
        width
    };
    Some(items.iter().filter_map(width).collect())
}
