//! Search for renamed variables in jq, templates and environment variables in strings.

use crate::config::renamed::Renames;

/// Renamed names to search for, and the kind of text that contains them.
pub(super) struct RenamedNames {
    names: Vec<(String, String)>,
    /// Whether to match `$name` of jq and names in `{{ }}` and `{% %}` only; otherwise whole words anywhere.
    in_expressions: bool,
}

/// Occurrence of a name in a text.
#[derive(Debug, PartialEq)]
pub(super) struct RenamedName {
    pub(super) at: usize,
    pub(super) was: String,
    pub(super) now: String,
}

/// All names that are searched for.
pub(super) struct RenamedNameSets {
    /// Variables of jq and templates.
    pub(super) expressions: RenamedNames,
    /// Environment variables.
    pub(super) environment: RenamedNames,
}

impl RenamedNameSets {
    pub(super) fn new(renames: &Renames) -> Self {
        let expressions = renames.variables.iter().map(|(was, now)| ((*was).to_owned(), (*now).to_owned()));
        let environment = renames.environment().filter_map(|(was, now, _)| Some((was, now?)));
        Self {
            expressions: RenamedNames { names: expressions.collect(), in_expressions: true },
            environment: RenamedNames { names: environment.collect(), in_expressions: false },
        }
    }
}

/// Finds the names in a text that can be replaced, and those that may refer to something else.
pub(super) fn find(text: &str, words: &RenamedNames) -> (Vec<RenamedName>, Vec<String>) {
    let (mut found, mut unsure) = (Vec::new(), Vec::new());
    for (was, now) in words.names.iter().filter(|(was, _)| text.contains(was.as_str())) {
        let is_name = |character: char| character.is_alphanumeric() || character == '_';
        let places = text.match_indices(was.as_str()).map(|(at, _)| at);
        let mut places: Vec<usize> = places
            .filter(|at| !text[..*at].ends_with(is_name) && !text[at + was.len()..].starts_with(is_name))
            .collect();
        if words.in_expressions {
            places.retain(|at| is_variable(text, *at));
            // The filter or template defines a variable with that name itself.
            let is_own = [format!("as ${was}"), format!("set {was}"), format!("for {was}")];
            if !places.is_empty() && is_own.iter().any(|own| text.contains(own.as_str())) {
                unsure.push(was.clone());
                continue;
            }
        }
        found.extend(places.into_iter().map(|at| RenamedName { at, was: was.clone(), now: now.clone() }));
    }
    found.sort_by_key(|word| word.at);
    (found, unsure)
}

/// Whether the name at an offset is a variable: `$name` of jq, or a name in a template that is neither a
/// member nor in quotes.
fn is_variable(text: &str, at: usize) -> bool {
    let before = &text[..at];
    if before.ends_with('$') {
        return true;
    }
    let opened = before.rfind("{{").max(before.rfind("{%"));
    let closed = before.rfind("}}").max(before.rfind("%}"));
    let Some(opened) = opened.filter(|opened| closed.is_none_or(|closed| closed < *opened)) else {
        return false;
    };
    let inside = &before[opened..];
    let is_quoted = ['"', '\''].iter().any(|quote| inside.matches(*quote).count() % 2 == 1);
    !is_quoted && !inside.trim_end().ends_with(['.', '|'])
}
