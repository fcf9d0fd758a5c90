//! Rewrites the `expect` of an example in a file, and leaves every other byte unchanged.

use std::ops::Range;

use serde_json::{Map, Value};

use super::migrate::with_edits;
use super::{file, yaml};
use crate::settings::{Entry, Files, Kind, Node, Report};

/// New expectation of one example.
#[derive(Debug, Clone)]
pub struct ExpectationUpdate {
    /// Name of the route.
    pub route: String,
    /// Index of the example, from 0.
    pub example: usize,
    /// New members of `expect`.
    pub expect: Map<String, Value>,
}

/// Returns the text of the file with the new expectation.
///
/// # Errors
///
/// A sentence with the reason if the example can't be rewritten: the result would parse as something else, or
/// another part of the file would change as well (an alias, a rule with parameters).
pub fn update_expectation(text: &str, update: &ExpectationUpdate) -> Result<String, String> {
    let before = read(text).ok_or("the file can't be read")?;
    let routes = before.get("routes");
    let example =
        routes.and_then(|routes| routes.get(&update.route)?.get("tests")?.as_list()?.get(update.example));
    let example = example.ok_or("its position in the file is unknown: is it part of an alias?")?;
    let entries = example.as_map().ok_or("it is not a map")?;
    let expected = with_expect(&before.to_json(), update).ok_or("its position in the file is unknown")?;
    let value = Value::Object(update.expect.clone());
    let entry = example.entry("expect");
    let is_as_expected = |written: &String| read(written).is_some_and(|after| after.to_json() == expected);
    // If only scalars differ, replace those, which keeps comments and layout. Otherwise, prefer block style.
    let mut scalars = Vec::new();
    let only_scalars = entry.and_then(|entry| collect_scalars(text, &entry.value, &value, &mut scalars));
    let with_scalars = only_scalars.map(|()| with_edits(text, scalars));
    let rewritten = [true, false].into_iter().filter_map(|as_block| match entry {
        Some(entry) => replaced(text, entry, &value, as_block),
        None => added(text, entries, &value, as_block),
    });
    with_scalars.into_iter().chain(rewritten).find(is_as_expected).ok_or_else(|| {
        "it can't be changed without changing other parts of the file; change it by hand".to_owned()
    })
}

fn read(text: &str) -> Option<Node> {
    let files = Files::from_text("", text);
    let report = Report::new(&files);
    let root = file::read(&report, 0);
    root.filter(|_| report.errors() == 0)
}

/// Expected values of the whole file after the change.
fn with_expect(root: &Value, update: &ExpectationUpdate) -> Option<Value> {
    let mut root = root.clone();
    let example =
        root.get_mut("routes")?.get_mut(&update.route)?.get_mut("tests")?.get_mut(update.example)?;
    example.as_object_mut()?.insert("expect".into(), update.expect.clone().into());
    Some(root)
}

/// Collects the byte range and new text of each scalar that differs; `None` if more than single-line scalars
/// differ.
fn collect_scalars(
    text: &str,
    node: &Node,
    value: &Value,
    changes: &mut Vec<(Range<usize>, String)>,
) -> Option<()> {
    match (&node.kind, value) {
        (Kind::Map(entries), Value::Object(members)) if entries.len() == members.len() => {
            entries.iter().try_for_each(|entry| {
                collect_scalars(text, &entry.value, members.get(&entry.key.text)?, changes)
            })
        }
        (Kind::List(items), Value::Array(values)) if items.len() == values.len() => {
            items.iter().zip(values).try_for_each(|(item, value)| collect_scalars(text, item, value, changes))
        }
        (Kind::Map(_) | Kind::List(_), _) | (_, Value::Object(_) | Value::Array(_)) => None,
        _ if node.to_json() == *value => Some(()),
        _ => {
            let (start, end) = (node.span.start, end_of(text, node));
            let is_block = text.get(start..end)?.contains('\n') || start == end;
            let is_long = value.as_str().is_some_and(|value| value.contains('\n'));
            (!is_block && !is_long).then(|| changes.push((start..end, yaml::flow(value))))
        }
    }
}

