//! Error messages for invalid YAML, written for readers who do not know its specification.

use granit_parser::{ErrorKind::*, ScanError};

use crate::settings::{fixed_regex, problem_code::Code, problem_collector::Report, source_text::SourceSpan};

/// Message and help for lists and maps that are nested too deep.
pub(super) const TOO_DEEP: (&str, &str) = ("lists and maps are nested too deep", "use at most 64 levels");

/// Reports a YAML syntax error at its position.
pub(super) fn report(report: &Report<'_>, file: usize, error: &ScanError) {
    let files = report.files();
    let text = files.text(files.beginning(file));
    let line_of = |start: usize| files.line_and_column(SourceSpan { file, start, end: start }).line;
    let at = error.marker().byte_offset().unwrap_or_else(|| {
        text.char_indices().nth(error.marker().index()).map_or(text.len(), |(offset, _)| offset)
    });
    let at = at.min(text.len());
    let start = match error.kind() {
        UnclosedQuotedScalar | DocumentIndicatorInQuotedScalar | InvalidQuotedScalarIndent => {
            opening_quote(text, at).unwrap_or(at)
        }
        TabInBlockIndentation | TabNotAllowed | TabInIndentation if text[..at].ends_with('\t') => at - 1,
        // The parser reports the beginning of the value, which is on an earlier line.
        TabInPlainScalar => tab_in_indentation(text, at).unwrap_or(at),
        _ => at,
    };
    let (mut message, help) = message_and_help(error);
    let mut help = help.map(str::to_owned);
    match error.kind() {
        MappingValueNotAllowed | InvalidColonPlacement => {
            if let Some((key, line)) = key_with_value_above(text, start) {
                message = format!(
                    "line {line} already has a value for `{key}`, so this line can't be one of its keys"
                );
                help = Some(format!("remove the value in line {line}, or indent this line like line {line}"));
            }
        }
        InvalidQuotedScalarIndent if is_closed(text, start) => {
            // The problem is reported at the quote, because the text of the line below may be part of a
            // secret.
            let line_below = line_of(at);
            message = format!("this string continues in line {line_below}, which is not indented enough");
            help =
                Some(format!("indent line {line_below} more than the key of the string, or join the lines"));
        }
        ExpectedFlowMappingSeparator | ExpectedFlowSequenceSeparator => {
            let bracket_above =
                unclosed_bracket(text, start).filter(|bracket| line_of(*bracket) < line_of(start));
            if let Some(bracket) = bracket_above {
                let (line, bracket) = (line_of(bracket), &text[bracket..=bracket]);
                message = format!("{message}, to close the `{bracket}` of line {line}");
            }
        }
        _ => {}
    }
    // Parsing stops at a syntax error, so the rest of the file is not checked.
    let note = "the rest of this file is checked once this is fixed";
    let help = help.map_or_else(|| note.to_owned(), |help| format!("{help} ({note})"));
    let is_too_deep = matches!(error.kind(), RecursionLimitExceeded);
    let code = if is_too_deep { Code::NestedTooDeep } else { Code::InvalidYaml };
    let end = text[start..].chars().next().map_or(start, |c| start + c.len_utf8());
    report.error(code.at_span(SourceSpan { file, start, end }), message, help);
}

/// Position of the unclosed quote before `at`, where the parser stopped.
fn opening_quote(text: &str, at: usize) -> Option<usize> {
    if text[at..].starts_with(['"', '\'']) {
        return Some(at);
    }
    let mut end = at;
    text[..at].rsplit('\n').find_map(|line| {
        let start = end - line.len();
        end = start.saturating_sub(1);
        let unpaired = ['"', '\''].into_iter().filter(|quote| line.matches(*quote).count() % 2 == 1);
        unpaired.filter_map(|quote| line.rfind(quote)).max().map(|offset| start + offset)
    })
}

/// Whether the quoted string that begins at `start` has a closing quote, and a comment, a `,`, a closing
/// bracket or the end of the line follows it. Otherwise, the closing quote probably opens another string.
fn is_closed(text: &str, start: usize) -> bool {
    // In single quotes, `''` is an apostrophe.
    let pattern = r#"^(?s:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')[^\S\n]*(?:\n|\z|[#,}\]])"#;
    fixed_regex(pattern).is_match(&text[start..])
}

/// Position of the first tab in the indentation of a line below `at`. Blank lines may contain tabs.
fn tab_in_indentation(text: &str, at: usize) -> Option<usize> {
    let start = at + text[at..].find('\n')? + 1;
    let tab = fixed_regex(r"(?m)^[^\S\n\t]*(\t)[^\S\n]*\S").captures(&text[start..])?.get(1)?;
    Some(start + tab.start())
}

