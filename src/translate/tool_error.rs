//! Tool errors: built by error rules, for responses that no rule matches, and for errors of MCP servers. The
//! default texts tell a model how to act, and contain no internals of the upstream.

use minijinja::Value as TemplateValue;
use serde_json::{Value, json};
use settings_derive::Section;

use super::charset::is_html;
use super::extract::{ResultKind, is_from_mcp_server, message_of_page};
use super::leak_filter::{ClientStrings, looks_internal, redact_error_text, redacted};
use super::pattern::Captures;
use super::response_view::{LazyExtraction, ResponseView};
use super::translator::{MAX_TRACED, TranslationRun};
use super::variables::{TemplateContext, jq_variables};
use super::{Jq, Template, TemplateBudget, TemplateError, Translator};
use crate::model::{
    BlockText, Content, ContentBlock, ErrorType, JsonText, ProgramEnd, Structured, ToolOutcome, ToolResult,
    UpstreamResponse, cut_bytes, object_without_nones,
};
use crate::settings::{Checked, Code, Cursor, Setting, ValueKind};

/// Key in the `_meta` of a tool error: HTTP status of the upstream.
pub const STATUS_META_KEY: &str = "glossator/upstreamStatus";
/// Key in the `_meta` of a tool error: exit status of a program, or the name of a signal.
const EXIT_META_KEY: &str = "glossator/exit";
/// Key in the `_meta` of a tool error: seconds until another call makes sense.
pub const RETRY_AFTER_META_KEY: &str = "glossator/retryAfter";
/// Key in the `_meta` of a tool error: the upstream's own error code.
pub const CODE_META_KEY: &str = "glossator/upstreamCode";

/// Text, code and structured content of an error.
#[derive(Debug, Section)]
#[section(id = "error", text = "text")]
pub struct ErrorRule {
    /// Error text for the model: a template.
    #[key(example = "`text: \"…\"`: what the model reads", with = read_text)]
    pub text: Template,
    /// Error code for programs: a template; `{{ json.code }}` alone keeps its type.
    pub code: Option<CodeTemplate>,
    /// jq filter from the value to the structured content of the error.
    pub structured: Option<Jq>,
    /// HTTP status of the error for REST clients.
    #[key(range = 400..=599)]
    pub status: Option<u16>,
}

/// Reads the template of the text of an error. Reports an empty template.
fn read_text(value: &Cursor<'_>) -> Checked<Template> {
    if value.node.as_text().is_some_and(|text| text.trim().is_empty()) {
        let help = "write what is wrong and what to do: `error: \"No such city. Try Oslo.\"`";
        let message = "`error` is empty, so a model could not correct the call";
        value.context.report.error(Code::EmptyValue.at_span(value.node.span), message, help);
    }
    Template::read(value)
}

/// Template of an error code. Renders a string, or the value itself if the template is a single expression,
/// so that `{{ json.code }}` stays a number.
#[derive(Debug)]
pub struct CodeTemplate {
    template: Template,
    renders_json: bool,
}

impl ErrorRule {
    fn templates(&self) -> impl Iterator<Item = &Template> {
        std::iter::once(&self.text).chain(self.code.as_ref().map(|code| &code.template))
    }

    /// Whether a part of the error uses the extracted value.
    pub fn reads_value(&self) -> bool {
        self.structured.is_some() || self.templates().any(|template| template.uses("value"))
    }
}

impl Setting for CodeTemplate {
    const KIND: ValueKind = ValueKind::Scalar;

    fn read(value: &Cursor<'_>) -> Checked<Self> {
        Template::read(value).map(Self::new)
    }
}

impl CodeTemplate {
    /// Maximum length of a code, in bytes; a longer code is omitted.
    pub const MAX_BYTES: usize = 200;

    /// Creates the template of a code. A single expression keeps the type of its value.
    pub fn new(template: Template) -> Self {
        let expression = template.source().trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        let expression = expression
            .map(|expression| expression.trim_matches('-'))
            .filter(|expression| !expression.contains("}}"));
        let as_json = expression
            .and_then(|expression| Template::compile(&format!("{{{{ ({expression}) | tojson }}}}")).ok());
        Self { renders_json: as_json.is_some(), template: as_json.unwrap_or(template) }
    }

    fn render(&self, variables: &TemplateValue, budget: &TemplateBudget) -> Result<Value, TemplateError> {
        let text = self.template.render_within(variables, budget)?;
        Ok(match serde_json::from_str(&text) {
            Ok(value) if self.renders_json => value,
            _ => Value::String(text.trim().to_owned()),
        })
    }
}

