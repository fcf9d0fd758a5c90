//! Conditions of a rule: status, exit status, media type, headers, text and jq expressions.

use std::{fmt, str::FromStr};

use http::{HeaderName, StatusCode};
use settings_derive::Section;

use super::expressions::{Scope, read_condition, span_of_name};
use super::pattern::Captures;
use super::response_view::LazyExtraction;
use super::variables::jq_variables;
use super::{Jq, Pattern, TEMPLATE_VARIABLES};
use crate::model::{ProgramEnd, UpstreamResponse};
use crate::settings::suggest::quoted;
use crate::settings::{
    Checked, Code, Cursor, Entry, Kind, OneOrMore, Setting, ValueKind, parsed_settings, read_each,
};

/// Conditions of a rule; it matches when all of them hold.
#[derive(Debug, Default, PartialEq, Section)]
#[section(id = "when")]
pub struct Matcher {
    /// HTTP status: `404`, `4xx` or `400-499`, or a list.
    pub status: Option<OneOrMore<StatusPattern>>,
    /// Exit status of a command: `1`, `1-9`, `SIGKILL` or `signal` for any signal, or a list.
    #[key(name = "exit_status")]
    pub exit: Option<OneOrMore<ExitPattern>>,
    /// Regular expression on the standard error of a command; named captures become variables.
    #[key(with = read_optional_pattern)]
    pub stderr: Option<Pattern>,
    /// Media type: `text/plain`, `text/*` or `application/*+json`, or a list.
    pub content_type: Option<OneOrMore<MediaPattern>>,
    /// Regular expressions on the values of headers, by name.
    #[key(name = "header")]
    pub headers: HeaderPatterns,
    /// Regular expression on the text; named captures become variables.
    #[key(with = read_optional_pattern)]
    pub text: Option<Pattern>,
    /// jq condition on the response, which must be JSON.
    #[key(with = read_condition)]
    pub json: Option<Jq>,
    /// jq condition on the arguments of the call.
    #[key(with = read_args_condition)]
    pub args: Option<Jq>,
    /// jq condition on the value that this rule's `extract` returns.
    ///
    /// It is false for a response that the extractor can't read.
    #[key(with = read_condition)]
    pub value: Option<Jq>,
    /// Conditions; the rule matches if at least one of them is false.
    ///
    /// A `status` inside does not replace the rule's default condition on the status.
    #[key(kind = Matcher::KIND)]
    pub not: Option<Box<Self>>,
}

/// Headers, each with a pattern that one of its values must match.
#[derive(Debug, Default, PartialEq)]
pub struct HeaderPatterns(pub Vec<(HeaderName, Pattern)>);

/// Outcome of a request: the HTTP status, and the end of the program if one ran.
pub type Outcome = (StatusCode, Option<ProgramEnd>);

/// HTTP status, or range of HTTP statuses, that a condition accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusPattern {
    first: u16,
    last: u16,
}

/// Pattern of a media type, possibly with wildcards: `text/plain`, `text/*`, `*/*`, `application/*+json`.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
pub struct MediaPattern(String);

impl Matcher {
    /// Whether a condition can only match the output of a program, never the response of a server.
    pub fn is_about_programs(&self) -> bool {
        self.exit.is_some() || self.stderr.is_some()
    }

    /// Whether an outcome satisfies `status` and `exit_status`. If `stderr` is configured, a program must
    /// have run; the pattern itself is checked later.
    pub(super) fn accepts(&self, (status, end): Outcome) -> bool {
        let is_exit = |pattern: &ExitPattern| end.is_some_and(|end| pattern.matches(end));
        self.status.as_ref().is_none_or(|patterns| patterns.0.iter().any(|pattern| pattern.matches(status)))
            && self.exit.as_ref().is_none_or(|patterns| patterns.0.iter().any(is_exit))
            && (self.stderr.is_none() || end.is_some())
    }

    /// Whether there are no conditions.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether `other` has all conditions of this matcher, apart from the status and the exit status. `not`
    /// makes this false, and so does a condition on the value, because the extractors may differ.
    pub fn covers_except_status(&self, other: &Self) -> bool {
        fn is_among<T: PartialEq>(condition: &Option<T>, other: &Option<T>) -> bool {
            condition.is_none() || condition == other
        }
        is_among(&self.content_type, &other.content_type)
            && self.headers.0.iter().all(|header| other.headers.0.contains(header))
            && is_among(&self.text, &other.text)
            && is_among(&self.json, &other.json)
            && is_among(&self.args, &other.args)
            && self.value.is_none()
            && self.not.is_none()
            && is_among(&self.stderr, &other.stderr)
    }

