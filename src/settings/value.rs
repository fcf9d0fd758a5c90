//! Parsers of plain values, lists, maps and alternatives: implementations of [`Setting`].

use std::time::Duration;

use super::{
    keys::ValueKind,
    problem_code::Code,
    section::{Checked, Cursor, Invalid, Setting, read_each},
    source_text::SourceSpan,
    suggest,
    tree::{Entry, Kind, Node},
    units,
};

/// Type that is parsed from a string.
pub(crate) trait FromText: Sized {
    /// Kind of the accepted scalars: `Scalar` if numbers and booleans are accepted as well as strings.
    const FORM: ValueKind = ValueKind::Text;

    /// Parses the string.
    ///
    /// # Errors
    ///
    /// If the string is invalid, with a suggested fix.
    fn from_text(text: &str) -> Result<Self, Invalid>;
}

impl<T: FromText> Setting for T {
    const KIND: ValueKind = T::FORM;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let parsed = match T::FORM {
            ValueKind::Scalar => T::from_text(&Scalar::read(value)?.0),
            _ => T::from_text(text_of(value)?),
        };
        parsed.or_else(|invalid| value.reject(invalid))
    }
}

/// Implements [`FromText`] for types that implement `FromStr`. The literal is the help for an invalid string.
macro_rules! parsed_settings {
    ($($type:ty = $kind:ident, $help:literal;)*) => {$(
        impl $crate::settings::FromText for $type {
            const FORM: $crate::settings::ValueKind = $crate::settings::ValueKind::$kind;

            fn from_text(text: &str) -> Result<Self, $crate::settings::Invalid> {
                text.parse().map_err(|error| $crate::settings::Invalid::new(format!("{error}"), $help))
            }
        }
    )*};
}

pub(crate) use parsed_settings;

impl Setting for String {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        text_of(value).map(str::to_owned)
    }

    fn shown(&self, _kind: ValueKind) -> Option<String> {
        Some(format!("`{self}`"))
    }
}

/// Returns the string of a value.
///
/// # Errors
///
/// If the value is not a string; the help suggests quotes where they are missing.
pub(crate) fn text_of<'n>(value: &Cursor<'n>) -> Checked<&'n str> {
    if let Some(text) = value.node.as_text() {
        return Ok(text);
    }
    let span = value.node.span;
    let has_brace = || value.context.report.files().text(span)[span.start..].starts_with('{');
    // Without quotes, `{name}` is a map whose keys have no values.
    let is_bare = |entry: &Entry| matches!(entry.value.kind, Kind::Null);
    let help = match &value.node.kind {
        Kind::Boolean(_) | Kind::Number(_) => Some("put it in quotes".to_owned()),
        Kind::Map(entries) if has_brace() && entries.iter().all(is_bare) => {
            Some("put a string that begins with `{` in quotes".to_owned())
        }
        Kind::Null | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => None,
    };
    value.reject_kind("a string", help)
}

impl Setting for bool {
    const KIND: ValueKind = ValueKind::Boolean;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        if let Kind::Boolean(flag) = value.node.kind {
            return Ok(flag);
        }
        let help = match value.node.as_text().map(str::to_ascii_lowercase).as_deref() {
            Some("yes" | "on" | "true" | "1") => "write `true`",
            Some("no" | "off" | "false" | "0") => "write `false`",
            _ => "write `true` or `false`",
        };
        value.reject_kind("`true` or `false`", Some(help.to_owned()))
    }

    fn shown(&self, _kind: ValueKind) -> Option<String> {
        Some(format!("`{self}`"))
    }
}

impl Setting for Duration {
    const KIND: ValueKind = ValueKind::Duration(0, u64::MAX);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let ValueKind::Duration(min, max) = value.kind else {
            return value.reject_kind("a duration", None);
        };
        let text = quantity_text(value.node);
        units::duration(&text, min, max).or_else(|invalid| value.reject(invalid))
    }

    fn shown(&self, _kind: ValueKind) -> Option<String> {
        Some(format!("`{}`", units::format_duration(u64::try_from(self.as_millis()).ok()?)))
    }
}