/// Converts line endings to those of the file.
fn with_line_ends_of(text: &str, lines: String) -> String {
    if text.contains("\r\n") { lines.replace('\n', "\r\n") } else { lines }
}

/// Replaces the value of `expect`, which may be empty or null.
fn replaced(text: &str, entry: &Entry, value: &Value, as_block: bool) -> Option<String> {
    let (key, node) = (entry.key.span, &entry.value);
    let colon = key.end + text.get(key.end..)?.find(':')? + 1;
    let is_null = matches!(node.kind, Kind::Null);
    let end = if is_null {
        let rest = text.get(colon..)?.lines().next().unwrap_or_default();
        let begin = rest.trim_start_matches(' ');
        let word = ["~", "null", "Null", "NULL"].into_iter().find(|word| begin.starts_with(word));
        colon + word.map_or(0, |word| rest.len() - begin.len() + word.len())
    } else {
        end_of(text, node)
    };
    let edit = match (as_block, is_null) {
        (true, _) => {
            let block = yaml::block(value, column(text, key.start));
            (colon..end, with_line_ends_of(text, block))
        }
        (false, true) => (colon..end, format!(" {}", yaml::flow(value))),
        (false, false) => (node.span.start..end, yaml::flow(value)),
    };
    Some(with_edits(text, vec![edit]))
}

/// Adds `expect` after the last key of an example.
fn added(text: &str, entries: &[Entry], value: &Value, as_block: bool) -> Option<String> {
    let end = end_of(text, &entries.last()?.value);
    if !as_block {
        return Some(with_edits(text, vec![(end..end, format!(", expect: {}", yaml::flow(value)))]));
    }
    let column = column(text, entries.first()?.key.span.start);
    // After a comment in the last line.
    let end = end + text.get(end..)?.lines().next().unwrap_or_default().len();
    let lines = format!("\n{}expect:{}", " ".repeat(column), yaml::block(value, column));
    Some(with_edits(text, vec![(end..end, with_line_ends_of(text, lines))]))
}

/// End of a value without trailing comments and blank lines.
fn end_of(text: &str, node: &Node) -> usize {
    let is_flow = text.get(node.span.start..).is_some_and(|rest| rest.starts_with(['{', '[']));
    let last = node.children().last().filter(|_| !is_flow);
    let end = last.map_or(node.span.end, |last| end_of(text, last)).min(text.len());
    let words = text.get(..end).map_or(end, |before| before.trim_end().len());
    words.max(node.span.start)
}

