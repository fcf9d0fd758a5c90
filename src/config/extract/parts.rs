//! `extract` as a map of names to extractors: each gives a part of the value.

use super::{Compiled, One, names, one};
use crate::{
    config::{
        keys::EXTRACT,
        node::{Kind, Node},
        renamed::RENAMES,
        report::Report,
        suggest,
    },
    translate::extract::{Extract, ExtractorKind, Gives, Part},
};

/// Whether it is such a map: some key of it is no word of `extract`, and what stands under that looks like an
/// extractor, well written or nearly. Else an unknown key is a misspelt extractor.
pub(super) fn is_map_of_names(node: &Node) -> bool {
    let entries = node.as_map().unwrap_or_default();
    let is_key = |key: &str| EXTRACT.get(key).is_some() || RENAMES.key(EXTRACT.id, key).is_some();
    entries
        .iter()
        .any(|entry| !is_key(&entry.key.text) && looks_like_an_extractor(&entry.value, &entry.key.text))
}

fn looks_like_an_extractor(node: &Node, name: &str) -> bool {
    let is_one = |word: &str| names().any(|name| name == word);
    match &node.kind {
        Kind::Text(text) => is_one(&text.text),
        Kind::Map(entries) => {
            let misspelt = suggest::nearest(name, names()).is_some();
            entries.iter().any(|entry| {
                is_one(&entry.key.text) || (!misspelt && suggest::nearest(&entry.key.text, names()).is_some())
            })
        }
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::List(_) => false,
    }
}

pub(super) fn read(report: &Report<'_>, entry: &crate::config::node::Entry) -> Option<Compiled> {
    let mut parts = Vec::new();
    let mut good = true;
    for entry in entry.value.as_map().unwrap_or_default() {
        let name = &entry.key.text;
        if EXTRACT.get(name).is_some() {
            let what =
                if names().any(|known| known == *name) { "an extractor" } else { "a key of `extract`" };
            let message = format!("`{name}` is {what}, and stands among names of parts");
            report.error(entry.key.span, message, format!("give the part another name: `the_{name}`"));
            good = false;
            continue;
        }
        let Some(One { extractor, optional, .. }) = one(report, entry) else {
            good = false;
            continue;
        };
        if extractor.kind.gives() == Gives::Block {
            let message =
                format!("`{}` gives a block, and no value that could be a part", extractor.kind.name());
            report.error(entry.value.span, message, "let it stand alone, in a rule of its own");
            good = false;
        }
        if matches!(extractor.kind, ExtractorKind::Mcp(_)) {
            let message = "`mcp` reads a whole result, which may be an error, and is not part of one";
            report.error(entry.value.span, message, "let it stand alone, in a rule of its own");
            good = false;
        }
        parts.push(Part { name: name.clone(), extractor, optional: optional.is_some() });
    }
    good.then(|| Compiled { extract: Extract::Parts(parts), fields_span: Some(entry.key.span) })
}
