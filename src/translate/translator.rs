//! Compiled rules of a route, and their application to a response. Total and deterministic.

use std::fmt;

use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use settings_derive::{EnumSetting, Section};

use super::extract::{Extract, is_from_mcp_server, is_mcp_error};
use super::leak_filter::{ClientStrings, redacted};
use super::matcher::status_text;
use super::pattern::Captures;
use super::read_error::{LogNote, ReadError};
use super::response_view::{DecompressedBody, LazyExtraction, ResponseView};
use super::tool_error::{error_for_status, message_of, status_meta};
use super::{
    Charset, ErrorRule, JqError, Matcher, Outcome, OutputSchema, Redaction, SamplingRequest, SuccessRule,
    TemplateError, WorkBudget, WrapNonObjects,
};
use crate::model::{
    BlockText, Content, ContentBlock, ErrorType, ToolName, ToolResult, UpstreamResponse, cut_bytes,
};

/// Compiled rules of one route.
#[derive(Debug)]
pub struct Translator {
    /// Rules, tried in order; the first rule that matches is applied. Without rules, the default rules apply.
    pub rules: Vec<Rule>,
    /// Result for a successful response that no rule matches.
    pub on_no_match: OnNoMatch,
    /// Schema that every success must satisfy.
    pub output: Option<OutputSchema>,
    /// Clients for which a value that is not an object is wrapped in `{"result": …}`, if `output` is `None`.
    pub wrap: WrapNonObjects,
    /// Patterns whose matches are redacted in tool errors, status messages, and upstream text in the log.
    pub redaction: Redaction,
    /// Limits of a translation.
    pub limits: TranslationLimits,
    /// Whether the request may change something at the upstream, and is not declared `idempotent`. The
    /// default error for a 5xx status then says that the request may have taken effect.
    pub has_effect: bool,
}

/// Limits of a translation.
#[derive(Debug, Clone, Copy, Section)]
#[section(default)]
pub struct TranslationLimits {
    /// Maximum length of an upstream response.
    // The limit applies to the decompressed body as well.
    #[key(name = "response_limit", size = 1..=1 << 30, default = 8 << 20)]
    pub response_bytes: usize,
    /// Maximum number of JSON values in a response that a rule parses.
    // The limit applies to each tree. Lists and objects count as values. The default is enough for a table of
    // 100,000 rows and 10 columns.
    #[key(name = "max_values", range = 1..=100_000_000, default = 1_200_000)]
    pub values: usize,
    /// Maximum length of an error text.
    // People and models read the text.
    #[key(name = "error_text_limit", size = 64..=1 << 20, default = 2048)]
    pub error_text_bytes: usize,
}

/// Rule: conditions and their effect.
#[derive(Debug)]
pub struct Rule {
    /// Conditions. A success rule without a condition on the status matches 2xx only, so that the text of a
    /// failure is never read as data. For the same reason, no success rule matches an error of an MCP server.
    /// An error rule without a condition on the status does not match 5xx, so that no part of a crash is
    /// passed on by accident.
    pub matcher: Matcher,
    /// Extractor of the value that conditions, filters and templates use. Without one, the media type selects
    /// the extractor.
    pub extract: Option<Extract>,
    /// Charset of the response, if its headers are wrong or do not name one.
    pub charset: Option<Charset>,
    /// Effect of the rule.
    pub action: RuleAction,
}

/// Effect of a rule that matches.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each rule of a configuration")]
pub enum RuleAction {
    /// Returns a tool error.
    Error(ErrorRule),
    /// Returns a successful result.
    Success(SuccessRule),
}

impl Rule {
    /// Whether the rule may match a response with this outcome.
    pub fn accepts(&self, outcome: Outcome) -> bool {
        !self.is_excluded(outcome.0) && self.matcher.accepts(outcome)
    }

