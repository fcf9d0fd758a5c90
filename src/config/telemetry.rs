//! `telemetry`: export of traces and metrics. The `OTEL_*` variables override the file. A variable with an
//! unsupported value is ignored with a warning, as OpenTelemetry requires; an invalid endpoint is an error.

use std::{fmt::Display, path::Path, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use crate::settings::suggest::{quoted, quoted_list};
use crate::settings::{
    Checked, Code, Cursor, EnumSetting as _, Invalid, Named, OpenSection, OrOff, Problem, ReadContext,
    Scalar, Section, Severity, expansion, source_text, text_of,
};
use crate::telemetry::{Resource, SamplerName, Sampling, service_resource};
use crate::tls::{ClientTls, ClientTlsOptions, Pem};
use crate::upstream::http::{Address, HttpSettings};

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
    #[key(default = 1.0, example = "0.1", restart)]
    sampling_ratio: f64,
    /// Export interval of metrics, or `off`.
    #[key(
        kind = ValueKind::Either(&[ValueKind::Enum(&["off"]), ValueKind::Duration(SECOND, HOUR)]),
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
    /// Trusted CAs from `OTEL_EXPORTER_OTLP_CERTIFICATE`, which replace `tls`.
    #[key(skip, name = "tls", restart)]
    trusted_cas: Option<Vec<u8>>,
    /// Name and attributes of this service, from the file and the variables.
    #[key(skip = service_resource(None, []))]
    pub service: Resource,
    /// Export of traces, from the file and the variables.
    #[key(skip)]
    pub traces: Option<TracesExport>,
    /// Export of metrics, from the file and the variables.
    #[key(skip)]
    pub metrics: Option<MetricsExport>,
}

/// Settings for the export of traces.
#[derive(Debug, Clone, PartialEq)]
pub struct TracesExport {
    /// Connection to the collector.
    pub collector: HttpSettings,
    /// Sampler of traces.
    pub sampling: Sampling,
    /// Maximum delay of a span before its batch is sent.
    pub delay: Duration,
}

/// Settings for the export of metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsExport {
    /// Connection to the collector.
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
        Invalid::without_value(format!("the endpoint {error}"), "write `http://collector:4318`")
    })
}

impl TelemetrySettings {
    /// Applies the `OTEL_*` variables to the settings of the file.
    fn complete(mut self, section: &OpenSection<'_>) -> Checked<Self> {
        section.check_valid(&["traces", "endpoint"])?;
        if let Some(entry) = section.entry("sampling_ratio").filter(|_| !self.sampler.takes_ratio()) {
            let message = "`sampling_ratio` has no effect with this sampler";
            let help = "write `traces: parentbased_traceidratio`, or remove it";
            return Err(section.reject_at(Code::RequiresKey.at_span(entry.key.span), message, help));
        }
        if let Some(entry) = section.entry("tls").filter(|_| self.is_plain(section)) {
            let message = "`tls` has no effect: `endpoint` is not `https://`";
            let help = "write an endpoint with `https://`, or remove `tls`";
            return Err(section.reject_at(Code::TlsWithoutHttps.at_span(entry.key.span), message, help));
        }
        let context = section.value.context;
        let variables = OtelVariables { context };
        self.trusted_cas = variables.trusted_cas();
        let before = context.report.errors();
        (self.traces, self.metrics) = (self.traces_export(&variables), self.metrics_export(&variables));
        if context.report.errors() > before {
            // Errors of both exports have already been reported.
            return section.value.checked(None);
        }
        self.service = variables.service(self.service_name.clone(), &self.resource_attributes);
        self.timeout = variables.millis("OTEL_EXPORTER_OTLP_TIMEOUT").unwrap_or(self.timeout);
        let has_endpoint = self.traces.is_some()
            || self.metrics.is_some()
            || self.endpoint.is_some()
            || variables.get("OTEL_EXPORTER_OTLP_ENDPOINT").is_some();
        let traces = section.entry("traces").filter(|_| self.sampler != SamplerName::Off);
        let configured_export = traces
            .or_else(|| section.entry("metrics_interval").filter(|_| self.metrics_interval.on().is_some()));
        if let Some(entry) = configured_export.filter(|_| !has_endpoint && !variables.is_off()) {
            let message = "`telemetry` has no `endpoint`, so nothing is exported";
            let help = "write `endpoint: http://collector:4318`, or set `OTEL_EXPORTER_OTLP_ENDPOINT`";
            return Err(section.reject_at(Code::RequiresKey.at_span(entry.key.span), message, help));
        }
        Ok(self)
    }

