//! `notifications` of a route: log notifications that are sent to clients during a call.

use super::{
    schemas::UsedArguments,
    section::{cursor, in_scope},
    tree::Kind,
};
use crate::settings::code::Code;
use crate::{
    route::LogLine,
    settings::{
        keys::ValueKind,
        section::{OpenSection, Setting},
    },
};

/// Kinds of values that `notifications` accepts.
pub(super) const KIND: ValueKind = <Vec<LogLine>>::KIND;

/// Parses `notifications`. Returns `None` after reporting the problems.
pub(super) fn read(route: &OpenSection<'_>, used: &mut UsedArguments) -> Option<Vec<LogLine>> {
    let report = route.value.context.report;
    let Some(entry) = route.entry("notifications") else { return Some(Vec::new()) };
    if !matches!(entry.value.kind, Kind::List(_)) {
        let message =
            format!("`notifications` must be a list of notifications, found {}", entry.value.found());
        let help = "write `notifications: [{ level: info, text: \"weather of {{ args.city }} requested\" }]`";
        report.error(Code::WrongType.at_span(entry.value.span), message, help);
        return None;
    }
    let value = cursor(report, entry.key.span, &entry.value, "`notifications`", KIND);
    in_scope(&LogLine::NAMES, used, |scope| Vec::read(&value.in_scope(scope)))
}
