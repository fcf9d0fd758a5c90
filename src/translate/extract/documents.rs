//! `json`, `ndjson` and `text`: what is handed on as the upstream wrote it, until somebody looks into it.

use bytestring::ByteString;

use super::{Extracted, Extraction, Finds, Gives, RECORD_LIMIT, Typing};
use crate::{
    model::JsonText,
    translate::{response_view::ResponseView, why::Why},
};

/// Reads a JSON document, nested at most [`JSON_DEPTH_LIMIT`](crate::model::JSON_DEPTH_LIMIT) deep.
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

impl Extraction for Json {
    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, Why> {
        if view.text()?.trim().is_empty() {
            return Err("expected JSON, found an empty reply".into());
        }
        view.checked_json().map(Extracted::Raw)
    }
}

/// Reads a JSON document a line into a list; keys stay in order and numbers keep their text.
///
/// Blank lines are passed over, and so are the record separators of RFC 7464. An empty reply is an error, unless the
/// rule allows it.
#[derive(Debug, Clone, Copy, Default)]
pub struct NdJson {
    /// Whether an empty reply gives an empty list.
    pub allow_empty: bool,
}

impl Extraction for NdJson {
    fn gives(&self) -> Gives {
        Gives::Many
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, Why> {
        let whole = view.shared_text()?;
        let mut documents = 0_usize;
        let mut list = Vec::with_capacity(whole.len() + 2);
        list.push(b'[');
        for (index, line) in view.text()?.lines().enumerate() {
            let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\u{1e}');
            if line.is_empty() {
                continue;
            }
            documents += 1;
            if documents > RECORD_LIMIT {
                return Err(Why::plainly(format!("expected at most {RECORD_LIMIT} documents, found more")));
            }
            JsonText::check_text(&whole.slice_ref(line)).map_err(|error| {
                let (line, what) = (index + 1, error.what);
                Why::plainly(format!("line {line}: expected a JSON document, found something else: {what}"))
            })?;
            if documents > 1 {
                list.push(b',');
            }
            list.extend_from_slice(line.as_bytes());
        }
        if documents == 0 && !self.allow_empty {
            return Err("expected a JSON document a line, found an empty reply".into());
        }
        list.push(b']');
        // The list is one level deeper than its documents.
        JsonText::check(&list.into()).map(Extracted::Raw).map_err(|error| Why::plainly(error.what))
    }
}

/// Reads the whole text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Text {
    /// Whether white space at both ends is left out.
    pub trim: bool,
}

impl Extraction for Text {
    fn finds(&self) -> Finds<'_> {
        Finds::NoFields
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, Why> {
        let whole = view.shared_text()?;
        if !self.trim {
            return Ok(Extracted::Text(whole.clone()));
        }
        let text = view.text()?.trim();
        // An empty slice may lie anywhere, which `slice_ref` does not take.
        Ok(Extracted::Text(if text.is_empty() { ByteString::new() } else { whole.slice_ref(text) }))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};
    use serde_json::json;

    use super::*;
    use crate::{
        model::Reply,
        translate::{Facts, TranslationLimits, response_view::ExpandedBody},
    };

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        check_with(NdJson::default(), text, expected);
    }

    #[track_caller]
    fn check_with(ndjson: NdJson, text: &str, expected: Result<&str, &str>) {
        let body = Bytes::copy_from_slice(text.as_bytes());
        let reply = Reply::new(StatusCode::OK, HeaderMap::new(), body);
        let (tool, args, body) = ("tool".parse().unwrap(), json!({}), ExpandedBody::new());
        let view = ResponseView::new(&reply, &body, Facts::new(&tool, &args), TranslationLimits::default());
        match (ndjson.find(&view, &Typing::AsFound), expected) {
            (Ok(Extracted::Raw(json)), Ok(expected)) => assert_eq!(json.as_str(), expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("found {found:?}"),
        }
    }

    #[test]
    fn a_document_a_line_keeps_its_text() {
        check(
            "{\"b\": 1.0, \"a\": 12345678901234567890}\r\n\n [1]\n\"x\"",
            Ok(r#"[{"b": 1.0, "a": 12345678901234567890},[1],"x"]"#),
        );
        check("\u{1e}{\"a\":1}\n\u{1e}{\"a\":2}\n", Ok(r#"[{"a":1},{"a":2}]"#));
    }

    #[test]
    fn what_is_no_document_says_where_it_stands() {
        check("{}\n\n{\"a\": }\n", Err("line 3: expected a JSON document, found something else"));
        check("{} {}\n", Err("line 1"));
        check("{\n}\n", Err("line 1"));
        check(&format!("{}{}", "[".repeat(200), "]".repeat(200)), Err("line 1"));
        check(&format!("{}{}", "[".repeat(127), "]".repeat(127)), Err(""));
        check(" \n", Err("found an empty reply"));
        let lenient = NdJson { allow_empty: true };
        check_with(lenient, " \n", Ok("[]"));
        check_with(lenient, "", Ok("[]"));
        check_with(lenient, "none\n", Err("line 1: expected a JSON document"));
        check(&"1\n".repeat(100_001), Err("at most 100000 documents"));
    }
}
