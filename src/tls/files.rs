//! The files that certificates and keys are read from, and whether they have changed since.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// A file as it looked just before it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    path: PathBuf,
    look: Option<Look>,
}

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    changed: Option<SystemTime>,
    length: u64,
}

impl SourceFile {
    /// This file as it is now.
    pub fn now(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let look = look(&path);
        Self { path, look }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is another now. One that is gone is not: who renews it may take it away first.
    pub fn has_changed(&self) -> bool {
        look(&self.path).is_some_and(|now| Some(now) != self.look)
    }
}

fn look(path: &Path) -> Option<Look> {
    let about = fs::metadata(path).ok()?;
    Some(Look { changed: about.modified().ok(), length: about.len() })
}
