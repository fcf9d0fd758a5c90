//! Parser of a single configuration file. It marks the secrets in the file, so that no message contains them.

use super::compile::FileSettings;
use super::secret_masking::{Secrets, for_each_scalar};
use crate::settings::credential_forms::has_private_key;
use crate::settings::{Files, Node, Problems, Report, Setting as _, ValueKind, tree};

/// Parses one file. Returns `None`, after reporting a problem, if it is invalid or empty.
pub(super) fn read(report: &Report<'_>, file: usize) -> Option<Node> {
    read_as(report, file, FileSettings::KIND)
}

/// Like [`read`], for a file whose content is not a whole configuration.
pub(super) fn read_as(report: &Report<'_>, file: usize, kind: ValueKind) -> Option<Node> {
    let mut root = tree::read(report, file)?;
    let mut secrets = Secrets::default();
    secrets.mark(&mut root, &[kind], false);
    // Values with a private key are secrets. Detection in single lines would find only the first line of the
    // key.
    for_each_scalar(&mut root, &mut |node| {
        if node.as_text().is_some_and(has_private_key) {
            secrets.hide(node);
        }
    });
    report.files().mask(file, secrets.ranges);
    Some(root)
}

/// Runs a parser on `files` and returns its result.
///
/// # Errors
///
/// All problems, if the parser reports an error.
pub(super) fn parsed<T>(files: &Files, read: impl FnOnce(&Report<'_>) -> Option<T>) -> Result<T, Problems> {
    let report = Report::new(files);
    match read(&report) {
        Some(value) if report.errors() == 0 => Ok(value),
        _ => Err(Problems::from_list(report.into_problems())),
    }
}