    /// Whether the endpoint is without TLS, and no variable overrides it.
    fn is_plain(&self, section: &OpenSection<'_>) -> bool {
        const OVERRIDES: [&str; 3] = [
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        ];
        let variables = OtelVariables { context: section.value.context };
        let is_plain = |url: &String| address_of(url).is_ok_and(|address| !address.is_tls());
        self.endpoint.as_ref().is_some_and(is_plain)
            && OVERRIDES.iter().all(|name| variables.get(name).is_none())
    }

    fn traces_export(&self, variables: &OtelVariables<'_>) -> Option<TracesExport> {
        let sampling = variables.sampling().or_else(|| self.sampler.sampling(self.sampling_ratio))?;
        let collector = self.collector(variables, "TRACES", "/v1/traces")?;
        let delay = variables.millis("OTEL_BSP_SCHEDULE_DELAY").unwrap_or(Duration::from_secs(5));
        Some(TracesExport { collector, sampling, delay })
    }

    fn metrics_export(&self, variables: &OtelVariables<'_>) -> Option<MetricsExport> {
        let interval =
            variables.millis("OTEL_METRIC_EXPORT_INTERVAL").or_else(|| self.metrics_interval.on())?;
        let collector = self.collector(variables, "METRICS", "/v1/metrics")?;
        Some(MetricsExport { collector, interval: interval.max(Duration::from_millis(100)) })
    }

    /// Returns the connection to the collector of a signal; `None` if the signal is not exported, or after
    /// reporting a problem.
    fn collector(&self, variables: &OtelVariables<'_>, signal: &str, path: &str) -> Option<HttpSettings> {
        const EVERY_SIGNAL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
        if variables.is_off() || variables.is_exporter_off(&format!("OTEL_{signal}_EXPORTER")) {
            return None;
        }
        let signal_variable = format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT");
        let with_path = |base: &str| format!("{}{path}", base.trim_end_matches('/'));
        let (setting, url) = match (variables.get(&signal_variable), variables.get(EVERY_SIGNAL)) {
            (Some(url), _) => (signal_variable.as_str(), url.to_owned()),
            (None, Some(base)) => (EVERY_SIGNAL, with_path(base)),
            (None, None) => ("telemetry", with_path(self.endpoint.as_ref()?)),
        };
        variables.check_protocol();
        let reject = |message: String, help: &str| {
            let help = Some(help.to_owned());
            variables.context.report.add(Problem::without_span(Code::InvalidAddress, setting, message, help));
        };
        let reject_invalid = |invalid: Invalid| reject(invalid.message, &invalid.help.unwrap_or_default());
        let address = address_of(&url).map_err(reject_invalid).ok()?;
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
        let name = "telemetry".parse().expect("`telemetry` is a valid upstream name");
        let mut headers = self.headers.clone();
        headers.extend(variables.headers("OTEL_EXPORTER_OTLP_HEADERS"));
        headers.extend(variables.headers(&format!("OTEL_EXPORTER_OTLP_{signal}_HEADERS")));
        Some(HttpSettings { tls, headers, ..HttpSettings::new(name, address) })
    }
}

/// Reader of the standard `OTEL_*` variables.
struct OtelVariables<'a> {
    context: ReadContext<'a>,
}

