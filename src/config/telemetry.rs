//! `telemetry`: where traces and metrics are sent. The variables that every program with OpenTelemetry knows go before the
//! file; one that says nothing we know is passed over with a warning, as its specification wants.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::{
    node::{Kind, Node},
    problem::{Problem, Severity},
    report::Report,
    secret::{self, Environment},
    section::{Section, measure_text, read_duration},
    upstreams::{self, scalar},
};
use crate::{
    observe::{Sampling, Service},
    tls::{ClientTls, ClientTlsOptions, Trust},
    upstream::http::{Address, HttpSettings},
};

/// What is sent to a collector, and where.
#[derive(Debug, Clone)]
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
#[derive(Debug, Clone)]
pub struct TracesFile {
    /// Where to.
    pub to: HttpSettings,
    /// Which of them.
    pub sampling: Sampling,
    /// How long spans wait for others to be sent with.
    pub delay: Duration,
}

/// How metrics are sent.
#[derive(Debug, Clone)]
pub struct MetricsFile {
    /// Where to.
    pub to: HttpSettings,
    /// How often.
    pub interval: Duration,
}

const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
const INTERVAL_DEFAULT: Duration = Duration::from_secs(60);
const DELAY_DEFAULT: Duration = Duration::from_secs(5);

impl TelemetryFile {
    /// Whether these are the same as others, as far as can be told.
    pub fn is_certainly(&self, other: &Self) -> bool {
        let Self { traces, metrics, service, timeout } = self;
        let same_traces = match (traces, &other.traces) {
            (Some(one), Some(other)) => {
                one.to.is_certainly(&other.to) && one.sampling == other.sampling && one.delay == other.delay
            }
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let same_metrics = match (metrics, &other.metrics) {
            (Some(one), Some(other)) => one.to.is_certainly(&other.to) && one.interval == other.interval,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        same_traces && same_metrics && *service == other.service && *timeout == other.timeout
    }
}

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
    let wanted = section.and_then(|section| section.entry("traces").or_else(|| section.entry("metrics")));
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
    for entry in section.map("attributes").unwrap_or_default() {
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
        ratio: section.get("ratio").and_then(|node| ratio(report, node)),
        metrics: section.get("metrics").and_then(|node| interval(report, node)),
        service: text("service"),
        attributes,
        timeout: section.duration("timeout"),
    };
    let takes_ratio = section.get("traces").and_then(Node::as_text).is_some_and(Sampling::takes_ratio);
    if let (Some(entry), false) = (section.entry("ratio"), takes_ratio) {
        let help = "write `traces: parentbased_traceidratio` beside it";
        report.error(entry.key.span, "`ratio` means nothing with these `traces`", help);
    }
    written
}

fn interval(report: &Report<'_>, node: &Node) -> Option<Sent<Duration>> {
    if node.as_text() == Some("off") {
        return Some(Sent::Off);
    }
    match read_duration(&measure_text(node), 1_000, 3_600_000) {
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
        let message = format!("`ratio` is a number from 0 to 1, found {}", node.found());
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

/// The variables that OpenTelemetry has names for.
struct Variables<'a, 'r> {
    report: &'a Report<'r>,
    environment: &'a Environment,
}

impl<'a> Variables<'a, '_> {
    /// An empty one is as good as none (OpenTelemetry, "Environment Variable Specification").
    fn get(&self, name: &str) -> Option<&'a str> {
        self.environment.get(name).map(str::trim).filter(|value| !value.is_empty())
    }

    fn pass_over(&self, name: &str, message: impl Into<String>, help: &str) {
        let mut problem = Problem::of_whole(name, message, Some(help.to_owned()));
        problem.severity = Severity::Warning;
        self.report.add(problem);
    }

    fn is_off(&self) -> bool {
        self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn exporter_is_off(&self, name: &str) -> bool {
        match self.get(name) {
            None | Some("otlp") => false,
            Some("none") => true,
            Some(other) => {
                let message = format!("`{other}` is passed over: there is only `otlp`, and `none`");
                self.pass_over(
                    name,
                    message,
                    "write `otlp` or `none`; metrics are at `/metrics` of the operators' port as well",
                );
                false
            }
        }
    }

    fn check_protocol(&self) {
        let name = "OTEL_EXPORTER_OTLP_PROTOCOL";
        if let Some(other) = self.get(name).filter(|protocol| *protocol != "http/protobuf") {
            let message = format!("`{other}` is passed over: OTLP is spoken over HTTP, in protobuf");
            self.pass_over(
                name,
                message,
                "write `http/protobuf`, and the collector's port for that, usually 4318",
            );
        }
    }

    fn sampling(&self) -> Option<Sampling> {
        let (name, argument) = ("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG");
        let word = self.get(name)?;
        let Ok(sampling) = word.parse::<Sampling>() else {
            let message = format!("`{word}` is passed over: it is no sampler that is known here");
            self.pass_over(name, message, &format!("write one of `{}`", Sampling::WORDS.join("`, `")));
            return None;
        };
        if !Sampling::takes_ratio(word) {
            return Some(sampling);
        }
        let Some(text) = self.get(argument) else { return Some(sampling) };
        let ratio = text.parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        if ratio.is_none() {
            let message = format!("`{text}` is passed over: it is no number from 0 to 1");
            self.pass_over(argument, message, "write `0.1` for one trace of ten");
        }
        Some(sampling.with_ratio(ratio.unwrap_or(1.0)))
    }

    fn millis(&self, name: &str) -> Option<Duration> {
        let text = self.get(name)?;
        let millis = text.parse().ok().filter(|millis| *millis > 0).map(Duration::from_millis);
        if millis.is_none() {
            let message = format!("`{text}` is passed over: it is no number of milliseconds");
            self.pass_over(name, message, "write `5000` for five seconds");
        }
        millis
    }

    /// `key=value,key=value`, percent-encoded as `baggage` is.
    fn pairs(&self, name: &str) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for pair in
            self.get(name).unwrap_or_default().split(',').map(str::trim).filter(|pair| !pair.is_empty())
        {
            let value = |value: &str| percent_decode_str(value.trim()).decode_utf8().ok().map(String::from);
            let read = pair.split_once('=').and_then(|(key, text)| Some((value(key)?, value(text)?)));
            match read.filter(|(key, _)| !key.is_empty()) {
                Some(pair) => pairs.push(pair),
                // A header may be a secret, so what is wrong is not shown.
                None => self.pass_over(
                    name,
                    "a part of it is passed over: it is no `key=value`",
                    "write `key=value,key=value`",
                ),
            }
        }
        pairs
    }

    fn headers(&self, name: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (key, value) in self.pairs(name) {
            match (key.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
                (Ok(key), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.insert(key, value);
                }
                _ => self.pass_over(
                    name,
                    "a part of it is passed over: it is no header",
                    "write `key=value,key=value`",
                ),
            }
        }
        headers
    }

    fn roots(&self) -> Option<Vec<u8>> {
        let name = "OTEL_EXPORTER_OTLP_CERTIFICATE";
        let path = self.get(name)?;
        match std::fs::read(path) {
            Ok(pem) => Some(pem),
            Err(error) => {
                self.pass_over(name, format!("it is passed over: {error}"), "name a file of roots in PEM");
                None
            }
        }
    }

    fn service(&self, written: &Written) -> Service {
        let mut more = self.pairs("OTEL_RESOURCE_ATTRIBUTES");
        let name = self.get("OTEL_SERVICE_NAME").map(str::to_owned);
        // What a variable says of the name goes before what the file says, as everything does.
        let named = more.iter().find(|(key, _)| key == "service.name").map(|(_, name)| name.clone());
        let name = name.or(named).or_else(|| written.service.clone());
        more.extend(written.attributes.iter().cloned());
        Service::new(name, more)
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        config::{Environment, Loaded, Problems, Sources, load},
        observe::Sampling,
    };

    fn loaded(telemetry: &str, variables: &[(&str, &str)]) -> Result<Loaded, Problems> {
        let text = format!(
            "{telemetry}\nupstreams: {{ a: 'http://a.test' }}\nroutes: {{ x: {{ description: X., request: GET a/x }} }}\n"
        );
        let mut sources = Sources::of_text("a.yaml", text);
        sources.environment =
            variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect::<Environment>();
        load(&sources)
    }

    fn good(telemetry: &str, variables: &[(&str, &str)]) -> Loaded {
        loaded(telemetry, variables).unwrap_or_else(|problems| panic!("{problems}"))
    }

    const FILE: &str =
        "telemetry: { endpoint: 'http://file.test:4318', traces: always_on, metrics: 10s, service: file }";
    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://variable.test:4318/");

    #[test]
    fn nothing_is_sent_unless_somebody_says_where() {
        let telemetry = good("", &[("OTEL_TRACES_SAMPLER", "always_on")]).telemetry;
        assert!(telemetry.traces.is_none() && telemetry.metrics.is_none());
        for (file, variables) in [
            ("telemetry: { endpoint: 'http://c.test', traces: off, metrics: off }", vec![]),
            (FILE, vec![("OTEL_SDK_DISABLED", "true")]),
            (FILE, vec![("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")]),
        ] {
            let telemetry = good(file, &variables).telemetry;
            assert!(telemetry.traces.is_none() && telemetry.metrics.is_none(), "{file}");
        }
    }

    #[test]
    fn variables_go_before_the_file() {
        let telemetry = good(FILE, &[]).telemetry;
        let (traces, metrics) = (telemetry.traces.unwrap(), telemetry.metrics.unwrap());
        assert_eq!(traces.to.address.to_string(), "http://file.test:4318/v1/traces");
        assert_eq!(traces.sampling, Sampling { by_parent: false, ratio: 1.0 });
        assert_eq!(metrics.interval.as_secs(), 10);
        let variables = [
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m.test/x"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_SERVICE_NAME", "variable"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%20c, x-d = e"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500"),
        ];
        let telemetry = good(FILE, &variables).telemetry;
        let (traces, metrics) = (telemetry.traces.unwrap(), telemetry.metrics.unwrap());
        assert_eq!(traces.to.address.to_string(), "http://variable.test:4318/v1/traces");
        assert_eq!(metrics.to.address.to_string(), "http://m.test/x");
        assert_eq!(traces.sampling, Sampling { by_parent: true, ratio: 0.25 });
        assert_eq!(
            (&traces.to.headers["a"], &traces.to.headers["x-d"]),
            (&"b c".parse().unwrap(), &"e".parse().unwrap())
        );
        assert_eq!(telemetry.timeout.as_millis(), 1500);
        assert!(telemetry.service.attributes().contains(&("service.name".into(), "variable".into())));
    }

