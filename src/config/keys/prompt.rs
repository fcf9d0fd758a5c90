//! Prompts, and what completes an argument.

use super::*;
use crate::config::content;

pub(in crate::config) static PROMPT: Keys = Keys::new(
    "a prompt",
    "prompt",
    &[
        key("title", Text, "Display name."),
        key("description", Text, "Description of the prompt for users."),
        key(
            "arguments",
            Map(&Either(&[Nothing, Section(|| &PROMPT_ARGUMENT)])),
            "Arguments that the user fills in, by name.",
        ),
        key(
            "confirm",
            Text,
            "Confirmation that the user must accept before the messages are created: a template.",
        ),
        key(
            "input_requests",
            ASK,
            "Input requests to the user or the client's model before the messages are created: a map, or a \
             list of rounds.",
        ),
        key("input_timeout", ANSWER_WITHIN, "Timeout of an input request. Default `10m`."),
        key(
            "scopes",
            SCOPES,
            "Scopes that a client needs, in addition to those of the routes whose results it inserts; \
             replaces those of `defaults`.",
        ),
        key("messages", List(&Section(|| &PROMPT_MESSAGE)), "Messages, in order."),
    ],
);

pub(in crate::config) static PROMPT_ARGUMENT: Keys = Keys::new(
    "an argument of a prompt",
    "prompt_argument",
    &[
        key("title", Text, "Display name."),
        key("description", Text, "Description."),
        key("required", Flag, "Whether the argument is required. Default `false`."),
        key("completions", COMPLETE_FORM, "Completions: a list of values, or a route that returns them."),
    ],
);

pub(in crate::config) static PROMPT_MESSAGE: Keys = Keys::new(
    "a message",
    "prompt_message",
    &[
        key("user", PROMPT_CONTENT, "Message of the user: a template, a block, or a list of blocks."),
        key("assistant", PROMPT_CONTENT, "Message of the model, in the same form."),
    ],
);

const PROMPT_CONTENT: Takes = Either(&[Text, Section(|| &PROMPT_BLOCK), List(&Section(|| &PROMPT_BLOCK))]);

pub(in crate::config) static PROMPT_BLOCK: Keys = Keys::new(
    "a block of a message",
    "prompt_block",
    &[
        key("text", Text, "Text: a template. An empty text is omitted."),
        key("route", Text, "Route whose result is inserted, with all its blocks."),
        key("args", Map(&Anything), "Arguments for that route: a template each, or a value."),
        key(
            "resource",
            Either(&[Text, Section(|| &PROMPT_RESOURCE)]),
            "Embedded resource: the URI of a resource of a route, or a map.",
        ),
        key("resource_link", content::ResourceLink::KIND, "Link to a resource."),
        key(
            "annotations",
            content::BlockAnnotations::KIND,
            "Annotations for blocks that have none of their own.",
        ),
    ],
);

pub(in crate::config) static PROMPT_RESOURCE: Keys = Keys::new(
    "`resource`",
    "prompt_resource",
    &[
        key("uri", Text, "URI of the resource: a template."),
        key(
            "text",
            Text,
            "Text: a template. When absent, the content is read from the route whose resource has the URI. \
             Default: the resource of the route with this URI.",
        ),
        key("media_type", Text, "Media type of `text`. Default `text/plain`."),
    ],
);

/// What completes an argument.
pub(super) const COMPLETE_FORM: Takes = Either(&[List(&Scalar), Section(|| &COMPLETE)]);

pub(in crate::config) static COMPLETE: Keys = Keys::new(
    "`completions`",
    "completions",
    &[
        key("route", Text, "Route that returns the values."),
        key("args", Map(&Anything), "Arguments for that route: a template each, or a value."),
        key(
            "values",
            Text,
            "jq filter from its result to the list of values. Default: the result is the list, or the lines \
             of its text.",
        ),
    ],
);
