//! A route as something to read.

use std::{collections::HashMap, time::Duration};

use serde_json::{Map, Value};

use super::uri::UriTemplate;
use crate::tool::Annotations;

/// What clients are told of a resource, or of a template of many (MCP 2026-07-28, Resources, "Data Types").
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceDefinition {
    /// What it is read by.
    pub uri: UriTemplate,
    /// The route's name.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it is, for a model.
    pub description: Option<String>,
    /// Such as `text/csv`; the reply's own where nothing is said.
    pub media_type: Option<String>,
    /// For whom, and how important.
    pub annotations: Option<Annotations>,
    /// How long it is, in bytes; of no template.
    pub size_bytes: Option<u64>,
    /// How often the upstream is asked whether it changed, while somebody wants to know.
    pub watch: Option<Duration>,
}

impl ResourceDefinition {
    /// The entry in `resources/list`, or in `resources/templates/list`.
    pub fn to_json(&self) -> Map<String, Value> {
        let mut out = Map::new();
        let key = if self.uri.is_template() { "uriTemplate" } else { "uri" };
        out.insert(key.into(), self.uri.as_str().into());
        out.insert("name".into(), self.name.as_str().into());
        if let Some(title) = &self.title {
            out.insert("title".into(), title.as_str().into());
        }
        if let Some(description) = &self.description {
            out.insert("description".into(), description.as_str().into());
        }
        if let Some(media_type) = &self.media_type {
            out.insert("mimeType".into(), media_type.as_str().into());
        }
        if let Some(annotations) = &self.annotations {
            out.insert("annotations".into(), annotations.to_json().into());
        }
        if let Some(size) = self.size_bytes {
            out.insert("size".into(), size.into());
        }
        out
    }
}

/// Where the resources of a table are, by their addresses.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// What has one address.
    single: HashMap<Box<str>, usize>,
    /// Templates, those with more fixed text first: of two that a URI fits, the first is meant.
    templates: Vec<(UriTemplate, usize)>,
}

impl Addresses {
    /// Adds the address of a route. Gives the route that has it already.
    pub(super) fn add(&mut self, uri: &UriTemplate, index: usize) -> Result<(), usize> {
        if !uri.is_template() {
            return match self.single.insert(uri.as_str().into(), index) {
                None => Ok(()),
                Some(other) => Err(other),
            };
        }
        if let Some((_, other)) = self.templates.iter().find(|(known, _)| known.shape() == uri.shape()) {
            return Err(*other);
        }
        let place = self.templates.partition_point(|(known, _)| known.fixed_bytes() >= uri.fixed_bytes());
        self.templates.insert(place, (uri.clone(), index));
        Ok(())
    }

    /// The route that a URI is of, and the arguments in it.
    pub(super) fn find(&self, uri: &str) -> Option<(usize, Vec<(&str, String)>)> {
        if let Some(index) = self.single.get(uri) {
            return Some((*index, Vec::new()));
        }
        self.templates.iter().find_map(|(template, index)| Some((*index, template.arguments_of(uri)?)))
    }
}
