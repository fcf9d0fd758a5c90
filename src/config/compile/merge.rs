//! Merges the trees of all files.

use std::collections::HashMap;

use crate::config::{
    code::Code,
    report::Report,
    source::SourceSpan,
    tree::{Entry, Kind, Node},
    version,
};

/// Merges the trees of all files: sections are joined, and a name in two files is an error.
pub(in crate::config) fn merge(report: &Report<'_>, trees: Vec<Node>) -> Option<Node> {
    let mut merged: Option<(SourceSpan, Vec<Entry>)> = None;
    for tree in trees {
        let Kind::Map(entries) = tree.kind else {
            let help = "write the keys of sections: `upstreams:`, `routes:`";
            report.error(
                Code::WrongType.at_span(tree.span),
                format!("expected a map with the keys of the file, found {}", tree.found()),
                help,
            );
            continue;
        };
        match &mut merged {
            None => merged = Some((tree.span, entries)),
            Some((_, known)) => join(report, known, entries, true),
        }
    }
    merged.map(|(span, entries)| Node::new(Kind::Map(entries), span))
}

fn join(report: &Report<'_>, known: &mut Vec<Entry>, more: Vec<Entry>, sections: bool) {
    let mut places: HashMap<String, usize> =
        known.iter().enumerate().map(|(index, entry)| (entry.key.text.clone(), index)).collect();
    for entry in more {
        let Some(&index) = places.get(&entry.key.text) else {
            places.insert(entry.key.text.clone(), known.len());
            known.push(entry);
            continue;
        };
        let first = &mut known[index];
        match (&mut first.value.kind, entry.value.kind) {
            (Kind::Map(known), Kind::Map(more)) if sections => join(report, known, more, false),
            // Each file has its own `version`.
            _ if sections && first.key.text == version::KEY => {}
            _ => {
                let message = format!(
                    "`{}` is defined in two files; the other definition is at {}",
                    entry.key.text,
                    report.file_and_line(first.key.span)
                );
                report.error(
                    Code::DuplicateKey.at_span(entry.key.span),
                    message,
                    "remove one of the two, or rename one",
                );
            }
        }
    }
}
