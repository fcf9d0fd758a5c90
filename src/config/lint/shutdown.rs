//! Check of timeouts against `server.shutdown_timeout`.

use std::time::Duration;

use crate::config::{code::Code, report::Report, routes::RouteFile, source::SourceSpan, tree::Entry, units};

/// Warns of calls that may take longer than the process waits for them at shutdown.
pub(in crate::config) fn warn_of_long_timeouts(
    report: &Report<'_>,
    shutdown_timeout: Duration,
    routes: &[RouteFile],
    (written, upstreams): (&[Entry], &[Entry]),
    elsewhere: SourceSpan,
) {
    let deadline_of = |entries: &[Entry], name: &str| {
        let entry = entries.iter().find(|entry| entry.key.text == name);
        entry.and_then(|entry| entry.value.get("timeout")).map(|node| node.span)
    };
    let mut reported: Vec<SourceSpan> = Vec::new();
    for RouteFile { route, .. } in routes.iter().filter(|file| file.route.timeout > shutdown_timeout) {
        let place = deadline_of(written, route.definition.name.as_str())
            .or_else(|| deadline_of(upstreams, route.upstream.as_str()))
            .unwrap_or(elsewhere);
        if reported.contains(&place) {
            continue;
        }
        reported.push(place);
        let [timeout, waits] = [route.timeout, shutdown_timeout]
            .map(|time| units::format_duration(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)));
        let message = format!(
            "a call may take {timeout}, but `server.shutdown_timeout` is {waits}: a restart would end such a call with an error"
        );
        let help = format!("write `shutdown_timeout: {timeout}` under `server`, or a shorter `timeout`");
        report.warning(Code::TimeoutBeyondShutdown.at_span(place), message, help);
    }
}
