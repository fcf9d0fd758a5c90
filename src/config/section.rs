//! Helpers for parsing sections: contexts, scopes, errors about unknown keys, and [`ReadElsewhere`] for keys
//! that other modules parse.

use std::{collections::BTreeMap, marker::PhantomData};

use serde_json::Value;

use super::compile::FileSettings;
use super::extract::ExtractSettings;
use super::renamed::RENAMES;
use super::request::RequestSettings;
use super::response::RuleSettings;
use super::routes::{DefaultSettings, RouteSettings};
use super::server::ServerSettings;
use super::upstreams::UpstreamSection;
use super::{AdminSettings, extract, renamed};
use crate::settings::{
    Checked, Code, Cursor, Entry, Environment, Key, KeyTable, Node, OpenSection, ReadContext, Report,
    Section, Setting, SourceSpan, ValueKind, suggest,
};
use crate::telemetry::log::LogSettings;
use crate::translate::expressions::{Scope, UsedArguments};
use crate::translate::{Matcher, StatusPattern};

/// Creates a cursor at a value in which environment variables are not expanded.
pub(super) fn cursor<'a>(
    report: &'a Report<'_>,
    key_span: SourceSpan,
    node: &'a Node,
    name: &'a str,
    kind: ValueKind,
) -> Cursor<'a> {
    Cursor::new(plain_context(report), key_span, node, name, kind)
}

/// Opens a section whose keys are then parsed one by one. Returns `None` after reporting the problems.
pub(super) fn open_section<'a, T: Section + Setting>(
    report: &'a Report<'_>,
    key_span: SourceSpan,
    node: &'a Node,
) -> Option<OpenSection<'a>> {
    OpenSection::open(&cursor(report, key_span, node, "", T::KIND), T::keys()).ok()
}

/// Creates a context for settings in which environment variables are not expanded.
pub(super) fn plain_context<'a>(report: &'a Report<'_>) -> ReadContext<'a> {
    static NO_VARIABLES: Environment = Environment(BTreeMap::new());
    context(report, &NO_VARIABLES)
}

/// Creates a context for settings in which environment variables are expanded from `environment`.
pub(super) fn context<'a>(report: &'a Report<'_>, environment: &'a Environment) -> ReadContext<'a> {
    ReadContext {
        report,
        environment,
        report_unknown_key,
        report_renamed_value: renamed::report_value,
        renamed_variables: RENAMES.variables,
        scope: None,
    }
}

/// Parses a value whose templates may use the variables `names`. Adds the arguments and input responses that
/// the templates use to `used`.
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

/// Like [`in_scope`], but parses the value of `entry` as a `T`.
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

pub(super) fn report_unknown_key(report: &Report<'_>, key: &Key, keys: &KeyTable) {
    if RENAMES.report_key(report, key, keys) {
        return;
    }
    if std::ptr::eq(keys, ExtractSettings::keys()) {
        return extract::report_unknown(report, key);
    }
    let (at, message) =
        (Code::UnknownKey.at_span(key.span), format!("unknown key `{}` in {}", key.text, keys.section));
    let help = extract::help_for_misplaced(&key.text, keys).or_else(|| help_for_foreign(&key.text, keys));
    let nearest = || Some(format!("did you mean `{}`?", suggest::nearest(&key.text, keys.names())?));
    let large_sections: [&'static KeyTable; 9] = [
        FileSettings::keys(),
        ServerSettings::keys(),
        LogSettings::keys(),
        AdminSettings::keys(),
        DefaultSettings::keys(),
        RouteSettings::keys(),
        UpstreamSection::keys(),
        RequestSettings::keys(),
        RuleSettings::keys(),
    ];
    // For a small section, such as an extractor, the help lists only keys of that section.
    let is_large = large_sections.iter().any(|large| std::ptr::eq(keys, *large));
    let elsewhere = || large_sections.into_iter().filter(|_| is_large);
    let having = elsewhere().filter(|other| other.get(&key.text).is_some());
    let sections = having.map(|other| other.section).collect::<Vec<_>>().join(" and of ");
    let exact = (!sections.is_empty()).then(|| format!("`{}` is a key of {sections}", key.text));
    let suggestion = |other: &'static KeyTable| {
        let name = suggest::same_or_synonym(&key.text, other.names())?;
        Some(format!("`{name}` is a key of {}", other.section))
    };
    let known_keys = || format!("known keys: {}", suggest::quoted_list(keys.names()));
    let help = help.or(exact).or_else(nearest).or_else(|| elsewhere().find_map(suggestion));
    report.error(at, message, help.unwrap_or_else(known_keys));
}

/// Help for a misplaced key of a rule (a condition, an extractor, or a status in place of a rule), and for a
/// key that belongs to another product or another section.
fn help_for_foreign(key: &str, keys: &KeyTable) -> Option<String> {
    if std::ptr::eq(keys, RuleSettings::keys()) {
        let when = Matcher::keys().get(key).map(|_| format!("`when: {{ {key}: … }}` for a condition"));
        let extract = extract::is_extractor(key).then(|| format!("`extract: {{ {key}: … }}` for the value"));
        let words = when.into_iter().chain(extract).reduce(|when, extract| format!("{when}, {extract}"));
        let status = |_| format!("a list of rules, each with `when: {{ status: {key} }}`");
        if let Some(words) = words.or_else(|| key.parse::<StatusPattern>().ok().map(status)) {
            return Some(format!("write {words}"));
        }
    }
    suggest::foreign(keys.id, key, keys.names())
}

/// Whether `text` contains an expression or a statement of a template.
pub(super) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// Type of a key that accepts the same values as `T`, but is parsed by another function.
pub(super) type ReadElsewhere<T = Value> = PhantomData<T>;

impl<T: Setting> Setting for PhantomData<T> {
    const KIND: ValueKind = T::KIND;
    const ABSENT: Option<fn() -> Self> = Some(|| Self);

    fn read(_value: &Cursor<'_>) -> Checked<Self> {
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_other_products_are_not_keys_of_the_section() {
        let tables: Vec<_> = renamed::sections().into_iter().map(|keys| keys()).collect();
        for line in include_str!("../settings/foreign.txt").lines().filter(|line| !line.starts_with('#')) {
            let (names, _) = line.split_once(" -> ").unwrap();
            let (sections, words) = names.split_once(' ').unwrap();
            for section in sections.split(',').filter(|section| !["method", "operator"].contains(section)) {
                let found: Vec<_> = tables.iter().filter(|keys| keys.id == section).collect();
                assert!(!found.is_empty(), "there is no section `{section}`");
                for word in words.split(' ') {
                    assert!(found.iter().all(|keys| keys.get(word).is_none()), "`{word}` of `{section}`");
                    assert!(RENAMES.key(section, word).is_none(), "`{word}` of `{section}` was renamed");
                }
            }
        }
    }
}
