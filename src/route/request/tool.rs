//! Arguments to a call of a tool of an MCP server.

use http::{HeaderMap, HeaderName};
use serde_json::{Map, Value};

use super::{JsonTemplate, RequestError, forwarded};
use crate::{model::Arguments, translate::WorkBudget};

/// How a call of an MCP server's tool is made of a call's arguments.
#[derive(Debug)]
pub struct ToolTemplate {
    /// What the server calls the tool.
    pub tool: Box<str>,
    /// The tool's arguments: an object.
    pub arguments: JsonTemplate,
    /// What calling it may do.
    pub effect: Effect,
    /// Headers of the caller that go on to a server that is reached over HTTP, where the caller sent them.
    pub forwarded: Vec<HeaderName>,
}

/// What calling a tool may do, as far as its annotations say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Effect {
    /// Anything.
    #[default]
    Unknown,
    /// Something, but a second call does no more than the first (`idempotentHint`).
    Idempotent,
    /// Nothing (`readOnlyHint`).
    ReadOnly,
}

/// What an MCP server is asked on behalf of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum McpMethod {
    /// `tools/call`.
    CallTool,
    /// `prompts/get`.
    GetPrompt,
    /// `resources/read`.
    ReadResource,
    /// `completion/complete`.
    Complete,
}

/// What an MCP server is asked: a call of one of its tools, or another of the methods that name something of
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolRequest {
    /// What is done with it.
    pub method: McpMethod,
    /// What the server calls the tool or the prompt, or the URI that is read.
    pub tool: Box<str>,
    /// The arguments of the tool or the prompt; of a completion, all of its parameters.
    pub arguments: Map<String, Value>,
    /// What calling it may do.
    pub effect: Effect,
    /// Headers for a server that is reached over HTTP.
    pub headers: HeaderMap,
}

impl McpMethod {
    /// As the protocol writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CallTool => "tools/call",
            Self::GetPrompt => "prompts/get",
            Self::ReadResource => "resources/read",
            Self::Complete => "completion/complete",
        }
    }
}

/// Of a value with all that is in it.
pub(super) fn bytes_of(value: &Value) -> usize {
    let inside = match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number(number) => number.as_str().len(),
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(bytes_of).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + 32 + bytes_of(value)).sum(),
    };
    inside + size_of::<Value>()
}

impl ToolTemplate {
    /// A call with all arguments, as they are.
    pub fn new(tool: impl Into<Box<str>>) -> Self {
        Self {
            tool: tool.into(),
            arguments: JsonTemplate::AllArguments,
            effect: Effect::Unknown,
            forwarded: Vec::new(),
        }
    }

    /// Whether all arguments go on as they are.
    pub fn passes_all(&self) -> bool {
        matches!(self.arguments, JsonTemplate::AllArguments)
    }

    /// Makes the request of a call; `client` are the headers that the client sent, `stop` ends it early.
    ///
    /// # Errors
    ///
    /// [`RequestError`] when a template can't be filled in.
    pub fn build(
        &self,
        arguments: &Arguments,
        client: &HeaderMap,
        stop: Option<&WorkBudget>,
    ) -> Result<ToolRequest, RequestError> {
        let arguments = match self.arguments.fill(arguments, stop)? {
            None => Map::new(),
            Some(Value::Object(arguments)) => arguments,
            Some(_) => return Err(RequestError::new("the arguments of a tool must be an object")),
        };
        let headers = forwarded(&self.forwarded, client);
        let (method, tool) = (McpMethod::CallTool, self.tool.clone());
        Ok(ToolRequest { method, tool, arguments, effect: self.effect, headers })
    }
}

impl Effect {
    /// What the annotations of a tool say (MCP 2025-06-18 and later, schema, `ToolAnnotations`).
    pub fn of_annotations(annotations: &Map<String, Value>) -> Self {
        let says = |name: &str| annotations.get(name) == Some(&Value::Bool(true));
        match (says("readOnlyHint"), says("idempotentHint")) {
            (true, _) => Self::ReadOnly,
            (false, true) => Self::Idempotent,
            (false, false) => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_go_on_as_they_are_unless_a_template_says_otherwise() {
        let given = || {
            let text = r#"{"id": 12345678901234567890, "ratio": 1.0, "tags": ["a"]}"#;
            Arguments::from(serde_json::from_str::<Map<String, Value>>(text).unwrap())
        };
        let mut client = HeaderMap::new();
        client.insert("x-tenant", "blue".parse().unwrap());
        client.insert("cookie", "secret".parse().unwrap());
        let mut template = ToolTemplate::new("search");
        template.forwarded.push("x-tenant".parse().unwrap());
        let request = template.build(&given(), &client, None).unwrap();
        assert_eq!(request.headers.len(), 1);
        let sent = Value::Object(request.arguments).to_string();
        assert_eq!(sent, r#"{"id":12345678901234567890,"ratio":1.0,"tags":["a"]}"#);

        template.arguments = JsonTemplate::Object(vec![
            ("query".into(), JsonTemplate::Argument("tags".into())),
            ("none".into(), JsonTemplate::Argument("none".into())),
            ("limit".into(), JsonTemplate::Fixed(json!(5))),
        ]);
        let request = template.build(&given(), &client, None).unwrap();
        assert_eq!(Value::Object(request.arguments), json!({ "query": ["a"], "limit": 5 }));

        template.arguments = JsonTemplate::Argument("tags".into());
        assert!(template.build(&given(), &client, None).is_err());
    }

    #[test]
    fn what_only_reads_may_be_called_again() {
        let of = |annotations: Value| Effect::of_annotations(annotations.as_object().unwrap());
        assert_eq!(of(json!({ "readOnlyHint": true })), Effect::ReadOnly);
        assert_eq!(of(json!({ "readOnlyHint": false, "idempotentHint": true })), Effect::Idempotent);
        assert_eq!(of(json!({ "title": "x", "readOnlyHint": "yes" })), Effect::Unknown);
    }
}
