//! Where traces and metrics are sent.

use super::*;
use crate::telemetry::Sampling;

pub(in crate::config) static TELEMETRY: Keys = Keys::new(
    "`telemetry`",
    "telemetry",
    &[
        key(
            "endpoint",
            Text,
            "A collector that takes OTLP over HTTP: `http://collector:4318`. `/v1/traces` and `/v1/metrics` are put behind it. Default: nothing is sent.",
        ),
        key(
            "headers",
            Map(&Scalar),
            "Headers sent with every request; `${NAME}` and `file:/path` keep secrets out of the file.",
        ),
        key("tls", Section(|| &TLS), "Whom an `https://` endpoint is taken for, and who we are."),
        key(
            "traces",
            Word(Sampling::WORDS_OR_OFF),
            "Which traces are told of, or `off`. Default `parentbased_always_on`: a caller that names a trace decides, and all others are.",
        ),
        key(
            "sampling_ratio",
            Fraction,
            "How many traces are told of, where `traces` ends in `traceidratio`. Default 1.",
        ),
        key(
            "metrics_interval",
            Either(&[OFF, Duration(SECOND, HOUR)]),
            "How often metrics are sent, or `off`. Default `1m`.",
        ),
        key("service_name", Text, "What we are called there (`service.name`). Default `glossator`."),
        key(
            "resource_attributes",
            Map(&Scalar),
            "What else is said of us, such as `deployment.environment.name`.",
        ),
        key("timeout", Duration(100, HOUR), "How long the collector may take to answer. Default `10s`."),
    ],
);
