//! Collects the problems of one run, so that all of them are told at once.

use std::{
    any::{Any, TypeId},
    cell::{Cell, RefCell},
    collections::{BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
    rc::Rc,
    time::SystemTime,
};

use super::{
    code::{Code, CodedSpan},
    problem::{self, Problem, Problems, Severity},
    source::{Files, Span},
    tree::{Kind, Node, Style},
};

/// Collector of the problems of one run.
pub(crate) struct Report<'f> {
    files: &'f Files,
    found: RefCell<Vec<Problem>>,
    errors: Cell<usize>,
    context: RefCell<Option<Context>>,
    /// What was told in some context, so that it is not told again for every route.
    told: RefCell<HashSet<(usize, usize, String)>>,
    /// Caches of what was compiled in this run, one of each type.
    caches: RefCell<HashMap<TypeId, Rc<dyn Any>>>,
    /// Whether the reading is to end before its time.
    is_cancelled: Option<&'f dyn Fn() -> bool>,
    /// The files that the configuration names.
    named: RefCell<BTreeSet<PathBuf>>,
    /// When the certificates expire that were read, by their places.
    certificates: RefCell<Vec<(Span, SystemTime)>>,
}

/// For whom something is read that stands elsewhere, such as named rules for a route.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// What a message adds: "in the rules `report`, used by the route `get_report`".
    pub(crate) words: String,
    /// The place in the operator's own file, for what stands in none of them.
    pub(crate) at: Span,
}

/// A way out, or none.
pub(crate) struct Help(Option<String>);

impl<'f> Report<'f> {
    pub(crate) fn new(files: &'f Files) -> Self {
        Self {
            files,
            found: RefCell::default(),
            errors: Cell::default(),
            context: RefCell::default(),
            told: RefCell::default(),
            caches: RefCell::default(),
            is_cancelled: None,
            named: RefCell::default(),
            certificates: RefCell::default(),
        }
    }

    /// The same, ended early when `is_cancelled` says so.
    pub(crate) fn until(self, is_cancelled: &'f dyn Fn() -> bool) -> Self {
        Self { is_cancelled: Some(is_cancelled), ..self }
    }

    /// Whether the reading was cancelled: then nothing more is read, and that is a problem like any other.
    pub(crate) fn is_stopped(&self) -> bool {
        let is_stopped = self.is_cancelled.is_some_and(|is_cancelled| is_cancelled());
        if is_stopped && self.errors() == 0 {
            self.add(Problem::of_whole(
                Code::Cancelled,
                "configuration",
                "it was not read to its end, which took too long",
                None,
            ));
        }
        is_stopped
    }

    /// Place of a character of a text; its line, or the whole text, where the file spells it another way.
    pub(crate) fn character_in(&self, node: &Node, text: &str, index: usize) -> Span {
        let offset = text.char_indices().nth(index).map_or(text.len(), |(offset, _)| offset);
        let span = node.span;
        match self.files.text(span)[span.start..span.end].find(text) {
            Some(begin) => {
                let start = span.start + begin + offset;
                let length = text[offset..].chars().next().map_or(0, char::len_utf8);
                Span { start, end: start + length, ..span }
            }
            None => self.line_in(node, text[..offset].matches('\n').count() + 1),
        }
    }

    /// Place of a line of a text, from 1, where the file has it line by line; else of the whole text.
    pub(crate) fn line_in(&self, node: &Node, line: usize) -> Span {
        let span = node.span;
        if !matches!(&node.kind, Kind::Text(text) if text.style == Style::Literal) {
            return span;
        }
        // Some parsers place a block at its `|`, which is a line above its first.
        let before = usize::from(self.files.text(span)[span.start..].starts_with('|'));
        self.files.line_below(span, line - 1 + before).unwrap_or(span)
    }

