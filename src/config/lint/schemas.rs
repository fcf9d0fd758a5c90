//! Checks of JSON Schemas: for unknown keywords, for those that only another dialect has, and for names of
//! headers and regular expressions that clients reject. Validators ignore unknown keywords, so a misspelled
//! one would disable a check silently.

use std::{iter::Peekable, str::Chars};

use crate::config::schemas::report_unreadable_by_clients;
use crate::model::{InvalidParamHeader, PARAM_HEADER_KEYWORD as KEY, SchemaDialect, invalid_param_headers};
use crate::settings::{Code, Entry, Kind, Node, Report, suggest};

/// Keywords of JSON Schema 2020-12, older drafts and OpenAPI.
const KEYWORDS: &str = "\
    $anchor $comment $defs $dynamicAnchor $dynamicRef $id $ref $schema $vocabulary \
    additionalItems additionalProperties allOf anyOf const contains contentEncoding \
    contentMediaType contentSchema default definitions dependencies dependentRequired \
    dependentSchemas deprecated description discriminator else enum example examples \
    exclusiveMaximum exclusiveMinimum externalDocs format if items maxContains maxItems \
    maxLength maxProperties maximum minContains minItems minLength minProperties minimum \
    multipleOf not nullable oneOf pattern patternProperties prefixItems properties propertyNames \
    readOnly required then title type unevaluatedItems unevaluatedProperties uniqueItems \
    writeOnly xml $recursiveAnchor $recursiveRef";
/// Words for `type`.
pub(crate) const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];
/// Keywords whose value is a map of schemas.
const MAPS: &str = "$defs definitions dependencies dependentSchemas patternProperties properties";
/// Keywords whose value is a list of schemas.
const LISTS: &str = "allOf anyOf oneOf prefixItems";
/// Keywords whose value is a schema; `items` of older dialects is a list of them, too.
const SCHEMAS: &str = "additionalItems additionalProperties contains else if items not propertyNames then \
                       unevaluatedItems unevaluatedProperties";

/// Reports every unknown keyword of a schema, and warns of those that its dialect does not have.
pub(crate) fn check(report: &Report<'_>, schema: &Node) {
    let uri = schema.get("$schema").and_then(Node::as_text);
    // Compiling the schema reports an unsupported dialect.
    let dialect = uri.and_then(SchemaDialect::from_uri).unwrap_or_default();
    check_schema(report, schema, dialect);
}

fn check_schema(report: &Report<'_>, schema: &Node, dialect: SchemaDialect) {
    for entry in schema.as_map().unwrap_or_default() {
        let name = entry.key.text.as_str();
        let is_one_of = |keywords: &str| keywords.split(' ').any(|keyword| keyword == name);
        // `id` is one of draft-04 only; in a later schema, `$id` is meant.
        let is_known = is_one_of(KEYWORDS) || (name == "id" && dialect.has_keyword(name));
        if is_known {
            warn_of_dialect(report, entry, dialect);
            report_unreadable_by_clients(report, entry);
        }
        if is_one_of(MAPS) {
            let members = entry.value.as_map().unwrap_or_default();
            members.iter().for_each(|inner| check_schema(report, &inner.value, dialect));
        } else if let Kind::List(schemas) = &entry.value.kind
            && (is_one_of(LISTS) || is_one_of(SCHEMAS))
        {
            schemas.iter().for_each(|inner| check_schema(report, inner, dialect));
        } else if is_one_of(SCHEMAS) {
            check_schema(report, &entry.value, dialect);
        } else if !is_known && !name.starts_with("x-") {
            report_keyword(report, entry);
        }
    }
}

/// Warns of a keyword that the declared dialect does not have. `$defs` is useful in every dialect, as
/// references find schemas under any name.
fn warn_of_dialect(report: &Report<'_>, entry: &Entry, dialect: SchemaDialect) {
    let name = entry.key.text.as_str();
    if dialect != SchemaDialect::default() && name != "$defs" && dialect.ignores_keyword(name) {
        let message = format!("JSON Schema {} has no keyword `{name}`: it has no effect", dialect.name());
        let help = "remove it, or name a newer dialect with `$schema`";
        report.warning(Code::UnknownKeyword.at_span(entry.key.span), message, help);
    }
}

fn report_keyword(report: &Report<'_>, entry: &Entry) {
    let name = entry.key.text.as_str();
    let at = Code::UnknownKeyword.at_span(entry.key.span);
    let message = format!("JSON Schema has no keyword `{name}`");
    if let Some(meant) = suggest::nearest(name, KEYWORDS.split(' ')) {
        return report.error(at, message, format!("did you mean `{meant}`?"));
    }
    if entry.value.as_map().is_some() {
        let help = format!("write a property under `properties`: `properties: {{ {name}: … }}`");
        return report.error(at, message, help);
    }
    let help = match entry.value.as_text().filter(|text| TYPES.contains(text)) {
        Some(kind) => format!("write `properties: {{ {name}: {{ type: {kind} }} }}`"),
        None => "remove it: it has no effect; keywords of your own begin with `x-`".to_owned(),
    };
    report.warning(at, message, help);
}

