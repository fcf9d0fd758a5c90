//! Lint of arguments that a request inserts into XML, HTML, JSON or lines without escaping, so that a client
//! could inject elements, fields or commands.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::settings::{Code, Node, Report, fixed_regex};
use crate::translate::expressions;

/// Syntax of a text, as far as it can be recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// XML or HTML.
    Markup,
    Json,
    /// Other text with several lines, such as the commands of a line-based protocol.
    Lines,
}

/// Checks the body of an HTTP request or the standard input of a command. `schema` is the input schema.
pub(crate) fn warn_of_unescaped(report: &Report<'_>, request: &Node, schema: &Map<String, Value>) {
    for body in ["body", "stdin"].into_iter().filter_map(|name| request.get(name)) {
        warn_of_text(report, body.get("text").unwrap_or(body), schema);
        body.get("json").into_iter().for_each(|json| warn_of_json(report, json));
        body.get("xml").into_iter().for_each(|xml| warn_of_cdata(report, xml));
    }
}

fn warn_of_text(report: &Report<'_>, node: &Node, schema: &Map<String, Value>) {
    let Some(text) = node.as_text() else { return };
    let Some(syntax) = syntax_of(text) else { return };
    let Some(name) = unescaped(text, syntax, schema) else { return };
    let (span, subject) = match name {
        Some(name) => {
            let span = expressions::span_of_name(report, node.span, &format!("args.{name}"));
            (span, format!("the argument `{name}`"))
        }
        None => (node.span, "a value".to_owned()),
    };
    let (target, help) = match syntax {
        Syntax::Markup => (
            "XML or HTML",
            "write `body: { xml: … }`, which escapes values; in `text`, write `{{ args.x | escape }}`",
        ),
        Syntax::Json => (
            "JSON",
            "write `body: { json: { … } }`, whose strings are templates; in `text`, write `{{ args.x | tojson }}` without quotes",
        ),
        Syntax::Lines => (
            "lines of text",
            r"exclude line breaks in `input`: `pattern: '^[^\r\n]*$'`; if they can do no harm, write `{{ args.x | safe }}`",
        ),
    };
    let message =
        format!("{subject} is inserted into {target} without escaping: a client can inject content");
    report.warning(Code::UnescapedArgument.at_span(span), message, help);
}

fn warn_of_json(report: &Report<'_>, node: &Node) {
    if node.as_text().and_then(syntax_of) == Some(Syntax::Json) {
        let message = "this string is sent as one JSON string, not as the JSON that it contains";
        let help = "write it as a map: `json: { id: \"{{ args.id }}\" }`";
        report.warning(Code::JsonAsText.at_span(node.span), message, help);
    }
}

/// Warns of values in CDATA, where escapes are not decoded: for a client's `&`, the upstream would read
/// `&amp;`.
fn warn_of_cdata(report: &Report<'_>, node: &Node) {
    const BEGIN: &str = "<![CDATA[";
    let mut sections = node.as_text().unwrap_or_default().split(BEGIN).skip(1);
    if sections.any(|section| section.split("]]>").next().is_some_and(|contents| contents.contains("{{"))) {
        let message = "values in CDATA are escaped, but servers do not decode escapes in CDATA";
        let help = "remove the CDATA markers: inserted values are escaped";
        report.warning(Code::EscapedCdata.at_span(node.span), message, help);
    }
}

const LINE_BREAKS: [char; 2] = ['\n', '\r'];

/// Template tags: expressions, statements and comments.
static TAGS: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"(?s)\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}"));

/// Detects the syntax of a template (JSON, markup or lines) from the text outside its tags.
fn syntax_of(template: &str) -> Option<Syntax> {
    static MARKUP: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"^\s*<[A-Za-z!?]|</[A-Za-z]|/>"));
    static JSON: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r#"(?s)^\s*(?:\{\s*(?:"|\}\s*$)|\[.*\]\s*$)"#));
    let outer_text = TAGS.replace_all(template, "");
    if JSON.is_match(&outer_text) || MARKUP.is_match(&outer_text) {
        return Some(if JSON.is_match(&outer_text) { Syntax::Json } else { Syntax::Markup });
    }
    // If the template consists of one argument, the client provides the whole text, including its line
    // breaks.
    let is_single_tag = TAGS.replace_all(template.trim(), "").is_empty();
    (!is_single_tag && outer_text.contains(LINE_BREAKS)).then_some(Syntax::Lines)
}

