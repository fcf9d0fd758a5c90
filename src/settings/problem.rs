//! Diagnostics of the configuration: location, message and suggested fix.

use std::path::PathBuf;

use serde::Serialize;

use super::{
    problem_code::{Code, CodedSpan},
    problem_display::{Excerpt, escape_message},
    source_text::{Files, Origin},
};

/// Diagnostic with a location, an excerpt of the line and a suggested fix.
///
/// `Display` formats it for people, `Serialize` for programs. It contains no secrets: values of keys such as
/// `authorization` and `password` are masked in the excerpt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Error, warning or note; only an error prevents the configuration from loading.
    pub severity: Severity,
    /// Code of the kind of problem.
    pub code: Code,
    /// Name of the file, environment variable or flag.
    pub file: String,
    /// Line number, from 1; `None` for a whole file, a variable or a flag.
    pub line: Option<usize>,
    /// Column in characters, from 1.
    pub column: Option<usize>,
    /// Message in one sentence: what was found and what was expected.
    pub message: String,
    /// Suggested fix.
    pub help: Option<String>,
    #[serde(skip)]
    pub(super) excerpt: Option<Excerpt>,
}

/// Severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The configuration is rejected.
    Error,
    /// The configuration is valid, but part of it has no effect or is probably a mistake.
    Warning,
    /// Information; nothing is wrong.
    Note,
}

/// All problems of a configuration, in the order of the files. The list is never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems {
    list: Vec<Problem>,
    /// Files that the configuration refers to, such as files of secrets, whether or not they exist.
    #[serde(skip)]
    pub referenced_files: Vec<PathBuf>,
}

impl Problem {
    /// Creates a problem of a whole file, a variable or a flag.
    pub(crate) fn without_span(
        code: Code,
        file: impl Into<String>,
        message: impl Into<String>,
        help: Option<String>,
    ) -> Self {
        Self {
            severity: Severity::Error,
            code,
            file: file.into(),
            line: None,
            column: None,
            message: escape_message(&message.into()),
            help: help.map(|help| escape_message(&help)),
            excerpt: None,
        }
    }

    /// Creates a problem at a span of a file.
    pub(crate) fn with_span(
        files: &Files,
        at: CodedSpan,
        message: impl Into<String>,
        help: Option<String>,
    ) -> Self {
        let CodedSpan { code, span } = at;
        // Variables and flags have no lines.
        if matches!(files.origin(span), Origin::Variable | Origin::Flag) {
            return Self::without_span(code, files.name(span), message, help);
        }
        let position = files.line_and_column(span);
        Self {
            line: Some(position.line),
            column: Some(position.column),
            excerpt: Some(Excerpt::new(files, span)),
            ..Self::without_span(code, files.name(span), message, help)
        }
    }

    /// Whether the problem prevents the configuration from loading.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl Problems {
    /// Maximum number of reported problems; most problems beyond it follow from the same mistake.
    pub const MAX_REPORTED: usize = 500;

    /// Creates the list from all problems, including warnings. They must be sorted.
    pub(crate) fn from_list(mut list: Vec<Problem>) -> Self {
        if list.is_empty() {
            // A parser that rejects a value reports a problem. Should one not do so, the error still needs a
            // message.
            let message = "the configuration was rejected without a message, which is a bug in glossator";
            list.push(Problem::without_span(Code::UnreadableFile, "configuration", message, None));
        }
        Self { list, referenced_files: Vec::new() }
    }

    /// All problems, in the order of the files.
    pub fn as_slice(&self) -> &[Problem] {
        &self.list
    }

