//! The extractors and their fields.

use super::*;
use crate::config::extract::{
    ColumnsOptions, CsvOptions, FormOptions, HeaderOptions, JsonOptions, McpOptions, MetricsOptions,
    NdJsonOptions, XmlOptions,
};

/// The names of extractors that need no options.
pub(in crate::config) const EXTRACTORS: &[&str] =
    &["binary", "columns", "csv", "form", "html", "json", "mcp", "metrics", "ndjson", "pairs", "text", "xml"];

pub(in crate::config) static EXTRACT: Keys = Keys::new(
    "`extract`",
    "extract",
    &[
        key(
            "binary",
            Either(&[Section(|| &BINARY), Nothing]),
            "Any bytes, as an image, a sound or a document.",
        ),
        key("columns", ColumnsOptions::KIND, "Tables whose cells stand under each other."),
        key("csv", CsvOptions::KIND, "CSV, TSV and their relatives."),
        key("form", FormOptions::KIND, "`name=value&name=value`, percent-encoded."),
        key(
            "grok",
            Either(&[Text, Section(|| &GROK)]),
            "Named captures of patterns that name others: `%{IP:client}`.",
        ),
        key(
            "header",
            Either(&[HeaderOptions::KIND, NAMES, Text]),
            "Headers of the reply; a single one as its value.",
        ),
        key(
            "html",
            Either(&[Section(|| &HTML), Nothing]),
            "A page: by CSS selectors, a table's rows, or its text.",
        ),
        key("json", JsonOptions::KIND, "A JSON document."),
        key(
            "mcp",
            McpOptions::KIND,
            "The answer of an MCP server: its blocks of content, and the JSON in their text.",
        ),
        key("metrics", MetricsOptions::KIND, "Samples of metrics, as Prometheus and OpenMetrics write them."),
        key("ndjson", NdJsonOptions::KIND, "A JSON document a line."),
        key("pairs", Either(&[Section(|| &PAIRS), Nothing]), "`key: value` lines."),
        key("regex", Either(&[Text, Section(|| &REGEX)]), "Named captures of a regular expression."),
        key("text", crate::translate::extract::Text::KIND, "The whole text."),
        key("xml", XmlOptions::KIND, "An XML document, SOAP included."),
        // A constant that led back here would have no end.
        key(
            "source",
            Either(&[Word(EXTRACTORS), Section(|| &EXTRACT)]),
            "What gives the text that is read, where that is not the reply as it came: `html`, for what a page shows.",
        ),
        key("fields", FIELDS, "Named fields with types, taken from what was found."),
        key(
            "type",
            Either(&[FieldType, Section(|| &FIELD)]),
            "The type of what was found, where that is one value.",
        ),
        key("optional", Flag, "In a map of several: whether nothing may be found. Default `false`."),
    ],
);

const EACH: Row = key(
    "each",
    Word(&["first", "match", "line", "block"]),
    "The first match, every match, or every line or block of lines that matches. Default `first`.",
);
const BLOCK_SEPARATOR: Row = key(
    "block_separator",
    Text,
    "A regular expression: a line that matches stands between two blocks. Default: a blank line.",
);
const BLOCK_DELIMITER: Row = key(
    "block_delimiter",
    Text,
    "What stands between two blocks, wherever in a line: `\"\\x1e\"`. Default: a blank line.",
);
const BLOCK_START: Row = key(
    "block_start",
    Text,
    "A regular expression: a line that matches is the first of a block; what is before the first is passed over.",
);
const ALLOW_EMPTY: Row = key(
    "allow_empty",
    Flag,
    "Whether nothing found is right, and gives an empty list. Default `false`: it is an error.",
);

/// One of several extractors, under a name.
pub(in crate::config) const PART: Takes = Either(&[Word(EXTRACTORS), Section(|| &EXTRACT)]);

pub(in crate::config) static BINARY: Keys = Keys::new(
    "`binary`",
    "binary",
    &[
        key("as", Word(&["image", "audio", "resource"]), "The kind of block; by the media type when absent."),
        key("media_type", Text, "The media type; the reply's own when absent."),
    ],
);

