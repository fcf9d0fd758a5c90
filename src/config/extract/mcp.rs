//! `mcp` as the file has it.

use super::{Alone, Form};
use crate::{
    config::keys::MCP,
    translate::extract::{ExtractorKind, Mcp},
};

pub(super) const FORM: Form = Form {
    name: "mcp",
    keys: &MCP,
    alone: Alone::Is(|| ExtractorKind::Mcp(Mcp)),
    short: None,
    options: |_| Some(ExtractorKind::Mcp(Mcp)),
};
