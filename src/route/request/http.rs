//! HTTP requests: converts the arguments of a call to method, path, query, headers and body.
//!
//! Each part is rendered from a template and then encoded or checked for its context: path segments and query
//! values are percent-encoded, line breaks in header values are rejected, JSON and form bodies are written by
//! a serializer. So an argument cannot change other parts of the request.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header, uri::PathAndQuery};
use serde_json::{Map, Value};

use super::{RequestError, RequestRenderer, forwarded};
use crate::model::Arguments;
use crate::route::path::{PathTemplate, QueryTemplate};
use crate::translate::{Template, WorkBudget};

/// Template of an HTTP request.
#[derive(Debug, Default)]
pub struct HttpTemplate {
    /// Method.
    pub method: Method,
    /// Path below the upstream's URL.
    pub path: PathTemplate,
    /// Query that the configured path contains after `?`.
    pub path_query: QueryTemplate,
    /// Further query parameters, in order.
    pub query: Vec<(String, ValueTemplate)>,
    /// Headers; a header without a value is omitted.
    pub headers: Vec<(HeaderName, ValueTemplate)>,
    /// Headers of the client that are forwarded if the client sent them.
    pub forwarded: Vec<HeaderName>,
    /// Body.
    pub body: Option<RequestBodyTemplate>,
}

/// Template of a value in a query, a form or headers.
#[derive(Debug)]
pub enum ValueTemplate {
    /// Argument with this name, omitted if the client did not send it. An array gives one value per item.
    Argument(String),
    /// Rendered template. If the result is empty, the value is omitted.
    Text(Template),
}

/// Template of a request body.
#[derive(Debug)]
pub enum RequestBodyTemplate {
    /// JSON document.
    Json(JsonTemplate),
    /// `application/x-www-form-urlencoded`.
    Form(Vec<(String, ValueTemplate)>),
    /// XML, sent as `application/xml` unless a header sets another type. The template escapes its arguments.
    Xml(Template),
    /// Text, sent as `text/plain` unless a header sets another type.
    Text(Template),
}

/// JSON document in which some strings are templates.
#[derive(Debug, Default)]
pub enum JsonTemplate {
    /// Fixed value.
    Fixed(Value),
    /// Argument with this name; keeps its type. Omitted from its object if the client did not send it.
    Argument(String),
    /// Like [`Argument`](Self::Argument), but also omitted if it is null.
    NotNull(String),
    /// Input response with this name, or a field of it; keeps its type. Omitted if there is no response.
    InputResponse {
        /// Name of the input request.
        name: String,
        /// Name of a field of the form; `None` for the whole response.
        field: Option<String>,
    },
    /// All arguments as one object.
    #[default]
    AllArguments,
    /// String rendered from a template.
    Text(Template),
    /// Array. Omitted values are left out.
    Array(Vec<Self>),
    /// Object. Members with omitted values are left out.
    Object(Vec<(String, Self)>),
}

/// HTTP request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Method.
    pub method: Method,
    /// Base that the path is relative to.
    pub base: PathBase,
    /// Path and query.
    pub path_and_query: PathAndQuery,
    /// Headers, except those that the upstream client sets (`Host`, `Content-Length`).
    pub headers: HeaderMap,
    /// Body; empty if there is none.
    pub body: Bytes,
}

/// Base of a request's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathBase {
    /// The upstream's URL, which may have a base path.
    UpstreamUrl,
    /// The root of the upstream's host, for a path that the upstream sent, such as a `Location`.
    Origin,
    /// No base: the request is sent to the upstream's URL unchanged.
    UrlItself,
}

impl HttpRequest {
    /// `GET` request without headers and body.
    pub fn get(base: PathBase, path_and_query: PathAndQuery) -> Self {
        Self { method: Method::GET, base, path_and_query, headers: HeaderMap::new(), body: Bytes::new() }
    }
}

impl HttpTemplate {
    /// Maximum length of path and query together, in bytes. Many servers reject longer URLs.
    const TARGET_LIMIT_BYTES: usize = 8 * 1024;

    /// Builds the request of a call. `client` contains the headers of the client's request. `work_budget`
    /// limits the rendering.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if an argument is missing, or if the template cannot contain it.
    pub fn build(
        &self,
        arguments: &Arguments,
        client: &HeaderMap,
        work_budget: Option<&WorkBudget>,
    ) -> Result<HttpRequest, RequestError> {
        let mut renderer = RequestRenderer::new(arguments, work_budget);
        let mut headers = forwarded(&self.forwarded, client);
        for (name, value) in &self.headers {
            let values =
                renderer.values(value).map_err(|error| error.needed_by(format_args!("header `{name}`")))?;
            for (index, text) in values.iter().filter(|text| !text.is_empty()).enumerate() {
                if index == 0 {
                    // A header of the template replaces the client's header of the same name.
                    headers.remove(name);
                }
                headers.append(name.clone(), header_value(name, text)?);
            }
        }
        let path_and_query = self.target(&mut renderer)?;
        let body = match &self.body {
            None => Bytes::new(),
            Some(body) => {
                let (media_type, bytes) = body.build(&mut renderer)?;
                headers.entry(header::CONTENT_TYPE).or_insert(HeaderValue::from_static(media_type));
                bytes
            }
        };
        let (method, base) = (self.method.clone(), PathBase::UpstreamUrl);
        Ok(HttpRequest { method, base, path_and_query, headers, body })
    }