pub(in crate::config) static GROK: Keys = Keys::new(
    "`grok`",
    "grok",
    &[
        key(
            "pattern",
            OneOrMore(&Text),
            "The pattern, with names of others: `%{NAME:capture:type}`; or several.",
        ),
        key("patterns", Map(&Text), "Patterns of one's own, by name."),
        EACH,
        BLOCK_DELIMITER,
        BLOCK_SEPARATOR,
        BLOCK_START,
        ALLOW_EMPTY,
        key("fields", FIELDS, "Named fields with types."),
    ],
);

pub(in crate::config) static HTML: Keys = Keys::new(
    "`html`",
    "html",
    &[
        key(
            "select",
            Map(&Either(&[Text, Section(|| &SELECTED)])),
            "Names, and a CSS selector for each: the text of the first element that it finds, or what a map says.",
        ),
        key(
            "items",
            Text,
            "A CSS selector: `select` is for each element that it finds, and the result a list.",
        ),
        ALLOW_EMPTY,
        key(
            "table",
            Either(&[Text, Flag]),
            "A table: `true` for the first of the page, or a CSS selector for it or for what it is in.",
        ),
        key(
            "as",
            Word(&["rows", "pairs"]),
            "What the table becomes: a list of objects by its headings, or one object of names and values. Default `rows`.",
        ),
        key("columns", NAMES, "Names of the table's columns, instead of its headings."),
        key("text", Text, "A CSS selector: all of the text of the first element that it finds."),
        key("without", Text, "A CSS selector: what it finds is taken out of the page beforehand."),
        key("fields", FIELDS, "Named fields with types."),
    ],
);

pub(in crate::config) static SELECTED: Keys = Keys::new(
    "a name of `select`",
    "selected",
    &[
        key("css", Text, "A CSS selector. With `items` it may be left out: the element itself."),
        key("attribute", Text, "The attribute that is taken, of elements that have it. Default: the text."),
        key(
            "all",
            Flag,
            "Whether it is a list of all that is found, or of none. Default `false`: the first.",
        ),
        key("optional", Flag, "Whether it may be missing from a page. Default `false`."),
    ],
);

pub(in crate::config) static PAIRS: Keys = Keys::new(
    "`pairs`",
    "pairs",
    &[
        key(
            "separator",
            OneOrMore(&Text),
            "What stands between key and value; or several, the first in the line counts. Default `:`.",
        ),
        key(
            "pattern",
            Text,
            "Instead: a regular expression with the captures `key` and `value`; every match in a line is a pair.",
        ),
        key("comment", OneOrMore(&Text), "What lines begin with that are passed over."),
        key("unquote", Flag, "Whether quotes round a value are left out. Default `false`."),
        key(
            "indented",
            Word(&["same", "nested", "lines", "words", "fold"]),
            "What lines mean that begin with white space: the same as others; they are below the line before; or they \
             go on with its value, with a line break, a space or nothing between. Default `same`.",
        ),
        key(
            "sections",
            Either(&[Flag, Text]),
            "Whether `[name]` begins a section, an object of its own; or a regular expression with one capture, the name. \
             Default `false`.",
        ),
        key(
            "section_end",
            Text,
            "A regular expression: a line that matches ends a section, and sections may stand in others. Default: the next \
             section ends it.",
        ),
        key("each", Word(&["text", "block"]), "The whole text, or every block of lines. Default `text`."),
        BLOCK_DELIMITER,
        BLOCK_SEPARATOR,
        BLOCK_START,
        ALLOW_EMPTY,
        key("fields", FIELDS, "Named fields with types."),
    ],
);

pub(in crate::config) static REGEX: Keys = Keys::new(
    "`regex`",
    "regex",
    &[
        key(
            "pattern",
            OneOrMore(&Text),
            "The regular expression, with named captures: `(?<name>…)`; or several.",
        ),
        EACH,
        BLOCK_DELIMITER,
        BLOCK_SEPARATOR,
        BLOCK_START,
        ALLOW_EMPTY,
        key("fields", FIELDS, "Named fields with types."),
    ],
);
