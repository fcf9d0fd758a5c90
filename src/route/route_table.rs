//! Route table: finds the route of a call.

use std::{borrow::Borrow, collections::HashMap, sync::Arc};

use http::Method;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::{RestEndpoint, Route, UriTemplate};
use crate::model::ToolName;

/// All routes, indexed by name, by REST endpoint and by resource URI. The cost of a lookup does not grow with
/// the number of routes, except for URI templates. `R` is a route, or a route with its runtime state.
#[derive(Debug)]
pub struct RouteTable<R = Route> {
    in_order: Vec<Arc<R>>,
    by_name: HashMap<ToolName, usize>,
    /// Resources with a fixed URI.
    uris: HashMap<String, usize>,
    /// Resource templates, sorted by the length of their fixed text, longest first: the first match applies.
    uri_templates: Vec<(UriTemplate, usize)>,
    endpoints: matchit::Router<Vec<(Method, usize)>>,
}

/// Two routes that match the same request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} of route `{route}` conflicts with that of route `{with}`")]
pub struct Conflict {
    /// Route whose name is later in the sort order.
    pub route: ToolName,
    /// Route whose name is earlier in the sort order.
    pub with: ToolName,
    /// Subject of the conflict: the name, a REST endpoint, or the URI of a resource.
    pub what: String,
    /// Whether the subject is the URI of a resource.
    pub is_resource: bool,
}

/// Result of a lookup by REST path.
#[derive(Debug)]
pub enum EndpointMatch<'a, R = Route> {
    /// A route, with the percent-decoded arguments in the path.
    Found {
        /// Route.
        route: &'a Arc<R>,
        /// Name and value of each placeholder.
        arguments: Vec<(String, String)>,
    },
    /// Routes have this path, but none has the method.
    WrongMethod {
        /// Methods that routes with this path accept.
        allowed: Vec<Method>,
    },
    /// No route has this path.
    NotFound,
}

impl RouteTable {
    /// Builds the table. Routes are sorted by tool name, so that lists are stable.
    ///
    /// # Errors
    ///
    /// [`Conflict`] if two routes match the same request.
    pub fn new(mut routes: Vec<Arc<Route>>) -> Result<Self, Conflict> {
        routes.sort_by(|left, right| left.definition.name.cmp(&right.definition.name));
        let mut table = Self {
            in_order: routes,
            by_name: HashMap::new(),
            uris: HashMap::new(),
            uri_templates: Vec::new(),
            endpoints: matchit::Router::new(),
        };
        for (index, route) in table.in_order.iter().enumerate() {
            if let Some(other) = table.by_name.insert(route.definition.name.clone(), index) {
                return Err(table.conflict(index, other, "the name".to_owned()));
            }
        }
        for index in 0..table.in_order.len() {
            let route = Arc::clone(&table.in_order[index]);
            for RestEndpoint { method, path } in route.endpoints() {
                if let Some(other) = table.add_endpoint(index, method.clone(), &path) {
                    return Err(table.conflict(index, other, format!("the endpoint `{method} {path}`")));
                }
            }
            if let Some(resource) = &route.resource
                && let Some(other) = table.add_uri(&resource.uri, index)
            {
                let what = format!("the URI `{}`", resource.uri.as_str());
                return Err(Conflict { is_resource: true, ..table.conflict(index, other, what) });
            }
        }
        Ok(table)
    }

    fn conflict(&self, index: usize, other: usize, what: String) -> Conflict {
        let name = |index: usize| self.in_order[index].definition.name.clone();
        Conflict { route: name(index), with: name(other), what, is_resource: false }
    }

    /// Adds the URI of a route; returns the index of the route that has the URI already, if there is one.
    fn add_uri(&mut self, uri: &UriTemplate, index: usize) -> Option<usize> {
        if !uri.is_template() {
            return self.uris.insert(uri.as_str().to_owned(), index);
        }
        let templates = &mut self.uri_templates;
        if let Some((_, other)) = templates.iter().find(|(template, _)| template.shape() == uri.shape()) {
            return Some(*other);
        }
        let position =
            templates.partition_point(|(template, _)| template.literal_bytes() >= uri.literal_bytes());
        templates.insert(position, (uri.clone(), index));
        None
    }

