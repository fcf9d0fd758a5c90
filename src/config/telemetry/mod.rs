//! `telemetry`: where traces and metrics are sent. The variables that every program with OpenTelemetry knows go before the
//! file; one that says nothing we know is passed over with a warning, as its specification wants.

#[cfg(test)]
mod tests;
mod variables;

use std::time::Duration;

use http::HeaderMap;

use self::variables::Variables;
use super::{
    node::{Kind, Node},
    problem::Problem,
    report::Report,
    secret::{self, Environment},
    section::{Section, measure_text},
    units,
    upstreams::{self, scalar},
};
use crate::{
    telemetry::{Sampling, Service},
    tls::{ClientTls, ClientTlsOptions, Trust},
    upstream::http::{Address, HttpSettings},
};

/// What is sent to a collector, and where.
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetryFile {
    /// Traces, where they are sent.
    pub traces: Option<TracesFile>,
    /// Metrics, where they are.
    pub metrics: Option<MetricsFile>,
    /// What we are called there.
    pub service: Service,
    /// How long the collector may take to answer.
    pub timeout: Duration,
}

/// How traces are sent.
#[derive(Debug, Clone, PartialEq)]
pub struct TracesFile {
    /// Where to.
    pub to: HttpSettings,
    /// Which of them.
    pub sampling: Sampling,
    /// How long spans wait for others to be sent with.
    pub delay: Duration,
}

/// How metrics are sent.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsFile {
    /// Where to.
    pub to: HttpSettings,
    /// How often.
    pub interval: Duration,
}

const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
const INTERVAL_DEFAULT: Duration = Duration::from_secs(60);
const DELAY_DEFAULT: Duration = Duration::from_secs(5);

/// What the file says, as far as it says something.
#[derive(Default)]
struct Written {
    endpoint: Option<String>,
    headers: HeaderMap,
    tls: Option<ClientTls>,
    traces: Option<Sent<Sampling>>,
    ratio: Option<f64>,
    metrics: Option<Sent<Duration>>,
    service: Option<String>,
    attributes: Vec<(String, String)>,
    timeout: Option<Duration>,
}

/// Whether something is sent, and how.
#[derive(Clone, Copy)]
enum Sent<T> {
    Off,
    So(T),
}

/// Reads it. `None` when something is wrong with it; that has been reported then.
pub(super) fn read(
    report: &Report<'_>,
    environment: &Environment,
    section: Option<&Section<'_, '_>>,
) -> Option<TelemetryFile> {
    let before = report.errors();
    let written = section.map(|section| written(section, environment)).unwrap_or_default();
    let variables = Variables { report, environment };
    let named = Named { report, section, variables: &variables };
    let (traces, metrics) = (named.traces(&written), named.metrics(&written));
    let service = variables.service(&written);
    let timeout = variables.millis("OTEL_EXPORTER_OTLP_TIMEOUT");
    let timeout = timeout.or(written.timeout).unwrap_or(TIMEOUT_DEFAULT);
    let is_named = traces.is_some() || metrics.is_some() || written.endpoint.is_some() || variables.is_off();
    let wanted =
        section.and_then(|section| section.entry("traces").or_else(|| section.entry("metrics_interval")));
    if let (Some(entry), false) = (wanted, is_named || report.errors() > before) {
        let help = "write `endpoint: http://collector:4318`, or set `OTEL_EXPORTER_OTLP_ENDPOINT`";
        report.error(entry.key.span, "nothing is sent: there is no `endpoint`", help);
    }
    (report.errors() == before).then_some(TelemetryFile { traces, metrics, service, timeout })
}

fn written(section: &Section<'_, '_>, environment: &Environment) -> Written {
    let report = section.report;
    let text = |name| {
        let (node, text) = section.text_node(name)?;
        secret::expand(report, environment, node.span, text).map(|expanded| expanded.text)
    };
    let mut attributes = Vec::new();
    for entry in section.map("resource_attributes").unwrap_or_default() {
        let value = scalar(report, &entry.value, &format!("the attribute `{}`", entry.key.text));
        let value = value.and_then(|value| secret::expand(report, environment, entry.value.span, &value));
        attributes.extend(value.map(|value| (entry.key.text.clone(), value.text)));
    }
    let tls = section.section("tls", &super::keys::TLS);
    let written = Written {
        endpoint: text("endpoint"),
        headers: upstreams::http::headers(section, environment),
        tls: tls.and_then(|section| upstreams::tls::read(&section, environment)),
        traces: section.word("traces").map(|word| word.parse().map_or(Sent::Off, Sent::So)),
        ratio: section.get("sampling_ratio").and_then(|node| ratio(report, node)),
        metrics: section.get("metrics_interval").and_then(|node| interval(report, node)),
        service: text("service_name"),
        attributes,
        timeout: section.duration("timeout"),
    };
    let takes_ratio = section.get("traces").and_then(Node::as_text).is_some_and(Sampling::takes_ratio);
    if let (Some(entry), false) = (section.entry("sampling_ratio"), takes_ratio) {
        let help = "write `traces: parentbased_traceidratio` beside it";
        report.error(entry.key.span, "`sampling_ratio` means nothing with these `traces`", help);
    }
    written
}