/// Parses a duration, or the single enumerated value that the key accepts in place of a duration (returned as
/// `None`). `enum_help` is the help about that value.
pub(crate) fn duration_or_enum(value: &Cursor<'_>, enum_help: &str) -> Checked<Option<Duration>> {
    let ValueKind::Either([ValueKind::Duration(min, max), ValueKind::Enum([word])]) = value.kind else {
        return value.reject_kind("a duration", None);
    };
    let text = quantity_text(value.node);
    if text == *word {
        return Ok(None);
    }
    units::duration(&text, *min, *max).map(Some).or_else(|invalid| {
        // A "did you mean" help is complete; the alternative would distract from it.
        let with_alternative =
            |help: String| if help.ends_with('?') { help } else { format!("{help}, or {enum_help}") };
        let help = invalid.help.map(with_alternative);
        value.reject(Invalid { help, ..invalid })
    })
}

/// A number from 0 to 1.
impl Setting for f64 {
    const KIND: ValueKind = ValueKind::Fraction;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let number = value.node.as_number().and_then(|text| text.parse().ok());
        if let Some(number) = number.filter(|number| (0.0..=1.0).contains(number)) {
            return Ok(number);
        }
        let message = format!("{} must be a number from 0 to 1, found {}", value.name, value.node.describe());
        let help = format!("write `{}`", value.key.map_or("0.5", |key| key.example));
        value.reject(Invalid::new(message, help).with_code(number_code(value)))
    }

    fn shown(&self, _kind: ValueKind) -> Option<String> {
        Some(self.to_string())
    }
}

/// String, number or boolean as a string; a number keeps its spelling in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scalar(pub(crate) String);

impl Setting for Scalar {
    const KIND: ValueKind = ValueKind::Scalar;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        value.scalar().map(Self).map_or_else(|| value.reject_kind("a string", None), Ok)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Setting for $number {
            const KIND: ValueKind = ValueKind::Count(0, <$number>::MAX as u64);

            fn read(value: &Cursor<'_>) -> Checked<Self> {
                let number = number(value)?;
                Self::try_from(number).or_else(|_| value.reject_kind("a smaller number", None))
            }

            fn shown(&self, kind: ValueKind) -> Option<String> {
                match kind {
                    ValueKind::Size(..) => Some(format!("`{}`", units::format_size(u64::try_from(*self).ok()?))),
                    _ => Some(self.to_string()),
                }
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, usize);

/// Parses a count or a size in bytes, and checks it against the range of its key.
fn number(value: &Cursor<'_>) -> Checked<u64> {
    let (min, max) = match value.kind {
        ValueKind::Size(min, max) => {
            let size = units::size(&quantity_text(value.node), min, max);
            return size.or_else(|invalid| value.reject(invalid));
        }
        ValueKind::Count(min, max) => (min, max),
        _ => return value.reject_kind("a number", None),
    };
    let number = value.node.as_number().and_then(|text| text.parse().ok());
    if let Some(number) = number.filter(|count| (min..=max).contains(count)) {
        return Ok(number);
    }
    let (name, found) = (value.name, value.node.describe());
    let message = format!("{name} must be a whole number from {min} to {max}, found {found}");
    let help = format!("write a number such as `{}`", min.max(1));
    value.reject(Invalid::new(message, help).with_code(number_code(value)))
}

/// Code of the error about an unusable number, or about another value in place of a number.
fn number_code(value: &Cursor<'_>) -> Code {
    if value.node.as_number().is_some() { Code::OutOfRange } else { Code::WrongType }
}

/// Returns the text of a duration or size. A number without a unit is returned too: the error about it
/// suggests a unit.
fn quantity_text(node: &Node) -> String {
    node.scalar().unwrap_or_else(|| node.describe())
}

/// Enum whose variants are the values that a key accepts. `#[derive(EnumSetting)]` implements it.
pub(crate) trait EnumSetting: Copy + PartialEq + 'static {
    const VALUES: &'static [(&'static str, Self)];

    /// Returns the variant with this name.
    fn from_name(name: &str) -> Option<Self> {
        Self::VALUES.iter().find(|(candidate, _)| *candidate == name).map(|(_, variant)| *variant)
    }

    /// Returns the name of the variant.
    fn as_str(&self) -> &'static str {
        Self::VALUES.iter().find(|(_, variant)| variant == self).map_or("", |(name, _)| name)
    }
}