    /// Whether the rule excludes this status, because no condition on the status is configured.
    fn is_excluded(&self, status: StatusCode) -> bool {
        let is_excluded = match self.action {
            RuleAction::Success(_) => !status.is_success(),
            RuleAction::Error(_) => status.is_server_error() && self.matcher.stderr.is_none(),
        };
        is_excluded && self.matcher.status.is_none() && self.matcher.exit.is_none()
    }

    /// Returns the named captures if the rule matches, otherwise a sentence with the failed condition.
    fn matches(&self, extraction: &LazyExtraction<'_>) -> Result<Captures, String> {
        let response = extraction.view.response;
        if self.is_excluded(response.status) {
            let excluded_by = match (&self.action, &response.exit) {
                (RuleAction::Success(_), Some(_)) => "a rule without `when: exit_status` is for 0 only",
                (RuleAction::Success(_), None) => "a rule without `when: status` is for 2xx only",
                (RuleAction::Error(_), Some(_)) => {
                    "an error without `when: exit_status` or `stderr` is for 0 only"
                }
                (RuleAction::Error(_), None) => "a rule without `when: status` is not for 5xx",
            };
            return Err(format!("{}, and {excluded_by}", status_text(response)));
        }
        let captures = self.matcher.matches(extraction)?;
        if matches!(self.action, RuleAction::Success(_)) && is_mcp_error(extraction.view) {
            return Err("the result is an error, and a rule without `error` is for successes only".to_owned());
        }
        Ok(captures)
    }
}

/// Result for a successful response that no rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, EnumSetting)]
pub enum OnNoMatch {
    /// A tool error, so that a change of the upstream is noticed.
    #[default]
    Error,
    /// The default rules, which return most responses as text.
    Text,
}

/// Input of a translation besides the response.
#[derive(Debug, Clone, Copy)]
pub struct CallInput<'a> {
    /// Name of the called tool.
    pub tool: &'a ToolName,
    /// Arguments of the call, an object.
    pub args: &'a Value,
    /// Input responses of the call: an object, or null if the route has no input requests.
    pub input_responses: &'a Value,
    /// Work budget; cancelled when no client waits for the result.
    pub work_budget: Option<&'a WorkBudget>,
}

impl<'a> CallInput<'a> {
    /// Creates the input of a call without a work limit.
    pub fn new(tool: &'a ToolName, args: &'a Value) -> Self {
        Self { tool, args, input_responses: &Value::Null, work_budget: None }
    }
}

/// Outcome of a translation.
#[derive(Debug)]
pub struct Translation {
    /// Result for the client.
    pub result: ToolResult,
    /// Index of the rule that was applied, from 0; `None` for the default rules.
    pub rule: Option<usize>,
    /// Sampling request that must be sent to the client's model first; `result` is then only a placeholder.
    pub sampling: Option<Box<SamplingRequest>>,
    /// Notes for the operator, to be logged; some quote the response.
    pub notes: Vec<LogNote>,
}

/// Translates a response into a tool result.
///
/// Total: any status, any bytes and any rules produce a result with content. Deterministic: the same response
/// produces the same result. If the route declares an output schema, every success satisfies it.
pub fn translate(
    translator: &Translator,
    input: CallInput<'_>,
    response: &UpstreamResponse,
    trace: &mut Trace,
) -> Translation {
    let body = DecompressedBody::new();
    let view = ResponseView::new(response, &body, input, translator.limits);
    if trace.is_on()
        && let Some(decompression_summary) = view.decompression_summary()
    {
        trace.step("decompress", || decompression_summary);
    }
    let mut run = TranslationRun { translator, trace, notes: Vec::new(), sampling: None };
    let (mut result, rule) = run.apply_rules(&view);
    let TranslationRun { trace, notes, sampling, .. } = run;
    // The default error for a status has added the status to `_meta` already, after the code.
    let (status_key, status) = status_meta(response);
    if result.is_error()
        && sampling.is_none()
        && !result.meta.contains_key(status_key)
        && let Some(status) = status
    {
        result.meta.shift_insert(0, status_key.to_owned(), status);
    }
    let result = translator.for_clients(result);
    if trace.is_on()
        && let Some(parts) = translator.redaction.redacted_parts(&result)
    {
        trace.step("redact", || format!("matches replaced in {parts}"));
    }
    Translation { result, rule, sampling, notes }
}

