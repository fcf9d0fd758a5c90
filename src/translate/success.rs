//! Success rules, which build a successful tool result from a response.

use bytestring::ByteString;
use serde_json::Value;
use settings_derive::Section;

use super::content::{self, RenderedBlock, TextKind};
use super::extract::{Extracted, McpResult, ResultKind, is_from_mcp_server, replace_server_value};
use super::pattern::Captures;
use super::response_view::{LazyExtraction, ResponseView};
use super::translator::{MAX_TRACED, TranslationFailure, TranslationRun, content_summary};
use super::variables::{TemplateContext, jq_variables};
use super::{
    ContentTemplate, Jq, LIMIT_META_KEY, Limit, Redaction, SAMPLE, SamplingRequestTemplate, Template,
    WrapNonObjects,
};
use crate::model::{
    BlockText, Content, ContentBlock, JsonText, Structured, ToolOutcome, ToolResult, UpstreamResponse,
    cut_bytes,
};

/// Keys of a rule that make a response a success.
#[derive(Debug, Default, Section)]
pub struct SuccessRule {
    /// jq filter from the extracted value to the structured content.
    #[key(conflicts = "error", help = "move it into `error`: `error: { text: …, structured: … }`")]
    pub structured: Option<Jq>,
    /// Sampling request to the client's model about the response; its result is `input_responses.sample.text`
    /// in `content`.
    #[key(conflicts = "error")]
    pub sample: Option<SamplingRequestTemplate>,
    /// Content for users and models: a template, `{ as: … }`, or a list of blocks.
    #[key(conflicts = "error", default = ContentTemplate::default())]
    pub content: ContentTemplate,
    /// Maximum length of a success.
    #[key(conflicts = "error")]
    pub limit: Option<Limit>,
}

impl SuccessRule {
    fn templates(&self) -> impl Iterator<Item = &Template> {
        let of_sample = self.sample.iter().flat_map(|sample| sample.templates());
        self.content.templates().into_iter().chain(of_sample)
    }
}