    /// Adds an endpoint of a route; returns the index of a route that has the endpoint already, if there is
    /// one.
    fn add_endpoint(&mut self, index: usize, method: Method, path: &str) -> Option<usize> {
        // An identical path may be added with another method; any other path must not conflict in the router.
        let has_path = |index: usize| self.in_order[index].endpoints().any(|endpoint| endpoint.path == path);
        if let Ok(found) = self.endpoints.at_mut(path)
            && found.value.first().is_some_and(|(_, first)| has_path(*first))
        {
            let owner =
                found.value.iter().find(|(candidate, _)| *candidate == method).map(|(_, other)| *other);
            if owner.is_none() {
                found.value.push((method, index));
            }
            return owner;
        }
        let error = self.endpoints.insert(path, vec![(method, index)]).err()?;
        // The path pattern of the other route, looked up as a literal path, finds that route.
        let other = match error {
            matchit::InsertError::Conflict { with } => {
                self.endpoints.at(&with).ok().and_then(|found| Some(found.value.first()?.1))
            }
            _ => None,
        };
        Some(other.unwrap_or(index))
    }

    /// Converts each route with `map`, for example to a route with its runtime state.
    #[must_use]
    pub fn map<R: Borrow<Route>>(self, map: impl FnMut(Arc<Route>) -> Arc<R>) -> RouteTable<R> {
        let Self { in_order, by_name, uris, uri_templates, endpoints } = self;
        let in_order = in_order.into_iter().map(map).collect();
        RouteTable { in_order, by_name, uris, uri_templates, endpoints }
    }
}

impl<R: Borrow<Route>> RouteTable<R> {
    /// Finds the route of a tool.
    pub fn by_tool(&self, name: &str) -> Option<&Arc<R>> {
        self.by_name(name).filter(|route| (***route).borrow().is_tool)
    }

    /// Finds a route by name, whether it is a tool or not.
    pub fn by_name(&self, name: &str) -> Option<&Arc<R>> {
        self.by_name.get(name).map(|index| &self.in_order[*index])
    }

    /// Finds the resource with this URI. Returns its route and the arguments in the URI, which are not
    /// validated yet.
    pub fn by_uri(&self, uri: &str) -> Option<(&Arc<R>, Map<String, Value>)> {
        let single = self.uris.get(uri).map(|index| (*index, Vec::new()));
        let by_template = || {
            let mut templates = self.uri_templates.iter();
            templates.find_map(|(template, index)| Some((*index, template.arguments_of(uri)?)))
        };
        let (index, arguments) = single.or_else(by_template)?;
        let route = &self.in_order[index];
        let input = &(**route).borrow().input;
        let typed = |(name, text): (&str, String)| (name.to_owned(), input.coerce_texts(name, vec![text]));
        Some((route, arguments.into_iter().map(typed).collect()))
    }

    /// Finds the route of a REST request.
    pub fn by_endpoint(&self, method: &Method, path: &str) -> EndpointMatch<'_, R> {
        let Ok(found) = self.endpoints.at(path) else { return EndpointMatch::NotFound };
        let Some((_, index)) = found.value.iter().find(|(candidate, _)| candidate == method) else {
            return EndpointMatch::WrongMethod {
                allowed: found.value.iter().map(|(method, _)| method.clone()).collect(),
            };
        };
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let arguments = found.params.iter().map(|(name, value)| (name.to_owned(), decode(value))).collect();
        EndpointMatch::Found { route: &self.in_order[*index], arguments }
    }

    /// Whether a route has exactly this path, without placeholders, for any method.
    pub fn has_path(&self, path: &str) -> bool {
        self.endpoints.at(path).is_ok_and(|found| found.params.is_empty())
    }

    /// Whether a route has exactly this path, without placeholders, and this method.
    pub fn has_endpoint(&self, method: &Method, path: &str) -> bool {
        self.has_path(path) && matches!(self.by_endpoint(method, path), EndpointMatch::Found { .. })
    }

    /// All routes, sorted by name.
    pub fn in_order(&self) -> &[Arc<R>] {
        &self.in_order
    }
}