/// Number of characters before `at` in its line.
fn column(text: &str, at: usize) -> usize {
    let before = text.get(..at).unwrap_or_default();
    before[before.rfind('\n').map_or(0, |end| end + 1)..].chars().count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(tests: &str, example: usize, expect: Value, expected: Result<&str, &str>) {
        let text = |tests: &str| format!("# A file.\nroutes:\n  t:\n    tests:\n{tests}\n# The end.\n");
        let update = ExpectationUpdate {
            route: "t".into(),
            example,
            expect: expect.as_object().cloned().unwrap_or_default(),
        };
        let found = update_expectation(&text(tests), &update);
        match expected {
            Ok(expected) => assert_eq!(found.as_deref(), Ok(text(expected).as_str())),
            Err(part) => assert!(found.as_ref().is_err_and(|why| why.contains(part)), "{found:?}"),
        }
    }

    #[test]
    fn only_what_is_expected_changes() {
        check(
            "      - response: { body: '5' } # a comment\n        expect: { text: \"six\" } # another\n      - response: {}\n        expect: {}\n",
            0,
            json!({ "structuredContent": { "a": 5.0 } }),
            Ok(
                "      - response: { body: '5' } # a comment\n        expect: { structuredContent: { a: 5.0 } } # another\n      - response: {}\n        expect: {}\n",
            ),
        );
        check(
            "      - expect:\n          structuredContent:\n            a: 1\n\n        # Why.\n        response: { body: x }",
            0,
            json!({ "isError": true, "text": "a: b\nc" }),
            Ok(
                "      - expect:\n          isError: true\n          text: |-\n            a: b\n            c\n\n        # Why.\n        response: { body: x }",
            ),
        );
        check(
            "      - { response: { body: x }, expect: { text: a } }\n      - { response: { body: y }, expect: { text: b } }",
            1,
            json!({ "text": "c\nd" }),
            Ok(
                "      - { response: { body: x }, expect: { text: a } }\n      - { response: { body: y }, expect: { text: \"c\\nd\" } }",
            ),
        );
    }

    #[test]
    fn comments_and_layout_are_kept_when_scalars_change() {
        check(
            "      - response: { body: x }\n        expect:\n          # Degrees.\n          structuredContent: {a: 1,   b: [two, 'three']} # both\n          text: old # said\n          isError: false",
            0,
            json!({ "isError": true, "structuredContent": { "a": 5, "b": ["two", "4, }"] }, "text": "new: #1" }),
            Ok(
                "      - response: { body: x }\n        expect:\n          # Degrees.\n          structuredContent: {a: 5,   b: [two, \"4, }\"]} # both\n          text: \"new: #1\" # said\n          isError: true",
            ),
        );
    }

    #[test]
    fn lines_end_as_those_of_the_file_do() {
        let update = |expect: Value| ExpectationUpdate {
            route: "t".into(),
            example: 0,
            expect: expect.as_object().cloned().unwrap(),
        };
        for before in [
            "routes:\r\n  t:\r\n    tests:\r\n      - response: { body: x } # a\r\n",
            "routes:\r\n  t:\r\n    tests:\r\n      - response: { body: x } # a\r\n        expect:\r\n          text: a\r\n",
        ] {
            let written =
                update_expectation(before, &update(json!({ "isError": true, "text": "a\nb" }))).unwrap();
            assert!(written.starts_with(&before[..before.find("# a").unwrap() + 5]), "{written:?}");
            assert_eq!(written.matches('\n').count(), written.matches("\r\n").count(), "{written:?}");
            assert!(written.contains("isError: true\r\n"), "{written:?}");
        }
    }

    #[test]
    fn missing_expectations_are_added() {
        check(
            "      - response: { body: x } # said",
            0,
            json!({ "text": "a" }),
            Ok("      - response: { body: x } # said\n        expect: { text: a }"),
        );
        check(
            "      - { response: { body: x } }",
            0,
            json!({ "text": "a" }),
            Ok("      - { response: { body: x }, expect: { text: a } }"),
        );
        check(
            "      - response:\n          body: |\n            x\n",
            0,
            json!({ "text": "a" }),
            Ok("      - response:\n          body: |\n            x\n        expect: { text: a }\n"),
        );
    }

    #[test]
    fn an_expectation_of_nothing_is_replaced() {
        for before in ["expect: {}", "expect:", "expect: ~"] {
            check(
                &format!("      - response: {{ body: x }}\n        {before}\n      - response: {{}}"),
                0,
                json!({ "text": "a" }),
                Ok("      - response: { body: x }\n        expect: { text: a }\n      - response: {}"),
            );
        }
        check(
            "      - { response: { body: x }, expect: {} }",
            0,
            json!({ "text": "a" }),
            Ok("      - { response: { body: x }, expect: { text: a } }"),
        );
    }

    #[test]
    fn shared_parts_are_unchanged() {
        let anchored = "      - response: { body: x }\n        expect: &e { text: a }\n      - response: { body: y }\n        expect: *e";
        check(anchored, 1, json!({ "text": "b" }), Err("by hand"));
        check(anchored, 0, json!({ "text": "b" }), Err("by hand"));
    }
}