/// Reason why a response is not a success.
pub(super) enum TranslationFailure {
    /// The response does not have the form that the rule expects. The error explains the difference.
    Unreadable(ReadError),
    /// The result is longer than the rule's limit and can't be shortened. The text is for the client.
    TooLong(String),
    /// A filter of the rule called jq's `error(…)` with this value.
    Raised(Value),
    /// The client's model must answer this sampling request first.
    SamplingRequest(Box<SamplingRequest>),
}

impl<E: Into<ReadError>> From<E> for TranslationFailure {
    fn from(error: E) -> Self {
        Self::Unreadable(error.into())
    }
}

/// One run of a translator. [`success`](super::success) and [`tool_error`](super::tool_error) have more of
/// its methods.
pub(super) struct TranslationRun<'a> {
    pub(super) translator: &'a Translator,
    pub(super) trace: &'a mut Trace,
    pub(super) notes: Vec<LogNote>,
    pub(super) sampling: Option<Box<SamplingRequest>>,
}

impl TranslationRun<'_> {
    fn apply_rules(&mut self, view: &ResponseView<'_>) -> (ToolResult, Option<usize>) {
        let translator = self.translator;
        for (index, rule) in translator.rules.iter().enumerate() {
            let recoded = rule.charset.map(|charset| view.with_charset(charset));
            let view = recoded.as_ref().unwrap_or(view);
            let extraction = LazyExtraction::new(rule.extract.as_ref(), view);
            let matched = rule.matches(&extraction);
            // A response that exceeds the limits matches no condition, not even under `not`.
            let matched = match view.too_many_values() {
                Some(reason) => matched.and_then(|_| Err(reason.to_owned())),
                None => matched,
            };
            self.trace.step(format_args!("rule {}", index + 1), || match_text(matched.as_ref()));
            if let Ok(captures) = matched {
                let result = match &rule.action {
                    RuleAction::Error(rule) => self.error(rule, view, &captures, &extraction),
                    RuleAction::Success(rule) => self.success_or_error(rule, view, &captures, extraction),
                };
                return (result, Some(index));
            }
            // Record the extracted value that a condition rejected.
            extraction.trace(self.trace);
            // A response that exceeds the limits may be meant for this rule, so no later rule may match it.
            if let Some(reason) = view.too_many_values().filter(|_| view.response.status.is_success()) {
                self.note(format!("the response could not be processed: {reason}"));
                return (self.unreadable(view, reason), Some(index));
            }
        }
        (self.no_match(view), None)
    }

    /// Result for a response that no rule matches.
    fn no_match(&mut self, view: &ResponseView<'_>) -> ToolResult {
        let status = view.response.status;
        if !status.is_success() {
            let reason =
                || format!("no rule matches, and {}: an error by default", status_text(view.response));
            self.trace.step("default", reason);
            self.note_body(view);
            return error_for_status(view, self.translator);
        }
        let is_unexpected = !self.translator.rules.is_empty() && !is_mcp_error(view);
        if is_unexpected && self.translator.on_no_match == OnNoMatch::Error {
            self.trace.step("on_no_match", || "no rule matches: an error".into());
            self.note("no rule of the route matches a response with a success status");
            self.note_body(view);
            let media_type = view.response.media_type();
            let media_type =
                media_type.map_or_else(|| "no content type".into(), |found| format!("type {found}"));
            let subject = match view.response.exit {
                Some(_) => "it".to_owned(),
                None if is_from_mcp_server(view.response) => "it".to_owned(),
                None => format!("it has status {} and {media_type}, and", status.as_u16()),
            };
            return self.unreadable(view, &format!("{subject} matches no rule of this tool"));
        }
        self.trace.step("default", || {
            let media_type = view.response.media_type().unwrap_or_else(|| "missing".into());
            format!("no rule matches: parsed by its media type, which is {media_type}")
        });
        let extraction = LazyExtraction::new(None, view);
        self.success_or_error(&SuccessRule::default(), view, &Captures::new(), extraction)
    }

    /// Applies a success rule; the result is a tool error if the response is not a success.
    fn success_or_error(
        &mut self,
        rule: &SuccessRule,
        view: &ResponseView<'_>,
        captures: &Captures,
        extraction: LazyExtraction<'_>,
    ) -> ToolResult {
        let returns_bytes = rule.content.has_bytes() || extraction.returns_bytes();
        match self.success(rule, view, captures, extraction) {
            Ok(result) => result,
            Err(TranslationFailure::Raised(raised)) => self.raised_error(view, &raised),
            Err(TranslationFailure::SamplingRequest(sample)) => {
                let summary = "requests text from the client's model, and continues with its response";
                self.trace.step("sample", || summary.to_owned());
                self.sampling = Some(sample);
                ToolResult::error(ErrorType::InputMissing, "Text from the client's model is needed first.")
            }
            Err(TranslationFailure::TooLong(message)) => {
                self.trace.step("limit", || message.clone());
                let plain = "the result is longer than the rule's limit, and can't be shortened to it";
                self.add_note(Some(plain.to_owned()), Some(message.clone()));
                ToolResult::error(ErrorType::UnparseableResponse, message)
            }
            Err(TranslationFailure::Unreadable(error)) => {
                let reason = self.note_error("the response could not be processed", &error);
                self.trace.step("failed", || reason.clone());
                self.note_body(view);
                // In place of an image, servers send an error page with status 200.
                let message = returns_bytes.then(|| message_of(view, self.translator).0).flatten();
                let message = message.map(|text| format!("; its message: {}", text.trim_end_matches('.')));
                self.unreadable(view, &(reason + &message.unwrap_or_default()))
            }
        }
    }

    /// Tool error for a response that a rule could not read. The redaction truncates its text later.
    fn unreadable(&self, view: &ResponseView<'_>, reason: &str) -> ToolResult {
        let subject = match view.response.exit {
            Some(_) => "The output of the program",
            None => "The service's response",
        };
        let reason = redacted(&self.translator.redaction.redact(reason), &ClientStrings::default());
        let text = format!("{subject} could not be processed: {reason}.");
        ToolResult::error(ErrorType::UnparseableResponse, text)
    }

    pub(super) fn note(&mut self, message: impl Into<String>) {
        self.add_note(Some(message.into()), None);
    }

    fn add_note(&mut self, plain: Option<String>, quoting: Option<String>) {
        let redacted = |text: String| self.translator.redaction.redact(&text).into_owned();
        let (plain, quoting) = (plain.map(redacted), quoting.map(redacted));
        self.notes.push(LogNote { plain, quoting, is_template_error: false });
    }

    /// Adds a note about a failure, with and without quotes. Returns the reason with quotes.
    pub(super) fn note_error(&mut self, failure: &str, error: &ReadError) -> String {
        let quoting = self.translator.redaction.without_cut_quotes(&error.to_string()).into_owned();
        let (plain, quoted) = (format!("{failure}: {}", error.plain), format!("{failure}: {quoting}"));
        self.add_note(Some(plain), Some(quoted));
        quoting
    }

    /// Adds a note about a template that failed to render. The error message of the engine may quote its
    /// input.
    pub(super) fn note_template(&mut self, key: &str, error: &TemplateError) {
        self.note_error(&format!("the template of `{key}`"), &error.in_part("it failed to render"));
        self.notes.last_mut().expect("a note was added").is_template_error = true;
    }

    /// Adds a note about the error of a filter. An error that the filter raised with `error(…)` is not noted,
    /// because the client receives it.
    pub(super) fn note_filter_error(&mut self, error: &JqError) {
        // A truncated message may end in half a secret, which no pattern matches.
        let may_be_logged = self.translator.redaction.is_empty() || !error.is_detail_cut;
        if let Some(detail) = error.detail.as_ref().filter(|_| may_be_logged && error.raised.is_none()) {
            // Redacted alone, too, because a pattern may be anchored.
            let detail = self.translator.redaction.redact(detail);
            self.add_note(None, Some(format!("a filter failed: {detail}")));
        }
    }

    /// Adds a note with the beginning of an unexpected body.
    pub(super) fn note_body(&mut self, view: &ResponseView<'_>) {
        const MAX_NOTED: usize = 240;
        // A body that can't be decompressed is not logged, because it is not readable.
        if view.body().is_ok_and(|body| !body.is_empty()) {
            let beginning = self.translator.redaction.capped(&view.lossy_text(), MAX_NOTED);
            self.add_note(None, Some(format!("the response begins {beginning:?}")));
        }
    }
}

