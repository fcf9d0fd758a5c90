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
        key("binary", Binary::KIND, "Binary responses, as an image, audio or resource block."),
        key(
            "columns",
            ColumnsOptions::KIND,
            "Tables with aligned columns, as command-line tools print them.",
        ),
        key("csv", CsvOptions::KIND, "CSV, TSV and similar formats."),
        key("form", FormOptions::KIND, "URL-encoded forms: `name=value&name=value`."),
        key("grok", GrokOptions::KIND, "Grok patterns: `%{IP:client}`."),
        key(
            "header",
            Either(&[HeaderOptions::KIND, NAMES, Text]),
            "Response headers. A single name gives its value.",
        ),
        key("html", HtmlOptions::KIND, "HTML pages: by CSS selectors, the rows of a table, or the text."),
        key("json", JsonOptions::KIND, "JSON documents."),
        key(
            "mcp",
            McpOptions::KIND,
            "Tool results of MCP servers: their content blocks, and the JSON in their text.",
        ),
        key("metrics", MetricsOptions::KIND, "Metrics in the formats of Prometheus and OpenMetrics."),
        key("ndjson", NdJsonOptions::KIND, "NDJSON (JSON Lines): one JSON document per line."),
        key("pairs", PairsOptions::KIND, "Lines of `key: value` pairs."),
        key("regex", RegexOptions::KIND, "Regular expressions with named captures."),
        key("text", WholeText::KIND, "The whole response as one string."),
        key("xml", XmlOptions::KIND, "XML documents, including SOAP."),
        // A constant that led back here would have no end.
        key(
            "source",
            Either(&[Word(EXTRACTORS), Section(|| &EXTRACT)]),
            "Extractor that produces the text to read, in place of the response body: `html` for the text of a page.",
        ),
        key("fields", Fields::KIND, "Fields of the result, each with a name and a type."),
        key("type", FieldSetting::KIND, "Type of the result, where it is a single value."),
        key("optional", Flag, "Whether a part of a map of extractors may be missing. Default `false`."),
    ],
);

/// One of several extractors, under a name.
pub(in crate::config) const PART: Takes = Either(&[Word(EXTRACTORS), Section(|| &EXTRACT)]);
