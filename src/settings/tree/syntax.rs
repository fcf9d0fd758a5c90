//! Error messages for invalid YAML, in words that need no knowledge of its specification.

use granit_parser::{ErrorKind, ScanError};

use crate::settings::{code::Code, report::Report, source::SourceSpan};

/// Message and help for lists and maps that are nested too deep.
pub(super) const TOO_DEEP: (&str, &str) = ("lists and maps nest too deep", "at most 64 levels are read");

/// Reports a YAML syntax error at its position.
pub(super) fn report(report: &Report<'_>, file: usize, error: &ScanError) {
    let files = report.files();
    let text = files.text(files.beginning(file));
    let at = error.marker().byte_offset().unwrap_or_else(|| {
        text.char_indices().nth(error.marker().index()).map_or(text.len(), |(offset, _)| offset)
    });
    let at = at.min(text.len());
    let start = match error.kind() {
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::DocumentIndicatorInQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent => opening_quote(text, at).unwrap_or(at),
        ErrorKind::TabInBlockIndentation | ErrorKind::TabNotAllowed | ErrorKind::TabInIndentation
            if text[..at].ends_with('\t') =>
        {
            at - 1
        }
        _ => at,
    };
    let end = text[start..].chars().next().map_or(start, |c| start + c.len_utf8());
    let (mut message, help) = words(error);
    if let ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::ExpectedFlowSequenceSeparator = error.kind()
        && let Some(bracket) = open_bracket(text, start)
    {
        let opened =
            report.files().line_and_column(SourceSpan { file, start: bracket, end: bracket + 1 }).line;
        if opened < report.files().line_and_column(SourceSpan { file, start, end }).line {
            let bracket = &text[bracket..=bracket];
            message = format!("{message}, to end the `{bracket}` of line {opened}");
        }
    }
    // Parsing stops at a syntax error, so the rest of the file has not been checked.
    let rest = "the rest of this file is looked at once this is mended";
    let help = help.map_or_else(|| rest.to_owned(), |help| format!("{help} ({rest})"));
    let code = match error.kind() {
        ErrorKind::RecursionLimitExceeded => Code::NestedTooDeep,
        _ => Code::InvalidYaml,
    };
    report.error(code.at_span(SourceSpan { file, start, end }), message, help);
}

/// Position of the unclosed quote before `at`; the parser reports the position at which it gave up.
fn opening_quote(text: &str, at: usize) -> Option<usize> {
    if text[at..].starts_with(['"', '\'']) {
        return Some(at);
    }
    let mut end = at;
    loop {
        let start = text[..end].rfind('\n').map_or(0, |newline| newline + 1);
        let line = &text[start..end];
        let odd = ['"', '\''].into_iter().filter(|quote| line.matches(*quote).count() % 2 == 1);
        if let Some(found) = odd.filter_map(|quote| line.rfind(quote)).max() {
            return Some(start + found);
        }
        end = start.checked_sub(1)?;
    }
}

/// Position of the unclosed bracket before `at`. Counts brackets in quotes as well: it is used for a hint
/// only.
fn open_bracket(text: &str, at: usize) -> Option<usize> {
    const FAR: usize = 10_000;
    let mut closed = 0_usize;
    for (offset, character) in text[..at].char_indices().rev().take(FAR) {
        match character {
            '}' | ']' => closed += 1,
            '{' | '[' if closed == 0 => return Some(offset),
            '{' | '[' => closed -= 1,
            _ => {}
        }
    }
    None
}

/// Message and help for an error of the parser.
fn words(error: &ScanError) -> (String, Option<&'static str>) {
    let quoted = "put the text in quotes: \"…\"";
    let (message, help) = match error.kind() {
        ErrorKind::TabInBlockIndentation | ErrorKind::TabNotAllowed | ErrorKind::TabInIndentation => {
            ("a tab stands where the indentation is; YAML wants spaces", "replace the tab with spaces")
        }
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::DocumentIndicatorInQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent => {
            ("a quote is opened here and never closed", "close it on the same line")
        }
        ErrorKind::UnclosedFlowCollection { open: '{' }
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping => ("a `{` is never closed", "add the `}`"),
        ErrorKind::UnclosedFlowCollection { .. } | ErrorKind::UnexpectedEofFlowSequence => {
            ("a `[` is never closed", "add the `]`")
        }
        ErrorKind::ExpectedFlowMappingSeparator => (
            "expected `,` or `}`",
            "inside `{…}` a text with `{`, `}`, `[`, `]` or `,` in it is put in quotes",
        ),
        ErrorKind::ExpectedFlowSequenceSeparator => (
            "expected `,` or `]`",
            "inside `[…]` a text with `{`, `}`, `[`, `]` or `,` in it is put in quotes",
        ),
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            return (
                format!("a `{open}` is closed by `{close}`"),
                Some("look for a bracket that is missing before"),
            );
        }
        ErrorKind::MisplacedFlowCollectionEnd => ("a bracket is closed that was never opened", quoted),
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => (
            "a `:` stands where no key can be",
            "put a text with `: ` in it in quotes; look at the indentation, and for a bracket that is never closed",
        ),
        ErrorKind::MappingKeyNotAllowed => ("a key stands where none can be", "look at the indentation"),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            ("expected a `:` after this key", "write `key: value`, with a space after the colon")
        }
        ErrorKind::ExpectedBlockMappingKey => {
            ("expected a key here", "look at the indentation: keys of one map begin in one column")
        }
        ErrorKind::ExpectedBlockSequenceEntry | ErrorKind::BlockSequenceEntryNotAllowed => {
            ("a `-` stands where no list can be, or one is missing", "look at the indentation of the list")
        }
        ErrorKind::InvalidIndentation | ErrorKind::InvalidBlockScalarIndent => (
            "this line is not indented like the ones it belongs to",
            "indent it like its neighbours, with spaces",
        ),
        ErrorKind::UnknownAnchor => {
            ("no `&` anchor of this name stands before", "define it before it is used")
        }
        ErrorKind::UnexpectedCharacter { .. } => ("a text can't begin with this character", quoted),
        ErrorKind::UnknownQuotedScalarEscape => (
            "there is no such escape in a text in double quotes",
            "write `\\\\` for a backslash, or put the text in single quotes, as patterns are best",
        ),
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => {
            ("something stands after the closing quote", "put the whole text in one pair of quotes")
        }
        ErrorKind::RecursionLimitExceeded => TOO_DEEP,
        _ => return (format!("not YAML: {}", error.info()), None),
    };
    (message.to_owned(), Some(help))
}
