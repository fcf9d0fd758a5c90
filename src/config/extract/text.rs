//! `text` as the file has it.

use super::{Alone, Form};
use crate::{
    config::keys::TEXT,
    translate::extract::{ExtractorKind, Text},
};

pub(super) const FORM: Form = Form {
    name: "text",
    keys: &TEXT,
    alone: Alone::Is(|| ExtractorKind::Text(Text::default())),
    short: None,
    options: |section| Some(ExtractorKind::Text(Text { trim: section.flag("trim").unwrap_or(false) })),
};
