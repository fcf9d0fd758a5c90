//! The tree of a file as written: every key and value with its place.

use std::ops::Range;

use serde_json::{Map, Value};

use super::source::Span;

/// One value of the file.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) kind: Kind,
    /// Whether it stands under a key whose name says that it is a secret.
    pub(super) secret: bool,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// Nothing, `null` or `~`.
    Nothing,
    Flag(bool),
    /// The number as JSON writes it, so that no digit is lost.
    Number(String),
    Text(Text),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A text and how it was written.
#[derive(Debug, Clone)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) style: Style,
}

/// How a text was written, to find its lines again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// In a line, without quotes or in them.
    Inline,
    /// As a block after `|`: line by line as it is.
    Literal,
    /// As a block after `>`: its lines can't be told apart any more.
    Folded,
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) value: Node,
}

/// A key and its place.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) text: String,
    pub(super) span: Span,
}

impl Entry {
    /// A member that stands at one place.
    pub(super) fn new(name: &str, value: Node, span: Span) -> Self {
        Self { key: Key { text: name.to_owned(), span }, value }
    }
}

impl Node {
    /// A value whose key says nothing of a secret.
    pub(super) fn new(kind: Kind, span: Span) -> Self {
        Self { span, kind, secret: false }
    }

    /// A text in a line.
    pub(super) fn of_text(text: &str, span: Span) -> Self {
        Self::new(Kind::Text(Text { text: text.to_owned(), style: Style::Inline }), span)
    }

    /// JSON, all of it at one place.
    pub(super) fn of_json(value: &Value, span: Span) -> Self {
        let kind = match value {
            Value::Null => Kind::Nothing,
            Value::Bool(flag) => Kind::Flag(*flag),
            Value::Number(number) => Kind::Number(number.to_string()),
            Value::String(found) => return Self::of_text(found, span),
            Value::Array(items) => Kind::List(items.iter().map(|item| Self::of_json(item, span)).collect()),
            Value::Object(members) => {
                let entry =
                    |(name, value): (&String, &Value)| Entry::new(name, Self::of_json(value, span), span);
                Kind::Map(members.iter().map(entry).collect())
            }
        };
        Self::new(kind, span)
    }

    /// The value's text, when it is one.
    pub(super) fn as_text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(&text.text),
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// The members, when it is a map.
    pub(super) fn as_map(&self) -> Option<&[Entry]> {
        match &self.kind {
            Kind::Map(entries) => Some(entries),
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => None,
        }
    }

