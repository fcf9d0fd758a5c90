//! The extractors and their fields.

use super::*;
use crate::{
    config::extract::{
        ColumnsOptions, CsvOptions, FormOptions, GrokOptions, HeaderOptions, HtmlOptions, JsonOptions,
        McpOptions, MetricsOptions, NdJsonOptions, PairsOptions, RegexOptions, XmlOptions,
    },
    translate::{
        FieldSetting, Fields,
        extract::{Binary, Text as WholeText},
    },
};

/// The names of extractors that need no options.
pub(in crate::config) const EXTRACTORS: &[&str] =
    &["binary", "columns", "csv", "form", "html", "json", "mcp", "metrics", "ndjson", "pairs", "text", "xml"];

pub(in crate::config) static EXTRACT: Keys = Keys::new(
    "`extract`",
    "extract",
    &[
        key("binary", Binary::KIND, "Any bytes, as an image, a sound or a document."),
        key("columns", ColumnsOptions::KIND, "Tables whose cells stand under each other."),
        key("csv", CsvOptions::KIND, "CSV, TSV and their relatives."),
        key("form", FormOptions::KIND, "`name=value&name=value`, percent-encoded."),
        key("grok", GrokOptions::KIND, "Named captures of patterns that name others: `%{IP:client}`."),
        key(
            "header",
            Either(&[HeaderOptions::KIND, NAMES, Text]),
            "Headers of the reply; a single one as its value.",
        ),
        key("html", HtmlOptions::KIND, "A page: by CSS selectors, a table's rows, or its text."),
        key("json", JsonOptions::KIND, "A JSON document."),
        key(
            "mcp",
            McpOptions::KIND,
            "The answer of an MCP server: its blocks of content, and the JSON in their text.",
        ),
        key("metrics", MetricsOptions::KIND, "Samples of metrics, as Prometheus and OpenMetrics write them."),
        key("ndjson", NdJsonOptions::KIND, "A JSON document a line."),
        key("pairs", PairsOptions::KIND, "`key: value` lines."),
        key("regex", RegexOptions::KIND, "Named captures of a regular expression."),
        key("text", WholeText::KIND, "The whole text."),
        key("xml", XmlOptions::KIND, "An XML document, SOAP included."),
        // A constant that led back here would have no end.
        key(
            "source",
            Either(&[Word(EXTRACTORS), Section(|| &EXTRACT)]),
            "What gives the text that is read, where that is not the reply as it came: `html`, for what a page shows.",
        ),
        key("fields", Fields::KIND, "Named fields with types, taken from what was found."),
        key("type", FieldSetting::KIND, "The type of what was found, where that is one value."),
        key("optional", Flag, "In a map of several: whether nothing may be found. Default `false`."),
    ],
);

/// One of several extractors, under a name.
pub(in crate::config) const PART: Takes = Either(&[Word(EXTRACTORS), Section(|| &EXTRACT)]);
