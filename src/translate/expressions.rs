//! Compiles the jq filters and templates of configuration files, and reports each problem at its position.
//! The [`Scope`] of an expression has the names that it may use, and records the arguments that it uses.

use std::{cell::RefCell, sync::LazyLock};

use regex::Regex;

use super::jq::{VARIABLES, is_pure};
use super::pattern::compile_once;
use super::template::is_global;
use super::{Jq, Template};
use crate::settings::{
    Checked, Code, Cursor, Node, ProblemContext, Report, Setting, SourceSpan, fixed_regex, suggest, text_of,
};

/// Compiles a filter, which may use the captures of its scope as variables. Records the arguments that it
/// uses.
impl Setting for Jq {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let scope = Scope::from_cursor(value);
        scope.used.borrow_mut().add_jq(value.context.report, value.node);
        let captures = scope.captures.borrow();
        let text = text_of(value)?;
        value.check_cancelled()?;
        let report = value.context.report;
        let key = (text.to_owned(), captures.clone());
        compile_once(report, key, || Self::compile(text, &captures)).or_else(|error| {
            let capture_list: String = captures.iter().map(|name| format!(", `${name}`")).collect();
            let message = error.to_string();
            let mut renamed = value.context.renamed_variables.iter();
            let help = match renamed.find(|(old_name, _)| message.contains(&format!("`${old_name}`"))) {
                Some((_, new_name)) => format!("write `${new_name}`, or run `glossator migrate`"),
                None => format!(
                    "{}the input is `.`; variables: `$args`, `$status`, `$exit_status`, \
                     `$stderr`, `$headers`, `$input_responses`{capture_list}",
                    hint_at_path(text).unwrap_or_else(|| hint_at_names(text, &message, scope))
                ),
            };
            let at = message.rsplit_once(" at character ").and_then(|(_, at)| at.parse::<usize>().ok());
            let span = at.map_or(value.node.span, |at| report.character_in(value.node, text, at - 1));
            let message = format!("{} is not a jq filter: {message}", value.name);
            value.reject_coded(Code::InvalidJq.at_span(span), message, help)
        })
    }
}

/// Suggests the jq path for a JSONPath: `.data[]` for `$.data[*]`.
fn hint_at_path(text: &str) -> Option<String> {
    let path = text.strip_prefix('$').filter(|path| path.starts_with(['.', '[']) && !path.contains('\n'))?;
    let dot = if path.starts_with('[') { "." } else { "" };
    Some(format!("did you mean `{dot}{}`? ", path.trim_end().replace("[*]", "[]")))
}

/// Suggests names for the unknown names in an error message, or the jq operator for an operator of another
/// language.
fn hint_at_names(text: &str, message: &str, scope: &Scope) -> String {
    let found_word = message
        .split_once("found `")
        .and_then(|(_, found_word)| found_word.split(['`', ' ', '.', '(']).next());
    if let Some(help) = found_word.and_then(|found_word| suggest::foreign("operator", found_word, [])) {
        return format!("{help}; ");
    }
    let unknown = message.strip_prefix("there is ").unwrap_or_default().split(", ");
    // A common filter with a wrong number of arguments is unknown: jq knows filters by name and arity.
    let is_common = |name: &&str| COMMON_JQ_FILTERS.split(' ').any(|filter| filter == *name);
    if let Some(name) = unknown.clone().filter_map(unknown_filter).find(is_common) {
        let example =
            if text.contains(&format!("{name}(")) { name.to_owned() } else { format!("{name}(…)") };
        return format!(
            "`{name}` takes another number of arguments, such as `{example}`; for a key, write `.{name}`; "
        );
    }
    let hint = |unknown| hint_at_key(unknown).or_else(|| hint_at_variable(unknown, scope));
    let suggestions = unknown.filter_map(hint).collect::<Vec<_>>().join(", ");
    if suggestions.is_empty() { suggestions } else { format!("did you mean {suggestions}? ") }
}

/// Name of the unknown filter in a part of an error message.
fn unknown_filter(unknown: &str) -> Option<&str> {
    unknown.strip_prefix("no filter `")?.strip_suffix('`')
}

