//! `notifications` of a route: log notifications that are sent to clients during a call.

use super::{code::Code, keys::LOG_LINE, language, node::Kind, schemas::UsedArguments, section::Section};
use crate::route::{LogLine, McpLogLevel};

/// Reads `notifications`. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(route: &Section<'_, '_>, used: &mut UsedArguments) -> Option<Vec<LogLine>> {
    let report = route.report;
    let Some(entry) = route.entry("notifications") else { return Some(Vec::new()) };
    let Kind::List(items) = &entry.value.kind else {
        let message = format!("`notifications` is a list of lines, found {}", entry.value.found());
        report.error(
            Code::WrongType.at(entry.value.span),
            message,
            "write `notifications: [{ level: info, text: \"asked for {{ args.city }}\" }]`",
        );
        return None;
    };
    let lines: Vec<Option<LogLine>> = items
        .iter()
        .map(|item| {
            let section = Section::open(report, item.span, item, &LOG_LINE)?;
            let level = match section.get("level") {
                Some(_) => section.word("level")?.parse().ok()?,
                None => McpLogLevel::Info,
            };
            let node = section.required("text", "write `text: \"asked for {{ args.city }}\"`")?;
            let text = language::template(report, node, "`text`", &LogLine::NAMES)?;
            used.add_template(report, &text, node.span);
            Some(LogLine { level, text })
        })
        .collect();
    lines.into_iter().collect()
}
