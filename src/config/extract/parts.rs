//! `extract` as a map of extractors by name. Each returns one part of the value.

use super::{
    CompiledExtract, ExtractSettings, ONE_EXTRACTOR, ParsedExtractor, is_extractor, names, read_one,
};
use crate::config::renamed::RENAMES;
use crate::settings::{Checked, Code, Cursor, Entry, Kind, Node, Section as _, suggest};
use crate::translate::extract::{Extract, ExtractPart, ExtractorKind, ValueCount};

/// Whether it is a map of names: some key is not a key of `extract`, and its value looks like an extractor,
/// possibly misspelled. Otherwise an unknown key is a misspelled extractor.
pub(super) fn is_map_of_names(node: &Node) -> bool {
    let entries = node.as_map().unwrap_or_default();
    let table = ExtractSettings::keys();
    let is_key = |key: &str| table.get(key).is_some() || RENAMES.key(table.id, key).is_some();
    entries
        .iter()
        .any(|entry| !is_key(&entry.key.text) && looks_like_an_extractor(&entry.value, &entry.key.text))
}

fn looks_like_an_extractor(node: &Node, name: &str) -> bool {
    match &node.kind {
        Kind::Text(text) => is_extractor(text),
        Kind::Map(entries) => {
            let misspelt = suggest::nearest(name, names()).is_some();
            entries.iter().any(|entry| {
                is_extractor(&entry.key.text)
                    || (!misspelt && suggest::nearest(&entry.key.text, names()).is_some())
            })
        }
        Kind::Null | Kind::Boolean(_) | Kind::Number(_) | Kind::List(_) => false,
    }
}

pub(super) fn read(value: &Cursor<'_>) -> Checked<CompiledExtract> {
    let entries = value.node.as_map().unwrap_or_default();
    let parts: Vec<_> = entries.iter().map(|entry| part(value, entry)).collect();
    let extract = Extract::Parts(parts.into_iter().collect::<Checked<_>>()?);
    Ok(CompiledExtract { extract, fields_span: Some(value.place) })
}

fn part(value: &Cursor<'_>, entry: &Entry) -> Checked<ExtractPart> {
    let name = &entry.key.text;
    if ExtractSettings::keys().get(name).is_some() {
        let what = if is_extractor(name) { "an extractor" } else { "a key of `extract`" };
        let message = format!("`{name}` can't be the name of a part: it is {what}");
        let help = format!("rename the part: `the_{name}`");
        return value.reject_coded(Code::ConflictingKeys.at_span(entry.key.span), message, help);
    }
    let label = format!("`{name}`");
    let value = value.member(entry, &label, ONE_EXTRACTOR);
    let ParsedExtractor { extractor, optional, .. } = read_one(&value)?;
    let why = match extractor.kind {
        ExtractorKind::Mcp(_) => "reads the whole result, which may be an error",
        _ if extractor.kind.value_count() == ValueCount::Block => "returns a block and no value",
        _ => return Ok(ExtractPart { name: name.clone(), extractor, optional }),
    };
    let message = format!("`{}` can't be a part: it {why}", extractor.kind.name());
    let help = "use it alone, in a rule of its own";
    value.reject_coded(Code::WrongExtractor.at_span(value.node.span), message, help)
}