    /// Whether a condition needs the value of the rule's extractor.
    pub fn reads_value(&self) -> bool {
        self.value.is_some() || self.not.as_ref().is_some_and(|not| not.reads_value())
    }

    /// Returns the named captures if every condition matches, otherwise the failed condition and the value
    /// found.
    pub(super) fn matches(&self, extraction: &LazyExtraction<'_>) -> Result<Captures, String> {
        let view = extraction.view;
        let response = view.response;
        match_any(
            &self.status,
            |pattern| pattern.matches(response.status),
            || format!("`status` is {}, expected", response.status.as_u16()),
        )?;
        let has_type = |pattern: &MediaPattern| {
            response.media_type().is_some_and(|media_type| pattern.matches(&media_type))
        };
        match_any(&self.content_type, has_type, || match response.media_type() {
            Some(media_type) => format!("`content_type` is `{media_type}`, expected"),
            None => "`content_type` is missing, expected".to_owned(),
        })?;
        let end = response.exit.as_ref().map(|exit| exit.end);
        match_any(
            &self.exit,
            |pattern| end.is_some_and(|end| pattern.matches(end)),
            || format!("{}, expected `exit_status` to be", status_text(response)),
        )?;
        let mut captures = Captures::new();
        if let Some(pattern) = &self.stderr {
            let Some(exit) = &response.exit else {
                return Err("there is no `stderr`: no program ran".to_owned());
            };
            let found = pattern.named_captures(&exit.stderr_text());
            captures.extend(found.ok_or_else(|| format!("`stderr` does not match `{pattern}`"))?);
        }
        for (name, pattern) in &self.headers.0 {
            let mut values = response.headers.get_all(name).iter();
            let found =
                values.find_map(|value| pattern.named_captures(&String::from_utf8_lossy(value.as_bytes())));
            captures.extend(found.ok_or_else(|| format!("no header `{name}` matches `{pattern}`"))?);
        }
        if let Some(pattern) = &self.text {
            let text = view.text().map_err(|error| format!("the text can't be decoded: {error}"))?;
            let found = pattern.named_captures(text);
            captures.extend(found.ok_or_else(|| format!("the text does not match `{pattern}`"))?);
        }
        let require = |jq: &Jq, key: &str, value| match jq.is_true(value, jq_variables(view, &captures)) {
            true => Ok(()),
            false => Err(format!("`{key}`: `{}` is false", jq.source())),
        };
        if let Some(jq) = &self.args {
            require(jq, "args", view.input.args)?;
        }
        if let Some(jq) = &self.json {
            let Some(json) = view.json() else { return Err("the response is not JSON".to_owned()) };
            require(jq, "json", json)?;
        }
        if let Some(jq) = &self.value {
            let value = extraction.value().map_err(|error| format!("there is no `value`: {error}"))?;
            require(jq, "value", value)?;
        }
        if let Some(not) = &self.not
            && not.matches(extraction).is_ok()
        {
            return Err("`not` matches".to_owned());
        }
        Ok(captures)
    }
}

/// Fails if patterns are configured and none of them matches. `reason_start` returns the beginning of the
/// reason.
fn match_any<T: fmt::Display>(
    patterns: &Option<OneOrMore<T>>,
    matches: impl Fn(&T) -> bool,
    reason_start: impl FnOnce() -> String,
) -> Result<(), String> {
    let Some(OneOrMore(patterns)) = patterns.as_ref().filter(|patterns| !patterns.0.iter().any(matches))
    else {
        return Ok(());
    };
    let expected: Vec<_> = patterns.iter().map(|pattern| format!("`{pattern}`")).collect();
    Err(format!("{} {}", reason_start(), expected.join(" or ")))
}

fn read_optional_pattern(value: &Cursor<'_>) -> Checked<Option<Pattern>> {
    read_pattern(value).map(Some)
}

