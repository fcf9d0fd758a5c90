//! `telemetry`: export of traces and metrics. The standard `OTEL_*` variables override the file. One with an
//! unsupported value is ignored with a warning, as the OpenTelemetry specification requires.

#[cfg(test)]
mod tests;
mod variables;

use std::time::Duration;

use self::variables::OtelVariables;
use crate::settings::{
    Checked, Code, Cursor, Invalid, Named, OpenSection, OrOff, Problem, Scalar, Section, ValueKind, text_of,
};
use crate::telemetry::{SamplerName, Sampling, ServiceAttributes};
use crate::tls::{ClientTls, ClientTlsOptions, Pem};
use crate::upstream::http::{Address, HttpSettings};
use http::HeaderMap;

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;

/// Section `telemetry`: the signals to export, and their collector.
#[derive(Debug, Clone, PartialEq, Section)]
#[section(id = "telemetry", process, variables, check = Self::complete)]
pub struct TelemetrySettings {
    /// OTLP/HTTP endpoint of the collector: `http://collector:4318`. `/v1/traces` and `/v1/metrics` are
    /// appended.
    #[key(with = read_endpoint, shown = "nothing is sent", restart)]
    endpoint: Option<String>,
    /// Headers sent with every request; `${NAME}` and `file:/path` keep secrets out of the file.
    #[key(restart)]
    headers: HeaderMap,
    /// Trusted CAs and the client certificate, for an `https://` endpoint.
    #[key(restart)]
    tls: Option<ClientTls>,
    /// Sampler of traces, or `off`.
    #[key(
        name = "traces",
        default = SamplerName::ParentBasedAlwaysOn,
        shown = "`parentbased_always_on`: the client's sampling decision applies; all other traces are sampled",
        restart
    )]
    sampler: SamplerName,
    /// Share of traces that are sampled, if `traces` ends in `traceidratio`.
    #[key(default = 1.0, restart)]
    sampling_ratio: f64,
    /// Export interval of metrics, or `off`.
    #[key(
        kind = ValueKind::Either(&[ValueKind::Word(&["off"]), ValueKind::Duration(SECOND, HOUR)]),
        default = OrOff::On(Duration::from_secs(60)),
        restart
    )]
    metrics_interval: OrOff<Duration>,
    /// Name of this service (`service.name`).
    #[key(shown = "`glossator`", restart)]
    service_name: Option<String>,
    /// Further resource attributes, such as `deployment.environment.name`.
    #[key(restart)]
    resource_attributes: Named<Scalar>,
    /// Timeout of a request to the collector.
    #[key(range = 100..=HOUR, default = Duration::from_secs(10), restart)]
    pub timeout: Duration,
    /// Trusted CAs from an `OTEL_*` variable, which replace `tls`.
    #[key(skip, name = "tls", restart)]
    trusted_cas: Option<Vec<u8>>,
    /// Name and attributes of this service, from the file and the variables.
    #[key(skip = ServiceAttributes::new(None, []))]
    pub service: ServiceAttributes,
    /// Export of traces, from the file and the variables.
    #[key(skip)]
    pub traces: Option<TracesExport>,
    /// Export of metrics, from the file and the variables.
    #[key(skip)]
    pub metrics: Option<MetricsExport>,
}

/// Export of traces.
#[derive(Debug, Clone, PartialEq)]
pub struct TracesExport {
    /// Collector.
    pub collector: HttpSettings,
    /// Sampling of traces.
    pub sampling: Sampling,
    /// Maximum delay of a span before its batch is sent.
    pub delay: Duration,
}

/// Export of metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsExport {
    /// Collector.
    pub collector: HttpSettings,
    /// Export interval.
    pub interval: Duration,
}

/// Parses the base URL of a collector.
fn read_endpoint(value: &Cursor<'_>) -> Checked<Option<String>> {
    let text = text_of(value)?;
    address_of(text).map(|_| Some(text.to_owned())).or_else(|invalid| value.reject(invalid))
}

fn address_of(url: &str) -> Result<Address, Invalid> {
    url.parse().map_err(|error| {
        Invalid::without_value(format!("the endpoint is {error}"), "write `http://collector:4318`")
    })
}