/// Finds the first argument that is inserted without escaping and can be any string. Returns `Some(None)` for
/// another unescaped value.
fn unescaped<'t>(template: &'t str, syntax: Syntax, schema: &Map<String, Value>) -> Option<Option<&'t str>> {
    static ARGUMENT: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r"\bargs\.([A-Za-z_]\w*)"));
    static LITERAL: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r#"^\s*(?:'[^']*'|"[^"]*"|[0-9.]+|loop\.\w+)\s*$"#));
    let names_in =
        |text: &'t str| ARGUMENT.captures_iter(text).filter_map(|captures| Some(captures.get(1)?.as_str()));
    let statements = TAGS.find_iter(template).filter(|tag| tag.as_str().starts_with("{%"));
    let in_statements: Vec<&str> = statements.flat_map(|tag| names_in(tag.as_str())).collect();
    let expressions = TAGS.find_iter(template).filter_map(|tag| tag.as_str().strip_prefix("{{"));
    for expression in expressions.map(|expression| expression.trim_end_matches("}}").trim_matches('-')) {
        if is_escaped(expression, syntax) || LITERAL.is_match(expression) {
            continue;
        }
        // A loop variable has values of an argument that a statement names.
        let is_of_loop = syntax == Syntax::Lines && !ARGUMENT.is_match(expression);
        let names = if is_of_loop { in_statements.clone() } else { names_in(expression).collect() };
        let property = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
        let is_harmless = |name: &str| property(name).is_some_and(|property| is_harmless(property, syntax));
        match names.iter().find(|name| !is_harmless(name)) {
            Some(name) => return Some(Some(name)),
            None if names.is_empty() && syntax != Syntax::Lines => return Some(None),
            None => {}
        }
    }
    None
}