impl<'a> OtelVariables<'a> {
    /// Returns the value of a variable. An empty variable is treated as unset (OpenTelemetry, "Environment
    /// Variable Specification").
    fn get(&self, name: &str) -> Option<&'a str> {
        self.context.environment.get(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// Warns of a value that is ignored. `what` is the quoted value, or a description if the value may be a
    /// secret.
    fn warn_of_ignored(&self, name: &str, what: impl Display, reason: &str, help: &str) {
        let (message, help) = (format!("{what} is ignored: {reason}"), Some(help.to_owned()));
        let mut problem = Problem::without_span(Code::UnsupportedVariable, name, message, help);
        problem.severity = Severity::Warning;
        self.context.report.add(problem);
    }

    fn is_off(&self) -> bool {
        self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn is_exporter_off(&self, name: &str) -> bool {
        match self.get(name) {
            None | Some("otlp") => false,
            Some("none") => true,
            Some(other) => {
                let reason = "only `otlp` and `none` are supported";
                let help = "write `otlp` or `none`; the admin API also serves metrics at `/metrics`";
                self.warn_of_ignored(name, quoted(other), reason, help);
                false
            }
        }
    }

    fn check_protocol(&self) {
        let name = "OTEL_EXPORTER_OTLP_PROTOCOL";
        if let Some(other) = self.get(name).filter(|protocol| *protocol != "http/protobuf") {
            let reason = "only OTLP over HTTP with protobuf is supported";
            let help = "write `http/protobuf`, and use the collector's port for it, usually 4318";
            self.warn_of_ignored(name, quoted(other), reason, help);
        }
    }

    fn sampling(&self) -> Option<Sampling> {
        let (name, argument) = ("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG");
        let word = self.get(name)?;
        let samplers = || SamplerName::VALUES.iter().filter(|(_, name)| *name != SamplerName::Off);
        let Some((_, sampler)) = samplers().find(|(known, _)| *known == word) else {
            let help = format!("write one of {}", quoted_list(samplers().map(|(known, _)| known)));
            self.warn_of_ignored(name, quoted(word), "it is not a supported sampler", &help);
            return None;
        };
        let text = self.get(argument).filter(|_| sampler.takes_ratio());
        let ratio = text.and_then(|text| text.parse().ok()).filter(|ratio| (0.0..=1.0).contains(ratio));
        if let (Some(text), None) = (text, ratio) {
            let reason = "it is not a number from 0 to 1";
            self.warn_of_ignored(argument, quoted(text), reason, "write `0.1` to sample 10 %");
        }
        sampler.sampling(ratio.unwrap_or(1.0))
    }

    fn millis(&self, name: &str) -> Option<Duration> {
        let text = self.get(name)?;
        let millis = text.parse().ok().filter(|millis| *millis > 0).map(Duration::from_millis);
        if millis.is_none() {
            let reason = "it is not a number of milliseconds";
            self.warn_of_ignored(name, quoted(text), reason, "write `5000` for 5 s");
        }
        millis
    }

    fn warn_of_part(&self, name: &str, reason: &str) {
        self.warn_of_ignored(name, "part of it", reason, "write `key=value,key=value`");
    }

    /// Parses `key=value,key=value` with percent-encoding, as in the `baggage` header.
    fn pairs(&self, name: &str) -> Vec<(String, String)> {
        let decoded = |value: &str| percent_decode_str(value.trim()).decode_utf8().ok().map(String::from);
        let pair = |pair: &str| {
            let parsed = pair.split_once('=').and_then(|(key, text)| Some((decoded(key)?, decoded(text)?)));
            let pair = parsed.filter(|(key, _)| !key.is_empty());
            if pair.is_none() {
                self.warn_of_part(name, "it does not have the form `key=value`");
            }
            pair
        };
        let parts = self.get(name).unwrap_or_default().split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).filter_map(pair).collect()
    }

    fn headers(&self, name: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (key, value) in self.pairs(name) {
            match (key.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
                (Ok(key), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.insert(key, value);
                }
                _ => self.warn_of_part(name, "it is not a valid header"),
            }
        }
        headers
    }

    /// Returns the PEM certificates in the file that the variable refers to.
    fn trusted_cas(&self) -> Option<Vec<u8>> {
        let name = "OTEL_EXPORTER_OTLP_CERTIFICATE";
        let path = self.get(name)?;
        self.context.report.add_referenced_file(Path::new(path));
        let warn = |reason: String| {
            let help = "name a PEM file, which begins with `-----BEGIN CERTIFICATE-----`";
            self.warn_of_ignored(name, "it", &format!("the file `{path}` {reason}"), help);
        };
        source_text::read_file(Path::new(path), expansion::SECRET_LIMIT_BYTES).map_err(warn).ok()
    }

    fn service(&self, configured_name: Option<String>, attributes: &Named<Scalar>) -> Resource {
        let variable_attributes = self.pairs("OTEL_RESOURCE_ATTRIBUTES");
        let name = self.get("OTEL_SERVICE_NAME").map(str::to_owned);
        // A service name from a variable overrides the file, like every variable.
        let name_attribute =
            variable_attributes.iter().find(|(key, _)| key == "service.name").map(|(_, name)| name.clone());
        let in_file = attributes.0.iter().map(|(name, Scalar(value))| (name.clone(), value.clone()));
        service_resource(name.or(name_attribute).or(configured_name), in_file.chain(variable_attributes))
    }
}
