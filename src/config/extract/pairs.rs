//! `pairs` as the file has it.

use super::{Alone, Form};
use crate::{
    config::keys::PAIRS,
    rule::extract::{ExtractorKind, Pairs},
};

pub(super) const FORM: Form = Form {
    name: "pairs",
    keys: &PAIRS,
    alone: Alone::Is(|| ExtractorKind::Pairs(Pairs::default())),
    short: None,
    options: |section| {
        let pairs = match section.text_node("separator") {
            Some((node, "")) => {
                section.report.error(
                    node.span,
                    "`separator` is empty",
                    "write what stands between key and value: `separator: \"=\"`",
                );
                return None;
            }
            Some((_, text)) => Pairs { separator: text.to_owned() },
            None => Pairs::default(),
        };
        Some(ExtractorKind::Pairs(pairs))
    },
};