/// Suggests a key for an unknown filter, because a forgotten `.` is the most frequent cause.
fn hint_at_key(unknown: &str) -> Option<String> {
    let name = unknown_filter(unknown)?;
    let nearest = suggest::nearest(name, COMMON_JQ_FILTERS.split(' '));
    let alternative = nearest.map(|nearest| format!("`{nearest}` or ")).unwrap_or_default();
    // Filters that only the program `jq` has, such as `input`, are not suggested as keys.
    is_pure(name).then(|| format!("{alternative}`.{name}`"))
}

/// Suggests an argument, or the nearest variable, for an unknown variable.
fn hint_at_variable(unknown: &str, scope: &Scope) -> Option<String> {
    let name = unknown.strip_prefix("no variable `")?.strip_suffix('`')?;
    let argument = scope.has_argument(&name[1..]).then(|| format!("`$args.{}`", &name[1..]));
    argument.or_else(|| Some(format!("`{}`", suggest::nearest(name, VARIABLES)?)))
}

/// Reads a jq condition. Rejects assignments, because their value is always true.
///
/// # Errors
///
/// If the filter is invalid, or is an assignment such as `.ok = false`. The problem has been reported.
pub(crate) fn read_condition(value: &Cursor<'_>) -> Checked<Option<Jq>> {
    let condition = Jq::read(value)?;
    let Some(operator) = condition.assignment() else { return Ok(Some(condition)) };
    value.reject_coded(
        Code::AssignmentInCondition.at_span(value.node.span),
        format!("{} assigns with `{operator}`, so it is always true", value.name),
        "compare with `==`: `.ok == false`",
    )
}

/// Compiles a template, which may use the names and captures of its scope. Records the arguments that it
/// uses.
impl Setting for Template {
    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let scope = Scope::from_cursor(value);
        let (names, captures) = (scope.names.borrow(), scope.captures.borrow());
        let names: Vec<&str> = names.iter().copied().chain(captures.iter().map(String::as_str)).collect();
        let (report, node) = (value.context.report, value.node);
        let text = value.scalar().map_or_else(|| text_of(value).map(str::to_owned), Ok)?;
        let template = Self::compile(&text).or_else(|error| {
            let span = error.line.map_or(node.span, |line| report.line_in(node, line));
            let help = "syntax: `{{ name }}` inserts a value, `{% if … %}` is a condition, `{{ x | default('y') }}` is a default";
            let message = format!("{} is not a template: {error}", value.name);
            value.reject_coded(Code::InvalidTemplate.at_span(span), message, help)
        })?;
        warn_of_placeholders(report, node, &text, scope, &names);
        let mut is_valid = true;
        for (kind, name) in &template.used.unknown {
            let help = match *kind {
                "filter" => suggest::help(name, "some known ones", COMMON_FILTERS.split(' ')),
                "test" => suggest::help(name, "some known ones", COMMON_TESTS.split(' ')),
                _ => suggest::foreign("method", name, []),
            };
            is_valid = report_unknown(report, node, kind, name, help);
        }
        let has_only_arguments = matches!(names[..], ["args"] | ["args", "input_responses"]);
        let is_unknown = |name: &&String| !names.contains(&name.as_str()) && !is_global(name);
        for name in template.used.names.iter().filter(is_unknown) {
            let mut renamed = value.context.renamed_variables.iter();
            let renamed =
                renamed.find(|(old_name, new_name)| *old_name == name.as_str() && names.contains(new_name));
            let help = match renamed {
                Some((_, new_name)) => Some(format!("write `{new_name}`, or run `glossator migrate`")),
                None if has_only_arguments && name == "omit" => Some(
                    "`default(omit)` is for a value of `query`, `headers`, `form` or `json` that is one argument and nothing \
                     else; write `{% if args.x %}…{% endif %}`"
                        .to_owned(),
                ),
                None if has_only_arguments || scope.has_argument(name) => {
                    Some(format!("write an argument as `{{{{ args.{name} }}}}`"))
                }
                None => {
                    let help = suggest::help(name, "known names", names.iter().copied());
                    // Authors often forget `structured.` before a field of the structured content.
                    let is_field = names.contains(&"structured")
                        && suggest::nearest(name, names.iter().copied()).is_none();
                    help.map(|help| match is_field {
                        true => format!("a field of the result is `structured.{name}`; {help}"),
                        false => help,
                    })
                }
            };
            is_valid = report_unknown(report, node, "name", name, help);
        }
        for (old_name, new_name) in value.context.renamed_variables {
            if old_name.contains('.') && template.used.paths.contains(*old_name) {
                let help = format!("write `{new_name}`, or run `glossator migrate`");
                is_valid = report_unknown(report, node, "name", old_name, Some(help));
            }
        }
        let template = value.checked(is_valid.then_some(template))?;
        scope.used.borrow_mut().add_template(report, &template, node.span);
        Ok(template)
    }
}