/// Parses one of `names`, and returns the value that is paired with the name.
pub(crate) fn read_one_of<T>(
    value: &Cursor<'_>,
    mut names: impl Iterator<Item = (&'static str, T)> + Clone,
) -> Checked<T> {
    let allowed = names.clone().map(|(name, _)| name);
    let text = value.node.scalar().unwrap_or_default();
    if let Some((_, paired_value)) = names.find(|(name, _)| *name == text) {
        return Ok(paired_value);
    }
    value.reject_renamed_value()?;
    let one_of = if allowed.clone().count() == 1 { "" } else { "one of " };
    let name_list = suggest::quoted_list(allowed.clone());
    let message = format!("{} must be {one_of}{name_list}; found {}", value.name, value.node.describe());
    let help = suggest::nearest(&text, allowed).map(|name| format!("did you mean `{name}`?"));
    value.reject(Invalid { code: Code::UnknownValue, message, help, shows_value: true })
}

/// Optional setting.
impl<T: Setting> Setting for Option<T> {
    const KIND: ValueKind = T::KIND;
    const ABSENT: Option<fn() -> Self> = Some(|| None);

    fn read_over(value: &Cursor<'_>, base: Option<Self>) -> Checked<Self> {
        T::read_over(value, base.flatten()).map(Some)
    }

    fn shown(&self, kind: ValueKind) -> Option<String> {
        self.as_ref()?.shown(kind)
    }
}

/// A setting together with its span, for checks after parsing.
impl<T: Setting> Setting for (T, SourceSpan) {
    const KIND: ValueKind = T::KIND;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        Ok((T::read(value)?, value.node.span))
    }
}

/// Parses the items of a list.
fn read_items<T: Setting>(value: &Cursor<'_>, items: &[Node]) -> Checked<Vec<T>> {
    let name = format!("an item of {}", value.name);
    let kind = match value.kind {
        ValueKind::List(item) | ValueKind::OneOrMore(item) => *item,
        other => other,
    };
    let read = |item: &Node| value.part(item, &name, kind).with_key_span(item.span).read_expanded(T::read);
    read_each(items.iter().map(read))
}

/// Map with user-defined keys, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named<T>(pub(crate) Vec<(String, T)>);

impl<T: Setting> Setting for Named<T> {
    const KIND: ValueKind = ValueKind::Map(&T::KIND);
    const ABSENT: Option<fn() -> Self> = Some(|| Self(Vec::new()));

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let Kind::Map(entries) = &value.node.kind else {
            return value.reject_kind("a map", help_for_list(value.node));
        };
        let read = |Entry { key, value: node }: &Entry| {
            let name = format!("`{}`", key.text);
            let part = value.part(node, &name, T::KIND).with_key_span(key.span);
            Ok((key.text.clone(), part.read_expanded(T::read)?))
        };
        read_each(entries.iter().map(read)).map(Self)
    }
}

/// Help for a list of maps where a map with user-defined names is expected.
fn help_for_list(node: &Node) -> Option<String> {
    let first = node.as_list()?.first()?.as_map()?;
    let name = first.iter().find(|entry| entry.key.text == "name").and_then(|entry| entry.value.as_text());
    Some(match (name, first) {
        (None, [only]) => format!("remove the `-`: `{}: …`", only.key.text),
        _ => format!("write the name in place of the `-`: `{}: {{ … }}`", name.unwrap_or("NAME")),
    })
}

