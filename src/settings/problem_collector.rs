//! Collector of the problems of one run (one parse of a configuration), so that all are reported together.

use std::{
    any::{Any, TypeId},
    cell::{Cell, RefCell},
    collections::{BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
    rc::Rc,
    time::SystemTime,
};

use super::{
    problem::{Problem, Problems, Severity},
    problem_code::{Code, CodedSpan},
    source_text::{Files, Origin, SourceSpan},
    tree::Node,
};

/// Collector of problems, and of other data that the parsers of one run share.
pub(crate) struct Report<'f> {
    files: &'f Files,
    /// Whether parsing has been cancelled.
    is_cancelled: Option<&'f dyn Fn() -> bool>,
    collected: Collected,
}

/// Problems and other data that the parsers of one run record.
#[derive(Default)]
struct Collected {
    problems: RefCell<Vec<Problem>>,
    /// Whether there were more problems than are reported.
    is_truncated: Cell<bool>,
    errors: Cell<usize>,
    context: RefCell<Option<ProblemContext>>,
    /// Problems already reported in a [`ProblemContext`], by file, offset and message, so that a mistake in
    /// shared rules is reported once and not for every route.
    reported: RefCell<HashSet<(usize, usize, String)>>,
    /// Caches of compiled values, one for each type of cache.
    caches: RefCell<HashMap<TypeId, Rc<dyn Any>>>,
    /// Files that the configuration refers to.
    referenced_files: RefCell<BTreeSet<PathBuf>>,
    /// Expiry of each parsed certificate, by the span of its setting.
    certificates: RefCell<Vec<(SourceSpan, SystemTime)>>,
}

/// Context of a problem in a shared part of the configuration, such as the named rules that a route uses.
#[derive(Debug, Clone)]
pub(crate) struct ProblemContext {
    /// Text appended to messages: "in the rules `report`, used by the route `get_report`".
    pub(crate) text: String,
    /// Span in the operator's file. A problem inside a built-in preset is reported at this span.
    pub(crate) at: SourceSpan,
}

/// Optional suggested fix.
#[derive(derive_more::From)]
#[from(String, Option<String>)]
pub(crate) struct Help(Option<String>);

impl<'f> Report<'f> {
    pub(crate) fn new(files: &'f Files) -> Self {
        Self { files, is_cancelled: None, collected: Collected::default() }
    }

    /// Stops parsing early once `is_cancelled` returns `true`.
    pub(crate) fn cancelled_by(self, is_cancelled: &'f dyn Fn() -> bool) -> Self {
        Self { is_cancelled: Some(is_cancelled), ..self }
    }

    /// Whether parsing was cancelled. Reports the cancellation as an error if there is no other error.
    pub(crate) fn is_cancelled(&self) -> bool {
        let is_cancelled = self.is_cancelled.is_some_and(|is_cancelled| is_cancelled());
        if is_cancelled && self.errors() == 0 {
            let message = "the check was stopped before the end, because it took too long";
            self.add(Problem::without_span(Code::Cancelled, "configuration", message, None));
        }
        is_cancelled
    }

    /// Span of the character at `index` of a string. If the file spells the string differently (escapes,
    /// folding): the span of the character's line or of the whole string.
    pub(crate) fn character_in(&self, node: &Node, text: &str, index: usize) -> SourceSpan {
        let offset = text.char_indices().nth(index).map_or(text.len(), |(offset, _)| offset);
        let span = node.span;
        match self.files.text(span)[span.start..span.end].find(text) {
            Some(text_start) => {
                let start = span.start + text_start + offset;
                let length = text[offset..].chars().next().map_or(0, char::len_utf8);
                SourceSpan { start, end: start + length, ..span }
            }
            None => self.line_in(node, text[..offset].matches('\n').count() + 1),
        }
    }

    /// Span of a line (counted from 1) of a literal block string; for other strings, the whole span.
    pub(crate) fn line_in(&self, node: &Node, line: usize) -> SourceSpan {
        let span = node.span;
        if !node.is_literal {
            return span;
        }
        // The span of a block may begin at its `|`, which is one line above its first line.
        let header_lines = usize::from(self.files.text(span)[span.start..].starts_with('|'));
        self.files.line_below(span, line - 1 + header_lines).unwrap_or(span)
    }

