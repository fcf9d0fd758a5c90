//! Scope of configuration expressions: the names that they may use, and the arguments that they use.

use std::cell::RefCell;

use super::expressions::{self, arguments_of, span_of_name};
use super::{Jq, Template};
use crate::settings::{Checked, Cursor, Node, ProblemContext, Report, Setting, SourceSpan, ValueKind};

/// Names available to filters and templates, and their recorded uses; passed along with the [`Cursor`].
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Variables available to templates.
    names: RefCell<Vec<&'static str>>,
    /// Named captures of the conditions read so far, available to filters and templates.
    captures: RefCell<Vec<String>>,
    /// Arguments and input responses used so far.
    pub(crate) used: RefCell<UsedArguments>,
}

impl Scope {
    /// The scope of a value.
    pub(crate) fn from_cursor<'a>(value: &Cursor<'a>) -> &'a Self {
        let scope = value.context.scope.and_then(|scope| scope.downcast_ref());
        scope.expect("who reads a section with expressions gives it a scope")
    }

    /// Runs `read` with these variables available to templates.
    pub(crate) fn with_names<T>(&self, names: &[&'static str], read: impl FnOnce() -> T) -> T {
        let outer = self.names.replace(names.to_vec());
        let read = read();
        self.names.replace(outer);
        read
    }

    /// Runs `read` with these variables added to those available.
    pub(crate) fn with_more_names<T>(&self, names: &[&'static str], read: impl FnOnce() -> T) -> T {
        let all = [self.names.borrow().as_slice(), names].concat();
        self.with_names(&all, read)
    }

    /// Runs `read` with captures of its own, which are not visible outside.
    pub(super) fn with_own_captures<T>(&self, read: impl FnOnce() -> T) -> T {
        let outer = self.captures.take();
        let read = read();
        self.captures.replace(outer);
        read
    }

    /// Adds the named captures of a condition.
    pub(super) fn add_captures(&self, names: &[String]) {
        self.captures.borrow_mut().extend_from_slice(names);
    }
}

/// Reads a filter and records the names that it uses.
impl Setting for Jq {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let scope = Scope::from_cursor(value);
        scope.used.borrow_mut().add_jq(value.context.report, value.node);
        expressions::jq(value, &scope.captures.borrow())
    }
}

/// Reads a template and records the names that it uses.
impl Setting for Template {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let scope = Scope::from_cursor(value);
        let (names, captures) = (scope.names.borrow(), scope.captures.borrow());
        let all: Vec<&str> = names.iter().copied().chain(captures.iter().map(String::as_str)).collect();
        let template = expressions::template(value, &all)?;
        scope.used.borrow_mut().add_template(value.context.report, &template, value.node.span);
        Ok(template)
    }
}

/// Arguments and input responses that the parts of a request use, in order.
#[derive(Debug, Default)]
pub(crate) struct UsedArguments {
    pub(crate) arguments: Vec<ArgumentUse>,
    /// Whether an expression uses all arguments together.
    pub(crate) all: bool,
    /// Input responses used by name.
    pub(crate) answers: Vec<InputResponseUse>,
}

/// Use of an input response: its name, its position, and the target of the problem report.
#[derive(Debug, Clone)]
pub(crate) struct InputResponseUse {
    pub(crate) name: String,
    pub(crate) span: SourceSpan,
    pub(crate) context: Option<ProblemContext>,
}

/// Use of an argument.
#[derive(Debug)]
pub(crate) struct ArgumentUse {
    pub(crate) name: String,
    pub(crate) optional: bool,
    pub(crate) kind: ArgumentKind,
    pub(crate) span: SourceSpan,
    /// Position in a text of the request that fails without the argument.
    pub(crate) needed_at: Option<SourceSpan>,
    /// Target of the problem report, if the request is configured elsewhere.
    pub(crate) context: Option<ProblemContext>,
}

/// Type of an argument that no schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgumentKind {
    /// A string.
    Text,
    /// An integer that counts rows or pages; clients receive its next value.
    Count,
}

impl UsedArguments {
    /// Records an argument; one required use makes it required.
    pub(crate) fn add(&mut self, name: &str, optional: bool, span: SourceSpan) {
        match self.find(name) {
            Some(known) => known.optional &= optional,
            None => self.arguments.push(ArgumentUse {
                name: name.to_owned(),
                optional,
                kind: ArgumentKind::Text,
                span,
                needed_at: None,
                context: None,
            }),
        }
    }

    fn find(&mut self, name: &str) -> Option<&mut ArgumentUse> {
        self.arguments.iter_mut().find(|known| known.name == name)
    }

    /// Records that a text of the request fails without this argument, which has been added.
    pub(crate) fn set_needed(&mut self, name: &str, at: SourceSpan) {
        if let Some(known) = self.find(name) {
            known.needed_at.get_or_insert(at);
        }
    }

    fn add_input_response(&mut self, report: &Report<'_>, name: &str, span: SourceSpan) {
        let span = span_of_name(report, span, name);
        self.answers.push(InputResponseUse { name: name.to_owned(), span, context: None });
    }

    /// Records the arguments and input responses that a template names.
    pub(crate) fn add_template(&mut self, report: &Report<'_>, template: &Template, span: SourceSpan) {
        for path in &template.paths {
            if let ["input_responses", name, ..] = path.split('.').collect::<Vec<_>>()[..] {
                self.add_input_response(report, name, span);
            }
        }
        match arguments_of(template) {
            None => self.all = true,
            Some(arguments) => arguments
                .iter()
                .for_each(|(name, optional)| self.add(name, *optional, span_of_name(report, span, name))),
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

    /// Makes an argument optional: an input request asks the user for it.
    pub(crate) fn make_optional(&mut self, name: &str) {
        if let Some(known) = self.find(name) {
            (known.optional, known.needed_at) = (true, None);
        }
    }

    /// Records an argument that counts rows or pages; it is optional.
    pub(crate) fn add_count(&mut self, name: &str, span: SourceSpan) {
        self.add(name, true, span);
        self.find(name).into_iter().for_each(|known| known.kind = ArgumentKind::Count);
    }

    /// Records an argument of a rule; the request may be configured elsewhere.
    pub(crate) fn add_for(&mut self, argument: &ArgumentUse, context: Option<&ProblemContext>) {
        let known = self.has(&argument.name);
        self.add(&argument.name, argument.optional, argument.span);
        if let Some(added) = self.find(&argument.name) {
            if argument.kind == ArgumentKind::Count {
                added.kind = ArgumentKind::Count;
            }
            if !known {
                added.context = context.cloned();
            }
        }
    }

    /// Whether an argument is used, by name or as one of all.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.all || self.has(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument.name == name)
    }
}