    /// Whether the request can have the header, set by the template or forwarded from the client.
    pub fn carries(&self, header: &HeaderName) -> bool {
        self.forwarded.contains(header) || self.headers.iter().any(|(name, _)| name == header)
    }

    fn target(&self, renderer: &mut RequestRenderer<'_>) -> Result<PathAndQuery, RequestError> {
        let mut target = self.path.fill(renderer.arguments).map_err(RequestError::new)?;
        let path_query = self.path_query.fill(renderer.arguments).map_err(RequestError::new)?;
        let mut queries = vec![path_query, renderer.encoded(&self.query)?];
        queries.retain(|query| !query.is_empty());
        if !queries.is_empty() {
            target = format!("{target}?{}", queries.join("&"));
        }
        if target.len() > Self::TARGET_LIMIT_BYTES {
            let limit = Self::TARGET_LIMIT_BYTES;
            return Err(RequestError::new(format!(
                "the arguments are too long: the URL of the request would be longer than {limit} bytes"
            )));
        }
        target.parse().map_err(|_| RequestError::new("the arguments do not form a valid URL"))
    }
}

impl RequestBodyTemplate {
    /// Builds the body; returns its media type and content.
    pub(super) fn build(
        &self,
        renderer: &mut RequestRenderer<'_>,
    ) -> Result<(&'static str, Bytes), RequestError> {
        Ok(match self {
            Self::Json(template) => {
                let value = template.build(renderer)?.unwrap_or(Value::Null);
                ("application/json", serde_json::to_vec(&value).expect("keys are strings").into())
            }
            Self::Form(fields) => ("application/x-www-form-urlencoded", renderer.encoded(fields)?.into()),
            Self::Xml(template) => {
                let text = renderer.render_for(template, "XML body")?;
                match text.chars().find(|c| !is_xml_char(*c)) {
                    None => ("application/xml", text.into()),
                    Some(c) => return Err(invalid_xml_char(renderer.arguments, c)),
                }
            }
            Self::Text(template) => {
                ("text/plain; charset=utf-8", renderer.render_for(template, "text body")?.into())
            }
        })
    }
}

/// Whether XML 1.0 permits a character, directly or as a character reference (section 2.2, `Char`).
fn is_xml_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

