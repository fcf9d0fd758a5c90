//! The names of meters where OpenTelemetry has its own (semantic conventions 1.41; those for MCP are still in
//! development).

use std::borrow::Cow;

use crate::telemetry::meters::{Family, Kind};

/// What a meter is called there.
pub(super) struct Named {
    pub(super) name: Cow<'static, str>,
    /// As UCUM has it.
    pub(super) unit: &'static str,
    /// What a label becomes.
    pub(super) label: fn(&'static str, &str) -> Attribute,
    /// Attributes that all its points have.
    pub(super) more: &'static [(&'static str, &'static str)],
}

/// What becomes of a label.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Attribute {
    Text(Cow<'static, str>, String),
    Number(&'static str, i64),
    /// It says nothing there.
    LeftOut,
    /// Points with it are not of this metric.
    NotOfThis,
}

/// All that a family is told as. Where there is a name that everybody knows, and it tells all that ours does, that is the
/// only one.
pub(super) fn named(family: &Family) -> Vec<Named> {
    let conventional =
        |name: &'static str, unit, label| vec![Named { name: name.into(), unit, label, more: &[] }];
    match family.name {
        "glossator_http_request_duration_seconds" => {
            conventional("http.server.request.duration", "s", http_label)
        }
        "glossator_call_duration_seconds" => vec![
            own(family),
            // By which way a call came through CGI is not told apart, so those are left out here.
            Named {
                name: "mcp.server.operation.duration".into(),
                unit: "s",
                label: mcp_label,
                more: &[("mcp.method.name", "tools/call"), ("gen_ai.operation.name", "execute_tool")],
            },
        ],
        "process_cpu_seconds" => conventional("process.cpu.time", "s", as_it_is),
        "process_resident_memory_bytes" => conventional("process.memory.usage", "By", as_it_is),
        "process_virtual_memory_bytes" => conventional("process.memory.virtual", "By", as_it_is),
        "process_threads" => conventional("process.thread.count", "{thread}", as_it_is),
        "process_open_fds" => {
            conventional("process.unix.file_descriptor.count", "{file_descriptor}", as_it_is)
        }
        // When each counter began is told with it.
        "process_start_time_seconds" => Vec::new(),
        _ => vec![own(family)],
    }
}

/// Such that whoever puts it into the words of Prometheus comes back to ours.
fn own(family: &Family) -> Named {
    let units = [("_seconds", "s"), ("_bytes", "By")];
    let found = units.into_iter().find_map(|(ending, unit)| Some((family.name.strip_suffix(ending)?, unit)));
    let (name, unit) = found.unwrap_or((family.name, if family.kind == Kind::Gauge { "" } else { "1" }));
    let unit = if unit == "1" { "" } else { unit };
    Named { name: name.replacen('_', ".", 1).into(), unit, label: own_label, more: &[] }
}

fn as_it_is(label: &'static str, value: &str) -> Attribute {
    Attribute::Text(label.into(), value.to_owned())
}

fn own_label(label: &'static str, value: &str) -> Attribute {
    match label {
        "tool" => Attribute::Text("gen_ai.tool.name".into(), value.to_owned()),
        "protocol" if value.is_empty() => Attribute::LeftOut,
        "protocol" => Attribute::Text("mcp.protocol.version".into(), value.to_owned()),
        "fault" if value.is_empty() => Attribute::LeftOut,
        label => Attribute::Text(format!("glossator.{label}").into(), value.to_owned()),
    }
}

fn http_label(label: &'static str, value: &str) -> Attribute {
    let text = |key: &'static str| Attribute::Text(key.into(), value.to_owned());
    match label {
        "scheme" => text("url.scheme"),
        "method" => text("http.request.method"),
        "status" => match value.parse() {
            Ok(status) => Attribute::Number("http.response.status_code", status),
            Err(_) => Attribute::LeftOut,
        },
        label => as_it_is(label, value),
    }
}

fn mcp_label(label: &'static str, value: &str) -> Attribute {
    let text = |key: &'static str, value: &str| Attribute::Text(key.into(), value.to_owned());
    match (label, value) {
        ("tool", tool) => text("gen_ai.tool.name", tool),
        ("face", "mcp") => text("network.transport", "tcp"),
        ("face", "stdio") => text("network.transport", "pipe"),
        ("face", _) => Attribute::NotOfThis,
        ("outcome", "success" | "task") => Attribute::LeftOut,
        ("outcome", "error") => text("error.type", "tool_error"),
        ("outcome", outcome) => text("error.type", outcome),
        (label, value) => as_it_is(label, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::meters::Reading;

    #[test]
    fn our_own_names_come_back_to_what_prometheus_calls_them() {
        let mut reading = Reading::default();
        for (name, expected) in [
            ("glossator_calls", ("glossator.calls", "")),
            ("glossator_upstream_duration_seconds", ("glossator.upstream_duration", "s")),
            ("glossator_cache_limit_bytes", ("glossator.cache_limit", "By")),
        ] {
            let named = own(reading.counter(name, ""));
            assert_eq!((&*named.name, named.unit), expected);
        }
    }

    #[test]
    fn a_call_that_is_none_of_mcp_is_not_told_as_one() {
        assert_eq!(mcp_label("face", "rest"), Attribute::NotOfThis);
        assert_eq!(mcp_label("face", "stdio"), Attribute::Text("network.transport".into(), "pipe".into()));
        assert_eq!(mcp_label("outcome", "error"), Attribute::Text("error.type".into(), "tool_error".into()));
    }
}
