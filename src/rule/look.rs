//! Questions about a reply that is no result yet: whether a job is done, say.

use serde_json::Value;

use super::{
    extract::{Extract, Extractor, ExtractorKind, Json},
    jq::Jq,
    matcher::{Captures, Matcher},
    names::jq_names,
    response_view::{ExpandedBody, Finding, ResponseView},
    rules::TranslationLimits,
    translation::Facts,
};
use crate::reply::Reply;

/// A reply that is asked several questions; what they share is read once.
pub struct Look<'a> {
    view: &'a ResponseView<'a>,
    finding: Finding<'a>,
}

/// Asks questions of a reply. Without an extractor its value is the JSON that it is, whatever its media type says, and
/// by media type otherwise.
pub fn look<T>(
    extract: Option<&Extract>,
    facts: Facts<'_>,
    limits: &TranslationLimits,
    reply: &Reply,
    questions: impl FnOnce(&Look<'_>) -> T,
) -> T {
    let body = ExpandedBody::new();
    let view = ResponseView::new(reply, &body, facts, *limits);
    let json;
    let extract = match extract {
        None if view.json().is_some() => {
            json = Extract::One(Box::new(Extractor::whole(ExtractorKind::Json(Json))));
            Some(&json)
        }
        extract => extract,
    };
    questions(&Look { view: &view, finding: Finding::new(extract, &view) })
}

impl Look<'_> {
    /// Whether every condition holds.
    pub fn holds(&self, matcher: &Matcher) -> bool {
        matcher.holds(self.view, &self.finding).is_ok()
    }

    /// What a filter makes of the value; `None` where it fails, or there is nothing for it to work on.
    pub fn value(&self, filter: &Jq) -> Option<Value> {
        let captures = Captures::new();
        filter.apply(self.finding.value().ok()?, jq_names(self.view, &captures)).ok()
    }
}
