//! Compilation of jq filters and templates in sections whose keys are parsed one by one.

use super::{report::Report, section::cursor, tree::Node};
use crate::{
    settings::section::Setting,
    translate::{Jq, Template, expressions},
};

pub(super) use crate::translate::expressions::{arguments_of, span_of_name};

/// Compiles a jq condition, which may not be an assignment.
pub(super) fn condition(report: &Report<'_>, node: &Node, what: &str) -> Option<Jq> {
    let value = cursor(report, node.span, node, what, Jq::KIND);
    expressions::check_condition(&value, expressions::jq(&value, &[]).ok()?).ok()
}

/// Compiles a template that may use these names.
pub(super) fn template(report: &Report<'_>, node: &Node, what: &str, names: &[&str]) -> Option<Template> {
    expressions::template(&cursor(report, node.span, node, what, Template::KIND), names).ok()
}
