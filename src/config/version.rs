//! `version`: version of the configuration language.

use super::{
    code::Code,
    report::Report,
    tree::{Kind, Node},
};

/// Name of the key.
pub(super) const KEY: &str = "version";
/// Supported version. It is incremented when the meaning of existing files changes.
pub(super) const VERSION: u64 = 1;

/// Rejects files of another version before any other check, because their keys may be valid in that version.
/// Returns `None` after reporting one.
pub(super) fn check(report: &Report<'_>, trees: &[Node]) -> Option<()> {
    let before = report.errors();
    for node in trees.iter().filter_map(|tree| tree.get(KEY)) {
        match &node.kind {
            Kind::Number(text) if text.parse() == Ok(VERSION) => {}
            Kind::Number(text) if text.parse::<u64>().is_ok_and(|version| version > VERSION) => {
                let message =
                    format!("version {text} is not supported; this program supports version {VERSION}");
                let help = "install a newer glossator; the rest of this file has not been checked";
                report.error(Code::UnsupportedVersion.at_span(node.span), message, help);
            }
            Kind::Null
            | Kind::Boolean(_)
            | Kind::Number(_)
            | Kind::Text(_)
            | Kind::List(_)
            | Kind::Map(_) => {
                let message = format!("`version` must be {VERSION}, found {}", node.found());
                report.error(
                    Code::UnsupportedVersion.at_span(node.span),
                    message,
                    format!("write `version: {VERSION}`, or remove it"),
                );
            }
        }
    }
    (report.errors() == before).then_some(())
}