impl TelemetrySettings {
    /// Applies the `OTEL_*` variables to the settings.
    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        if let Some(entry) = section.entry("sampling_ratio").filter(|_| !self.sampler.takes_ratio()) {
            let message = "`sampling_ratio` has no effect with this sampler";
            let help = "write `traces: parentbased_traceidratio`, or remove it";
            return Err(section.reject_at(Code::RequiresKey.at_span(entry.key.span), message, help));
        }
        let context = section.value.context;
        let variables = OtelVariables { report: context.report, environment: context.environment };
        self.trusted_cas = variables.trusted_cas();
        let before = context.report.errors();
        (self.traces, self.metrics) = (self.traces_export(&variables), self.metrics_export(&variables));
        if context.report.errors() > before {
            return Err(section.reported());
        }
        self.service = variables.service(self.service_name.clone(), &self.resource_attributes);
        self.timeout = variables.millis("OTEL_EXPORTER_OTLP_TIMEOUT").unwrap_or(self.timeout);
        let is_named = self.traces.is_some() || self.metrics.is_some() || self.endpoint.is_some();
        let wanted = section.entry("traces").or_else(|| section.entry("metrics_interval"));
        if let Some(entry) = wanted.filter(|_| !is_named && !variables.is_off()) {
            let message = "`telemetry` has no `endpoint`, so nothing is exported";
            let help = "write `endpoint: http://collector:4318`, or set `OTEL_EXPORTER_OTLP_ENDPOINT`";
            return Err(section.reject_at(Code::RequiresKey.at_span(entry.key.span), message, help));
        }
        Ok(self)
    }

    fn traces_export(&self, variables: &OtelVariables<'_, '_>) -> Option<TracesExport> {
        if variables.exporter_is_off("OTEL_TRACES_EXPORTER") {
            return None;
        }
        let sampling = variables.sampling().or_else(|| self.sampler.sampling(self.sampling_ratio))?;
        let collector = self.collector(variables, "TRACES", "/v1/traces")?;
        let delay = variables.millis("OTEL_BSP_SCHEDULE_DELAY").unwrap_or(Duration::from_secs(5));
        Some(TracesExport { collector, sampling, delay })
    }

    fn metrics_export(&self, variables: &OtelVariables<'_, '_>) -> Option<MetricsExport> {
        if variables.exporter_is_off("OTEL_METRICS_EXPORTER") {
            return None;
        }
        let interval = variables.millis("OTEL_METRIC_EXPORT_INTERVAL").or(self.metrics_interval.on())?;
        let collector = self.collector(variables, "METRICS", "/v1/metrics")?;
        Some(MetricsExport { collector, interval: interval.max(Duration::from_millis(100)) })
    }

    /// Collector of one signal; `None` if there is none, or after reporting a problem with it.
    fn collector(&self, variables: &OtelVariables<'_, '_>, signal: &str, path: &str) -> Option<HttpSettings> {
        const EVERY_SIGNAL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        if variables.is_off() {
            return None;
        }
        let own = format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT");
        let with_path = |base: &str| format!("{}{path}", base.trim_end_matches('/'));
        let (setting, url) = match (variables.get(&own), variables.get(EVERY_SIGNAL)) {
            (Some(url), _) => (own.as_str(), url.to_owned()),
            (None, Some(base)) => (EVERY_SIGNAL, with_path(base)),
            (None, None) => ("telemetry", with_path(self.endpoint.as_ref()?)),
        };
        variables.check_protocol();
        let reject = |message: String, help: &str| {
            let help = Some(help.to_owned());
            variables.report.add(Problem::without_span(Code::InvalidAddress, setting, message, help));
        };
        let wrong = |invalid: Invalid| reject(invalid.message, &invalid.help.unwrap_or_default());
        let address = address_of(&url).map_err(wrong).ok()?;
        let tls = match (address.is_tls(), &self.tls, &self.trusted_cas) {
            (false, ..) => None,
            (true, Some(tls), None) => Some(tls.clone()),
            (true, _, trusted_cas) => {
                let ca = trusted_cas.clone().map(Pem);
                let tls = ClientTls::new(ClientTlsOptions { ca, ..ClientTlsOptions::default() });
                let help = "install `ca-certificates`, or configure trusted CAs with `tls.ca`";
                tls.map_err(|error| reject(error.to_string(), help)).ok()
            }
        };
        let name = "telemetry".parse().expect("it is a name");
        let mut headers = self.headers.clone();
        headers.extend(variables.headers("OTEL_EXPORTER_OTLP_HEADERS"));
        headers.extend(variables.headers(&format!("OTEL_EXPORTER_OTLP_{signal}_HEADERS")));
        Some(HttpSettings { tls, headers, ..HttpSettings::new(name, address) })
    }
}