/// Maximum length of a value in a trace step, in bytes.
pub(super) const MAX_TRACED: usize = 4000;

/// Step of a translation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceStep {
    /// The action: `decompress`, `rule 2`, `default`, `on_no_match`, `decode`, `extract pairs`, `jq …`,
    /// `schema`, `omitted`, `content`, `sample`, `limit`, `error`, `code`, `failed` or `redact`.
    #[serde(rename = "what")]
    pub action: String,
    /// Result of the step, for people; may have several lines.
    pub found: String,
}

/// Trace of a translation, step by step, for `glossator explain`. Recording is optional, and costs nothing if
/// disabled.
#[derive(Debug, Default)]
pub struct Trace {
    steps: Option<Vec<TraceStep>>,
}

impl Trace {
    /// Maximum number of recorded steps; a translation has far fewer.
    const MAX_STEPS: usize = 1000;

    /// Creates a trace that records nothing.
    pub fn off() -> Self {
        Self { steps: None }
    }

    /// Creates a trace that records every step.
    pub fn on() -> Self {
        Self { steps: Some(Vec::new()) }
    }

    /// Whether steps are recorded.
    pub(crate) fn is_on(&self) -> bool {
        self.steps.is_some()
    }

    /// Records a step. The closure runs only when the trace is on.
    pub(crate) fn step(&mut self, action: impl fmt::Display, found: impl FnOnce() -> String) {
        if let Some(steps) = self.steps.as_mut().filter(|steps| steps.len() < Self::MAX_STEPS) {
            steps.push(TraceStep { action: action.to_string(), found: found() });
        }
    }

