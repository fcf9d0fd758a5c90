//! Every key of the file, once: what it is called, what it takes, what it means.
//!
//! The reader refuses keys that are not here, `schema` describes the ones that are, and a test holds that each
//! is read by somebody; so file, schema and program can't drift apart.

/// The keys of one section of the file.
#[derive(Debug)]
pub(super) struct Keys {
    /// What it is called in messages: "`server`", "a route".
    pub(super) of: &'static str,
    /// What it is called in the JSON Schema.
    pub(super) id: &'static str,
    pub(super) list: &'static [Key],
}

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) takes: Takes,
    /// For people, in the schema and the reference.
    pub(super) means: &'static str,
}

/// What a key takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Takes {
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    Flag,
    /// With a unit; the least and the most, in milliseconds.
    Duration(u64, u64),
    /// With a unit; the least and the most, in bytes.
    Size(u64, u64),
    /// A whole number; the least and the most.
    Count(u64, u64),
    /// A number from 0 to 1.
    Fraction,
    /// Text, a number or a flag, taken as text.
    Scalar,
    List(&'static Self),
    /// One, or a list of them.
    OneOrMore(&'static Self),
    /// A map with names of one's own.
    Map(&'static Self),
    Section(&'static Keys),
    Either(&'static [Self]),
    /// A JSON Schema.
    JsonSchema,
    Anything,
    /// The key alone.
    Nothing,
}

use Takes::{
    Anything, Count, Duration, Either, Flag, Fraction, JsonSchema, List, Map, Nothing, OneOrMore, Scalar,
    Section, Size, Text, Word,
};

/// In a few words, for the reference.
#[cfg(test)]
impl std::fmt::Display for Takes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use super::units::{show_duration, show_size};
        match self {
            Text => formatter.write_str("text"),
            Word(words) => {
                let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
                formatter.write_str(&words.join(", "))
            }
            Flag => formatter.write_str("`true`, `false`"),
            Duration(least, most) => {
                write!(formatter, "duration, `{}` to `{}`", show_duration(*least), show_duration(*most))
            }
            Size(least, most) => write!(formatter, "size, `{}` to `{}`", show_size(*least), show_size(*most)),
            Count(least, most) => write!(formatter, "number, {least} to {most}"),
            Fraction => formatter.write_str("number, 0 to 1"),
            Scalar => formatter.write_str("text, number or flag"),
            List(item) => write!(formatter, "list of {item}"),
            OneOrMore(item) => write!(formatter, "{item}; or a list"),
            Map(value) => write!(formatter, "map of names to {value}"),
            Section(keys) => write!(formatter, "map of {}", keys.of),
            Either(kinds) => {
                let kinds: Vec<_> = kinds.iter().map(ToString::to_string).collect();
                formatter.write_str(&kinds.join("; or "))
            }
            JsonSchema => formatter.write_str("JSON Schema"),
            Anything => formatter.write_str("any value"),
            Nothing => formatter.write_str("nothing"),
        }
    }
}

impl Keys {
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.list.iter().map(|key| key.name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&'static Key> {
        self.list.iter().find(|key| key.name == name)
    }
}

impl Key {
    /// What the key means, as a `help:` has it.
    pub(super) fn help(&self) -> String {
        let means = self.means.trim_end_matches('.');
        match means.char_indices().nth(1) {
            Some((second, _)) if means.starts_with(char::is_uppercase) => {
                format!("{}{}", means[..second].to_lowercase(), &means[second..])
            }
            _ => means.to_owned(),
        }
    }
}

const fn key(name: &'static str, takes: Takes, means: &'static str) -> Key {
    Key { name, takes, means }
}

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DEADLINE: Takes = Duration(1, HOUR);
const REPLY_LIMIT: Takes = Size(1, 1 << 30);
const IN_FLIGHT: Takes = Count(1, 100_000);
const ENVELOPE: Takes = Word(&["mcp", "plain"]);
const ERROR_STATUS: Takes = Word(&["truthful", "ok"]);
const NAMES: Takes = List(&Text);

pub(super) static FILE: Keys = Keys {
    of: "the file",
    id: "file",
    list: &[
        key("server", Section(&SERVER), "Where and how the process serves."),
        key("log", Section(&LOG), "What is logged, and how."),
        key("defaults", Section(&DEFAULTS), "What holds for every route that does not say otherwise."),
        key("upstreams", Map(&UPSTREAM_FORM), "The legacy servers, by name: a URL, or a map."),
        key("passthrough", Text, "The upstream that gets every path which is no route, unchanged."),
        key("routes", Map(&Section(&ROUTE)), "The tools, by name."),
    ],
};

static UPSTREAM_FORM: Takes = Either(&[Text, Section(&UPSTREAM)]);

pub(super) static SERVER: Keys = Keys {
    of: "`server`",
    id: "server",
    list: &[
        key("listen", Text, "Address and port that clients connect to. Default `127.0.0.1:8080`."),
        key(
            "allowed_hosts",
            NAMES,
            "Values of `Host` that are answered, such as `tools.example.com`; `*` for all. Default: loopback \
             names and the address that is listened on.",
        ),
        key(
            "allowed_origins",
            NAMES,
            "Values of `Origin` that are answered, such as `https://app.example.com`; `*` for all. Default: loopback.",
        ),
        key("body_limit", Size(1, 1 << 30), "The longest request body. Default `4MiB`."),
        key(
            "body_timeout",
            Duration(1, HOUR),
            "How long a client may take to send its request's body. Default `30s`.",
        ),
        key(
            "drain",
            Duration(0, HOUR),
            "How long calls in flight may take to end when the process stops. Default `20s`.",
        ),
        key("connections", Count(1, 1_000_000), "How many connections are served at once. Default 4096."),
        key(
            "header_timeout",
            Duration(1, HOUR),
            "How long a client may take to send its request's head, and a connection be idle. Default `1m`.",
        ),
        key("name", Text, "What MCP clients are told the server is called. Default `glossator`."),
        key("title", Text, "The same for people."),
        key("instructions", Text, "What MCP clients are told about using the tools together."),
        key("page_size", Count(1, 10_000), "How many tools one page of a list has. Default 200."),
        key("list_ttl", Duration(0, 24 * HOUR), "How long clients may keep a list of tools. Default `1m`."),
    ],
};

pub(super) static LOG: Keys = Keys {
    of: "`log`",
    id: "log",
    list: &[
        key(
            "level",
            Word(&["off", "error", "warn", "info", "debug", "trace"]),
            "How much is logged. Default `info`.",
        ),
        key("format", Word(&["text", "json"]), "For people or for programs. Default `text`."),
    ],
};

pub(super) static DEFAULTS: Keys = Keys {
    of: "`defaults`",
    id: "defaults",
    list: &[
        key("deadline", DEADLINE, "How long a call may take, all in all. Default `30s`."),
        key("connect_timeout", DEADLINE, "How long connecting to an upstream may take. Default `5s`."),
        key("reply_limit", REPLY_LIMIT, "The longest reply that is read. Default `8MiB`."),
        key(
            "error_text_limit",
            Size(64, 1 << 20),
            "The longest error text that a client gets. Default `2KiB`.",
        ),
        key(
            "envelope",
            ENVELOPE,
            "What REST clients get: the tool result, or the structured value alone. Default `mcp`.",
        ),
        key(
            "error_status",
            ERROR_STATUS,
            "The HTTP status of a tool error for REST clients. Default `truthful`.",
        ),
        key("in_flight", IN_FLIGHT, "How many calls one upstream gets at once. Default 128."),
        key(
            "forward_headers",
            NAMES,
            "Names of the caller's headers that are sent on to upstreams. Default: none.",
        ),
    ],
};

pub(super) static UPSTREAM: Keys = Keys {
    of: "an upstream",
    id: "upstream",
    list: &[
        key("url", Text, "Where it is: `http://host:port/base`."),
        key("connect_timeout", DEADLINE, "How long connecting may take."),
        key(
            "headers",
            Map(&Scalar),
            "Headers sent with every request; `${NAME}` and `file:/path` keep secrets out of the file.",
        ),
        key("redirects", Count(0, 10), "How many redirects to its own address are followed. Default 0."),
        key("in_flight", IN_FLIGHT, "How many calls it gets at once."),
        key("deadline", DEADLINE, "How long a call may take, for its routes."),
        key("reply_limit", REPLY_LIMIT, "The longest reply that is read, for its routes."),
    ],
};

pub(super) static ROUTE: Keys = Keys {
    of: "a route",
    id: "route",
    list: &[
        key("title", Text, "A name for people."),
        key("description", Text, "What a model reads to decide whether to call the tool."),
        key("annotations", Section(&ANNOTATIONS), "Hints for clients, as MCP has them."),
        key(
            "rest",
            Text,
            "Where REST clients find it, beside `POST /tools/NAME`: `METHOD /path/{argument}`.",
        ),
        key(
            "request",
            Either(&[Text, Section(&REQUEST)]),
            "What the upstream is asked: `METHOD UPSTREAM/path/{argument}`, or a map.",
        ),
        key(
            "input",
            JsonSchema,
            "What arguments must look like; inferred from the placeholders when absent.",
        ),
        key("output", JsonSchema, "What the structured content looks like; enforced on every success."),
        key(
            "wrap",
            Word(&["always", "older"]),
            "Which clients get a value that is no object as `{\"result\": …}`. Default `always`.",
        ),
        key(
            "reply",
            OneOrMore(&Section(&RULE)),
            "What replies mean: rules, of which the first that holds is taken.",
        ),
        key(
            "otherwise",
            Word(&["error", "text"]),
            "What a reply is for which no rule holds. Default `error`.",
        ),
        key("deadline", DEADLINE, "How long a call may take, all in all."),
        key("reply_limit", REPLY_LIMIT, "The longest reply that is read."),
        key("envelope", ENVELOPE, "What REST clients get: the tool result, or the structured value alone."),
        key("error_status", ERROR_STATUS, "The HTTP status of a tool error for REST clients."),
        key(
            "forward_headers",
            NAMES,
            "Names of the caller's headers that are sent on, beside those of `defaults`.",
        ),
        key("tests", List(&Section(&EXAMPLE)), "Examples, run by `glossator test`."),
    ],
};

pub(super) static ANNOTATIONS: Keys = Keys {
    of: "`annotations`",
    id: "annotations",
    list: &[
        key("title", Text, "A name for people."),
        key("readOnlyHint", Flag, "The tool changes nothing."),
        key("destructiveHint", Flag, "What it changes may be lost."),
        key("idempotentHint", Flag, "Calling it again with the same arguments changes nothing more."),
        key("openWorldHint", Flag, "It reaches beyond a closed world, such as the web."),
    ],
};

pub(super) static REQUEST: Keys = Keys {
    of: "`request`",
    id: "request",
    list: &[
        key("upstream", Text, "Who is asked; may be left out when there is one upstream."),
        key("method", Text, "The HTTP method. Default `GET`, or `POST` with a body."),
        key("path", Text, "The path, with arguments as `{name}`; may end in `?name={argument}`."),
        key("query", Map(&QUERY_VALUE), "Parameters of the query: a template each, or a list of them."),
        key("headers", Map(&Scalar), "Headers: a template each."),
        key("body", Section(&BODY), "The body, in one of three forms."),
    ],
};

static QUERY_VALUE: Takes = OneOrMore(&Scalar);

pub(super) static BODY: Keys = Keys {
    of: "`body`",
    id: "body",
    list: &[
        key(
            "json",
            Anything,
            "JSON, in which every text is a template; `\"{{ args }}\"` alone gives the value itself.",
        ),
        key("form", Map(&Scalar), "Fields of a form: a template each."),
        key("text", Text, "A text: one template."),
    ],
};

pub(super) static RULE: Keys = Keys {
    of: "a rule",
    id: "rule",
    list: &[
        key("when", Section(&WHEN), "When the rule holds; all of it must. Without `when` it always does."),
        key("error", Text, "Makes the reply a tool error: a template for its text."),
        key("status", Count(400, 599), "The HTTP status of that error for REST clients."),
        key(
            "extract",
            Either(&[Word(EXTRACTORS), Section(&EXTRACT)]),
            "What reads a value from the reply; by its media type when absent.",
        ),
        key("structured", Text, "jq: from that value to the structured content."),
        key("content", CONTENT, "What people and models see: a template, `{ as: … }`, or a list of blocks."),
        key("charset", Text, "The charset of the text, when the reply does not say it, or lies."),
    ],
};

const CONTENT: Takes = Either(&[Text, Section(&BLOCK), List(&Section(&BLOCK))]);

/// The names of extractors that need no options.
pub(super) const EXTRACTORS: &[&str] = &["binary", "json", "pairs", "text"];

pub(super) static WHEN: Keys = Keys {
    of: "`when`",
    id: "when",
    list: &[
        key("status", OneOrMore(&Scalar), "`404`, `4xx` or `400-499`, or a list."),
        key("content_type", OneOrMore(&Text), "`text/plain`, `text/*` or `application/*+json`, or a list."),
        key("header", Map(&Scalar), "Regular expressions that the headers' values match."),
        key(
            "text",
            Text,
            "A regular expression that the text matches; its named captures are names in templates.",
        ),
        key("json", Text, "A jq condition on the reply, which must be JSON."),
    ],
};

pub(super) static EXTRACT: Keys = Keys {
    of: "`extract`",
    id: "extract",
    list: &[
        key("binary", Either(&[Section(&BINARY), Nothing]), "Any bytes, as an image, a sound or a document."),
        key("header", Either(&[Section(&HEADER), NAMES]), "Headers of the reply."),
        key("json", Either(&[Section(&JSON), Nothing]), "A JSON document."),
        key("pairs", Either(&[Section(&PAIRS), Nothing]), "`key: value` lines."),
        key("regex", Either(&[Text, Section(&REGEX)]), "Named captures of a regular expression."),
        key("text", Either(&[Section(&TEXT), Nothing]), "The whole text."),
        key("fields", FIELDS, "Named fields with types, taken from what was found."),
    ],
};

const FIELDS: Takes = Map(&Either(&[Word(FIELD_TYPES), Section(&FIELD)]));

/// Types of fields; with `?` the field may be missing.
pub(super) const FIELD_TYPES: &[&str] =
    &["string", "number", "integer", "boolean", "string?", "number?", "integer?", "boolean?"];

pub(super) static BINARY: Keys = Keys {
    of: "`binary`",
    id: "binary",
    list: &[
        key("as", Word(&["image", "audio", "resource"]), "The kind of block; by the media type when absent."),
        key("media_type", Text, "The media type; the reply's own when absent."),
    ],
};

pub(super) static HEADER: Keys = Keys {
    of: "`header`",
    id: "header",
    list: &[
        key("names", NAMES, "Names of headers; `status` is the HTTP status."),
        key("fields", FIELDS, "Named fields with types."),
    ],
};

pub(super) static JSON: Keys =
    Keys { of: "`json`", id: "json", list: &[key("fields", FIELDS, "Named fields with types.")] };

pub(super) static PAIRS: Keys = Keys {
    of: "`pairs`",
    id: "pairs",
    list: &[
        key("separator", Text, "What stands between key and value. Default `:`."),
        key("fields", FIELDS, "Named fields with types."),
    ],
};

pub(super) static REGEX: Keys = Keys {
    of: "`regex`",
    id: "regex",
    list: &[
        key("pattern", Text, "The regular expression, with named captures: `(?<name>…)`."),
        key(
            "each",
            Word(&["first", "match", "line"]),
            "The first match, every match, or every line that matches. Default `first`.",
        ),
        key("fields", FIELDS, "Named fields with types."),
    ],
};

pub(super) static TEXT: Keys = Keys {
    of: "`text`",
    id: "text",
    list: &[key("trim", Flag, "Whether white space at both ends is left out. Default `false`.")],
};

pub(super) static FIELD: Keys = Keys {
    of: "a field",
    id: "field",
    list: &[
        key("type", Word(&["string", "number", "integer", "boolean"]), "The type of the field."),
        key("from", Text, "What the extractor calls it. Default: the field's own name."),
        key("optional", Flag, "Whether it may be missing from a reply. Default `false`."),
        key("true", OneOrMore(&Scalar), "The words that mean true. Default `[true]`."),
        key("false", OneOrMore(&Scalar), "The words that mean false. Default `[false]`."),
    ],
};

pub(super) static BLOCK: Keys = Keys {
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

pub(super) static RESOURCE: Keys = Keys {
    of: "`resource`",
    id: "resource",
    list: &[
        key("uri", Text, "What the document is called: a template."),
        key("media_type", Text, "Its media type; the reply's own when absent."),
        key("text", Text, "Its text: a template; the reply's text when absent."),
    ],
};

pub(super) static RESOURCE_LINK: Keys = Keys {
    of: "`resource_link`",
    id: "resource_link",
    list: &[
        key("uri", Text, "Where to: a template."),
        key("name", Text, "A short name: a template."),
        key("description", Text, "What it is: a template."),
        key("media_type", Text, "The media type of what it leads to."),
    ],
};

pub(super) static BLOCK_ANNOTATIONS: Keys = Keys {
    of: "`annotations`",
    id: "block_annotations",
    list: &[
        key("audience", List(&Word(&["user", "assistant"])), "For whom it is."),
        key("priority", Fraction, "From 0, optional, to 1, required."),
        key("lastModified", Text, "When it was changed, as in `2026-11-21T09:30:00Z`."),
    ],
};

pub(super) static EXAMPLE: Keys = Keys {
    of: "an example",
    id: "example",
    list: &[
        key("name", Text, "What it shows."),
        key("args", Map(&Anything), "The arguments of the call."),
        key("given", Section(&GIVEN), "What the upstream answers."),
        key("expect", Section(&EXPECT), "What clients then get; what is not named here is not compared."),
    ],
};

pub(super) static GIVEN: Keys = Keys {
    of: "`given`",
    id: "given",
    list: &[
        key("status", Count(100, 599), "The HTTP status. Default 200."),
        key("type", Text, "The `Content-Type`."),
        key("headers", Map(&Scalar), "Other headers."),
        key("body", Scalar, "The body, as text."),
        key("body_base64", Text, "The body, in Base64."),
    ],
};

pub(super) static EXPECT: Keys = Keys {
    of: "`expect`",
    id: "expect",
    list: &[
        key("structuredContent", Anything, "The structured content."),
        key(
            "content",
            Either(&[Text, List(&Map(&Anything))]),
            "The blocks of content as clients get them, or the text of the first.",
        ),
        key("isError", Flag, "Whether it is a tool error. Default `false`."),
        key("text", Text, "Words that the text of the first block has in it."),
    ],
};
