//! Input requests.

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
            "jq condition on `$args` and earlier responses, `$input_responses`. Default: always.",
        ),
        key("message", Text, "Message to the user: a template. Alone, it is a yes-or-no confirmation."),
        key(
            "fields",
            Map(&Either(&[Word(FORM_TYPES), Section(|| &FORM_FIELD)])),
            "Form fields: a type each, with `?` if optional, or a map.",
        ),
        key("schema", Map(&Anything), "The form as a JSON Schema, as it is sent to the client."),
        key(
            "arguments",
            NAMES,
            "Arguments that the user fills in if the client omitted them, with their schema from `input`.",
        ),
        key(
            "url",
            Text,
            "URL that the user opens; templates in it are percent-encoded. For secrets, which forms must not \
             request.",
        ),
        key("sample", SAMPLE_FORM, "Sampling request to the client's model: a template, or a map."),
        key("roots", Flag, "`true` requests the client's workspace folders."),
        key(
            "optional",
            Flag,
            "Whether the call continues if the client does not support the request, or the user declines. Default \
             `false`.",
        ),
    ],
);

pub(in crate::config) static FORM_FIELD: Keys = Keys::new(
    "a field of a form",
    "form_field",
    &[
        key("type", Word(FORM_TYPES), "Type. Default `string`."),
        key("title", Text, "Display name."),
        key("description", Text, "Description."),
        key("choices", Either(&[List(&Text), Map(&Text)]), "Allowed values, or values with titles."),
        key("multiple", Flag, "Whether several choices can be selected. Default `false`."),
        key("default", Anything, "Initial value."),
        key("optional", Flag, "Whether the field may be omitted. Default `false`."),
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
            "Messages: a template for one of the user, or a list by role.",
        ),
        key("system", Text, "System prompt: a template."),
        key("max_tokens", Count(1, 1_000_000), "Maximum length of the output, in tokens. Default 1000."),
        key("temperature", Fraction, "Sampling temperature."),
        key("stop", NAMES, "Stop sequences."),
        key("models", NAMES, "Model hints: names or parts of names, the best first."),
        key("optional", Flag, "Whether the call continues without the model's output. Default `false`."),
    ],
);

pub(in crate::config) static MESSAGE: Keys = Keys::new(
    "a message",
    "message",
    &[
        key("user", Text, "Message of the user: a template."),
        key("assistant", Text, "Message of the model: a template."),
    ],
);
