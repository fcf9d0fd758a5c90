//! `metrics` as the file has it.

use super::{Alone, Form};
use crate::{
    config::{keys::METRICS, node::Kind},
    translate::extract::{ExtractorKind, Metrics, MetricsShape, NamePattern},
};

pub(super) const FORM: Form = Form {
    name: "metrics",
    keys: &METRICS,
    alone: Alone::Is(|| ExtractorKind::Metrics(Metrics::default())),
    short: None,
    options: |section| {
        let before = section.report.errors();
        let shape = match section.word("as") {
            Some("rows") => MetricsShape::Rows,
            Some("object") => MetricsShape::Object,
            _ => MetricsShape::Samples,
        };
        let help = section.flag("help").unwrap_or(false);
        let allow_empty = section.flag("allow_empty").unwrap_or(false);
        let named = section.texts("names");
        if let (Some(named), Some(list)) = (&named, section.get("names")) {
            let example = "write `names: [node_load1, \"node_memory_*\"]`";
            if matches!(&list.kind, Kind::List(items) if items.is_empty()) {
                section.report.error(list.span, "`names` names no metric", example);
            }
            for (node, _) in named.iter().filter(|(_, name)| name.is_empty() || name.contains(['{', ' '])) {
                let message = format!("expected the name of a metric, found {}", node.found());
                let help = "a name alone, with `*` for any characters; `structured` chooses by labels";
                section.report.error(node.span, message, help);
            }
        }
        if help && shape != MetricsShape::Samples {
            section.refuse_beside(&["help"], "as");
        }
        if section.report.errors() > before {
            return None;
        }
        let names = named.unwrap_or_default().into_iter().map(|(_, name)| NamePattern::new(name)).collect();
        Some(ExtractorKind::Metrics(Metrics { names, shape, help, allow_empty }))
    },
};