/// Reads a pattern whose captures become variables.
fn read_pattern(value: &Cursor<'_>) -> Checked<Pattern> {
    let pattern = Pattern::read(value)?;
    // A capture must not shadow a variable of templates.
    if let Some(name) = pattern.names().find(|name| TEMPLATE_VARIABLES.contains(name)) {
        let message =
            format!("the capture name `{name}` is reserved: templates have a variable of that name");
        let at = Code::ReservedName.at_span(span_of_name(value.context.report, value.node.span, name));
        return value.reject_coded(at, message, format!("rename it to `found_{name}`"));
    }
    Scope::from_cursor(value).add_captures(pattern.names());
    Ok(pattern)
}

/// Reads a condition on the arguments, and records that the route may use any of them.
fn read_args_condition(value: &Cursor<'_>) -> Checked<Option<Jq>> {
    Scope::from_cursor(value).used.borrow_mut().all = true;
    read_condition(value)
}

/// The conditions of `not`.
impl Setting for Box<Matcher> {
    const KIND: ValueKind = Matcher::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let not = Scope::from_cursor(value).with_own_captures(|| Matcher::read(value))?;
        if not.is_empty() {
            let message = "`not` has no condition, so the rule would never match";
            let help = "write a condition: `not: { text: '^OK' }`";
            return value.reject_coded(Code::EmptyValue.at_span(value.key_span), message, help);
        }
        Ok(Self::new(not))
    }
}

impl Setting for HeaderPatterns {
    const KIND: ValueKind = ValueKind::Map(&ValueKind::Scalar);
    const ABSENT: Option<fn() -> Self> = Some(Self::default);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let Kind::Map(entries) = &value.node.kind else { return value.reject_kind("a map", None) };
        let read = |entry: &Entry| {
            let text = &entry.key.text;
            let name = text.parse().or_else(|_| {
                let message = format!("`{text}` is not a header name");
                let at = Code::InvalidName.at_span(entry.key.span);
                value.reject_coded(at, message, "write letters, digits and `-`")
            });
            let pattern_name = format!("the pattern of the header `{text}`");
            let pattern = read_pattern(&value.member(entry, &pattern_name, ValueKind::Text));
            Ok((name?, pattern?))
        };
        read_each(entries.iter().map(read)).map(Self)
    }
}

parsed_settings! {
    StatusPattern = Scalar, "write `404`, `4xx` or `400-499`";
    ExitPattern = Scalar, "write `1`, `1-9`, or `signal` for a program that a signal ended";
    MediaPattern = Text, "write the type without parameters: `text/plain`, `text/*`";
}

fn expected_message(expected: &str, found: &str) -> String {
    format!("expected {expected}, found {}", quoted(found))
}

/// Parses a range such as `400-499`, or a single number as a range of one.
fn parse_range<T: PartialOrd>(text: &str, parse_number: impl Fn(&str) -> Option<T>) -> Option<(T, T)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((parse_number(first.trim())?, parse_number(last.trim())?)).filter(|(first, last)| first <= last)
}

impl StatusPattern {
    fn matches(self, status: StatusCode) -> bool {
        (self.first..=self.last).contains(&status.as_u16())
    }
}

impl FromStr for StatusPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let class = text.strip_suffix("xx").map(|class| format!("{class}00-{class}99"));
        let code = |code: &str| code.parse().ok().filter(|code| (100..=599).contains(code));
        let range =
            parse_range(class.as_deref().unwrap_or(text), code).map(|(first, last)| Self { first, last });
        range.ok_or_else(|| expected_message("a status such as `404`, `4xx` or `400-499`", text))
    }
}

impl fmt::Display for StatusPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(formatter, "{}", self.first)
        } else if self.first.is_multiple_of(100) && self.last == self.first + 99 {
            write!(formatter, "{}xx", self.first / 100)
        } else {
            write!(formatter, "{}-{}", self.first, self.last)
        }
    }
}

impl MediaPattern {
    fn matches(&self, media_type: &str) -> bool {
        let is_match = |(pattern, found): (&str, &str)| match pattern.strip_prefix('*') {
            Some(suffix) => found.ends_with(suffix),
            None => pattern == found,
        };
        // The subtype of a pattern has no slash.
        media_type.contains('/') && self.0.splitn(2, '/').zip(media_type.splitn(2, '/')).all(is_match)
    }
}

impl FromStr for MediaPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_valid = |part: &str| {
            let rest = part.strip_prefix('*').unwrap_or(part);
            !part.is_empty()
                && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
        };
        let expected = "a media type such as `text/plain`, `text/*` or `application/*+json`";
        match text.split_once('/') {
            Some((kind, subtype)) if is_valid(kind) && is_valid(subtype) => {
                Ok(Self(text.to_ascii_lowercase()))
            }
            _ => Err(expected_message(expected, text)),
        }
    }
}

