//! What the parts of a request are filled in with.

use percent_encoding::utf8_percent_encode;
use serde_json::Value;

use super::{RequestError, http::ValueTemplate};
use crate::{
    route::path::{ESCAPED, scalar},
    rule::{Template, template_names},
    tool::Arguments,
};

/// One request being filled in; what templates see is made when the first one asks.
pub(super) struct Filling<'a> {
    pub(super) arguments: &'a Arguments,
    names: Option<minijinja::Value>,
}

impl<'a> Filling<'a> {
    pub(super) fn new(arguments: &'a Arguments) -> Self {
        Self { arguments, names: None }
    }

    pub(super) fn render(&mut self, template: &Template) -> Result<String, RequestError> {
        let names = self.names.get_or_insert_with(|| template_names(self.arguments));
        template
            .render(names)
            .map_err(|error| RequestError(format!("the request could not be made of the arguments: {error}")))
    }

    /// `name=value&…`, encoded for a query or a form.
    pub(super) fn encoded(&mut self, parameters: &[(String, ValueTemplate)]) -> Result<String, RequestError> {
        let mut encoded = String::new();
        for (name, value) in parameters {
            for text in self.values(value)? {
                if !encoded.is_empty() {
                    encoded.push('&');
                }
                encoded.extend(utf8_percent_encode(name, ESCAPED));
                encoded.push('=');
                encoded.extend(utf8_percent_encode(&text, ESCAPED));
            }
        }
        Ok(encoded)
    }

    fn values(&mut self, value: &ValueTemplate) -> Result<Vec<String>, RequestError> {
        match value {
            ValueTemplate::Argument(name) => match self.arguments.get(name) {
                None | Some(Value::Null) => Ok(Vec::new()),
                Some(Value::Array(items)) => {
                    items.iter().map(|item| scalar(name, Some(item)).map_err(RequestError)).collect()
                }
                one => Ok(vec![scalar(name, one).map_err(RequestError)?]),
            },
            ValueTemplate::Text(template) => {
                let text = self.render(template)?;
                Ok(if text.is_empty() { Vec::new() } else { vec![text] })
            }
        }
    }
}
