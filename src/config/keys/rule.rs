//! A rule and when it holds.

use super::*;

/// What `response` takes.
pub(in crate::config) const RESPONSE: Takes = OneOrMore(&Either(&[Section(|| &RULE), Section(|| &USE)]));

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

pub(in crate::config) static RULE: Keys = Keys::new(
    "a rule",
    "rule",
    &[
        key("when", Section(|| &WHEN), "When the rule holds; all of it must. Without `when` it always does."),
        key(
            "error",
            Either(&[Text, Section(|| &ERROR)]),
            "Makes the reply a tool error: a template for its text, or a map.",
        ),
        key("status", ERROR_CODES, "The HTTP status of that error for REST clients."),
        key("extract", EXTRACTOR, "What reads a value from the reply; by its media type when absent."),
        key("structured", Text, "jq: from that value to the structured content."),
        key(
            "sample",
            SAMPLE_FORM,
            "What the client's model is asked about the reply: `input_responses.sample.text` in `content`.",
        ),
        key("content", CONTENT, "What people and models see: a template, `{ as: … }`, or a list of blocks."),
        key("limit", Section(|| &LIMIT), "How much of a success is shown."),
        key("charset", Text, "The charset of the text, when the reply does not say it, or lies."),
    ],
);

/// What reads a value from a reply.
pub(super) const EXTRACTOR: Takes = Either(&[Word(EXTRACTORS), Section(|| &EXTRACT), Map(&PART)]);

const ERROR_CODES: Takes = Count(400, 599);

pub(in crate::config) static ERROR: Keys = Keys::new(
    "`error`",
    "error",
    &[
        key("text", Text, "What the model reads: a template."),
        key(
            "code",
            Scalar,
            "The error's code for programs: a template; `{{ json.code }}` alone keeps its type.",
        ),
        key("structured", Text, "jq: from the value to the structured content of the error."),
        key("status", ERROR_CODES, "Its HTTP status for REST clients."),
    ],
);

pub(in crate::config) static WHEN: Keys = Keys::new(
    "`when`",
    "when",
    &[
        key("status", OneOrMore(&Scalar), "`404`, `4xx` or `400-499`, or a list."),
        key(
            "exit_status",
            OneOrMore(&Scalar),
            "How a command ended: `1`, `1-9`, `SIGKILL` or `signal` for any, or a list.",
        ),
        key(
            "stderr",
            Text,
            "A regular expression that what a command wrote to standard error matches; its named captures are names.",
        ),
        key("content_type", OneOrMore(&Text), "`text/plain`, `text/*` or `application/*+json`, or a list."),
        key("header", Map(&Scalar), "Regular expressions that the headers' values match."),
        key(
            "text",
            Text,
            "A regular expression that the text matches; its named captures are names in templates.",
        ),
        key("json", Text, "A jq condition on the reply, which must be JSON."),
        key("args", Text, "A jq condition on the call's arguments."),
        key("value", Text, "A jq condition on what this rule's `extract` gives."),
        key("not", Section(|| &WHEN), "Conditions that must not hold all together."),
    ],
);