/// Returns the key and the line number of the nearest line above `at`, if it has a key with a plain value and
/// the line at `at` is indented more. The parser reads the lower line as a continuation of the value.
fn key_with_value_above(text: &str, at: usize) -> Option<(&str, usize)> {
    let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let start = text[..at].rfind('\n')? + 1;
    let lower_indent = indent(text[start..].lines().next()?);
    let is_content = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let (line_above, line) = text[..start].lines().zip(1..).filter(|(line, _)| is_content(line)).last()?;
    // The key of a list item follows `- `.
    let entry = line_above.trim_start_matches([' ', '-']);
    let (key, value) = entry.split_once(": ")?;
    let value = value.trim();
    let is_plain = !value.is_empty() && !value.starts_with(['{', '[', '|', '>', '"', '\'', '#']);
    let is_key = key.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
    (is_plain && is_key && line_above.len() - entry.len() < lower_indent).then_some((key, line))
}

/// Position of the unclosed bracket before `at`. Brackets in quotes are counted too, because the result is
/// only used for a hint.
fn unclosed_bracket(text: &str, at: usize) -> Option<usize> {
    const MAX_CHARACTERS: usize = 10_000;
    let mut closed = 0_usize;
    for (offset, character) in text[..at].char_indices().rev().take(MAX_CHARACTERS) {
        match character {
            '}' | ']' => closed += 1,
            '{' | '[' if closed == 0 => return Some(offset),
            '{' | '[' => closed -= 1,
            _ => {}
        }
    }
    None
}

/// Message and help for an error of the YAML parser.
fn message_and_help(error: &ScanError) -> (String, Option<&'static str>) {
    let quote_help = "put the string in quotes: \"…\"";
    let (message, help) = match error.kind() {
        TabInBlockIndentation | TabNotAllowed | TabInIndentation | TabInPlainScalar => {
            ("tabs can't be used for indentation", "replace the tab with spaces")
        }
        UnclosedQuotedScalar | DocumentIndicatorInQuotedScalar | InvalidQuotedScalarIndent => {
            ("this quote has no closing quote", "close it on the same line")
        }
        UnclosedFlowCollection { open: '{' }
        | UnexpectedEofFlowMapping
        | UnexpectedEofImplicitFlowMapping => ("this `{` has no closing `}`", "add the `}`"),
        UnclosedFlowCollection { .. } | UnexpectedEofFlowSequence => {
            ("this `[` has no closing `]`", "add the `]`")
        }
        ExpectedFlowMappingSeparator => (
            "expected `,` or `}`",
            "inside `{…}`, put a string that contains `{`, `}`, `[`, `]` or `,` in quotes",
        ),
        ExpectedFlowSequenceSeparator => (
            "expected `,` or `]`",
            "inside `[…]`, put a string that contains `{`, `}`, `[`, `]` or `,` in quotes",
        ),
        MismatchedFlowCollectionEnd { open, close } => {
            return (
                format!("a `{open}` is closed by `{close}`"),
                Some("check for a missing bracket before it"),
            );
        }
        MisplacedFlowCollectionEnd => ("unexpected closing bracket", quote_help),
        MappingValueNotAllowed | InvalidColonPlacement => (
            "unexpected `:`",
            "put a string that contains `: ` in quotes; check the indentation, and brackets before it",
        ),
        MappingKeyNotAllowed => ("unexpected key", "check the indentation"),
        SimpleKeyExpected | InvalidSimpleKey => {
            ("expected a `:` after this key", "write `key: value`, with a space after the colon")
        }
        ExpectedBlockMappingKey => {
            ("expected a key", "check the indentation: all keys of a map begin in the same column")
        }
        ExpectedBlockSequenceEntry | BlockSequenceEntryNotAllowed => {
            ("unexpected or missing `-`", "check the indentation of the list")
        }
        InvalidIndentation | InvalidBlockScalarIndent => (
            "the indentation of this line matches no line above",
            "indent it like the other lines of its map or list, with spaces",
        ),
        UnknownAnchor => ("undefined anchor", "define it with `&` before it is used"),
        UnexpectedCharacter { .. } => ("a string without quotes can't begin with this character", quote_help),
        UnknownQuotedScalarEscape => (
            "unknown escape sequence in a double-quoted string",
            "write `\\\\` for a backslash, or use single quotes, which are best for patterns",
        ),
        InvalidTrailingSingleQuotedScalar | InvalidTrailingDoubleQuotedScalar => {
            ("unexpected text after the closing quote", "put the whole string in one pair of quotes")
        }
        RecursionLimitExceeded => TOO_DEEP,
        _ => return (format!("invalid YAML: {}", error.info()), None),
    };
    (message.to_owned(), Some(help))
}