    #[test]
    fn a_variable_that_says_nothing_we_know_is_passed_over_with_a_warning() {
        for (name, value) in [
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_TRACES_EXPORTER", "console"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
            ("OTEL_RESOURCE_ATTRIBUTES", "nothing"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c"),
        ] {
            let loaded = good("", &[ENDPOINT, (name, value)]);
            assert!(loaded.telemetry.traces.is_some(), "{name}");
            assert!(
                loaded.warnings.iter().any(|warning| warning.file == name),
                "{name}: {:?}",
                loaded.warnings
            );
        }
    }

    #[test]
    fn a_file_that_is_wrong_is_told_where() {
        for (telemetry, words) in [
            ("telemetry: { endpoint: 'collector:4318' }", "endpoint"),
            ("telemetry: { endpoint: 'http://c.test', ratio: 0.5 }", "`ratio` means nothing"),
            ("telemetry: { endpoint: 'http://c.test', traces: traceidratio, ratio: 2 }", "from 0 to 1"),
            ("telemetry: { endpoint: 'http://c.test', traces: sometimes }", "always_on"),
            ("telemetry: { endpoint: 'http://c.test', metrics: 1ms }", "1s"),
            ("telemetry: { traces: always_on }", "nothing is sent"),
        ] {
            let problems = loaded(telemetry, &[]).expect_err(telemetry).to_string();
            assert!(problems.contains(words), "{problems}");
        }
        let problems =
            loaded("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")]).unwrap_err().to_string();
        assert!(problems.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{problems}");
    }
}
