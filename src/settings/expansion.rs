//! Expansion of `${VARIABLE}` and `file:/path` in values, and the environment variables that can be
//! referenced.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::{
    layers::PREFIX,
    problem::Problems,
    problem_code::Code,
    section::{Checked, ReadContext},
    source_text::{self, SourceSpan},
};

/// Snapshot of the environment variables that a configuration can refer to. `Debug` prints only the names,
/// because values may be secrets.
#[derive(derive_more::Debug, Clone, Default)]
#[debug("{:?}", _0.keys())]
pub struct Environment(pub BTreeMap<String, String>);

impl Environment {
    /// Returns the variables of this process, except those that are not UTF-8.
    pub fn from_process() -> Self {
        Self::from_variables(process_variables())
    }

    /// Collects variables, except those that are not UTF-8. A setting (a variable with the prefix of
    /// glossator) is kept with U+FFFD in place of invalid bytes, so that it is reported as an error.
    pub fn from_variables(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let utf8 = |(name, value): (OsString, OsString)| {
            let name = name.into_string().ok()?;
            let value = match value.into_string() {
                Err(value) if name.starts_with(PREFIX) => value.to_string_lossy().into_owned(),
                value => value.ok()?,
            };
            Some((name, value))
        };
        Self(variables.into_iter().filter_map(utf8).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// Returns the environment variables of this process, including those that are not UTF-8.
pub fn process_variables() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os()
}

/// A string after the expansion of variables and files.
pub(crate) struct Expanded {
    /// The expanded string; it must not be shown if `external` is set.
    pub(crate) text: String,
    /// Whether a part of the string comes from a variable or another file.
    pub(crate) external: bool,
}

/// Maximum size of a file that a value refers to, in bytes.
pub(crate) const SECRET_LIMIT_BYTES: u64 = 1 << 20;

/// Expands `${NAME}`, `${NAME:-default}` and `${file:/path}`. `$${` is an escaped `${`.
///
/// # Errors
///
/// If a reference is malformed, unset or unreadable. The problem has been reported at `span`.
pub(crate) fn expand(context: ReadContext<'_>, span: SourceSpan, text: &str) -> Checked<Expanded> {
    let (mut out, mut rest, mut external) = (String::new(), text, false);
    let (mut failed, mut missing) = (None, HashSet::new());
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.push_str(&rest[..at - 1]);
            out.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let Some(end) = rest[at..].find('}') else {
            let help = "write `${NAME}`, or `$${` for a literal `${`";
            let at = Code::InvalidReference.at_span(span);
            return Err(context.reject_at(at, "`${` has no closing `}`", help));
        };
        // All missing variables are reported before an error is returned, each of them once.
        let reference = &rest[at + 2..at + end];
        if !missing.contains(reference) && missing.len() < Problems::MAX_REPORTED {
            match value_of(context, span, reference) {
                Ok(value) => out.push_str(&value),
                Err(reported) => {
                    missing.insert(reference);
                    failed = Some(reported);
                }
            }
        }
        external = true;
        rest = &rest[at + end + 1..];
    }
    out.push_str(rest);
    failed.map_or(Ok(Expanded { text: out, external }), Err)
}

/// Like [`expand`], for a value that may also be `file:/path`.
pub(crate) fn expand_secret(context: ReadContext<'_>, span: SourceSpan, text: &str) -> Checked<Expanded> {
    let Some(path) = text.strip_prefix("file:") else { return expand(context, span, text) };
    let path = expand(context, span, path)?;
    Ok(Expanded { text: secret_file(context, span, &path.text)?, external: true })
}

/// Reads the file named after `file:`; returns its path and contents. For callers that reload the file
/// themselves: unlike a secret file, it is not watched, so a change does not reload the configuration.
pub(crate) fn read_unwatched_file(
    context: ReadContext<'_>,
    span: SourceSpan,
    path: &str,
) -> Checked<(PathBuf, String)> {
    let path = expand(context, span, path)?;
    let path = path.text.trim();
    Ok((path.into(), read_file(context, span, path)?))
}

fn value_of(context: ReadContext<'_>, span: SourceSpan, reference: &str) -> Checked<String> {
    if let Some(path) = reference.strip_prefix("file:") {
        return secret_file(context, span, path);
    }
    let (name, default) =
        reference.split_once(":-").map_or((reference, None), |(name, text)| (name, Some(text)));
    if !is_variable_name(name) {
        let message = "`${…}` needs the name of an environment variable: letters, digits and `_`";
        let help = "write `${NAME}`, `${NAME:-default}`, or `$${` for a literal `${`";
        return Err(context.reject_at(Code::InvalidReference.at_span(span), message, help));
    }
    if default.is_some_and(|default| default.contains("${")) {
        let (message, help) = ("the default in `${…}` contains another `${`", "write a literal default");
        return Err(context.reject_at(Code::InvalidReference.at_span(span), message, help));
    }
    let value = context.environment.get(name).filter(|value| !value.is_empty()).or(default);
    value.map(str::to_owned).ok_or_else(|| {
        let state = if context.environment.get(name).is_some() { "empty" } else { "not set" };
        let message = format!("the environment variable `{name}` is {state}");
        let help = format!("set it, or add a default: `${{{name}:-value}}`");
        context.reject_at(Code::UnsetVariable.at_span(span), message, help)
    })
}

/// Whether a string can be the name of an environment variable.
pub(crate) fn is_variable_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.starts_with(|first: char| !first.is_ascii_digit())
}

