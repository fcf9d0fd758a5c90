//! Examples.

use super::*;

pub(in crate::config) static EXAMPLE: Keys = Keys::new(
    "an example",
    "example",
    &[
        key("name", Text, "What it shows."),
        key("args", Map(&Anything), "The arguments of the call."),
        key(
            "input_responses",
            Map(&Anything),
            "The answers to the questions of the route, as templates see them.",
        ),
        key("response", Section(|| &EXAMPLE_RESPONSE), "What the upstream answers."),
        key("expect", Section(|| &EXPECT), "What clients then get; what is not named here is not compared."),
    ],
);

pub(in crate::config) static EXAMPLE_RESPONSE: Keys = Keys::new(
    "`response`",
    "example_response",
    &[
        key("status", Count(100, 599), "The HTTP status. Default 200."),
        key("exit_status", Scalar, "Of a command: its exit status, or the signal that ended it. Default 0."),
        key("stderr", Scalar, "Of a command: what it wrote to standard error."),
        key("content_type", Text, "The `Content-Type`."),
        key("headers", Map(&Scalar), "Other headers."),
        key("body", Scalar, "The body, or what a command wrote, as text."),
        key("body_base64", Text, "The body, in Base64."),
        key(
            "recording",
            Text,
            "A file beside this one that holds the reply: a body, what `curl -i` printed, or a HAR file.",
        ),
        key(
            "entry",
            Scalar,
            "Which reply of a HAR file: its number, or a part of its URL. Default: the last.",
        ),
    ],
);

pub(in crate::config) static EXPECT: Keys = Keys::new(
    "`expect`",
    "expect",
    &[
        key("structuredContent", Anything, "The structured content."),
        key(
            "content",
            Either(&[Text, List(&Map(&Anything))]),
            "The blocks of content as clients get them, or the text of the first.",
        ),
        key("isError", Flag, "Whether it is a tool error. Default `false`."),
        key("text", Text, "Words that the text of the first block has in it."),
    ],
);
