//! Checks of process settings: `shared_state` against the settings that need it, or that it needs, and
//! timeouts against `server.shutdown_timeout`.

use std::time::Duration;

use crate::config::{
    code::Code,
    report::Report,
    routes::RouteFile,
    source::SourceSpan,
    tree::{Entry, Node},
    units,
};

/// Reports a missing `secret_key`, without which the data in the store could not be encrypted.
pub(in crate::config) fn report_missing_secret_key(report: &Report<'_>, shared_state: &Entry) {
    let message = "`shared_state` needs `server.secret_key`, which encrypts the stored data";
    let help = "write `server: { secret_key: \"${NAME}\" }`, the same on every replica; create one with `openssl rand -base64 32`";
    report.error(Code::SharedStateWithoutSecretKey.at_span(shared_state.key.span), message, help);
}

/// Warns of `on_store_failure` without a store.
pub(in crate::config) fn warn_of_on_store_failure(report: &Report<'_>, root: &Node) {
    let Some(entries) = root.as_map() else { return };
    for entry in entries {
        if matches!(entry.key.text.as_str(), "rate_limit" | "rate_limit_per_client")
            && let Some(limit) = entry.value.as_map()
            && let Some(direction) = limit.iter().find(|key| key.key.text == "on_store_failure")
        {
            let message =
                "`on_store_failure` has no effect without `shared_state`: each process has its own limits";
            report.warning(
                Code::OnStoreFailureWithoutStore.at_span(direction.key.span),
                message,
                "write `shared_state: redis://…`, or remove it",
            );
        }
    }
    for section in ["defaults", "upstreams", "routes"] {
        let Some(named) = root.get(section) else { continue };
        if section == "defaults" {
            warn_of_on_store_failure(report, named);
        } else {
            named
                .as_map()
                .unwrap_or_default()
                .iter()
                .for_each(|entry| warn_of_on_store_failure(report, &entry.value));
        }
    }
}

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
            "a call may take {timeout}, but `server.shutdown_timeout` is {waits}: a restart would end such \
             a call with an error"
        );
        let help = format!("write `shutdown_timeout: {timeout}` under `server`, or a shorter `timeout`");
        report.warning(Code::TimeoutBeyondShutdown.at_span(place), message, help);
    }
}
