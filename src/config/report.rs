//! Collects the problems of one run, so that all of them are told at once.

use std::cell::RefCell;

use super::{
    problem::{Problem, Severity},
    source::{Files, Span},
};

/// Where every part of the room reports what it finds.
pub(super) struct Report<'f> {
    files: &'f Files,
    found: RefCell<Vec<Problem>>,
}

/// A way out, or none.
pub(super) struct Help(pub(super) Option<String>);

impl<'f> Report<'f> {
    pub(super) fn new(files: &'f Files) -> Self {
        Self { files, found: RefCell::default() }
    }

    pub(super) fn files(&self) -> &'f Files {
        self.files
    }

    /// Something that makes the configuration unusable.
    pub(super) fn error(&self, span: Span, message: impl Into<String>, help: impl Into<Help>) {
        self.add(Problem::at(self.files, span, message, help.into().0));
    }

    /// Something that works, but not as its writer thinks.
    pub(super) fn warning(&self, span: Span, message: impl Into<String>, help: impl Into<Help>) {
        let mut problem = Problem::at(self.files, span, message, help.into().0);
        problem.severity = Severity::Warning;
        self.add(problem);
    }

    /// A problem that stands in no file.
    pub(super) fn add(&self, problem: Problem) {
        let mut found = self.found.borrow_mut();
        // A file that is wrong a million times is told of often enough.
        if found.len() < 4 * super::Problems::MOST_TOLD {
            found.push(problem);
        }
    }

    /// How many errors there are so far.
    pub(super) fn errors(&self) -> usize {
        self.found.borrow().iter().filter(|problem| problem.is_error()).count()
    }

    /// `file:line` of a span, to speak of a second place.
    pub(super) fn place(&self, span: Span) -> String {
        format!("{}:{}", self.files.name(span), self.files.place(span).line)
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.found.into_inner()
    }
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
