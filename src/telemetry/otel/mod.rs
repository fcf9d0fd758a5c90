//! OpenTelemetry traces and metrics.
//!
//! - [`Tracing`]: makes a [`Span`] for each request, call and attempt, if traces are configured.
//! - `queue`: ended spans that are not exported yet.
//! - [`Service`]: our resource attributes.
//! - `otlp`: encoding of spans and metrics; `names`: metric names of the semantic conventions.
//!
//! The exporter is in `server`, as it needs an HTTP client. Only this module uses the OpenTelemetry
//! libraries.

mod names;
mod otlp;
mod queue;
mod traces;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;

pub use otlp::{Accepted, read_answer};
pub use queue::{Batch, QUEUE_LIMIT, SpanQueue};
pub use traces::{Sampling, SamplingError, Span, SpanKind, Tracing};

/// What we are called where telemetry goes: attributes of the resource that all of it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    attributes: Vec<(String, String)>,
}

impl Service {
    /// What we are called unless somebody says otherwise.
    pub const NAME: &'static str = "glossator";

    /// A service of this name with more attributes; those that are given go before our own.
    pub fn new(name: Option<String>, more: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut attributes: Vec<(String, String)> = Vec::new();
        let mut add = |key: String, value: String| {
            if !attributes.iter().any(|(known, _)| *known == key) {
                attributes.push((key, value));
            }
        };
        if let Some(name) = name {
            add("service.name".into(), name);
        }
        for (key, value) in more {
            add(key, value);
        }
        add("service.name".into(), Self::NAME.into());
        add("service.version".into(), env!("CARGO_PKG_VERSION").into());
        Self { attributes }
    }

    /// What it is told of, by name.
    pub fn attributes(&self) -> &[(String, String)] {
        &self.attributes
    }

    fn resource(&self) -> Resource {
        let attributes = self.attributes.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
        Resource::builder_empty().with_attributes(attributes).build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_given_goes_before_one_among_the_attributes_and_that_before_ours() {
        let name = |service: &Service| {
            service.attributes().iter().find(|(key, _)| key == "service.name").map(|(_, name)| name.clone())
        };
        let more = || [("service.name".to_owned(), "b".to_owned()), ("x".to_owned(), "y".to_owned())];
        assert_eq!(name(&Service::new(Some("a".into()), more())).as_deref(), Some("a"));
        assert_eq!(name(&Service::new(None, more())).as_deref(), Some("b"));
        assert_eq!(name(&Service::new(None, [])).as_deref(), Some("glossator"));
        assert_eq!(Service::new(None, more()).attributes().len(), 3);
    }
}
