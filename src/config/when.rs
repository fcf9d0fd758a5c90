//! `when` of sections that are read key by key.

use super::{node::Entry, report::Report, schemas::UsedArguments, section::read_in_scope};
use crate::translate::Matcher;

/// Reads `when`. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(report: &Report<'_>, entry: &Entry, used: &mut UsedArguments) -> Option<Matcher> {
    read_in_scope(report, entry, &[], used)
}
