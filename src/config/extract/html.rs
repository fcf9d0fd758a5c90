//! `html` as the file has it.

use super::{Form, open};
use crate::{
    config::{
        keys::{HTML, SELECTED},
        node::{Entry, Kind, Node},
        report::Report,
        section::{self, Section},
    },
    translate::extract::{
        ColumnNames, Count, CssSelector, EachElement, ExtractorKind, Html, Selected, Table, TableShape, Take,
    },
};

pub(super) const FORM: Form = Form {
    name: "html",
    needs: None,
    read: |value| {
        if matches!(value.node.kind, Kind::Nothing) {
            return Some(ExtractorKind::Html(Html::default()));
        }
        let section = &open(value, &HTML)?;
        let before = section.report.errors();
        let without = section.get("without").and_then(|node| css(section.report, node, "`without`"));
        let select = section.entry("select").and_then(|entry| select(section, entry));
        let each = section.get("items").and_then(|node| css(section.report, node, "`items`"));
        let table = section.get("table").and_then(|node| table(section.report, node));
        let text = section.get("text").and_then(|node| css(section.report, node, "`text`"));
        let shape = section.word("as");
        let columns = section.read::<ColumnNames>("columns");
        let allow_empty = section.flag("allow_empty").unwrap_or(false);
        if section.get("text").is_some() {
            section.refuse_beside(&["select", "items", "allow_empty", "table", "as", "columns"], "text");
        }
        if section.get("table").is_some() {
            section.refuse_beside(&["select", "items", "allow_empty"], "table");
            if shape == Some("pairs") {
                section.refuse_beside(&["columns"], "as: pairs");
            }
        } else {
            refuse_without(section, &["as", "columns"], "table");
        }
        match (section.get("items"), section.get("select")) {
            (Some(_), None) => section.missing(
                "`items` has no `select`".to_owned(),
                "write what to take from each: `select: { name: h2, link: { css: a, attribute: href } }`",
            ),
            (Some(_), Some(_)) => {}
            (None, _) => refuse_without(section, &["allow_empty"], "items"),
        }
        if section.report.errors() > before {
            return None;
        }
        if let Some(css) = text {
            return Some(ExtractorKind::Html(Html { without, take: Take::TextOf(css) }));
        }
        let take = match (select, each, table) {
            (_, _, Some(css)) => {
                let shape = match shape {
                    Some("pairs") => TableShape::Pairs,
                    _ => TableShape::Rows(columns.map_or_else(Vec::new, |columns| columns.0)),
                };
                Take::Table(Table { css, shape })
            }
            (Some(select), Some(css), None) => Take::Each(EachElement { css, select, allow_empty }),
            (Some(select), None, None) => Take::Select(select),
            (None, _, None) => Take::Text,
        };
        Some(ExtractorKind::Html(Html { without, take }))
    },
};

fn refuse_without(section: &Section<'_, '_>, names: &[&'static str], other: &str) {
    for entry in names.iter().filter_map(|name| section.entry(name)) {
        let message = format!("`{}` has no effect without `{other}`", entry.key.text);
        section.report.error(entry.key.span, message, format!("remove it, or write `{other}` as well"));
    }
}

fn css(report: &Report<'_>, node: &Node, what: &str) -> Option<CssSelector> {
    let text = section::text_of(report, node, what)?;
    match CssSelector::parse(text) {
        Ok(selector) => Some(selector),
        Err(error) => {
            let place = report.character_in(node, text, error.at);
            let help = "write `h1`, `#state`, `table.report td:nth-child(2)`, `a[href^=\"/host\"]`";
            report.error(place, format!("{what} is not a CSS selector: {error}"), help);
            None
        }
    }
}

/// `true` for the first table of the page, or a selector.
fn table(report: &Report<'_>, node: &Node) -> Option<Option<CssSelector>> {
    match &node.kind {
        Kind::Flag(true) => Some(None),
        Kind::Text(_) => css(report, node, "`table`").map(Some),
        Kind::Nothing | Kind::Flag(false) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) => {
            let message = format!("`table` takes a CSS selector or `true`, found {}", node.found());
            report.error(node.span, message, "write `table: true` for the first table of the page");
            None
        }
    }
}

fn select(section: &Section<'_, '_>, entry: &Entry) -> Option<Vec<Selected>> {
    let report = section.report;
    let entries = entry.value.as_map().unwrap_or_default();
    if entries.is_empty() {
        let message = format!("`select` takes a map of names and selectors, found {}", entry.value.found());
        report.error(entry.value.span, message, "write `select: { title: h1 }`");
        return None;
    }
    let within_each = section.get("items").is_some();
    let all: Vec<Option<Selected>> =
        entries.iter().map(|entry| selected(report, entry, within_each)).collect();
    all.into_iter().collect()
}

fn selected(report: &Report<'_>, entry: &Entry, within_each: bool) -> Option<Selected> {
    let name = entry.key.text.clone();
    if let Kind::Text(_) = &entry.value.kind {
        let css = Some(css(report, &entry.value, &format!("`{name}`"))?);
        return Some(Selected { name, css, attribute: None, count: Count::First });
    }
    let section = Section::open(report, entry.key.span, &entry.value, &SELECTED)?;
    let css = match section.get("css") {
        Some(node) => Some(css(report, node, "`css`")?),
        None if within_each => None,
        None => {
            section.missing(format!("`{name}` has no `css`"), "write a CSS selector: `css: \"a[href]\"`");
            return None;
        }
    };
    let attribute = section.text("attribute").map(str::to_ascii_lowercase);
    let count = match (section.flag("all"), section.flag("optional")) {
        (Some(true), Some(_)) => {
            section.refuse_beside(&["optional"], "all");
            return None;
        }
        (Some(true), None) => Count::All,
        (_, Some(true)) => Count::FirstOrNone,
        _ => Count::First,
    };
    Some(Selected { name, css, attribute, count })
}
