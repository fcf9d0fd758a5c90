//! Blocks of content.

use super::*;

pub(super) const CONTENT: Takes = Either(&[Text, Section(&BLOCK), List(&Section(&BLOCK))]);

pub(in crate::config) static BLOCK: Keys = Keys {
    of: "a block of content",
    id: "block",
    list: &[
        key("text", Text, "A text: a template."),
        key(
            "as",
            Word(&["verbatim", "json", "json-pretty"]),
            "The reply's text as it is, or the structured value as JSON.",
        ),
        key("image", Text, "A picture: `reply` for the reply's bytes, or a template that gives Base64."),
        key("audio", Text, "A sound: `reply`, or a template that gives Base64."),
        key(
            "resource",
            Either(&[Word(&["reply"]), Section(&RESOURCE)]),
            "An embedded document: `reply` for the reply's bytes, or a map.",
        ),
        key("resource_link", Section(&RESOURCE_LINK), "A link to a document."),
        key("media_type", Text, "The media type of `image`, `audio` or `resource: reply`."),
        key("annotations", Section(&BLOCK_ANNOTATIONS), "Hints for clients."),
    ],
};

pub(in crate::config) static RESOURCE: Keys = Keys {
    of: "`resource`",
    id: "resource",
    list: &[
        key("uri", Text, "What the document is called: a template."),
        key("media_type", Text, "Its media type; the reply's own when absent."),
        key("text", Text, "Its text: a template; the reply's text when absent."),
    ],
};

pub(in crate::config) static RESOURCE_LINK: Keys = Keys {
    of: "`resource_link`",
    id: "resource_link",
    list: &[
        key("uri", Text, "Where to: a template."),
        key("name", Text, "A short name: a template."),
        key("description", Text, "What it is: a template."),
        key("media_type", Text, "The media type of what it leads to."),
    ],
};

pub(in crate::config) static BLOCK_ANNOTATIONS: Keys = Keys {
    of: "`annotations`",
    id: "block_annotations",
    list: &[
        key("audience", List(&Word(&["user", "assistant"])), "For whom it is."),
        key("priority", Fraction, "From 0, optional, to 1, required."),
        key("lastModified", Text, "When it was changed, as in `2026-11-21T09:30:00Z`."),
    ],
};