/// Help for a string where a list is expected.
fn help_for_words(text: &str) -> String {
    let items = text.split_whitespace().collect::<Vec<_>>().join(", ");
    let is_words = text.chars().all(|c| c.is_alphanumeric() || " _-".contains(c));
    match text.starts_with(|c: char| c.is_alphanumeric() || c == '/') {
        true if is_words && items != text => format!("write `[{items}]`, or `[\"{text}\"]`"),
        true => format!("write `[{text}]`"),
        false => format!("write `[\"{text}\"]`"),
    }
}

impl<T: Setting> Setting for Vec<T> {
    const KIND: ValueKind = ValueKind::List(&T::KIND);
    const ABSENT: Option<fn() -> Self> = Some(Self::new);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let Kind::List(items) = &value.node.kind else {
            return value.reject_kind("a list", value.node.as_text().map(help_for_words));
        };
        read_items(value, items)
    }

    fn shown(&self, _kind: ValueKind) -> Option<String> {
        let items: Option<Vec<_>> = self.iter().map(|item| item.shown(T::KIND)).collect();
        items.filter(|items| !items.is_empty()).map(|items| items.join(", "))
    }
}

/// JSON object with any values.
impl Setting for serde_json::Map<String, serde_json::Value> {
    const KIND: ValueKind = ValueKind::Map(&ValueKind::Anything);
    const ABSENT: Option<fn() -> Self> = Some(Self::new);

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let entries = value.node.as_map().map(Node::entries_to_json);
        entries.map_or_else(|| value.reject_kind("a map", None), Ok)
    }
}

impl Setting for serde_json::Value {
    const KIND: ValueKind = ValueKind::Anything;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        Ok(value.node.to_json())
    }
}

/// One value or a list of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneOrMore<T>(pub Vec<T>);

impl<T: Setting> Setting for OneOrMore<T> {
    const KIND: ValueKind = ValueKind::OneOrMore(&T::KIND);
    const ABSENT: Option<fn() -> Self> = Some(|| Self(Vec::new()));

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        match &value.node.kind {
            Kind::List(items) => read_items(value, items).map(Self),
            _ => {
                let item = value.part(value.node, value.name, T::KIND).with_key_span(value.node.span);
                T::read(&item).map(|item| Self(vec![item]))
            }
        }
    }
}

/// A setting that `off` disables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrOff<T> {
    /// Disabled.
    Off,
    /// Enabled with this setting.
    On(T),
}

impl<T> OrOff<T> {
    /// Returns the setting unless it is off.
    pub fn on(self) -> Option<T> {
        match self {
            Self::Off => None,
            Self::On(setting) => Some(setting),
        }
    }
}

impl<T: Setting> Setting for OrOff<T> {
    const KIND: ValueKind = ValueKind::Either(&[ValueKind::Enum(&["off"]), T::KIND]);

    fn read_over(value: &Cursor<'_>, base: Option<Self>) -> Checked<Self> {
        let is_map = matches!(T::KIND, ValueKind::Section(keys) if keys().short_kind().is_none());
        match &value.node.kind {
            Kind::Boolean(false) => Ok(Self::Off),
            Kind::Text(text) if text == "off" => Ok(Self::Off),
            Kind::Text(_) if is_map => {
                let message =
                    format!("{} must be `off` or a map, found {}", value.name, value.node.describe());
                value.reject(Invalid::new(message, "write `off`, or a map").with_code(Code::UnknownValue))
            }
            _ => {
                // The key may declare a narrower range than the type.
                let kind = if let ValueKind::Either([_, kind]) = value.kind { *kind } else { T::KIND };
                let value = value.part(value.node, value.name, kind);
                T::read_over(&value, base.and_then(Self::on)).map(Self::On)
            }
        }
    }

    fn shown(&self, _kind: ValueKind) -> Option<String> {
        match self {
            Self::Off => Some("`off`".to_owned()),
            Self::On(setting) => setting.shown(T::KIND),
        }
    }
}