    /// The value of a key, when it is a map that has it.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.as_map()?.iter().find(|entry| entry.key.text == key).map(|entry| &entry.value)
    }

    /// What a scalar says, as text: `5`, `true` and `"5"` alike.
    pub(super) fn scalar(&self) -> Option<String> {
        match &self.kind {
            Kind::Flag(flag) => Some(flag.to_string()),
            Kind::Number(text) => Some(text.clone()),
            Kind::Text(text) => Some(text.text.clone()),
            Kind::Nothing | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// What was found, for a message; never a secret.
    pub(super) fn found(&self) -> String {
        const LONGEST_SHOWN: usize = 60;
        match &self.kind {
            Kind::Nothing => "nothing".to_owned(),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a map".to_owned(),
            Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) if self.secret => {
                "a value that is not shown".to_owned()
            }
            Kind::Flag(flag) => format!("`{flag}`"),
            Kind::Number(text) => format!("the number `{text}`"),
            Kind::Text(text) if text.text.is_empty() => "an empty text".to_owned(),
            Kind::Text(text) if text.text.chars().count() > LONGEST_SHOWN || text.text.contains("://") => {
                format!("a text of {} characters", text.text.chars().count())
            }
            Kind::Text(text) => format!("`{}`", text.text),
        }
    }

    /// As JSON; the text of numbers is kept.
    pub(super) fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Nothing => Value::Null,
            Kind::Flag(flag) => Value::Bool(*flag),
            Kind::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
            Kind::Text(text) => Value::String(text.text.clone()),
            Kind::List(items) => items.iter().map(Self::to_json).collect(),
            Kind::Map(entries) => Value::Object(Self::entries_to_json(entries)),
        }
    }

    /// The members as JSON.
    pub(super) fn entries_to_json(entries: &[Entry]) -> Map<String, Value> {
        entries.iter().map(|entry| (entry.key.text.clone(), entry.value.to_json())).collect()
    }

    /// The deepest value on the way that a JSON Pointer (RFC 6901) names.
    pub(super) fn at_pointer(&self, pointer: &str) -> &Self {
        let mut node = self;
        for segment in pointer.split('/').skip(1) {
            // Undo `~1` before `~0`, or `~01` would turn into `/` (RFC 6901, section 4).
            let segment = segment.replace("~1", "/").replace("~0", "~");
            let next = match &node.kind {
                Kind::List(items) => segment.parse().ok().and_then(|index: usize| items.get(index)),
                Kind::Map(_) => node.get(&segment),
                Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }

    /// Marks what stands under secret keys of a whole file, and tells its places in it.
    pub(super) fn mark_secrets(&mut self, ranges: &mut Vec<Range<usize>>) {
        /// Sections in which the keys are names that the file gives: one may be `auth`, and is no setting then.
        const NAMED: [&str; 4] = ["upstreams", "routes", "clients", "prompts"];
        let Kind::Map(entries) = &mut self.kind else { return self.mark_below(ranges) };
        for entry in entries {
            match &mut entry.value.kind {
                Kind::Map(named) if NAMED.contains(&entry.key.text.as_str()) => {
                    named.iter_mut().for_each(|named| named.value.mark_below(ranges));
                }
                _ => entry.mark_secrets(ranges),
            }
        }
    }

    fn mark_below(&mut self, ranges: &mut Vec<Range<usize>>) {
        match &mut self.kind {
            Kind::Map(entries) => entries.iter_mut().for_each(|entry| entry.mark_secrets(ranges)),
            Kind::List(items) => items.iter_mut().for_each(|item| item.mark_below(ranges)),
            Kind::Nothing | Kind::Flag(_) | Kind::Number(_) | Kind::Text(_) => {}
        }
    }

    /// The same for what stands in `auth` under keys that are none there: one of them may be a secret's, misspelt.
    fn hide_unknown(&mut self, ranges: &mut Vec<Range<usize>>) {
        const KNOWN: [&super::keys::Keys; 6] = [
            &super::keys::AUTH,
            &super::keys::BASIC,
            &super::keys::OAUTH,
            &super::keys::TLS,
            &super::keys::SERVER_AUTH,
            &super::keys::TOKENS,
        ];
        let Kind::Map(entries) = &mut self.kind else { return };
        for Entry { key, value } in entries.iter_mut().filter(|entry| entry.key.text != "parameters") {
            if KNOWN.iter().all(|keys| keys.get(&key.text).is_none()) {
                value.hide(ranges);
            }
            value.hide_unknown(ranges);
        }
    }

    /// All that stands in it, where a text was wanted and something else was written.
    fn hide_all(&mut self, ranges: &mut Vec<Range<usize>>) {
        match &mut self.kind {
            Kind::Map(entries) => entries.iter_mut().for_each(|entry| entry.value.hide_all(ranges)),
            Kind::List(items) => items.iter_mut().for_each(|item| item.hide_all(ranges)),
            _ => self.hide(ranges),
        }
    }

    fn hide(&mut self, ranges: &mut Vec<Range<usize>>) {
        match &mut self.kind {
            Kind::Text(text) if super::secret::is_only_references(&text.text) => {}
            Kind::Text(_) | Kind::Number(_) => {
                self.secret = true;
                ranges.push(self.span.start..self.span.end);
            }
            Kind::List(items) => items.iter_mut().for_each(|item| item.hide(ranges)),
            Kind::Nothing | Kind::Flag(_) | Kind::Map(_) => {}
        }
    }
}

impl Entry {
    /// Below a key of `PLAIN` names are the file's own words, not keys of settings.
    fn mark_secrets(&mut self, ranges: &mut Vec<Range<usize>>) {
        const PLAIN: [&str; 9] =
            ["extract", "fields", "input", "output", "tests", "names", "rules", "with", "parameters"];
        /// Settings that are texts and nothing else.
        const WORDS: [&str; 5] = ["secret", "token", "password", "client_secret", "bearer"];
        /// Sections in which nothing but settings stand.
        const SETTINGS: [&str; 4] = ["server", "admin", "shared", "auth"];
        let Self { key, value } = self;
        let key = key.text.as_str();
        if PLAIN.contains(&key) {
            return;
        }
        // In the place of the hash of a key there may be the key itself, by mistake.
        let is_key = matches!(key, "keys" | "hash");
        // `breaker` is near to `bearer`, and is no misspelt one.
        let is_setting = super::keys::UPSTREAM.get(key).is_some();
        let is_misspelt = !is_setting && super::suggest::nearest(key, WORDS).is_some();
        if is_key || super::secret::is_secret_name(key) || is_misspelt {
            value.hide(ranges);
        }
        if let (Kind::Map(settings), true) = (&mut value.kind, SETTINGS.contains(&key)) {
            let words = settings.iter_mut().filter(|setting| WORDS.contains(&setting.key.text.as_str()));
            words.for_each(|setting| setting.value.hide_all(ranges));
        }
        if key == "auth" {
            value.hide_unknown(ranges);
        }
        value.mark_below(ranges);
    }
}

/// A plain scalar by the core schema of YAML 1.2 (section 10.3.2).
pub(super) fn resolve_plain(text: &str) -> Kind {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Nothing,
        "true" | "True" | "TRUE" => Kind::Flag(true),
        "false" | "False" | "FALSE" => Kind::Flag(false),
        _ => match json_number(text) {
            Some(number) => Kind::Number(number),
            None => Kind::Text(Text { text: text.to_owned(), style: Style::Inline }),
        },
    }
}

