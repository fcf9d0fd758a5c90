//! `header`: headers of the reply, and its status.

use http::HeaderName;
use serde_json::{Map, Value};

use super::{Extracted, Extraction, Finds, Typing};
use crate::translate::{response_view::ResponseView, why::Why};

/// Reads the named headers into an object, or one of them as a value. A header that is there several times gives an array; one that is
/// not there gives nothing. The name `status` gives the HTTP status as a number.
#[derive(Debug, Clone)]
pub struct Header {
    /// The names, as the result's keys are to be written.
    pub names: Vec<String>,
    /// What is given.
    pub shape: HeaderShape,
}

/// What the headers become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderShape {
    /// An object of all of them.
    #[default]
    Object,
    /// The value of the only one.
    Value,
}

impl Extraction for Header {
    fn finds(&self) -> Finds<'_> {
        match self.shape {
            HeaderShape::Value => Finds::NoFields,
            HeaderShape::Object => Finds::Names(self.names.iter().map(String::as_str).collect()),
        }
    }

    fn reads_text(&self) -> bool {
        false
    }

    fn find(&self, view: &ResponseView<'_>, _: &Typing) -> Result<Extracted, Why> {
        let reply = view.reply();
        let mut found = Map::new();
        for name in &self.names {
            if name == "status" {
                found.insert(name.clone(), reply.status.as_u16().into());
                continue;
            }
            let Ok(header) = name.parse::<HeaderName>() else { continue };
            let values = reply.headers.get_all(header);
            let mut values: Vec<Value> =
                values.iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into()).collect();
            match values.len() {
                0 => {}
                1 => {
                    found.insert(name.clone(), values.remove(0));
                }
                _ => {
                    found.insert(name.clone(), Value::Array(values));
                }
            }
        }
        if found.is_empty() {
            let names: Vec<_> = self.names.iter().map(|name| format!("`{name}`")).collect();
            return Err(Why::plainly(format!("expected a header {}, found none of them", names.join(", "))));
        }
        Ok(Extracted::Value(match (self.shape, found.values_mut().next()) {
            (HeaderShape::Value, Some(value)) => value.take(),
            _ => Value::Object(found),
        }))
    }
}