/// Reports an unknown name, filter, test or method of a template; returns `false`.
fn report_unknown(report: &Report<'_>, node: &Node, kind: &str, name: &str, help: Option<String>) -> bool {
    // For the variable `rows`, skip the field in `structured.rows`.
    let span = span_of_word(report, node.span, name, |before| before.ends_with('.') == (kind == "method"));
    report.error(Code::UnknownName.at_span(span), format!("unknown {kind} `{name}` in a template"), help);
    false
}

/// Warns about placeholders of other languages, such as `${structured.a}`, which are sent literally.
fn warn_of_placeholders(report: &Report<'_>, node: &Node, text: &str, scope: &Scope, names: &[&str]) {
    static PLACEHOLDER: LazyLock<Regex> =
        LazyLock::new(|| fixed_regex(r"\$\{\s*(([A-Za-z_][0-9A-Za-z_]*)[0-9A-Za-z_.]*)\s*\}"));
    if !text.contains("${") {
        return;
    }
    // A script in the standard input of a command may have a variable `args`.
    for captures in PLACEHOLDER.captures_iter(text).filter(|captures| &captures[1] != "args") {
        let is_argument = !names.contains(&&captures[2]) && scope.has_argument(&captures[1]);
        if is_argument || names.contains(&&captures[2]) {
            let at = Code::NotEvaluated.at_span(span_of_name(report, node.span, &captures[1]));
            let message = format!("`{}` is not a template: it is sent literally", &captures[0]);
            let args = if is_argument { "args." } else { "" };
            report.warning(at, message, format!("write `{{{{ {args}{} }}}}`", &captures[1]));
        }
    }
}

/// Common tests and filters, for suggestions; the engine has more.
const COMMON_TESTS: &str = "defined false mapping none number sequence string true";
const COMMON_FILTERS: &str = "abs b64encode capitalize default first float int join last length lower map \
     markdown_table replace round sort title tojson trim upper";

/// Common jq filters, for suggestions; the language has more.
const COMMON_JQ_FILTERS: &str = "add all any contains first flatten from_entries group_by join keys last \
     length map not select sort_by split startswith test to_entries tonumber tostring unique values";

/// Position of a name in a span, or the whole span if the name is not found.
pub(crate) fn span_of_name(report: &Report<'_>, span: SourceSpan, name: &str) -> SourceSpan {
    span_of_word(report, span, name, |_| true)
}

/// Position of the first word `name` for which `fits` accepts the text before the word, or the whole span.
fn span_of_word(
    report: &Report<'_>,
    span: SourceSpan,
    name: &str,
    fits: impl Fn(&str) -> bool,
) -> SourceSpan {
    let text = &report.files().text(span)[span.start..span.end];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let position = text.match_indices(name).find(|(at, _)| {
        let (before, after) = (&text[..*at], &text[at + name.len()..]);
        !name.is_empty() && !before.ends_with(is_word) && !after.starts_with(is_word) && fits(before)
    });
    position.map_or(span, |(at, _)| {
        let start = span.start + at;
        SourceSpan { start, end: start + name.len(), ..span }
    })
}

/// Arguments that a template uses, and whether each is optional; `None` if it uses `args` as a whole.
pub(crate) fn arguments_of(template: &Template) -> Option<Vec<(String, bool)>> {
    let mut arguments = Vec::new();
    for path in &template.used.paths {
        match path.split('.').collect::<Vec<_>>()[..] {
            ["args"] => return None,
            ["args", name, ..] if !arguments.iter().any(|(argument, _)| argument == name) => {
                arguments.push((name.to_owned(), template.used.optional_arguments.contains(name)));
            }
            _ => {}
        }
    }
    Some(arguments)
}

