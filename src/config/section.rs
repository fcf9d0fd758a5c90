//! One section of the file while it is read: known keys only, and values of the kind that each takes.

use std::time::Duration;
#[cfg(test)]
use std::{cell::RefCell, collections::BTreeSet};

use super::{
    AdminSettings, Environment,
    code::Code,
    extract::{self, ExtractSettings},
    keys::{DEFAULTS, FILE, Keys, REQUEST, ROUTE, Takes, UPSTREAM},
    node::{Entry, Key, Kind, Node},
    renamed,
    report::Report,
    response::RuleSettings,
    server::ServerSettings,
    source::Span,
    suggest,
    units::{self, UnitError},
};
use crate::{
    settings::{
        keys::ValueKind,
        section::{Checked, Context, Cursor, Section as _, Setting},
    },
    telemetry::log::LogSettings,
    translate::scope::{Scope, UsedArguments},
};

/// A map of the file with the keys that it may have.
///
/// What is wrong with a value is reported and the value then treated as absent, so that reading goes on.
pub(super) struct Section<'s, 'f> {
    pub(super) report: &'s Report<'f>,
    pub(super) node: &'s Node,
    /// Where the section's own key stands: the place of what is missing in it.
    pub(super) place: Span,
    keys: &'static Keys,
    /// Whether it has keys that are none; one of them may be meant for what is missing.
    misspelt: bool,
    #[cfg(test)]
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'s, 'f> Section<'s, 'f> {
    /// Opens a map. `None` when it is none; unknown keys and a wrong kind have been reported then.
    pub(super) fn open(
        report: &'s Report<'f>,
        place: Span,
        node: &'s Node,
        keys: &'static Keys,
    ) -> Option<Self> {
        if report.is_stopped() {
            return None;
        }
        let Some(entries) = node.as_map() else {
            report.error(
                Code::WrongType.at(node.span),
                format!("expected a map with the keys of {}, found {}", keys.section, node.found()),
                format!("known keys: {}", suggest::listed(keys.names())),
            );
            return None;
        };
        let unknown = || entries.iter().filter(|entry| keys.get(&entry.key.text).is_none());
        unknown().for_each(|entry| report_unknown_key(report, &entry.key, keys));
        Some(Self {
            report,
            node,
            place,
            keys,
            misspelt: unknown().next().is_some(),
            #[cfg(test)]
            asked: RefCell::default(),
        })
    }

    /// The entry of a key.
    pub(super) fn entry(&self, name: &'static str) -> Option<&'s Entry> {
        debug_assert!(self.keys.get(name).is_some(), "`{name}` is not a key of {}", self.keys.section);
        #[cfg(test)]
        self.asked.borrow_mut().insert(name);
        self.node.as_map()?.iter().find(|entry| entry.key.text == name)
    }

    /// The value of a key.
    pub(super) fn get(&self, name: &'static str) -> Option<&'s Node> {
        self.entry(name).map(|entry| &entry.value)
    }

    /// The value of a key that must be there.
    pub(super) fn required(&self, name: &'static str, help: &str) -> Option<&'s Node> {
        let found = self.get(name);
        if found.is_none() {
            self.missing(format!("{} has no `{name}`", self.keys.section), help);
        }
        found
    }

    /// Says that something is missing, unless a key was misspelt: then that is it, most likely.
    pub(super) fn missing(&self, message: String, help: &str) {
        if !self.misspelt {
            self.report.error(Code::MissingKey.at(self.place), message, help);
        }
    }

    /// The same at a place of its own.
    pub(super) fn missing_at(&self, place: Span, message: &str, help: &str) {
        if !self.misspelt {
            self.report.error(Code::MissingKey.at(place), message, help);
        }
    }

    /// Whether some key of it is none that there is.
    pub(super) fn is_misspelt(&self) -> bool {
        self.misspelt
    }

    /// A section inside this one.
    pub(super) fn section(&self, name: &'static str, keys: &'static Keys) -> Option<Self> {
        let entry = self.entry(name)?;
        Self::open(self.report, entry.key.span, &entry.value, keys)
    }

    /// The entries of a map with names of one's own.
    pub(super) fn map(&self, name: &'static str) -> Option<&'s [Entry]> {
        let node = self.get(name)?;
        let entries = node.as_map();
        if entries.is_none() {
            self.wrong_kind(name, node, "a map");
        }
        entries
    }

    /// A declared setting. `None` where it is absent, or something is wrong with it, which has been reported
    /// then.
    pub(super) fn read<T: Setting>(&self, name: &'static str) -> Option<T> {
        let entry = self.entry(name)?;
        let shown = format!("`{name}`");
        T::read(&cursor(self.report, entry.key.span, &entry.value, &shown, T::KIND)).ok()
    }

    /// The same of a section whose values may be `${VARIABLE}`.
    pub(super) fn read_with<T: Setting>(&self, environment: &Environment, name: &'static str) -> Option<T> {
        let entry = self.entry(name)?;
        let shown = format!("`{name}`");
        let value = cursor(self.report, entry.key.span, &entry.value, &shown, T::KIND);
        let context = Context { environment, ..value.context };
        T::read(&Cursor::new(context, value.place, value.node, value.name, value.kind)).ok()
    }

    /// A text.
    pub(super) fn text(&self, name: &'static str) -> Option<&'s str> {
        self.text_node(name).map(|(_, text)| text)
    }

    /// A text and where it stands.
    pub(super) fn text_node(&self, name: &'static str) -> Option<(&'s Node, &'s str)> {
        let node = self.get(name)?;
        let text = text_of(self.report, node, &format!("`{name}`"))?;
        Some((node, text))
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, name: &'static str) -> Option<bool> {
        flag_of(self.report, self.get(name)?, name)
    }

    /// One of the words that the key takes.
    pub(super) fn word(&self, name: &'static str) -> Option<&'static str> {
        let node = self.get(name)?;
        let Some(Takes::Word(words)) = self.takes(name) else { return None };
        if renamed::report_word(self.report, node, self.keys.id, name) {
            return None;
        }
        word_of(self.report, node, &format!("`{name}`"), words)
    }

    /// A duration in the range of the key.
    pub(super) fn duration(&self, name: &'static str) -> Option<Duration> {
        let node = self.get(name)?;
        match self.duration_as(name, &measure_text(node))? {
            Ok(duration) => Some(duration),
            Err(error) => self.unit_error(node, error),
        }
    }

    /// The same of a text that has come there from outside.
    pub(super) fn duration_as(&self, name: &'static str, text: &str) -> Option<Result<Duration, UnitError>> {
        let Some(Takes::Duration(least, most)) = self.takes(name) else { return None };
        Some(units::duration_within(text, least, most))
    }

    /// A size in bytes, in the range of the key.
    pub(super) fn size(&self, name: &'static str) -> Option<usize> {
        let node = self.get(name)?;
        let Some(Takes::Size(least, most)) = self.takes(name) else { return None };
        match units::size_within(&measure_text(node), least, most) {
            Ok(size) => usize::try_from(size).ok(),
            Err(error) => self.unit_error(node, error),
        }
    }

    /// A whole number in the range of the key.
    pub(super) fn count(&self, name: &'static str) -> Option<u64> {
        let node = self.get(name)?;
        let Some(Takes::Count(least, most)) = self.takes(name) else { return None };
        let found = match &node.kind {
            Kind::Number(text) => text.parse().ok().filter(|count| (least..=most).contains(count)),
            Kind::Nothing | Kind::Flag(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => None,
        };
        if found.is_none() {
            let message =
                format!("`{name}` must be a whole number from {least} to {most}, found {}", node.found());
            self.report.error(
                Code::OutOfRange.at(node.span),
                message,
                format!("write a number such as `{}`", least.max(1)),
            );
        }
        found
    }

    /// A list of texts.
    pub(super) fn texts(&self, name: &'static str) -> Option<Vec<(&'s Node, &'s str)>> {
        let node = self.get(name)?;
        let Kind::List(items) = &node.kind else {
            self.wrong_kind(name, node, "a list");
            return None;
        };
        Some(
            items
                .iter()
                .filter_map(|item| Some((item, text_of(self.report, item, &format!("an item of `{name}`"))?)))
                .collect(),
        )
    }

    /// Says that keys have no place beside another.
    pub(super) fn refuse_beside(&self, names: &[&'static str], other: &str) {
        for entry in names.iter().filter_map(|name| self.entry(name)) {
            let message = format!("`{}` has no effect beside `{other}`", entry.key.text);
            self.report.error(Code::ConflictingKeys.at(entry.key.span), message, "remove one of the two");
        }
    }

    fn takes(&self, name: &str) -> Option<Takes> {
        self.keys.get(name).map(|key| key.kind)
    }

    fn unit_error<T>(&self, node: &Node, error: UnitError) -> Option<T> {
        self.report.error(error.code.at(node.span), error.message, error.help);
        None
    }

    fn wrong_kind(&self, name: &str, node: &Node, expected: &str) {
        let means = self.keys.get(name).map(super::keys::Key::help);
        self.report.error(
            Code::WrongType.at(node.span),
            format!("`{name}` takes {expected}, found {}", node.found()),
            means,
        );
    }
}

/// A key that the tables name and nobody reads would have no effect.
#[cfg(test)]
impl Drop for Section<'_, '_> {
    fn drop(&mut self) {
        // Reading stops early at a mistake.
        if std::thread::panicking() || self.report.errors() > 0 {
            return;
        }
        let asked = self.asked.borrow();
        let forgotten: Vec<_> = self.keys.names().filter(|name| !asked.contains(name)).collect();
        assert!(forgotten.is_empty(), "nobody reads {forgotten:?} of {}", self.keys.section);
    }
}

/// The cursor of a declared setting inside a section that is read key by key.
pub(super) fn cursor<'a>(
    report: &'a Report<'_>,
    place: Span,
    node: &'a Node,
    name: &'a str,
    kind: ValueKind,
) -> Cursor<'a> {
    static NO_VARIABLES: Environment = Environment::empty();
    let context = Context {
        report,
        environment: &NO_VARIABLES,
        report_unknown_key,
        report_renamed_word: renamed::report_word,
        renamed_variables: renamed::variables(),
        scope: None,
    };
    Cursor::new(context, place, node, name, kind)
}

/// Reads something whose templates may use these names, and notes the arguments and answers that it uses.
pub(super) fn in_scope<T>(
    names: &[&'static str],
    used: &mut UsedArguments,
    read: impl FnOnce(&Scope) -> Checked<T>,
) -> Option<T> {
    let scope = Scope::default();
    scope.used.replace(std::mem::take(used));
    let read = scope.with_names(names, || read(&scope));
    *used = scope.used.take();
    read.ok()
}

/// The same of a declared setting.
pub(super) fn read_in_scope<T: Setting>(
    report: &Report<'_>,
    entry: &Entry,
    names: &[&'static str],
    used: &mut UsedArguments,
) -> Option<T> {
    let name = format!("`{}`", entry.key.text);
    let value = cursor(report, entry.key.span, &entry.value, &name, T::KIND);
    in_scope(names, used, |scope| T::read(&value.in_scope(scope)))
}

pub(super) fn report_unknown_key(report: &Report<'_>, key: &Key, keys: &Keys) {
    if renamed::report_key(report, key, keys.id, keys.section) {
        return;
    }
    if std::ptr::eq(keys, ExtractSettings::keys()) {
        return extract::report_unknown(report, key);
    }
    let message = format!("unknown key `{}` in {}", key.text, keys.section);
    if let Some(nearest) = suggest::nearest(&key.text, keys.names()) {
        return report.error(Code::UnknownKey.at(key.span), message, format!("did you mean `{nearest}`?"));
    }
    let large: [&'static Keys; 8] = [
        ServerSettings::keys(),
        LogSettings::keys(),
        AdminSettings::keys(),
        &DEFAULTS,
        &ROUTE,
        &UPSTREAM,
        &REQUEST,
        RuleSettings::keys(),
    ];
    // In a small section, such as one of an extractor, what is to be known is what it has.
    let is_large = std::ptr::eq(keys, &FILE) || large.iter().any(|large| std::ptr::eq(keys, *large));
    let elsewhere = || large.into_iter().filter(|_| is_large);
    let meant = |other: &'static Keys| Some((suggest::meant(&key.text, other.names())?, other.section));
    let found = elsewhere().find_map(|other| Some((other.get(&key.text)?.name, other.section)));
    let help = match found.or_else(|| elsewhere().find_map(meant)) {
        Some((name, of)) => format!("`{name}` is a key of {of}"),
        None => format!("known keys: {}", suggest::listed(keys.names())),
    };
    report.error(Code::UnknownKey.at(key.span), message, help);
}

/// A text; `what` says of whom.
pub(super) fn text_of<'n>(report: &Report<'_>, node: &'n Node, what: &str) -> Option<&'n str> {
    if let Some(text) = node.as_text() {
        return Some(text);
    }
    let help = match &node.kind {
        Kind::Flag(_) | Kind::Number(_) => Some("put it in quotes".to_owned()),
        Kind::Map(_) if report.files().text(node.span)[node.span.start..].starts_with('{') => {
            Some("a text that begins with `{` is put in quotes".to_owned())
        }
        Kind::Nothing | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => None,
    };
    report.error(Code::WrongType.at(node.span), format!("{what} takes a text, found {}", node.found()), help);
    None
}

/// `true` or `false`.
pub(super) fn flag_of(report: &Report<'_>, node: &Node, name: &str) -> Option<bool> {
    if let Kind::Flag(flag) = node.kind {
        return Some(flag);
    }
    let help = match node.as_text().map(str::to_ascii_lowercase).as_deref() {
        Some("yes" | "on" | "true" | "1") => "write `true`",
        Some("no" | "off" | "false" | "0") => "write `false`",
        _ => "write `true` or `false`",
    };
    report.error(
        Code::WrongType.at(node.span),
        format!("`{name}` takes `true` or `false`, found {}", node.found()),
        help,
    );
    None
}

/// One of some words.
pub(super) fn word_of(
    report: &Report<'_>,
    node: &Node,
    what: &str,
    words: &'static [&'static str],
) -> Option<&'static str> {
    let found = node.scalar().unwrap_or_default();
    if let Some(word) = words.iter().find(|word| **word == found) {
        return Some(word);
    }
    let message =
        format!("{what} must be one of {}; found {}", suggest::listed(words.iter().copied()), node.found());
    let nearest = suggest::nearest(&found, words.iter().copied());
    report.error(
        Code::UnknownWord.at(node.span),
        message,
        nearest.map(|word| format!("did you mean `{word}`?")),
    );
    None
}

/// A number without a unit is read too, to be told which unit to write.
pub(super) fn measure_text(node: &Node) -> String {
    node.scalar().unwrap_or_else(|| node.found())
}

/// A key whose value another reader reads.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReadElsewhere;

impl Setting for ReadElsewhere {
    const KIND: ValueKind = ValueKind::Anything;

    fn read(_value: &Cursor<'_>) -> Checked<Self> {
        Ok(Self)
    }

    fn when_absent() -> Option<Self> {
        Some(Self)
    }
}