    /// Cache of this run for values of one type, such as compiled patterns.
    pub(crate) fn cache<T: Default + 'static>(&self) -> Rc<T> {
        let mut caches = self.caches.borrow_mut();
        let cache = caches.entry(TypeId::of::<T>()).or_insert_with(|| Rc::new(T::default()));
        Rc::clone(cache).downcast().unwrap_or_default()
    }

    /// The configuration names a file, whether or not it can be read.
    pub(crate) fn names_file(&self, path: &Path) {
        self.named.borrow_mut().insert(path.to_owned());
    }

    /// Every file that it names.
    pub(crate) fn named_files(&self) -> Vec<PathBuf> {
        self.named.borrow().iter().cloned().collect()
    }

    /// Certificates stand there, or in a file that is named there. They may be read more than once.
    pub(crate) fn certificates_at(&self, span: Span, expiry: SystemTime) {
        let mut certificates = self.certificates.borrow_mut();
        if certificates.iter().all(|(known, _)| *known != span) {
            certificates.push((span, expiry));
        }
    }

    /// When the certificates expire that were read, by their places.
    pub(crate) fn certificates(&self) -> Vec<(Span, SystemTime)> {
        self.certificates.borrow().clone()
    }

    pub(crate) fn files(&self) -> &'f Files {
        self.files
    }

    /// Reads something on behalf of somebody: problems say so.
    pub(crate) fn within<T>(&self, context: Option<Context>, read: impl FnOnce() -> T) -> T {
        let before = self.context.replace(context);
        let found = read();
        self.context.replace(before);
        found
    }

    /// Where and how a problem is told; `None` when it has been told for somebody else already.
    fn told(&self, span: Span, message: String) -> Option<(Span, String)> {
        let context = self.context.borrow();
        let Some(context) = context.as_ref() else { return Some((span, message)) };
        // What is built in is right by itself; what was given to it is not.
        let span = if self.files.is_built_in(span) { context.at } else { span };
        let words = format!("{message} ({})", context.words);
        self.told.borrow_mut().insert((span.file, span.start, message)).then_some((span, words))
    }

    /// Something that makes the configuration unusable.
    pub(crate) fn error(&self, at: impl Into<CodedSpan>, message: impl Into<String>, help: impl Into<Help>) {
        let CodedSpan { code, span } = at.into();
        self.errors.set(self.errors.get() + 1);
        if let Some((span, message)) = self.told(span, message.into()).filter(|_| self.has_room()) {
            self.found.borrow_mut().push(Problem::at(self.files, code.at(span), message, help.into().0));
        }
    }

    /// Something that works, but not as its writer thinks.
    pub(crate) fn warning(
        &self,
        at: impl Into<CodedSpan>,
        message: impl Into<String>,
        help: impl Into<Help>,
    ) {
        let CodedSpan { code, span } = at.into();
        if let Some((span, message)) = self.told(span, message.into()).filter(|_| self.has_room()) {
            let mut problem = Problem::at(self.files, code.at(span), message, help.into().0);
            problem.severity = Severity::Warning;
            self.found.borrow_mut().push(problem);
        }
    }

    /// A problem that stands in no file.
    pub(crate) fn add(&self, problem: Problem) {
        self.errors.set(self.errors.get() + usize::from(problem.is_error()));
        self.found.borrow_mut().push(problem);
    }

    /// A file that is wrong ten thousand times is told of often enough.
    fn has_room(&self) -> bool {
        self.found.borrow().len() < Problems::MAX_TOLD
    }

    /// How many errors there are so far.
    pub(crate) fn errors(&self) -> usize {
        self.errors.get()
    }

    /// `file:line` of a span, to speak of a second place.
    pub(crate) fn place(&self, span: Span) -> String {
        format!("{}:{}", self.files.name(span), self.files.place(span).line)
    }

    /// What was found; where that is a part of all, the last says so.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let mut found = self.found.into_inner();
        problem::sort(&mut found);
        if found.len() >= Problems::MAX_TOLD {
            let message = format!("there may be more than these {} problems", found.len());
            found.push(Problem::of_whole(
                Code::MoreProblems,
                "configuration",
                message,
                Some("mend these first".to_owned()),
            ));
        }
        found
    }
}

/// What comes of reading one file of this text, and the problems with it.
#[cfg(test)]
pub(crate) fn reading<T>(text: &str, read: impl FnOnce(&Report<'_>) -> T) -> (T, Vec<Problem>) {
    let files = Files::of_one("a.yaml", text);
    let report = Report::new(&files);
    let found = read(&report);
    (found, report.into_problems())
}

impl From<&str> for Help {
    fn from(help: &str) -> Self {
        Self(Some(help.to_owned()))
    }
}

impl From<String> for Help {
    fn from(help: String) -> Self {
        Self(Some(help))
    }
}

impl From<Option<String>> for Help {
    fn from(help: Option<String>) -> Self {
        Self(help)
    }
}
