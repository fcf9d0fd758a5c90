//! Prompts, and what completes an argument.

use super::*;
use crate::config::content;

pub(in crate::config) static PROMPT: Keys = Keys::new(
    "a prompt",
    "prompt",
    &[
        key("title", Text, "A name for people."),
        key("description", Text, "Description, by which people select a prompt."),
        key(
            "arguments",
            Map(&Either(&[Nothing, Section(|| &PROMPT_ARGUMENT)])),
            "Arguments that a person enters, by name.",
        ),
        key(
            "confirm",
            Text,
            "Confirmation that a person must accept before the messages are created: a template.",
        ),
        key(
            "input_requests",
            ASK,
            "Input requests to the person or the client's model, before the confirmation. Items of a list \
             are sent one after the other.",
        ),
        key("input_timeout", ANSWER_WITHIN, "Timeout of an input request. Default `10m`."),
        key(
            "scopes",
            SCOPES,
            "Scopes that a client needs, in addition to those of the routes in it; replaces those of \
             `defaults`.",
        ),
        key("messages", List(&Section(|| &PROMPT_MESSAGE)), "Messages, in order."),
    ],
);

pub(in crate::config) static PROMPT_ARGUMENT: Keys = Keys::new(
    "an argument of a prompt",
    "prompt_argument",
    &[
        key("title", Text, "A name for people."),
        key("description", Text, "What it means."),
        key("required", Flag, "Whether the argument is required. Default `false`."),
        key("completions", COMPLETE_FORM, "Completion: a list of values, or a route that returns them."),
    ],
);

pub(in crate::config) static PROMPT_MESSAGE: Keys = Keys::new(
    "a message",
    "prompt_message",
    &[
        key(
            "user",
            PROMPT_CONTENT,
            "Content with the role `user`: a template, a block, or a list of blocks.",
        ),
        key("assistant", PROMPT_CONTENT, "Content with the role `assistant`, in the same forms."),
    ],
);

const PROMPT_CONTENT: Takes = Either(&[Text, Section(|| &PROMPT_BLOCK), List(&Section(|| &PROMPT_BLOCK))]);

pub(in crate::config) static PROMPT_BLOCK: Keys = Keys::new(
    "a block of a message",
    "prompt_block",
    &[
        key("text", Text, "Text: a template. An empty text is omitted."),
        key("route", Text, "Route to call. All blocks of its result are inserted."),
        key("args", Map(&Anything), "Arguments for the route: each a template, or a value."),
        key(
            "resource",
            Either(&[Text, Section(|| &PROMPT_RESOURCE)]),
            "Embedded resource: the URI of a route's resource, or a map.",
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
            "Text of the resource: a template. Default: the resource of the route with this URI.",
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
        key("args", Map(&Anything), "Arguments for the route: each a template, or a value."),
        key(
            "values",
            Text,
            "jq filter from the result to the list of values. Default: the result itself, or the lines of \
             its text.",
        ),
    ],
);
