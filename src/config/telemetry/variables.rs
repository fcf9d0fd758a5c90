//! The standard `OTEL_*` environment variables. One with an unsupported value is ignored with a warning, as
//! the specification requires.

use std::{fmt::Display, path::Path, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use crate::settings::suggest::quoted;
use crate::settings::{
    Code, Environment, Named, Problem, Report, Scalar, Severity, Word as _, secret, source,
};
use crate::telemetry::{SamplerName, Sampling, ServiceAttributes};

/// Reads the standard `OTEL_*` variables.
pub(super) struct OtelVariables<'a, 'r> {
    pub(super) report: &'a Report<'r>,
    pub(super) environment: &'a Environment,
}

impl<'a> OtelVariables<'a, '_> {
    /// Value of a variable. An empty one counts as unset (OpenTelemetry, "Environment Variable
    /// Specification").
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.environment.get(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// Warns of a value that is ignored; `what` is the value in quotes, or words if it may be a secret.
    fn warn_of_ignored(&self, name: &str, what: impl Display, why: &str, help: &str) {
        let (message, help) = (format!("{what} is ignored: {why}"), Some(help.to_owned()));
        let mut problem = Problem::without_span(Code::UnsupportedVariable, name, message, help);
        problem.severity = Severity::Warning;
        self.report.add(problem);
    }

    pub(super) fn is_off(&self) -> bool {
        self.get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    pub(super) fn exporter_is_off(&self, name: &str) -> bool {
        match self.get(name) {
            None | Some("otlp") => false,
            Some("none") => true,
            Some(other) => {
                let why = "only `otlp` and `none` are supported";
                let help = "write `otlp` or `none`; the admin API also serves metrics at `/metrics`";
                self.warn_of_ignored(name, quoted(other), why, help);
                false
            }
        }
    }

    pub(super) fn check_protocol(&self) {
        let name = "OTEL_EXPORTER_OTLP_PROTOCOL";
        if let Some(other) = self.get(name).filter(|protocol| *protocol != "http/protobuf") {
            let why = "only OTLP over HTTP with protobuf is supported";
            let help = "write `http/protobuf`, and use the collector's port for it, usually 4318";
            self.warn_of_ignored(name, quoted(other), why, help);
        }
    }

    pub(super) fn sampling(&self) -> Option<Sampling> {
        let (name, argument) = ("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG");
        let word = self.get(name)?;
        let known = || SamplerName::WORDS.iter().filter(|(_, name)| *name != SamplerName::Off);
        let Some((_, sampler)) = known().find(|(known, _)| *known == word) else {
            let known: Vec<_> = known().map(|(known, _)| *known).collect();
            let help = format!("write one of `{}`", known.join("`, `"));
            self.warn_of_ignored(name, quoted(word), "it is not a supported sampler", &help);
            return None;
        };
        let text = self.get(argument).filter(|_| sampler.takes_ratio());
        let ratio = text.and_then(|text| text.parse().ok()).filter(|ratio| (0.0..=1.0).contains(ratio));
        if let (Some(text), None) = (text, ratio) {
            let why = "it is not a number from 0 to 1";
            self.warn_of_ignored(argument, quoted(text), why, "write `0.1` to sample 10 %");
        }
        sampler.sampling(ratio.unwrap_or(1.0))
    }

    pub(super) fn millis(&self, name: &str) -> Option<Duration> {
        let text = self.get(name)?;
        let millis = text.parse().ok().filter(|millis| *millis > 0).map(Duration::from_millis);
        if millis.is_none() {
            let why = "it is not a number of milliseconds";
            self.warn_of_ignored(name, quoted(text), why, "write `5000` for 5 s");
        }
        millis
    }

    fn warn_of_part(&self, name: &str, why: &str) {
        self.warn_of_ignored(name, "part of it", why, "write `key=value,key=value`");
    }

    /// Parses `key=value,key=value`, percent-encoded as in `baggage`.
    fn pairs(&self, name: &str) -> Vec<(String, String)> {
        let decoded = |value: &str| percent_decode_str(value.trim()).decode_utf8().ok().map(String::from);
        let pair = |pair: &str| {
            let read = pair.split_once('=').and_then(|(key, text)| Some((decoded(key)?, decoded(text)?)));
            let pair = read.filter(|(key, _)| !key.is_empty());
            if pair.is_none() {
                self.warn_of_part(name, "it does not have the form `key=value`");
            }
            pair
        };
        let parts = self.get(name).unwrap_or_default().split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).filter_map(pair).collect()
    }

    pub(super) fn headers(&self, name: &str) -> HeaderMap {
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

    /// PEM certificates from the file that a variable names.
    pub(super) fn trusted_cas(&self) -> Option<Vec<u8>> {
        let name = "OTEL_EXPORTER_OTLP_CERTIFICATE";
        let path = self.get(name)?;
        if Path::new(path).is_absolute() {
            self.report.add_named_file(Path::new(path));
        }
        let warn = |why: String| {
            let help = "name a PEM file, which begins with `-----BEGIN CERTIFICATE-----`";
            self.warn_of_ignored(name, "it", &format!("the file `{path}` {why}"), help);
        };
        source::read_file(Path::new(path), secret::SECRET_LIMIT_BYTES).map_err(warn).ok()
    }

    pub(super) fn service(&self, written: Option<String>, attributes: &Named<Scalar>) -> ServiceAttributes {
        let mut more = self.pairs("OTEL_RESOURCE_ATTRIBUTES");
        let name = self.get("OTEL_SERVICE_NAME").map(str::to_owned);
        // A service name from a variable takes precedence over the file, as all variables do.
        let named = more.iter().find(|(key, _)| key == "service.name").map(|(_, name)| name.clone());
        more.extend(attributes.0.iter().map(|(name, Scalar(value))| (name.clone(), value.clone())));
        ServiceAttributes::new(name.or(named).or(written), more)
    }
}