impl TranslationRun<'_> {
    /// Applies an error rule to a response. If a part of the rule fails, the client still receives an error
    /// message.
    pub(super) fn error(
        &mut self,
        rule: &ErrorRule,
        view: &ResponseView<'_>,
        captures: &Captures,
        extraction: &LazyExtraction<'_>,
    ) -> ToolResult {
        // The rule may hide the response from clients, so log it for the operator.
        self.note_body(view);
        let error_type = error_type(view, rule.status);
        let value = rule.reads_value().then(|| extraction.value());
        let value = value.and_then(|value| {
            extraction.trace(self.trace);
            value
                .map_err(|error| self.note_error("the value for an error could not be extracted", &error))
                .ok()
        });
        let structured = value.zip(rule.structured.as_ref()).and_then(|(value, jq)| {
            match jq.apply(value, jq_variables(view, captures)) {
                Ok(structured) => {
                    self.trace_filter(jq, &structured);
                    // Wraps a value that is not an object: the output schema applies to successes only.
                    Some(Structured::new(JsonText::from_value(&structured)))
                }
                Err(error) => {
                    self.note_filter_error(&error);
                    self.note(format!("`structured` of an error {error}"));
                    None
                }
            }
        });
        let context = TemplateContext { view, captures, value, structured: structured.as_ref() };
        let variables =
            TemplateValue::from_pairs(context.variables(&self.translator.redaction, rule.templates()));
        let budget = TemplateBudget::new(view.input.work_budget);
        let code = rule.code.as_ref().map_or(Ok(Value::Null), |code| code.render(&variables, &budget));
        let code = code.unwrap_or_else(|error| {
            self.note_template("code", &error);
            Value::Null
        });
        let text = rule.text.render_within(&variables, &budget);
        match &text {
            Ok(text) if text.trim().is_empty() => {
                self.note("the template of `error` rendered an empty string");
            }
            Ok(_) => {}
            Err(error) => self.note_template("error", error),
        }
        let result = self.error_or_default(view, error_type, text.unwrap_or_default().trim_end(), code);
        ToolResult { structured, ..result }
    }

    /// Builds a tool error with `text`, or the default error if `text` is empty. The code is omitted if it is
    /// empty, null, too long, or not a scalar.
    fn error_or_default(
        &mut self,
        view: &ResponseView<'_>,
        error_type: ErrorType,
        text: &str,
        code: Value,
    ) -> ToolResult {
        let result = if !text.is_empty() {
            self.trace.step("error", || cut_bytes(text, MAX_TRACED));
            ToolResult::error(error_type, text)
        } else if view.response.status.is_success() {
            let text = "The service reported an error, but its message could not be rendered.";
            ToolResult::error(error_type, text)
        } else {
            error_for_status(view, self.translator)
        };
        let length = match &code {
            Value::String(text) => text.len(),
            Value::Number(_) | Value::Bool(_) => code.to_string().len(),
            Value::Null | Value::Array(_) | Value::Object(_) => 0,
        };
        if !(1..=CodeTemplate::MAX_BYTES).contains(&length) {
            return result;
        }
        self.trace.step("code", || code.to_string());
        result.with_meta(CODE_META_KEY, code)
    }

    /// Builds the tool error for the value that a filter raised with jq's `error(…)`: a string, or an object
    /// with `message` and optionally `code` and `status`.
    pub(super) fn raised_error(&mut self, view: &ResponseView<'_>, raised: &Value) -> ToolResult {
        let message = match raised {
            Value::Object(members) => members.get("message").unwrap_or(&Value::Null),
            other => other,
        };
        let status = raised.get("status").and_then(Value::as_u64).and_then(|status| status.try_into().ok());
        let error_type = error_type(view, status.filter(|status| (400..=599).contains(status)));
        let text = match message {
            Value::String(text) => text.trim().to_owned(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        if text.is_empty() {
            self.note("`error` of a filter returned an empty string");
        }
        let code = raised.get("code").cloned().unwrap_or_default();
        self.error_or_default(view, error_type, &text, code)
    }

    /// Builds the tool error for an error of an MCP server, with the server's content blocks. Internals are
    /// masked.
    pub(super) fn mcp_error(
        &mut self,
        view: &ResponseView<'_>,
        content: Vec<Content>,
        kind: ResultKind,
    ) -> ToolResult {
        /// Codes of an internal error, an invalid request and a parse error (JSON-RPC 2.0, section 5.1).
        /// Their messages are for the operators of the server.
        const INTERNAL: [i64; 3] = [-32603, -32600, -32700];
        // Log the response, because parts of its text may be withheld from the client.
        self.note_body(view);
        let is_blank =
            |content: &Content| content.block.text(None).is_some_and(|text| text.trim().is_empty());
        let client_strings = ClientStrings::from_arguments(view.input.args);
        let redact = |text: &str| redact_error_text(&self.translator.redaction.redact(text), &client_strings);
        let (content, code) = match kind {
            // This applies only to upstreams that are configured as MCP servers. Over plain HTTP, the rules
            // of the route decide.
            ResultKind::ProtocolError { code, .. }
                if is_from_mcp_server(view.response)
                    && code.as_ref().and_then(Value::as_i64).is_some_and(|code| INTERNAL.contains(&code)) =>
            {
                // Some servers also use this code for invalid arguments.
                let text = "The service reported an internal error, whose details are not shown. Check the \
                            arguments; if they are valid, retry later.";
                (vec![Content::text(text)], code)
            }
            ResultKind::ProtocolError { code, message } => (vec![Content::text(redact(&message))], code),
            ResultKind::Success | ResultKind::ToolError if content.iter().all(is_blank) => {
                (vec![Content::text("The tool failed and gave no reason.")], None)
            }
            ResultKind::Success | ResultKind::ToolError => {
                (content.into_iter().map(|content| redact_block(content, redact)).collect(), None)
            }
        };
        let outcome = ToolOutcome::Error(ErrorType::ReportedError { status: None });
        let meta = object_without_nones([(CODE_META_KEY, code)]);
        ToolResult { meta, ..ToolResult::new(outcome, content) }
    }

    /// Records the output of a filter in the trace.
    pub(super) fn trace_filter(&mut self, jq: &Jq, value: &Value) {
        if self.trace.is_on() {
            let filter = cut_bytes(jq.source(), MAX_TRACED);
            self.trace.step(format_args!("jq {filter}"), || cut_bytes(&value.to_string(), MAX_TRACED));
        }
    }
}

/// Error type of a response. A 4xx or 5xx response is an upstream error with its HTTP status, unless
/// `declared` sets another status. Any other response is a reported error: its body reports the error, not
/// its HTTP status. Output of a program is a reported error, too, because an exit status is not an HTTP
/// status.
fn error_type(view: &ResponseView<'_>, declared: Option<u16>) -> ErrorType {
    let status = view.response.status;
    match declared {
        None if view.response.exit.is_some() => ErrorType::ReportedError { status: None },
        None if status.is_client_error() || status.is_server_error() => {
            ErrorType::Upstream { status: status.as_u16() }
        }
        declared => ErrorType::ReportedError { status: declared },
    }
}

/// Key and value of the status in the `_meta` of a tool error: the exit status of a program, or the HTTP
/// status of the response, if it has one.
pub(super) fn status_meta(response: &UpstreamResponse) -> (&'static str, Option<Value>) {
    match &response.exit {
        Some(exit) => (EXIT_META_KEY, Some(exit.end.to_json())),
        None => (STATUS_META_KEY, response.has_status.then(|| response.status.as_u16().into())),
    }
}

/// Tool error for a status other than 2xx.
pub(super) fn error_for_status(view: &ResponseView<'_>, translator: &Translator) -> ToolResult {
    let response = view.response;
    let status = response.status;
    let error_type = ErrorType::Upstream { status: status.as_u16() };
    if let Some(exit) = &response.exit {
        return ToolResult::error(error_type, text_for_exit(exit.end, view.input.args));
    }
    let (text, code) = if status.is_client_error() {
        let (message, code) = message_of(view, translator);
        let no_reason =
            || format!("The service rejected the request with status {status} and gave no reason.");
        (message.unwrap_or_else(no_reason), code)
    } else {
        (text_for_status(response, translator.has_effect && !response.rejects_session), None)
    };
    let retry_after = response.retry_after_seconds().map(Value::from);
    let (status_key, status) = status_meta(response);
    let members = [(CODE_META_KEY, code), (RETRY_AFTER_META_KEY, retry_after), (status_key, status)];
    let meta = object_without_nones(members);
    ToolResult { meta, ..ToolResult::error(error_type, text) }
}

/// Text for a failed program. The output of the program is withheld, like the body of a 5xx response.
fn text_for_exit(end: ProgramEnd, args: &Value) -> String {
    match end {
        ProgramEnd::Code(_) => format!(
            "The program behind this tool ended with {}. Its error output is in the operator's log only at \
             level `debug`.{}",
            end.describe(),
            if *args == json!({}) { "" } else { " Different arguments may help." }
        ),
        ProgramEnd::Signal(_) => format!(
            "The program behind this tool was terminated by {} before it finished. A retry may help; if it \
             does not, tell the operator of this tool.",
            end.describe()
        ),
    }
}

/// Text for a status other than 2xx and 4xx. The body of a 5xx response is never passed on: it may contain
/// stack traces, queries and addresses of the upstream.
fn text_for_status(response: &UpstreamResponse, has_effect: bool) -> String {
    let status = response.status;
    if status.is_redirection() {
        return format!(
            "The service responded with status {status}, a redirect, which this tool does not follow. Its \
             operator can set `max_redirects` for redirects to the same address."
        );
    }
    let wait = match response.retry_after_seconds() {
        Some(1) => " in 1 second".to_owned(),
        Some(seconds) => format!(" in {seconds} seconds"),
        None if has_effect => String::new(),
        None => " later".to_owned(),
    };
    let advice = match has_effect {
        true => format!("The request may have taken effect: check before you retry{wait}."),
        false => format!("Retry{wait}."),
    };
    format!("The service failed with status {status}. Different arguments are unlikely to help. {advice}")
}

/// Message and error code of a 4xx response, or of a page in place of an image: from the usual fields of
/// JSON, from the heading and the first paragraph of HTML, or from the text.
///
/// Reads and redacts only the beginning: twice `error_text_limit`, or 16 KiB of an HTML page.
pub(super) fn message_of(
    view: &ResponseView<'_>,
    translator: &Translator,
) -> (Option<String>, Option<Value>) {
    let max_bytes = translator.limits.error_text_bytes.saturating_mul(2);
    // Apply the route's redaction before the leak filter: an address may be part of a secret.
    let redacted_start = |text: &str| translator.redaction.beginning(text, max_bytes);
    let client_strings = ClientStrings::from_arguments(view.input.args);
    if let Some(json) = view.json() {
        return match json {
            Value::Object(_) => {
                // The text is cut at the end of a word, so a single long word may leave nothing.
                let message = message_in(json).map(|text| redacted(&redacted_start(&text), &client_strings));
                (message.filter(|text| !text.trim().is_empty()), code_in(json))
            }
            Value::String(text) => (safe_text(&redacted_start(text), &client_strings), None),
            _ => (None, None),
        };
    }
    let media_type = view.response.media_type();
    let text = view.lossy_text();
    if is_html(media_type.as_deref(), text.as_bytes()) {
        let page = translator.redaction.beginning(&text, PAGE_LIMIT_BYTES);
        let message = message_of_page(&page, view.response.status);
        return (message.and_then(|message| safe_text(&redacted_start(&message), &client_strings)), None);
    }
    if media_type.is_some_and(|media_type| !media_type.starts_with("text/")) {
        return (None, None);
    }
    (safe_text(&redacted_start(&text), &client_strings), None)
}

/// Number of bytes at the beginning of an HTML error page that are searched: the message is after the styles,
/// near the beginning.
const PAGE_LIMIT_BYTES: usize = 16 << 10;

/// Returns the message in the JSON fields in which APIs usually put it; RFC 9457 has `detail` and `title`.
fn message_in(json: &Value) -> Option<String> {
    const NAMES: [&str; 7] =
        ["message", "detail", "error_description", "description", "reason", "title", "msg"];
    fn non_empty_text(value: &Value) -> Option<&str> {
        value.as_str().map(str::trim).filter(|text| !text.is_empty())
    }
    fn find_message(value: &Value) -> Option<&str> {
        NAMES.iter().find_map(|name| value.get(name).and_then(non_empty_text))
    }
    let message = find_message(json);
    // In `{"error": "invalid_grant", "error_description": "…"}` (RFC 6749), the description is more helpful.
    let error = || match json.get("error")? {
        error @ Value::Object(_) => find_message(error),
        error => non_empty_text(error).filter(|error| error.contains(' ') || message.is_none()),
    };
    let first_of_list = |name| {
        let item = json.get(name)?.as_array()?.first()?;
        non_empty_text(item).or_else(|| find_message(item))
    };
    let found = json.get("error_description").and_then(non_empty_text).or_else(error).or(message);
    let found = found.or_else(|| ["errors", "detail"].into_iter().find_map(first_of_list));
    found.filter(|text| !looks_internal(text)).map(str::to_owned)
}

fn code_in(json: &Value) -> Option<Value> {
    let is_code_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let nested = json.get("error").and_then(|error| error.get("code"));
    let code = nested.or_else(|| json.get("code"))?;
    let is_code = match code {
        // A code is one word; longer text may contain internals.
        Value::String(code) => (1..=64).contains(&code.len()) && code.bytes().all(is_code_byte),
        other => other.is_number(),
    };
    is_code.then(|| code.clone())
}

/// Masks the internals in a text; `None` if the text is empty, markup, or a stack trace.
fn safe_text(text: &str, client_strings: &ClientStrings<'_>) -> Option<String> {
    let text = text.trim();
    let is_markup = text.starts_with('<');
    (!text.is_empty() && !is_markup && !looks_internal(text)).then(|| redacted(text, client_strings))
}

/// Masks the text of a content block with `redact`; a block whose text does not change is returned as it is.
fn redact_block(content: Content, redact: impl Fn(&str) -> String) -> Content {
    match content.block.text(None).map(|text| (redact(&text), text)) {
        Some((redacted_text, text)) if redacted_text != text => {
            Content { block: ContentBlock::Text(BlockText::Plain(redacted_text)), ..content }
        }
        _ => content,
    }
}