    /// Message of the first error.
    pub fn first_error(&self) -> &str {
        self.list
            .iter()
            .find(|problem| problem.is_error())
            .map_or("it is invalid", |problem| &problem.message)
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::settings::SourceSpan;

    #[track_caller]
    fn check(text: &str, marked_text: &str, expected: &str) {
        let files = Files::from_text("a.yaml", text);
        let start = text.find(marked_text).unwrap();
        let span = SourceSpan { file: 0, start, end: start + marked_text.len() };
        let problem = Problem::with_span(
            &files,
            Code::InvalidValue.at_span(span),
            "no good",
            Some("do better".to_owned()),
        );
        assert_eq!(problem.to_string(), expected);
    }

    #[test]
    fn the_caret_is_under_the_words() {
        check(
            "a: 1\n  b: oops # x\n",
            "oops",
            "a.yaml:2:6: error[G0109]: no good\n2 |   b: oops # x\n  |      ^^^^ help: do better",
        );
    }

    #[test]
    fn tabs_and_wide_characters_keep_the_caret_in_place() {
        check(
            "\t日本: oops",
            "oops",
            "a.yaml:1:6: error[G0109]: no good\n1 |     日本: oops\n  |           ^^^^ help: do better",
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        check(
            "a\u{1b}[2J: oops",
            "oops",
            "a.yaml:1:8: error[G0109]: no good\n1 | a\\u{1b}[2J: oops\n  |             ^^^^ help: do better",
        );
    }

    #[test]
    fn a_long_line_is_cut_round_the_caret() {
        let text = format!("{}oops{}", "x".repeat(300), "y".repeat(300));
        let files = Files::from_text("a.yaml", &text);
        let problem = Problem::with_span(
            &files,
            Code::InvalidValue.at_span(SourceSpan { file: 0, start: 300, end: 304 }),
            "no good",
            None,
        )
        .to_string();
        let lines: Vec<_> = problem.lines().collect();
        assert_eq!(lines[1], format!("1 | …{}oops{}…", "x".repeat(60), "y".repeat(96)));
        assert_eq!(lines[2].find("^^^^"), Some(4 + 61));
    }

    #[test]
    fn a_line_is_cut_between_wide_characters() {
        let text = format!("{}x{}oops{}", "日".repeat(90), "日".repeat(20), "y".repeat(200));
        let files = Files::from_text("a.yaml", &text);
        let start = text.find("oops").unwrap();
        let at = Code::InvalidValue.at_span(SourceSpan { file: 0, start, end: start + 4 });
        let problem = Problem::with_span(&files, at, "no good", None).to_string();
        let lines: Vec<_> = problem.lines().collect();
        let before_caret = lines[1].split_once("oops").unwrap().0;
        assert_eq!(lines[2].find("^^^^"), Some(before_caret.width()));
    }

    #[test]
    fn secrets_are_masked_whatever_their_length() {
        check(
            "h: { Authorization: \"Bearer abc\", b: oops }",
            "oops",
            "a.yaml:1:38: error[G0109]: no good\n1 | h: { Authorization: *****, b: oops }\n  |                               ^^^^ help: do better",
        );
        check(
            "X-Digest: glpat-abcdefghij1234567890 # Server=db;Password=abc; oops",
            "oops",
            "a.yaml:1:64: error[G0109]: no good\n1 | X-Digest: ***** # Server=db;Password=*****; oops\n  \
             |                                             ^^^^ help: do better",
        );
        check(
            "u: http://me:pw@host/oops",
            "oops",
            "a.yaml:1:22: error[G0109]: no good\n1 | u: http://*****@host/oops\n  |                      ^^^^ help: do better",
        );
    }

    #[test]
    fn a_token_that_a_message_quotes_is_masked() {
        let message = "expected `a` or `b`, found `glpat-abcdefghij1234567890`";
        let problem = Problem::without_span(Code::InvalidValue, "a.yaml", message, None);
        assert_eq!(problem.message, "expected `a` or `b`, found `*****`");
    }

    #[test]
    fn programs_read_the_same_as_json() {
        let files = Files::from_text("a.yaml", "oops");
        let problem = Problem::with_span(
            &files,
            Code::InvalidValue.at_span(SourceSpan { file: 0, start: 0, end: 4 }),
            "no good",
            None,
        );
        assert_eq!(
            serde_json::to_string(&problem).unwrap(),
            r#"{"severity":"error","code":"G0109","file":"a.yaml","line":1,"column":1,"message":"no good","help":null}"#
        );
    }
}
