//! `ndjson` as the file has it.

use super::{Alone, Form};
use crate::{
    config::keys::NDJSON,
    translate::extract::{ExtractorKind, NdJson},
};

pub(super) const FORM: Form = Form {
    name: "ndjson",
    keys: &NDJSON,
    alone: Alone::Is(|| ExtractorKind::NdJson(NdJson::default())),
    short: None,
    options: |section| {
        Some(ExtractorKind::NdJson(NdJson { allow_empty: section.flag("allow_empty").unwrap_or(false) }))
    },
};
