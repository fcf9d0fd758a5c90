//! What the expressions of a part of the file may use, and what they have used.

use std::cell::RefCell;

use super::{
    Jq, Template,
    expressions::{self, arguments_of, words_in},
};
use crate::settings::{
    keys::ValueKind,
    report::{Context, Report},
    section::{Checked, Cursor, Setting},
    source::Span,
    tree::Node,
};

/// What the filters and templates of a value may use; it comes to them with their [`Cursor`].
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Names that templates may use.
    names: RefCell<Vec<&'static str>>,
    /// Named captures of the conditions so far, which filters and templates may use.
    captures: RefCell<Vec<String>>,
    /// What they have used.
    pub(crate) used: RefCell<Asked>,
}

impl Scope {
    /// The scope of a value.
    pub(crate) fn of<'a>(value: &Cursor<'a>) -> &'a Self {
        let scope = value.context.scope.and_then(|scope| scope.downcast_ref());
        scope.expect("who reads a section with expressions gives it a scope")
    }

    /// Reads something in which templates may use these names.
    pub(crate) fn with_names<T>(&self, names: &[&'static str], read: impl FnOnce() -> T) -> T {
        let outer = self.names.replace(names.to_vec());
        let read = read();
        self.names.replace(outer);
        read
    }

    /// The same with these names beside those that they may use anyway.
    pub(crate) fn with_also<T>(&self, names: &[&'static str], read: impl FnOnce() -> T) -> T {
        let all = [self.names.borrow().as_slice(), names].concat();
        self.with_names(&all, read)
    }

    /// Reads a template with every name that it may use.
    pub(crate) fn template<T>(&self, read: impl FnOnce(&[&str]) -> T) -> T {
        let (names, captures) = (self.names.borrow(), self.captures.borrow());
        let all: Vec<&str> = names.iter().copied().chain(captures.iter().map(String::as_str)).collect();
        read(&all)
    }

    /// Reads something whose captures are not seen outside.
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

/// A filter in its scope.
impl Setting for Jq {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let scope = Scope::of(value);
        scope.used.borrow_mut().add_jq(value.context.report, value.node);
        expressions::jq(value, &scope.captures.borrow())
    }
}

/// A template in its scope.
impl Setting for Template {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        let scope = Scope::of(value);
        let template = scope.template(|names| expressions::template(value, names))?;
        scope.used.borrow_mut().add_template(value.context.report, &template, value.node.span);
        Ok(template)
    }
}

/// What the parts of a request ask of the arguments, in order.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) arguments: Vec<AskedArgument>,
    /// Whether something takes all arguments together.
    pub(crate) all: bool,
    /// The answers that something names.
    pub(crate) answers: Vec<AskedAnswer>,
}

/// The name of an input response, its position and its target.
#[derive(Debug, Clone)]
pub(crate) struct AskedAnswer {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) context: Option<Context>,
}

/// One argument that a request names.
#[derive(Debug)]
pub(crate) struct AskedArgument {
    pub(crate) name: String,
    pub(crate) optional: bool,
    pub(crate) kind: ArgumentKind,
    pub(crate) span: Span,
    /// Target of the input request, where it is configured elsewhere.
    pub(crate) context: Option<Context>,
}

/// What an argument is, where no schema says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgumentKind {
    /// A text.
    Text,
    /// An integer that counts rows or pages; clients receive its next value.
    Count,
}

impl Asked {
    /// Notes an argument; who needs it once needs it always.
    pub(crate) fn add(&mut self, name: &str, optional: bool, span: Span) {
        match self.arguments.iter_mut().find(|known| known.name == name) {
            Some(known) => known.optional &= optional,
            None => self.arguments.push(AskedArgument {
                name: name.to_owned(),
                optional,
                kind: ArgumentKind::Text,
                span,
                context: None,
            }),
        }
    }

    /// Notes the answers that a template names.
    pub(crate) fn add_answers(&mut self, report: &Report<'_>, template: &Template, span: Span) {
        for path in template.paths() {
            if let ["input_responses", name, ..] = path.split('.').collect::<Vec<_>>()[..] {
                self.add_answer(report, name, span);
            }
        }
    }

    /// The same of a filter.
    pub(crate) fn add_answers_of_jq(&mut self, report: &Report<'_>, span: Span, filter: &str) {
        for rest in filter.split("$input_responses.").skip(1) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            self.add_answer(report, &rest[..end], span);
        }
    }

    fn add_answer(&mut self, report: &Report<'_>, name: &str, span: Span) {
        let span = words_in(report, span, name);
        self.answers.push(AskedAnswer { name: name.to_owned(), span, context: None });
    }

    /// Notes the arguments and answers that a template names.
    pub(crate) fn add_template(&mut self, report: &Report<'_>, template: &Template, span: Span) {
        self.add_answers(report, template, span);
        match arguments_of(template) {
            None => self.all = true,
            Some(arguments) => arguments
                .iter()
                .for_each(|(name, optional)| self.add(name, *optional, words_in(report, span, name))),
        }
    }

    /// Notes the arguments and answers that a filter names; one that sees the arguments may use any of them.
    pub(crate) fn add_jq(&mut self, report: &Report<'_>, filter: &Node) {
        let text = filter.as_text().unwrap_or_default();
        self.all |= text.contains("$args");
        self.add_answers_of_jq(report, filter.span, text);
    }

    /// Makes an argument optional: an input request asks the user for it.
    pub(crate) fn may_be_left_out(&mut self, name: &str) {
        let known = self.arguments.iter_mut().filter(|known| known.name == name);
        known.for_each(|known| known.optional = true);
    }

    /// Records an argument that counts rows or pages; it is optional.
    pub(crate) fn add_count(&mut self, name: &str, span: Span) {
        self.add(name, true, span);
        self.set_count(name);
    }

    fn set_count(&mut self, name: &str) {
        let known = self.arguments.iter_mut().filter(|known| known.name == name);
        known.for_each(|known| known.kind = ArgumentKind::Count);
    }

    /// Records an argument of a rule; the request that needs it may be elsewhere.
    pub(crate) fn add_for(&mut self, argument: &AskedArgument, context: Option<&Context>) {
        let known = self.has(&argument.name);
        self.add(&argument.name, argument.optional, argument.span);
        if argument.kind == ArgumentKind::Count {
            self.set_count(&argument.name);
        }
        if let Some(added) = self.arguments.last_mut().filter(|_| !known) {
            added.context = context.cloned();
        }
    }

    /// Whether an argument is used, by its name or with all of them.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.all || self.has(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.arguments.iter().any(|argument| argument.name == name)
    }
}