/// Names available to filters and templates, and their recorded uses; passed along with the [`Cursor`].
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Variables available to templates.
    names: RefCell<Vec<&'static str>>,
    /// Named captures of the conditions read so far, for filters and templates.
    captures: RefCell<Vec<String>>,
    /// Arguments and input responses used so far.
    pub(crate) used: RefCell<UsedArguments>,
}

impl Scope {
    /// Scope of the value at a cursor.
    pub(crate) fn from_cursor<'a>(value: &Cursor<'a>) -> &'a Self {
        let scope = value.context.scope.and_then(|scope| scope.downcast_ref());
        scope.expect("a section with expressions must be read with a scope")
    }

    /// Runs `read` with these variables available to templates.
    pub(crate) fn with_names<T>(&self, names: &[&'static str], read: impl FnOnce() -> T) -> T {
        let outer_names = self.names.replace(names.to_vec());
        let result = read();
        self.names.replace(outer_names);
        result
    }

    /// Runs `read` with these variables added to those available.
    pub(crate) fn with_more_names<T>(&self, names: &[&'static str], read: impl FnOnce() -> T) -> T {
        let all_names = [self.names.borrow().as_slice(), names].concat();
        self.with_names(&all_names, read)
    }

    /// Runs `read` with an empty list of captures, and discards the captures that `read` adds.
    pub(super) fn with_own_captures<T>(&self, read: impl FnOnce() -> T) -> T {
        let outer_captures = self.captures.take();
        let result = read();
        self.captures.replace(outer_captures);
        result
    }

    /// Whether the request of the route has an argument with this name.
    fn has_argument(&self, name: &str) -> bool {
        self.used.borrow().declared.iter().any(|declared| declared == name)
    }

    /// Adds the named captures of a condition.
    pub(super) fn add_captures<'n>(&self, names: impl Iterator<Item = &'n str>) {
        self.captures.borrow_mut().extend(names.map(str::to_owned));
    }
}

/// Arguments and input responses that the parts of a request use, in order.
#[derive(Debug, Default)]
pub(crate) struct UsedArguments {
    pub(crate) arguments: Vec<ArgumentUse>,
    /// Names of the arguments of the request. A rule that uses such a name gets the suggestion `args.NAME`.
    pub(crate) declared: Vec<String>,
    /// Context for problem reports about the arguments added next; set if `use` inserted the rule.
    pub(crate) context: Option<ProblemContext>,
    /// Whether an expression may use all arguments.
    pub(crate) all: bool,
    /// Input responses used by name.
    pub(crate) input_responses: Vec<InputResponseUse>,
}

/// Use of an input response: its name, its position, and the context for problem reports.
#[derive(Debug, Clone)]
pub(crate) struct InputResponseUse {
    pub(crate) name: String,
    pub(crate) span: SourceSpan,
    pub(crate) context: Option<ProblemContext>,
}

/// Use of an argument.
#[derive(Debug, Clone)]
pub(crate) struct ArgumentUse {
    pub(crate) name: String,
    pub(crate) optional: bool,
    pub(crate) kind: ArgumentKind,
    pub(crate) span: SourceSpan,
    /// Span of a use, such as a path segment, that makes the request fail if the argument is absent.
    pub(crate) needed_at: Option<SourceSpan>,
    /// Context of a problem report about this use, if a `use` inserted the rule.
    pub(crate) context: Option<ProblemContext>,
}

/// Type of an argument that no schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ArgumentKind {
    /// A string.
    Text,
    /// A string that is a part of the path.
    PathPart,
    /// An integer that counts rows or pages. A shortened result tells clients the next value to pass.
    Count,
}

impl UsedArguments {
    /// Records the use of an argument. One use that requires the argument makes it required.
    pub(crate) fn add(&mut self, name: &str, optional: bool, span: SourceSpan) {
        self.entry(name, span).optional &= optional;
    }

