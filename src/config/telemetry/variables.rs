//! The standard `OTEL_*` environment variables. One with an unsupported value is ignored with a warning, as
//! the specification requires.

use std::{path::Path, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::super::{
    code::Code,
    problem::{Problem, Severity},
    report::Report,
    secret::{self, Environment, FileError},
};
use crate::{
    settings::value::{Named, Scalar, Word as _},
    telemetry::{SamplerName, Sampling, ServiceAttributes},
};

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

    fn warn_of_ignored(&self, name: &str, message: impl Into<String>, help: &str) {
        let mut problem =
            Problem::without_span(Code::UnsupportedVariable, name, message, Some(help.to_owned()));
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
                let message = format!("`{other}` is ignored: only `otlp` and `none` are supported");
                self.warn_of_ignored(
                    name,
                    message,
                    "write `otlp` or `none`; the admin API also serves metrics at `/metrics`",
                );
                false
            }
        }
    }

    pub(super) fn check_protocol(&self) {
        let name = "OTEL_EXPORTER_OTLP_PROTOCOL";
        if let Some(other) = self.get(name).filter(|protocol| *protocol != "http/protobuf") {
            let message = format!("`{other}` is ignored: only OTLP over HTTP with protobuf is supported");
            self.warn_of_ignored(
                name,
                message,
                "write `http/protobuf`, and use the collector's port for it, usually 4318",
            );
        }
    }

    pub(super) fn sampling(&self) -> Option<Sampling> {
        let (name, argument) = ("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG");
        let word = self.get(name)?;
        let known = || SamplerName::WORDS.iter().filter(|(_, name)| *name != SamplerName::Off);
        let Some((_, sampler)) = known().find(|(known, _)| *known == word) else {
            let message = format!("`{word}` is ignored: it is not a supported sampler");
            let known: Vec<_> = known().map(|(known, _)| *known).collect();
            self.warn_of_ignored(name, message, &format!("write one of `{}`", known.join("`, `")));
            return None;
        };
        let text = self.get(argument).filter(|_| sampler.takes_ratio());
        let ratio = text.and_then(|text| text.parse().ok()).filter(|ratio| (0.0..=1.0).contains(ratio));
        if let (Some(text), None) = (text, ratio) {
            let message = format!("`{text}` is ignored: it is not a number from 0 to 1");
            self.warn_of_ignored(argument, message, "write `0.1` to sample 10 %");
        }
        sampler.sampling(ratio.unwrap_or(1.0))
    }

    pub(super) fn millis(&self, name: &str) -> Option<Duration> {
        let text = self.get(name)?;
        let millis = text.parse().ok().filter(|millis| *millis > 0).map(Duration::from_millis);
        if millis.is_none() {
            let message = format!("`{text}` is ignored: it is not a number of milliseconds");
            self.warn_of_ignored(name, message, "write `5000` for 5 s");
        }
        millis
    }

    /// Parses `key=value,key=value`, percent-encoded as in `baggage`.
    fn pairs(&self, name: &str) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for pair in
            self.get(name).unwrap_or_default().split(',').map(str::trim).filter(|pair| !pair.is_empty())
        {
            let value = |value: &str| percent_decode_str(value.trim()).decode_utf8().ok().map(String::from);
            let read = pair.split_once('=').and_then(|(key, text)| Some((value(key)?, value(text)?)));
            match read.filter(|(key, _)| !key.is_empty()) {
                Some(pair) => pairs.push(pair),
                // A header may be a secret, so the message does not contain it.
                None => self.warn_of_ignored(
                    name,
                    "part of it is ignored: it does not have the form `key=value`",
                    "write `key=value,key=value`",
                ),
            }
        }
        pairs
    }

    pub(super) fn headers(&self, name: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (key, value) in self.pairs(name) {
            match (key.parse::<HeaderName>(), HeaderValue::from_str(&value)) {
                (Ok(key), Ok(mut value)) => {
                    value.set_sensitive(true);
                    headers.insert(key, value);
                }
                _ => self.warn_of_ignored(
                    name,
                    "part of it is ignored: it is not a valid header",
                    "write `key=value,key=value`",
                ),
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
        secret::bytes_of(path)
            .map_err(|FileError { message, .. }| {
                let message = format!("it is ignored: {message}");
                self.warn_of_ignored(
                    name,
                    message,
                    "name a PEM file, which begins with `-----BEGIN CERTIFICATE-----`",
                );
            })
            .ok()
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