impl TranslationRun<'_> {
    /// Applies a success rule to a response.
    ///
    /// # Errors
    ///
    /// [`TranslationFailure`], with the reason.
    pub(super) fn success(
        &mut self,
        rule: &SuccessRule,
        view: &ResponseView<'_>,
        captures: &Captures,
        extraction: LazyExtraction<'_>,
    ) -> Result<ToolResult, TranslationFailure> {
        let (extracted, tree) = extraction.into_extracted(self.trace)?;
        let has_no_value = rule.structured.is_none() && self.translator.output.is_none();
        let is_partial = matches!(&extracted, Extracted::Mcp(result) if result.is_partial);
        let mut server_json = None;
        let (extracted, server_blocks) = match extracted {
            Extracted::Mcp(McpResult { content, value, json, kind: ResultKind::Success, .. }) => {
                // Without `fields` or `structured`, the rule declares no value of its own.
                let is_typed = matches!(value.as_deref(), Some(Extracted::Value(_)));
                server_json = json.filter(|_| is_typed || rule.structured.is_some());
                (value.map_or(Extracted::Nothing, |value| *value), content)
            }
            Extracted::Mcp(McpResult { content, kind, .. }) => {
                return Ok(self.mcp_error(view, content, kind));
            }
            Extracted::Block(content) if has_no_value => (Extracted::Nothing, vec![content]),
            extracted => (extracted, Vec::new()),
        };
        let mut whole_text = if let Extracted::Text(text) = &extracted { Some(text.clone()) } else { None };
        let (structured, value) = self.structure(rule, view, captures, extracted, tree)?;
        // Clients that read only the structured content would lose the other blocks. A rule with its own
        // content has chosen the blocks.
        let passes_blocks = is_partial && has_no_value && rule.content.0.is_empty();
        let structured = structured.filter(|_| !passes_blocks);
        let (structured, omitted) = match (&rule.limit, structured) {
            (Some(limit), Some(structured)) => {
                let output = self.translator.output.as_ref().map(|output| (output, view.input.work_budget));
                let (structured, omitted) = limit
                    .truncate_structured(structured, output, view.input.args, rule.content.is_pretty())
                    .map_err(TranslationFailure::TooLong)?;
                (Some(structured), omitted)
            }
            (_, structured) => (structured, None),
        };
        // If the value is the text of the response, the shortened value replaces that text.
        if let (Some(text), Some(_), Some(structured)) = (&mut whole_text, &omitted, &structured)
            && let Value::String(rest) = structured.json.parse()
        {
            *text = rest.into();
        }
        let context =
            TemplateContext { view, captures, value: value.as_ref(), structured: structured.as_ref() };
        if let Some(sample) = &rule.sample
            && view.input.input_responses.get(SAMPLE).is_none()
        {
            let variables =
                minijinja::Value::from_pairs(context.variables(&Redaction::default(), sample.templates()));
            let sample = sample
                .render(&variables, view.input.work_budget)
                .map_err(|error| error.in_part("the sampling request could not be rendered"))?;
            return Err(TranslationFailure::SamplingRequest(Box::new(sample)));
        }
        let mut blocks = content::render(&rule.content, &context, self.trace)?;
        // A binary block and the blocks of an MCP server are returned unchanged, unless they contain values
        // that have been shortened, or that the rule has changed.
        if blocks.is_empty() && omitted.is_none() {
            let server_blocks = match (&server_json, &structured) {
                (Some(json), Some(rule_content)) => {
                    replace_server_value(server_blocks, json, &rule_content.json, view)
                }
                _ => server_blocks,
            };
            let text = if structured.is_some() { TextKind::Json } else { TextKind::Rendered };
            blocks.extend(server_blocks.into_iter().map(|content| RenderedBlock { content, text }));
        }
        if blocks.is_empty() {
            let content = default_block(view.response, whole_text, structured.as_ref());
            blocks.push(RenderedBlock { content, text: TextKind::Rendered });
        }
        let (mut content, omitted): (Vec<_>, _) = match &rule.limit {
            None => (blocks.into_iter().map(|block| block.content).collect(), omitted),
            Some(limit) => {
                let (content, omitted_text) =
                    limit.truncate_texts(blocks).map_err(TranslationFailure::TooLong)?;
                let omitted = match (omitted, omitted_text) {
                    // If the text was already shortened with the structured content, one note is enough.
                    (Some(omitted), Some(text)) if rule.content.has_own_text() => {
                        Some(omitted.and_text(&text))
                    }
                    (omitted, omitted_text) => omitted.or(omitted_text),
                };
                (content, omitted)
            }
        };
        self.trace.step("content", || content_summary(&content));
        let mut result = ToolResult::new(ToolOutcome::Success, Vec::new());
        if let Some((limit, omitted)) = rule.limit.as_ref().zip(omitted) {
            let note = omitted.note(limit, view).unwrap_or_else(|error| {
                self.note_template("note", &error);
                omitted.to_string()
            });
            self.trace.step("limit", || note.clone());
            result = result.with_meta(LIMIT_META_KEY, omitted.meta());
            content.extend((!note.trim().is_empty()).then(|| Content::text(note)));
        }
        Ok(ToolResult { content, structured, ..result })
    }

    /// Builds the structured content. Also returns the extracted value, if a template uses it.
    fn structure(
        &mut self,
        rule: &SuccessRule,
        view: &ResponseView<'_>,
        captures: &Captures,
        extracted: Extracted,
        tree: Option<Value>,
    ) -> Result<(Option<Structured>, Option<Value>), TranslationFailure> {
        let output = self.translator.output.as_ref();
        let is_unchanged = rule.structured.is_none() && output.is_none();
        let needs_value = rule.templates().any(|template| template.uses("value"));
        let allows_unwrapped = self.translator.wrap == WrapNonObjects::LegacyClients;
        let to_structured = |json| Structured { allows_unwrapped, ..Structured::new(json) };
        let source = match extracted {
            Extracted::Nothing if is_unchanged => return Ok((None, None)),
            Extracted::Nothing if rule.structured.is_none() => {
                return Err("it is empty, but this tool has an output schema".into());
            }
            // This is the fast path: nothing reads the response as a tree.
            Extracted::Raw(json) if is_unchanged && !needs_value => {
                if rule.limit.is_some() || rule.content.reads_structure() {
                    view.check_value_count(&json)?;
                }
                return Ok((Some(to_structured(json)), None));
            }
            Extracted::Raw(ref json) => Some(json.clone()),
            _ => None,
        };
        let extracted_value = tree.map_or_else(|| extracted.into_value(view), Ok)?;
        if is_unchanged {
            let structured = to_structured(source.unwrap_or_else(|| JsonText::from_value(&extracted_value)));
            return Ok((Some(structured), needs_value.then_some(extracted_value)));
        }
        let value_for_templates = needs_value.then(|| extracted_value.clone());
        let (value, source) = match &rule.structured {
            None => (extracted_value, source),
            Some(jq) => {
                let value =
                    jq.apply_owned(extracted_value, jq_variables(view, captures)).map_err(|error| {
                        self.note_filter_error(&error);
                        match error.raised {
                            Some(raised) => TranslationFailure::Raised(raised),
                            // The error message quotes nothing of the value.
                            None => read_error!("`structured` {error}").into(),
                        }
                    })?;
                self.trace_filter(jq, &value);
                (value, None)
            }
        };
        let structured = match output {
            Some(output) => {
                let structured = output
                    .enforce(value, source.as_ref(), view.input.work_budget)
                    .map_err(|error| error.in_part("the result violates the output schema"))?;
                let json = structured.json.as_str();
                self.trace.step("schema", || format!("satisfied by {}", cut_bytes(json, MAX_TRACED)));
                structured
            }
            None => to_structured(JsonText::from_value(&value)),
        };
        Ok((Some(structured), value_for_templates))
    }
}

/// Text for a success without content.
pub fn empty_success_text(response: &UpstreamResponse) -> String {
    match &response.exit {
        Some(exit) => format!("Done: the program ended with {} and no output.", exit.end.describe()),
        None if is_from_mcp_server(response) => "Done: the tool returned no content.".to_owned(),
        None => format!("Done: the service responded with status {} and no content.", response.status),
    }
}

/// Builds the default block: the text of the response if the text is the whole value, else the structured
/// content as JSON.
fn default_block(
    response: &UpstreamResponse,
    whole_text: Option<ByteString>,
    structured: Option<&Structured>,
) -> Content {
    let is_string = structured.is_none_or(|structured| structured.json.as_str().starts_with('"'));
    match whole_text.filter(|text| !text.is_empty()) {
        None if structured.is_none() => Content::text(empty_success_text(response)),
        Some(text) if is_string => ContentBlock::Text(BlockText::Shared(text)).into(),
        _ => ContentBlock::Text(BlockText::StructuredContent).into(),
    }
}
