//! `ndjson` as the file has it.

use super::{Alone, Form};
use crate::{
    config::keys::NDJSON,
    rule::extract::{ExtractorKind, NdJson},
};

pub(super) const FORM: Form = Form {
    name: "ndjson",
    keys: &NDJSON,
    alone: Alone::Is(|| ExtractorKind::NdJson(NdJson)),
    short: None,
    options: |_| Some(ExtractorKind::NdJson(NdJson)),
};
