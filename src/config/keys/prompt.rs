//! Prompts, and what completes an argument.

use super::*;
use crate::config::content;

pub(in crate::config) static PROMPT: Keys = Keys::new(
    "a prompt",
    "prompt",
    &[
        key("title", Text, "A name for people."),
        key("description", Text, "What it is for; people choose by it."),
        key(
            "arguments",
            Map(&Either(&[Nothing, Section(|| &PROMPT_ARGUMENT)])),
            "What a person is asked for, by name.",
        ),
        key(
            "confirm",
            Text,
            "A question that a person says yes to before the messages are made: a template.",
        ),
        key(
            "input_requests",
            ASK,
            "What a person, or the client's model, is asked before that; a list is asked one after the other.",
        ),
        key("input_timeout", ANSWER_WITHIN, "How long an answer may take. Default `10m`."),
        key(
            "scopes",
            SCOPES,
            "What a caller needs for it, beside what the routes need that it shows; in the place of those of `defaults`.",
        ),
        key("messages", List(&Section(|| &PROMPT_MESSAGE)), "What it says, in order."),
    ],
);

pub(in crate::config) static PROMPT_ARGUMENT: Keys = Keys::new(
    "an argument of a prompt",
    "prompt_argument",
    &[
        key("title", Text, "A name for people."),
        key("description", Text, "What it means."),
        key("required", Flag, "Whether the prompt can't be had without it. Default `false`."),
        key("completions", COMPLETE_FORM, "What it may be: a list of values, or a route that gives them."),
    ],
);

pub(in crate::config) static PROMPT_MESSAGE: Keys = Keys::new(
    "a message",
    "prompt_message",
    &[
        key("user", PROMPT_CONTENT, "What the person says: a template, a block, or a list of blocks."),
        key("assistant", PROMPT_CONTENT, "What the model says."),
    ],
);

const PROMPT_CONTENT: Takes = Either(&[Text, Section(|| &PROMPT_BLOCK), List(&Section(|| &PROMPT_BLOCK))]);

pub(in crate::config) static PROMPT_BLOCK: Keys = Keys::new(
    "a block of a message",
    "prompt_block",
    &[
        key("text", Text, "A text: a template. An empty one is left out."),
        key("route", Text, "The route whose result is shown: all its blocks."),
        key("args", Map(&Anything), "The arguments for that route: a template each, or a value."),
        key(
            "resource",
            Either(&[Text, Section(|| &PROMPT_RESOURCE)]),
            "An embedded document: the URI of a resource of a route, or a map.",
        ),
        key("resource_link", content::ResourceLink::KIND, "A link to a document."),
        key(
            "annotations",
            content::BlockAnnotations::KIND,
            "Hints for clients, for blocks that have none of their own.",
        ),
    ],
);

pub(in crate::config) static PROMPT_RESOURCE: Keys = Keys::new(
    "`resource`",
    "prompt_resource",
    &[
        key("uri", Text, "What the document is called: a template."),
        key(
            "text",
            Text,
            "What is in it: a template. Without it, it is read from the route whose resource has the URI.",
        ),
        key("media_type", Text, "The media type of `text`. Default `text/plain`."),
    ],
);

/// What completes an argument.
pub(super) const COMPLETE_FORM: Takes = Either(&[List(&Scalar), Section(|| &COMPLETE)]);

pub(in crate::config) static COMPLETE: Keys = Keys::new(
    "`completions`",
    "completions",
    &[
        key("route", Text, "The route that gives the values."),
        key("args", Map(&Anything), "The arguments for that route: a template each, or a value."),
        key(
            "values",
            Text,
            "jq: from its result to the list of values. Default: the result is the list, or the lines of its text.",
        ),
    ],
);
