//! `xml` as the file has it.

use std::collections::BTreeSet;

use super::{Alone, Form};
use crate::{
    config::{
        keys::XML,
        language,
        section::{self, Section},
    },
    translate::extract::{Attributes, ExtractorKind, Path, Pick, Prefixes, Xml},
};

pub(super) const FORM: Form = Form {
    name: "xml",
    keys: &XML,
    alone: Alone::Is(|| ExtractorKind::Xml(Xml::default())),
    short: None,
    options: |section| {
        let prefixes = prefixes(section);
        let (one, each) = (path(section, "pick", &prefixes), path(section, "each", &prefixes));
        let attributes = section.word("attributes").map_or(Attributes::Marked, |word| match word {
            "plain" => Attributes::Plain,
            "dropped" => Attributes::Dropped,
            _ => Attributes::Marked,
        });
        let lists = section.texts("lists").unwrap_or_default().into_iter().map(|(_, name)| name.to_owned());
        let lists: BTreeSet<String> = lists.collect();
        let keep_white_space = section.flag("trim") == Some(false);
        let pick = match (one, each) {
            (Some(_), Some(_)) => {
                section.refuse_beside(&["pick"], "each");
                return None;
            }
            (Some(path), None) => Pick::One(path?),
            (None, Some(path)) => Pick::Each(path?),
            (None, None) => {
                if let Some(entry) = section.entry("namespaces") {
                    let message = "`namespaces` has no effect without `pick` or `each`";
                    section.report.error(
                        entry.key.span,
                        message,
                        "remove it, or write `pick: s:Envelope/s:Body`",
                    );
                    return None;
                }
                Pick::Root
            }
        };
        Some(ExtractorKind::Xml(Xml { pick, attributes, lists, keep_white_space }))
    },
};

fn prefixes(section: &Section<'_, '_>) -> Prefixes {
    let entries = section.map("namespaces").unwrap_or_default().iter();
    entries
        .filter_map(|entry| {
            let uri = section::text_of(section.report, &entry.value, "a namespace")?;
            Some((entry.key.text.clone(), uri.to_owned()))
        })
        .collect()
}

/// `None` without the key, `Some(None)` when it is no path; that has been reported then.
fn path(section: &Section<'_, '_>, name: &'static str, prefixes: &Prefixes) -> Option<Option<Path>> {
    section.get(name)?;
    let Some((node, text)) = section.text_node(name) else { return Some(None) };
    match Path::parse(text, prefixes) {
        Ok(path) => Some(Some(path)),
        Err(error) => {
            let place = language::character_in(section.report, node, text, error.at);
            let help =
                "write names of elements from the root on: `report/item`, `Envelope/Body/*`, `//item/@id`";
            section.report.error(place, format!("`{name}` is not a path: {error}"), help);
            Some(None)
        }
    }
}
