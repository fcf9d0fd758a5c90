//! A rule and when it holds.

use super::*;
use crate::config::reply::RuleSettings;

/// What `response` takes.
pub(in crate::config) const RESPONSE: Takes = OneOrMore(&Either(&[RuleSettings::KIND, Section(|| &USE)]));

/// What stands under a name of `rules`.
pub(in crate::config) static RULES_FORM: Takes = Either(&[RESPONSE, Section(|| &RULE_SET)]);

pub(in crate::config) static USE: Keys = Keys::new(
    "a use of named rules",
    "use",
    &[
        key("use", Text, "The name of rules under `rules`, or of a preset: they stand in its place."),
        key("with", Map(&Anything), "Values for their parameters."),
    ],
);

pub(in crate::config) static RULE_SET: Keys = Keys::new(
    "named rules",
    "rules",
    &[
        key("description", Text, "What they are for."),
        key(
            "parameters",
            Map(&Anything),
            "Names that stand in the rules as `$(name)`, each with its default; without one it must be given.",
        ),
        key("response", RESPONSE, "The rules."),
    ],
);

/// What reads a value from a reply.
pub(in crate::config) const EXTRACTOR: Takes = Either(&[Word(EXTRACTORS), Section(|| &EXTRACT), Map(&PART)]);
