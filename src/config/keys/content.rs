//! Blocks of content.

use super::*;

pub(super) const CONTENT: Takes = Either(&[Text, Section(|| &BLOCK), List(&Section(|| &BLOCK))]);

pub(in crate::config) static BLOCK: Keys = Keys::new(
    "a block of content",
    "block",
    &[
        key("text", Text, "A text: a template."),
        key(
            "as",
            Word(&["verbatim", "json", "json-pretty"]),
            "The reply's text as it is, or the structured value as JSON.",
        ),
        key(
            "image",
            Text,
            "A picture: `response` for the response's bytes, or a template that gives Base64.",
        ),
        key("audio", Text, "A sound: `response`, or a template that gives Base64."),
        key(
            "resource",
            Either(&[Word(&["response"]), Section(|| &RESOURCE)]),
            "An embedded document: `response` for the response's bytes, or a map.",
        ),
        key("resource_link", Section(|| &RESOURCE_LINK), "A link to a document."),
        key("media_type", Text, "The media type of `image`, `audio` or `resource: response`."),
        key(
            "when",
            Text,
            "A jq condition on the structured value; where it does not hold, the block is left out.",
        ),
        key(
            "for_each",
            Text,
            "jq: gives a list, and there is one block for each of its rows, called `item`.",
        ),
        key("annotations", Section(|| &BLOCK_ANNOTATIONS), "Hints for clients."),
    ],
);

pub(in crate::config) static RESOURCE: Keys = Keys::new(
    "`resource`",
    "resource",
    &[
        key("uri", Text, "What the document is called: a template."),
        key("media_type", Text, "Its media type; the reply's own when absent."),
        key("text", Text, "Its text: a template; the reply's text when absent."),
        key("blob", Text, "Its bytes instead: a template that gives Base64."),
    ],
);

pub(in crate::config) static RESOURCE_LINK: Keys = Keys::new(
    "`resource_link`",
    "resource_link",
    &[
        key("uri", Text, "Where to: a template."),
        key("name", Text, "A short name: a template."),
        key("description", Text, "What it is: a template."),
        key("media_type", Text, "The media type of what it leads to."),
    ],
);

pub(in crate::config) static BLOCK_ANNOTATIONS: Keys = Keys::new(
    "`annotations`",
    "block_annotations",
    &[
        key("audience", List(&Word(&["user", "assistant"])), "For whom it is."),
        key("priority", Fraction, "From 0, optional, to 1, required."),
        key("lastModified", Text, "When it was changed, as in `2026-11-21T09:30:00Z`; may be a template."),
    ],
);

pub(in crate::config) static LIMIT: Keys = Keys::new(
    "`limit`",
    "limit",
    &[
        key("rows", Count(1, 100_000), "How many rows of the list are shown."),
        key("characters", Count(100, 100_000_000), "How long the JSON, and all other text, may be."),
        key("path", Text, "Where the list is, as `.data.rows`. Default: the longest list of the structure."),
        key("note", Text, "What is said of the rest: a template that sees `limit` and `args`."),
        key("more", Section(|| &MORE), "The arguments that ask for the rest."),
    ],
);

pub(in crate::config) static MORE: Keys = Keys::new(
    "`more`",
    "more",
    &[
        key("offset", Text, "The argument that says how many rows to pass over."),
        key("page", Text, "The argument that says which page."),
        key("size", Text, "The argument that says how many rows a page has."),
        key("first", Count(0, 1), "What the first row is, or page. Default 0 of `offset`, 1 of `page`."),
    ],
);
