//! What was found put in the place of what an example expects, with all the rest of the file left as it is.

use serde_json::{Map, Value};

use super::{
    file,
    node::{Entry, Kind, Node},
    report::Report,
    source::Files,
    yaml,
};

/// One example, and what is to be expected of it.
#[derive(Debug, Clone)]
pub struct Acceptance {
    /// The route's name.
    pub route: String,
    /// Which of its examples, from 0.
    pub example: usize,
    /// The members of `expect`.
    pub expect: Map<String, Value>,
}

/// A file with what was accepted in it.
///
/// # Errors
///
/// A sentence that says why the example can't be rewritten: what is written would be read as something else, or would
/// change another place as well (an alias, a rule with parameters).
pub fn accept(text: &str, acceptance: &Acceptance) -> Result<String, String> {
    let before = read(text).ok_or("the file can't be read")?;
    let example =
        find(&before, acceptance).ok_or("its place in the file can't be told: is it written by an alias?")?;
    let entries = example.as_map().ok_or("it is no map")?;
    let expected = with_expect(&before.to_json(), acceptance).ok_or("its place in the file can't be told")?;
    let value = Value::Object(acceptance.expect.clone());
    // As lines of its own where that reads well, else in one line.
    for as_block in [true, false] {
        let written = match entries.iter().find(|entry| entry.key.text == "expect") {
            Some(entry) => replaced(text, entry, &value, as_block),
            None => added(text, entries, &value, as_block),
        };
        if let Some(written) = written
            && read(&written).is_some_and(|after| after.to_json() == expected)
        {
            return Ok(written);
        }
    }
    Err("it is written in a form that can't be changed alone; change it by hand".to_owned())
}

fn read(text: &str) -> Option<Node> {
    let mut files = Files::default();
    let file = files.add("", text.to_owned());
    let report = Report::new(&files);
    let root = file::read(&report, file);
    root.filter(|_| report.errors() == 0)
}

fn find<'n>(root: &'n Node, acceptance: &Acceptance) -> Option<&'n Node> {
    match &root.get("routes")?.get(&acceptance.route)?.get("tests")?.kind {
        Kind::List(items) => items.get(acceptance.example),
        Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::Map(_) => None,
    }
}

/// The whole file's values, as they are to be.
fn with_expect(root: &Value, acceptance: &Acceptance) -> Option<Value> {
    let mut root = root.clone();
    let example =
        root.get_mut("routes")?.get_mut(&acceptance.route)?.get_mut("tests")?.get_mut(acceptance.example)?;
    example.as_object_mut()?.insert("expect".into(), acceptance.expect.clone().into());
    Some(root)
}

/// The text of what stands behind `expect`, replaced.
fn replaced(text: &str, entry: &Entry, value: &Value, as_block: bool) -> Option<String> {
    let (start, end) = (entry.value.span.start, end_of(text, &entry.value));
    if entry.value.span.file != entry.key.span.file || start < entry.key.span.end || end < start {
        return None;
    }
    if as_block {
        let colon = entry.key.span.end + text.get(entry.key.span.end..start)?.find(':')? + 1;
        let column = column(text, entry.key.span.start);
        return Some(format!("{}{}{}", text.get(..colon)?, yaml::block(value, column), text.get(end..)?));
    }
    Some(format!("{}{}{}", text.get(..start)?, yaml::flow(value), text.get(end..)?))
}

/// `expect` behind the last key of an example.
fn added(text: &str, entries: &[Entry], value: &Value, as_block: bool) -> Option<String> {
    let last = entries.last()?;
    let end = end_of(text, &last.value);
    if as_block {
        let column = column(text, entries.first()?.key.span.start);
        // Behind whatever else stands in the last line.
        let end = end + text.get(end..)?.find('\n').unwrap_or(text.len() - end);
        let margin = " ".repeat(column);
        return Some(format!(
            "{}\n{margin}expect:{}{}",
            text.get(..end)?,
            yaml::block(value, column),
            text.get(end..)?
        ));
    }
    Some(format!("{}, expect: {}{}", text.get(..end)?, yaml::flow(value), text.get(end..)?))
}

/// Where a value ends, without what follows its last word: comments and blank lines stay.
fn end_of(text: &str, node: &Node) -> usize {
    let is_flow = text.get(node.span.start..).is_some_and(|rest| rest.starts_with(['{', '[']));
    let inner = match &node.kind {
        Kind::List(items) if !is_flow => items.last().map(|item| end_of(text, item)),
        Kind::Map(entries) if !is_flow => entries.last().map(|entry| end_of(text, &entry.value)),
        Kind::List(_) | Kind::Map(_) | Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) => {
            None
        }
    };
    let end = inner.unwrap_or(node.span.end).min(text.len());
    let words = text.get(..end).map_or(end, |before| before.trim_end().len());
    words.max(node.span.start)
}

/// How many characters stand before `at` in its line.
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
        let acceptance = Acceptance {
            route: "t".into(),
            example,
            expect: expect.as_object().cloned().unwrap_or_default(),
        };
        let found = accept(&text(tests), &acceptance);
        match expected {
            Ok(expected) => assert_eq!(found.as_deref(), Ok(text(expected).as_str())),
            Err(part) => assert!(found.as_ref().is_err_and(|why| why.contains(part)), "{found:?}"),
        }
    }

    #[test]
    fn only_what_is_expected_changes() {
        check(
            "      - given: { body: '5' } # a comment\n        expect: { text: \"six\" } # another\n      - given: {}\n        expect: {}\n",
            0,
            json!({ "structuredContent": { "a": 5.0 } }),
            Ok(
                "      - given: { body: '5' } # a comment\n        expect: { structuredContent: { a: 5.0 } } # another\n      - given: {}\n        expect: {}\n",
            ),
        );
        check(
            "      - expect:\n          structuredContent:\n            a: 1\n\n        # Why.\n        given: { body: x }",
            0,
            json!({ "isError": true, "text": "a: b\nc" }),
            Ok(
                "      - expect:\n          isError: true\n          text: |-\n            a: b\n            c\n\n        # Why.\n        given: { body: x }",
            ),
        );
        check(
            "      - { given: { body: x }, expect: { text: a } }\n      - { given: { body: y }, expect: { text: b } }",
            1,
            json!({ "text": "c\nd" }),
            Ok(
                "      - { given: { body: x }, expect: { text: a } }\n      - { given: { body: y }, expect: { text: \"c\\nd\" } }",
            ),
        );
    }

    #[test]
    fn what_is_missing_is_added() {
        check(
            "      - given: { body: x } # said",
            0,
            json!({ "text": "a" }),
            Ok("      - given: { body: x } # said\n        expect: { text: a }"),
        );
        check(
            "      - { given: { body: x } }",
            0,
            json!({ "text": "a" }),
            Ok("      - { given: { body: x }, expect: { text: a } }"),
        );
        check(
            "      - given:\n          body: |\n            x\n",
            0,
            json!({ "text": "a" }),
            Ok("      - given:\n          body: |\n            x\n        expect: { text: a }\n"),
        );
    }

    #[test]
    fn what_stands_elsewhere_too_is_left() {
        let anchored = "      - given: { body: x }\n        expect: &e { text: a }\n      - given: { body: y }\n        expect: *e";
        check(anchored, 1, json!({ "text": "b" }), Err("by hand"));
        check(anchored, 0, json!({ "text": "b" }), Err("by hand"));
    }
}