/// A YAML number as JSON writes it, digit by digit.
fn json_number(text: &str) -> Option<String> {
    let radix =
        |digits: &str, radix| u128::from_str_radix(digits, radix).ok().map(|number| number.to_string());
    if let Some(digits) = text.strip_prefix("0x") {
        return radix(digits, 16).filter(|_| !digits.starts_with('+'));
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return radix(digits, 8).filter(|_| !digits.starts_with('+'));
    }
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent_digits = exponent.map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
    if !digits(whole)
        || !fraction.is_none_or(digits)
        || (whole.is_empty() && fraction.is_none_or(str::is_empty))
        || exponent_digits.is_some_and(|text| text.is_empty() || !digits(text))
    {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let fraction = match fraction {
        Some("") => ".0".to_owned(),
        Some(fraction) => format!(".{fraction}"),
        None => String::new(),
    };
    let exponent = exponent.map(|text| format!("e{text}")).unwrap_or_default();
    Some(format!("{sign}{whole}{fraction}{exponent}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(json_number(text).as_deref(), expected);
        if let Some(expected) = expected {
            serde_json::from_str::<Value>(expected).unwrap();
        }
    }

    #[test]
    fn numbers_keep_every_digit() {
        check("12345678901234567890.10", Some("12345678901234567890.10"));
        check("1.0", Some("1.0"));
        check("-0", Some("-0"));
        check("+.5e+3", Some("0.5e+3"));
        check("5.", Some("5.0"));
        check("007", Some("7"));
        check("0x1F", Some("31"));
        check("0o17", Some("15"));
    }

    #[test]
    fn what_only_looks_like_a_number_is_a_text() {
        for text in ["", ".", "-", "1_000", "1e", "1.2.3", "12:30", ".inf", "0x", "0xg", "١"] {
            check(text, None);
        }
    }
}
