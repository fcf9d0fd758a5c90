//! What is asked before something is done.

use super::*;

/// What `input_requests` takes: one round, or several.
pub(in crate::config) const ASK: Takes = OneOrMore(&Map(&Section(|| &QUESTION)));

/// What `input_timeout` takes.
pub(in crate::config) const ANSWER_WITHIN: Takes = Duration(SECOND, HOUR);

/// What `sample` takes.
pub(in crate::config) const SAMPLE_FORM: Takes = Either(&[Text, Section(|| &SAMPLE)]);

pub(in crate::config) static QUESTION: Keys = Keys::new(
    "a question",
    "question",
    &[
        key(
            "when",
            Text,
            "A jq condition on `$args` and the answers so far, `$input_responses`. Without it, always.",
        ),
        key("message", Text, "What the person reads: a template. Alone, it is answered with yes or no."),
        key(
            "fields",
            Map(&Either(&[Word(FORM_TYPES), Section(|| &FORM_FIELD)])),
            "What there is to fill in: a type each, with `?` behind it where it may be left out, or a map.",
        ),
        key("schema", Map(&Anything), "The same as the JSON Schema that goes to the client."),
        key(
            "arguments",
            NAMES,
            "The arguments that the person fills in where the caller left them out, as `input` has them.",
        ),
        key(
            "url",
            Text,
            "An address that the person opens; templates in it are percent-encoded. For secrets, which no form may ask for.",
        ),
        key("sample", SAMPLE_FORM, "What the client's model is asked: a template, or a map."),
        key("roots", Flag, "`true` asks the client which folders it works in."),
        key(
            "optional",
            Flag,
            "Whether the call goes on where nobody can be asked, or nobody wants to answer. Default `false`.",
        ),
    ],
);

pub(in crate::config) static FORM_FIELD: Keys = Keys::new(
    "a field of a form",
    "form_field",
    &[
        key("type", Word(FORM_TYPES), "What it takes. Default `string`."),
        key("title", Text, "What the person sees beside it."),
        key("description", Text, "What it is for."),
        key(
            "choices",
            Either(&[List(&Text), Map(&Text)]),
            "What there is to choose from: values, or values with titles.",
        ),
        key("multiple", Flag, "Whether several of the choices can be taken. Default `false`."),
        key("default", Anything, "What stands in it at first."),
        key("optional", Flag, "Whether it may be left out. Default `false`."),
    ],
);

/// The types of fields that clients have.
pub(in crate::config) const FORM_TYPES: &[&str] = &[
    "string",
    "string?",
    "integer",
    "integer?",
    "number",
    "number?",
    "boolean",
    "boolean?",
    "email",
    "email?",
    "uri",
    "uri?",
    "date",
    "date?",
    "date-time",
    "date-time?",
];

pub(in crate::config) static SAMPLE: Keys = Keys::new(
    "`sample`",
    "sample",
    &[
        key(
            "messages",
            Either(&[Text, List(&Section(|| &MESSAGE))]),
            "What is said: a template, or a list of them by speaker.",
        ),
        key("system", Text, "What the model should know of its task: a template."),
        key("max_tokens", Count(1, 1_000_000), "How long the answer may be. Default 1000."),
        key("temperature", Fraction, "How freely the model answers."),
        key("stop", NAMES, "Words at which it stops."),
        key("models", NAMES, "Names, or parts of names, of models that are fit for it, the best first."),
        key("optional", Flag, "Whether the call goes on without an answer. Default `false`."),
    ],
);

pub(in crate::config) static MESSAGE: Keys = Keys::new(
    "a message",
    "message",
    &[
        key("user", Text, "What the person says: a template."),
        key("assistant", Text, "What the model said: a template."),
    ],
);