fn interval(report: &Report<'_>, node: &Node) -> Option<Sent<Duration>> {
    if node.as_text() == Some("off") {
        return Some(Sent::Off);
    }
    match units::duration_within(&measure_text(node), 1_000, 3_600_000) {
        Ok(interval) => Some(Sent::So(interval)),
        Err(error) => {
            report.error(node.span, error.message, error.help);
            None
        }
    }
}

fn ratio(report: &Report<'_>, node: &Node) -> Option<f64> {
    let number = match &node.kind {
        Kind::Number(text) => text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number)),
        Kind::Nothing | Kind::Flag(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => None,
    };
    if number.is_none() {
        let message = format!("`sampling_ratio` is a number from 0 to 1, found {}", node.found());
        report.error(node.span, message, "write `0.1` for one trace of ten");
    }
    number
}

/// Where things are sent, by what the file and the variables say together.
struct Named<'a, 'r, 's, 'n> {
    report: &'a Report<'r>,
    section: Option<&'a Section<'s, 'n>>,
    variables: &'a Variables<'a, 'r>,
}

impl Named<'_, '_, '_, '_> {
    fn traces(&self, written: &Written) -> Option<TracesFile> {
        let (variables, sent) =
            (self.variables, written.traces.unwrap_or_else(|| Sent::So(Sampling::default())));
        if variables.exporter_is_off("OTEL_TRACES_EXPORTER") {
            return None;
        }
        let sampling = match (variables.sampling(), sent) {
            (Some(sampling), _) => sampling,
            (None, Sent::So(sampling)) => match written.ratio {
                Some(ratio) => sampling.with_ratio(ratio),
                None => sampling,
            },
            (None, Sent::Off) => return None,
        };
        let to = self.collector(written, "TRACES", "/v1/traces")?;
        let delay = variables.millis("OTEL_BSP_SCHEDULE_DELAY").unwrap_or(DELAY_DEFAULT);
        Some(TracesFile { to, sampling, delay })
    }

    fn metrics(&self, written: &Written) -> Option<MetricsFile> {
        let variables = self.variables;
        if variables.exporter_is_off("OTEL_METRICS_EXPORTER") {
            return None;
        }
        let interval = match (variables.millis("OTEL_METRIC_EXPORT_INTERVAL"), written.metrics) {
            (Some(interval), _) | (None, Some(Sent::So(interval))) => {
                interval.max(Duration::from_millis(100))
            }
            (None, None) => INTERVAL_DEFAULT,
            (None, Some(Sent::Off)) => return None,
        };
        let to = self.collector(written, "METRICS", "/v1/metrics")?;
        Some(MetricsFile { to, interval })
    }

    /// Where one kind is sent; `None` where nobody says so.
    fn collector(&self, written: &Written, signal: &str, path: &str) -> Option<HttpSettings> {
        let variables = self.variables;
        if variables.is_off() {
            return None;
        }
        let own = format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT");
        let with_path = |base: &str| format!("{}{path}", base.trim_end_matches('/'));
        let (by, url) = match (variables.get(&own), variables.get("OTEL_EXPORTER_OTLP_ENDPOINT")) {
            (Some(url), _) => (Some(own.as_str()), url.to_owned()),
            (None, Some(base)) => (Some("OTEL_EXPORTER_OTLP_ENDPOINT"), with_path(base)),
            (None, None) => (None, with_path(written.endpoint.as_deref()?)),
        };
        variables.check_protocol();
        let refuse = |message: String, help: &str| match (
            by,
            self.section.and_then(|section| section.get("endpoint")),
        ) {
            (None, Some(node)) => self.report.error(node.span, message, help),
            (by, _) => {
                self.report.add(Problem::of_whole(by.unwrap_or("telemetry"), message, Some(help.into())));
            }
        };
        let address: Address = match url.parse() {
            Ok(address) => address,
            Err(error) => {
                refuse(format!("the endpoint is {error}"), "write `http://collector:4318`");
                return None;
            }
        };
        let tls = match (address.is_tls(), &written.tls, variables.roots()) {
            (false, _, _) => None,
            (true, _, Some(pem)) => {
                self.tls(ClientTlsOptions { trust: Trust::Roots(pem), ..Default::default() }, &refuse)
            }
            (true, Some(tls), None) => Some(tls.clone()),
            (true, None, None) => self.tls(ClientTlsOptions::default(), &refuse),
        };
        let name = "telemetry".parse().expect("it is a name");
        let mut headers = written.headers.clone();
        headers.extend(variables.headers("OTEL_EXPORTER_OTLP_HEADERS"));
        headers.extend(variables.headers(&format!("OTEL_EXPORTER_OTLP_{signal}_HEADERS")));
        Some(HttpSettings { tls, headers, ..HttpSettings::new(name, address) })
    }

    fn tls(&self, options: ClientTlsOptions, refuse: &dyn Fn(String, &str)) -> Option<ClientTls> {
        ClientTls::new(options)
            .map_err(|error| {
                refuse(error.to_string(), "install `ca-certificates`, or name the roots with `tls`")
            })
            .ok()
    }
}
