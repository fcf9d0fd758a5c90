//! `form` as the file has it.

use super::Alone;
use crate::{
    config::keys::FORM as KEYS,
    translate::extract::{ExtractorKind, Form},
};

pub(super) const FORM: super::Form = super::Form {
    name: "form",
    keys: &KEYS,
    alone: Alone::Is(|| ExtractorKind::Form(Form)),
    short: None,
    options: |_| Some(ExtractorKind::Form(Form)),
};
