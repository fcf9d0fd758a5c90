//! `notifications` of a route: log notifications that are sent to clients during a call.

use super::{schemas::UsedArguments, section::read_in_scope};
use crate::route::LogLine;
use crate::settings::{OpenSection, Setting, ValueKind};

/// Kinds of values that `notifications` accepts.
pub(super) const KIND: ValueKind = <Vec<LogLine>>::KIND;

/// Parses `notifications`. Returns `None` after reporting the problems.
pub(super) fn read(route: &OpenSection<'_>, used: &mut UsedArguments) -> Option<Vec<LogLine>> {
    let report = route.value.context.report;
    let Some(entry) = route.entry("notifications") else { return Some(Vec::new()) };
    if entry.value.as_list().is_none() {
        let help = "write `notifications: [{ level: info, text: \"weather of {{ args.city }} requested\" }]`";
        return report.reject_type(&entry.value, "`notifications` must be a list of notifications", help);
    }
    read_in_scope(report, entry, &LogLine::NAMES, used)
}