    /// The steps, in order.
    pub fn into_steps(self) -> Vec<TraceStep> {
        self.steps.unwrap_or_default()
    }
}

/// Describes whether a rule matches: with its captures, or with the reason why it does not.
fn match_text(matched: Result<&Captures, &String>) -> String {
    match matched {
        Err(reason) => format!("does not match: {reason}"),
        Ok(captures) if captures.is_empty() => "matches".to_owned(),
        Ok(captures) => {
            let captures: Vec<_> = captures.iter().map(|(name, text)| format!("{name} = {text:?}")).collect();
            format!("matches, with {}", captures.join(", "))
        }
    }
}

/// Summary of the blocks of a result.
pub(super) fn content_summary(content: &[Content]) -> String {
    let summaries = content.iter().map(|content| match &content.block {
        ContentBlock::Text(BlockText::StructuredContent) => "text: the structured content as JSON".to_owned(),
        block @ ContentBlock::Text(_) => {
            format!("text {:?}", cut_bytes(&block.text(None).unwrap_or_default(), MAX_TRACED))
        }
        ContentBlock::Image { mime_type, .. } => format!("image of {mime_type}"),
        ContentBlock::Audio { mime_type, .. } => format!("audio of {mime_type}"),
        ContentBlock::ResourceLink { uri, .. } => format!("resource_link to {uri}"),
        ContentBlock::Resource { resource } => format!("resource {}", resource.uri),
        ContentBlock::Foreign(foreign) => cut_bytes(foreign.json.as_str(), MAX_TRACED),
    });
    summaries.collect::<Vec<_>>().join("\n")
}