/// Reads a file with a secret and records its path, so that a change of the file reloads the configuration.
fn secret_file(context: ReadContext<'_>, span: SourceSpan, path: &str) -> Checked<String> {
    let path = path.trim();
    context.report.add_referenced_file(Path::new(path));
    read_file(context, span, path)
}

/// Reads a file; a line break at its end, which editors add, is removed.
fn read_file(context: ReadContext<'_>, span: SourceSpan, path: &str) -> Checked<String> {
    let at = Code::UnreadableFile.at_span(span);
    if !Path::new(path).is_absolute() {
        let help = "write an absolute path: `file:/run/secrets/token`";
        return Err(context.reject_at(at, format!("`{path}` is not an absolute path"), help));
    }
    let value = source_text::read_file(Path::new(path), SECRET_LIMIT_BYTES).and_then(|bytes| {
        let text = String::from_utf8(bytes).map_err(|_| "is not UTF-8 text".to_owned())?;
        let value = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(&text);
        if value.is_empty() { Err("is empty".to_owned()) } else { Ok(value.to_owned()) }
    });
    value.map_err(|reason| {
        let help = "create the file with only the value in it, or correct the path";
        context.reject_at(at, format!("the file `{path}` {reason}"), help)
    })
}

#[cfg(test)]
mod tests {
    use super::{super::problem_collector::reading, *};

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let variables = [("CITY", "Oslo"), ("EMPTY", ""), ("TOKEN", "s3cr3t")];
        let environment =
            Environment(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let (expanded, problems) = reading(text, |report| {
            let context = ReadContext {
                report,
                environment: &environment,
                report_unknown_key: |_, _, _| {},
                report_renamed_value: |_, _, _, _| false,
                renamed_variables: &[],
                scope: None,
            };
            expand_secret(context, report.files().whole(0), text)
        });
        match (expanded, expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.text, expected),
            (Err(_), Err(part)) => assert!(problems[0].message.contains(part), "{}", problems[0]),
            (found, _) => panic!("found {:?}, expected {expected:?}", found.map(|found| found.text)),
        }
        for problem in problems {
            assert!(!problem.to_string().contains("s3cr3t"));
        }
    }

    #[test]
    fn variables_and_defaults_are_put_in() {
        check("plain", Ok("plain"));
        check("a ${CITY} b ${NONE:-http://x:1} $${CITY} $5", Ok("a Oslo b http://x:1 ${CITY} $5"));
        check("${EMPTY:-x}", Ok("x"));
    }

    #[test]
    fn the_error_about_a_missing_variable_shows_no_values() {
        check("${NONE}", Err("`NONE` is not set"));
        check("${TOKEN} ${EMPTY}", Err("`EMPTY` is empty"));
        check("${TOKEN} ${CITY", Err("no closing"));
        check("${NONE:-${CITY}}", Err("contains another `${`"));
        check("${TO KEN}", Err("name of an environment variable"));
        check("file:/nowhere/at/all", Err("does not exist"));
        check("file:relative", Err("not an absolute path"));
    }
}