/// Pattern of the end of a program: a range of exit statuses, or a signal. Never matches the response of a
/// server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitPattern {
    /// Exit statuses from the first to the last.
    Codes(i32, i32),
    /// The signal with this number, or any signal for `None`.
    Signal(Option<i32>),
}

/// Keyword for any signal.
const ANY_SIGNAL: &str = "signal";

impl ExitPattern {
    pub(super) fn matches(self, end: ProgramEnd) -> bool {
        match (self, end) {
            (Self::Codes(first, last), ProgramEnd::Code(code)) => (first..=last).contains(&code),
            (Self::Signal(number), ProgramEnd::Signal(found)) => number.is_none_or(|number| number == found),
            (Self::Codes(..) | Self::Signal(_), _) => false,
        }
    }
}

impl FromStr for ExitPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let code = |text: &str| text.parse::<u8>().ok().map(i32::from);
        let pattern = match text.parse() {
            _ if text == ANY_SIGNAL => Some(Self::Signal(None)),
            Ok(ProgramEnd::Signal(number)) => Some(Self::Signal(Some(number))),
            _ => parse_range(text, code).map(|(first, last)| Self::Codes(first, last)),
        };
        let expected = "an exit status such as `1`, `1-9`, `SIGKILL` or `signal`";
        pattern.ok_or_else(|| expected_message(expected, text))
    }
}

impl fmt::Display for ExitPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Codes(first, last) if first == last => write!(formatter, "{first}"),
            Self::Codes(first, last) => write!(formatter, "{first}-{last}"),
            Self::Signal(Some(number)) => ProgramEnd::Signal(*number).fmt(formatter),
            Self::Signal(None) => formatter.write_str(ANY_SIGNAL),
        }
    }
}

/// Status of a response, or exit status of a program, in the words of the conditions: `status is 404`, `exit
/// status is 2`.
pub(super) fn status_text(response: &UpstreamResponse) -> String {
    match &response.exit {
        Some(exit) => format!("exit status is {}", exit.end),
        None => format!("status is {}", response.status.as_u16()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_classes_or_ranges() {
        for (text, matching, non_matching) in [("404", 404, 405), ("4xx", 499, 500), ("400-403", 403, 404)] {
            let pattern: StatusPattern = text.parse().unwrap();
            assert!(pattern.matches(StatusCode::from_u16(matching).unwrap()));
            assert!(!pattern.matches(StatusCode::from_u16(non_matching).unwrap()));
            assert_eq!(pattern.to_string(), text);
        }
        for text in ["", "600", "6xx", "xx", "403-400", "two"] {
            assert!(text.parse::<StatusPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn media_types_may_have_a_star() {
        let is_match = |pattern: &str, found| pattern.parse::<MediaPattern>().unwrap().matches(found);
        assert!(
            is_match("text/*", "text/plain")
                && is_match("*/*", "a/b")
                && is_match("application/*+json", "application/a+json")
        );
        assert!(
            !is_match("text/*", "image/png")
                && !is_match("text/plain", "text/html")
                && !is_match("text/*", "")
        );
        assert!("text".parse::<MediaPattern>().is_err() && "a b/c".parse::<MediaPattern>().is_err());
    }
}

#[cfg(test)]
mod exit_tests {
    use super::*;

    #[test]
    fn ends_are_numbers_ranges_or_signals() {
        for (text, matching, non_matching) in [
            ("1", ProgramEnd::Code(1), ProgramEnd::Code(2)),
            ("0-2", ProgramEnd::Code(2), ProgramEnd::Code(3)),
            ("SIGKILL", ProgramEnd::Signal(9), ProgramEnd::Signal(15)),
            ("signal", ProgramEnd::Signal(15), ProgramEnd::Code(15)),
        ] {
            let pattern: ExitPattern = text.parse().unwrap();
            assert!(pattern.matches(matching) && !pattern.matches(non_matching), "{text}");
            assert_eq!(pattern.to_string(), text);
        }
        for text in ["", "256", "-1", "3-2", "2xx", "SIGNONE", "any"] {
            assert!(text.parse::<ExitPattern>().is_err(), "{text}");
        }
    }
}
