//! YAML writer, whose output the configuration parser reads back unchanged. Also a parser for YAML that is
//! not a configuration.

use serde_json::Value;

use super::file;
use crate::settings::tree::resolve_plain;
use crate::settings::{Files, Kind, Problems, Report, ValueKind};

/// Maximum width of a flow list or map with its indentation, in characters.
const WIDTH: usize = 100;

/// Parses YAML to a value.
///
/// # Errors
///
/// [`Problems`], with `name` as the file name.
pub fn read(name: &str, text: &str) -> Result<Value, Problems> {
    let read = |report: &Report<'_>| file::read_as(report, 0, ValueKind::Anything);
    Ok(file::parsed(&Files::from_text(name, text), read)?.to_json())
}

/// Formats a string as a key or a value on one line: plain if every YAML parser reads it as the same string,
/// otherwise quoted.
pub fn text(text: &str) -> String {
    if is_plain(text) { text.to_owned() } else { quoted(text) }
}

/// Formats a value on one line (flow style).
pub fn flow(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => self::text(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members: Vec<_> =
                members.iter().map(|(name, value)| format!("{}: {}", text(name), flow(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
    }
}

/// Formats a value that follows `key:` or `-`, which is indented by `indent` spaces. The value is on the same
/// line, or a block below. The result begins with a space or a line break, and does not end with a line
/// break.
pub fn block(value: &Value, indent: usize) -> String {
    let inner = indent + 2;
    let margin = " ".repeat(inner);
    match value {
        Value::String(text) if text.contains('\n') => {
            format!(" {}", literal(text, inner).unwrap_or_else(|| quoted(text)))
        }
        Value::Array(items) if !fits(value, indent) => {
            items.iter().map(|item| format!("\n{margin}-{}", block(item, inner))).collect()
        }
        Value::Object(members) if !fits(value, indent) => {
            let line =
                |(name, value): (&String, _)| format!("\n{margin}{}:{}", text(name), block(value, inner));
            members.iter().map(line).collect()
        }
        _ => format!(" {}", flow(value)),
    }
}

fn fits(value: &Value, indent: usize) -> bool {
    let has_lines = match value {
        Value::Array(items) => items.iter().any(has_lines),
        Value::Object(members) => members.values().any(has_lines),
        _ => false,
    };
    let formatted = flow(value);
    formatted == "[]" || formatted == "{}" || (!has_lines && indent + formatted.chars().count() <= WIDTH)
}

fn has_lines(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains('\n'))
}

/// Whether YAML 1.1 and 1.2 read a string without quotes as the same string.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 8] = ["yes", "no", "on", "off", "y", "n", "true", "false"];
    let is_harmless = |c: char| c.is_alphanumeric() || " _-./+()%°$@".contains(c);
    text.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '$' || c == '/')
        && text.chars().all(is_harmless)
        && !text.ends_with(' ')
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
        && matches!(resolve_plain(text), Kind::Text(_))
}

fn quoted(text: &str) -> String {
    // Patterns and JSON are in single quotes, where they need no escapes and are easy to read.
    if text.contains(['\\', '"']) && !text.contains('\'') && text.chars().all(is_printable) {
        return format!("'{text}'");
    }
    let json = Value::from(text).to_string();
    let escaped = json.chars().map(|c| match c {
        c if is_printable(c) => c.to_string(),
        c if u32::from(c) <= 0xffff => format!("\\u{:04x}", u32::from(c)),
        c => format!("\\U{:08x}", u32::from(c)),
    });
    escaped.collect()
}

/// Whether a character is visible and allowed in YAML without an escape (YAML 1.2, section 5.1). Line breaks
/// are excluded.
fn is_printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
        && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Formats a string as a literal block (`|`); `None` if it contains invisible characters, or would be read
/// back differently.
fn literal(text: &str, indent: usize) -> Option<String> {
    let is_literal_line = |line: &str| {
        line.chars().all(|c| is_printable(c) || c == '\t')
            && !line.ends_with([' ', '\t'])
            && !line.starts_with('\t')
    };
    let content = text.trim_end_matches('\n');
    let breaks = text.len() - content.len();
    if content.is_empty() || content.starts_with('\n') || !content.split('\n').all(is_literal_line) {
        return None;
    }
    let chomp = match breaks {
        0 => "-",
        1 => "",
        _ => "+",
    };
    // A first line with leading spaces needs an explicit indentation indicator.
    let indicator = if content.starts_with(' ') { "2" } else { "" };
    let margin = " ".repeat(indent);
    let lines = content.split('\n').map(|line| match line {
        "" => "\n".to_owned(),
        line => format!("\n{margin}{line}"),
    });
    let lines: String = lines.collect();
    // The text that follows the block begins with a line break, so the last line break of the block is
    // omitted.
    let end = "\n".repeat(breaks.saturating_sub(1));
    Some(format!("|{indicator}{chomp}{lines}{end}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::settings::problem_collector::reading;

    fn read(text: &str) -> Value {
        let (root, problems) = reading(text, |report| file::read(report, 0));
        assert!(problems.is_empty(), "{text}\n{problems:?}");
        root.unwrap().to_json()
    }

    #[track_caller]
    fn check(value: &Value) {
        for indent in [0, 4] {
            let margin = " ".repeat(indent);
            let outer = if indent == 0 { "" } else { "outer:\n" };
            let document = format!("{outer}{margin}value:{}\n{margin}after: 1\n", block(value, indent));
            let found = read(&document);
            let found = if indent == 0 { &found } else { &found["outer"] };
            assert_eq!(&found["value"], value, "{document}");
            assert_eq!(found["after"], 1, "{document}");
        }
        assert_eq!(&read(&format!("- {}\n", flow(value)))[0], value);
    }

    #[test]
    fn written_yaml_is_read_back() {
        for text in [
            "",
            " ",
            "a",
            "yes",
            "No",
            "~",
            "null",
            "1.0",
            "0x1F",
            "- a",
            "a: b",
            "a #b",
            "#",
            "'",
            "\"",
            "\\",
            "{}",
            "*a",
            "&a",
            "!a",
            "|",
            "%a",
            "@a",
            "`",
            "a\nb",
            "a\nb\n",
            "\na",
            "a\n\n\nb\n\n\n",
            " a\n b",
            "a \nb",
            "\ta\nb",
            "a\r\nb\r\n",
            "\u{85}",
            "\u{feff}",
            "\u{2028}",
            "😀",
            "---",
            "...",
            "a\n---\nb\n",
            "a,b",
            "[",
            "Tromsø",
            "\u{7f}",
            "?",
            ": ",
            "<<",
        ] {
            check(&json!(text));
            check(&json!({ text: [text, { "a": text }] }));
        }
        check(&json!([[], {}, [[1, 2.50], ["x"]], null, true, 12345678901234567890_u64]));
    }

    #[test]
    fn long_values_get_lines() {
        let value = json!({ "rows": [{ "name": "a".repeat(60), "text": "b".repeat(60) }], "none": [] });
        assert_eq!(block(&value, 0).lines().count(), 6, "{}", block(&value, 0));
        check(&value);
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<String>().prop_map(Value::from),
            "[ -~\n\t]{0,40}".prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_comes_back(value in any_value()) {
            check(&value);
        }
    }
}