/// Error that names the argument containing a character that XML does not permit.
fn invalid_xml_char(arguments: &Arguments, character: char) -> RequestError {
    fn contains_char(value: &Value, character: char) -> bool {
        match value {
            Value::String(text) => text.contains(character),
            Value::Array(items) => items.iter().any(|item| contains_char(item, character)),
            Value::Object(members) => {
                members.iter().any(|(name, item)| name.contains(character) || contains_char(item, character))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    let argument = arguments.values.iter().find(|(_, value)| contains_char(value, character));
    let subject = argument.map_or_else(|| "the request".to_owned(), |(name, _)| format!("argument `{name}`"));
    let code_point = u32::from(character);
    RequestError::new(format!(
        "{subject} has the character U+{code_point:04X}, which XML does not allow: remove it"
    ))
}

impl JsonTemplate {
    /// Builds the value from the arguments; `None` if the template is a missing argument or input response.
    /// `work_budget` limits the rendering.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if a template cannot be rendered.
    pub fn fill(
        &self,
        arguments: &Arguments,
        work_budget: Option<&WorkBudget>,
    ) -> Result<Option<Value>, RequestError> {
        self.build(&mut RequestRenderer::new(arguments, work_budget))
    }

    /// Builds the value; `None` if the template is a missing argument or input response.
    fn build(&self, renderer: &mut RequestRenderer<'_>) -> Result<Option<Value>, RequestError> {
        Ok(Some(match self {
            Self::Fixed(value) => value.clone(),
            Self::Argument(name) => return Ok(renderer.arguments.get(name).cloned()),
            Self::NotNull(name) => {
                return Ok(renderer.arguments.get(name).filter(|value| !value.is_null()).cloned());
            }
            Self::InputResponse { name, field } => {
                let response = renderer.arguments.input_responses.get(name);
                let value = match field {
                    None => response,
                    Some(field) => response.and_then(|response| response.get(field)),
                };
                return Ok(value.filter(|value| !value.is_null()).cloned());
            }
            Self::AllArguments => Value::Object(renderer.arguments.values.clone()),
            Self::Text(template) => Value::String(renderer.render(template)?),
            Self::Array(items) => {
                let items: Result<Vec<_>, _> = items.iter().map(|item| item.build(renderer)).collect();
                Value::Array(items?.into_iter().flatten().collect())
            }
            Self::Object(members) => {
                let mut map = Map::new();
                for (key, member) in members {
                    let value = member
                        .build(renderer)
                        .map_err(|error| error.needed_by(format_args!("member `{key}`")))?;
                    if let Some(value) = value {
                        map.insert(key.clone(), value);
                    }
                }
                Value::Object(map)
            }
        }))
    }
}

fn header_value(name: &HeaderName, text: &str) -> Result<HeaderValue, RequestError> {
    let invalid = |_| {
        format!(
            "header `{name}` can't have line breaks or other control characters; change the argument that it \
             contains"
        )
    };
    HeaderValue::from_str(text).map_err(invalid).map_err(RequestError::new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::translate::OutputContext;

    fn text(template: &str) -> Template {
        Template::compile(template).unwrap()
    }

    fn template() -> HttpTemplate {
        let path = PathTemplate::parse("/v1/{city}").unwrap();
        HttpTemplate { method: Method::POST, path, ..HttpTemplate::default() }
    }

    fn build(template: &HttpTemplate, arguments: Value) -> Result<HttpRequest, RequestError> {
        let mut client = HeaderMap::new();
        client.insert("x-tenant", HeaderValue::from_static("blue"));
        client.insert("cookie", HeaderValue::from_static("secret"));
        template.build(&Arguments::from(arguments.as_object().unwrap().clone()), &client, None)
    }

    #[test]
    fn query_values_are_encoded_repeated_or_omitted() {
        let mut template = template();
        template.query = vec![
            ("units".into(), ValueTemplate::Text(text("{{ args.units | default('metric') }}"))),
            ("tag".into(), ValueTemplate::Argument("tags".into())),
            ("none".into(), ValueTemplate::Argument("none".into())),
        ];
        let request =
            build(&template, json!({"city": "Oslo", "units": "a&b=c", "tags": ["x y", 2]})).unwrap();
        assert_eq!(request.path_and_query.as_str(), "/v1/Oslo?units=a%26b%3Dc&tag=x%20y&tag=2");
        assert_eq!(
            build(&template, json!({"city": "Oslo"})).unwrap().path_and_query.as_str(),
            "/v1/Oslo?units=metric"
        );
        template.path_query = QueryTemplate::parse("auto;tag={tags}").unwrap();
        let request = build(&template, json!({"city": "Oslo", "tags": ["x"]})).unwrap();
        assert_eq!(request.path_and_query.as_str(), "/v1/Oslo?auto;tag=x&units=metric&tag=x");
    }

    #[test]
    fn a_header_has_no_line_break_and_only_named_headers_are_forwarded() {
        let mut template = template();
        template.headers = vec![("x-note".parse().unwrap(), ValueTemplate::Text(text("{{ args.note }}")))];
        template.forwarded = vec!["x-tenant".parse().unwrap(), "x-other".parse().unwrap()];
        let request = build(&template, json!({"city": "Oslo", "note": "fine"})).unwrap();
        let mut names: Vec<_> = request.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["x-note", "x-tenant"]);
        let error = build(&template, json!({"city": "Oslo", "note": "a\r\nX-Admin: 1"})).unwrap_err();
        assert!(error.to_string().contains("line breaks"), "{error}");
    }

    #[test]
    fn a_header_of_one_absent_argument_is_omitted() {
        let mut template = template();
        let headers = [
            ("x-one", ValueTemplate::Argument("tenant".into())),
            ("x-two", ValueTemplate::Text(text("{{args.tenant | upper if args.tenant else ''}}"))),
            ("x-fixed", ValueTemplate::Text(text("1"))),
        ];
        template.headers = headers.map(|(name, value)| (name.parse().unwrap(), value)).into();
        for (tenant, expected) in [
            (json!({ "city": "Oslo" }), &["x-fixed"][..]),
            (json!({ "city": "Oslo", "tenant": null }), &["x-fixed"]),
            (json!({ "city": "Oslo", "tenant": "" }), &["x-fixed"]),
            (json!({ "city": "Oslo", "tenant": "a" }), &["x-fixed", "x-one", "x-two"]),
        ] {
            let request = build(&template, tenant).unwrap();
            let mut names: Vec<_> = request.headers.keys().map(HeaderName::as_str).collect();
            names.sort_unstable();
            assert_eq!(names, expected);
        }
    }

    #[test]
    fn an_error_says_where_a_missing_argument_is_used() {
        #[track_caller]
        fn check(change: impl FnOnce(&mut HttpTemplate), part: &str) {
            let mut template = template();
            change(&mut template);
            let error = build(&template, json!({ "city": "Oslo" })).unwrap_err().to_string();
            let expected = format!("can't be built without the argument `tenant`, which the {part} needs");
            assert!(error.ends_with(&expected), "{error}");
        }
        let value = || ValueTemplate::Text(text("a-{{ args.tenant }}"));
        check(|template| template.headers = vec![("x-a".parse().unwrap(), value())], "header `x-a`");
        check(|template| template.query = vec![("a".into(), value())], "parameter `a`");
        let xml = "<a>{{ args.tenant }}</a>";
        let xml = RequestBodyTemplate::Xml(Template::compile_for(OutputContext::Xml, xml).unwrap());
        check(|template| template.body = Some(xml), "XML body");
        let json = JsonTemplate::Object(vec![("b".into(), JsonTemplate::Text(text("a-{{ args.tenant }}")))]);
        let json = RequestBodyTemplate::Json(JsonTemplate::Object(vec![("a".into(), json)]));
        check(|template| template.body = Some(json), "member `b`");
        check(
            |template| template.body = Some(RequestBodyTemplate::Text(text("{{ args.tenant }}"))),
            "text body",
        );
    }

    #[test]
    fn bodies_are_written_by_their_encoder() {
        let mut template = template();
        template.body = Some(RequestBodyTemplate::Json(JsonTemplate::Object(vec![
            ("q".into(), JsonTemplate::Text(text("{{ args.q }}!"))),
            ("n".into(), JsonTemplate::Argument("n".into())),
            ("gone".into(), JsonTemplate::Argument("gone".into())),
            ("null".into(), JsonTemplate::NotNull("null".into())),
            ("absent".into(), JsonTemplate::NotNull("absent".into())),
        ])));
        let arguments = json!({"city": "Oslo", "q": "\",\"x\":\"", "n": 1.50, "null": null});
        let request = build(&template, arguments).unwrap();
        assert_eq!(request.body, r#"{"q":"\",\"x\":\"!","n":1.5}"#);
        assert_eq!(request.headers[header::CONTENT_TYPE], "application/json");
        template.body =
            Some(RequestBodyTemplate::Form(vec![("q".into(), ValueTemplate::Argument("q".into()))]));
        assert_eq!(build(&template, json!({"city": "Oslo", "q": "a&b"})).unwrap().body, "q=a%26b");
    }

    #[test]
    fn values_in_xml_are_escaped() {
        let mut template = template();
        let source = "<q a=\"{{ args.q }}\">{{ args.q }}</q>{% if args.n > 1 %}<n>{{ args.n }}</n>{% endif %}\
                      {% set part %}<i>{{ args.q }}</i>{% endset %}{{ part }}{{ args.q | escape }}";
        template.body =
            Some(RequestBodyTemplate::Xml(Template::compile_for(OutputContext::Xml, source).unwrap()));
        let body = |q: &str| build(&template, json!({"city": "Oslo", "q": q, "n": 2}));
        let escaped_request = body("a<b a='c'>&\"\r]]>é😀\t\n").unwrap();
        let escaped = "a&lt;b a=&#39;c&#39;&gt;&amp;&quot;&#13;]]&gt;é😀\t\n";
        let by_filter = body("plain").unwrap();
        assert_eq!(by_filter.body, "<q a=\"plain\">plain</q><n>2</n><i>plain</i>plain");
        let xml = String::from_utf8(escaped_request.body.to_vec()).unwrap();
        let expected = format!("<q a=\"{escaped}\">{escaped}</q><n>2</n><i>{escaped}</i>");
        assert!(xml.starts_with(&expected), "{xml}");
        assert!(!xml[expected.len()..].contains(['<', '>', '"', '\'']), "{xml}");
        assert_eq!(by_filter.headers[header::CONTENT_TYPE], "application/xml");
        let media_type = ValueTemplate::Text(text("text/xml; charset=utf-8"));
        template.headers = vec![("content-type".parse().unwrap(), media_type)];
        let request = build(&template, json!({"city": "Oslo", "q": "", "n": 1})).unwrap();
        assert_eq!(request.headers[header::CONTENT_TYPE], "text/xml; charset=utf-8");
        for (invalid_text, code_point) in
            [("a\0b", "U+0000"), ("\u{1b}[1m", "U+001B"), ("\u{ffff}", "U+FFFF")]
        {
            let error =
                build(&template, json!({"city": "Oslo", "q": invalid_text, "n": 1})).unwrap_err().to_string();
            assert!(error.contains("argument `q`") && error.contains(code_point), "{error}");
        }
    }

    #[test]
    fn a_target_has_a_limit() {
        let error = build(&template(), json!({"city": "x".repeat(9000)})).unwrap_err();
        assert!(error.to_string().contains("too long"));
    }
}
