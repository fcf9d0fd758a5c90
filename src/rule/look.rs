//! Questions about a reply that is no result yet: whether a job is done, say.

use serde_json::Value;

use super::{
    content_encoding::Body,
    extract::{Extract, Extractor, ExtractorKind, Json},
    finding::Finding,
    jq::Jq,
    matcher::{Captures, Matcher},
    names::jq_names,
    reading::Reading,
    rules::TranslationLimits,
    translation::Facts,
};
use crate::reply::Reply;

/// A reply that is asked several questions; what they share is read once.
pub struct Look<'a> {
    reading: &'a Reading<'a>,
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
    let body = Body::new(reply, limits.reply_bytes);
    let reading = Reading::new(reply, &body, facts, None).with_most_values(limits.values);
    let json;
    let extract = match extract {
        None if reading.json().is_some() => {
            json = Extract::One(Box::new(Extractor::whole(ExtractorKind::Json(Json))));
            Some(&json)
        }
        extract => extract,
    };
    questions(&Look { reading: &reading, finding: Finding::new(extract, &reading) })
}

impl Look<'_> {
    /// Whether every condition holds.
    pub fn holds(&self, matcher: &Matcher) -> bool {
        matcher.holds(self.reading, &self.finding).is_ok()
    }

    /// What a filter makes of the value; `None` where it fails, or there is nothing for it to work on.
    pub fn value(&self, filter: &Jq) -> Option<Value> {
        let captures = Captures::new();
        filter.apply(self.finding.value().ok()?, jq_names(self.reading, &captures)).ok()
    }
}