/// Whether the last filter of an expression escapes the value for this syntax, or declares it safe.
fn is_escaped(expression: &str, syntax: Syntax) -> bool {
    static STRINGS: LazyLock<Regex> = LazyLock::new(|| fixed_regex(r#"'[^']*'|"[^"]*""#));
    let expression = STRINGS.replace_all(expression, "''");
    let Some((_, last)) = expression.rsplit_once('|') else { return false };
    match last.trim().split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next() {
        Some("int" | "float" | "round" | "abs" | "length" | "count" | "b64encode" | "safe") => true,
        Some("e" | "escape") => syntax == Syntax::Markup,
        Some("tojson") => syntax != Syntax::Markup,
        Some("replace" | "urlencode") => syntax == Syntax::Lines,
        _ => false,
    }
}

/// Whether a pattern matches only strings without line breaks, as far as a few test strings show.
fn is_of_one_line(pattern: &str) -> bool {
    const SAMPLES: [&str; 6] = ["\n", "\r", "a\na", "A\rA", "1\n1", "a: \r\n1"];
    // A pattern may require a minimum length.
    let is_within = |text: &str, regex: &Regex| {
        [0, 4, 8, 16, 32, 64].iter().any(|length| regex.is_match(&format!("{text}{}", "a".repeat(*length))))
    };
    let is_whole = pattern.starts_with('^') && pattern.ends_with('$');
    is_whole && Regex::new(pattern).is_ok_and(|regex| !SAMPLES.iter().any(|text| is_within(text, &regex)))
}

/// Whether no value of this schema needs escaping; for a list in lines, no item of it.
fn is_harmless(schema: &Value, syntax: Syntax) -> bool {
    let is_plain = |value: &Value| match value {
        Value::String(text) if syntax == Syntax::Lines => !text.contains(LINE_BREAKS),
        Value::String(text) => !text.contains(['<', '>', '&', '"', '\'', '\\', '\n', '\r']),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::Array(_) | Value::Object(_) => false,
    };
    let is_plain_type = |name: &Value| match name.as_str() {
        Some("integer" | "number" | "boolean" | "null") => true,
        Some("string") if syntax == Syntax::Lines => schema["pattern"].as_str().is_some_and(is_of_one_line),
        // The items of a list are inserted by a loop, or joined. A list that is inserted directly is rendered
        // with quotation marks.
        Some("array") if syntax == Syntax::Lines => is_harmless(&schema["items"], syntax),
        _ => false,
    };
    match (&schema["enum"], &schema["type"]) {
        (Value::Array(values), _) => values.iter().all(is_plain),
        (_, Value::Array(types)) => types.iter().all(is_plain_type),
        (_, one) => schema.get("const").is_some_and(is_plain) || is_plain_type(one),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn markup_and_json_are_recognized() {
        for markup in
            ["<a>{{ args.x }}</a>", " <?xml version='1.0'?><a/>", "{{ args.x }}<br/>", "<!DOCTYPE html>"]
        {
            assert_eq!(syntax_of(markup), Some(Syntax::Markup), "{markup}");
        }
        for json in
            [r#"{"a": {{ args.x }}}"#, "[{{ args.x }}, 1]", "{% if args.x %}{ \"a\": 1 }{% endif %}", "{}"]
        {
            assert_eq!(syntax_of(json), Some(Syntax::Json), "{json}");
        }
        for lines in ["get {{ args.x }}\r\n", "{{ args.x }}\n{{ args.y }}", "a\n{{ args.x }}"] {
            assert_eq!(syntax_of(lines), Some(Syntax::Lines), "{lines}");
        }
        for plain in [
            "{{ args.x }}",
            " {{ args.x }}\n",
            "x < 5 {{ args.x }}",
            "[{{ args.x }}] a line",
            "SELECT {{ args.x }}",
            "{a}",
            "",
        ] {
            assert_eq!(syntax_of(plain), None, "{plain}");
        }
    }

    #[test]
    fn unescaped_values_in_markup_are_found() {
        let schema = json!({ "properties": {
            "n": { "type": "integer" }, "b": { "type": ["boolean", "null"] }, "s": { "type": "string" },
            "e": { "enum": ["a", 1] }, "q": { "enum": ["a\"b"] }, "c": { "const": "x" },
        } });
        let found = |template: &'static str, syntax| unescaped(template, syntax, schema.as_object().unwrap());
        let (markup, json) = (Syntax::Markup, Syntax::Json);
        for template in [
            "{{ args.n }}",
            "{{ args.b }} {{- args.c -}}",
            "{{ args.e }}",
            "{{ args.s | length }}",
            "{{ 'x' }}",
        ] {
            assert_eq!((found(template, markup), found(template, json)), (None, None), "{template}");
        }
        for (template, name) in [
            ("{{ args.s }}", Some("s")),
            ("{{ args.n }}{{ args.s | default('x') }}", Some("s")),
            ("{{ args.q | upper }}", Some("q")),
            ("{{ args.unknown }}", Some("unknown")),
            ("{% for item in args.s %}{{ item }}{% endfor %}", None),
            ("{{ input_responses.sure }}", None),
        ] {
            assert_eq!(
                (found(template, markup), found(template, json)),
                (Some(name), Some(name)),
                "{template}"
            );
        }
        for escaped in ["{{ args.s | e }}", "{{ args.s | default('x') | escape }}"] {
            assert_eq!((found(escaped, markup), found(escaped, json)), (None, Some(Some("s"))), "{escaped}");
        }
        let encoded = "{{ args.s | tojson }}";
        assert_eq!((found(encoded, markup), found(encoded, json)), (Some(Some("s")), None));
    }

    #[test]
    fn values_that_could_break_a_line_are_found() {
        let schema = json!({ "properties": {
            "n": { "type": "integer" }, "s": { "type": "string" }, "e": { "enum": ["a\"b"] },
            "p": { "type": "string", "pattern": r"^[^\r\n]*$" }, "f": { "type": "string", "format": "date" },
            "w": { "type": "string", "pattern": r"^\d+(\s\d+)*$" },
            "u": { "type": "string", "pattern": "^a" },
            "l": { "type": "array", "items": { "type": "string" } },
            "m": { "type": "string", "pattern": "^[^;]{8,64}$" },
            "k": { "type": "array", "items": { "type": "string", "pattern": "^(?:a|[0-9]+)$" } },
        } });
        for (template, name) in [
            ("get {{ args.n }} {{ args.e }} {{ args.p }}\n", None),
            ("{% for k in args.k %}get {{ k }}\n{% endfor %}", None),
            ("get {{ args.s | tojson }} {{ args.s | replace('\n', ' ') }}\n", None),
            ("get {{ args.s | safe }}\n", None),
            ("get {{ args.s | replace('|', ' ') }}\n", None),
            ("get {{ args.n }} {{ args.s | upper }}\n", Some("s")),
            ("get {{ args.f }}\n", Some("f")),
            ("get {{ args.w }}\n", Some("w")),
            ("get {{ args.u }}\n", Some("u")),
            ("get {{ args.m }}\n", Some("m")),
            ("{{ args.s | safe }}\n{% for k in args.k %}{{ k }}\n{% endfor %}", None),
            ("{% for k in args.l %}get {{ k }}\n{% endfor %}", Some("l")),
        ] {
            let found = unescaped(template, Syntax::Lines, schema.as_object().unwrap());
            assert_eq!(found, name.map(Some), "{template}");
        }
    }
}
