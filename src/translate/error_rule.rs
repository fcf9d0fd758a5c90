//! Error rules: from a response to a tool error.

use minijinja::Value as Name;
use serde_json::Value;

use super::{
    CODE_META_KEY, Jq, Template, TemplateBudget, TemplateError,
    default_error::{default_error_of_rule, error_with_status},
    extract::Extract,
    pattern::Captures,
    response_view::{LazyExtraction, ResponseView},
    translator::{MAX_TRACED, TranslationRun},
    variables::{TemplateContext, jq_names},
};
use crate::{
    model::{ErrorType, JsonText, Structured, ToolResult, cut_bytes},
    settings::{
        keys::ValueKind,
        section::{Checked, Cursor, Setting},
    },
};

/// Compiled error rule.
#[derive(Debug)]
pub struct ErrorRule {
    /// Extractor of the value that `structured`, `code` and `value` use; selected by media type if there is
    /// none.
    pub extract: Option<Extract>,
    /// Text of the error, for the model.
    pub text: Template,
    /// The upstream's own error code, for `_meta`.
    pub code: Option<CodeTemplate>,
    /// Filter from the value to the structured content of the error. Without it, the error has none.
    pub structured: Option<Jq>,
    /// HTTP status for REST clients.
    pub status: Option<u16>,
}

/// Template of an error code. Renders a string, or the value itself if the template is a single expression,
/// so that `{{ json.code }}` stays a number.
#[derive(Debug)]
pub struct CodeTemplate {
    template: Template,
    gives_json: bool,
}

impl ErrorRule {
    fn templates(&self) -> impl Iterator<Item = &Template> {
        std::iter::once(&self.text).chain(self.code.as_ref().map(|code| &code.template))
    }

    /// Whether it uses the value of its extractor.
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
    /// Limit of a code, in bytes; longer ones are omitted.
    pub const MAX_BYTES: usize = 200;

    /// Wraps a template.
    pub fn new(template: Template) -> Self {
        let inside = template.source().trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
        let inside = inside.map(|inside| inside.trim_matches('-')).filter(|inside| !inside.contains("}}"));
        let as_json =
            inside.and_then(|inside| Template::compile(&format!("{{{{ ({inside}) | tojson }}}}")).ok());
        Self { gives_json: as_json.is_some(), template: as_json.unwrap_or(template) }
    }

    /// The code; `None` if it is empty, null, too long, or not a scalar.
    fn render(&self, names: &Name, budget: &TemplateBudget) -> Result<Option<Value>, TemplateError> {
        let text = self.template.render_within(names, budget)?;
        let code = match serde_json::from_str(&text) {
            Ok(value) if self.gives_json => value,
            _ => Value::String(text.trim().to_owned()),
        };
        Ok(match &code {
            Value::String(text) => (1..=Self::MAX_BYTES).contains(&text.len()).then_some(code),
            Value::Number(_) => (text.len() <= Self::MAX_BYTES).then_some(code),
            Value::Bool(_) => Some(code),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        })
    }
}

impl TranslationRun<'_> {
    /// Applies an error rule to a response. Total: if a part fails, the client still receives a text.
    pub(super) fn error(
        &mut self,
        rule: &ErrorRule,
        view: &ResponseView<'_>,
        captures: &Captures,
        finding: &LazyExtraction<'_>,
    ) -> ToolResult {
        // The text may be meant to hide the response from clients; the log has it for the operator.
        self.note_body(view);
        let error_type = error_type(view, rule.status);
        let value = rule.reads_value().then(|| finding.value());
        let value = value.and_then(|value| {
            finding.trace(self.trace);
            value.map_err(|why| self.note_why("the value for an error could not be extracted", &why)).ok()
        });
        let structured = value.zip(rule.structured.as_ref()).and_then(|(value, jq)| {
            match jq.apply(value, jq_names(view, captures)) {
                Ok(structured) => {
                    self.trace_filter(jq, &structured);
                    // An object for every client: the output schema of a route applies to successes only.
                    Some(Structured::new(JsonText::from_value(&structured)))
                }
                Err(error) => {
                    self.note_detail(&error);
                    self.note(format!("`structured` of an error {error}"));
                    None
                }
            }
        });
        let context = TemplateContext { view, captures, value, structured: structured.as_ref() };
        let names = Name::from_pairs(context.names(Some(&self.translator.redaction), rule.templates()));
        let budget = TemplateBudget::new(view.input.stop);
        let code = rule.code.as_ref().and_then(|code| {
            code.render(&names, &budget).unwrap_or_else(|error| {
                self.note_template("code", &error);
                None
            })
        });
        let text = rule.text.render_within(&names, &budget);
        match &text {
            Err(error) => self.note_template("error", error),
            Ok(text) if text.trim().is_empty() => {
                self.note("the template of `error` rendered an empty string");
            }
            Ok(_) => {}
        }
        let mut result = self.error_or_default(view, error_type, text.unwrap_or_default().trim_end());
        if let Some(code) = code {
            self.trace.step("code", || code.to_string());
            result = result.with_meta(CODE_META_KEY, code);
        }
        result.structured = structured;
        result
    }

    /// Tool error with this text, or the default error if it is empty.
    fn error_or_default(&mut self, view: &ResponseView<'_>, error_type: ErrorType, text: &str) -> ToolResult {
        if text.is_empty() {
            return default_error_of_rule(view, error_type, self.translator);
        }
        self.trace.step("error", || cut_bytes(text, MAX_TRACED));
        error_with_status(view, error_type, text)
    }

    /// Tool error raised by a filter with jq's `error(…)`: a string, or an object with `message` and
    /// optionally `code` and `status`.
    pub(super) fn raised_error(&mut self, view: &ResponseView<'_>, raised: &Value) -> ToolResult {
        let message = match raised {
            Value::Object(members) => members.get("message").unwrap_or(&Value::Null),
            other => other,
        };
        let status =
            raised.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
        let status = status.filter(|status| (400..=599).contains(status));
        let error_type = error_type(view, status);
        let text = match message {
            Value::String(text) => text.trim().to_owned(),
            Value::Null => String::new(),
            other => other.to_string(),
        };
        let result = self.error_or_default(view, error_type, &text);
        if text.is_empty() {
            self.note("`error` of a filter returned an empty string");
            return result;
        }
        match raised.get("code") {
            Some(code @ (Value::Number(_) | Value::String(_)))
                if code.to_string().len() <= CodeTemplate::MAX_BYTES =>
            {
                result.with_meta(CODE_META_KEY, code.clone())
            }
            _ => result,
        }
    }

    /// Records the output of a filter in the trace.
    pub(super) fn trace_filter(&mut self, jq: &Jq, value: &Value) {
        if self.trace.is_on() {
            let filter = cut_bytes(jq.source(), MAX_TRACED);
            self.trace.step(format_args!("jq {filter}"), || cut_bytes(&value.to_string(), MAX_TRACED));
        }
    }
}

/// Error type: the upstream's own HTTP status, or an error reported inside another status. An exit status is
/// not an HTTP status.
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
