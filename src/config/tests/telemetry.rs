//! Tests of the export of traces and metrics by files and variables.

use crate::config::{Loaded, Sources, load};
use crate::settings::{Environment, Problems};
use crate::telemetry::Sampling;

fn loaded(telemetry: &str, variables: &[(&str, &str)]) -> Result<Loaded, Problems> {
    let text = format!(
        "{telemetry}\nupstreams: {{ a: 'http://a.test' }}\nroutes: {{ x: {{ description: X., request: GET a/x }} }}\n"
    );
    let mut sources = Sources::from_text("a.yaml", text);
    sources.environment =
        Environment(variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect());
    load(&sources)
}

fn load_valid(telemetry: &str, variables: &[(&str, &str)]) -> Loaded {
    loaded(telemetry, variables).unwrap_or_else(|problems| panic!("{problems}"))
}

const FILE: &str = "telemetry: { endpoint: 'http://file.test:4318', traces: always_on, metrics_interval: 10s, service_name: file }";
const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://variable.test:4318/");

#[test]
fn nothing_is_exported_without_an_endpoint() {
    let telemetry = load_valid("", &[("OTEL_TRACES_SAMPLER", "always_on")]).telemetry;
    assert!(telemetry.traces.is_none() && telemetry.metrics.is_none());
    for (file, variables) in [
        ("telemetry: { endpoint: 'http://c.test', traces: off, metrics_interval: off }", vec![]),
        (FILE, vec![("OTEL_SDK_DISABLED", "true")]),
        (FILE, vec![("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")]),
        ("telemetry: { traces: off, metrics_interval: off }", vec![]),
        (
            "telemetry: { traces: always_on }",
            vec![ENDPOINT, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")],
        ),
    ] {
        let telemetry = load_valid(file, &variables).telemetry;
        assert!(telemetry.traces.is_none() && telemetry.metrics.is_none(), "{file}");
    }
}

#[test]
fn variables_go_before_the_file() {
    let telemetry = load_valid(FILE, &[]).telemetry;
    let (traces, metrics) = (telemetry.traces.unwrap(), telemetry.metrics.unwrap());
    assert_eq!(traces.collector.address.to_string(), "http://file.test:4318/v1/traces");
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
    let telemetry = load_valid(FILE, &variables).telemetry;
    let (traces, metrics) = (telemetry.traces.unwrap(), telemetry.metrics.unwrap());
    assert_eq!(traces.collector.address.to_string(), "http://variable.test:4318/v1/traces");
    assert_eq!(metrics.collector.address.to_string(), "http://m.test/x");
    assert_eq!(traces.sampling, Sampling { by_parent: true, ratio: 0.25 });
    assert_eq!(
        (&traces.collector.headers["a"], &traces.collector.headers["x-d"]),
        (&"b c".parse().unwrap(), &"e".parse().unwrap())
    );
    assert_eq!(telemetry.timeout.as_millis(), 1500);
    assert_eq!(telemetry.service.get(&"service.name".into()), Some("variable".into()));
}

#[test]
fn an_unknown_value_of_a_variable_is_ignored_with_a_warning() {
    for (name, value) in [
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_EXPORTER", "console"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "soon"),
        ("OTEL_RESOURCE_ATTRIBUTES", "nothing"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c"),
    ] {
        let loaded = load_valid("", &[ENDPOINT, (name, value)]);
        assert!(loaded.telemetry.traces.is_some(), "{name}");
        assert!(loaded.warnings.iter().any(|warning| warning.file == name), "{name}: {:?}", loaded.warnings);
    }
}

#[test]
fn an_error_in_a_file_has_its_position() {
    for (telemetry, words) in [
        ("telemetry: { endpoint: 'collector:4318' }", "endpoint"),
        ("telemetry: { endpoint: 'http://c.test', sampling_ratio: 0.5 }", "`sampling_ratio` has no effect"),
        ("telemetry: { endpoint: 'http://c.test', traces: traceidratio, sampling_ratio: 2 }", "from 0 to 1"),
        ("telemetry: { endpoint: 'http://c.test', traces: sometimes }", "always_on"),
        ("telemetry: { endpoint: 'http://c.test', metrics_interval: 1ms }", "1s"),
        ("telemetry: { traces: always_on }", "nothing is exported"),
    ] {
        let problems = loaded(telemetry, &[]).expect_err(telemetry).to_string();
        assert!(problems.contains(words), "{problems}");
    }
    let problems = loaded("", &[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")]).unwrap_err().to_string();
    assert!(problems.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{problems}");
}

#[test]
fn a_certificate_is_read_up_to_the_limit_of_every_file_that_is_named() {
    let name = "OTEL_EXPORTER_OTLP_CERTIFICATE";
    let path = std::env::temp_dir().join(format!("glossator-collector-{}.pem", std::process::id()));
    // A device without an end is read up to the limit only.
    std::fs::File::create(&path).unwrap().set_len(1 << 31).unwrap();
    let too_long = load_valid("", &[ENDPOINT, (name, path.to_str().unwrap())]);
    std::fs::remove_file(&path).unwrap();
    let missing = load_valid("", &[ENDPOINT, (name, path.to_str().unwrap())]);
    for (loaded, words) in [(too_long, "is longer than 1MiB"), (missing, "does not exist")] {
        let warnings = loaded.warnings.iter().filter(|warning| warning.file == name);
        let messages = warnings.map(|warning| warning.message.as_str()).collect::<Vec<_>>();
        assert_eq!(messages, [format!("it is ignored: the file `{}` {words}", path.display())]);
        assert!(loaded.referenced_files.contains(&path), "a change of it is seen");
        assert!(loaded.telemetry.traces.is_some());
    }
}