    /// Returns the cache of type `T` that all parsers of this run share, such as the compiled patterns.
    pub(crate) fn cache<T: Default + 'static>(&self) -> Rc<T> {
        let mut caches = self.collected.caches.borrow_mut();
        let cache = caches.entry(TypeId::of::<T>()).or_insert_with(|| Rc::new(T::default()));
        Rc::clone(cache).downcast().unwrap_or_default()
    }

    /// Records a file that the configuration refers to, whether or not it can be read. Ignores relative
    /// paths.
    pub(crate) fn add_referenced_file(&self, path: &Path) {
        if path.is_absolute() {
            self.collected.referenced_files.borrow_mut().insert(path.to_owned());
        }
    }

    /// All files that the configuration refers to.
    pub(crate) fn referenced_files(&self) -> Vec<PathBuf> {
        self.collected.referenced_files.borrow().iter().cloned().collect()
    }

    /// Records the expiry of the certificate at `span`, or in the file that the setting at `span` names.
    /// Ignores further calls for the same span.
    pub(crate) fn add_certificate(&self, span: SourceSpan, expiry: SystemTime) {
        let mut certificates = self.collected.certificates.borrow_mut();
        if certificates.iter().all(|(existing, _)| *existing != span) {
            certificates.push((span, expiry));
        }
    }

    /// Expiry of each parsed certificate, with the span of its setting.
    pub(crate) fn certificates(&self) -> Vec<(SourceSpan, SystemTime)> {
        self.collected.certificates.borrow().clone()
    }

    pub(crate) fn files(&self) -> &'f Files {
        self.files
    }

    /// Runs `read`, and appends `context` to the messages of its problems.
    pub(crate) fn in_context<T>(&self, context: Option<ProblemContext>, read: impl FnOnce() -> T) -> T {
        let outer_context = self.collected.context.replace(context);
        let result = read();
        self.collected.context.replace(outer_context);
        result
    }

    /// Adds the current context to a problem: returns the span and the message to report, or `None` if the
    /// same problem has been reported before, in any context.
    fn message_in_context(&self, span: SourceSpan, message: String) -> Option<(SourceSpan, String)> {
        let context = self.collected.context.borrow();
        let Some(context) = context.as_ref() else { return Some((span, message)) };
        // A built-in preset has no mistakes: the cause is in the arguments that the operator's file passes to
        // the preset.
        let is_built_in = self.files.origin(span) == Origin::BuiltIn;
        let span = if is_built_in { context.at } else { span };
        let in_context = format!("{message} ({})", context.text);
        self.collected
            .reported
            .borrow_mut()
            .insert((span.file, span.start, message))
            .then_some((span, in_context))
    }

    /// Reports an error, which makes the configuration unusable.
    pub(crate) fn error(&self, at: CodedSpan, message: impl Into<String>, help: impl Into<Help>) {
        self.collected.errors.set(self.collected.errors.get() + 1);
        self.add_at(Severity::Error, at, message.into(), help.into());
    }

    /// Reports an error about an unusable value, and returns `None`.
    pub(crate) fn reject<T>(
        &self,
        at: CodedSpan,
        message: impl Into<String>,
        help: impl Into<Help>,
    ) -> Option<T> {
        self.error(at, message, help);
        None
    }

    /// Rejects a value of the wrong type: "`tests` must be a list, found `x`".
    pub(crate) fn reject_type<T>(&self, node: &Node, requirement: &str, help: impl Into<Help>) -> Option<T> {
        let message = format!("{requirement}, found {}", node.describe());
        self.reject(Code::WrongType.at_span(node.span), message, help)
    }

    /// Reports a warning: the configuration loads, but probably does not do what was intended.
    pub(crate) fn warning(&self, at: CodedSpan, message: impl Into<String>, help: impl Into<Help>) {
        self.add_at(Severity::Warning, at, message.into(), help.into());
    }

    fn add_at(&self, severity: Severity, CodedSpan { code, span }: CodedSpan, message: String, help: Help) {
        let Some((span, message)) = self.message_in_context(span, message) else { return };
        // The limit bounds the output and the work for a file with thousands of problems.
        if self.collected.problems.borrow().len() < Problems::MAX_REPORTED {
            let mut problem = Problem::with_span(self.files, code.at_span(span), message, help.0);
            problem.severity = severity;
            self.collected.problems.borrow_mut().push(problem);
        } else {
            self.collected.is_truncated.set(true);
        }
    }

    /// Reports a problem without a span.
    pub(crate) fn add(&self, problem: Problem) {
        self.collected.errors.set(self.collected.errors.get() + usize::from(problem.is_error()));
        self.collected.problems.borrow_mut().push(problem);
    }

    /// Number of errors so far.
    pub(crate) fn errors(&self) -> usize {
        self.collected.errors.get()
    }

    /// `file:line` of a span, for messages that refer to a second location.
    pub(crate) fn file_and_line(&self, span: SourceSpan) -> String {
        format!("{}:{}", self.files.name(span), self.files.line_and_column(span).line)
    }

    /// Returns all problems, sorted by file and position. If some were omitted, an additional last problem
    /// says so.
    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let has_errors = self.errors() > 0;
        let mut problems = self.collected.problems.into_inner();
        // Within a file, problems without a position come first.
        problems.sort_by_cached_key(|problem| {
            (problem.file.clone(), problem.line, problem.column, problem.severity)
        });
        problems.dedup();
        if self.collected.is_truncated.get() {
            let message = format!("only the first {} problems are reported", problems.len());
            let help = Some("fix these first".to_owned());
            let severity = if has_errors { Severity::Error } else { Severity::Warning };
            let problem = Problem::without_span(Code::MoreProblems, "configuration", message, help);
            problems.push(Problem { severity, ..problem });
        }
        problems
    }
}

/// Parses one file with this text; returns the result and the problems.
#[cfg(test)]
pub(crate) fn reading<T>(text: &str, read: impl FnOnce(&Report<'_>) -> T) -> (T, Vec<Problem>) {
    let files = Files::from_text("a.yaml", text);
    let report = Report::new(&files);
    let result = read(&report);
    (result, report.into_problems())
}

impl From<&str> for Help {
    fn from(help: &str) -> Self {
        Self(Some(help.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_problem_mentions_that_others_are_omitted() {
        let warnings = |count: usize| {
            let warn = |report: &Report<'_>, index: usize| {
                let at = Code::InvalidValue.at_span(report.files().whole(0));
                report.warning(at, format!("number {index}"), "do better");
            };
            reading("a", |report| (0..count).for_each(|index| warn(report, index))).1
        };
        assert_eq!(warnings(Problems::MAX_REPORTED).len(), Problems::MAX_REPORTED);
        let problems = warnings(Problems::MAX_REPORTED + 1);
        let last = problems.last().unwrap();
        assert_eq!(last.message, "only the first 500 problems are reported");
        assert!(!last.is_error(), "a configuration with warnings alone loads");
    }
}
