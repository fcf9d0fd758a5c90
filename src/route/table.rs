//! Which route a call is for.

use std::{borrow::Borrow, collections::HashMap, sync::Arc};

use http::Method;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::{Route, resource::Addresses};
use crate::model::ToolName;

/// All routes, found by name, by REST endpoint or by the URI of a resource. The cost of a look-up does not grow with
/// their number, that of templates of URIs aside. `R` is a route, or one with what its calls use.
#[derive(Debug)]
pub struct RouteTable<R = Route> {
    in_order: Vec<Arc<R>>,
    by_name: HashMap<ToolName, usize>,
    addresses: Addresses,
    endpoints: matchit::Router<Vec<(Method, usize)>>,
}

/// Two routes that one request would fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Two tools of one name.
    #[error("two routes are called `{tool}`")]
    Tool {
        /// The name.
        tool: ToolName,
    },
    /// Two endpoints that one request would fit.
    #[error(
        "`{method} {path}` of route `{tool}` can't be told apart from the endpoint of another route: {with}"
    )]
    Endpoint {
        /// The later route.
        tool: ToolName,
        /// Its method.
        method: Method,
        /// Its path.
        path: String,
        /// The other path.
        with: String,
    },
    /// Two resources that one URI would fit.
    #[error("`{uri}` of route `{tool}` fits the same URIs as the resource of route `{with}`")]
    Resource {
        /// The later route.
        tool: ToolName,
        /// Its URI or template.
        uri: String,
        /// The other route.
        with: ToolName,
    },
}

/// What stands at a REST path.
#[derive(Debug)]
pub enum EndpointMatch<'a, R = Route> {
    /// A route, with the arguments that were in the path, percent-decoded.
    Found {
        /// Which.
        route: &'a Arc<R>,
        /// Name and value of each placeholder.
        arguments: Vec<(String, String)>,
    },
    /// Routes, but for other methods.
    WrongMethod {
        /// Those methods.
        allowed: Vec<Method>,
    },
    /// Nothing.
    Nothing,
}

impl Default for RouteTable {
    fn default() -> Self {
        Self::new(Vec::new()).expect("no two of no routes are in conflict")
    }
}

impl RouteTable {
    /// Makes the table; routes are kept in the order of their tools' names, so that lists are stable.
    ///
    /// # Errors
    ///
    /// [`Conflict`] when two routes could be meant by one request.
    pub fn new(mut routes: Vec<Arc<Route>>) -> Result<Self, Conflict> {
        routes.sort_by(|left, right| left.definition.name.cmp(&right.definition.name));
        let mut table = Self {
            in_order: routes,
            by_name: HashMap::new(),
            addresses: Addresses::default(),
            endpoints: matchit::Router::new(),
        };
        for (index, route) in table.in_order.iter().enumerate() {
            let tool = &route.definition.name;
            if table.by_name.insert(tool.clone(), index).is_some() {
                return Err(Conflict::Tool { tool: tool.clone() });
            }
        }
        for index in 0..table.in_order.len() {
            let route = Arc::clone(&table.in_order[index]);
            for endpoint in route.endpoints() {
                table.add_endpoint(index, endpoint.method, &endpoint.path)?;
            }
            if let Some(resource) = &route.resource {
                let added = table.addresses.add(&resource.uri, index);
                added.map_err(|other| Conflict::Resource {
                    tool: route.definition.name.clone(),
                    uri: resource.uri.as_str().to_owned(),
                    with: table.in_order[other].definition.name.clone(),
                })?;
            }
        }
        Ok(table)
    }

    fn add_endpoint(&mut self, index: usize, method: Method, path: &str) -> Result<(), Conflict> {
        let conflict = |with: String| Conflict::Endpoint {
            tool: self.in_order[index].definition.name.clone(),
            method: method.clone(),
            path: path.to_owned(),
            with,
        };
        // A path that is there already, to the letter, takes another method; else it must be insertable.
        let has_path = |index: usize| self.in_order[index].endpoints().any(|endpoint| endpoint.path == path);
        if let Ok(found) = self.endpoints.at_mut(path)
            && found.value.first().is_some_and(|(_, first)| has_path(*first))
        {
            if found.value.iter().any(|(taken, _)| *taken == method) {
                return Err(conflict(path.to_owned()));
            }
            found.value.push((method, index));
            return Ok(());
        }
        match self.endpoints.insert(path, vec![(method.clone(), index)]) {
            Ok(()) => Ok(()),
            Err(matchit::InsertError::Conflict { with }) => Err(conflict(with)),
            Err(error) => Err(conflict(error.to_string())),
        }
    }

    /// The same table with other values in the place of the routes.
    #[must_use]
    pub fn map<R: Borrow<Route>>(self, map: impl FnMut(Arc<Route>) -> Arc<R>) -> RouteTable<R> {
        let Self { in_order, by_name, addresses, endpoints } = self;
        RouteTable { in_order: in_order.into_iter().map(map).collect(), by_name, addresses, endpoints }
    }
}

impl<R: Borrow<Route>> RouteTable<R> {
    /// The route of a tool.
    pub fn by_tool(&self, name: &str) -> Option<&Arc<R>> {
        self.by_name(name).filter(|route| (***route).borrow().is_tool())
    }

    /// The route of a name, whether it is a tool or not.
    pub fn by_name(&self, name: &str) -> Option<&Arc<R>> {
        self.by_name.get(name).map(|index| &self.in_order[*index])
    }

    /// The route of the resource that is read by this URI, and the arguments in the URI, not yet checked.
    pub fn by_uri(&self, uri: &str) -> Option<(&Arc<R>, Map<String, Value>)> {
        let (index, arguments) = self.addresses.find(uri)?;
        let route = &self.in_order[index];
        let input = &(**route).borrow().input;
        let typed = |(name, text): (&str, String)| (name.to_owned(), input.of_texts(name, vec![text]));
        Some((route, arguments.into_iter().map(typed).collect()))
    }

    /// The route of a REST request.
    pub fn by_endpoint(&self, method: &Method, path: &str) -> EndpointMatch<'_, R> {
        let Ok(found) = self.endpoints.at(path) else { return EndpointMatch::Nothing };
        let Some((_, index)) = found.value.iter().find(|(candidate, _)| candidate == method) else {
            return EndpointMatch::WrongMethod {
                allowed: found.value.iter().map(|(method, _)| method.clone()).collect(),
            };
        };
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let arguments = found.params.iter().map(|(name, value)| (name.to_owned(), decode(value))).collect();
        EndpointMatch::Found { route: &self.in_order[*index], arguments }
    }

    /// Whether a route has this path to the letter, for whatever method.
    pub fn has_path(&self, path: &str) -> bool {
        self.endpoints.at(path).is_ok_and(|found| found.params.is_empty())
    }

    /// Whether a route has this path to the letter, for this method.
    pub fn has_endpoint(&self, method: &Method, path: &str) -> bool {
        self.has_path(path) && matches!(self.by_endpoint(method, path), EndpointMatch::Found { .. })
    }

    /// All routes, by name.
    pub fn in_order(&self) -> &[Arc<R>] {
        &self.in_order
    }
}