/// Reports every `x-mcp-header` for which a client would reject the tool. By such a keyword in an input
/// schema, clients also send an argument as a header `Mcp-Param-…`.
///
/// A client must drop a tool with an invalid one, so it is an error here (MCP 2026-07-28, Tools,
/// "x-mcp-header", and Streamable HTTP, "Custom Headers from Tool Parameters").
pub(crate) fn check_param_headers(report: &Report<'_>, input: &Node) {
    let document = Node::entries_to_json(input.as_map().unwrap_or_default());
    for InvalidParamHeader { pointer, message, help } in invalid_param_headers(&document) {
        let schema = input.at_pointer(&pointer);
        let span = schema.get(KEY).unwrap_or(schema).span;
        report.error(Code::InvalidParamHeader.at_span(span), message, help);
    }
}

/// Reason why clients reject a pattern, if they do.
///
/// If `new RegExp(pattern, "u")` rejects one pattern, clients of the TypeScript SDK lose the whole tool list.
/// So this function rejects the same patterns. The Rust engine has already compiled the pattern, so its
/// brackets are balanced.
pub(crate) fn rejected_by_clients(pattern: &str) -> Option<String> {
    let mut rest = pattern.chars().peekable();
    let mut in_class = false;
    let mut after_quantifier = false;
    while let Some(character) = rest.next() {
        let mut quantifier = false;
        match character {
            '\\' => {
                if let Some(why) = unsupported_escape(&mut rest, in_class) {
                    return Some(why);
                }
            }
            ']' if in_class => in_class = false,
            '[' if in_class && matches!(rest.peek(), Some(':')) => {
                return Some("`[:…:]`; write the characters, such as `[a-z]`".to_owned());
            }
            '[' if in_class => return Some("a class within a class".to_owned()),
            '&' | '-' | '~' if in_class && rest.peek() == Some(&character) => {
                return Some(format!("`{character}{character}` in a class"));
            }
            _ if in_class => {}
            '[' => in_class = true,
            ']' | '}' => return Some(format!("`{character}` without a backslash before it")),
            '(' if rest.peek() == Some(&'?') => match rest.nth(1) {
                Some(':' | '=' | '!' | '<') | None => {}
                Some('P') => return Some("`(?P<name>…)`; write `(?<name>…)`".to_owned()),
                Some(flag) => {
                    return Some(format!("`(?{flag}…)`; write out the alternatives, such as `[Aa]`"));
                }
            },
            '*' | '+' | '?' | '{' => {
                let lazy = character == '?' && after_quantifier;
                if after_quantifier && !lazy {
                    return Some(format!("`{character}` after another repetition"));
                }
                if character == '{' {
                    let _ = rest.by_ref().find(|c| *c == '}');
                }
                quantifier = !lazy;
            }
            _ => {}
        }
        after_quantifier = quantifier;
    }
    None
}

/// Reason why clients reject the escape sequence after a backslash, if they do.
fn unsupported_escape(rest: &mut Peekable<Chars<'_>>, in_class: bool) -> Option<String> {
    let (character, has_braces) = (rest.next()?, rest.peek() == Some(&'{'));
    let why = match character {
        'u' | 'p' | 'P' if has_braces => {
            let _ = rest.find(|c| *c == '}');
            return None;
        }
        'b' | 'B' if has_braces && !in_class => "`\\b{…}`",
        'x' if has_braces => "`\\x{…}`; write `\\u{…}`",
        'p' | 'P' => "`\\p` without braces; write `\\p{L}`",
        'A' => "`\\A`; write `^`",
        'z' => "`\\z`; write `$`",
        '-' if in_class => return None,
        'b' | 'B' if !in_class => return None,
        'u' | 'x' => return None,
        other if r"dDwWsSnrtvf^$\.*+?()[]{}|/".contains(other) => return None,
        other => return Some(format!("`\\{other}`; remove the backslash")),
    };
    Some(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_all_clients_support_are_accepted() {
        for pattern in [
            "^[a-z]{2,3}$",
            r"^\d{4}-\d{2}$",
            "a+?b*?c??",
            r"[\w.\-]+@x",
            "(?:a|b)(?<c>d)",
            r"\p{L}\u{41}",
            r"\{a\}",
        ] {
            regex::Regex::new(pattern).unwrap();
            assert_eq!(rejected_by_clients(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn patterns_that_some_client_rejects_are_rejected() {
        for pattern in [
            "(?i)abc",
            "(?P<a>b)",
            r"\Aabc",
            r"abc\z",
            r"a\-b",
            "[[:alpha:]]",
            "a}",
            r"\x{41}",
            "a**",
            r"\pL",
            "(?s:.)",
            "[a-z&&[aeiou]]",
            // Any character and `a]` to clients, one that is neither `]` nor `a` to us.
            "[^]a]",
        ] {
            assert!(rejected_by_clients(pattern).is_some(), "{pattern}");
        }
    }
}
