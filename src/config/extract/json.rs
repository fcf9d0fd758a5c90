//! `json` as the file has it.

use super::{Alone, Form};
use crate::{
    config::keys::JSON,
    translate::extract::{ExtractorKind, Json},
};

pub(super) const FORM: Form = Form {
    name: "json",
    keys: &JSON,
    alone: Alone::Is(|| ExtractorKind::Json(Json)),
    short: None,
    options: |_| Some(ExtractorKind::Json(Json)),
};
