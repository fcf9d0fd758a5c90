//! Variables of the templates and filters of a rule, and the sampling request rendered from them.

use minijinja::Value as TemplateValue;
use serde_json::Value;
use settings_derive::{EnumSetting, Section};

use super::pattern::Captures;
use super::response_view::ResponseView;
use super::template::from_json;
use super::{JqVariables, Redaction, Template, TemplateBudget, TemplateError, WorkBudget};
use crate::model::Structured;
use crate::model::StructuredContentSupport::ObjectsOnly;

/// Variables of the templates of a rule.
pub const TEMPLATE_VARIABLES: [&str; 10] = [
    "args",
    "input_responses",
    "status",
    "exit_status",
    "stderr",
    "headers",
    "text",
    "json",
    "value",
    "structured",
];

/// Data from which the variables of a template are computed.
#[derive(Clone, Copy)]
pub(super) struct TemplateContext<'a> {
    pub(super) view: &'a ResponseView<'a>,
    pub(super) captures: &'a Captures,
    /// The extracted value.
    pub(super) value: Option<&'a Value>,
    pub(super) structured: Option<&'a Structured>,
}

impl TemplateContext<'_> {
    /// Returns the variables that `templates` use, and the captures, each with its value. Secrets in the
    /// values are redacted before rendering: a template may cut a text in the middle of a secret, and half a
    /// secret matches no pattern.
    pub(super) fn variables<'t>(
        &self,
        redaction: &Redaction,
        templates: impl Iterator<Item = &'t Template>,
    ) -> Vec<(String, TemplateValue)> {
        let view = self.view;
        let redacted = |value: &Value| match redaction.is_empty() {
            true => from_json(value),
            false => from_json(&redaction.redact_in(value.clone())),
        };
        let redacted_text = |text: &str| TemplateValue::from(&*redaction.redact(text));
        let mut variables: Vec<(String, TemplateValue)> = Vec::new();
        for name in templates.flat_map(|template| &template.used.names) {
            let value = match name.as_str() {
                "args" => Some(from_json(view.input.args)),
                "input_responses" => Some(from_json(view.input.input_responses)),
                "status" => Some(TemplateValue::from(view.response.status.as_u16())),
                "exit_status" => view.response.exit.as_ref().map(|exit| from_json(&exit.end.to_json())),
                "stderr" => view.response.exit.as_ref().map(|exit| redacted_text(&exit.stderr_text())),
                "headers" => Some(redacted(view.headers())),
                "text" => view.text().ok().map(|text| redacted_text(text)),
                "json" => view.json().map(redacted),
                "value" => self.value.map(redacted),
                "structured" => self.structured.map(|structured| redacted(&structured.value(ObjectsOnly))),
                _ => None,
            };
            variables.extend(value.map(|value| (name.clone(), value)));
        }
        variables.extend(self.captures.iter().map(|(name, text)| (name.clone(), redacted_text(text))));
        variables
    }
}

/// Values of the variables that jq filters of a rule can use, such as `$args` and `$status`.
pub(super) fn jq_variables<'a>(view: &'a ResponseView<'_>, captures: &'a Captures) -> JqVariables<'a> {
    JqVariables {
        args: view.input.args,
        input_responses: view.input.input_responses,
        status: view.response.status.as_u16(),
        exit: view.response.exit.as_deref(),
        headers: view.headers(),
        captures,
        max_values: view.limits.values,
        work_budget: view.input.work_budget,
    }
}

/// Sampling request with templates for its texts.
pub type SamplingRequestTemplate = SamplingRequest<Template>;

/// Sampling request to the client's model; ready to be sent if `T` is a string.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingRequest<T = String> {
    /// Messages with their roles, in order; never empty.
    pub messages: Vec<(MessageRole, T)>,
    /// System prompt.
    pub system: Option<T>,
    /// Other settings.
    pub options: SamplingOptions,
}

/// Settings of a sampling request that are not templates.
#[derive(Debug, Clone, PartialEq, Section)]
pub struct SamplingOptions {
    /// Maximum length of the output, in tokens.
    #[key(range = 1..=1_000_000, default = 1000)]
    pub max_tokens: u64,
    /// Sampling temperature.
    #[key(example = "0.2")]
    pub temperature: Option<f64>,
    /// Stop sequences.
    #[key(name = "stop")]
    pub stop_sequences: Vec<String>,
    /// Model hints: names or parts of names, the best first.
    pub models: Vec<String>,
    /// Whether the call continues without the model's output.
    pub optional: bool,
}

/// Role of a message, by its name in MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum MessageRole {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// Key of the model's response to a sampling request in `input_responses`.
pub const SAMPLE: &str = "sample";

impl SamplingRequestTemplate {
    /// Maximum length of all rendered texts of a request together, in bytes.
    pub const LIMIT_BYTES: usize = 1 << 20;

    /// All templates of the request, for checks when the configuration is loaded.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.messages.iter().map(|(_, template)| template).chain(&self.system)
    }

    /// Renders the templates. The work counts against `work_budget`, which may also cancel it.
    ///
    /// # Errors
    ///
    /// [`TemplateError`] if a template fails, or if the rendered texts together are longer than
    /// [`Self::LIMIT_BYTES`].
    pub fn render(
        &self,
        variables: &TemplateValue,
        work_budget: Option<&WorkBudget>,
    ) -> Result<SamplingRequest, TemplateError> {
        let budget = TemplateBudget::new(work_budget);
        let render = |template: &Template| template.render_within(variables, &budget);
        let rendered = |(role, template): &(MessageRole, Template)| Ok((*role, render(template)?));
        let messages: Vec<_> = self.messages.iter().map(rendered).collect::<Result<_, TemplateError>>()?;
        let system = self.system.as_ref().map(render).transpose()?;
        let bytes: usize = messages.iter().map(|(_, text)| text.len()).sum();
        if bytes + system.as_ref().map_or(0, String::len) > Self::LIMIT_BYTES {
            let message = format!("the sampling request is longer than {} bytes", Self::LIMIT_BYTES);
            return Err(TemplateError::without_line(message));
        }
        Ok(SamplingRequest { messages, system, options: self.options.clone() })
    }
}