    fn entry(&mut self, name: &str, span: SourceSpan) -> &mut ArgumentUse {
        let existing = self.arguments.iter().position(|argument| argument.name == name);
        let index = existing.unwrap_or(self.arguments.len());
        if existing.is_none() {
            let (name, optional, kind) = (name.to_owned(), true, ArgumentKind::Text);
            let (needed_at, context) = (None, self.context.clone());
            self.arguments.push(ArgumentUse { name, optional, kind, span, needed_at, context });
        }
        &mut self.arguments[index]
    }

    fn find(&mut self, name: &str) -> Option<&mut ArgumentUse> {
        self.arguments.iter_mut().find(|argument| argument.name == name)
    }

    /// Records the span of a use that makes the request fail if the argument is absent. Ignores an argument
    /// that has not been added.
    pub(crate) fn set_needed(&mut self, name: &str, span: SourceSpan) {
        if let Some(argument) = self.find(name) {
            argument.needed_at.get_or_insert(span);
        }
    }

    fn add_input_response(&mut self, report: &Report<'_>, name: &str, span: SourceSpan) {
        let span = span_of_name(report, span, name);
        self.input_responses.push(InputResponseUse {
            name: name.to_owned(),
            span,
            context: self.context.clone(),
        });
    }

    /// Records the arguments and input responses that a template names.
    pub(crate) fn add_template(&mut self, report: &Report<'_>, template: &Template, span: SourceSpan) {
        for path in &template.used.paths {
            if let ["input_responses", name, ..] = path.split('.').collect::<Vec<_>>()[..] {
                self.add_input_response(report, name, span);
            }
        }
        let arguments = arguments_of(template);
        self.all |= arguments.is_none();
        for (name, optional) in arguments.into_iter().flatten() {
            self.add(&name, optional, span_of_name(report, span, &name));
        }
    }

    /// Records the arguments and input responses that a filter names. A filter with `$args` may use any
    /// argument.
    pub(crate) fn add_jq(&mut self, report: &Report<'_>, filter: &Node) {
        let text = filter.as_text().unwrap_or_default();
        self.all |= text.contains("$args");
        for rest in text.split("$input_responses.").skip(1) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            self.add_input_response(report, &rest[..end], filter.span);
        }
    }

    /// Makes an argument optional, because an input request asks the user for it.
    pub(crate) fn make_optional(&mut self, name: &str) {
        if let Some(argument) = self.find(name) {
            (argument.optional, argument.needed_at) = (true, None);
        }
    }

    /// Records the use of an argument of this kind. The argument is optional unless another use requires it.
    pub(crate) fn add_kind(&mut self, name: &str, kind: ArgumentKind, span: SourceSpan) {
        self.entry(name, span).kind = kind;
    }

    /// Adds the arguments and input responses that another part of the route uses.
    pub(crate) fn merge(&mut self, other: &Self) {
        for argument in &other.arguments {
            match self.find(&argument.name) {
                Some(existing) => {
                    existing.optional &= argument.optional;
                    existing.kind = existing.kind.max(argument.kind);
                    existing.needed_at = existing.needed_at.or(argument.needed_at);
                }
                None => self.arguments.push(argument.clone()),
            }
        }
        self.all |= other.all;
        self.input_responses.extend(other.input_responses.iter().cloned());
    }

    /// Whether an argument may be used: by its name, or by an expression that may use all arguments.
    pub(crate) fn may_use(&self, name: &str) -> bool {
        self.all || self.has(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: Option<&[(&str, bool)]>) {
        let found = arguments_of(&Template::compile(source).unwrap());
        let expected = expected
            .map(|list| list.iter().map(|(name, optional)| ((*name).to_owned(), *optional)).collect());
        assert_eq!(found, expected);
    }

    #[test]
    fn the_arguments_of_a_template_are_listed_as_required_or_optional() {
        check("{{ args.units | default('metric') }}", Some(&[("units", true)]));
        check("{{ args.city }} and {{ status }}", Some(&[("city", false)]));
        check("{% if args.city %}{{ args.city }}{% endif %}", Some(&[("city", true)]));
        check("{{ args.where.street }}", Some(&[("where", false)]));
        check("{{ args | tojson }}", None);
    }
}
