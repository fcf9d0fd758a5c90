//! Requests to MCP servers: converts the arguments of a call to the arguments of a tool on the server.

use http::{HeaderMap, HeaderName, Method};
use serde_json::{Map, Value};

use super::{JsonTemplate, RequestError, forwarded};
use crate::model::Arguments;
use crate::translate::WorkBudget;

/// Template of a tool call to an MCP server.
#[derive(Debug, Default)]
pub struct ToolTemplate {
    /// Name of the tool on the server.
    pub tool: Box<str>,
    /// Arguments of the tool, an object.
    pub arguments: JsonTemplate,
    /// Side effects of a call.
    pub effect: SideEffects,
    /// Headers that are forwarded from the client to a server over HTTP.
    pub forwarded: Vec<HeaderName>,
}

/// Side effects of a request. For a tool call, the annotations of the tool declare them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SideEffects {
    /// Whether the request has no side effects.
    pub is_read_only: bool,
    /// Whether a repeated request has no additional effect.
    pub is_idempotent: bool,
}

/// Method of a request to an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
pub enum McpMethod {
    /// Calls a tool.
    #[strum(serialize = "tools/call")]
    CallTool,
    /// Fetches a prompt.
    #[strum(serialize = "prompts/get")]
    GetPrompt,
    /// Reads a resource.
    #[strum(serialize = "resources/read")]
    ReadResource,
    /// Completes an argument.
    #[strum(serialize = "completion/complete")]
    Complete,
}

/// Request to an MCP server: a tool call, or another method with a name, a URI or parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServerRequest {
    /// Method.
    pub method: McpMethod,
    /// Name of the tool or prompt on the server, or the URI of the resource to read; unused for a completion.
    pub target: Box<str>,
    /// Arguments of the tool or prompt. For a completion, all parameters of the request.
    pub arguments: Map<String, Value>,
    /// Headers of the request to a server over HTTP.
    pub headers: HeaderMap,
}

impl ToolTemplate {
    /// Creates the template of a call that passes all arguments unchanged.
    pub fn new(tool: impl Into<Box<str>>) -> Self {
        Self { tool: tool.into(), ..Self::default() }
    }

    /// Whether all arguments are passed unchanged.
    pub fn passes_all(&self) -> bool {
        matches!(self.arguments, JsonTemplate::AllArguments)
    }

    /// Builds the request of a call. `client` contains the headers of the client's request. `work_budget`
    /// limits the rendering.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if a template cannot be rendered, or if the result is not an object.
    pub fn build(
        &self,
        arguments: &Arguments,
        client: &HeaderMap,
        work_budget: Option<&WorkBudget>,
    ) -> Result<McpServerRequest, RequestError> {
        let arguments = match self.arguments.fill(arguments, work_budget)? {
            None => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(RequestError::new("the arguments of a tool must be an object")),
        };
        let headers = forwarded(&self.forwarded, client);
        let (method, target) = (McpMethod::CallTool, self.tool.clone());
        Ok(McpServerRequest { method, target, arguments, headers })
    }
}

impl SideEffects {
    /// Side effects that annotations declare (MCP 2025-03-26 and later, schema, `ToolAnnotations`).
    pub fn from_annotations(annotations: &Map<String, Value>) -> Self {
        let is_true = |name: &str| annotations.get(name) == Some(&Value::Bool(true));
        let is_read_only = is_true("readOnlyHint");
        Self { is_read_only, is_idempotent: is_read_only || is_true("idempotentHint") }
    }

    /// Side effects that the definition of an HTTP method implies (RFC 9110, sections 9.2.1 and 9.2.2).
    pub(super) fn from_method(method: &Method) -> Self {
        Self { is_read_only: method.is_safe(), is_idempotent: method.is_idempotent() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_forwarded_unchanged_without_a_template() {
        let arguments = || {
            let text = r#"{"id": 12345678901234567890, "ratio": 1.0, "tags": ["a"]}"#;
            Arguments::from(serde_json::from_str::<Map<String, Value>>(text).unwrap())
        };
        let mut client = HeaderMap::new();
        client.insert("x-tenant", "blue".parse().unwrap());
        client.insert("cookie", "secret".parse().unwrap());
        let mut template = ToolTemplate::new("search");
        template.forwarded.push("x-tenant".parse().unwrap());
        let request = template.build(&arguments(), &client, None).unwrap();
        assert_eq!(request.headers.len(), 1);
        let sent = Value::Object(request.arguments).to_string();
        assert_eq!(sent, r#"{"id":12345678901234567890,"ratio":1.0,"tags":["a"]}"#);

        template.arguments = JsonTemplate::Object(vec![
            ("query".into(), JsonTemplate::Argument("tags".into())),
            ("none".into(), JsonTemplate::Argument("none".into())),
            ("limit".into(), JsonTemplate::Fixed(json!(5))),
        ]);
        let request = template.build(&arguments(), &client, None).unwrap();
        assert_eq!(Value::Object(request.arguments), json!({ "query": ["a"], "limit": 5 }));

        template.arguments = JsonTemplate::Argument("tags".into());
        assert!(template.build(&arguments(), &client, None).is_err());
    }

    #[test]
    fn read_only_tools_are_idempotent() {
        let effects = |annotations: Value| {
            let effect = SideEffects::from_annotations(annotations.as_object().unwrap());
            (effect.is_read_only, effect.is_idempotent)
        };
        assert_eq!(effects(json!({ "readOnlyHint": true })), (true, true));
        assert_eq!(effects(json!({ "readOnlyHint": false, "idempotentHint": true })), (false, true));
        assert_eq!(effects(json!({ "title": "x", "readOnlyHint": "yes" })), (false, false));
    }
}
